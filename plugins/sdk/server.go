package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

// A process remembers the catalogue in force and the one before, for calls that are under
// way while the host sends another; and as many more as have no more offerings together
// than two of the largest, for a host that sends what is too large for one in parts.
const (
	keptCatalogues    = 2
	mostCatalogues    = 8
	mostKeptOfferings = keptCatalogues * MaxOfferings
)

// server serves one strategy.
type server struct {
	strategyv1.UnimplementedStrategyServiceServer
	instancev1.UnimplementedInstanceSelectionServiceServer
	consolidationv1.UnimplementedConsolidationServiceServer

	strategy Strategy

	config sync.RWMutex // held for reading by Price and Score, for writing by Configure

	mu         sync.Mutex
	catalogues []*Catalogue // newest last
}

// Register puts the services of a strategy on a gRPC server, for authors who serve
// by other means than Serve.
func Register(s *grpc.Server, strategy Strategy) {
	srv := &server{strategy: strategy}
	strategyv1.RegisterStrategyServiceServer(s, srv)
	if _, ok := strategy.(Pricer); ok {
		instancev1.RegisterInstanceSelectionServiceServer(s, srv)
	}
	if _, ok := strategy.(Scorer); ok {
		consolidationv1.RegisterConsolidationServiceServer(s, srv)
	}
}

// Describe implements StrategyService.
func (s *server) Describe(context.Context, *strategyv1.DescribeRequest) (*strategyv1.DescribeResponse, error) {
	d := s.strategy.Describe()
	r := &strategyv1.DescribeResponse{Name: d.Name, Version: d.Version, Summary: d.Summary, DocumentationUrl: d.Documentation,
		ConfigSchema: d.ConfigSchema, Deterministic: d.Deterministic}
	if _, ok := s.strategy.(Pricer); ok {
		levels := []strategyv1.Level{strategyv1.Level_LEVEL_PRICE}
		if _, ok := s.strategy.(Planner); ok {
			levels = append(levels, strategyv1.Level_LEVEL_PLAN)
		}
		r.Contracts = append(r.Contracts, &strategyv1.Contract{Kind: strategyv1.Kind_KIND_INSTANCE_SELECTION, Version: ProtocolVersion, Levels: levels})
	}
	if _, ok := s.strategy.(Scorer); ok {
		levels := []strategyv1.Level{strategyv1.Level_LEVEL_SCORE}
		if _, ok := s.strategy.(Proposer); ok {
			levels = append(levels, strategyv1.Level_LEVEL_PROPOSE)
		}
		r.Contracts = append(r.Contracts, &strategyv1.Contract{Kind: strategyv1.Kind_KIND_CONSOLIDATION, Version: ProtocolVersion, Levels: levels})
	}
	return r, nil
}

// Configure implements StrategyService.
func (s *server) Configure(_ context.Context, m *strategyv1.ConfigureRequest) (*strategyv1.ConfigureResponse, error) {
	var catalogue *Catalogue
	if m.Catalogue != nil {
		c, err := toCatalogue(m.Catalogue)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		catalogue = c
	}
	if m.ConfigJson != nil {
		if err := s.configure(json.RawMessage(*m.ConfigJson)); err != nil {
			return &strategyv1.ConfigureResponse{Errors: configErrors(err)}, nil
		}
	}
	if catalogue != nil {
		s.remember(catalogue)
	}
	return &strategyv1.ConfigureResponse{}, nil
}

func (s *server) configure(config json.RawMessage) error {
	s.config.Lock()
	defer s.config.Unlock()
	return s.strategy.Configure(config)
}

func configErrors(err error) []*strategyv1.ConfigError {
	var one *ConfigError
	if errors.As(err, &one) {
		return []*strategyv1.ConfigError{{Field: one.Field, Message: one.Message}}
	}
	return []*strategyv1.ConfigError{{Message: err.Error()}}
}

func (s *server) remember(c *Catalogue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := []*Catalogue{}
	for _, old := range s.catalogues {
		if old.Hash != c.Hash {
			kept = append(kept, old)
		}
	}
	kept = append(kept, c)
	first, offerings := len(kept), 0
	for first > 0 && len(kept)-first < mostCatalogues {
		offerings += len(kept[first-1].Offerings)
		if len(kept)-first >= keptCatalogues && offerings > mostKeptOfferings {
			break
		}
		first--
	}
	s.catalogues = kept[first:]
}

func (s *server) catalogue(hash []byte) (*Catalogue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.catalogues {
		if string(c.Hash[:]) == string(hash) {
			return c, nil
		}
	}
	return nil, status.Errorf(codes.FailedPrecondition, "catalogue %x is not known here", hash)
}

// Price implements InstanceSelectionService.
func (s *server) Price(ctx context.Context, m *instancev1.PriceRequest) (*instancev1.PriceResponse, error) {
	c, err := s.catalogue(m.CatalogueHash)
	if err != nil {
		return nil, err
	}
	req, err := toPriceRequest(c, m)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.config.RLock()
	defer s.config.RUnlock()
	a, err := s.strategy.(Pricer).Price(ctx, req)
	if err != nil {
		return nil, asStatus(ctx, err)
	}
	if a == nil {
		return nil, status.Error(codes.Internal, "the strategy returned neither an answer nor an error")
	}
	return fromPriceAnswer(a), nil
}

// Score implements ConsolidationService.
func (s *server) Score(ctx context.Context, m *consolidationv1.ScoreRequest) (*consolidationv1.ScoreResponse, error) {
	c, err := s.catalogue(m.CatalogueHash)
	if err != nil {
		return nil, err
	}
	req, err := toScoreRequest(c, m)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.config.RLock()
	defer s.config.RUnlock()
	a, err := s.strategy.(Scorer).Score(ctx, req)
	if err != nil {
		return nil, asStatus(ctx, err)
	}
	if a == nil {
		return nil, status.Error(codes.Internal, "the strategy returned neither an answer nor an error")
	}
	return fromScoreAnswer(a), nil
}

// Plan implements InstanceSelectionService.
func (s *server) Plan(ctx context.Context, m *instancev1.PlanRequest) (*instancev1.PlanResponse, error) {
	planner, ok := s.strategy.(Planner)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "level plan is not served")
	}
	c, err := s.catalogue(m.GetMarket().GetCatalogueHash())
	if err != nil {
		return nil, err
	}
	req, err := toPlanRequest(c, m)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.config.RLock()
	defer s.config.RUnlock()
	a, err := planner.Plan(ctx, req)
	if err != nil {
		return nil, asStatus(ctx, err)
	}
	if a == nil {
		return nil, status.Error(codes.Internal, "the strategy returned neither an answer nor an error")
	}
	return fromPlanAnswer(a), nil
}

// Propose implements ConsolidationService.
func (s *server) Propose(stream grpc.BidiStreamingServer[consolidationv1.ProposeRequest, consolidationv1.ProposeResponse]) error {
	proposer, ok := s.strategy.(Proposer)
	if !ok {
		return status.Error(codes.Unimplemented, "level propose is not served")
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	m := first.GetWorld()
	if m == nil {
		return status.Error(codes.InvalidArgument, "the first message is not a world")
	}
	c, err := s.catalogue(m.CatalogueHash)
	if err != nil {
		return err
	}
	world, err := toProposeWorld(c, m)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.config.RLock()
	defer s.config.RUnlock()
	a, err := proposer.Propose(stream.Context(), world, simulator(stream))
	if err != nil {
		return asStatus(stream.Context(), err)
	}
	if a == nil {
		return status.Error(codes.Internal, "the strategy returned neither an answer nor an error")
	}
	return stream.Send(&consolidationv1.ProposeResponse{Message: &consolidationv1.ProposeResponse_Proposal{
		Proposal: &consolidationv1.Proposal{Moves: fromMoves(a.Moves)}}})
}

// simulator asks the host over the stream, one question after the other.
func simulator(stream grpc.BidiStreamingServer[consolidationv1.ProposeRequest, consolidationv1.ProposeResponse]) Simulate {
	var mu sync.Mutex
	return func(moves []ProposedMove) ([]Trial, error) {
		mu.Lock()
		defer mu.Unlock()
		if err := stream.Send(&consolidationv1.ProposeResponse{Message: &consolidationv1.ProposeResponse_Simulate{
			Simulate: &consolidationv1.Simulate{Moves: fromMoves(moves)}}}); err != nil {
			return nil, err
		}
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if m.GetSimulated() == nil || len(m.GetSimulated().Trials) != len(moves) {
			return nil, fmt.Errorf("the host answered %d trials for %d moves", len(m.GetSimulated().GetTrials()), len(moves))
		}
		return toTrials(m.GetSimulated()), nil
	}
}

// asStatus keeps the two codes that mean something to the host out of reach of an
// author's own errors.
func asStatus(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Aborted, err.Error())
}

// recovering turns a panic of the strategy into an error of the call: the process
// lives on, and the stack is on standard error.
func recovering(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer asError(info.FullMethod, &err)
	return next(ctx, req)
}

// recoveringStream is recovering for calls that are streams.
func recoveringStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer asError(info.FullMethod, &err)
	return next(srv, stream)
}

func asError(method string, err *error) {
	if p := recover(); p != nil {
		fmt.Fprintf(os.Stderr, "[ERROR] panic in %s: %v\n%s", method, p, debug.Stack())
		*err = status.Errorf(codes.Internal, "panic: %v", p)
	}
}
