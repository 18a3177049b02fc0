package strategy

import (
	"fmt"
	"sync"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

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
