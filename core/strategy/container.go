package strategy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-project/weir/plugins/sdk"
)

// How often a strategy in a container is asked whether it is there, how long it has to
// say so, and how often in a row it may not.
const (
	pulseEvery   = 5 * time.Second
	pulseTime    = 5 * time.Second
	pulsesMissed = 3
)

// maxSocketPath is what the kernel takes for an address.
const maxSocketPath = 107

func (s Spec) checkSocket() error {
	switch {
	case !filepath.IsAbs(s.Socket):
		return fmt.Errorf("socket %q is not absolute", s.Socket)
	case len(s.Socket) > maxSocketPath:
		return fmt.Errorf("socket %q has %d bytes, at most %d", s.Socket, len(s.Socket), maxSocketPath)
	case s.Path != "" || s.Image != "":
		return errors.New("has a socket and a program: it is either in a container or a process of ours")
	}
	return nil
}

// peer is who serves at the socket of a container: there is no process of ours.
type peer struct {
	gone chan struct{} // closed when the connection is lost or given up
	once sync.Once
	why  error // why it is gone

	stop  context.CancelFunc // ends the watch
	watch sync.WaitGroup
}

// leave gives the connection up, with the reason; the first one counts.
func (p *peer) leave(why error) {
	p.once.Do(func() {
		p.why = why
		close(p.gone)
	})
}

// dialInstance connects to a strategy in a container and brings it to the point where
// it can serve. On every error the connection is closed when it returns.
func dialInstance(ctx context.Context, spec Spec, log *zap.Logger) (_ *instance, err error) {
	in := &instance{lines: newLineLog(log), sending: make(chan struct{}, 1), peer: &peer{gone: make(chan struct{})}}
	watching, stop := context.WithCancel(context.Background())
	in.peer.stop = stop
	defer func() {
		if err != nil {
			in.end(false)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				err = fmt.Errorf("not ready within the start time-out (startTimeout): %w", err)
			}
			err = fmt.Errorf("socket %s: %w", spec.Socket, err)
		}
	}()
	var who peerID
	raw, err := dialSocket(ctx, spec.Socket, &who)
	if err != nil {
		return nil, err
	}
	in.fence = who.fence()
	if err := in.fence.check(spec); err != nil {
		_ = raw.Close()
		return nil, err
	}
	// One connection, checked above: another one would be another process.
	once := make(chan net.Conn, 1)
	once <- raw
	dial := func(context.Context, string) (net.Conn, error) {
		select {
		case c := <-once:
			return c, nil
		default:
			return nil, errors.New("the connection was lost")
		}
	}
	in.conn, err = grpc.NewClient("passthrough:///strategy", grpc.WithContextDialer(dial), grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(sdk.MaxMessageBytes), grpc.MaxCallSendMsgSize(sdk.MaxMessageBytes)))
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("connecting: %w", err)
	}
	in.client = sdk.NewClient(in.conn)
	in.conn.Connect()
	for st := in.conn.GetState(); st != connectivity.Ready; st = in.conn.GetState() {
		if st == connectivity.TransientFailure || !in.conn.WaitForStateChange(ctx, st) {
			return nil, errors.Join(errors.New("whoever listens there does not speak gRPC"), ctx.Err())
		}
	}
	in.peer.watch.Add(2)
	go in.watchState(watching)
	go in.watchPulse(watching)
	return in, in.prepare(ctx, spec)
}

// dialSocket connects and learns who answers. The socket must be one itself: where a
// link leads, others decide.
func dialSocket(ctx context.Context, path string, who *peerID) (net.Conn, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("nobody serves there yet: %w", err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("it has mode %s: want a socket", info.Mode())
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if *who, err = credentialsOf(conn.(*net.UnixConn)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("asking who serves there: %w", err)
	}
	if owner, ok := ownerOf(info); ok && who.known && owner != who.uid {
		_ = conn.Close()
		return nil, fmt.Errorf("user %d serves at a socket that user %d made", who.uid, owner)
	}
	return conn, nil
}

// peerID is the process at the other end of a socket.
type peerID struct {
	known bool
	pid   int // 0 = not of our process name space
	uid   int
}

// fence is what a container is worth: a process that we can see and that is of our own
// user is beside us, whatever it is called.
func (c peerID) fence() Fence {
	f := Fence{Isolation: inContainer, Whole: true}
	switch {
	case !c.known:
		f.Whole, f.Missing = false, "this system does not say who serves at a socket"
	case c.pid != 0 && c.uid == os.Getuid():
		f.Whole, f.Missing = false, fmt.Sprintf("whoever serves at the socket is process %d of our own user (%d): it could read our tokens", c.pid, c.uid)
	}
	return f
}

// watchState ends the instance when the connection is lost, as by a restart of the
// container.
func (in *instance) watchState(ctx context.Context) {
	defer in.peer.watch.Done()
	if in.conn.WaitForStateChange(ctx, connectivity.Ready) {
		in.peer.leave(errors.New("the connection to the container was lost"))
	}
}

// watchPulse ends the instance when it does not say any more who it is.
func (in *instance) watchPulse(ctx context.Context) {
	defer in.peer.watch.Done()
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for missed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, pulseTime)
		_, err := in.client.Describe(asking)
		cancel()
		if missed++; err == nil {
			missed = 0
		}
		if missed == pulsesMissed {
			in.peer.leave(fmt.Errorf("the container does not say who it is: %w", err))
			return
		}
	}
}

// endPeer is end for a container: there is a connection and nothing else.
func (in *instance) endPeer() {
	in.peer.leave(errors.New("the connection was given up"))
	in.peer.stop()
	if in.conn != nil {
		in.conn.Close()
	}
	in.peer.watch.Wait()
	in.lines.close()
}
