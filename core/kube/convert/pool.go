package convert

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/api/keys"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// Pool is a NodePool as planning sees it, defaults filled in. What the API server
// stores but planning cannot follow makes the pool unusable. Errors: the template
// cannot be hashed.
func Pool(in *apiv1.NodePool) (*model.Pool, error) {
	np := in.DeepCopy()
	np.Default()
	t := &np.Spec.Template
	p := &model.Pool{
		Name: np.Name, UID: string(np.UID), Annotations: np.Annotations,
		Static: np.Spec.Replicas,
		Labels: t.Labels, NodeAnnotations: t.Annotations,
		Taints: Taints(t.Spec.Taints), StartupTaints: Taints(t.Spec.StartupTaints),
		NodeClass:     classRef(t.Spec.NodeClassRef),
		ExpireAfter:   lifetime(t.Spec.ExpireAfter),
		TerminationGP: duration(t.Spec.TerminationGracePeriod),
		HashVersion:   keys.NodePoolHashV3,

		Policy:           model.ConsolidationPolicy(np.Spec.Disruption.ConsolidationPolicy),
		ConsolidateAfter: lifetime(np.Spec.Disruption.ConsolidateAfter),
		Budgets:          budgets(np.Spec.Disruption.Budgets),
		Deleting:         np.DeletionTimestamp != nil,
	}
	if np.Spec.Weight != nil {
		p.Weight = *np.Spec.Weight
	}
	var err error
	if p.Hash, err = np.Hash(); err != nil {
		return nil, err
	}
	p.Limits = limits(np.Spec.Limits)
	unusable := func(format string, args ...any) {
		if p.Unusable == "" {
			p.Unusable = fmt.Sprintf(format, args...)
		}
	}
	for _, problem := range np.Validate() {
		unusable("%s", problem.Error())
	}
	p.Requirements = poolRequirements(np, unusable)
	if ref := t.Spec.NodeClassRef; ref == nil || ref.Group != keys.GroupAWS || ref.Kind != keys.KindEC2NodeClass {
		unusable("spec.template.spec.nodeClassRef: expected an EC2NodeClass of %s", keys.GroupAWS)
	}
	return p, nil
}

// poolRequirements is what every node of the pool will satisfy: requirements, labels,
// and the labels that each claim gets.
func poolRequirements(np *apiv1.NodePool, unusable func(string, ...any)) require.Set {
	var c conjunction
	for i, in := range np.Spec.Template.Spec.Requirements {
		r, problem := poolRequirement(in)
		if problem != "" {
			unusable("spec.template.spec.requirements[%d]: %s", i, problem)
			continue
		}
		c.add(r)
	}
	for _, k := range sortedKeys(np.Spec.Template.Labels) {
		r, problem := requirement(k, "In", []string{np.Spec.Template.Labels[k]})
		if problem != "" {
			unusable("spec.template.metadata.labels: %s", problem)
			continue
		}
		c.add(r)
	}
	if c.impossible != "" {
		unusable("spec.template: %s", c.impossible)
	}
	c.set = c.set.Without(model.LabelPool).With(require.Requirement{Key: model.LabelPool, Values: []string{np.Name}})
	if ref := np.Spec.Template.Spec.NodeClassRef; ref != nil && ref.Name != "" {
		c.set = c.set.Without(model.LabelNodeClass).With(require.Requirement{Key: model.LabelNodeClass, Values: []string{ref.Name}})
	}
	return c.set
}

// poolRequirement is one requirement of a pool or claim. The API server lets values
// of Exists and DoesNotExist and an empty NotIn pass; they say nothing.
func poolRequirement(in apiv1.Requirement) (require.Requirement, string) {
	op, values := string(in.Operator), in.Values
	switch {
	case op == "Exists" || op == "DoesNotExist":
		values = nil
	case op == "NotIn" && len(values) == 0:
		op = "Exists"
	}
	r, problem := requirement(in.Key, op, values)
	if in.MinValues != nil {
		r.MinValues = *in.MinValues
	}
	return r, problem
}

func limits(list corev1.ResourceList) model.Limits {
	var l model.Limits
	for name, q := range list {
		n := Amount(string(name), q)
		if name == "nodes" {
			l.Nodes = &n
			continue
		}
		if l.Resources == nil {
			l.Resources = map[string]int64{}
		}
		l.Resources[string(name)] = n
	}
	return l
}

func budgets(in []apiv1.Budget) []model.Budget {
	var out []model.Budget
	for _, b := range in {
		m := model.Budget{Nodes: b.Nodes}
		for _, r := range b.Reasons {
			m.Reasons = append(m.Reasons, model.DisruptionReason(r))
		}
		if b.Schedule != nil {
			m.Schedule = *b.Schedule
		}
		if b.Duration != nil {
			m.Duration = b.Duration.Duration
		}
		out = append(out, m)
	}
	return out
}

func classRef(r *apiv1.NodeClassReference) model.NodeClassRef {
	if r == nil {
		return model.NodeClassRef{}
	}
	return model.NodeClassRef{Group: r.Group, Kind: r.Kind, Name: r.Name}
}

func lifetime(d apiv1.NillableDuration) time.Duration {
	if d.IsNever() {
		return model.Never
	}
	return *d.Duration
}

func duration(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	v := d.Duration
	return &v
}

// Conditions are status conditions of an object, nil where it has none.
func Conditions(in []metav1.Condition) []model.Condition { return conditions(in) }

func conditions(in []metav1.Condition) []model.Condition {
	if len(in) == 0 {
		return nil
	}
	out := make([]model.Condition, len(in))
	for i, c := range in {
		out[i] = model.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC()}
	}
	return out
}
