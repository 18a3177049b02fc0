package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/provision"
)

// factored is a strategy that multiplies prices and scores moves by a factor, so that
// answers tell which one gave them.
func factored(t testing.TB, factor float64, behaviour ...string) Spec {
	t.Helper()
	if len(behaviour) == 0 {
		behaviour = []string{"well"}
	}
	spec := fakeSpec(t, "fake", behaviour...)
	spec.Config = fmt.Appendf(nil, `{"Factor": %v}`, factor)
	return spec
}

func everywhere(spec Spec) Config {
	return Config{Strategies: []Spec{spec}, InstanceSelection: spec.Name, Consolidation: spec.Name}
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

func testMoves(w *model.World) []*model.Command {
	node := &model.Node{Name: "n1", Created: w.Now.Add(-time.Hour), USDPerHour: 0.0864, PriceKnown: true, Labels: map[string]string{
		model.LabelPool: "default", model.LabelInstanceType: "m6a.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand}}
	return []*model.Command{{Reason: model.Empty, Remove: []*model.Node{node}, Before: 0.0864}}
}

// askBoth makes the calls of one plan and answers the factors that priced and scored it.
func askBoth(ctx context.Context, h *Host) (priced, scored float64, err error) {
	w := testWorld()
	prices, err := h.Price(ctx, w)
	if err != nil {
		return 0, 0, err
	}
	scores, err := h.Score(ctx, w, testMoves(w))
	if err != nil {
		return 0, 0, err
	}
	return prices.ByPool["default"].Offerings[1].USDPerHour / 0.03, scores[0].Score, nil
}

// TestHundredSwapsUnderLoad swaps a strategy a hundred times while plans are made without
// pause: each plan hears one version for its prices and its verdicts, none is answered by
// anybody else, and each call is counted once.
func TestHundredSwapsUnderLoad(t *testing.T) {
	t.Parallel()
	swaps := 100
	if testing.Short() {
		swaps = 10
	}
	var calls, bad atomic.Int64
	config := everywhere(factored(t, 1))
	config.Swap.Probation = -1
	h := testHost(t, config, func(o *Options) {
		o.OnCall = func(c Call) {
			calls.Add(1)
			if c.Outcome != OK || c.Rung != ByStrategy {
				bad.Add(1)
			}
		}
	})
	settle(t, h)
	var plans atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, end := h.Begin(context.Background())
				priced, scored, err := askBoth(ctx, h)
				end()
				if err != nil || int(priced+0.5) != int(scored) {
					t.Errorf("one plan was priced by version %v and scored by version %v (%v)", priced, scored, err)
					return
				}
				plans.Add(1)
			}
		})
	}
	for i := range swaps {
		if err := h.Swap(context.Background(), factored(t, float64(i+2))); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if _, scored, _ := askBoth(context.Background(), h); int(scored) != swaps+1 {
		t.Errorf("the last version is %v, want %d", scored, swaps+1)
	}
	if want := 2 * (plans.Load() + 1); calls.Load() != want || bad.Load() != 0 || plans.Load() == 0 {
		t.Errorf("%d calls for %d plans, %d of them not answered well, want %d and 0", calls.Load(), plans.Load(), bad.Load(), want)
	}
	if n := len(h.Status()); n > 3 {
		t.Errorf("%d strategies are held, want the one in service, the one before it and those bound by default", n)
	}
}

// TestPlanKeepsItsStrategies changes the strategy in the middle of a plan: it goes on with
// what it began with, whose process ends with the plan.
func TestPlanKeepsItsStrategies(t *testing.T) {
	t.Parallel()
	config := everywhere(factored(t, 1))
	config.Swap.Probation = -1
	h := testHost(t, config)
	settle(t, h)
	first := statusOf(h, "fake").PID
	ctx, end := h.Begin(context.Background())
	for _, factor := range []float64{2, 3} { // after the second the first is not even the last good one
		if err := h.Swap(context.Background(), factored(t, factor)); err != nil {
			t.Fatal(err)
		}
	}
	if _, scored, _ := askBoth(ctx, h); scored != 1 {
		t.Errorf("inside the plan version %v answers, want 1", scored)
	}
	if _, scored, _ := askBoth(context.Background(), h); scored != 3 {
		t.Errorf("beside the plan version %v answers, want 3", scored)
	}
	if err := syscall.Kill(first, 0); err != nil {
		t.Errorf("the process of the plan: %v", err)
	}
	end()
	until(t, "the end of the first process", func() bool { return syscall.Kill(first, 0) != nil })
}

// TestCandidateIsTestedOnRecordedProblems: what answers the sample problem but not those
// that there were is never in service.
func TestCandidateIsTestedOnRecordedProblems(t *testing.T) {
	t.Parallel()
	h := testHost(t, everywhere(factored(t, 1)), func(o *Options) { o.Backoff = func(int) time.Duration { return time.Hour } })
	settle(t, h)
	price(t, h)
	err := h.Swap(context.Background(), factored(t, 2, "negative"))
	if err == nil || !strings.Contains(err.Error(), "self-test on a recorded problem of instance-selection (invalid)") {
		t.Errorf("error %v, want the failed self-test", err)
	}
	if _, scored, _ := askBoth(context.Background(), h); scored != 1 {
		t.Errorf("version %v answers, want 1", scored)
	}
}

// TestRollBackOnErrors puts a strategy in service that turns bad: the one before comes
// back by itself, it is said why, and the same is not tried again until it is asked for.
func TestRollBackOnErrors(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []RollBack
	h := testHost(t, everywhere(factored(t, 1)), func(o *Options) {
		o.OnState = func(st Status) {
			mu.Lock()
			defer mu.Unlock()
			if st.RolledBack != nil {
				told = append(told, *st.RolledBack)
			}
		}
	})
	settle(t, h)
	bad := factored(t, 2, "turns-bad", "3")
	if err := h.Swap(context.Background(), bad); err != nil {
		t.Fatal(err)
	}
	st := statusOf(h, "fake")
	if st.Trial == nil || st.Trial.State != Probation || !strings.HasPrefix(st.Trial.From, "fake 0.1 (") {
		t.Fatalf("status %+v, want it on probation", st.Trial)
	}
	for i, want := range []string{"ok", "ok", "ok", "invalid", "invalid"} {
		p := price(t, h)
		if p.Outcome != want {
			t.Errorf("call %d: outcome %s, want %s", i, p.Outcome, want)
		}
		if want == "invalid" && p.Offerings[1].USDPerHour != 0.03 {
			t.Errorf("call %d: price %v, want that of the version before", i, p.Offerings[1].USDPerHour)
		}
	}
	if p := price(t, h); p.Outcome != "ok" || p.Offerings[1].USDPerHour != 0.03 {
		t.Errorf("after the roll-back: outcome %s, price %v, want version 1", p.Outcome, p.Offerings[1].USDPerHour)
	}
	back := statusOf(h, "fake").RolledBack
	if back == nil || !strings.Contains(back.Why, "2 of its last 5 calls went wrong, the last with: invalid") {
		t.Fatalf("rolled back: %+v", back)
	}
	mu.Lock()
	if len(told) != 1 || !cmp.Equal(told[0], *back) {
		t.Errorf("told %+v, want once what the status says", told)
	}
	mu.Unlock()
	starts := statusOf(h, "fake").Starts
	if err := h.Apply(everywhere(bad)); err != nil { // another part of the file was changed, say
		t.Fatal(err)
	}
	settle(t, h)
	if st := statusOf(h, "fake"); st.Starts != starts || st.RolledBack == nil || st.Trial != nil {
		t.Errorf("the same configuration again: %+v, want it left alone", st)
	}
	if err := h.Retry("fake"); err != nil {
		t.Fatal(err)
	}
	settle(t, h)
	if st := statusOf(h, "fake"); st.Trial == nil || st.RolledBack != nil {
		t.Errorf("asked to try again: %+v, want it on probation", st)
	}
	if err := h.Retry("fake"); err == nil {
		t.Error("tried again what was not rolled back")
	}
}

// TestRollBackOnDeaths kills a new strategy between calls.
func TestRollBackOnDeaths(t *testing.T) {
	t.Parallel()
	h := testHost(t, everywhere(factored(t, 1)))
	settle(t, h)
	if err := h.Swap(context.Background(), factored(t, 2)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		until(t, "ready", func() bool { return statusOf(h, "fake").State == Ready })
		st := statusOf(h, "fake")
		if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "its end", func() bool { return statusOf(h, "fake").PID != st.PID })
	}
	until(t, "the roll-back", func() bool { return statusOf(h, "fake").RolledBack != nil })
	if p := price(t, h); p.Outcome != "ok" || p.Offerings[1].USDPerHour != 0.03 {
		t.Errorf("outcome %s, price %v, want version 1", p.Outcome, p.Offerings[1].USDPerHour)
	}
}

// planCost plans for real.
func planCost(_ context.Context, w *model.World, prices *model.Prices) (PlanCost, error) {
	var c PlanCost
	c.USDPerHour, c.Nodes, c.Unplaced = provision.Cost(provision.Plan(w, prices))
	return c, nil
}

// TestRollBackOnDearPlans puts a version in service that buys no spot, for a margin that
// forbids it and for one that does not.
func TestRollBackOnDearPlans(t *testing.T) {
	t.Parallel()
	for percent, rolledBack := range map[float64]bool{25: true, 300: false, -1: false} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			t.Parallel()
			config := everywhere(factored(t, 1))
			config.Swap.MaxDearerPercent = percent
			h := testHost(t, config, func(o *Options) { o.Cost = planCost })
			settle(t, h)
			if err := h.Swap(context.Background(), factored(t, 1, "no-spot")); err != nil {
				t.Fatal(err)
			}
			for i := range trialPlans {
				w := testWorld()
				w.Pods[0].Terms = []require.Set{{}}
				if _, err := h.Price(context.Background(), w); err != nil {
					t.Fatal(err)
				}
				until(t, "the comparison", func() bool {
					st := statusOf(h, "fake")
					return st.RolledBack != nil || st.Trial != nil && st.Trial.Plans == int64(i+1)
				})
			}
			st := statusOf(h, "fake")
			if !rolledBack {
				if st.RolledBack != nil || st.Trial.USDPerHour <= st.Trial.USDPerHourBefore || st.Trial.USDPerHourBefore <= 0 {
					t.Errorf("trial %+v, rolled back %+v, want it still on, and dearer", st.Trial, st.RolledBack)
				}
				return
			}
			want := "3 plans cost 0.2592 USD/h with its prices and 0.0900 with those before, which is more than 25 % dearer"
			if st.RolledBack == nil || st.RolledBack.Why != want {
				t.Errorf("rolled back %+v, want %q", st.RolledBack, want)
			}
		})
	}
}

// TestRollBackOfABinding binds another strategy that turns bad: the binding goes back.
func TestRollBackOfABinding(t *testing.T) {
	t.Parallel()
	h := testHost(t, Config{})
	bad := fakeSpec(t, "fake", "turns-bad", "0")
	if err := h.Apply(bound(bad)); err != nil {
		t.Fatal(err)
	}
	settle(t, h)
	for range 2 {
		if p := price(t, h); p.Outcome != "invalid" || p.Strategy != "cost-optimal 1.0.0" {
			t.Errorf("answered by %s, outcome %s", p.Strategy, p.Outcome)
		}
	}
	if p := price(t, h); p.Outcome != "ok" || p.Strategy != "cost-optimal 1.0.0" {
		t.Errorf("after the roll-back answered by %s, outcome %s", p.Strategy, p.Outcome)
	}
	if err := h.Apply(bound(bad)); err != nil {
		t.Fatal(err)
	}
	settle(t, h)
	if p := price(t, h); p.Outcome != "ok" || p.Strategy != "cost-optimal 1.0.0" {
		t.Errorf("after the same configuration again answered by %s, outcome %s", p.Strategy, p.Outcome)
	}
	if st := statusOf(h, "cost-optimal"); st.RolledBack == nil || !strings.HasPrefix(st.RolledBack.From, "fake 0.1") {
		t.Errorf("status %+v, want the roll-back", st)
	}
}

// TestLadder goes down the rungs: strategy, last good version, built-in.
func TestLadder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var last Call
	config := everywhere(factored(t, 2))
	config.Swap.MaxErrorRate = 1
	h := testHost(t, config, func(o *Options) {
		o.Backoff = func(int) time.Duration { return time.Hour } // what is killed stays away
		o.OnCall = func(c Call) {
			mu.Lock()
			defer mu.Unlock()
			last = c
		}
	})
	settle(t, h)
	if err := h.Swap(context.Background(), factored(t, 3, "turns-bad", "1")); err != nil {
		t.Fatal(err)
	}
	pids := map[Role]int{}
	for _, st := range h.Status() {
		if st.Name == "fake" {
			pids[st.Role] = st.PID
		}
	}
	check := func(outcome Outcome, rung Rung, who string, usd float64) {
		t.Helper()
		p := price(t, h)
		mu.Lock()
		defer mu.Unlock()
		got := []any{p.Outcome, p.Strategy, int(p.Offerings[1].USDPerHour*100 + 0.5), last.Outcome, last.Rung, last.Err == nil}
		want := []any{string(outcome), who, int(usd*100 + 0.5), outcome, rung, outcome == OK}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check(OK, ByStrategy, "fake 0.1", 0.09)
	check(Invalid, ByLastGood, "fake 0.1", 0.06)
	if err := syscall.Kill(pids[Serving], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return statusOf(h, "fake").State == BackingOff })
	check(Dead, ByLastGood, "fake 0.1", 0.06)
	if err := syscall.Kill(pids[LastGood], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the last good one", func() bool {
		for _, st := range h.Status() {
			if st.Role == LastGood {
				return st.State == BackingOff
			}
		}
		return false
	})
	check(Dead, ByBuiltin, "cost-optimal 1.0.0", 0.03)
	st := statusOf(h, "fake")
	if diff := cmp.Diff(map[Rung]int64{ByStrategy: 1, ByLastGood: 2, ByBuiltin: 1}, st.Rungs); diff != "" || st.Rung != ByBuiltin || st.Fallbacks() != 3 || st.Calls != 4 {
		t.Errorf("%s; status %+v", diff, st.Counts)
	}
	if diff := cmp.Diff(map[Outcome]int64{OK: 1, Invalid: 1, Dead: 2}, st.Outcomes); diff != "" {
		t.Error(diff)
	}
}

// TestLastGoodSleeps: once a strategy has passed its probation the process of the version
// before ends; it is started again when the strategy is dead, and answers then.
func TestLastGoodSleeps(t *testing.T) {
	t.Parallel()
	config := everywhere(factored(t, 2))
	config.Swap.Probation = time.Millisecond
	var gone atomic.Bool
	h := testHost(t, config, func(o *Options) {
		o.Steady = time.Millisecond
		o.Backoff = func(int) time.Duration {
			if gone.Load() {
				return time.Hour
			}
			return time.Millisecond
		}
	})
	settle(t, h)
	if err := h.Swap(context.Background(), factored(t, 3)); err != nil {
		t.Fatal(err)
	}
	lastGood := func() Status {
		for _, st := range h.Status() {
			if st.Role == LastGood {
				return st
			}
		}
		return Status{}
	}
	until(t, "the end of the probation", func() bool {
		price(t, h)
		return statusOf(h, "fake").Trial.State == Passed
	})
	until(t, "sleep", func() bool { return lastGood().State == Standby })
	gone.Store(true)
	if err := syscall.Kill(statusOf(h, "fake").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the last good version's start", func() bool { return lastGood().State == Ready })
	if p := price(t, h); p.Outcome != "dead" || int(p.Offerings[1].USDPerHour*100+0.5) != 6 {
		t.Errorf("outcome %s, price %v, want dead and twice the market", p.Outcome, p.Offerings[1].USDPerHour)
	}
	if _, err := h.RollBack(context.Background(), "fake", "somebody said so"); err != nil {
		t.Fatal(err)
	}
	if p := price(t, h); p.Outcome != "ok" || int(p.Offerings[1].USDPerHour*100+0.5) != 6 {
		t.Errorf("outcome %s, price %v, want version 2 in service", p.Outcome, p.Offerings[1].USDPerHour)
	}
	if st := statusOf(h, "fake"); st.RolledBack == nil || st.RolledBack.Why != "somebody said so" {
		t.Errorf("rolled back %+v", st.RolledBack)
	}
	if _, err := h.RollBack(context.Background(), "fake", "again"); !errors.Is(err, ErrNoLastGood) {
		t.Error("rolled back to nothing")
	}
}

// TestKilledCandidate kills every process of a candidate while it starts: the one in
// service does not notice, and nothing is left when the host closes.
func TestKilledCandidate(t *testing.T) {
	t.Parallel()
	h := testHost(t, everywhere(factored(t, 1)))
	settle(t, h)
	if err := h.Apply(everywhere(factored(t, 2, "die"))); err != nil {
		t.Fatal(err)
	}
	pending := func() Status {
		for _, st := range h.Status() {
			if st.Pending && st.Name == "fake" {
				return st
			}
		}
		return Status{}
	}
	until(t, "some starts", func() bool { return pending().Failures >= 3 })
	if _, scored, _ := askBoth(context.Background(), h); scored != 1 {
		t.Errorf("version %v answers, want 1", scored)
	}
	if !strings.Contains(pending().LastError, "cannot go on") {
		t.Errorf("last error %q", pending().LastError)
	}
}

// planWorld is a world whose pod can be placed.
func planWorld() *model.World {
	w := testWorld()
	w.Pods[0].Terms = []require.Set{{}}
	return w
}

func testLog() *zap.Logger { return zap.NewNop() }

// TestUnusedTrialRests: the process of the version before does not run on for a strategy
// that nobody asks; it is started when the new one first goes wrong.
func TestUnusedTrialRests(t *testing.T) {
	t.Parallel()
	config := everywhere(factored(t, 2))
	config.Swap.Probation, config.Swap.MaxErrorRate = time.Millisecond, 1
	h := testHost(t, config)
	settle(t, h)
	if err := h.Swap(context.Background(), factored(t, 3, "turns-bad", "0")); err != nil {
		t.Fatal(err)
	}
	lastGood := func() State {
		for _, st := range h.Status() {
			if st.Role == LastGood {
				return st.State
			}
		}
		return ""
	}
	until(t, "sleep", func() bool { return lastGood() == Standby })
	if p := price(t, h); p.Outcome != "invalid" || p.Strategy != "cost-optimal 1.0.0" {
		t.Errorf("answered by %s, outcome %s, want the built-in while the last good version sleeps", p.Strategy, p.Outcome)
	}
	until(t, "the last good version's start", func() bool { return lastGood() == Ready })
	if p := price(t, h); p.Outcome != "invalid" || p.Strategy != "fake 0.1" {
		t.Errorf("answered by %s, outcome %s, want the last good version", p.Strategy, p.Outcome)
	}
}

// TestNothingIsLeftOfSwaps swaps, rolls back, watches and records, and counts afterwards
// what this process holds.
func TestNothingIsLeftOfSwaps(t *testing.T) {
	// Serial: it counts what this whole process holds.
	before, goroutines := measure(t), stacks()
	dir := t.TempDir()
	config := everywhere(factored(t, 1))
	shadow := fakeSpec(t, "watcher", "no-spot")
	shadow.Name = "watcher"
	config.Strategies, config.Shadow = append(config.Strategies, shadow), []string{"watcher"}
	h := testHost(t, config, func(o *Options) { o.Cost = planCost; o.Records.Folder = dir })
	settle(t, h)
	for i := range 6 {
		behaviour := "well"
		if i%2 == 1 {
			behaviour = "turns-bad"
		}
		if err := h.Swap(context.Background(), factored(t, float64(i+2), behaviour, "3")); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			ctx, end := h.Begin(context.Background())
			if _, err := h.Price(ctx, planWorld()); err != nil {
				t.Fatal(err)
			}
			end()
		}
		if back := statusOf(h, "fake").RolledBack; (back != nil) != (i%2 == 1) {
			t.Errorf("swap %d: rolled back %+v", i, back)
		}
	}
	h.Close()
	until(t, "everything is as before", func() bool { return measure(t) == before })
	until(t, "goroutines as before:\n"+stacks(), func() bool { return strings.Count(stacks(), "goroutine ") <= strings.Count(goroutines, "goroutine ") })
}

// TestOneDeathIsOneFault: a process that takes a call with it is at fault once, and that
// does not send it back.
func TestOneDeathIsOneFault(t *testing.T) {
	t.Parallel()
	h := testHost(t, everywhere(factored(t, 1)), func(o *Options) { o.Backoff = func(int) time.Duration { return time.Hour } })
	settle(t, h)
	if err := h.Swap(context.Background(), factored(t, 2, "exit")); err != nil {
		t.Fatal(err)
	}
	if p := price(t, h); p.Outcome != "dead" || p.Strategy != "fake 0.1" {
		t.Errorf("answered by %s, outcome %s, want the last good version", p.Strategy, p.Outcome)
	}
	until(t, "its end is noticed", func() bool { return statusOf(h, "fake").State == BackingOff })
	h.mu.RLock()
	trials := h.current.trials
	h.mu.RUnlock()
	until(t, "its end is counted", func() bool {
		trials[0].mu.Lock()
		defer trials[0].mu.Unlock()
		return trials[0].fell == 1 && trials[0].died == 1
	})
	if st := statusOf(h, "fake"); st.RolledBack != nil || st.Trial == nil || st.Trial.Failures != 1 {
		t.Errorf("trial %+v, rolled back %+v, want one fault", st.Trial, st.RolledBack)
	}
	price(t, h) // there is still no process: that is the second
	if st := statusOf(h, "fake"); st.RolledBack == nil {
		t.Errorf("trial %+v, want it rolled back", st.Trial)
	}
}

// TestSwapBesideABrokenOne: a strategy that is in service and does not start keeps no other
// from being changed; what it is newly needed for waits for it, and says so.
func TestSwapBesideABrokenOne(t *testing.T) {
	t.Parallel()
	broken := fakeSpec(t, "broken", "die")
	with := func(factor float64, change func(*Config)) Config {
		c := everywhere(factored(t, factor))
		c.Strategies = append(c.Strategies, broken)
		change(&c)
		return c
	}
	apply := func(h *Host, c Config) {
		t.Helper()
		if err := h.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	h := testHost(t, with(1, func(*Config) {}))
	until(t, "one is ready and one is not", func() bool {
		return statusOf(h, "fake").State == Ready && statusOf(h, "broken").Failures > 0
	})
	apply(h, with(2, func(*Config) {}))
	until(t, "the swap", func() bool { return price(t, h).Offerings[1].USDPerHour == 0.06 })

	for name, needs := range map[string]func(*Config){
		"bound": func(c *Config) { c.Consolidation = "broken" },
		"in a chain": func(c *Config) {
			c.Strategies = append(c.Strategies, Spec{Name: "mix", Chain: []ChainMember{{Strategy: "broken", Required: true}}})
		},
	} {
		apply(h, with(3, needs))
		until(t, "what is to come is ready, "+name, func() bool {
			st := pendingOf(h, "fake")
			return st.State == Ready && st.WaitsFor == "broken"
		})
		if p := price(t, h); p.Offerings[1].USDPerHour != 0.06 {
			t.Errorf("%s: price %v, want that of the version before", name, p.Offerings[1].USDPerHour)
		}
	}
	apply(h, with(3, func(c *Config) { c.Shadow = []string{"broken"} }))
	until(t, "the swap", func() bool { return price(t, h).Offerings[1].USDPerHour == 0.09 })
	apply(h, with(4, func(*Config) {})) // from shadow to acting
	until(t, "it waits", func() bool { return pendingOf(h, "fake").WaitsFor == "broken" })
}

// pendingOf is the status of a strategy of the configuration that is not in service yet.
func pendingOf(h *Host, name string) Status {
	for _, st := range h.Status() {
		if st.Name == name && st.Pending {
			return st
		}
	}
	return Status{}
}
