package firstfit

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/weir-project/weir/plugins/sdk"
)

func TestLargestFirstAtMarketPrice(t *testing.T) {
	t.Parallel()
	req := sdk.SamplePrice()
	ans, err := New().Price(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range ans.Pools {
		if !p.LargestFirst || p.FeePerNode != 0 {
			t.Errorf("pool %d: %+v", i, p)
		}
		for k, o := range req.Pools[i].Offerings {
			if p.USDPerHour[k] != req.USDPerHour[o] {
				t.Errorf("pool %d, offering %d: %v, the market says %v", i, o, p.USDPerHour[k], req.USDPerHour[o])
			}
		}
	}
	if err := New().Configure(json.RawMessage(`{"feePerNode": 1}`)); err == nil {
		t.Error("a setting was accepted, there is none")
	}
}
