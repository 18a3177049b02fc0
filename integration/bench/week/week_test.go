package week

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
)

func TestTheSameStoryTwice(t *testing.T) {
	t.Parallel()
	s := Story{Nodes: 30, For: 48 * time.Hour, Seed: 4}
	var drawn [2]*Drawn
	var files [2]map[string]string
	for i := range drawn {
		dir := t.TempDir()
		d, err := s.Draw(dir)
		if err != nil {
			t.Fatal(err)
		}
		drawn[i], files[i] = d, map[string]string{}
		for _, f := range append(d.Files, "image.yaml") {
			data, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				t.Fatal(err)
			}
			files[i][f] = string(data)
		}
	}
	if d := cmp.Diff(files[0], files[1]); d != "" {
		t.Errorf("objects differ (-first +second):\n%s", d)
	}
	if a, b := drawn[0], drawn[1]; a.CoreHours != b.CoreHours || len(a.Scenario.Steps) != len(b.Scenario.Steps) {
		t.Errorf("%g core-hours in %d steps, then %g in %d", a.CoreHours, len(a.Scenario.Steps), b.CoreHours, len(b.Scenario.Steps))
	}
	kinds := map[string]int{}
	for _, x := range drawn[0].Scenario.Steps {
		switch {
		case x.Scale != nil:
			kinds["scale"]++
		case x.Reclaim != nil:
			kinds["reclaim"]++
		case len(x.Apply) == 1:
			kinds["image"]++
		}
	}
	if kinds["scale"] < 1000 || kinds["reclaim"] < 4 || kinds["image"] != 1 {
		t.Errorf("steps: %v", kinds)
	}
}

func TestASmallMorning(t *testing.T) {
	t.Parallel()
	s := Story{Nodes: 6, For: 3 * time.Hour, Seed: 2}
	var usd []float64
	for _, p := range []Player{Peer(false), Weir(false)} {
		o, err := Run(t.Context(), s, p)
		if err != nil {
			t.Fatal(err)
		}
		if o.BrokenBudgets > 0 || o.ForcedDeletions > 0 || o.Pending > 0 || o.CPU <= 0.3 || o.CPU >= 1 {
			t.Errorf("%s: %d budgets broken, %d pods deleted by force, %d waiting at the end, %.0f%% of the CPU used", p.Name, o.BrokenBudgets, o.ForcedDeletions, o.Pending, 100*o.CPU)
		}
		if o.Commands[string(model.Drifted)] == 0 || o.Nodes < 4 {
			t.Errorf("%s: nothing was replaced for the new image, or only %d machines bought: %v", p.Name, o.Nodes, o.Commands)
		}
		t.Logf("%s: %.2f USD, %d machines, %d evictions, %v in %s", p.Name, o.USD, o.Nodes, o.Evictions, o.Commands, o.Took)
		usd = append(usd, o.USD)
	}
	if usd[1] > usd[0]*1.05 {
		t.Errorf("Weir paid %.2f USD, the other %.2f", usd[1], usd[0])
	}
}
