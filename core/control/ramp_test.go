package control_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// What another cluster of the account found short comes back by one machine at a time, then two, then four, whoever asks.
func TestOfferingsThatWereShortComeBackByARamp(t *testing.T) {
	t.Parallel()
	store := mem.New()
	s := newScene(t, store, pool("default", model.OnDemand))
	v := watch(t, s)
	keys := []string{"m5.2xlarge/us-east-1a/on-demand", "m5.2xlarge/us-east-1b/on-demand"}
	for _, key := range keys {
		if _, err := ledger.AddShortage(t.Context(), store, "111122223333", "us-east-1", key, "no capacity", s.Now().Add(-ledger.ShortageFirst)); err != nil {
			t.Fatal(err)
		}
	}
	var asked []int
	sent := map[string]bool{}
	saw := s.Saw
	s.Saw = func(now time.Time, r execute.Result) {
		saw(now, r)
		if d, ok := r.Effect.Do.(execute.OpenLaunch); ok && r.Err == nil && !sent[d.Record.ID] {
			sent[d.Record.ID] = true
			asked = append(asked, len(d.Launch.Claims))
			out := map[string]int{}
			for _, l := range must(ledger.List[ledger.Launch](t.Context(), store, "test/launch", "", now)) {
				if l.State == ledger.LaunchOpen && l.Taken != nil {
					for key := range l.Taken.Rounds {
						out[key] += l.Taken.Count
					}
				}
			}
			for key, h := range must(ledger.Offerings(t.Context(), store, "111122223333", "us-east-1", now)) {
				if h.Limited() && out[key] > max(h.Allowance, 1) {
					t.Errorf("%s: %d under way, %d are allowed", key, out[key], max(h.Allowance, 1))
				}
			}
		}
	}
	s.Workloads = append(s.Workloads, &executetest.Workload{Name: "web", Replicas: 12, Requests: resource.New(7000, gib, 0, 0)})
	mustRun(t, s, 12, 10*time.Minute)
	if len(asked) < 4 || asked[0] != 1 {
		t.Errorf("launches asked for %v machines; want one at first, then more", asked)
	}
	health := must(ledger.Offerings(t.Context(), store, "111122223333", "us-east-1", s.Now()))
	grown := 0
	for _, key := range keys {
		grown += health[key].Allowance
		if health[key].Out != 0 {
			t.Errorf("%s: %d still count as under way", key, health[key].Out)
		}
	}
	if grown != 14 { // one each, and one for each that was bought
		t.Errorf("%d may be launched at a time now, want 14: %+v", grown, health)
	}
	v.check()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
