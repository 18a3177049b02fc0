// Command prefer-arm is a strategy for Weir: machines with arm64 processors look
// cheaper than they are, so that they are bought unless they cost much more.
package main

import (
	"context"
	"encoding/json"

	"github.com/weir-project/weir/plugins/sdk"
)

const schema = `{"type": "object", "additionalProperties": false, "properties": {"discount": {"type": "number", "minimum": 0,
 "maximum": 1, "default": 0.2, "description": "part of the price of arm64 machines that is left out"}}}`

type preferArm struct {
	Discount float64 `json:"discount"`
}

func (*preferArm) Describe() sdk.Description {
	return sdk.Description{Name: "prefer-arm", Version: "1.0.0", Summary: "arm64 unless it costs much more", ConfigSchema: schema, Deterministic: true}
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
	return sdk.PriceEach(req, func(o int) float64 {
		if arch, _ := req.Catalogue.Offerings[o].Label(sdk.LabelArch); arch == "arm64" {
			return req.USDPerHour[o] * (1 - s.Discount)
		}
		return req.USDPerHour[o]
	}), nil
}

func main() { sdk.Serve(&preferArm{}) }
