package strategy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/plugins/sdk"
)

// market is the catalogue of a world in the form of the SDK, with the way back. It
// is immutable, save for the catalogue's hash, and shared by calls as long as the
// world's offerings are the same.
type market struct {
	catalogue *sdk.Catalogue
	hashing   sync.Once
	hashed    atomic.Bool
	classes   map[string]classRange
	index     map[string]int // class and offering key -> index
	basis     map[string][]*model.Offering
}

// classRange is where a class's offerings lie: index = base + position.
type classRange struct{ base, count int }

// newMarket lays the offerings of all classes out one after the other, classes by name.
func newMarket(offerings map[string][]*model.Offering) *market {
	m := &market{catalogue: &sdk.Catalogue{}, classes: map[string]classRange{}, index: map[string]int{}, basis: maps.Clone(offerings)}
	for _, class := range slices.Sorted(maps.Keys(offerings)) {
		m.classes[class] = classRange{base: len(m.catalogue.Offerings), count: len(offerings[class])}
		types := map[*model.InstanceType]*sdk.InstanceType{}
		for _, o := range offerings[class] {
			t, ok := types[o.Type]
			if !ok {
				t = sdkType(class, o.Type)
				types[o.Type] = t
			}
			m.index[offeringKey(class, o)] = len(m.catalogue.Offerings)
			m.catalogue.Offerings = append(m.catalogue.Offerings,
				sdk.Offering{Type: t, Zone: o.Zone, CapacityType: o.CapacityType, ReservationID: o.ReservationID})
		}
	}
	return m
}

// hash fills in the catalogue's hash, which only strategies in a process of their own
// ask for: it takes as long as a plan of hundreds of pods.
func (m *market) hash() {
	m.hashing.Do(func() {
		sdk.HashCatalogue(m.catalogue)
		m.hashed.Store(true)
	})
}

func offeringKey(class string, o *model.Offering) string {
	return class + "|" + o.Key() + "|" + o.ReservationID
}

// over says whether the market is that of these very offerings: snapshots share
// slices, so that equal slices mean equal content.
func (m *market) over(offerings map[string][]*model.Offering) bool {
	return m != nil && maps.EqualFunc(m.basis, offerings, func(a, b []*model.Offering) bool {
		return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	})
}

func sdkType(class string, t *model.InstanceType) *sdk.InstanceType {
	out := &sdk.InstanceType{Name: t.Name, NodeClass: class, Labels: t.Labels, CPUMilli: t.Allocatable.Get("cpu"),
		MemoryBytes: t.Allocatable.Get("memory"), Pods: t.Allocatable.Get("pods"), StorageBytes: t.Allocatable.Get("ephemeral-storage")}
	t.Allocatable.Each(func(name string, value int64) {
		if resource.BaseIndex(name) >= 0 || value == 0 {
			return
		}
		if out.Extended == nil {
			out.Extended = map[string]int64{}
		}
		out.Extended[name] = value
	})
	return out
}

// priceRequest asks for prices of the given pools.
func (m *market) priceRequest(w *model.World, pools []*model.Pool) *sdk.PriceRequest {
	req := &sdk.PriceRequest{Catalogue: m.catalogue, Now: w.Now, USDPerHour: make([]float64, len(m.catalogue.Offerings)), Health: map[int]sdk.Health{}}
	for class, r := range m.classes {
		for k, o := range w.Offerings[class] {
			req.USDPerHour[r.base+k] = o.USDPerHour
			if !o.Available || o.Count != 0 || o.Shortages != 0 || o.Interruptions != 0 || !o.LastShortage.IsZero() {
				req.Health[r.base+k] = sdk.Health{Available: o.Available, Unavailable: o.Unavailable, Shortages: o.Shortages,
					Interruptions: o.Interruptions, ReservationLeft: o.Count, LastShortage: o.LastShortage, LastInterruption: o.LastInterruption}
			}
		}
	}
	req.Pools = m.pools(w, pools)
	req.Commitments = commitments(w)
	req.Demand.Pods = len(w.Pods)
	for _, p := range w.Pods {
		req.Demand.CPUMilli = resource.SaturatingAdd(req.Demand.CPUMilli, p.Requests.Base[resource.CPU])
		req.Demand.MemoryBytes = resource.SaturatingAdd(req.Demand.MemoryBytes, p.Requests.Base[resource.Memory])
	}
	return req
}

func (m *market) pools(w *model.World, pools []*model.Pool) []sdk.Pool {
	out := make([]sdk.Pool, len(pools))
	position := map[string]int{}
	for i, p := range pools {
		position[p.Name] = i
		out[i] = sdk.Pool{Name: p.Name, NodeClass: p.NodeClass.Name, Weight: p.Weight, Annotations: p.Annotations, Offerings: m.allowed(w, p)}
		if class := w.NodeClasses[p.NodeClass.Name]; class != nil {
			out[i].VolumesUSDPerHour = class.RootVolumeUSD
		}
	}
	m.addRunning(w, pools, position, out)
	return out
}

// addRunning counts the nodes of the pools by offering, those that are going left out.
func (m *market) addRunning(w *model.World, pools []*model.Pool, position map[string]int, out []sdk.Pool) {
	type place struct {
		pool                int
		typ, zone, capacity string
	}
	sums := map[place]*sdk.Running{}
	var order []place
	for _, n := range w.Nodes {
		i, ok := position[n.Pool()]
		if !ok || n.BeingRemoved() {
			continue
		}
		at := place{i, n.InstanceType(), n.Zone(), n.CapacityType()}
		r := sums[at]
		if r == nil {
			r = &sdk.Running{Offering: m.find(pools[i].NodeClass.Name, n), InstanceType: at.typ, Zone: at.zone, CapacityType: at.capacity}
			sums[at] = r
			order = append(order, at)
		}
		if n.Joined() {
			r.Nodes++
		} else {
			r.InFlight++
		}
		if n.PriceKnown {
			r.USDPerHour += n.USDPerHour
		}
	}
	slices.SortFunc(order, func(a, b place) int {
		return strings.Compare(a.typ+"/"+a.zone+"/"+a.capacity, b.typ+"/"+b.zone+"/"+b.capacity)
	})
	for _, at := range order {
		out[at.pool].Running = append(out[at.pool].Running, *sums[at])
	}
}

// find is the index of the offering that a node was bought with, -1 if it is not in
// the catalogue.
func (m *market) find(class string, n *model.Node) int {
	reservation := ""
	if n.CapacityType() == model.Reserved {
		reservation = n.Labels[model.AWSLabelDomain+"/capacity-reservation-id"]
	}
	if i, ok := m.index[class+"|"+n.InstanceType()+"/"+n.Zone()+"/"+n.CapacityType()+"|"+reservation]; ok {
		return i
	}
	return -1
}

// allowed lists the offerings that the pool's own requirements allow, which is what
// a strategy has to price. The engine decides again, with pods and limits.
func (m *market) allowed(w *model.World, p *model.Pool) []int {
	r := m.classes[p.NodeClass.Name]
	out := make([]int, 0, r.count)
	var last *model.InstanceType
	lastOK := false
	for k, o := range w.Offerings[p.NodeClass.Name] {
		if o.Type != last {
			last, lastOK = o.Type, typeAllowed(p, o.Type)
		}
		if lastOK && placeAllowed(p, o) {
			out = append(out, r.base+k)
		}
	}
	return slices.Clone(out) // most pools allow few, and there may be thousands of pools
}

func typeAllowed(p *model.Pool, t *model.InstanceType) bool {
	for _, r := range p.Requirements.All() {
		v, ok := t.Labels[r.Key]
		if r.Key == model.LabelInstanceType && !ok {
			v, ok = t.Name, true
		}
		if ok && !r.Has(v) {
			return false
		}
	}
	return true
}

func placeAllowed(p *model.Pool, o *model.Offering) bool {
	for _, key := range []string{model.LabelZone, model.LabelCapacityType} {
		r, ok := p.Requirements.Get(key)
		if !ok {
			continue
		}
		if v, _ := o.Label(key); !r.Has(v) {
			return false
		}
	}
	return true
}

// poolPrices turns a checked answer for one pool into what the engine reads. who is
// the strategy that answered.
func (m *market) poolPrices(w *model.World, who string, pool *sdk.Pool, a *sdk.PoolPrices) model.PoolPrices {
	r := m.classes[pool.NodeClass]
	out := model.PoolPrices{FeePerNode: a.FeePerNode, PreferLarge: a.LargestFirst, Offerings: make([]model.Price, r.count)}
	for k, o := range w.Offerings[pool.NodeClass] {
		out.Offerings[k].USDPerHour = o.USDPerHour
	}
	for k, o := range pool.Offerings {
		out.Offerings[o-r.base].USDPerHour = a.USDPerHour[k]
	}
	for o, steps := range a.Steps {
		out.Offerings[o-r.base].USDPerHour = steps[len(steps)-1].USDPerHour
		if len(steps) == 1 {
			continue
		}
		if out.Steps == nil {
			out.Steps = make(map[int][]model.PriceStep, len(a.Steps))
		}
		out.Steps[o-r.base] = priceSteps(who, steps)
	}
	for _, v := range a.Vetoes {
		for _, o := range v.Offerings {
			out.Offerings[o-r.base].Veto = v.Reason
		}
	}
	for _, l := range a.Limits {
		out.Limits = append(out.Limits, strategyLimit(l))
	}
	return out
}

// priceSteps is the steps of an offering. A shared quantity is the strategy's own:
// another strategy may use the same name.
func priceSteps(who string, steps []sdk.Step) []model.PriceStep {
	out := make([]model.PriceStep, len(steps))
	for i, s := range steps {
		out[i] = model.PriceStep{USDPerHour: s.USDPerHour, Nodes: int64(s.Nodes), SumUSDPerHour: s.SumUSDPerHour}
		if s.Shared != "" {
			out[i].Shared = who + "/" + s.Shared
		}
	}
	return out
}

// strategyLimit is a checked limit in the engine's words.
func strategyLimit(l sdk.Limit) model.StrategyLimit {
	out := model.StrategyLimit{Name: l.Name}
	switch {
	case l.Share != nil:
		out.Share = &model.ShareLimit{Min: l.Share.Min, Max: l.Share.Max}
		switch l.Share.Measure {
		case sdk.MeasureCPU:
			out.Share.Measure = model.MeasureCPU
		case sdk.MeasureUSDPerHour:
			out.Share.Measure = model.MeasureUSDPerHour
		}
		for _, m := range l.Share.Selector {
			out.Share.Selector = append(out.Share.Selector, model.LabelMatch{Key: m.Key, Values: m.Values, Negate: m.Negate})
		}
	case l.PodsPerNode != nil:
		out.PodsPerNode = &model.PodsPerNode{Max: int64(l.PodsPerNode.Max), Share: l.PodsPerNode.Share}
	case l.Variety != nil:
		out.Variety = &model.Variety{Min: int64(l.Variety.Min)}
		if l.Variety.Over == sdk.OverSpotPools {
			out.Variety.Over = model.OverSpotPools
		}
	}
	return out
}

// scoreRequest asks for verdicts on moves of the given pools. It is an error if a
// move buys an offering that the world does not have.
func (m *market) scoreRequest(w *model.World, pools []*model.Pool, moves []*model.Command) (*sdk.ScoreRequest, error) {
	req := &sdk.ScoreRequest{Catalogue: m.catalogue, Now: w.Now, Pools: m.pools(w, pools), Moves: make([]sdk.Move, len(moves))}
	position := map[string]int{}
	for i, p := range pools {
		position[p.Name] = i
	}
	covered := model.Cover(w.Settings.Commitments, w.Nodes)
	for i, c := range moves {
		v := sdk.Move{Pool: position[poolOf(c)], Reason: string(c.Reason), PodsEvicted: c.PodsEvicted, USDPerHourBefore: c.Before,
			USDPerHourAfter: c.After, USDPerHourWorst: c.Worst, Committed: min(covered.Idle(c.Remove), c.Before)}
		for _, n := range c.Remove {
			class := ""
			if p := w.Pool(n.Pool()); p != nil {
				class = p.NodeClass.Name
			}
			v.Remove = append(v.Remove, sdk.RemovedNode{Name: n.ID(), Offering: m.find(class, n), USDPerHour: n.USDPerHour,
				Pods: reschedulable(n), Age: w.Now.Sub(n.Created), Expires: expires(n, w.Now), PodFacts: podFacts(n, w.Now)})
			v.PodDeletionCost += deletionCost(n)
		}
		for _, n := range c.Launch {
			o, ok := m.index[offeringKey(n.Pool.NodeClass.Name, n.Offering)]
			if !ok {
				return nil, fmt.Errorf("move %d buys %s, which node class %q does not offer", i, n.Offering.Key(), n.Pool.NodeClass.Name)
			}
			v.Launch = append(v.Launch, sdk.LaunchedNode{Offering: o, USDPerHour: n.Offering.USDPerHour})
		}
		req.Moves[i] = v
	}
	return req, nil
}

// poolOf is the pool that judges a move: that of its first node.
func poolOf(c *model.Command) string {
	if len(c.Remove) == 0 {
		return ""
	}
	return c.Remove[0].Pool()
}

func reschedulable(n *model.Node) int {
	count := 0
	for _, p := range n.Pods {
		if p.Reschedulable() {
			count++
		}
	}
	return count
}

// deletionCost sums the pods' own deletion costs; what is no int32 counts as 0, as
// it does in the ReplicaSet controller's validation.
func deletionCost(n *model.Node) int64 {
	var sum int64
	for _, p := range n.Pods {
		if !p.Reschedulable() {
			continue
		}
		if cost, err := strconv.ParseInt(p.Annotations[model.AnnotationPodDeletionCost], 10, 32); err == nil {
			sum += cost
		}
	}
	return sum
}

// commitments tells what is paid for anyhow, with how much of it is used by what runs.
func commitments(w *model.World) []sdk.Commitment {
	var out []sdk.Commitment
	for _, c := range model.Usage(w.Settings.Commitments, w.Nodes) {
		x := sdk.Commitment{Name: c.Name, Source: c.Source, USDPerHour: c.USDPerHour, UsedUSDPerHour: c.UsedUSDPerHour, Nodes: int(c.Nodes),
			UsedNodes: int(c.UsedNodes), Discount: c.Discount, USDPerHourByType: c.USDPerHourByType}
		for _, m := range c.Covers {
			x.Covers = append(x.Covers, sdk.Match{Key: m.Key, Values: m.Values, Negate: m.Negate})
		}
		out = append(out, x)
	}
	return out
}

const (
	youngPod       = 10 * time.Minute
	leastOfSystem  = 1_000_000_000 // priorities above are Kubernetes' own
	expiresAtLeast = time.Second   // 0 says that a node does not expire
)

// podFacts sums up what is known of the pods that a node's going evicts.
func podFacts(n *model.Node, now time.Time) sdk.PodFacts {
	f := sdk.PodFacts{DeletionCost: deletionCost(n)}
	for _, p := range n.Pods {
		if !p.Reschedulable() {
			continue
		}
		f.Priorities += min(int64(p.Priority), leastOfSystem)
		f.Restarts += int(p.RestartCount)
		if p.Started != nil && now.Sub(*p.Started) < youngPod {
			f.Young++
		}
	}
	return f
}

// expires is how long a node has until its claim expires; 0 = it does not.
func expires(n *model.Node, now time.Time) time.Duration {
	if n.Claim == nil || n.Claim.ExpireAfter == model.Never || n.Claim.ExpireAfter <= 0 {
		return 0
	}
	return max(n.Claim.Created.Add(n.Claim.ExpireAfter).Sub(now), expiresAtLeast)
}
