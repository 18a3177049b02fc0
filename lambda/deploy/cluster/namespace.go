package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// annotationMade is on a namespace that was made here.
const annotationMade = "weir.dev/made-by"

// namespacePoll is how often a namespace that is being deleted is looked at.
const namespacePoll = 500 * time.Millisecond

// EnsureNamespace makes the namespace if it is not there. One that is being deleted, by
// an update that is now taken back, say, is waited for.
func (c *Cluster) EnsureNamespace(ctx context.Context, name string) error {
	client := c.core.CoreV1().Namespaces()
	err := wait.PollUntilContextCancel(ctx, namespacePoll, true, func(ctx context.Context) (bool, error) {
		have, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			return have.DeletionTimestamp == nil, nil
		case !apierrors.IsNotFound(err):
			return false, err
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationMade: userAgent}}}
		_, err = client.Create(ctx, ns, metav1.CreateOptions{FieldManager: userAgent})
		if apierrors.IsAlreadyExists(err) {
			return false, nil // look again whether it stays
		}
		return err == nil, err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("namespace %s is being deleted, and not gone yet: %w", name, ctx.Err())
	case err != nil:
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}

// RemoveNamespace deletes the namespace if it was made here and nothing is left in it
// that matters to anybody. It answers what made it stay, "" where it is gone.
func (c *Cluster) RemoveNamespace(ctx context.Context, name string) (stays string, err error) {
	have, err := c.core.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("namespace %s: %w", name, err)
	case have.Annotations[annotationMade] != userAgent:
		return "it was there before", nil
	}
	what, err := c.firstIn(ctx, name)
	if err != nil {
		return "what is in it cannot be told: " + err.Error(), nil // an API service that is down, say
	}
	if what != "" {
		return "there is " + what + " in it", nil
	}
	err = c.core.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &have.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("namespace %s: %w", name, err)
	}
	return "", nil
}

// traces are resources that only tell of others, or that the scaler leaves.
var traces = []string{"events", "leases", "endpoints", "endpointslices"}

// firstIn names an object of the namespace, "" if there are only such as each namespace
// has, or as the scaler leaves.
func (c *Cluster) firstIn(ctx context.Context, namespace string) (string, error) {
	c.discovery.Invalidate()
	lists, err := c.discovery.ServerPreferredResources()
	if err != nil {
		return "", err // a group that cannot be asked may have objects here
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists)
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return "", err
		}
		for _, r := range l.APIResources {
			if !r.Namespaced || slices.Contains(traces, r.Name) {
				continue
			}
			objects, err := c.dynamic.Resource(gv.WithResource(r.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", fmt.Errorf("%s: %w", r.Name, err)
			}
			if i := slices.IndexFunc(objects.Items, matters); i >= 0 {
				return objects.Items[i].GetKind() + " " + objects.Items[i].GetName(), nil
			}
		}
	}
	return "", nil
}

// matters says whether somebody may miss the object.
func matters(u unstructured.Unstructured) bool {
	switch u.GetKind() {
	case "ServiceAccount":
		return u.GetName() != "default"
	case "ConfigMap":
		return u.GetName() != "kube-root-ca.crt"
	}
	// What is being deleted, or goes with its owner, is nobody's any more: an owner that stays is found itself.
	return u.GetDeletionTimestamp() == nil && len(u.GetOwnerReferences()) == 0
}
