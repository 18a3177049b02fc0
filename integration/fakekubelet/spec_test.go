package fakekubelet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/fake"
)

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110"),
	}
}

func TestSpecIsValidated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*NodeSpec)
		want   string
	}{
		"good":                   {func(*NodeSpec) {}, ""},
		"no name":                {func(s *NodeSpec) { s.Name = "" }, "name"},
		"name with a slash":      {func(s *NodeSpec) { s.Name = "a/b" }, `name: "a/b"`},
		"no provider id":         {func(s *NodeSpec) { s.ProviderID = "" }, "providerID: is required"},
		"no memory":              {func(s *NodeSpec) { delete(s.Capacity, corev1.ResourceMemory) }, "capacity: memory must be more than 0"},
		"allocatable too large":  {func(s *NodeSpec) { s.Allocatable = resources("3", "1Gi") }, "allocatable: cpu is 3, more than the capacity 2"},
		"negative delay":         {func(s *NodeSpec) { s.Behaviour.JoinDelay = -time.Second }, "behaviour.joinDelay: -1s is negative"},
		"taint without a key":    {func(s *NodeSpec) { s.Behaviour.ClearTaints = []ClearTaint{{}} }, "behaviour.clearTaints[0]"},
		"late resource is early": {func(s *NodeSpec) { s.Behaviour.LateResources = resources("1", "1Gi") }, "is in capacity too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := NodeSpec{Name: "n", ProviderID: "aws:///a/i-1", Capacity: resources("2", "4Gi")}
			tc.change(&spec)
			k, err := New(Config{Client: fake.NewClientset()})
			if err != nil {
				t.Fatal(err)
			}
			n, err := k.Start(t.Context(), spec)
			if n != nil {
				n.Terminate()
			}
			if tc.want == "" && err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("error %v, want one that contains %q", err, tc.want)
			}
		})
	}
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "needs a client") {
		t.Errorf("no client: error %v", err)
	}
	if _, err := New(Config{Client: fake.NewClientset(), PodStopTime: -1}); err == nil || !strings.Contains(err.Error(), "podStopTime") {
		t.Errorf("negative stop time: error %v", err)
	}
}

func TestDefaultsDoNotTouchTheCallersMaps(t *testing.T) {
	t.Parallel()
	given := NodeSpec{Name: "n", ProviderID: "p", Labels: map[string]string{"a": "b"}, Capacity: resources("2", "4Gi")}
	got := given.withDefaults("10.1.0.1")
	if diff := cmp.Diff(map[string]string{"a": "b"}, given.Labels); diff != "" {
		t.Errorf("the caller's labels changed: %s", diff)
	}
	want := map[string]string{"a": "b", "kubernetes.io/hostname": "n", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Error(diff)
	}
	delete(got.Allocatable, corev1.ResourceCPU)
	if _, ok := got.Capacity[corev1.ResourceCPU]; !ok {
		t.Error("capacity and allocatable share a map")
	}
}
