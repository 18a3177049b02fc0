package sdkconf_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
)

// early answers before it has read the request, as net/http does with a server that is
// quick: the request is read only when the answer is.
type early struct{ got *string }

func (e early) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, ContentLength: 2,
		Body: &late{request: r.Body, got: e.got, Reader: strings.NewReader("{}")},
	}, nil
}

type late struct {
	io.Reader
	request io.Reader
	got     *string
}

func (l *late) Read(p []byte) (int, error) {
	if l.request != nil {
		b, err := io.ReadAll(l.request)
		if err != nil {
			return 0, err
		}
		*l.got, l.request = string(b), nil
	}
	return l.Reader.Read(p)
}

func (l *late) Close() error { return nil }

// TestEarlyAnswersFindTheWholeBody shows the fault with the plain client, and that it
// is gone with the wrapped one.
func TestEarlyAnswersFindTheWholeBody(t *testing.T) {
	t.Parallel()
	sent := func(rt func(http.RoundTripper) http.RoundTripper) string {
		var got string
		client := dynamodb.New(dynamodb.Options{
			Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
			HTTPClient: &http.Client{Transport: rt(early{&got})}, DisableValidateResponseChecksum: true,
		})
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String("t"), Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: strings.Repeat("x", 100_000)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if plain := sent(func(rt http.RoundTripper) http.RoundTripper { return rt }); len(plain) > 100_000 {
		t.Error("the SDK no longer closes the body with the first header: WholeBody may go")
	}
	if whole := sent(sdkconf.WholeBody); len(whole) < 100_000 || !strings.Contains(whole, `"TableName":"t"`) {
		t.Errorf("%d bytes of the request were there to be sent, expected all", len(whole))
	}
}

func TestBodiesArriveUnchanged(t *testing.T) {
	t.Parallel()
	var got, length string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, length = string(b), r.Header.Get("Content-Length")
	}))
	defer server.Close()
	client := &http.Client{Transport: sdkconf.WholeBody(http.DefaultTransport)}
	for _, body := range []string{"", "a", strings.Repeat("long ", 50_000)} {
		resp, err := client.Post(server.URL, "text/plain", io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if got != body || length == "-1" {
			t.Errorf("%d of %d bytes arrived", len(got), len(body))
		}
	}
	if resp, err := client.Get(server.URL); err != nil || resp.Body.Close() != nil {
		t.Errorf("a request without a body: %v", err)
	}
}

// TestLoad is not parallel: it sets the environment.
func TestLoad(t *testing.T) {
	if _, err := sdkconf.Load(t.Context(), sdkconf.Options{}); err == nil || !strings.Contains(err.Error(), "no region") {
		t.Errorf("without a region: %v", err)
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	hits := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		if r.URL.Query().Has("moved") {
			t.Error("a redirection was followed")
		}
		http.Redirect(w, r, "/?moved", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", server.URL)
	cfg, err := sdkconf.Load(t.Context(), sdkconf.Options{Region: "eu-south-2", AttemptTimeout: time.Second, Program: "weir"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Region != "eu-south-2" {
		t.Errorf("region %q", cfg.Region)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := dynamodb.NewFromConfig(cfg).ListTables(ctx, nil); err == nil || hits == 0 {
		t.Errorf("error %v after %d calls: the endpoint of the SDK's settings was not used", err, hits)
	}
}
