package disrupt

import (
	"math"
	"strconv"

	"github.com/weir-project/weir/core/model"
)

// balancedFloor is the least Balanced score that is approved: 1/k with k = 2.
const balancedFloor = 0.5

// EvictionCost is the cost of moving one pod: 1 for an ordinary one, between -10
// and 10 with its priority and its pod-deletion-cost.
func EvictionCost(p *model.Pod) float64 {
	cost := 1 + float64(p.Priority)/(1<<25)
	if v, ok := p.Annotations[model.AnnotationPodDeletionCost]; ok {
		if n, err := strconv.ParseInt(v, 10, 32); err == nil {
			cost += float64(n) / (1 << 27)
		}
	}
	return min(max(cost, -10), 10)
}

// MoveCost is the cost of disrupting a node: 1 plus the positive eviction costs of
// the pods that would have to be rescheduled.
func MoveCost(n *model.Node) float64 {
	cost := 1.0
	for _, p := range n.Pods {
		if p.Reschedulable() {
			cost += max(0, EvictionCost(p))
		}
	}
	return cost
}

// empty says whether nothing on the node has a positive eviction cost.
func empty(n *model.Node) bool { return MoveCost(n) <= 1 }

// BalancedScore weighs the share of a pool's price that a move saves against the
// share of the pool's move cost that it takes. savings and poolPrice are USD per
// hour. Nothing saved, or totals of zero, score 0.
func BalancedScore(savings, poolPrice, cost, poolCost float64) float64 {
	if savings <= 0 || poolPrice <= 0 || cost <= 0 || poolCost <= 0 {
		return 0
	}
	s := (savings / poolPrice) / (cost / poolCost)
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return 0
	}
	return s
}

// totals are the sums over all nodes of a pool that Balanced scores refer to.
type totals struct{ price, cost float64 }

func poolTotals(w *model.World) map[string]totals {
	out := map[string]totals{}
	for _, n := range w.Nodes {
		if !n.Managed() || n.Pool() == "" {
			continue
		}
		t := out[n.Pool()]
		if n.PriceKnown {
			t.price += n.USDPerHour
		}
		t.cost += MoveCost(n)
		out[n.Pool()] = t
	}
	return out
}
