package measure_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/workload"
)

func TestProvisionIsMeasured(t *testing.T) {
	t.Parallel()
	a, err := measure.Run(context.Background(), &measure.Question{Workload: "a", Pool: "a", Runs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if a.Pods != 10 || a.Unplaced != 0 || a.Nodes != 2 || int(a.USD*1e4+0.5) != 9972 {
		t.Errorf("%d pods, %d unplaced, on %d nodes for %.4f USD/h, want 10, 0, 2 and 0.9972", a.Pods, a.Unplaced, a.Nodes, a.USD)
	}
	if r := a.Ratio(); r < 1 || r > 1.4 {
		t.Errorf("price over bound is %v", r)
	}
	if len(a.Solve) != 2 || a.Seconds() <= 0 || a.Load <= 0 || a.PeakHeap == 0 || a.Allocs == 0 || len(a.Problems) > 0 {
		t.Errorf("measured %+v", a)
	}
}

func TestDaemonsCostRoom(t *testing.T) {
	t.Parallel()
	with, without := &measure.Question{Workload: "b", Pool: "cmr", Daemons: true}, &measure.Question{Workload: "b", Pool: "cmr"}
	if n := len(world(t, with).DaemonSets); n != 1 {
		t.Fatalf("%d daemon sets, want 1", n)
	}
	a, err := measure.Run(context.Background(), with)
	if err != nil {
		t.Fatal(err)
	}
	b, err := measure.Run(context.Background(), without)
	if err != nil {
		t.Fatal(err)
	}
	if a.USD <= b.USD || a.Bound <= b.Bound {
		t.Errorf("with daemon pods %.4f USD/h, bound %.4f, without %.4f and %.4f: expected more for both", a.USD, a.Bound, b.USD, b.Bound)
	}
}

func TestConsolidationIsMeasured(t *testing.T) {
	t.Parallel()
	q := &measure.Question{Cluster: workload.Cluster{Nodes: 60, Fill: 0.4, Seed: 11}, Pool: "cmr-on-demand"}
	a, err := measure.Run(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	q.Repack = true
	again, err := measure.Run(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	if a.NodesBefore != 60 || a.Nodes >= 60 || a.Commands == 0 || a.USD >= a.USDBefore {
		t.Errorf("%d nodes at %.2f USD/h become %d at %.2f with %d commands: expected less of both", a.NodesBefore, a.USDBefore, a.Nodes, a.USD, a.Commands)
	}
	if again.Pods != a.Pods || again.Unplaced != 0 {
		t.Errorf("packed again %d pods, %d without a place, want %d and 0", again.Pods, again.Unplaced, a.Pods)
	}
	if a.USD < a.Bound-1e-9 || again.USD < again.Bound-1e-9 {
		t.Errorf("below the bound: %.2f under %.2f, or %.2f under %.2f", a.USD, a.Bound, again.USD, again.Bound)
	}
}

func TestQuestionsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		q    measure.Question
		want string
	}{
		"workload": {measure.Question{Workload: "z", Pool: "cmr"}, `no workload "z"`},
		"pool":     {measure.Question{Workload: "a", Pool: "nowhere"}, "pool nowhere"},
		"cluster":  {measure.Question{Cluster: workload.Cluster{Nodes: -1}, Pool: "cmr"}, "-1 nodes"},
	} {
		if _, err := measure.Run(context.Background(), &c.q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	ask := func(_ context.Context, q *measure.Question) (*measure.Answer, error) {
		return &measure.Answer{Pods: q.Pods}, nil
	}
	if err := measure.Serve(context.Background(), strings.NewReader(`{"Pods": 7}`), &out, ask); err != nil || !strings.Contains(out.String(), `"Pods":7`) {
		t.Errorf("answer %q, error %v", out.String(), err)
	}
	if err := measure.Serve(context.Background(), strings.NewReader(`pods`), &out, ask); err == nil {
		t.Error("nonsense: got no error")
	}
}
