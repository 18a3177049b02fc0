package strategy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// Direct is one strategy that is asked without a host around it: nobody answers in its
// place, and its calls are bound nowhere.
type Direct struct {
	slot *slot
	team *Host // that the members of a chain are in; nil of everything else
}

// Open starts a strategy, or makes it where it is built in. It is an error if it does not
// serve before ctx ends, at its first try.
func Open(ctx context.Context, spec Spec, opts Options) (*Direct, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("strategy %q: %w", spec.Name, err)
	}
	opts = opts.withDefaults()
	owner := &loneOwner{changed: make(chan struct{}, 1)}
	s, err := newSlot(spec, &opts, &images{}, owner)
	if err != nil {
		return nil, err
	}
	d := &Direct{slot: s}
	for {
		st := s.snapshot()
		switch {
		case st.State.serving():
			return d, nil
		case st.State == BackingOff || st.State == Broken:
			d.Close()
			return nil, s.startError()
		}
		select {
		case <-owner.changed:
		case <-ctx.Done():
			d.Close()
			return nil, fmt.Errorf("strategy %q: %w", spec.Name, ctx.Err())
		}
	}
}

// OpenAmong is Open for one of several strategies: a chain needs its members beside it,
// and what is no chain none of the others.
func OpenAmong(ctx context.Context, specs []Spec, name string, opts Options) (*Direct, error) {
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })
	switch {
	case i < 0 && builtin.Has(name):
		return Open(ctx, Spec{Name: name}, opts)
	case i < 0:
		return nil, fmt.Errorf("there is no strategy %q", name)
	case len(specs[i].Chain) == 0:
		return Open(ctx, specs[i], opts)
	}
	team, err := New(Config{Strategies: specs}, opts)
	if err != nil {
		return nil, err
	}
	if err := team.Settled(ctx); err != nil {
		team.Close()
		return nil, err
	}
	team.mu.RLock()
	defer team.mu.RUnlock()
	return &Direct{slot: team.current.slots[name], team: team}, nil
}

// loneOwner is who holds the slot of a Direct.
type loneOwner struct{ changed chan struct{} }

func (o *loneOwner) stateChanged() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}
func (*loneOwner) fell(*slot)          {}
func (*loneOwner) rose(*slot)          {}
func (*loneOwner) problems() []problem { return nil }

// Status tells about the strategy.
func (d *Direct) Status() Status { return d.slot.snapshot() }

// Ask puts a request of any level to it and answers the checked answer, how it went and
// how long it took.
func (d *Direct) Ask(ctx context.Context, input any) (answer any, out Outcome, took time.Duration, err error) {
	p := problem{input: input}
	switch req := input.(type) {
	case *sdk.PriceRequest:
		p.kind, p.level = sdk.InstanceSelection, LevelPrice
		p.hash = func() { ensureHash(req.Catalogue) }
	case *sdk.PlanRequest:
		p.kind, p.level = sdk.InstanceSelection, LevelPlan
		p.hash = func() { ensureHash(req.Catalogue) }
		p.serves = func(m *sdk.Manifest) bool { return m.ServesLevel(sdk.InstanceSelection, LevelPlan) }
	case *sdk.ScoreRequest:
		p.kind, p.level = sdk.Consolidation, LevelScore
		p.hash = func() { ensureHash(req.Catalogue) }
	case *Proposing:
		p.kind, p.level = sdk.Consolidation, LevelPropose
		p.hash = func() { ensureHash(req.World.Catalogue) }
		p.serves = func(m *sdk.Manifest) bool { return m.ServesLevel(sdk.Consolidation, LevelPropose) }
	default:
		return nil, Refused, 0, fmt.Errorf("a %T cannot be asked", input)
	}
	began := time.Now()
	var kept any
	_, out, err = d.slot.ask(ctx, p.about(&kept))
	took = time.Since(began)
	if out != OK {
		kept = nil
	}
	return kept, out, took, err
}

func ensureHash(c *sdk.Catalogue) {
	if c.Hash == ([32]byte{}) {
		sdk.HashCatalogue(c)
	}
}

// Close ends the strategy.
func (d *Direct) Close() {
	if d.team != nil {
		d.team.Close()
		return
	}
	d.slot.retire()
}

// Replayed is what came of asking a recorded question again.
type Replayed struct {
	Line     int      `json:"line"`
	Kind     sdk.Kind `json:"kind"`
	Level    string   `json:"level"`
	Strategy string   `json:"strategy"` // as recorded
	Version  string   `json:"version"`
	Outcome  Outcome  `json:"outcome"` // recorded
	Now      Outcome  `json:"now"`
	Error    string   `json:"error,omitempty"` // now
	// Changes are the differences between the answers, or between the outcomes.
	Changes     []Change `json:"changes,omitempty"`
	TookSeconds float64  `json:"tookSeconds"`
}

// Change is one difference between two answers.
type Change struct {
	Pool  string `json:"pool,omitempty"`
	Move  int    `json:"move,omitempty"`  // from 1; 0 = of a pool
	What  string `json:"what"`            // price, veto, steps, fee, limit, verdict, removal, ...
	Which string `json:"which,omitempty"` // offering, limit, node
	Was   string `json:"was"`
	Is    string `json:"is"`
}

// String is the change in one line.
func (c Change) String() string {
	where := "pool " + c.Pool
	if c.Move > 0 {
		where = fmt.Sprintf("move %d", c.Move)
	}
	if c.Pool == "" && c.Move == 0 {
		where = "answer"
	}
	what := c.What
	if c.Which != "" {
		what += " of " + c.Which
	}
	return fmt.Sprintf("%s: %s was %s, is %s", where, what, c.Was, c.Is)
}

// Replay asks a strategy a recorded question again. Calls that had no answer because
// there was no process, or not in time, are held against nothing: that says nothing
// about the strategy.
func Replay(ctx context.Context, d *Direct, r *Recorded) (Replayed, error) {
	if r.Call == nil {
		return Replayed{}, errors.New("a difference of a shadow cannot be replayed")
	}
	c := r.Call
	out := Replayed{Line: r.Line, Kind: c.Kind, Level: c.Level, Strategy: c.Strategy, Version: c.Version, Outcome: c.Outcome}
	answer, now, took, err := d.Ask(ctx, r.Input)
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	out.Now, out.TookSeconds = now, took.Seconds()
	if err != nil {
		out.Error = err.Error()
		d.slot.log.Debug("replay", zap.Error(err))
	}
	switch {
	case now != OK && now != c.Outcome, c.Outcome != OK && now != c.Outcome && c.Outcome != Dead && c.Outcome != Late:
		out.Changes = append(out.Changes, Change{What: "outcome", Was: string(c.Outcome), Is: string(now)})
	case r.Answer == nil && now == OK && c.Outcome == OK:
		out.Changes = append(out.Changes, Change{What: "answer", Was: "none", Is: "one"})
	case r.Answer != nil && now == OK:
		out.Changes = Diff(r.Input, r.Answer, answer)
	}
	if p, ok := r.Input.(*Proposing); ok && p.notRecorded() > 0 {
		out.Changes = append(out.Changes, Change{What: "simulations", Was: "those of the record", Is: fmt.Sprintf("%d moves more, which nobody can answer now", p.notRecorded())})
	}
	return out, nil
}

// Diff says in what two checked answers to one request differ. Prices that differ by
// less than a billionth are the same: machines round differently.
func Diff(input, was, is any) []Change {
	switch req := input.(type) {
	case *sdk.PriceRequest:
		a, okA := was.(*sdk.PriceAnswer)
		b, okB := is.(*sdk.PriceAnswer)
		if okA && okB {
			return diffPrices(req, a, b)
		}
	case *sdk.PlanRequest:
		a, okA := was.(*sdk.PlanAnswer)
		b, okB := is.(*sdk.PlanAnswer)
		if okA && okB {
			return diffPlans(req, a, b)
		}
	case *sdk.ScoreRequest:
		a, okA := was.(*sdk.ScoreAnswer)
		b, okB := is.(*sdk.ScoreAnswer)
		if okA && okB {
			return diffScores(req, a, b)
		}
	case *Proposing:
		a, okA := was.(*sdk.Proposal)
		b, okB := is.(*sdk.Proposal)
		if okA && okB {
			return diffProposals(req, a, b)
		}
	}
	return []Change{{What: "answer", Was: fmt.Sprintf("%T", was), Is: fmt.Sprintf("%T", is)}}
}

func same(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

func usd(v float64) string { return fmt.Sprintf("%.6g USD/h", v) }

func diffPrices(req *sdk.PriceRequest, was, is *sdk.PriceAnswer) []Change {
	var out []Change
	for i := range req.Pools {
		pool, a, b := &req.Pools[i], &was.Pools[i], &is.Pools[i]
		add := func(what, which, was, is string) {
			if was != is {
				out = append(out, Change{Pool: pool.Name, What: what, Which: which, Was: was, Is: is})
			}
		}
		if !same(a.FeePerNode, b.FeePerNode) {
			add("fee per node", "", usd(a.FeePerNode), usd(b.FeePerNode))
		}
		add("largest first", "", fmt.Sprint(a.LargestFirst), fmt.Sprint(b.LargestFirst))
		vetoA, vetoB := vetoes(a), vetoes(b)
		for k, o := range pool.Offerings {
			which := offeringName(&req.Catalogue.Offerings[o])
			if !same(a.USDPerHour[k], b.USDPerHour[k]) {
				add("price", which, usd(a.USDPerHour[k]), usd(b.USDPerHour[k]))
			}
			add("veto", which, cmp.Or(vetoA[o], "none"), cmp.Or(vetoB[o], "none"))
			if !slices.EqualFunc(a.Steps[o], b.Steps[o], sameStep) {
				add("steps", which, fmt.Sprintf("%+v", a.Steps[o]), fmt.Sprintf("%+v", b.Steps[o]))
			}
		}
		limitA, limitB := limits(a), limits(b)
		names := map[string]bool{}
		for _, m := range []map[string]string{limitA, limitB} {
			for n := range m {
				names[n] = true
			}
		}
		for _, n := range sortedNames(names) {
			add("limit", n, cmp.Or(limitA[n], "none"), cmp.Or(limitB[n], "none"))
		}
	}
	return out
}

func sameStep(a, b sdk.Step) bool {
	return same(a.USDPerHour, b.USDPerHour) && a.Nodes == b.Nodes && same(a.SumUSDPerHour, b.SumUSDPerHour) && a.Shared == b.Shared
}

func vetoes(p *sdk.PoolPrices) map[int]string {
	out := map[int]string{}
	for _, v := range p.Vetoes {
		for _, o := range v.Offerings {
			out[o] = v.Reason
		}
	}
	return out
}

func limits(p *sdk.PoolPrices) map[string]string {
	out := map[string]string{}
	for _, l := range p.Limits {
		switch {
		case l.Share != nil:
			out[l.Name] = fmt.Sprintf("share %v to %v of measure %d over %v", l.Share.Min, l.Share.Max, l.Share.Measure, l.Share.Selector)
		case l.PodsPerNode != nil:
			out[l.Name] = fmt.Sprintf("at most %d or %v of a workload's pods per node", l.PodsPerNode.Max, l.PodsPerNode.Share)
		case l.Variety != nil:
			out[l.Name] = fmt.Sprintf("at least %d of variety %d", l.Variety.Min, l.Variety.Over)
		}
	}
	return out
}

func offeringName(o *sdk.Offering) string {
	name := o.Type.Name + "/" + o.Zone + "/" + o.CapacityType
	if o.ReservationID != "" {
		name += "/" + o.ReservationID
	}
	return name
}

// diffPlans compares plans by what they buy and where pods go: nodes that are alike have no
// order.
func diffPlans(req *sdk.PlanRequest, was, is *sdk.PlanAnswer) []Change {
	a, b := planLines(req, was), planLines(req, is)
	names := map[string]bool{}
	for _, m := range []map[string]int{a, b} {
		for n := range m {
			names[n] = true
		}
	}
	var out []Change
	for _, n := range sortedNames(names) {
		if a[n] != b[n] {
			pool, which, _ := strings.Cut(n, "\n")
			out = append(out, Change{Pool: pool, What: "nodes", Which: which, Was: fmt.Sprint(a[n]), Is: fmt.Sprint(b[n])})
		}
	}
	return out
}

// planLines counts the nodes of a plan by pool, offering and the pods on them.
func planLines(req *sdk.PlanRequest, p *sdk.PlanAnswer) map[string]int {
	out := map[string]int{}
	for _, n := range p.Nodes {
		var pods []string
		for _, c := range n.Pods {
			pods = append(pods, fmt.Sprintf("%d of group %d", c.Pods, c.Group))
		}
		slices.Sort(pods)
		out[req.Pools[n.Pool].Name+"\n"+offeringName(&req.Catalogue.Offerings[n.Offering])+" with "+strings.Join(pods, ", ")] += max(n.Count, 1)
	}
	return out
}

func diffScores(req *sdk.ScoreRequest, was, is *sdk.ScoreAnswer) []Change {
	var out []Change
	for i := range req.Moves {
		a, b := was.Verdicts[i], is.Verdicts[i]
		c := Change{Pool: req.Pools[req.Moves[i].Pool].Name, Move: i + 1}
		if len(req.Moves[i].Remove) > 0 {
			c.Which = req.Moves[i].Remove[0].Name
		}
		switch {
		case a.Accept != b.Accept:
			c.What, c.Was, c.Is = "verdict", verdictText(a), verdictText(b)
		case a.Accept && !same(a.Score, b.Score):
			c.What, c.Was, c.Is = "score", fmt.Sprintf("%.6g", a.Score), fmt.Sprintf("%.6g", b.Score)
		case !a.Accept && a.Reason != b.Reason:
			c.What, c.Was, c.Is = "reason", a.Reason, b.Reason
		default:
			continue
		}
		out = append(out, c)
	}
	return out
}

func verdictText(v sdk.Verdict) string {
	if v.Accept {
		return fmt.Sprintf("accepted with score %.6g", v.Score)
	}
	return "refused (" + v.Reason + ")"
}

// Serves says whether the strategy answers for a kind at a level.
func (d *Direct) Serves(kind sdk.Kind, level string) bool {
	if level == LevelPlan || level == LevelPropose {
		return d.slot.serves(kind, level)
	}
	if d.team != nil {
		d.team.mu.RLock()
		defer d.team.mu.RUnlock()
	}
	return !d.slot.foreign(kind)
}

// ConfigSHA256 is the hash of its configuration as records have it.
func (d *Direct) ConfigSHA256() string { return configSum(d.slot.spec.Config) }
