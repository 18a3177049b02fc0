package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Check verifies a plan of launches and placements against the rules, by plain code
// that shares nothing with the packing but the nouns. It answers every fault that it
// finds; none means that the plan may be executed.
func Check(w *model.World, plan *model.Plan) []error {
	known := make(map[*model.Pod]bool, len(w.Pods))
	for _, p := range w.Pods {
		known[p] = true
	}
	c := &checker{w: w, known: known, seen: make(map[*model.Pod]string, len(w.Pods)), made: map[purchaseKey]purchase{}}
	for _, pl := range plan.Placements {
		c.placement(pl)
	}
	spent := map[string]resource.Vector{}
	nodes := map[string]int64{}
	reserved := map[string]int{}
	for _, n := range plan.Launch {
		if !c.launch(n) {
			continue
		}
		spent[n.Pool.Name] = spent[n.Pool.Name].Add(n.Offering.Type.Capacity)
		nodes[n.Pool.Name]++
		if id := n.Offering.ReservationID; id != "" {
			reserved[id]++
			if reserved[id] == n.Offering.Count+1 {
				c.fault("reservation %s has %d left, more are planned", id, n.Offering.Count)
			}
		}
	}
	for _, p := range w.Pools {
		c.limits(p, spent[p.Name], nodes[p.Name])
	}
	for _, m := range replayPlan(w, plan.Placements, plan.Launch) {
		c.fault("pod %s could not run where it is planned: %s", m.pod.ID(), m.why.Message)
	}
	for _, v := range plan.Unplaced {
		c.once(v.Pod, "unplaced")
		if len(v.Reasons) == 0 {
			c.fault("pod %s has no place and no reason", v.Pod.ID())
		}
	}
	for _, p := range w.Pods {
		if _, ok := c.seen[p]; !ok {
			c.fault("pod %s is neither placed nor given a reason", p.ID())
		}
	}
	return c.faults
}

type checker struct {
	w       *model.World
	seen    map[*model.Pod]string
	known   map[*model.Pod]bool
	offered map[string]map[*model.Offering]bool // by node class
	made    map[purchaseKey]purchase
	ownOf   *model.NewNode // the node whose own labels are in own
	own     string
	faults  []error
}

func (c *checker) isOffered(class string, o *model.Offering) bool {
	if c.offered[class] == nil {
		set := make(map[*model.Offering]bool, len(c.w.Offerings[class]))
		for _, x := range c.w.Offerings[class] {
			set[x] = true
		}
		if c.offered == nil {
			c.offered = map[string]map[*model.Offering]bool{}
		}
		c.offered[class] = set
	}
	return c.offered[class][o]
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

func (c *checker) once(p *model.Pod, where string) {
	switch before, again := c.seen[p]; {
	case !c.known[p]:
		c.fault("pod %s on %s is not one of the waiting pods", p.ID(), where)
	case again:
		c.fault("pod %s is placed twice: %s and %s", p.ID(), before, where)
	}
	c.seen[p] = where
}

func (c *checker) pod(p *model.Pod, where string) {
	c.once(p, where)
	if v, aside := setAside(p); aside {
		c.fault("pod %s is placed on %s although %s", p.ID(), where, v.Reasons[0].Message)
	}
}

func (c *checker) placement(pl model.Placement) {
	n := pl.Node
	if n.BeingRemoved() || n.Cordoned {
		c.fault("node %s takes no pods but is to get %d", n.ID(), len(pl.Pods))
	}
	free := n.Allocatable.Sub(n.Used()).Sub(expectedDaemons(c.w, n))
	taints := schedulingTaints(c.w, n)
	var sum resource.Vector
	for _, p := range pl.Pods {
		c.pod(p, "node "+n.ID())
		if t, bad := p.Untolerated(taints); bad {
			c.fault("pod %s does not tolerate taint %s of node %s", p.ID(), t, n.ID())
		}
		if x := anyTerm(p.Terms, n.Labels); x != nil {
			c.fault("pod %s does not go with node %s: %s", p.ID(), n.ID(), x)
		}
		sum = sum.Add(p.Requests)
	}
	if name, want, have, lacking := sum.Lacking(free); lacking {
		c.fault("node %s has %s %s left, %s is planned", n.ID(), resource.Format(name, have), name, resource.Format(name, want))
	}
}

// launch checks one new node; it says whether it can be counted against limits.
func (c *checker) launch(n *model.NewNode) bool {
	if n.Pool == nil || n.Offering == nil || c.w.Pool(n.Pool.Name) != n.Pool {
		c.fault("new node %s: its pool or offering is not of this world", n.Name)
		return false
	}
	if r := poolReason(n.Pool); r != nil {
		c.fault("new node %s: %s", n.Name, r.Message)
	}
	if len(n.Pods) == 0 {
		c.fault("new node %s is for no pod", n.Name)
	}
	if len(n.Alternatives) > maxOffers {
		c.fault("new node %s names %d alternatives, at most %d are allowed", n.Name, len(n.Alternatives), maxOffers)
	}
	var sum resource.Vector
	joint := n.Pool.Requirements
	for _, p := range n.Pods {
		c.pod(p, "new node "+n.Name)
		if t, bad := p.Untolerated(n.Pool.Taints); bad {
			c.fault("pod %s does not tolerate taint %s of pool %s", p.ID(), t, n.Pool.Name)
		}
		if x := anyTerm(p.Terms, n.Labels); x != nil {
			c.fault("pod %s does not go with new node %s: %s", p.ID(), n.Name, x)
		}
		sum = sum.Add(p.Requests)
	}
	if !c.isOffered(n.Pool.NodeClass.Name, n.Offering) {
		c.fault("new node %s: %s is not offered", n.Name, n.Offering.Key())
	}
	own := require.FromLabels(n.Labels)
	for _, r := range joint.All() {
		if have, ok := own.Get(r.Key); ok && !r.Has(have.Values[0]) || !ok && !r.AllowsAbsent() {
			c.fault("new node %s does not satisfy its pool: %s", n.Name, r)
		}
	}
	c.offer(n, n.Offering, sum)
	for _, a := range n.Alternatives {
		if a.CapacityType != n.Offering.CapacityType {
			c.fault("new node %s: alternative %s has another capacity type", n.Name, a.Key())
		}
		c.offer(n, a, sum)
	}
	return true
}

// offer checks that the very pods of the node are legal on an offering.
func (c *checker) offer(n *model.NewNode, o *model.Offering, sum resource.Vector) {
	if !o.Available {
		c.fault("new node %s: %s is not available: %s", n.Name, o.Key(), o.Unavailable)
	}
	made := c.bought(n, o)
	if name, want, have, lacking := sum.Lacking(o.Type.Allocatable.Sub(made.daemons)); lacking {
		c.fault("new node %s: %s offers %s %s after daemonsets, %s is planned", n.Name, o.Key(), resource.Format(name, have), name, resource.Format(name, want))
	}
	for _, p := range n.Pods {
		if x := anyTerm(p.Terms, made.labels); x != nil {
			c.fault("new node %s: pod %s does not go with %s: %s", n.Name, p.ID(), o.Key(), x)
			return
		}
	}
}

// purchase is what a node of one pool looks like when it is bought with one offering.
type purchase struct {
	labels  map[string]string
	daemons resource.Vector
}

type purchaseKey struct {
	pool     *model.Pool
	offering *model.Offering
	own      string // labels that no offering decides
}

func (c *checker) bought(n *model.NewNode, o *model.Offering) purchase {
	key := purchaseKey{n.Pool, o, c.ownLabels(n)}
	if b, ok := c.made[key]; ok {
		return b
	}
	b := purchase{labels: nodeLabels(n.Pool, o, require.Set{})}
	for k, v := range n.Labels {
		if !ofOffering(k) {
			b.labels[k] = v
		}
	}
	running := map[string]string{model.LabelRegistered: "true", model.LabelInitialized: "true"}
	maps.Copy(running, b.labels)
	for _, d := range c.w.DaemonSets {
		if _, bad := d.Pod.Untolerated(n.Pool.Taints); !bad && anyTerm(d.Pod.Terms, running) == nil {
			b.daemons = b.daemons.Add(d.Pod.Requests)
		}
	}
	c.made[key] = b
	return b
}

func (c *checker) ownLabels(n *model.NewNode) string {
	if n == c.ownOf {
		return c.own
	}
	var parts []string
	for k, v := range n.Labels {
		if !ofOffering(k) {
			parts = append(parts, k+"="+v)
		}
	}
	slices.Sort(parts)
	c.ownOf, c.own = n, strings.Join(parts, ",")
	return c.own
}

func (c *checker) limits(p *model.Pool, spent resource.Vector, nodes int64) {
	if p.Limits.None() || nodes == 0 {
		return
	}
	l := newLimits(c.w, p)
	for name, left := range l.left {
		if v := spent.Get(name); v > left {
			c.fault("pool %s: %s %s is planned, the limit leaves %s", p.Name, resource.Format(name, v), name, resource.Format(name, max(left, 0)))
		}
	}
	if l.nodes != nil && nodes > *l.nodes {
		c.fault("pool %s: %d nodes are planned, the limit leaves %d", p.Name, nodes, max(*l.nodes, 0))
	}
}
