package disrupt

import (
	"github.com/weir-project/weir/core/model"
)

// strategyBounds is the limits that instance-selection strategies set for pools, as
// far as they concern moves: what they bought is not to be undone by consolidation.
// Nil = there are none.
type strategyBounds struct {
	pools map[string]*poolBounds
	sizes map[string]int64 // pods of each workload
}

type poolBounds struct {
	strategy string
	limits   []model.StrategyLimit
	nodes    []*model.Node // of the pool, those that stay
}

func newStrategyBounds(w *model.World, prices *model.Prices, leaving func(*model.Node) bool) *strategyBounds {
	if prices == nil {
		return nil
	}
	b := &strategyBounds{pools: map[string]*poolBounds{}, sizes: map[string]int64{}}
	for name, pp := range prices.ByPool {
		if len(pp.Limits) > 0 {
			b.pools[name] = &poolBounds{strategy: pp.Strategy, limits: pp.Limits}
		}
	}
	if len(b.pools) == 0 {
		return nil
	}
	for _, p := range w.Pods {
		b.sizes[p.Workload()]++
	}
	for _, n := range w.Nodes {
		if n.BeingRemoved() {
			continue
		}
		if pb := b.pools[n.Pool()]; pb != nil && n.Managed() && !leaving(n) {
			pb.nodes = append(pb.nodes, n)
		}
		for _, p := range n.Pods {
			if p.Active() {
				b.sizes[p.Workload()]++
			}
		}
	}
	return b
}

// crowded says whether one more pod of the tenant's workload is more than the room may
// hold.
func (r *rooms) crowded(t *tenant, i int) bool {
	b := r.around.bounds
	workload := t.pod.Workload()
	if b == nil || workload == "" {
		return false
	}
	x := r.list[i]
	pb := b.pools[x.node.Pool()]
	if pb == nil {
		return false
	}
	for _, l := range pb.limits {
		if l.PodsPerNode == nil {
			continue
		}
		n := int64(1)
		for _, o := range x.node.Pods {
			if o != t.pod && o.Active() && o.Workload() == workload {
				n++
			}
		}
		for _, g := range x.guests {
			if g != t && g.pod.Workload() == workload {
				n++
			}
		}
		if n > l.PodsPerNode.Of(b.sizes[workload]) {
			return true
		}
	}
	return false
}

// mix counts the nodes of a pool for one limit.
type mix struct {
	limit         *model.StrategyLimit
	strategy      string
	total, picked float64          // of a share
	nodes         int64            // of a variety
	on            map[string]int64 // of a variety, by place
}

// mixes counts the nodes that stay, by pool.
func (b *strategyBounds) mixes() map[string][]*mix {
	if b == nil {
		return nil
	}
	out := map[string][]*mix{}
	for name, pb := range b.pools {
		for i := range pb.limits {
			if pb.limits[i].PodsPerNode != nil {
				continue
			}
			m := &mix{limit: &pb.limits[i], strategy: pb.strategy, on: map[string]int64{}}
			for _, n := range pb.nodes {
				m.count(n, 1)
			}
			out[name] = append(out[name], m)
		}
	}
	return out
}

// count takes a node in (by +1) or out (by -1).
func (m *mix) count(n *model.Node, by int64) {
	if v := m.limit.Variety; v != nil {
		if place, ok := v.Place(n.InstanceType(), n.Zone(), n.CapacityType()); ok {
			m.nodes += by
			if m.on[place] += by; m.on[place] == 0 {
				delete(m.on, place)
			}
		}
		return
	}
	x := 1.0
	switch m.limit.Share.Measure {
	case model.MeasureCPU:
		x = float64(n.Capacity.Get("cpu"))
	case model.MeasureUSDPerHour:
		if x = n.USDPerHour; !n.PriceKnown {
			x = 0
		}
	}
	m.total += float64(by) * x
	if m.limit.Share.Selector.Picks(func(key string) (string, bool) { v, ok := n.Labels[key]; return v, ok }) {
		m.picked += float64(by) * x
	}
}

// over is how far the nodes are from what the limit asks, 0 = it holds: by how much a
// share misses its bounds; how many places are missing, and how many nodes lie where
// there are too many.
func (m *mix) over() float64 {
	if s := m.limit.Share; s != nil {
		if m.total <= 1e-9 {
			return 0
		}
		return max(0, m.picked/m.total-s.Max-1e-9, s.Min-m.picked/m.total-1e-9)
	}
	v := m.limit.Variety
	over := max(0, v.Min-int64(len(m.on))) // also where there are fewer nodes: a place that is had is kept
	for _, n := range m.on {
		over += max(0, n-(m.nodes+v.Min-1)/v.Min)
	}
	return float64(over)
}

// unmixes says which limit the pool would break, or break further, if an under-used
// node went as well. Empty nodes carry nothing that a limit protects, and drifted ones
// must go.
func (p *planner) unmixes(n *model.Node) *model.Blocked {
	for _, m := range p.mixes[n.Pool()] {
		before := m.over()
		m.count(n, -1)
		after := m.over()
		m.count(n, 1)
		if after <= before+1e-9 {
			continue
		}
		what := "the pool's shares would not be what was asked for"
		if m.limit.Variety != nil {
			what = "the pool's nodes would be less even over places than was asked for"
		}
		return no(BlockedStrategy, "limit %q of strategy %s: without this node %s", m.limit.Name, m.strategy, what)
	}
	return nil
}

// left takes a node that goes out of the counts.
func (p *planner) left(n *model.Node) {
	for _, m := range p.mixes[n.Pool()] {
		m.count(n, -1)
	}
}
