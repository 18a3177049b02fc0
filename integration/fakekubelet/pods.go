package fakekubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// podMemory is what a kubelet knows of a pod that the pod does not say itself.
type podMemory struct {
	seen   time.Time // first seen while its node could run it
	stopAt time.Time // zero: not stopping
	grace  int64     // seconds, at the time stopAt was set
}

func (k *Kubelets) enqueue(obj any) {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		k.log.Error("pod event without a name", zap.Error(err))
		return
	}
	k.queue.Add(name)
}

// forget drops the memory of a pod that is gone.
func (k *Kubelets) forget(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		k.log.Error("pod event with another object", zap.String("type", fmt.Sprintf("%T", obj)))
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.seen, pod.UID)
}

// enqueueNode has all pods of a node looked at, after its state has changed.
func (k *Kubelets) enqueueNode(name string) {
	pods, err := k.pods.GetIndexer().ByIndex(byNode, name)
	if err != nil {
		k.log.Error("pods of node", zap.String("node", name), zap.Error(err))
		return
	}
	for _, pod := range pods {
		k.enqueue(pod)
	}
}

// work handles one pod and reports whether there may be more.
func (k *Kubelets) work(ctx context.Context) bool {
	name, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(name)
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	again, err := k.syncPod(callCtx, name)
	switch {
	case err != nil && ctx.Err() == nil:
		k.log.Warn("pod failed, trying again", zap.Stringer("pod", name), zap.Error(err))
		k.queue.AddRateLimited(name)
	case err == nil:
		k.queue.Forget(name)
		if again > 0 {
			k.queue.AddAfter(name, again)
		}
	}
	return true
}

// syncPod does what is due for a pod and returns when to look again, 0 for at its next change.
func (k *Kubelets) syncPod(ctx context.Context, name cache.ObjectName) (time.Duration, error) {
	obj, exists, err := k.pods.GetIndexer().GetByKey(name.String())
	if err != nil || !exists {
		return 0, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return 0, fmt.Errorf("pod informer holds a %T", obj)
	}
	n, ok := k.Node(pod.Spec.NodeName)
	if !ok || !n.runsPod(pod) {
		return 0, nil // looked at again when the node is there, ready, or back
	}
	now := time.Now()
	m := k.remember(pod, now)
	switch {
	case pod.DeletionTimestamp != nil:
		return k.stopPod(ctx, pod, m, now)
	case isTerminal(pod):
		return 0, nil
	case pod.Status.Phase == corev1.PodPending:
		if wait := time.Until(m.seen.Add(k.podDuration(pod, AnnotationStartDelay, k.cfg.PodStartDelay))); wait > 0 {
			return wait, nil
		}
		return 0, k.patchStatus(ctx, pod, runningStatus(pod, n.spec.InternalIP, k.podIP, metav1.NewTime(now)))
	case !reportsReadiness(pod):
		// Also after the node was away: the control plane has marked its pods not ready.
		return 0, k.patchStatus(ctx, pod, runningStatus(pod, n.spec.InternalIP, k.podIP, metav1.NewTime(now)))
	}
	if _, ok := pod.Annotations[AnnotationCompleteAfter]; !ok || pod.Status.StartTime == nil {
		return 0, nil
	}
	const never = time.Duration(-1)
	after := k.podDuration(pod, AnnotationCompleteAfter, never)
	if after == never {
		return 0, nil
	}
	if wait := time.Until(pod.Status.StartTime.Add(after)); wait > 0 {
		return wait, nil
	}
	return 0, k.patchStatus(ctx, pod, endedStatus(pod, corev1.PodSucceeded, 0, metav1.NewTime(now)))
}

func (k *Kubelets) remember(pod *corev1.Pod, now time.Time) *podMemory {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.seen[pod.UID]
	if !ok {
		m = &podMemory{seen: now}
		k.seen[pod.UID] = m
	}
	return m
}

// Exit codes of containers that were told to stop, and that had to be killed.
const (
	exitTerminated = 128 + 15
	exitKilled     = 128 + 9
)

// stopPod ends a pod that is being deleted after its own time or its grace period, whichever is shorter. A grace period
// that is shortened meanwhile counts from then. Only one worker has the pod, so m needs no lock.
func (k *Kubelets) stopPod(ctx context.Context, pod *corev1.Pod, m *podMemory, now time.Time) (time.Duration, error) {
	grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
	graceTime := time.Duration(grace) * time.Second
	stopTime := k.podDuration(pod, AnnotationStopTime, k.cfg.PodStopTime)
	running := pod.Status.Phase == corev1.PodRunning
	if running {
		if m.stopAt.IsZero() {
			m.stopAt, m.grace = now.Add(min(graceTime, stopTime)), grace
		} else if grace < m.grace {
			m.grace = grace
			if cut := now.Add(graceTime); cut.Before(m.stopAt) {
				m.stopAt = cut
			}
		}
		if wait := m.stopAt.Sub(now); wait > 0 {
			return wait, nil
		}
		code := int32(exitTerminated)
		if stopTime > graceTime {
			code = exitKilled
		}
		if err := k.patchStatus(ctx, pod, endedStatus(pod, corev1.PodFailed, code, metav1.NewTime(now))); err != nil {
			return 0, err
		}
	}
	if grace == 0 && len(pod.Finalizers) > 0 {
		return 0, nil // stopped; the rest is for the owners of the finalizers
	}
	err := k.cfg.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	return 0, ignoreGone(err)
}

// patchStatus writes the parts of the status that a kubelet owns. A pod that is gone, or another one of the same name, is
// no error: the informer tells about it.
func (k *Kubelets) patchStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode pod status: %w", err)
	}
	_, err = k.cfg.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return ignoreGone(err)
}

// ignoreGone drops the errors that say that the pod is not there any more. A conflict says so too: the only thing that is
// asked for is the pod's uid.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// podDuration reads a duration of an annotation. A bad one is logged and the default taken, as nobody waits for an answer.
func (k *Kubelets) podDuration(pod *corev1.Pod, key string, def time.Duration) time.Duration {
	text, ok := pod.Annotations[key]
	if !ok {
		return def
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		k.log.Error("annotation is no duration of 0 or more, using the default", zap.String("namespace", pod.Namespace), zap.String("pod", pod.Name),
			zap.String("annotation", key), zap.String("value", text), zap.Duration("default", def))
		return def
	}
	return d
}
