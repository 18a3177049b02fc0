package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// Asked is waiting pods that need new nodes, grouped by what they ask for, for somebody
// who packs them himself. Pods that have room on nodes that are there are not in it.
type Asked struct {
	Groups []AskedGroup
	Pools  []AskedPool // in the order of the pools that were asked about
}

// AskedGroup is pods that ask for the very same, of themselves and of those around them.
type AskedGroup struct {
	Pods []*model.Pod
	// On is, by pool, where the pods may run and what can be bought: positions in
	// World.Offerings of its class, ascending; nil = nothing. Equal lists are one.
	On [][]int
}

// AskedPool is what counts for every new node of a pool.
type AskedPool struct {
	Daemons []resource.Vector // what daemon pods take, by position in World.Offerings
	Left    map[string]int64  // what its limits leave, nil = no limits
	Nodes   *int64            // how many nodes they leave, nil = any number
}

// Ask groups the waiting pods for which new nodes of the pools would have to be bought.
func Ask(w *model.World, prices *model.Prices, pools []*model.Pool) *Asked {
	pr := compile(w, prices, w.Pods, true, nil)
	next := make([]int, len(pr.groups))
	pr.existing(next)
	var rest []*model.Pod
	for i, g := range pr.groups {
		if !g.bound {
			rest = append(rest, g.pods[next[i]:]...)
		}
	}
	pr = compileDrafts(w, prices, rest)
	out := &Asked{Pools: make([]AskedPool, len(pools))}
	compiled := make([]*pool, len(pools))
	for i, p := range pools {
		compiled[i] = pr.poolOf(p)
		out.Pools[i] = compiled[i].asked(w)
	}
	lists := map[string][]int{}
	for _, g := range pr.groups {
		a := AskedGroup{Pods: g.pods, On: make([][]int, len(pools))}
		some := false
		for i, p := range compiled {
			if p == nil || p.why != nil || g.spec.elig[p.index].bits == nil {
				continue
			}
			bits := g.spec.elig[p.index].bits.clone()
			bits.and(p.usable)
			if bits.empty() {
				continue
			}
			key := fmt.Sprintf("%p%s", p.class, bits.key())
			if lists[key] == nil {
				lists[key] = p.class.listed(bits)
			}
			a.On[i], some = lists[key], true
		}
		if some {
			out.Groups = append(out.Groups, a)
		}
	}
	return out
}

// compileDrafts is the problem without choices for the sake of neighbours: pods are told
// apart by what they ask of others, and that is all.
func compileDrafts(w *model.World, prices *model.Prices, pods []*model.Pod) *problem {
	pr := &problem{w: w, prices: prices, ranked: true, class: map[string]*class{}, stepped: map[string]float64{}}
	if pr.prices == nil {
		pr.prices = &model.Prices{}
	}
	pr.stocked = stock(w)
	pr.stock = maps.Clone(pr.stocked)
	pr.around = newAround(w, pods)
	pr.group(pods)
	pr.compilePools()
	return pr
}

func (pr *problem) poolOf(p *model.Pool) *pool {
	if i := slices.IndexFunc(pr.pools, func(x *pool) bool { return x.Pool == p }); i >= 0 {
		return pr.pools[i]
	}
	return nil
}

func (p *pool) asked(w *model.World) AskedPool {
	var out AskedPool
	if p == nil || p.why != nil || p.class == nil {
		return out
	}
	out.Daemons = make([]resource.Vector, len(p.overhead))
	for i, v := range p.overhead {
		out.Daemons[p.class.place(i)] = v
	}
	if l := newLimits(w, p.Pool); l != nil {
		out.Left, out.Nodes = l.left, l.nodes
	}
	return out
}

// place is where an offering stands in the world's list.
func (c *class) place(i int) int {
	if c.from == nil {
		return i
	}
	return c.from[i]
}

func (c *class) listed(b bitset) []int {
	var out []int
	b.each(func(i int) { out = append(out, c.place(i)) })
	slices.Sort(out)
	return out
}

// Drafted is the nodes of drafts as they are bought: with what may stand in for each, the
// labels that it will have and what its claim asks for. It is an error if a draft names
// what is not of this world, a pod that is not to be planned for, or pods whose
// requirements on labels of their own exclude each other. Whether the nodes are legal is
// for CheckPriced.
func Drafted(w *model.World, prices *model.Prices, drafts []model.Draft) ([]*model.NewNode, error) {
	var pods []*model.Pod
	stubs := make([]*model.NewNode, len(drafts))
	known := make(map[*model.Pod]bool, len(w.Pods))
	for _, p := range w.Pods {
		known[p] = true
	}
	for i, d := range drafts {
		for _, p := range d.Pods {
			if p == nil || !known[p] {
				return nil, fmt.Errorf("node %d: a pod on it is not one of those that wait, or is on another node as well", i)
			}
			known[p] = false
		}
		pods = append(pods, d.Pods...)
		stubs[i] = &model.NewNode{Pods: d.Pods}
	}
	pr := compileDrafts(w, prices, pods)
	d := &drafter{pr: pr, pk: &packer{pr: pr, groups: pr.groups, joins: newJoins()}, near: newNearby(w, &model.Plan{Launch: stubs}),
		group: make(map[*model.Pod]int, len(pods)), menus: map[*pool]*menu{}, made: map[string]*model.NewNode{}, at: map[*class]map[*model.Offering]int{}}
	for i, g := range pr.groups {
		for _, p := range g.pods {
			d.group[p] = i
		}
	}
	numbers := map[string]int{}
	out := make([]*model.NewNode, 0, len(drafts))
	for i, draft := range drafts {
		n, err := d.node(draft)
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
		numbers[n.Pool.Name]++
		n.Name = fmt.Sprintf("%s-%d", n.Pool.Name, numbers[n.Pool.Name])
		out = append(out, n)
	}
	return out, nil
}

// drafter turns drafts into nodes; equal ones are worked out once.
type drafter struct {
	pr    *problem
	pk    *packer
	near  *nearby
	group map[*model.Pod]int
	menus map[*pool]*menu
	made  map[string]*model.NewNode
	at    map[*class]map[*model.Offering]int
}

func (d *drafter) node(draft model.Draft) (*model.NewNode, error) {
	p := d.pr.poolOf(draft.Pool)
	switch {
	case p == nil:
		return nil, fmt.Errorf("its pool is not of this world")
	case p.why != nil:
		return nil, fmt.Errorf("pool %s: %s", p.Name, p.why.Message)
	case len(draft.Pods) == 0:
		return nil, fmt.Errorf("it is for no pod")
	}
	if d.at[p.class] == nil {
		d.at[p.class] = make(map[*model.Offering]int, len(p.class.offerings))
		for i, o := range p.class.offerings {
			d.at[p.class][o] = i
		}
	}
	best, ok := d.at[p.class][draft.Offering]
	if !ok || !p.usable.has(best) {
		return nil, fmt.Errorf("its offering cannot be bought by pool %s now", p.Name)
	}
	c := &column{times: 1}
	counts := map[int]int32{}
	for _, x := range draft.Pods {
		g, ok := d.group[x]
		if !ok {
			return nil, fmt.Errorf("pod %s is not to be planned for", x.ID())
		}
		counts[g]++
	}
	key := fmt.Appendf(nil, "%d %d", p.index, best)
	for _, g := range slices.Sorted(maps.Keys(counts)) {
		s := d.pr.groups[g].spec
		if s.elig[p.index].bits == nil {
			return nil, fmt.Errorf("pod %s may not run in pool %s: %s", s.pod.ID(), p.Name, s.elig[p.index].reason.Message)
		}
		custom, ok := d.pk.joins.join(c.custom, s, p)
		if !ok {
			return nil, fmt.Errorf("pod %s asks for labels that do not go with those of the others", s.pod.ID())
		}
		c.custom = custom
		c.items = append(c.items, item{group: int32(g), n: counts[g]})
		key = fmt.Appendf(key, " %d:%d", g, counts[g])
	}
	proto := d.made[string(key)]
	if proto == nil {
		proto = d.describe(p, c, best, draft)
		d.made[string(key)] = proto
	}
	n := *proto
	n.Pods = slices.Clone(draft.Pods)
	return &n, nil
}

func (d *drafter) describe(p *pool, c *column, best int, draft model.Draft) *model.NewNode {
	m := d.menus[p]
	if m == nil {
		m = d.pr.newMenu(p, d.pr.groups)
		d.menus[p] = m
	}
	size, specs := m.wants(d.pk, c)
	keys := d.near.of(&model.NewNode{Pods: draft.Pods})
	chosen := p.class.offerings[best]
	return m.as(d.pk, c, best, size, specs, func(i int) bool { return differs(chosen, p.class.offerings[i], keys) == "" })
}

// CheckDrafts says why drafts may not be bought, nil if they may. What else waits does not
// count; aims of strategies that they miss are not held against them.
func CheckDrafts(w *model.World, prices *model.Prices, drafts []model.Draft) error {
	nodes, err := Drafted(w, prices, drafts)
	if err != nil {
		return err
	}
	plan := &model.Plan{Kind: model.PlanProvision, Launch: nodes, Shortfalls: Aims(prices, "")}
	taken := map[*model.Pod]bool{}
	for _, n := range nodes {
		for _, p := range n.Pods {
			taken[p] = true
		}
	}
	for _, p := range w.Pods {
		if !taken[p] {
			plan.Unplaced = append(plan.Unplaced, model.Verdict{Pod: p, Reasons: []model.Reason{{Filter: model.FilterStrategy, Message: "not in the draft"}}})
		}
	}
	if bad := CheckPriced(w, plan, prices); len(bad) > 0 {
		return bad[0]
	}
	return nil
}

// Aims names what strategies aim at, as shortfalls with a message.
func Aims(prices *model.Prices, message string) []model.Shortfall {
	var out []model.Shortfall
	if prices == nil {
		return nil
	}
	for _, pool := range sortedKeys(prices.ByPool) {
		for _, l := range prices.ByPool[pool].Limits {
			if l.Variety != nil || l.Share != nil && l.Share.Min > 0 {
				out = append(out, model.Shortfall{Pool: pool, Limit: l.Name, Message: message})
			}
		}
	}
	return out
}
