package control_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
)

// life is the scenario that crashes are put into: pods come, all of them run, they
// go, the machines are given back.
func life(t testing.TB, s *scene) {
	t.Helper()
	v := watch(t, s)
	w := web(6)
	s.Workloads = append(s.Workloads, w)
	if !s.Until(8*time.Minute, func() bool { return s.Running("web") == 6 }) {
		t.Fatalf("only %d of 6 pods run", s.Running("web"))
	}
	s.Run(2 * time.Minute)
	w.Replicas = 0
	if !s.Until(15*time.Minute, func() bool { return s.Machines() == 0 && len(s.API.Claims) == 0 && len(s.API.Nodes) == 0 }) {
		t.Errorf("not everything was given back: %d machines, %d claims, %d nodes", s.Machines(), len(s.API.Claims), len(s.API.Nodes))
	}
	v.check()
}

// effectsOf counts the effects of a life without crashes, and their kinds.
func effectsOf(t testing.TB) []string {
	s := newScene(t, nil, pool("default", model.OnDemand))
	var kinds []string
	life(t, s)
	s2 := newScene(t, nil, pool("default", model.OnDemand))
	s2.Crash = func(_ int, after bool, e execute.Effect) bool {
		if after {
			kinds = append(kinds, e.Kind())
		}
		return false
	}
	life(t, s2)
	return kinds
}

// TestACrashAnywhereLosesNothing kills the controller before and after every single
// effect of a life, and lets another one go on from objects, ledger and cloud.
func TestACrashAnywhereLosesNothing(t *testing.T) {
	t.Parallel()
	kinds := effectsOf(t)
	seen := map[string]int{}
	for k, kind := range kinds {
		if seen[kind]++; seen[kind] > 8 && kind != "SendLaunch" {
			continue // the same kind of effect at the same kind of moment
		}
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-%d-after=%t", kind, k, after), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, nil, pool("default", model.OnDemand))
				s.Crash = func(i int, a bool, _ execute.Effect) bool { return s.Crashes == 0 && i == k && a == after }
				life(t, s)
				if s.Crashes != 1 {
					t.Errorf("%d crashes, expected 1", s.Crashes)
				}
			})
		}
	}
}

// TestManyCrashes kills it again and again at random moments, and loses answers.
func TestManyCrashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		crash := map[int]bool{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 400), 1, 12).Draw(r, "crash") {
			crash[i] = rapid.Bool().Draw(r, "after")
		}
		lose := map[int]bool{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 400), 0, 8).Draw(r, "lose") {
			lose[i] = true
		}
		s := newScene(t, nil, pool("default", model.OnDemand))
		s.Crash = func(i int, a bool, _ execute.Effect) bool {
			after, ok := crash[i]
			return ok && a == after
		}
		s.Lose = func(i int, e execute.Effect) error {
			if !lose[i] {
				return nil
			}
			if _, launch := e.Do.(execute.SendLaunch); launch {
				return &cloud.Error{Op: "CreateFleet", Kind: cloud.Internal, Code: "RequestTimeout", Message: "the answer was lost"}
			}
			return errors.New("the answer was lost")
		}
		life(fatal{t, r}, s)
	})
}

// fatal reports to rapid, so that it can shrink.
type fatal struct {
	testing.TB
	r *rapid.T
}

func (f fatal) Fatalf(format string, a ...any) { f.r.Fatalf(format, a...) }
func (f fatal) Errorf(format string, a ...any) { f.r.Errorf(format, a...) }

// TestLedgerAway lets scaling go on without a ledger, and checks that the queue is
// written once it is back.
func TestLedgerAway(t *testing.T) {
	t.Parallel()
	store := &flaky{Store: mem.New(), down: true}
	s := newScene(t, store, pool("default", model.OnDemand))
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(6))
	if !s.Until(5*time.Minute, func() bool { return s.Running("web") == 6 }) {
		t.Fatalf("only %d of 6 pods run without a ledger", s.Running("web"))
	}
	if !s.current.c.Executor().LedgerDown || s.current.c.Executor().QueuedWrites() == 0 {
		t.Errorf("nothing says that the ledger is away: %d writes queued", s.current.c.Executor().QueuedWrites())
	}
	store.down = false
	if !s.Until(3*time.Minute, func() bool { return s.current.c.Executor().QueuedWrites() == 0 && !s.current.c.Executor().LedgerDown }) {
		t.Errorf("%d writes are still queued", s.current.c.Executor().QueuedWrites())
	}
	items, err := store.Query(t.Context(), "test/claim", "", s.Now())
	if err != nil || len(items) != len(s.API.Claims) {
		t.Errorf("the ledger knows %d claims of %d (%v)", len(items), len(s.API.Claims), err)
	}
	v.check()
}
