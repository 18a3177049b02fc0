package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/kube"
	"github.com/weir-project/weir/core/kube/direct"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/harness"
)

// TestEvictionsWithAGracePeriod holds what drains rely on against a real API server, by the scaler's client and by the
// function's, which may not delete pods: an eviction gives a pod the grace period that it says; a second one of a pod that
// is terminating makes it shorter, whatever its budgets say, and never longer.
func TestEvictionsWithAGracePeriod(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	function, err := direct.Connect(direct.Connection{Kubeconfig: restricted(t, c), UserAgent: "weir-test"})
	if err != nil {
		t.Fatal(err)
	}
	scaler := kube.NewClient(clients(t, c), kube.ClientOptions{})
	for name, evict := range map[string]func(context.Context, *model.Pod, time.Duration) error{
		"scaler": scaler.Evict,
		"function": func(ctx context.Context, p *model.Pod, grace time.Duration) error {
			o, err := function.Evict(ctx, p, grace)
			if err == nil && o != drain.Accepted {
				err = fmt.Errorf("answer %s", o)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			evictsWithGrace(t, c, evict)
		})
	}
}

func evictsWithGrace(t *testing.T, c *harness.ControlPlane, evict func(context.Context, *model.Pod, time.Duration) error) {
	ns, ctx := c.Namespace(t), t.Context()
	if _, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Client.CoreV1().Nodes().Delete(context.Background(), ns, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	type end struct{ Given, From time.Duration }
	ends := func(p *model.Pod) end {
		t.Helper()
		o, err := c.Client.CoreV1().Pods(ns).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil || o.DeletionGracePeriodSeconds == nil {
			t.Fatalf("pod %s: %v, grace period %v", p.Name, err, o.DeletionGracePeriodSeconds)
		}
		given := time.Duration(*o.DeletionGracePeriodSeconds) * time.Second
		return end{given, o.DeletionTimestamp.Sub(o.CreationTimestamp.Time) - given}
	}
	must := func(p *model.Pod, grace time.Duration) {
		t.Helper()
		if err := evict(ctx, p, grace); err != nil {
			t.Errorf("%s, %s: %v", p.Name, grace, err)
		}
	}
	plain, held := longLived(t, c, ns, "plain"), longLived(t, c, ns, "held")
	must(plain, 0)
	first := ends(plain)
	if first.Given != 10*time.Minute {
		t.Errorf("its own grace period: %s", first.Given)
	}
	must(held, 90*time.Second)
	if got := ends(held).Given; got != 90*time.Second {
		t.Errorf("given 1m30s: %s", got)
	}
	// From here on their budgets allow nothing, and one of them has two.
	c.Apply(t, ns, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: long}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: one}
spec: {maxUnavailable: 0, selector: {matchLabels: {name: held}}}
`)
	for _, step := range []struct {
		pod         *model.Pod
		grace, want time.Duration
	}{
		{plain, 58 * time.Second, 58 * time.Second},
		{plain, 10 * time.Minute, 58 * time.Second}, // never longer
		{plain, 0, 58 * time.Second},
		{plain, time.Millisecond, time.Second}, // never nothing
		{held, 20 * time.Second, 20 * time.Second},
	} {
		must(step.pod, step.grace)
		if got := ends(step.pod).Given; got != step.want {
			t.Errorf("%s evicted with %s has %s, want %s", step.pod.Name, step.grace, got, step.want)
		}
	}
	// The server counts from the first deletion, which is what drains make up for.
	if d := cmp.Diff(first.From, ends(plain).From); d != "" {
		t.Errorf("deleted since (-before +after the cuts)\n%s", d)
	}
}

// longLived is a running pod that asks for ten minutes to end.
func longLived(t *testing.T, c *harness.ControlPlane, ns, name string) *model.Pod {
	t.Helper()
	own := int64(600)
	pods := c.Client.CoreV1().Pods(ns)
	o, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "long", "name": name}},
		Spec:       corev1.PodSpec{NodeName: ns, TerminationGracePeriodSeconds: &own, Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	if _, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	return &model.Pod{Namespace: ns, Name: name, UID: string(o.UID)}
}
