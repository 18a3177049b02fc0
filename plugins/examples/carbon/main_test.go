package main

import (
	"math"
	"testing"

	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sdktest.Run(t, func() sdk.Strategy { return &carbon{} })
}

// 1.93 vCPUs of 4 W for an hour at 400 g/kWh and 100 USD a tonne.
func TestEmission(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice()
	got := sdktest.New(t, &carbon{}, "").Price(req).Pools[0].USDPerHour[0] - req.USDPerHour[0]
	if want := 1.93 * 4 / 1000 * 400 / 1e6 * 100; math.Abs(got-want) > 1e-12 {
		t.Errorf("the emission costs %v, want %v", got, want)
	}
}

// Where the wind blows machines are cheaper; a zone goes before its region.
func TestCleanZone(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{}`: "m6a.large us-east-1a on-demand",
		`{"gramsPerKWh": {"us-east-1": 500, "us-east-1b": 10}}`:                    "m6a.large us-east-1b on-demand",
		`{"gramsPerKWh": {"us-east-1": 500, "us-east-1b": 10}, "usdPerTonne": 0}`:  "m6a.large us-east-1a on-demand",
		`{"gramsPerKWh": {"us-east-1": 500, "us-east-1b": 10}, "wattsPerVCPU": 0}`: "m6a.large us-east-1a on-demand",
		`{"gramsPerKWh": {"us-east-1": 10, "us-east-1a": 9000}}`:                   "m6a.large us-east-1b on-demand",
	} {
		req := sdk.SamplePrice()
		if got := sdktest.Cheapest(req, sdktest.New(t, &carbon{}, config).Price(req), 1); got != want {
			t.Errorf("%s: the cheapest is %s, want %s", config, got, want)
		}
	}
}
