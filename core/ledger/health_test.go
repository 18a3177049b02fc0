package ledger_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/ledger"
)

// asked is a launch under way in a history.
type asked struct {
	n     int
	round int64
	at    time.Time
}

// Whatever happens in whatever order, no more is under way than the ramp allows: none while the offering is closed but a single
// probe, then one, and never more than twice of what was bought since the last shortage. The wait never gets shorter while
// shortages follow each other.
func TestRampProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
		clusters := [2][]asked{} // launches under way, by cluster
		var h ledger.OfferingHealth
		bought, wait := 0, time.Duration(0) // since the last restart
		restart := func() {
			bought = 0
			if r := h.ClosedUntil.Sub(now); h.LastShortage.Equal(now) {
				wait = r
			}
		}
		if h.Short("no", now); h.ClosedUntil.Sub(now) != ledger.ShortageFirst {
			r.Fatalf("closed until %v", h.ClosedUntil)
		}
		restart()
		current := func() int {
			n := 0
			for _, c := range clusters {
				for _, a := range c {
					if a.round == h.Round && now.Before(a.at.Add(ledger.RampLease)) {
						n += a.n
					}
				}
			}
			return n
		}
		for range rapid.IntRange(1, 80).Draw(r, "steps") {
			c := &clusters[rapid.IntRange(0, 1).Draw(r, "cluster")]
			switch what := rapid.SampledFrom([]string{"take", "take", "probe", "settle", "settle", "settle", "interrupt", "wait"}).Draw(r, "what"); what {
			case "take", "probe":
				n, closed := 1, h.Closed(now)
				if what == "take" {
					n = rapid.IntRange(1, 8).Draw(r, "n")
				}
				if !h.Take(n, what == "probe", now) {
					continue
				}
				if !h.Limited() {
					continue // the ramp has ended: anything goes
				}
				*c = append(*c, asked{n, h.Round, now})
				if closed && (what != "probe" || current() != 1) {
					r.Fatalf("%s of %d while it is closed, %d under way", what, n, current())
				}
				if max := 1 + bought; current() > max {
					r.Fatalf("%d under way after %d were bought", current(), bought)
				}
			case "settle":
				if len(*c) == 0 {
					continue
				}
				a := (*c)[0]
				*c = (*c)[1:]
				o := ledger.Outcome{Took: a.n, Round: a.round, Got: rapid.IntRange(0, a.n).Draw(r, "got"), Short: rapid.Bool().Draw(r, "short"), Message: "no"}
				closed, inRow := h.Closed(now) && h.Shortages > 0, h.Shortages
				before := wait
				h.Settle(o, now)
				switch {
				case o.Short && !closed:
					if restart(); inRow > 0 && wait < before {
						r.Fatalf("shortage %d in a row: waits %v after %v", h.Shortages, wait, before)
					}
				case !o.Short && a.round == h.Round && !h.Closed(now):
					bought += o.Got
				}
				if !h.Limited() && 1+bought < ledger.RampEnd {
					r.Fatalf("the ramp has ended after %d", bought)
				}
			case "interrupt":
				h.Interrupted(now)
				restart()
				if !h.Closed(now) || h.ClosedUntil.Sub(now) < ledger.ShortageFirst {
					r.Fatalf("after an interruption it is closed until %v", h.ClosedUntil)
				}
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(1, 1200).Draw(r, "seconds")) * time.Second)
			}
		}
	})
}

// One, two, four, and so on until the end of the ramp; a restart of whoever launches is no news.
func TestRampDoubles(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	var h ledger.OfferingHealth
	h.Short("no", now)
	if want := "closed until 2026-03-02T08:03:00Z, then one probe"; h.Text(now) != want {
		t.Errorf("told as %q, want %q", h.Text(now), want)
	}
	now = h.ClosedUntil
	for want := 1; want < ledger.RampEnd; want *= 2 {
		room, _ := h.Room(now)
		if room != want || h.Take(want+1, false, now) || !h.Take(want, false, now) {
			t.Fatalf("room for %d, want %d", room, want)
		}
		h.Settle(ledger.Outcome{Took: want, Got: want, Round: h.Round}, now)
	}
	if h.Limited() || h.Text(now) != "" {
		t.Errorf("after the ramp: %+v", h)
	}
	if h.LastShortage.IsZero() {
		t.Error("the ramp has ended, and when the offering was short is not known any more")
	}
	h.Short("no", now)
	if h.Shortages != 1 {
		t.Errorf("the ramp had ended, yet this is shortage %d in a row", h.Shortages)
	}
}
