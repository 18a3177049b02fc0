package strategy

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// What fell back is told of each task by itself: a call of one kind that goes well does not
// hide that the other does not, and a process that is ready anew starts without either.
func TestWhatFellBackIsToldByTask(t *testing.T) {
	t.Parallel()
	h := testHost(t, Config{Strategies: []Spec{fakeSpec(t, "fake", "short")}, InstanceSelection: "fake", Consolidation: "fake"})
	settle(t, h)
	w := testWorld()
	w.Nodes = []*model.Node{{Name: "n", Created: w.Now.Add(-time.Hour), USDPerHour: 0.0864, PriceKnown: true, Labels: map[string]string{
		model.LabelPool: "default", model.LabelInstanceType: "m6a.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand}}}
	move := &model.Command{Reason: model.Empty, Remove: w.Nodes, Before: 0.0864}
	score := func() {
		t.Helper()
		if _, err := h.Score(context.Background(), w, []*model.Command{move}); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(what string, want ...Task) {
		t.Helper()
		if diff := cmp.Diff(want, statusOf(h, "fake").FellBack()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	wants("nothing was asked")
	price(t, h)
	prices, scores := Task{sdk.InstanceSelection, LevelPrice}, Task{sdk.Consolidation, LevelScore}
	wants("prices", prices)
	score()
	wants("both", scores, prices)
	if last := statusOf(h, "fake").Last[prices]; last.Rung != ByBuiltin || last.Outcome != Invalid || last.Err == "" {
		t.Errorf("told %+v", last)
	}
	before := statusOf(h, "fake")
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "it is ready anew", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.PID != before.PID })
	wants("a new process")
	if st := statusOf(h, "fake"); st.Calls != 2 || st.LastCallError == "" {
		t.Errorf("a new process, and what was counted is lost: %+v", st.Counts)
	}
}

// A call that went wrong with a process before says nothing of the one that is ready now,
// although it ends later.
func TestCallsOfAProcessBefore(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var c tally
	call := Call{Kind: sdk.InstanceSelection, Level: LevelPrice, Outcome: Late, Err: context.DeadlineExceeded, Rung: ByBuiltin, began: began}
	c.add(call, began)
	c.afresh(began.Add(time.Second))
	c.add(call, began.Add(2*time.Second))
	if got := c.read(); len(got.FellBack()) != 0 || got.Calls != 2 {
		t.Errorf("told %v of %d calls", got.FellBack(), got.Calls)
	}
	call.began = began.Add(time.Second)
	c.add(call, began.Add(2*time.Second))
	if got := c.read().FellBack(); len(got) != 1 {
		t.Errorf("told %v of a call of now", got)
	}
}

// A chain that could not do without a member may have it again without being asked.
func TestAChainHasItsMemberAgain(t *testing.T) {
	t.Parallel()
	member := fakeSpec(t, "fake", "exit")
	h := testHost(t, Config{Strategies: []Spec{member, chainOf(ChainMember{Strategy: "fake", Weight: 1, Required: true})}, InstanceSelection: "mix"})
	settle(t, h)
	before := statusOf(h, "fake").PID
	price(t, h)
	until(t, "the member is ready anew", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.PID != before })
	until(t, "the chain, too", func() bool { return len(statusOf(h, "mix").FellBack()) == 0 })
	if got := statusOf(h, "mix").Rungs[ByBuiltin]; got != 1 {
		t.Errorf("the built-in answered %d calls for the chain, want 1", got)
	}
}

// A built-in that only an annotation names is told of once it was asked; a name that
// somebody made up is none of a strategy.
func TestWhatAnnotationsNameIsTold(t *testing.T) {
	t.Parallel()
	calls := &heard{}
	h := testHost(t, Config{}, func(o *Options) { o.OnCall = calls.on })
	names := func() (out []string) {
		for _, st := range h.Status() {
			out = append(out, st.Name+" "+string(st.Role))
		}
		return out
	}
	if diff := cmp.Diff([]string{"cost-optimal serving", "savings serving"}, names()); diff != "" {
		t.Error(diff)
	}
	w := testWorld()
	w.Pools[0].Annotations = map[string]string{model.AnnotationInstanceSelection: "first-fit"}
	w.Pools[1].Annotations = map[string]string{model.AnnotationInstanceSelection: "no-such"}
	if _, err := h.Price(context.Background(), w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cost-optimal serving", "savings serving", "first-fit serving"}, names()); diff != "" {
		t.Error(diff)
	}
	if st := statusOf(h, "first-fit"); st.State != InProcess || st.Calls != 1 || len(st.FellBack()) != 0 {
		t.Errorf("told %+v", st)
	}
	for _, c := range calls.level(LevelPrice) {
		if c.Unknown != (c.Strategy == "no-such") || !slices.Contains([]string{"first-fit", "no-such"}, c.Strategy) {
			t.Errorf("call of %s, unknown %t", c.Strategy, c.Unknown)
		}
	}
}
