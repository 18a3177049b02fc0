package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// pinner decides, for pods whose place matters to others by a label such as the
// zone, which value of the label each gets. Afterwards they are ordinary groups that
// ask for that value, and any packing keeps spreads, affinities and anti-affinities
// at that level.
//
// Pods are taken one by one against running counts, the way kube-scheduler will
// count them later: what it sees are the pods that are bound and the nodes that exist.
type pinner struct {
	pr     *problem
	a      *around
	counts map[pinCount]int64 // pods that were pinned here so far
	anti   map[pinAnti]int64
	specs  map[string]*spec               // pinned specs by text
	costs  map[string]float64             // of a group by pins; +Inf = cannot run there
	base   map[spreadBase]int64           // counts on existing nodes
	doms   map[spreadBase][]string        // universes
	there  map[keySelector]*existingCount // of counts and totals on existing nodes
	totals map[keySelector]int64          // pods that were pinned, whatever the value
	free   map[string][]string            // values of a key that a spec may use
	next   int                            // index of the next new spec
	space  *Space                         // room on existing nodes, for values that cannot be bought; nil until it is needed
}

type pinCount struct {
	key, value string
	selector   int
}

// spreadBase is what the count of a spread depends on besides the pinned pods; the
// value and the selector are left out where the question is for all of them.
type spreadBase struct {
	group         int
	key, value    string
	selector      int
	honorAffinity bool
	honorTaints   bool
}

type keySelector struct {
	key      string
	selector int
}

// existingCount is the pods of a selector on existing nodes that have a label.
type existingCount struct {
	byValue map[string]int64
	total   int64
}

type pinAnti struct {
	antiKey
	value string
}

// pin replaces the groups that are involved by pinned ones. Pods that cannot be
// pinned get their verdict.
func (pr *problem) pin() {
	a := pr.around
	if a == nil {
		return
	}
	p := &pinner{pr: pr, a: a, counts: map[pinCount]int64{}, anti: map[pinAnti]int64{}, specs: map[string]*spec{}, costs: map[string]float64{},
		base: map[spreadBase]int64{}, doms: map[spreadBase][]string{}, free: map[string][]string{}, next: len(pr.specs),
		there: map[keySelector]*existingCount{}, totals: map[keySelector]int64{}}
	p.existingAnti()
	keys := p.keysOf()
	var queue []*group
	var done []*group
	for _, g := range pr.groups {
		if len(keys[g]) == 0 {
			done = append(done, g)
		} else {
			queue = append(queue, g)
		}
	}
	if len(queue) == 0 {
		return
	}
	// Pods that ask for nothing themselves come first, for kube-scheduler may bind them
	// before all others; then those that others want to be near, then those that want to
	// be near them; those with little choice before those with more; then those that bear
	// the least skew: they even out what is there.
	choice := map[*group]int{}
	for _, g := range queue {
		choice[g] = p.choice(g, keys[g])
	}
	slices.SortStableFunc(queue, func(x, y *group) int {
		if a, b := x.asks(), y.asks(); a != b {
			return cmp.Compare(b2i(a), b2i(b))
		}
		if pr.ranked && x.priority() != y.priority() {
			return cmp.Compare(y.priority(), x.priority())
		}
		return cmp.Or(cmp.Compare(len(x.topo().Affinity), len(y.topo().Affinity)), cmp.Compare(choice[x], choice[y]), cmp.Compare(y.skew(), x.skew()))
	})
	for len(queue) > 0 {
		var later []*group
		progress := false
		for _, g := range queue {
			pinned, left, why := p.group(g, keys[g])
			done = append(done, pinned...)
			progress = progress || len(pinned) > 0
			if len(left) == 0 {
				continue
			}
			rest := *g
			rest.pods = left
			keys[&rest] = keys[g]
			rest.why = why
			later = append(later, &rest)
		}
		if !progress {
			for _, g := range later {
				reasons := pr.because(g, *g.why)
				for _, pod := range g.pods {
					pr.kept = append(pr.kept, model.Verdict{Pod: pod, Reasons: reasons})
				}
			}
			break
		}
		queue = later
	}
	pr.groups = done
}

// keysOf lists, for every group, the labels other than the host whose value must be
// known for it: those of its own terms, and those of terms that pick it.
func (p *pinner) keysOf() map[*group][]string {
	byPicked := map[int][]string{} // selector -> keys of terms that have it
	add := func(s model.Selector, key string) {
		if key != model.LabelHostname {
			i := p.a.selector(s)
			if !slices.Contains(byPicked[i], key) {
				byPicked[i] = append(byPicked[i], key)
			}
		}
	}
	for _, g := range p.pr.groups {
		t := g.topo()
		for _, s := range t.Spreads {
			add(s.Selector, s.Key)
		}
		for _, s := range slices.Concat(t.Affinity, t.AntiAffinity) {
			add(s.Selector, s.Key)
		}
	}
	for _, pre := range p.a.onNode {
		for k := range pre.anti {
			if !slices.Contains(byPicked[k.selector], k.key) {
				byPicked[k.selector] = append(byPicked[k.selector], k.key)
			}
		}
	}
	out := map[*group][]string{}
	for _, g := range p.pr.groups {
		set := map[string]bool{}
		g.picked.each(func(s int) {
			for _, k := range byPicked[s] {
				set[k] = true
			}
		})
		t := g.topo()
		for _, s := range t.Spreads {
			set[s.Key] = true
		}
		for _, s := range slices.Concat(t.Affinity, t.AntiAffinity) {
			set[s.Key] = true
		}
		delete(set, model.LabelHostname)
		out[g] = sortedKeys(set)
	}
	return out
}

// choice is how many values of its keys a group may have, each looked at by itself.
func (p *pinner) choice(g *group, keys []string) (n int) {
	for _, key := range keys {
		for _, v := range p.values(g, key) {
			if !math.IsInf(p.cost(g, map[string]string{key: v}), 1) {
				n++
			}
		}
	}
	return n
}

// asks says whether the pods of the group ask for something of those around them.
func (g *group) asks() bool {
	t := g.topo()
	return len(t.Spreads)+len(t.Affinity)+len(t.AntiAffinity) > 0
}

// skew is the least that one of the spreads of the group bears.
func (g *group) skew() int64 {
	least := int64(math.MaxInt64)
	for _, s := range g.topo().Spreads {
		least = min(least, s.MaxSkew)
	}
	return least
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (g *group) topo() *model.Topology {
	if t := g.pods[0].Topology; t != nil {
		return t
	}
	return &model.Topology{}
}

// group pins the pods of one group as far as it goes; left are those that found no
// value now, with the reason.
func (p *pinner) group(g *group, keys []string) (pinned []*group, left []*model.Pod, why *model.Reason) {
	byPins := map[string]*group{}
	var order []string
	for i, pod := range g.pods {
		pins, r := p.one(g, keys)
		if r != nil {
			left, why = g.pods[i:], r
			break
		}
		p.record(g, pins)
		k := pinText(pins)
		ng := byPins[k]
		if ng == nil {
			c := *g
			c.pods, c.spec = nil, p.pinnedSpec(g.spec, pins)
			ng = &c
			byPins[k] = ng
			order = append(order, k)
		}
		ng.pods = append(ng.pods, pod)
	}
	for _, k := range order {
		pinned = append(pinned, byPins[k])
	}
	return pinned, left, why
}

// late counts the affinities over a key that only pods keep which are not running yet:
// kube-scheduler would not wait for them where other pods will do.
func (p *pinner) late(g *group, key, value string) (n int) {
	for _, t := range g.topo().Affinity {
		if t.Key == key && p.existing(key, p.a.selector(t.Selector)).byValue[value] == 0 {
			n++
		}
	}
	return n
}

// one chooses the values for the next pod of a group: of those that every term
// allows the ones where its affinities hold now, then the least crowded, then the
// cheapest, then the first by name.
func (p *pinner) one(g *group, keys []string) (map[string]string, *model.Reason) {
	pins := map[string]string{}
	for _, key := range keys {
		type choice struct {
			value string
			late  int // affinities that only pods keep that are not there yet
			crowd int64
			cost  float64
		}
		var best *choice
		var why *model.Reason
		for _, v := range p.values(g, key) {
			pins[key] = v
			cost := p.cost(g, pins)
			if math.IsInf(cost, 1) || cost == math.MaxFloat64 && p.spot(g, pins) == nil {
				continue
			}
			crowd, r := p.allowed(g, key, v)
			if r != nil {
				why = r
				continue
			}
			c := choice{v, p.late(g, key, v), crowd, cost}
			if best == nil || cmp.Or(cmp.Compare(c.late, best.late), cmp.Compare(c.crowd, best.crowd), cmp.Compare(c.cost, best.cost), cmp.Compare(c.value, best.value)) < 0 {
				best = &c
			}
		}
		if best == nil {
			delete(pins, key)
			if why == nil && !asksOver(g.topo(), key) {
				continue // only others count by this label, and no node that it may use has it
			}
			if why == nil {
				why = p.nowhere(g, key)
			}
			return nil, why
		}
		pins[key] = best.value
	}
	return pins, nil
}

// asksOver says whether a pod's own spreads or affinities are about a label.
func asksOver(t *model.Topology, key string) bool {
	return slices.ContainsFunc(t.Spreads, func(s model.Spread) bool { return s.Key == key }) ||
		slices.ContainsFunc(t.Affinity, func(a model.PodTerm) bool { return a.Key == key }) ||
		slices.ContainsFunc(t.AntiAffinity, func(a model.PodTerm) bool { return a.Key == key })
}

// nowhere is the reason where no value of the key can hold the pod at all: the
// ordinary one of its spec, or that no node has such a label.
func (p *pinner) nowhere(g *group, key string) *model.Reason {
	var first *model.Reason
	for _, pool := range p.pr.pools {
		r := p.pr.reason(g, pool)
		if ofOthers(r) {
			first = nil
			break
		}
		if first == nil {
			first = &r
		}
	}
	if first != nil {
		return first
	}
	return &model.Reason{Filter: model.FilterTopology, Message: fmt.Sprintf("no node and no pool offers a value of %s that the pod may use", key)}
}

// allowed says whether every term at the level of the key lets a pod of the group
// have the value; crowd is how many pods of its spreads are there already.
func (p *pinner) allowed(g *group, key, value string) (crowd int64, why *model.Reason) {
	if value == absent {
		return 0, nil
	}
	t := g.topo()
	for i := range t.Spreads {
		s := &t.Spreads[i]
		if s.Key != key {
			continue
		}
		n, r := p.spreadAllows(g, s, value)
		if r != nil {
			return 0, r
		}
		crowd += n
	}
	for _, term := range t.AntiAffinity {
		if term.Key == key && p.count(key, value, p.a.selector(term.Selector)) > 0 {
			return 0, &model.Reason{Filter: model.FilterAffinity, Message: fmt.Sprintf("anti-affinity: every %s that the pod may use holds a pod that it must not be near", key)}
		}
	}
	for _, term := range t.Affinity {
		if term.Key == model.LabelHostname && !p.hosted(g, p.a.selector(term.Selector), key, value) {
			return 0, &model.Reason{Filter: model.FilterAffinity, Message: fmt.Sprintf("affinity: no node in a %s that the pod may use holds a pod that it must share a node with", key)}
		}
		if term.Key != key {
			continue
		}
		s := p.a.selector(term.Selector)
		if p.count(key, value, s) > 0 || g.picked.has(s) && p.total(key, s) == 0 {
			continue
		}
		return 0, &model.Reason{Filter: model.FilterAffinity, Message: fmt.Sprintf("affinity: no %s that the pod may use holds a pod that it must be near", key)}
	}
	shunned := false
	g.picked.each(func(s int) { shunned = shunned || p.shunned(antiKey{key, s}, value) })
	if shunned {
		return 0, &model.Reason{Filter: model.FilterAffinity, Message: fmt.Sprintf("anti-affinity of another pod: every %s that the pod may use holds a pod that must not be near it", key)}
	}
	return crowd, nil
}

// hosted says whether a node with the value may take a pod of the group that must share
// a node with pods of a selector; true where none of those is running yet.
func (p *pinner) hosted(g *group, sel int, key, value string) bool {
	hosts := p.pr.hosting(sel)
	return len(hosts) == 0 || slices.ContainsFunc(hosts, func(n *model.Node) bool {
		if n.Labels[key] != value || n.BeingRemoved() || n.Cordoned || anyTerm(g.spec.terms, n.Labels) != nil {
			return false
		}
		_, bad := g.spec.pod.Untolerated(schedulingTaints(p.pr.w, n))
		return !bad
	})
}

func (p *pinner) spreadAllows(g *group, s *model.Spread, value string) (crowd int64, why *model.Reason) {
	sel := p.a.selector(s.Selector)
	universe := p.universe(g, s)
	least := int64(math.MaxInt64)
	for _, v := range universe {
		least = min(least, p.spreadCount(g, s, sel, v))
	}
	if len(universe) == 0 || s.MinDomains > int64(len(universe)) {
		least = 0
	}
	self := int64(0)
	if g.picked.has(sel) {
		self = 1
	}
	n := p.spreadCount(g, s, sel, value)
	if n+self-least > s.MaxSkew {
		return 0, &model.Reason{Filter: model.FilterTopology, Message: fmt.Sprintf(
			"topology spread over %s: %s holds %d of the pods, the emptiest of %d values %d, maxSkew is %d", s.Key, value, n, len(universe), least, s.MaxSkew)}
	}
	return n, nil
}

// spreadCount is the pods of a spread with a value: on existing nodes that count for
// this pod, and pinned ones.
func (p *pinner) spreadCount(g *group, s *model.Spread, sel int, value string) int64 {
	k := spreadBase{g.number, s.Key, value, sel, s.HonorAffinity, s.HonorTaints}
	n, ok := p.base[k]
	if !ok {
		for _, node := range p.pr.w.Nodes {
			if c := p.a.onNode[node].counts[sel]; c > 0 && node.Labels[s.Key] == value && p.countsFor(g, s, node) {
				n += c
			}
		}
		p.base[k] = n
	}
	return n + p.counts[pinCount{s.Key, value, sel}]
}

// countsFor says whether an existing node counts for the spread of a pod.
func (p *pinner) countsFor(g *group, s *model.Spread, n *model.Node) bool {
	if !n.Joined() {
		return false
	}
	for i := range g.topo().Spreads { // kube-scheduler looks at nodes only that have the labels of all
		k := g.topo().Spreads[i].Key
		if _, ok := n.Labels[k]; !ok && k != model.LabelHostname {
			return false
		}
	}
	return counts(g.spec, s, n.Labels, n.Taints)
}

// counts says whether a node with these labels and taints counts for a spread, as far as
// its policies go.
func counts(sp *spec, s *model.Spread, labels map[string]string, taints []model.Taint) bool {
	if s.HonorAffinity && anyTerm(sp.own, labels) != nil {
		return false
	}
	if s.HonorTaints {
		if _, bad := sp.pod.Repelled(taints); bad {
			return false
		}
	}
	return true
}

// universe is the values over which a spread is counted: those of existing nodes
// that count, those of nodes that an earlier attempt at the same plan bought, and those
// that can really be bought for the pod, its volumes left out of account.
func (p *pinner) universe(g *group, s *model.Spread) []string {
	k := spreadBase{group: g.number, key: s.Key, honorAffinity: s.HonorAffinity, honorTaints: s.HonorTaints}
	if u, ok := p.doms[k]; ok {
		return u
	}
	set := map[string]bool{}
	for _, n := range p.pr.w.Nodes {
		if v, ok := n.Labels[s.Key]; ok && p.countsFor(g, s, n) {
			set[v] = true
		}
	}
	for _, n := range p.pr.before { // those that were bought for others
		if v, ok := n.Labels[s.Key]; ok && counts(g.spec, s, n.Labels, n.Pool.Taints) {
			set[v] = true
		}
	}
	free := *g.spec
	if len(g.spec.pod.Topology.VolumeTerms) > 0 {
		free = *p.specWith(g.spec.own, g.spec.pod)
	}
	for _, v := range p.offered(&free, s.Key) {
		if !math.IsInf(p.buyCost(&free, g.size, map[string]string{s.Key: v}), 1) {
			set[v] = true
		}
	}
	u := sortedKeys(set)
	p.doms[k] = u
	return u
}

// values is what a pod of the group might get for a key.
func (p *pinner) values(g *group, key string) []string {
	k := fmt.Sprintf("%d|%s", g.number, key)
	if v, ok := p.free[k]; ok {
		return v
	}
	set := map[string]bool{}
	for _, n := range p.pr.w.Nodes {
		if v, ok := n.Labels[key]; ok {
			set[v] = true
		}
	}
	for _, v := range p.offered(g.spec, key) {
		set[v] = true
	}
	out := sortedKeys(set)
	if !ofOffering(key) && g.mayLack(key) {
		out = append(out, absent)
	}
	p.free[k] = out
	return out
}

// offered is the values of a label that pools can give their nodes.
func (p *pinner) offered(s *spec, key string) []string {
	set := map[string]bool{}
	for _, pool := range p.pr.pools {
		if pool.why != nil {
			continue
		}
		if ofOffering(key) {
			idx := pool.class.index(key)
			for i, v := range idx.values {
				if intersects(idx.bits[i], pool.usable) {
					set[v] = true
				}
			}
			continue
		}
		if r, ok := pool.Requirements.Get(key); ok && r.Finite() {
			for _, v := range r.Values {
				set[v] = true
			}
		}
	}
	for _, t := range s.terms {
		if r, ok := t.Get(key); ok && r.Finite() {
			for _, v := range r.Values {
				set[v] = true
			}
		}
	}
	return sortedKeys(set)
}

// existing counts the pods of a selector on existing nodes, once for each label.
func (p *pinner) existing(key string, sel int) *existingCount {
	k := keySelector{key, sel}
	if e := p.there[k]; e != nil {
		return e
	}
	e := &existingCount{byValue: map[string]int64{}}
	for _, node := range p.pr.w.Nodes {
		n := p.a.onNode[node].counts[sel]
		if v, ok := node.Labels[key]; ok && n > 0 && node.Joined() {
			e.byValue[v] += n
			e.total += n
		}
	}
	p.there[k] = e
	return e
}

// existingAnti notes the anti-affinities of running pods by value.
func (p *pinner) existingAnti() {
	for _, node := range p.pr.w.Nodes {
		for k, n := range p.a.onNode[node].anti {
			if v, ok := node.Labels[k.key]; ok {
				p.anti[pinAnti{k, v}] += n
			}
		}
	}
}

// count is the pods that a selector picks with a value, wherever they are.
func (p *pinner) count(key, value string, sel int) int64 {
	return p.counts[pinCount{key, value, sel}] + p.existing(key, sel).byValue[value]
}

// total is the pods that a selector picks on nodes with the label, and pinned ones.
func (p *pinner) total(key string, sel int) int64 {
	return p.totals[keySelector{key, sel}] + p.existing(key, sel).total
}

func (p *pinner) shunned(k antiKey, value string) bool { return p.anti[pinAnti{k, value}] > 0 }

// spot is the first existing node with the values that has room for one more pod of the
// group.
func (p *pinner) spot(g *group, pins map[string]string) *spot {
	if p.space == nil {
		p.space = NewSpace(p.pr.w)
	}
	want := pinned(pins)
	for _, sp := range p.space.nodes {
		if g.req.Fits(sp.free) && want.LabelsSatisfy(sp.node.Labels) == nil && sp.allows(g.spec.pod, g.spec.terms) == nil {
			return sp
		}
	}
	return nil
}

func (p *pinner) record(g *group, pins map[string]string) {
	if p.cost(g, pins) == math.MaxFloat64 { // nothing can be bought there: the room is used up
		if sp := p.spot(g, pins); sp != nil {
			sp.free = sp.free.Sub(g.req)
		}
	}
	for key, v := range pins {
		if v == absent {
			continue
		}
		g.picked.each(func(s int) {
			p.counts[pinCount{key, v, s}]++
			p.totals[keySelector{key, s}]++
		})
	}
	for _, t := range g.topo().AntiAffinity {
		if v, ok := pins[t.Key]; ok && v != absent {
			p.anti[pinAnti{antiKey{t.Key, p.a.selector(t.Selector)}, v}]++
		}
	}
}

func pinText(pins map[string]string) string {
	var b strings.Builder
	for _, k := range sortedKeys(pins) {
		fmt.Fprintf(&b, "%q=%q ", k, pins[k])
	}
	return b.String()
}

// cost is a measure of what a pod of the group costs with these values, to choose
// between equally crowded ones: the least price per machine size, 0 where an
// existing node may take it, +Inf where nothing may.
func (p *pinner) cost(g *group, pins map[string]string) float64 {
	k := fmt.Sprintf("%d|%s", g.number, pinText(pins))
	if c, ok := p.costs[k]; ok {
		return c
	}
	s := g.spec
	c := p.buyCost(s, g.size, pins)
	if math.IsInf(c, 1) {
		want := pinned(pins)
		for _, n := range p.pr.w.Nodes {
			if n.BeingRemoved() || want.LabelsSatisfy(n.Labels) != nil || anyTerm(s.terms, n.Labels) != nil {
				continue
			}
			if _, bad := s.pod.Untolerated(schedulingTaints(p.pr.w, n)); !bad {
				c = math.MaxFloat64
				break
			}
		}
	}
	p.costs[k] = c
	return c
}

func (p *pinner) buyCost(s *spec, size []int64, pins map[string]string) float64 {
	best := math.Inf(1)
	ps := p.pinnedSpec(s, pins)
	for _, pool := range p.pr.pools {
		e := ps.elig[pool.index]
		if e.bits == nil {
			continue
		}
		e.bits.each(func(i int) {
			if pool.perSize[i] >= best || !pool.usable.has(i) || pool.class.exotic.has(i) && !math.IsInf(best, 1) {
				return
			}
			if pool.holds(i, size) && pool.limits.times(pool.class.offerings[i].Type.Capacity, 1) > 0 {
				best = pool.perSize[i]
			}
		})
	}
	return best
}

// absent stands for a label that the node is not to have. Nothing is counted there, and
// nobody is near or apart: the way out for pods that ask for neither spread nor affinity
// over it.
const absent = "\x00"

// pinned is what a node must have for the values.
func pinned(pins map[string]string) require.Set {
	var out require.Set
	for _, key := range sortedKeys(pins) {
		if v := pins[key]; v == absent {
			out = out.With(require.Must(key, require.DoesNotExist))
		} else {
			out = out.With(require.Must(key, require.In, v))
		}
	}
	return out
}

// mayLack says whether a pod of the group may run where there is no such label.
func (g *group) mayLack(key string) bool {
	t := g.topo()
	return !slices.ContainsFunc(t.Spreads, func(s model.Spread) bool { return s.Key == key }) &&
		!slices.ContainsFunc(t.Affinity, func(a model.PodTerm) bool { return a.Key == key })
}

// pinnedSpec is the spec with the values asked for on top.
func (p *pinner) pinnedSpec(s *spec, pins map[string]string) *spec {
	k := fmt.Sprintf("%d|%s", s.index, pinText(pins))
	if got := p.specs[k]; got != nil {
		return got
	}
	want := pinned(pins)
	terms := make([]require.Set, len(s.terms))
	for i, t := range s.terms {
		terms[i] = t.And(want)
	}
	n := p.specWith(terms, s.pod)
	n.own, n.free = s.own, s
	p.specs[k] = n
	return n
}

func (p *pinner) specWith(terms []require.Set, pod *model.Pod) *spec {
	n := &spec{index: p.next, pod: pod, terms: terms, own: terms}
	p.next++
	p.pr.specs = append(p.pr.specs, n)
	n.elig = make([]eligibility, len(p.pr.pools))
	for _, pool := range p.pr.pools {
		n.elig[pool.index] = p.pr.eligible(n, pool)
	}
	return n
}
