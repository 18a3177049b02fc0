package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUsage: each node counts for the first commitment that covers it and has enough left.
func TestUsage(t *testing.T) {
	t.Parallel()
	onDemand := LabelMatch{Key: LabelCapacityType, Values: []string{OnDemand}}
	node := func(typ, capacity string, usd float64) *Node {
		return &Node{Labels: map[string]string{LabelInstanceType: typ, LabelCapacityType: capacity}, USDPerHour: usd, PriceKnown: usd > 0}
	}
	commitments := []Commitment{
		{Name: "ri", Covers: OfferingSelector{onDemand, {Key: LabelInstanceType, Values: []string{"m5.large"}}}, Nodes: 3, UsedNodes: 1},
		{Name: "plan", Covers: OfferingSelector{onDemand}, USDPerHour: 1, UsedUSDPerHour: 0.25, Discount: 0.5, USDPerHourByType: map[string]float64{"c5.large": 0.25}},
	}
	for name, c := range map[string]struct {
		nodes []*Node
		ri    int64
		plan  float64
	}{
		"nothing runs":              {nil, 1, 0.25},
		"spot counts for nothing":   {[]*Node{node("m5.large", Spot, 0.1)}, 1, 0.25},
		"reserved instances first":  {[]*Node{node("m5.large", OnDemand, 0.5)}, 2, 0.25},
		"then the plan":             {[]*Node{node("m5.large", OnDemand, 0.5), node("m5.large", OnDemand, 0.5), node("m5.large", OnDemand, 0.5)}, 3, 0.5},
		"at its discount":           {[]*Node{node("r5.large", OnDemand, 0.5)}, 1, 0.5},
		"at its price":              {[]*Node{node("c5.large", OnDemand, 9)}, 1, 0.5},
		"at its price, none known":  {[]*Node{node("c5.large", OnDemand, 0)}, 1, 0.5},
		"no price at all":           {[]*Node{node("r5.large", OnDemand, 0)}, 1, 0.25},
		"what does not fit is left": {[]*Node{node("r5.huge", OnDemand, 4), node("r5.large", OnDemand, 0.5)}, 1, 0.5},
	} {
		got := Usage(commitments, c.nodes)
		if got[0].UsedNodes != c.ri || got[1].UsedUSDPerHour != c.plan {
			t.Errorf("%s: %d nodes and %v USD/h are used, want %d and %v", name, got[0].UsedNodes, got[1].UsedUSDPerHour, c.ri, c.plan)
		}
	}
	if diff := cmp.Diff(int64(1), commitments[0].UsedNodes); diff != "" {
		t.Errorf("what was handed in has changed: %s", diff)
	}
	if Usage(nil, []*Node{node("m5.large", OnDemand, 1)}) != nil {
		t.Error("commitments out of nothing")
	}
}
