package sdk

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

// fromPriceRequest writes a request; the catalogue goes by its hash.
func fromPriceRequest(r *PriceRequest) *instancev1.PriceRequest {
	m := &instancev1.PriceRequest{CatalogueHash: r.Catalogue.Hash[:], Now: timestamppb.New(r.Now), UsdPerHour: r.USDPerHour,
		Pools:  fromPools(r.Pools),
		Demand: &instancev1.Demand{Pods: uint32(r.Demand.Pods), CpuMilli: r.Demand.CPUMilli, MemoryBytes: r.Demand.MemoryBytes}}
	offerings := make([]int, 0, len(r.Health))
	for i := range r.Health {
		offerings = append(offerings, i)
	}
	slices.Sort(offerings)
	for _, i := range offerings {
		h := r.Health[i]
		m.Health = append(m.Health, &strategyv1.OfferingHealth{Offering: uint32(i), Available: h.Available, UnavailableReason: h.Unavailable,
			Shortages: uint32(h.Shortages), Interruptions: uint32(h.Interruptions), ReservationLeft: uint32(h.ReservationLeft),
			LastShortage: fromTime(h.LastShortage), LastInterruption: fromTime(h.LastInterruption)})
	}
	for _, c := range r.Commitments {
		m.Commitments = append(m.Commitments, &strategyv1.Commitment{Name: c.Name, Covers: fromSelector(c.Covers), UsdPerHour: c.USDPerHour,
			UsedUsdPerHour: c.UsedUSDPerHour, Nodes: uint32(c.Nodes), UsedNodes: uint32(c.UsedNodes),
			Discount: c.Discount, UsdPerHourByType: c.USDPerHourByType, Source: c.Source})
	}
	return m
}

// toPriceRequest reads a request over the catalogue that it names. Errors: counts
// and indexes that do not fit the catalogue.
func toPriceRequest(c *Catalogue, m *instancev1.PriceRequest) (*PriceRequest, error) {
	if len(m.UsdPerHour) != len(c.Offerings) {
		return nil, fmt.Errorf("%d prices for a catalogue of %d offerings", len(m.UsdPerHour), len(c.Offerings))
	}
	pools, err := toPools(c, m.Pools)
	if err != nil {
		return nil, err
	}
	r := &PriceRequest{Catalogue: c, Now: m.Now.AsTime(), USDPerHour: m.UsdPerHour, Pools: pools,
		Health: make(map[int]Health, len(m.Health)),
		Demand: Demand{Pods: int(m.Demand.GetPods()), CPUMilli: m.Demand.GetCpuMilli(), MemoryBytes: m.Demand.GetMemoryBytes()}}
	for _, h := range m.Health {
		if int(h.Offering) >= len(c.Offerings) {
			return nil, fmt.Errorf("health of offering %d of %d", h.Offering, len(c.Offerings))
		}
		r.Health[int(h.Offering)] = Health{Available: h.Available, Unavailable: h.UnavailableReason, Shortages: int(h.Shortages),
			Interruptions: int(h.Interruptions), ReservationLeft: int(h.ReservationLeft),
			LastShortage: toTime(h.LastShortage), LastInterruption: toTime(h.LastInterruption)}
	}
	for _, x := range m.Commitments {
		r.Commitments = append(r.Commitments, Commitment{Name: x.Name, Covers: toSelector(x.Covers), USDPerHour: x.UsdPerHour,
			UsedUSDPerHour: x.UsedUsdPerHour, Nodes: int(x.Nodes), UsedNodes: int(x.UsedNodes),
			Discount: x.Discount, USDPerHourByType: x.UsdPerHourByType, Source: x.Source})
	}
	return r, nil
}

// fromPriceAnswer writes an answer.
func fromPriceAnswer(a *PriceAnswer) *instancev1.PriceResponse {
	m := &instancev1.PriceResponse{Pools: make([]*instancev1.PoolPrices, len(a.Pools))}
	for i := range a.Pools {
		p := &a.Pools[i]
		out := &instancev1.PoolPrices{UsdPerHour: p.USDPerHour, FeeUsdPerNodeHour: p.FeePerNode, Packing: instancev1.Packing_PACKING_LEAST_COST}
		if p.LargestFirst {
			out.Packing = instancev1.Packing_PACKING_LARGEST_FIRST
		}
		offerings := make([]int, 0, len(p.Steps))
		for o := range p.Steps {
			offerings = append(offerings, o)
		}
		slices.Sort(offerings)
		for _, o := range offerings {
			out.Stepped = append(out.Stepped, fromSteps(o, p.Steps[o]))
		}
		for _, v := range p.Vetoes {
			out.Vetoes = append(out.Vetoes, &instancev1.Veto{Reason: v.Reason, Offerings: toU32(v.Offerings)})
		}
		for _, l := range p.Limits {
			out.Limits = append(out.Limits, fromLimit(l))
		}
		m.Pools[i] = out
	}
	return m
}

func fromSteps(offering int, steps []Step) *instancev1.SteppedPrice {
	m := &instancev1.SteppedPrice{Offering: uint32(offering)}
	for _, s := range steps {
		step := &instancev1.Step{UsdPerHour: s.USDPerHour, Shared: s.Shared}
		switch {
		case s.Nodes != 0:
			step.Quantity = &instancev1.Step_Nodes{Nodes: uint32(s.Nodes)}
		case s.SumUSDPerHour != 0:
			step.Quantity = &instancev1.Step_SumUsdPerHour{SumUsdPerHour: s.SumUSDPerHour}
		}
		m.Steps = append(m.Steps, step)
	}
	return m
}

func fromLimit(l Limit) *instancev1.Limit {
	m := &instancev1.Limit{Name: l.Name}
	switch {
	case l.Share != nil:
		m.Rule = &instancev1.Limit_Share{Share: &instancev1.Share{Selector: fromSelector(l.Share.Selector), Min: l.Share.Min, Max: l.Share.Max,
			Measure: instancev1.Measure(l.Share.Measure)}}
	case l.Variety != nil:
		m.Rule = &instancev1.Limit_Variety{Variety: &instancev1.Variety{Over: instancev1.Over(l.Variety.Over), Min: uint32(l.Variety.Min)}}
	case l.PodsPerNode != nil:
		m.Rule = &instancev1.Limit_PodsPerNode{PodsPerNode: &instancev1.PodsPerNode{Max: uint32(l.PodsPerNode.Max), Share: l.PodsPerNode.Share}}
	}
	return m
}

// toPriceAnswer reads an answer. It judges nothing but the message's own form: an
// unknown way of packing and an offering with two lists of steps are faults of the pool,
// whose entry is empty then; the rest is for CheckPrices.
func toPriceAnswer(m *instancev1.PriceResponse) (*PriceAnswer, PoolFaults) {
	a := &PriceAnswer{Pools: make([]PoolPrices, len(m.Pools))}
	var faults PoolFaults
	for i, in := range m.Pools {
		p, err := toPoolPrices(in)
		if err == nil {
			a.Pools[i] = p
			continue
		}
		if faults == nil {
			faults = PoolFaults{}
		}
		faults[i] = err
	}
	return a, faults
}

func toPoolPrices(in *instancev1.PoolPrices) (PoolPrices, error) {
	p := PoolPrices{USDPerHour: in.UsdPerHour, FeePerNode: in.FeeUsdPerNodeHour}
	switch in.Packing {
	case instancev1.Packing_PACKING_UNSPECIFIED, instancev1.Packing_PACKING_LEAST_COST:
	case instancev1.Packing_PACKING_LARGEST_FIRST:
		p.LargestFirst = true
	default:
		return PoolPrices{}, fmt.Errorf("unknown packing %d", in.Packing)
	}
	for _, s := range in.Stepped {
		if p.Steps == nil {
			p.Steps = map[int][]Step{}
		}
		if _, twice := p.Steps[int(s.Offering)]; twice {
			return PoolPrices{}, fmt.Errorf("offering %d has steps twice", s.Offering)
		}
		p.Steps[int(s.Offering)] = toSteps(s)
	}
	for _, v := range in.Vetoes {
		p.Vetoes = append(p.Vetoes, Veto{Reason: reason(v.Reason), Offerings: toInt(v.Offerings)})
	}
	for _, l := range in.Limits {
		p.Limits = append(p.Limits, toLimit(l))
	}
	return p, nil
}

func toSteps(m *instancev1.SteppedPrice) []Step {
	steps := make([]Step, 0, len(m.Steps))
	for _, s := range m.Steps {
		steps = append(steps, Step{USDPerHour: s.UsdPerHour, Nodes: int(s.GetNodes()), SumUSDPerHour: s.GetSumUsdPerHour(), Shared: s.Shared})
	}
	return steps
}

func toLimit(m *instancev1.Limit) Limit {
	l := Limit{Name: reason(m.Name)}
	switch rule := m.Rule.(type) {
	case *instancev1.Limit_Share:
		measure := Measure(rule.Share.GetMeasure())
		if measure == 0 {
			measure = MeasureNodes
		}
		l.Share = &Share{Selector: toSelector(rule.Share.GetSelector()), Min: rule.Share.GetMin(), Max: rule.Share.GetMax(), Measure: measure}
	case *instancev1.Limit_PodsPerNode:
		l.PodsPerNode = &PodsPerNode{Max: int(rule.PodsPerNode.GetMax()), Share: rule.PodsPerNode.GetShare()}
	case *instancev1.Limit_Variety:
		l.Variety = &Variety{Over: Over(rule.Variety.GetOver()), Min: int(rule.Variety.GetMin())}
	}
	return l
}
