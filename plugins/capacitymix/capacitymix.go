package capacitymix

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weir-project/weir/plugins/sdk"
)

// Name of the strategy.
const Name = "capacity-mix"

// Version of the strategy.
const Version = "1.0.0"

// Part is a share of the mix.
type Part struct {
	// Name for messages; what the part matches if left out.
	Name string `json:"name"`
	// Match says which offerings belong to it: values by label, all of which must hold.
	Match map[string][]string `json:"match"`
	// Min is the least share, 0 to 1. It gives way where pods find no place otherwise.
	Min float64 `json:"min"`
	// Max is the greatest share, 0 to 1; left out = 1. It never gives way.
	Max *float64 `json:"max"`
	// Strict keeps the least share a wall: rather no node than one too many of the others.
	Strict bool `json:"strict"`
}

// Config is the strategy's configuration.
type Config struct {
	// Parts of the mix.
	Parts []Part `json:"parts"`
	// Measure is what shares are counted in: nodes, vcpu or price.
	Measure string `json:"measure"`
	// FeePerNode is added for each node beside the price of its volumes, USD per hour.
	FeePerNode float64 `json:"feePerNode"`
}

// maxParts leaves room for two limits of each.
const maxParts = sdk.MaxLimits / 2

// Defaults is the configuration where nothing is said: at least 30% of the vCPUs on
// demand or reserved.
func Defaults() Config {
	return Config{Parts: []Part{{Name: "on-demand", Match: map[string][]string{sdk.LabelCapacityType: {sdk.OnDemand, sdk.Reserved}}, Min: 0.3}}, Measure: "vcpu", FeePerNode: 0.02}
}

const schema = `{"type": "object", "additionalProperties": false, "properties": {
 "parts": {"type": "array", "maxItems": 32, "description": "shares of the mix; default: at least 30% on demand or reserved", "items": {"type": "object", "additionalProperties": false, "required": ["match"], "properties": {
  "name": {"type": "string", "maxLength": 50},
  "match": {"type": "object", "minProperties": 1, "maxProperties": 16, "additionalProperties": {"type": "array", "minItems": 1, "maxItems": 256, "items": {"type": "string"}}, "description": "values by node label, all of which must hold"},
  "min": {"type": "number", "minimum": 0, "maximum": 1, "default": 0, "description": "least share; gives way where pods find no place otherwise"},
  "max": {"type": "number", "minimum": 0, "maximum": 1, "default": 1, "description": "greatest share; never gives way"},
  "strict": {"type": "boolean", "default": false, "description": "min never gives way either"}}}},
 "measure": {"enum": ["nodes", "vcpu", "price"], "default": "vcpu", "description": "what shares are counted in"},
 "feePerNode": {"type": "number", "minimum": 0, "maximum": 1000, "default": 0.02, "description": "USD per hour added for each node, beside the price of its volumes"}}}`

// Strategy is the strategy; New makes one.
type Strategy struct {
	config Config
	limits []sdk.Limit
}

// New is the strategy with its defaults.
func New() *Strategy {
	c := Defaults()
	return &Strategy{config: c, limits: limits(c)}
}

// Describe implements sdk.Strategy.
func (s *Strategy) Describe() sdk.Description {
	return sdk.Description{Name: Name, Version: Version, Summary: "least money with a mix kept: at least 30% on demand and the rest spot, say", ConfigSchema: schema, Deterministic: true}
}

// Configure implements sdk.Strategy.
func (s *Strategy) Configure(config json.RawMessage) error {
	c := Defaults()
	c.Parts = nil
	if err := sdk.Decode(config, &c); err != nil {
		return err
	}
	if c.Parts == nil {
		c.Parts = Defaults().Parts
	}
	if err := check(&c); err != nil {
		return err
	}
	s.config, s.limits = c, limits(c)
	return nil
}

var measures = map[string]sdk.Measure{"nodes": sdk.MeasureNodes, "vcpu": sdk.MeasureCPU, "price": sdk.MeasureUSDPerHour}

func check(c *Config) error {
	if _, ok := measures[c.Measure]; !ok {
		return &sdk.ConfigError{Field: "measure", Message: "want nodes, vcpu or price"}
	}
	if math.IsNaN(c.FeePerNode) || c.FeePerNode < 0 || c.FeePerNode > 1000 {
		return &sdk.ConfigError{Field: "feePerNode", Message: "want 0 to 1000 USD per hour"}
	}
	if len(c.Parts) > maxParts {
		return &sdk.ConfigError{Field: "parts", Message: fmt.Sprintf("%d parts, want at most %d", len(c.Parts), maxParts)}
	}
	for i := range c.Parts {
		p := &c.Parts[i]
		field := func(name string) string { return fmt.Sprintf("parts[%d].%s", i, name) }
		if len(p.Match) == 0 || len(p.Match) > 16 {
			return &sdk.ConfigError{Field: field("match"), Message: "want 1 to 16 labels with their values"}
		}
		for _, key := range slices.Sorted(maps.Keys(p.Match)) {
			if n := len(p.Match[key]); key == "" || n == 0 || n > 256 {
				return &sdk.ConfigError{Field: field("match." + key), Message: "want a label with 1 to 256 values"}
			}
		}
		if p.Name == "" {
			p.Name = fmt.Sprintf("part %d", i)
		}
		if len(p.Name) > 50 {
			return &sdk.ConfigError{Field: field("name"), Message: "want at most 50 characters"}
		}
		most := 1.0
		if p.Max != nil {
			most = *p.Max
		}
		if !(p.Min >= 0 && p.Min <= most && most <= 1) {
			return &sdk.ConfigError{Field: field("min"), Message: fmt.Sprintf("share %v to %v: want 0 <= min <= max <= 1", p.Min, most)}
		}
		if p.Strict && len(p.Match) > 1 {
			return &sdk.ConfigError{Field: field("strict"), Message: "want one label in match: what is outside of several cannot be selected"}
		}
	}
	return nil
}

// limits is what the engine is to keep. A least share that is a wall is the greatest
// share of everything else.
func limits(c Config) []sdk.Limit {
	var out []sdk.Limit
	for _, p := range c.Parts {
		share := &sdk.Share{Selector: selector(p.Match, false), Min: p.Min, Max: 1, Measure: measures[c.Measure]}
		if p.Max != nil {
			share.Max = *p.Max
		}
		if p.Strict && p.Min > 0 {
			share.Min = 0
			out = append(out, sdk.Limit{Name: p.Name + ", least", Share: &sdk.Share{Selector: selector(p.Match, true), Max: 1 - p.Min, Measure: share.Measure}})
		}
		if share.Min > 0 || share.Max < 1 {
			out = append(out, sdk.Limit{Name: p.Name, Share: share})
		}
	}
	return out
}

func selector(match map[string][]string, negate bool) sdk.Selector {
	var s sdk.Selector
	for _, key := range slices.Sorted(maps.Keys(match)) {
		s = append(s, sdk.Match{Key: key, Values: match[key], Negate: negate})
	}
	return s
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
		ans.Pools[i] = sdk.PoolPrices{USDPerHour: prices, FeePerNode: s.config.FeePerNode + pool.VolumesUSDPerHour, Limits: s.limits}
	}
	return ans, nil
}
