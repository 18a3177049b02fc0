package drain

import (
	"time"

	"github.com/weir-project/weir/core/model"
)

// cut is the grace period for a pod that has own and is to end before the instance is taken: whole seconds, 0 = its
// own. Once the instance should be gone and is not, nobody knows how long it stays, and nothing is cut.
func (s *State) cut(own time.Duration, now time.Time) time.Duration {
	if s.Interruption == nil || !now.Before(*s.Interruption) {
		return 0
	}
	left := max(s.Interruption.Add(-EndLead).Sub(now).Truncate(time.Second), MinGrace)
	if left >= own {
		return 0
	}
	return left
}

// shorten has a pod that is terminating, until after the instance is taken, end before that. Its budgets have counted
// it out already. One that may not be disrupted keeps the grace period that it was given, unless it wants to be
// signalled.
func (s *State) shorten(r *Result, p *model.Pod, now time.Time) {
	if s.Interruption == nil || !p.Deleting.After(*s.Interruption) {
		return
	}
	if protected, _ := protection(p, now); protected && p.Annotations[AnnotationAtDeadline] != AtDeadlineSignal {
		return
	}
	grace := s.cut(p.DeletingGrace, now)
	if grace == 0 {
		return
	}
	m := s.memory(p)
	if m.Deleted.Equal(*s.Interruption) {
		if m.Outcome == Accepted {
			return
		}
		if now.Before(m.Next) {
			r.wake(m.Next)
			return
		}
	}
	m.Deleted, m.Next, m.Outcome, m.Asked = *s.Interruption, now.Add(MaxBackoff), "", grace
	r.Evict = append(r.Evict, Eviction{Pod: p, Grace: grace})
}

// ends is when a pod that is terminating has ended at the latest, as far as can be known. The API server's timestamp
// counts a grace period that was cut from when the pod was deleted first; a kubelet counts it from when it hears of it,
// or goes on with the one that it began with, as kubelets do up to now (kubernetes/kubernetes#83916). A deadline of the
// node waits for neither.
func (s *State) ends(p *model.Pod) time.Time {
	end := *p.Deleting
	m := s.Pods[p.UID]
	if m == nil || !m.Cut {
		return end
	}
	heard := m.Seen.Add(m.Grace - EndLead) // it was heard of some time before it was seen here
	began := m.Began
	if s.Deadline != nil && began.After(*s.Deadline) {
		began = *s.Deadline
	}
	for _, at := range []time.Time{heard, began} {
		if at.After(end) {
			end = at
		}
	}
	return end
}

// waitedFor is WaitedFor with what is remembered of how the pod ends.
func (s *State) waitedFor(p *model.Pod, now time.Time) bool {
	if p.Deleting == nil || p.Terminal || p.Mirror || p.Tolerates(Taint) {
		return WaitedFor(p, now)
	}
	if m := s.memory(p); m.Grace != p.DeletingGrace {
		m.ending(p, p.DeletingGrace, now)
	}
	return !now.After(s.ends(p).Add(Stuck))
}

// accepted notes that a call was accepted which asked for another grace period than the pod's own. One that is no
// shorter than what the pod has changes nothing; the first of a pod is what it begins with.
func (m *PodMemory) accepted(p *model.Pod, now time.Time) {
	grace := m.Asked.Truncate(time.Second)
	switch {
	case grace <= 0:
	case p.Deleting == nil:
		m.Grace, m.Seen, m.Cut = grace, now, false
	case grace < p.DeletingGrace && (m.Grace == 0 || grace < m.Grace):
		m.ending(p, grace, now)
	}
}

// ending notes that the pod is seen to end with another grace period than before.
func (m *PodMemory) ending(p *model.Pod, grace time.Duration, now time.Time) {
	if m.Grace > grace && !m.Cut && p.Deleting != nil {
		m.Began = p.Deleting.Add(m.Grace - p.DeletingGrace)
	}
	m.Cut = grace < p.GracePeriod || grace < m.Grace
	m.Grace, m.Seen = grace, now
}

// Unasked says that a step's eviction or deletion of a pod was not carried out, so that it is asked for again.
func (s *State) Unasked(p *model.Pod, now time.Time) {
	m := s.memory(p)
	m.Deleted, m.Next = time.Time{}, now.Add(FirstBackoff)
}
