package resilient

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

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

func TestLimits(t *testing.T) {
	t.Parallel()
	share := sdk.Limit{Name: "share of a workload on one node", PodsPerNode: &sdk.PodsPerNode{Share: 0.34}}
	for config, want := range map[string][]sdk.Limit{
		``: {share, {Name: "zones", Variety: &sdk.Variety{Over: sdk.OverZones, Min: 3}}, {Name: "spot pools", Variety: &sdk.Variety{Over: sdk.OverSpotPools, Min: 10}}},
		`{"zones": 0, "spotPools": 0, "maxShare": 0.5}`: {{Name: share.Name, PodsPerNode: &sdk.PodsPerNode{Share: 0.5}}},
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
		`{"share": 1}`: "share: unknown field"} {
		if err := s.Configure(json.RawMessage(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
	if diff := cmp.Diff(Defaults(), s.config); diff != "" {
		t.Errorf("after refused configurations: %s", diff)
	}
}
