package engine_test

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
)

// drawnLimits adds limits, steps and reservations to a drawn world.
func drawnLimits(d dice, w *model.World, prices *model.Prices) *model.Prices {
	if prices == nil {
		prices = &model.Prices{ByPool: map[string]model.PoolPrices{}}
	}
	w.Settings.ReservedCapacity = !d.in(4)
	for i := range d.n(4) {
		o := *one(d, w.Offerings[mt.Class]...)
		o.CapacityType, o.ReservationID, o.Count, o.USDPerHour, o.Available, o.Unavailable = model.Reserved, fmt.Sprintf("cr-%d", i), 1+d.n(4), o.USDPerHour/1e7, true, ""
		w.Offerings[mt.Class] = append(w.Offerings[mt.Class], &o)
		for name, pp := range prices.ByPool {
			if len(pp.Offerings) > 0 {
				pp.Offerings = append(pp.Offerings, model.Price{USDPerHour: o.USDPerHour})
				prices.ByPool[name] = pp
			}
		}
	}
	share := func(name, key string, values ...string) model.StrategyLimit {
		least := float64(d.n(8)) / 10
		return model.StrategyLimit{Name: name, Share: &model.ShareLimit{Min: least, Max: max(least, float64(3+d.n(8))/10), Measure: model.Measure(d.n(3)),
			Selector: model.OfferingSelector{{Key: key, Values: values, Negate: d.in(4)}}}}
	}
	for _, p := range w.Pools {
		pp := prices.ByPool[p.Name]
		pp.Strategy = "drawn"
		if d.in(2) {
			pp.Limits = append(pp.Limits, share("mix", model.LabelCapacityType, model.Spot))
		}
		if d.in(3) {
			pp.Limits = append(pp.Limits, share("family", family, "m"))
		}
		if d.in(2) {
			pp.Limits = append(pp.Limits, model.StrategyLimit{Name: "blast", PodsPerNode: &model.PodsPerNode{Max: int64(1 + d.n(4)), Share: float64(d.n(5)) / 10}})
		}
		if d.in(2) {
			pp.Limits = append(pp.Limits, model.StrategyLimit{Name: "zones", Variety: &model.Variety{Min: int64(1 + d.n(4))}})
		}
		if d.in(2) {
			pp.Limits = append(pp.Limits, model.StrategyLimit{Name: "pools", Variety: &model.Variety{Over: model.OverSpotPools, Min: int64(1 + d.n(5))}})
		}
		if d.in(3) {
			pp.Offerings, pp.Steps = nil, map[int][]model.PriceStep{}
			for i, o := range w.Offerings[mt.Class] {
				pp.Offerings = append(pp.Offerings, model.Price{USDPerHour: o.USDPerHour})
				if d.in(4) && o.ReservationID == "" {
					pp.Steps[i] = []model.PriceStep{{USDPerHour: o.USDPerHour / 4, Nodes: 1 + int64(d.n(2)), Shared: one(d, "", "plan")}, {USDPerHour: o.USDPerHour}}
				}
			}
		}
		prices.ByPool[p.Name] = pp
	}
	return prices
}

// TestLimitsHoldOnDrawnWorlds: with every rule there is for pods and pools, plans keep
// what strategies ask for, and what reservations have left.
func TestLimitsHoldOnDrawnWorlds(t *testing.T) {
	t.Parallel()
	placed, reserved := 0, 0
	for seed := range uint64(proofSeeds) {
		d := seeded(seed + 1<<32)
		w := proofWorld(d)
		prices := drawnLimits(d, w, proofPrices(d, w))
		r := engine.Place(w, prices)
		p := planOf(r)
		p.Shortfalls = r.Shortfalls
		for _, err := range engine.CheckPriced(w, p, prices) {
			t.Errorf("seed %d: %v", seed, err)
		}
		if usd := total(r); usd < r.Bound-1e-9 {
			t.Errorf("seed %d: the plan costs %v, below its bound %v", seed, usd, r.Bound)
		}
		for _, v := range r.Unplaced {
			if len(v.Reasons) == 0 || v.Reasons[0].Message == "" {
				t.Errorf("seed %d: pod %s has no reason", seed, v.Pod.Name)
			}
		}
		for _, n := range r.New {
			placed += len(n.Pods)
			if n.Offering.ReservationID != "" {
				reserved++
			}
		}
	}
	if placed < proofSeeds || reserved < proofSeeds/20 {
		t.Errorf("%d pods on new nodes, %d of them reserved: the worlds say little", placed, reserved)
	}
}
