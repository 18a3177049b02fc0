package disrupt

import (
	"time"

	"github.com/weir-project/weir/core/model"
)

// BudgetState is one budget of a pool at an instant.
type BudgetState struct {
	Budget model.Budget
	Nodes  int        // that it allows to be disrupted at a time, of the pool as it is
	Active bool       // it restricts now
	Ends   *time.Time // of the window that is open, with those that overlap it; nil = none is, or without end
	Opens  *time.Time // of the next window; nil = it has no schedule, or none comes
}

// BudgetStates tells of each budget of a pool whether it restricts now, and when that
// changes. total is what percentages refer to. The error is that of CheckBudgets.
func BudgetStates(p *model.Pool, total int, now time.Time) ([]BudgetState, error) {
	if err := CheckBudgets(p); err != nil {
		return nil, err
	}
	var out []BudgetState
	for _, b := range p.Budgets {
		s := BudgetState{Budget: b, Nodes: nodes(b.Nodes, total)}
		s.Ends, s.Active = window(b, timeZone(p), now)
		if b.Schedule != "" {
			from := now
			if s.Ends != nil {
				from = s.Ends.Add(-time.Nanosecond) // starts within are part of the window
			}
			sched, err := parseSchedule(b.Schedule, timeZone(p))
			if err != nil {
				return nil, err // not after CheckBudgets
			}
			if next := sched.Next(from.UTC()); !next.IsZero() && (s.Ends != nil || !s.Active) {
				next = next.UTC()
				s.Opens = &next
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// TimeZone is that of the schedules of a pool's budgets.
func TimeZone(p *model.Pool) string { return timeZone(p) }

// Lost is a node that a pool's budgets count as disrupted.
type Lost struct {
	Node *model.Node
	Why  string // NotReady or Removed
}

// InFlight lists what Disrupting counts, without commands that are not shown on their nodes.
func InFlight(w *model.World, pool string) []Lost {
	var out []Lost
	for _, n := range w.Nodes {
		switch {
		case n.Pool() != pool || !counts(n):
		case n.BeingRemoved():
			out = append(out, Lost{n, "Removed"})
		case !n.Ready:
			out = append(out, Lost{n, "NotReady"})
		}
	}
	return out
}
