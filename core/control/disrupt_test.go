package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// byHand plans disruption by a function; provisioning is the real one.
type byHand struct {
	control.Planners
	disrupt func(w *model.World) []model.Command
	asked   int
}

func (p *byHand) Disrupt(w *model.World, _ *model.Prices, _ execute.Scorer, _ execute.DisruptOptions) (*model.Plan, error) {
	p.asked++
	return &model.Plan{Kind: model.PlanDisrupt, Made: w.Now, Commands: p.disrupt(w)}, nil
}

// replaceOnce wants the first node replaced by an m5.large, once.
func replaceOnce(pool *model.Pool) func(w *model.World) []model.Command {
	first := ""
	return func(w *model.World) []model.Command {
		for _, n := range w.Nodes {
			if !n.Managed() || !n.Initialized() || n.BeingRemoved() || first != "" && n.Claim.Name != first {
				continue
			}
			first = n.Claim.Name
			o := w.Offerings["default"][0] // m5.large in us-east-1a, on demand
			return []model.Command{{
				Reason: model.Drifted, Remove: []*model.Node{n}, Wave: 1,
				Launch: []*model.NewNode{{Name: "r-1", Pool: pool, Offering: o, Requirements: pool.Requirements, Labels: map[string]string{}}},
			}}
		}
		return nil
	}
}

func TestReplacementComesFirst(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	hand := &byHand{disrupt: replaceOnce(p)}
	s := newScene(t, nil, p)
	s.Planner = hand
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	old := s.claim(t)
	var initialized, deleted time.Time
	ok := s.Until(10*time.Minute, func() bool {
		for _, c := range s.API.Claims {
			if c.Name != old.Name && c.Is(model.CondInitialized) && initialized.IsZero() {
				initialized = s.Now()
			}
		}
		if c := s.API.Claims[old.Name]; deleted.IsZero() && (c == nil || c.Deleting != nil) {
			deleted = s.Now()
		}
		return s.API.Claims[old.Name] == nil && s.Running("web") == 1
	})
	if !ok || initialized.IsZero() || deleted.Before(initialized) {
		t.Errorf("replaced %t; replacement usable at %s, old one deleted at %s", ok, initialized, deleted)
	}
	if !s.hasEvent("DisruptionLaunching", "Drifted") || !s.hasEvent("DisruptionTerminating", "Drifted") {
		t.Error("no event tells of the replacement")
	}
	v.check()
}

func TestReplacementThatFailsIsRolledBack(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	hand := &byHand{disrupt: func(*model.World) []model.Command { return nil }}
	s := newScene(t, nil, p)
	s.Planner = hand
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	old := s.claim(t)
	for _, z := range []string{"us-east-1a"} {
		if err := s.EC2.SetCapacity("m5.large/"+z+"/on-demand", 0); err != nil {
			t.Fatal(err)
		}
	}
	once := replaceOnce(p)
	plans := 0
	hand.disrupt = func(w *model.World) []model.Command {
		if plans++; plans > 2 { // once planned, once confirmed
			return nil
		}
		return once(w)
	}
	if !s.Until(time.Minute, func() bool { return s.hasEvent("DisruptionRolledBack", "is gone") }) {
		t.Fatalf("not rolled back: %v", s.API.Events)
	}
	s.Run(time.Minute)
	c := s.API.Claims[old.Name]
	if c == nil || c.Deleting != nil || c.Is(model.CondDisruptionReason) {
		t.Fatalf("the old claim: %+v", c)
	}
	for _, taint := range s.API.Nodes[c.NodeName].Taints {
		if taint.Key == model.TaintDisrupted {
			t.Error("the node is still cordoned")
		}
	}
	if s.Running("web") != 1 || s.Machines() != 1 {
		t.Errorf("%d pods on %d machines", s.Running("web"), s.Machines())
	}
}

// A plan is acted on only if a second look still wants it.
func TestPlanThatDoesNotHold(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	plans := 0
	hand := &byHand{}
	hand.disrupt = func(w *model.World) []model.Command {
		plans++
		var out []model.Command
		for _, n := range w.Nodes {
			if n.Managed() && n.Initialized() && plans%2 == 1 { // wanted once, never confirmed
				out = append(out, model.Command{Reason: model.Empty, Remove: []*model.Node{n}, Wave: 1})
			}
		}
		return out
	}
	s := newScene(t, nil, p)
	s.Planner = hand
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	name := s.claim(t).Name
	s.Run(5 * time.Minute)
	if plans < 4 {
		t.Errorf("asked only %d times", plans)
	}
	if c := s.API.Claims[name]; c == nil || c.Deleting != nil {
		t.Error("a plan that was not confirmed was acted on")
	}
}

func TestBudgetsHoldAtExecution(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	p.Budgets = []model.Budget{{Nodes: "1"}}
	hand := &byHand{disrupt: func(w *model.World) []model.Command {
		var out []model.Command // a planner that ignores budgets
		for _, n := range w.Nodes {
			if n.Managed() && n.Initialized() && !n.BeingRemoved() {
				out = append(out, model.Command{Reason: model.Empty, Remove: []*model.Node{n}, Wave: 1})
			}
		}
		return out
	}}
	s := newScene(t, nil, p)
	s.Planner = hand
	w := web(12)
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 12, 4*time.Minute)
	if len(s.API.Claims) < 3 {
		t.Fatalf("%d claims are too few for this test", len(s.API.Claims))
	}
	w.Replicas = 0
	worst := 0
	s.Until(10*time.Minute, func() bool {
		n := 0
		for _, c := range s.API.Claims {
			if c.Deleting != nil && !c.Is(model.CondInstanceTerminating) { // v1 counts a node until its instance ends
				n++
			}
		}
		worst = max(worst, n)
		return len(s.API.Claims) == 0
	})
	if worst != 1 || len(s.API.Claims) != 0 {
		t.Errorf("%d were disrupted at once with a budget of 1; %d are left", worst, len(s.API.Claims))
	}
	if s.current.c.Stats.Rejected["budget"] == 0 {
		t.Errorf("nothing was rejected: %v", s.current.c.Stats.Rejected)
	}
}

// greedy plans a node for every pod, whatever the limits say.
type greedy struct{ byHand }

func (g *greedy) Provision(w *model.World, _ *model.Prices) *model.Plan {
	plan := &model.Plan{Kind: model.PlanProvision, Made: w.Now}
	p := w.Pools[0]
	for i, pod := range w.Pods {
		plan.Launch = append(plan.Launch, &model.NewNode{Name: fmt.Sprintf("x-%d", i), Pool: p, Offering: w.Offerings["default"][0],
			Requirements: p.Requirements, Pods: []*model.Pod{pod}, Requests: pod.Requests})
	}
	return plan
}

func TestLimitsHoldAtExecution(t *testing.T) {
	t.Parallel()
	two := int64(2)
	for name, limits := range map[string]model.Limits{
		"nodes": {Nodes: &two}, "cpu": {Resources: map[string]int64{"cpu": 5000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pool("default", model.OnDemand)
			p.Limits = limits
			s := newScene(t, nil, p)
			s.Planner = &greedy{byHand{disrupt: func(*model.World) []model.Command { return nil }}}
			s.Workloads = append(s.Workloads, web(5))
			s.Crash = func(i int, _ bool, _ execute.Effect) bool { return i == 12 || i == 40 } // across deaths, too
			s.Run(5 * time.Minute)
			if n := len(s.EC2.Machines()); n != 2 {
				t.Errorf("%d machines were bought, the limit allows 2", n)
			}
			if !s.hasEvent("LaunchRefused", "limit of") {
				t.Error("no event tells of the limit")
			}
		})
	}
}

func TestFollowersDoNothing(t *testing.T) {
	t.Parallel()
	c := control.New(control.Config{Cluster: "test", Holder: "b"})
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	in := []control.Input{cluster.UpsertPool{Pool: pool("default", model.OnDemand)}, cluster.UpsertNodeClass{NodeClass: &model.NodeClass{Name: "default"}},
		cluster.UpsertPod{Pod: &model.Pod{Namespace: "ns", Name: "p", UID: "u", Unschedulable: true, Terms: []require.Set{{}}}}, cluster.Synced{}}
	for range 30 {
		if out := c.Step(now, in...); len(out) != 0 {
			t.Fatalf("effects of a follower: %v", out)
		}
		now, in = now.Add(time.Second), nil
	}
	if yes, why := c.Leading(); yes || why == "" {
		t.Errorf("leads %t, because %q", yes, why)
	}
	if out := c.Step(now, control.Leading{Epoch: 1}); len(out) != 1 || out[0].Kind() != "Recover" {
		t.Errorf("a new leader first recovers, but: %v", out)
	}
	if out := c.Step(now, control.Following{Why: "lease lost"}); len(out) != 0 {
		t.Errorf("effects after the lease: %v", out)
	}
}

// A zone that fails freezes what is voluntary, until ten minutes after it is back.
func TestMassFailureFreezes(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	hand := &byHand{disrupt: func(*model.World) []model.Command { return nil }}
	s := newScene(t, nil, p)
	s.Planner = hand
	s.Workloads = append(s.Workloads, web(12))
	mustRun(t, s, 12, 4*time.Minute)
	s.Run(30 * time.Second)
	if why := s.current.c.Stats.Frozen; why != "" {
		t.Fatalf("frozen: %s", why)
	}
	s.NodeUp = 24 * time.Hour // every kubelet falls silent
	s.Run(30 * time.Second)
	if why := s.current.c.Stats.Frozen; why == "" {
		t.Fatal("not frozen while every node is lost")
	}
	s.NodeUp = 0
	s.Run(9 * time.Minute)
	if why := s.current.c.Stats.Frozen; why == "" {
		t.Error("thawed before ten minutes were over")
	}
	s.Run(2 * time.Minute)
	if why := s.current.c.Stats.Frozen; why != "" {
		t.Errorf("still frozen: %s", why)
	}
}

func TestClockAndWatchesFreeze(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]func(s *scene){
		"watches behind": func(s *scene) { s.current.in = append(s.current.in, control.Lag{Behind: 31 * time.Second}) },
		"clock jump":     func(s *scene) { s.Jump(10 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, pool("default", model.OnDemand))
			s.Workloads = append(s.Workloads, web(1))
			mustRun(t, s, 1, 3*time.Minute)
			jump(s)
			s.Run(15 * time.Second)
			if s.current.c.Stats.Frozen == "" {
				t.Error("not frozen")
			}
		})
	}
}

// The diary tells what was done, why, by whom and at what price.
func TestDecisionsAreWritten(t *testing.T) {
	t.Parallel()
	store := mem.New()
	s := newScene(t, store, pool("default", model.OnDemand))
	w := web(3)
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 3, 3*time.Minute)
	w.Replicas = 0
	s.Until(10*time.Minute, func() bool { return len(s.API.Claims) == 0 })
	s.Run(5 * time.Second)
	list, err := ledger.List[ledger.Decision](t.Context(), store, "test/decision/2026-03-02", "", s.Now())
	if err != nil || len(list) < 2 {
		t.Fatalf("%d decisions (%v)", len(list), err)
	}
	first, last := list[0], list[len(list)-1]
	if first.Kind != "provision" || first.After == 0 || first.Why == "" || first.Bound == 0 {
		t.Errorf("first: %+v", first)
	}
	if last.Kind != "disrupt" || last.Before == 0 || last.After != 0 || last.Strategy != "test 1.0.0" || last.Outcome != "ok" {
		t.Errorf("last: %+v", last)
	}
	states, err := ledger.List[ledger.ClaimState](t.Context(), store, "test/claim", "", s.Now())
	if err != nil || len(states) == 0 {
		t.Fatalf("claim states %v (%v)", states, err)
	}
	for _, st := range states {
		if st.State != "gone" || st.InstanceID == "" || st.USDPerHour == 0 || st.Reason == "" {
			t.Errorf("claim state %+v", st)
		}
	}
}

// Two machines of one request are handed out one each, also where the answer was
// lost and only one of the claims is left.
func TestSurplusOfALaunchIsEnded(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	s := newScene(t, nil, p)
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(10))
	s.Planner = &greedy{byHand{disrupt: func(*model.World) []model.Command { return nil }}}
	s.EC2.LoseNext(sim.OpLaunch, 1)
	killed := ""
	saw := s.Saw
	s.Saw = func(now time.Time, r execute.Result) {
		saw(now, r)
		if _, ok := r.Effect.Do.(execute.SendLaunch); ok && r.Err != nil && killed == "" {
			killed = s.claim(t).Name
			if err := s.API.DeleteClaim(t.Context(), killed, ""); err != nil {
				t.Error(err)
			}
		}
	}
	mustRun(t, s, 10, 5*time.Minute)
	if killed == "" {
		t.Fatal("no launch answer was lost")
	}
	if !s.Until(2*time.Minute, func() bool { return s.API.Claims[killed] == nil && s.Machines() == len(s.API.Claims) }) {
		t.Errorf("%d machines for %d claims", s.Machines(), len(s.API.Claims))
	}
	for uid, ids := range v.assigned {
		if len(ids) > 1 {
			t.Errorf("claim %s has had %d instances", uid, len(ids))
		}
	}
}
