package load

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/model"
)

// ownerOf is the controller that the pods of a workload name as theirs: those of a
// Deployment belong to the set of its current template.
func ownerOf(w workload) model.Owner {
	if w.kind == "Deployment" {
		return model.Owner{Kind: "ReplicaSet", Name: w.meta.Name}
	}
	return model.Owner{Kind: w.kind, Name: w.meta.Name}
}

// surround completes what pods depend on besides themselves: the namespaces that pods
// are in, and the selectors of controllers where default spread constraints ask for them.
func (l *loader) surround() {
	for i := range l.pods.entries {
		if ns := l.pods.entries[i].pod.Namespace; !l.around.HasNamespace(ns) {
			l.around.SetNamespace(ns, nil)
			l.guessed = append(l.guessed, ns)
		}
	}
	if len(l.around.Defaults) == 0 {
		return
	}
	for _, w := range l.workloads() {
		if w.kind == "Job" { // kube-scheduler does not look at the selectors of jobs
			continue
		}
		if sel, err := metav1.LabelSelectorAsSelector(w.selector); err == nil && w.selector != nil {
			l.around.SetOwner(w.meta.Namespace, ownerOf(w).Kind, w.meta.Name, sel)
		}
	}
	for _, o := range l.replicas { // also those that are a Deployment's
		if sel, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil && o.Spec.Selector != nil {
			l.around.SetOwner(o.Namespace, "ReplicaSet", o.Name, sel)
		}
	}
}
