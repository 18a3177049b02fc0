package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
)

// around is what pods ask of the pods around them, compiled to small numbers. It
// is nil where nobody asks anything, which is the common and the fast case.
type around struct {
	selectors []model.Selector
	byID      map[string]int
	labels    map[string]bitset // picked selectors by namespace and labels

	// Tokens lie on a node for its pods: "a pod that selector s picks is here" and "a
	// pod that wants none of s is here", at the level of one node, and ports. A pod is
	// kept off a node by the tokens that it cannot bear.
	tokens map[string]int
	// hostCaps bounds, by selector, how many of its pods one node may hold.
	hostCaps map[int]int64
	onNode   map[*model.Node]*presence
	hostAnti map[string]bool // selectors of anti-affinities over hosts: only these have tokens

	// Selectors by a label that all their pods have, as far as that is known; the others
	// are asked one by one.
	byLabel map[string][]int
	asked   []int
	indexed int // how many selectors are in the two
}

// presence is the pods on an existing node, as far as they matter to others.
type presence struct {
	tokens bitset
	counts map[int]int64 // by selector
	anti   map[antiKey]int64
}

// antiKey is an anti-affinity that some pod has, at the level of a label other than the host.
type antiKey struct {
	key      string
	selector int
}

// maxTokens bounds the tokens of one problem; it is far above what real clusters ask.
const maxTokens = 1 << 15

func bareAround() *around {
	return &around{byID: map[string]int{}, labels: map[string]bitset{}, tokens: map[string]int{}, hostCaps: map[int]int64{}, hostAnti: map[string]bool{}}
}

func newAround(w *model.World, pods []*model.Pod) *around {
	a := bareAround()
	asked := false
	note := func(p *model.Pod, existing bool) {
		t := p.Topology
		if t == nil {
			return
		}
		if !existing {
			asked = asked || len(t.Spreads)+len(t.Affinity)+len(t.HostPorts) > 0
			for _, s := range t.Spreads {
				i := a.selector(s.Selector)
				if s.Key == model.LabelHostname {
					if have, ok := a.hostCaps[i]; !ok || s.MaxSkew < have {
						a.hostCaps[i] = s.MaxSkew
					}
				}
			}
			for _, s := range t.Affinity {
				a.selector(s.Selector)
			}
		}
		for _, s := range t.AntiAffinity {
			a.selector(s.Selector)
			a.hostAnti[s.Selector.ID] = a.hostAnti[s.Selector.ID] || s.Key == model.LabelHostname
			asked = true
		}
	}
	for _, p := range pods {
		note(p, false)
	}
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			note(p, true)
		}
	}
	for _, d := range w.DaemonSets {
		asked = asked || d.Pod.Topology != nil && len(d.Pod.Topology.HostPorts) > 0 && len(pods) > 0
	}
	if !asked {
		return nil
	}
	a.sort()
	return a
}

// sort numbers the selectors by their text, so that nothing depends on the order in
// which the pods came.
func (a *around) sort() {
	caps := make(map[string]int64, len(a.hostCaps))
	for i, n := range a.hostCaps {
		caps[a.selectors[i].ID] = n
	}
	slices.SortFunc(a.selectors, func(x, y model.Selector) int { return strings.Compare(x.ID, y.ID) })
	clear(a.hostCaps)
	for i, s := range a.selectors {
		a.byID[s.ID] = i
		if n, ok := caps[s.ID]; ok {
			a.hostCaps[i] = n
		}
	}
}

func (a *around) selector(s model.Selector) int {
	if i, ok := a.byID[s.ID]; ok {
		return i
	}
	i := len(a.selectors)
	a.byID[s.ID] = i
	a.selectors = append(a.selectors, s)
	return i
}

// picks is the selectors that pick the pod, found once for each set of labels.
func (a *around) picks(p *model.Pod) bitset {
	keys := make([]string, 0, len(p.Labels))
	for k := range p.Labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	b.WriteString(p.Namespace)
	for _, k := range keys {
		b.WriteByte(0)
		b.WriteString(k)
		b.WriteByte(1)
		b.WriteString(p.Labels[k])
	}
	if p.Form != nil {
		b.WriteString("\x02" + p.Form.Key)
	}
	if got, ok := a.labels[b.String()]; ok && len(got) == (len(a.selectors)+63)/64 {
		return got
	}
	a.index()
	out := newBits(len(a.selectors))
	try := func(list []int) {
		for _, i := range list {
			if a.selectors[i].Picks(p) {
				out.set(i)
			}
		}
	}
	try(a.asked)
	for _, k := range keys {
		try(a.byLabel[k+"\x01"+p.Labels[k]])
	}
	a.labels[b.String()] = out
	return out
}

// index sorts the selectors by their labels, so that a pod is held against those few
// that may pick it.
func (a *around) index() {
	if a.indexed == len(a.selectors) {
		return
	}
	a.byLabel, a.asked, a.indexed = map[string][]int{}, nil, len(a.selectors)
	for i, s := range a.selectors {
		if len(s.Labels) == 0 {
			a.asked = append(a.asked, i)
			continue
		}
		k := sortedKeys(s.Labels)[0]
		a.byLabel[k+"\x01"+s.Labels[k]] = append(a.byLabel[k+"\x01"+s.Labels[k]], i)
	}
}

func (a *around) token(name string) int {
	if i, ok := a.tokens[name]; ok {
		return i
	}
	i := len(a.tokens)
	a.tokens[name] = i
	return i
}

// tokensOf is what a pod lays on its node, and what it cannot bear there.
func (a *around) tokensOf(p *model.Pod) (lays, bears []int) {
	picked := a.picks(p)
	picked.each(func(s int) {
		if !a.hostAnti[a.selectors[s].ID] {
			return
		}
		lays = append(lays, a.token(fmt.Sprintf("picked %d", s)))
		bears = append(bears, a.token(fmt.Sprintf("shunned %d", s)))
	})
	if p.Topology == nil {
		return lays, bears
	}
	for _, t := range p.Topology.AntiAffinity {
		if t.Key == model.LabelHostname {
			s := a.selector(t.Selector)
			lays = append(lays, a.token(fmt.Sprintf("shunned %d", s)))
			bears = append(bears, a.token(fmt.Sprintf("picked %d", s)))
		}
	}
	for _, h := range p.Topology.HostPorts {
		lays = append(lays, a.token(portToken(h)))
	}
	return lays, bears
}

func portToken(h model.HostPort) string {
	return fmt.Sprintf("port %s %d %s", h.Protocol, h.Port, h.IP)
}

// bits turns token numbers into a set of fixed width.
func (a *around) bits(list []int) bitset {
	b := newBits(len(a.tokens))
	for _, i := range list {
		b.set(i)
	}
	return b
}

// compile gives every group its tokens and every existing node what lies on it.
// All tokens are named before the first set is made, so that widths agree.
func (a *around) compile(pr *problem) error {
	type both struct{ lays, bears []int }
	raw := make([]both, len(pr.groups))
	ports := map[model.HostPort]bool{}
	collect := func(p *model.Pod) {
		if p.Topology != nil {
			for _, h := range p.Topology.HostPorts {
				ports[h] = true
			}
		}
	}
	for i, g := range pr.groups {
		l, b := a.tokensOf(g.pods[0])
		raw[i] = both{l, b}
		collect(g.pods[0])
	}
	onNode := map[*model.Node][]int{}
	for _, n := range pr.w.Nodes {
		for _, p := range n.Pods {
			l, _ := a.tokensOf(p)
			onNode[n] = append(onNode[n], l...)
			collect(p)
		}
		for _, h := range expectedPorts(pr.w, n) {
			onNode[n] = append(onNode[n], a.token(portToken(h)))
			ports[h] = true
		}
	}
	daemons := make([][]int, len(pr.w.DaemonSets))
	for i, d := range pr.w.DaemonSets {
		daemons[i], _ = a.tokensOf(portless(d.Pod)) // their ports keep pods off by offering, see withoutDaemonPorts
		collect(d.Pod)
	}
	if len(a.tokens) > maxTokens {
		return fmt.Errorf("the pods ask for %d different things of their neighbours, at most %d are planned for", len(a.tokens), maxTokens)
	}
	colliding := func(p *model.Pod) []int {
		var out []int
		if p.Topology == nil {
			return nil
		}
		for _, h := range p.Topology.HostPorts {
			for o := range ports {
				if h.Collides(o) {
					if i, ok := a.tokens[portToken(o)]; ok {
						out = append(out, i)
					}
				}
			}
		}
		return out
	}
	for i, g := range pr.groups {
		g.lays = a.bits(raw[i].lays)
		g.bears = a.bits(append(raw[i].bears, colliding(g.pods[0])...))
		g.picked = a.picks(g.pods[0])
		g.picked.each(func(s int) {
			if _, ok := a.hostCaps[s]; ok {
				g.counted = append(g.counted, bounded{s, 1})
			}
		})
		g.alone = intersects(g.lays, g.bears)
	}
	a.onNode = map[*model.Node]*presence{}
	for _, n := range pr.w.Nodes {
		pre := &presence{tokens: a.bits(onNode[n]), counts: map[int]int64{}, anti: map[antiKey]int64{}}
		for _, p := range n.Pods {
			if !p.Active() {
				continue
			}
			a.picks(p).each(func(s int) { pre.counts[s]++ })
			if p.Topology != nil {
				for _, t := range p.Topology.AntiAffinity {
					if t.Key != model.LabelHostname {
						pre.anti[antiKey{t.Key, a.selector(t.Selector)}]++
					}
				}
			}
		}
		a.onNode[n] = pre
	}
	for _, p := range pr.pools {
		p.daemonTokens = newBits(len(a.tokens))
		if p.why != nil {
			continue
		}
		for i, d := range pr.w.DaemonSets {
			if !p.daemonBits(d.Pod).empty() {
				p.daemonTokens.or(a.bits(daemons[i]))
			}
		}
	}
	return nil
}

func intersects(a, b bitset) bool {
	for i := range a {
		if a[i]&b[i] != 0 {
			return true
		}
	}
	return false
}

// neighbours is what lies on a node that is being filled.
type neighbours struct {
	a      *around
	tokens bitset
	counts map[int]int64
	most   []int64 // pods by workload that the node may hold, nil = any number
	held   []int64 // pods by workload
}

func (a *around) neighbours() *neighbours {
	if a == nil {
		return nil
	}
	return &neighbours{a: a, tokens: newBits(len(a.tokens)), counts: map[int]int64{}}
}

// reset starts with what the daemon pods of a pool lay on every node.
func (n *neighbours) reset(p *pool, c *crowd) {
	copy(n.tokens, p.daemonTokens)
	clear(n.counts)
	if c != nil {
		n.most, n.held = c.caps[p.Name].most, slices.Grow(n.held[:0], len(c.sizes))[:len(c.sizes)]
		clear(n.held)
	}
}

// room is how many more units of the group the node bears, at most want.
func (n *neighbours) room(g *group, want int64) int64 {
	if intersects(n.tokens, g.bears) {
		return 0
	}
	if g.alone {
		want = min(want, 1)
	}
	for _, c := range g.counted {
		want = min(want, (n.a.hostCaps[c.selector]-n.counts[c.selector])/c.per)
	}
	if n.most != nil {
		for _, b := range g.belongs {
			want = min(want, (n.most[b.workload]-n.held[b.workload])/b.per)
		}
	}
	return max(want, 0)
}

func (n *neighbours) add(g *group, units int64) {
	n.tokens.or(g.lays)
	for _, c := range g.counted {
		n.counts[c.selector] += units * c.per
	}
	if n.most != nil {
		for _, b := range g.belongs {
			n.held[b.workload] += units * b.per
		}
	}
}

// topologyKey is equal for pods that ask the same of their neighbours.
func topologyKey(b []byte, t *model.Topology) []byte {
	if t.None() {
		return append(b, 0)
	}
	for _, s := range t.Spreads {
		b = fmt.Appendf(b, "s%q%d %d %q%t%t;", s.Key, s.MaxSkew, s.MinDomains, s.Selector.ID, s.HonorAffinity, s.HonorTaints)
	}
	for _, s := range t.Affinity {
		b = fmt.Appendf(b, "a%q%q;", s.Key, s.Selector.ID)
	}
	for _, s := range t.AntiAffinity {
		b = fmt.Appendf(b, "n%q%q;", s.Key, s.Selector.ID)
	}
	for _, h := range t.HostPorts {
		b = fmt.Appendf(b, "p%s;", portToken(h))
	}
	for _, v := range t.VolumeTerms {
		b = fmt.Appendf(b, "v%s;", v.Key())
	}
	return append(b, 0)
}
