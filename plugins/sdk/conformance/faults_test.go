package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
	"github.com/weir-project/weir/plugins/sdk"
)

// Faults of processes that the SDK does not let happen.
const (
	takesAnybody   = "takes anybody"
	isUnwell       = "is unwell"
	diesOfNonsense = "dies of nonsense"
	givesUpToo     = "gives up for good with a call that is given up"
)

// nonsense is closed once a connection has not shaken hands.
var nonsense = make(chan struct{})

// watching closes nonsense.
type watching struct {
	credentials.TransportCredentials
	once *sync.Once
}

func (w watching) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		w.once.Do(func() { close(nonsense) })
	}
	return conn, info, err
}

// serveByHand does what sdk.Serve does, but for the fault.
func serveByHand(wrong string) error {
	cert, err := ownCertificate()
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}
	if wrong == takesAnybody {
		config.ClientAuth = tls.NoClientCert
	}
	options := append(sdk.ServerOptions(), grpc.Creds(watching{credentials.NewTLS(config), &sync.Once{}}))
	if wrong == givesUpToo {
		var gone atomic.Bool
		options = append(options, grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			if end, ok := ctx.Deadline(); ok && time.Until(end) <= stoppedTime {
				gone.Store(true)
			}
			if gone.Load() {
				return nil, status.Error(codes.Unavailable, "gone")
			}
			return ctx, nil
		}))
	}
	server, well := grpc.NewServer(options...), health.NewServer()
	sdk.Register(server, &rogue{wrong: wrong})
	state := grpc_health_v1.HealthCheckResponse_SERVING
	if wrong == isUnwell {
		state = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	well.SetServingStatus("plugin", state)
	grpc_health_v1.RegisterHealthServer(server, well)
	listener, err := net.Listen("unix", os.Getenv("PLUGIN_UNIX_SOCKET_DIR")+"/s")
	if err != nil {
		return err
	}
	fmt.Printf("1|1|unix|%s|grpc|%s\n", listener.Addr(), base64.RawStdEncoding.EncodeToString(cert.Certificate[0]))
	return server.Serve(listener)
}

// ownCertificate is one for localhost that is signed by itself.
func ownCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// intercepted is a strategy without a fault behind a server that has one.
func intercepted(options ...grpc.ServerOption) func(*testing.T) Target {
	return func(*testing.T) Target {
		return inProcess{make: func() sdk.Strategy { return &rogue{} }, options: options}
	}
}

// after is an interceptor that changes what was answered.
func after(change func(req, answer any, err error) (any, error)) grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		answer, err := handle(ctx, req)
		return change(req, answer, err)
	})
}

// otherCode is for catalogues that are not known.
func otherCode(_, answer any, err error) (any, error) {
	if status.Code(err) == codes.FailedPrecondition {
		return nil, status.Error(codes.Internal, "what catalogue?")
	}
	return answer, err
}

// onlyTheLast forgets a catalogue as soon as there is another.
func onlyTheLast() grpc.ServerOption {
	var last atomic.Value
	return after(func(req, answer any, err error) (any, error) {
		switch req := req.(type) {
		case *strategyv1.ConfigureRequest:
			if req.Catalogue != nil {
				last.Store(string(req.Catalogue.Hash))
			}
		case *instancev1.PriceRequest:
			if last.Load() != string(req.CatalogueHash) {
				return nil, status.Error(codes.FailedPrecondition, "forgotten")
			}
		}
		return answer, err
	})
}

// answersAnything has an answer where there is none.
func answersAnything(req, answer any, err error) (any, error) {
	if _, price := req.(*instancev1.PriceRequest); price && err != nil {
		return &instancev1.PriceResponse{}, nil
	}
	return answer, err
}

func inMemoryRogue(wrong string) func(*testing.T) Target {
	return func(*testing.T) Target {
		return InProcess(func() sdk.Strategy { return &rogue{wrong: wrong, several: make(chan struct{})} })
	}
}

func processRogue(wrong string) func(*testing.T) Target {
	return func(t *testing.T) Target { return Process(program(t, wrong)) }
}

// single are checks, each with a target that it finds fault with, and why.
var single = []struct {
	check, why string
	target     func(*testing.T) Target
}{
	{"manifest", "two answers of Describe differ", inMemoryRogue("another version each time")},
	{"health", "it says NOT_SERVING", processRogue(isUnwell)},
	{"mutual-tls", "a caller without a certificate is answered", processRogue(takesAnybody)},
	{"config", "factor: want at most 2", inMemoryRogue("")},
	{"determinism", "two answers to the same question differ", inMemoryRogue("another price each time")},
	{"concurrent", "32 calls at once: two answers to the same question differ", inMemoryRogue("mixes up calls")},
	{"catalogue", "a catalogue that was never sent", intercepted(after(otherCode))},
	{"catalogue", "a call about the catalogue before the last", intercepted(onlyTheLast())},
	{"garbage", "an empty message was answered", intercepted(after(answersAnything))},
	{"oversize", "a message of more than", intercepted(grpc.MaxRecvMsgSize(math.MaxInt32))},
	{"garbled-connection", "the process ended: exit status 4", processRogue(diesOfNonsense)},
	{"stopped", "after it was stopped: ", processRogue(givesUpToo)},
	{"restart", "starting it again: ", processRogue("starts once")},
}

// TestSingleChecks runs checks alone, each against a fault of its own: whole runs find that
// they pass what has none.
func TestSingleChecks(t *testing.T) {
	t.Parallel()
	for _, c := range single {
		t.Run(c.check+": "+c.why, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(checks, func(known check) bool { return known.name == c.check })
			if i < 0 {
				t.Fatalf("there is no check %q", c.check)
			}
			s := &session{target: c.target(t), opts: Options{LatencyLimit: time.Minute, StartTime: time.Minute}, report: &Report{}}
			if err := s.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { s.stop() }()
			if err := s.configure(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.opts.Config = json.RawMessage(`{"factor": 3}`) // more than it takes
			if c.check != "config" {
				s.opts.Config = nil
			}
			s.one(t.Context(), checks[i])
			if r := s.report.Checks[0]; r.Outcome != Failed || !strings.Contains(strings.Join(r.Reasons, "\n"), c.why) {
				t.Errorf("%s %q, want that it fails for %q", r.Outcome, r.Reasons, c.why)
			}
		})
	}
}

// TestEveryCheckCanFail: there is a fault for each check.
func TestEveryCheckCanFail(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, names := range inMemory {
		for _, name := range names {
			found[name] = true
		}
	}
	for _, c := range processes {
		for _, name := range c.checks {
			found[name] = true
		}
	}
	for _, c := range single {
		found[c.check] = true
	}
	for _, c := range checks {
		if !found[c.name] {
			t.Errorf("no test makes check %s fail", c.name)
		}
	}
}
