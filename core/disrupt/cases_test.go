package disrupt_test

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// B050: a node that fell back to on-demand while spot was short is replaced by spot once
// there is some: the pool says what is allowed, the claim only what was bought.
func TestBackToSpot(t *testing.T) {
	t.Parallel()
	w := world(node("f1", "m5.xlarge", pod("p1", 3000)), pool(func(p *model.Pool) {
		p.Requirements = require.NewSet(require.Must(model.LabelCapacityType, "In", model.Spot, model.OnDemand))
	}))
	w.Nodes[0].Claim.Requirements = require.NewSet(require.Must(model.LabelCapacityType, "In", model.OnDemand))
	for _, o := range append([]*model.Offering(nil), w.Offerings["c"]...) {
		s := *o
		s.CapacityType, s.USDPerHour = model.Spot, 0.36*o.USDPerHour
		w.Offerings["c"] = append(w.Offerings["c"], &s)
	}
	p := disrupt.Plan(w, nil, nil, disrupt.Options{})
	if len(p.Commands) != 1 || len(p.Commands[0].Launch) != 1 {
		t.Fatalf("commands %+v, blocked %+v", p.Commands, p.Blocked)
	}
	c := p.Commands[0]
	if o := c.Launch[0].Offering; o.CapacityType != model.Spot || o.Type.Name != "m5.xlarge" || c.Before-c.After < 0.12 {
		t.Errorf("replaced by %s, saving %.4f", o.Key(), c.Before-c.After)
	}
}

// B041: of the cheaper spot types those that a launch names are the cheapest, in whatever
// order they are listed, and no more than v1's number of them.
func TestSpotToSpotTakesTheCheapest(t *testing.T) {
	t.Parallel()
	w := world(node("old", "m5.xlarge", pod("p1", 1000), func(n *model.Node) {
		n.Labels[model.LabelCapacityType], n.Labels[model.LabelInstanceType] = model.Spot, "t17"
		n.USDPerHour = 2.7
	}), pool(func(p *model.Pool) {
		p.Requirements = require.NewSet(require.Must(model.LabelCapacityType, "In", model.Spot))
	}))
	w.Settings.SpotToSpot, w.Settings.AlternativesMaxRatio = true, 100000
	w.Offerings["c"] = nil
	for i := range 18 {
		usd := 1 + 0.1*float64(i)
		if i == 16 {
			usd = 0.001
		}
		name := fmt.Sprintf("t%02d", i)
		typ := &model.InstanceType{Name: name, Labels: map[string]string{model.LabelInstanceType: name}, Capacity: resource.New(4000, 16*gi, 58, 20*gi), Allocatable: resource.New(4000, 16*gi, 58, 20*gi)}
		w.Offerings["c"] = append(w.Offerings["c"], &model.Offering{Type: typ, Zone: "a", CapacityType: model.Spot, USDPerHour: usd, Available: true})
	}
	p := disrupt.Plan(w, nil, nil, disrupt.Options{})
	if len(p.Commands) != 1 || len(p.Commands[0].Launch) != 1 {
		t.Fatalf("commands %+v, blocked %+v", p.Commands, p.Blocked)
	}
	n := p.Commands[0].Launch[0]
	named := map[string]bool{n.Offering.Type.Name: true}
	for _, o := range n.Alternatives {
		named[o.Type.Name] = true
	}
	if n.Offering.Type.Name != "t16" || len(named) != 15 || named["t14"] || named["t15"] || !named["t13"] {
		t.Errorf("best %s, named %v; want t16 and t00 to t13", n.Offering.Type.Name, named)
	}
}
