package engine_test

import (
	"slices"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// What Place would buy is legal as a draft, too, and names the same machines; and Ask
// offers the pods of every such node on the machine it was bought with.
func TestPlansOfPlaceAreLegalDrafts(t *testing.T) {
	t.Parallel()
	tried := 0
	for seed := range uint64(400) {
		d := seeded(seed)
		w := proofWorld(d)
		prices := proofPrices(d, w)
		r := engine.Place(w, prices)
		// Preferences, labels of one's own and neighbours on nodes that are there are no part
		// of a draft.
		if slices.ContainsFunc(w.Pods, func(p *model.Pod) bool { return len(p.Preferred) > 0 || !p.Soft.None() }) ||
			slices.ContainsFunc(r.New, func(n *model.NewNode) bool { return n.Labels["rack"] != "" }) || len(r.New) == 0 || len(r.Placements) > 0 || len(r.Relaxed) > 0 || len(r.Shortfalls) > 0 {
			continue
		}
		tried++
		var drafts []model.Draft
		for _, n := range r.New {
			drafts = append(drafts, model.Draft{Pool: n.Pool, Offering: n.Offering, Pods: n.Pods})
		}
		if err := engine.CheckDrafts(w, prices, drafts); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		asked := engine.Ask(w, prices, w.Pools)
		groups := map[*model.Pod]int{}
		for i, g := range asked.Groups {
			for _, p := range g.Pods {
				groups[p] = i
			}
		}
		for _, n := range r.New {
			for _, p := range n.Pods {
				g, ok := groups[p]
				if !ok || !offered(w, asked, g, n) {
					t.Errorf("seed %d: pod %s is bought %s in pool %s, which Ask does not offer", seed, p.ID(), n.Offering.Key(), n.Pool.Name)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d worlds were tried", tried)
	}
}

func offered(w *model.World, a *engine.Asked, group int, n *model.NewNode) bool {
	for i, p := range w.Pools {
		if p != n.Pool {
			continue
		}
		for _, k := range a.Groups[group].On[i] {
			if w.Offerings[p.NodeClass.Name][k] == n.Offering {
				return true
			}
		}
	}
	return false
}
