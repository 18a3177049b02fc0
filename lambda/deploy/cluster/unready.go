package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unready says of the pods of a release what keeps them from being ready, "" where there
// are none or they are.
func (c *Cluster) Unready(ctx context.Context, namespace, release string) string {
	pods, err := c.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release})
	if err != nil {
		return "its pods cannot be listed: " + err.Error()
	}
	var out []string
	for _, p := range pods.Items {
		if why := unready(&p); why != "" {
			out = append(out, fmt.Sprintf("pod %s %s", p.Name, why))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func unready(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing":
			return fmt.Sprintf("waits: %s: %s", s.State.Waiting.Reason, s.State.Waiting.Message)
		case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
			return fmt.Sprintf("has ended with code %d: %s", s.State.Terminated.ExitCode, s.State.Terminated.Message)
		}
	}
	for _, k := range p.Status.Conditions {
		if k.Status != corev1.ConditionTrue && (k.Type == corev1.PodScheduled || k.Type == corev1.PodReady) {
			return fmt.Sprintf("is not %s: %s: %s", strings.TrimPrefix(string(k.Type), "Pod"), k.Reason, k.Message)
		}
	}
	return ""
}
