package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zaptest "go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/kube"
	"github.com/weir-project/weir/core/metric"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
)

// openTest opens strategies whose programs are not there: what is wanted is looked at, not
// what runs.
func openTest(t *testing.T, clients *fake.Clientset, change func(*config.Config)) *strategies {
	t.Helper()
	m, err := metric.New(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := testStrategies(t, change)
	s, err := openStrategies(t.Context(), c, &kube.Clients{Core: clients}, &observer{m: m, log: zap.NewNop()}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.host.Close)
	return s
}

func testStrategies(t *testing.T, change func(*config.Config)) *config.Config {
	t.Helper()
	c := config.Default()
	c.Admin.Enabled, c.LeaderElection.Namespace, c.StrategyBinary = true, "weir", "/none/weir-strategy"
	c.Strategies["carbon"] = config.Strategy{Kind: config.InstanceSelection, Path: "/none", SHA256: strings.Repeat("0a", 32), Isolation: config.IsolationProcess, AllowUnsandboxed: true,
		StartTimeout: config.Duration(time.Second), CallTimeout: config.Duration(time.Second), MemoryLimit: 32 << 20}
	change(c)
	return c
}

// wanted is the program of carbon that is in force.
func (s *strategies) wanted() string { return s.state().InForce.Strategies["carbon"].Path }

// What was swapped before a scaler starts is what it starts with; the configuration's
// newer word ends the swap, and the leader takes it out.
func TestSwapsAndTheConfiguration(t *testing.T) {
	t.Parallel()
	clients := fake.NewClientset()
	none := func(*config.Config) {}
	first := openTest(t, clients, none)
	if first.wanted() != "/none" {
		t.Fatalf("without swaps: %s", first.wanted())
	}
	swap := admin.Swap{Path: "/swapped", SHA256: strings.Repeat("1b", 32), Instead: admin.Program("", "/none", strings.Repeat("0a", 32)), By: "ann", At: time.Now().UTC().Truncate(time.Second)}
	text, err := admin.Desired{Strategies: map[string]admin.Swap{"carbon": swap}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.desired.Change(t.Context(), func([]byte) ([]byte, error) { return text, nil }); err != nil {
		t.Fatal(err)
	}
	first.reswap(text)
	if first.wanted() != "/swapped" {
		t.Errorf("after a swap: %s", first.wanted())
	}
	first.reswap([]byte("strategies: nonsense"))
	if first.wanted() != "/swapped" {
		t.Errorf("after nonsense: %s", first.wanted())
	}
	second := openTest(t, clients, none)
	if second.wanted() != "/swapped" {
		t.Errorf("a scaler that starts later wants %s", second.wanted())
	}
	// Another setting leaves it, another program ends it.
	if err := second.reconfigure(testStrategies(t, func(c *config.Config) {
		s := c.Strategies["carbon"]
		s.CallTimeout = config.Duration(3 * time.Second)
		c.Strategies["carbon"] = s
	})); err != nil || second.wanted() != "/swapped" || second.state().InForce.Strategies["carbon"].CallTimeout.D() != 3*time.Second {
		t.Errorf("after another setting: %s, %v", second.wanted(), err)
	}
	if err := second.reconfigure(testStrategies(t, func(c *config.Config) {
		s := c.Strategies["carbon"]
		s.Path = "/newer"
		c.Strategies["carbon"] = s
	})); err != nil || second.wanted() != "/newer" {
		t.Errorf("after another program: %s, %v", second.wanted(), err)
	}
	if err := second.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	cm, err := clients.CoreV1().ConfigMaps("weir").Get(t.Context(), "weir-strategies", metav1.GetOptions{})
	if err != nil || strings.Contains(cm.Data["strategies.yaml"], "carbon") {
		t.Errorf("the swap that is over: %v, %v", cm, err)
	}
}

// An API server that does not answer keeps no scaler from starting.
func TestStartsWithoutKnowingSwaps(t *testing.T) {
	t.Parallel()
	clients := fake.NewClientset()
	clients.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no route to the API server")
	})
	if s := openTest(t, clients, func(*config.Config) {}); s.wanted() != "/none" {
		t.Errorf("it wants %s", s.wanted())
	}
}

func TestHealthOfStrategies(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	st := admin.State{InForce: config.Default(), Strategies: []strategy.Status{
		{Name: "well", State: strategy.Ready, Role: strategy.Serving, Counts: strategy.Counts{Rung: strategy.ByStrategy}, Fence: strategy.Fence{Isolation: "process", Whole: true}},
		{Name: "new", State: strategy.Starting, Role: strategy.Serving},
		{Name: "gone", State: strategy.Broken, LastError: "exit status 2", Role: strategy.Serving},
		{Name: "late", Version: "1.2", State: strategy.Ready, Role: strategy.Serving, RolledBack: &strategy.RollBack{Name: "late", Serves: strategy.Spec{Name: "late"}, From: "late 1.3", To: "late 1.2", Why: "dearer", At: noon},
			Counts: strategy.Counts{Rung: strategy.ByStrategy, Last: map[strategy.Task]strategy.Answered{
				{Kind: "instance-selection", Level: "price"}: {Rung: strategy.ByLastGood, Outcome: strategy.Late, Err: "too\nlate"}, {Kind: "consolidation", Level: "score"}: {Rung: strategy.ByStrategy, Outcome: strategy.OK}}}},
		{Name: "again", State: strategy.Starting, LastError: "exit status 3", Role: strategy.Serving, Counts: strategy.Counts{Rung: strategy.ByBuiltin}},
		{Name: "late", State: strategy.Broken, Role: strategy.LastGood, LastError: "of another"},
		{Name: "open", State: strategy.Ready, Role: strategy.Serving, Fence: strategy.Fence{Isolation: "process", Missing: "no Landlock"}},
		{Name: "next", State: strategy.BackingOff, Role: strategy.Serving, Pending: true, LastError: "not yet"},
	}}
	st.Strategies = append(st.Strategies, strategy.Status{Name: "long", State: strategy.Broken, Role: strategy.Serving, LastError: strings.Repeat("\x1b", 80<<10)})
	all := health(st).Faults
	if long := all[len(all)-1].Error; len(long) > 2<<10 || strings.Contains(long, "\x1b") {
		t.Errorf("a condition of %d bytes: %.40q", len(long), long)
	}
	st.Strategies = st.Strategies[:len(st.Strategies)-1]
	st.InForce.Strategies["mix"] = chained(1)
	want := control.Strategies{InstanceSelection: "cost-optimal", Consolidation: "savings", Chains: map[string][]string{"mix": {"cost-optimal"}}, Unfenced: map[string]string{"open": "no Landlock"},
		Serving:   []string{"again", "capacity-mix", "cost-optimal", "first-fit", "gone", "late", "new", "open", "resilient", "savings", "well"},
		RollBacks: []control.StrategyRollBack{{Name: "late", Serves: "late", From: "late 1.3", To: "late 1.2", Why: "dearer", At: noon}},
		Faults: []control.StrategyFault{{Name: "gone", Outcome: "dead", Error: "broken: exit status 2"},
			{Name: "late", Version: "1.2", Kind: "instance-selection", Level: "price", Outcome: "late", Rung: "last-good", Error: "too late"},
			{Name: "again", Outcome: "dead", Rung: "built-in", Error: "starting: exit status 3"}}}
	if diff := cmp.Diff(want, health(st)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is over before the next look at the strategies is looked at all the same.
func TestTroubleIsLookedAtAtOnce(t *testing.T) {
	t.Parallel()
	s := &strategies{news: make(chan struct{}, 1)}
	calls, states := 0, 0
	heard, saw := s.heard(func(strategy.Call) { calls++ }), s.saw(func(strategy.Status) { states++ })
	for _, tt := range []struct {
		what string
		do   func()
		want int
	}{
		{"a call that went well", func() { heard(strategy.Call{Outcome: strategy.OK}) }, 0},
		{"calls that did not", func() { heard(strategy.Call{Outcome: strategy.Late}); heard(strategy.Call{Outcome: strategy.Dead}) }, 1},
		{"another state", func() { saw(strategy.Status{State: strategy.BackingOff}) }, 1},
	} {
		tt.do()
		if got := len(s.news); got != tt.want {
			t.Errorf("%s: %d looks, want %d", tt.what, got, tt.want)
		}
		for len(s.news) > 0 {
			<-s.news
		}
	}
	if calls != 3 || states != 1 {
		t.Errorf("%d calls and %d states were handed on", calls, states)
	}
}

func TestLeadership(t *testing.T) {
	t.Parallel()
	var l leadership
	if yes, why := l.get(); yes || why == "" {
		t.Errorf("before the election: %v, %q", yes, why)
	}
	l.set(true, "")
	if yes, _ := l.get(); !yes {
		t.Error("it leads and says no")
	}
	l.set(false, "lease a/b is held by c")
	if yes, why := l.get(); yes || why != "lease a/b is held by c" {
		t.Errorf("later: %v, %q", yes, why)
	}
}

// A call that goes wrong is told once, and truly: by who knows who answered.
func TestAFailedCallIsLoggedOnce(t *testing.T) {
	t.Parallel()
	core, seen := zaptest.New(zapcore.WarnLevel)
	log := zap.New(core)
	m, err := metric.New(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := testStrategies(t, func(c *config.Config) { c.Admin.Enabled = false; c.Bindings.InstanceSelection = "carbon" })
	s, err := openStrategies(t.Context(), c, &kube.Clients{}, &observer{m: m, log: log}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.host.Close)
	w := &model.World{Pools: []*model.Pool{{Name: "p", NodeClass: model.NodeClassRef{Name: "c"}}}}
	if _, err := s.host.Price(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range seen.All() {
		if strings.Contains(e.Message, "did not answer") {
			lines = append(lines, e.Message+" by "+fmt.Sprint(e.ContextMap()["rung"]))
		}
	}
	if diff := cmp.Diff([]string{"strategy did not answer, another did by built-in"}, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Names of strategies come from annotations, too: metrics have one label for all those that
// nobody has.
func TestMadeUpNamesAreOneLabel(t *testing.T) {
	t.Parallel()
	m, err := metric.New(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := testStrategies(t, func(c *config.Config) { c.Admin.Enabled = false })
	s, err := openStrategies(t.Context(), c, &kube.Clients{}, &observer{m: m, log: zap.NewNop()}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.host.Close)
	w := &model.World{}
	for _, name := range []string{"", "first-fit", "made-up", "made-up-too"} {
		w.Pools = append(w.Pools, &model.Pool{Name: "p" + name, NodeClass: model.NodeClassRef{Name: "c"}, Annotations: map[string]string{model.AnnotationInstanceSelection: name}})
	}
	if _, err := s.host.Price(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			for _, l := range x.GetLabel() {
				// restarts are told when a process changes its state, of those that exist alone
				if strings.HasPrefix(f.GetName(), "weir_strategy_") && f.GetName() != "weir_strategy_restarts_total" && l.GetName() == "strategy" {
					got[l.GetValue()] = true
				}
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"cost-optimal": true, "first-fit": true, unknownStrategy: true}, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// What could not be recorded of calls is counted by how it went.
func TestRecordsAreCounted(t *testing.T) {
	t.Parallel()
	m, err := metric.New(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{m: m, log: zap.NewNop()}
	for _, st := range []strategy.RecordStatus{{Written: 3}, {Written: 5, Dropped: 2}, {Written: 5, Dropped: 2, Failed: 1}} {
		o.records(st)
	}
	for result, want := range map[string]float64{"written": 5, "dropped": 2, "failed": 1} {
		if got := testutil.ToFloat64(m.StrategyRecords.WithLabelValues(result)); got != want {
			t.Errorf("%s: %v, want %v", result, got, want)
		}
	}
}

// chained is a strategy that runs without a process of its own.
func chained(weight float64) config.Strategy {
	return config.Strategy{Kind: config.InstanceSelection, CallTimeout: config.Duration(time.Second), Chain: []config.ChainMember{{Strategy: "cost-optimal", Weight: weight}}}
}

// What was taken back of the configuration stays so when a scaler starts anew, until the
// configuration says something else or somebody asks for it.
func TestRollBacksAreKept(t *testing.T) {
	t.Parallel()
	mix := func(weight float64) func(*config.Config) {
		return func(c *config.Config) { c.Strategies["mix"] = chained(weight) }
	}
	binds := func(name string) func(*config.Config) {
		return func(c *config.Config) {
			c.Strategies["mix"], c.Strategies["other"] = chained(1), chained(2)
			c.Bindings.InstanceSelection = name
		}
	}
	ofMix := func(c *config.Config) string { return fmt.Sprint(c.Strategies["mix"].Chain[0].Weight) }
	binding := func(c *config.Config) string { return c.Bindings.InstanceSelection }
	for _, tt := range []struct {
		name, back         string
		before, now, newer func(*config.Config)
		inForce            func(*config.Config) string
		want               [3]string
	}{
		{"a strategy", "mix", mix(1), mix(2), mix(3), ofMix, [3]string{"1", "2", "3"}},
		{"a binding", "other", binds("mix"), binds("other"), binds("cost-optimal"), binding, [3]string{"mix", "other", "cost-optimal"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clients := fake.NewClientset()
			first := openTest(t, clients, tt.before)
			if err := first.reconfigure(testStrategies(t, tt.now)); err != nil {
				t.Fatal(err)
			}
			await(t, "it is in service", func() error {
				for _, x := range first.host.Status() {
					if x.Name == tt.back && x.Trial != nil {
						return nil
					}
				}
				return errors.New("not yet")
			})
			wants := func(s *strategies, want string) {
				t.Helper()
				if got := tt.inForce(s.state().InForce); got != want {
					t.Errorf("in force is %s, want %s", got, want)
				}
			}
			wants(first, tt.want[1])
			if _, err := first.back(t.Context(), tt.back, "asked for by ann"); err != nil {
				t.Fatal(err)
			}
			text, err := first.desired.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			first.reswap(text)
			wants(first, tt.want[0])
			second := openTest(t, clients, tt.now)
			wants(second, tt.want[0])
			var why string
			for _, x := range admin.Describe(second.state().Strategies, second.state().InForce, second.state().Swaps) {
				if x.RollBack != nil {
					why = x.RollBack.Why
				}
			}
			if why != "asked for by ann" {
				t.Errorf("after the restart it is told why: %q", why)
			}
			if err := second.reconfigure(testStrategies(t, tt.newer)); err != nil {
				t.Fatal(err)
			}
			wants(second, tt.want[2])
			if err := second.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if text, err = second.desired.Read(t.Context()); err != nil || strings.Contains(string(text), tt.back) {
				t.Errorf("what is over is still there (%v):\n%s", err, text)
			}
		})
	}
}
