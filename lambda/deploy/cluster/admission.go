package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// AwaitAdmission waits until the API server knows who asks: an access entry that has just
// been made, as with the first deployment, takes a while to be known there. It asks again
// every so often, for as long as patience; whatever is not about that is left to the calls
// that follow.
func (c *Cluster) AwaitAdmission(ctx context.Context, every, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var refused error
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		_, err := c.core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if err != nil && ctx.Err() != nil {
			return false, ctx.Err()
		}
		if !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			return true, nil
		}
		refused = err
		return false, nil
	})
	if err != nil && refused != nil {
		return fmt.Errorf("the API server does not let the function in; is there an access entry of its role, with AmazonEKSClusterAdminPolicy: %w", refused)
	}
	return err
}
