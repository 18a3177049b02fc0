package convert

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-project/weir/core/model"
)

// Node is what the Node object says; claim, pods and price are for others to fill
// in. Errors are *FieldError: a negative amount.
func Node(in *corev1.Node) (*model.Node, error) {
	n := &model.Node{
		Name: in.Name, UID: string(in.UID), ProviderID: in.Spec.ProviderID,
		Labels: in.Labels, Annotations: in.Annotations, Finalizers: in.Finalizers,
		Taints:   Taints(in.Spec.Taints),
		Cordoned: in.Spec.Unschedulable,
		Created:  in.CreationTimestamp.UTC(),
		Deleting: instant(in.DeletionTimestamp),
	}
	for _, c := range in.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady:
			n.Ready, n.Silent = c.Status == corev1.ConditionTrue, c.Status == corev1.ConditionUnknown
			n.ReadySince = c.LastTransitionTime.UTC()
		case strings.HasSuffix(string(c.Type), "Ready"): // the reason and the message of good health change for nothing
			h := model.Condition{Type: string(c.Type), Status: string(c.Status), Since: c.LastTransitionTime.UTC()}
			if c.Status != corev1.ConditionTrue {
				h.Reason, h.Message = c.Reason, c.Message
			}
			n.Health = append(n.Health, h)
		}
	}
	var err error
	if n.Capacity, err = Vector("status.capacity", in.Status.Capacity); err != nil {
		return nil, err
	}
	allocatable := in.Status.Allocatable
	if allocatable == nil { // as the API server sets it
		allocatable = in.Status.Capacity
	}
	n.Allocatable, err = Vector("status.allocatable", allocatable)
	return n, err
}
