package kube

import (
	"fmt"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// surrounded is a pod whose wishes depend on more than itself, before they are known.
type surrounded struct {
	cluster.UpsertPod
	shape *convert.Shape
}

// surroundKinds are the kinds that such wishes depend on. Services and controllers are
// followed only where default spread constraints ask for their selectors.
func surroundKinds(c *Clients, defaults bool) []*kind {
	core, apps := c.Core.CoreV1().RESTClient(), c.Core.AppsV1().RESTClient()
	gone := func(kind string) func(string, string) cluster.Change {
		return func(ns, name string) cluster.Change { return stored{kind: kind, namespace: ns, name: name} }
	}
	upsert := func(kind string, value func(obj any) any) func(any) (cluster.Change, error) {
		return func(obj any) (cluster.Change, error) {
			o := obj.(metav1.Object)
			return stored{kind: kind, namespace: o.GetNamespace(), name: o.GetName(), value: value(obj)}, nil
		}
	}
	selecting := func(kind string, sel func(obj any) *metav1.LabelSelector) func(any) (cluster.Change, error) {
		return func(obj any) (cluster.Change, error) {
			o := obj.(metav1.Object)
			parsed, err := metav1.LabelSelectorAsSelector(sel(obj))
			return stored{kind: kind, namespace: o.GetNamespace(), name: o.GetName(), value: parsed}, err
		}
	}
	kinds := []*kind{{name: "Namespace", client: core, resource: "namespaces", example: &corev1.Namespace{}, gone: gone("Namespace"),
		upsert: upsert("Namespace", func(o any) any {
			l := o.(*corev1.Namespace).Labels
			if l == nil {
				l = map[string]string{}
			}
			return l
		})}}
	if !defaults {
		return kinds
	}
	return append(kinds,
		&kind{name: "Service", client: core, resource: "services", example: &corev1.Service{}, gone: gone("Service"),
			upsert: upsert("Service", func(o any) any { return o.(*corev1.Service).Spec.Selector })},
		&kind{name: "ReplicationController", client: core, resource: "replicationcontrollers", example: &corev1.ReplicationController{}, gone: gone("ReplicationController"),
			upsert: upsert("ReplicationController", func(o any) any {
				return labels.SelectorFromSet(o.(*corev1.ReplicationController).Spec.Selector)
			})},
		&kind{name: "ReplicaSet", client: apps, resource: "replicasets", example: &appsv1.ReplicaSet{}, gone: gone("ReplicaSet"),
			upsert: selecting("ReplicaSet", func(o any) *metav1.LabelSelector { return o.(*appsv1.ReplicaSet).Spec.Selector })},
		&kind{name: "StatefulSet", client: apps, resource: "statefulsets", example: &appsv1.StatefulSet{}, gone: gone("StatefulSet"),
			upsert: selecting("StatefulSet", func(o any) *metav1.LabelSelector { return o.(*appsv1.StatefulSet).Spec.Selector })})
}

// surround knows what pods depend on besides themselves, and passes such a pod on anew
// when what it depends on changes its wishes.
type surround struct {
	mu   sync.Mutex // held while a pod is passed on, so that news of it cannot overtake each other
	of   convert.Surroundings
	pods map[string]*dependent // by namespace/name
}

type dependent struct {
	pod   *model.Pod // as the API server says
	shape *convert.Shape
	told  string // its wishes, as they were passed on
}

// pod passes a pod on. Of those that are bound only the ones whose terms pick namespaces
// are remembered: default constraints concern the placing of a pod, and nothing later.
func (s *surround) pod(c surrounded, pass func(*model.Pod, []convert.PodVolume)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := c.Pod.ID()
	if c.Pod.NodeName != "" && !c.shape.ByNamespace {
		delete(s.pods, id)
		pass(c.Pod, c.shape.Volumes)
		return
	}
	d := &dependent{pod: c.Pod, shape: c.shape}
	s.pods[id] = d
	m := c.shape.Complete(c.Pod, &s.of)
	d.told = wishes(m)
	pass(m, c.shape.Volumes)
}

func (s *surround) forget(id string) {
	s.mu.Lock()
	delete(s.pods, id)
	s.mu.Unlock()
}

// set takes in an object that wishes depend on, and passes on the pods that it concerns.
func (s *surround) set(c stored, pass func(*model.Pod, []convert.PodVolume)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c.kind {
	case "Namespace":
		if l, ok := c.value.(map[string]string); ok {
			s.of.SetNamespace(c.name, l)
		} else {
			s.of.DeleteNamespace(c.name)
		}
	case "Service":
		sel, _ := c.value.(map[string]string)
		s.of.SetService(c.namespace, c.name, sel)
	default:
		sel, _ := c.value.(labels.Selector)
		s.of.SetOwner(c.namespace, c.kind, c.name, sel)
	}
	for _, d := range s.pods {
		if c.kind != "Namespace" && d.pod.Namespace != c.namespace || c.kind == "Namespace" && !d.shape.ByNamespace {
			continue
		}
		m := d.shape.Complete(d.pod, &s.of)
		if w := wishes(m); w != d.told {
			d.told = w
			pass(m, d.shape.Volumes)
		}
	}
}

// wishes is equal for pods that ask for and prefer the same of the pods around them.
func wishes(m *model.Pod) string {
	var b strings.Builder
	if m.Topology != nil {
		b.WriteString(topologyKey(m.Topology))
	}
	if s := m.Soft; s != nil {
		b.WriteString("; soft ")
		b.WriteString(topologyKey(&model.Topology{Spreads: s.Spreads}))
		for _, list := range [][]model.WeightedTerm{s.Affinity, s.AntiAffinity} {
			for _, t := range list {
				fmt.Fprintf(&b, "%d %q %q;", t.Weight, t.Key, t.Selector.ID)
			}
			b.WriteByte('|')
		}
	}
	for _, u := range m.Unsupported {
		fmt.Fprintf(&b, "; %s", u.Message)
	}
	return b.String()
}
