package drain

import (
	"time"

	"github.com/weir-project/weir/core/model"
)

// Terms are the ends that a drain has to keep to; zero = there is none.
type Terms struct {
	Began        time.Time // of a drain that is under way
	Deadline     time.Time // deletion time + termination grace period: budgets and do-not-disrupt give way
	Interruption time.Time // the instance is taken
}

// Explain says who is in the way of a drain as the objects stand at now, without one that
// has asked: for whom a budget allows nothing, who is protected, who is terminating. Who
// could leave is not named. Since is when the drain began, or the pod if that was later: a
// drain that runs may know better.
func Explain(t Terms, node *model.Node, pods []*model.Pod, pdbs []*model.PDB, now time.Time) []Blocker {
	s := &State{Started: t.Began}
	if !t.Deadline.IsZero() {
		s.Deadline = &t.Deadline
	}
	if !t.Interruption.IsZero() {
		s.Interruption = &t.Interruption
	}
	for _, p := range pods {
		covering, closed := 0, false
		for _, b := range pdbs {
			if b.Covers(p) {
				covering++
				closed = closed || b.DisruptionsAllowed <= 0 && (!b.AlwaysAllow || p.Ready)
			}
		}
		m := s.memory(p)
		switch {
		case covering > 1:
			m.Outcome = MultiplePDBs
		case closed:
			m.Outcome = Blocked
		}
		if m.Blocked = t.Began; p.Created.After(m.Blocked) && !t.Began.IsZero() {
			m.Blocked = p.Created
		}
	}
	var out []Blocker
	for _, b := range Step(s, node, pods, pdbs, now).Blockers {
		if b.Reason == ReasonTier {
			continue // it only waits for its turn
		}
		if t.Began.IsZero() {
			b.Since = time.Time{}
		}
		out = append(out, b)
	}
	return out
}
