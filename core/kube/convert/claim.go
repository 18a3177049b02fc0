package convert

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/core/api/keys"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// Claim is a NodeClaim as planning and execution see it, defaults filled in.
// Errors are *FieldError: a negative amount, an operator that does not exist.
func Claim(in *apiv1.NodeClaim) (*model.Claim, error) {
	c := &model.Claim{
		Name: in.Name, UID: string(in.UID), ResourceVersion: in.ResourceVersion,
		Pool:      in.Labels[model.LabelPool],
		NodeClass: classRef(in.Spec.NodeClassRef),
		Labels:    in.Labels, Annotations: in.Annotations, Finalizers: in.Finalizers,
		Taints: Taints(in.Spec.Taints), StartupTaints: Taints(in.Spec.StartupTaints),
		TerminationGP: duration(in.Spec.TerminationGracePeriod),
		Created:       in.CreationTimestamp.UTC(),
		Deleting:      instant(in.DeletionTimestamp),
		ProviderID:    in.Status.ProviderID, ImageID: in.Status.ImageID, NodeName: in.Status.NodeName,
		Conditions:   conditions(in.Status.Conditions),
		LastPodEvent: instant(&in.Status.LastPodEventTime),
	}
	if owner := Controller(&in.ObjectMeta); owner.Kind == keys.KindNodePool {
		c.PoolUID = owner.UID
	}
	withDefaults := apiv1.NodeClaim{Spec: apiv1.NodeClaimSpec{ExpireAfter: in.Spec.ExpireAfter}}
	withDefaults.Default()
	c.ExpireAfter = lifetime(withDefaults.Spec.ExpireAfter)

	for i, r := range in.Spec.Requirements {
		m, err := claimRequirement(r)
		if err != nil {
			return nil, &FieldError{fmt.Sprintf("spec.requirements[%d]", i), err.Error()}
		}
		c.Requirements = c.Requirements.With(m)
	}
	var err error
	if c.Requests, err = Vector("spec.resources.requests", in.Spec.Resources.Requests); err != nil {
		return nil, err
	}
	if c.Capacity, err = Vector("status.capacity", in.Status.Capacity); err != nil {
		return nil, err
	}
	c.Allocatable, err = Vector("status.allocatable", in.Status.Allocatable)
	return c, err
}

// claimRequirement reads a requirement that was written by a controller: keys that
// people may not use are fine.
func claimRequirement(in apiv1.Requirement) (require.Requirement, error) {
	op, values := require.Operator(in.Operator), in.Values
	switch {
	case op == require.Exists || op == require.DoesNotExist:
		values = nil
	case op == require.NotIn && len(values) == 0:
		op = require.Exists
	}
	r, err := require.New(model.CanonicalKey(in.Key), op, values...)
	if in.MinValues != nil {
		r.MinValues = *in.MinValues
	}
	return r, err
}

// NodeClaim is the object of a claim. Bounds are written as Gt and Lt, which every
// installed schema knows, wherever they can be. Its NodePool owns it where the pool's
// uid is known.
func NodeClaim(c *model.Claim) *apiv1.NodeClaim {
	out := &apiv1.NodeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: apiv1.GroupVersion.String(), Kind: keys.KindNodeClaim},
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, UID: types.UID(c.UID), ResourceVersion: c.ResourceVersion,
			Labels: c.Labels, Annotations: c.Annotations, Finalizers: c.Finalizers,
			CreationTimestamp: metav1.Time{Time: c.Created},
		},
		Spec: apiv1.NodeClaimSpec{
			Taints: APITaints(c.Taints), StartupTaints: APITaints(c.StartupTaints),
			Requirements: Requirements(c.Requirements),
			Resources:    apiv1.ResourceRequirements{Requests: List(c.Requests)},
			ExpireAfter:  apiv1.NillableDuration{Raw: apiv1.Never},
		},
		Status: apiv1.NodeClaimStatus{
			NodeName: c.NodeName, ProviderID: c.ProviderID, ImageID: c.ImageID,
			Capacity: List(c.Capacity), Allocatable: List(c.Allocatable),
			Conditions: APIConditions(c.Conditions),
		},
	}
	if c.Deleting != nil {
		out.DeletionTimestamp = &metav1.Time{Time: *c.Deleting}
	}
	if c.LastPodEvent != nil {
		out.Status.LastPodEventTime = metav1.Time{Time: *c.LastPodEvent}
	}
	if c.NodeClass.Name != "" {
		out.Spec.NodeClassRef = &apiv1.NodeClassReference{Group: c.NodeClass.Group, Kind: c.NodeClass.Kind, Name: c.NodeClass.Name}
	}
	if c.ExpireAfter != model.Never {
		out.Spec.ExpireAfter = apiv1.After(c.ExpireAfter)
		out.Spec.ExpireAfter.Raw = DurationText(c.ExpireAfter)
	}
	if c.TerminationGP != nil {
		out.Spec.TerminationGracePeriod = &metav1.Duration{Duration: *c.TerminationGP}
	}
	if c.Pool != "" && c.PoolUID != "" {
		yes := true
		out.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: apiv1.GroupVersion.String(), Kind: keys.KindNodePool, Name: c.Pool, UID: types.UID(c.PoolUID), BlockOwnerDeletion: &yes,
		}}
	}
	return out
}

// Requirements are requirements as claims carry them.
func Requirements(s require.Set) []apiv1.Requirement {
	out := []apiv1.Requirement{}
	for _, t := range s.Terms() {
		out = append(out, apiv1.Requirement{Key: t.Key, Operator: apiv1.Operator(t.Operator), Values: t.Values, MinValues: t.MinValues})
	}
	return out
}

// APIConditions are conditions as the API has them; each needs a reason there, so an
// empty one becomes the type.
func APIConditions(in []model.Condition) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range in {
		reason := c.Reason
		if reason == "" {
			reason = c.Type
		}
		out = append(out, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: reason, Message: c.Message,
			LastTransitionTime: metav1.Time{Time: c.Since},
		})
	}
	return out
}
