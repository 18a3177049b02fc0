package convert

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-project/weir/core/model"
)

// neighbours is what a spec asks of the pods around it, before it is known in which
// namespace and with which labels the pod is.
type neighbours struct {
	spreads  []corev1.TopologySpreadConstraint // hard ones
	affinity []corev1.PodAffinityTerm
	anti     []corev1.PodAffinityTerm
	ports    []model.HostPort
	soft     preferences
}

// preferences is what a spec prefers of the pods around it.
type preferences struct {
	spreads        []corev1.TopologySpreadConstraint // ScheduleAnyway
	affinity, anti []corev1.WeightedPodAffinityTerm  // heaviest first
}

func (p *preferences) none() bool {
	return len(p.spreads) == 0 && len(p.affinity) == 0 && len(p.anti) == 0
}

func (n *neighbours) asks() bool {
	return len(n.spreads)+len(n.affinity)+len(n.anti)+len(n.ports) > 0
}

// around reads the parts of a spec that look at other pods. Errors are *FieldError: a
// selector that makes no sense.
func (s *Shape) around(spec *corev1.PodSpec, daemon bool) error {
	n := &neighbours{ports: hostPorts(spec)}
	if !daemon { // daemon pods come with their node: nothing of theirs is placed
		for i, c := range spec.TopologySpreadConstraints {
			if err := usable(c.LabelSelector, fmt.Sprintf("spec.topologySpreadConstraints[%d].labelSelector", i)); err != nil {
				return err
			}
			if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
				n.soft.spreads = append(n.soft.spreads, c)
			} else {
				n.spreads = append(n.spreads, c)
			}
		}
		if a := spec.Affinity; a != nil {
			if a.PodAffinity != nil {
				n.affinity = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				if err := s.weighted(&n.soft.affinity, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, "podAffinity"); err != nil {
					return err
				}
			}
			if a.PodAntiAffinity != nil {
				n.anti = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				if err := s.weighted(&n.soft.anti, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, "podAntiAffinity"); err != nil {
					return err
				}
			}
		}
		for i, t := range n.affinity {
			if err := usable(t.LabelSelector, fmt.Sprintf("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d].labelSelector", i)); err != nil {
				return err
			}
			if err := usable(t.NamespaceSelector, fmt.Sprintf("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d].namespaceSelector", i)); err != nil {
				return err
			}
		}
		for i, t := range n.anti {
			if err := usable(t.LabelSelector, fmt.Sprintf("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d].labelSelector", i)); err != nil {
				return err
			}
			if err := usable(t.NamespaceSelector, fmt.Sprintf("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d].namespaceSelector", i)); err != nil {
				return err
			}
		}
	}
	if n.asks() || !n.soft.none() {
		s.near = n
	}
	s.spreadless = !daemon && len(spec.TopologySpreadConstraints) == 0
	s.ByNamespace = n.byNamespace()
	return nil
}

// byNamespace says whether some term picks namespaces by their labels.
func (n *neighbours) byNamespace() bool {
	picks := func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil && !every(t.NamespaceSelector) }
	weighted := func(t corev1.WeightedPodAffinityTerm) bool { return picks(t.PodAffinityTerm) }
	return slices.ContainsFunc(n.affinity, picks) || slices.ContainsFunc(n.anti, picks) ||
		slices.ContainsFunc(n.soft.affinity, weighted) || slices.ContainsFunc(n.soft.anti, weighted)
}

// weighted reads preferred terms, heaviest first, those of equal weight in the order
// of the spec.
func (s *Shape) weighted(out *[]corev1.WeightedPodAffinityTerm, terms []corev1.WeightedPodAffinityTerm, kind string) error {
	for i, t := range terms {
		if err := usable(t.PodAffinityTerm.LabelSelector, fmt.Sprintf("spec.affinity.%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm.labelSelector", kind, i)); err != nil {
			return err
		}
		if err := usable(t.PodAffinityTerm.NamespaceSelector, fmt.Sprintf("spec.affinity.%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm.namespaceSelector", kind, i)); err != nil {
			return err
		}
	}
	*out = slices.Clone(terms)
	slices.SortStableFunc(*out, func(a, b corev1.WeightedPodAffinityTerm) int { return cmp.Compare(b.Weight, a.Weight) })
	return nil
}

func usable(sel *metav1.LabelSelector, field string) error {
	if _, err := metav1.LabelSelectorAsSelector(sel); err != nil {
		return &FieldError{field, err.Error()}
	}
	return nil
}

// every says whether a namespace selector is there and picks every namespace.
func every(sel *metav1.LabelSelector) bool {
	return sel != nil && len(sel.MatchLabels) == 0 && len(sel.MatchExpressions) == 0
}

func hostPorts(spec *corev1.PodSpec) []model.HostPort {
	var out []model.HostPort
	for i := range spec.Containers {
		for _, p := range spec.Containers[i].Ports {
			port := p.HostPort
			if port == 0 && spec.HostNetwork {
				port = p.ContainerPort // the API server sets it so
			}
			if port > 0 {
				protocol := string(p.Protocol)
				if protocol == "" {
					protocol = string(corev1.ProtocolTCP)
				}
				out = append(out, model.HostPort{IP: p.HostIP, Protocol: protocol, Port: port})
			}
		}
	}
	return out
}

// spreadOf is a constraint without the pods that it counts.
func spreadOf(c corev1.TopologySpreadConstraint) model.Spread {
	sp := model.Spread{Key: c.TopologyKey, MaxSkew: max(int64(c.MaxSkew), 1), HonorAffinity: true}
	if c.MinDomains != nil {
		sp.MinDomains = int64(*c.MinDomains)
	}
	if c.NodeAffinityPolicy != nil {
		sp.HonorAffinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	}
	if c.NodeTaintsPolicy != nil {
		sp.HonorTaints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	return sp
}

// Depends says whether what a pod of this shape asks for depends on surroundings.
func (s *Shape) Depends(around *Surroundings) bool {
	return s.ByNamespace || s.spreadless && around != nil && len(around.Defaults) > 0
}

// Around completes a pod that has its shape and its metadata: what it asks of the
// pods around it depends on its namespace and labels, and on its surroundings. Where the
// labels of namespaces are not known (around may be nil), a term that picks by them
// counts for every namespace: for anti-affinity that keeps more pods apart than need be,
// never fewer; a pod with such an affinity cannot be placed.
func (s *Shape) Around(m *model.Pod, around *Surroundings) {
	if s.spreadless {
		s.byDefault(m, around)
	}
	if s.near == nil {
		return
	}
	spread := func(c corev1.TopologySpreadConstraint) model.Spread {
		sp := spreadOf(c)
		sp.Selector = selector([]string{m.Namespace}, c.LabelSelector, m.Labels, c.MatchLabelKeys, nil)
		return sp
	}
	unknown := ""
	term := func(a corev1.PodAffinityTerm) model.PodTerm {
		namespaces, known := around.within(&a, m.Namespace)
		if !known {
			unknown = a.TopologyKey
		}
		return model.PodTerm{Key: a.TopologyKey, Selector: selector(namespaces, a.LabelSelector, m.Labels, a.MatchLabelKeys, a.MismatchLabelKeys)}
	}
	if s.near.asks() {
		t := &model.Topology{HostPorts: s.near.ports}
		if m.Topology != nil { // by default
			t.Spreads = m.Topology.Spreads
		}
		for _, c := range s.near.spreads {
			t.Spreads = append(t.Spreads, spread(c))
		}
		for _, a := range s.near.affinity {
			t.Affinity = append(t.Affinity, term(a))
		}
		allTerms(t.Affinity)
		if unknown != "" {
			m.Unsupported = append(slices.Clip(m.Unsupported), model.Unsupported{Filter: model.FilterAffinity,
				Message: fmt.Sprintf("required pod affinity over %s picks namespaces by their labels, and these are not known", unknown)})
		}
		for _, a := range s.near.anti {
			t.AntiAffinity = append(t.AntiAffinity, term(a))
		}
		m.Topology = t
	}
	if soft := &s.near.soft; !soft.none() {
		byDefault := m.Soft
		m.Soft = &model.Soft{}
		if byDefault != nil {
			m.Soft.Spreads = byDefault.Spreads
		}
		for _, c := range soft.spreads {
			m.Soft.Spreads = append(m.Soft.Spreads, spread(c))
		}
		for _, a := range soft.affinity {
			m.Soft.Affinity = append(m.Soft.Affinity, model.WeightedTerm{Weight: a.Weight, PodTerm: term(a.PodAffinityTerm)})
		}
		for _, a := range soft.anti {
			m.Soft.AntiAffinity = append(m.Soft.AntiAffinity, model.WeightedTerm{Weight: a.Weight, PodTerm: term(a.PodAffinityTerm)})
		}
	}
}

// Complete is a pod of this shape with what it asks of the pods around it in these
// surroundings, whatever it asked before. Its volumes are to be placed again.
func (s *Shape) Complete(m *model.Pod, around *Surroundings) *model.Pod {
	p := *m
	p.Topology, p.Soft, p.Unsupported = nil, nil, s.Unsupported
	s.Around(&p, around)
	return &p
}

// byDefault gives a pod without constraints the default ones.
func (s *Shape) byDefault(m *model.Pod, around *Surroundings) {
	hard, soft := around.spreadsByDefault(m)
	if len(hard) > 0 {
		m.Topology = &model.Topology{Spreads: hard}
	}
	if len(soft) > 0 {
		m.Soft = &model.Soft{Spreads: soft}
	}
}

// allTerms makes every term of a required affinity pick what all of them pick: for
// kube-scheduler a pod counts, for any of the terms, only if it matches all.
func allTerms(terms []model.PodTerm) {
	if len(terms) < 2 {
		return
	}
	sels := make([]model.Selector, len(terms))
	ids := make([]string, len(terms))
	for i, t := range terms {
		sels[i], ids[i] = t.Selector, t.Selector.ID
	}
	slices.Sort(ids)
	all := model.Selector{ID: strings.Join(slices.Compact(ids), " and "), Labels: sels[0].Labels, Matches: func(p *model.Pod) bool {
		return !slices.ContainsFunc(sels, func(s model.Selector) bool { return !s.Picks(p) })
	}}
	for i := range terms {
		terms[i].Selector = all
	}
}

// selector picks the pods of the given namespaces (nil = every one) by labels; keys
// and notKeys ask for the same and for another value than the pod's own. A missing
// selector picks nothing. The selector has been found usable before.
func selector(namespaces []string, sel *metav1.LabelSelector, own map[string]string, keys, notKeys []string) model.Selector {
	parsed, err := metav1.LabelSelectorAsSelector(sel)
	if sel == nil || err != nil {
		return model.Selector{ID: "nothing"}
	}
	full := sel.DeepCopy()
	extend := func(names []string, op metav1.LabelSelectorOperator) {
		for _, k := range names {
			if v, ok := own[k]; ok {
				full.MatchExpressions = append(full.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: op, Values: []string{v}})
			}
		}
	}
	extend(keys, metav1.LabelSelectorOpIn)
	extend(notKeys, metav1.LabelSelectorOpNotIn)
	if len(keys)+len(notKeys) > 0 {
		if p, err := metav1.LabelSelectorAsSelector(full); err == nil {
			parsed = p
		}
	}
	where := slices.Clone(namespaces)
	sort.Strings(where)
	id := "*"
	if where != nil {
		id = strings.Join(where, ",")
	}
	return model.Selector{ID: id + "/" + parsed.String(), Labels: sel.MatchLabels, Matches: func(p *model.Pod) bool {
		return (where == nil || slices.Contains(where, p.Namespace)) && parsed.Matches(labels.Set(p.Labels))
	}}
}
