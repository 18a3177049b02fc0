package modeltest

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Now is the instant at which test worlds are looked at.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Class is the name of the node class that pools use by default.
const Class = "default"

// Pod builds a waiting pod asking for milli-CPU and MiB.
func Pod(name string, milliCPU, memoryMiB int64, opts ...func(*model.Pod)) *model.Pod {
	p := &model.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Created: Now.Add(-time.Minute), Unschedulable: true,
		Requests: resource.New(milliCPU, memoryMiB<<20, 1, 0), Terms: []require.Set{{}}, GracePeriod: 30 * time.Second,
		Owner: model.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs"}}
	for _, o := range opts {
		o(p)
	}
	return p
}

// Pods builds n equal pods named name-0 and so on.
func Pods(n int, name string, milliCPU, memoryMiB int64, opts ...func(*model.Pod)) []*model.Pod {
	out := make([]*model.Pod, n)
	for i := range out {
		out[i] = Pod(fmt.Sprintf("%s-%d", name, i), milliCPU, memoryMiB, opts...)
	}
	return out
}

// Requires adds one required term; called several times it gives alternatives.
func Requires(reqs ...require.Requirement) func(*model.Pod) {
	return func(p *model.Pod) {
		if len(p.Terms) == 1 && p.Terms[0].Len() == 0 {
			p.Terms = nil
		}
		p.Terms = append(p.Terms, require.NewSet(reqs...))
	}
}

// Tolerates adds tolerations.
func Tolerates(tols ...model.Toleration) func(*model.Pod) {
	return func(p *model.Pod) { p.Tolerations = append(p.Tolerations, tols...) }
}

// Labelled sets the pod's labels.
func Labelled(labels map[string]string) func(*model.Pod) {
	return func(p *model.Pod) { p.Labels = labels }
}

// Pool builds a pool of the default class with the given requirements.
func Pool(name string, reqs ...require.Requirement) *model.Pool {
	return &model.Pool{Name: name, UID: "uid-" + name, NodeClass: model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: Class},
		Requirements: require.NewSet(reqs...).With(require.Must(model.LabelPool, require.In, name)),
		Policy:       model.WhenEmptyOrUnderutilized, ExpireAfter: 720 * time.Hour, Labels: map[string]string{}}
}

// Types is a requirement on the instance type.
func Types(names ...string) require.Requirement {
	return require.Must(model.LabelInstanceType, require.In, names...)
}

// CapacityType is a requirement on the capacity type.
func CapacityType(values ...string) require.Requirement {
	return require.Must(model.LabelCapacityType, require.In, values...)
}

// Zones is a requirement on the zone.
func Zones(names ...string) require.Requirement {
	return require.Must(model.LabelZone, require.In, names...)
}

// DaemonSet builds a DaemonSet whose pods ask for milli-CPU and MiB and tolerate
// everything.
func DaemonSet(name string, milliCPU, memoryMiB int64, opts ...func(*model.Pod)) *model.DaemonSet {
	p := Pod(name, milliCPU, memoryMiB, Tolerates(model.Toleration{Operator: "Exists"}))
	p.Owner = model.Owner{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, UID: name}
	for _, o := range opts {
		o(p)
	}
	return &model.DaemonSet{Namespace: p.Namespace, Name: name, Pod: p}
}

// Node builds an initialized node that nobody manages, with the given room.
func Node(name string, milliCPU, memoryMiB int64, labels map[string]string, opts ...func(*model.Node)) *model.Node {
	l := map[string]string{model.LabelHostname: name, model.LabelOS: "linux", model.LabelArch: "amd64"}
	for k, v := range labels {
		l[k] = v
	}
	n := &model.Node{Name: name, UID: "uid-" + name, Labels: l, Ready: true, Created: Now.Add(-time.Hour),
		Capacity: resource.New(milliCPU, memoryMiB<<20, 110, 20<<30), Allocatable: resource.New(milliCPU, memoryMiB<<20, 110, 17<<30)}
	for _, o := range opts {
		o(n)
	}
	return n
}

// Managed makes the node one of a pool, registered and initialized.
func Managed(pool string) func(*model.Node) {
	return func(n *model.Node) {
		n.Labels[model.LabelPool] = pool
		n.Labels[model.LabelRegistered], n.Labels[model.LabelInitialized] = "true", "true"
		n.ProviderID = model.ProviderID("us-east-1a", "i-"+n.Name)
		n.Claim = &model.Claim{Name: n.Name + "-claim", UID: "uid-claim-" + n.Name, Pool: pool, Labels: n.Labels, ProviderID: n.ProviderID,
			NodeName: n.Name, Created: n.Created, ExpireAfter: model.Never, Capacity: n.Capacity, Allocatable: n.Allocatable}
		for _, t := range []string{model.CondLaunched, model.CondRegistered, model.CondInitialized, model.CondReady, model.CondConsolidatable} {
			n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: t, Status: "True", Since: n.Created})
		}
	}
}

// Running binds pods to the node.
func Running(pods ...*model.Pod) func(*model.Node) {
	return func(n *model.Node) {
		for _, p := range pods {
			p.NodeName, p.Unschedulable, p.Ready = n.Name, false, true
		}
		n.Pods = append(n.Pods, pods...)
	}
}
