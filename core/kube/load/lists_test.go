package load

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every kind that files may have is read of a cluster, too, or makes pods, which are there.
func TestClusterKinds(t *testing.T) {
	t.Parallel()
	made := []string{"Deployment", "Job"}
	want := slices.Concat([]string{"Pod"}, slices.Collect(maps.Keys(kinds)), slices.Collect(maps.Keys(spreaders)))
	var got []string
	for _, k := range ClusterKinds(true) {
		got = append(got, k.Kind)
		if k.Version == "" {
			t.Errorf("%s has no version", k.Kind)
		}
	}
	got = append(got, made...)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-files +cluster):\n%s", diff)
	}
	for _, k := range ClusterKinds(false) {
		if k.Kind == "Service" || k.Kind == "StatefulSet" {
			t.Errorf("%s is read without default spread constraints", k.Kind)
		}
	}
}

const (
	podPage1 = `{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "x"}, "items": [
		{"metadata": {"name": "a", "namespace": "n", "uid": "1"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}}]}`
	podPage2 = `{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [
		{"metadata": {"name": "b", "namespace": "n", "uid": "2"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}]}`
	nodePage      = `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "node"}}]}`
	namespacePage = `{"kind": "NamespaceList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]}`
	setPage       = `{"kind": "StatefulSetList", "apiVersion": "apps/v1", "items": [{"metadata": {"name": "s", "namespace": "n"},
		"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}]}`
)

func TestLists(t *testing.T) {
	t.Parallel()
	r := NewLists(Options{})
	for i, page := range []string{podPage1, podPage2 + "\n", nodePage, setPage, namespacePage} {
		if next := r.Add("the cluster", []byte(page)); (next == "x") != (i == 0) {
			t.Errorf("page %d says that the next one begins at %q", i, next)
		}
	}
	in, err := r.Input()
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Warnings) > 0 {
		t.Errorf("warnings of what nobody chose: %q", in.Warnings)
	}
	if len(in.Nodes) != 1 || len(in.Nodes[0].Pods) != 1 || in.Nodes[0].Pods[0].Name != "a" {
		t.Errorf("nodes %+v", in.Nodes)
	}
	if len(in.Pods) != 1 || in.Pods[0].Name != "b" {
		t.Errorf("%d pods wait, want b and no replica of the StatefulSet", len(in.Pods))
	}
}

func TestListsRefuse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pages []string
		want  string
	}{
		"nothing":      {[]string{" "}, "pods of the cluster: expected a list, got nothing"},
		"no JSON":      {[]string{"<html>"}, "pods of the cluster: "},
		"cut off":      {[]string{podPage1[:100]}, "not JSON"},
		"another kind": {[]string{`{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}`}, "expected a list of a kind that is read"},
		"twice":        {[]string{podPage1, podPage1}, "is there twice"},
		"a bad field":  {[]string{strings.Replace(podPage1, `"containers"`, `"priority": "x", "containers"`, 1)}, "(Pod n/a): items[0].spec.priority: expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewLists(Options{})
			for _, page := range tt.pages {
				r.Add("pods of the cluster", []byte(page))
			}
			if _, err := r.Input(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
