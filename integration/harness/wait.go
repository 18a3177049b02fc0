package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pollInterval is the pause between two looks. A wait ends at most this much after its condition holds.
const pollInterval = 50 * time.Millisecond

// Eventually waits until check returns nil and fails the test when that takes longer than limit, with what check said last.
func Eventually(t testing.TB, what string, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	began := time.Now()
	if last, ok := poll(t.Context(), limit, check); !ok {
		t.Fatalf("%s: not so after %v, last: %v", what, time.Since(began).Round(time.Millisecond), last)
	}
}

// poll returns the last error of check that was not caused by the end of the time.
func poll(ctx context.Context, limit time.Duration, check func(context.Context) error) (last error, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil, true
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last, false
		case <-tick.C:
		}
	}
}

// Consistently fails the test when check returns an error at any time within the period. Use it for what must not happen,
// with a period that is longer than what it would take.
func Consistently(t testing.TB, what string, period time.Duration, check func(context.Context) error) {
	t.Helper()
	end := time.After(period)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		// Not bound to the period: a look that it cuts short would look like a failure.
		if err := check(t.Context()); err != nil {
			t.Fatalf("%s: no longer so: %v", what, err)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// PodCheck says what keeps a pod from being as wanted, nil for nothing.
type PodCheck func(*corev1.Pod) error

// PodBound wants a node.
func PodBound(p *corev1.Pod) error {
	if p.Spec.NodeName != "" {
		return nil
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return fmt.Errorf("not bound: %s: %s", c.Reason, c.Message)
		}
	}
	return fmt.Errorf("not bound, not looked at by the scheduler")
}

// PodUnschedulable wants that the scheduler has found no node.
func PodUnschedulable(p *corev1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return nil
		}
	}
	return fmt.Errorf("not marked unschedulable, node %q", p.Spec.NodeName)
}

// PodReady wants a pod that runs, is ready and is not being deleted.
func PodReady(p *corev1.Pod) error {
	if p.DeletionTimestamp != nil {
		return fmt.Errorf("is being deleted")
	}
	if err := PodBound(p); err != nil {
		return err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not ready, phase %s on node %s", p.Status.Phase, p.Spec.NodeName)
}

// WaitPods waits until exactly count pods match the label selector and all are as wanted, and returns them. A count of 0
// waits until all are gone.
func (c *ControlPlane) WaitPods(t testing.TB, namespace, selector string, count int, limit time.Duration, want PodCheck) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	Eventually(t, fmt.Sprintf("%d pods %q of namespace %s", count, selector, namespace), limit, func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		pods = list.Items
		return checkPods(pods, count, want)
	})
	return pods
}

func checkPods(pods []corev1.Pod, count int, want PodCheck) error {
	var bad []string
	for i := range pods {
		if want == nil {
			break
		}
		if err := want(&pods[i]); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", pods[i].Name, err))
		}
	}
	if len(pods) == count && len(bad) == 0 {
		return nil
	}
	const shown = 5
	if len(bad) > shown {
		bad = append(bad[:shown], fmt.Sprintf("and %d more", len(bad)-shown))
	}
	return fmt.Errorf("%d pods, want %d; %s", len(pods), count, strings.Join(bad, "; "))
}

// NodeReady reports whether the node is Ready and, where not, why.
func NodeReady(n *corev1.Node) (bool, string) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, fmt.Sprintf("Ready=%s, %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return false, "no condition Ready"
}

// WaitNodeReady waits until the node is Ready, or is not, and returns it.
func (c *ControlPlane) WaitNodeReady(t testing.TB, name string, ready bool, limit time.Duration) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	Eventually(t, fmt.Sprintf("node %s has ready=%v", name, ready), limit, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is, why := NodeReady(n); is != ready {
			return fmt.Errorf("%s", why)
		}
		node = n
		return nil
	})
	return node
}

// WaitNodeGone waits until the Node object does not exist.
func (c *ControlPlane) WaitNodeGone(t testing.TB, name string, limit time.Duration) {
	t.Helper()
	Eventually(t, "node "+name+" is gone", limit, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("exists, deletion %v, finalizers %v", n.DeletionTimestamp, n.Finalizers)
	})
}

// WaitDeployment waits until all replicas of the latest generation are ready and no other is left.
func (c *ControlPlane) WaitDeployment(t testing.TB, namespace, name string, limit time.Duration) *appsv1.Deployment {
	t.Helper()
	var deployment *appsv1.Deployment
	Eventually(t, fmt.Sprintf("deployment %s/%s is complete", namespace, name), limit, func(ctx context.Context) error {
		d, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.ReadyReplicas != want || s.Replicas != want {
			return fmt.Errorf("want %d replicas, have %d, updated %d, ready %d", want, s.Replicas, s.UpdatedReplicas, s.ReadyReplicas)
		}
		deployment = d
		return nil
	})
	return deployment
}
