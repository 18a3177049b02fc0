package examples

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// python is the interpreter that has what plugins/examples/python needs.
func python(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 here")
	}
	path := os.Getenv("WEIR_STRATEGY_PYTHON")
	if path == "" {
		path = filepath.Join(root(t), ".cache", "strategy-python", "bin", "python")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; make strategy-python installs it", err)
	}
	return path
}

// A strategy that shares nothing with the Go SDK passes the same kit.
func TestKitOnPython(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(settings, []byte("interruption: 0.5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	kit(t, "calm-spot", interpreter, "--config", settings, "--", filepath.Join("python", "strategy.py"))
}

// At a socket, as in a container of its own: the socket that a former process left is
// replaced, and the process ends when asked to.
func TestPythonAtSocket(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	dir, err := os.MkdirTemp("", "weir-py-") // short: a socket's path has a bound
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s.sock")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	var said bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, filepath.Join("python", "strategy.py"))
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"WEIR_STRATEGY_SOCKET=" + path}, &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			break
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the socket: %v, %v; want nobody but owner and group to have rights", info.Mode(), err)
	}
	kitAtLeast(t, 10, "calm-spot", "--socket", path)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("asked to end it ended with %v: %s", err, said.String())
	}
}
