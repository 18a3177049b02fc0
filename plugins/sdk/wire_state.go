package sdk

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

func fromPools(pools []Pool) []*strategyv1.PoolState {
	out := make([]*strategyv1.PoolState, len(pools))
	for i := range pools {
		p := &pools[i]
		m := &strategyv1.PoolState{Name: p.Name, NodeClass: p.NodeClass, Weight: p.Weight, Annotations: p.Annotations,
			VolumesUsdPerHour: p.VolumesUSDPerHour, Offerings: toU32(p.Offerings)}
		for _, r := range p.Running {
			m.Running = append(m.Running, &strategyv1.Running{Offering: optional(r.Offering), InstanceType: r.InstanceType, Zone: r.Zone,
				CapacityType: r.CapacityType, Nodes: uint32(r.Nodes), NodesInFlight: uint32(r.InFlight), UsdPerHour: r.USDPerHour})
		}
		out[i] = m
	}
	return out
}

func toPools(c *Catalogue, ms []*strategyv1.PoolState) ([]Pool, error) {
	if len(ms) > MaxPools {
		return nil, fmt.Errorf("%d pools, at most %d", len(ms), MaxPools)
	}
	out := make([]Pool, len(ms))
	for i, m := range ms {
		p := Pool{Name: m.Name, NodeClass: m.NodeClass, Weight: m.Weight, Annotations: m.Annotations,
			VolumesUSDPerHour: m.VolumesUsdPerHour, Offerings: toInt(m.Offerings)}
		for k, o := range p.Offerings {
			if o >= len(c.Offerings) || k > 0 && o <= p.Offerings[k-1] {
				return nil, fmt.Errorf("pool %q: offering %d is not in the catalogue or not in order", m.Name, o)
			}
		}
		for _, r := range m.Running {
			running := Running{Offering: -1, InstanceType: r.InstanceType, Zone: r.Zone, CapacityType: r.CapacityType,
				Nodes: int(r.Nodes), InFlight: int(r.NodesInFlight), USDPerHour: r.UsdPerHour}
			if r.Offering != nil {
				running.Offering = int(*r.Offering)
				if running.Offering >= len(c.Offerings) {
					return nil, fmt.Errorf("pool %q: running offering %d is not in the catalogue", m.Name, running.Offering)
				}
			}
			p.Running = append(p.Running, running)
		}
		out[i] = p
	}
	return out, nil
}

func fromSelector(s Selector) *strategyv1.OfferingSelector {
	out := &strategyv1.OfferingSelector{}
	for _, m := range s {
		out.Matches = append(out.Matches, &strategyv1.LabelMatch{Key: m.Key, Values: m.Values, Negate: m.Negate})
	}
	return out
}

func toSelector(m *strategyv1.OfferingSelector) Selector {
	var out Selector
	for _, x := range m.GetMatches() {
		out = append(out, Match{Key: x.Key, Values: x.Values, Negate: x.Negate})
	}
	return out
}

func optional(i int) *uint32 {
	if i < 0 {
		return nil
	}
	u := uint32(i)
	return &u
}

func toU32(in []int) []uint32 {
	out := make([]uint32, len(in))
	for i, v := range in {
		out[i] = uint32(v)
	}
	return out
}

func toInt(in []uint32) []int {
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = int(v)
	}
	return out
}

// fromTime leaves out what is not known.
func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toTime(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}
