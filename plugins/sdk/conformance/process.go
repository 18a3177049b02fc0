package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-project/weir/plugins/sdk"
)

// Process is an executable, started as the host starts it: handshake, mutual TLS and
// an empty environment, in a folder of its own; but without the host's isolation.
func Process(path string, args ...string) Target { return &process{path: path, args: args} }

type process struct {
	path string
	args []string
}

// handshakeForm is the line that a strategy prints once it can be reached.
var handshakeForm = regexp.MustCompile(`^[0-9]+\|[0-9]+\|[^|]*\|[^|]*\|`)

// maxSaid bounds what is kept of a process's output, bytes.
const maxSaid = 64 << 10

// child is a running process.
type child struct {
	cmd      *exec.Cmd
	dir      string
	lines    *io.PipeReader // the handshake, out of standard output
	feed     *io.PipeWriter
	ended    chan struct{}
	conn     *grpc.ClientConn
	addr     net.Addr
	stopOnce sync.Once

	mu        sync.Mutex // guards what follows
	started   bool
	noise     []string
	said      bytes.Buffer
	exit      error
	handshake string
}

var _ processInstance = (*child)(nil)

// Start implements Target.
func (t *process) Start(ctx context.Context) (_ Instance, err error) {
	dir, err := os.MkdirTemp("", "weir-kit-")
	if err != nil {
		return nil, err
	}
	c := &child{dir: dir, ended: make(chan struct{})}
	c.lines, c.feed = io.Pipe()
	config := &plugin.ClientConfig{
		HandshakeConfig: sdk.Handshake, VersionedPlugins: sdk.ClientPlugins(), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS: true, SkipHostEnv: true, StartTimeout: time.Hour, Logger: hclog.NewNullLogger(), UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		RunnerFunc: func(_ hclog.Logger, base *exec.Cmd, _ string) (runner.Runner, error) {
			c.cmd = exec.Command(t.path, t.args...)
			c.cmd.Dir, c.cmd.Env = dir, base.Env
			c.cmd.Stdout, c.cmd.Stderr = &output{child: c, handshake: true}, &output{child: c}
			c.cmd.WaitDelay = time.Second // a grandchild that holds the pipes must not hold us
			ownGroup(c.cmd)
			return goPlugin{c}, ctx.Err()
		},
	}
	client := plugin.NewClient(config)
	stop := context.AfterFunc(ctx, c.Kill)
	defer func() {
		stop()
		if err != nil {
			c.Stop()
			err = c.explain(ctx, err)
		}
	}()
	if c.addr, err = client.Start(); err != nil {
		return nil, err
	}
	if client.Protocol() != plugin.ProtocolGRPC || config.TLSConfig == nil || config.TLSConfig.RootCAs == nil {
		return nil, errors.New("its handshake offers no gRPC with mutual TLS (the sixth field is the certificate)")
	}
	return c, c.connect(config.TLSConfig)
}

func (c *child) connect(config *tls.Config) (err error) {
	c.conn, err = grpc.NewClient("passthrough:///strategy", dialOptions(grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.Dial(ctx) }))...)
	return err
}

// explain says why a start failed.
func (c *child) explain(ctx context.Context, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch parts := strings.Split(c.handshake, "|"); {
	case ctx.Err() != nil:
		err = fmt.Errorf("not ready in time: %w", ctx.Err())
	case !c.started:
	case len(parts) < 2:
		err = errors.New("it printed no handshake")
	case parts[0] != strconv.Itoa(plugin.CoreProtocolVersion):
		err = fmt.Errorf("it speaks core protocol %s, want %d", parts[0], plugin.CoreProtocolVersion)
	}
	if said := lastLines(c.said.String(), 5); said != "" {
		return fmt.Errorf("%w; it said: %s", err, said)
	}
	return err
}

// output takes what a process writes, line by line.
type output struct {
	child     *child
	handshake bool // standard output, which carries the handshake
	rest      []byte
}

func (o *output) Write(b []byte) (int, error) {
	o.rest = append(o.rest, b...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole && len(o.rest) < bufio.MaxScanTokenSize {
			return len(b), nil
		}
		o.rest = rest
		o.child.line(string(bytes.TrimRight(line, "\r")), o.handshake)
	}
}

func (c *child) line(text string, stdout bool) {
	c.mu.Lock()
	found := stdout && c.handshake == "" && handshakeForm.MatchString(text)
	switch {
	case found:
		c.handshake = text
	case stdout && c.handshake == "" && len(c.noise) < maxReasons:
		c.noise = append(c.noise, fmt.Sprintf("%.120q", text))
	}
	if !found && c.said.Len() < maxSaid {
		fmt.Fprintln(&c.said, text)
	}
	c.mu.Unlock()
	if found {
		// an error here says that nobody waits for it any more
		_, _ = io.WriteString(c.feed, text+"\n")
	}
}

// Conn implements Instance.
func (c *child) Conn() grpc.ClientConnInterface { return c.conn }

// Stop implements Instance.
func (c *child) Stop() {
	c.stopOnce.Do(func() {
		if c.conn != nil {
			c.conn.Close()
		}
		c.Kill()
		c.lines.Close()
		if c.running() {
			<-c.ended
		}
		os.RemoveAll(c.dir)
	})
}

func (c *child) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

// Ended implements processInstance.
func (c *child) Ended() (bool, string) {
	select {
	case <-c.ended:
	default:
		return false, ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text := "exit status 0"
	if c.exit != nil {
		text = c.exit.Error()
	}
	if said := lastLines(c.said.String(), 5); said != "" {
		text += "; it said: " + said
	}
	return true, text
}

// AwaitEnd implements processInstance.
func (c *child) AwaitEnd(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	}
}

// Dial implements processInstance.
func (c *child) Dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, c.addr.Network(), c.addr.String())
}

// Noise implements processInstance.
func (c *child) Noise() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noise
}

// Shutdown implements processInstance.
func (c *child) Shutdown(ctx context.Context) error {
	// The answer is of no interest: the process ends while it gives it.
	_ = c.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill implements processInstance: the process and what it started end at once.
func (c *child) Kill() {
	if c.running() {
		killGroup(c.cmd)
	}
}

// Signal implements processInstance.
func (c *child) Signal(stop bool) error { return pause(c.cmd, stop) }

// Leftovers implements processInstance.
func (c *child) Leftovers() bool { return groupAlive(c.cmd) }

// goPlugin shows a child to go-plugin, which starts and ends it through this.
type goPlugin struct{ *child }

var _ runner.Runner = goPlugin{}

// Start implements runner.Runner.
func (g goPlugin) Start(context.Context) error {
	c := g.child
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.started = true
	go func() {
		err := c.cmd.Wait()
		c.mu.Lock()
		c.exit = err
		c.mu.Unlock()
		c.feed.Close()
		close(c.ended)
	}()
	return nil
}

// Wait implements runner.Runner.
func (g goPlugin) Wait(context.Context) error {
	<-g.ended
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.exit
}

// Kill implements runner.Runner.
func (g goPlugin) Kill(context.Context) error {
	g.child.Kill()
	return nil
}

// Stdout implements runner.Runner.
func (g goPlugin) Stdout() io.ReadCloser { return g.lines }

// Stderr implements runner.Runner: the child's own writer has it all.
func (g goPlugin) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (g goPlugin) Name() string { return g.cmd.Path }

// ID implements runner.Runner.
func (g goPlugin) ID() string {
	if !g.running() {
		return ""
	}
	return strconv.Itoa(g.cmd.Process.Pid)
}

// Diagnose implements runner.Runner.
func (g goPlugin) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner: both see the same addresses, of which the host
// takes only those of the plugin itself.
func (g goPlugin) PluginToHost(network, address string) (string, string, error) {
	rel, err := filepath.Rel(g.dir, address)
	if err != nil || network != "unix" || !filepath.IsLocal(rel) {
		return "", "", fmt.Errorf("its handshake names %.200q by %.20q: the host takes Unix sockets below PLUGIN_UNIX_SOCKET_DIR alone", address, network)
	}
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (g goPlugin) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
