package simulate

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// A cluster that runs already goes on running: nothing is bought for the pods on its
// node, and the node is given back, machine and all, once it is empty.
func TestRunningClusterIsTakenIn(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Catalogue = few
	start, err := opts.Load([]string{"demo-spot.yaml", "seed/ec2-node-class-default.yaml", "web.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	start.Workloads[0].Replicas = 2
	old := monday.Add(-time.Hour)
	labels := map[string]string{model.LabelPool: "demo-spot", "nodepool": "demo-spot", "capacity-profile": "spot", model.LabelInstanceType: "m6a.2xlarge", model.LabelZone: "us-east-1a",
		model.LabelCapacityType: "spot", model.LabelRegistered: "true", model.LabelInitialized: "true", model.LabelArch: "amd64", model.LabelOS: "linux",
		model.LabelNodeClass: "default", model.AWSLabelDomain + "/instance-category": "m", model.AWSLabelDomain + "/instance-cpu": "8", model.AWSLabelDomain + "/instance-generation": "6"}
	yes := func(kind string) model.Condition { return model.Condition{Type: kind, Status: "True", Since: old} }
	size := resource.New(8000, 32<<30, 58, 50<<30)
	claim := &model.Claim{Name: "demo-spot-old", UID: "claim-1", Pool: "demo-spot", NodeClass: model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		Labels: labels, Finalizers: []string{model.FinalizerTermination}, ExpireAfter: model.Never, Created: old, ProviderID: "aws:///us-east-1a/i-0old", NodeName: "old",
		Capacity: size, Allocatable: size, Conditions: []model.Condition{yes(model.CondLaunched), yes(model.CondRegistered), yes(model.CondInitialized), yes(model.CondReady)}}
	start.Nodes = []*model.Node{{Name: "old", UID: "node-1", Claim: claim, ProviderID: claim.ProviderID, Labels: labels, Finalizers: []string{model.FinalizerTermination},
		Capacity: size, Allocatable: size, Ready: true, Created: old, ReadySince: old}}
	zero, two := 0, 2
	script := &Scenario{Seed: 1, Start: monday, End: 40 * time.Minute, Steps: []Step{
		{At: 5 * time.Minute, Expect: &Expectation{Workload: "default/web", Running: &two, Nodes: map[string]int{"demo-spot": 1}}},
		{At: 5 * time.Minute, Scale: &ScaleStep{Workload: "default/web", Replicas: &zero}},
		{At: 40 * time.Minute, Expect: &Expectation{Nodes: map[string]int{"demo-spot": 0}}},
	}}
	r, err := Run(t.Context(), start, script, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("%s: %s", c.At.Format("15:04"), c.Text)
		}
	}
	if len(r.Bill) != 1 || r.Bill[0].Node != "old" || r.Bill[0].USDPerHour == 0 || r.Bill[0].Open || r.Bill[0].Hours < 0.2 {
		t.Errorf("bill: %+v, want the old machine alone, for about 15 minutes", r.Bill)
	}
	if r.Final.Claims != 0 || r.Final.Nodes != 0 {
		t.Errorf("left: %+v", r.Final)
	}
}
