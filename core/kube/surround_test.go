package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/cluster"
)

// TestPodsHearOfTheirSurroundings feeds the watcher as its caches do and follows what
// the sink hears of pods that depend on namespaces, services and controllers.
func TestPodsHearOfTheirSurroundings(t *testing.T) {
	t.Parallel()
	clients, err := Connect(&rest.Config{Host: "https://server.invalid"}) // nothing is asked of it
	if err != nil {
		t.Fatal(err)
	}
	var s sunk
	w := NewWatcher(clients, s.take, WatchOptions{OnError: func(kind, name string, err error) { t.Errorf("%s %s: %v", kind, name, err) },
		SpreadDefaults: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}})
	kinds := map[string]*kind{}
	for _, k := range w.kinds {
		kinds[k.name] = k
	}
	version := 0
	feed := func(name string, obj runtime.Object) {
		t.Helper()
		version++
		obj.(metav1.Object).SetResourceVersion(fmt.Sprint(version))
		e, err := w.transform(kinds[name])(obj)
		if err != nil {
			t.Fatal(err)
		}
		handler{w, kinds[name]}.OnAdd(e, false)
	}
	remove := func(name, ns, object string) {
		handler{w, kinds[name]}.OnDelete(&entry{namespace: ns, name: object})
	}
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}
	}
	spread := func(node string) *corev1.Pod { // has no constraint of its own
		yes := true
		p := &corev1.Pod{ObjectMeta: meta("spread", map[string]string{"app": "web", "hash": "1"}), Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c"}}}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", Controller: &yes}}
		return p
	}
	near := &corev1.Pod{ObjectMeta: meta("near", nil), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "own", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{}}},
		Volumes:                   []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
		Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}}}}}}}
	namespace := func(name, team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	set := func(labels map[string]string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: meta("web-1", nil), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"a pod without constraints", func() { feed("Pod", spread("")) }, []string{"spread"}},
		{"a service of others", func() {
			feed("Service", &corev1.Service{ObjectMeta: meta("db", nil), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}})
		}, nil},
		{"its service", func() {
			feed("Service", &corev1.Service{ObjectMeta: meta("web", nil), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
		}, []string{"spread spreads ns/app=web"}},
		{"its controller", func() { feed("ReplicaSet", set(map[string]string{"hash": "1"})) }, []string{"spread spreads ns/app=web,hash=1"}},
		{"again, the same", func() { feed("ReplicaSet", set(map[string]string{"hash": "1"})) }, nil},
		{"the service goes", func() { remove("Service", "ns", "web") }, []string{"spread spreads ns/hash=1"}},
		{"bound", func() { feed("Pod", spread("n1")) }, []string{"spread"}},
		{"the controller goes, which does not concern it any more", func() { remove("ReplicaSet", "ns", "web-1") }, nil},
		{"a pod that looks for namespaces, none of which is known", func() { feed("Pod", near) }, []string{"near affinity claim missing"}},
		{"a namespace of others", func() { feed("Namespace", namespace("x", "blue")) }, []string{"near near / claim missing"}},
		{"one that it looks for", func() { feed("Namespace", namespace("y", "red")) }, []string{"near near y/ claim missing"}},
		{"another", func() { feed("Namespace", namespace("x", "red")) }, []string{"near near x,y/ claim missing"}},
		{"which goes", func() { remove("Namespace", "", "y") }, []string{"near near x/ claim missing"}},
		{"its claim, which waits for a class", func() {
			feed("PersistentVolumeClaim", &corev1.PersistentVolumeClaim{ObjectMeta: meta("c", nil)})
		}, []string{"near near x/ claim not bound"}},
		{"the pod goes", func() { remove("Pod", "ns", "near") }, []string{"no ns/near"}},
		{"a namespace that concerns nobody now", func() { feed("Namespace", namespace("z", "red")) }, nil},
	} {
		s.changes = nil
		step.do()
		var got []string
		for _, c := range s.changes {
			switch c := c.(type) {
			case cluster.UpsertPod:
				text := c.Pod.Name
				if c.Pod.Topology != nil {
					for _, x := range c.Pod.Topology.Spreads {
						text += " spreads " + x.Selector.ID
					}
					for _, x := range c.Pod.Topology.Affinity {
						if len(c.Pod.Unsupported) < 2 {
							text += " near " + x.Selector.ID
						}
					}
				}
				for _, u := range c.Pod.Unsupported {
					phrase, _, _ := strings.Cut(u.Message, ":")
					if strings.HasPrefix(phrase, "required pod affinity") {
						phrase = "affinity"
					}
					text += " " + phrase
				}
				got = append(got, text)
			case cluster.DeletePod:
				got = append(got, "no "+c.ID)
			default:
				t.Errorf("%s: %T", step.name, c)
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s: %s", step.name, d)
		}
	}
	if n := len(w.around.pods); n != 0 {
		t.Errorf("%d pods are remembered for nothing", n)
	}
}
