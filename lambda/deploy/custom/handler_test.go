package custom_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/lambda/deploy/custom"
)

// deployer records what it is asked, and answers as a test wants.
type deployer struct {
	calls   []string
	install func(ctx context.Context) error
	remove  error
}

func (d *deployer) Install(ctx context.Context, p custom.Properties) (custom.Outcome, error) {
	d.calls = append(d.calls, "install "+p.Namespace)
	if d.install != nil {
		return custom.Outcome{}, d.install(ctx)
	}
	return custom.Outcome{Release: "weir", Namespace: p.Namespace, Revision: 3, DefinitionsLeftAlone: []string{"a", "b"}}, nil
}

func (d *deployer) Remove(_ context.Context, p custom.Properties) (string, error) {
	d.calls = append(d.calls, "remove "+p.Namespace)
	return "", d.remove
}

func given(changes map[string]any) map[string]any {
	ca := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"))
	p := map[string]any{"ServiceToken": "arn", "clusterName": "demo", "endpoint": "https://api.example", "certificateAuthority": ca, "image": "registry.example/weir:v1"}
	maps.Copy(p, changes)
	for k, v := range p {
		if v == nil {
			delete(p, k)
		}
	}
	return p
}

// answered has the handler answer the event, with a sink that refuses the first answers.
func answered(t *testing.T, ctx context.Context, d custom.Deployer, event cfn.Event, refusals int) cfn.Response {
	t.Helper()
	var got []cfn.Response
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 4096 {
			t.Errorf("answer of %d bytes: %v", len(body), err)
		}
		if refusals--; refusals >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var a cfn.Response
		if err := json.Unmarshal(body, &a); err != nil {
			t.Errorf("answer %s: %v", body, err)
		}
		got = append(got, a)
	}))
	defer sink.Close()
	event.ResponseURL, event.LogicalResourceID, event.RequestID = sink.URL, "Release", "r1"
	h := &custom.Handler{Deployer: d, Log: slog.New(slog.DiscardHandler), Client: &http.Client{}}
	if err := h.Handle(ctx, event); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 {
		t.Fatalf("%d answers, expected 1", len(got))
	}
	return got[0]
}

func TestEvents(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		event  cfn.Event
		d      deployer
		calls  []string
		id     string
		reason string // of a failure, "" = success
	}{
		"create":            {event: cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(nil)}, calls: []string{"install weir-system"}, id: "weir@demo"},
		"create fails":      {event: cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(nil)}, d: deployer{install: func(context.Context) error { return boom }}, calls: []string{"install weir-system"}, id: "weir@demo", reason: "boom"},
		"create refused":    {event: cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(map[string]any{"endpoint": nil})}, id: "refused:Release", reason: "property endpoint is missing"},
		"delete of refused": {event: cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "refused:Release", ResourceProperties: given(nil)}, id: "refused:Release"},
		"create panics":     {event: cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(nil)}, d: deployer{install: func(context.Context) error { panic("oh") }}, calls: []string{"install weir-system"}, id: "weir@demo", reason: "oh"},
		"update":            {event: cfn.Event{RequestType: cfn.RequestUpdate, PhysicalResourceID: "weir@demo", ResourceProperties: given(nil), OldResourceProperties: given(nil)}, calls: []string{"install weir-system"}, id: "weir@demo"},
		"update refused":    {event: cfn.Event{RequestType: cfn.RequestUpdate, PhysicalResourceID: "weir@demo", ResourceProperties: given(map[string]any{"wait": "maybe"}), OldResourceProperties: given(nil)}, id: "weir@demo", reason: `property wait is "maybe"`},
		"another namespace": {event: cfn.Event{RequestType: cfn.RequestUpdate, PhysicalResourceID: "weir@demo", ResourceProperties: given(map[string]any{"namespace": "b"}), OldResourceProperties: given(nil)}, calls: []string{"remove weir-system", "install b"}, id: "weir@demo"},
		"another cluster":   {event: cfn.Event{RequestType: cfn.RequestUpdate, PhysicalResourceID: "weir@old", ResourceProperties: given(nil), OldResourceProperties: given(map[string]any{"clusterName": "old"})}, calls: []string{"install weir-system"}, id: "weir@demo"},
		"another, fails":    {event: cfn.Event{RequestType: cfn.RequestUpdate, PhysicalResourceID: "weir@old", ResourceProperties: given(nil), OldResourceProperties: given(map[string]any{"clusterName": "old"})}, d: deployer{install: func(context.Context) error { return boom }}, calls: []string{"install weir-system"}, id: "weir@old", reason: "boom"},
		"delete":            {event: cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "weir@demo", ResourceProperties: given(nil)}, calls: []string{"remove weir-system"}, id: "weir@demo"},
		"delete fails":      {event: cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "weir@demo", ResourceProperties: given(nil)}, d: deployer{remove: boom}, calls: []string{"remove weir-system"}, id: "weir@demo", reason: "boom"},
		// Made by a release that knew other properties: where it is, is all that counts.
		"delete of another release's": {event: cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "weir@demo", ResourceProperties: given(map[string]any{"colour": "blue", "image": nil})}, calls: []string{"remove weir-system"}, id: "weir@demo"},
		// CloudFormation gives an id of its own to a create that never answered.
		"delete, answer lost": {event: cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "Weir-Release-1", ResourceProperties: given(nil)}, calls: []string{"remove weir-system"}, id: "Weir-Release-1"},
		"delete, no target":   {event: cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "Weir-Release-1", ResourceProperties: given(map[string]any{"endpoint": "x"})}, id: "Weir-Release-1"},
		"unknown request":     {event: cfn.Event{RequestType: "Look", ResourceProperties: given(nil)}, id: "weir@demo", reason: "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answered(t, t.Context(), &tc.d, tc.event, 0)
			if diff := cmp.Diff(tc.calls, tc.d.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			failed := a.Status == cfn.StatusFailed
			if a.PhysicalResourceID != tc.id || failed != (tc.reason != "") || !strings.Contains(a.Reason, tc.reason) {
				t.Errorf("%s, id %q, reason %q; expected id %q, reason %q", a.Status, a.PhysicalResourceID, a.Reason, tc.id, tc.reason)
			}
		})
	}
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	a := answered(t, t.Context(), &deployer{}, cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(nil)}, 0)
	want := map[string]any{"Release": "weir", "Namespace": "weir-system", "Revision": "3", "ChartVersion": "", "Image": "", "DefinitionsLeftAlone": "a,b"}
	if diff := cmp.Diff(want, a.Data); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

// TestAnswerIsRepeated: an answer that is not taken is sent again.
func TestAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	a := answered(t, t.Context(), &deployer{}, cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(nil)}, 2)
	if a.Status != cfn.StatusSuccess {
		t.Errorf("answer %+v", a)
	}
}

// TestLongReasonIsCut: CloudFormation takes 4096 bytes.
func TestLongReasonIsCut(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"plain": strings.Repeat("why ", 3000), "escaped": strings.Repeat("<\x00", 5000), "wide": strings.Repeat("ü世", 4000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &deployer{install: func(context.Context) error { return errors.New(text) }}
			a := answered(t, t.Context(), d, cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(nil)}, 0)
			if a.Status != cfn.StatusFailed || len(a.Reason) < 400 || !strings.HasSuffix(a.Reason, "…") || !strings.HasPrefix(text, strings.TrimSuffix(a.Reason, "…")) {
				t.Errorf("%s, reason of %d bytes", a.Status, len(a.Reason))
			}
		})
	}
}

// TestTimeIsOver: the answer is sent while the function still runs, and what goes on has no context to work with.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	release := make(chan struct{})
	d := &deployer{install: func(ctx context.Context) error {
		<-release
		ended <- ctx.Err()
		return nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	a := answered(t, ctx, d, cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: given(nil)}, 0)
	if a.Status != cfn.StatusFailed || a.PhysicalResourceID != "weir@demo" || !strings.Contains(a.Reason, "time is over") || ctx.Err() != nil {
		t.Errorf("answer %+v, function's time: %v", a, ctx.Err())
	}
	close(release)
	if err := <-ended; err == nil {
		t.Error("the run that was given up could go on")
	}
}

// TestURLIsNotTold: it is a credential.
func TestURLIsNotTold(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	h := &custom.Handler{Deployer: &deployer{}, Log: slog.New(slog.NewTextHandler(&log, nil)), Client: &http.Client{}}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := h.Handle(ctx, cfn.Event{RequestType: cfn.RequestCreate, ResponseURL: "http://127.0.0.1:1/?Signature=secret", ResourceProperties: given(nil)})
	if err == nil || strings.Contains(err.Error()+log.String(), "secret") {
		t.Errorf("error %v, log %s", err, log.String())
	}
	if err := h.Handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate}); err == nil {
		t.Error("an event without ResponseURL is no error")
	}
}
