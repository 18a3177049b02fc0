package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// asked is a budget that ends after so many questions of each kind; less than 0 = never.
type asked struct{ improve, place, questions int }

func (a asked) budget() (*model.TimeBudget, *asked) {
	left := a
	ends := func(n *int) func() bool {
		return func() bool {
			left.questions++
			if *n != 0 {
				*n--
				return true
			}
			return false
		}
	}
	return &model.TimeBudget{Limit: time.Second, Improve: ends(&left.improve), Place: ends(&left.place)}, &left
}

func within(w *model.World, a asked) (*model.World, *asked) {
	out := *w
	var left *asked
	out.Budget, left = a.budget()
	return &out, left
}

// outline is a plan as text.
func outline(r *engine.Result) []string {
	var out []string
	for _, pl := range r.Placements {
		out = append(out, "on "+pl.Node.ID()+names(pl.Pods))
	}
	for _, n := range r.New {
		out = append(out, "new "+n.Name+" "+n.Offering.Key()+names(n.Pods))
	}
	for _, v := range r.Unplaced {
		out = append(out, "left "+v.Pod.ID()+" "+v.Reasons[0].Message)
	}
	return out
}

func names(pods []*model.Pod) string {
	var b strings.Builder
	for _, p := range pods {
		b.WriteString(" " + p.ID())
	}
	return b.String()
}

// complete says that every waiting pod has a place or a verdict, and one of them only.
func complete(t *testing.T, seed uint64, w *model.World, r *engine.Result) {
	t.Helper()
	seen := map[*model.Pod]int{}
	for _, pl := range r.Placements {
		for _, p := range pl.Pods {
			seen[p]++
		}
	}
	for _, n := range r.New {
		for _, p := range n.Pods {
			seen[p]++
		}
	}
	for _, v := range r.Unplaced {
		seen[v.Pod]++
		if len(v.Reasons) == 0 {
			t.Errorf("seed %d: the verdict of %s has no reason", seed, v.Pod.ID())
		}
	}
	for _, p := range w.Pods {
		if seen[p] != 1 {
			t.Errorf("seed %d: pod %s is %d times in the plan, want once", seed, p.ID(), seen[p])
		}
	}
	if len(seen) != len(w.Pods) {
		t.Errorf("seed %d: %d pods in the plan, %d wait", seed, len(seen), len(w.Pods))
	}
}

// steps are numbers of questions after which budgets end: the first ones, and then ever
// fewer of them.
func steps(questions int) []int {
	var out []int
	for n := 0; n < questions; n += 1 + n/5 {
		out = append(out, n)
	}
	return append(out, questions)
}

// Whenever the time ends, each pod has a place or a verdict, the plan is legal, and it
// says that it was stopped. With a budget that does not end it is the very same plan.
func TestABudgetMayEndAtAnyTime(t *testing.T) {
	t.Parallel()
	stopped, cut := 0, 0
	for seed := range uint64(proofSeeds / 10) {
		d := seeded(seed)
		w := proofWorld(d)
		prices := proofPrices(d, w)
		free := engine.Place(w, prices)
		endless, count := within(w, asked{improve: -1, place: -1})
		same := engine.Place(endless, prices)
		if diff := cmp.Diff(outline(free), outline(same)); diff != "" || same.Budget != nil {
			t.Errorf("seed %d: with an endless budget (-without +with): %s, end %v", seed, diff, same.Budget)
		}
		for _, n := range steps(count.questions) {
			for _, a := range []asked{{improve: n, place: -1}, {improve: -1, place: n}, {improve: n / 2, place: n}} {
				x, _ := within(w, a)
				r := engine.Place(x, prices)
				complete(t, seed, w, r)
				sound(t, w, prices, r)
				unseen := len(slices.DeleteFunc(slices.Clone(r.Unplaced), func(v model.Verdict) bool { return !engine.Unseen(v) }))
				switch {
				case r.Budget == nil && unseen > 0:
					t.Errorf("seed %d, %+v: %d pods were not looked at, and nothing says so", seed, a, unseen)
				case r.Budget == nil:
					if diff := cmp.Diff(outline(free), outline(r)); diff != "" {
						t.Errorf("seed %d, %+v: another plan that was not stopped: %s", seed, a, diff)
					}
				case r.Budget.Unseen != unseen:
					t.Errorf("seed %d, %+v: %d pods were not looked at, the plan says %d", seed, a, unseen, r.Budget.Unseen)
				}
				if r.Budget != nil {
					stopped++
				}
				if unseen > 0 {
					cut++
				}
				if a.place < 0 && unseen > 0 && !contested(w) {
					t.Errorf("seed %d, %+v: %d pods were not looked at though only what makes a plan cheaper had to end", seed, a, unseen)
				}
				if t.Failed() {
					return
				}
			}
		}
	}
	if stopped < 1000 || cut < 500 {
		t.Errorf("%d plans were stopped, in %d pods were not looked at: the draws do not try what they are for", stopped, cut)
	}
}

// contested says that pods differ in priority.
func contested(w *model.World) bool {
	return slices.ContainsFunc(w.Pods, func(p *model.Pod) bool { return p.Priority != w.Pods[0].Priority })
}

// More time never makes a plan dearer, and never leaves more pods without a place, where
// the pools have one weight and pods ask and prefer nothing of each other: what they do
// can make the last of several attempts the dearer one.
func TestMoreBudgetIsNeverWorse(t *testing.T) {
	t.Parallel()
	cheaper := 0
	for seed := range uint64(proofSeeds / 4) {
		d := seeded(seed)
		w := proofWorld(d)
		for _, p := range w.Pods {
			p.Topology, p.Soft, p.Preferred, p.Priority = nil, nil, nil, 0
		}
		for _, p := range w.Pools {
			p.Weight = 0
			p.Taints = slices.DeleteFunc(p.Taints, func(x model.Taint) bool { return x.Effect == model.PreferNoSchedule })
		}
		endless, count := within(w, asked{improve: -1, place: -1})
		engine.Place(endless, nil)
		before, left := -1.0, 0
		for _, n := range steps(count.questions) {
			x, _ := within(w, asked{improve: n, place: -1})
			r := engine.Place(x, nil)
			usd := total(r)
			switch {
			case before < 0:
			case len(r.Unplaced) > left:
				t.Errorf("seed %d: after %d questions %d pods have no place, %d had none with less time", seed, n, len(r.Unplaced), left)
			case len(r.Unplaced) == left && usd > before+1e-9:
				t.Errorf("seed %d: after %d questions %v USD/h, %v with less time", seed, n, usd, before)
			case usd < before-1e-9:
				cheaper++
			}
			before, left = usd, len(r.Unplaced)
		}
	}
	if cheaper < 20 {
		t.Errorf("only %d times did more time make a plan cheaper", cheaper)
	}
}
