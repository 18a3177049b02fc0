package main

import (
	"testing"

	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sdktest.Run(t, func() sdk.Strategy { return &preferArm{} })
}

// The sample's arm64 machine costs 0.154, the amd64 one of its size 0.1728 and the one
// of half the size 0.0864 USD per hour.
func TestPrefersArm(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{"discount": 0}`:   "m6a.large us-east-1a on-demand",
		`{"discount": 0.4}`: "m6a.large us-east-1a on-demand", // 0.0924 is still more
		`{"discount": 0.5}`: "m6g.xlarge us-east-1a on-demand",
	} {
		req := sdk.SamplePrice()
		if got := sdktest.Cheapest(req, sdktest.New(t, &preferArm{}, config).Price(req), 1); got != want {
			t.Errorf("%s: the cheapest is %s, want %s", config, got, want)
		}
	}
}
