package sdk

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

type atSocket struct{}

func (atSocket) Describe() Description           { return Description{Name: "at-socket", Version: "1"} }
func (atSocket) Configure(json.RawMessage) error { return nil }
func (atSocket) Price(context.Context, *PriceRequest) (*PriceAnswer, error) {
	return &PriceAnswer{}, nil
}

// TestServeSocket serves, refuses to serve where somebody does, takes the place of what
// was left behind, and ends when it is asked to.
func TestServeSocket(t *testing.T) {
	// Serial: it sends this process a signal.
	dir, err := os.MkdirTemp("", "sdk")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	for range 2 { // the second time there is a socket that nobody serves at
		ended := make(chan error, 1)
		go func() { ended <- ServeSocket(atSocket{}, path) }()
		conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := NewClient(waiting{conn}).Describe(t.Context())
		if err != nil || manifest.Name != "at-socket" {
			t.Fatalf("manifest %+v, error %v", manifest, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("socket %v, error %v", info, err)
		}
		if err := ServeSocket(atSocket{}, path); err == nil || !strings.Contains(err.Error(), "somebody serves") {
			t.Errorf("a second one at the same socket: %v", err)
		}
		conn.Close()
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ServeSocket(atSocket{}, file); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("at a file: %v", err)
	}
	if err := ServeSocket(atSocket{}, filepath.Join(dir, "none", "s")); err == nil {
		t.Error("served in a folder that is not there")
	}
}

// TestMajorsAtSocket: further major versions of the protocol are at the same socket, unless
// they cannot be.
func TestMajorsAtSocket(t *testing.T) {
	// Serial: it sends this process a signal.
	dir, err := os.MkdirTemp("", "sdk")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	second := Major{Version: 2, Register: func(s *grpc.Server) { healthpb.RegisterHealthServer(s, health.NewServer()) }}
	ended := make(chan error, 1)
	go func() { ended <- ServeSocket(atSocket{}, path, second) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if manifest, err := NewClient(waiting{conn}).Describe(t.Context()); err != nil || manifest.Name != "at-socket" {
		t.Errorf("the first version: manifest %+v, error %v", manifest, err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("the second version: %v", err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	same := Major{Version: 2, Register: func(s *grpc.Server) { Register(s, atSocket{}) }}
	for want, others := range map[string][]Major{
		"version 1 of the protocol is none, or is served already":                    {{Version: 1, Register: second.Register}},
		"version 2 of the protocol is none, or is served already":                    {second, second},
		"version 2 of the protocol: service weir.":                                   {same},
		"version 3 of the protocol: service grpc.health.v1.Health is served already": {second, {Version: 3, Register: second.Register}},
	} {
		if err := ServeSocket(atSocket{}, path, others...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// waiting waits until there is somebody to ask.
type waiting struct{ *grpc.ClientConn }

func (w waiting) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return w.ClientConn.Invoke(ctx, method, args, reply, append(opts, grpc.WaitForReady(true))...)
}
