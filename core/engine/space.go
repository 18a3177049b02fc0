package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Space is the free room on nodes that exist or are on their way. It can be taken
// and given back, for what-if questions; it is not safe for concurrent use.
type Space struct {
	nodes []*spot
	byID  map[*model.Node]*spot
}

// spot is one node with what is left of it.
type spot struct {
	node   *model.Node
	free   resource.Vector
	taints []model.Taint // those that count for new pods
	closed string        // why it takes no new pods, or empty
}

// NewSpace reads the free room of all nodes of the world: allocatable less the
// requests of the pods on them, of those nominated to them and of the daemon pods still
// expected. Nodes come
// initialized ones first, then by name.
func NewSpace(w *model.World) *Space {
	s := &Space{byID: make(map[*model.Node]*spot, len(w.Nodes))}
	for _, n := range w.Nodes {
		sp := &spot{node: n, free: n.Allocatable.Sub(n.Promised()).Sub(expectedDaemons(w, n)), taints: schedulingTaints(w, n)}
		switch {
		case n.BeingRemoved():
			sp.closed = "is being removed"
		case n.Cordoned:
			sp.closed = "is cordoned"
		}
		s.nodes = append(s.nodes, sp)
		s.byID[n] = sp
	}
	type keyed struct {
		*spot
		initialized bool
		id          string
	}
	order := make([]keyed, len(s.nodes))
	for i, sp := range s.nodes {
		order[i] = keyed{sp, sp.node.Initialized(), sp.node.ID()}
	}
	slices.SortStableFunc(order, func(a, b keyed) int {
		if a.initialized != b.initialized {
			if a.initialized {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
	for i, k := range order {
		s.nodes[i] = k.spot
	}
	return s
}

// openSpots is the nodes that take new pods, in order, by blocks: what does not fit into
// the most that any node of a block has free is not looked at node by node.
type openSpots struct {
	spots []*spot
	most  []resource.Vector // by block; rooms only shrink, so it holds while they are filled
	stale []bool            // by block: something was taken from it since
}

// openBlock is how many nodes a block has.
const openBlock = 32

func (s *Space) open() *openSpots {
	o := &openSpots{}
	for _, sp := range s.nodes {
		if sp.closed != "" {
			continue
		}
		if len(o.spots)%openBlock == 0 {
			o.most, o.stale = append(o.most, sp.free), append(o.stale, false)
		}
		last := &o.most[len(o.most)-1]
		*last = last.Max(sp.free)
		o.spots = append(o.spots, sp)
	}
	return o
}

// next is the first node from i on that has room for the request, -1 if there is none.
func (o *openSpots) next(req resource.Vector, i int) int {
	for i < len(o.spots) {
		if i%openBlock == 0 && !req.Fits(o.most[i/openBlock]) {
			i += openBlock
			continue
		}
		if req.Fits(o.spots[i].free) {
			return i
		}
		if i++; i%openBlock == 0 && o.stale[i/openBlock-1] {
			o.shrink(i/openBlock - 1)
		}
	}
	return -1
}

// take books a request on a node.
func (o *openSpots) take(i int, req resource.Vector) {
	o.spots[i].free = o.spots[i].free.Sub(req)
	o.stale[i/openBlock] = true
}

// shrink brings what a block has at most up to date.
func (o *openSpots) shrink(block int) {
	list := o.spots[block*openBlock : min(len(o.spots), (block+1)*openBlock)]
	most := list[0].free
	for _, sp := range list[1:] {
		most = most.Max(sp.free)
	}
	o.most[block], o.stale[block] = most, false
}

// expectedDaemons is the requests of the daemon pods that belong on the node but
// are not there yet.
func expectedDaemons(w *model.World, n *model.Node) resource.Vector {
	var want, have resource.Vector
	daemonsFor(w, n, func(d *model.DaemonSet) { want = want.Add(d.Pod.Requests) })
	for _, p := range n.Pods {
		if p.Daemon() {
			have = have.Add(p.Requests)
		}
	}
	return want.Sub(have).Floor()
}

// expectedPorts is the host ports of the daemon pods that belong on the node but are
// not there yet.
func expectedPorts(w *model.World, n *model.Node) []model.HostPort {
	if !slices.ContainsFunc(w.DaemonSets, func(d *model.DaemonSet) bool { return d.Pod.Topology != nil && len(d.Pod.Topology.HostPorts) > 0 }) {
		return nil
	}
	var out []model.HostPort
	daemonsFor(w, n, func(d *model.DaemonSet) {
		there := func(p *model.Pod) bool {
			return p.Daemon() && p.Namespace == d.Namespace && p.Owner.Name == d.Name
		}
		if d.Pod.Topology != nil && !slices.ContainsFunc(n.Pods, there) {
			out = append(out, d.Pod.Topology.HostPorts...)
		}
	})
	return out
}

// daemonsFor calls f with every DaemonSet whose pod belongs on the node once it is up.
func daemonsFor(w *model.World, n *model.Node, f func(*model.DaemonSet)) {
	labels := n.Labels
	if !n.Joined() || !n.Initialized() {
		labels = map[string]string{model.LabelRegistered: "true", model.LabelInitialized: "true"}
		for k, v := range n.Labels {
			labels[k] = v
		}
	}
	taints := schedulingTaints(w, n)
	for _, d := range w.DaemonSets {
		if _, bad := d.Pod.Untolerated(taints); !bad && anyTerm(d.Pod.Terms, labels) == nil {
			f(d)
		}
	}
}

// anyTerm is nil where the labels satisfy one of the terms, else the last conflict.
func anyTerm(terms []require.Set, labels map[string]string) *require.Conflict {
	var last *require.Conflict
	for _, t := range terms {
		c := t.LabelsSatisfy(labels)
		if c == nil {
			return nil
		}
		last = c
	}
	return last
}

// ephemeral taints go away by themselves while a node of ours starts.
var ephemeral = []model.Taint{
	{Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/not-ready", Effect: model.NoExecute},
	{Key: "node.kubernetes.io/unreachable", Effect: model.NoSchedule},
	{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: model.NoSchedule},
	{Key: model.TaintUnregistered, Effect: model.NoExecute},
}

// schedulingTaints is the taints that keep pods off the node once it is up: those of
// the claim while it has not registered, without startup and ephemeral taints while
// it is not initialized, all of them afterwards. A startup taint may stand on the
// claim or on its pool, which may have got it since.
func schedulingTaints(w *model.World, n *model.Node) []model.Taint {
	if n.Claim == nil || n.Initialized() && n.Joined() {
		return n.Taints
	}
	if !n.Joined() || !n.Registered() {
		return n.Claim.Taints
	}
	startup := n.Claim.StartupTaints
	if p := w.Pool(n.Pool()); p != nil {
		startup = slices.Concat(startup, p.StartupTaints)
	}
	var out []model.Taint
	for _, t := range n.Taints {
		same := func(o model.Taint) bool { return o.Same(t) }
		if slices.ContainsFunc(startup, same) || slices.ContainsFunc(ephemeral, same) || strings.HasPrefix(t.Key, "readiness.k8s.io/") {
			continue
		}
		out = append(out, t)
	}
	return out
}

// Unexplained is the taints that keep pods off a node of ours that is still starting,
// although neither its claim nor its pool has them: often startup taints that nobody
// declared, for which one node after the other would be bought.
func Unexplained(w *model.World, n *model.Node) []model.Taint {
	if n.Claim == nil || n.Initialized() || !n.Joined() || !n.Registered() || n.BeingRemoved() {
		return nil
	}
	known := n.Claim.Taints
	if p := w.Pool(n.Pool()); p != nil {
		known = slices.Concat(known, p.Taints)
	}
	var out []model.Taint
	for _, t := range schedulingTaints(w, n) {
		if !slices.ContainsFunc(known, func(o model.Taint) bool { return o.Same(t) }) {
			out = append(out, t)
		}
	}
	return out
}

// Free is what is left of a node.
func (s *Space) Free(n *model.Node) resource.Vector { return s.byID[n].free }

// Allowed says why the pod may not go onto the node, nil where it may.
func (s *Space) Allowed(p *model.Pod, n *model.Node) *model.Reason {
	sp := s.byID[n]
	if r := sp.allows(p, p.Terms); r != nil {
		return r
	}
	return sp.fits(p)
}

func (sp *spot) allows(p *model.Pod, terms []require.Set) *model.Reason {
	if sp.closed != "" {
		return &model.Reason{Filter: model.FilterTaints, Message: fmt.Sprintf("node %s %s", sp.node.ID(), sp.closed)}
	}
	if t, bad := p.Untolerated(sp.taints); bad {
		return &model.Reason{Filter: model.FilterTaints, Message: fmt.Sprintf("node %s has taint %s", sp.node.ID(), t)}
	}
	if c := anyTerm(terms, sp.node.Labels); c != nil {
		return &model.Reason{Filter: model.FilterRequirements, Message: fmt.Sprintf("node %s: %s", sp.node.ID(), c)}
	}
	return nil
}

func (sp *spot) fits(p *model.Pod) *model.Reason {
	name, want, have, lacking := p.Requests.Lacking(sp.free)
	if !lacking {
		return nil
	}
	return &model.Reason{Filter: model.FilterResources, Message: fmt.Sprintf("node %s has %s %s left, %s is asked for",
		sp.node.ID(), resource.Format(name, have), name, resource.Format(name, want))}
}

// Take uses room of the node for the pod, whether it fits or not.
func (s *Space) Take(p *model.Pod, n *model.Node) {
	sp := s.byID[n]
	sp.free = sp.free.Sub(p.Requests)
}

// Release gives the room of the pod back.
func (s *Space) Release(p *model.Pod, n *model.Node) {
	sp := s.byID[n]
	sp.free = sp.free.Add(p.Requests)
}

// Close takes the node out of the space, with the reason; Open undoes it.
func (s *Space) Close(n *model.Node, why string) { s.byID[n].closed = why }

// Open lets the node take pods again.
func (s *Space) Open(n *model.Node) { s.byID[n].closed = "" }
