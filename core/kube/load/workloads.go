package load

import (
	policyv1 "k8s.io/api/policy/v1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// Workload is a controller of pods, for those who let time pass.
type Workload struct {
	Kind, Namespace, Name string // Deployment, ReplicaSet, StatefulSet or Job
	Replicas              int
	Pod                   *model.Pod // what each of its pods looks like, without a name
	// Selects says whether labels are those of its pods.
	Selects func(map[string]string) bool
}

// workloadsInto keeps the controllers of pods and the budgets as they were written.
func (l *loader) workloadsInto(in *Input, a *convert.Admission) {
	in.Budgets = append([]*policyv1.PodDisruptionBudget(nil), l.pdbs...)
	templates := l.claimTemplates()
	for _, w := range l.workloads() {
		t := w.template.DeepCopy()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.meta.Namespace, Labels: t.Labels, Annotations: t.Annotations}, Spec: t.Spec}
		a.Admit(pod) // what is missing is told where its pods are read
		shape, err := convert.ShapeOf(pod)
		if !l.converted(w.kind, w.meta.Namespace+"/"+w.meta.Name, err) {
			continue
		}
		p := &model.Pod{}
		shape.Apply(p)
		convert.Metadata(&pod.ObjectMeta, p)
		owner := p.Owner
		p.Owner = ownerOf(w) // whose selector counts for default spread constraints
		shape.Around(p, l.around)
		p.Owner = owner
		volumes := shape.Volumes
		if w.kind == "StatefulSet" {
			volumes = withTemplates(volumes, templates[podKey{w.meta.Namespace, w.meta.Name}], "")
		}
		l.volumes.Place(p, volumes)
		sel, err := metav1.LabelSelectorAsSelector(w.selector)
		if err != nil {
			sel = labels.Nothing()
		}
		in.Workloads = append(in.Workloads, Workload{Kind: w.kind, Namespace: w.meta.Namespace, Name: w.meta.Name, Replicas: w.count, Pod: p,
			Selects: func(have map[string]string) bool { return sel.Matches(labels.Set(have)) }})
	}
}
