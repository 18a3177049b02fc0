package strategy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// SwapRules say when a strategy that took another's place is taken out of service again.
// Zero values are defaults.
type SwapRules struct {
	// MaxErrorRate is the part of its last 20 calls that may go wrong; 0.2. Fewer than
	// five calls count as five.
	MaxErrorRate float64
	// MaxDearerPercent is by how much the plans of a new version of a strategy may be dearer
	// at the market than those of the version before, summed over those compared; 25, negative =
	// however much. Binding a strategy of another name changes what is wanted, and its plans
	// are not held against those before.
	MaxDearerPercent float64
	// Probation is for how long it is looked at, and for five calls at least; 10 minutes,
	// negative = not at all.
	Probation time.Duration
}

const (
	trialWindow = 20 // calls that count for the error rate
	trialCalls  = 5  // calls without which nothing is proved
	trialPlans  = 3  // compared plans without which nothing is dearer
	maxBehind   = 4  // comparisons that wait
	costTimeout = time.Minute
)

func (r SwapRules) check() error {
	switch {
	case !(r.MaxErrorRate >= 0 && r.MaxErrorRate <= 1):
		return fmt.Errorf("maxErrorRate is %v, want a part from 0 to 1", r.MaxErrorRate)
	case math.IsNaN(r.MaxDearerPercent) || math.IsInf(r.MaxDearerPercent, 0):
		return fmt.Errorf("maxDearerPercent is %v, want a number", r.MaxDearerPercent)
	}
	return nil
}

func (r SwapRules) withDefaults() SwapRules {
	if r.MaxErrorRate == 0 {
		r.MaxErrorRate = 0.2
	}
	if r.MaxDearerPercent == 0 {
		r.MaxDearerPercent = 25
	}
	if r.Probation == 0 {
		r.Probation = 10 * time.Minute
	}
	return r
}

// PlanCost is what a plan for waiting pods costs at the market.
type PlanCost struct {
	USDPerHour float64 `json:"usdPerHour"`
	Nodes      int     `json:"nodes"`
	Unplaced   int     `json:"unplaced"` // pods without a place
}

// TrialStatus tells about the probation of a strategy that took another's place.
type TrialStatus struct {
	State    TrialState
	From     string // name and version of the last good one
	Began    time.Time
	Calls    int64 // since then
	Failures int64
	// Plans whose price was compared, and what they cost in sum with the prices of the one
	// before and with its own, USD per hour at the market.
	Plans            int64
	USDPerHourBefore float64
	USDPerHour       float64
}

// TrialState is how far a probation has come.
type TrialState string

// The states of a probation.
const (
	Probation  TrialState = "probation"
	Passed     TrialState = "passed"
	RolledBack TrialState = "rolled-back"
)

// RollBack says that a strategy was taken out of service again.
type RollBack struct {
	At       time.Time
	From, To string // name and version
	Why      string
}

// trial is a change of who answers, from the last good version to another. It lasts as
// long as the other is in service, because the last good one answers where that does not.
type trial struct {
	kind     sdk.Kind // of the binding that has changed; empty = the strategy of this name has
	name     string   // in the configuration, of who answers now
	from, to *slot
	rules    SwapRules
	began    time.Time

	mu       sync.Mutex // guards what follows
	state    TrialState
	timer    *time.Timer
	calls    int64
	failures int64
	window   []bool // the last calls, true = went wrong
	lastErr  string
	fell     int // start of the process whose end was counted last, by itself
	died     int // likewise, by a call that it ended
	plans    int64
	before   float64
	after    float64
	lost     int // pods that only the new prices leave without a place
}

// trials says which strategies of a new generation take the place of others. The caller
// holds mu.
func (h *Host) trials(before, gen *generation) []*trial {
	var out []*trial
	rules := gen.config.Swap.withDefaults()
	start := func(kind sdk.Kind, name string, from, to *slot) {
		if from == nil || to == nil || from == to {
			return
		}
		t := &trial{kind: kind, name: name, from: from, to: to, rules: rules, began: time.Now(), state: Probation}
		if rules.Probation < 0 {
			t.state = Passed
		}
		out = append(out, t)
	}
	for _, kind := range []sdk.Kind{sdk.InstanceSelection, sdk.Consolidation} {
		old, now := before.config.bound(kind), gen.config.bound(kind)
		if old != now {
			start(kind, now, before.good(kind, old), gen.slots[now])
			continue
		}
		for _, t := range before.trials {
			if t.kind == kind && gen.slots[t.name] == t.to {
				out = append(out, t)
			}
		}
	}
	for _, name := range sortedNames(gen.slots) {
		if before.slots[name] != gen.slots[name] {
			if slices.ContainsFunc(out, func(t *trial) bool { return t.to == gen.slots[name] && t.current() == Probation }) {
				continue // its binding is on trial already
			}
			start("", name, before.good("", name), gen.slots[name])
			continue
		}
		for _, t := range before.trials {
			if t.kind == "" && t.name == name && t.to == gen.slots[name] {
				out = append(out, t)
			}
		}
	}
	return out
}

// good is the slot of a name if it has proved itself, else the one before it, nil if
// there is none.
func (g *generation) good(kind sdk.Kind, name string) *slot {
	s := g.slots[name]
	t := g.trial(kind, name)
	switch {
	case t != nil && t.current() == Probation:
		return t.from
	case s != nil && s.state().serving():
		return s
	case t != nil:
		return t.from
	}
	return nil
}

// trial is the trial of who answers for a kind under a name, nil if there is none.
func (g *generation) trial(kind sdk.Kind, name string) *trial {
	for _, t := range g.trials {
		if t.name == name && (t.kind == kind || t.kind == "" || kind == "") {
			return t
		}
	}
	return nil
}

func (t *trial) current() TrialState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

func (t *trial) status() *TrialStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &TrialStatus{State: t.state, From: t.from.label(), Began: t.began, Calls: t.calls, Failures: t.failures,
		Plans: t.plans, USDPerHourBefore: t.before, USDPerHour: t.after}
}

// move changes the state from probation; false if that is over already.
func (t *trial) move(to TrialState) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != Probation {
		return false
	}
	t.state = to
	if t.timer != nil {
		t.timer.Stop()
	}
	return true
}

// note counts a call, or the end of the process, and says why the strategy has to go,
// or that it may stay for good. start numbers the process that has ended, 0 = none has:
// when it takes a call with it, that is one fault.
func (t *trial) note(call bool, failed error, start int) (why string, passed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if start > 0 {
		twice := call && t.fell == start && t.died != start || !call && t.died == start
		if call {
			t.died = start
		} else {
			t.fell = start
		}
		if twice {
			if call {
				t.calls++
			}
			return "", false
		}
	}
	if call {
		t.calls++
	}
	if failed != nil {
		t.failures++
		t.lastErr = failed.Error()
	}
	if t.state != Probation {
		return "", false
	}
	if call || failed != nil {
		t.window = append(t.window, failed != nil)
	}
	if len(t.window) > trialWindow {
		t.window = t.window[1:]
	}
	wrong := 0
	for _, w := range t.window {
		if w {
			wrong++
		}
	}
	if float64(wrong) > t.rules.MaxErrorRate*float64(max(len(t.window), trialCalls)) {
		return fmt.Sprintf("%d of its last %d calls went wrong, the last with: %s", wrong, len(t.window), t.lastErr), false
	}
	return "", t.calls >= trialCalls && time.Since(t.began) >= t.rules.Probation
}

// compare takes in what a plan costs and says why the strategy has to go.
func (t *trial) compare(before, after PlanCost) (why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != Probation {
		return ""
	}
	t.plans++
	switch {
	case after.Unplaced > before.Unplaced:
		t.lost += after.Unplaced - before.Unplaced
	case after.Unplaced == before.Unplaced: // else it pays for pods that had no place
		t.before += before.USDPerHour
		t.after += after.USDPerHour
	}
	switch {
	case t.plans < trialPlans || t.kind != "" || t.rules.MaxDearerPercent < 0:
		return ""
	case t.lost > 0:
		return fmt.Sprintf("with its prices %d pods of %d plans had no place that had one with those before", t.lost, t.plans)
	case t.after > t.before*(1+t.rules.MaxDearerPercent/100)+1e-9:
		return fmt.Sprintf("%d plans cost %.4f USD/h with its prices and %.4f with those before, which is more than %v %% dearer",
			t.plans, t.after, t.before, t.rules.MaxDearerPercent)
	}
	return ""
}

// label is name and version of a slot.
func (s *slot) label() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	label := s.spec.Name
	if s.status.Version != "" {
		label += " " + s.status.Version
	}
	if len(s.status.SHA256) >= 12 {
		label += " (" + s.status.SHA256[:12] + ")"
	}
	return label
}

// tried takes in a call of a strategy that has taken another's place.
func (h *Host) tried(t *trial, c Call) {
	var failed error
	start := 0
	if c.Outcome != OK {
		failed = fmt.Errorf("%s: %w", c.Outcome, c.Err)
	}
	if c.Outcome == Dead {
		start = c.start
	}
	why, passed := t.note(true, failed, start)
	if failed != nil {
		h.mu.RLock()
		if slices.Contains(h.current.trials, t) {
			h.rouse(t.from, true)
		}
		h.mu.RUnlock()
	}
	switch {
	case why != "":
		h.rollBack(t, why)
	case passed:
		h.pass(t)
	case t.current() == Passed:
		h.mu.RLock()
		h.attend(t)
		h.mu.RUnlock()
	}
}

// attend has the last good version run where the one after it does not serve, and
// sleep where that has been serving for a while. The caller holds mu.
func (h *Host) attend(t *trial) {
	if !slices.Contains(h.current.trials, t) || h.current.serves(t.from) || h.next.serves(t.from) {
		return
	}
	t.to.mu.Lock()
	serving, since := t.to.status.State.serving(), t.to.since
	t.to.mu.Unlock()
	switch {
	case !serving:
		h.rouse(t.from, true)
	case time.Since(since) >= h.opts.Steady:
		h.rouse(t.from, false)
	}
}

// restUnused sends the last good version to sleep where nothing has been asked for a
// whole probation: nothing is proved, and two processes are one too many.
func (h *Host) restUnused(t *trial) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	t.mu.Lock()
	unused := t.state == Probation && t.calls == 0
	t.mu.Unlock()
	if unused && slices.Contains(h.current.trials, t) && !h.current.serves(t.from) && !h.next.serves(t.from) {
		h.rouse(t.from, false)
	}
}

// pass ends a probation well. The last good version sleeps from now on.
func (h *Host) pass(t *trial) {
	h.mu.Lock()
	if h.closed || !slices.Contains(h.current.trials, t) || !t.move(Passed) {
		h.mu.Unlock()
		return
	}
	if !h.current.serves(t.from) && !h.next.serves(t.from) {
		h.rouse(t.from, false)
	}
	st := h.statusOf(t.to)
	h.mu.Unlock()
	h.opts.Log.Named("strategy").Info("strategy has passed its probation", zap.String("strategy", t.name), zap.String("was", t.to.label()), zap.String("lastGood", t.from.label()))
	h.opts.OnState(st)
}

// rolledBack is a change that was taken back and is not tried again until it is another
// or somebody asks for it.
type rolledBack struct {
	RollBack
	kind sdk.Kind // as in the trial
	name string
	key  string // of the spec that was tried
	from *slot  // who is in service instead
}

// rollBack takes a strategy out of service that took another's place. Plans that are
// being made go on with what they began with.
func (h *Host) rollBack(t *trial, why string) bool {
	h.mu.Lock()
	if h.closed || !slices.Contains(h.current.trials, t) || !t.move(RolledBack) {
		h.mu.Unlock()
		return false
	}
	r := &rolledBack{RollBack: RollBack{At: time.Now(), From: t.to.label(), To: t.from.label(), Why: why},
		kind: t.kind, name: t.name, key: t.to.spec.key(), from: t.from}
	h.rolled = append(h.rolled, r)
	before := h.current
	gen := &generation{config: before.config, slots: map[string]*slot{}, shadows: before.shadows}
	for name, s := range before.slots {
		gen.slots[name] = s
	}
	h.keepRolledBack(gen)
	for _, o := range before.trials {
		if o != t && gen.slots[o.name] == o.to && (o.kind == "" || gen.config.bound(o.kind) == o.name) {
			gen.trials = append(gen.trials, o)
		}
	}
	h.current = gen
	if h.next != nil {
		h.keepRolledBack(h.next)
	}
	h.rouse(t.from, true)
	h.retireUnused(before)
	h.tell()
	st := h.statusOf(t.from)
	h.mu.Unlock()
	h.opts.Log.Named("strategy").Error("strategy is rolled back", zap.String("strategy", t.name), zap.String("from", r.From), zap.String("to", r.To), zap.String("why", why))
	h.opts.OnState(st)
	return true
}

// instead is the slot that serves in place of a spec that was rolled back, nil if it was
// not. The caller holds mu.
func (h *Host) instead(spec Spec) *slot {
	for _, r := range h.rolled {
		if r.kind == "" && r.name == spec.Name && r.key == spec.key() {
			return r.from
		}
	}
	return nil
}

// keepRolledBack puts what was rolled back out of a generation. The caller holds mu.
func (h *Host) keepRolledBack(gen *generation) {
	for _, r := range h.rolled {
		s := gen.slots[r.name]
		if s == nil || s.spec.key() != r.key {
			continue
		}
		if r.kind == "" {
			gen.slots[r.name] = r.from
			continue
		}
		if gen.config.bound(r.kind) != r.name {
			continue
		}
		name := r.from.spec.Name
		if gen.slots[name] == nil {
			gen.slots[name] = r.from
		}
		if r.kind == sdk.Consolidation {
			gen.config.Consolidation = name
		} else {
			gen.config.InstanceSelection = name
		}
	}
}

// forget drops what was rolled back and is no longer asked for. The caller holds mu.
func (h *Host) forget(config Config) {
	h.desired = config
	h.rolled = slices.DeleteFunc(h.rolled, func(r *rolledBack) bool {
		if r.kind != "" && config.bound(r.kind) != r.name {
			return true
		}
		return !slices.ContainsFunc(config.Strategies, func(s Spec) bool { return s.Name == r.name && s.key() == r.key })
	})
}

// Retry tries once more what was rolled back under a name. It returns at once, as Apply
// does; an error if nothing was.
func (h *Host) Retry(name string) error {
	h.mu.Lock()
	n := len(h.rolled)
	h.rolled = slices.DeleteFunc(h.rolled, func(r *rolledBack) bool { return r.name == name })
	found, config := len(h.rolled) < n, h.desired
	h.mu.Unlock()
	if !found {
		return fmt.Errorf("strategy %q was not rolled back", name)
	}
	return h.Apply(config)
}

// RollBack takes the strategy of a name out of service and its last good version back
// in, on a person's word. It returns when that is done; the error is that there is no
// last good version, or that it does not start before ctx ends.
func (h *Host) RollBack(ctx context.Context, name, why string) error {
	h.mu.Lock()
	t := h.current.trial("", name)
	if t == nil || h.closed {
		h.mu.Unlock()
		return fmt.Errorf("strategy %q has no last good version to go back to", name)
	}
	h.rouse(t.from, true)
	h.mu.Unlock()
	for {
		h.mu.RLock()
		wait := h.changed
		h.mu.RUnlock()
		if t.from.state().serving() {
			break
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to serve again: %w", t.from.label(), ctx.Err())
		}
	}
	t.mu.Lock()
	t.state = Probation // a passed one is judged again, by a person
	t.mu.Unlock()
	if !h.rollBack(t, why) {
		return fmt.Errorf("strategy %q is no longer in service", name)
	}
	return nil
}

// Swap changes or adds one strategy and leaves the rest of the configuration as it is. It
// returns when the new one is in service, or with the reason why it is not: then the one
// before goes on, and the host goes on trying until the configuration is another.
func (h *Host) Swap(ctx context.Context, spec Spec) error {
	h.mu.RLock()
	config := h.desired
	h.mu.RUnlock()
	config.Strategies = slices.Clone(config.Strategies)
	if i := slices.IndexFunc(config.Strategies, func(s Spec) bool { return s.Name == spec.Name }); i >= 0 {
		config.Strategies[i] = spec
	} else {
		config.Strategies = append(config.Strategies, spec)
	}
	if err := h.Apply(config); err != nil {
		return err
	}
	return h.Settled(ctx)
}

// rouse wakes a slot or sends it to sleep, in the background. The caller holds mu.
func (h *Host) rouse(s *slot, awake bool) {
	if h.closed || !s.sleep(!awake) {
		return
	}
	h.work.Go(s.settlePower)
}

// fell implements slotOwner.
func (h *Host) fell(s *slot) {
	h.mu.RLock()
	var bad *trial
	var reason string
	if !h.closed {
		for _, t := range h.current.trials {
			if t.to != s {
				continue
			}
			s.mu.Lock()
			last, start := s.status.LastError, s.status.Starts
			s.mu.Unlock()
			if why, _ := t.note(false, errors.New("dead: "+last), start); why != "" {
				bad, reason = t, why
			}
			if t.current() == Passed {
				h.attend(t)
			}
		}
	}
	h.mu.RUnlock()
	if bad != nil {
		h.rollBack(bad, reason)
	}
}

// problems implements slotOwner.
func (h *Host) problems() []problem { return h.recent.list() }

// keptProblems of each kind and level are kept for self-tests, unless they are larger
// than keptOfferings in all their pools.
const (
	keptProblems  = 3
	keptOfferings = 2_000_000
)

// recent keeps the last problems.
type recent struct {
	mu  sync.Mutex
	all map[string][]problem
}

func (r *recent) add(p problem) {
	if p.input == nil || weight(p.input) > keptOfferings {
		return
	}
	p.world = nil // which is much larger
	key := string(p.kind) + "/" + p.level
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]problem{}
	}
	list := append(r.all[key], p)
	if len(list) > keptProblems {
		list = slices.Delete(list, 0, len(list)-keptProblems)
	}
	r.all[key] = list
}

func (r *recent) list() []problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []problem
	for _, key := range sortedNames(r.all) {
		out = append(out, r.all[key]...)
	}
	return out
}

func weight(input any) (sum int) {
	var pools []sdk.Pool
	switch req := input.(type) {
	case *sdk.PriceRequest:
		pools = req.Pools
	case *sdk.PlanRequest:
		pools = req.Pools
		for _, s := range req.Sets {
			sum += len(s)
		}
	case *sdk.ScoreRequest:
		pools = req.Pools
	}
	for i := range pools {
		sum += len(pools[i].Offerings)
	}
	return sum
}

// Begin pins the strategies that are in service for everything that is asked with the
// context that it answers: one plan hears one generation throughout. The function it
// answers has to be called when the plan is made.
func (h *Host) Begin(ctx context.Context) (context.Context, func()) {
	if _, ok := ctx.Value(sessionKey{h}).(*generation); ok {
		return ctx, func() {}
	}
	ctx, _ = traced(ctx)
	h.mu.RLock()
	gen := h.current
	var entered []*slot
	for _, name := range sortedNames(gen.slots) {
		s := gen.slots[name]
		s.enter()
		entered = append(entered, s)
	}
	for _, t := range gen.trials {
		if t.from.enterAwake() {
			entered = append(entered, t.from)
		}
	}
	h.mu.RUnlock()
	return context.WithValue(ctx, sessionKey{h}, gen), sync.OnceFunc(func() {
		for _, s := range entered {
			s.leave()
		}
	})
}

// sessionKey finds the generation that a context pins.
type sessionKey struct{ host *Host }

// generationOf is what a context pins, else what is in service. The caller holds mu.
func (h *Host) generationOf(ctx context.Context) *generation {
	if gen, ok := ctx.Value(sessionKey{h}).(*generation); ok {
		return gen
	}
	return h.current
}

// watch starts what runs beside a generation and ends what ran beside the one before. The
// caller holds mu.
func (h *Host) watch(gen, before *generation) {
	for _, t := range gen.trials {
		t.mu.Lock()
		if t.state == Probation && t.timer == nil {
			t.timer = time.AfterFunc(t.rules.Probation, func() {
				if why, passed := t.note(false, nil, 0); why == "" && passed {
					h.pass(t)
				}
				h.restUnused(t)
			})
		}
		passed := t.state == Passed
		t.mu.Unlock()
		if passed {
			h.attend(t)
		}
	}
	if before != nil {
		for _, t := range before.trials {
			if !slices.Contains(gen.trials, t) {
				t.move(Passed) // only ends its timer: it is of no generation any more
			}
		}
	}
	h.watchShadows(gen, before)
}

// background does work one after the other behind calls and drops what does not fit.
type background struct {
	jobs    chan func(context.Context)
	ctx     context.Context
	stop    context.CancelFunc
	dropped atomic.Int64
}

func newBackground(size int, work *sync.WaitGroup) *background {
	b := &background{jobs: make(chan func(context.Context), size)}
	b.ctx, b.stop = context.WithCancel(context.Background())
	work.Go(func() {
		for {
			select {
			case <-b.ctx.Done():
				return
			case f := <-b.jobs:
				if b.ctx.Err() == nil {
					f(b.ctx)
				}
			}
		}
	})
	return b
}

// try takes a job on, or says that there is no room.
func (b *background) try(f func(context.Context)) bool {
	select {
	case b.jobs <- f:
		return true
	default:
		b.dropped.Add(1)
		return false
	}
}

// end drops what waits and cancels what runs.
func (b *background) end() { b.stop() }

// costs prices plans of one world; that with the acting prices once, whoever asks.
type costs struct {
	h      *Host
	world  *model.World
	prices *model.Prices
	acting func() (PlanCost, error)
}

func (h *Host) costsOf(w *model.World, prices *model.Prices) *costs {
	c := &costs{h: h, world: w, prices: prices}
	c.acting = sync.OnceValues(func() (PlanCost, error) { return c.with(nil) })
	return c
}

// with is the cost of the plan that some pools' prices make, the others being as they were.
func (c *costs) with(other map[string]model.PoolPrices) (PlanCost, error) {
	prices := &model.Prices{ByPool: map[string]model.PoolPrices{}}
	for name, p := range c.prices.ByPool {
		prices.ByPool[name] = p
	}
	for name, p := range other {
		prices.ByPool[name] = p
	}
	ctx, cancel := context.WithTimeout(c.h.behind.ctx, costTimeout)
	defer cancel()
	return c.h.opts.Cost(ctx, c.world, prices)
}

// compareLater has the plans of strategies on probation compared, behind the call.
func (h *Host) compareLater(m *market, w *model.World, groups []*group, out *model.Prices) {
	if h.opts.Cost == nil || len(w.Pods) == 0 {
		return
	}
	var costs *costs
	for _, g := range groups {
		if g.trial == nil || g.trial.current() != Probation || out.ByPool[g.pools[0].Name].Outcome != string(OK) {
			continue
		}
		if costs == nil {
			costs = h.costsOf(w, out)
		}
		t, pools := g.trial, g.pools
		h.behind.try(func(ctx context.Context) { h.comparePlans(ctx, t, m, pools, costs) })
	}
}

// comparePlans asks the version before for prices of the same pools, and holds the
// plans against each other.
func (h *Host) comparePlans(ctx context.Context, t *trial, m *market, pools []*model.Pool, c *costs) {
	h.mu.RLock()
	ok := slices.Contains(h.current.trials, t) && t.from.enterAwake()
	h.mu.RUnlock()
	if !ok {
		return
	}
	defer t.from.leave()
	log := h.opts.Log.Named("strategy").With(zap.String("strategy", t.name))
	prices, out, _, err := t.from.opinion(ctx, m, c.world, pools)
	if out != OK {
		log.Warn("last good version has no prices to compare with", zap.String("outcome", string(out)), zap.Error(err))
		return
	}
	before, err := c.with(prices)
	if err != nil {
		log.Warn("plan with the prices of the last good version", zap.Error(err))
		return
	}
	after, err := c.acting()
	if err != nil {
		log.Warn("plan with the prices of a strategy on probation", zap.Error(err))
		return
	}
	if why := t.compare(before, after); why != "" {
		h.rollBack(t, why)
	}
}

// opinion is the prices of a slot, which is entered, for some pools, whoever is bound.
func (s *slot) opinion(ctx context.Context, m *market, w *model.World, pools []*model.Pool) (map[string]model.PoolPrices, Outcome, time.Duration, error) {
	req := m.priceRequest(w, pools)
	began := time.Now()
	var kept any
	version, out, err := s.ask(ctx, problem{kind: sdk.InstanceSelection, level: LevelPrice, input: req, hash: m.hash}.about(&kept))
	took := time.Since(began)
	if out != OK {
		return nil, out, took, err
	}
	prices := map[string]model.PoolPrices{}
	for i, p := range pools {
		prices[p.Name] = m.poolPrices(w, s.spec.Name, &req.Pools[i], &kept.(*sdk.PriceAnswer).Pools[i])
		x := prices[p.Name]
		x.Strategy, x.Outcome = s.spec.Name+" "+version, string(OK)
		prices[p.Name] = x
	}
	return prices, OK, took, nil
}

// Status tells about all strategies: those in service by name, then those that stand
// by, then those of a configuration that is not in service yet.
func (h *Host) Status() []Status {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []Status
	for _, s := range h.current.held() {
		out = append(out, h.statusOf(s))
	}
	for _, s := range h.next.held() {
		if !h.current.has(s) {
			st := s.snapshot()
			st.Pending, st.Role = true, Serving
			if h.next.config.onlyShadow(s.spec.Name) {
				st.Role = Shadow
			}
			out = append(out, st)
		}
	}
	return out
}

// statusOf is the status of a slot of the generation in service. The caller holds mu.
func (h *Host) statusOf(s *slot) Status {
	st := s.snapshot()
	switch {
	case !h.current.serves(s):
		st.Role = LastGood
	case h.current.config.onlyShadow(s.spec.Name):
		st.Role = Shadow
	default:
		st.Role = Serving
	}
	for _, t := range h.current.trials {
		if t.to == s {
			st.Trial = t.status()
		}
	}
	for _, r := range h.rolled {
		if r.from == s {
			back := r.RollBack
			st.RolledBack = &back
		}
	}
	for _, x := range h.current.shadows {
		if x.slot == s {
			st.Shadow = x.status()
		}
	}
	return st
}
