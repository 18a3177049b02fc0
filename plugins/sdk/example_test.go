package sdk_test

import (
	"context"
	"encoding/json"

	"github.com/weir-project/weir/plugins/sdk"
)

// preferArm makes machines with arm64 processors look cheaper than they are.
type preferArm struct {
	Discount float64 `json:"discount"` // part of the price that is left out, 0 to 1
}

func (*preferArm) Describe() sdk.Description {
	return sdk.Description{Name: "prefer-arm", Version: "1.0.0", Summary: "arm64 unless it costs much more", Deterministic: true}
}

func (s *preferArm) Configure(config json.RawMessage) error {
	next := preferArm{Discount: 0.2}
	if err := sdk.Decode(config, &next); err != nil {
		return err
	}
	if next.Discount < 0 || next.Discount > 1 {
		return &sdk.ConfigError{Field: "discount", Message: "want 0 to 1"}
	}
	*s = next
	return nil
}

func (s *preferArm) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	ans := &sdk.PriceAnswer{}
	for _, pool := range req.Pools {
		prices := make([]float64, len(pool.Offerings))
		for k, o := range pool.Offerings {
			prices[k] = req.USDPerHour[o]
			if arch, _ := req.Catalogue.Offerings[o].Label(sdk.LabelArch); arch == "arm64" {
				prices[k] *= 1 - s.Discount
			}
		}
		ans.Pools = append(ans.Pools, sdk.PoolPrices{USDPerHour: prices, FeePerNode: 0.02})
	}
	return ans, nil
}

// A whole strategy: the main function of its program is the call of Serve.
func ExampleServe() {
	sdk.Serve(&preferArm{})
}
