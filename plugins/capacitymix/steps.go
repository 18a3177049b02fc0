package capacitymix

import (
	"maps"
	"math"
	"slices"

	"github.com/weir-project/weir/plugins/sdk"
)

func selector(match map[string][]string, negate bool) sdk.Selector {
	var s sdk.Selector
	for _, key := range slices.Sorted(maps.Keys(match)) {
		s = append(s, sdk.Match{Key: key, Values: match[key], Negate: negate})
	}
	return s
}

// remainder is what is left of a commitment that may be used.
type remainder struct {
	*sdk.Commitment
	nodes int
	usd   float64 // at the prices of the commitment
}

// committed is what is left of the commitments, in the order in which they are told, up
// to the amount that the configuration names.
func (s *Strategy) committed(req *sdk.PriceRequest) []remainder {
	if !s.config.Commitments.First {
		return nil
	}
	room := math.Inf(1)
	if most := s.config.Commitments.MaxUSDPerHour; most != nil {
		room = *most
	}
	for i := range req.Commitments {
		c := &req.Commitments[i]
		room -= c.UsedUSDPerHour + float64(c.UsedNodes)*nodeUSD(req, c)
	}
	var out []remainder
	for i := range req.Commitments {
		c := &req.Commitments[i]
		r := remainder{Commitment: c, nodes: max(c.Nodes-c.UsedNodes, 0), usd: math.Max(c.USDPerHour-c.UsedUSDPerHour, 0)}
		if each := nodeUSD(req, c); r.nodes > 0 && each > 0 && float64(r.nodes)*each > room {
			r.nodes = int(math.Max(room, 0) / each)
		}
		r.usd = math.Max(math.Min(r.usd, room), 0)
		room -= r.usd + float64(r.nodes)*nodeUSD(req, c)
		if r.nodes > 0 || r.usd > 0 {
			out = append(out, r)
		}
	}
	return out
}

// nodeUSD is what a node under a commitment of nodes is worth, USD per hour: the lowest
// price of what it covers.
func nodeUSD(req *sdk.PriceRequest, c *sdk.Commitment) float64 {
	if c.Nodes == 0 {
		return 0
	}
	least := math.Inf(1)
	for i := range req.Catalogue.Offerings {
		if o := &req.Catalogue.Offerings[i]; c.Covers.Matches(o) {
			least = math.Min(least, c.Draws(o, req.USDPerHour[i]))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// steps are the prices by quantity: first what is paid for anyhow, then the base on
// demand, then the market. Quantities are shared by all offerings that draw on them; those
// of commitments by all pools, too.
func (s *Strategy) steps(m *Mix, req *sdk.PriceRequest, pool *sdk.Pool, left []remainder) map[int][]sdk.Step {
	missing := m.OnDemandBaseNodes - count(req, pool).onDemand
	factor := 0.0
	if missing > 0 {
		factor = belowSpot(req, pool)
	}
	if missing <= 0 && len(left) == 0 {
		return nil
	}
	out := map[int][]sdk.Step{}
	for _, o := range pool.Offerings {
		off, usd := &req.Catalogue.Offerings[o], req.USDPerHour[o]
		var steps []sdk.Step
		for _, r := range left {
			if len(steps) < sdk.MaxSteps-2 && r.Covers.Matches(off) {
				steps = append(steps, r.steps(off, usd, s.config.Commitments.Factor)...)
			}
		}
		if missing > 0 && off.CapacityType != sdk.Spot {
			steps = append(steps, sdk.Step{USDPerHour: usd * factor, Nodes: missing, Shared: "on-demand base of " + pool.Name})
		}
		if len(steps) > 0 {
			out[o] = append(steps, sdk.Step{USDPerHour: usd})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// steps of an offering under a commitment. What is left is in the commitment's prices, a
// step counts the market's.
func (r *remainder) steps(o *sdk.Offering, market, factor float64) []sdk.Step {
	name := "commitment " + r.Name
	if r.nodes > 0 {
		return []sdk.Step{{USDPerHour: market * factor, Nodes: r.nodes, Shared: name}}
	}
	draws := r.Draws(o, market)
	if r.usd <= 0 || draws <= 0 || market <= 0 || draws > r.usd {
		return nil
	}
	return []sdk.Step{{USDPerHour: market * factor, SumUSDPerHour: math.Min(r.usd*market/draws, sdk.MaxUSDPerHour), Shared: name}}
}

// belowSpot is a factor that makes every type on demand cheaper than the same as spot, and
// leaves the order among those on demand as it is.
func belowSpot(req *sdk.PriceRequest, pool *sdk.Pool) float64 {
	onDemand := map[*sdk.InstanceType]float64{}
	for _, o := range pool.Offerings {
		off := &req.Catalogue.Offerings[o]
		if off.CapacityType == sdk.OnDemand {
			onDemand[off.Type] = math.Max(onDemand[off.Type], req.USDPerHour[o])
		}
	}
	factor := 1.0
	for _, o := range pool.Offerings {
		off := &req.Catalogue.Offerings[o]
		if usd := onDemand[off.Type]; off.CapacityType == sdk.Spot && usd > 0 {
			factor = math.Min(factor, req.USDPerHour[o]/usd)
		}
	}
	return math.Max(factor*0.9, 0.01)
}
