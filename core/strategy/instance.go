package strategy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-project/weir/core/strategy/sandbox"
	"github.com/weir-project/weir/plugins/sdk"
)

// graceTime is how long a process has to end by itself once it was asked to.
const graceTime = 2 * time.Second

// instance is one running process of a strategy, ready to be asked.
type instance struct {
	conn      *grpc.ClientConn
	client    *sdk.Client
	manifest  *sdk.Manifest
	lines     *lineLog
	fence     Fence
	dir       string // of its socket
	lastWords string // what it said last, set by end
	streams   sync.WaitGroup

	mu   sync.Mutex // guards what follows
	proc *process
	peer *peer // instead of a process, where it is in a container; never changed

	sending chan struct{}      // holds one token, taken while a catalogue is sent; guards what follows
	held    [][32]byte         // hashes of the catalogues that it was sent, the last ones
	refused map[[32]byte]error // and of those that it does not take

	laying sync.Mutex // guards what follows
	laid   []*shelves // the last catalogues that it was asked about
}

// startInstance starts a process and brings it to the point where it can serve. On
// every error the process is gone when it returns. ctx carries the deadline.
func startInstance(ctx context.Context, spec Spec, img *image, log *zap.Logger, kernel *sandbox.Kernel, cpuWindow time.Duration) (_ *instance, err error) {
	in := &instance{lines: newLineLog(log), sending: make(chan struct{}, 1)}
	if in.fence, err = fenceOf(spec, kernel); err != nil {
		return nil, err
	}
	in.dir, err = os.MkdirTemp("", "weir-strategy-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the socket: %w", err)
	}
	config := in.clientConfig(ctx, spec, img, newWatchdog(spec, cpuWindow, in.dir))
	client := plugin.NewClient(config)
	// Ending the process is what unblocks everything below.
	stop := context.AfterFunc(ctx, in.kill)
	defer func() {
		stop()
		if err != nil {
			in.end(false)
			err = in.explain(ctx, err)
		}
	}()
	addr, err := client.Start()
	if err != nil {
		return nil, err
	}
	if client.Protocol() != plugin.ProtocolGRPC || config.TLSConfig == nil || config.TLSConfig.RootCAs == nil {
		return nil, errors.New("the process offers no gRPC with mutual TLS")
	}
	if err := in.connect(addr, config.TLSConfig); err != nil {
		return nil, err
	}
	return in, in.prepare(ctx, spec)
}

// prepare brings a strategy that is connected to the point where it can serve.
func (in *instance) prepare(ctx context.Context, spec Spec) (err error) {
	if in.manifest, err = in.client.Describe(ctx); err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if spec.Version != "" && in.manifest.Version != spec.Version {
		return fmt.Errorf("it says that it is version %s of %s, the lock file has version %s", in.manifest.Version, in.manifest.Name, spec.Version)
	}
	settings := spec.Config
	if len(settings) == 0 {
		settings = []byte("{}")
	}
	if err := CheckSettings(in.manifest.ConfigSchema, settings); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	if err := in.client.Configure(ctx, settings, nil); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	return in.selfTest(ctx)
}

func (in *instance) clientConfig(ctx context.Context, spec Spec, img *image, guard *watchdog) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  sdk.Handshake,
		VersionedPlugins: sdk.ClientPlugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     24 * time.Hour, // the context ends the process
		Logger:           hclog.NewNullLogger(),
		Stderr:           in.lines,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: in.dir},
		RunnerFunc: func(_ hclog.Logger, base *exec.Cmd, _ string) (runner.Runner, error) {
			cmd, err := fenced(spec, img, in.dir, in.fence)
			if err != nil {
				return nil, err
			}
			cmd.Env = append([]string{}, base.Env...)
			for _, name := range spec.Env {
				if value, ok := os.LookupEnv(name); ok {
					cmd.Env = append(cmd.Env, name+"="+value)
				}
			}
			in.mu.Lock()
			defer in.mu.Unlock()
			in.proc = newProcess(cmd, spec.Path, in.lines, guard)
			return in.proc, ctx.Err()
		},
	}
}

// dial connects to the process's socket. Before a word is said it is an error if somebody
// else listens there, whatever the plugin has made of the path meanwhile.
func (in *instance) dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	who, err := credentialsOf(conn.(*net.UnixConn))
	if err == nil && who.known && !inGroup(who.pid, in.pid()) {
		err = fmt.Errorf("the socket is another process's (%d), not the strategy's (%d) or of its group", who.pid, in.pid())
	}
	if err != nil {
		_ = conn.Close() // the other error says more
		return nil, err
	}
	return conn, nil
}

// connect dials the process. The library's own connection is not used: it has no
// bound on messages, and where it fails half-way nobody can close it.
func (in *instance) connect(addr net.Addr, config *tls.Config) error {
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return in.dial(ctx, addr.String()) }
	conn, err := grpc.NewClient("passthrough:///strategy", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(sdk.MaxMessageBytes), grpc.MaxCallSendMsgSize(sdk.MaxMessageBytes)))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	in.conn, in.client = conn, sdk.NewClient(conn)
	in.streams.Add(1)
	go in.copyOutput()
	return nil
}

// copyOutput reads what the strategy prints after its handshake: go-plugin's server
// sends it over the connection, and would block the strategy if nobody read.
func (in *instance) copyOutput() {
	defer in.streams.Done()
	stream, err := in.conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil {
		return
	}
	if stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	for {
		// The message type is internal to go-plugin; its field 2 holds the bytes.
		var m emptypb.Empty
		if stream.RecvMsg(&m) != nil {
			return
		}
		for b := m.ProtoReflect().GetUnknown(); len(b) > 0; {
			num, typ, n := protowire.ConsumeTag(b)
			if n < 0 {
				break
			}
			if num == 2 && typ == protowire.BytesType {
				data, _ := protowire.ConsumeBytes(b[n:])
				_, _ = in.lines.Write(data)
			}
			size := protowire.ConsumeFieldValue(num, typ, b[n:])
			if size < 0 {
				break
			}
			b = b[n+size:]
		}
	}
}

// selfTest asks for the sample problem: what cannot answer it is not taken into service.
func (in *instance) selfTest(ctx context.Context) error {
	if in.manifest.Serves(sdk.InstanceSelection) {
		if _, err := in.price(ctx, sdk.SamplePrice()); err != nil {
			return fmt.Errorf("self-test, price: %w", err)
		}
	}
	if in.manifest.ServesLevel(sdk.InstanceSelection, LevelPlan) { // a plan that leaves everything to the engine is one, too
		if _, err := in.plan(ctx, sdk.SamplePlan()); err != nil && !errors.Is(err, errEmpty) {
			return fmt.Errorf("self-test, plan: %w", err)
		}
	}
	if in.manifest.Serves(sdk.Consolidation) {
		if _, err := in.score(ctx, sdk.SampleScore()); err != nil {
			return fmt.Errorf("self-test, score: %w", err)
		}
	}
	if in.manifest.ServesLevel(sdk.Consolidation, LevelPropose) {
		nothing := func(moves []sdk.ProposedMove) ([]sdk.Trial, error) {
			trials := make([]sdk.Trial, len(moves))
			for i := range trials {
				trials[i] = sdk.Trial{Reason: "SelfTest", Message: "nothing is moved in a self-test"}
			}
			return trials, nil
		}
		if _, err := in.propose(ctx, sdk.SamplePropose(), nothing); err != nil {
			return fmt.Errorf("self-test, propose: %w", err)
		}
	}
	return nil
}

// process is the child, nil as long as there is none.
func (in *instance) process() *process {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.proc
}

// kill ends the process at once.
func (in *instance) kill() {
	if in.peer != nil {
		in.peer.leave(errors.New("it did not answer: the connection was given up"))
		return
	}
	if p := in.process(); p != nil {
		_ = p.Kill(context.Background())
	}
}

// end ends the process, politely first if asked to, and frees everything that the
// instance holds. It returns when the process is gone.
func (in *instance) end(politely bool) {
	if in.peer != nil {
		in.endPeer()
		return
	}
	p := in.process()
	if politely && in.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), graceTime)
		// The answer is of no interest: the process ends while it gives it.
		_ = in.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
		select {
		case <-p.ended:
		case <-ctx.Done():
		}
		cancel()
	}
	if p != nil && p.ID() != "" {
		_ = p.Kill(context.Background())
		<-p.ended
		select {
		case <-p.silent:
		case <-time.After(graceTime):
		}
	}
	if in.conn != nil {
		in.conn.Close()
	}
	in.streams.Wait()
	in.lastWords = in.lines.close()
	os.RemoveAll(in.dir)
}

// ended is closed when the process is gone.
func (in *instance) ended() <-chan struct{} {
	if in.peer != nil {
		return in.peer.gone
	}
	return in.process().ended
}

// pid is the process id, 0 for a container.
func (in *instance) pid() int {
	if in.peer != nil {
		return 0
	}
	pid, _ := strconv.Atoi(in.process().ID())
	return pid
}

// excess is what a process was ended for taking, nil if it was not.
func (in *instance) excess() error {
	if in.peer != nil {
		return nil
	}
	return in.process().ceiling()
}

// explain says in our words why a start failed.
func (in *instance) explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not ready within the start time-out (startTimeout): %w", err)
	}
	p := in.process()
	if p == nil {
		return err
	}
	if excess := in.excess(); excess != nil {
		return excess
	}
	parts := strings.Split(p.printed(), "|")
	switch {
	case len(parts) < 2 && p.ID() != "":
		err = errors.New("it printed no handshake: is it a strategy built with the SDK, for this machine?")
	case len(parts) < 2:
	case parts[0] != fmt.Sprint(plugin.CoreProtocolVersion):
		return fmt.Errorf("plugin speaks core protocol %s, this host speaks %d: it was built with another go-plugin", parts[0], plugin.CoreProtocolVersion)
	case parts[1] != fmt.Sprint(sdk.ProtocolVersion):
		return fmt.Errorf("plugin speaks strategy protocol %s, this host speaks %d: build it with another version of the SDK", parts[1], sdk.ProtocolVersion)
	}
	if in.lastWords != "" {
		return fmt.Errorf("%w; it said: %s", err, in.lastWords)
	}
	return err
}

// death says how an instance ended, after end.
func (in *instance) death() error {
	if in.peer != nil {
		<-in.peer.gone
		return in.peer.why
	}
	if excess := in.excess(); excess != nil {
		return excess
	}
	text := "exit status 0"
	if err := in.process().Wait(context.Background()); err != nil {
		text = err.Error()
	}
	if in.lastWords != "" {
		return fmt.Errorf("the process ended (%s); it said: %s", text, in.lastWords)
	}
	return fmt.Errorf("the process ended (%s)", text)
}
