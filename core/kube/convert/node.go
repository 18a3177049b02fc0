package convert

import (
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
		if c.Type == corev1.NodeReady {
			n.Ready = c.Status == corev1.ConditionTrue
			n.ReadySince = c.LastTransitionTime.UTC()
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
