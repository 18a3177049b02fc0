package strategy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// drainTime is how long the pipes of an ended process are still read. A grandchild
// that holds them open must not hold us.
const drainTime = 250 * time.Millisecond

// maxStray is how much a process may write to standard output before its handshake.
const maxStray = 1 << 20

// handshakeForm is the one line that a plugin has to print: core protocol, protocol,
// network, address, and more. Whether anybody dials there is for ownSocket to say.
var handshakeForm = regexp.MustCompile(`^[0-9]+\|[0-9]+\|[^|]*\|[^|]*\|`)

// process runs one child for go-plugin. The library's own runner neither ends
// grandchildren nor guards standard output.
type process struct {
	cmd    *exec.Cmd
	name   string
	log    io.Writer // what the child writes to standard output beside the handshake
	guard  *watchdog
	stdout *os.File // our ends of the pipes
	stderr *os.File
	lines  *io.PipeReader // the handshake, filtered out of stdout
	ended  chan struct{}  // closed when the child is gone and waited for
	silent chan struct{}  // closed when its standard error has been read to the end

	mu        sync.Mutex // guards what follows
	started   bool
	killed    bool // asked to end, perhaps before it was started
	reaping   bool
	exit      error
	excess    error // what it was ended for taking, nil = it was not
	handshake string
}

var _ runner.Runner = (*process)(nil)

func newProcess(cmd *exec.Cmd, name string, log io.Writer, guard *watchdog) *process {
	return &process{cmd: cmd, name: name, log: log, guard: guard, ended: make(chan struct{}), silent: make(chan struct{})}
}

// Start implements runner.Runner. The child lives on a thread of its own for as long
// as it runs, because the parent-death signal goes by thread.
func (p *process) Start(context.Context) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return err
	}
	p.stdout, p.stderr = outR, errR
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = nil, outW, errW
	isolate(p.cmd)
	lines, feed := io.Pipe()
	p.lines = lines
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		outW.Close()
		errW.Close()
		if err == nil {
			p.mu.Lock()
			if p.started = true; p.killed {
				killGroup(p.cmd)
			}
			p.mu.Unlock()
		}
		result <- err
		if err == nil {
			p.reap()
		}
	}()
	if err := <-result; err != nil {
		outR.Close()
		errR.Close()
		close(p.ended)
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	go p.filter(feed)
	go p.watch()
	return nil
}

// watch ends the child when it takes too much, from its first moment to its last.
func (p *process) watch() {
	p.guard.begin(p.cmd.Process.Pid, time.Now())
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-tick.C:
		}
		err := p.guard.look(time.Now())
		if err == nil {
			continue
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.reaping { // else it has ended, and its id may be another's
			p.excess = err
			killGroup(p.cmd)
		}
		return
	}
}

// ceiling is why the child was ended for what it took, nil if it was not.
func (p *process) ceiling() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.excess
}

// reap waits for the end of the child and ends what is left of its group.
func (p *process) reap() {
	awaitEnd(p.cmd.Process.Pid)
	p.mu.Lock()
	killGroup(p.cmd)
	p.reaping = true
	p.mu.Unlock()
	err := p.cmd.Wait()
	p.mu.Lock()
	p.exit = err
	p.mu.Unlock()
	deadline := time.Now().Add(drainTime)
	_ = p.stdout.SetReadDeadline(deadline)
	_ = p.stderr.SetReadDeadline(deadline)
	close(p.ended)
}

// filter hands on the handshake and sends everything else to the log.
func (p *process) filter(feed *io.PipeWriter) {
	defer p.stdout.Close()
	defer feed.Close()
	r := bufio.NewReaderSize(p.stdout, 64<<10)
	stray, done := 0, false
	for {
		line, prefix, err := r.ReadLine()
		if err != nil {
			return
		}
		if !done && !prefix && handshakeForm.Match(line) {
			done = true
			p.mu.Lock()
			p.handshake = string(line)
			p.mu.Unlock()
			// Ends with an error once nobody listens; the log below goes on.
			_, _ = feed.Write(append(line, '\n'))
			continue
		}
		if !done {
			if stray += len(line) + 1; stray > maxStray {
				fmt.Fprintf(p.log, "[ERROR] more than %d bytes on standard output before the handshake: ended\n", maxStray)
				_ = p.Kill(context.Background())
				return
			}
		}
		_, _ = p.log.Write(append(line, '\n'))
	}
}

// Kill implements runner.Runner: it ends the child and its group at once.
func (p *process) Kill(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed = true; p.started && !p.reaping {
		killGroup(p.cmd)
	}
	return nil
}

// Wait implements runner.Runner.
func (p *process) Wait(context.Context) error {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Stdout implements runner.Runner.
func (p *process) Stdout() io.ReadCloser { return p.lines }

// Stderr implements runner.Runner.
func (p *process) Stderr() io.ReadCloser { return &endless{File: p.stderr, done: p.silent} }

// endless turns the error of a read after the deadline into an end of file, and
// closes the pipe at its end: go-plugin only reads.
type endless struct {
	*os.File
	done chan struct{} // closed at the end
	once sync.Once
}

func (e *endless) Read(b []byte) (int, error) {
	n, err := e.File.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	if err != nil {
		e.once.Do(func() {
			e.File.Close()
			close(e.done)
		})
	}
	return n, err
}

// Name implements runner.Runner.
func (p *process) Name() string { return p.name }

// ID implements runner.Runner.
func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return ""
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// Diagnose implements runner.Runner.
func (p *process) Diagnose(context.Context) string {
	return "" // instance.explain does it
}

// PluginToHost implements runner.Runner: both see the same addresses. It is asked before
// anything is looked up, and refuses what is not the plugin's own.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	own, err := ownSocket(p.cmd.Dir, network, address)
	return network, own, err
}

// ownSocket is the address of a socket in a folder, and an error for every other one that
// a handshake names: whom we dial is not for a plugin to say.
func ownSocket(dir, network, address string) (string, error) {
	rel, err := filepath.Rel(dir, address)
	if err != nil || network != "unix" || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("its handshake names %.200q by %.20q: want a socket in its own folder", address, network)
	}
	root, err := os.OpenRoot(dir) // does not follow links that lead out
	if err != nil {
		return "", fmt.Errorf("opening its folder: %w", err)
	}
	defer func() { _ = root.Close() }() // it was read only
	info, err := root.Lstat(rel)
	if err != nil {
		return "", fmt.Errorf("its handshake names %.200q: want a socket in its own folder: %w", address, err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return "", fmt.Errorf("its handshake names %.200q, which has mode %s: want a socket in its own folder", address, info.Mode())
	}
	return filepath.Join(dir, rel), nil
}

// HostToPlugin implements runner.Runner.
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// printed is the handshake line, empty if none came.
func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handshake
}
