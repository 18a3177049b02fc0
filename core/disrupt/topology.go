package disrupt

import (
	"fmt"
	"math"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// around answers what pods ask of the pods around them, for moves. It is careful
// rather than complete: a pod with a spread or an anti-affinity over something wider
// than a node moves within its own zone (or whatever the key is) only, where it is
// counted already, so that no order of moves can break what it asks. The counts are
// those of the world; pods that the plan moves are counted where they were and where
// they go.
type around struct {
	w      *model.World
	nodes  map[*model.Pod]*model.Node // where running pods are
	labels map[[2]string][]*model.Pod // running pods by label
	pods   []*model.Pod               // all running pods

	shuns   map[shunKey]*shun
	byLabel map[[2]string][]*shun // shuns whose pods all have a label
	rest    []*shun               // shuns of which no label is known
	picking map[*model.Pod][]*shun

	bounds   *strategyBounds
	likes    *engine.Preferences
	prices   *model.Prices
	censuses map[shunKey]*census
	counting map[*model.Pod][]*census
}

type shunKey struct{ selector, key string }

// shun is an anti-affinity of running pods: by value of the label, how many pods
// have it there.
type shun struct {
	selector model.Selector
	key      string
	at       map[string]int
}

func newAround(w *model.World) *around {
	a := &around{w: w, nodes: map[*model.Pod]*model.Node{}, shuns: map[shunKey]*shun{}, byLabel: map[[2]string][]*shun{}, picking: map[*model.Pod][]*shun{}}
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			a.nodes[p] = n
			a.pods = append(a.pods, p)
			if p.Topology == nil {
				continue
			}
			for _, t := range p.Topology.AntiAffinity {
				if v, ok := n.Labels[t.Key]; ok {
					a.shun(t).at[v]++
				}
			}
		}
	}
	return a
}

// shun finds or makes the record of an anti-affinity.
func (a *around) shun(t model.PodTerm) *shun {
	k := shunKey{t.Selector.ID, t.Key}
	s := a.shuns[k]
	if s != nil {
		return s
	}
	s = &shun{selector: t.Selector, key: t.Key, at: map[string]int{}}
	a.shuns[k] = s
	if label, ok := hint(t.Selector); ok {
		a.byLabel[label] = append(a.byLabel[label], s)
	} else {
		a.rest = append(a.rest, s)
	}
	return s
}

// hint is a label that every pod of the selector has, always the same one.
func hint(s model.Selector) ([2]string, bool) {
	key := ""
	for k := range s.Labels {
		key = max(key, k)
	}
	return [2]string{key, s.Labels[key]}, key != ""
}

// picked is the anti-affinities that the pod must keep away from.
func (a *around) picked(p *model.Pod) []*shun {
	if len(a.shuns) == 0 {
		return nil
	}
	if out, ok := a.picking[p]; ok {
		return out
	}
	var out []*shun
	add := func(list []*shun) {
		for _, s := range list {
			if s.selector.Picks(p) {
				out = append(out, s)
			}
		}
	}
	add(a.rest)
	for k, v := range p.Labels {
		add(a.byLabel[[2]string{k, v}])
	}
	a.picking[p] = out
	return out
}

// matching is the running pods that a selector picks.
func (a *around) matching(s model.Selector) []*model.Pod {
	list := a.pods
	if label, ok := hint(s); ok {
		if a.labels == nil {
			a.labels = map[[2]string][]*model.Pod{}
			for _, p := range a.pods {
				for k, v := range p.Labels {
					a.labels[[2]string{k, v}] = append(a.labels[[2]string{k, v}], p)
				}
			}
		}
		list = a.labels[label]
	}
	var out []*model.Pod
	for _, p := range list {
		if !p.Terminal && s.Picks(p) {
			out = append(out, p)
		}
	}
	return out
}

// matters is the running pods that can mean something to a pod without a place, beside the
// room that they take: those that ask for something, and those that others ask about. Nil =
// all of them may, since pods have preferences, or strategies bound how many share a node.
func (a *around) matters() map[*model.Pod]bool {
	if a.likes != nil || a.bounds != nil {
		return nil
	}
	out, asked := map[*model.Pod]bool{}, map[string]bool{}
	ask := func(s model.Selector) {
		if asked[s.ID] {
			return
		}
		asked[s.ID] = true
		for _, p := range a.matching(s) {
			out[p] = true
		}
	}
	for _, p := range a.pods {
		if p.Topology == nil {
			if p.Daemon() {
				out[p] = true // the room of those that are still to come is held free
			}
			continue
		}
		out[p] = true
		for _, s := range p.Topology.Spreads {
			ask(s.Selector)
		}
		for _, t := range p.Topology.Affinity {
			ask(t.Selector)
		}
		for _, t := range p.Topology.AntiAffinity {
			ask(t.Selector)
		}
	}
	return out
}

// unmovable says why a pod cannot move whatever room there is, or is empty.
func (a *around) unmovable(p *model.Pod) string {
	t := p.Topology
	if t.None() {
		return ""
	}
	if len(t.Affinity) > 0 {
		return "it asks for pods near it (required pod affinity), and whether those stay is not planned"
	}
	n := a.nodes[p]
	for _, s := range t.Spreads {
		if s.Key == model.LabelHostname {
			return "it spreads over nodes, and every node that goes changes what is even"
		}
		if n != nil && n.Labels[s.Key] == "" {
			return fmt.Sprintf("it spreads over %s, which its node does not have", s.Key)
		}
		if why := a.uneven(p, s); why != "" {
			return why
		}
	}
	for _, x := range t.AntiAffinity {
		if x.Key == model.LabelHostname || n == nil {
			continue
		}
		for _, o := range a.matching(x.Selector) {
			if o != p && a.nodes[o].Labels[x.Key] == n.Labels[x.Key] {
				return fmt.Sprintf("pod %s is in the same %s, which its anti-affinity would not allow again", o.ID(), x.Key)
			}
		}
	}
	return ""
}

// uneven says why a pod that left could not come back into its own domain: the
// spread is broken already.
func (a *around) uneven(p *model.Pod, s model.Spread) string {
	counts := map[string]int64{}
	counted := func(n *model.Node) bool {
		v, ok := n.Labels[s.Key]
		if !ok || v == "" {
			return false
		}
		if s.HonorAffinity && !matches(p, n) {
			return false
		}
		if _, bad := p.Untolerated(n.Taints); s.HonorTaints && bad {
			return false
		}
		return true
	}
	for _, n := range a.w.Nodes {
		if counted(n) {
			counts[n.Labels[s.Key]] += 0
		}
	}
	for _, o := range a.matching(s.Selector) {
		if n := a.nodes[o]; o.Deleting == nil && counted(n) {
			counts[n.Labels[s.Key]]++
		}
	}
	own := a.nodes[p].Labels[s.Key]
	if s.Selector.Picks(p) {
		counts[own]--
	}
	least := int64(math.MaxInt64)
	for _, c := range counts {
		least = min(least, c)
	}
	if s.MinDomains > int64(len(counts)) {
		least = 0
	}
	if counts[own]+1-least > s.MaxSkew {
		return fmt.Sprintf("its spread over %s is uneven already: it could not come back into %s", s.Key, own)
	}
	return ""
}

// shunAt counts the anti-affinities of pods that a plan moves, where they go.
type shunAt struct {
	shun  *shun
	value string
}

// welcome says whether the pods around a room let the tenant in.
func (r *rooms) welcome(t *tenant, i int) bool {
	x := r.list[i]
	if r.crowded(t, i) {
		return false
	}
	for _, s := range r.around.picked(t.pod) {
		v, ok := x.node.Labels[s.key]
		if ok && s.at[v]+r.guestShuns[shunAt{s, v}]-r.ownShuns(t, s, v) > 0 {
			return false
		}
	}
	topo := t.pod.Topology
	if topo.None() {
		return true
	}
	for _, s := range topo.Spreads {
		if t.from == nil || x.node.Labels[s.Key] != t.from.Labels[s.Key] {
			return false
		}
	}
	for _, a := range topo.AntiAffinity {
		switch {
		case a.Key != model.LabelHostname && (t.from == nil || x.node.Labels[a.Key] != t.from.Labels[a.Key]):
			return false
		case a.Key == model.LabelHostname && r.meets(t, x, func(o *model.Pod) bool { return a.Selector.Picks(o) }):
			return false
		}
	}
	return len(topo.HostPorts) == 0 || !r.meets(t, x, func(o *model.Pod) bool { return collide(topo.HostPorts, o) })
}

// ownShuns is how often the tenant's own anti-affinity is counted at a value.
func (r *rooms) ownShuns(t *tenant, s *shun, value string) int {
	if t.pod.Topology == nil {
		return 0
	}
	n := 0
	for _, a := range t.pod.Topology.AntiAffinity {
		if a.Key != s.key || a.Selector.ID != s.selector.ID {
			continue
		}
		if t.from != nil && t.from.Labels[s.key] == value {
			n++
		}
		if t.at >= 0 && r.list[t.at].node.Labels[s.key] == value {
			n++
		}
	}
	return n
}

// meets says whether some other pod of the room is such a one.
func (r *rooms) meets(t *tenant, x *room, such func(*model.Pod) bool) bool {
	for _, o := range x.node.Pods {
		if o != t.pod && such(o) {
			return true
		}
	}
	for _, g := range x.guests {
		if g != t && such(g.pod) {
			return true
		}
	}
	return false
}

func collide(ports []model.HostPort, o *model.Pod) bool {
	if o.Topology == nil {
		return false
	}
	for _, a := range ports {
		for _, b := range o.Topology.HostPorts {
			if a.Collides(b) {
				return true
			}
		}
	}
	return false
}

// tally counts the tenant's anti-affinities where it goes (by +1) or leaves (by -1).
func (r *rooms) tally(t *tenant, i, by int) {
	r.count(t, i, int64(by))
	if t.pod.Topology == nil {
		return
	}
	for _, a := range t.pod.Topology.AntiAffinity {
		if v, ok := r.list[i].node.Labels[a.Key]; ok {
			r.guestShuns[shunAt{r.around.shun(a), v}] += by
		}
	}
}
