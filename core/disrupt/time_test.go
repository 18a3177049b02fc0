package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// ends is a function that says yes so many times.
func ends(n int, asked *int) func() bool {
	return func() bool {
		*asked++
		n--
		return n >= 0
	}
}

// Whenever the time ends, each node goes or stays with its reason, the moves are legal,
// what is saved grows with the time for looking at nodes, and the plan says that it was
// stopped.
func TestTheTimeMayEndAtAnyNode(t *testing.T) {
	t.Parallel()
	fleet := func() *model.World {
		var opts []func(*model.World)
		for i := range 8 {
			opts = append(opts, node(fmt.Sprintf("n%d", i), "m5.large", pod(fmt.Sprintf("p%d", i), 200)))
		}
		return world(opts...)
	}
	planned := func(w *model.World) *model.Plan { return disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true}) }
	free := planned(fleet())
	if len(removed(free)) < 3 {
		t.Fatalf("only %v go", removed(free))
	}
	questions := 0
	w := fleet()
	w.Budget = &model.TimeBudget{Limit: time.Second, Place: ends(1<<30, &questions)}
	if diff := cmp.Diff(removed(free), removed(planned(w))); diff != "" {
		t.Errorf("an endless budget makes another plan (-without +with): %s", diff)
	}
	before := 0
	for n := range questions {
		w, asked := fleet(), 0
		w.Budget = &model.TimeBudget{Limit: time.Second, Place: ends(n, &asked)}
		p := planned(w)
		if err := verify(w, p); err != nil {
			t.Errorf("after %d questions: %v", n, err)
		}
		gone := removed(p)
		if p.Budget == nil || len(p.Warnings) == 0 {
			t.Errorf("after %d questions nothing says that the plan was stopped", n)
		}
		if len(gone)+len(p.Blocked) != len(w.Nodes) {
			t.Errorf("after %d questions %d of %d nodes have an answer", n, len(gone)+len(p.Blocked), len(w.Nodes))
		}
		if len(gone) < before {
			t.Errorf("after %d questions %d nodes go, %d went with less time", n, len(gone), before)
		}
		before = len(gone)
	}
}
