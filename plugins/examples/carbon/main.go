// Command carbon is a strategy for Weir: each offering costs its market price and a
// price for the carbon dioxide that the power stations of its zone give off for it.
package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/weir-project/weir/plugins/sdk"
)

const schema = `{"type": "object", "additionalProperties": false, "properties": {"wattsPerVCPU": {"type": "number", "minimum": 0, "default": 4},
 "usdPerTonne": {"type": "number", "minimum": 0, "default": 100}, "gramsPerKWh": {"type": "object", "description": "by zone or region; 400 elsewhere"}}}`

type carbon struct {
	GramsPerKWh  map[string]float64 `json:"gramsPerKWh"`
	WattsPerVCPU float64            `json:"wattsPerVCPU"`
	USDPerTonne  float64            `json:"usdPerTonne"`
}

func (*carbon) Describe() sdk.Description {
	return sdk.Description{Name: "carbon", Version: "1.0.0", Summary: "market price plus a price for carbon dioxide", ConfigSchema: schema, Deterministic: true}
}

func (s *carbon) Configure(config json.RawMessage) error {
	next := carbon{WattsPerVCPU: 4, USDPerTonne: 100}
	if err := sdk.Decode(config, &next); err != nil {
		return err
	}
	values := map[string]float64{"wattsPerVCPU": next.WattsPerVCPU, "usdPerTonne": next.USDPerTonne}
	for _, grams := range next.GramsPerKWh {
		values["gramsPerKWh"] = min(values["gramsPerKWh"], grams)
	}
	for field, v := range values {
		if v < 0 {
			return &sdk.ConfigError{Field: field, Message: "want 0 or more"}
		}
	}
	*s = next
	return nil
}

// emission is what is due for an hour of a machine, USD.
func (s *carbon) emission(o *sdk.Offering) float64 {
	grams := 400.0
	for _, place := range []string{strings.TrimRight(o.Zone, "abcdefghijklmnopqrstuvwxyz"), o.Zone} {
		if g, ok := s.GramsPerKWh[place]; ok {
			grams = g
		}
	}
	return float64(o.Type.CPUMilli) / 1000 * s.WattsPerVCPU / 1000 * grams / 1e6 * s.USDPerTonne
}

func (s *carbon) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	return sdk.PriceEach(req, func(o int) float64 { return req.USDPerHour[o] + s.emission(&req.Catalogue.Offerings[o]) }), nil
}

func main() { sdk.Serve(&carbon{}) }
