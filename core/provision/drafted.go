package provision

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// drafted is the plan with the nodes that a strategy packed by itself, the other pods
// placed by the engine beside them, or why it cannot be used.
func drafted(w *model.World, prices *model.Prices) (*model.Plan, error) {
	nodes, err := engine.Drafted(w, prices, prices.Drafts)
	if err != nil {
		return nil, err
	}
	beside := *w
	beside.Pods, beside.Nodes = nil, slices.Clone(w.Nodes)
	planned := map[*model.Pod]bool{}
	for _, n := range nodes {
		for _, p := range n.Pods {
			planned[p] = true
		}
		beside.Nodes = append(beside.Nodes, onItsWay(w, n))
	}
	for _, p := range w.Pods {
		if !planned[p] {
			beside.Pods = append(beside.Pods, p)
		}
	}
	rest := &model.Plan{}
	if len(beside.Pods) > 0 {
		market := *prices
		market.Drafts = nil
		rest = Plan(&beside, &market)
	}
	plan := &model.Plan{Kind: model.PlanProvision, Made: w.Now, Launch: slices.Concat(nodes, rest.Launch), Unplaced: rest.Unplaced, Placements: rest.Placements,
		Shortfalls: rest.Shortfalls, Budget: rest.Budget, Warnings: rest.Warnings, Strategy: prices.Drafted, Outcome: "ok"}
	numbers := map[string]int{}
	var pods []*model.Pod
	for _, n := range plan.Launch {
		numbers[n.Pool.Name]++
		n.Name = fmt.Sprintf("%s-%d", n.Pool.Name, numbers[n.Pool.Name])
		pods = append(pods, n.Pods...)
	}
	bad := engine.CheckPriced(w, plan, prices)
	if len(bad) > 0 { // what its own plan misses of what a strategy aims at is said, not refused
		plan.Shortfalls = append(plan.Shortfalls, engine.Aims(prices, "the nodes that the strategy packed by itself do not keep it")...)
		bad = engine.CheckPriced(w, plan, prices)
	}
	if len(bad) > 0 {
		return nil, bad[0]
	}
	if plan.Budget == nil {
		plan.LowerBoundUSDPerHour = engine.Bound(w, pods)
	}
	return plan, nil
}

// onItsWay is a planned node as the others see it: its pods count, it counts against
// limits and reservations, and it has no room.
func onItsWay(w *model.World, n *model.NewNode) *model.Node {
	labels := map[string]string{}
	for k, v := range n.Labels {
		labels[k] = v
	}
	name := "drafted/" + n.Name // no name of a cluster
	labels[model.LabelHostname] = name
	x := &model.Node{Labels: labels, Created: w.Now, Capacity: n.Offering.Type.Capacity, USDPerHour: n.Offering.USDPerHour, PriceKnown: true,
		Claim: &model.Claim{Name: name, Pool: n.Pool.Name, Labels: labels, Taints: n.Pool.Taints, Requirements: n.Requirements, Created: w.Now, ExpireAfter: model.Never}}
	for _, p := range n.Pods {
		there := *p
		there.NodeName = name
		x.Pods = append(x.Pods, &there)
	}
	x.Allocatable = x.Promised()
	return x
}
