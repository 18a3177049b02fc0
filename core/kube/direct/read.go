package direct

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-project/weir/core/api/keys"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// How a node was found.
const (
	ByHint  = "hint"  // under the name that was known
	ByLabel = "label" // weir.dev/instance-id
	ByScan  = "scan"  // by the provider ids of all nodes
)

// Hints are what the ledger knows of an instance; empty = nothing.
type Hints struct {
	Node, Claim string
	// NoScan says that an instance without a label is nobody's: not all nodes are read for it.
	NoScan bool
}

// Found is a node with its claim.
type Found struct {
	Node *model.Node // Claim is nil where it is not ours; Name is empty where it has not joined
	How  string
}

// NodeByInstance finds the node of an instance: under the name that is known, else
// by the label weir.dev/instance-id, which the scaler puts on each node at
// registration. Only where no node has the label are all nodes read, in pages: the
// node may have joined moments ago, or may be one of Karpenter's that no scaler of
// ours has seen yet. Private DNS names are never used. ErrNotFound where there is
// neither node nor claim.
func (c *Client) NodeByInstance(ctx context.Context, id string, h Hints) (*Found, error) {
	node, how, err := c.find(ctx, id, h)
	if err != nil {
		return nil, fmt.Errorf("looking for the node of %s: %w", id, err)
	}
	if node == nil {
		return c.unjoined(ctx, id, h.Claim)
	}
	n, err := convert.Node(node)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	if n.Claim, err = c.claimOf(ctx, node, h.Claim); err != nil {
		return nil, fmt.Errorf("claim of node %s: %w", node.Name, err)
	}
	return &Found{Node: n, How: how}, nil
}

func (c *Client) find(ctx context.Context, id string, h Hints) (*corev1.Node, string, error) {
	if h.Node != "" {
		n, err := c.core.Nodes().Get(ctx, h.Node, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, "", err
		}
		if err == nil && model.InstanceID(n.Spec.ProviderID) == id {
			return n, ByHint, nil
		}
	}
	list, err := c.core.Nodes().List(ctx, metav1.ListOptions{LabelSelector: model.LabelInstanceID + "=" + id})
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		if n := &list.Items[i]; n.Spec.ProviderID == "" || model.InstanceID(n.Spec.ProviderID) == id {
			return n, ByLabel, nil
		}
	}
	if h.NoScan {
		return nil, "", nil
	}
	opts := metav1.ListOptions{Limit: 500}
	for {
		list, err := c.core.Nodes().List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		for i := range list.Items {
			if model.InstanceID(list.Items[i].Spec.ProviderID) == id {
				return &list.Items[i], ByScan, nil
			}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return nil, "", nil
		}
	}
}

// unjoined is an instance whose claim is known and that never became a node.
func (c *Client) unjoined(ctx context.Context, id, claim string) (*Found, error) {
	if claim == "" {
		return nil, fmt.Errorf("node of %s: %w", id, ErrNotFound)
	}
	cl, err := c.claim(ctx, claim)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("node of %s: %w", id, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("claim %s: %w", claim, err)
	case model.InstanceID(cl.ProviderID) != id:
		return nil, fmt.Errorf("node of %s: %w", id, ErrNotFound)
	}
	return &Found{Node: &model.Node{Claim: cl, ProviderID: cl.ProviderID, Labels: cl.Labels, Annotations: cl.Annotations}, How: ByHint}, nil
}

// claimOf is the NodeClaim of a node, nil where it has none: the owner of the node,
// else the one that is known. A node that says it is of a pool and has no owner yet
// is joined by provider id.
func (c *Client) claimOf(ctx context.Context, n *corev1.Node, hint string) (*model.Claim, error) {
	for _, o := range n.OwnerReferences {
		if o.Kind == keys.KindNodeClaim {
			hint = o.Name
			break
		}
	}
	if hint != "" {
		cl, err := c.claim(ctx, hint)
		if err == nil && (cl.ProviderID == "" || model.InstanceID(cl.ProviderID) == model.InstanceID(n.Spec.ProviderID)) {
			return cl, nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	if n.Labels[model.LabelPool] == "" {
		return nil, nil
	}
	list, err := c.dynamic.Resource(apiv1.NodeClaims).List(ctx, metav1.ListOptions{LabelSelector: model.LabelPool + "=" + n.Labels[model.LabelPool]})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		cl, err := toClaim(&list.Items[i])
		if err != nil {
			return nil, err
		}
		if cl.ProviderID != "" && cl.ProviderID == n.Spec.ProviderID {
			return cl, nil
		}
	}
	return nil, nil
}

func (c *Client) claim(ctx context.Context, name string) (*model.Claim, error) {
	u, err := c.dynamic.Resource(apiv1.NodeClaims).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return toClaim(u)
}

func toClaim(u *unstructured.Unstructured) (*model.Claim, error) {
	var nc apiv1.NodeClaim
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &nc); err != nil {
		return nil, fmt.Errorf("claim %s: %w", u.GetName(), err)
	}
	return convert.Claim(&nc)
}

// PoolAnnotations are the annotations of a NodePool, nil where it is gone.
func (c *Client) PoolAnnotations(ctx context.Context, name string) (map[string]string, error) {
	u, err := c.dynamic.Resource(apiv1.NodePools).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("pool %s: %w", name, err)
	}
	return u.GetAnnotations(), nil
}

// Pods lists the pods that are bound to a node.
func (c *Client) Pods(ctx context.Context, node string) ([]*model.Pod, error) {
	list, err := c.core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("pods of node %s: %w", node, err)
	}
	out := make([]*model.Pod, 0, len(list.Items))
	for i := range list.Items {
		p, err := convert.Pod(&list.Items[i])
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", list.Items[i].Namespace, list.Items[i].Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// OnlyReady says whether the pod is the only ready one of its owner. A pod without an
// owner has no successor and is none. The pods of its namespace are read that have the
// labels by which controllers tell their generations apart.
func (c *Client) OnlyReady(ctx context.Context, p *model.Pod) (bool, error) {
	if !p.Ready || p.Owner.UID == "" {
		return false, nil
	}
	opts := metav1.ListOptions{Limit: 500}
	for _, key := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey} {
		if v := p.Labels[key]; v != "" {
			opts.LabelSelector = key + "=" + v
			break
		}
	}
	for {
		list, err := c.core.Pods(p.Namespace).List(ctx, opts)
		if err != nil {
			return false, fmt.Errorf("pods beside %s: %w", p.ID(), err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			owner := metav1.GetControllerOf(o)
			if string(o.UID) != p.UID && o.DeletionTimestamp == nil && owner != nil && string(owner.UID) == p.Owner.UID && readyPod(o) {
				return false, nil
			}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return true, nil
		}
	}
}

func readyPod(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
