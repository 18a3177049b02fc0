package resilient

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/plugins/sdk"
)

func TestHistoryCosts(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice()
	req.Health = map[int]sdk.Health{1: {Available: true, Interruptions: 3}, 2: {Available: true, Shortages: 2}, 3: {Available: true, Interruptions: 1, Shortages: 1}, 4: {Available: true, Interruptions: 500}}
	ans, err := New().Price(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	for o, factor := range map[int]float64{0: 1, 1: 1.3, 2: 1.1, 3: 1.15, 4: 2} {
		if got, want := ans.Pools[0].USDPerHour[o], req.USDPerHour[o]*factor; math.Abs(got-want) > 1e-9 {
			t.Errorf("offering %d costs %v, want %v", o, got, want)
		}
	}
}

// TestHistoryFades: half of it after each half-life since the last time, all of it where
// that is not known; a shortage that has ended counts as one while it is known.
func TestHistoryFades(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice()
	ago := func(d time.Duration) time.Time { return req.Now.Add(-d) }
	for name, c := range map[string]struct {
		config string
		health sdk.Health
		adds   float64
	}{
		"now":                     {``, sdk.Health{Interruptions: 4, LastInterruption: req.Now}, 0.4},
		"a day":                   {``, sdk.Health{Interruptions: 4, LastInterruption: ago(24 * time.Hour)}, 0.2},
		"two days":                {``, sdk.Health{Interruptions: 4, LastInterruption: ago(48 * time.Hour)}, 0.1},
		"in steps":                {``, sdk.Health{Interruptions: 4, LastInterruption: ago(24*time.Hour + 89*time.Minute)}, 0.2},
		"and the next":            {``, sdk.Health{Interruptions: 4, LastInterruption: ago(24*time.Hour + 90*time.Minute)}, 0.2 * math.Exp2(-1.0/16)},
		"when is not known":       {``, sdk.Health{Interruptions: 4}, 0.4},
		"clocks that differ":      {``, sdk.Health{Interruptions: 4, LastInterruption: req.Now.Add(time.Minute)}, 0.4},
		"an hour is the half":     {`{"halfLifeHours": 1}`, sdk.Health{Interruptions: 4, LastInterruption: ago(3 * time.Hour)}, 0.05},
		"never":                   {`{"halfLifeHours": 0}`, sdk.Health{Interruptions: 4, LastInterruption: ago(1000 * time.Hour)}, 0.4},
		"shortages on their own":  {``, sdk.Health{Shortages: 4, LastShortage: ago(24 * time.Hour), Interruptions: 1, LastInterruption: req.Now}, 0.1 + 0.1},
		"a shortage that is over": {``, sdk.Health{LastShortage: ago(24 * time.Hour)}, 0.025},
	} {
		s := New()
		if err := s.Configure(json.RawMessage(c.config)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := s.surcharge(c.health, req.Now); math.Abs(got-c.adds) > 1e-9 {
			t.Errorf("%s: %v is added, want %v", name, got, c.adds)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	share := sdk.Limit{Name: "share of a workload on one node", PodsPerNode: &sdk.PodsPerNode{Share: 0.34}}
	for config, want := range map[string][]sdk.Limit{
		``: {share, {Name: "zones", Variety: &sdk.Variety{Over: sdk.OverZones, Min: 3}}, {Name: "spot pools", Variety: &sdk.Variety{Over: sdk.OverSpotPools, Min: 10}}},
		`{"zones": 0, "spotPools": 0, "maxShare": 0.5}`:     {{Name: share.Name, PodsPerNode: &sdk.PodsPerNode{Share: 0.5}}},
		`{"zones": 0, "spotPools": 0, "maxPodsPerNode": 4}`: {{Name: share.Name, PodsPerNode: &sdk.PodsPerNode{Max: 4, Share: 0.34}}},
	} {
		s := New()
		if err := s.Configure(json.RawMessage(config)); err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		ans, err := s.Price(context.Background(), sdk.SamplePrice())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ans.Pools {
			if diff := cmp.Diff(want, p.Limits); diff != "" {
				t.Errorf("%s: %s", config, diff)
			}
		}
	}
}

// TestBadConfiguration is refused and leaves what was there.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	s := New()
	for config, want := range map[string]string{`{"maxShare": 0}`: "maxShare: want more than 0", `{"maxShare": 1.1}`: "maxShare: want", `{"zones": -1}`: "zones: want 0 to 100",
		`{"spotPools": 5000}`: "spotPools: want", `{"interruptionCost": -1}`: "interruptionCost: want", `{"shortageCost": 11}`: "shortageCost: want", `{"feePerNode": -1}`: "feePerNode: want",
		`{"share": 1}`: "share: unknown field", `{"halfLifeHours": -1}`: "halfLifeHours: want", `{"maxPodsPerNode": -1}`: "maxPodsPerNode: want"} {
		if err := s.Configure(json.RawMessage(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
	if diff := cmp.Diff(Defaults(), s.config); diff != "" {
		t.Errorf("after refused configurations: %s", diff)
	}
}
