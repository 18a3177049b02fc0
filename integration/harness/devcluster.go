package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startLimit is more than the devcluster's own limit, whose message is the better one.
	startLimit = 12 * time.Minute
	// stopLimit is more than the devcluster gives its four components.
	stopLimit = 5 * time.Minute
)

// process is a running devcluster.
type process struct {
	dir, kubeconfig string
	cmd             *exec.Cmd
	stdin           io.Closer
	stderr          *lockedBuffer
	exited          chan error // receives the result of Wait once
}

// lockedBuffer is written by the goroutine that copies stderr and read by ours.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startDevcluster starts the binary in a new temporary directory and returns when the cluster is ready.
func startDevcluster(binary string, args []string) (_ *process, err error) {
	dir, err := os.MkdirTemp("", "devcluster-")
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	p := &process{dir: dir, stderr: &lockedBuffer{}, exited: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	// It notices the closed pipe when this process ends in whatever way.
	p.cmd = exec.Command(binary, append([]string{"up", "--with-parent", "--dir", dir}, args...)...)
	p.cmd.Stderr = p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	// A pipe of our own: Wait closes one of StdoutPipe while it is being read.
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	p.cmd.Stdout = in
	if err := errors.Join(p.cmd.Start(), in.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s=%s: %w", EnvDevcluster, binary, err), out.Close())
	}
	go func() { p.exited <- p.cmd.Wait() }()
	lines := make(chan string, 1)
	go func() {
		defer out.Close() // read to its end
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.HasPrefix(s.Text(), "READY ") {
				lines <- s.Text()
				break
			}
		}
		// Whatever follows is of no interest but must not block the writer.
		_, _ = io.Copy(io.Discard, out)
	}()
	return p, p.awaitReady(lines)
}

func (p *process) awaitReady(lines <-chan string) error {
	select {
	case line, ok := <-lines:
		if !ok {
			return fmt.Errorf("devcluster ended before it was ready: %w\n%s", <-p.exited, p.stderr)
		}
		for _, field := range strings.Fields(line) {
			if path, ok := strings.CutPrefix(field, "kubeconfig="); ok {
				p.kubeconfig = path
				return nil
			}
		}
		return errors.Join(fmt.Errorf("devcluster said %q, want READY and kubeconfig=", line), p.stop())
	case <-time.After(startLimit):
		return errors.Join(fmt.Errorf("devcluster is not ready after %v\n%s", startLimit, p.stderr), p.stop())
	}
}

// stop ends the devcluster, waits for it, and removes its directory. A cluster that had failed before is an error.
func (p *process) stop() error {
	select {
	case err := <-p.exited:
		return errors.Join(fmt.Errorf("devcluster had ended before: %w\n%s", err, p.stderr), os.RemoveAll(p.dir))
	default:
	}
	errs := []error{p.cmd.Process.Signal(syscall.SIGTERM)}
	select {
	case err := <-p.exited:
		if err != nil {
			errs = append(errs, fmt.Errorf("devcluster: %w\n%s", err, p.stderr))
		}
	case <-time.After(stopLimit):
		errs = append(errs, fmt.Errorf("devcluster does not stop in %v, killed", stopLimit), p.cmd.Process.Kill(), <-p.exited)
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}
