package direct

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// conflictTries is how often a patch is made again because the object changed.
const conflictTries = 5

// PatchNode changes labels, annotations and taints of a node; other fields of the
// patch are not for a program that only drains. A node that has all of it already is
// not written. ErrNotFound where it is gone or is another one of that name.
func (c *Client) PatchNode(ctx context.Context, p model.NodePatch) error {
	for try := 1; ; try++ {
		n, err := c.core.Nodes().Get(ctx, p.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && p.UID != "" && string(n.UID) != p.UID {
			return fmt.Errorf("node %s: %w", p.Name, ErrNotFound)
		}
		if err != nil {
			return fmt.Errorf("node %s: %w", p.Name, err)
		}
		body, err := nodePatch(n, p)
		if err != nil || body == nil {
			return err
		}
		_, err = c.core.Nodes().Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{})
		switch {
		case err == nil:
			return nil
		case apierrors.IsNotFound(err):
			return fmt.Errorf("node %s: %w", p.Name, ErrNotFound)
		case !apierrors.IsConflict(err) || try == conflictTries:
			return fmt.Errorf("patching node %s: %w", p.Name, err)
		}
	}
}

// nodePatch is the merge patch for a node, nil where nothing would change. Taints
// are a list that a merge patch replaces, so that the version must be the one read.
func nodePatch(n *corev1.Node, p model.NodePatch) ([]byte, error) {
	meta := map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion}
	changed := false
	for field, want := range map[string]map[string]string{"labels": p.Labels, "annotations": p.Annotations} {
		have := n.Labels
		if field == "annotations" {
			have = n.Annotations
		}
		diff := map[string]any{}
		for k, v := range want {
			switch old, ok := have[k]; {
			case v == "" && ok:
				diff[k] = nil
			case v != "" && old != v:
				diff[k] = v
			}
		}
		if len(diff) > 0 {
			meta[field], changed = diff, true
		}
	}
	taints := n.Spec.Taints
	for _, t := range convert.APITaints(p.RemoveTaints) {
		taints = slices.DeleteFunc(slices.Clone(taints), func(o corev1.Taint) bool { return o.MatchTaint(&t) })
	}
	for _, t := range convert.APITaints(p.AddTaints) {
		if !slices.ContainsFunc(taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value }) {
			taints = append(slices.DeleteFunc(slices.Clone(taints), func(o corev1.Taint) bool { return o.MatchTaint(&t) }), t)
		}
	}
	body := map[string]any{"metadata": meta}
	if !slices.EqualFunc(taints, n.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }) {
		body["spec"], changed = map[string]any{"taints": taints}, true
	}
	if !changed {
		return nil, nil
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("patch of node %s: %w", n.Name, err)
	}
	return b, nil
}

// AnnotateClaim sets annotations of a NodeClaim; one with an empty value is removed. ErrNotFound where it is gone or is
// another one of that name.
func (c *Client) AnnotateClaim(ctx context.Context, name, uid string, annotations map[string]string) error {
	claims := c.dynamic.Resource(apiv1.NodeClaims)
	have, err := claims.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(have.GetUID()) != uid {
		return fmt.Errorf("claim %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", name, err)
	}
	// The uid in the patch keeps it off a claim that is made in this moment.
	values := map[string]any{}
	for k, v := range annotations {
		if values[k] = v; v == "" {
			values[k] = nil
		}
	}
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": values}})
	if err != nil {
		return fmt.Errorf("patch of claim %s: %w", name, err)
	}
	_, err = claims.Patch(ctx, name, types.MergePatchType, b, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("claim %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("annotating claim %s: %w", name, err)
	}
	return nil
}

// DeleteClaim asks for the deletion of a NodeClaim; its finalizers still hold it. One
// that is gone is fine.
func (c *Client) DeleteClaim(ctx context.Context, name, uid string) error {
	u := types.UID(uid)
	err := c.dynamic.Resource(apiv1.NodeClaims).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &u}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting claim %s: %w", name, err)
	}
	return nil
}

// Evict asks the eviction API for a pod. grace replaces the pod's own grace period, 0 = does not; of a pod
// that is terminating already it can only be cut. The error tells more where the outcome is drain.Failed.
func (c *Client) Evict(ctx context.Context, p *model.Pod, grace time.Duration) (drain.Outcome, error) {
	uid := types.UID(p.UID)
	// Without the client's own retries: "not now" is an answer, and the drain knows when to ask again.
	err := c.core.RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").MaxRetries(0).Body(&policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: convert.GraceSeconds(grace)},
	}).Do(ctx).Error()
	return outcome(err, "evicting pod "+p.ID())
}

// DeletePod deletes a pod past its budgets, with a grace period of whole seconds.
func (c *Client) DeletePod(ctx context.Context, p *model.Pod, grace time.Duration) (drain.Outcome, error) {
	uid := types.UID(p.UID)
	err := c.core.Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: convert.GraceSeconds(max(grace, time.Second))})
	return outcome(err, "deleting pod "+p.ID())
}

func outcome(err error, what string) (drain.Outcome, error) {
	switch {
	case err == nil:
		return drain.Accepted, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return drain.Gone, nil
	// The server's own flow control answers 429 as well, about no budget at all.
	case apierrors.IsTooManyRequests(err) && (apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || strings.Contains(err.Error(), "disruption budget")):
		return drain.Blocked, nil
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		return drain.MultiplePDBs, nil
	}
	return drain.Failed, fmt.Errorf("%s: %w", what, err)
}

// Emit writes a Kubernetes event.
func (c *Client) Emit(ctx context.Context, e model.Event, now time.Time) error {
	namespace := e.Object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where events of cluster objects go
	}
	kind, version := corev1.EventTypeNormal, "v1"
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	if e.Object.Kind != "Node" && e.Object.Kind != "Pod" {
		version = apiv1.GroupVersion.String()
	}
	at := metav1.NewTime(now)
	_, err := c.core.Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: e.Object.Name + ".", Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{Kind: e.Object.Kind, APIVersion: version, Namespace: e.Object.Namespace, Name: e.Object.Name, UID: types.UID(e.Object.UID)},
		Reason:         e.Reason, Message: e.Message, Type: kind,
		Source:         corev1.EventSource{Component: "karpenter"}, // the name that tools filter by
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("event %s of %s %s: %w", e.Reason, e.Object.Kind, e.Object.Name, err)
	}
	return nil
}
