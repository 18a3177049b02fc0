package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// restless wants every node with pods gone, for money, as often as it is asked.
func restless(w *model.World) []model.Command {
	var out []model.Command
	for _, n := range w.Nodes {
		if n.Managed() && n.Initialized() && !n.BeingRemoved() && len(n.Pods) > 0 {
			out = append(out, model.Command{Reason: model.Underutilized, Remove: []*model.Node{n}, Before: 1, Wave: 1})
		}
	}
	return out
}

// gone counts how many claims of a scene are gone or going.
func gone(s *scene, seen map[string]bool) int {
	for name := range s.API.Claims {
		seen[name] = true
	}
	n := 0
	for name := range seen {
		if c := s.API.Claims[name]; c == nil || c.Deleting != nil {
			n++
		}
	}
	return n
}

// A planner that moves the same pod over and over is stopped after so many moves an hour;
// a new leader knows of it, and when the hour is over it goes on.
func TestPodsDoNotGoRoundInCircles(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.settings.MaxMovesPerHour = 2
	s.Planner = &byHand{disrupt: restless}
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	seen := map[string]bool{}
	if !s.Until(20*time.Minute, func() bool { gone(s, seen); return s.hasEvent("DisruptionPaused", "default/ReplicaSet/web") }) {
		t.Fatalf("not paused after %d nodes", gone(s, seen))
	}
	if n := gone(s, seen); n != 2 {
		t.Errorf("%d nodes went before the pause, the setting allows 2 moves", n)
	}
	for _, death := range []bool{false, true} {
		if death {
			s.Restart()
		}
		s.Run(20 * time.Minute)
		if n := gone(s, seen); n != 2 {
			t.Fatalf("%d nodes went, the pool is paused (after a restart: %t)", n, death)
		}
		c := s.condition("default", control.ConditionDisruption)
		if c.Status != "False" || c.Reason != control.HeldCircles || !strings.Contains(c.Message, "for the 3rd time") || !strings.Contains(c.Message, "their way: ") {
			t.Errorf("after a restart %t the condition is %+v", death, c)
		}
		if held := s.current.c.Held()["default"][control.HeldCircles]; held == "" {
			t.Errorf("after a restart %t nothing is told to metrics", death)
		}
	}
	if !s.Until(time.Hour, func() bool { return gone(s, seen) > 2 }) {
		t.Error("still paused after the hour is over")
	}
}

// changing is a pool whose nodes drift when its hash changes, as claims say.
func changing(s *scene, p *model.Pool) *model.Pool {
	next := *p
	next.Hash += "'"
	s.API.PutPool(&next)
	return &next
}

// small is a pool of machines that hold one pod of spread, and that are not consolidated.
func small() *model.Pool {
	p := pool("default", model.OnDemand)
	p.Requirements = p.Requirements.With(require.Must(model.LabelInstanceType, "In", "m5.large"))
	p.ConsolidateAfter = model.Never
	return p
}

// spread is a workload whose pods need a node of small each.
func spread(s *scene, n int) {
	w := web(n)
	w.Requests = w.Requests.With("cpu", 1800)
	s.Workloads = append(s.Workloads, w)
}

// most is the most nodes that were on their way out at once, and how many have gone.
type rolling struct {
	s         *scene
	template  string
	most      int
	overlaps  int // a wave began while pods were not running
	wasLeaves int
}

func (r *rolling) look(pods int) (old int) {
	leaves := 0
	for _, c := range r.s.API.Claims {
		if c.Annotations[model.AnnotationPoolHash] != r.template {
			old++
		}
		if c.Is(model.CondDisruptionReason) || c.Deleting != nil && !c.Is(model.CondInstanceTerminating) {
			leaves++
		}
	}
	if leaves > r.wasLeaves && r.wasLeaves > 0 && r.s.Running("web") < pods {
		r.overlaps++
	}
	r.wasLeaves = leaves
	r.most = max(r.most, leaves)
	return old
}

// A change of the template rolls in waves within the budget, after its soak.
func TestDriftRollsInWaves(t *testing.T) {
	t.Parallel()
	p := small()
	p.Budgets = []model.Budget{{Nodes: "2"}}
	p.Annotations = map[string]string{model.AnnotationSoak: "1h"}
	s := newScene(t, nil, p)
	spread(s, 6)
	mustRun(t, s, 6, 4*time.Minute)
	changing(s, p)
	s.Run(55 * time.Minute)
	r := &rolling{s: s, template: "1'"}
	if old := r.look(6); old != 6 {
		t.Fatalf("%d of 6 nodes are left after 55 minutes, and the change soaks for an hour", old)
	}
	if !s.Until(time.Hour, func() bool { return r.look(6) == 0 && s.Running("web") == 6 }) {
		t.Fatalf("%d old nodes are left; events %v", r.look(6), s.API.Events)
	}
	if r.most != 2 || r.overlaps > 0 {
		t.Errorf("%d nodes at once with a budget of 2, %d times before the moved pods ran", r.most, r.overlaps)
	}
	if c := s.condition("default", control.ConditionDisruption); c.Status != "True" {
		t.Errorf("condition %+v", c)
	}
}

// New machines that never become ready halt the roll, with an event and a condition, also
// after a restart; once they do it goes on by itself.
func TestDriftHaltsWhenNewNodesAreNotReady(t *testing.T) {
	t.Parallel()
	for _, death := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", death), func(t *testing.T) {
			t.Parallel()
			p := small()
			p.Budgets = []model.Budget{{Nodes: "1"}}
			s := newScene(t, mem.New(), p)
			spread(s, 4)
			mustRun(t, s, 4, 4*time.Minute)
			known := map[string]bool{}
			for name := range s.API.Claims {
				known[name] = true
			}
			broken := true
			s.Joins = func(n *model.Node) {
				if broken {
					s.Dead[n.Name] = true // its kubelet never says that it is ready
				}
			}
			changing(s, p)
			if !s.Until(30*time.Minute, func() bool { return s.hasEvent(control.HeldRollout, "No more nodes are replaced for drift") }) {
				t.Fatalf("not halted; events %v", s.API.Events)
			}
			left := func() (n int) {
				for name, c := range s.API.Claims {
					if known[name] && c.Deleting == nil {
						n++
					}
				}
				return n
			}
			before := left()
			if before < 3 {
				t.Errorf("only %d of 4 old nodes are left when it halts", before)
			}
			if death {
				s.Restart()
			}
			s.Run(10 * time.Minute)
			if n := left(); n != before {
				t.Errorf("%d old nodes were left when it halted, %d are ten minutes later", before, n)
			}
			if c := s.condition("default", control.ConditionDisruption); c.Status != "False" || c.Reason != control.HeldRollout {
				t.Errorf("condition %+v", c)
			}
			broken = false
			clear(s.Dead)
			if !s.Until(2*time.Hour, func() bool { return left() == 0 && s.Running("web") == 4 }) {
				t.Errorf("%d old nodes are left after it was mended; events %v", left(), s.API.Events)
			}
			s.Run(30 * time.Second)
			if c := s.condition("default", control.ConditionDisruption); c.Status != "True" {
				t.Errorf("condition once it is mended: %+v", c)
			}
		})
	}
}

// Nodes past their expireAfter go in turn where the pool says so, and by force elsewhere.
func TestExpiryWithinBudgets(t *testing.T) {
	t.Parallel()
	p := small()
	p.Budgets = []model.Budget{{Nodes: "1"}}
	p.ExpireAfter = 2 * time.Hour
	p.Annotations = map[string]string{model.AnnotationExpire: model.ExpireBudgeted}
	s := newScene(t, nil, p)
	spread(s, 4)
	mustRun(t, s, 4, 4*time.Minute)
	known := map[string]bool{}
	for name := range s.API.Claims {
		known[name] = true
	}
	worst, first := 0, time.Time{}
	ok := s.Until(4*time.Hour, func() bool {
		leaving, left := 0, 0
		for name, c := range s.API.Claims {
			if c.Is(model.CondDisruptionReason) || c.Deleting != nil && !c.Is(model.CondInstanceTerminating) {
				leaving++
			}
			if known[name] {
				left++
			}
		}
		if leaving > 0 && first.IsZero() {
			first = s.Now()
		}
		worst = max(worst, leaving)
		return left == 0
	})
	if !ok || worst != 1 {
		t.Errorf("all replaced: %t; %d at once with a budget of 1", ok, worst)
	}
	if first.Before(executetest.Start.Add(108*time.Minute)) || first.After(executetest.Start.Add(2*time.Hour+10*time.Minute)) {
		t.Errorf("the first went at %s, want in the last tenth of two hours", first)
	}
	if !s.hasEvent("DisruptionTerminating", "Expired") {
		t.Error("no event says why")
	}
}

// A static pool has as many nodes as it says: bought without pods, never consolidated,
// replaced when lost, and taken away when there are fewer to be.
func TestStaticPools(t *testing.T) {
	t.Parallel()
	p := pool("fixed", model.OnDemand)
	replicas := int64(3)
	p.Static = &replicas
	s := newScene(t, nil, p)
	s.settings.Planning.StaticCapacity = true
	crashes := 0
	s.Crash = func(i int, after bool, e execute.Effect) bool { // whoever leads next buys nothing twice
		if crashes < 3 && (e.Kind() == "SendLaunch" || e.Kind() == "CreateClaim") && after {
			crashes++
			return true
		}
		return false
	}
	v := watch(t, s)
	ready := func() (n int64) {
		for _, c := range s.API.Claims {
			if c.Is(model.CondInitialized) && c.Deleting == nil {
				n++
			}
		}
		return n
	}
	if !s.Until(10*time.Minute, func() bool { return ready() == 3 && len(s.API.Claims) == 3 }) {
		t.Fatalf("%d of 3 nodes; claims %v", ready(), s.API.Claims)
	}
	s.Run(10 * time.Minute)
	if n := len(s.EC2.Machines()); n != 3 || ready() != 3 {
		t.Errorf("%d machines were bought for 3 replicas, %d nodes are ready", n, ready())
	}
	if err := s.API.DeleteClaim(t.Context(), s.claim(t).Name, ""); err != nil {
		t.Fatal(err)
	}
	if !s.Until(10*time.Minute, func() bool { return ready() == 3 && s.Machines() == 3 && len(s.API.Claims) == 3 }) {
		t.Errorf("one was lost, and %d of 3 are there", ready())
	}
	changed := changing(s, p)
	r := &rolling{s: s, template: changed.Hash}
	if !s.Until(time.Hour, func() bool { return r.look(0) == 0 && ready() == 3 && len(s.API.Claims) == 3 }) {
		t.Errorf("%d nodes of the template before are left", r.look(0))
	}
	one := int64(1)
	fewer := *changed
	fewer.Static = &one
	s.API.PutPool(&fewer)
	if !s.Until(10*time.Minute, func() bool { return len(s.API.Claims) == 1 && s.Machines() == 1 }) {
		t.Errorf("%d nodes for one replica", len(s.API.Claims))
	}
	s.Run(5 * time.Minute)
	if len(s.API.Claims) != 1 {
		t.Errorf("%d nodes for one replica, later on", len(s.API.Claims))
	}
	v.check()
}
