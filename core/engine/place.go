package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weir-project/weir/core/model"
)

// Result is where the waiting pods of a world may run.
type Result struct {
	Placements []model.Placement // on nodes that exist or are on their way
	New        []*model.NewNode
	Unplaced   []model.Verdict
	Relaxed    []Relaxation // preferences that were given up
	Notes      []string     // what else is to be said of preferences
	Bound      float64      // USD per hour that no legal plan for the pods on New can go below, real money
	Shortfalls []model.Shortfall
	Budget     *model.BudgetEnd // nil = planning was not stopped by its time budget

	// tied says that the plan was made with more than the rules ask for, such as a zone
	// that was chosen for the sake of a spread: Bound is then not proven by it.
	tied bool
	cut  bool // the time ended before all pods were looked at

	// guests are pods without a place that were to share a node with one they must be near
	// and that does not need them.
	guests map[*model.Pod]bool
}

// Place finds a place for every waiting pod of the world that can have one: on
// existing nodes first, then on new ones of the pools in the order of their weight.
// Pools of equal weight compete by price. Where room or limits do not suffice for all,
// pods of higher priority come first. prices may be nil: the market's hold.
//
// When the world's budget ends, what makes a plan cheaper is left out first. Where not
// even that suffices, pods that were not looked at have a verdict that says so; what is
// planned is legal all the same.
func Place(w *model.World, prices *model.Prices) *Result {
	w, deadline := timed(w)
	r := underPolicy(w, prices)
	r.Budget = ended(deadline, r)
	if r.tied && len(r.New) > 0 {
		if r.Bound = 0; !w.Budget.MayPlace() {
			return r
		}
		var pods []*model.Pod
		for _, n := range r.New {
			pods = append(pods, n.Pods...)
		}
		r.Bound = bound(w, prices, pods)
	}
	return r
}

// placeAll finds places for some of the waiting pods; ranked = higher priorities are
// served first, whatever that costs.
func placeAll(w *model.World, prices *model.Prices, waiting []*model.Pod, ranked bool) *Result {
	r, misfits := pass(w, prices, waiting, nil, ranked, nil)
	if len(misfits) > 0 && w.Budget.MayPlace() { // once more, knowing which nodes are bought for others: they may count for spreads
		r, misfits = again(w, prices, waiting, nil, ranked, r, misfits)
	}
	var out []model.Verdict
	without := map[*model.Pod]bool{}
	for attempt := 0; len(misfits) > 0; attempt++ {
		if !w.Budget.MayPlace() {
			return stripped(w, prices, r, misfits)
		}
		// Limits or room ended before all pods had a place, and those that have one
		// cannot run without the others: take them out and plan again. The last
		// attempt leaves out everything that asks something of others.
		if attempt == maxReplans {
			misfits = nil
			for _, p := range waiting {
				if !without[p] && !p.Topology.None() {
					misfits = append(misfits, misfit{p, model.Reason{Filter: model.FilterTopology, Message: "no way was found to place it together with the pods that its spreads and affinities count"}})
				}
			}
		}
		for _, m := range misfits {
			without[m.pod] = true
			out = append(out, model.Verdict{Pod: m.pod, Reasons: []model.Reason{m.why}})
		}
		pods := slices.DeleteFunc(slices.Clone(waiting), func(p *model.Pod) bool { return without[p] })
		r, misfits = again(w, prices, pods, out, ranked, r, misfits)
		if attempt == maxReplans {
			break
		}
	}
	return withoutGuests(w, prices, waiting, out, ranked, r)
}

// withoutGuests plans once more without the pods that found no place together with those
// they must be near: the others can do without them. out is the verdicts of pods that are
// left out already.
func withoutGuests(w *model.World, prices *model.Prices, waiting []*model.Pod, out []model.Verdict, ranked bool, r *Result) *Result {
	if len(r.guests) == 0 || !w.Budget.MayPlace() {
		return r
	}
	kept, gone := slices.Clone(out), map[*model.Pod]bool{}
	for _, v := range out {
		gone[v.Pod] = true
	}
	for _, v := range r.Unplaced {
		if r.guests[v.Pod] {
			kept, gone[v.Pod] = append(kept, v), true
		}
	}
	pods := slices.DeleteFunc(slices.Clone(waiting), func(p *model.Pod) bool { return gone[p] })
	alone, misfits := pass(w, prices, pods, kept, ranked, r.New)
	if len(misfits) == 0 && len(alone.Unplaced) < len(r.Unplaced) {
		return alone
	}
	return r
}

// again is a pass that knows what the one before bought. Where the time ends in the middle
// of it, what can be kept of the one before may be more.
func again(w *model.World, prices *model.Prices, pods []*model.Pod, kept []model.Verdict, ranked bool, before *Result, misfits []misfit) (*Result, []misfit) {
	r, bad := pass(w, prices, pods, kept, ranked, before.New)
	if !r.cut {
		return r, bad
	}
	r, before = stripped(w, prices, r, bad), stripped(w, prices, before, misfits)
	if len(before.Unplaced) < len(r.Unplaced) {
		r = before
	}
	return r, nil
}

// maxReplans is how often misfits are taken out before everything that asks
// something of others is.
const maxReplans = 4

// pass is one attempt over the given pods; kept are verdicts that stand already, before
// is what the attempt before bought.
func pass(w *model.World, prices *model.Prices, pods []*model.Pod, kept []model.Verdict, ranked bool, before []*model.NewNode) (*Result, []misfit) {
	if !w.Budget.MayPlace() {
		return nothing(pods, kept), nil
	}
	pr := compile(w, prices, pods, ranked, before)
	pr.kept = append(pr.kept, kept...)
	res := &Result{Unplaced: pr.kept}
	left := make([]int64, len(pr.groups))
	next := make([]int, len(pr.groups)) // pods of the group that have a place
	res.Placements = pr.existing(next)
	for i, g := range pr.groups {
		if !g.bound {
			left[i] = int64(g.units() - next[i]/g.per)
		}
	}
	var y weights
	if sum(left) > 0 && !pr.unseen {
		all := pr.options(pr.pools, waiting(pr.groups, left))
		_, y = newDual(newHolders(pr.groups, left, all), left, true).maximise()
		before := slices.Clone(left)
		for _, tier := range pr.tiers() {
			if sum(left) == 0 || pr.unseen {
				break
			}
			pr.buy(res, tier, y, left, next, false)
			if sum(left) > 0 && aims(tier) && !pr.unseen {
				pr.buy(res, tier, y, left, next, true)
			}
		}
		placed := make([]int64, len(left))
		for i := range left {
			placed[i] = before[i] - left[i]
		}
		res.Bound, res.tied = pr.proven(placed, y), pr.around != nil
		pr.shortfalls(res)
	}
	for i, g := range pr.groups {
		if next[i] < len(g.pods) {
			if pr.unseen {
				res.Unplaced = append(res.Unplaced, unseenVerdicts(g.pods[next[i]:])...)
				continue
			}
			reasons := pr.reasons(g)
			if g.why != nil {
				reasons = pr.because(g, *g.why)
			}
			for k, p := range g.pods[next[i]:] {
				res.Unplaced = append(res.Unplaced, model.Verdict{Pod: p, Reasons: reasons})
				if g.spec.of != nil && (next[i]+k)%g.per > 0 { // the first of a unit is the host
					if res.guests == nil {
						res.guests = map[*model.Pod]bool{}
					}
					res.guests[p] = true
				}
			}
		}
	}
	sortVerdicts(res.Unplaced)
	res.cut = pr.unseen
	return res, replayPlan(w, res.Placements, res.New)
}

func waiting(groups []*group, left []int64) []*group {
	var out []*group
	for i, g := range groups {
		if left[i] > 0 {
			out = append(out, g)
		}
	}
	return out
}

// existing puts pods on nodes that are there, largest pods first; where priorities are
// looked at, those of the highest before them.
func (pr *problem) existing(next []int) []model.Placement {
	if len(pr.w.Nodes) == 0 {
		return nil
	}
	space := NewSpace(pr.w)
	order := make([]int, len(pr.groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := pr.groups[a].size, pr.groups[b].size
		if pr.ranked && pr.groups[a].priority() != pr.groups[b].priority() {
			return cmp.Compare(pr.groups[b].priority(), pr.groups[a].priority())
		}
		return cmp.Or(cmp.Compare(y[dimCPU], x[dimCPU]), cmp.Compare(y[dimMemory], x[dimMemory]))
	})
	allowed := map[[2]int]bool{} // spec and spot -> whether labels and taints agree
	pods := map[*spot][]*model.Pod{}
	near := make(map[*spot]*neighbours)
	open := space.open()
	for _, gi := range order {
		if pr.unseen = !pr.w.Budget.MayPlace(); pr.unseen {
			break
		}
		g := pr.groups[gi]
		for si := open.next(g.req, 0); si >= 0 && next[gi] < len(g.pods); si = open.next(g.req, si+1) {
			sp := open.spots[si]
			if g.bound && !slices.Contains(g.only, sp.node) {
				continue
			}
			k := [2]int{g.spec.index, si}
			ok, known := allowed[k]
			if !known {
				ok = sp.allows(g.spec.pod, g.spec.terms) == nil
				allowed[k] = ok
			}
			if !ok {
				continue
			}
			nb := pr.near(near, sp)
			for next[gi] < len(g.pods) && g.req.Fits(sp.free) && (nb == nil || nb.room(g, 1) > 0) {
				open.take(si, g.req)
				pods[sp] = append(pods[sp], g.pods[next[gi]:next[gi]+g.per]...)
				next[gi] += g.per
				if nb != nil {
					nb.add(g, 1)
				}
			}
		}
	}
	var out []model.Placement
	for _, sp := range space.nodes {
		if len(pods[sp]) > 0 {
			out = append(out, model.Placement{Node: sp.node, Pods: pods[sp]})
		}
	}
	return out
}

// near is what lies on an existing node, nil where nobody asks.
func (pr *problem) near(known map[*spot]*neighbours, sp *spot) *neighbours {
	if pr.around == nil {
		return nil
	}
	nb := known[sp]
	if nb == nil {
		nb = pr.around.neighbours()
		pre := pr.around.onNode[sp.node]
		copy(nb.tokens, pre.tokens)
		for s, n := range pre.counts {
			nb.counts[s] = n
		}
		if pr.crowd != nil {
			nb.most, nb.held = pr.crowd.caps[sp.node.Pool()].most, pr.crowd.held(sp.node)
		}
		known[sp] = nb
	}
	return nb
}

// tiers is the pools by weight, heaviest first.
func (pr *problem) tiers() [][]*pool {
	var out [][]*pool
	for _, p := range pr.pools {
		if n := len(out); n > 0 && out[n-1][0].Weight == p.Weight {
			out[n-1] = append(out[n-1], p)
		} else {
			out = append(out, []*pool{p})
		}
	}
	return out
}

// buy packs what is left onto new nodes of one tier of pools; noAims gives up the
// least shares that strategies ask for.
func (pr *problem) buy(res *Result, tier []*pool, y weights, left []int64, next []int, noAims bool) {
	options := pr.options(tier, waiting(pr.groups, left))
	if len(options) == 0 {
		return
	}
	pk := &packer{pr: pr, groups: pr.groups, options: options, joins: newJoins(), levels: pr.ranks(), noAims: noAims, y: y, holders: newHolders(pr.groups, left, options)}
	pk.large = slices.ContainsFunc(tier, func(p *pool) bool { return p.prices.PreferLarge })
	value := make([]float64, len(pr.groups))
	newDual(pk.holders, left, false).each(y, func(i int, v float64) { value[i] = max(v, leastValue) })
	for i := range value {
		if value[i] == 0 && left[i] > 0 {
			value[i] = leastValue // no option holds it alone; greedy will find that out
		}
	}
	for i, r := range pk.levels {
		value[i] *= math.Pow(rankFactor, float64(r))
	}
	cols := pk.pack(value, left)
	slices.SortStableFunc(cols, func(a, b column) int {
		return cmp.Or(cmp.Compare(a.opt.pool.index, b.opt.pool.index), cmp.Compare(b.opt.effective, a.opt.effective), cmp.Compare(a.opt.offering, b.opt.offering))
	})
	menus := map[*pool]*menu{}
	for i := range cols {
		c := &cols[i]
		p := c.opt.pool
		if menus[p] == nil {
			menus[p] = pr.newMenu(p, pr.groups)
		}
		proto := menus[p].node(pk, c)
		for range c.times {
			n := *proto
			if len(p.varieties) > 0 {
				pr.varied = append(pr.varied, varied{menus[p], pk, c, &n})
			}
			for _, it := range c.items {
				g := pr.groups[it.group]
				k := int(it.n) * g.per
				n.Pods = append(n.Pods, g.pods[next[it.group]:next[it.group]+k]...)
				next[it.group] += k
			}
			res.New = append(res.New, &n)
		}
	}
	numbers := map[string]int{}
	for _, n := range res.New {
		numbers[n.Pool.Name]++
		n.Name = fmt.Sprintf("%s-%d", n.Pool.Name, numbers[n.Pool.Name])
	}
	pr.bought(cols)
	for _, p := range tier {
		if p.limits == nil {
			continue
		}
		for i := range cols {
			if cols[i].opt.pool == p {
				p.limits.take(p.class.offerings[cols[i].opt.offering].Type.Capacity, cols[i].times)
			}
		}
	}
}
