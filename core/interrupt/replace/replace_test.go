package replace_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/interrupt/replace"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/resource"
)

const (
	i1      = "i-0aaa0000000000001"
	i2      = "i-0aaa0000000000002"
	foreign = "i-0eee0000000000009"
)

var noon = modeltest.Now

func node(name, instance string, pods ...*model.Pod) *model.Node {
	return modeltest.Node(name, 2000, 8192, nil, modeltest.Managed("default"), func(n *model.Node) {
		n.ProviderID = model.ProviderID("us-east-2a", instance)
		n.Claim.ProviderID = n.ProviderID
		n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], n.Labels[model.LabelCapacityType] = "m5.large", "us-east-2a", model.Spot
	}, modeltest.Running(pods...))
}

func offeringOf(name, zone string, price float64) *model.Offering {
	alloc := resource.New(1930, 7<<30, 29, 17<<30)
	return &model.Offering{Type: &model.InstanceType{Name: name, Capacity: alloc, Allocatable: alloc, Labels: map[string]string{model.LabelInstanceType: name, model.LabelArch: "amd64", model.LabelOS: "linux"}},
		Zone: zone, CapacityType: model.Spot, USDPerHour: price, Available: true}
}

func TestPlanMovesThePodsAway(t *testing.T) {
	t.Parallel()
	web, agent := modeltest.Pod("web", 1500, 512), modeltest.Pod("agent", 100, 64)
	agent.Owner = model.Owner{Kind: "DaemonSet", Name: "agent"}
	late := modeltest.Pod("late", 100, 64)
	deadline := noon.Add(2 * time.Minute)
	notices := []model.Notice{
		{Kind: model.NoticeSpot, InstanceID: i1, Time: noon, Deadline: &deadline},
		{Kind: model.NoticeRebalance, InstanceID: i2, Time: noon},
		{Kind: model.NoticeSpot, InstanceID: foreign, Time: noon},
	}
	build := func(offers ...*model.Offering) *model.World {
		return &model.World{
			Now: noon, Pools: []*model.Pool{modeltest.Pool("default")}, Pods: []*model.Pod{late},
			Nodes:       []*model.Node{node("web-host", i1, web, agent), node("other-host", i2, modeltest.Pod("busy", 2000, 512))},
			NodeClasses: map[string]*model.NodeClass{modeltest.Class: {Name: modeltest.Class}},
			Offerings:   map[string][]*model.Offering{modeltest.Class: offers},
		}
	}
	taken, other := offeringOf("m5.large", "us-east-2a", 0.03), offeringOf("m5.large", "us-east-2b", 0.04)

	p := replace.Plan(build(taken, other), nil, notices)
	if len(p.Unplaced) != 0 || len(p.Warnings) != 0 || len(p.Launch) != 1 {
		t.Fatalf("launches %d, unplaced %v, warnings %v", len(p.Launch), p.Unplaced, p.Warnings)
	}
	names := map[string]bool{}
	for _, pod := range p.Launch[0].Pods {
		names[pod.Name] = true
	}
	if diff := cmp.Diff(map[string]bool{"web": true, "late": true}, names); diff != "" {
		t.Errorf("pods of the new node (-want +got):\n%s", diff)
	}
	if zone := p.Launch[0].Offering.Zone; zone != "us-east-2b" {
		t.Errorf("bought again in %s, where AWS is taking instances back", zone)
	}
	if web.NodeName != "web-host" || !taken.Available {
		t.Error("the world that was handed in was changed")
	}

	p = replace.Plan(build(taken), nil, notices)
	if len(p.Unplaced) != 0 || len(p.Launch) != 1 || len(p.Warnings) != 1 {
		t.Errorf("nothing else is for sale: launches %d, unplaced %d, warnings %v", len(p.Launch), len(p.Unplaced), p.Warnings)
	}

	// Without the first notice web-host stays, and has room for the pod that waits.
	if p := replace.Plan(build(taken, other), nil, notices[1:]); len(p.Launch) != 0 || len(p.Placements) != 1 || p.Placements[0].Node.Name != "web-host" {
		t.Errorf("notices that take no node moved pods: %+v", p)
	}
}
