//go:build unix

package load_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-project/weir/core/kube/load"
)

// A pipe in a folder has no end that we could wait for.
func TestPipeInAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pods.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := load.Files([]string{dir}, nil, load.Options{})
	if err == nil || !strings.Contains(err.Error(), "pods.yaml: is a pipe, a socket or a device, expected a file") {
		t.Errorf("got %v", err)
	}
}
