// Command my-strategy is a strategy for Weir.
package main

import (
	"context"
	"encoding/json"

	"github.com/weir-project/weir/plugins/sdk"
)

// The settings, as a JSON Schema: people see it, and the conformance kit tries what it
// forbids.
const schema = `{"type": "object", "additionalProperties": false, "properties": {
 "factor": {"type": "number", "minimum": 0, "maximum": 100, "default": 1, "description": "by which every market price is multiplied"}}}`

type strategy struct {
	Factor float64 `json:"factor"`
}

// Describe says who the strategy is. Deterministic: equal questions have equal answers.
func (*strategy) Describe() sdk.Description {
	return sdk.Description{Name: "my-strategy", Version: "0.1.0", Summary: "market prices, times a factor", ConfigSchema: schema, Deterministic: true}
}

// Configure takes the settings; an error leaves those before in force.
func (s *strategy) Configure(config json.RawMessage) error {
	next := strategy{Factor: 1}
	if err := sdk.Decode(config, &next); err != nil {
		return err
	}
	if next.Factor < 0 || next.Factor > 100 {
		return &sdk.ConfigError{Field: "factor", Message: "want 0 to 100"}
	}
	*s = next
	return nil
}

// Price says what each offering is worth, USD per hour. The engine packs the waiting
// pods so that the sum is least. Everything that may matter is in the request: no
// clock, no file, no network.
func (s *strategy) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	return sdk.PriceEach(req, func(offering int) float64 {
		// req.Catalogue.Offerings[offering] has the type, its labels, the zone and the
		// capacity type; req.HealthOf(offering) what is remembered of it.
		return req.USDPerHour[offering] * s.Factor
	}), nil
}

func main() { sdk.Serve(&strategy{}) }
