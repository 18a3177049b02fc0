package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// proofSeeds is how many drawn worlds each property is tried on.
const proofSeeds = 400

func planOf(r *engine.Result) *model.Plan {
	return &model.Plan{Kind: model.PlanProvision, Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced, LowerBoundUSDPerHour: r.Bound}
}

// sound fails the test where the check refuses the plan, or where it costs less than
// the bound.
func sound(t *testing.T, w *model.World, prices *model.Prices, r *engine.Result) {
	t.Helper()
	for _, err := range engine.CheckPriced(w, planOf(r), prices) {
		t.Errorf("check: %v", err)
	}
	for _, err := range engine.Check(w, planOf(r)) {
		t.Errorf("check without prices: %v", err)
	}
	if usd := total(r); usd < r.Bound-1e-9 {
		t.Errorf("the plan costs %v, below its bound %v", usd, r.Bound)
	}
	placed := 0
	var onNew []*model.Pod
	for _, n := range r.New {
		onNew = append(onNew, n.Pods...)
	}
	for _, p := range r.Placements {
		placed += len(p.Pods)
	}
	if got := placed + len(onNew) + len(r.Unplaced); got != len(w.Pods) {
		t.Errorf("%d pods have an answer, %d wait", got, len(w.Pods))
	}
	if b := engine.Bound(w, onNew); total(r) < b-1e-9 {
		t.Errorf("the plan costs %v, below Bound of its pods %v", total(r), b)
	}
}

func TestCheckAcceptsEveryPlanOfPlace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(proofSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			d := seeded(seed)
			w := proofWorld(d)
			prices := proofPrices(d, w)
			sound(t, w, prices, engine.Place(w, prices))
		})
	}
}

// written is a plan as text, in an order of its own.
func written(r *engine.Result) []string {
	var out []string
	pods := func(list []*model.Pod) string {
		var names []string
		for _, p := range list {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, n := range r.New {
		var alternatives []string
		for _, a := range n.Alternatives {
			alternatives = append(alternatives, a.Key())
		}
		slices.Sort(alternatives)
		out = append(out, fmt.Sprintf("new %s %s [%s] or %s", n.Pool.Name, n.Offering.Key(), pods(n.Pods), strings.Join(alternatives, " ")))
	}
	for _, p := range r.Placements {
		out = append(out, fmt.Sprintf("node %s [%s]", p.Node.ID(), pods(p.Pods)))
	}
	for _, v := range r.Unplaced {
		var reasons []string
		for _, x := range v.Reasons {
			reasons = append(reasons, fmt.Sprintf("%s %s %d %q", x.Pool, x.Filter, x.TypesLeft, x.Message))
		}
		out = append(out, fmt.Sprintf("no place for %s: %s", v.Pod.Name, strings.Join(reasons, "; ")))
	}
	slices.Sort(out)
	return out
}

func shuffle[T any](d dice, list []T) []T {
	out := slices.Clone(list)
	for i := len(out) - 1; i > 0; i-- {
		j := d.n(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// The order in which pods, pools, nodes, DaemonSets and offerings come in says
// nothing about the world, and changes nothing about the plan.
func TestOrderOfEverythingDoesNotMatter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(proofSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			d := seeded(seed)
			w := proofWorld(d)
			want := written(engine.Place(w, nil))
			again := *w
			again.Pods, again.Pools, again.Nodes, again.DaemonSets = shuffle(d, w.Pods), shuffle(d, w.Pools), shuffle(d, w.Nodes), shuffle(d, w.DaemonSets)
			again.Offerings = map[string][]*model.Offering{}
			for class, list := range w.Offerings {
				again.Offerings[class] = shuffle(d, list)
			}
			if diff := cmp.Diff(want, written(engine.Place(&again, nil))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
