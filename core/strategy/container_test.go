package strategy

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

// outsider is the user that strategies in containers run as, where the test may choose.
const outsider = 65533

// container starts this test binary as a strategy that serves at a socket, as in a
// container of its own, and answers the command, which is waited for at the end.
func container(t *testing.T, socket, behaviour string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(fakeSpec(t, "fake").Path, "serve", behaviour)
	cmd.Env = []string{sdk.SocketVariable + "=" + socket}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: outsider, Gid: outsider}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // how it ends is the test's own doing
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd
}

// shared is a folder that a container can put its socket into, and the spec of a
// strategy that is reached there.
func shared(t *testing.T) Spec {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "weir") // short, and every folder above is open to all
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	// Without root everybody here is one user, which only a trusted strategy may be.
	return Spec{Name: "fake", Socket: filepath.Join(base, "s"), AllowUnsandboxed: os.Getuid() != 0}
}

// runnable lets others run this test binary, which is in a folder of ours.
func runnable(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	for _, dir := range parents(fakeSpec(t, "fake").Path) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(dir, info.Mode()|0o011); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestContainer serves from a container that starts after the host, ends and comes
// back; meanwhile the built-in answers.
func TestContainer(t *testing.T) {
	t.Parallel()
	runnable(t)
	spec := shared(t)
	h := testHost(t, bound(spec), func(o *Options) { o.Backoff = func(int) time.Duration { return 20 * time.Millisecond } })
	until(t, "a failure", func() bool { return strings.Contains(statusOf(h, "fake").LastError, "nobody serves there yet") })
	if p := price(t, h); p.Outcome != "dead" || p.Strategy != "cost-optimal 1.0.0" {
		t.Errorf("before it is there: answered by %q, outcome %s", p.Strategy, p.Outcome)
	}
	for round := range 3 {
		cmd := container(t, spec.Socket, "well")
		until(t, "ready", func() bool { return statusOf(h, "fake").State == Ready })
		if p := price(t, h); p.Outcome != "ok" || p.Strategy != "fake 0.1" {
			t.Fatalf("round %d: answered by %q, outcome %s", round, p.Strategy, p.Outcome)
		}
		if st := statusOf(h, "fake"); st.PID != 0 || st.Fence.Isolation != "container" || st.Fence.Whole != (os.Getuid() == 0) {
			t.Errorf("status %+v", st)
		}
		signal := os.Signal(syscall.SIGKILL)
		if round == 1 {
			signal = syscall.SIGTERM
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		until(t, "noticed", func() bool { return statusOf(h, "fake").State != Ready })
		if p := price(t, h); p.Outcome != "dead" || p.Strategy != "cost-optimal 1.0.0" {
			t.Fatalf("round %d, after its end: answered by %q, outcome %s", round, p.Strategy, p.Outcome)
		}
	}
}

// TestContainerHangs does not answer calls: the connection is given up and made anew.
func TestContainerHangs(t *testing.T) {
	t.Parallel()
	runnable(t)
	spec := shared(t)
	container(t, spec.Socket, "wait")
	h := testHost(t, bound(spec), func(o *Options) { o.CallTimeout = 100 * time.Millisecond })
	until(t, "ready", func() bool { return statusOf(h, "fake").State == Ready })
	starts := statusOf(h, "fake").Starts
	for range maxLate {
		if p := price(t, h); p.Outcome != "late" {
			t.Fatalf("outcome %s, want late", p.Outcome)
		}
	}
	until(t, "another connection", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.Starts > starts })
}

// TestContainerRefused: not a socket, a link to one, no gRPC behind it, and a process of
// our own user that is not trusted.
func TestContainerRefused(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, spec Spec) {
		l, err := net.Listen("unix", spec.Socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprintln(c, "hello")
				c.Close()
			}
		}()
	}
	for want, prepare := range map[string]func(*testing.T, *Spec){
		"want a socket": func(t *testing.T, spec *Spec) {
			if err := os.WriteFile(spec.Socket, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"want a socket ": func(t *testing.T, spec *Spec) {
			real := *spec
			real.Socket += "real"
			serve(t, real)
			if err := os.Symlink(real.Socket, spec.Socket); err != nil {
				t.Fatal(err)
			}
		},
		"does not speak gRPC": func(t *testing.T, spec *Spec) { spec.AllowUnsandboxed = true; serve(t, *spec) },
		"of our own user":     func(t *testing.T, spec *Spec) { spec.AllowUnsandboxed = false; serve(t, *spec) },
		"requireSandbox": func(t *testing.T, spec *Spec) {
			spec.AllowUnsandboxed, spec.RequireSandbox = true, true
			serve(t, *spec)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			spec := shared(t)
			prepare(t, &spec)
			h := testHost(t, bound(spec), func(o *Options) { o.Backoff = func(int) time.Duration { return time.Hour } })
			err := h.Settled(context.Background())
			if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) || !strings.Contains(err.Error(), spec.Socket) {
				t.Errorf("error %v, want %q and the socket", err, want)
			}
		})
	}
	for _, spec := range []Spec{{Name: "x", Socket: "relative"}, {Name: "x", Socket: "/" + strings.Repeat("x", 107)}, {Name: "x", Socket: "/s", Path: "/p"}} {
		if _, err := New(bound(spec), Options{}); err == nil || !strings.Contains(err.Error(), "socket") {
			t.Errorf("%+v: error %v", spec, err)
		}
	}
}

// TestContainersLeaveNothing counts what is left after restarts of a container.
func TestContainersLeaveNothing(t *testing.T) {
	// Serial: it counts what this whole process holds.
	runnable(t)
	spec := shared(t)
	before, goroutines := measure(t), stacks()
	h := testHost(t, bound(spec))
	for range 5 {
		cmd := exec.Command(fakeSpec(t, "fake").Path, "serve", "well")
		cmd.Env = []string{sdk.SocketVariable + "=" + spec.Socket}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if os.Getuid() == 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: outsider, Gid: outsider}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "ready", func() bool { return statusOf(h, "fake").State == Ready })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // says that it was killed
		until(t, "noticed", func() bool { return statusOf(h, "fake").State != Ready })
	}
	h.Close()
	until(t, "everything is as before", func() bool { return measure(t) == before })
	until(t, "goroutines as before:\n"+stacks(), func() bool { return strings.Count(stacks(), "goroutine ") <= strings.Count(goroutines, "goroutine ") })
}
