package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// Every preference of a spec is carried over: weights, order, namespaces, keys of
// labels, policies.
func TestPodPreferences(t *testing.T) {
	t.Parallel()
	p, err := convert.Pod(podOf(t, `
metadata: {namespace: ns, name: p, labels: {app: web, rev: r1}}
spec:
  containers: [{name: a}]
  topologySpreadConstraints:
  - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [rev], nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
  - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 5, preference: {matchExpressions: [{key: a, operator: In, values: [x]}]}}
      - {weight: 7, preference: {matchExpressions: [{key: b, operator: Gt, values: ["3"]}, {key: failure-domain.beta.kubernetes.io/zone, operator: Exists}]}}
      - {weight: 5, preference: {matchExpressions: [{key: c, operator: Exists}]}}
      - {weight: 100, preference: {matchExpressions: [{key: d, operator: In, values: [x]}, {key: d, operator: In, values: [y]}]}}
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: db}}, namespaces: [other]}}
      - {weight: 2, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: web}}, namespaceSelector: {}, matchLabelKeys: [rev]}}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, mismatchLabelKeys: [rev]}}
      - {weight: 100, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range p.Preferred {
		got = append(got, fmt.Sprintf("node %d %s", x.Weight, x.Set))
	}
	for _, x := range p.Soft.Affinity {
		got = append(got, fmt.Sprintf("near %d %s %s", x.Weight, x.Key, x.Selector.ID))
	}
	for _, x := range p.Soft.AntiAffinity {
		got = append(got, fmt.Sprintf("far %d %s %s", x.Weight, x.Key, x.Selector.ID))
	}
	for _, s := range p.Soft.Spreads {
		got = append(got, fmt.Sprintf("spread %d %s %s %t %t", s.MaxSkew, s.Key, s.Selector.ID, s.HonorAffinity, s.HonorTaints))
	}
	want := []string{
		"node 7 b Gt [3], topology.kubernetes.io/zone Exists",
		"node 5 a In [x]",
		"node 5 c Exists",
		"near 2 zone */app=web,rev in (r1)",
		"near 1 zone other/app=db",
		"far 100 kubernetes.io/hostname ns/app=web",
		"far 1 kubernetes.io/hostname ns/app=web,rev notin (r1)",
		"spread 2 zone ns/app=web,rev in (r1) false true",
		"spread 1 kubernetes.io/hostname ns/app=web true false",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(p.Topology.Spreads) != 1 || p.Topology.Spreads[0].MaxSkew != 1 || len(p.Topology.Affinity)+len(p.Topology.AntiAffinity) != 0 {
		t.Errorf("preferences are no requirements: %+v", p.Topology)
	}
}

func TestPodWithPreferencesOnlyAsksNothing(t *testing.T) {
	t.Parallel()
	p, err := convert.Pod(podOf(t, `
metadata: {namespace: ns, name: p}
spec: {containers: [{name: a}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.Topology != nil || len(p.Soft.Spreads) != 1 {
		t.Errorf("%+v %+v", p.Topology, p.Soft)
	}
}

func TestPreferencesWithASelectorThatMakesNoSense(t *testing.T) {
	t.Parallel()
	const term = `{topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: Like, values: [x]}]}}`
	for field, spec := range map[string]string{
		"spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector":     "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: " + term + "}]}}",
		"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector": "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: " + term + "}]}}",
		"spec.topologySpreadConstraints[0].labelSelector":                                                                "topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, " + term[1:] + "]",
	} {
		_, err := convert.Pod(podOf(t, "spec: {containers: [{name: a}], "+spec+"}"))
		if err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Tolerations mean what kube-scheduler makes of them, the operators that compare
// numbers included.
func TestTolerationsMatchLikeTheScheduler(t *testing.T) {
	t.Parallel()
	value := rapid.SampledFrom([]string{"", "1", "2", "10", "-3", "007", "+2", "x", "9223372036854775808"})
	key := rapid.SampledFrom([]string{"a", "b"})
	rapid.Check(t, func(t *rapid.T) {
		tol := corev1.Toleration{
			Key:      key.Draw(t, "key"),
			Operator: rapid.SampledFrom([]corev1.TolerationOperator{"", "Equal", "Exists", "Lt", "Gt"}).Draw(t, "operator"),
			Value:    value.Draw(t, "value"),
			Effect:   rapid.SampledFrom([]corev1.TaintEffect{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}).Draw(t, "effect"),
		}
		if tol.Operator == "Exists" {
			tol.Value = ""
			tol.Key = rapid.SampledFrom([]string{"", "a"}).Draw(t, "any key")
		}
		taint := corev1.Taint{Key: key.Draw(t, "taint"), Value: value.Draw(t, "its value"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{"NoSchedule", "PreferNoSchedule", "NoExecute"}).Draw(t, "its effect")}
		want := tol.ToleratesTaint(klog.Background(), &taint, true)
		pod := &model.Pod{Tolerations: convert.Tolerations([]corev1.Toleration{tol})}
		if got := pod.Tolerates(convert.Taints([]corev1.Taint{taint})[0]); got != want {
			t.Errorf("%+v and %+v: got %t, the API says %t", tol, taint, got, want)
		}
	})
}
