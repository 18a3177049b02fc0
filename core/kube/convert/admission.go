package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	helper "k8s.io/component-helpers/resource"
)

// Admission does to a pod that was never sent to an API server what the API server
// and its admission plugins would do to it, as far as planning sees it.
type Admission struct {
	LimitRanges     map[string][]*corev1.LimitRange // by namespace, in order of name
	PriorityClasses map[string]*schedulingv1.PriorityClass
	RuntimeClasses  map[string]*nodev1.RuntimeClass
}

// Priorities of the classes that every cluster has.
var builtinPriority = map[string]int32{
	"system-cluster-critical": 2_000_000_000,
	"system-node-critical":    2_000_001_000,
}

// Admit changes the pod in place and answers what it referred to but was not found.
// It does nothing twice, so that a pod that was admitted already stays as it is.
func (a *Admission) Admit(p *corev1.Pod) (missing []string) {
	requestsFromLimits(&p.Spec)
	if a == nil {
		podLevelRequests(p)
		return nil
	}
	for _, lr := range a.LimitRanges[p.Namespace] {
		limitDefaults(lr, &p.Spec)
	}
	podLevelRequests(p)
	if err := a.priority(&p.Spec); err != "" {
		missing = append(missing, err)
	}
	if err := a.runtime(&p.Spec); err != "" {
		missing = append(missing, err)
	}
	return missing
}

// requestsFromLimits copies limits to requests that are missing.
func requestsFromLimits(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			r := &containers[i].Resources
			fill(&r.Requests, r.Limits)
		}
	}
}

// fill sets the amounts of from that the list lacks.
func fill(list *corev1.ResourceList, from corev1.ResourceList) {
	for name, q := range from {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q.DeepCopy()
	}
}

// limitDefaults gives containers the defaults of a LimitRange. Within one item max
// stands in for a missing default limit, the default limit for a missing default
// request, and min for what is missing after that.
func limitDefaults(lr *corev1.LimitRange, spec *corev1.PodSpec) {
	for _, item := range lr.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		limits := item.Default.DeepCopy()
		fill(&limits, item.Max)
		requests := item.DefaultRequest.DeepCopy()
		fill(&requests, limits)
		fill(&requests, item.Min)
		for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
			for i := range containers {
				fill(&containers[i].Resources.Limits, limits)
				fill(&containers[i].Resources.Requests, requests)
			}
		}
	}
}

// podLevelRequests completes pod-level requests where pod-level limits are set: by
// what the containers ask together, else by the limit.
func podLevelRequests(p *corev1.Pod) {
	r := p.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	for name, q := range helper.AggregateContainerRequests(p, helper.PodResourcesOptions{}) {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
			fill(&r.Requests, corev1.ResourceList{name: q})
		}
	}
	for name, q := range r.Limits {
		if helper.IsSupportedPodLevelResource(name) {
			fill(&r.Requests, corev1.ResourceList{name: q})
		}
	}
}

func (a *Admission) priority(spec *corev1.PodSpec) string {
	if spec.Priority != nil {
		return ""
	}
	name := spec.PriorityClassName
	if name == "" {
		for _, n := range sortedKeys(a.PriorityClasses) {
			// of several, which only a race can bring about, the lowest holds
			if c := a.PriorityClasses[n]; c.GlobalDefault && (name == "" || c.Value < a.PriorityClasses[name].Value) {
				name = n
			}
		}
		if name == "" {
			return ""
		}
		spec.PriorityClassName = name
	}
	value, ok := builtinPriority[name]
	if c := a.PriorityClasses[name]; !ok && c != nil {
		value, ok = c.Value, true
	}
	if !ok {
		return fmt.Sprintf("PriorityClass %s is not in the input: its pods count as priority 0", name)
	}
	spec.Priority = &value
	return ""
}

func (a *Admission) runtime(spec *corev1.PodSpec) string {
	if spec.RuntimeClassName == nil || *spec.RuntimeClassName == "" {
		return ""
	}
	c := a.RuntimeClasses[*spec.RuntimeClassName]
	if c == nil {
		if spec.Overhead != nil { // a pod that was admitted carries it all
			return ""
		}
		return fmt.Sprintf("RuntimeClass %s is not in the input: its overhead, node selector and tolerations are not known", *spec.RuntimeClassName)
	}
	if c.Overhead != nil && spec.Overhead == nil {
		spec.Overhead = c.Overhead.PodFixed.DeepCopy()
	}
	if c.Scheduling == nil {
		return ""
	}
	for k, v := range c.Scheduling.NodeSelector {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		if have, ok := spec.NodeSelector[k]; ok && have != v {
			return fmt.Sprintf("RuntimeClass %s wants node selector %s=%s, the pod has %s", c.Name, k, v, have)
		}
		spec.NodeSelector[k] = v
	}
tolerations:
	for _, t := range c.Scheduling.Tolerations {
		for _, have := range spec.Tolerations {
			if have.MatchToleration(&t) {
				continue tolerations
			}
		}
		spec.Tolerations = append(spec.Tolerations, t)
	}
	return ""
}
