package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
)

// A node that cannot drain names who is in the way, since when and until when: in its
// events and in a condition of its claim, over the death of a controller, and without
// writing all the time.
func TestANodeThatCannotDrainNamesItsBlockers(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	grace := 30 * time.Minute
	p.TerminationGP = &grace
	store := mem.New()
	s := newScene(t, store, p)
	s.Workloads = append(s.Workloads, web(1))
	s.API.PutPDB(&model.PDB{Namespace: "default", Name: "web", Selects: func(l map[string]string) bool { return l["app"] == "web" }})
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	patches := 0
	s.Saw = func(_ time.Time, r execute.Result) {
		if d, ok := r.Effect.Do.(execute.PatchClaim); ok && d.Patch.Name == c.Name {
			patches++
		}
	}
	began := s.Now()
	if err := s.API.DeleteClaim(t.Context(), c.Name, ""); err != nil {
		t.Fatal(err)
	}
	s.Run(10 * time.Minute)
	message := s.API.Claims[c.Name].Condition(model.CondDrained).Message
	forced := "forced at " + began.Add(grace-5*time.Second).UTC().Format("2006-01-02T15:04")
	for _, want := range []string{"1 pod is in the way: ", "evicting pod default/web-0001 would violate PodDisruptionBudget default/web, since " + began.UTC().Format("2006-01-02T15:04"), forced} {
		if !strings.Contains(message, want) {
			t.Errorf("the condition says %q, expected it to contain %q", message, want)
		}
	}
	if !s.hasEvent("FailedDraining", forced) || !s.hasEvent("TerminationGracePeriodExpiring", "All pods will be deleted by") {
		t.Error("no event says when pods are deleted by force")
	}
	if patches > 6 {
		t.Errorf("%d writes to the claim in ten minutes", patches)
	}
	s.Crash = func(int, bool, execute.Effect) bool { return s.Crashes == 0 }
	s.Run(5 * time.Minute)
	if got := s.API.Claims[c.Name].Condition(model.CondDrained).Message; s.Crashes != 1 || got != message {
		t.Errorf("after %d deaths the condition says %q, expected %q", s.Crashes, got, message)
	}
	if patches > 8 {
		t.Errorf("%d writes to the claim in a quarter of an hour", patches)
	}
	if !s.Until(30*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
		t.Error(fmt.Sprint("still there: ", s.API.Claims[c.Name]))
	}
}
