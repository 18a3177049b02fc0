package test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// connect reaches the cluster of KUBECONFIG, else starts the devcluster of
// WEIR_DEVCLUSTER; with neither the test is skipped. The Makefile sets the latter.
func connect(t *testing.T) *rest.Config {
	t.Helper()
	file := os.Getenv("KUBECONFIG")
	if file == "" {
		binary := os.Getenv("WEIR_DEVCLUSTER")
		if binary == "" {
			t.Skip("neither KUBECONFIG nor WEIR_DEVCLUSTER is set")
		}
		file = devcluster(t, binary)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 100, 100
	return cfg
}

func devcluster(t *testing.T, binary string) string {
	t.Helper()
	cmd := exec.Command(binary, "up", "--with-parent", "--dir", t.TempDir())
	var said strings.Builder
	cmd.Stderr = &said
	parent, err := cmd.StdinPipe() // it ends with us: the pipe closes
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
		if err != nil {
			t.Errorf("devcluster: %v\n%s", err, said.String())
		}
		parent.Close()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "READY ")
		if !ok {
			continue
		}
		for _, field := range strings.Fields(rest) {
			if path, ok := strings.CutPrefix(field, "kubeconfig="); ok {
				return path
			}
		}
	}
	t.Fatalf("devcluster is not ready: %v", lines.Err())
	return ""
}

// TestServerAcceptsEverything has a real API server check every object of both charts,
// server-side and strictly, and apply none but the namespaces they go to.
func TestServerAcceptsEverything(t *testing.T) {
	cfg := connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	ensure := func(name string) {
		if name == "" || made[name] {
			return
		}
		made[name] = true
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
		if _, err := namespaces.Apply(ctx, name, u, metav1.ApplyOptions{FieldManager: "chart-test"}); err != nil {
			t.Fatalf("namespace %s: %v", name, err)
		}
	}
	objects := must(t, crdsDir, nil)
	objects = append(objects, must(t, chartDir, with(map[string]any{"interruption": map[string]any{"enabled": true}}))...)
	objects = append(objects, must(t, chartDir, onEC2(nil))...)
	if len(objects) < 15 {
		t.Fatalf("only %d objects", len(objects))
	}
	for _, u := range objects {
		mapping, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		if err != nil {
			t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
			continue
		}
		ensure(u.GetNamespace())
		data, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		force := true
		_, err = client.Resource(mapping.Resource).Namespace(u.GetNamespace()).Patch(ctx, u.GetName(), types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "chart-test", Force: &force, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}
