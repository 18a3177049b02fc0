package strategy

import (
	"context"
	"testing"
	"time"
)

// TestHangingReachesTheBreaker: a strategy that starts well and then never answers is found
// out by late calls alone; however long it lived between two of them, that was no success.
func TestHangingReachesTheBreaker(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "fake", "hang")), func(o *Options) {
		o.CallTimeout, o.Steady, o.BreakAfter, o.BreakFor = 100*time.Millisecond, time.Nanosecond, 2, time.Hour
	})
	for start := 1; start <= 2; start++ {
		until(t, "ready", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.Starts == start })
		for range maxLate {
			if p := price(t, h); p.Outcome != "late" {
				t.Fatalf("outcome %s, want late", p.Outcome)
			}
		}
	}
	until(t, "the breaker, or one start more", func() bool { st := statusOf(h, "fake"); return st.State == Broken || st.Starts == 3 })
	if st := statusOf(h, "fake"); st.State != Broken || st.Failures != 2 {
		t.Errorf("state %s after %d starts, %d failures in a row; want broken after 2", st.State, st.Starts, st.Failures)
	}
}

func TestSteady(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		began, answered time.Time
		hung, want      bool
	}{
		"never ready":                    {want: false},
		"ended soon":                     {began: now.Add(-time.Second), want: false},
		"ended late":                     {began: now.Add(-time.Hour), want: true},
		"hung, and never answered":       {began: now.Add(-time.Hour), hung: true, want: false},
		"hung, and answered at first":    {began: now.Add(-time.Hour), answered: now.Add(-time.Hour + time.Second), hung: true, want: false},
		"hung, and answered for a while": {began: now.Add(-time.Hour), answered: now.Add(-time.Minute), hung: true, want: true},
	} {
		s := &slot{opts: &Options{Steady: time.Minute}, hung: c.hung, answered: c.answered}
		if got := s.steady(c.began); got != c.want {
			t.Errorf("%s: steady %t, want %t", name, got, c.want)
		}
	}
}

// TestCallersWhoGiveUp ends no process: it is not the strategy that was late.
func TestCallersWhoGiveUp(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "fake", "well")))
	settle(t, h)
	before := statusOf(h, "fake").PID
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 * maxLate {
		if _, err := h.Price(gone, testWorld()); err != nil {
			t.Fatal(err)
		}
	}
	if p := price(t, h); p.Outcome != "ok" || statusOf(h, "fake").PID != before {
		t.Errorf("outcome %s by process %d, want ok by %d", p.Outcome, statusOf(h, "fake").PID, before)
	}
}
