package drain

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/model"
)

// B061: past the node's deadline a pod is deleted with one second, never with less: a grace
// of nothing would take the object away while the containers run.
func TestGraceIsNeverNothing(t *testing.T) {
	t.Parallel()
	deadline := t0
	for late, want := range map[time.Duration]time.Duration{
		-200 * time.Millisecond: time.Second, 0: time.Second, 2 * time.Second: time.Second, time.Hour: time.Second, -20 * time.Second: 20 * time.Second,
	} {
		s := &State{Started: t0.Add(-time.Hour), Deadline: &deadline}
		p := &model.Pod{UID: "p", Namespace: "ns", Name: "p", NodeName: "sick", GracePeriod: 30 * time.Second}
		r := Step(s, &model.Node{Name: "sick"}, []*model.Pod{p}, nil, t0.Add(late))
		if len(r.Delete) != 1 || r.Delete[0].Grace != want {
			t.Errorf("%s after the deadline: deletions %+v, expected one with %s", late, r.Delete, want)
		}
	}
}

// B062: a pod that is terminating already, and until after the node must end, is deleted
// again so that it ends with the node, whatever it asks for.
func TestTerminatingPodsEndWithTheNode(t *testing.T) {
	t.Parallel()
	deadline, until := t0.Add(300*time.Second), t0.Add(6000*time.Second)
	s := &State{Started: t0, Deadline: &deadline}
	p := &model.Pod{UID: "slow", Namespace: "ns", Name: "slow", NodeName: "n", GracePeriod: 6000 * time.Second, Deleting: &until,
		Annotations: map[string]string{model.AnnotationDoNotDisrupt: "true"}}
	node := &model.Node{Name: "n"}
	now := t0.Add(90 * time.Second)
	r := Step(s, node, []*model.Pod{p}, nil, now)
	if len(r.Delete) != 1 || r.Delete[0].Grace > 210*time.Second {
		t.Fatalf("deletions %+v, expected one with at most 210 s", r.Delete)
	}
	if end := now.Add(r.Delete[0].Grace); end.Sub(deadline).Abs() > 5*time.Second {
		t.Errorf("it ends at %s, the node at %s", end, deadline)
	}
	s.Answered(p, Accepted, now)
	if again := Step(s, node, []*model.Pod{p}, nil, now.Add(time.Second)); len(again.Delete) > 0 {
		t.Errorf("deleted again a second later: %+v", again.Delete)
	}
	// One that ends before the node does is left to itself.
	soon := t0.Add(200 * time.Second)
	q := *p
	q.UID, q.Deleting = "soon", &soon
	if r := Step(&State{Started: t0, Deadline: &deadline}, node, []*model.Pod{&q}, nil, now); len(r.Delete) > 0 {
		t.Errorf("a pod that ends in time is deleted again: %+v", r.Delete)
	}
}
