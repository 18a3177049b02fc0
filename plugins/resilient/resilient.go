package resilient

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

// Name of the strategy.
const Name = "resilient"

// Version of the strategy.
const Version = "1.1.0"

// Config is the strategy's configuration.
type Config struct {
	// MaxShare is the greatest part of a workload's pods on one node.
	MaxShare float64 `json:"maxShare"`
	// MaxPodsPerNode is the greatest number of a workload's pods on one node; 0 = only
	// MaxShare bounds it.
	MaxPodsPerNode int `json:"maxPodsPerNode"`
	// Zones is over how many zones nodes are spread evenly; 0 = not at all.
	Zones int `json:"zones"`
	// SpotPools is over how many pairs of instance type and zone spot nodes are spread
	// evenly; 0 = not at all.
	SpotPools int `json:"spotPools"`
	// InterruptionCost is what each interruption remembered of an offering adds to its
	// price, as a part of it.
	InterruptionCost float64 `json:"interruptionCost"`
	// ShortageCost is the same for each shortage of capacity.
	ShortageCost float64 `json:"shortageCost"`
	// HalfLifeHours is after how many hours without another one what is remembered counts
	// half as much; 0 = it counts the same for as long as it is remembered.
	HalfLifeHours float64 `json:"halfLifeHours"`
	// FeePerNode is added for each node beside the price of its volumes, USD per hour.
	FeePerNode float64 `json:"feePerNode"`
}

// Defaults is the configuration where nothing is said.
func Defaults() Config {
	return Config{MaxShare: 0.34, Zones: 3, SpotPools: 10, InterruptionCost: 0.1, ShortageCost: 0.05, HalfLifeHours: 24, FeePerNode: 0.02}
}

const schema = `{"type": "object", "additionalProperties": false, "properties": {
 "maxShare": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.34, "description": "greatest part of a workload's pods on one node, rounded down, never under one pod"},
 "maxPodsPerNode": {"type": "integer", "minimum": 0, "maximum": 10000, "default": 0, "description": "greatest number of a workload's pods on one node, 0 = not bounded"},
 "zones": {"type": "integer", "minimum": 0, "maximum": 100, "default": 3, "description": "zones that nodes are spread over evenly, 0 = not at all"},
 "spotPools": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 10, "description": "pairs of instance type and zone that spot nodes are spread over evenly, 0 = not at all"},
 "interruptionCost": {"type": "number", "minimum": 0, "maximum": 10, "default": 0.1, "description": "part of the price that each remembered interruption adds"},
 "shortageCost": {"type": "number", "minimum": 0, "maximum": 10, "default": 0.05, "description": "part of the price that each remembered shortage adds"},
 "halfLifeHours": {"type": "number", "minimum": 0, "maximum": 8760, "default": 24, "description": "hours without another one after which interruptions and shortages count half as much, 0 = they do not age"},
 "feePerNode": {"type": "number", "minimum": 0, "maximum": 1000, "default": 0.02, "description": "USD per hour added for each node, beside the price of its volumes"}}}`

// maxSurcharge bounds what history adds to a price, as a part of it: an offering is
// made dear by its past, never impossible.
const maxSurcharge = 1.0

// Strategy is the strategy; New makes one.
type Strategy struct{ config Config }

// New is the strategy with its defaults.
func New() *Strategy { return &Strategy{config: Defaults()} }

// Describe implements sdk.Strategy.
func (s *Strategy) Describe() sdk.Description {
	return sdk.Description{Name: Name, Version: Version, Summary: "bounds what the loss of a node, a zone or a spot pool takes along, and prices interruptions",
		ConfigSchema: schema, Deterministic: true}
}

// Configure implements sdk.Strategy.
func (s *Strategy) Configure(config json.RawMessage) error {
	c := Defaults()
	if err := sdk.Decode(config, &c); err != nil {
		return err
	}
	within := func(x, least, most float64) bool { return x >= least && x <= most } // false for NaN
	switch {
	case !within(c.MaxShare, math.SmallestNonzeroFloat64, 1):
		return &sdk.ConfigError{Field: "maxShare", Message: "want more than 0 and at most 1"}
	case !within(float64(c.Zones), 0, 100):
		return &sdk.ConfigError{Field: "zones", Message: "want 0 to 100"}
	case !within(float64(c.SpotPools), 0, 1000):
		return &sdk.ConfigError{Field: "spotPools", Message: "want 0 to 1000"}
	case !within(c.InterruptionCost, 0, 10):
		return &sdk.ConfigError{Field: "interruptionCost", Message: "want 0 to 10"}
	case !within(c.ShortageCost, 0, 10):
		return &sdk.ConfigError{Field: "shortageCost", Message: "want 0 to 10"}
	case !within(float64(c.MaxPodsPerNode), 0, 10000):
		return &sdk.ConfigError{Field: "maxPodsPerNode", Message: "want 0 to 10000"}
	case !within(c.HalfLifeHours, 0, 8760):
		return &sdk.ConfigError{Field: "halfLifeHours", Message: "want 0 to 8760"}
	case !within(c.FeePerNode, 0, 1000):
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
			prices[k] = math.Min(req.USDPerHour[o]*(1+s.surcharge(req.HealthOf(o), req.Now)), sdk.MaxUSDPerHour)
		}
		ans.Pools[i] = sdk.PoolPrices{USDPerHour: prices, FeePerNode: s.config.FeePerNode + pool.VolumesUSDPerHour, Limits: s.limits()}
	}
	return ans, nil
}

// surcharge is what the history of an offering adds to its price, as a part of it.
func (s *Strategy) surcharge(h sdk.Health, now time.Time) float64 {
	shortages := h.Shortages
	if shortages == 0 && !h.LastShortage.IsZero() {
		shortages = 1 // those in a row are forgotten when there is capacity again; when it was short is not
	}
	return math.Min(maxSurcharge, s.config.InterruptionCost*float64(h.Interruptions)*s.fading(h.LastInterruption, now)+
		s.config.ShortageCost*float64(shortages)*s.fading(h.LastShortage, now))
}

// fadeSteps is in how many steps a half goes: prices that changed all the time would have
// every plan of the host be made anew.
const fadeSteps = 16

// fading is what is left, as a part, of the weight of what happened last at the given
// time; where that is not known, all of it.
func (s *Strategy) fading(last, now time.Time) float64 {
	age := now.Sub(last).Hours()
	if last.IsZero() || s.config.HalfLifeHours == 0 || age <= 0 {
		return 1
	}
	return math.Exp2(-math.Floor(age/s.config.HalfLifeHours*fadeSteps) / fadeSteps)
}

func (s *Strategy) limits() []sdk.Limit {
	limits := []sdk.Limit{{Name: "share of a workload on one node", PodsPerNode: &sdk.PodsPerNode{Max: s.config.MaxPodsPerNode, Share: s.config.MaxShare}}}
	if s.config.Zones > 0 {
		limits = append(limits, sdk.Limit{Name: "zones", Variety: &sdk.Variety{Over: sdk.OverZones, Min: s.config.Zones}})
	}
	if s.config.SpotPools > 0 {
		limits = append(limits, sdk.Limit{Name: "spot pools", Variety: &sdk.Variety{Over: sdk.OverSpotPools, Min: s.config.SpotPools}})
	}
	return limits
}
