package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/model"
)

// varied is a new node of a pool that is to lie in several places.
type varied struct {
	menu *menu
	pk   *packer
	col  *column
	node *model.NewNode
}

// maxVarietyRatio is how much dearer, in effective price, a node may become so that
// it lies in another place.
const maxVarietyRatio = 2

// aims says whether a strategy asks for a least share in one of the pools.
func aims(tier []*pool) bool {
	return slices.ContainsFunc(tier, func(p *pool) bool {
		return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.aim })
	})
}

// shortfalls spreads the new nodes over places where a strategy asks for it, and
// notes what strategies aimed at and did not get.
func (pr *problem) shortfalls(res *Result) {
	for _, p := range pr.pools {
		res.Shortfalls = append(res.Shortfalls, p.shareShortfalls()...)
		if len(p.varieties) > 0 {
			pr.vary(p)
			for _, l := range p.varieties {
				if s, ok := varietyShortfall(pr.w, p.Pool, l, res.New); ok {
					res.Shortfalls = append(res.Shortfalls, s)
				}
			}
		}
	}
}

// places counts the nodes of a pool by place, for one limit.
type places struct {
	limit *model.Variety
	on    map[string]int64
	used  int64
	want  int64 // how many places there have to be
	most  int64 // nodes of one place
	left  int64 // nodes that have no place yet
}

func (v *places) place(o *model.Offering) (string, bool) {
	return v.limit.Place(o.Type.Name, o.Zone, o.CapacityType)
}

func (v *places) add(place string) {
	if v.on[place]++; v.on[place] == 1 {
		v.used++
	}
}

// wrong says whether a node with this offering would go against the limit.
func (v *places) wrong(o *model.Offering) bool {
	place, ok := v.place(o)
	if !ok {
		return false
	}
	n := v.on[place]
	return n+1 > v.most || n > 0 && v.want-v.used >= v.left
}

// evenPart is how many places n nodes are to lie in, and how many one may hold.
func evenPart(v *model.Variety, n int64) (want, most int64) {
	return min(v.Min, n), (n + v.Min - 1) / v.Min
}

// vary chooses among the offerings that hold the same pods of each new node of the
// pool the cheapest that keeps the nodes even over places. Nodes with the fewest
// choices come first.
func (pr *problem) vary(p *pool) {
	var nodes []*varied
	for i := range pr.varied {
		if pr.varied[i].menu.pool == p {
			nodes = append(nodes, &pr.varied[i])
		}
	}
	if len(nodes) == 0 {
		return
	}
	var all []*places
	for _, l := range p.varieties {
		v := &places{limit: l.Variety, on: map[string]int64{}}
		for _, n := range staying(pr.w, p.Name) {
			if place, ok := v.limit.Place(n.InstanceType(), n.Zone(), n.CapacityType()); ok {
				v.add(place)
			}
		}
		total := int64(0)
		for _, n := range v.on {
			total += n
		}
		for _, n := range nodes {
			if _, ok := v.place(n.node.Offering); ok {
				v.left++
			}
		}
		v.want, v.most = evenPart(l.Variety, total+v.left)
		all = append(all, v)
	}
	choices := map[*column][]int{}
	for _, n := range nodes {
		if _, ok := choices[n.col]; !ok {
			choices[n.col] = n.choices()
		}
	}
	slices.SortStableFunc(nodes, func(a, b *varied) int { return cmp.Compare(len(choices[a.col]), len(choices[b.col])) })
	chosen := make([]int, len(nodes))
	for k, n := range nodes {
		best, wrongs := -1, len(all)+1
		for _, i := range choices[n.col] {
			wrong := 0
			for _, v := range all {
				if v.wrong(p.class.offerings[i]) {
					wrong++
				}
			}
			if wrong < wrongs {
				best, wrongs = i, wrong
			}
			if wrong == 0 {
				break
			}
		}
		chosen[k] = best
		for _, v := range all {
			if place, ok := v.place(p.class.offerings[best]); ok {
				v.add(place)
				v.left--
			}
		}
	}
	made := map[[2]any]*model.NewNode{}
	for k, n := range nodes {
		key := [2]any{n.col, chosen[k]}
		if made[key] == nil {
			made[key] = n.as(chosen[k], all)
		}
		m := made[key]
		if !p.flexible(m) {
			continue // it keeps the place where it has the choice that minValues ask for
		}
		n.node.Offering, n.node.Effective, n.node.Daemons, n.node.Alternatives = m.Offering, m.Effective, m.Daemons, m.Alternatives
		n.node.Requirements, n.node.Labels = m.Requirements, m.Labels
	}
}

// flexible says whether a node names as many different values as minValues ask for.
func (p *pool) flexible(n *model.NewNode) bool {
	for _, r := range p.minKeys {
		if len(distinctLabels(offers(n), r.Key)) < r.MinValues {
			return false
		}
	}
	return true
}

// choices is the offerings that the node may be bought with instead, cheapest first:
// same capacity type, same pods legal, no larger where that is limited, counted alike
// for shares. Its own is one of them.
func (n *varied) choices() []int {
	m, p := n.menu, n.menu.pool
	own := n.node.Offering
	size, specs := m.wants(n.pk, n.col)
	self := n.col.opt.offering
	out := []int{}
	for _, i := range m.order {
		o := p.class.offerings[i]
		if o == own {
			out = append(out, i)
			continue
		}
		if o.CapacityType == own.CapacityType && o.ReservationID == "" && own.ReservationID == "" && len(p.prices.Steps[self]) == 0 && len(p.prices.Steps[i]) == 0 &&
			p.effective(i) <= maxVarietyRatio*n.node.Effective+1e-12 && p.noLarger(i, own) && p.keepsShares(i, self) && m.legal(i, size, specs) {
			out = append(out, i)
		}
	}
	return out
}

// as is the node bought with an offering. Its alternatives lie in the same place, or,
// over spot pools, in places that are not full; minValues, which ask for choice, come
// before that.
func (n *varied) as(offering int, all []*places) *model.NewNode {
	p := n.menu.pool
	size, specs := n.menu.wants(n.pk, n.col)
	own := p.class.offerings[offering]
	keep := func(i int) bool {
		for _, v := range all {
			here, ok := v.place(own)
			there, _ := v.place(p.class.offerings[i])
			if ok && here != there && (v.limit.Over == model.OverZones || v.on[there] >= v.most) {
				return false
			}
		}
		return true
	}
	if len(p.minKeys) > 0 {
		keep = nil
	}
	m := n.menu.as(n.pk, n.col, offering, size, specs, keep)
	if len(p.prices.Steps[offering]) > 0 {
		m.Effective = n.node.Effective
	}
	return m
}

// varietyShortfall says how the running and the new nodes of a pool miss the variety
// that was asked for; only what the new ones could have made better counts.
func varietyShortfall(w *model.World, p *model.Pool, l *model.StrategyLimit, launch []*model.NewNode) (model.Shortfall, bool) {
	on := map[string]int64{}
	fresh := map[string]bool{}
	total, bought := int64(0), int64(0)
	for _, n := range staying(w, p.Name) {
		if place, ok := l.Variety.Place(n.InstanceType(), n.Zone(), n.CapacityType()); ok {
			on[place]++
			total++
		}
	}
	for _, n := range launch {
		if n.Pool != p {
			continue
		}
		if place, ok := l.Variety.Place(n.Offering.Type.Name, n.Offering.Zone, n.Offering.CapacityType); ok {
			on[place]++
			fresh[place] = true
			total++
			bought++
		}
	}
	if bought == 0 {
		return model.Shortfall{}, false
	}
	what := "zones"
	if l.Variety.Over == model.OverSpotPools {
		what = "spot pools"
	}
	want, most := evenPart(l.Variety, total)
	if n := int64(len(on)); n < want {
		return model.Shortfall{Pool: p.Name, Limit: l.Name, Message: fmt.Sprintf("%d %s were asked for, the %d nodes lie in %d: the pods may run in no others, or those cost more than twice as much",
			want, what, total, n)}, true
	}
	for _, place := range sortedKeys(fresh) {
		if on[place] > most {
			return model.Shortfall{Pool: p.Name, Limit: l.Name, Message: fmt.Sprintf("%s holds %d of %d nodes, its even part is %d: the pods may run in no others, or those cost more than twice as much",
				place, on[place], total, most)}, true
		}
	}
	return model.Shortfall{}, false
}
