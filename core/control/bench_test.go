package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// BenchmarkStep is a step of a controller of 5,000 nodes with 100,000 pods when one
// pod changed, in a quiet cluster.
func BenchmarkStep(b *testing.B) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	c := control.New(control.Config{Cluster: "test", Holder: "a", Settings: control.Settings{DisruptionOff: true}})
	in := []control.Input{
		cluster.UpsertNodeClass{NodeClass: &model.NodeClass{Name: "default"}}, cluster.UpsertPool{Pool: pool("default", model.OnDemand)},
	}
	var claims []*model.Claim
	for i := range 5000 {
		name := fmt.Sprintf("n%04d", i)
		labels := map[string]string{model.LabelPool: "default", model.LabelInstanceType: "m5.2xlarge", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand,
			model.LabelRegistered: "true", model.LabelInitialized: "true", "team": "a"}
		cl := &model.Claim{Name: "c" + name, UID: "uc" + name, Pool: "default", ProviderID: model.ProviderID("us-east-1a", name), NodeName: name, Labels: labels,
			NodeClass: model.NodeClassRef{Group: "karpenter.k8s.aws", Name: "default"}, ExpireAfter: 720 * time.Hour, Created: now, Finalizers: []string{model.FinalizerTermination},
			Capacity: resource.New(8000, 32*gib, 58, 0), Allocatable: resource.New(7900, 30*gib, 58, 0)}
		for _, t := range []string{model.CondLaunched, model.CondRegistered, model.CondInitialized, model.CondReady, "ConsistentStateFound", model.CondConsolidatable} {
			cl.Conditions = append(cl.Conditions, model.Condition{Type: t, Status: "True", Reason: t, Since: now.Add(-time.Hour)})
		}
		claims = append(claims, cl)
		in = append(in, cluster.UpsertClaim{Claim: cl}, cluster.UpsertNode{Node: &model.Node{Name: name, UID: "u" + name, ProviderID: cl.ProviderID, Labels: labels, Ready: true,
			Finalizers: []string{model.FinalizerTermination}, Capacity: cl.Capacity, Allocatable: cl.Allocatable, Created: now}})
		for j := range 20 {
			in = append(in, cluster.UpsertPod{Pod: benchPod(i, j, name)})
		}
	}
	in = append(in, cluster.Synced{}, control.Leading{Epoch: 1})
	effects := c.Step(now, in...)
	for range 20 { // recovery and whatever the first look asks for
		var results []control.Input
		for _, e := range effects {
			r := execute.Result{Effect: e}
			switch d := e.Do.(type) {
			case execute.Recover:
				r.Value = execute.Recovered{Claims: claims}
			case execute.Sweep:
				r.Value = execute.Swept{Claims: claims}
			case execute.ReadNotices:
				r.Value = execute.Noticed{}
			case execute.FetchOfferings:
				r.Value = offerings(d.Class)
			case execute.OpenLaunch, execute.SendLaunch, execute.CreateClaim, execute.DeleteClaim, execute.Terminate, execute.PatchClaim:
				b.Fatalf("a quiet cluster asks for %s: %+v", e.Kind(), d)
			}
			results = append(results, r)
		}
		now = now.Add(time.Second)
		effects = c.Step(now, results...)
	}
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		p := benchPod(k%5000, k%20, fmt.Sprintf("n%04d", k%5000))
		p.RestartCount = int32(k)
		now = now.Add(10 * time.Millisecond)
		c.Step(now, cluster.UpsertPod{Pod: p})
	}
}

func benchPod(i, j int, node string) *model.Pod {
	id := fmt.Sprintf("p%d-%d", i, j)
	return &model.Pod{UID: "u" + id, Namespace: "ns", Name: id, NodeName: node, Ready: true, Terms: []require.Set{{}}, Requests: resource.New(300, gib, 1, 0),
		Owner: model.Owner{Kind: "ReplicaSet", UID: fmt.Sprintf("rs%d", i)}}
}
