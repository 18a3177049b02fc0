package sdk

import (
	"fmt"
	"math"

	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

func fromAmounts(in *interner, a Amounts) *strategyv1.Amounts {
	m := &strategyv1.Amounts{CpuMilli: a.CPUMilli, MemoryBytes: a.MemoryBytes, Pods: a.Pods, StorageBytes: a.StorageBytes}
	m.Extended = fromExtended(in, a.Extended)
	return m
}

func fromExtended(in *interner, amounts map[string]int64) (out []*strategyv1.Extended) {
	for _, k := range sortedKeys(amounts) {
		out = append(out, &strategyv1.Extended{NameText: in.id(k), Count: amounts[k]})
	}
	return out
}

func (r *textReader) amounts(m *strategyv1.Amounts) Amounts {
	return Amounts{CPUMilli: m.GetCpuMilli(), MemoryBytes: m.GetMemoryBytes(), Pods: m.GetPods(), StorageBytes: m.GetStorageBytes(), Extended: r.extended(m.GetExtended())}
}

func (r *textReader) extended(list []*strategyv1.Extended) map[string]int64 {
	var out map[string]int64
	for _, e := range list {
		if out == nil {
			out = make(map[string]int64, len(list))
		}
		out[r.text(e.NameText)] = e.Count
	}
	return out
}

// fromPlanRequest writes a request; the catalogue goes by its hash.
func fromPlanRequest(r *PlanRequest) *instancev1.PlanRequest {
	in := &interner{index: map[string]uint32{}}
	m := &instancev1.PlanRequest{Market: fromPriceRequest(&r.PriceRequest), Sets: make([]*instancev1.OfferingSet, len(r.Sets)), Groups: make([]*instancev1.PodGroup, len(r.Groups))}
	for i, set := range r.Sets {
		deltas, last := make([]uint32, len(set)), 0
		for k, o := range set {
			deltas[k] = uint32(o - last)
			last = o
		}
		m.Sets[i] = &instancev1.OfferingSet{Deltas: deltas}
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		out := &instancev1.PodGroup{Pods: uint32(g.Pods), Requests: fromAmounts(in, g.Requests), Priority: g.Priority}
		for _, a := range g.Allowed {
			out.Allowed = append(out.Allowed, &instancev1.Allowed{Pool: uint32(a.Pool), Set: uint32(a.Set)})
		}
		for _, n := range g.Neighbours {
			out.Neighbours = append(out.Neighbours, &instancev1.Neighbours{Relation: instancev1.Relation(n.Relation), KeyText: in.id(n.Key),
				MaxSkew: uint32(n.MaxSkew), Groups: toU32(n.Groups)})
		}
		m.Groups[i] = out
	}
	for i := range r.Rooms {
		room := &instancev1.PoolRoom{Left: fromExtended(in, r.Rooms[i].Left), NodesLeft: optional(r.Rooms[i].NodesLeft)}
		for _, d := range r.Rooms[i].Daemons {
			room.Daemons = append(room.Daemons, &instancev1.Daemons{Set: uint32(d.Set), Requests: fromAmounts(in, d.Requests)})
		}
		m.Rooms = append(m.Rooms, room)
	}
	m.Texts = in.texts
	return m
}

// toPlanRequest reads a request over the catalogue that it names. Errors: too many
// entries, counts and indexes that do not fit.
func toPlanRequest(c *Catalogue, m *instancev1.PlanRequest) (*PlanRequest, error) {
	if m.Market == nil {
		return nil, fmt.Errorf("market is missing")
	}
	if len(m.Groups) > MaxGroups || len(m.Sets) > MaxSets || len(m.Texts) > MaxTexts {
		return nil, fmt.Errorf("%d groups, %d sets, %d texts, at most %d, %d, %d", len(m.Groups), len(m.Sets), len(m.Texts), MaxGroups, MaxSets, MaxTexts)
	}
	market, err := toPriceRequest(c, m.Market)
	if err != nil {
		return nil, err
	}
	r := &PlanRequest{PriceRequest: *market, Sets: make([][]int, len(m.Sets)), Groups: make([]PodGroup, len(m.Groups))}
	total := 0
	for i, s := range m.Sets {
		if total += len(s.Deltas); total > MaxSetEntries {
			return nil, fmt.Errorf("sets of more than %d offerings in all", MaxSetEntries)
		}
		if r.Sets[i], err = toSet(c, s); err != nil {
			return nil, fmt.Errorf("set %d: %w", i, err)
		}
	}
	texts := &textReader{texts: m.Texts, what: "request"}
	for i, g := range m.Groups {
		if r.Groups[i], err = toGroup(texts, m, g); err != nil {
			return nil, fmt.Errorf("group %d: %w", i, err)
		}
	}
	if len(m.Rooms) != len(r.Pools) {
		return nil, fmt.Errorf("%d rooms for %d pools", len(m.Rooms), len(r.Pools))
	}
	for i, x := range m.Rooms {
		room := PoolRoom{Left: texts.extended(x.Left), NodesLeft: -1}
		if x.NodesLeft != nil {
			room.NodesLeft = int(*x.NodesLeft)
		}
		for _, d := range x.Daemons {
			if int(d.Set) >= len(r.Sets) {
				return nil, fmt.Errorf("room %d: set %d of %d", i, d.Set, len(r.Sets))
			}
			room.Daemons = append(room.Daemons, DaemonRoom{Set: int(d.Set), Requests: texts.amounts(d.Requests)})
		}
		r.Rooms = append(r.Rooms, room)
	}
	return r, texts.err
}

func toSet(c *Catalogue, m *instancev1.OfferingSet) ([]int, error) {
	out, at := make([]int, len(m.Deltas)), uint64(0)
	for k, d := range m.Deltas {
		if k > 0 && d == 0 {
			return nil, fmt.Errorf("offering %d is there twice", at)
		}
		if at += uint64(d); at >= uint64(len(c.Offerings)) {
			return nil, fmt.Errorf("offering %d of %d", at, len(c.Offerings))
		}
		out[k] = int(at)
	}
	return out, nil
}

func toGroup(texts *textReader, m *instancev1.PlanRequest, g *instancev1.PodGroup) (PodGroup, error) {
	out := PodGroup{Pods: int(g.Pods), Requests: texts.amounts(g.Requests), Priority: g.Priority}
	for _, a := range g.Allowed {
		if int(a.Pool) >= len(m.Market.Pools) || int(a.Set) >= len(m.Sets) {
			return out, fmt.Errorf("pool %d of %d, set %d of %d", a.Pool, len(m.Market.Pools), a.Set, len(m.Sets))
		}
		out.Allowed = append(out.Allowed, Allowed{Pool: int(a.Pool), Set: int(a.Set)})
	}
	for _, n := range g.Neighbours {
		x := Neighbours{Relation: Relation(n.Relation), Key: texts.text(n.KeyText), MaxSkew: int(n.MaxSkew)}
		for _, k := range n.Groups {
			if int(k) >= len(m.Groups) {
				return out, fmt.Errorf("its neighbours are of group %d of %d", k, len(m.Groups))
			}
			x.Groups = append(x.Groups, int(k))
		}
		out.Neighbours = append(out.Neighbours, x)
	}
	return out, nil
}

// fromPlanAnswer writes an answer.
func fromPlanAnswer(a *PlanAnswer) *instancev1.PlanResponse {
	m := &instancev1.PlanResponse{Nodes: make([]*instancev1.PlannedNode, len(a.Nodes))}
	for i := range a.Nodes {
		n := &a.Nodes[i]
		out := &instancev1.PlannedNode{Pool: wireIndex(n.Pool), Offering: wireIndex(n.Offering), Count: wireIndex(n.Count)}
		for _, p := range n.Pods {
			out.Pods = append(out.Pods, &instancev1.PodCount{Group: wireIndex(p.Group), Pods: wireIndex(p.Pods)})
		}
		m.Nodes[i] = out
	}
	return m
}

// wireIndex keeps what is no index from looking like one on the other side.
func wireIndex(i int) uint32 {
	if i < 0 || i > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(i)
}

// toPlanAnswer reads an answer, which CheckPlan then judges.
func toPlanAnswer(m *instancev1.PlanResponse) *PlanAnswer {
	a := &PlanAnswer{Nodes: make([]PlannedNode, len(m.Nodes))}
	for i, n := range m.Nodes {
		out := PlannedNode{Pool: int(n.Pool), Offering: int(n.Offering), Count: int(n.Count)}
		for _, p := range n.Pods {
			out.Pods = append(out.Pods, PodCount{Group: int(p.Group), Pods: int(p.Pods)})
		}
		a.Nodes[i] = out
	}
	return a
}
