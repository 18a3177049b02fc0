package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// slowPlans performs every plan on a goroutine of its own, over and over until it is
// released: the race detector sees whatever writes to a world that is being planned for.
type slowPlans struct {
	t     *testing.T
	under []*slowPlan // in the order in which they were asked for
}

type slowPlan struct {
	effect  execute.Effect
	release chan struct{}
	done    chan [2]execute.Result // the first and the last
}

func (s *slowPlans) sift(effects []execute.Effect) []execute.Effect {
	var now []execute.Effect
	for _, e := range effects {
		if _, ok := e.Do.(execute.Plan); !ok {
			now = append(now, e)
			continue
		}
		for _, other := range s.under {
			if other.effect.Key == e.Key {
				s.t.Errorf("a second plan %q was asked for while the first is made", e.Key)
			}
		}
		p := &slowPlan{effect: e, release: make(chan struct{}), done: make(chan [2]execute.Result, 1)}
		s.under = append(s.under, p)
		go p.make()
	}
	return now
}

func (p *slowPlan) make() {
	ports := execute.Ports{Strategy: executetest.Strategy{}, Planner: control.Planners{}}
	var r [2]execute.Result
	r[0] = execute.Perform(context.Background(), ports, p.effect)
	for over := false; !over; {
		select {
		case <-p.release:
			over = true
		default:
		}
		r[1] = execute.Perform(context.Background(), ports, p.effect)
	}
	p.done <- r
}

// released ends all plans and answers their results. The same world was planned for at
// the beginning and at the end: so must be the plan.
func (s *slowPlans) released() []control.Input {
	s.t.Helper()
	var out []control.Input
	for _, p := range s.under {
		close(p.release)
		r := <-p.done
		if diff := cmp.Diff(summary(s.t, r[0]), summary(s.t, r[1])); diff != "" {
			s.t.Errorf("plan %q changed while it was made, so its world did (-first +last):\n%s", p.effect.Key, diff)
		}
		out = append(out, r[1])
	}
	s.under = nil
	return out
}

func (s *slowPlans) making(f model.PlanKind) bool {
	return slices.ContainsFunc(s.under, func(p *slowPlan) bool { return p.effect.Do.(execute.Plan).For == f })
}

func summary(t *testing.T, r execute.Result) string {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	plan := r.Value.(execute.Planned).Plan
	var b strings.Builder
	for _, n := range plan.Launch {
		fmt.Fprintf(&b, "launch %s %s", n.Pool.Name, n.Offering.Key())
		for _, p := range n.Pods {
			fmt.Fprintf(&b, " %s", p.ID())
		}
		b.WriteString("\n")
	}
	for _, at := range plan.Placements {
		fmt.Fprintf(&b, "place on %s", at.Node.ID())
		for _, p := range at.Pods {
			fmt.Fprintf(&b, " %s", p.ID())
		}
		b.WriteString("\n")
	}
	for _, v := range plan.Unplaced {
		fmt.Fprintf(&b, "unplaced %s\n", v.Pod.ID())
	}
	for _, c := range plan.Commands {
		fmt.Fprintf(&b, "%s remove %d launch %d\n", c.Reason, len(c.Remove), len(c.Launch))
	}
	return b.String()
}

// A plan that takes five minutes holds up nothing but itself: machines that were bought
// join, an interrupted one is drained, a claim that is deleted ends, the heartbeat goes
// on; and the world that is planned for stays as it was. What the late plan says is
// carried out as far as it is still wanted.
func TestALongPlanHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("spot", model.Spot))
	v := watch(t, s)
	first, second := web(4), web(4)
	second.Name = "second"
	s.Workloads = append(s.Workloads, first)
	mustRun(t, s, 4, 3*time.Minute)
	s.Workloads = append(s.Workloads, second)
	if !s.Until(time.Minute, func() bool { return s.Machines() > len(s.API.Nodes) }) {
		t.Fatal("nothing is bought for the second workload")
	}

	slow := &slowPlans{t: t}
	s.current.sift = slow.sift
	third := web(4)
	third.Name = "third"
	s.Workloads = append(s.Workloads, third)
	if !s.Until(time.Minute, func() bool { return slow.making(model.PlanProvision) }) {
		t.Fatal("no plan for the third workload")
	}

	// The life of claims goes on.
	if !s.Until(2*time.Minute, func() bool { return s.Running("second") == 4 }) {
		t.Errorf("%d of 4 pods of the second workload run: machines that were bought did not join", s.Running("second"))
	}
	if !s.Until(time.Minute, func() bool {
		for _, c := range s.API.Claims {
			if !c.Is(model.CondInitialized) {
				return false
			}
		}
		return true
	}) {
		t.Error("a claim was not initialized")
	}

	// So do a notice and its drain, and the end of a claim that a person deletes.
	interrupted, deleted := twoClaims(t, s)
	id := model.InstanceID(interrupted.ProviderID)
	if err := s.EC2.Reclaim(id); err != nil {
		t.Fatal(err)
	}
	deadline := s.Now().Add(2 * time.Minute).Truncate(time.Second)
	s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{
		EventID: "e-1", Kind: model.NoticeSpot, InstanceID: id, Time: s.Now(), Deadline: &deadline, Action: "terminate"}})
	if err := s.API.DeleteClaim(t.Context(), deleted.Name, deleted.UID); err != nil {
		t.Fatal(err)
	}
	if !s.Until(2*time.Minute, func() bool { return s.API.Claims[interrupted.Name] == nil }) || s.Now().After(deadline) {
		t.Errorf("the interrupted node was not left before the deadline: %s later", s.Now().Sub(deadline))
	}
	if !s.Until(2*time.Minute, func() bool { return s.API.Claims[deleted.Name] == nil }) {
		t.Error("the deleted claim is still there")
	}

	s.Run(2 * time.Minute)
	var beat ledger.Heartbeat
	beat, _, ok, err := ledger.Load[ledger.Heartbeat](t.Context(), s.Ledger, ledger.HeartbeatKey(executetest.Name), s.Now())
	if err != nil || !ok || s.Now().Sub(beat.At) > 2*ledger.HeartbeatEvery {
		t.Errorf("the last heartbeat is of %s, now is %s (%v)", beat.At, s.Now(), err)
	}
	if !slow.making(model.PlanProvision) {
		t.Fatal("the plan has not taken that long")
	}

	s.current.sift = nil
	s.current.in = append(s.current.in, slow.released()...)
	for _, w := range s.Workloads {
		if !s.Until(3*time.Minute, func() bool { return s.Running(w.Name) == 4 }) {
			t.Errorf("%d of 4 pods of %s run", s.Running(w.Name), w.Name)
		}
	}
	v.check()
}

// twoClaims are claims of different nodes with pods on them.
func twoClaims(t *testing.T, s *scene) (a, b *model.Claim) {
	t.Helper()
	on := map[string]bool{}
	for _, p := range s.API.Pods {
		on[p.NodeName] = true
	}
	var found []*model.Claim
	for _, c := range s.API.Claims {
		if on[c.NodeName] {
			found = append(found, c)
		}
	}
	if len(found) < 2 {
		t.Fatalf("%d claims with pods, want two", len(found))
	}
	slices.SortFunc(found, func(a, b *model.Claim) int { return strings.Compare(a.Name, b.Name) })
	return found[0], found[1]
}
