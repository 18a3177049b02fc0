package capacitymix

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/weir-project/weir/plugins/sdk"
)

// Annotation of a NodePool that says its mix, as a JSON object with the fields of Mix. It
// stands above the configuration.
const Annotation = "weir.dev/capacity-mix"

// mixOf is the mix of a pool: that of its annotation, of its name, or of all.
func (s *Strategy) mixOf(pool *sdk.Pool) (Mix, error) {
	if said, ok := pool.Annotations[Annotation]; ok {
		var m Mix
		if err := sdk.Decode(json.RawMessage(said), &m); err != nil {
			return Mix{}, annotationError(err)
		}
		if err := checkMix(&m, ""); err != nil {
			return Mix{}, annotationError(err)
		}
		return m, nil
	}
	if m, ok := s.config.Pools[pool.Name]; ok {
		return m, nil
	}
	return s.config.Mix, nil
}

func annotationError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "configuration: "))
}

// short keeps a reason within what may cross the wire.
func short(s string) string {
	if r := []rune(s); len(r) > sdk.MaxReason {
		return string(r[:sdk.MaxReason-1]) + "…"
	}
	return s
}

// notSpot are the capacity types that AWS does not take back.
var notSpot = map[string][]string{sdk.LabelCapacityType: {sdk.OnDemand, sdk.Reserved}}

// limits is what the engine is to keep for a pool.
func limits(m *Mix, req *sdk.PriceRequest, pool *sdk.Pool, measure sdk.Measure) []sdk.Limit {
	var out []sdk.Limit
	least := func(name string, share float64, measure sdk.Measure) {
		if share > 0 {
			out = append(out, sdk.Limit{Name: name, Share: &sdk.Share{Selector: selector(notSpot, false), Min: share, Max: 1, Measure: measure}})
		}
	}
	least("on-demand", m.OnDemandShare, measure)
	least("on-demand base", baseShare(m, req, pool), baseMeasure(m))
	if m.MaxSpotShare != nil && *m.MaxSpotShare < 1 {
		spot := map[string][]string{sdk.LabelCapacityType: {sdk.Spot}}
		out = append(out, sdk.Limit{Name: "spot", Share: &sdk.Share{Selector: selector(spot, false), Max: *m.MaxSpotShare, Measure: measure}})
	}
	for _, p := range m.Parts {
		out = append(out, p.limits(measure)...)
	}
	return out
}

// limits of a part. A least share that is a wall is the greatest share of everything
// else.
func (p *Part) limits(measure sdk.Measure) []sdk.Limit {
	var out []sdk.Limit
	share := &sdk.Share{Selector: selector(p.Match, false), Min: p.Min, Max: 1, Measure: measure}
	if p.Max != nil {
		share.Max = *p.Max
	}
	if p.Strict && p.Min > 0 {
		share.Min = 0
		out = append(out, sdk.Limit{Name: p.Name + ", least", Share: &sdk.Share{Selector: selector(p.Match, true), Max: 1 - p.Min, Measure: measure}})
	}
	if share.Min > 0 || share.Max < 1 {
		out = append(out, sdk.Limit{Name: p.Name, Share: share})
	}
	return out
}

func baseMeasure(m *Mix) sdk.Measure {
	if m.OnDemandBaseVCPU > 0 {
		return sdk.MeasureCPU
	}
	return sdk.MeasureNodes
}

// baseShare is the base as a part of the pool. In vCPUs it is a part of what will run if
// all that waits comes to this pool. How many nodes that will be nobody knows before they
// are planned: a base in nodes is bought by price, and kept as a part of what runs while
// nothing waits, so that consolidation leaves it.
func baseShare(m *Mix, req *sdk.PriceRequest, pool *sdk.Pool) float64 {
	has := count(req, pool)
	switch {
	case m.OnDemandBaseVCPU > 0:
		all := (has.milliCPU + float64(req.Demand.CPUMilli)) / 1000
		if all <= m.OnDemandBaseVCPU {
			return 1
		}
		return m.OnDemandBaseVCPU / all
	case m.OnDemandBaseNodes > 0 && req.Demand.Pods == 0 && has.nodes > 0:
		return math.Min(1, float64(m.OnDemandBaseNodes)/float64(has.nodes))
	}
	return 0
}

// counts is what runs in a pool, bought and not joined yet included.
type counts struct {
	nodes, onDemand int
	milliCPU        float64 // of those that are in the catalogue
}

func count(req *sdk.PriceRequest, pool *sdk.Pool) counts {
	var c counts
	for _, r := range pool.Running {
		n := r.Nodes + r.InFlight
		c.nodes += n
		if r.CapacityType != sdk.Spot {
			c.onDemand += n
		}
		if r.Offering >= 0 {
			c.milliCPU += float64(n) * float64(req.Catalogue.Offerings[r.Offering].Type.CPUMilli)
		}
	}
	return c
}
