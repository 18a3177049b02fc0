package costoptimal

import (
	"context"
	"encoding/json"
	"math"

	"github.com/weir-project/weir/plugins/sdk"
)

// Name of the strategy.
const Name = "cost-optimal"

// Version of the strategy.
const Version = "1.0.0"

// DefaultFeePerNode is what a node costs beside its price and its volumes, USD per hour.
const DefaultFeePerNode = 0.02

// Config is the strategy's configuration.
type Config struct {
	// FeePerNode is added for each node beside the price of its volumes, USD per hour.
	FeePerNode float64 `json:"feePerNode"`
}

const schema = `{"type": "object", "additionalProperties": false, "properties": {"feePerNode": {"type": "number", "minimum": 0, "maximum": 1000,
 "default": 0.02, "description": "USD per hour added for each node, beside the price of its volumes"}}}`

// Strategy is the strategy; New makes one.
type Strategy struct{ config Config }

// New is the strategy with its defaults.
func New() *Strategy { return &Strategy{config: Config{FeePerNode: DefaultFeePerNode}} }

// Describe implements sdk.Strategy.
func (s *Strategy) Describe() sdk.Description {
	return sdk.Description{Name: Name, Version: Version, Summary: "least money: market price plus an hourly fee per node", ConfigSchema: schema, Deterministic: true}
}

// Configure implements sdk.Strategy.
func (s *Strategy) Configure(config json.RawMessage) error {
	c := Config{FeePerNode: DefaultFeePerNode}
	if err := sdk.Decode(config, &c); err != nil {
		return err
	}
	if math.IsNaN(c.FeePerNode) || c.FeePerNode < 0 || c.FeePerNode > 1000 {
		return &sdk.ConfigError{Field: "feePerNode", Message: "want 0 to 1000 USD per hour"}
	}
	s.config = c
	return nil
}

// Price implements sdk.Pricer.
func (s *Strategy) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	ans := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
	for i := range req.Pools {
		pool := &req.Pools[i]
		prices := make([]float64, len(pool.Offerings))
		for k, o := range pool.Offerings {
			prices[k] = req.USDPerHour[o]
		}
		ans.Pools[i] = sdk.PoolPrices{USDPerHour: prices, FeePerNode: s.config.FeePerNode + pool.VolumesUSDPerHour}
	}
	return ans, nil
}
