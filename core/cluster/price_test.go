package cluster_test

import (
	"testing"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/model"
)

// Case B121: a node has no price while its capacity type is not known, or its offering has none; it is looked up again when the label
// arrives, and whenever prices are read, and nothing of a guess stays.
func TestPricesAreLookedUpAgain(t *testing.T) {
	t.Parallel()
	onDemand := offering("m5.large", 0.1)
	onDemand.CapacityType = model.OnDemand
	m := mirror(cluster.UpsertClaim{Claim: claim(1)}, cluster.Offerings{Class: "default", List: []*model.Offering{offering("m5.large", 0.05), onDemand}})
	check := func(what string, usd float64) {
		t.Helper()
		n := m.World(t0).Nodes[0]
		if n.PriceKnown != (usd > 0) || n.PriceKnown && n.USDPerHour != usd {
			t.Errorf("%s: price %v, known %t; want %v", what, n.USDPerHour, n.PriceKnown, usd)
		}
	}
	label := func(instanceType, capacityType string) {
		n := node(1)
		n.Labels[model.LabelInstanceType] = instanceType
		if n.Labels[model.LabelCapacityType] = capacityType; capacityType == "" {
			delete(n.Labels, model.LabelCapacityType)
		}
		m.Apply(cluster.UpsertNode{Node: n}, t0)
	}
	label("m5.large", "")
	check("without its label", 0)
	label("m5.large", model.Spot)
	check("as spot", 0.05)
	label("m5.large", model.OnDemand)
	check("the label says on-demand", 0.1)
	label("zz9.huge", model.OnDemand)
	check("of a type that nobody knows", 0)
	label("m5.large", model.Spot)
	check("as spot again", 0.05)
	none := offering("m5.large", 0)
	none.PriceSource = "unknown"
	m.Apply(cluster.Offerings{Class: "default", List: []*model.Offering{none, onDemand}}, t0)
	check("with no spot price there is no price, not that of on-demand", 0)
	m.Apply(cluster.Offerings{Class: "default", List: []*model.Offering{offering("m5.large", 0.06), onDemand}}, t0)
	check("once it is read", 0.06)
}
