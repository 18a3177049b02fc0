package load

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// maxReplicas bounds how many pods a workload is expanded to, so that a slip of the
// pen does not fill the memory.
const maxReplicas = 1_000_000

// workload is a Deployment, ReplicaSet, StatefulSet or Job.
type workload struct {
	kind, apiVersion string
	meta             *metav1.ObjectMeta
	selector         *metav1.LabelSelector
	template         *corev1.PodTemplateSpec
	count            int
	first            int // ordinal of the first pod
}

// expand makes the pods of workloads that have none in the input.
func (l *loader) expand(a *convert.Admission) error {
	owned := l.owned()
	for _, w := range l.workloads() {
		if owned.has(w) || w.count == 0 {
			continue
		}
		if w.count > maxReplicas {
			id := identity{w.kind, w.meta.Namespace, w.meta.Name}
			l.fail(l.seen[id], id.String(), "spec.replicas", fmt.Sprintf("%d are more than the %d that are expanded", w.count, maxReplicas))
			continue
		}
		l.replicate(w)
	}
	if len(l.errs) > 0 {
		return join(l.errs)
	}
	return nil
}

// workloads lists what may be expanded, in the order of kinds and input. A ReplicaSet
// of a Deployment of the input is the Deployment's matter.
func (l *loader) workloads() []workload {
	var out []workload
	deployments := map[podKey]bool{}
	for _, o := range l.deploys {
		deployments[podKey{o.Namespace, o.Name}] = true
		out = append(out, workload{"Deployment", "apps/v1", &o.ObjectMeta, o.Spec.Selector, &o.Spec.Template, replicas(o.Spec.Replicas), 0})
	}
	for _, o := range l.replicas {
		if owner := convert.Controller(&o.ObjectMeta); owner.Kind == "Deployment" && deployments[podKey{o.Namespace, owner.Name}] {
			continue
		}
		out = append(out, workload{"ReplicaSet", "apps/v1", &o.ObjectMeta, o.Spec.Selector, &o.Spec.Template, replicas(o.Spec.Replicas), 0})
	}
	for _, o := range l.statefuls {
		first := 0
		if o.Spec.Ordinals != nil {
			first = int(o.Spec.Ordinals.Start)
		}
		out = append(out, workload{"StatefulSet", "apps/v1", &o.ObjectMeta, o.Spec.Selector, &o.Spec.Template, replicas(o.Spec.Replicas), first})
	}
	for _, o := range l.jobs {
		out = append(out, workload{"Job", "batch/v1", &o.ObjectMeta, o.Spec.Selector, &o.Spec.Template, jobPods(o), 0})
	}
	return out
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// jobPods is how many pods of a job run at the same time now.
func jobPods(o *batchv1.Job) int {
	if o.Spec.Suspend != nil && *o.Spec.Suspend {
		return 0
	}
	for _, c := range o.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return 0
		}
	}
	n := replicas(o.Spec.Parallelism)
	if o.Spec.Completions != nil {
		n = min(n, max(int(*o.Spec.Completions)-int(o.Status.Succeeded), 0))
	}
	return n
}

// owners is what the pods of the input say about whose they are.
type owners struct {
	byOwner map[model.Owner]bool // kind and name, APIVersion holding the namespace
	parents map[podKey]string    // ReplicaSet to the Deployment that owns it
	orphans map[string][]map[string]string
	sets    map[podKey][]map[string]string // namespace and ReplicaSet name to labels of pods
}

func (l *loader) owned() *owners {
	o := &owners{byOwner: map[model.Owner]bool{}, parents: map[podKey]string{}, orphans: map[string][]map[string]string{}, sets: map[podKey][]map[string]string{}}
	for _, rs := range l.replicas {
		if owner := convert.Controller(&rs.ObjectMeta); owner.Kind == "Deployment" {
			o.parents[podKey{rs.Namespace, rs.Name}] = owner.Name
		}
	}
	last := map[string]map[string]string{}
	for i := range l.pods.entries {
		p := l.pods.entries[i].pod
		switch p.Owner.Kind {
		case "":
			// equal label sets are one map, mostly in a row: note each once
			if have := last[p.Namespace]; len(p.Labels) > 0 && !sameMap(have, p.Labels) {
				o.orphans[p.Namespace] = append(o.orphans[p.Namespace], p.Labels)
				last[p.Namespace] = p.Labels
			}
		case "ReplicaSet":
			set := podKey{p.Namespace, p.Owner.Name}
			if d, ok := o.parents[set]; ok {
				o.byOwner[model.Owner{APIVersion: p.Namespace, Kind: "Deployment", Name: d}] = true
			}
			if len(o.sets[set]) == 0 {
				o.sets[set] = append(o.sets[set], p.Labels)
			}
			fallthrough
		default:
			o.byOwner[model.Owner{APIVersion: p.Namespace, Kind: p.Owner.Kind, Name: p.Owner.Name}] = true
		}
	}
	return o
}

// sameMap says whether two label sets are equal; it is quick for different sizes.
func sameMap(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range b {
		if have, ok := a[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// has says whether pods of the workload are in the input: owned by it, by a
// ReplicaSet that must be its own by name and labels, or owned by nobody and selected
// by it, for it would adopt those.
func (o *owners) has(w workload) bool {
	ns, name := w.meta.Namespace, w.meta.Name
	if o.byOwner[model.Owner{APIVersion: ns, Kind: w.kind, Name: name}] {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil || w.selector == nil {
		return false
	}
	matches := func(list []map[string]string) bool {
		for _, l := range list {
			if sel.Matches(labels.Set(l)) {
				return true
			}
		}
		return false
	}
	if w.kind == "Deployment" {
		for set, list := range o.sets {
			if set.namespace == ns && strings.HasPrefix(set.name, name+"-") && matches(list) {
				return true
			}
		}
	}
	return matches(o.orphans[ns])
}

// replicate makes the pods of a workload, as waiting ones that share one spec.
func (l *loader) replicate(w workload) {
	g := &specGroup{spec: &w.template.Spec, shapes: map[shapeKey]*convert.Shape{}}
	p := l.seen[identity{w.kind, w.meta.Namespace, w.meta.Name}]
	notes := map[string]string{}
	for k, v := range w.template.Annotations {
		if convert.KeepAnnotation(k) {
			notes[k] = v
		}
	}
	owner := model.Owner{APIVersion: w.apiVersion, Kind: w.kind, Name: w.meta.Name, UID: string(w.meta.UID)}
	if owner.UID == "" {
		owner.UID = w.kind + "/" + w.meta.Namespace + "/" + w.meta.Name
	}
	owner.Kind = ownerOf(w).Kind
	for i := range w.count {
		pod := l.pods.newPod()
		pod.Namespace, pod.Name = w.meta.Namespace, fmt.Sprintf("%s-%d", w.meta.Name, w.first+i)
		for l.pods.taken(pod) {
			pod.Name = strings.ToLower(w.kind) + "-" + pod.Name
		}
		pod.UID = pod.ID()
		pod.Labels, pod.Annotations = w.template.Labels, notes
		pod.Created = w.meta.CreationTimestamp.UTC()
		pod.Owner = owner
		l.pods.byName[podKey{pod.Namespace, pod.Name}] = int32(len(l.pods.entries))
		l.pods.entries = append(l.pods.entries, podEntry{pod: pod, group: g, place: p})
	}
}
