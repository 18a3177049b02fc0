package oracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/weir-project/weir/core/model"
)

// workload is pods that are alike.
type workload struct {
	name      string
	namespace string
	replicas  int
	labels    map[string]string
	spec      corev1.PodSpec
	claims    func(pod *corev1.Pod) // makes the volumes of each pod, nil = none
}

// apps is how many names of applications there are; selectors pick among them, those of
// pods that run included.
const apps = 8

// workloads draws the waiting pods.
func (g *generator) workloads() {
	left := g.between(20, 200)
	for i := 0; left > 0; i++ {
		w := g.workload(i, min(left, g.between(1, 24)))
		left -= w.replicas
		for r := range w.replicas {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("%s-%d", w.name, r), Labels: w.labels}}
			w.spec.DeepCopyInto(&p.Spec)
			if w.claims != nil {
				w.claims(p)
			}
			g.d.Waiting = append(g.d.Waiting, p)
		}
	}
}

func (g *generator) workload(i, replicas int) *workload {
	w := &workload{name: fmt.Sprintf("w%d", i), namespace: pick(g, namespaces...).Name, replicas: replicas}
	w.labels = map[string]string{"app": fmt.Sprintf("app-%d", g.IntN(apps)), "version": pick(g, "v1", "v2")}
	if g.one(50) {
		w.labels["track"] = pick(g, "stable", "canary")
	}
	w.spec.Containers = []corev1.Container{container(
		pick(g, "20m", "100m", "250m", "500m", "500m", "1", "1500m", "3"), pick(g, "64Mi", "256Mi", "512Mi", "1Gi", "2Gi", "5Gi"))}
	g.resources(w)
	g.nodeRules(w)
	g.tolerations(w)
	g.topologyRules(w)
	g.storage(w)
	g.misc(w)
	return w
}

// resources draws what differs from one container with requests.
func (g *generator) resources(w *workload) {
	s := &w.spec
	if g.one(10) { // a pod without requests
		s.Containers[0].Resources = corev1.ResourceRequirements{}
	}
	if g.one(15) {
		c := container(pick(g, "50m", "1", "2"), pick(g, "32Mi", "3Gi"))
		c.Name = "setup"
		s.InitContainers = append(s.InitContainers, c)
	}
	if g.one(15) {
		c := container("100m", "128Mi")
		c.Name, c.RestartPolicy = "sidecar", ptr.To(corev1.ContainerRestartPolicyAlways)
		s.InitContainers = append(s.InitContainers, c)
		if g.one(40) {
			c := container("1", "1Gi")
			c.Name = "late"
			s.InitContainers = append(s.InitContainers, c)
		}
	}
	if g.one(10) {
		s.Resources = &corev1.ResourceRequirements{Requests: quantities("cpu", "4", "memory", "6Gi")}
	}
	switch {
	case g.one(6):
		gpu(s, "nvidia.com/gpu", "1")
	case g.one(4):
		gpu(s, "example.com/fpga", "1")
	case g.one(4):
		s.Containers[0].Resources.Requests = quantities("cpu", "100m", "memory", "10Mi", "ephemeral-storage", pick(g, "1Gi", "12Gi", "100Gi"))
	case g.one(3) && s.Resources == nil: // larger than any machine of the draw
		s.Containers[0].Resources.Requests = quantities("cpu", pick(g, "40", "1"), "memory", "300Gi")
	}
	if g.one(8) {
		s.RuntimeClassName = ptr.To(pick(g, "overhead", "sandbox"))
	}
}

func gpu(s *corev1.PodSpec, name, count string) {
	r := &s.Containers[0].Resources
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	r.Requests[corev1.ResourceName(name)] = resource.MustParse(count)
	r.Limits = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(count)}
}

// expression draws one requirement on a node label.
func (g *generator) expression() corev1.NodeSelectorRequirement {
	e := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	switch g.IntN(20) {
	case 16, 17:
		return e(model.LabelArch, "NotIn", "s390x")
	case 18, 19:
		return e(model.LabelOS, "In", "linux")
	case 0:
		return e(model.LabelZone, "In", some(g, g.between(1, 2), zones)...)
	case 1:
		return e(model.LabelZone, "NotIn", pick(g, zones...))
	case 2:
		return e(model.LabelCapacityType, "In", pick(g, "spot", "on-demand"))
	case 3:
		return e(model.LabelCapacityType, "NotIn", "spot")
	case 4:
		return e("karpenter.k8s.aws/instance-cpu", "Gt", pick(g, "2", "4", "15"))
	case 5:
		return e("karpenter.k8s.aws/instance-cpu", "Lt", pick(g, "5", "9", "17"))
	case 6:
		return e("karpenter.k8s.aws/instance-memory", pick[corev1.NodeSelectorOperator](g, "Gt", "Lt"), pick(g, "16384", "40000"))
	case 7:
		return e(model.LabelArch, "In", pick(g, "amd64", "amd64", "arm64"))
	case 8:
		return e("tier", pick[corev1.NodeSelectorOperator](g, "Exists", "DoesNotExist"))
	case 9:
		return e("tier", pick[corev1.NodeSelectorOperator](g, "In", "NotIn"), pick(g, "gold", "silver"))
	case 10:
		return e("rack", pick[corev1.NodeSelectorOperator](g, "In", "NotIn"), pick(g, "r1", "r2"))
	case 11:
		return e("rack", pick[corev1.NodeSelectorOperator](g, "Exists", "DoesNotExist"))
	case 12:
		return e(model.LabelInstanceType, pick[corev1.NodeSelectorOperator](g, "In", "NotIn"), pick(g, g.types...).Name)
	case 13:
		return e("karpenter.k8s.aws/instance-gpu-count", pick[corev1.NodeSelectorOperator](g, "Exists", "DoesNotExist"))
	case 14:
		return e(model.LabelPool, pick[corev1.NodeSelectorOperator](g, "In", "NotIn"), pick(g, "pool-0", "pool-1"))
	}
	return e("karpenter.k8s.aws/instance-family", "NotIn", some(g, 2, families)...)
}

// nodeRules draws node selectors and node affinity.
func (g *generator) nodeRules(w *workload) {
	if g.one(10) {
		w.spec.NodeSelector = pick(g,
			map[string]string{model.LabelZone: pick(g, zones...)},
			map[string]string{"failure-domain.beta.kubernetes.io/zone": pick(g, zones...)},
			map[string]string{model.LabelArch: "amd64", model.LabelCapacityType: "on-demand"},
			map[string]string{"tier": "gold"},
			map[string]string{"rack": pick(g, "r1", "r2", "r3")},
			map[string]string{model.LabelPool: pick(g, "pool-0", "pool-1", "pool-2")})
	}
	if g.one(30) {
		sel := &corev1.NodeSelector{}
		for range g.between(1, 4) {
			var t corev1.NodeSelectorTerm
			for range pick(g, 1, 1, 2) {
				t.MatchExpressions = append(t.MatchExpressions, g.expression())
			}
			sel.NodeSelectorTerms = append(sel.NodeSelectorTerms, t)
		}
		nodeAffinity(w).RequiredDuringSchedulingIgnoredDuringExecution = sel
	}
	if g.one(20) {
		for range g.between(1, 2) {
			nodeAffinity(w).PreferredDuringSchedulingIgnoredDuringExecution = append(nodeAffinity(w).PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: int32(g.between(1, 100)), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{g.expression()}}})
		}
	}
}

func affinity(w *workload) *corev1.Affinity {
	if w.spec.Affinity == nil {
		w.spec.Affinity = &corev1.Affinity{}
	}
	return w.spec.Affinity
}

func nodeAffinity(w *workload) *corev1.NodeAffinity {
	a := affinity(w)
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	return a.NodeAffinity
}

// tolerations draws tolerations with both operators, with and without effect and key.
func (g *generator) tolerations(w *workload) {
	for range g.IntN(3) {
		w.spec.Tolerations = append(w.spec.Tolerations, pick(g,
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: pick(g, "batch", "web"), Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "dedicated", Value: "web"},
			corev1.Toleration{Key: "level", Value: pick(g, "5", "6")},
			corev1.Toleration{Key: "slow", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectPreferNoSchedule},
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}))
	}
	if g.one(5) {
		w.spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
}

// selectorOf picks the workload itself or others.
func (g *generator) selectorOf(w *workload, self int) *metav1.LabelSelector {
	if g.one(self) {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.labels["app"]}}
	}
	switch g.IntN(4) {
	case 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "track", Operator: pick[metav1.LabelSelectorOperator](g, "Exists", "DoesNotExist")}}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: []string{fmt.Sprintf("app-%d", g.IntN(apps)), fmt.Sprintf("app-%d", g.IntN(apps))}}}}
	case 2:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", g.IntN(apps))},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "version", Operator: "NotIn", Values: []string{"v2"}}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", g.IntN(apps))}}
}

// topologyKey is a label over which pods are spread or kept together or apart.
func (g *generator) topologyKey() string {
	return pick(g, model.LabelZone, model.LabelZone, model.LabelZone, model.LabelZone, model.LabelHostname, model.LabelHostname, model.LabelHostname, model.LabelHostname, model.LabelHostname, model.LabelCapacityType, model.LabelCapacityType, "rack")
}

// topologyRules draws spreads, affinities, anti-affinities and host ports.
func (g *generator) topologyRules(w *workload) {
	if g.one(30) {
		for range g.between(1, 2) {
			g.spread(w)
		}
	}
	if g.one(12) {
		a := affinity(w)
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{g.podTerm(w, 60)}}
		if g.one(15) {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, g.podTerm(w, 80))
		}
	}
	if g.one(18) {
		a := affinity(w)
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{g.podTerm(w, 60)}}
		if a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey != model.LabelHostname {
			w.replicas = min(w.replicas, 4)
		}
	}
	if g.one(10) {
		a := affinity(w)
		if a.PodAntiAffinity == nil {
			a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(g.between(1, 100)), PodAffinityTerm: g.podTerm(w, 80)}}
	}
	if g.one(8) {
		a := affinity(w)
		if a.PodAffinity == nil {
			a.PodAffinity = &corev1.PodAffinity{}
		}
		a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(g.between(1, 100)), PodAffinityTerm: g.podTerm(w, 30)}}
	}
	if g.one(8) {
		w.replicas = min(w.replicas, 5)
		w.spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: pick[int32](g, 8080, 8081, 9100),
			HostIP: pick(g, "", "", "127.0.0.1", "10.0.0.1"), Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP)}}
	}
}

func (g *generator) spread(w *workload) {
	c := corev1.TopologySpreadConstraint{MaxSkew: int32(g.between(1, 3)), TopologyKey: g.topologyKey(),
		WhenUnsatisfiable: pick(g, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway), LabelSelector: g.selectorOf(w, 85)}
	for _, have := range w.spec.TopologySpreadConstraints {
		if have.TopologyKey == c.TopologyKey && have.WhenUnsatisfiable == c.WhenUnsatisfiable {
			return // the API server refuses doubles
		}
	}
	if c.WhenUnsatisfiable == corev1.DoNotSchedule && g.one(15) {
		c.MinDomains = ptr.To(int32(g.between(1, 4)))
	}
	if g.one(25) {
		c.NodeAffinityPolicy = ptr.To(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
	}
	if g.one(25) {
		c.NodeTaintsPolicy = ptr.To(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
	}
	if g.one(20) && !uses(c.LabelSelector, "version") {
		c.MatchLabelKeys = []string{"version"}
	}
	w.spec.TopologySpreadConstraints = append(w.spec.TopologySpreadConstraints, c)
}

// uses says whether a selector has a key, which may then not be matched again.
func uses(s *metav1.LabelSelector, key string) bool {
	if _, ok := s.MatchLabels[key]; ok {
		return true
	}
	for _, e := range s.MatchExpressions {
		if e.Key == key {
			return true
		}
	}
	return false
}

// podTerm draws a term of pod affinity that picks the workload itself with the given chance.
func (g *generator) podTerm(w *workload, self int) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: g.topologyKey(), LabelSelector: g.selectorOf(w, self)}
	switch g.IntN(6) {
	case 0:
		t.Namespaces = []string{"alpha", "beta"}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(g, "red", "blue")}}
	}
	switch {
	case g.one(12) && !uses(t.LabelSelector, "version"):
		t.MatchLabelKeys = []string{"version"}
	case g.one(12) && !uses(t.LabelSelector, "version"):
		t.MismatchLabelKeys = []string{"version"}
	}
	return t
}

// misc draws gates and priorities.
func (g *generator) misc(w *workload) {
	if g.one(4) {
		w.spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	}
	if g.one(25) {
		w.spec.PriorityClassName = pick(g, "low", "high", "higher")
	}
}
