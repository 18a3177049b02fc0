package convert_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/kube/convert"
)

// Whether a node's labels satisfy a pod's node selector and required node affinity is
// what kube-scheduler's own helper says, for whatever selectors, terms and labels.
func TestTermsAgreeWithKubeSchedulersHelper(t *testing.T) {
	t.Parallel()
	keys := []string{"team", "tier", "example.com/size", "topology.kubernetes.io/zone"}
	values := []string{"a", "b", "c", "0", "1", "2", "5", "07", "10", "99999999999999999999"}
	expression := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
		e := corev1.NodeSelectorRequirement{Key: rapid.SampledFrom(keys).Draw(t, "key"), Operator: rapid.SampledFrom([]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
			corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt}).Draw(t, "operator")}
		switch e.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			e.Values = rapid.SliceOfN(rapid.SampledFrom(values), 1, 4).Draw(t, "values")
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			e.Values = []string{fmt.Sprint(rapid.IntRange(0, 11).Draw(t, "bound"))}
		}
		return e
	})
	labels := rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom(append([]string{"-3", "", "x"}, values...)), 0, 4)
	agreed := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}},
			NodeSelector: rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom(values), 0, 1).Draw(t, "nodeSelector")}}
		if n := rapid.IntRange(0, 3).Draw(t, "terms"); n > 0 {
			sel := &corev1.NodeSelector{}
			for range n {
				sel.NodeSelectorTerms = append(sel.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: rapid.SliceOfN(expression, 0, 3).Draw(t, "expressions")})
			}
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: sel}}
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels.Draw(t, "labels")}}
		want, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil {
			t.Skipf("the helper refuses the pod: %v", err)
		}
		m, err := convert.Pod(pod)
		if err != nil {
			t.Fatalf("%v", err)
		}
		got := false
		for _, term := range m.Terms {
			got = got || term.LabelsSatisfy(node.Labels) == nil
		}
		if m.Invalid != "" || len(m.Unsupported) > 0 {
			got = false // it can run nowhere, and is told why
		}
		if got != want {
			t.Fatalf("labels %v: ours %t, the helper's %t\nterms %v, invalid %q\npod %+v", node.Labels, got, want, m.Terms, m.Invalid, pod.Spec)
		}
		agreed[got]++
	})
	if agreed[true] < 10 || agreed[false] < 10 {
		t.Errorf("the draws say little: %v", agreed)
	}
}
