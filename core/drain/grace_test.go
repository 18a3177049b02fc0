package drain

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/model"
)

// A pod whose grace period was cut as it was evicted ends in time: a drain that knows nothing of it (the next
// invocation, the next leader) and one whose answer came late leave it alone.
func TestCutOnce(t *testing.T) {
	t.Parallel()
	end, at := t0.Add(2*time.Minute), t0.Add(118*time.Second)
	long := &model.Pod{Namespace: "ns", Name: "long", UID: "1", NodeName: "n", GracePeriod: 10 * time.Minute}
	ending := *long
	ending.Deleting, ending.DeletingGrace = &at, 118*time.Second
	for _, tt := range []struct {
		name     string
		answered time.Duration // after the eviction; 0 = the drain that evicted is forgotten
	}{{"another drain", 0}, {"an answer at once", time.Millisecond}, {"a late answer", 5 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &State{Interruption: &end}
			r := Step(s, &model.Node{Name: "n"}, []*model.Pod{long}, nil, t0)
			if len(r.Evict) != 1 || r.Evict[0].Grace != 118*time.Second {
				t.Fatalf("%+v, want one eviction with what is left", r.Evict)
			}
			if tt.answered > 0 {
				s.Answered(long, Accepted, t0.Add(tt.answered))
			} else {
				s = &State{Interruption: &end}
			}
			for now := t0.Add(max(tt.answered, 3*time.Second)); now.Before(end); now = now.Add(time.Second) {
				if r := Step(s, &model.Node{Name: "n"}, []*model.Pod{&ending}, nil, now); len(r.Evict)+len(r.Delete) > 0 {
					t.Fatalf("after %s: %+v %+v", now.Sub(t0), r.Evict, r.Delete)
				}
			}
		})
	}
}

// A pod that was deleted by force, and ends by the deadline, is not deleted again by the next leader.
func TestForcedOnce(t *testing.T) {
	t.Parallel()
	deadline := t0.Add(30*time.Minute + 500*time.Millisecond)
	at := t0.Add(30 * time.Minute)
	p := &model.Pod{Namespace: "ns", Name: "p", UID: "1", NodeName: "n", GracePeriod: 31 * time.Minute, Deleting: &at, DeletingGrace: 30 * time.Minute}
	for now := t0; now.Before(at); now = now.Add(5 * time.Minute) {
		if r := Step(&State{Deadline: &deadline}, &model.Node{Name: "n"}, []*model.Pod{p}, nil, now); len(r.Delete)+len(r.Evict) > 0 {
			t.Fatalf("after %s: %+v %+v", now.Sub(t0), r.Delete, r.Evict)
		}
	}
}

// What neither a kubelet nor a finalizer lets go of, deleted past the deadline and then by somebody with no grace
// period at all, is stuck at last: forced deletions go on, the drain ends.
func TestZeroGraceOfADeadKubeletEnds(t *testing.T) {
	t.Parallel()
	deadline := t0
	s := &State{Deadline: &deadline}
	at := t0.Add(5 * time.Second)
	p := &model.Pod{Namespace: "ns", Name: "p", UID: "1", NodeName: "n", GracePeriod: 30 * time.Second, Deleting: &at}
	for now := at; now.Before(at.Add(5 * time.Minute)); now = now.Add(time.Second) {
		r := Step(s, &model.Node{Name: "n"}, []*model.Pod{p}, nil, now)
		for _, d := range r.Delete {
			s.Answered(d.Pod, Accepted, now)
		}
		if r.Done {
			return
		}
	}
	t.Fatal("the drain does not end")
}

// A kubelet that goes on with the grace period that a pod began with is waited for where the machine was not taken
// in time, but not past a deadline of the node.
func TestCutThatAKubeletDoesNotHear(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		deadline time.Duration
		done     time.Duration
	}{{"no deadline", 0, 10*time.Minute + Stuck}, {"deadline", 5 * time.Minute, 5*time.Minute + Stuck}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end, until := t0.Add(2*time.Minute), t0.Add(10*time.Minute)
			s := &State{Interruption: &end}
			if tt.deadline > 0 {
				at := t0.Add(tt.deadline)
				s.Deadline = &at
			}
			p := &model.Pod{Namespace: "ns", Name: "p", UID: "1", NodeName: "n", GracePeriod: 10 * time.Minute, Deleting: &until, DeletingGrace: 10 * time.Minute}
			cuts := 0
			for now := t0; ; now = now.Add(time.Second) {
				r := Step(s, &model.Node{Name: "n"}, []*model.Pod{p}, nil, now)
				grace := time.Duration(0)
				for _, e := range r.Evict {
					grace = e.Grace
					s.Answered(e.Pod, Accepted, now)
				}
				for _, d := range r.Delete {
					grace = d.Grace.Truncate(time.Second)
					s.Answered(d.Pod, Accepted, now)
				}
				if grace > 0 {
					cuts++
					q, at := *p, t0.Add(grace)
					q.Deleting, q.DeletingGrace = &at, grace
					p = &q
				}
				if r.Done || now.Sub(t0) > 20*time.Minute {
					if late := now.Sub(t0) - tt.done; late < 0 || late > 2*time.Second || cuts == 0 || cuts > 2 {
						t.Fatalf("done after %s with %d cuts, want %s", now.Sub(t0), cuts, tt.done)
					}
					return
				}
			}
		})
	}
}
