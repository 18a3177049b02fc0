package strategy

import (
	"maps"
	"slices"
	"time"
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
	// P50 and P99 are of the time that the strategy's part took, over its last calls, at
	// most a thousand.
	P50, P99 time.Duration
	// LastCallError is why the last call went wrong that did, at LastCallErrorAt.
	LastCallError   string
	LastCallErrorAt time.Time
}

// Fallbacks is how many calls were answered by somebody else.
func (c Counts) Fallbacks() int64 { return c.Calls - c.Rungs[ByStrategy] }

// keptTimes is over how many calls times are told.
const keptTimes = 1000

// tally counts calls. The owner guards it.
type tally struct {
	counts Counts
	took   []time.Duration // a ring of the last calls
	next   int
}

func (t *tally) add(c Call, at time.Time) {
	if t.counts.Outcomes == nil {
		t.counts.Outcomes, t.counts.Rungs = map[Outcome]int64{}, map[Rung]int64{}
	}
	t.counts.Calls++
	t.counts.Outcomes[c.Outcome]++
	t.counts.Rungs[c.Rung]++
	t.counts.Rung = c.Rung
	if c.Err != nil {
		t.counts.LastCallError, t.counts.LastCallErrorAt = c.Err.Error(), at
	}
	if len(t.took) < keptTimes {
		t.took = append(t.took, c.Took)
		return
	}
	t.took[t.next] = c.Took
	t.next = (t.next + 1) % keptTimes
}

// read is a copy of the counts with the times filled in.
func (t *tally) read() Counts {
	out := t.counts
	out.Outcomes, out.Rungs = maps.Clone(out.Outcomes), maps.Clone(out.Rungs)
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
