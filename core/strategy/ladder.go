package strategy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/plugins/sdk"
)

// Rung says who answered a call.
type Rung string

// The rungs of the ladder, from the top.
const (
	ByStrategy Rung = "strategy"  // the one that is bound
	ByLastGood Rung = "last-good" // the version before it, which had proved itself
	ByBuiltin  Rung = "built-in"  // in this process
	ByNobody   Rung = "none"      // not even a built-in had an answer
)

// Counts is what there is to count about the calls of a strategy since it was configured.
type Counts struct {
	Calls    int64
	Outcomes map[Outcome]int64 // how the strategy itself answered
	Rungs    map[Rung]int64    // who answered in the end
	Rung     Rung              // of the last call; empty = there was none
	// Last is how the last call of each task went, since a process was ready last.
	Last map[Task]Answered
	// P50 and P99 are of the time that the strategy's part took, over its last calls, at
	// most a thousand.
	P50, P99 time.Duration
	// LastCallError is why the last call went wrong that did, at LastCallErrorAt.
	LastCallError   string
	LastCallErrorAt time.Time
}

// Task is what a strategy is asked for.
type Task struct {
	Kind  sdk.Kind
	Level string // price, score, plan or propose
}

// Answered says how a call went.
type Answered struct {
	Rung    Rung    // who answered
	Outcome Outcome // how the strategy itself did
	Err     string  // why, for every outcome but OK
}

// FellBack lists the tasks whose last call somebody else answered, in order.
func (c Counts) FellBack() []Task {
	var out []Task
	for task, last := range c.Last {
		if last.Rung != ByStrategy {
			out = append(out, task)
		}
	}
	slices.SortFunc(out, func(a, b Task) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Level, b.Level)) })
	return out
}

// Fallbacks is how many calls were answered by somebody else.
func (c Counts) Fallbacks() int64 { return c.Calls - c.Rungs[ByStrategy] }

// keptTimes is over how many calls times are told.
const keptTimes = 1000

// tally counts calls. The owner guards it.
type tally struct {
	counts Counts
	fresh  time.Time       // calls that began before say nothing of how the last ones went
	took   []time.Duration // a ring of the last calls
	next   int
}

func (t *tally) add(c Call, at time.Time) {
	if t.counts.Outcomes == nil {
		t.counts.Outcomes, t.counts.Rungs = map[Outcome]int64{}, map[Rung]int64{}
	}
	if t.counts.Last == nil {
		t.counts.Last = map[Task]Answered{}
	}
	t.counts.Calls++
	t.counts.Outcomes[c.Outcome]++
	t.counts.Rungs[c.Rung]++
	t.counts.Rung = c.Rung
	last := Answered{Rung: c.Rung, Outcome: c.Outcome}
	if c.Err != nil {
		last.Err = c.Err.Error()
		t.counts.LastCallError, t.counts.LastCallErrorAt = c.Err.Error(), at
	}
	if !c.began.Before(t.fresh) {
		t.counts.Last[Task{c.Kind, c.Level}] = last
	}
	if len(t.took) < keptTimes {
		t.took = append(t.took, c.Took)
		return
	}
	t.took[t.next] = c.Took
	t.next = (t.next + 1) % keptTimes
}

// afresh forgets how the last calls went, those under way too: whoever is asked next is another.
func (t *tally) afresh(at time.Time) { t.counts.Last, t.fresh = nil, at }

// read is a copy of the counts with the times filled in.
func (t *tally) read() Counts {
	out := t.counts
	out.Outcomes, out.Rungs, out.Last = maps.Clone(out.Outcomes), maps.Clone(out.Rungs), maps.Clone(out.Last)
	out.P50, out.P99 = quantiles(t.took)
	return out
}

// quantiles are the median and the 99th percentile, by nearest rank; 0 of nothing.
func quantiles(of []time.Duration) (p50, p99 time.Duration) {
	if len(of) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(of))
	rank := func(percent int) time.Duration { return sorted[(len(sorted)*percent+99)/100-1] }
	return rank(50), rank(99)
}

// answer is ask for a group that makes one call.
func (h *Host) answer(ctx context.Context, g *group, q *question) (string, Outcome) {
	defer g.leave()
	return h.ask(ctx, g, q)
}

// ask lets the group's strategy answer and, if it does not answer well, whoever is on
// the next rung of the ladder. It answers the name and version of who answered, empty
// if nobody did, and how the strategy itself did.
func (h *Host) ask(ctx context.Context, g *group, q *question) (string, Outcome) {
	began := time.Now()
	call := Call{Strategy: g.name, Unknown: g.unknown, began: began, Kind: q.kind, Level: q.level, Rung: ByStrategy, Outcome: Refused, Err: fmt.Errorf("no strategy %q is in service", g.name)}
	ctx, call.Trace = traced(ctx)
	for _, p := range g.pools {
		call.Pools = append(call.Pools, p.Name)
	}
	if g.slot != nil {
		call.start = g.slot.starts()
		call.Version, call.Outcome, call.Err = g.slot.ask(ctx, q)
	}
	call.Took = time.Since(began)
	who := g.name + " " + call.Version
	rest := q.without(who, call.Outcome)
	if call.Outcome != OK {
		call.FellBack = rest.pools(call.Pools)
		who, call.Rung = h.fallBack(ctx, g, rest)
		call.Fallback = who
		h.opts.Log.Named("strategy").Warn("strategy did not answer, another did", zap.String("strategy", g.name), zap.String("kind", string(q.kind)),
			zap.String("outcome", string(call.Outcome)), zap.Error(call.Err), zap.Int("pools", len(call.Pools)), zap.Int("poolsFellBack", len(call.FellBack)), zap.String("fallback", who), zap.String("rung", string(call.Rung)), zap.String("trace", call.Trace))
	} else {
		call.Accepted, call.Declined = verdicts(q.answer)
		h.recent.add(q.problem)
	}
	h.record(q, g.slot, &call, began)
	if g.slot != nil {
		g.slot.count(call)
	}
	h.opts.OnCall(call)
	if g.trial != nil && !errors.Is(ctx.Err(), context.Canceled) {
		h.tried(g.trial, call)
	}
	return who, call.Outcome
}

// fallBack lets the last good version answer where there is one that runs, and else the
// built-in, and says who it was. The built-in does not listen to the caller's context:
// it does not block, and there must be an answer.
func (h *Host) fallBack(ctx context.Context, g *group, q *question) (string, Rung) {
	who, out := h.askPrior(ctx, g.prior, q)
	if q = q.without(who, out); out == OK {
		return who, ByLastGood
	}
	strategy := h.builtinFor(g, q.kind)
	if strategy == nil {
		return "", ByNobody
	}
	d := strategy.Describe()
	who = d.Name + " " + d.Version
	err := guarded(func() error { return q.local(context.WithoutCancel(ctx), strategy) })
	q.without(who, outcome(err, false))
	if err != nil {
		h.opts.Log.Named("strategy").Error("built-in strategy did not answer", zap.String("strategy", d.Name), zap.Error(err))
		return "", ByNobody
	}
	return who, ByBuiltin
}

// without is what is left of a question that somebody answered in some way.
func (q *question) without(who string, how Outcome) *question {
	if q.rest == nil {
		return q
	}
	return q.rest(who, how)
}

// pools names the pools that are asked about; those given where the input has none.
func (q *question) pools(otherwise []string) []string {
	if names := poolsIn(q.input); len(names) > 0 {
		return names
	}
	return otherwise
}

// askPrior lets the last good version answer, nil = there is none, and says who that is and
// how it did.
func (h *Host) askPrior(ctx context.Context, prior *slot, q *question) (string, Outcome) {
	if a := allowanceOf(ctx); prior == nil || ctx.Err() != nil || a != nil && a.left <= 0 {
		return "", Dead
	}
	again := *q
	again.limit = prior.callTimeout(ctx) / 2 // the pools have waited once already
	version, out, err := prior.ask(ctx, &again)
	if out != OK {
		h.opts.Log.Named("strategy").Warn("last good version did not answer either", zap.String("strategy", prior.spec.Name), zap.String("strategyVersion", version),
			zap.String("outcome", string(out)), zap.Error(err))
	}
	return prior.spec.Name + " " + version, out
}

func (h *Host) builtinFor(g *group, kind sdk.Kind) sdk.Strategy {
	if g.slot != nil {
		return g.slot.fallback[kind]
	}
	bare := &slot{}
	if err := bare.makeFallback(); err != nil {
		return nil
	}
	return bare.fallback[kind]
}

// put asks a process about a recorded input and checks the answer.
func (in *instance) put(ctx context.Context, input any) (any, error) {
	switch req := input.(type) {
	case *sdk.PriceRequest:
		return in.price(ctx, req)
	case *sdk.PlanRequest:
		return in.plan(ctx, req)
	case *sdk.ScoreRequest:
		return in.score(ctx, req)
	case *Proposing:
		return in.propose(ctx, req.World, req.again())
	}
	return nil, fmt.Errorf("a recorded %T cannot be asked", input)
}

// putLocal is put for a strategy in this process.
func putLocal(ctx context.Context, s sdk.Strategy, input any) (any, error) {
	switch req := input.(type) {
	case *sdk.PriceRequest:
		return localPrice(ctx, s, req)
	case *sdk.PlanRequest:
		return localPlan(ctx, s, req)
	case *sdk.ScoreRequest:
		return localScore(ctx, s, req)
	case *Proposing:
		return localPropose(ctx, s, req.World, req.again())
	}
	return nil, fmt.Errorf("a recorded %T cannot be asked", input)
}

// about is the question whether and how a slot answers a problem. What it answered
// is left in *answer.
func (p problem) about(answer *any) *question {
	use := func(a any, err error) error {
		*answer = a
		return err
	}
	return &question{problem: p,
		remote: func(ctx context.Context, in *instance) error { return use(in.put(ctx, p.input)) },
		local:  func(ctx context.Context, s sdk.Strategy) error { return use(putLocal(ctx, s, p.input)) }}
}
