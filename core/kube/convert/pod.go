package convert

import (
	"fmt"
	"math"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Shape is the part of a pod that depends on its spec alone, so that equal specs
// are converted once. It is read-only once made.
type Shape struct {
	Requests    resource.Vector
	Terms       []require.Set
	Preferred   []model.Preference
	Tolerations []model.Toleration
	Unsupported []model.Unsupported
	Invalid     string
	Ignore      bool

	Priority      int32
	PriorityClass string
	GracePeriod   time.Duration
	Gated         bool
	NodeName      string

	Volumes []PodVolume // those that Volumes.Place must look at

	// ByNamespace says that some term picks namespaces by their labels: see Surroundings.
	ByNamespace bool

	spreadless bool        // has no spread constraint of its own, so that default ones hold
	near       *neighbours // what it asks of the pods around it; nil = nothing
}

// Pod is a pod as planning sees it, its volumes and surroundings left out: see
// Volumes.Place and Shape.Around. Errors: see ShapeOf.
func Pod(p *corev1.Pod) (*model.Pod, error) {
	s, err := ShapeOf(p)
	if err != nil {
		return nil, err
	}
	return s.Pod(p), nil
}

// Pod is a pod of this shape.
func (s *Shape) Pod(p *corev1.Pod) *model.Pod {
	m := &model.Pod{}
	s.Apply(m)
	Metadata(&p.ObjectMeta, m)
	s.Around(m, nil)
	Status(&p.Status, m)
	return m
}

// ShapeOf reads spec and owner of a pod, and what its status says about resources
// that were resized in place. Errors are *FieldError: a negative amount.
func ShapeOf(p *corev1.Pod) (*Shape, error) {
	owner := Controller(&p.ObjectMeta)
	daemon := owner.Kind == "DaemonSet"
	requests, err := Requests(p)
	if err != nil {
		return nil, err
	}
	s := &Shape{
		Requests:      requests,
		Tolerations:   Tolerations(p.Spec.Tolerations),
		PriorityClass: p.Spec.PriorityClassName,
		GracePeriod:   corev1.DefaultTerminationGracePeriodSeconds * time.Second,
		Gated:         len(p.Spec.SchedulingGates) > 0,
		NodeName:      p.Spec.NodeName,
	}
	if p.Spec.Priority != nil {
		s.Priority = *p.Spec.Priority
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		s.GracePeriod = seconds(*g)
	}
	s.nodeTerms(&p.Spec, daemon)
	s.preferences(&p.Spec)
	if !daemon { // daemon pods come with their node: nothing of theirs is placed
		s.unsupported(&p.Spec)
		s.Volumes = podVolumes(&p.Spec)
	}
	if err := s.around(&p.Spec, daemon); err != nil {
		return nil, err
	}
	return s, nil
}

// Apply puts the shape into a pod.
func (s *Shape) Apply(m *model.Pod) {
	m.Requests, m.Terms, m.Preferred, m.Tolerations = s.Requests, s.Terms, s.Preferred, s.Tolerations
	m.Unsupported, m.Invalid, m.Ignore = s.Unsupported, s.Invalid, s.Ignore
	m.Priority, m.PriorityClass, m.GracePeriod, m.Gated, m.NodeName = s.Priority, s.PriorityClass, s.GracePeriod, s.Gated, s.NodeName
}

// Metadata puts identity, labels and times into a pod.
func Metadata(o *metav1.ObjectMeta, m *model.Pod) {
	m.UID, m.Namespace, m.Name = string(o.UID), o.Namespace, o.Name
	m.Labels, m.Annotations = o.Labels, o.Annotations
	m.Created = o.CreationTimestamp.UTC()
	m.Deleting, m.DeletingGrace = instant(o.DeletionTimestamp), 0
	if g := o.DeletionGracePeriodSeconds; g != nil {
		m.DeletingGrace = seconds(*g)
	}
	m.Owner = Controller(o)
	_, m.Mirror = o.Annotations[corev1.MirrorPodAnnotationKey]
	m.Mirror = m.Mirror || m.Owner.Kind == "Node"
}

// Status puts what happened to a pod into it.
func Status(s *corev1.PodStatus, m *model.Pod) {
	m.Terminal = s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
	m.NominatedNode = s.NominatedNodeName
	m.Started = instant(s.StartTime)
	for _, c := range s.Conditions {
		switch c.Type {
		case corev1.PodScheduled:
			m.Unschedulable = m.Unschedulable || c.Reason == corev1.PodReasonUnschedulable
		case corev1.PodReady:
			m.Ready = c.Status == corev1.ConditionTrue
		}
	}
	for i := range s.ContainerStatuses {
		m.RestartCount += s.ContainerStatuses[i].RestartCount
	}
}

// Requests is what the pod takes of a node: the most of its start-up phases and of
// its steady state, sidecars, overhead, pod-level amounts and resizes in place
// included, and one unit of pods. Errors: a negative amount.
func Requests(p *corev1.Pod) (resource.Vector, error) {
	if err := signs(p); err != nil {
		return resource.Vector{}, err
	}
	list := helper.PodRequests(p, helper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	v, err := Vector("spec.containers[].resources.requests", list)
	if err != nil {
		return v, err
	}
	v.Base[resource.Pods] = 1
	return v, nil
}

// signs finds negative amounts before they are summed up and lost.
func signs(p *corev1.Pod) error {
	check := func(field string, list corev1.ResourceList) error {
		for name, q := range list {
			if q.Sign() < 0 {
				return &FieldError{fmt.Sprintf("%s[%s]", field, name), fmt.Sprintf("must not be negative, got %s", q.String())}
			}
		}
		return nil
	}
	for kind, containers := range map[string][]corev1.Container{"initContainers": p.Spec.InitContainers, "containers": p.Spec.Containers} {
		for i := range containers {
			if err := check(fmt.Sprintf("spec.%s[%d].resources.requests", kind, i), containers[i].Resources.Requests); err != nil {
				return err
			}
		}
	}
	if p.Spec.Resources != nil {
		if err := check("spec.resources.requests", p.Spec.Resources.Requests); err != nil {
			return err
		}
	}
	return check("spec.overhead", p.Spec.Overhead)
}

// nodeTerms reads node selector and required node affinity.
func (s *Shape) nodeTerms(spec *corev1.PodSpec, daemon bool) {
	var base conjunction
	for _, k := range sortedKeys(spec.NodeSelector) {
		r, problem := requirement(k, "In", []string{spec.NodeSelector[k]})
		if problem != "" {
			s.Invalid = "spec.nodeSelector: " + problem
			continue
		}
		base.add(r)
	}
	// A kubelet of another system refuses the pod, whatever kube-scheduler thinks.
	if spec.OS != nil && spec.OS.Name != "" {
		if r, problem := requirement(model.LabelOS, "In", []string{string(spec.OS.Name)}); problem == "" {
			base.add(r)
		} else {
			s.Invalid = "spec.os.name: " + problem
		}
	}
	var terms []corev1.NodeSelectorTerm
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) == 0 {
			base.impossible = "required node affinity has no terms, which matches no node"
		}
	}
	impossible := base.impossible
	for i := range terms {
		path := fmt.Sprintf("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d]", i)
		fields := len(terms[i].MatchFields)
		if daemon {
			fields = 0 // the DaemonSet controller names the node this way
		}
		c := base
		problem := ""
		if fields > 0 {
			problem = "matchFields is not supported"
		}
		for _, e := range terms[i].MatchExpressions {
			r, why := podRequirement(e)
			if why != "" {
				problem = why
				break
			}
			c.add(r)
		}
		switch {
		case problem != "":
			if s.Invalid == "" {
				s.Invalid = path + ": " + problem
			}
		case len(terms[i].MatchExpressions) == 0 && len(terms[i].MatchFields) == 0:
			impossible = "an empty term of required node affinity matches no node"
		case c.impossible != "":
			impossible = c.impossible
		default:
			s.Terms = append(s.Terms, c.set)
		}
	}
	if len(terms) == 0 && base.impossible == "" {
		s.Terms = append(s.Terms, base.set)
	}
	if len(s.Terms) == 0 {
		s.Terms = []require.Set{base.set}
		if s.Invalid == "" {
			s.Unsupported = append(s.Unsupported, model.Unsupported{Filter: model.FilterRequirements, Message: impossible})
		}
		return
	}
	s.Ignore = true
	for _, t := range s.Terms {
		if r, ok := t.Get(model.LabelPool); !ok || !r.Empty() {
			s.Ignore = false
		}
	}
}

// podRequirement is one expression of a pod, which may use the first six operators.
func podRequirement(e corev1.NodeSelectorRequirement) (require.Requirement, string) {
	switch e.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
		corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return requirement(e.Key, string(e.Operator), e.Values)
	}
	return require.Requirement{}, fmt.Sprintf("%s: unknown operator %q, expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt", e.Key, e.Operator)
}

// preferences reads preferred node affinity, heaviest first. Terms that nothing
// could satisfy are left out: they prefer nothing.
func (s *Shape) preferences(spec *corev1.PodSpec) {
	a := spec.Affinity
	if a == nil {
		return
	}
	if a.NodeAffinity != nil {
	terms:
		for _, t := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			if len(t.Preference.MatchFields) > 0 || len(t.Preference.MatchExpressions) == 0 {
				continue
			}
			var c conjunction
			for _, e := range t.Preference.MatchExpressions {
				r, err := require.New(model.CanonicalKey(e.Key), require.Operator(e.Operator), e.Values...)
				if err != nil {
					continue terms
				}
				c.add(r)
			}
			if c.impossible == "" {
				s.Preferred = append(s.Preferred, model.Preference{Weight: t.Weight, Set: c.set})
			}
		}
		sort.SliceStable(s.Preferred, func(i, j int) bool { return s.Preferred[i].Weight > s.Preferred[j].Weight })
	}
}

// unsupported names what the engine does not place yet.
func (s *Shape) unsupported(spec *corev1.PodSpec) {
	no := func(f model.Filter, format string, args ...any) {
		s.Unsupported = append(s.Unsupported, model.Unsupported{Filter: f, Message: fmt.Sprintf(format, args...)})
	}
	for _, c := range spec.ResourceClaims {
		no(model.FilterRequirements, "resource claim %s (dynamic resource allocation) is not supported", c.Name)
	}
}

// Tolerations are tolerations as planning sees them.
func Tolerations(in []corev1.Toleration) []model.Toleration {
	if len(in) == 0 {
		return nil
	}
	out := make([]model.Toleration, len(in))
	for i, t := range in {
		out[i] = model.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: model.Effect(t.Effect), Seconds: t.TolerationSeconds}
	}
	return out
}

// Taints are taints as planning sees them.
func Taints(in []corev1.Taint) []model.Taint {
	if len(in) == 0 {
		return nil
	}
	out := make([]model.Taint, len(in))
	for i, t := range in {
		out[i] = model.Taint{Key: t.Key, Value: t.Value, Effect: model.Effect(t.Effect)}
	}
	return out
}

// APITaints are taints as the API has them.
func APITaints(in []model.Taint) []corev1.Taint {
	if len(in) == 0 {
		return nil
	}
	out := make([]corev1.Taint, len(in))
	for i, t := range in {
		out[i] = corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
	}
	return out
}

// Controller is the owner that manages the object, else its first owner.
func Controller(o *metav1.ObjectMeta) model.Owner {
	var owner model.Owner
	for i, r := range o.OwnerReferences {
		if i == 0 || r.Controller != nil && *r.Controller {
			owner = model.Owner{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID)}
		}
		if r.Controller != nil && *r.Controller {
			break
		}
	}
	return owner
}

func instant(t *metav1.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	u := t.UTC()
	return &u
}

// GraceSeconds is a grace period as options of a deletion have it: whole seconds, at least one, for at none the object
// would go while the containers run. nil where grace is not positive: the pod's own.
func GraceSeconds(grace time.Duration) *int64 {
	if grace <= 0 {
		return nil
	}
	n := max(int64(grace/time.Second), 1)
	return &n
}

// seconds is a duration, as far as durations reach.
func seconds(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(max(n, 0)) * time.Second
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
