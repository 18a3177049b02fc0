package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "devcluster")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Not parallel: these tests set the environment.
func TestOpen(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tc := range map[string]struct {
		kubeconfig, devcluster string
		want                   string
	}{
		"neither":            {"", "", EnvDevcluster},
		"no such binary":     {"", missing, missing},
		"binary that fails":  {"", script(t, "echo kube-apiserver ended by itself >&2; exit 1"), "kube-apiserver ended by itself"},
		"no such kubeconfig": {missing, "", missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvKubeconfig, tc.kubeconfig)
			t.Setenv(EnvDevcluster, tc.devcluster)
			t.Setenv("TMPDIR", t.TempDir())
			_, _, err := open(nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that contains %q", err, tc.want)
			}
			if got := errors.Is(err, errNoCluster); got != (name == "neither") {
				t.Errorf("skips tests: %v", got)
			}
			left, err := os.ReadDir(os.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if len(left) > 0 {
				t.Errorf("%v is left in the temporary directory", left)
			}
		})
	}
}

func TestStopOfAClusterThatHadFailed(t *testing.T) {
	t.Parallel()
	p, err := startDevcluster(script(t, "echo READY kubeconfig=/dev/null after 1s; echo etcd ended >&2; exit 1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.exited <- <-p.exited // it has ended before it is stopped
	if err := p.stop(); err == nil || !strings.Contains(err.Error(), "etcd ended") {
		t.Errorf("error %v, want the message of the cluster", err)
	}
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("state directory is left: %v", err)
	}
}
