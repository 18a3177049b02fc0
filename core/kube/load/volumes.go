package load

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/weir-project/weir/core/kube/convert"
)

// claimTemplates is the claims that StatefulSets make for each of their pods, by
// namespace and name of the set; Claim of each is empty.
func (l *loader) claimTemplates() map[podKey][]convert.PodVolume {
	out := map[podKey][]convert.PodVolume{}
	for _, o := range l.statefuls {
		for i := range o.Spec.VolumeClaimTemplates {
			t := &o.Spec.VolumeClaimTemplates[i]
			class := t.Spec.StorageClassName
			if old, ok := t.Annotations[corev1.BetaStorageClassAnnotation]; ok {
				class = &old
			}
			key := podKey{o.Namespace, o.Name}
			out[key] = append(out[key], convert.PodVolume{Name: t.Name, Made: true, Class: class})
		}
	}
	return out
}

// withTemplates is the volumes of a StatefulSet's pod with the claims that the set makes
// for it where there are none yet. The pod's own volumes name them once it exists, and
// do not before.
func withTemplates(own, made []convert.PodVolume, pod string) []convert.PodVolume {
	out := slices.Clone(own)
	for _, m := range made {
		m.Claim = m.Name + "-" + pod
		at := slices.IndexFunc(out, func(v convert.PodVolume) bool { return v.Claim == m.Claim || v.Name == m.Name })
		if at < 0 {
			out = append(out, m)
		} else {
			out[at] = m // a template wins over a volume of its name
		}
	}
	return out
}

func checkVolume(o *corev1.PersistentVolume) []fieldProblem {
	var p problems
	if o.Spec.NodeAffinity != nil && o.Spec.NodeAffinity.Required != nil {
		for i, t := range o.Spec.NodeAffinity.Required.NodeSelectorTerms {
			p.term(fmt.Sprintf("spec.nodeAffinity.required.nodeSelectorTerms[%d]", i), t)
		}
	}
	return p
}

func checkStorageClass(o *storagev1.StorageClass) []fieldProblem {
	var p problems
	if o.Provisioner == "" {
		p.add("provisioner", "is missing")
	}
	if m := o.VolumeBindingMode; m != nil && *m != storagev1.VolumeBindingImmediate && *m != storagev1.VolumeBindingWaitForFirstConsumer {
		p.add("volumeBindingMode", "expected Immediate or WaitForFirstConsumer, got %q", *m)
	}
	for i, t := range o.AllowedTopologies {
		for j, e := range t.MatchLabelExpressions {
			at := fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d]", i, j)
			if e.Key == "" {
				p.add(at+".key", "is missing")
			}
			if len(e.Values) == 0 {
				p.add(at+".values", "expected at least one value")
			}
		}
	}
	return p
}

func checkCSINode(o *storagev1.CSINode) []fieldProblem {
	var p problems
	for i, d := range o.Spec.Drivers {
		at := fmt.Sprintf("spec.drivers[%d]", i)
		if d.Name == "" {
			p.add(at+".name", "is missing")
		}
		if d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count < 0 {
			p.add(at+".allocatable.count", "must be greater than or equal to 0, got %d", *d.Allocatable.Count)
		}
	}
	return p
}
