package load

import (
	"fmt"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The checks of this file are those of an API server, as far as planning would go
// wrong without them.

// problems collects what is wrong with one object.
type problems []fieldProblem

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, fieldProblem{field, fmt.Sprintf(format, args...)})
}

// checkName checks the metadata of a pod.
func checkName(namespace, name string) *fieldProblem {
	if name == "" {
		return &fieldProblem{"metadata.name", "is missing"}
	}
	if !plainName(name) {
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			return &fieldProblem{"metadata.name", fmt.Sprintf("%q: %s", name, strings.Join(errs, "; "))}
		}
	}
	if !plainName(namespace) {
		if errs := validation.IsDNS1123Label(namespace); len(errs) > 0 {
			return &fieldProblem{"metadata.namespace", fmt.Sprintf("%q: %s", namespace, strings.Join(errs, "; "))}
		}
	}
	return nil
}

// plainName is a quick yes for the names that nearly all objects have.
func plainName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func checkMeta(o object) *fieldProblem {
	if o.GetName() == "" {
		return &fieldProblem{"metadata.name", "is missing"}
	}
	if !plainName(o.GetName()) {
		if errs := validation.IsDNS1123Subdomain(o.GetName()); len(errs) > 0 {
			return &fieldProblem{"metadata.name", fmt.Sprintf("%q: %s", o.GetName(), strings.Join(errs, "; "))}
		}
	}
	if ns := o.GetNamespace(); ns != "" && !plainName(ns) {
		return &fieldProblem{"metadata.namespace", fmt.Sprintf("%q: %s", ns, strings.Join(validation.IsDNS1123Label(ns), "; "))}
	}
	if problem := checkLabels(o.GetLabels()); problem != "" {
		return &fieldProblem{"metadata.labels", problem}
	}
	return nil
}

func checkLabels(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if errs := validation.IsQualifiedName(k); len(errs) > 0 {
			return fmt.Sprintf("key %q: %s", k, strings.Join(errs, "; "))
		}
		if errs := validation.IsValidLabelValue(m[k]); len(errs) > 0 {
			return fmt.Sprintf("%s: value %q: %s", k, m[k], strings.Join(errs, "; "))
		}
	}
	return ""
}

// checkPodSpec checks the parts of a pod spec that planning reads.
func checkPodSpec(path string, s *corev1.PodSpec) []fieldProblem {
	var p problems
	if len(s.Containers) == 0 {
		p.add(path+".containers", "expected at least one container")
	}
	names := map[string]bool{}
	for _, c := range []struct {
		field string
		list  []corev1.Container
	}{{"initContainers", s.InitContainers}, {"containers", s.Containers}} {
		for i := range c.list {
			at := fmt.Sprintf("%s.%s[%d]", path, c.field, i)
			name := c.list[i].Name
			if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
				p.add(at+".name", "%q: %s", name, strings.Join(errs, "; "))
			} else if names[name] {
				p.add(at+".name", "%q is there twice", name)
			}
			names[name] = true
			p.resources(at+".resources", &c.list[i].Resources)
		}
	}
	if s.Resources != nil {
		p.resources(path+".resources", s.Resources)
	}
	p.amounts(path+".overhead", s.Overhead)
	p.labels(path+".nodeSelector", s.NodeSelector)
	p.affinity(path+".affinity", s.Affinity)
	for i, t := range s.Tolerations {
		p.toleration(fmt.Sprintf("%s.tolerations[%d]", path, i), t)
	}
	for i, c := range s.TopologySpreadConstraints {
		at := fmt.Sprintf("%s.topologySpreadConstraints[%d]", path, i)
		if c.MaxSkew <= 0 {
			p.add(at+".maxSkew", "must be greater than zero, got %d", c.MaxSkew)
		}
		if c.TopologyKey == "" {
			p.add(at+".topologyKey", "is missing")
		}
		if c.MinDomains != nil && *c.MinDomains <= 0 {
			p.add(at+".minDomains", "must be greater than zero, got %d", *c.MinDomains)
		}
		if c.MinDomains != nil && c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			p.add(at+".minDomains", "can only be used with whenUnsatisfiable DoNotSchedule, got ScheduleAnyway")
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			p.add(at+".whenUnsatisfiable", "expected DoNotSchedule or ScheduleAnyway, got %q", c.WhenUnsatisfiable)
		}
		p.selector(at+".labelSelector", c.LabelSelector)
	}
	return p
}

func (p *problems) labels(path string, m map[string]string) {
	if problem := checkLabels(m); problem != "" {
		p.add(path, "%s", problem)
	}
}

func (p *problems) amounts(path string, list corev1.ResourceList) {
	for _, name := range sortedNames(list) {
		q := list[name]
		at := fmt.Sprintf("%s[%s]", path, name)
		if errs := validation.IsQualifiedName(string(name)); len(errs) > 0 {
			p.add(at, "resource name %q: %s", name, strings.Join(errs, "; "))
		}
		if q.Sign() < 0 {
			p.add(at, "must be greater than or equal to 0, got %s", q.String())
		}
	}
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for n := range list {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names
}

func (p *problems) resources(path string, r *corev1.ResourceRequirements) {
	p.amounts(path+".limits", r.Limits)
	p.amounts(path+".requests", r.Requests)
	for _, name := range sortedNames(r.Requests) {
		req, at := r.Requests[name], fmt.Sprintf("%s.requests[%s]", path, name)
		limit, limited := r.Limits[name]
		if limited && req.Cmp(limit) > 0 {
			p.add(at, "must be at most the limit of %s, got %s", limit.String(), req.String())
		}
		if strings.Contains(string(name), "/") && !strings.Contains(string(name), "kubernetes.io/") {
			switch {
			case req.MilliValue()%1000 != 0:
				p.add(at, "must be a whole number, got %s", req.String())
			case limited && req.Cmp(limit) != 0:
				p.add(at, "must equal the limit of %s, got %s", limit.String(), req.String())
			}
		}
	}
}

func (p *problems) affinity(path string, a *corev1.Affinity) {
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		if req := n.RequiredDuringSchedulingIgnoredDuringExecution; req != nil {
			at := path + ".nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
			if len(req.NodeSelectorTerms) == 0 {
				p.add(at, "expected at least one term")
			}
			for i, t := range req.NodeSelectorTerms {
				p.term(fmt.Sprintf("%s[%d]", at, i), t)
			}
		}
		for i, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			at := fmt.Sprintf("%s.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[%d]", path, i)
			if t.Weight < 1 || t.Weight > 100 {
				p.add(at+".weight", "must be in the range 1-100, got %d", t.Weight)
			}
			p.term(at+".preference", t.Preference)
		}
	}
	podTerm := func(at string, t corev1.PodAffinityTerm) {
		if t.TopologyKey == "" {
			p.add(at+".topologyKey", "is missing")
		}
		p.selector(at+".labelSelector", t.LabelSelector)
	}
	if x := a.PodAffinity; x != nil {
		for i, t := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			podTerm(fmt.Sprintf("%s.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", path, i), t)
		}
	}
	if x := a.PodAntiAffinity; x != nil {
		for i, t := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			podTerm(fmt.Sprintf("%s.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", path, i), t)
		}
	}
}

func (p *problems) term(path string, t corev1.NodeSelectorTerm) {
	for i, e := range t.MatchExpressions {
		at := fmt.Sprintf("%s.matchExpressions[%d]", path, i)
		if errs := validation.IsQualifiedName(e.Key); len(errs) > 0 {
			p.add(at+".key", "%q: %s", e.Key, strings.Join(errs, "; "))
		}
		switch e.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(e.Values) == 0 {
				p.add(at+".values", "must be specified when `operator` is In or NotIn")
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(e.Values) > 0 {
				p.add(at+".values", "may not be specified when `operator` is Exists or DoesNotExist")
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(e.Values) != 1 {
				p.add(at+".values", "must be specified single value when `operator` is Lt or Gt")
			}
		default:
			p.add(at+".operator", "%q is not an operator, expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt", e.Operator)
		}
	}
	for i, e := range t.MatchFields {
		at := fmt.Sprintf("%s.matchFields[%d]", path, i)
		if e.Key != metav1.ObjectNameField {
			p.add(at+".key", "expected metadata.name, got %q", e.Key)
		}
		if e.Operator != corev1.NodeSelectorOpIn && e.Operator != corev1.NodeSelectorOpNotIn || len(e.Values) != 1 {
			p.add(at, "expected operator In or NotIn with one value")
		}
	}
}

func (p *problems) toleration(path string, t corev1.Toleration) {
	if t.Key != "" {
		if errs := validation.IsQualifiedName(t.Key); len(errs) > 0 {
			p.add(path+".key", "%q: %s", t.Key, strings.Join(errs, "; "))
		}
	} else if t.Operator != corev1.TolerationOpExists {
		p.add(path+".operator", "must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		if errs := validation.IsValidLabelValue(t.Value); len(errs) > 0 {
			p.add(path+".value", "%q: %s", t.Value, strings.Join(errs, "; "))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			p.add(path+".value", "must be empty when `operator` is Exists")
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
	default:
		p.add(path+".operator", "%q is not an operator, expected one of Equal, Exists, Lt, Gt", t.Operator)
	}
	p.effect(path+".effect", t.Effect, true)
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		p.add(path+".effect", "must be NoExecute when `tolerationSeconds` is set")
	}
}

func (p *problems) effect(path string, e corev1.TaintEffect, empty bool) {
	switch e {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return
	case "":
		if empty {
			return
		}
	}
	p.add(path, "%q is not an effect, expected one of NoSchedule, PreferNoSchedule, NoExecute", e)
}

func (p *problems) selector(path string, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for _, err := range metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, nil) {
		p.add(path+"."+err.Field, "%s", err.ErrorBody())
	}
}

// template checks the pods of a workload; their labels must match its selector.
func (p *problems) template(t *corev1.PodTemplateSpec, s *metav1.LabelSelector) {
	*p = append(*p, checkPodSpec("spec.template.spec", &t.Spec)...)
	p.labels("spec.template.metadata.labels", t.Labels)
	if s == nil {
		p.add("spec.selector", "is missing")
		return
	}
	p.selector("spec.selector", s)
	if sel, err := metav1.LabelSelectorAsSelector(s); err == nil {
		switch {
		case sel.Empty():
			p.add("spec.selector", "an empty selector is not valid here")
		case !sel.Matches(labels.Set(t.Labels)):
			p.add("spec.template.metadata.labels", "`selector` does not match template `labels`")
		}
	}
}

func (p *problems) count(path string, n *int32) {
	if n != nil && *n < 0 {
		p.add(path, "must be greater than or equal to 0, got %d", *n)
	}
}

func checkDaemonSet(o *appsv1.DaemonSet) []fieldProblem {
	var p problems
	p.template(&o.Spec.Template, o.Spec.Selector)
	return p
}

func checkDeployment(o *appsv1.Deployment) []fieldProblem {
	var p problems
	p.template(&o.Spec.Template, o.Spec.Selector)
	p.count("spec.replicas", o.Spec.Replicas)
	return p
}

func checkReplicaSet(o *appsv1.ReplicaSet) []fieldProblem {
	var p problems
	p.template(&o.Spec.Template, o.Spec.Selector)
	p.count("spec.replicas", o.Spec.Replicas)
	return p
}

func checkStatefulSet(o *appsv1.StatefulSet) []fieldProblem {
	var p problems
	p.template(&o.Spec.Template, o.Spec.Selector)
	p.count("spec.replicas", o.Spec.Replicas)
	if o.Spec.Ordinals != nil && o.Spec.Ordinals.Start < 0 {
		p.add("spec.ordinals.start", "must be greater than or equal to 0, got %d", o.Spec.Ordinals.Start)
	}
	return p
}

func checkJob(o *batchv1.Job) []fieldProblem {
	p := problems(checkPodSpec("spec.template.spec", &o.Spec.Template.Spec))
	p.labels("spec.template.metadata.labels", o.Spec.Template.Labels)
	p.count("spec.parallelism", o.Spec.Parallelism)
	p.count("spec.completions", o.Spec.Completions)
	if r := o.Spec.Template.Spec.RestartPolicy; r != corev1.RestartPolicyNever && r != corev1.RestartPolicyOnFailure {
		p.add("spec.template.spec.restartPolicy", "expected OnFailure or Never, got %q", r)
	}
	return p
}

func checkPDB(o *policyv1.PodDisruptionBudget) []fieldProblem {
	var p problems
	if o.Spec.MinAvailable != nil && o.Spec.MaxUnavailable != nil {
		p.add("spec", "minAvailable and maxUnavailable cannot be both set")
	}
	p.countOrPercent("spec.minAvailable", o.Spec.MinAvailable)
	p.countOrPercent("spec.maxUnavailable", o.Spec.MaxUnavailable)
	p.selector("spec.selector", o.Spec.Selector)
	return p
}

func (p *problems) countOrPercent(path string, v *intstr.IntOrString) {
	if v == nil {
		return
	}
	if v.Type == intstr.String {
		if errs := validation.IsValidPercent(v.StrVal); len(errs) > 0 {
			p.add(path, "expected a number or a percentage such as 50%%, got %q", v.StrVal)
			return
		}
		if n, err := intstr.GetScaledValueFromIntOrPercent(v, 100, false); err == nil && n > 100 {
			p.add(path, "must not be greater than 100%%, got %s", v.StrVal)
		}
		return
	}
	if v.IntVal < 0 {
		p.add(path, "must be greater than or equal to 0, got %d", v.IntVal)
	}
}

func checkNode(o *corev1.Node) []fieldProblem {
	var p problems
	for i, t := range o.Spec.Taints {
		at := fmt.Sprintf("spec.taints[%d]", i)
		if errs := validation.IsQualifiedName(t.Key); len(errs) > 0 {
			p.add(at+".key", "%q: %s", t.Key, strings.Join(errs, "; "))
		}
		p.effect(at+".effect", t.Effect, false)
	}
	p.amounts("status.capacity", o.Status.Capacity)
	p.amounts("status.allocatable", o.Status.Allocatable)
	return p
}

func checkLimitRange(o *corev1.LimitRange) []fieldProblem {
	var p problems
	for i, item := range o.Spec.Limits {
		at := fmt.Sprintf("spec.limits[%d]", i)
		if item.Type == "" {
			p.add(at+".type", "is missing")
		}
		p.amounts(at+".default", item.Default)
		p.amounts(at+".defaultRequest", item.DefaultRequest)
		p.amounts(at+".max", item.Max)
		p.amounts(at+".min", item.Min)
	}
	return p
}

func checkRuntimeClass(o *nodev1.RuntimeClass) []fieldProblem {
	var p problems
	if o.Overhead != nil {
		p.amounts("overhead.podFixed", o.Overhead.PodFixed)
	}
	if s := o.Scheduling; s != nil {
		p.labels("scheduling.nodeSelector", s.NodeSelector)
		for i, t := range s.Tolerations {
			p.toleration(fmt.Sprintf("scheduling.tolerations[%d]", i), t)
		}
	}
	return p
}
