package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process that ends with us.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	log    string
	lines  chan string // READY lines of its standard output
	exited chan struct{}
	err    error // of Wait, once exited is closed
	once   sync.Once
}

// start runs a program; what it says goes to a file of the folder.
func start(dir, name, path string, args ...string) (*child, error) {
	c := &child{name: name, log: filepath.Join(dir, name+".log"), lines: make(chan string, 1), exited: make(chan struct{})}
	f, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	c.cmd = exec.Command(path, args...)
	c.cmd.Stderr = f
	c.cmd.SysProcAttr = dieWithParent()
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.cmd.Stdout = in
	if err := errors.Join(c.cmd.Start(), in.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), out.Close(), f.Close())
	}
	go func() {
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			if line, ok := strings.CutPrefix(s.Text(), "READY "); ok {
				select {
				case c.lines <- line:
				default: // only the first is waited for
				}
			}
			_, _ = fmt.Fprintln(f, s.Text()) // a log that cannot be written must not end the demo
		}
		_, _ = io.Copy(io.Discard, out)
		_ = out.Close()
	}()
	go func() {
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// ready waits for "READY key=value" and answers the value.
func (c *child) ready(ctx context.Context, key string, limit time.Duration) (string, error) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case line := <-c.lines:
		for _, f := range strings.Fields(line) {
			if v, ok := strings.CutPrefix(f, key+"="); ok {
				return v, nil
			}
		}
		return "", fmt.Errorf("%s said READY %s, expected %s=", c.name, line, key)
	case <-c.exited:
		return "", fmt.Errorf("%s ended before it was ready: %w", c.name, c.err)
	case <-t.C:
		return "", fmt.Errorf("%s is not ready after %s", c.name, limit)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ended says whether the process is gone, and how.
func (c *child) ended() (error, bool) {
	select {
	case <-c.exited:
		return c.err, true
	default:
		return nil, false
	}
}

// stop ends the process and waits for it.
func (c *child) stop() error {
	var err error
	c.once.Do(func() {
		if e, gone := c.ended(); gone {
			err = fmt.Errorf("%s had ended before: %w", c.name, errors.Join(e))
			return
		}
		err = errors.Join(c.cmd.Process.Signal(syscall.SIGTERM), c.stdin.Close())
		t := time.NewTimer(20 * time.Second)
		defer t.Stop()
		select {
		case <-c.exited:
		case <-t.C:
			err = errors.Join(err, fmt.Errorf("%s does not stop, killed", c.name), c.cmd.Process.Kill())
			<-c.exited
		}
	})
	return err
}

// tail shows the end of what the process said.
func (c *child) tail(w io.Writer) {
	raw, err := os.ReadFile(c.log)
	if err != nil || len(raw) == 0 {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	lines = lines[max(len(lines)-25, 0):]
	fmt.Fprintf(w, "--- the last lines of %s\n%s\n", c.name, strings.Join(lines, "\n"))
}
