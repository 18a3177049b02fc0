package capacitymix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weir-project/weir/plugins/sdk"
)

// Name of the strategy.
const Name = "capacity-mix"

// Version of the strategy.
const Version = "1.1.0"

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

// Mix is what is wanted of a pool's nodes.
type Mix struct {
	// OnDemandBaseNodes is how many nodes are on demand, or reserved, before any is spot.
	OnDemandBaseNodes int `json:"onDemandBaseNodes"`
	// OnDemandBaseVCPU is the same in vCPUs.
	OnDemandBaseVCPU float64 `json:"onDemandBaseVCPU"`
	// OnDemandShare is the least share on demand or reserved, the base counted in.
	OnDemandShare float64 `json:"onDemandShare"`
	// MaxSpotShare is the greatest share of spot, a wall; left out = 1.
	MaxSpotShare *float64 `json:"maxSpotShare"`
	// Parts are shares of any other offerings.
	Parts []Part `json:"parts"`
}

// Commitments says how what is paid for anyhow is used.
type Commitments struct {
	// First has it bought before anything else.
	First bool `json:"first"`
	// MaxUSDPerHour is up to what amount, over all commitments and what they cover already,
	// at the prices of the commitments; left out = all of them.
	MaxUSDPerHour *float64 `json:"maxUSDPerHour"`
	// Factor is the part of the market price at which it is held against other offerings:
	// it costs nothing more, but what is cheap under it is to be used before what is dear.
	Factor float64 `json:"factor"`
}

// Config is the strategy's configuration.
type Config struct {
	Mix
	// Pools are the mixes of pools by name, instead of the one above.
	Pools map[string]Mix `json:"pools"`
	// Commitments says how what is paid for anyhow is used.
	Commitments Commitments `json:"commitments"`
	// Measure is what shares are counted in: nodes, vcpu or price.
	Measure string `json:"measure"`
	// FeePerNode is added for each node beside the price of its volumes, USD per hour.
	FeePerNode float64 `json:"feePerNode"`
}

// maxParts leaves room for two limits of each, and for those of the base and of spot.
const maxParts = (sdk.MaxLimits - 4) / 2

// Defaults is the configuration where nothing is said: at least 30% of the vCPUs on
// demand or reserved, commitments first.
func Defaults() Config {
	return Config{Mix: Mix{OnDemandShare: 0.3}, Commitments: Commitments{First: true, Factor: 0.1}, Measure: "vcpu", FeePerNode: 0.02}
}

const partSchema = `{"type": "object", "additionalProperties": false, "required": ["match"], "properties": {
   "name": {"type": "string", "maxLength": 50},
   "match": {"type": "object", "minProperties": 1, "maxProperties": 16, "additionalProperties": {"type": "array", "minItems": 1, "maxItems": 256, "items": {"type": "string"}}, "description": "values by node label, all of which must hold"},
   "min": {"type": "number", "minimum": 0, "maximum": 1, "default": 0, "description": "least share; gives way where pods find no place otherwise"},
   "max": {"type": "number", "minimum": 0, "maximum": 1, "default": 1, "description": "greatest share; never gives way"},
   "strict": {"type": "boolean", "default": false, "description": "min never gives way either"}}}`

const mixSchema = `
  "onDemandBaseNodes": {"type": "integer", "minimum": 0, "maximum": 100000, "default": 0, "description": "nodes on demand or reserved before any is spot"},
  "onDemandBaseVCPU": {"type": "number", "minimum": 0, "maximum": 10000000, "default": 0, "description": "the same in vCPUs"},
  "onDemandShare": {"type": "number", "minimum": 0, "maximum": 1, "description": "least share on demand or reserved, the base counted in; 0.3 where nothing is said of the mix"},
  "maxSpotShare": {"type": "number", "minimum": 0, "maximum": 1, "default": 1, "description": "greatest share of spot; never gives way"},
  "parts": {"type": "array", "maxItems": 30, "description": "shares of other offerings", "items": ` + partSchema + `}`

const schema = `{"type": "object", "additionalProperties": false, "properties": {` + mixSchema + `,
 "pools": {"type": "object", "maxProperties": 1000, "description": "mixes of pools by name, instead of the one above", "additionalProperties":
  {"type": "object", "additionalProperties": false, "properties": {` + mixSchema + `}}},
 "commitments": {"type": "object", "additionalProperties": false, "properties": {
  "first": {"type": "boolean", "default": true, "description": "buy what is paid for anyhow before anything else"},
  "maxUSDPerHour": {"type": "number", "minimum": 0, "maximum": 1000000, "description": "up to what amount, over all of them and what they cover already; left out = all"},
  "factor": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.1, "description": "part of the market price at which it is held against other offerings"}}},
 "measure": {"enum": ["nodes", "vcpu", "price"], "default": "vcpu", "description": "what shares are counted in"},
 "feePerNode": {"type": "number", "minimum": 0, "maximum": 1000, "default": 0.02, "description": "USD per hour added for each node, beside the price of its volumes"}}}`

// Strategy is the strategy; New makes one.
type Strategy struct{ config Config }

// New is the strategy with its defaults.
func New() *Strategy { return &Strategy{config: Defaults()} }

// Describe implements sdk.Strategy.
func (s *Strategy) Describe() sdk.Description {
	return sdk.Description{Name: Name, Version: Version, Summary: "least money with a mix kept, an on-demand base say and the rest spot, and commitments used first", ConfigSchema: schema, Deterministic: true}
}

// Configure implements sdk.Strategy.
func (s *Strategy) Configure(config json.RawMessage) error {
	c := Defaults()
	said, err := speaksOfMix(config)
	if err != nil {
		return err
	}
	if said {
		c.Mix = Mix{}
	}
	if err := sdk.Decode(config, &c); err != nil {
		if wrong := (*sdk.ConfigError)(nil); errors.As(err, &wrong) {
			wrong.Field = strings.TrimPrefix(wrong.Field, "Mix.") // which encoding/json calls fields of what is embedded
		}
		return err
	}
	if err := check(&c); err != nil {
		return err
	}
	s.config = c
	return nil
}

// speaksOfMix says whether something is said of the mix at the top, so that the default
// does not hold.
func speaksOfMix(config json.RawMessage) (bool, error) {
	given := map[string]json.RawMessage{}
	if len(config) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(config, &given); err != nil {
		return false, sdk.Decode(config, &Config{}) // which says what is wrong
	}
	for _, name := range []string{"onDemandBaseNodes", "onDemandBaseVCPU", "onDemandShare", "maxSpotShare", "parts"} {
		if _, ok := given[name]; ok {
			return true, nil
		}
	}
	return false, nil
}

var measures = map[string]sdk.Measure{"nodes": sdk.MeasureNodes, "vcpu": sdk.MeasureCPU, "price": sdk.MeasureUSDPerHour}

func check(c *Config) error {
	if _, ok := measures[c.Measure]; !ok {
		return &sdk.ConfigError{Field: "measure", Message: "want nodes, vcpu or price"}
	}
	if math.IsNaN(c.FeePerNode) || c.FeePerNode < 0 || c.FeePerNode > 1000 {
		return &sdk.ConfigError{Field: "feePerNode", Message: "want 0 to 1000 USD per hour"}
	}
	if most := c.Commitments.MaxUSDPerHour; most != nil && !(*most >= 0 && *most <= sdk.MaxUSDPerHour) {
		return &sdk.ConfigError{Field: "commitments.maxUSDPerHour", Message: "want 0 to 1000000 USD per hour"}
	}
	if f := c.Commitments.Factor; !(f >= 0 && f <= 1) {
		return &sdk.ConfigError{Field: "commitments.factor", Message: "want 0 to 1"}
	}
	if err := checkMix(&c.Mix, ""); err != nil {
		return err
	}
	if len(c.Pools) > sdk.MaxPools {
		return &sdk.ConfigError{Field: "pools", Message: fmt.Sprintf("%d pools, want at most %d", len(c.Pools), sdk.MaxPools)}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Pools)) {
		mix := c.Pools[name]
		if err := checkMix(&mix, "pools."+name+"."); err != nil {
			return err
		}
		c.Pools[name] = mix
	}
	return nil
}

// checkMix says what is wrong with a mix whose fields are called with this before them,
// and names the parts that have no name.
func checkMix(m *Mix, at string) error {
	switch spot := m.MaxSpotShare; {
	case m.OnDemandBaseNodes < 0 || m.OnDemandBaseNodes > 100_000:
		return &sdk.ConfigError{Field: at + "onDemandBaseNodes", Message: "want 0 to 100000"}
	case !(m.OnDemandBaseVCPU >= 0 && m.OnDemandBaseVCPU <= 1e7):
		return &sdk.ConfigError{Field: at + "onDemandBaseVCPU", Message: "want 0 to 10000000"}
	case m.OnDemandBaseNodes > 0 && m.OnDemandBaseVCPU > 0:
		return &sdk.ConfigError{Field: at + "onDemandBaseVCPU", Message: "want a base in nodes or in vCPUs, not both"}
	case !(m.OnDemandShare >= 0 && m.OnDemandShare <= 1):
		return &sdk.ConfigError{Field: at + "onDemandShare", Message: "want 0 to 1"}
	case spot != nil && !(*spot >= 0 && *spot <= 1):
		return &sdk.ConfigError{Field: at + "maxSpotShare", Message: "want 0 to 1"}
	case len(m.Parts) > maxParts:
		return &sdk.ConfigError{Field: at + "parts", Message: fmt.Sprintf("%d parts, want at most %d", len(m.Parts), maxParts)}
	}
	for i := range m.Parts {
		if err := checkPart(&m.Parts[i], fmt.Sprintf("%sparts[%d].", at, i), i); err != nil {
			return err
		}
	}
	return nil
}

func checkPart(p *Part, at string, i int) error {
	if len(p.Match) == 0 || len(p.Match) > 16 {
		return &sdk.ConfigError{Field: at + "match", Message: "want 1 to 16 labels with their values"}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Match)) {
		if n := len(p.Match[key]); key == "" || n == 0 || n > 256 {
			return &sdk.ConfigError{Field: at + "match." + key, Message: "want a label with 1 to 256 values"}
		}
	}
	if p.Name == "" {
		p.Name = fmt.Sprintf("part %d", i)
	}
	if len(p.Name) > 50 {
		return &sdk.ConfigError{Field: at + "name", Message: "want at most 50 characters"}
	}
	most := 1.0
	if p.Max != nil {
		most = *p.Max
	}
	if !(p.Min >= 0 && p.Min <= most && most <= 1) {
		return &sdk.ConfigError{Field: at + "min", Message: fmt.Sprintf("share %v to %v: want 0 <= min <= max <= 1", p.Min, most)}
	}
	if p.Strict && len(p.Match) > 1 {
		return &sdk.ConfigError{Field: at + "strict", Message: "want one label in match: what is outside of several cannot be selected"}
	}
	return nil
}

// Price implements sdk.Pricer.
func (s *Strategy) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	ans := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
	left := s.committed(req)
	for i := range req.Pools {
		pool := &req.Pools[i]
		out := &ans.Pools[i]
		*out = sdk.PoolPrices{USDPerHour: make([]float64, len(pool.Offerings)), FeePerNode: s.config.FeePerNode + pool.VolumesUSDPerHour}
		for k, o := range pool.Offerings {
			out.USDPerHour[k] = req.USDPerHour[o]
		}
		mix, err := s.mixOf(pool)
		if err != nil {
			out.Vetoes = []sdk.Veto{{Reason: short("annotation " + Annotation + ": " + err.Error()), Offerings: pool.Offerings}}
			continue
		}
		out.Limits = limits(&mix, req, pool, measures[s.config.Measure])
		out.Steps = s.steps(&mix, req, pool, left)
	}
	return ans, nil
}
