package conformance

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
	"github.com/weir-project/weir/plugins/sdk"
)

// method is the name of the call that a problem is asked by.
func method(p *Problem) string {
	if p.Price != nil {
		return instancev1.InstanceSelectionService_Price_FullMethodName
	}
	return consolidationv1.ConsolidationService_Score_FullMethodName
}

func checkMutualTLS(ctx context.Context, s *session, f *finding) {
	p := s.live.(processInstance)
	for what, creds := range map[string]credentials.TransportCredentials{
		"a caller without TLS":           insecure.NewCredentials(),
		"a caller without a certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
	} {
		conn, err := grpc.NewClient("passthrough:///strategy", grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.Dial(ctx) }))
		if err != nil {
			f.errorf("%v", err)
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, callTime)
		if _, err := strategyv1.NewStrategyServiceClient(conn).Describe(ctx, &strategyv1.DescribeRequest{}); err == nil {
			f.errorf("%s is answered", what)
		} else if status.Code(err) == codes.DeadlineExceeded {
			f.errorf("%s is neither answered nor refused", what)
		}
		cancel()
		conn.Close()
	}
}

func checkCatalogue(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for _, p := range s.sample() {
		stranger := *p.Catalogue()
		stranger.Hash[0] ^= 0xff
		_, err := s.call(ctx, withCatalogue(&p, &stranger))
		if status.Code(err) != codes.FailedPrecondition {
			f.errorf("a catalogue that was never sent: %v, want FAILED_PRECONDITION", err)
		}
		next := &sdk.Catalogue{Offerings: p.Catalogue().Offerings[:2]}
		sdk.HashCatalogue(next)
		if err := s.client.Configure(ctx, nil, next); err != nil {
			f.errorf("sending another catalogue: %v", err)
		}
		if _, err := s.call(ctx, &p); err != nil {
			f.errorf("a call about the catalogue before the last: %v", err)
		}
	}
	s.steady(ctx, f, before, "after catalogues were changed")
}

func withCatalogue(p *Problem, c *sdk.Catalogue) *Problem {
	if p.Price != nil {
		r := *p.Price
		r.Catalogue = c
		return &Problem{Name: p.Name, Price: &r}
	}
	r := *p.Score
	r.Catalogue = c
	return &Problem{Name: p.Name, Score: &r}
}

// checkCancelled gives calls up before they are sent, while they are on their way and
// while they are answered.
func checkCancelled(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	for _, p := range s.mine([]Problem{{Name: "5,000 nodes", Price: LargePrice()}, {Name: "5,000 nodes", Score: LargeScore()}}) {
		if err := s.client.Configure(ctx, nil, p.Catalogue()); err != nil {
			f.errorf("sending the catalogue: %v", err)
			continue
		}
		for i := range 20 {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
			if i == 0 {
				cancel()
			}
			// whether this one was too late or in time is of no interest
			_, _ = s.call(ctx, &p)
			cancel()
		}
	}
	s.steady(ctx, f, before, "after cancelled calls")
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no message of bytes", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is no place for bytes", v)
	}
	*b = data.Materialize()
	return nil
}

// checkGarbage sends bytes that are no message, calls a method that nobody has, and
// asks questions that do not fit the catalogue.
func checkGarbage(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	conn := s.live.Conn()
	refused := func(what string, err error) {
		switch status.Code(err) {
		case codes.OK:
			f.errorf("%s was answered", what)
		case codes.DeadlineExceeded, codes.Unavailable:
			f.errorf("%s: %v", what, err)
		}
	}
	for _, p := range s.sample() {
		var out []byte
		refused("a message of random bytes", conn.Invoke(ctx, method(&p), []byte("\xff\xff\xff\xffno protobuf"), &out, grpc.ForceCodecV2(rawCodec{})))
		refused("an empty message", conn.Invoke(ctx, method(&p), []byte{}, &out, grpc.ForceCodecV2(rawCodec{})))
	}
	if err := conn.Invoke(ctx, "/weir.strategy.v1.StrategyService/NoSuchMethod", &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unimplemented {
		f.errorf("a method that does not exist: %v, want UNIMPLEMENTED", err)
	}
	if s.manifest.Serves(sdk.InstanceSelection) {
		beyond := sdk.SamplePrice()
		beyond.Pools[0].Offerings = []int{0, math.MaxInt32}
		_, err := s.client.Price(ctx, beyond)
		refused("an offering beyond the catalogue", err)
		short := sdk.SamplePrice()
		short.USDPerHour = short.USDPerHour[:3]
		_, err = s.client.Price(ctx, short)
		refused("fewer prices than the catalogue has offerings", err)
	}
	if s.manifest.Serves(sdk.Consolidation) {
		beyond := sdk.SampleScore()
		beyond.Moves[0].Pool = 99
		_, err := s.client.Score(ctx, beyond)
		refused("a move of a pool that is not there", err)
	}
	s.steady(ctx, f, before, "after garbage")
}

func checkOversize(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	huge := map[string]string{"example.com/huge": strings.Repeat("x", sdk.MaxMessageBytes+1)}
	for _, p := range s.sample() {
		var err error
		if p.Price != nil {
			p.Price.Pools[0].Annotations = huge
			_, err = s.client.Price(ctx, p.Price)
		} else {
			p.Score.Pools[0].Annotations = huge
			_, err = s.client.Score(ctx, p.Score)
		}
		if code := status.Code(err); code == codes.OK || code == codes.DeadlineExceeded || code == codes.Unavailable {
			f.errorf("a message of more than %d MiB: %v, want an error of the call such as RESOURCE_EXHAUSTED", sdk.MaxMessageBytes>>20, err)
		}
	}
	s.steady(ctx, f, before, "after messages beyond the bounds")
}

func checkGarbledConnection(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	p := s.live.(processInstance)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", strings.Repeat("\x16\x03\x01\xff\xff", 200), ""} {
		conn, err := p.Dial(ctx)
		if err != nil {
			f.errorf("connecting: %v", err)
			continue
		}
		// it may well have hung up already
		_, _ = conn.Write([]byte(text))
		conn.Close()
	}
	s.steady(ctx, f, before, "after connections that spoke nonsense")
}

// stoppedTime is how long each call to a process that stands still is waited for.
const stoppedTime = 300 * time.Millisecond

func checkStopped(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	p := s.live.(processInstance)
	if err := p.Signal(true); err != nil {
		f.skipped = err.Error()
		return
	}
	for _, problem := range s.sample() {
		ctx, cancel := context.WithTimeout(ctx, stoppedTime)
		// nobody answers, and the call is given up
		_, _ = s.call(ctx, &problem)
		cancel()
	}
	if err := p.Signal(false); err != nil {
		f.errorf("letting it go on: %v", err)
	}
	s.steady(ctx, f, before, "after it was stopped")
}

func checkRestart(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	p := s.live.(processInstance)
	done := make(chan struct{})
	large := s.mine([]Problem{{Name: "5,000 nodes", Price: LargePrice()}, {Name: "5,000 nodes", Score: LargeScore()}})
	go func() {
		defer close(done)
		for i := range large {
			// the process is killed meanwhile
			_, _ = s.ask(ctx, &large[i])
		}
	}()
	p.Kill()
	<-done
	s.stop()
	if err := s.start(ctx); err != nil {
		f.errorf("starting it again: %v", err)
		return
	}
	s.steady(ctx, f, before, "started again")
}

// shutdownTime is how long a process may take to end; the host waits 2 s and then
// kills it.
const shutdownTime = 5 * time.Second

func checkShutdown(ctx context.Context, s *session, f *finding) {
	p := s.live.(processInstance)
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		f.errorf("it has not ended %v after /plugin.GRPCController/Shutdown", shutdownTime)
		return
	}
	if p.Leftovers() {
		f.errorf("processes that it started are still there")
	}
}
