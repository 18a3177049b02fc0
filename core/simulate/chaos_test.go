package simulate

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/execute"
)

// storm is a short story with everything that can be interrupted in it: launches of
// two pools, registration, a spot interruption with its replacement and drain, and
// machines given back.
func storm(t testing.TB) *Scenario {
	t.Helper()
	// 45 minutes: a death in the middle of a replacement makes it begin anew, which must be over as well
	zero, seven, ten := 0, 7, 10
	return &Scenario{Name: "storm", Seed: 3, Start: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), End: 45 * time.Minute, Steps: []Step{
		{At: 0, Apply: []string{"seed/node-pool-default-amd.yaml", "seed/ec2-node-class-default.yaml", "demo-spot.yaml", "web.yaml", "seed/test.yaml"}},
		{At: 5 * time.Minute, Reclaim: &ReclaimStep{Pool: "demo-spot"}},
		{At: 9 * time.Minute, Scale: &ScaleStep{Workload: "default/web", Replicas: &seven}},
		{At: 45 * time.Minute, Expect: &Expectation{Workload: "default/test-karpenter", Running: &ten, Pending: &zero}},
		{At: 45 * time.Minute, Expect: &Expectation{Workload: "default/web", Running: &seven, Pending: &zero, PodsLost: &zero, BrokenBudgets: &zero}},
	}}
}

// outcome is what must not depend on deaths of the controller.
type outcome struct {
	Pods      map[string]int
	Pending   int
	Unclaimed int
	Doubled   int
	Lost      int
	Broken    int
	Surplus   bool // more machines than the undisturbed run ended with
	Claims    bool // one for each machine
	Failed    []string
}

func outcomeOf(r *Report, machines int) outcome {
	o := outcome{Pods: r.Final.Pods, Pending: r.Final.Pending, Unclaimed: r.Final.Unclaimed, Doubled: r.Final.Doubled,
		Lost: r.Totals.PodsLost, Broken: r.Totals.BrokenBudgets, Surplus: r.Final.Instances > machines, Claims: r.Final.Claims == r.Final.Instances}
	for _, c := range r.Checks {
		if !c.OK {
			o.Failed = append(o.Failed, c.Text)
		}
	}
	return o
}

// TestKilledAnywhere kills the controller at one effect after another, before and
// after it is done, and wants the same end each time. WEIR_CHAOS_EVERY=1 tries
// every effect.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	base := options(t)
	base.Catalogue = few
	opts := base
	var kinds []string
	opts.Fate = func(_ int, e execute.Effect) Fate { kinds = append(kinds, e.Kind()); return Live }
	calm, err := Run(t.Context(), &Input{}, storm(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	want := outcomeOf(calm, calm.Final.Instances)
	if d := cmp.Diff(outcome{Pods: map[string]int{"default/test-karpenter": 10, "default/web": 7}, Claims: true}, want); d != "" {
		t.Fatalf("undisturbed (-want +got):\n%s", d)
	}
	every := 0
	if s := os.Getenv("WEIR_CHAOS_EVERY"); s != "" {
		if every, err = strconv.Atoi(s); err != nil || every < 1 {
			t.Fatalf("WEIR_CHAOS_EVERY=%q: expected a number of at least 1", s)
		}
	}
	for _, n := range victims(kinds, every) {
		for _, fate := range []Fate{KillBefore, KillAfter} {
			name := fmt.Sprintf("%03d-%s-%s", n, kinds[n-1], map[Fate]string{KillBefore: "before", KillAfter: "after"}[fate])
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				opts := base
				opts.Fate = func(i int, _ execute.Effect) Fate {
					if i == n {
						return fate
					}
					return Live
				}
				r, err := Run(t.Context(), &Input{}, storm(t), opts)
				if err != nil {
					t.Fatal(err)
				}
				if r.Totals.ControllerRestarts != 1 {
					t.Errorf("%d restarts, want 1", r.Totals.ControllerRestarts)
				}
				if d := cmp.Diff(want, outcomeOf(r, calm.Final.Instances)); d != "" {
					t.Errorf("end (-undisturbed +killed):\n%s", d)
				}
			})
		}
	}
}

// victims are the effects to die at, from 1: every n-th, or by default the first
// and the last of each kind that changes something.
func victims(kinds []string, every int) []int {
	var out []int
	if every > 0 {
		for n := 1; n <= len(kinds); n += every {
			out = append(out, n)
		}
		return out
	}
	for _, k := range []string{"CreateClaim", "OpenLaunch", "SendLaunch", "CloseLaunch", "PatchClaim", "PatchNode", "DeleteClaim", "DeleteNode", "Evict", "Terminate"} {
		first, last := slices.Index(kinds, k)+1, 0
		for i, x := range kinds {
			if x == k {
				last = i + 1
			}
		}
		for _, n := range []int{first, last} {
			if n > 0 && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// TestKilledAgainAndAgain lets the controller die at every k-th effect of all its lives.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	base := options(t)
	base.Catalogue = few
	calm, err := Run(t.Context(), &Input{}, storm(t), base)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{97, 61} {
		t.Run(strconv.Itoa(k), func(t *testing.T) {
			t.Parallel()
			opts := base
			opts.Restart = 3 * time.Second
			opts.Fate = func(i int, _ execute.Effect) Fate {
				switch {
				case i%(2*k) == 0:
					return KillAfter
				case i%k == 0:
					return KillBefore
				}
				return Live
			}
			r, err := Run(t.Context(), &Input{}, storm(t), opts)
			if err != nil {
				t.Fatal(err)
			}
			if r.Totals.ControllerRestarts < 3 {
				t.Errorf("only %d restarts", r.Totals.ControllerRestarts)
			}
			got := outcomeOf(r, calm.Final.Instances)
			got.Surplus = false // it may still be giving machines back
			if d := cmp.Diff(outcomeOf(calm, calm.Final.Instances), got); d != "" {
				t.Errorf("end after %d deaths (-undisturbed +killed):\n%s", r.Totals.ControllerRestarts, d)
			}
		})
	}
}
