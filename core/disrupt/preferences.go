package disrupt

import (
	"math"
	"slices"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// Under preferencePolicy Respect a pod that waits has a node bought for it rather than
// break what it prefers. A move that broke it would therefore take a node away only to
// have another one bought: such moves are not made. What no new node could keep either
// keeps no pod where it is.

// census counts, by value of a label, the pods that a preference looks at.
type census struct {
	selector model.Selector
	key      string
	at       map[string]int64
}

type censusAt struct {
	census *census
	value  string
}

// prefer reads what the pods of the world prefer. prices are those of the strategies that
// would buy for them, nil = the market's.
func (a *around) prefer(prices *model.Prices) {
	a.prices = prices
	pods := slices.Clone(a.w.Pods)
	for _, n := range a.w.Nodes {
		for _, p := range n.Pods {
			if p.Reschedulable() {
				pods = append(pods, p)
			}
		}
	}
	if a.likes = engine.NewPreferences(a.w, prices, pods); a.likes == nil {
		return
	}
	a.censuses, a.counting = map[shunKey]*census{}, map[*model.Pod][]*census{}
	for _, p := range pods {
		s := a.likes.Soft(p)
		if s == nil {
			continue
		}
		for _, list := range [][]model.WeightedTerm{s.Affinity, s.AntiAffinity} {
			for _, t := range list {
				a.census(t.Selector, t.Key)
			}
		}
		for _, t := range s.Spreads {
			a.census(t.Selector, t.Key)
		}
	}
}

func (a *around) census(s model.Selector, key string) *census {
	k := shunKey{s.ID, key}
	c := a.censuses[k]
	if c == nil {
		c = &census{selector: s, key: key, at: map[string]int64{}}
		a.censuses[k] = c
		for _, p := range a.matching(s) {
			if v, ok := domain(a.nodes[p], key); ok && p.Active() {
				c.at[v]++
			}
		}
	}
	return c
}

// domain is a node's value of a label; every node is a host.
func domain(n *model.Node, key string) (string, bool) {
	if key == model.LabelHostname {
		return n.ID(), true
	}
	v, ok := n.Labels[key]
	return v, ok && v != ""
}

// counted is the censuses that count the pod.
func (a *around) counted(p *model.Pod) []*census {
	if len(a.censuses) == 0 {
		return nil
	}
	out, ok := a.counting[p]
	if !ok {
		for _, c := range a.censuses {
			if c.selector.Picks(p) {
				out = append(out, c)
			}
		}
		a.counting[p] = out
	}
	return out
}

// count notes that the tenant comes to room i (by 1) or leaves it again (by -1).
func (r *rooms) count(t *tenant, i int, by int64) {
	if t.soft != nil {
		for _, a := range t.soft.AntiAffinity {
			if v, ok := domain(r.list[i].node, a.Key); ok {
				r.softShuns[censusAt{r.around.census(a.Selector, a.Key), v}] += by
			}
		}
	}
	for _, c := range r.around.counted(t.pod) {
		if v, ok := domain(r.list[i].node, c.key); ok {
			r.moved[censusAt{c, v}] += by
		}
		if t.from == nil {
			continue
		}
		if v, ok := domain(t.from, c.key); ok {
			r.moved[censusAt{c, v}] -= by
		}
	}
}

// others is how many pods besides the tenant a census counts at a value.
func (r *rooms) others(t *tenant, c *census, value string) int64 {
	n := c.at[value] + r.moved[censusAt{c, value}]
	at := t.from
	if t.at >= 0 {
		at = r.list[t.at].node
	}
	if at != nil && c.selector.Picks(t.pod) {
		if v, ok := domain(at, c.key); ok && v == value {
			n--
		}
	}
	return n
}

// unkept names a preference that the tenant would lose in room i and that a new node
// could keep, or is empty.
func (r *rooms) unkept(t *tenant, i int) string {
	n := r.list[i].node
	if t.form != t.pod && !r.allowed(t, i) {
		return "preferred node affinity or distance from PreferNoSchedule taints"
	}
	lost := func(key string, kept func(value string) bool) bool {
		if v, ok := domain(n, key); ok && kept(v) {
			return false
		}
		return slices.ContainsFunc(r.around.likes.Buyable(t.pod, key), kept)
	}
	for _, c := range r.around.counted(t.pod) {
		if lost(c.key, func(v string) bool { return r.shunnedBy(t, c, v) <= 0 }) {
			return "distance from pods that move there as well and prefer to be apart from it"
		}
	}
	if t.soft == nil {
		return ""
	}
	for _, a := range t.soft.AntiAffinity {
		c := r.around.census(a.Selector, a.Key)
		if lost(a.Key, func(v string) bool { return r.others(t, c, v) <= 0 }) {
			return "preferred pod anti-affinity over " + a.Key
		}
	}
	for _, a := range t.soft.Affinity {
		c := r.around.census(a.Selector, a.Key)
		if lost(a.Key, func(v string) bool { return r.others(t, c, v) > 0 }) {
			return "preferred pod affinity over " + a.Key
		}
	}
	for _, s := range t.soft.Spreads {
		c := r.around.census(s.Selector, s.Key)
		self := int64(0)
		if s.Selector.Picks(t.pod) {
			self = 1
		}
		least := r.least(t, c, s)
		if lost(s.Key, func(v string) bool { return r.others(t, c, v)+self-least <= s.MaxSkew }) {
			return "ScheduleAnyway spread over " + s.Key
		}
	}
	return ""
}

// shunnedBy is how many other pods that the plan moves to a value prefer to be apart
// from those that a census counts. Pods that run already are not asked: they keep
// nobody away.
func (r *rooms) shunnedBy(t *tenant, c *census, value string) int64 {
	n := r.softShuns[censusAt{c, value}]
	if n == 0 || t.soft == nil || t.at < 0 {
		return n
	}
	for _, a := range t.soft.AntiAffinity {
		if v, ok := domain(r.list[t.at].node, a.Key); ok && v == value && r.around.census(a.Selector, a.Key) == c {
			n--
		}
	}
	return n
}

// rebought makes the test of a plan: were all its nodes gone and their pods waiting,
// would a node be bought for one of them that nobody would buy without preferences?
// Such pods' nodes stay.
func (p *planner) rebought() verdicts {
	refused := verdicts{}
	if p.rooms.around.likes == nil || len(p.going) == 0 {
		return refused
	}
	after := *p.w
	after.Nodes, after.Pods = nil, slices.Clone(p.w.Pods)
	for _, n := range p.w.Nodes {
		if !p.gone[n] {
			after.Nodes = append(after.Nodes, n)
		}
	}
	home := map[*model.Pod]*model.Node{}
	for _, g := range p.going {
		for _, t := range g.pods {
			c := *t.pod
			c.NodeName, c.Unschedulable = "", true
			home[&c] = g.cand.Node
			after.Pods = append(after.Pods, &c)
		}
	}
	bought := func() []*model.Pod {
		var out []*model.Pod
		for _, n := range engine.Place(&after, p.rooms.around.prices).New {
			for _, pod := range n.Pods {
				if home[pod] != nil {
					out = append(out, pod)
				}
			}
		}
		return out
	}
	list := bought()
	if !p.w.Budget.MayPlace() {
		return p.unproven()
	}
	if len(list) == 0 {
		return refused
	}
	after.Settings.IgnorePreferences = true
	without := bought()
	if !p.w.Budget.MayPlace() {
		return p.unproven()
	}
	for _, pod := range list {
		if !slices.Contains(without, pod) {
			refused[home[pod]] = no(BlockedReplacement, "pod %s would fit on nodes that stay, but not keep all that it prefers: a node would be bought for it under preferencePolicy Respect", pod.ID())
		}
	}
	return refused
}

// unproven has every node stay that the plan would have had go: there was no time for the
// test that nothing would be bought in their stead.
func (p *planner) unproven() verdicts {
	out := verdicts{}
	for _, g := range p.going {
		out[g.cand.Node] = no(BlockedTime, "the time budget ended before it was certain that nothing would be bought in its stead; it is looked at again at the next pass")
	}
	return out
}

// least is the smallest count among the values of a spread. A host without any such
// pods can always be bought.
func (r *rooms) least(t *tenant, c *census, s model.Spread) int64 {
	if s.Key == model.LabelHostname {
		return 0
	}
	least := int64(math.MaxInt64)
	for _, v := range r.around.likes.Buyable(t.pod, s.Key) {
		least = min(least, r.others(t, c, v))
	}
	for _, n := range r.around.w.Nodes {
		v, ok := domain(n, s.Key)
		if !ok || s.HonorAffinity && !matches(t.pod, n) {
			continue
		}
		if _, bad := t.pod.Repelled(n.Taints); bad && s.HonorTaints {
			continue
		}
		least = min(least, r.others(t, c, v))
	}
	if least == math.MaxInt64 {
		return 0
	}
	return max(least, 0)
}
