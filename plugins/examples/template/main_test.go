package main

import (
	"testing"

	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/sdktest"
)

// What the host expects of every strategy.
func TestConformance(t *testing.T) {
	t.Parallel()
	sdktest.Run(t, func() sdk.Strategy { return &strategy{} })
}

// What this one is for.
func TestFactor(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice()
	ans := sdktest.New(t, &strategy{}, `{"factor": 2}`).Price(req)
	if got, want := ans.Pools[0].USDPerHour[0], 2*req.USDPerHour[0]; got != want {
		t.Errorf("the first offering costs %v, want %v", got, want)
	}
}
