package kube

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/core/cluster"
)

func livePod(i int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i/50)
	yes, now := true, metav1.Now()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-7d4b9c-%05d", app, i), Namespace: fmt.Sprintf("ns-%d", i%40), UID: types.UID(fmt.Sprintf("5f0c1f6a-7f64-4d2e-9e0f-%012d", i)),
			ResourceVersion: fmt.Sprint(1000 + i), Labels: map[string]string{"app": app, "pod-template-hash": "7d4b9c"}, CreationTimestamp: now,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d4b9c", UID: types.UID(app), Controller: &yes}},
			Annotations:     map[string]string{"note": "x"},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i%5000/250, i%250),
			Containers: []corev1.Container{{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: apiresource.MustParse("250m"), corev1.ResourceMemory: apiresource.MustParse("256Mi")}}}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// BenchmarkPodInMemory tells what a running pod weighs in the watcher, model value included.
func BenchmarkPodInMemory(b *testing.B) {
	w := &Watcher{opts: WatchOptions{OnError: func(string, string, error) {}, Now: time.Now}}
	w.intern.init()
	k := &kind{name: "Pod", upsert: w.upsertPod, gone: func(ns, name string) cluster.Change { return cluster.DeletePod{ID: ns + "/" + name} }}
	convert := w.transform(k)
	kept := make([]any, 0, b.N)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	for i := range b.N {
		e, err := convert(livePod(i))
		if err != nil {
			b.Fatal(err)
		}
		kept = append(kept, e)
	}
	b.StopTimer()
	b.ReportMetric((heap()-before)/float64(b.N), "heap-B/pod")
	runtime.KeepAlive(kept)
}
