package drain

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/model"
)

// A later deadline of the claim does not keep a pod from being signalled before the machine goes.
func TestSignalBesideALaterDeadline(t *testing.T) {
	t.Parallel()
	taken, far := t0.Add(2*time.Minute), t0.Add(24*time.Hour)
	for _, d := range []*time.Time{nil, &far} {
		s := &State{Started: t0, Interruption: &taken, Deadline: d}
		p := &model.Pod{UID: "p", Namespace: "ns", Name: "p", NodeName: "n", GracePeriod: 30 * time.Second, Annotations: map[string]string{AnnotationAtDeadline: AtDeadlineSignal, model.AnnotationDoNotDisrupt: "true"}}
		r := Step(s, &model.Node{Name: "n"}, []*model.Pod{p}, nil, t0.Add(100*time.Second))
		t.Logf("tgp %v: deletions %d", d, len(r.Delete))
		if len(r.Delete) != 1 {
			t.Errorf("tgp %v: not signalled", d)
		}
	}
}
