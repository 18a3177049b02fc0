package strategy

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/builtin"
)

// askMix asks the chain mix about a world.
func askMix(ctx context.Context, t *testing.T, h *Host, w *model.World) model.PoolPrices {
	t.Helper()
	prices, err := h.Price(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	return prices.ByPool["default"]
}

// noted keeps the calls of one strategy.
type noted struct {
	name  string
	mu    sync.Mutex
	calls []Call
}

func (n *noted) options(o *Options) {
	o.OnCall = func(c Call) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if c.Strategy == n.name {
			n.calls = append(n.calls, c)
		}
	}
}

func (n *noted) last(t *testing.T) Call {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.calls) == 0 {
		t.Fatalf("%s was not asked", n.name)
	}
	return n.calls[len(n.calls)-1]
}

// TestMembersHaveTheirLadder: in the place of a member whose new version answers badly its
// last good version is in the chain.
func TestMembersHaveTheirLadder(t *testing.T) {
	t.Parallel()
	w := workloads(6)
	w.Now = w.Now.Add(time.Minute) // the fake behaves well at the time of the sample
	member := func(behaviour ...string) Spec {
		s := fakeSpec(t, "member", behaviour...)
		s.Config = json.RawMessage(`{"factor": 0.5}`)
		return s
	}
	cfg := bound(chainOf(ChainMember{Strategy: "member", Required: true}, ChainMember{Strategy: "cost-optimal"}))
	cfg.Strategies, cfg.Swap = append(cfg.Strategies, member("well")), SwapRules{MaxErrorRate: 1}
	calls := &noted{name: "member"}
	h := testHost(t, cfg, calls.options)
	settle(t, h)
	before := askMix(t.Context(), t, h, w)
	cfg.Strategies = append(cfg.Strategies[:1:1], member("turns-bad", "1")) // the self-test is its only good answer
	if err := h.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	settle(t, h)
	after := askMix(t.Context(), t, h, w)
	if c := calls.last(t); c.Outcome != Invalid || c.Rung != ByLastGood || c.Fallback != "member 0.1" {
		t.Errorf("the member's call: outcome %s, rung %s, fallback %q; want that its last good version answered", c.Outcome, c.Rung, c.Fallback)
	}
	costOptimal, err := builtin.New("cost-optimal")
	if err != nil {
		t.Fatal(err)
	}
	if want := "mix cost-optimal " + costOptimal.Describe().Version + " + member 0.1"; after.Strategy != want {
		t.Errorf("%q answered, want %q", after.Strategy, want)
	}
	if before.Outcome != string(OK) || after.Outcome != string(OK) {
		t.Errorf("outcomes %s and %s, want ok", before.Outcome, after.Outcome)
	}
	if diff := cmp.Diff(before.Offerings, after.Offerings); diff != "" {
		t.Errorf("prices without the last good version: %s", diff)
	}
}

// TestChainsWait for as long as their members may take, with half of that for the last good
// version, unless they are told a time.
func TestChainsWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ own, slow, want time.Duration }{
		"slower than usual": {0, 5 * time.Second, 7500 * time.Millisecond},
		"faster than usual": {0, time.Second, 3 * time.Second},
		"told a time":       {500 * time.Millisecond, 5 * time.Second, 500 * time.Millisecond},
	} {
		mix := chainOf(ChainMember{Strategy: "resilient"}, ChainMember{Strategy: "cost-optimal"})
		mix.CallTimeout = c.own
		cfg := bound(mix)
		cfg.Strategies = append(cfg.Strategies, Spec{Name: "resilient", CallTimeout: c.slow})
		h := testHost(t, cfg, func(o *Options) { o.CallTimeout = 2 * time.Second })
		h.mu.RLock()
		s := h.current.slots["mix"]
		h.mu.RUnlock()
		if got := s.callTimeout(t.Context()); got != c.want {
			t.Errorf("%s: a chain is given %v, want %v", name, got, c.want)
		}
	}
}

// TestChainsAreNotTheMembersFault: who is slower than the chain lets it be is left out and is
// not taken for hung; who hangs for all of its own time is.
func TestChainsAreNotTheMembersFault(t *testing.T) {
	t.Parallel()
	w := workloads(6)
	w.Now = w.Now.Add(time.Minute)
	for name, c := range map[string]struct {
		own  time.Duration
		ends bool
	}{"cut by the chain": {patience, false}, "its own time": {100 * time.Millisecond, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := fakeSpec(t, "slow", "wait")
			slow.CallTimeout = c.own
			mix := chainOf(ChainMember{Strategy: "slow"}, ChainMember{Strategy: "cost-optimal"})
			mix.CallTimeout = 400 * time.Millisecond
			cfg := bound(mix)
			cfg.Strategies = append(cfg.Strategies, slow)
			calls := &noted{name: "slow"}
			h := testHost(t, cfg, calls.options)
			settle(t, h)
			for range maxLate {
				if p := askMix(t.Context(), t, h, w); p.Outcome != string(OK) {
					t.Fatalf("%s answered, outcome %s, want ok", p.Strategy, p.Outcome)
				}
				if x := calls.last(t); x.Outcome != Late || x.Rung != LeftOut {
					t.Fatalf("the member's call: outcome %s, rung %s", x.Outcome, x.Rung)
				}
			}
			h.mu.RLock()
			s := h.current.slots["slow"]
			h.mu.RUnlock()
			s.mu.Lock()
			late := s.late
			s.mu.Unlock()
			if ended := late >= maxLate || s.starts() > 1; ended != c.ends {
				t.Errorf("%d late calls in a row, %d starts; want that it is ended: %t", late, s.starts(), c.ends)
			}
		})
	}
}
