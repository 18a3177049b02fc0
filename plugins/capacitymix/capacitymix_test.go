package capacitymix

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
		`{"parts": []}`:         nil,
		`{"onDemandShare": 0}`:  nil,
		`{"maxSpotShare": 0.4}`: {{Name: "spot", Share: &sdk.Share{Selector: capacity(false, sdk.Spot), Max: 0.4, Measure: sdk.MeasureCPU}}},
		// of the vCPUs that run and wait
		`{"onDemandBaseVCPU": 5, "onDemandShare": 0.1}`: {
			{Name: "on-demand", Share: &sdk.Share{Selector: capacity(false, sdk.OnDemand, sdk.Reserved), Min: 0.1, Max: 1, Measure: sdk.MeasureCPU}},
			{Name: "on-demand base", Share: &sdk.Share{Selector: capacity(false, sdk.OnDemand, sdk.Reserved), Min: 5 / (4*3.93 + 14), Max: 1, Measure: sdk.MeasureCPU}}},
		`{"onDemandBaseVCPU": 500}`:                   {{Name: "on-demand base", Share: &sdk.Share{Selector: capacity(false, sdk.OnDemand, sdk.Reserved), Min: 1, Max: 1, Measure: sdk.MeasureCPU}}},
		`{"pools": {"default": {"maxSpotShare": 0}}}`: {{Name: "spot", Share: &sdk.Share{Selector: capacity(false, sdk.Spot), Measure: sdk.MeasureCPU}}},
		`{"commitments": {"first": false}}`:           {{Name: "on-demand", Share: &sdk.Share{Selector: capacity(false, sdk.OnDemand, sdk.Reserved), Min: 0.3, Max: 1, Measure: sdk.MeasureCPU}}},
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
		if diff := cmp.Diff(want, ans.Pools[0].Limits, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
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
		`{"parts": [` + strings.Repeat(`{"match": {"a": ["x"]}},`, 30) + `{"match": {"a": ["x"]}}]}`: "parts: 31 parts",
		`{"onDemandBaseNodes": -1}`:                       "onDemandBaseNodes: want",
		`{"onDemandBaseNodes": 1, "onDemandBaseVCPU": 1}`: "onDemandBaseVCPU: want a base in nodes or in vCPUs",
		`{"onDemandShare": 1.1}`:                          "onDemandShare: want 0 to 1",
		`{"maxSpotShare": -0.1}`:                          "maxSpotShare: want 0 to 1",
		`{"pools": {"web": {"onDemandShare": 2}}}`:        "pools.web.onDemandShare: want 0 to 1",
		`{"pools": {"web": {"parts": [{"match": {}}]}}}`:  "pools.web.parts[0].match: want",
		`{"pools": {"web": {"share": 2}}}`:                "share: unknown field",
		`{"commitments": {"maxUSDPerHour": -1}}`:          "commitments.maxUSDPerHour: want",
		`{"commitments": {"factor": 2}}`:                  "commitments.factor: want 0 to 1",
		`[]`:                                              "got array",
		part(`"least": 1`):                                "unknown field",
	} {
		if err := s.Configure(json.RawMessage(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
	if diff := cmp.Diff(Defaults(), s.config); diff != "" {
		t.Errorf("after refused configurations: %s", diff)
	}
}

func price(t *testing.T, config string, req *sdk.PriceRequest) *sdk.PriceAnswer {
	t.Helper()
	s := New()
	if err := s.Configure(json.RawMessage(config)); err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	ans, err := s.Price(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := sdk.CheckPrices(req, ans); err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return ans
}

// TestBaseInNodes: so many nodes on demand cost less than any spot, and the order among
// them is the market's; what runs on demand counts.
func TestBaseInNodes(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice() // of the first pool five nodes run on demand, one of them in flight
	req.Commitments = nil
	if got := price(t, `{"onDemandBaseNodes": 5}`, req).Pools[0].Steps; got != nil {
		t.Errorf("the base is there, and still %v", got)
	}
	steps := price(t, `{"onDemandBaseNodes": 7}`, req).Pools[0].Steps
	if len(steps) != 6 {
		t.Fatalf("%d offerings with steps, six are on demand", len(steps))
	}
	for o, s := range steps {
		off := &req.Catalogue.Offerings[o]
		if off.CapacityType != sdk.OnDemand || len(s) != 2 || s[0].Nodes != 2 || s[0].Shared != "on-demand base of default" || s[1].USDPerHour != req.USDPerHour[o] {
			t.Errorf("%s %s: %+v", off.Type.Name, off.CapacityType, s)
		}
		for k, spot := range req.Catalogue.Offerings {
			if spot.CapacityType == sdk.Spot && spot.Type == off.Type && req.USDPerHour[k] <= s[0].USDPerHour {
				t.Errorf("%s: %v on demand, %v as spot", off.Type.Name, s[0].USDPerHour, req.USDPerHour[k])
			}
		}
		for k, other := range steps {
			if (s[0].USDPerHour < other[0].USDPerHour) != (req.USDPerHour[o] < req.USDPerHour[k]) {
				t.Errorf("offerings %d and %d are in another order than at the market", o, k)
			}
		}
	}
	req.Demand = sdk.Demand{}
	want := []sdk.Limit{{Name: "on-demand base", Share: &sdk.Share{Selector: selector(notSpot, false), Min: 2.0 / 5, Max: 1, Measure: sdk.MeasureNodes}}}
	if diff := cmp.Diff(want, price(t, `{"onDemandBaseNodes": 2}`, req).Pools[0].Limits); diff != "" {
		t.Errorf("while nothing waits the base is kept as a share: %s", diff)
	}
}

// TestCommitmentsFirst, up to what is left of them and up to the amount in the
// configuration.
func TestCommitmentsFirst(t *testing.T) {
	t.Parallel()
	onDemand := sdk.Match{Key: sdk.LabelCapacityType, Values: []string{sdk.OnDemand}}
	reserved := sdk.Commitment{Name: "ri", Covers: sdk.Selector{{Key: sdk.LabelInstanceType, Values: []string{"m6a.large"}}, onDemand}, Nodes: 5, UsedNodes: 2}
	plan := sdk.Commitment{Name: "sp", Covers: sdk.Selector{onDemand}, USDPerHour: 1, UsedUSDPerHour: 0.4, Discount: 0.25, USDPerHourByType: map[string]float64{"m6a.xlarge": 0.12}}
	for name, c := range map[string]struct {
		config      string
		commitments []sdk.Commitment
		offering    int // 0: m6a.large on demand, 1: as spot, 4: m6a.xlarge on demand
		want        []sdk.Step
	}{
		"reserved instances, then the plan": {`{}`, []sdk.Commitment{reserved, plan}, 0, []sdk.Step{{USDPerHour: 0.00864, Nodes: 3, Shared: "commitment ri"},
			{USDPerHour: 0.00864, SumUSDPerHour: 0.8, Shared: "commitment sp"}, {USDPerHour: 0.0864}}},
		"a price of its own":     {`{}`, []sdk.Commitment{reserved, plan}, 4, []sdk.Step{{USDPerHour: 0.01728, SumUSDPerHour: 0.6 * 0.1728 / 0.12, Shared: "commitment sp"}, {USDPerHour: 0.1728}}},
		"spot is not covered":    {`{}`, []sdk.Commitment{reserved, plan}, 1, nil},
		"off":                    {`{"commitments": {"first": false}}`, []sdk.Commitment{reserved, plan}, 0, nil},
		"an amount":              {`{"commitments": {"maxUSDPerHour": 0.7}}`, []sdk.Commitment{plan}, 0, []sdk.Step{{USDPerHour: 0.00864, SumUSDPerHour: 0.4, Shared: "commitment sp"}, {USDPerHour: 0.0864}}},
		"an amount that is used": {`{"commitments": {"maxUSDPerHour": 0.3}}`, []sdk.Commitment{plan}, 0, nil},
		"an amount for nodes": {`{"commitments": {"maxUSDPerHour": 0.36}}`, []sdk.Commitment{reserved}, 0,
			[]sdk.Step{{USDPerHour: 0.00864, Nodes: 2, Shared: "commitment ri"}, {USDPerHour: 0.0864}}},
		"for nothing": {`{"commitments": {"factor": 0}}`, []sdk.Commitment{reserved}, 0, []sdk.Step{{Nodes: 3, Shared: "commitment ri"}, {USDPerHour: 0.0864}}},
		"used up":     {`{}`, []sdk.Commitment{{Name: "ri", Covers: reserved.Covers, Nodes: 2, UsedNodes: 7}}, 0, nil},
		"before the base": {`{"onDemandBaseNodes": 6}`, []sdk.Commitment{reserved}, 0,
			[]sdk.Step{{USDPerHour: 0.00864, Nodes: 3, Shared: "commitment ri"}, {USDPerHour: 0.0864 * 0.4 * 0.9, Nodes: 1, Shared: "on-demand base of default"}, {USDPerHour: 0.0864}}},
	} {
		req := sdk.SamplePrice()
		req.Commitments = c.commitments
		got := price(t, c.config, req).Pools[0].Steps[c.offering]
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestAnnotationOfThePool stands above the configuration; one that is wrong lets nothing
// be bought for the pool, and says why.
func TestAnnotationOfThePool(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice()
	req.Pools[0].Annotations = map[string]string{Annotation: `{"onDemandShare": 0.8}`}
	ans := price(t, `{"pools": {"default": {"onDemandShare": 0.1}}}`, req)
	if got := ans.Pools[0].Limits[0].Share.Min; got != 0.8 || ans.Pools[1].Limits[0].Share.Min != 0.3 {
		t.Errorf("shares %v and %v", got, ans.Pools[1].Limits[0].Share.Min)
	}
	for said, want := range map[string]string{`{"onDemandShare": 2}`: "annotation weir.dev/capacity-mix: onDemandShare: want 0 to 1", `{"share": 1}`: "share: unknown field",
		`30%`: "got number", `{"onDemandShare": "` + strings.Repeat("x", 400) + `"}`: "onDemandShare"} {
		req.Pools[0].Annotations[Annotation] = said
		ans := price(t, `{}`, req)
		if v := ans.Pools[0].Vetoes; len(v) != 1 || len(v[0].Offerings) != len(req.Pools[0].Offerings) || !strings.Contains(v[0].Reason, want) {
			t.Errorf("%s: %+v", said, v)
		}
		if v := ans.Pools[1].Vetoes; len(v) > 0 {
			t.Errorf("%s: the other pool is kept from buying: %+v", said, v)
		}
	}
}
