package model

import (
	"fmt"
	"time"
)

// TimeBudget says how long planning may go on. Planners have no clock: whoever asks for a
// plan hands in what tells them, and they ask it now and then, from one goroutine.
//
// A nil TimeBudget has no end, and neither has one without a function.
type TimeBudget struct {
	Limit time.Duration // of the whole plan, for what is said about it
	// Improve says whether there is time left to make a plan cheaper, which ends before
	// the time for placing does.
	Improve func() bool
	// Place says whether there is time left to look at further pods or nodes.
	Place func() bool
}

// MayImprove says whether a plan that is complete may still be made cheaper.
func (b *TimeBudget) MayImprove() bool { return b == nil || b.Improve == nil || b.Improve() }

// MayPlace says whether further pods or nodes may be looked at.
func (b *TimeBudget) MayPlace() bool { return b == nil || b.Place == nil || b.Place() }

// Deadline remembers that a budget has ended: what has ended once does not begin again in
// the middle of a plan, and no time to place means no time to improve.
type Deadline struct {
	of          *TimeBudget
	short, over bool
}

// Remembering is a budget that asks this one and remembers its answers, with what it
// remembers; nil where there is no budget.
func (b *TimeBudget) Remembering() (*TimeBudget, *Deadline) {
	if b == nil {
		return nil, nil
	}
	d := &Deadline{of: b}
	return &TimeBudget{Limit: b.Limit, Improve: d.improve, Place: d.place}, d
}

func (d *Deadline) place() bool {
	d.over = d.over || !d.of.MayPlace()
	d.short = d.short || d.over
	return !d.over
}

func (d *Deadline) improve() bool {
	d.short = d.short || !d.of.MayImprove()
	return !d.short
}

// End is what a plan says that went into the deadline, with nothing counted yet; nil where
// the time sufficed.
func (d *Deadline) End() *BudgetEnd {
	if d == nil || !d.short {
		return nil
	}
	return &BudgetEnd{Limit: d.of.Limit}
}

// BudgetEnd says that a plan came to the end of its budget: it is legal, and the best
// that was found until then.
type BudgetEnd struct {
	Limit  time.Duration
	Unseen int // pods, or nodes that might go, that were not looked at: they are at the next pass
}

// Within is a budget that ends after so long, by a clock: half of it is for making a
// plan cheaper, since a cheap first plan takes a small part of that, and the rest for
// pods that have no place by then. A limit of 0 or less is none, and answers nil.
func Within(limit time.Duration, now func() time.Time) *TimeBudget {
	if limit <= 0 {
		return nil
	}
	began := now()
	within := func(d time.Duration) func() bool {
		return func() bool { return now().Sub(began) < d }
	}
	return &TimeBudget{Limit: limit, Improve: within(limit / 2), Place: within(limit)}
}

// Text says in one line that planning was stopped, what was not looked at (such as
// "pods") and what the plan may lack.
func (e *BudgetEnd) Text(what, lacks string) string {
	if e.Unseen == 0 {
		return fmt.Sprintf("planning was stopped by its time budget of %s: %s", e.Limit, lacks)
	}
	return fmt.Sprintf("planning was stopped by its time budget of %s: %d %s were not looked at and are at the next pass; %s", e.Limit, e.Unseen, what, lacks)
}
