package convert

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-project/weir/core/model"
)

// daemonTolerations are the ones that the DaemonSet controller gives its pods.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// DaemonPod is the pod that the DaemonSet would put on a node, before admission.
func DaemonPod(ds *appsv1.DaemonSet) *corev1.Pod {
	t := ds.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.Name, p.UID = ds.Namespace, ds.Name, ""
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: &yes,
	}}
	p.Spec.Tolerations = append(p.Spec.Tolerations, daemonTolerations...)
	if p.Spec.HostNetwork {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return p
}

// DaemonSet is a DaemonSet with the pod that it would put on a node. sample is its
// newest pod, which shows what admission made of the template, see Sampled; nil = none,
// then the admitted template counts. Errors: see ShapeOf.
func DaemonSet(ds *appsv1.DaemonSet, sample *corev1.Pod, admission *Admission) (*model.DaemonSet, error) {
	p := DaemonPod(ds)
	admission.Admit(p)
	m, err := Pod(p)
	if err != nil {
		return nil, err
	}
	d := &model.DaemonSet{Namespace: ds.Namespace, Name: ds.Name, Pod: m}
	if sample != nil {
		s, err := Pod(sample)
		if err != nil {
			return nil, err
		}
		d = Sampled(d, s)
	}
	return d, nil
}

// Sampled is the DaemonSet with what its newest pod shows: the amounts and host ports
// that admission made of the template, and the tolerations that it added. Which nodes it
// wants stays as the template says, for a pod that runs is pinned to its own.
func Sampled(ds *model.DaemonSet, sample *model.Pod) *model.DaemonSet {
	pod := *ds.Pod
	pod.Requests = sample.Requests
	for _, t := range sample.Tolerations {
		if !slices.ContainsFunc(pod.Tolerations, func(have model.Toleration) bool { return sameToleration(have, t) }) {
			pod.Tolerations = append(slices.Clip(pod.Tolerations), t)
		}
	}
	ports := hostPortsOf(sample)
	if len(ports) > 0 || len(hostPortsOf(&pod)) > 0 {
		t := model.Topology{}
		if pod.Topology != nil {
			t = *pod.Topology
		}
		t.HostPorts = ports
		pod.Topology = &t
	}
	return &model.DaemonSet{Namespace: ds.Namespace, Name: ds.Name, Pod: &pod}
}

// SameSample says whether two pods of a DaemonSet show the same of it.
func SameSample(a, b *model.Pod) bool {
	return a.Requests.Equal(b.Requests) && slices.EqualFunc(a.Tolerations, b.Tolerations, sameToleration) && slices.Equal(hostPortsOf(a), hostPortsOf(b))
}

func sameToleration(x, y model.Toleration) bool {
	return x.Key == y.Key && x.Operator == y.Operator && x.Value == y.Value && x.Effect == y.Effect
}

func hostPortsOf(p *model.Pod) []model.HostPort {
	if p.Topology == nil {
		return nil
	}
	return p.Topology.HostPorts
}

// PDB is a PodDisruptionBudget. Errors are *FieldError: a selector or an amount that
// makes no sense.
func PDB(in *policyv1.PodDisruptionBudget) (*model.PDB, error) {
	sel, err := metav1.LabelSelectorAsSelector(in.Spec.Selector)
	if err != nil {
		return nil, &FieldError{"spec.selector", err.Error()}
	}
	b := &model.PDB{
		Namespace: in.Namespace, Name: in.Name,
		DisruptionsAllowed: in.Status.DisruptionsAllowed,
		Selects:            func(l map[string]string) bool { return sel.Matches(labels.Set(l)) },
	}
	if in.Spec.Selector != nil {
		b.MatchLabels = in.Spec.Selector.MatchLabels
	}
	if p := in.Spec.UnhealthyPodEvictionPolicy; p != nil {
		b.AlwaysAllow = *p == policyv1.AlwaysAllow
	}
	scaled := func(field string, v *intstr.IntOrString, total int) (int, error) {
		n, err := intstr.GetScaledValueFromIntOrPercent(v, total, true)
		switch {
		case err != nil:
			return 0, &FieldError{field, err.Error()}
		case n < 0:
			return 0, &FieldError{field, "must not be negative, got " + v.String()}
		}
		return n, nil
	}
	if v := in.Spec.MaxUnavailable; v != nil {
		n, err := scaled("spec.maxUnavailable", v, 100)
		if err != nil {
			return nil, err
		}
		b.FullyBlocking = n == 0
	}
	if v := in.Spec.MinAvailable; v != nil {
		n, err := scaled("spec.minAvailable", v, 100)
		if err != nil {
			return nil, err
		}
		b.FullyBlocking = b.FullyBlocking || v.Type == intstr.String && n >= 100
	}
	return b, nil
}

// Allowed is how many pods of a budget may be disrupted, computed as its controller
// does: for budgets of files, which carry no status. expected is the number of pods it
// covers, healthy the number of ready ones.
func Allowed(in *policyv1.PodDisruptionBudget, expected, healthy int) (int32, error) {
	desired := 0
	switch {
	case in.Spec.MaxUnavailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(in.Spec.MaxUnavailable, expected, true)
		if err != nil {
			return 0, &FieldError{"spec.maxUnavailable", err.Error()}
		}
		desired = max(expected-n, 0)
	case in.Spec.MinAvailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(in.Spec.MinAvailable, expected, true)
		if err != nil {
			return 0, &FieldError{"spec.minAvailable", err.Error()}
		}
		desired = n
	}
	return int32(min(max(healthy-desired, 0), expected)), nil
}
