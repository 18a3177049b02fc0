package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Check verifies a plan of launches and placements against the rules, by plain code
// that shares nothing with the packing but the nouns. It answers every fault that it
// finds; none means that the plan may be executed. What strategies said is not known
// to it: see CheckPriced.
func Check(w *model.World, plan *model.Plan) []error { return newChecker(w).check(plan) }

// CheckPriced is Check with the strategies' prices at hand, nil = the market's: it
// refuses vetoed offerings as well, effective prices that no strategy gave,
// alternatives that are too dear, and what goes against a strategy's limits.
func CheckPriced(w *model.World, plan *model.Plan, prices *model.Prices) []error {
	c := newChecker(w)
	c.prices = prices
	if prices == nil {
		c.prices = &model.Prices{}
	}
	return c.check(plan)
}

func newChecker(w *model.World) *checker {
	c := &checker{w: w, known: make(map[*model.Pod]bool, len(w.Pods)), nodes: make(map[*model.Node]bool, len(w.Nodes)),
		seen: make(map[*model.Pod]string, len(w.Pods)), names: map[string]bool{}, made: map[purchaseKey]purchase{}}
	for _, p := range w.Pods {
		c.known[p] = true
	}
	for _, n := range w.Nodes {
		c.nodes[n] = true
	}
	return c
}

func (c *checker) check(plan *model.Plan) []error {
	if !c.whole(plan) {
		return c.faults
	}
	filled := map[*model.Node]bool{}
	for _, pl := range plan.Placements {
		if filled[pl.Node] {
			c.fault("node %s has two placements", pl.Node.ID())
		}
		filled[pl.Node] = true
		c.placement(pl)
	}
	c.near = newNearby(c.w, plan)
	spent := map[string]resource.Vector{}
	nodes := map[string]int64{}
	reserved := map[string]int64{}
	left := reservationsLeft(c.w)
	for _, n := range plan.Launch {
		if !c.launch(n) {
			continue
		}
		spent[n.Pool.Name] = spent[n.Pool.Name].Add(mostCapacity(n))
		nodes[n.Pool.Name]++
		if id := n.Offering.ReservationID; id != "" {
			reserved[id]++
			if reserved[id] == left[id]+1 {
				c.fault("reservation %s has %d left, more are planned", id, left[id])
			}
		}
	}
	if c.prices != nil {
		c.strategyLimits(plan)
	}
	for _, p := range c.w.Pools {
		c.limits(p, spent[p.Name], nodes[p.Name])
	}
	for _, m := range replayPlan(c.w, plan.Placements, plan.Launch) {
		c.fault("pod %s could not run where it is planned: %s", m.pod.ID(), m.why.Message)
	}
	for _, v := range plan.Unplaced {
		c.verdict(v)
	}
	for _, p := range c.w.Pods {
		if _, ok := c.seen[p]; !ok {
			c.fault("pod %s is neither placed nor given a reason", p.ID())
		}
	}
	return c.faults
}

type checker struct {
	w       *model.World
	prices  *model.Prices // nil = not known
	seen    map[*model.Pod]string
	known   map[*model.Pod]bool
	nodes   map[*model.Node]bool
	names   map[string]bool                    // of new nodes
	offered map[string]map[*model.Offering]int // index by node class
	made    map[purchaseKey]purchase
	near    *nearby
	ownOf   *model.NewNode // the node whose own labels are in own
	own     string
	faults  []error
}

// whole says whether everything that the plan names is there at all, and of this world.
func (c *checker) whole(plan *model.Plan) bool {
	some := func(pods []*model.Pod) bool {
		if slices.Contains(pods, nil) {
			c.fault("the plan names a pod that is not there")
			return false
		}
		return true
	}
	for _, pl := range plan.Placements {
		if pl.Node == nil || !c.nodes[pl.Node] {
			c.fault("the plan places pods on a node that is not of this world")
			return false
		}
		if !some(pl.Pods) {
			return false
		}
	}
	for _, n := range plan.Launch {
		if n == nil {
			c.fault("the plan buys a node that is not described")
			return false
		}
		if !some(n.Pods) {
			return false
		}
	}
	for _, v := range plan.Unplaced {
		if !some([]*model.Pod{v.Pod}) {
			return false
		}
	}
	return true
}

// isOffered says whether the offering is one of those of the node class.
func (c *checker) isOffered(class string, o *model.Offering) bool {
	_, ok := c.index(class, o)
	return ok
}

func (c *checker) index(class string, o *model.Offering) (int, bool) {
	if c.offered[class] == nil {
		set := make(map[*model.Offering]int, len(c.w.Offerings[class]))
		for i, x := range c.w.Offerings[class] {
			set[x] = i
		}
		if c.offered == nil {
			c.offered = map[string]map[*model.Offering]int{}
		}
		c.offered[class] = set
	}
	i, ok := c.offered[class][o]
	return i, ok
}

// verdict checks the answer for a pod that has no place.
func (c *checker) verdict(v model.Verdict) {
	c.once(v.Pod, "unplaced")
	if len(v.Reasons) == 0 {
		c.fault("pod %s has no place and no reason", v.Pod.ID())
	}
	for _, r := range v.Reasons {
		switch {
		case !r.Filter.Known():
			c.fault("pod %s: its reason names the filter %q, which there is not", v.Pod.ID(), r.Filter)
		case r.Message == "":
			c.fault("pod %s: its reason says nothing", v.Pod.ID())
		case r.Pool != "" && c.w.Pool(r.Pool) == nil:
			c.fault("pod %s: its reason names pool %s, which there is not", v.Pod.ID(), r.Pool)
		}
	}
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
	free := n.Allocatable.Sub(n.Promised()).Sub(expectedDaemons(c.w, n))
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
	for _, o := range offers(n) {
		if !c.isOffered(n.Pool.NodeClass.Name, o) {
			c.fault("new node %s: an offering of it is not offered by node class %q", n.Name, n.Pool.NodeClass.Name)
			return false
		}
	}
	if r := poolReason(n.Pool); r != nil {
		c.fault("new node %s: %s", n.Name, r.Message)
	}
	if n.Name == "" || c.names[n.Name] {
		c.fault("new node %q: its name is empty or that of another new node", n.Name)
	}
	c.names[n.Name] = true
	if len(n.Pods) == 0 {
		c.fault("new node %s is for no pod", n.Name)
	}
	if len(n.Alternatives) > maxOffers {
		c.fault("new node %s names %d alternatives, at most %d are allowed", n.Name, len(n.Alternatives), maxOffers)
	}
	var sum resource.Vector
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
	if !sum.Equal(n.Requests) {
		c.fault("new node %s: its requests are said to be %s, those of its pods are %s", n.Name, n.Requests, sum)
	}
	c.described(n)
	seen := map[*model.Offering]bool{}
	near := c.near.of(n)
	for _, o := range offers(n) {
		if o.CapacityType != n.Offering.CapacityType {
			c.fault("new node %s: alternative %s has another capacity type", n.Name, o.Key())
		}
		if seen[o] {
			c.fault("new node %s names %s twice", n.Name, o.Key())
		}
		seen[o] = true
		if k := differs(n.Offering, o, near); k != "" {
			c.fault("new node %s: alternative %s has another %s, which its pods' neighbours do not allow", n.Name, o.Key(), k)
		}
		c.offer(n, o, sum)
	}
	c.flexible(n)
	if c.prices != nil {
		c.priced(n)
	}
	return true
}

// offers is everything that the launch of a node may be answered with.
func offers(n *model.NewNode) []*model.Offering {
	return append([]*model.Offering{n.Offering}, n.Alternatives...)
}

// mostCapacity is the most that a node may count against the limits of its pool.
func mostCapacity(n *model.NewNode) resource.Vector {
	v := n.Offering.Type.Capacity
	for _, a := range n.Alternatives {
		v = v.Max(a.Type.Capacity)
	}
	return v
}

// described checks what the plan says about a node beside its pods: labels, the
// daemon pods expected on it, and what its claim will ask for.
func (c *checker) described(n *model.NewNode) {
	made := c.bought(n, n.Offering)
	if !maps.Equal(made.labels, n.Labels) {
		for _, k := range sortedKeys(made.labels) {
			if v, ok := n.Labels[k]; !ok || v != made.labels[k] {
				c.fault("new node %s: its label %s is said to be %q, it will be %q", n.Name, k, v, made.labels[k])
				break
			}
		}
		for _, k := range sortedKeys(n.Labels) {
			if _, ok := made.labels[k]; !ok {
				c.fault("new node %s: it will not have the label %s", n.Name, k)
				break
			}
		}
	}
	for _, k := range sortedKeys(n.Pool.Labels) {
		if v, ok := n.Labels[k]; !ofOffering(k) && (!ok || v != n.Pool.Labels[k]) {
			c.fault("new node %s: its label %s is said to be %q, its pool sets %q", n.Name, k, v, n.Pool.Labels[k])
		}
	}
	if !made.daemons.Equal(n.Daemons) {
		c.fault("new node %s: its daemon pods are said to ask for %s, they ask for %s", n.Name, n.Daemons, made.daemons)
	}
}

// reservationsLeft is the least count that any offering gives of a reservation, less
// the claims on their way that may use it.
func reservationsLeft(w *model.World) map[string]int64 {
	out := map[string]int64{}
	for _, list := range w.Offerings {
		for _, o := range list {
			if have, ok := out[o.ReservationID]; o.ReservationID != "" && (!ok || int64(o.Count) < have) {
				out[o.ReservationID] = int64(max(o.Count, 0))
			}
		}
	}
	for id := range out {
		for _, n := range w.Nodes {
			if n.Claim == nil || n.Joined() || n.Claim.ProviderID != "" || n.BeingRemoved() {
				continue
			}
			r, asks := n.Claim.Requirements.Get(model.LabelReservationID)
			if n.Labels[model.LabelReservationID] == id || n.Labels[model.LabelReservationID] == "" && asks && r.Finite() && r.Has(id) {
				out[id] = max(out[id]-1, 0)
			}
		}
	}
	return out
}

// offer checks that the very pods of the node are legal on an offering.
func (c *checker) offer(n *model.NewNode, o *model.Offering, sum resource.Vector) {
	if o.ReservationID != "" && !c.w.Settings.ReservedCapacity {
		c.fault("new node %s: %s is reserved capacity, and the feature gate ReservedCapacity is off", n.Name, o.Key())
	}
	if o.ReservationID != "" && o != n.Offering {
		c.fault("new node %s: alternative %s is of reservation %s, whose instances are counted", n.Name, o.Key(), o.ReservationID)
	}
	if !o.Available {
		c.fault("new node %s: %s is not available: %s", n.Name, o.Key(), o.Unavailable)
	}
	if !sanePrice(o.USDPerHour) {
		c.fault("new node %s: %s has no price: %v", n.Name, o.Key(), o.USDPerHour)
	}
	made := c.bought(n, o)
	if x := n.Pool.Requirements.LabelsSatisfy(made.labels); x != nil {
		c.fault("new node %s: %s does not satisfy its pool: %s", n.Name, o.Key(), x)
	}
	if x := n.Requirements.LabelsSatisfy(made.labels); x != nil {
		c.fault("new node %s: its claim does not allow %s: %s", n.Name, o.Key(), x)
	}
	if name, want, have, lacking := sum.Lacking(o.Type.Allocatable.Sub(made.daemons)); lacking {
		c.fault("new node %s: %s offers %s %s after daemonsets, %s is planned", n.Name, o.Key(), resource.Format(name, have), name, resource.Format(name, want))
	}
	for _, p := range n.Pods {
		if x := anyTerm(p.Terms, made.labels); x != nil {
			c.fault("new node %s: pod %s does not go with %s: %s", n.Name, p.ID(), o.Key(), x)
			return
		}
		if p.Topology == nil || len(p.Topology.VolumeTerms) == 0 {
			continue
		}
		if x := anyTerm(p.Topology.VolumeTerms, made.labels); x != nil {
			c.fault("new node %s: the volumes of pod %s do not go with %s: %s", n.Name, p.ID(), o.Key(), x)
			return
		}
	}
}

// sanePrice says whether a number can be the price of anything.
func sanePrice(usd float64) bool { return usd >= 0 && !math.IsInf(usd, 1) }

// flexible checks that a launch names as many different values as its pool demands.
func (c *checker) flexible(n *model.NewNode) {
	if c.w.Settings.MinValuesBestEffort {
		return
	}
	for _, r := range n.Pool.Requirements.All() {
		if r.MinValues == 0 || r.Key == model.LabelCapacityType { // a launch names one capacity type
			continue
		}
		if values := distinctLabels(offers(n), r.Key); len(values) < r.MinValues {
			c.fault("new node %s: its offerings have %d values of %s, minValues is %d", n.Name, len(values), r.Key, r.MinValues)
		}
	}
}

func distinctLabels(offers []*model.Offering, key string) map[string]bool {
	values := map[string]bool{}
	for _, o := range offers {
		if v, ok := o.Label(key); ok {
			values[v] = true
		}
	}
	return values
}

// priced checks a new node against what the strategies said.
func (c *checker) priced(n *model.NewNode) {
	pp := c.prices.ByPool[n.Pool.Name]
	index := func(o *model.Offering) int {
		i, _ := c.index(n.Pool.NodeClass.Name, o)
		return i
	}
	price := func(o *model.Offering) model.Price {
		if len(pp.Offerings) == len(c.w.Offerings[n.Pool.NodeClass.Name]) {
			return pp.Offerings[index(o)]
		}
		return model.Price{USDPerHour: o.USDPerHour}
	}
	ratio := c.w.Settings.AlternativesMaxRatio
	if ratio < 1 {
		ratio = defaultMaxRatio
	}
	best := price(n.Offering).USDPerHour
	within := []*model.Offering{n.Offering}
	var beyond []*model.Offering
	for _, o := range offers(n) {
		p := price(o)
		switch {
		case p.Veto != "":
			c.fault("new node %s: the strategy refuses %s: %s", n.Name, o.Key(), p.Veto)
		case !sanePrice(p.USDPerHour):
			c.fault("new node %s: the strategy's price of %s is %v", n.Name, o.Key(), p.USDPerHour)
		case o == n.Offering && math.Abs(n.Effective-p.USDPerHour) > 1e-9 && !charged(pp, index(o), n.Effective):
			c.fault("new node %s: its effective price is said to be %v, the strategy's is %v", n.Name, n.Effective, p.USDPerHour)
		case p.USDPerHour > best*ratio+1e-9:
			beyond = append(beyond, o)
		default:
			within = append(within, o)
		}
	}
	for _, o := range beyond {
		if !addsFlexibility(n.Pool, within, o) {
			c.fault("new node %s: alternative %s costs %v, more than %v times the best, %v", n.Name, o.Key(), price(o).USDPerHour, ratio, best)
		}
	}
}

// addsFlexibility says whether an offering brings a value that minValues asks for
// and that the others do not have.
func addsFlexibility(p *model.Pool, others []*model.Offering, o *model.Offering) bool {
	for _, r := range p.Requirements.All() {
		v, ok := o.Label(r.Key)
		if have := distinctLabels(others, r.Key); ok && len(have) < r.MinValues && !have[v] {
			return true
		}
	}
	return false
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
