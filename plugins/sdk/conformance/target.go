package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-project/weir/plugins/sdk"
)

// Target is a strategy that can be started.
type Target interface {
	// Start starts it, or connects to it. The context bounds the start alone.
	Start(ctx context.Context) (Instance, error)
}

// Instance is a running strategy.
type Instance interface {
	// Conn is the connection to its services.
	Conn() grpc.ClientConnInterface
	// Stop ends it, or the connection where it is not ours to end.
	Stop()
}

// processInstance is an instance that the kit may do to as a host's bad day would.
type processInstance interface {
	Instance
	Ended() (bool, string) // whether the process is gone, and its last words
	AwaitEnd(most time.Duration)
	Kill() // at once
	Signal(stop bool) error
	Dial(ctx context.Context) (net.Conn, error) // past mutual TLS
	Noise() []string                            // lines on standard output before the handshake
	Shutdown(ctx context.Context) error         // politely; nil once it is gone
	Leftovers() bool                            // whether children outlived it
}

func dialOptions(extra ...grpc.DialOption) []grpc.DialOption {
	return append([]grpc.DialOption{grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(sdk.MaxMessageBytes), grpc.MaxCallSendMsgSize(4*sdk.MaxMessageBytes))}, extra...)
}

// InProcess serves a strategy in this process, over a connection in memory:
// everything that crosses the wire in production crosses it here. Each start makes a
// new strategy.
func InProcess(make func() sdk.Strategy) Target { return inProcess{make: make} }

type inProcess struct {
	make    func() sdk.Strategy
	options []grpc.ServerOption // beside those of the SDK
}

type served struct {
	conn   *grpc.ClientConn
	server *grpc.Server
	done   chan struct{}
}

func (t inProcess) Start(context.Context) (Instance, error) {
	listener := bufconn.Listen(1 << 20)
	s := &served{server: grpc.NewServer(append(sdk.ServerOptions(), t.options...)...), done: make(chan struct{})}
	sdk.Register(s.server, t.make())
	go func() {
		defer close(s.done)
		// ends with the server, which has no other way to fail in memory
		_ = s.server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///strategy", dialOptions(grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		s.server.Stop()
		<-s.done
		return nil, err
	}
	s.conn = conn
	return s, nil
}

func (s *served) Conn() grpc.ClientConnInterface { return s.conn }

func (s *served) Stop() {
	s.conn.Close()
	s.server.Stop()
	<-s.done
}

// Socket is a strategy that listens on a unix socket already, as one in a container
// does. It is not ours to start or to end.
func Socket(path string) Target { return socket(path) }

type socket string

type connected struct{ conn *grpc.ClientConn }

func (t socket) Start(ctx context.Context) (Instance, error) {
	var d net.Dialer
	probe, err := d.DialContext(ctx, "unix", string(t))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("nothing listens on %s: no such socket", string(t))
	case err != nil:
		return nil, err
	}
	probe.Close()
	conn, err := grpc.NewClient("passthrough:///strategy", dialOptions(grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", string(t)) }))...)
	if err != nil {
		return nil, err
	}
	return &connected{conn}, nil
}

func (c *connected) Conn() grpc.ClientConnInterface { return c.conn }
func (c *connected) Stop()                          { c.conn.Close() }

// lastLines are the end of a text, for messages.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
