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

// replay carries a plan out pod by pod, the way kube-scheduler would, and tells the
// pods that it could not bind because of the pods around them. All planned nodes are
// there from the start.
//
// Nobody knows in which order kube-scheduler will take the pods, so the plan has to hold
// in the one that is hardest: pods that ask nothing of others are bound first, for
// nothing keeps them back; then the others, as soon as they may. And spreads have to
// hold in the end, with all pods there, too: then the emptiest value always has room
// for its next pod, and no order leads to a dead end.
type replay struct {
	places  []*place
	planned map[*model.Pod]bool
	kinds   map[string]*kind
	sels    map[string]*census
	order   []*census
	byShun  map[shunKey]*shun // anti-affinities of pods that are there
	kindOf  map[*model.Pod]*kind
	counted map[countedKey]*counted
	texts   map[string]int       // ids of terms and tolerations by text
	askers  map[*model.Pod]asker // of pods with a spread
}

// asker is what of a pod decides which places count for its spreads, as ids; 0 = nothing.
type asker struct{ terms, tolerations int }

// countedKey is what decides which places count for a spread.
type countedKey struct {
	key, keys        string
	affinity, taints bool
	asker            asker
}

// counted is the places that count for a spread, and their values.
type counted struct {
	key    string
	places map[*place]string // with their value
	values map[string]bool
}

// tally counts the pods of a selector by value over the places that count for a
// spread, and knows the least of the counts.
type tally struct {
	over  *counted
	by    map[string]int64
	holds map[int64]int // how many values have a count
	least int64
}

// place is a node as the replay sees it.
type place struct {
	name   string
	isNew  bool
	labels map[string]string
	taints []model.Taint
	ports  []model.HostPort
}

// kind is pods that no selector can tell apart: same namespace, same labels.
type kind struct {
	sample *model.Pod
	picked []*census // selectors that pick it
}

// census counts the pods a selector picks, by place and, once asked, by label value.
type census struct {
	sel   model.Selector
	on    map[*place]int64
	byKey map[string]map[string]int64
	over  map[*counted]*tally
	shuns []*shun // anti-affinities that have the selector
}

// shun counts the pods that have an anti-affinity, by the value of its key.
type shun struct {
	key string
	by  map[string]int64
}

type shunKey struct{ key, selector string }

// misfit is a pod that could not be bound, and why.
type misfit struct {
	pod *model.Pod
	why model.Reason
}

type waitingPod struct {
	pod *model.Pod
	at  *place
}

// replayPlan answers the pods of the plan that its neighbours keep from running.
func replayPlan(w *model.World, placements []model.Placement, launch []*model.NewNode) []misfit {
	if !asksOfOthers(w, placements, launch) {
		return nil
	}
	r := &replay{planned: map[*model.Pod]bool{}, kinds: map[string]*kind{}, sels: map[string]*census{}, byShun: map[shunKey]*shun{},
		kindOf: map[*model.Pod]*kind{}, counted: map[countedKey]*counted{}, texts: map[string]int{}, askers: map[*model.Pod]asker{}}
	byNode := map[*model.Node]*place{}
	var queue []waitingPod
	for _, n := range w.Nodes {
		pl := &place{name: n.ID(), labels: n.Labels, taints: n.Taints}
		byNode[n] = pl
		r.places = append(r.places, pl)
		r.know(n.Pods)
	}
	for _, p := range placements {
		r.know(p.Pods)
		for _, pod := range p.Pods {
			queue = append(queue, waitingPod{pod, byNode[p.Node]})
		}
	}
	daemons := map[*place][]*model.Pod{}
	for _, n := range launch {
		pl := &place{name: "new node " + n.Name, isNew: true, labels: n.Labels}
		r.places = append(r.places, pl)
		r.know(n.Pods)
		if n.Pool != nil {
			pl.taints = n.Pool.Taints
			for _, d := range w.DaemonSets {
				if _, bad := d.Pod.Untolerated(n.Pool.Taints); !bad && anyTerm(d.Pod.Terms, n.Labels) == nil {
					daemons[pl] = append(daemons[pl], d.Pod)
				}
			}
			r.know(daemons[pl])
		}
		for _, pod := range n.Pods {
			queue = append(queue, waitingPod{pod, pl})
		}
	}
	r.matchKinds()
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			r.add(p, byNode[n])
		}
	}
	for pl, pods := range daemons {
		for _, p := range pods {
			r.add(p, pl)
		}
	}
	return r.run(queue)
}

func asksOfOthers(w *model.World, placements []model.Placement, launch []*model.NewNode) bool {
	asks := func(p *model.Pod) bool { return !p.Topology.None() }
	for _, p := range placements {
		if slices.ContainsFunc(p.Pods, asks) {
			return true
		}
	}
	for _, n := range launch {
		if slices.ContainsFunc(n.Pods, asks) {
			return true
		}
	}
	// anti-affinity of what is running keeps waiting pods away, too
	return slices.ContainsFunc(w.Nodes, func(n *model.Node) bool {
		return slices.ContainsFunc(n.Pods, func(p *model.Pod) bool { return p.Topology != nil && len(p.Topology.AntiAffinity) > 0 })
	})
}

func kindKey(p *model.Pod) string {
	var b strings.Builder
	b.WriteString(p.Namespace)
	for _, k := range sortedKeys(p.Labels) {
		b.WriteString("\x00" + k + "\x01" + p.Labels[k])
	}
	if p.Form != nil {
		b.WriteString("\x02" + p.Form.Key)
	}
	return b.String()
}

// know registers the selectors and the kinds of pods.
func (r *replay) know(pods []*model.Pod) {
	for _, p := range pods {
		k := kindKey(p)
		if r.kinds[k] == nil {
			r.kinds[k] = &kind{sample: p}
		}
		r.kindOf[p] = r.kinds[k]
		if p.Topology == nil {
			continue
		}
		for _, s := range p.Topology.Spreads {
			r.census(s.Selector)
		}
		for _, s := range p.Topology.Affinity {
			r.census(s.Selector)
		}
		for _, s := range p.Topology.AntiAffinity {
			r.census(s.Selector)
		}
	}
}

func (r *replay) census(s model.Selector) *census {
	c := r.sels[s.ID]
	if c == nil {
		c = &census{sel: s, on: map[*place]int64{}, byKey: map[string]map[string]int64{}, over: map[*counted]*tally{}}
		r.sels[s.ID] = c
		r.order = append(r.order, c)
	}
	return c
}

// matchKinds finds who picks whom. A selector that asks for labels is held against the
// kinds that have one of them only: there are thousands of both.
func (r *replay) matchKinds() {
	byLabel := map[[2]string][]int{}
	var rest []int
	for i, c := range r.order {
		key := ""
		for k := range c.sel.Labels {
			key = max(key, k)
		}
		if key == "" {
			rest = append(rest, i)
			continue
		}
		at := [2]string{key, c.sel.Labels[key]}
		byLabel[at] = append(byLabel[at], i)
	}
	for _, k := range r.kinds {
		maybe := slices.Clone(rest)
		for key, v := range k.sample.Labels {
			maybe = append(maybe, byLabel[[2]string{key, v}]...)
		}
		slices.Sort(maybe) // in the order of the censuses
		for _, i := range maybe {
			if c := r.order[i]; c.sel.Picks(k.sample) {
				k.picked = append(k.picked, c)
			}
		}
	}
}

// value is a place's value of a key; a host without the label is its own.
func (pl *place) value(key string) (string, bool) {
	if key == model.LabelHostname && (pl.isNew || pl.labels[key] == "") {
		return pl.name, true
	}
	v, ok := pl.labels[key]
	return v, ok
}

// within counts the census's pods in the places that share a value.
func (c *census) within(key, v string) int64 { return c.values(key)[v] }

func (c *census) values(key string) map[string]int64 {
	m := c.byKey[key]
	if m == nil {
		m = map[string]int64{}
		for pl, n := range c.on {
			if x, ok := pl.value(key); ok {
				m[x] += n
			}
		}
		c.byKey[key] = m
	}
	return m
}

// add binds a pod.
func (r *replay) add(p *model.Pod, pl *place) {
	if p.Terminal {
		return
	}
	if p.Topology != nil {
		pl.ports = append(pl.ports, p.Topology.HostPorts...)
		for _, a := range p.Topology.AntiAffinity {
			v, ok := pl.value(a.Key)
			if !ok {
				continue
			}
			k := shunKey{a.Key, a.Selector.ID}
			s := r.byShun[k]
			if s == nil {
				s = &shun{key: a.Key, by: map[string]int64{}}
				r.byShun[k] = s
				c := r.census(a.Selector)
				c.shuns = append(c.shuns, s)
			}
			s.by[v]++
		}
	}
	if p.Deleting != nil {
		return
	}
	for _, c := range r.kindOf[p].picked {
		c.on[pl]++
		for key, m := range c.byKey {
			if v, ok := pl.value(key); ok {
				m[v]++
			}
		}
		for _, t := range c.over {
			if v, ok := t.over.places[pl]; ok {
				t.add(v)
			}
		}
	}
}

// tallied is the census's tally over the places that count for a spread.
func (c *census) tallied(over *counted) *tally {
	if t := c.over[over]; t != nil {
		return t
	}
	t := &tally{over: over, by: make(map[string]int64, len(over.values)), holds: map[int64]int{}}
	for pl, n := range c.on {
		if v, ok := over.places[pl]; ok {
			t.by[v] += n
		}
	}
	t.least = math.MaxInt64
	for v := range over.values {
		t.holds[t.by[v]]++
		t.least = min(t.least, t.by[v])
	}
	c.over[over] = t
	return t
}

// remove takes back what add bound, as far as spreads count it.
func (r *replay) remove(p *model.Pod, pl *place) {
	if p.Deleting != nil {
		return
	}
	for _, c := range r.kindOf[p].picked {
		c.on[pl]--
		for key, m := range c.byKey {
			if v, ok := pl.value(key); ok {
				m[v]--
			}
		}
		for _, t := range c.over {
			if v, ok := t.over.places[pl]; ok {
				t.remove(v)
			}
		}
	}
}

func (t *tally) remove(v string) {
	n := t.by[v]
	t.by[v] = n - 1
	t.holds[n]--
	t.holds[n-1]++
	t.least = min(t.least, n-1)
}

func (t *tally) add(v string) {
	n := t.by[v]
	t.by[v] = n + 1
	t.holds[n]--
	t.holds[n+1]++
	if t.holds[t.least] == 0 {
		t.least++ // the last of the emptiest values got one more
	}
}

// run binds the queue in rounds, by priority and age, and answers what is left.
func (r *replay) run(queue []waitingPod) []misfit {
	var asking, plain []waitingPod
	slices.SortFunc(queue, func(a, b waitingPod) int {
		return cmp.Or(cmp.Compare(b.pod.Priority, a.pod.Priority), a.pod.Created.Compare(b.pod.Created), cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	for _, q := range queue {
		if t := q.pod.Topology; t == nil || len(t.Spreads)+len(t.Affinity)+len(t.AntiAffinity) == 0 {
			plain = append(plain, q)
		} else {
			asking = append(asking, q)
		}
	}
	_, lost := r.round(plain)
	left, more := r.round(asking)
	waits := make(map[*model.Pod]bool, len(left))
	for _, q := range left {
		waits[q.pod] = true
	}
	bound := slices.DeleteFunc(asking, func(q waitingPod) bool { return waits[q.pod] || len(q.pod.Topology.Spreads) == 0 })
	return slices.Concat(lost, more, r.unsettled(bound))
}

// unsettled takes back pods, the last first, whose spreads do not hold once all are there.
func (r *replay) unsettled(bound []waitingPod) (out []misfit) {
	for {
		before := len(out)
		for i := len(bound) - 1; i >= 0; i-- {
			q := bound[i]
			for j := range q.pod.Topology.Spreads {
				if reason := r.skewed(q.pod, q.at, &q.pod.Topology.Spreads[j], 0); reason != nil {
					r.remove(q.pod, q.at)
					bound, out = slices.Delete(bound, i, i+1), append(out, misfit{q.pod, *reason})
					break
				}
			}
		}
		if len(out) == before {
			return out
		}
	}
}

// round binds whatever may be bound until nothing more can.
func (r *replay) round(queue []waitingPod) (left []waitingPod, why []misfit) {
	for {
		left, why = nil, nil
		for _, q := range queue {
			if reason := r.refuses(q.pod, q.at); reason != nil {
				left, why = append(left, q), append(why, misfit{q.pod, *reason})
				continue
			}
			r.add(q.pod, q.at)
		}
		if len(left) == 0 || len(left) == len(queue) {
			return left, why
		}
		queue = left
	}
}

// refuses is why the pod may not be bound to the place now.
func (r *replay) refuses(p *model.Pod, pl *place) *model.Reason {
	no := func(f model.Filter, format string, args ...any) *model.Reason {
		return &model.Reason{Filter: f, Message: fmt.Sprintf(format, args...)}
	}
	for _, c := range r.kindOf[p].picked {
		for _, s := range c.shuns {
			if v, ok := pl.value(s.key); ok && s.by[v] > 0 {
				return no(model.FilterAffinity, "anti-affinity of another pod: %s=%s holds one that must not be near this pod", s.key, v)
			}
		}
	}
	if p.Topology == nil {
		return nil
	}
	for _, a := range p.Topology.AntiAffinity {
		if v, ok := pl.value(a.Key); ok && r.census(a.Selector).within(a.Key, v) > 0 {
			return no(model.FilterAffinity, "anti-affinity: %s=%s holds a pod that it must not be near", a.Key, v)
		}
	}
	for _, a := range p.Topology.Affinity {
		v, ok := pl.value(a.Key)
		c := r.census(a.Selector)
		if ok && c.within(a.Key, v) > 0 {
			continue
		}
		if first := a.Selector.Picks(p) && len(c.values(a.Key)) == 0; ok && first {
			continue
		}
		return no(model.FilterAffinity, "affinity: no pod that it must be near is in %s=%s", a.Key, v)
	}
	for i := range p.Topology.Spreads {
		if reason := r.spreadRefuses(p, pl, &p.Topology.Spreads[i]); reason != nil {
			return reason
		}
	}
	for _, h := range p.Topology.HostPorts {
		if slices.ContainsFunc(pl.ports, h.Collides) {
			return no(model.FilterPorts, "port %s %d of %s is taken", h.Protocol, h.Port, pl.name)
		}
	}
	if len(p.Topology.VolumeTerms) > 0 {
		if c := anyTerm(p.Topology.VolumeTerms, pl.labels); c != nil {
			return no(model.FilterVolumes, "its volumes are not where %s is: %s", pl.name, c)
		}
	}
	return nil
}

func (r *replay) spreadRefuses(p *model.Pod, pl *place, s *model.Spread) *model.Reason {
	self := int64(0)
	if s.Selector.Picks(p) {
		self = 1
	}
	return r.skewed(p, pl, s, self)
}

// skewed says that a spread of a pod does not hold at a place if so many pods come to
// those that it counts.
func (r *replay) skewed(p *model.Pod, pl *place, s *model.Spread, more int64) *model.Reason {
	own, ok := pl.value(s.Key)
	if !ok {
		return &model.Reason{Filter: model.FilterTopology, Message: fmt.Sprintf("topology spread: %s has no label %s", pl.name, s.Key)}
	}
	over := r.countedFor(p, s)
	t := r.census(s.Selector).tallied(over)
	counts, least := t.by, t.least
	if !over.values[own] || int64(len(over.values)) < s.MinDomains {
		least = 0
	}
	if counts[own]+more-least > s.MaxSkew {
		return &model.Reason{Filter: model.FilterTopology, Message: fmt.Sprintf("topology spread: %s=%s holds %d of the pods, the emptiest of %d values %d, maxSkew is %d",
			s.Key, own, counts[own], len(over.values), least, s.MaxSkew)}
	}
	return nil
}

// hasAll says whether the place has the labels of all spreads: kube-scheduler counts no
// other nodes for any of them.
func (pl *place) hasAll(spreads []model.Spread) bool {
	for i := range spreads {
		if _, ok := pl.value(spreads[i].Key); !ok {
			return false
		}
	}
	return true
}

// spreadKeys is the labels of all spreads of a pod, where there are several.
func spreadKeys(p *model.Pod) string {
	spreads := p.Topology.Spreads
	if len(spreads) == 1 {
		return ""
	}
	var b strings.Builder
	for i := range spreads {
		b.WriteString(spreads[i].Key)
		b.WriteByte(0)
	}
	return b.String()
}

// countedFor finds the places that count for a spread of a pod.
func (r *replay) countedFor(p *model.Pod, s *model.Spread) *counted {
	k := countedKey{key: s.Key, keys: spreadKeys(p), affinity: s.HonorAffinity, taints: s.HonorTaints, asker: r.asker(p)}
	if !s.HonorAffinity {
		k.asker.terms = 0
	}
	if !s.HonorTaints {
		k.asker.tolerations = 0
	}
	if got := r.counted[k]; got != nil {
		return got
	}
	out := &counted{key: s.Key, places: map[*place]string{}, values: map[string]bool{}}
	for _, x := range r.places {
		v, ok := x.value(s.Key)
		if !ok || !x.hasAll(p.Topology.Spreads) {
			continue
		}
		if s.HonorAffinity && anyTerm(p.Terms, x.labels) != nil {
			continue
		}
		if s.HonorTaints {
			if _, bad := p.Repelled(x.taints); bad {
				continue
			}
		}
		out.places[x], out.values[v] = v, true
	}
	r.counted[k] = out
	return out
}

// asker finds the ids of the pod's terms and tolerations, once for each pod.
func (r *replay) asker(p *model.Pod) asker {
	if a, ok := r.askers[p]; ok {
		return a
	}
	id := func(text []byte) int {
		n, ok := r.texts[string(text)]
		if !ok {
			n = len(r.texts) + 1
			r.texts[string(text)] = n
		}
		return n
	}
	var a asker
	if !slices.ContainsFunc(p.Terms, func(t require.Set) bool { return t.Len() == 0 }) {
		a.terms = id(appendSpecKey(nil, &model.Pod{Terms: p.Terms}))
	}
	if len(p.Tolerations) > 0 {
		a.tolerations = id(appendSpecKey(nil, &model.Pod{Tolerations: p.Tolerations}))
	}
	r.askers[p] = a
	return a
}
