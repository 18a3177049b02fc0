package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

// Manifest is what a strategy in another process says about itself.
type Manifest struct {
	Description
	Contracts []Contract
}

// Contract is one service that a strategy serves.
type Contract struct {
	Kind    Kind
	Version int
	Levels  []string // price, score, plan, propose
}

// Kind of decision.
type Kind string

// The kinds, as in the configuration.
const (
	InstanceSelection Kind = "instance-selection"
	Consolidation     Kind = "consolidation"
)

var kinds = map[strategyv1.Kind]Kind{
	strategyv1.Kind_KIND_INSTANCE_SELECTION: InstanceSelection,
	strategyv1.Kind_KIND_CONSOLIDATION:      Consolidation,
}

var levels = map[strategyv1.Level]string{
	strategyv1.Level_LEVEL_PRICE: "price", strategyv1.Level_LEVEL_SCORE: "score",
	strategyv1.Level_LEVEL_PLAN: "plan", strategyv1.Level_LEVEL_PROPOSE: "propose",
}

// Serves says whether the strategy serves version 1 of the kind at the level that every
// strategy of it has: price or score.
func (m *Manifest) Serves(kind Kind) bool {
	return m.ServesLevel(kind, map[Kind]string{InstanceSelection: "price", Consolidation: "score"}[kind])
}

// ServesLevel says whether the strategy serves version 1 of the kind at a level: price,
// score, plan or propose.
func (m *Manifest) ServesLevel(kind Kind, level string) bool {
	return slices.ContainsFunc(m.Contracts, func(c Contract) bool {
		return c.Kind == kind && c.Version == ProtocolVersion && slices.Contains(c.Levels, level)
	})
}

// served lists what a manifest names, for messages.
func (m *Manifest) served() string {
	if len(m.Contracts) == 0 {
		return "nothing"
	}
	var out []string
	for _, c := range m.Contracts[:min(len(m.Contracts), 8)] {
		kind := string(c.Kind)
		if kind == "" {
			kind = "a kind that is not known here"
		}
		out = append(out, fmt.Sprintf("%s v%d at levels %q", kind, c.Version, c.Levels))
	}
	return strings.Join(out, ", ")
}

// Client talks to a strategy over gRPC. It checks the form of answers, not their
// sense. Its methods may be called from several goroutines at once.
type Client struct {
	strategy strategyv1.StrategyServiceClient
	price    instancev1.InstanceSelectionServiceClient
	score    consolidationv1.ConsolidationServiceClient
}

// NewClient is the client over a connection.
func NewClient(conn grpc.ClientConnInterface) *Client {
	return &Client{strategy: strategyv1.NewStrategyServiceClient(conn), price: instancev1.NewInstanceSelectionServiceClient(conn),
		score: consolidationv1.NewConsolidationServiceClient(conn)}
}

// Describe asks for the manifest and checks it.
func (c *Client) Describe(ctx context.Context) (*Manifest, error) {
	r, err := c.strategy.Describe(ctx, &strategyv1.DescribeRequest{})
	if err != nil {
		return nil, err
	}
	m := &Manifest{Description: Description{Name: r.Name, Version: r.Version, Summary: r.Summary, Documentation: r.DocumentationUrl,
		ConfigSchema: r.ConfigSchema, Deterministic: r.Deterministic}}
	for _, x := range r.Contracts {
		contract := Contract{Kind: kinds[x.Kind], Version: int(x.Version)}
		for _, l := range x.Levels {
			contract.Levels = append(contract.Levels, levels[l])
		}
		m.Contracts = append(m.Contracts, contract)
	}
	if err := CheckDescription(m.Description); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if !m.Serves(InstanceSelection) && !m.Serves(Consolidation) {
		return nil, fmt.Errorf("manifest of %s: neither instance-selection v%d at level price nor consolidation v%d at level score, but %s", m.Name, ProtocolVersion, ProtocolVersion, m.served())
	}
	return m, nil
}

// Configure sends a configuration, a catalogue or both; nil = unchanged. What the
// strategy finds wrong with the configuration comes back as *ConfigError.
func (c *Client) Configure(ctx context.Context, config json.RawMessage, catalogue *Catalogue) error {
	req := &strategyv1.ConfigureRequest{}
	if config != nil {
		if len(config) > MaxConfigBytes {
			return fmt.Errorf("configuration of %d bytes, at most %d", len(config), MaxConfigBytes)
		}
		text := string(config)
		req.ConfigJson = &text
	}
	if catalogue != nil {
		req.Catalogue = fromCatalogue(catalogue)
	}
	r, err := c.strategy.Configure(ctx, req)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range r.Errors {
		errs = append(errs, &ConfigError{Field: e.Field, Message: e.Message})
	}
	return errors.Join(errs...)
}

// Price asks for prices; the catalogue must have been sent. Where only the entries of some
// pools are out of form, the answer comes with an *AnswerError that wraps PoolFaults.
func (c *Client) Price(ctx context.Context, req *PriceRequest) (*PriceAnswer, error) {
	size := 256 << 10
	for i := range req.Pools {
		size += 4<<10 + 256*len(req.Pools[i].Offerings)
	}
	m, err := c.price.Price(ctx, fromPriceRequest(req), bound(size))
	if err != nil {
		return nil, err
	}
	a, faults := toPriceAnswer(m)
	if len(faults) > 0 {
		return a, &AnswerError{Err: faults}
	}
	return a, nil
}

// Score asks for verdicts; the catalogue must have been sent.
func (c *Client) Score(ctx context.Context, req *ScoreRequest) (*ScoreAnswer, error) {
	m, err := c.score.Score(ctx, fromScoreRequest(req), bound(256<<10+1<<10*len(req.Moves)))
	if err != nil {
		return nil, err
	}
	return toScoreAnswer(m), nil
}

// Plan asks for nodes; the catalogue must have been sent.
func (c *Client) Plan(ctx context.Context, req *PlanRequest) (*PlanAnswer, error) {
	pods := 0
	for i := range req.Groups {
		pods += req.Groups[i].Pods
	}
	m, err := c.price.Plan(ctx, fromPlanRequest(req), bound(256<<10+64*pods))
	if err != nil {
		return nil, err
	}
	return toPlanAnswer(m), nil
}

// Propose asks for moves; the catalogue must have been sent. simulate answers the
// strategy's simulations, one trial for each move; its errors end the call. Moves that
// are out of form, and more of them than the world allows, do so as well.
func (c *Client) Propose(ctx context.Context, world *ProposeWorld, simulate Simulate) (*Proposal, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // frees the stream however the call ends
	stream, err := c.score.Propose(ctx, bound(256<<10+1<<10*len(world.Nodes)))
	if err != nil {
		return nil, err
	}
	first := &consolidationv1.ProposeRequest{Message: &consolidationv1.ProposeRequest_World{World: fromProposeWorld(world)}}
	if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) { // at the end Recv has the reason
		return nil, err
	}
	for left := world.MaxSimulations; ; {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, &AnswerError{Err: errors.New("the call ended without a proposal")}
		}
		if err != nil {
			return nil, err
		}
		if p := m.GetProposal(); p != nil {
			moves := toMoves(p.Moves)
			if err := CheckMoves(world, moves); err != nil {
				return nil, &AnswerError{Err: err}
			}
			return &Proposal{Moves: moves}, nil
		}
		if m.GetSimulate() == nil {
			return nil, &AnswerError{Err: errors.New("neither a simulation nor a proposal")}
		}
		moves := toMoves(m.GetSimulate().Moves)
		if left -= max(len(moves), 1); left < 0 {
			return nil, &AnswerError{Err: fmt.Errorf("more than %d simulations", world.MaxSimulations)}
		}
		if err := CheckMoves(world, moves); err != nil {
			return nil, &AnswerError{Err: fmt.Errorf("simulation: %w", err)}
		}
		trials, err := simulate(moves)
		if err != nil {
			return nil, err
		}
		answer := &consolidationv1.ProposeRequest{Message: &consolidationv1.ProposeRequest_Simulated{Simulated: fromTrials(trials)}}
		if err := stream.Send(answer); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
}

// bound keeps an answer in proportion to its question: small messages can unfold into
// much memory, and a strategy must not be able to fill the host's.
func bound(size int) grpc.CallOption { return grpc.MaxCallRecvMsgSize(min(size, MaxMessageBytes)) }

// AnswerError is an answer that came and makes no sense.
type AnswerError struct{ Err error }

// Error implements error.
func (e *AnswerError) Error() string { return "invalid answer: " + e.Err.Error() }

// Unwrap gives the fault.
func (e *AnswerError) Unwrap() error { return e.Err }

// PoolFaults is what is wrong with the entries of an answer, by the position of their pool.
type PoolFaults map[int]error

// Error implements error with the fault that comes first.
func (f PoolFaults) Error() string {
	if len(f) == 0 {
		return "no pool is at fault"
	}
	first := slices.Min(slices.Collect(maps.Keys(f)))
	text := fmt.Sprintf("pool %d: %v", first, f[first])
	if n := len(f) - 1; n > 0 {
		text += fmt.Sprintf(", and %d pools more", n)
	}
	return text
}

// HashCatalogue fills in the hash of the catalogue's content, which requests then
// name. It is for whoever makes a catalogue, before anybody else sees it.
func HashCatalogue(c *Catalogue) { copy(c.Hash[:], fromCatalogue(c).Hash) }
