package engine_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// raised is the world with some limits of its pools raised or taken away.
func raised(d dice, w *model.World) *model.World {
	out := *w
	out.Pools = nil
	for _, p := range w.Pools {
		c := *p
		c.Limits.Resources = maps.Clone(p.Limits.Resources)
		for name := range c.Limits.Resources {
			switch d.n(3) {
			case 0:
				c.Limits.Resources[name] *= 2
			case 1:
				c.Limits.Resources[name] += 1 + c.Limits.Resources[name]/4
			case 2:
				delete(c.Limits.Resources, name)
			}
		}
		if p.Limits.Nodes != nil {
			n := *p.Limits.Nodes + int64(1+d.n(3))
			c.Limits.Nodes = &n
			if d.in(3) {
				c.Limits.Nodes = nil
			}
		}
		out.Pools = append(out.Pools, &c)
	}
	return &out
}

// leftOver is the workloads of the pods without a place.
func leftOver(r *engine.Result) []string {
	var out []string
	for _, v := range r.Unplaced {
		workload, _, _ := strings.Cut(v.Pod.Name, "-")
		out = append(out, workload)
	}
	slices.Sort(out)
	return out
}

// A higher limit never leaves more pods without a place, and never makes a plan for
// the same pods dearer. Pools of different weight are another matter: what the
// heavier one may do more it does, whatever that costs.
func TestMoreLimitIsNeverWorse(t *testing.T) {
	t.Parallel()
	limits := 0
	for seed := range uint64(proofSeeds) {
		d := seeded(seed)
		w := proofWorld(d)
		for _, p := range w.Pods {
			p.Topology, p.Soft, p.Preferred, p.Priority = nil, nil, nil, 0
		}
		for _, p := range w.Pools {
			p.Weight = 0
			p.Taints = slices.DeleteFunc(p.Taints, func(x model.Taint) bool { return x.Effect == model.PreferNoSchedule })
			if !p.Limits.None() {
				limits++
			}
		}
		more := raised(d, w)
		before, after := engine.Place(w, nil), engine.Place(more, nil)
		sound(t, more, nil, after)
		switch a, b := len(before.Unplaced), len(after.Unplaced); {
		case b > a:
			t.Errorf("seed %d: %d pods have no place with the higher limit, %d had none before", seed, b, a)
		case b == a && slices.Equal(leftOver(before), leftOver(after)) && total(after) > total(before)+1e-9:
			t.Errorf("seed %d: with the higher limit %v USD/h instead of %v", seed, total(after), total(before))
		}
	}
	if limits < 100 {
		t.Errorf("only %d pools had limits", limits)
	}
}
