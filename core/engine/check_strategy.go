package engine

import (
	"math"
	"slices"

	"github.com/weir-project/weir/core/model"
)

// strategyLimits verifies the limits that strategies set. A plan that misses what one
// only aims at must say so in its shortfalls.
func (c *checker) strategyLimits(plan *model.Plan) {
	for _, p := range c.w.Pools {
		for _, l := range c.prices.ByPool[p.Name].Limits {
			short := slices.ContainsFunc(plan.Shortfalls, func(s model.Shortfall) bool { return s.Pool == p.Name && s.Limit == l.Name })
			switch {
			case l.Share != nil:
				c.share(p, &l, plan.Launch, short)
			case l.PodsPerNode != nil:
				c.podsPerNode(p, &l, plan)
			case l.Variety != nil:
				c.variety(p, &l, plan.Launch, short)
			}
		}
	}
}

// charged says whether a strategy gave a price for some quantity of an offering.
func charged(pp model.PoolPrices, offering int, usd float64) bool {
	return slices.ContainsFunc(pp.Steps[offering], func(s model.PriceStep) bool { return math.Abs(s.USDPerHour-usd) <= 1e-9 })
}

// share counts the measure of the nodes that stay and of the new ones, at what was
// planned and, for the new ones, at every alternative.
func (c *checker) share(p *model.Pool, l *model.StrategyLimit, launch []*model.NewNode, short bool) {
	if l.Share.Min <= 0 && l.Share.Max >= 1 {
		return // bounds nothing
	}
	amount := func(milliCPU int64, usd float64) float64 {
		switch l.Share.Measure {
		case model.MeasureCPU:
			return float64(milliCPU)
		case model.MeasureUSDPerHour:
			return usd
		}
		return 1
	}
	total, picked := 0.0, 0.0
	for _, n := range c.w.Nodes {
		if n.Claim == nil || n.Labels[model.LabelPool] != p.Name || n.BeingRemoved() {
			continue
		}
		usd := 0.0
		if n.PriceKnown {
			usd = n.USDPerHour
		}
		x := amount(n.Capacity.Get("cpu"), usd)
		total += x
		if l.Share.Selector.Picks(func(key string) (string, bool) { v, ok := n.Labels[key]; return v, ok }) {
			picked += x
		}
	}
	newPicked, newOthers := 0, 0
	for _, n := range launch {
		if n.Pool != p || n.Offering == nil {
			continue
		}
		x := amount(n.Offering.Type.Capacity.Get("cpu"), n.Offering.USDPerHour)
		total += x
		in := l.Share.Selector.Picks(n.Offering.Label)
		if in {
			picked += x
			newPicked++
		} else {
			newOthers++
		}
		for _, a := range n.Alternatives {
			if l.Share.Selector.Picks(a.Label) != in {
				c.fault("new node %s: alternative %s counts otherwise for limit %q", n.Name, a.Key(), l.Name)
			}
			if l.Share.Measure == model.MeasureCPU && a.Type.Capacity.Get("cpu") != n.Offering.Type.Capacity.Get("cpu") {
				c.fault("new node %s: alternative %s has other vCPUs, which limit %q counts", n.Name, a.Key(), l.Name)
			}
		}
	}
	const slack = 1e-6
	if newPicked > 0 && picked > total*l.Share.Max*(1+slack)+slack {
		c.fault("pool %s: limit %q allows a share of %g, %g of %g is planned", p.Name, l.Name, l.Share.Max, picked, total)
	}
	if newOthers > 0 && !short && picked < total*l.Share.Min*(1-slack)-slack {
		c.fault("pool %s: limit %q asks for a share of %g, %g of %g is planned and the plan does not say so", p.Name, l.Name, l.Share.Min, picked, total)
	}
}

// podsPerNode counts the pods of each workload on the nodes that get any.
func (c *checker) podsPerNode(p *model.Pool, l *model.StrategyLimit, plan *model.Plan) {
	sizes := map[string]int64{}
	for _, pod := range c.w.Pods {
		sizes[pod.Workload()]++
	}
	for _, n := range c.w.Nodes {
		for _, pod := range n.Pods {
			if !n.BeingRemoved() && pod.Active() {
				sizes[pod.Workload()]++
			}
		}
	}
	check := func(node string, placed, there []*model.Pod) {
		on, fresh := map[string]int64{}, map[string]bool{}
		for _, pod := range placed {
			on[pod.Workload()]++
			fresh[pod.Workload()] = true
		}
		for _, pod := range there {
			if pod.Active() {
				on[pod.Workload()]++
			}
		}
		for _, k := range sortedKeys(on) {
			if most := l.PodsPerNode.Of(sizes[k]); k != "" && fresh[k] && on[k] > most {
				c.fault("%s: limit %q allows %d of the %d pods of workload %s on a node, %d are planned", node, l.Name, most, sizes[k], k, on[k])
			}
		}
	}
	for _, n := range plan.Launch {
		if n.Pool == p {
			check("new node "+n.Name, n.Pods, nil)
		}
	}
	for _, pl := range plan.Placements {
		if pl.Node.Pool() == p.Name {
			check("node "+pl.Node.ID(), pl.Pods, pl.Node.Pods)
		}
	}
}

// variety counts the places of the nodes that stay and of the new ones.
func (c *checker) variety(p *model.Pool, l *model.StrategyLimit, launch []*model.NewNode, short bool) {
	on, fresh := map[string]int64{}, map[string]bool{}
	total := int64(0)
	for _, n := range c.w.Nodes {
		if place, ok := l.Variety.Place(n.InstanceType(), n.Zone(), n.CapacityType()); ok && n.Claim != nil && n.Pool() == p.Name && !n.BeingRemoved() {
			on[place]++
			total++
		}
	}
	for _, n := range launch {
		if n.Pool != p || n.Offering == nil {
			continue
		}
		if place, ok := l.Variety.Place(n.Offering.Type.Name, n.Offering.Zone, n.Offering.CapacityType); ok {
			on[place]++
			fresh[place] = true
			total++
		}
	}
	if short || len(fresh) == 0 {
		return
	}
	if want := min(l.Variety.Min, total); int64(len(on)) < want {
		c.fault("pool %s: limit %q asks for %d places, the nodes lie in %d and the plan does not say so", p.Name, l.Name, want, len(on))
	}
	for _, place := range sortedKeys(fresh) {
		if most := (total + l.Variety.Min - 1) / l.Variety.Min; on[place] > most {
			c.fault("pool %s: limit %q allows %d nodes in %s, %d are planned and the plan does not say so", p.Name, l.Name, most, place, on[place])
		}
	}
}
