package v1_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/weir-project/weir/core/api/v1"
)

// The expected numbers are those that Karpenter writes for hash version v3: a pool that changes hands must not drift.
func TestNodePoolHashIsThatOfVersionV3(t *testing.T) {
	t.Parallel()
	spec := func(p *v1.NodePool) *v1.NodeClaimTemplateSpec { return &p.Spec.Template.Spec }
	taint := func(key, value string) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
	}
	for name, tc := range map[string]struct {
		change func(p *v1.NodePool)
		want   string
	}{
		"base":                  {func(*v1.NodePool) {}, "6821555240594823858"},
		"other text of 720h":    {func(p *v1.NodePool) { spec(p).ExpireAfter = mustDuration(t, "43200m") }, "6821555240594823858"},
		"requirements":          {func(p *v1.NodePool) { spec(p).Requirements = []v1.Requirement{{Key: "a", Operator: v1.OpExists}} }, "6821555240594823858"},
		"label":                 {func(p *v1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "a"} }, "1617844334411263980"},
		"annotation":            {func(p *v1.NodePool) { p.Spec.Template.Annotations = map[string]string{"x": "y"} }, "6629122280161281850"},
		"taint":                 {func(p *v1.NodePool) { spec(p).Taints = []corev1.Taint{taint("dedicated", "gpu")} }, "13579916569126205748"},
		"grace period":          {func(p *v1.NodePool) { spec(p).TerminationGracePeriod = &metav1.Duration{Duration: time.Hour} }, "14948894070871102041"},
		"never expires":         {func(p *v1.NodePool) { spec(p).ExpireAfter = mustDuration(t, "Never") }, "17369979337536258260"},
		"startup taints":        {func(p *v1.NodePool) { spec(p).StartupTaints = []corev1.Taint{taint("a", ""), taint("b", "")} }, "4531144596224033360"},
		"startup taints, b a":   {func(p *v1.NodePool) { spec(p).StartupTaints = []corev1.Taint{taint("b", ""), taint("a", "")} }, "4531144596224033360"},
		"outside the template":  {func(p *v1.NodePool) { weight := int32(5); p.Spec.Weight = &weight }, "6821555240594823858"},
		"disruption is outside": {func(p *v1.NodePool) { p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "0"}} }, "6821555240594823858"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := &v1.NodePool{}
			pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
			pool.Spec.Template.Spec.ExpireAfter = mustDuration(t, "720h")
			tc.change(pool)
			got, err := pool.Hash()
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("hash %s, want %s", got, tc.want)
			}
		})
	}
}

func mustDuration(t *testing.T, text string) v1.NillableDuration {
	t.Helper()
	d, err := v1.ParseNillableDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
