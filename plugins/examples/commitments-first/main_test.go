package main

import (
	"reflect"
	"testing"

	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sdktest.Run(t, func() sdk.Strategy { return &commitmentsFirst{} })
}

// Of the sample's commitment of 0.5 USD an hour for on-demand machines 0.2 is in use.
func TestCommittedFirst(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice()
	req.Commitments = append(req.Commitments,
		sdk.Commitment{Name: "used up", USDPerHour: 1, UsedUSDPerHour: 1.5},
		sdk.Commitment{Name: "nodes", Covers: sdk.Selector{{Key: sdk.LabelArch, Values: []string{"arm64"}}}, Nodes: 3, UsedNodes: 1})
	ans := sdktest.New(t, &commitmentsFirst{}, `{"committedShare": 0.5}`).Price(req)
	const onDemand, spot, armOnDemand = 0, 1, 8
	for offering, want := range map[int][]sdk.Step{
		spot:     nil,
		onDemand: {{USDPerHour: 0.0432, SumUSDPerHour: 0.3, Shared: "0"}, {USDPerHour: 0.0864}},
		armOnDemand: {{USDPerHour: 0.077, SumUSDPerHour: 0.3, Shared: "0"}, {USDPerHour: 0.077, Nodes: 2, Shared: "2"},
			{USDPerHour: 0.154}},
	} {
		if got := ans.Pools[0].Steps[offering]; !reflect.DeepEqual(got, want) {
			t.Errorf("steps of offering %d: %+v, want %+v", offering, got, want)
		}
	}
	free := sdktest.New(t, &commitmentsFirst{}, "").Price(req)
	if got, want := sdktest.Cheapest(req, free, 0), "m6a.large us-east-1a on-demand"; got != want {
		t.Errorf("the cheapest is %s, want the committed %s and not spot", got, want)
	}
}
