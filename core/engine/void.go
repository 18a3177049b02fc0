package engine

import (
	"slices"

	"github.com/weir-project/weir/core/model"
)

// prune takes out the steps that nothing could ever keep: node terms and taints that
// leave no pool and no node, affinity to pods that do not exist, spreads over a label
// that nothing has. Pods that could have no place whatever they gave up are marked.
func (r *relaxer) prune(all []*wishes) {
	type question struct {
		x    *wishes
		step int // -1 = none of them
	}
	var asked []question
	var samples []*model.Pod
	for _, x := range all {
		add := func(k int, one []step) {
			s := wishes{pod: x.pod, steps: one}
			f := s.form(0)
			p := *x.pod
			p.Topology, p.Form = f.topology, f.mark
			asked, samples = append(asked, question{x, k}), append(samples, &p)
		}
		add(-1, nil)
		for k, s := range x.steps {
			if s.kind == stepNode || s.kind == stepTaints {
				add(k, []step{s})
			}
		}
	}
	can := r.possible(samples)
	r.can = can
	void := map[*wishes]map[int]bool{}
	mark := func(x *wishes, k int) {
		if void[x] == nil {
			void[x] = map[int]bool{}
		}
		void[x][k] = true
	}
	for i, q := range asked {
		if q.step < 0 {
			q.x.base = can.groups[i]
		}
		if can.pods[i] {
			continue
		}
		if q.step >= 0 {
			mark(q.x, q.step)
			continue
		}
		q.x.hopeless = true
	}
	for _, x := range all {
		for k, s := range x.steps {
			if x.hopeless {
				break
			}
			if s.kind == stepNear && !r.exists(s.term) || s.kind == stepSpread && !can.label(s.spread.Key) {
				mark(x, k)
			}
		}
	}
	for x, gone := range void {
		var left []step
		for k, s := range x.steps {
			if gone[k] {
				x.void = append(x.void, s)
			} else {
				left = append(left, s)
			}
		}
		x.steps = left
	}
}

// possibilities is what single pods could get of pools and nodes.
type possibilities struct {
	pr     *problem
	pods   []bool
	groups []*group // of the pods
}

// possible says of each pod whether some offering of some pool or some node would take
// it, were it the only one.
func (r *relaxer) possible(pods []*model.Pod) *possibilities {
	pr := &problem{w: r.w, prices: r.prices, class: map[string]*class{}}
	if pr.prices == nil {
		pr.prices = &model.Prices{}
	}
	pr.group(pods)
	pr.compilePools()
	out := &possibilities{pr: pr, pods: make([]bool, len(pods)), groups: make([]*group, len(pods))}
	at := make(map[*model.Pod]int, len(pods))
	for i, p := range pods {
		at[p] = i
	}
	space := NewSpace(r.w)
	for _, g := range pr.groups {
		can := pr.buyable(g) || slices.ContainsFunc(space.nodes, func(sp *spot) bool {
			return g.req.Fits(sp.free) && sp.allows(g.spec.pod, g.spec.terms) == nil
		})
		for _, p := range g.pods {
			out.pods[at[p]], out.groups[at[p]] = can, g
		}
	}
	return out
}

// buyable says whether some pool may buy something that holds one pod of the group.
func (pr *problem) buyable(g *group) bool {
	for _, p := range pr.pools {
		e := g.spec.elig[p.index]
		if e.bits == nil {
			continue
		}
		some := false
		e.bits.each(func(i int) {
			some = some || p.usable.has(i) && p.holds(i, g.size) && p.limits.times(p.class.offerings[i].Type.Capacity, 1) > 0
		})
		if some {
			return true
		}
	}
	return false
}

// exists says whether the term picks a running pod on a node with the label, or a
// waiting one.
func (r *relaxer) exists(t model.PodTerm) bool {
	if slices.ContainsFunc(r.pods, t.Selector.Picks) {
		return true
	}
	return slices.ContainsFunc(r.w.Nodes, func(n *model.Node) bool {
		_, ok := n.Labels[t.Key]
		return ok && slices.ContainsFunc(n.Pods, func(p *model.Pod) bool { return p.Active() && t.Selector.Picks(p) })
	})
}

// label says whether nodes have the label, or can be bought with it.
func (c *possibilities) label(key string) bool {
	if key == model.LabelHostname {
		return true
	}
	for _, p := range c.pr.pools {
		if p.why == nil && c.pr.gives(p, key) {
			return true
		}
	}
	return slices.ContainsFunc(c.pr.w.Nodes, func(n *model.Node) bool { _, ok := n.Labels[key]; return ok })
}

// gives says whether nodes of a pool can have the label with a known value.
func (pr *problem) gives(p *pool, key string) bool {
	if ofOffering(key) {
		idx := p.class.index(key)
		return slices.ContainsFunc(idx.bits, func(b bitset) bool { return intersects(b, p.usable) })
	}
	r, ok := p.Requirements.Get(key)
	return ok && r.Finite() && len(r.Values) > 0
}
