package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/api/keys"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// Client changes the cluster. It implements execute.Kube; its errors wrap those of
// that port. It is safe for concurrent use.
type Client struct {
	c      *Clients
	events *recorder
	now    func() time.Time
}

var _ execute.Kube = (*Client)(nil)

// ClientOptions of a Client.
type ClientOptions struct {
	// Now is the clock for conditions and events; nil = time.Now.
	Now func() time.Time
	// Events say how events are written.
	Events EventOptions
}

// NewClient makes a client on connections.
func NewClient(c *Clients, o ClientOptions) *Client {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{c: c, now: o.Now, events: newRecorder(o.Events, o.Now)}
}

// portError wraps an error of the server in the error of the port that it stands for.
func portError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: %w: %w", what, execute.ErrNotFound, err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s: %w: %w", what, execute.ErrConflict, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fmt.Errorf("%s: %w: %w", what, execute.ErrInvalid, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// CreateClaim creates a NodeClaim with its finalizer on and answers its uid.
func (k *Client) CreateClaim(ctx context.Context, c *model.Claim) (string, error) {
	o := convert.NodeClaim(c)
	o.UID, o.ResourceVersion, o.CreationTimestamp, o.DeletionTimestamp = "", "", metav1.Time{}, nil
	o.Status = apiv1.NodeClaimStatus{}
	if !slices.Contains(o.Finalizers, model.FinalizerTermination) {
		o.Finalizers = append(slices.Clone(o.Finalizers), model.FinalizerTermination)
	}
	out := &apiv1.NodeClaim{}
	err := k.c.karpenter.Post().Resource("nodeclaims").Param("fieldManager", keys.FieldManager).Body(o).Do(ctx).Into(out)
	if err != nil {
		return "", portError("create nodeclaim "+c.Name, err)
	}
	return string(out.UID), nil
}

// ListClaims reads all claims consistently from the server, in pages.
func (k *Client) ListClaims(ctx context.Context) ([]*model.Claim, error) {
	const page = 500
	var claims []*model.Claim
	for token := ""; ; {
		list := &apiv1.NodeClaimList{}
		req := k.c.karpenter.Get().Resource("nodeclaims").Param("limit", fmt.Sprint(page))
		if token != "" {
			req = req.Param("continue", token)
		}
		if err := req.Do(ctx).Into(list); err != nil {
			return nil, portError("list nodeclaims", err)
		}
		for i := range list.Items {
			c, err := convert.Claim(&list.Items[i])
			if err != nil {
				return nil, fmt.Errorf("list nodeclaims: nodeclaim %s: %w", list.Items[i].Name, err)
			}
			claims = append(claims, c)
		}
		if token = list.Continue; token == "" {
			return claims, nil
		}
	}
}

// DeleteClaim asks for deletion; a claim that is gone is fine.
func (k *Client) DeleteClaim(ctx context.Context, name, uid string) error {
	return k.delete(ctx, k.c.karpenter, "nodeclaims", name, uid)
}

// DeleteNode asks for deletion; a node that is gone is fine.
func (k *Client) DeleteNode(ctx context.Context, name, uid string) error {
	return k.delete(ctx, k.c.Core.CoreV1().RESTClient(), "nodes", name, uid)
}

func (k *Client) delete(ctx context.Context, client rest.Interface, resource, name, uid string) error {
	o := &metav1.DeleteOptions{Preconditions: precondition(uid)}
	err := client.Delete().Resource(resource).Name(name).Body(o).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return portError("delete "+strings.TrimSuffix(resource, "s")+" "+name, err)
}

func precondition(uid string) *metav1.Preconditions {
	if uid == "" {
		return nil
	}
	u := types.UID(uid)
	return &metav1.Preconditions{UID: &u}
}

// Evict uses the eviction API with a uid precondition. grace replaces the pod's own grace period, 0 = does not.
func (k *Client) Evict(ctx context.Context, p *model.Pod, grace time.Duration) error {
	what := "evict pod " + p.ID()
	e := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: precondition(p.UID), GracePeriodSeconds: convert.GraceSeconds(grace)},
	}
	// Without the client's own retries: the answer "not now" is what the drain wants to know.
	err := k.c.Core.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").
		MaxRetries(0).Body(e).Do(ctx).Error()
	switch {
	case apierrors.IsTooManyRequests(err) && aboutBudget(err):
		return fmt.Errorf("%s: %w: %w", what, execute.ErrBlocked, err)
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		return fmt.Errorf("%s: %w: %w", what, execute.ErrMultiplePDBs, err)
	}
	return portError(what, err)
}

// aboutBudget tells a "too many requests" that a budget caused from one of the
// server's own flow control.
func aboutBudget(err error) bool {
	if apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		return true
	}
	return strings.Contains(err.Error(), "disruption budget")
}

// DeletePod deletes with a grace period of at least 1 s, for less would take the pod
// out of the API while it still runs.
func (k *Client) DeletePod(ctx context.Context, p *model.Pod, grace time.Duration) error {
	err := k.c.Core.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: convert.GraceSeconds(max(grace, time.Second)), Preconditions: precondition(p.UID),
	})
	return portError("delete pod "+p.ID(), err)
}

// patchTries bounds how often a change is made anew after somebody else's.
const patchTries = 6

// target is one object that is to be patched.
type target struct {
	client    rest.Interface
	what      string // for messages
	resource  string
	name, uid string
}

// change reads the object and sends a merge patch made from what was read, again from
// the start when somebody else was faster. edit answers nil for "nothing to do".
// Several goroutines may change different parts of one object.
func (t target) change(ctx context.Context, subresource string, edit func(have []byte) (map[string]any, error)) error {
	backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: patchTries}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		raw, err := t.client.Get().Resource(t.resource).Name(t.name).SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return false, portError(t.what, err)
		}
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(raw, &head); err != nil {
			return false, fmt.Errorf("%s: %w", t.what, err)
		}
		if t.uid != "" && string(head.UID) != t.uid {
			return false, fmt.Errorf("%s: %w: its uid is %s, expected %s", t.what, execute.ErrConflict, head.UID, t.uid)
		}
		patch, err := edit(raw)
		if err != nil || patch == nil {
			return true, err
		}
		meta, _ := patch["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
			patch["metadata"] = meta
		}
		meta["uid"], meta["resourceVersion"] = string(head.UID), head.ResourceVersion
		body, err := json.Marshal(patch)
		if err != nil {
			return false, fmt.Errorf("%s: %w", t.what, err)
		}
		req := t.client.Patch(types.MergePatchType).Resource(t.resource).Name(t.name).Param("fieldManager", keys.FieldManager)
		if subresource != "" {
			req = req.SubResource(subresource)
		}
		last = req.Body(body).Do(ctx).Error()
		if apierrors.IsConflict(last) {
			return false, nil
		}
		return true, portError(t.what, last)
	})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		return portError(t.what, last)
	}
	return err
}

// textMap is a merge patch of labels or annotations: an empty value removes the key
// where removing is set.
func textMap(in map[string]string, removing bool) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		if v == "" && removing {
			out[k] = nil
		} else {
			out[k] = v
		}
	}
	return out
}

// finalizers is the list after a change, and whether there is one.
func finalizers(have, add, remove []string) ([]string, bool) {
	out := slices.DeleteFunc(slices.Clone(have), func(f string) bool { return slices.Contains(remove, f) })
	changed := len(out) != len(have)
	for _, f := range add {
		if !slices.Contains(out, f) {
			out, changed = append(out, f), true
		}
	}
	return out, changed
}

// metadata is the merge patch of an object's metadata, empty for no change.
func metadata(have *metav1.ObjectMeta, labels, annotations map[string]string, addFinalizers, removeFinalizers []string) map[string]any {
	meta := map[string]any{}
	if differs(have.Labels, labels) {
		meta["labels"] = textMap(labels, false)
	}
	if differs(have.Annotations, annotations) {
		meta["annotations"] = textMap(annotations, true)
	}
	if list, changed := finalizers(have.Finalizers, addFinalizers, removeFinalizers); changed {
		meta["finalizers"] = list
	}
	return meta
}

// differs says whether setting want would change have.
func differs(have, want map[string]string) bool {
	for k, v := range want {
		if h, ok := have[k]; ok && h == v || !ok && v == "" {
			continue
		}
		return true
	}
	return false
}

// PatchClaim changes one NodeClaim: first its metadata, then its status. Finalizers are
// taken off last, for nothing can be written once the last one is gone.
func (k *Client) PatchClaim(ctx context.Context, p execute.ClaimPatch) error {
	t := target{k.c.karpenter, "patch nodeclaim " + p.Name, "nodeclaims", p.Name, p.UID}
	meta := func(remove []string) error {
		return t.change(ctx, "", func(raw []byte) (map[string]any, error) {
			var o apiv1.NodeClaim
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("%s: %w", t.what, err)
			}
			if m := metadata(&o.ObjectMeta, p.Labels, p.Annotations, p.AddFinalizers, remove); len(m) > 0 {
				return map[string]any{"metadata": m}, nil
			}
			return nil, nil
		})
	}
	status := p.ProviderID != "" || p.ImageID != "" || p.NodeName != "" || len(p.Capacity) > 0 || len(p.Allocatable) > 0 ||
		len(p.Conditions) > 0 || len(p.RemoveConditions) > 0 || p.LastPodEvent != nil
	if len(p.Labels) > 0 || len(p.Annotations) > 0 || len(p.AddFinalizers) > 0 || len(p.RemoveFinalizers) > 0 && !status {
		var remove []string
		if !status {
			remove = p.RemoveFinalizers
		}
		if err := meta(remove); err != nil {
			return err
		}
	}
	if !status {
		return nil
	}
	err := t.change(ctx, "status", func(raw []byte) (map[string]any, error) {
		var o apiv1.NodeClaim
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", t.what, err)
		}
		return k.claimStatus(&o, p), nil
	})
	if err != nil || len(p.RemoveFinalizers) == 0 {
		return err
	}
	return meta(p.RemoveFinalizers)
}

// claimStatus is the merge patch of a claim's status, nil for no change.
func (k *Client) claimStatus(o *apiv1.NodeClaim, p execute.ClaimPatch) map[string]any {
	s := map[string]any{}
	for field, v := range map[string][2]string{
		"providerID": {o.Status.ProviderID, p.ProviderID}, "imageID": {o.Status.ImageID, p.ImageID}, "nodeName": {o.Status.NodeName, p.NodeName},
	} {
		if v[1] != "" && v[0] != v[1] {
			s[field] = v[1]
		}
	}
	if len(p.Capacity) > 0 {
		s["capacity"] = p.Capacity
	}
	if len(p.Allocatable) > 0 {
		s["allocatable"] = p.Allocatable
	}
	if list, changed := k.conditions(o.Status.Conditions, p.Conditions, p.RemoveConditions, o.Generation); changed {
		s["conditions"] = list
	}
	if p.LastPodEvent != nil {
		s["lastPodEventTime"] = metav1.NewTime(*p.LastPodEvent)
	}
	if len(s) == 0 {
		return nil
	}
	return map[string]any{"status": s}
}

// conditions merges conditions by type. The time of a transition stays unless the
// status changes.
func (k *Client) conditions(have []metav1.Condition, set []model.Condition, remove []string, generation int64) ([]metav1.Condition, bool) {
	out := slices.DeleteFunc(slices.Clone(have), func(c metav1.Condition) bool { return slices.Contains(remove, c.Type) })
	changed := len(out) != len(have)
	for _, c := range convert.APIConditions(set) {
		c.ObservedGeneration = generation
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.NewTime(k.now())
		}
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC().Truncate(time.Second))
		i := slices.IndexFunc(out, func(h metav1.Condition) bool { return h.Type == c.Type })
		if i < 0 {
			out, changed = append(out, c), true
			continue
		}
		if out[i].Status == c.Status {
			c.LastTransitionTime = out[i].LastTransitionTime
		}
		if h := out[i]; h.Status != c.Status || h.Reason != c.Reason || h.Message != c.Message || h.ObservedGeneration != c.ObservedGeneration {
			out[i], changed = c, true
		}
	}
	return out, changed
}

// PatchNode changes one Node.
func (k *Client) PatchNode(ctx context.Context, p execute.NodePatch) error {
	t := target{k.c.Core.CoreV1().RESTClient(), "patch node " + p.Name, "nodes", p.Name, p.UID}
	return t.change(ctx, "", func(raw []byte) (map[string]any, error) {
		var o corev1.Node
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", t.what, err)
		}
		meta := metadata(&o.ObjectMeta, p.Labels, p.Annotations, p.AddFinalizers, p.RemoveFinalizers)
		if p.OwnerClaim != nil {
			if list, changed := ownedBy(o.OwnerReferences, p.OwnerClaim); changed {
				meta["ownerReferences"] = list
			}
		}
		patch := map[string]any{}
		if len(meta) > 0 {
			patch["metadata"] = meta
		}
		if list, changed := taints(o.Spec.Taints, p.AddTaints, p.RemoveTaints); changed {
			patch["spec"] = map[string]any{"taints": list}
		}
		if len(patch) == 0 {
			return nil, nil
		}
		return patch, nil
	})
}

func ownedBy(have []metav1.OwnerReference, c *model.Claim) ([]metav1.OwnerReference, bool) {
	yes := true
	ref := metav1.OwnerReference{APIVersion: apiv1.GroupVersion.String(), Kind: keys.KindNodeClaim, Name: c.Name, UID: types.UID(c.UID), BlockOwnerDeletion: &yes}
	for _, h := range have {
		if h.UID == ref.UID {
			return have, false
		}
	}
	return append(slices.Clone(have), ref), true
}

// taints adds and removes by key and effect. A taint that is there with another value
// stays as it is.
func taints(have []corev1.Taint, add, remove []model.Taint) ([]corev1.Taint, bool) {
	same := func(c corev1.Taint, m model.Taint) bool {
		return c.Key == m.Key && string(c.Effect) == string(m.Effect)
	}
	out := slices.DeleteFunc(slices.Clone(have), func(c corev1.Taint) bool {
		return slices.ContainsFunc(remove, func(m model.Taint) bool { return same(c, m) })
	})
	changed := len(out) != len(have)
	for _, m := range add {
		if !slices.ContainsFunc(out, func(c corev1.Taint) bool { return same(c, m) }) {
			out, changed = append(out, convert.APITaints([]model.Taint{m})...), true
		}
	}
	return out, changed
}

// PatchPool writes annotations and status of a NodePool.
func (k *Client) PatchPool(ctx context.Context, s execute.PoolStatus) error {
	t := target{k.c.karpenter, "patch nodepool " + s.Name, "nodepools", s.Name, ""}
	read := func(raw []byte) (*apiv1.NodePool, error) {
		var o apiv1.NodePool
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", t.what, err)
		}
		return &o, nil
	}
	if len(s.Annotations) > 0 {
		err := t.change(ctx, "", func(raw []byte) (map[string]any, error) {
			o, err := read(raw)
			if err != nil {
				return nil, err
			}
			if m := metadata(&o.ObjectMeta, nil, s.Annotations, nil, nil); len(m) > 0 {
				return map[string]any{"metadata": m}, nil
			}
			return nil, nil
		})
		if err != nil {
			return err
		}
	}
	return t.change(ctx, "status", func(raw []byte) (map[string]any, error) {
		o, err := read(raw)
		if err != nil {
			return nil, err
		}
		status := map[string]any{"nodes": s.Nodes}
		if s.Resources != nil {
			// a resource that the pool has no longer must go, too
			resources := textMap(s.Resources, false)
			for name := range o.Status.Resources {
				if _, ok := resources[string(name)]; !ok {
					resources[string(name)] = nil
				}
			}
			status["resources"] = resources
		}
		if list, changed := k.conditions(o.Status.Conditions, s.Conditions, nil, o.Generation); changed {
			status["conditions"] = list
		}
		return map[string]any{"status": status}, nil
	})
}

// Emit writes a Kubernetes event, unless an equal one was written just before or the
// object has had too many; both are counted, see EventOptions.
func (k *Client) Emit(ctx context.Context, e execute.Event) error {
	if !k.events.admit(e) {
		return nil
	}
	o := k.events.object(e)
	_, err := k.c.Core.CoreV1().Events(o.Namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: keys.FieldManager})
	if err != nil {
		k.events.failed(e)
		return portError(fmt.Sprintf("event %s of %s %s", e.Reason, e.Object.Kind, e.Object.Name), err)
	}
	return nil
}

// Transient says whether the same call may succeed later: the server could not be
// reached, was busy, or took too long.
func Transient(err error) bool {
	if err == nil {
		return false
	}
	for _, final := range []error{execute.ErrNotFound, execute.ErrConflict, execute.ErrInvalid, execute.ErrBlocked, execute.ErrMultiplePDBs} {
		if errors.Is(err, final) {
			return false
		}
	}
	return !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err)
}
