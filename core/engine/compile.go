package engine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// problem is the world compiled to indexes: groups of equal pods, and for each
// pool the offerings as bitsets.
type problem struct {
	w      *model.World
	prices *model.Prices
	dims   []string // resources that some pod asks for; cpu, memory, pods first
	groups []*group
	specs  []*spec
	pools  []*pool // in the order in which they are tried
	class  map[string]*class
	around *around
	ranked bool // groups are told apart by priority, and served in its order
	loose  bool // for a bound: only what every legal plan must keep counts
	crowd  *crowd
	// stepped is how much of the quantities of price steps is bought already, by name
	stepped map[string]float64
	stock   map[string]int64 // instances left in reservations, by id
	stocked map[string]int64 // the same before anything was bought
	varied  []varied         // new nodes of pools that are to lie in several places
	kept    []model.Verdict  // pods that have their verdict already
	unseen  bool             // the time ended before all pods were looked at
	before  []*model.NewNode // what the attempt before bought, some of whose pods could not run there
}

// spec is what equal pods ask for besides amounts.
type spec struct {
	index int
	pod   *model.Pod      // any of them
	most  resource.Vector // the most that any of them asks for
	own   []require.Set   // what the pod itself asks for: any one of these
	terms []require.Set   // the same with the places of its volumes and pinned values
	elig  []eligibility   // by pool index
	free  *spec           // the same without pinned values; nil where there are none
	of    []*spec         // the two that it joins, of pods that share a node; nil where it joins none
}

// eligibility is what of a pool a spec may use.
type eligibility struct {
	bits   bitset      // offerings that satisfy the requirements, whether available or not
	custom require.Set // requirements on labels that no offering carries, pool and pod together
	reason *model.Reason
}

// group is pods that are equal in everything that matters. They are placed in
// units: usually one pod, several where they must share a node.
type group struct {
	number int // the same for the pieces that a group is taken into
	spec   *spec
	pods   []*model.Pod
	per    int             // pods of a unit
	req    resource.Vector // of a unit
	size   []int64         // req by dims

	// Neighbours; nil where no pod asks anything of another.
	picked      bitset        // selectors that pick its pods
	lays, bears bitset        // tokens, see around
	counted     []bounded     // selectors whose pods are bounded on one node
	alone       bool          // at most one unit on a node
	only        []*model.Node // the only nodes it may join, nil = any, also new ones
	bound       bool          // only is meant, even where it is empty
	why         *model.Reason // why what is left of it has no place, where that is known
	belongs     []belongs     // what a unit adds to the workloads that a strategy bounds on a node
}

// bounded is how many pods of a unit a selector picks of which one node may hold only
// so many.
type bounded struct {
	selector int
	per      int64
}

// units is how many units the group has.
func (g *group) units() int { return len(g.pods) / g.per }

// class is the offerings of a node class, indexed by label value.
type class struct {
	offerings []*model.Offering
	all       bitset
	available bitset
	reserved  bitset // of capacity reservations; nil = none
	exotic    bitset // bare metal and machines with devices: bought only where nothing else will do
	keys      map[string]*keyIndex
	types     []int                // offering -> index of its type
	sets      map[string]bitset    // sets of offerings that pools and specs share
	measured  map[string]*measures // by the offerings that a pool allows and the daemon pods on them
	from      []int                // offering -> its place in the world's list; nil where they agree
	numTypes  int
}

// keyIndex is the offerings by the value of one label.
type keyIndex struct {
	values []string
	bits   []bitset
	absent bitset
}

func compileClass(listed []*model.Offering) *class {
	offerings, from := inOrder(listed)
	n := len(offerings)
	c := &class{offerings: offerings, all: fullBits(n), available: newBits(n), exotic: newBits(n), keys: map[string]*keyIndex{}, types: make([]int, n), from: from,
		sets: map[string]bitset{}, measured: map[string]*measures{}}
	seen := map[*model.InstanceType]int{}
	for i, o := range offerings {
		if o.Available && sanePrice(o.USDPerHour) {
			c.available.set(i)
		}
		if o.CapacityType == model.Reserved || o.ReservationID != "" {
			if c.reserved == nil {
				c.reserved = newBits(n)
			}
			c.reserved.set(i)
		}
		id, ok := seen[o.Type]
		if !ok {
			id = len(seen)
			seen[o.Type] = id
		}
		c.types[i] = id
		if exotic(o.Type) {
			c.exotic.set(i)
		}
	}
	c.numTypes = len(seen)
	return c
}

// inOrder is the offerings in an order that does not depend on the one they came in,
// with their places in the list that came in, nil where nothing moved.
func inOrder(listed []*model.Offering) ([]*model.Offering, []int) {
	order := func(a, b *model.Offering) int {
		return cmp.Or(cmp.Compare(a.Type.Name, b.Type.Name), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType),
			cmp.Compare(a.ReservationID, b.ReservationID), cmp.Compare(a.USDPerHour, b.USDPerHour))
	}
	if slices.IsSortedFunc(listed, order) {
		return listed, nil
	}
	from := make([]int, len(listed))
	for i := range from {
		from[i] = i
	}
	slices.SortStableFunc(from, func(a, b int) int { return order(listed[a], listed[b]) })
	sorted := make([]*model.Offering, len(listed))
	for i, j := range from {
		sorted[i] = listed[j]
	}
	return sorted, from
}

func exotic(t *model.InstanceType) bool {
	if strings.Contains(t.Labels[model.AWSLabelDomain+"/instance-size"], "metal") {
		return true
	}
	for _, k := range []string{"/instance-gpu-count", "/instance-accelerator-count"} {
		if _, ok := t.Labels[model.AWSLabelDomain+k]; ok {
			return true
		}
	}
	return false
}

func (c *class) index(key string) *keyIndex {
	if k := c.keys[key]; k != nil {
		return k
	}
	k := &keyIndex{absent: newBits(len(c.offerings))}
	at := map[string]int{}
	for i, o := range c.offerings {
		v, ok := o.Label(key)
		if !ok {
			k.absent.set(i)
			continue
		}
		j, ok := at[v]
		if !ok {
			j = len(k.values)
			at[v] = j
			k.values = append(k.values, v)
			k.bits = append(k.bits, newBits(len(c.offerings)))
		}
		k.bits[j].set(i)
	}
	c.keys[key] = k
	return k
}

// satisfying is the offerings whose label satisfies the requirement.
func (c *class) satisfying(r require.Requirement) bitset {
	k := c.index(r.Key)
	out := newBits(len(c.offerings))
	for i, v := range k.values {
		if r.Has(v) {
			out.or(k.bits[i])
		}
	}
	if r.AllowsAbsent() {
		out.or(k.absent)
	}
	return out
}

// ofOffering says whether offerings decide a label, rather than the pool.
func ofOffering(key string) bool {
	return key != model.LabelPool && model.WellKnown(key)
}

// pool is a NodePool compiled against the offerings of its node class.
type pool struct {
	*model.Pool
	index     int
	class     *class
	base      bitset // offerings that satisfy the pool's own requirements
	baseTypes int    // instance types of base
	usable    bitset // of these, available and not vetoed
	prices    model.PoolPrices
	*measures
	limits    *limits
	why       *model.Reason // why the pool takes no pods at all
	minKeys   []require.Requirement
	rules     []*rule                // shares that the strategy bounds
	varieties []*model.StrategyLimit // variety that the strategy asks for

	daemonTokens bitset // what daemon pods lay on every node
}

// effective is the strategy's price of an offering, USD per hour without the fee.
func (p *pool) effective(i int) float64 {
	if p.prices.Offerings != nil {
		return p.prices.Offerings[i].USDPerHour
	}
	return p.class.offerings[i].USDPerHour
}

// limits is what a pool may still buy.
type limits struct {
	left  map[string]int64
	nodes *int64
}

func newLimits(w *model.World, p *model.Pool) *limits {
	if p.Limits.None() {
		return nil
	}
	l := &limits{left: make(map[string]int64, len(p.Limits.Resources))}
	for name, v := range p.Limits.Resources {
		l.left[name] = v
	}
	if p.Limits.Nodes != nil {
		n := *p.Limits.Nodes
		l.nodes = &n
	}
	for _, n := range w.Nodes {
		// a node that is being removed no longer counts; its replacement must fit
		if n.Pool() != p.Name || !n.Managed() || n.BeingRemoved() {
			continue
		}
		l.take(n.Capacity, 1)
	}
	return l
}

func (l *limits) take(capacity resource.Vector, times int64) {
	for name := range l.left {
		l.left[name] -= capacity.Get(name) * times
	}
	if l.nodes != nil {
		*l.nodes -= times
	}
}

// times is how many nodes of this capacity may still be bought, at most want.
func (l *limits) times(capacity resource.Vector, want int64) int64 {
	if l == nil {
		return want
	}
	for name, left := range l.left {
		if c := capacity.Get(name); c > 0 {
			want = min(want, left/c)
		}
	}
	if l.nodes != nil {
		want = min(want, *l.nodes)
	}
	return max(want, 0)
}

// compileLoosely compiles the problem for a bound: nothing is chosen for the sake of
// neighbours, flexibility or taste.
func compileLoosely(w *model.World, prices *model.Prices, pods []*model.Pod) *problem {
	pr := &problem{w: w, prices: prices, loose: true, class: map[string]*class{}, stepped: map[string]float64{}}
	if pr.prices == nil {
		pr.prices = &model.Prices{}
	}
	pr.stocked = stock(w)
	pr.group(pods)
	pr.compilePools()
	return pr
}

func compile(w *model.World, prices *model.Prices, pods []*model.Pod, ranked bool, before []*model.NewNode) *problem {
	pr := &problem{w: w, prices: prices, ranked: ranked, before: before, class: map[string]*class{}}
	if pr.prices == nil {
		pr.prices = &model.Prices{}
	}
	pr.stepped = map[string]float64{}
	pr.stocked = stock(w)
	pr.stock = maps.Clone(pr.stocked)
	pr.around = newAround(w, pods)
	if pr.crowd = newCrowd(w, pr.prices); pr.crowd != nil && pr.around == nil {
		pr.around = bareAround()
	}
	pr.group(pods)
	pr.compilePools()
	if pr.around == nil {
		return pr
	}
	if err := pr.around.compile(pr); err != nil {
		return pr.withoutAskers(err)
	}
	pr.pin()
	pr.bundle()
	for _, g := range pr.groups {
		g.belongs = pr.crowd.of(g.pods[:g.per])
	}
	return pr
}

// withoutAskers is the problem of the pods that ask nothing of others, where the rest
// asks for more than can be planned for.
func (pr *problem) withoutAskers(err error) *problem {
	why := []model.Reason{{Filter: model.FilterAffinity, Message: err.Error()}}
	kept := pr.kept
	var rest []*model.Pod
	for _, g := range pr.groups {
		for _, p := range g.pods {
			if p.Topology.None() {
				rest = append(rest, p)
			} else {
				kept = append(kept, model.Verdict{Pod: p, Reasons: why})
			}
		}
	}
	if len(kept) == len(pr.kept) { // it is what runs that asks for so much
		for _, p := range rest {
			kept = append(kept, model.Verdict{Pod: p, Reasons: why})
		}
		pr.kept, pr.groups, pr.around = kept, nil, nil
		return pr
	}
	out := compile(pr.w, pr.prices, rest, pr.ranked, pr.before)
	out.kept = append(kept, out.kept...)
	return out
}

// group sorts pods into groups of equal specs and sizes. The order of the groups
// depends on what they ask for, never on the order of the input.
func (pr *problem) group(pods []*model.Pod) {
	pr.dims = []string{"cpu", "memory", "pods"}
	extra := map[string]bool{}
	for _, p := range pods {
		if p.Requests.Base[resource.Storage] != 0 {
			extra["ephemeral-storage"] = true
		}
		for _, a := range p.Requests.Ext {
			extra[a.Name] = true
		}
	}
	names := make([]string, 0, len(extra))
	for n := range extra {
		names = append(names, n)
	}
	slices.Sort(names)
	pr.dims = append(pr.dims, names...)

	specs := map[string]*spec{}
	groups := map[string]*group{}
	var buf []byte
	for _, p := range pods {
		if v, ok := setAside(p); ok {
			pr.kept = append(pr.kept, v)
			continue
		}
		buf = appendSpecKey(buf[:0], p)
		buf = topologyKey(buf, p.Topology) // the places of volumes count also where no pod looks at another
		if pr.around != nil {
			buf = append(buf, pr.around.picks(p).key()...)
		}
		s := specs[string(buf)]
		if s == nil {
			s = &spec{pod: p, own: p.Terms, terms: withVolumes(p)}
			specs[string(buf)] = s
		}
		buf = appendSizeKey(buf, p.Requests)
		if pr.ranked {
			buf = appendPriority(buf, p)
		}
		if pr.crowd != nil {
			buf = append(buf, p.Workload()...)
		}
		g := groups[string(buf)]
		if g == nil {
			g = &group{spec: s, per: 1, req: p.Requests, size: pr.vec(p.Requests)}
			groups[string(buf)] = g
			s.most = s.most.Max(p.Requests)
		}
		g.pods = append(g.pods, p)
	}
	keys := make([]string, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		g := groups[k]
		slices.SortFunc(g.pods, bindingOrder)
		g.number = len(pr.groups)
		pr.groups = append(pr.groups, g)
	}
	specKeys := make([]string, 0, len(specs))
	for k := range specs {
		specKeys = append(specKeys, k)
	}
	slices.Sort(specKeys)
	for i, k := range specKeys {
		specs[k].index = i
		pr.specs = append(pr.specs, specs[k])
	}
}

// withVolumes is the pod's terms, each with each of the places its volumes allow.
func withVolumes(p *model.Pod) []require.Set {
	if p.Topology == nil || len(p.Topology.VolumeTerms) == 0 {
		return p.Terms
	}
	out := make([]require.Set, 0, len(p.Terms)*len(p.Topology.VolumeTerms))
	for _, t := range p.Terms {
		for _, v := range p.Topology.VolumeTerms {
			out = append(out, t.And(v))
		}
	}
	return out
}

// setAside gives the verdict of a pod that is not to be planned for.
func setAside(p *model.Pod) (model.Verdict, bool) {
	v := model.Verdict{Pod: p}
	switch {
	case p.Ignore:
		v.Reasons = []model.Reason{{Filter: model.FilterRequirements, Message: "the pod asks for karpenter.sh/nodepool DoesNotExist: it is to be kept off our nodes"}}
	case p.Invalid != "":
		v.Reasons = []model.Reason{{Filter: model.FilterRequirements, Message: p.Invalid}}
	default:
		for _, u := range p.Unsupported {
			v.Reasons = append(v.Reasons, model.Reason{Filter: u.Filter, Message: u.Message})
		}
	}
	return v, len(v.Reasons) > 0
}

func (pr *problem) vec(v resource.Vector) []int64 {
	out := make([]int64, len(pr.dims))
	for i, d := range pr.dims {
		out[i] = v.Get(d)
	}
	return out
}

func appendSpecKey(b []byte, p *model.Pod) []byte {
	for _, t := range p.Terms {
		if t.Len() > 0 {
			b = append(b, t.Key()...)
		}
		b = append(b, '|')
	}
	for _, t := range p.Tolerations {
		b = fmt.Appendf(b, "%q%q%q%q;", t.Key, t.Operator, t.Value, t.Effect)
	}
	if p.Form != nil {
		b = append(append(b, 1), p.Form.Key...)
	}
	return append(b, 0)
}

func appendSizeKey(b []byte, v resource.Vector) []byte {
	for _, x := range v.Base {
		b = binary.BigEndian.AppendUint64(b, uint64(x))
	}
	for _, a := range v.Ext {
		b = append(b, a.Name...)
		b = binary.BigEndian.AppendUint64(append(b, 0), uint64(a.Value))
	}
	return b
}

// compilePools orders the pools by weight, then name, both descending, and finds
// out what each spec may use of each.
func (pr *problem) compilePools() {
	pools := slices.Clone(pr.w.Pools)
	slices.SortFunc(pools, func(a, b *model.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	for i, mp := range pools {
		p := &pool{Pool: mp, index: i, prices: pr.prices.ByPool[mp.Name]}
		pr.pools = append(pr.pools, p)
		p.why = poolReason(mp)
		if p.why != nil {
			continue
		}
		p.class = pr.class[mp.NodeClass.Name]
		if p.class == nil {
			p.class = compileClass(pr.w.Offerings[mp.NodeClass.Name])
			pr.class[mp.NodeClass.Name] = p.class
		}
		p.compile(pr)
	}
	for _, s := range pr.specs {
		s.elig = make([]eligibility, len(pr.pools))
		for _, p := range pr.pools {
			e := pr.eligible(s, p)
			if e.bits != nil {
				e.bits = p.class.shared(e.bits)
			}
			s.elig[p.index] = e
		}
	}
	pr.linuxFirst()
}

func poolReason(p *model.Pool) *model.Reason {
	r := &model.Reason{Pool: p.Name, Filter: model.FilterPool}
	switch {
	case p.Unusable != "":
		r.Message = p.Unusable
	case p.Deleting:
		r.Message = "the pool is being deleted"
	case p.Static != nil:
		r.Message = "the pool is static: its nodes follow spec.replicas, not pods"
	default:
		return nil
	}
	return r
}

func (p *pool) compile(pr *problem) {
	n := len(p.class.offerings)
	if len(p.prices.Offerings) != n {
		p.prices.Steps = nil
		p.prices.Offerings = nil // checked by the host; without a price for each the market's hold
	}
	if p.class.from != nil && p.prices.Offerings != nil {
		moved := make([]model.Price, n)
		for i, j := range p.class.from {
			moved[i] = p.prices.Offerings[j]
		}
		p.prices.Offerings = moved
		p.moveSteps()
	}
	p.base = p.class.all.clone()
	for _, r := range p.Requirements.All() {
		if r.Impossible() {
			p.why = &model.Reason{Pool: p.Name, Filter: model.FilterRequirements, Message: fmt.Sprintf("the pool's requirements on %s contradict each other", r.Key)}
		}
		if ofOffering(r.Key) {
			p.base.and(p.class.satisfying(r))
		}
		if r.MinValues > 0 && r.Key != model.LabelCapacityType {
			p.minKeys = append(p.minKeys, r)
		}
	}
	p.base = p.class.shared(p.base)
	p.baseTypes = p.class.countTypes(p.base)
	p.usable = p.base.clone()
	p.usable.and(p.class.available)
	if !pr.w.Settings.ReservedCapacity && p.class.reserved != nil {
		p.usable.andNot(p.class.reserved)
	}
	for i, price := range p.prices.Offerings {
		if (price.Veto != "" || !sanePrice(price.USDPerHour)) && p.usable.has(i) {
			p.usable[i>>6] &^= 1 << (i & 63)
		}
	}
	p.usable = p.class.shared(p.usable)
	p.capacityTypes(pr.w)
	p.compileRules(pr.w)
	p.limits = newLimits(pr.w, p.Pool)
	p.measure(pr)
	switch {
	case p.why != nil:
	case n == 0:
		p.why = &model.Reason{Pool: p.Name, Filter: model.FilterOfferings, Message: fmt.Sprintf("nothing can be bought with node class %q", p.NodeClass.Name)}
	case p.base.empty():
		p.why = &model.Reason{Pool: p.Name, Filter: model.FilterRequirements, Message: p.emptyBase()}
	}
}

// capacityTypes holds minValues of capacity types against all that the pool may buy: a
// launch names one of them, another one is another attempt of the claim.
func (p *pool) capacityTypes(w *model.World) {
	r, ok := p.Requirements.Get(model.LabelCapacityType)
	if !ok || r.MinValues == 0 || w.Settings.MinValuesBestEffort {
		return
	}
	n := 0
	for _, b := range p.class.index(model.LabelCapacityType).bits {
		if intersects(b, p.usable) {
			n++
		}
	}
	if n < r.MinValues && p.why == nil {
		p.why = &model.Reason{Pool: p.Name, Filter: model.FilterRequirements, Message: fmt.Sprintf("minValues %d of %s cannot be met: %d values are left", r.MinValues, r.Key, n)}
	}
}

// measures is the room on every offering of a pool. Pools that allow the same
// offerings and daemon pods share it: with thousands of pools that is what there is
// memory for.
type measures struct {
	overhead []resource.Vector // of the daemon pods, by offering
	rooms    [][]int64         // allocatable less overhead by dims, by offering; nil where the pool does not allow it
	perSize  []float64         // effective price per size of machine, by offering: a rough measure to compare zones by
}

// measure notes the room on every offering of the pool; offerings of one type share it.
func (p *pool) measure(pr *problem) {
	key := []byte(p.base.key())
	daemons := make([]bitset, len(pr.w.DaemonSets))
	for i, d := range pr.w.DaemonSets {
		daemons[i] = p.daemonBits(d.Pod)
		key = append(key, daemons[i].key()...)
	}
	if m := p.class.measured[string(key)]; m != nil && p.prices.Offerings == nil {
		p.measures = m
		return
	}
	n := len(p.class.offerings)
	p.measures = &measures{overhead: make([]resource.Vector, n), rooms: make([][]int64, n), perSize: make([]float64, n)}
	for i, d := range pr.w.DaemonSets {
		daemons[i].each(func(j int) { p.overhead[j] = p.overhead[j].Add(d.Pod.Requests) })
	}
	last := -1
	p.base.each(func(i int) {
		if last >= 0 && p.class.types[i] == p.class.types[last] && p.overhead[i].Equal(p.overhead[last]) {
			p.rooms[i] = p.rooms[last]
		} else {
			p.rooms[i] = pr.vec(p.class.offerings[i].Type.Allocatable.Sub(p.overhead[i]))
		}
		last = i
		size := float64(p.rooms[i][dimCPU])/1000 + float64(p.rooms[i][dimMemory])/(8<<30)
		p.perSize[i] = p.effective(i) / max(size, 1e-9)
	})
	if p.prices.Offerings == nil {
		p.class.measured[string(key)] = p.measures
	}
}

// shared is the one copy of equal sets of offerings. It must not be written to.
func (c *class) shared(b bitset) bitset {
	k := b.key()
	if have, ok := c.sets[k]; ok {
		return have
	}
	c.sets[k] = b
	return b
}

// twin is equal for pools of which the groups may use the very same, at the same
// price and without any bound: then only the first of them matters. It is empty for a
// pool that has no equal.
func (p *pool) twin(groups []*group) string {
	pp := p.prices
	if p.limits != nil || len(p.minKeys) > 0 || len(p.rules) > 0 || pp.Offerings != nil || len(pp.Steps) > 0 || len(p.class.offerings) == 0 {
		return ""
	}
	key := fmt.Appendf(nil, "%p %p %p %v %t", p.class, &p.usable[0], p.measures, pp.FeePerNode, pp.PreferLarge)
	for _, g := range groups {
		e := g.spec.elig[p.index]
		if e.bits == nil {
			key = append(key, '-')
			continue
		}
		key = append(append(fmt.Appendf(key, " %d:", g.spec.index), e.bits.key()...), e.custom.Key()...)
	}
	return string(key)
}

// holds says whether the room on an offering is enough for an amount by dims.
func (p *pool) holds(i int, size []int64) bool {
	for d, x := range size {
		if x > p.rooms[i][d] {
			return false
		}
	}
	return true
}

// emptyBase says which requirement of the pool leaves no instance type.
func (p *pool) emptyBase() string {
	left := p.class.all.clone()
	for _, r := range p.Requirements.All() {
		if !ofOffering(r.Key) {
			continue
		}
		before := p.class.countTypes(left)
		left.and(p.class.satisfying(r))
		if left.empty() {
			return fmt.Sprintf("the pool's own requirements leave no instance type: none of %d has %s", before, r)
		}
	}
	return "the pool's own requirements leave no instance type"
}

// countTypes counts the instance types among offerings.
func (c *class) countTypes(b bitset) int {
	seen := newBits(max(c.numTypes, 1))
	n := 0
	b.each(func(i int) {
		if t := c.types[i]; !seen.has(t) {
			seen.set(t)
			n++
		}
	})
	return n
}

// daemonBits is the offerings of the pool on whose nodes a daemon pod would run.
// Startup taints are gone by then, soft taints keep nobody away.
func (p *pool) daemonBits(d *model.Pod) bitset {
	out := newBits(len(p.class.offerings))
	if _, bad := d.Untolerated(p.Taints); bad {
		return out
	}
	offer := p.Requirements.And(require.FromLabels(map[string]string{model.LabelRegistered: "true", model.LabelInitialized: "true"}))
	for _, term := range d.Terms {
		if term.Compatible(offer, model.WellKnown) != nil {
			continue
		}
		bits := p.base.clone()
		for _, r := range term.All() {
			if ofOffering(r.Key) {
				bits.and(p.class.satisfying(r))
			}
		}
		out.or(bits)
	}
	return out
}

// eligible finds what of a pool a spec may use. Terms are alternatives: those count
// together that ask the same of labels that no offering decides. Of several such the
// first counts that leaves a machine with room for the pods.
func (pr *problem) eligible(s *spec, p *pool) eligibility {
	if p.why != nil {
		return eligibility{reason: p.why}
	}
	if t, bad := s.pod.Untolerated(p.Taints); bad {
		return eligibility{reason: p.refuses(model.FilterTaints, p.baseTypes, fmt.Sprintf("does not tolerate taint %s", t), "")}
	}
	var out []eligibility // by what they ask of labels that no offering decides
	var reason *model.Reason
	for _, term := range s.terms {
		bits, why := p.termBits(term)
		if why != nil {
			if reason == nil {
				reason = why
			}
			continue
		}
		custom := customPart(term.And(p.Requirements), term)
		if i := slices.IndexFunc(out, func(e eligibility) bool { return e.custom.Equal(custom) }); i >= 0 {
			out[i].bits.or(bits)
		} else {
			out = append(out, eligibility{bits: bits, custom: custom})
		}
	}
	if len(out) == 0 {
		return eligibility{reason: reason}
	}
	best := pr.withoutDaemonPorts(out[0], s.pod, p)
	for _, e := range out[1:] {
		if pr.hasRoom(best, s, p) {
			break
		}
		if e = pr.withoutDaemonPorts(e, s.pod, p); best.bits == nil || pr.hasRoom(e, s, p) {
			best = e
		}
	}
	return best
}

// hasRoom says whether something that may be used can be bought now and holds the
// largest of the pods.
func (pr *problem) hasRoom(e eligibility, s *spec, p *pool) bool {
	if e.bits == nil {
		return false
	}
	bits := e.bits.clone()
	bits.and(p.usable)
	return p.fitsSome(bits, &group{size: pr.vec(s.most.Max(s.pod.Requests))})
}

// refuses is the reason where the pool's taints or requirements keep a pod off.
func (p *pool) refuses(f model.Filter, types int, message, nearest string) *model.Reason {
	r := &model.Reason{Pool: p.Name, Filter: f, TypesLeft: types, Message: message, Nearest: nearest, Trail: []model.Passed{{Filter: model.FilterPool, Types: p.baseTypes}}}
	if f != model.FilterTaints {
		r.Trail = append(r.Trail, model.Passed{Filter: model.FilterTaints, Types: p.baseTypes})
	}
	r.Trail = append(r.Trail, model.Passed{Filter: f})
	return r
}

// termBits is the offerings that satisfy one term of a pod, or why there are none.
func (p *pool) termBits(term require.Set) (bitset, *model.Reason) {
	if i := slices.IndexFunc(term.All(), require.Requirement.Impossible); i >= 0 {
		return nil, p.refuses(model.FilterRequirements, 0, fmt.Sprintf("the pod's requirements on %s contradict each other", term.All()[i].Key), "")
	}
	if c := term.Compatible(p.Requirements, model.WellKnown); c != nil {
		nearest := c.Similar
		if c.Have != nil {
			nearest = c.Have.String()
		}
		return nil, p.refuses(model.FilterRequirements, 0, c.String(), nearest)
	}
	bits := p.base.clone()
	for _, r := range term.All() {
		if !ofOffering(r.Key) {
			continue
		}
		want := p.class.satisfying(r)
		if !intersects(bits, want) {
			return nil, p.refuses(model.FilterRequirements, 0, fmt.Sprintf("asks for %s, which none of the %d instance types left has", r, p.class.countTypes(bits)), p.class.offered(r.Key, bits))
		}
		bits.and(want)
	}
	return bits, nil
}

// offered is the values of a label that some offerings have, as one requirement.
func (c *class) offered(key string, some bitset) string {
	var values []string
	k := c.index(key)
	for i, v := range k.values {
		if intersects(k.bits[i], some) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return require.Must(key, require.In, values...).String()
}

// customPart is the requirements on labels that the pool decides, of the keys that
// the pod itself names: these must go together on one node.
func customPart(both, term require.Set) require.Set {
	var reqs []require.Requirement
	for _, r := range term.All() {
		if !ofOffering(r.Key) && r.Key != model.LabelPool {
			m, _ := both.Get(r.Key)
			reqs = append(reqs, m)
		}
	}
	return require.NewSet(reqs...)
}
