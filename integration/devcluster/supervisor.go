package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a component may take to stop on SIGTERM.
	stopGrace = 10 * time.Second
	// restartDelay keeps a component that ends at once from spinning.
	restartDelay = time.Second
	// probeInterval is the pause between two looks at a component that starts.
	probeInterval = 50 * time.Millisecond
	// logTailLines is how much of a component's log an error shows.
	logTailLines = 25
	logTailBytes = 64 << 10
)

// supervisor starts the components as child processes, notices when one ends,
// and stops them in reverse order. All methods belong to one goroutine.
type supervisor struct {
	self     string // the binary that is re-executed
	dir      string // logs and pid files
	stderr   io.Writer
	children []*child // in order of start
	ended    chan *child
}

type child struct {
	name string
	args []string
	cmd  *exec.Cmd
	log  *os.File
	err  error         // valid once done is closed
	done chan struct{} // closed when the process has ended
}

func newSupervisor(self, dir string, stderr io.Writer) *supervisor {
	return &supervisor{self: self, dir: dir, stderr: stderr, ended: make(chan *child, 64)}
}

func (s *supervisor) logPath(name string) string { return filepath.Join(s.dir, name+".log") }
func (s *supervisor) pidPath(name string) string { return filepath.Join(s.dir, name+".pid") }

// start starts a component whose output goes to <dir>/<name>.log and whose
// process id goes to <dir>/<name>.pid. The calling goroutine must be locked to
// its OS thread: the kernel kills the child when that thread ends.
func (s *supervisor) start(name string, args []string) error {
	log, err := os.OpenFile(s.logPath(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("%s: open log: %w", name, err)
	}
	cmd := exec.Command(s.self, append([]string{name}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = s.dir
	// SIGKILL since nobody is left to wait for an orderly stop; own process group
	// so that Ctrl-C in a terminal reaches us only, and we stop them in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("%s: start: %w", name, err), log.Close())
	}
	c := &child{name: name, args: args, cmd: cmd, log: log, done: make(chan struct{})}
	s.children = append(s.children, c)
	go func() {
		c.err = cmd.Wait()
		close(c.done)
		s.ended <- c
	}()
	if err := os.WriteFile(s.pidPath(name), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644); err != nil {
		return fmt.Errorf("%s: write pid file: %w", name, err)
	}
	return nil
}

// probe reports nil when what it looks at is ready.
type probe func(ctx context.Context) error

// wait runs the probe until it succeeds. It fails when any component ends, or
// when ctx is done, then naming the component that was waited for.
func (s *supervisor) wait(ctx context.Context, name string, ready probe) error {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	last := errors.New("never probed")
	for {
		if err := ready(ctx); err == nil {
			return nil
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case c := <-s.ended:
			return s.endedError(c)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready in time: %w\n%s", name, last, s.logTail(name))
		case <-tick.C:
		}
	}
}

// watch returns nil when ctx is done, and an error when a component ends by
// itself. With restart it starts the component again instead.
func (s *supervisor) watch(ctx context.Context, restart bool) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-s.ended:
			if ctx.Err() != nil {
				return nil
			}
			if !restart {
				return s.endedError(c)
			}
			fmt.Fprintf(s.stderr, "devcluster up: %s ended (%v), starting it again\n", c.name, c.reason())
			if err := s.forget(c); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(restartDelay):
			}
			if err := s.start(c.name, c.args); err != nil {
				return err
			}
		}
	}
}

// stop ends all components, the last started first, and waits for each.
func (s *supervisor) stop() error {
	var errs []error
	for i := len(s.children) - 1; i >= 0; i-- {
		errs = append(errs, s.children[i].stop())
	}
	for len(s.children) > 0 {
		errs = append(errs, s.forget(s.children[0]))
	}
	return errors.Join(errs...)
}

func (s *supervisor) forget(c *child) error {
	for i := range s.children {
		if s.children[i] == c {
			s.children = append(s.children[:i], s.children[i+1:]...)
			break
		}
	}
	err := os.Remove(s.pidPath(c.name))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, c.log.Close())
}

func (s *supervisor) endedError(c *child) error {
	return fmt.Errorf("%s ended by itself: %v\n%s", c.name, c.reason(), s.logTail(c.name))
}

// logTail is the end of a component's log with a heading, for error messages.
func (s *supervisor) logTail(name string) string {
	path := s.logPath(name)
	tail, err := tailOf(path, logTailLines)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return fmt.Sprintf("--- last lines of %s\n%s---", path, tail)
}

// tailOf returns the last lines of a file, each with its line end.
func tailOf(path string, lines int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing to lose
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-logTailBytes), logTailBytes))
	if err != nil {
		return nil, err
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	cut := len(b)
	for range lines {
		i := bytes.LastIndexByte(b[:max(0, cut-1)], '\n')
		if i < 0 {
			return b, nil
		}
		cut = i + 1
	}
	return b[cut:], nil
}

// reason says how the process ended. Only valid once it has.
func (c *child) reason() string {
	if c.err != nil {
		return c.err.Error()
	}
	return "exit status 0"
}

// stop asks the process to end, kills it when it does not, and waits for it. A
// process that had ended before is no error.
func (c *child) stop() error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(stopGrace):
	}
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.done
	return nil
}

func (c *child) signal(sig syscall.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %v: %w", c.name, sig, err)
	}
	return nil
}
