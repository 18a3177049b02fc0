package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/model"
)

// budgeted is a pool of three nodes, all of them empty from now on, under these budgets.
func budgeted(t *testing.T, budgets ...model.Budget) *scene {
	t.Helper()
	p := small()
	p.ConsolidateAfter = 30 * time.Second
	s := newScene(t, nil, p)
	spread(s, 3)
	mustRun(t, s, 3, 4*time.Minute)
	next := *s.API.Pools["default"]
	next.Budgets = budgets
	s.API.PutPool(&next)
	s.Workloads[0].Replicas = 0
	return s
}

// A cron line that nobody can read closes the pool, with a condition that names the
// field; once it is mended it opens by itself.
func TestBudgetsOfNonsense(t *testing.T) {
	t.Parallel()
	s := budgeted(t, model.Budget{Nodes: "100%"}, model.Budget{Nodes: "1", Schedule: "61 * * * *", Duration: time.Hour})
	s.Run(10 * time.Minute)
	if n := len(s.API.Claims); n != 3 {
		t.Errorf("%d of 3 nodes are left", n)
	}
	c := s.condition("default", control.ConditionDisruption)
	if c.Status != "False" || c.Reason != control.HeldBudgets || !strings.Contains(c.Message, "spec.disruption.budgets[1].schedule") {
		t.Errorf("condition %+v", c)
	}
	if s.current.c.Held()["default"][control.HeldBudgets] == "" {
		t.Error("nothing is told to metrics")
	}
	next := *s.API.Pools["default"]
	next.Budgets = []model.Budget{{Nodes: "100%"}}
	s.API.PutPool(&next)
	if !s.Until(5*time.Minute, func() bool { return len(s.API.Claims) == 0 }) {
		t.Errorf("%d nodes are left after it was mended", len(s.API.Claims))
	}
	if c := s.condition("default", control.ConditionDisruption); c.Status != "True" {
		t.Errorf("condition once it is mended: %+v", c)
	}
}

// A budget of nothing, for ever or for a while, is told on the pool; nothing goes.
func TestBudgetsOfNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		budgets []model.Budget
		says    string
	}{
		"for ever": {[]model.Budget{{Nodes: "0"}}, `due to blocking budget: budget "0" allows 0 of 3 nodes at any time, until the NodePool is changed`},
		"overlapping, the least one": {[]model.Budget{{Nodes: "50%"}, {Nodes: "0", Schedule: "0 8 * * *", Duration: 4 * time.Hour}, {Nodes: "0", Schedule: "0 11 * * *", Duration: 2 * time.Hour}},
			"until 2026-03-02T13:00:00Z"},
		"windows that never close": {[]model.Budget{{Nodes: "0", Schedule: "@hourly", Duration: 2 * time.Hour}}, "its windows overlap without end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := budgeted(t, tc.budgets...)
			if !s.Until(5*time.Minute, func() bool { return s.hasEvent("DisruptionBlocked", tc.says) }) {
				t.Errorf("no event says %q", tc.says)
			}
			if !s.hasEvent("DisruptionBlocked", "No allowed disruptions for disruption reason Empty") || len(s.API.Claims) != 3 {
				t.Errorf("%d of 3 nodes are left", len(s.API.Claims))
			}
		})
	}
}

// A PodDisruptionBudget that can never allow anything keeps its node, and is named.
func TestAPDBThatNeverAllowsAnything(t *testing.T) {
	t.Parallel()
	p := small()
	p.ConsolidateAfter = 30 * time.Second
	s := newScene(t, nil, p)
	spread(s, 2)
	s.API.PutPDB(&model.PDB{Namespace: "default", Name: "never", FullyBlocking: true, Selects: func(l map[string]string) bool { return l["app"] == "web" }})
	mustRun(t, s, 2, 4*time.Minute)
	changing(s, p)
	s.Run(30 * time.Minute)
	if n := s.Running("web"); n != 2 || len(s.API.Claims) != 2 {
		t.Errorf("%d of 2 pods run on %d nodes", n, len(s.API.Claims))
	}
	if !s.hasEvent("DisruptionBlocked", "default/never can never allow one (maxUnavailable 0 or minAvailable 100%)") {
		t.Error("no event names the budget")
	}
}

// A pool that is deleted while its nodes are being replaced: replacements and old nodes
// go, nothing is bought for it any more, and nothing hangs.
func TestAPoolThatIsDeletedWhileItsNodesAreReplaced(t *testing.T) {
	t.Parallel()
	p := small()
	s := newScene(t, nil, p)
	v := watch(t, s)
	spread(s, 2)
	mustRun(t, s, 2, 4*time.Minute)
	changing(s, p)
	if !s.Until(10*time.Minute, func() bool { return len(s.API.Claims) > 2 }) {
		t.Fatal("no replacement was begun")
	}
	going := *s.API.Pools["default"]
	going.Deleting = true
	s.API.PutPool(&going)
	for name := range s.API.Claims { // the garbage collector goes by the owner
		if err := s.API.DeleteClaim(t.Context(), name, ""); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Until(10*time.Minute, func() bool { return len(s.API.Claims) == 0 && s.Machines() == 0 }) {
		t.Fatalf("%d claims and %d machines are left", len(s.API.Claims), s.Machines())
	}
	s.API.RemovePool("default")
	bought := len(s.EC2.Machines())
	s.Run(20 * time.Minute)
	if len(s.API.Claims) != 0 || len(s.EC2.Machines()) != bought {
		t.Errorf("%d claims, and %d more machines were bought for a pool that is gone", len(s.API.Claims), len(s.EC2.Machines())-bought)
	}
	if n := len(s.current.c.Executor().Running()); n != 0 {
		t.Errorf("%d nodes are in a command that never ends", n)
	}
	v.check()
}

// A clock that was set back does not make a pause longer.
func TestClockJumpsAndWhatHoldsPoolsBack(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.settings.MaxMovesPerHour = 1
	s.Planner = &byHand{disrupt: restless}
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	if !s.Until(20*time.Minute, func() bool { return s.hasEvent("DisruptionPaused", "") }) {
		t.Fatal("not paused")
	}
	seen := map[string]bool{}
	before := gone(s, seen)
	s.Jump(-5 * time.Hour)
	s.Restart()
	if !s.Until(90*time.Minute, func() bool { return gone(s, seen) > before }) {
		t.Error("five hours back, and the pause lasts longer than an hour")
	}
}
