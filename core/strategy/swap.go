package strategy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

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

// rouse wakes a slot or sends it to sleep, in the background. The caller holds mu.
func (h *Host) rouse(s *slot, awake bool) {
	if h.closed || !s.sleep(!awake) {
		return
	}
	h.work.Go(s.settlePower)
}

// rose implements slotOwner: what a chain of it did without it says nothing any more.
func (h *Host) rose(s *slot) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, x := range h.current.held() {
		if slices.ContainsFunc(x.spec.Chain, func(m ChainMember) bool { return h.current.slots[m.Strategy] == s }) {
			x.mu.Lock()
			x.tally.afresh(time.Now())
			x.mu.Unlock()
		}
	}
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

// keptProblems of each kind and level are kept for self-tests, unless they are larger
// than keptOfferings in all their pools.
const (
	keptProblems  = 3
	keptOfferings = 2_000_000
)

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

// Status tells about all strategies: those in service by name, then those that stand
// by, then built-ins that only annotations name and that were asked, then those of a configuration that is not in service yet.
func (h *Host) Status() []Status {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []Status
	for _, s := range h.current.held() {
		out = append(out, h.statusOf(s))
	}
	for _, name := range sortedNames(h.extra) {
		if s := h.extra[name]; h.current.slots[name] == nil && s.asked() {
			st := s.snapshot()
			st.Role = Serving
			out = append(out, st)
		}
	}
	if h.next == nil {
		return out
	}
	waitsFor := h.next.waitsFor(h.current)
	for _, s := range h.next.held() {
		if !h.current.has(s) {
			st := s.snapshot()
			st.Pending, st.Role, st.WaitsFor = true, Serving, waitsFor
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
