package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// upOptions are the flags of "devcluster up".
type upOptions struct {
	dir              string
	port             int
	timeout          time.Duration
	nodeMonitorGrace time.Duration
	withParent       bool
	restart          bool
	keepData         bool
	extraArgs        map[string][]string // component name -> flags appended to ours
}

func parseUp(args []string, stderr io.Writer) (*upOptions, error) {
	o := &upOptions{extraArgs: map[string][]string{}}
	fs := flag.NewFlagSet("devcluster up", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints the error
	fs.StringVar(&o.dir, "dir", ".devcluster", "state directory: certificates, kubeconfigs, logs, etcd data")
	fs.IntVar(&o.port, "port", 0, "port of the API server on 127.0.0.1 (0: a free one)")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "give up when the cluster is not ready after this time")
	fs.DurationVar(&o.nodeMonitorGrace, "node-monitor-grace-period", 30*time.Second,
		"a node whose lease is older than this turns NotReady")
	fs.BoolVar(&o.withParent, "with-parent", false, "stop when the parent process ends or stdin, if it is a pipe, is closed")
	fs.BoolVar(&o.restart, "restart", false, "start a component again when it ends by itself, in place of stopping the cluster")
	fs.BoolVar(&o.keepData, "keep-data", false, "go on with the etcd data that is in the state directory")
	fs.Func("extra-arg", "flag for one component, as `component=--flag=value`; may be repeated", func(s string) error {
		name, arg, ok := strings.Cut(s, "=")
		if !ok || !slices.Contains(upstreamNames, name) || !strings.HasPrefix(arg, "--") {
			return fmt.Errorf("want component=--flag=value with a component of %s", strings.Join(upstreamNames, ", "))
		}
		o.extraArgs[name] = append(o.extraArgs[name], arg)
		return nil
	})
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "usage: devcluster up [flags]")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
		}
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.port < 0 || o.port > 65535 {
		return nil, fmt.Errorf("--port %d: want 0 to 65535", o.port)
	}
	if o.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v: want more than 0", o.timeout)
	}
	if o.nodeMonitorGrace < time.Second {
		return nil, fmt.Errorf("--node-monitor-grace-period %v: want at least 1s", o.nodeMonitorGrace)
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, fmt.Errorf("--dir %q: %w", o.dir, err)
	}
	o.dir = dir
	return o, nil
}

// up runs the control plane until ctx is done, the parent is gone (with-parent)
// or a component fails. It returns nil after an orderly stop.
func up(ctx context.Context, o *upOptions, stdout, stderr io.Writer) (err error) {
	// Children die with the OS thread that started them (Pdeathsig), so all are
	// started from this goroutine, tied to a thread that lives as long as it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	began := time.Now()
	if o.withParent {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		watchParent(ctx, cancel, os.Stdin)
	}
	unlock, err := lockDir(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	c, err := newCluster(o)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own binary: %w", err)
	}
	s := newSupervisor(self, o.dir, stderr)
	defer func() { err = errors.Join(err, s.stop()) }()

	startCtx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := startAll(startCtx, s, c); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while starting
		}
		return err
	}
	fmt.Fprintf(stdout, "READY kubeconfig=%s url=%s after %v\n",
		c.adminKubeconfig(), c.url(), time.Since(began).Round(10*time.Millisecond))
	return s.watch(ctx, o.restart)
}

// startAll starts the components in order and returns when pods can be created
// and are scheduled.
func startAll(ctx context.Context, s *supervisor, c *cluster) error {
	p, err := newProber(c)
	if err != nil {
		return err
	}
	if err := s.start(etcdName, c.etcdArgs()); err != nil {
		return err
	}
	// The API server ends by itself when its store is not there within 20 s, which on a
	// busy machine it may not be.
	if err := s.wait(ctx, etcdName, p.httpOK(c.etcdURL()+"/health")); err != nil {
		return err
	}
	if err := s.start(apiserverName, c.apiserverArgs()); err != nil {
		return err
	}
	// The other two end by themselves when the API is not there in time.
	if err := s.wait(ctx, apiserverName, p.httpOK(c.url()+"/readyz")); err != nil {
		return err
	}
	if err := s.start(controllerManagerName, c.controllerManagerArgs()); err != nil {
		return err
	}
	if err := s.start(schedulerName, c.schedulerArgs()); err != nil {
		return err
	}
	// /readyz speaks for the API server only: pods are refused until their
	// service account exists, and fake kubelets need the lease namespace.
	if err := s.wait(ctx, controllerManagerName, p.serviceAccount("default", "default")); err != nil {
		return err
	}
	if err := s.wait(ctx, apiserverName, p.namespace("kube-node-lease")); err != nil {
		return err
	}
	// Not before its informers have synced.
	return s.wait(ctx, schedulerName, p.httpOK(c.schedulerURL()+"/readyz"))
}

// lockDir makes dir and holds an exclusive lock on it, so that a second cluster
// in the same directory is refused in place of destroying the first one's data.
func lockDir(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("state directory %s is in use by another devcluster: %w", dir, err), f.Close())
	}
	return f.Close, nil // closing the file releases the lock
}

// parentPoll is how often the parent's process id is looked at; there is no
// notification for it that does not depend on which thread of the parent ends.
const parentPoll = 500 * time.Millisecond

// watchParent cancels once the parent process is gone or, where in is a pipe or
// a socket, its other end is closed.
func watchParent(ctx context.Context, cancel context.CancelCauseFunc, in *os.File) {
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel(errors.New("parent process is gone"))
					return
				}
			}
		}
	}()
	if st, err := in.Stat(); err != nil || st.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return // a terminal or /dev/null says nothing about the parent
	}
	go func() {
		// Whatever is written is of no interest; both end of file and an error
		// mean that nobody holds the other end.
		_, err := io.Copy(io.Discard, in)
		cancel(errors.Join(errors.New("stdin is closed"), err))
	}()
}
