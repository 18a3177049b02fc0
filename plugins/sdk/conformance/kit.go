package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

// Options of a run. The zero value is a run with the strategy's defaults.
type Options struct {
	// Config is put in force for all problems, as a JSON object; empty = defaults.
	Config json.RawMessage
	// Problems are asked beside the golden ones.
	Problems []Problem
	// LatencyLimit bounds each answer to the large problem; 0 = 2 s, the host's deadline.
	LatencyLimit time.Duration
	// StartTime bounds each start; 0 = 10 s, the host's.
	StartTime time.Duration
}

// callTime bounds the calls whose time is not what is looked at, far above a host's
// deadline: a busy machine is no fault of the strategy.
const callTime = 30 * time.Second

// check is one part of the kit.
type check struct {
	name, rule string
	process    bool // needs a process of ours
	run        func(ctx context.Context, s *session, f *finding)
}

// checks in the order in which they run. What comes first is what the rest stands on.
var checks = []check{
	{"manifest", "Describe answers a legal manifest, the same each time, before Configure", false, checkManifest},
	{"health", "grpc.health.v1 says that the service \"plugin\" is serving", true, checkHealth},
	{"stdout", "nothing but the handshake is on standard output before it", true, checkNoise},
	{"mutual-tls", "nobody without the host's certificate is answered", true, checkMutualTLS},
	{"defaults", "an empty configuration works", false, checkDefaults},
	{"config", "the configuration given is accepted", false, checkConfig},
	{"config-errors", "a wrong configuration is refused by the name of its field, and changes nothing", false, checkConfigErrors},
	{"golden", "every problem is answered, and legally", false, checkGolden},
	{"determinism", "equal questions have equal answers, if the manifest says so", false, checkDeterminism},
	{"order", "the order of pools changes no answer, if the manifest says deterministic", false, checkOrder},
	{"concurrent", "many calls at once are answered as one is", false, checkConcurrent},
	{"levels", "plans and proposals are legal, if it makes any, and equal for equal questions", false, checkLevels},
	{"latency", "5,000 nodes are answered within the limit", false, checkLatency},
	{"catalogue", "an unknown catalogue is FAILED_PRECONDITION; the one before the last is still known", false, checkCatalogue},
	{"cancelled", "calls that are given up leave the strategy able to answer", false, checkCancelled},
	{"garbage", "messages that make no sense are errors and do no harm", false, checkGarbage},
	{"oversize", "messages beyond the bounds are errors and do no harm", false, checkOversize},
	{"garbled-connection", "a connection that speaks nonsense does no harm", true, checkGarbledConnection},
	{"stopped", "after having been stopped for a while it answers again", true, checkStopped},
	{"restart", "killed during a call and started again, it answers as before", true, checkRestart},
	{"shutdown", "it ends when asked to, and leaves no process behind", true, checkShutdown},
}

// session is one run.
type session struct {
	target   Target
	opts     Options
	live     Instance
	client   *sdk.Client
	manifest *sdk.Manifest
	report   *Report
}

// Run holds the strategy against every check. The error says that the options make no
// sense or that the context ended; whatever is wrong with the strategy is in the report.
func Run(ctx context.Context, target Target, opts Options) (*Report, error) {
	if opts.LatencyLimit == 0 {
		opts.LatencyLimit = 2 * time.Second
	}
	if opts.StartTime == 0 {
		opts.StartTime = 10 * time.Second
	}
	if len(opts.Config) > 0 {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(opts.Config, &object); err != nil || object == nil {
			return nil, errors.New("the configuration: want a JSON object")
		}
	}
	s := &session{target: target, opts: opts, report: &Report{Kind: "StrategyTest", Passed: true}}
	defer s.stop()
	begun := time.Now()
	f := &finding{}
	if err := s.start(ctx); err != nil {
		f.errorf("%v", err)
	}
	s.add(f.result(check{name: "start", rule: "it starts, shakes hands and describes itself in time"}, time.Since(begun)))
	if !s.report.Passed {
		return s.report, ctx.Err()
	}
	for _, c := range checks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, ours := s.live.(processInstance); c.process && !ours {
			continue
		}
		s.one(ctx, c)
	}
	return s.report, ctx.Err()
}

// endTime is how long after a check that failed the end of the process is waited for.
const endTime = 500 * time.Millisecond

// one runs one check, and starts the strategy anew where it did not survive it.
func (s *session) one(ctx context.Context, c check) {
	begun, f := time.Now(), &finding{}
	c.run(ctx, s, f)
	if p, ok := s.live.(processInstance); ok {
		if len(f.reasons) > 0 {
			p.AwaitEnd(endTime) // a call fails a little before its process is gone
		}
		if ended, how := p.Ended(); ended {
			if c.name != "shutdown" {
				f.errorf("the process ended: %s", how)
			}
			s.stop()
			if err := s.start(ctx); err != nil {
				f.errorf("starting it again: %v", err)
			}
		}
	}
	s.add(f.result(c, time.Since(begun)))
}

func (s *session) add(r Result) {
	s.report.Checks = append(s.report.Checks, r)
	s.report.Passed = s.report.Passed && r.Outcome != Failed
}

// start starts the strategy and puts the configuration in force, as far as the checks
// have got.
func (s *session) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.StartTime)
	defer cancel()
	live, err := s.target.Start(ctx)
	if err != nil {
		return err
	}
	s.live, s.client = live, sdk.NewClient(live.Conn())
	first := s.manifest == nil
	m, err := s.client.Describe(ctx)
	if err != nil {
		return fmt.Errorf("Describe: %w", err)
	}
	s.manifest = m
	s.report.Strategy, s.report.Version = m.Name, m.Version
	if first {
		return nil // the checks configure it, one step after the other
	}
	return s.configure(ctx)
}

func (s *session) configure(ctx context.Context) error {
	config := s.opts.Config
	if len(config) == 0 {
		config = json.RawMessage(`{}`)
	}
	return s.client.Configure(ctx, config, nil)
}

func (s *session) stop() {
	if s.live != nil {
		s.live.Stop()
	}
}

// serves says whether the strategy is one to ask.
func (s *session) serves(p *Problem) bool { return s.manifest.Serves(p.Kind()) }

// sample are the sample problems of the strategy's kinds.
func (s *session) sample() []Problem {
	return s.mine([]Problem{{Name: "sample", Price: sdk.SamplePrice()}, {Name: "sample", Score: sdk.SampleScore()}})
}

func (s *session) mine(problems []Problem) []Problem {
	var out []Problem
	for i := range problems {
		if s.serves(&problems[i]) {
			out = append(out, problems[i])
		}
	}
	return out
}

// ask sends the catalogue and the question, and checks that the answer is legal. The
// answer is *sdk.PriceAnswer or *sdk.ScoreAnswer.
func (s *session) ask(ctx context.Context, p *Problem) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := s.client.Configure(ctx, nil, p.Catalogue()); err != nil {
		return nil, fmt.Errorf("sending the catalogue: %w", err)
	}
	return s.call(ctx, p)
}

// call is ask without sending the catalogue.
func (s *session) call(ctx context.Context, p *Problem) (any, error) {
	if p.Price != nil {
		a, err := s.client.Price(ctx, p.Price)
		if err != nil {
			return nil, fmt.Errorf("Price: %w", err)
		}
		if err := sdk.CheckPrices(p.Price, a); err != nil {
			return nil, fmt.Errorf("Price, illegal answer: %w", err)
		}
		return a, nil
	}
	a, err := s.client.Score(ctx, p.Score)
	if err != nil {
		return nil, fmt.Errorf("Score: %w", err)
	}
	if err := sdk.CheckScores(p.Score, a); err != nil {
		return nil, fmt.Errorf("Score, illegal answer: %w", err)
	}
	return a, nil
}

// steady asks the samples and says how the answers differ from those before, where
// equal answers were promised.
func (s *session) steady(ctx context.Context, f *finding, before []any, when string) {
	for i, p := range s.sample() {
		a, err := s.ask(ctx, &p)
		switch {
		case err != nil:
			f.errorf("%s: %v", when, err)
		case s.manifest.Deterministic && i < len(before) && before[i] != nil && !reflect.DeepEqual(before[i], a):
			f.errorf("%s: the answer to the sample is another: %s", when, differ(before[i], a))
		}
	}
}

// answers are the answers to the samples.
func (s *session) answers(ctx context.Context, f *finding) []any {
	var out []any
	for _, p := range s.sample() {
		a, err := s.ask(ctx, &p)
		if err != nil {
			f.errorf("%v", err)
		}
		out = append(out, a)
	}
	return out
}

// differ names the first place where two answers differ.
func differ(a, b any) string {
	switch a := a.(type) {
	case *sdk.PriceAnswer:
		b := b.(*sdk.PriceAnswer)
		for i := range a.Pools {
			if i >= len(b.Pools) || reflect.DeepEqual(a.Pools[i], b.Pools[i]) {
				continue
			}
			x, y := a.Pools[i], b.Pools[i]
			for k := range x.USDPerHour {
				if k < len(y.USDPerHour) && x.USDPerHour[k] != y.USDPerHour[k] {
					return fmt.Sprintf("pool %d, price %d: %v, then %v", i, k, x.USDPerHour[k], y.USDPerHour[k])
				}
			}
			x.USDPerHour, y.USDPerHour = nil, nil
			return fmt.Sprintf("pool %d: %.300s, then %.300s", i, fmt.Sprintf("%+v", x), fmt.Sprintf("%+v", y))
		}
	case *sdk.ScoreAnswer:
		b := b.(*sdk.ScoreAnswer)
		for i := range a.Verdicts {
			if i < len(b.Verdicts) && a.Verdicts[i] != b.Verdicts[i] {
				return fmt.Sprintf("move %d: %+v, then %+v", i, a.Verdicts[i], b.Verdicts[i])
			}
		}
	}
	return "their lengths differ"
}
