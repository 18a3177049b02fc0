package costoptimal

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/plugins/sdk"
)

func TestPricesAreTheMarketsAndNodesCostAFee(t *testing.T) {
	t.Parallel()
	for config, fee := range map[string]float64{``: 0.02, `{}`: 0.02, `{"feePerNode": 0}`: 0, `{"feePerNode": 0.5}`: 0.5} {
		s := New()
		if err := s.Configure(json.RawMessage(config)); err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		req := sdk.SamplePrice()
		ans, err := s.Price(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		onDemand := []float64{}
		for _, o := range req.Pools[1].Offerings {
			onDemand = append(onDemand, req.USDPerHour[o])
		}
		want := []sdk.PoolPrices{{USDPerHour: req.USDPerHour, FeePerNode: fee + 0.0022}, {USDPerHour: onDemand, FeePerNode: fee}}
		if diff := cmp.Diff(want, ans.Pools); diff != "" {
			t.Errorf("%s: %s", config, diff)
		}
	}
}

// TestBadConfiguration is refused and leaves what was there.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	s := New()
	for config, want := range map[string]string{`{"feePerNode": -1}`: "feePerNode: want 0 to 1000", `{"feePerNode": 1e9}`: "feePerNode: want", `{"fee": 1}`: "fee: unknown field", `7`: "got number"} {
		if err := s.Configure(json.RawMessage(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
	if s.config.FeePerNode != DefaultFeePerNode {
		t.Errorf("fee %v after refused configurations", s.config.FeePerNode)
	}
}
