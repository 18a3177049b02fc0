package disrupt

import (
	"math"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// room is a node that may take pods, with what is still free on it.
type room struct {
	node   *model.Node
	free   resource.Vector
	open   bool      // takes moved pods
	urgent bool      // takes waiting pods and pods of nodes on their way out
	guests []*tenant // pods that the plan puts here
}

// tenant is a pod that the plan places.
type tenant struct {
	pod   *model.Pod
	form  *model.Pod  // the pod with what it prefers of its node as requirements
	soft  *model.Soft // what it prefers of the pods around it, nil = nothing
	class int
	from  *model.Node // nil for pods that waited before
	at    int         // index of the room the plan puts it in, -1 = none
}

// rooms answers "the first node, in keep order, where this pod fits" without
// looking at every node: a tree holds the largest free amounts of each subtree.
// What no longer takes pods is closed, so its amounts are negative in the tree.
type rooms struct {
	list  []*room
	index map[*model.Node]int
	size  int // leaves of the tree, a power of two
	tree  [][resource.NumBase]int64

	classes map[string]int
	pods    []*model.Pod // one of each class
	legal   [][]int8     // by class and room: 0 not asked yet, 1 yes, -1 no

	around     *around
	guestShuns map[shunAt]int
	moved      map[censusAt]int64 // how the plan changes what is counted for preferences
	softShuns  map[censusAt]int64 // pods that the plan moves and that prefer to be apart from others, where they go
}

var closed = [resource.NumBase]int64{-1, -1, -1, -1}

func newRooms(list []*room, a *around) *rooms {
	r := &rooms{list: list, index: make(map[*model.Node]int, len(list)), size: 1, classes: map[string]int{}, around: a, guestShuns: map[shunAt]int{}, moved: map[censusAt]int64{}, softShuns: map[censusAt]int64{}}
	for r.size < len(list) {
		r.size *= 2
	}
	r.tree = make([][resource.NumBase]int64, 2*r.size)
	for i := range r.tree {
		r.tree[i] = closed
	}
	for i, x := range list {
		r.index[x.node] = i
		if x.open {
			r.tree[r.size+i] = leaf(x.free)
		}
	}
	for i := r.size - 1; i > 0; i-- {
		r.tree[i] = larger(r.tree[2*i], r.tree[2*i+1])
	}
	return r
}

// leaf is what a room offers; one that is over-committed offers nothing.
func leaf(v resource.Vector) [resource.NumBase]int64 {
	for _, x := range v.Base {
		if x < 0 {
			return closed
		}
	}
	for _, a := range v.Ext {
		if a.Value < 0 {
			return closed
		}
	}
	return v.Base
}

func larger(a, b [resource.NumBase]int64) [resource.NumBase]int64 {
	for i := range a {
		a[i] = max(a[i], b[i])
	}
	return a
}

// set writes a leaf and the path above it.
func (r *rooms) set(i int, v [resource.NumBase]int64) {
	at := r.size + i
	r.tree[at] = v
	for at /= 2; at > 0; at /= 2 {
		up := larger(r.tree[2*at], r.tree[2*at+1])
		if up == r.tree[at] {
			return
		}
		r.tree[at] = up
	}
}

// close takes a room out of the search, reopen brings it back as it is now.
func (r *rooms) close(i int) {
	r.list[i].open = false
	r.set(i, closed)
}

func (r *rooms) reopen(i int) {
	r.list[i].open = true
	r.set(i, leaf(r.list[i].free))
}

// looks is how many rooms are compared for a tenant: more find little better.
const looks = 4

// find is an open room where the tenant fits, or -1: of the first few in keep order
// the one that it leaves least lopsided, so that CPU and memory run out together.
func (r *rooms) find(t *tenant) int {
	need := t.pod.Requests.Base
	best, least, left := -1, 2.0, looks
	var walk func(at int)
	walk = func(at int) {
		have := &r.tree[at]
		for i, x := range need {
			if x > have[i] || have[i] < 0 {
				return
			}
		}
		if at >= r.size {
			i := at - r.size
			if i < len(r.list) && r.allowed(t, i) && t.pod.Requests.Fits(r.list[i].free) && r.welcome(t, i) && r.unkept(t, i) == "" {
				if l := lopsided(r.list[i], need); best < 0 || l < least-1e-12 {
					best, least = i, l
				}
				left--
			}
			return
		}
		walk(2 * at)
		if left > 0 {
			walk(2*at + 1)
		}
	}
	walk(1)
	return best
}

// lopsided is how far apart the free shares of CPU and memory would be, 0 to 1.
func lopsided(x *room, need [resource.NumBase]int64) float64 {
	share := func(k int) float64 {
		if of := x.node.Allocatable.Base[k]; of > 0 {
			return float64(x.free.Base[k]-need[k]) / float64(of)
		}
		return 0
	}
	return math.Abs(share(resource.CPU) - share(resource.Memory))
}

// put moves a tenant into room i; take takes it out again.
func (r *rooms) put(t *tenant, i int) {
	x := r.list[i]
	x.free = x.free.Sub(t.pod.Requests)
	x.guests = append(x.guests, t)
	t.at = i
	r.tally(t, i, 1)
	if x.open {
		r.set(i, leaf(x.free))
	}
}

func (r *rooms) take(t *tenant) {
	x := r.list[t.at]
	r.tally(t, t.at, -1)
	x.free = x.free.Add(t.pod.Requests)
	for k := len(x.guests) - 1; k >= 0; k-- { // the last one in is the likeliest to leave
		if x.guests[k] == t {
			x.guests = append(x.guests[:k], x.guests[k+1:]...)
			break
		}
	}
	if x.open {
		r.set(t.at, leaf(x.free))
	}
	t.at = -1
}

// maxClasses bounds the table of who may go where; rarer classes are asked anew.
const maxClasses = 1024

// tenant is a pod to be placed.
func (r *rooms) tenant(p *model.Pod, from *model.Node) *tenant {
	form := r.around.likes.Form(p)
	return &tenant{pod: p, form: form, soft: r.around.likes.Soft(p), class: r.class(form), from: from, at: -1}
}

// class groups pods that may go to the same nodes, amounts apart.
func (r *rooms) class(p *model.Pod) int {
	key := ""
	if p.Form != nil || len(p.Tolerations) > 0 || len(p.Terms) > 1 || len(p.Terms) == 1 && p.Terms[0].Len() > 0 || p.Topology != nil && len(p.Topology.VolumeTerms) > 0 {
		key = classKey(p)
	}
	if c, ok := r.classes[key]; ok {
		return c
	}
	c := len(r.pods)
	r.classes[key] = c
	r.pods = append(r.pods, p)
	var table []int8
	if c < maxClasses {
		table = make([]int8, len(r.list))
	}
	r.legal = append(r.legal, table)
	return c
}

func classKey(p *model.Pod) string {
	b := make([]byte, 0, 256)
	for _, t := range p.Terms {
		b = append(append(b, t.Key()...), '|')
	}
	if p.Topology != nil {
		b = append(b, 1)
		for _, t := range p.Topology.VolumeTerms {
			b = append(append(b, t.Key()...), '|')
		}
	}
	b = append(b, 2)
	if p.Form != nil && p.Form.SoftTaints {
		b = append(b, 3)
	}
	for _, t := range p.Tolerations {
		for _, s := range []string{t.Key, t.Operator, t.Value, string(t.Effect)} {
			b = append(append(b, s...), 0)
		}
	}
	return string(b)
}

// allowed says whether taints and labels let the tenant's class onto room i.
func (r *rooms) allowed(t *tenant, i int) bool {
	table := r.legal[t.class]
	if table == nil {
		return Legal(t.form, r.list[i].node)
	}
	if table[i] == 0 {
		table[i] = -1
		if Legal(t.form, r.list[i].node) {
			table[i] = 1
		}
	}
	return table[i] > 0
}

// Legal says whether a node's taints and labels let the pod and its volumes be there;
// amounts and the pods around are other questions.
func Legal(p *model.Pod, n *model.Node) bool {
	if _, bad := p.Untolerated(lasting(n)); bad {
		return false
	}
	return matches(p, n) && (p.Topology == nil || anyOf(p.Topology.VolumeTerms, n))
}

// matches says whether a node's labels satisfy one of the pod's terms.
func matches(p *model.Pod, n *model.Node) bool { return anyOf(p.Terms, n) }

func anyOf(terms []require.Set, n *model.Node) bool {
	for _, term := range terms {
		if term.LabelsSatisfy(n.Labels) == nil {
			return true
		}
	}
	return len(terms) == 0
}

// lasting is the taints that count for a pod to come: while a node of ours is not
// initialized, its startup taints and those of its birth will still go.
func lasting(n *model.Node) []model.Taint {
	if n.Claim == nil || n.Initialized() {
		return n.Taints
	}
	var out []model.Taint
	for _, t := range n.Taints {
		passing := t.Key == model.TaintUnregistered || strings.HasPrefix(t.Key, "node.kubernetes.io/") ||
			t.Key == "node.cloudprovider.kubernetes.io/uninitialized"
		for _, s := range n.Claim.StartupTaints {
			passing = passing || t.Same(s)
		}
		if !passing {
			out = append(out, t)
		}
	}
	return out
}

// freeOn is what a node has left for more pods: its allocatable less what runs
// there, what was nominated to it and what daemon pods that are still to come will take.
func freeOn(w *model.World, n *model.Node) resource.Vector {
	free := n.Allocatable.Sub(n.Promised())
	if len(w.DaemonSets) == 0 {
		return free
	}
	running := map[[2]string]bool{}
	for _, p := range n.Pods {
		if p.Daemon() {
			running[[2]string{p.Namespace, p.Owner.Name}] = true
		}
	}
	for _, ds := range w.DaemonSets {
		if !running[[2]string{ds.Namespace, ds.Name}] && Legal(ds.Pod, n) {
			free = free.Sub(ds.Pod.Requests)
		}
	}
	return free
}
