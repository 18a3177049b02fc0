package convert_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// kube-scheduler counts a pod for a required affinity only if it matches all terms.
func TestAffinityTermsAreMatchedTogether(t *testing.T) {
	t.Parallel()
	term := func(key, app string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{app: "yes"}}}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		term("topology.kubernetes.io/zone", "a"), term("kubernetes.io/hostname", "b")}}}
	got, err := convert.Pod(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Topology.Affinity) != 2 || got.Topology.Affinity[0].Key == got.Topology.Affinity[1].Key {
		t.Fatalf("%+v", got.Topology.Affinity)
	}
	for _, a := range got.Topology.Affinity {
		for _, c := range []struct {
			labels map[string]string
			want   bool
		}{{map[string]string{"a": "yes"}, false}, {map[string]string{"b": "yes"}, false}, {map[string]string{"a": "yes", "b": "yes"}, true}} {
			if a.Selector.Picks(&model.Pod{Namespace: "ns", Labels: c.labels}) != c.want {
				t.Errorf("over %s, labels %v: want %t", a.Key, c.labels, c.want)
			}
		}
	}
}
