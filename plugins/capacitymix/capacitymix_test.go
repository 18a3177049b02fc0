package capacitymix

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/plugins/sdk"
)

func TestParts(t *testing.T) {
	t.Parallel()
	capacity := func(negate bool, values ...string) sdk.Selector {
		return sdk.Selector{{Key: sdk.LabelCapacityType, Values: values, Negate: negate}}
	}
	for config, want := range map[string][]sdk.Limit{
		``: {{Name: "on-demand", Share: &sdk.Share{Selector: capacity(false, sdk.OnDemand, sdk.Reserved), Min: 0.3, Max: 1, Measure: sdk.MeasureCPU}}},
		`{"measure": "nodes", "parts": [{"match": {"karpenter.sh/capacity-type": ["spot"]}, "min": 0.1, "max": 0.5}]}`: {
			{Name: "part 0", Share: &sdk.Share{Selector: capacity(false, sdk.Spot), Min: 0.1, Max: 0.5, Measure: sdk.MeasureNodes}}},
		`{"measure": "price", "parts": [{"name": "od", "match": {"karpenter.sh/capacity-type": ["on-demand"]}, "min": 0.25, "strict": true}]}`: {
			{Name: "od, least", Share: &sdk.Share{Selector: capacity(true, sdk.OnDemand), Max: 0.75, Measure: sdk.MeasureUSDPerHour}}},
		`{"parts": []}`: nil,
	} {
		s := New()
		if err := s.Configure(json.RawMessage(config)); err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		req := sdk.SamplePrice()
		ans, err := s.Price(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ans.Pools[0].Limits); diff != "" {
			t.Errorf("%s: %s", config, diff)
		}
		if diff := cmp.Diff(req.USDPerHour, ans.Pools[0].USDPerHour); diff != "" || ans.Pools[0].FeePerNode != 0.02+req.Pools[0].VolumesUSDPerHour {
			t.Errorf("%s: market prices and the fee are wanted: %s", config, diff)
		}
	}
}

// TestBadConfiguration is refused and leaves what was there.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	s := New()
	part := func(fields string) string {
		return `{"parts": [{"match": {"karpenter.sh/capacity-type": ["spot"]}, ` + fields + `}]}`
	}
	for config, want := range map[string]string{
		`{"measure": "cores"}`:                            "measure: want nodes, vcpu or price",
		`{"feePerNode": -1}`:                              "feePerNode: want",
		`{"parts": [{"min": 0.5}]}`:                       "parts[0].match: want 1 to 16 labels",
		part(`"min": 0.5, "max": 0`):                      "parts[0].min: share 0.5 to 0",
		part(`"max": 1.5`):                                "parts[0].min: share 0 to 1.5",
		part(`"name": "` + strings.Repeat("x", 51) + `"`): "parts[0].name",
		`{"parts": [{"match": {"a": []}}]}`:               "parts[0].match.a: want a label",
		`{"parts": [{"match": {"a": ["x"], "b": ["y"]}, "min": 0.1, "strict": true}]}`:               "parts[0].strict: want one label",
		`{"parts": [` + strings.Repeat(`{"match": {"a": ["x"]}},`, 32) + `{"match": {"a": ["x"]}}]}`: "parts: 33 parts",
		part(`"least": 1`): "unknown field",
	} {
		if err := s.Configure(json.RawMessage(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
	if diff := cmp.Diff(New().limits, s.limits); diff != "" {
		t.Errorf("after refused configurations: %s", diff)
	}
}
