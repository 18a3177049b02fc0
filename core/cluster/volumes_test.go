package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	mt "github.com/weir-project/weir/core/model/modeltest"
)

// TestVolumes follows the places for volumes of a node and of what can be bought,
// from a cluster without volumes to drivers that report late, change and go.
func TestVolumes(t *testing.T) {
	t.Parallel()
	const x = "x.example.com"
	labels := map[string]string{model.LabelInstanceType: "m5.large", model.AWSLabelDomain + "/instance-hypervisor": "nitro"}
	m := cluster.New(cluster.Options{})
	apply := func(c cluster.Change) { m.Apply(c, mt.Now) }
	pod := func(name, node, driver string) *model.Pod {
		p := mt.Pod(name, 100, 100)
		p.NodeName = node
		if driver != "" {
			p.Requests = p.Requests.With(attach.Resource(driver), 1)
		}
		return p
	}
	mine := mt.Node("mine", 4000, 8000, labels, mt.Managed("p"))
	claim := mine.Claim
	mine.Claim = nil
	delete(mine.Labels, model.LabelInitialized)
	claim.Conditions = nil // it has not been initialized yet
	apply(cluster.UpsertClaim{Claim: claim})
	offer := &model.Offering{Type: &model.InstanceType{Name: "m5.large", Labels: labels}, Zone: "us-east-1a", CapacityType: model.OnDemand, Available: true}
	apply(cluster.Offerings{Class: mt.Class, List: []*model.Offering{offer}})
	steps := []struct {
		name   string
		change cluster.Change
		// places by "node driver" or "new driver"; absent = none are told
		want map[string]int64
	}{
		{"a node", cluster.UpsertNode{Node: mine}, map[string]int64{}},
		{"its CSINode, without drivers yet", cluster.UpsertVolumeLimits{Node: "mine", Limits: map[string]int64{}}, map[string]int64{}},
		{"a pod without volumes", cluster.UpsertPod{Pod: pod("plain", "mine", "")}, map[string]int64{}},
		{"a pod with one", cluster.UpsertPod{Pod: pod("db", "", attach.EBS)}, map[string]int64{"mine " + attach.EBS: 25, "new " + attach.EBS: 25}},
		{"the driver reports", cluster.UpsertVolumeLimits{Node: "mine", Limits: map[string]int64{attach.EBS: 24}}, map[string]int64{"mine " + attach.EBS: 24, "new " + attach.EBS: 24}},
		{"another driver", cluster.UpsertPod{Pod: pod("other", "mine", x)}, map[string]int64{
			"mine " + attach.EBS: 24, "new " + attach.EBS: 24, "mine " + x: attach.Unlimited, "new " + x: attach.Unlimited}},
		{"which reports as well", cluster.UpsertVolumeLimits{Node: "mine", Limits: map[string]int64{attach.EBS: 24, x: 3}}, map[string]int64{
			"mine " + attach.EBS: 24, "new " + attach.EBS: 24, "mine " + x: 3, "new " + x: 3}},
		{"the CSINode is gone", cluster.DeleteVolumeLimits{Node: "mine"}, map[string]int64{
			"mine " + attach.EBS: 24, "new " + attach.EBS: 24, "mine " + x: 3, "new " + x: 3}}, // as its type is known to be
	}
	for _, s := range steps {
		apply(s.change)
		w := m.World(mt.Now)
		got := map[string]int64{}
		for _, d := range []string{attach.EBS, x} {
			for _, n := range w.Nodes {
				if v := n.Allocatable.Get(attach.Resource(d)); v != 0 {
					got[n.Name+" "+d] = v
				}
				if n.Capacity.Get(attach.Resource(d)) != 0 {
					t.Errorf("%s: places are no capacity that limits or status speak of", s.name)
				}
			}
			if v := w.Offerings[mt.Class][0].Type.Allocatable.Get(attach.Resource(d)); v != 0 {
				got["new "+d] = v
			}
		}
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
	}
	if m.Offering(mt.Class, offer.Key()) != offer || offer.Type.Allocatable.Get(attach.Resource(x)) != 0 {
		t.Error("what the cloud said stays as it is")
	}
}
