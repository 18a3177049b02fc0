package convert

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-project/weir/core/model"
)

// Surroundings is what the meaning of a pod depends on besides the pod: the labels of
// namespaces, which terms with a namespaceSelector ask for, and, where there are default
// constraints, the services and controllers whose selectors these use. The zero value
// knows nothing: see Around. It is not safe for concurrent use.
type Surroundings struct {
	// Defaults are the spread constraints of pods that have none of their own.
	Defaults []corev1.TopologySpreadConstraint

	namespaces map[string]map[string]string // labels by name; nil = not known at all
	services   map[string]map[string]labels.Set
	owners     map[ownerID]labels.Selector
}

type ownerID struct{ namespace, kind, name string }

// SetNamespace takes in a namespace. Without labels it counts as having its name for one,
// as the API server sets it.
func (s *Surroundings) SetNamespace(name string, own map[string]string) {
	if s.namespaces == nil {
		s.namespaces = map[string]map[string]string{}
	}
	l := maps.Clone(own)
	if l == nil {
		l = map[string]string{}
	}
	l[corev1.LabelMetadataName] = name
	s.namespaces[name] = l
}

// HasNamespace says whether a namespace was taken in.
func (s *Surroundings) HasNamespace(name string) bool { return s.namespaces[name] != nil }

// DeleteNamespace forgets a namespace.
func (s *Surroundings) DeleteNamespace(name string) { delete(s.namespaces, name) }

// SetService takes in the selector of a service; empty = it picks no pods, or it is gone.
func (s *Surroundings) SetService(namespace, name string, selector map[string]string) {
	if len(selector) == 0 {
		delete(s.services[namespace], name)
		return
	}
	if s.services == nil {
		s.services = map[string]map[string]labels.Set{}
	}
	if s.services[namespace] == nil {
		s.services[namespace] = map[string]labels.Set{}
	}
	s.services[namespace][name] = selector
}

// SetOwner takes in the selector of a ReplicationController, ReplicaSet or StatefulSet;
// nil = it is gone.
func (s *Surroundings) SetOwner(namespace, kind, name string, sel labels.Selector) {
	id := ownerID{namespace, kind, name}
	if sel == nil {
		delete(s.owners, id)
		return
	}
	if s.owners == nil {
		s.owners = map[ownerID]labels.Selector{}
	}
	s.owners[id] = sel
}

// within is the namespaces that a term means for a pod: nil = every one. known is false
// where the term picks them by labels that are not known.
func (s *Surroundings) within(t *corev1.PodAffinityTerm, own string) (names []string, known bool) {
	switch {
	case t.NamespaceSelector == nil && len(t.Namespaces) == 0:
		return []string{own}, true
	case t.NamespaceSelector == nil:
		return t.Namespaces, true
	case every(t.NamespaceSelector):
		return nil, true
	case s == nil || s.namespaces == nil:
		return nil, false
	}
	sel, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
	if err != nil {
		return nil, false // found out when the shape was made
	}
	names = []string{}
	for name, l := range s.namespaces {
		if sel.Matches(labels.Set(l)) {
			names = append(names, name)
		}
	}
	for _, n := range t.Namespaces {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names, true
}

// spreadsByDefault are the default constraints with the selector of the pod, as
// kube-scheduler finds it: what the services that pick the pod and its controller ask
// for. Without such a selector there is nothing to spread.
func (s *Surroundings) spreadsByDefault(m *model.Pod) (hard, soft []model.Spread) {
	if s == nil || len(s.Defaults) == 0 || m.Daemon() {
		return nil, nil
	}
	merged := labels.Set{}
	for _, sel := range s.services[m.Namespace] {
		if sel.AsSelectorPreValidated().Matches(labels.Set(m.Labels)) {
			maps.Copy(merged, sel) // the pod has all of these, so they never differ
		}
	}
	picks := merged.AsSelectorPreValidated()
	if m.Owner.Kind != "" {
		if own := s.owners[ownerID{m.Namespace, m.Owner.Kind, m.Owner.Name}]; own != nil {
			if reqs, ok := own.Requirements(); ok {
				picks = picks.Add(reqs...)
			}
		}
	}
	if picks.Empty() {
		return nil, nil
	}
	namespace := m.Namespace
	selector := model.Selector{ID: namespace + "/" + picks.String(), Labels: equalities(picks), Matches: func(p *model.Pod) bool {
		return p.Namespace == namespace && picks.Matches(labels.Set(p.Labels))
	}}
	for _, c := range s.Defaults {
		sp := spreadOf(c)
		sp.Selector = selector
		if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			soft = append(soft, sp)
		} else {
			hard = append(hard, sp)
		}
	}
	return hard, soft
}

// equalities are the labels that a selector asks for with one value.
func equalities(sel labels.Selector) map[string]string {
	out := map[string]string{}
	reqs, _ := sel.Requirements()
	for _, r := range reqs {
		if v := r.ValuesUnsorted(); len(v) == 1 && (strings.HasPrefix(string(r.Operator()), "=") || string(r.Operator()) == "in") {
			out[r.Key()] = v[0]
		}
	}
	return out
}
