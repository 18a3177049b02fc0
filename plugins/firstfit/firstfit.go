package firstfit

import (
	"context"
	"encoding/json"

	"github.com/weir-project/weir/plugins/sdk"
)

// Name of the strategy.
const Name = "first-fit"

// Version of the strategy.
const Version = "1.0.0"

// Strategy is the strategy; New makes one.
type Strategy struct{}

// New is the strategy.
func New() *Strategy { return &Strategy{} }

// Describe implements sdk.Strategy.
func (*Strategy) Describe() sdk.Description {
	return sdk.Description{Name: Name, Version: Version, Summary: "fill the largest machine, then take the cheapest that holds its pods",
		ConfigSchema: `{"type": "object", "additionalProperties": false}`, Deterministic: true}
}

// Configure implements sdk.Strategy; there is nothing to configure.
func (*Strategy) Configure(config json.RawMessage) error { return sdk.Decode(config, &struct{}{}) }

// Price implements sdk.Pricer.
func (*Strategy) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	ans := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
	for i := range req.Pools {
		prices := make([]float64, len(req.Pools[i].Offerings))
		for k, o := range req.Pools[i].Offerings {
			prices[k] = req.USDPerHour[o]
		}
		ans.Pools[i] = sdk.PoolPrices{USDPerHour: prices, LargestFirst: true}
	}
	return ans, nil
}
