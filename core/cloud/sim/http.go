package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
)

// The wire: POST /v1/<operation> with a JSON body for the provider's calls, and
// /control/... for the world's. An error is {"op", "kind", "code", "message"}.

type wireError struct {
	Op      string          `json:"op"`
	Kind    cloud.ErrorKind `json:"kind"`
	Code    string          `json:"code"`
	Message string          `json:"message"`
}

type wireLaunch struct {
	Token   string `json:"token"`
	Request []byte `json:"request"`
}

type wireTag struct {
	ID   string            `json:"id"`
	Tags map[string]string `json:"tags"`
}

type wireIDs struct {
	IDs []string `json:"ids"`
}

// wireFault is the body of /control/fault.
type wireFault struct {
	Op    string          `json:"op"`
	Count int             `json:"count"`
	Lose  bool            `json:"lose,omitempty"` // do it, lose the answer
	Kind  cloud.ErrorKind `json:"kind,omitempty"`
	Code  string          `json:"code,omitempty"`
	Rate  float64         `json:"perSecond,omitempty"` // with Burst: throttle
	Burst int             `json:"burst,omitempty"`
}

const maxBody = 4 << 20

// statusOf gives each kind of error the HTTP status that the service would use.
func statusOf(k cloud.ErrorKind) int {
	switch k {
	case cloud.Throttled:
		return http.StatusServiceUnavailable
	case cloud.Auth:
		return http.StatusForbidden
	case cloud.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// Front configures Handler.
type Front struct {
	Latency time.Duration // added to every call of the provider
}

// Handler serves an EC2 over HTTP.
func Handler(e *EC2, f Front) http.Handler {
	mux := http.NewServeMux()
	call := func(op string, do func(ctx context.Context, body []byte) (any, error)) {
		mux.HandleFunc("POST /v1/"+op, func(w http.ResponseWriter, r *http.Request) {
			if f.Latency > 0 {
				t := time.NewTimer(f.Latency)
				defer t.Stop()
				select {
				case <-t.C:
				case <-r.Context().Done():
					return
				}
			}
			serve(w, r, op, do)
		})
	}
	call(OpRender, func(ctx context.Context, b []byte) (any, error) {
		return decoded(b, func(l cloud.Launch) (any, error) { return e.Render(ctx, l) })
	})
	call(OpLaunch, func(ctx context.Context, b []byte) (any, error) {
		return decoded(b, func(l wireLaunch) (any, error) { return e.Launch(ctx, l.Token, l.Request) })
	})
	call(OpTerminate, func(ctx context.Context, b []byte) (any, error) {
		return decoded(b, func(l wireIDs) (any, error) { return nil, e.Terminate(ctx, l.IDs) })
	})
	call(OpTag, func(ctx context.Context, b []byte) (any, error) {
		return decoded(b, func(l wireTag) (any, error) { return nil, e.Tag(ctx, l.ID, l.Tags) })
	})
	call(OpDescribe, func(ctx context.Context, b []byte) (any, error) {
		return decoded(b, func(l wireIDs) (any, error) { return e.Describe(ctx, l.IDs) })
	})
	call(OpList, func(ctx context.Context, b []byte) (any, error) { return e.List(ctx) })
	call(OpOfferings, func(ctx context.Context, b []byte) (any, error) {
		return decoded(b, func(c model.NodeClass) (any, error) {
			list, err := e.Offerings(ctx, &c)
			return packOfferings(list), err
		})
	})
	control(mux, e)
	return mux
}

func decoded[T any](b []byte, do func(T) (any, error)) (any, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, &cloud.Error{Op: "decode", Kind: cloud.Template, Code: "MalformedRequest", Message: err.Error()}
	}
	return do(v)
}

func serve(w http.ResponseWriter, r *http.Request, op string, do func(context.Context, []byte) (any, error)) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, &cloud.Error{Op: op, Kind: cloud.Template, Code: "MalformedRequest", Message: err.Error()})
		return
	}
	// what was asked is done even when the caller dies meanwhile, as in the real service
	answer, err := do(context.WithoutCancel(r.Context()), body)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func writeError(w http.ResponseWriter, err error) {
	e := &cloud.Error{Kind: cloud.Template, Code: "InvalidParameterValue", Message: err.Error()}
	errors.As(err, &e)
	writeJSON(w, statusOf(e.Kind), wireError{e.Op, e.Kind, e.Code, e.Message})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"kind":"internal","code":"EncodeError"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the caller is gone if this fails: nothing to tell anybody
}

func control(mux *http.ServeMux, e *EC2) {
	byID := func(name string, do func(string) error) {
		mux.HandleFunc("POST /control/instances/{id}/"+name, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.PathValue("id")); err != nil {
				writeError(w, err)
				return
			}
			writeJSON(w, http.StatusOK, nil)
		})
	}
	byID("reclaim", e.Reclaim)
	byID("rebalance", e.Rebalance)
	byID("fail", e.Fail)
	mux.HandleFunc("GET /control/instances", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, e.Machines()) })
	mux.HandleFunc("GET /control/bill", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, e.Bill()) })
	mux.HandleFunc("GET /control/calls", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, e.Calls()) })
	mux.HandleFunc("POST /control/capacity", func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, "capacity", func(_ context.Context, b []byte) (any, error) {
			return decoded(b, func(c struct {
				Offering string `json:"offering"`
				Left     int    `json:"left"`
			}) (any, error) {
				return nil, e.SetCapacity(c.Offering, c.Left)
			})
		})
	})
	mux.HandleFunc("POST /control/fault", func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, "fault", func(_ context.Context, b []byte) (any, error) {
			return decoded(b, func(f wireFault) (any, error) { return nil, e.fault(f) })
		})
	})
	mux.HandleFunc("GET /control/events", func(w http.ResponseWriter, r *http.Request) { serveEvents(w, r, e) })
}

func (e *EC2) fault(f wireFault) error {
	switch {
	case f.Op == "":
		return fmt.Errorf("fault: op must be set, such as %s", OpLaunch)
	case f.Burst != 0 || f.Rate != 0:
		e.Throttle(f.Op, f.Rate, f.Burst)
	case f.Count <= 0:
		return fmt.Errorf("fault: count must be at least 1")
	case f.Lose:
		e.LoseNext(f.Op, f.Count)
	case f.Kind == "":
		return fmt.Errorf("fault: kind must be set where lose is not")
	default:
		e.FailNext(f.Op, f.Count, f.Kind, f.Code, "made to fail")
	}
	return nil
}

// serveEvents answers the events after a number, waiting for the first one up to ?wait.
func serveEvents(w http.ResponseWriter, r *http.Request, e *EC2) {
	after, err := strconv.ParseInt(cmpOr(r.URL.Query().Get("after"), "0"), 10, 64)
	if err != nil {
		writeError(w, fmt.Errorf("after: expected a whole number: %w", err))
		return
	}
	wait, err := time.ParseDuration(cmpOr(r.URL.Query().Get("wait"), "0s"))
	if err != nil {
		writeError(w, fmt.Errorf("wait: expected a duration: %w", err))
		return
	}
	events := e.Events(after)
	if len(events) == 0 && wait > 0 {
		t := time.NewTimer(min(wait, time.Minute))
		defer t.Stop()
		select {
		case <-e.changed(after):
		case <-t.C:
		case <-r.Context().Done():
			return
		}
		events = e.Events(after)
	}
	if events == nil {
		events = []Event{}
	}
	writeJSON(w, http.StatusOK, events)
}

func cmpOr(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// Client is an EC2 on the other side of Handler.
type Client struct {
	url  string
	http *http.Client
}

var _ cloud.Provider = (*Client)(nil)

// Dial names the front at a base URL such as http://127.0.0.1:8700; nothing is sent yet.
func Dial(url string) *Client {
	return &Client{url: strings.TrimRight(url, "/"), http: &http.Client{}}
}

func (c *Client) do(ctx context.Context, method, path, op string, in, out any) error {
	fail := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &cloud.Error{Op: op, Kind: cloud.Internal, Code: "ConnectionError", Message: err.Error()}
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return fail(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(string(raw)))
	if err != nil {
		return fail(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		var e wireError
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&e); err != nil || e.Kind == "" {
			return fail(fmt.Errorf("HTTP status %s", resp.Status))
		}
		return &cloud.Error{Op: cmpOr(e.Op, op), Kind: e.Kind, Code: e.Code, Message: e.Message}
	}
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

func (c *Client) call(ctx context.Context, op string, in, out any) error {
	return c.do(ctx, http.MethodPost, "/v1/"+op, op, in, out)
}

// Render is Provider's, by the EC2 on the other side.
func (c *Client) Render(ctx context.Context, l cloud.Launch) (raw []byte, err error) {
	return raw, c.call(ctx, OpRender, l, &raw)
}

// Launch is Provider's.
func (c *Client) Launch(ctx context.Context, token string, request []byte) (a cloud.Answer, err error) {
	return a, c.call(ctx, OpLaunch, wireLaunch{token, request}, &a)
}

// Terminate is Provider's.
func (c *Client) Terminate(ctx context.Context, ids []string) error {
	return c.call(ctx, OpTerminate, wireIDs{ids}, nil)
}

// Tag is Provider's.
func (c *Client) Tag(ctx context.Context, id string, tags map[string]string) error {
	return c.call(ctx, OpTag, wireTag{id, tags}, nil)
}

// Describe is Provider's.
func (c *Client) Describe(ctx context.Context, ids []string) (out []cloud.Instance, err error) {
	return out, c.call(ctx, OpDescribe, wireIDs{ids}, &out)
}

// List is Provider's.
func (c *Client) List(ctx context.Context) (out []cloud.Instance, err error) {
	return out, c.call(ctx, OpList, nil, &out)
}

// wireOfferings writes each type once: thousands of offerings share a few hundred.
type wireOfferings struct {
	Types     []*model.InstanceType `json:"types"`
	Offerings []wireOffering        `json:"offerings"`
}

type wireOffering struct {
	Index int `json:"index"` // in Types
	model.Offering
}

func packOfferings(list []*model.Offering) wireOfferings {
	out := wireOfferings{Offerings: make([]wireOffering, len(list))}
	index := map[*model.InstanceType]int{}
	for i, o := range list {
		n, ok := index[o.Type]
		if !ok {
			n = len(out.Types)
			index[o.Type] = n
			out.Types = append(out.Types, o.Type)
		}
		c := *o
		c.Type = nil
		out.Offerings[i] = wireOffering{n, c}
	}
	return out
}

// Offerings is Provider's.
func (c *Client) Offerings(ctx context.Context, class *model.NodeClass) ([]*model.Offering, error) {
	var wire wireOfferings
	if err := c.call(ctx, OpOfferings, class, &wire); err != nil {
		return nil, err
	}
	out := make([]*model.Offering, len(wire.Offerings))
	for i := range wire.Offerings {
		o := &wire.Offerings[i]
		if o.Index < 0 || o.Index >= len(wire.Types) {
			return nil, &cloud.Error{Op: OpOfferings, Kind: cloud.Internal, Code: "BadAnswer", Message: fmt.Sprintf("offering %d names type %d of %d", i, o.Index, len(wire.Types))}
		}
		o.Type = wire.Types[o.Index]
		out[i] = &o.Offering
	}
	return out, nil
}

// Machines lists every instance ever bought.
func (c *Client) Machines(ctx context.Context) (out []Machine, err error) {
	return out, c.do(ctx, http.MethodGet, "/control/instances", "instances", nil, &out)
}

// Bill reads the bill.
func (c *Client) Bill(ctx context.Context) (out []BillLine, err error) {
	return out, c.do(ctx, http.MethodGet, "/control/bill", "bill", nil, &out)
}

// Calls reads how often each operation was called.
func (c *Client) Calls(ctx context.Context) (out map[string]int, err error) {
	return out, c.do(ctx, http.MethodGet, "/control/calls", "calls", nil, &out)
}

// Events reads the events after a number, waiting for the first one.
func (c *Client) Events(ctx context.Context, after int64, wait time.Duration) (out []Event, err error) {
	return out, c.do(ctx, http.MethodGet, fmt.Sprintf("/control/events?after=%d&wait=%s", after, wait), "events", nil, &out)
}

// Reclaim takes a spot instance back.
func (c *Client) Reclaim(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodPost, "/control/instances/"+id+"/reclaim", "reclaim", nil, nil)
}

// Rebalance recommends to leave a spot instance.
func (c *Client) Rebalance(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodPost, "/control/instances/"+id+"/rebalance", "rebalance", nil, nil)
}

// Fail ends an instance without warning.
func (c *Client) Fail(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodPost, "/control/instances/"+id+"/fail", "fail", nil, nil)
}

// SetCapacity sets how many more there are of an offering; negative = endless.
func (c *Client) SetCapacity(ctx context.Context, offering string, left int) error {
	return c.do(ctx, http.MethodPost, "/control/capacity", "capacity", map[string]any{"offering": offering, "left": left}, nil)
}

// FailNext makes the next n calls of an operation fail.
func (c *Client) FailNext(ctx context.Context, op string, n int, kind cloud.ErrorKind, code string) error {
	return c.do(ctx, http.MethodPost, "/control/fault", "fault", wireFault{Op: op, Count: n, Kind: kind, Code: code}, nil)
}

// LoseNext makes the next n calls of an operation lose their answer.
func (c *Client) LoseNext(ctx context.Context, op string, n int) error {
	return c.do(ctx, http.MethodPost, "/control/fault", "fault", wireFault{Op: op, Count: n, Lose: true}, nil)
}
