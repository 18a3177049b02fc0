package oracle

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-project/weir/core/api/awsv1"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
)

const className = "default"

// taints are what pools and nodes may have; the first ones are hard.
var taints = []corev1.Taint{
	{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule},
	{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoExecute},
	{Key: "level", Value: "5", Effect: corev1.TaintEffectNoSchedule},
	{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule},
}

func (g *generator) class() {
	class := &awsv1.EC2NodeClass{TypeMeta: metav1.TypeMeta{APIVersion: awsv1.GroupVersion.String(), Kind: "EC2NodeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: className}}
	class.Spec.Role = "nodes"
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-1"}}
	class.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1"}}
	if g.one(20) {
		most := g.between(4, 12)
		class.Spec.Kubelet = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"maxPods":%d}`, most)}
	}
	g.d.Classes = append(g.d.Classes, class)
}

// pools draws one to three NodePools.
func (g *generator) pools() {
	g.class()
	for i := range g.between(1, 3) {
		p := &apiv1.NodePool{TypeMeta: metav1.TypeMeta{APIVersion: apiv1.GroupVersion.String(), Kind: "NodePool"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pool-%d", i)}}
		t := &p.Spec.Template
		t.Spec.NodeClassRef = &apiv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: className}
		t.Spec.Requirements = g.poolRequirements(i)
		if i > 0 && g.one(60) {
			t.Spec.Taints = some(g, g.between(1, 2), taints)
			if len(t.Spec.Taints) == 2 && t.Spec.Taints[0].Key == t.Spec.Taints[1].Key {
				t.Spec.Taints = t.Spec.Taints[:1]
			}
		}
		if g.one(20) {
			t.Spec.StartupTaints = []corev1.Taint{{Key: "example.com/agent", Effect: corev1.TaintEffectNoSchedule}}
		}
		if g.one(50) {
			t.Labels = map[string]string{"tier": pick(g, "gold", "silver")}
		}
		if g.one(30) {
			w := int32(g.between(1, 3))
			p.Spec.Weight = &w
		}
		if g.one(25) {
			p.Spec.Limits = pick(g, quantities("cpu", "40"), quantities("memory", "200Gi"), quantities("cpu", "100", "memory", "400Gi"), quantities("nodes", "6"))
		}
		p.Spec.Disruption.ConsolidateAfter = apiv1.After(30 * time.Second)
		g.d.Pools = append(g.d.Pools, p)
	}
}

func (g *generator) poolRequirements(i int) []apiv1.Requirement {
	out := []apiv1.Requirement{}
	add := func(key string, op apiv1.Operator, values ...string) {
		out = append(out, apiv1.Requirement{Key: key, Operator: op, Values: values})
	}
	switch {
	case i == 0 || g.one(50):
		add(model.LabelArch, "In", "amd64")
	case g.one(50):
		add(model.LabelArch, "In", "amd64", "arm64")
	}
	switch g.IntN(4) {
	case 0:
		add(model.LabelCapacityType, "In", "spot")
	case 1:
		add(model.LabelCapacityType, "In", "on-demand")
	case 2:
		add(model.LabelCapacityType, "In", "on-demand", "spot")
	}
	if i > 0 && g.one(30) {
		add(model.LabelZone, "In", some(g, g.between(1, 2), g.d.Zones)...)
	}
	if i > 0 && g.one(25) {
		add("karpenter.k8s.aws/instance-cpu", pick[apiv1.Operator](g, "Lt", "Gt"), pick(g, "3", "9"))
	}
	if i > 0 && g.one(20) {
		add("karpenter.k8s.aws/instance-family", "NotIn", pick(g, families...))
	}
	if g.one(15) {
		add("karpenter.k8s.aws/instance-category", "Exists")
	}
	if g.one(30) {
		add("rack", "In", some(g, g.between(1, 3), []string{"r1", "r2", "r3"})...)
	}
	if g.one(10) {
		add("example.com/old", "DoesNotExist")
	}
	if g.one(15) {
		n := 2
		out = append(out, apiv1.Requirement{Key: model.LabelInstanceType, Operator: "Exists", MinValues: &n})
	}
	return out
}

// existing draws the nodes that are there, with their pods.
func (g *generator) existing() {
	for i := range g.between(0, 6) {
		t := pick(g, g.types...)
		zone := pick(g, zones...)
		name := fmt.Sprintf("old-%d", i)
		labels := map[string]string{}
		for k, v := range t.Labels {
			labels["karpenter.k8s.aws/"+k] = v
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.ProviderID = model.ProviderID(zone, fmt.Sprintf("i-%017d", i))
		labels[model.LabelCapacityType] = pick(g, "spot", "on-demand")
		labels[model.LabelInstanceType] = t.Name
		if g.one(60) {
			pool := pick(g, g.d.Pools...)
			labels[model.LabelPool] = pool.Name
			maps.Copy(labels, pool.Spec.Template.Labels)
			for _, r := range pool.Spec.Template.Spec.Requirements {
				if r.Key == "rack" {
					labels["rack"] = r.Values[0]
				}
			}
			n.Spec.Taints = append(n.Spec.Taints, pool.Spec.Template.Spec.Taints...)
			labels[model.LabelRegistered], labels[model.LabelInitialized] = "true", "true"
			g.claimOf(n, pool, labels)
		} else if g.one(30) {
			n.Spec.Taints = []corev1.Taint{pick(g, taints...)}
		}
		switch {
		case g.one(10):
			n.Spec.Unschedulable = true
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		case g.one(10):
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: model.TaintDisrupted, Effect: corev1.TaintEffectNoSchedule})
		}
		n.Labels = nodeLabels(labels, name, zone, t.Arch)
		n.Status = status(allocatableOf(t), allocatableOf(t))
		if g.one(10) {
			n.Status.Allocatable["example.com/fpga"] = resource.MustParse("2")
			n.Status.Capacity["example.com/fpga"] = resource.MustParse("2")
		}
		g.d.Nodes = append(g.d.Nodes, n)
		g.d.CSINodes = append(g.d.CSINodes, csiNode(name, int32(g.between(1, 6))))
		g.running(n)
	}
}

// claimOf gives a node of a pool its NodeClaim.
func (g *generator) claimOf(n *corev1.Node, pool *apiv1.NodePool, labels map[string]string) {
	c := &apiv1.NodeClaim{TypeMeta: metav1.TypeMeta{APIVersion: apiv1.GroupVersion.String(), Kind: "NodeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: pool.Name + "-" + n.Name, Labels: maps.Clone(labels)}}
	c.Spec.NodeClassRef = pool.Spec.Template.Spec.NodeClassRef
	c.Spec.Requirements = []apiv1.Requirement{}
	c.Spec.Taints, c.Spec.StartupTaints = pool.Spec.Template.Spec.Taints, pool.Spec.Template.Spec.StartupTaints
	c.Status.ProviderID, c.Status.NodeName = n.Spec.ProviderID, n.Name
	g.d.Claims = append(g.d.Claims, c)
}

func allocatableOf(t *catalogue.Type) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, v := range t.Allocatable {
		out[corev1.ResourceName(k)] = resource.MustParse(v)
	}
	return out
}

// nodeLabels adds what kubelets, cloud and drivers put on every node.
func nodeLabels(labels map[string]string, name, zone, arch string) map[string]string {
	out := maps.Clone(labels)
	out[model.LabelHostname], out[model.LabelOS], out[model.LabelArch] = name, "linux", arch
	out[model.LabelZone], out["topology.ebs.csi.aws.com/zone"] = zone, zone
	out["failure-domain.beta.kubernetes.io/zone"] = zone
	out[model.LabelRegion] = "us-east-1"
	return out
}

func status(capacity, allocatable corev1.ResourceList) corev1.NodeStatus {
	return corev1.NodeStatus{Capacity: capacity.DeepCopy(), Allocatable: allocatable.DeepCopy(),
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}
}

func csiNode(name string, count int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: attach.EBS, NodeID: name, TopologyKeys: []string{"topology.kubernetes.io/zone"}, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}}}
}

// daemons draws DaemonSets.
func (g *generator) daemons() {
	for i := range g.between(0, 3) {
		name := fmt.Sprintf("daemon-%d", i)
		labels := map[string]string{"app": name}
		spec := corev1.PodSpec{Containers: []corev1.Container{container(pick(g, "50m", "200m"), pick(g, "64Mi", "512Mi"))}}
		if g.one(50) {
			spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		switch g.IntN(5) {
		case 0:
			spec.NodeSelector = map[string]string{model.LabelArch: "amd64"}
		case 1:
			spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.k8s.aws/instance-cpu", Operator: "Gt", Values: []string{"3"}}}},
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: model.LabelCapacityType, Operator: "NotIn", Values: []string{"spot"}}}}}}}}
		case 2:
			spec.NodeSelector = map[string]string{model.LabelPool: "pool-1"}
		}
		if g.one(30) {
			spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9100, HostPort: 9100}}
		}
		g.d.DaemonSets = append(g.d.DaemonSets, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, namespaces...).Name, Name: name},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}})
	}
}

func container(cpu, memory string) corev1.Container {
	return corev1.Container{Name: "main", Image: "example.com/app", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", cpu, "memory", memory)}}
}
