package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/integration/bench/measure"
)

// On the seed's problem Karpenter's answer is known: one machine with 16 cores, all ten
// pods on it, for 1.2240 USD an hour, while two smaller machines cost 0.9972. If this
// changes, the comparison compares something else than it did.
func TestKarpenterOnTheSmallestWorkload(t *testing.T) {
	q := &measure.Question{Workload: "a", Pool: "a"}
	k, err := askKarpenter(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	w, err := measure.Run(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		Pods, Unplaced, Nodes int
		USD                   float64
	}
	of := func(a *measure.Answer) outcome {
		return outcome{a.Pods, a.Unplaced, a.Nodes, float64(int(a.USD*1e4+0.5)) / 1e4}
	}
	if d := cmp.Diff(outcome{10, 0, 1, 1.2240}, of(k)); d != "" {
		t.Errorf("Karpenter (-want +got):\n%s", d)
	}
	if d := cmp.Diff(outcome{10, 0, 2, 0.9972}, of(w)); d != "" {
		t.Errorf("Weir (-want +got):\n%s", d)
	}
}

func TestAllTypesAreOffered(t *testing.T) {
	dir := t.TempDir()
	q := &measure.Question{Workload: "a", Pool: "cmr"}
	if err := q.Write(dir); err != nil {
		t.Fatal(err)
	}
	its, err := instanceTypes(dir)
	if err != nil {
		t.Fatal(err)
	}
	offerings := 0
	for _, it := range its {
		offerings += len(it.Offerings)
	}
	if len(its) != 1345 || offerings != 8070 {
		t.Errorf("%d types with %d offerings, want 1345 with 8070", len(its), offerings)
	}
}

func TestUnknownPool(t *testing.T) {
	if _, err := pool("nowhere"); err == nil {
		t.Error("got no error")
	}
	if _, err := pool("daemons"); err == nil {
		t.Error("a manifest without a NodePool: got no error")
	}
}

func TestRatios(t *testing.T) {
	ours := &measure.Answer{USD: 5, Solve: []float64{0.5}, CPU: []float64{0.25}}
	for name, c := range map[string]struct {
		theirs *measure.Answer
		want   string
	}{
		"all placed":           {&measure.Answer{USD: 10, Solve: []float64{4}, CPU: []float64{5}}, "8.0\t20.0\t0.500\t"},
		"pods left out":        {&measure.Answer{Unplaced: 1, USD: 10, Solve: []float64{4}, CPU: []float64{5}}, "8.0\t20.0\t\t"},
		"no processor time":    {&measure.Answer{USD: 10, Solve: []float64{4}, CPU: []float64{0}}, "8.0\t\t0.500\t"},
		"nothing was measured": {&measure.Answer{}, "\t\t\t"},
	} {
		if got := versus(ours, c.theirs); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
