package fakekubelet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// containersReady is whether the containers of the running pod are to be ready.
func containersReady(pod *corev1.Pod) bool { return pod.Annotations[AnnotationNotReady] != "true" }

// wantsReady is whether the running pod is to be Ready: its containers are and so are all its readiness gates.
func wantsReady(pod *corev1.Pod) bool {
	if !containersReady(pod) {
		return false
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionStatus(pod, gate.ConditionType) != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

func conditionStatus(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func boolStatus(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// reportsReadiness is whether the pod's status already says what it should.
func reportsReadiness(pod *corev1.Pod) bool {
	return conditionStatus(pod, corev1.PodReady) == boolStatus(wantsReady(pod)) &&
		conditionStatus(pod, corev1.ContainersReady) == boolStatus(containersReady(pod))
}

// runningStatus is the kubelet's part of the status of a pod whose containers run.
func runningStatus(pod *corev1.Pod, hostIP string, newIP func() string, now metav1.Time) corev1.PodStatus {
	st := corev1.PodStatus{
		ObservedGeneration: pod.Generation,
		Phase:              corev1.PodRunning,
		StartTime:          pod.Status.StartTime,
		HostIP:             hostIP, HostIPs: []corev1.HostIP{{IP: hostIP}},
		PodIP: pod.Status.PodIP,
	}
	if st.StartTime == nil {
		st.StartTime = &now
	}
	switch {
	case pod.Spec.HostNetwork:
		st.PodIP = hostIP
	case st.PodIP == "":
		st.PodIP = newIP()
	}
	st.PodIPs = []corev1.PodIP{{IP: st.PodIP}}
	for _, c := range []struct {
		kind corev1.PodConditionType
		ok   bool
	}{
		{corev1.PodReadyToStartContainers, true}, {corev1.PodInitialized, true},
		{corev1.ContainersReady, containersReady(pod)}, {corev1.PodReady, wantsReady(pod)},
	} {
		st.Conditions = append(st.Conditions, condition(pod, c.kind, boolStatus(c.ok), "", now))
	}
	started := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *st.StartTime}}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways { // a sidecar
			st.InitContainerStatuses = append(st.InitContainerStatuses, containerStatus(c, started, true))
			continue
		}
		st.InitContainerStatuses = append(st.InitContainerStatuses, containerStatus(c, ended(0, "Completed", *st.StartTime, now), true))
	}
	for i := range pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, containerStatus(&pod.Spec.Containers[i], started, containersReady(pod)))
	}
	return st
}

// endedStatus is the kubelet's part of the status of a pod whose containers all ended with the exit code.
func endedStatus(pod *corev1.Pod, phase corev1.PodPhase, code int32, now metav1.Time) corev1.PodStatus {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	why := "PodFailed"
	if phase == corev1.PodSucceeded {
		why = "PodCompleted"
	}
	began := ptr.Deref(pod.Status.StartTime, now)
	st := corev1.PodStatus{ObservedGeneration: pod.Generation, Phase: phase, StartTime: &began}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		st.Conditions = append(st.Conditions, condition(pod, kind, corev1.ConditionFalse, why, now))
	}
	for i := range pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, containerStatus(&pod.Spec.Containers[i], ended(code, reason, began, now), false))
	}
	return st
}

// condition keeps the time of the last transition where the status stays.
func condition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string, now metav1.Time) corev1.PodCondition {
	since := now
	for _, c := range pod.Status.Conditions {
		if c.Type == kind && c.Status == status {
			since = c.LastTransitionTime
		}
	}
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: since, ObservedGeneration: pod.Generation}
}

func ended(code int32, reason string, began, now metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: began, FinishedAt: now}}
}

func containerStatus(c *corev1.Container, state corev1.ContainerState, ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "fake://" + c.Name,
		State: state, Ready: ready, Started: ptr.To(state.Running != nil),
	}
}
