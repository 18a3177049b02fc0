package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/strategy"
)

var (
	pin   = strings.Repeat("0a", 32)
	image = "registry.example/team/carbon@sha256:" + strings.Repeat("1b", 32)
	noon  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// document is one in memory.
type document struct {
	mu   sync.Mutex
	text []byte
}

func (d *document) Read(context.Context) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text, nil
}

func (d *document) Change(_ context.Context, f func([]byte) ([]byte, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, err := f(d.text)
	if err == nil {
		d.text = text
	}
	return err
}

// reviewer knows tokens by the name of their user, and rights as "user verb path-prefix".
type reviewer []string

func (reviewer) Who(_ context.Context, token string) (admin.User, error) {
	switch name, ok := strings.CutPrefix(token, "token-of-"); {
	case ok:
		return admin.User{Name: name}, nil
	case token == "away":
		return admin.User{}, errors.New("no route to the API server")
	}
	return admin.User{}, admin.ErrNobody
}

func (r reviewer) May(_ context.Context, u admin.User, verb, path string) (bool, string, error) {
	for _, right := range r {
		if strings.HasPrefix(u.Name+" "+verb+" "+path, right) {
			return true, "", nil
		}
	}
	return false, "", nil
}

type stage struct {
	*httptest.Server
	doc   *document
	cfg   *config.Config
	leads bool
	backs []string // asked of the host
	last  bool     // there is a last good version
	logs  *admin.Logs
	seen  *observer.ObservedLogs
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{doc: &document{}, cfg: config.Default(), leads: true, logs: admin.NewLogs()}
	s.cfg.Strategies["carbon"] = config.Strategy{Kind: config.InstanceSelection, Path: "/strategies/carbon", SHA256: pin, Isolation: config.IsolationProcess,
		AllowUnsandboxed: true, StartTimeout: config.Duration(time.Second), CallTimeout: config.Duration(time.Second), MemoryLimit: 32 << 20}
	core, seen := observer.New(zapcore.DebugLevel)
	s.seen = seen
	s.Server = httptest.NewServer(admin.Handler(admin.Options{
		Scaler: "weir-0", Logs: s.logs, Desired: s.doc, Log: zap.New(core), Now: func() time.Time { return noon },
		Reviewer: reviewer{"ann get /weir/strategies", "ann update /weir/strategies/", "bob get /weir/strategies"},
		Leads:    func() (bool, string) { return s.leads, "lease a/b is held by weir-1" },
		Back: func(_ context.Context, name, why string) (strategy.RollBack, error) {
			s.backs = append(s.backs, name+": "+why)
			if !s.last {
				return strategy.RollBack{}, strategy.ErrNoLastGood
			}
			return strategy.RollBack{From: "carbon 1.3", To: "carbon 1.2"}, nil
		},
		Retry: func(name string) error {
			s.backs = append(s.backs, "again "+name)
			return strategy.ErrNotRolledBack
		},
		Check: func(c *config.Config) error {
			if c.Strategies["carbon"].Path == "/forbidden" {
				return errors.New("strategies.carbon: /forbidden is not allowed")
			}
			return nil
		},
		State: func() admin.State {
			d, err := admin.ReadDesired(s.text(t))
			if err != nil {
				t.Error(err)
			}
			inForce, _, err := d.Over(s.cfg, "swaps")
			if err != nil {
				t.Error(err)
			}
			return admin.State{Config: s.cfg, InForce: inForce, Swaps: d, Strategies: []strategy.Status{
				{Name: "carbon", Path: "/strategies/carbon", Version: "1.2.0", SHA256: pin, State: strategy.Ready, Role: strategy.Serving, PID: 7, Starts: 1,
					Counts: strategy.Counts{Calls: 5, Outcomes: map[strategy.Outcome]int64{strategy.OK: 4, strategy.Late: 1}, Rung: strategy.ByStrategy,
						Last: map[strategy.Task]strategy.Answered{{Kind: "instance-selection", Level: "plan"}: {Rung: strategy.ByPrices, Outcome: strategy.Late, Err: "late"},
							{Kind: "instance-selection", Level: "price"}: {Rung: strategy.ByStrategy, Outcome: strategy.OK}},
						Rungs: map[strategy.Rung]int64{strategy.ByStrategy: 4, strategy.ByBuiltin: 1}, P50: 2 * time.Millisecond, P99: 2 * time.Second, LastCallError: "late", LastCallErrorAt: noon}},
				{Name: "savings", State: strategy.InProcess},
			}}
		},
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stage) text(t *testing.T) []byte {
	t.Helper()
	text, err := s.doc.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (s *stage) as(token string) *admin.Client {
	return &admin.Client{URL: s.URL, HTTP: &http.Client{Transport: bearer(token)}}
}

func refused(err error) int {
	var st *admin.StatusError
	if !errors.As(err, &st) {
		return 0
	}
	return st.Code
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		name, token string
		leads       bool
		list, swap  int // status, 0 = answered
		says        string
	}{
		{"no token", "", true, 401, 401, "a bearer token is missing"},
		{"nobody's token", "stolen", true, 401, 401, "nobody's"},
		{"API server away", "away", true, 500, 500, "no route"},
		{"no right", "token-of-eve", true, 403, 403, `user "eve" may not get /weir/strategies`},
		{"may look", "token-of-bob", true, 0, 403, ""},
		{"may swap", "token-of-ann", true, 0, 0, ""},
		{"follower", "token-of-ann", false, 503, 503, "weir-0, does not lead: lease a/b is held by weir-1"},
		{"follower tells nobody else who leads", "token-of-eve", false, 403, 403, "may not"},
	} {
		s.leads = tt.leads
		_, err := s.as(tt.token).List(t.Context())
		if got := refused(err); got != tt.list || (err != nil) != (tt.list != 0) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: list: %v, want status %d and %q", tt.name, err, tt.list, tt.says)
		}
		_, err = s.as(tt.token).Swap(t.Context(), "carbon", admin.SwapRequest{Image: image})
		if got := refused(err); got != tt.swap || (err != nil) != (tt.swap != 0) {
			t.Errorf("%s: swap: %v, want status %d", tt.name, err, tt.swap)
		}
	}
	for _, e := range s.seen.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, "token-of-") || strings.Contains(text, "stolen") {
			t.Errorf("a token was logged: %s", text)
		}
	}
}

func TestSwap(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ann := s.as("token-of-ann")
	for _, tt := range []struct {
		name, strategy string
		want           admin.SwapRequest
		status         int
		says           string
	}{
		{"unknown", "carbom", admin.SwapRequest{Image: image}, 404, `there is no strategy "carbom"`},
		{"nothing", "carbon", admin.SwapRequest{}, 400, "expected either"},
		{"both", "carbon", admin.SwapRequest{Reset: true, Image: image}, 400, "expected either"},
		{"tag", "carbon", admin.SwapRequest{Image: "registry.example/x:latest"}, 422, "swap: strategies.carbon.image: is"},
		{"no pin", "carbon", admin.SwapRequest{Path: "/x"}, 422, "strategies.carbon.sha256: is missing"},
		{"not allowed here", "carbon", admin.SwapRequest{Path: "/forbidden", SHA256: pin}, 422, "/forbidden is not allowed"},
	} {
		_, err := ann.Swap(t.Context(), tt.strategy, tt.want)
		if refused(err) != tt.status || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want status %d and %q", tt.name, err, tt.status, tt.says)
		}
	}
	if text := s.text(t); len(text) > 0 {
		t.Errorf("refused swaps are desired:\n%s", text)
	}
	got, err := ann.Swap(t.Context(), "carbon", admin.SwapRequest{Image: image})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&admin.SwapAnswer{Kind: "StrategySwap", Name: "carbon", From: "/strategies/carbon@sha256:" + pin, To: image, Swapped: true, At: noon}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one, err := ann.Get(t.Context(), "carbon")
	if err != nil {
		t.Fatal(err)
	}
	want := &admin.Swap{Image: image, Instead: "/strategies/carbon@sha256:" + pin, By: "ann", At: noon}
	if diff := cmp.Diff(want, one.Swapped); diff != "" || one.AsWanted {
		t.Errorf("as wanted already: %v, swapped (-want +got):\n%s", one.AsWanted, diff)
	}
	if got, err := ann.Swap(t.Context(), "carbon", admin.SwapRequest{Reset: true}); err != nil || got.From != image || got.To != want.Instead {
		t.Errorf("reset: %+v, %v", got, err)
	}
}

func TestWhenASwapIsOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := s.as("token-of-ann").Swap(t.Context(), "carbon", admin.SwapRequest{Image: image}); err != nil {
		t.Fatal(err)
	}
	d, err := admin.ReadDesired(s.text(t))
	if err != nil {
		t.Fatal(err)
	}
	over := func() (image string, names []string) {
		t.Helper()
		c, ended, err := d.Over(s.cfg, "swaps")
		if err != nil {
			t.Fatal(err)
		}
		return c.Strategies["carbon"].Image, ended.Swaps
	}
	// Other settings of the configuration still count, and another program is the newer word.
	entry := s.cfg.Strategies["carbon"]
	entry.CallTimeout = config.Duration(5 * time.Second)
	s.cfg.Strategies["carbon"] = entry
	if got, names := over(); got != image || names != nil {
		t.Errorf("after another setting: image %q, over %v", got, names)
	}
	entry.SHA256 = strings.Repeat("2c", 32)
	s.cfg.Strategies["carbon"] = entry
	if got, names := over(); got != "" || !cmp.Equal(names, []string{"carbon"}) {
		t.Errorf("after another program: image %q, over %v", got, names)
	}
	entry.SHA256 = pin
	s.cfg.Strategies["carbon"] = entry
	if err := admin.TakeBack(t.Context(), s.doc, "carbon", d.Strategies["carbon"], "dearer"); err != nil {
		t.Fatal(err)
	}
	if d, err = admin.ReadDesired(s.text(t)); err != nil {
		t.Fatal(err)
	}
	if got, _ := over(); got != "" || d.Strategies["carbon"].RolledBack != "dearer" {
		t.Errorf("after a roll-back: image %q, %+v", got, d)
	}
	if err := admin.Drop(t.Context(), s.doc, admin.Ended{Swaps: []string{"carbon"}}); err != nil {
		t.Fatal(err)
	}
	if text := s.text(t); strings.Contains(string(text), "carbon") {
		t.Errorf("dropped and still there:\n%s", text)
	}
	if _, err := admin.ReadDesired([]byte("strategeis: {}")); err == nil {
		t.Error("an unknown field is read over")
	}
}

func TestListAndStatus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l, err := s.as("token-of-bob").List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	carbon, savings := l.Strategies[0], l.Strategies[1]
	if carbon.Healthy || !carbon.AsWanted || !savings.Healthy || !savings.BuiltIn || !savings.Bound || carbon.Bound {
		t.Errorf("carbon %+v, savings %+v", carbon, savings)
	}
	at := noon
	want := admin.Calls{Total: 5, Fallbacks: 1, Outcomes: map[string]int64{"ok": 4, "late": 1}, AnsweredBy: map[string]int64{"strategy": 4, "built-in": 1}, LastBy: "strategy", FellBack: []string{"instance-selection plan: late"},
		P50Seconds: 0.002, P99Seconds: 2, LastError: "late", LastErrorAt: &at}
	if diff := cmp.Diff(want, carbon.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	_, before, err := admin.Status(*l)
	if err != nil {
		t.Fatal(err)
	}
	l.At, l.Strategies[0].Calls.Total = noon.Add(time.Hour), 99
	if _, after, err := admin.Status(*l); err != nil || after != before {
		t.Errorf("counters alone are a reason to write: %v\n%s\n%s", err, before, after)
	}
	l.Strategies[0].State = "backing-off"
	if _, after, err := admin.Status(*l); err != nil || after == before {
		t.Errorf("another state is none: %v", err)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var out bytes.Buffer
	main := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg"}), zapcore.AddSync(&out), zapcore.InfoLevel)
	log := zap.New(zapcore.NewTee(main, s.logs.Core())).With(zap.String("version", "1"))
	host := log.Named("strategy")
	host.With(zap.String("strategy", "carbon")).Debug("thinking", zap.Duration("for", time.Second))
	host.Info("is in service", zap.String("strategy", "carbon"), zap.Int("pid", 7))
	host.Info("about nobody")
	log.Info("of another part", zap.String("strategy", "carbon"))
	host.Info("other", zap.String("strategy", "savings"))
	bob := s.as("token-of-bob")
	got, err := bob.Logs(t.Context(), "carbon", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, l := range got.Lines {
		texts = append(texts, fmt.Sprintf("%d %s %s %v", l.Seq, l.Level, l.Message, l.Fields))
	}
	if diff := cmp.Diff([]string{"0 debug thinking map[for:1s]", "1 info is in service map[pid:7]"}, texts); diff != "" || got.Next != 2 {
		t.Errorf("next %d (-want +got):\n%s", got.Next, diff)
	}
	for i := range 1500 {
		host.Info(fmt.Sprint("line ", i), zap.String("strategy", "carbon"))
	}
	if got, err = bob.Logs(t.Context(), "carbon", 2, 5000); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Lines); n != 1000 || got.Lines[0].Message != "line 500" || got.Lines[999].Message != "line 1499" || got.Next != 1502 {
		t.Errorf("%d lines, next %d", n, got.Next)
	}
	if got, err = bob.Logs(t.Context(), "carbon", 1501, 5000); err != nil || len(got.Lines) != 1 {
		t.Errorf("only what is new: %+v, %v", got, err)
	}
	if _, err := bob.Logs(t.Context(), "nobody", 0, 1); refused(err) != 404 || !strings.Contains(err.Error(), "there are carbon, savings") {
		t.Errorf("unknown: %v", err)
	}
	if out.Len() == 0 || strings.Contains(out.String(), "thinking") {
		t.Errorf("the log itself: %s", out.String())
	}
}

func TestBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	back := admin.SwapRequest{Back: true}
	if _, err := s.as("token-of-bob").Swap(t.Context(), "carbon", back); refused(err) != 403 || s.backs != nil {
		t.Errorf("who may only look: %v, asked %v", err, s.backs)
	}
	ann := s.as("token-of-ann")
	if _, err := ann.Swap(t.Context(), "carbom", back); refused(err) != 404 {
		t.Errorf("unknown: %v", err)
	}
	if _, err := ann.Swap(t.Context(), "carbon", admin.SwapRequest{Back: true, Retry: true}); refused(err) != 400 {
		t.Errorf("two ways at once: %v", err)
	}
	if _, err := ann.Swap(t.Context(), "carbon", back); refused(err) != 409 || !strings.Contains(err.Error(), "no last good version") {
		t.Errorf("nothing to go back to: %v", err)
	}
	s.last = true
	got, err := ann.Swap(t.Context(), "carbon", back)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&admin.SwapAnswer{Kind: "StrategySwap", Name: "carbon", From: "carbon 1.3", To: "carbon 1.2", At: noon}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.backs[len(s.backs)-1] != "carbon: asked for by ann" {
		t.Errorf("asked %v", s.backs)
	}
	if n := s.seen.FilterMessage("a strategy is to go back to the version before").FilterField(zap.String("user", "ann")).Len(); n != 2 {
		t.Errorf("%d lines say who asked, want 2", n)
	}
}

// What was taken back, of a swap and of the configuration, is not in force until somebody
// asks for it again.
func TestRetry(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ann := s.as("token-of-ann")
	retry := admin.SwapRequest{Retry: true}
	if _, err := ann.Swap(t.Context(), "carbon", retry); refused(err) != 409 || !strings.Contains(err.Error(), "nothing of it was rolled back") {
		t.Errorf("nothing was taken back: %v", err)
	}
	file := admin.Program("", "/strategies/carbon", pin)
	wanted := func() string {
		t.Helper()
		d, err := admin.ReadDesired(s.text(t))
		if err != nil {
			t.Fatal(err)
		}
		c, over, err := d.Over(s.cfg, "swaps")
		if err != nil || !over.None() {
			t.Fatal(err, over)
		}
		x := c.Strategies["carbon"]
		return admin.Program(x.Image, x.Path, x.SHA256)
	}
	before := s.cfg.Strategies["carbon"]
	before.Path, before.Config = "/before", map[string]any{"floor": 3}
	now, err := admin.Fingerprint(s.cfg, "carbon")
	if err != nil {
		t.Fatal(err)
	}
	kept := admin.RolledBack{Name: "carbon", Serves: "carbon", Settings: before, Instead: now, From: "carbon 1.3", To: "carbon 1.2", Why: "dearer", At: noon}
	if err := admin.Keep(t.Context(), s.doc, kept); err != nil {
		t.Fatal(err)
	}
	if got := wanted(); got != admin.Program("", "/before", pin) {
		t.Errorf("rolled back, and in force is %s", got)
	}
	if one, err := ann.Get(t.Context(), "carbon"); err != nil || one.RollBack == nil || one.RollBack.Why != "dearer" {
		t.Errorf("told: %+v, %v", one.RollBack, err)
	}
	if got, err := ann.Swap(t.Context(), "carbon", retry); err != nil || got.To != file || got.Swapped || wanted() != file {
		t.Errorf("once more: %+v, %v, in force %s", got, err, wanted())
	}
	if _, err := ann.Swap(t.Context(), "carbon", admin.SwapRequest{Image: image}); err != nil {
		t.Fatal(err)
	}
	d, err := admin.ReadDesired(s.text(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.TakeBack(t.Context(), s.doc, "carbon", d.Strategies["carbon"], "late"); err != nil {
		t.Fatal(err)
	}
	if got := wanted(); got != file {
		t.Errorf("taken back, and in force is %s", got)
	}
	if got, err := ann.Swap(t.Context(), "carbon", retry); err != nil || got.To != image || !got.Swapped || wanted() != image {
		t.Errorf("once more: %+v, %v, in force %s", got, err, wanted())
	}
	if got := s.backs; len(got) != 2 || got[1] != "again carbon" {
		t.Errorf("asked of the host: %v", got)
	}
	entry := s.cfg.Strategies["carbon"]
	entry.Config = map[string]any{"floor": 4}
	s.cfg.Strategies["carbon"] = entry
	if err := admin.Keep(t.Context(), s.doc, kept); err != nil {
		t.Fatal(err)
	}
	if d, err = admin.ReadDesired(s.text(t)); err != nil {
		t.Fatal(err)
	}
	if _, over, err := d.Over(s.cfg, "swaps"); err != nil || len(over.RolledBack) != 1 || len(over.Swaps) != 0 {
		t.Errorf("the configuration says something else, over is %+v, %v", over, err)
	}
}
