package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// audited is whose calls the devcluster's API server writes down: the scaler of the release.
const audited = "system:serviceaccount:" + namespace + ":" + release

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["` + audited + `"]
  - level: None
`

// controlPlane is the cluster that the tests of this package share.
type controlPlane struct {
	kubeconfig string
	audit      string // file of the audit log; empty where the cluster is not ours
	stop       func() error
}

var (
	planeOnce sync.Once
	plane     *controlPlane
	planeErr  error
)

func TestMain(m *testing.M) {
	code := m.Run()
	if plane != nil && plane.stop != nil {
		if err := plane.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// shared is the cluster of KUBECONFIG, else the devcluster of WEIR_DEVCLUSTER; with
// neither the test is skipped. The Makefile sets the latter.
func shared(t *testing.T) *controlPlane {
	t.Helper()
	file, binary := os.Getenv("KUBECONFIG"), os.Getenv("WEIR_DEVCLUSTER")
	if file == "" && binary == "" {
		t.Skip("neither KUBECONFIG nor WEIR_DEVCLUSTER is set")
	}
	planeOnce.Do(func() {
		if file != "" {
			plane = &controlPlane{kubeconfig: file}
			return
		}
		plane, planeErr = devcluster(binary)
	})
	if planeErr != nil {
		t.Fatal(planeErr)
	}
	return plane
}

func connect(t *testing.T) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", shared(t).kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 100, 100
	return cfg
}

// devcluster starts a control plane with an audit log and the admission plugin that asks
// for rights on the finalizers of owners, as some clusters have it.
func devcluster(binary string) (*controlPlane, error) {
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return nil, err
	}
	p := &controlPlane{audit: filepath.Join(dir, "audit.log")}
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	args := []string{"up", "--with-parent", "--dir", filepath.Join(dir, "state"), "--node-monitor-grace-period", "2m"}
	for _, flag := range []string{"--audit-policy-file=" + policy, "--audit-log-path=" + p.audit, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"} {
		args = append(args, "--extra-arg", "kube-apiserver="+flag)
	}
	cmd := exec.Command(binary, args...)
	var said strings.Builder
	cmd.Stderr = &said
	parent, err := cmd.StdinPipe() // it ends with us: the pipe closes
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.stop = func() error {
		err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
		if err != nil {
			err = fmt.Errorf("devcluster: %w\n%s", err, said.String())
		}
		return errors.Join(err, os.RemoveAll(dir), ignoreClosed(parent.Close()))
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "READY ")
		if !ok {
			continue
		}
		for _, field := range strings.Fields(rest) {
			if path, ok := strings.CutPrefix(field, "kubeconfig="); ok {
				p.kubeconfig = path
				return p, nil
			}
		}
	}
	return nil, errors.Join(fmt.Errorf("devcluster is not ready: %v", lines.Err()), p.stop())
}

// ignoreClosed: Wait has closed the pipe already.
func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// TestServerAcceptsEverything has a real API server check every object of both charts and
// of every combination of options, server-side and strictly, and apply none but the
// namespaces they go to.
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
	seen := map[string]bool{}
	combinations(func(name string, values map[string]any) {
		for _, u := range must(t, chartDir, values) {
			b, err := u.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			// The server has no ServiceMonitors; sound reads them into the operator's type.
			if seen[string(b)] || u.GetKind() == "ServiceMonitor" {
				continue
			}
			seen[string(b)] = true
			objects = append(objects, u)
		}
	})
	if len(objects) < 100 {
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
