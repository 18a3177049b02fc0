package provision

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// Plan says where the waiting pods of the world go. prices may be nil: the
// market's hold.
//
// A plan that engine.Check refuses is a fault of the engine or of a strategy's
// numbers; its launches are dropped, the pods keep waiting, and the plan's warnings
// say what was wrong.
//
// A plan that the world's time budget ended says so in Budget and in a warning.
//
// Nodes that a strategy packed by itself (prices.Drafts) are bought as they are, where
// they are legal; what is left is packed beside them. Where they are not, the plan is made
// by prices, and says so.
func Plan(w *model.World, prices *model.Prices) *model.Plan {
	if prices != nil && len(prices.Drafts) > 0 {
		p, err := drafted(w, prices)
		if err == nil {
			return p
		}
		market := *prices
		market.Drafts = nil
		p = Plan(w, &market)
		p.Outcome = "invalid"
		p.Warnings = append(p.Warnings, fmt.Sprintf("the nodes that strategy %s packed by itself cannot be bought, its prices were used: %v", prices.Drafted, err))
		return p
	}
	r := engine.Place(w, prices)
	p := &model.Plan{Kind: model.PlanProvision, Made: w.Now, Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced, LowerBoundUSDPerHour: r.Bound, Shortfalls: r.Shortfalls, Budget: r.Budget}
	p.Strategy, p.Outcome = answeredBy(prices, r.New)
	p.Warnings = append(thinSpot(r.New), youngTaints(w)...)
	p.Warnings = append(p.Warnings, givenUp(r)...)
	p.Warnings = append(p.Warnings, w.UnmatchedCommitments()...)
	if r.Budget != nil {
		p.Warnings = append(p.Warnings, r.Budget.Text("pods", "the plan may be dearer than need be"))
	}
	for _, s := range p.Shortfalls {
		p.Warnings = append(p.Warnings, fmt.Sprintf("NodePool %s: limit %q of strategy %s: %s", s.Pool, s.Limit, prices.ByPool[s.Pool].Strategy, s.Message))
	}
	if bad := engine.CheckPriced(w, p, prices); len(bad) > 0 {
		for _, n := range p.Launch {
			for _, pod := range n.Pods {
				p.Unplaced = append(p.Unplaced, model.Verdict{Pod: pod, Reasons: []model.Reason{{Pool: n.Pool.Name, Filter: model.FilterStrategy, Message: "the plan was refused by the check: " + bad[0].Error()}}})
			}
		}
		for _, err := range bad {
			p.Warnings = append(p.Warnings, fmt.Sprintf("plan refused: %v", err))
		}
		p.Launch, p.Placements, p.Shortfalls, p.LowerBoundUSDPerHour = nil, nil, nil, 0
		for _, pl := range r.Placements {
			for _, pod := range pl.Pods {
				p.Unplaced = append(p.Unplaced, model.Verdict{Pod: pod, Reasons: []model.Reason{{Filter: model.FilterStrategy, Message: "the plan was refused by the check: " + bad[0].Error()}}})
			}
		}
	}
	return p
}

// enoughSpot is how many offers a spot launch should name, so that the fleet has
// pools to choose from.
const enoughSpot = 15

// thinSpot warns of spot launches with little choice.
func thinSpot(nodes []*model.NewNode) []string {
	thin, least := 0, enoughSpot
	for _, n := range nodes {
		if offers := len(n.Alternatives) + 1; n.Offering.CapacityType == model.Spot && offers < enoughSpot {
			thin++
			least = min(least, offers)
		}
	}
	if thin == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d spot nodes name fewer than %d offerings (the least %d): the more a launch may choose from, the fewer interruptions", thin, enoughSpot, least)}
}

// youngTaints warns of taints on nodes that are still starting which nobody declared.
func youngTaints(w *model.World) []string {
	if len(w.Pods) == 0 {
		return nil
	}
	nodes := map[string][]string{} // by pool and taint
	for _, n := range w.Nodes {
		for _, t := range engine.Unexplained(w, n) {
			k := fmt.Sprintf("taint %s that neither their NodeClaims nor NodePool %s declare: nothing is planned onto them until it goes; if an agent takes it away, add it to startupTaints", t, n.Pool())
			nodes[k] = append(nodes[k], n.ID())
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, fmt.Sprintf("%d starting nodes, such as %s, have the %s", len(nodes[k]), slices.Min(nodes[k]), k))
	}
	return out
}

// answeredBy names the strategies whose prices were used, and how they answered.
func answeredBy(prices *model.Prices, nodes []*model.NewNode) (strategy, outcome string) {
	if prices == nil {
		return "market", "ok"
	}
	var names, outcomes []string
	for _, n := range nodes {
		pp := prices.ByPool[n.Pool.Name]
		if pp.Strategy != "" && !slices.Contains(names, pp.Strategy) {
			names = append(names, pp.Strategy)
		}
		if pp.Outcome != "" && !slices.Contains(outcomes, pp.Outcome) {
			outcomes = append(outcomes, pp.Outcome)
		}
	}
	if len(names) == 0 {
		for _, pp := range prices.ByPool {
			if pp.Strategy != "" && !slices.Contains(names, pp.Strategy) {
				names = append(names, pp.Strategy)
			}
		}
	}
	slices.Sort(names)
	slices.Sort(outcomes)
	if len(outcomes) == 0 {
		outcomes = []string{"ok"}
	}
	return strings.Join(names, ", "), strings.Join(outcomes, ", ")
}
