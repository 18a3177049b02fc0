package fakekubelet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	t0 = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	t1 = metav1.NewTime(t0.Add(time.Minute))
)

func noIP() string { panic("an address was asked for") }

func TestRunningStatusAddresses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod   corev1.Pod
		newIP func() string
		want  string
	}{
		"new":          {corev1.Pod{}, func() string { return "10.2.0.9" }, "10.2.0.9"},
		"keeps its":    {corev1.Pod{Status: corev1.PodStatus{PodIP: "10.2.0.3"}}, noIP, "10.2.0.3"},
		"host network": {corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true}}, noIP, "10.1.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := runningStatus(&tc.pod, "10.1.0.1", tc.newIP, t0)
			if st.PodIP != tc.want || st.HostIP != "10.1.0.1" {
				t.Errorf("pod %s host %s, want %s and 10.1.0.1", st.PodIP, st.HostIP, tc.want)
			}
		})
	}
}

func TestRunningStatusReadiness(t *testing.T) {
	t.Parallel()
	gate := corev1.PodConditionType("example.com/gate")
	for name, tc := range map[string]struct {
		pod               corev1.Pod
		containers, ready corev1.ConditionStatus
	}{
		"plain":     {corev1.Pod{}, corev1.ConditionTrue, corev1.ConditionTrue},
		"not ready": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationNotReady: "true"}}}, corev1.ConditionFalse, corev1.ConditionFalse},
		"gate shut": {corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}}}}, corev1.ConditionTrue, corev1.ConditionFalse},
		"gate open": {corev1.Pod{
			Spec:   corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: gate, Status: corev1.ConditionTrue}}},
		}, corev1.ConditionTrue, corev1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := runningStatus(&tc.pod, "10.1.0.1", func() string { return "10.2.0.1" }, t0)
			after := &corev1.Pod{Status: st}
			if got := conditionStatus(after, corev1.ContainersReady); got != tc.containers {
				t.Errorf("containers ready %s, want %s", got, tc.containers)
			}
			if got := conditionStatus(after, corev1.PodReady); got != tc.ready {
				t.Errorf("ready %s, want %s", got, tc.ready)
			}
		})
	}
}

func TestInitContainersEndAndSidecarsRun(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers:     []corev1.Container{{Name: "main"}},
	}}
	st := runningStatus(pod, "10.1.0.1", func() string { return "10.2.0.1" }, t0)
	running := map[string]bool{}
	for _, c := range append(st.InitContainerStatuses, st.ContainerStatuses...) {
		running[c.Name] = c.State.Running != nil
	}
	if diff := cmp.Diff(map[string]bool{"init": false, "sidecar": true, "main": true}, running); diff != "" {
		t.Error(diff)
	}
}

func TestConditionsKeepTheirTransitionTime(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Status: runningStatus(&corev1.Pod{}, "10.1.0.1", func() string { return "10.2.0.1" }, t0)}
	same := runningStatus(pod, "10.1.0.1", noIP, t1)
	for _, c := range same.Conditions {
		if !c.LastTransitionTime.Equal(&t0) {
			t.Errorf("%s: time %v moved without a transition", c.Type, c.LastTransitionTime)
		}
	}
	ended := endedStatus(pod, corev1.PodFailed, exitKilled, t1)
	for _, c := range ended.Conditions {
		if !c.LastTransitionTime.Equal(&t1) || c.Status != corev1.ConditionFalse {
			t.Errorf("%s=%s since %v, want False since %v", c.Type, c.Status, c.LastTransitionTime, t1)
		}
	}
}
