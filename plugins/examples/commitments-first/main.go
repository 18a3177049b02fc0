// Command commitments-first is a strategy for Weir: what is paid for anyhow, such as
// the hourly amount of a Savings Plan, is used up before anything else is bought.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-project/weir/plugins/sdk"
)

const schema = `{"type": "object", "additionalProperties": false, "properties": {"committedShare": {"type": "number", "minimum": 0,
 "maximum": 1, "default": 0, "description": "part of the market price that committed capacity is held to cost"}}}`

type commitmentsFirst struct {
	CommittedShare float64 `json:"committedShare"`
}

func (*commitmentsFirst) Describe() sdk.Description {
	return sdk.Description{Name: "commitments-first", Version: "1.0.0", Summary: "commitments are used up first", ConfigSchema: schema, Deterministic: true}
}

func (s *commitmentsFirst) Configure(config json.RawMessage) error {
	var next commitmentsFirst
	if err := sdk.Decode(config, &next); err != nil {
		return err
	}
	if next.CommittedShare < 0 || next.CommittedShare > 1 {
		return &sdk.ConfigError{Field: "committedShare", Message: "want 0 to 1"}
	}
	*s = next
	return nil
}

func (s *commitmentsFirst) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	ans := sdk.PriceEach(req, func(o int) float64 { return req.USDPerHour[o] })
	for i, pool := range req.Pools {
		ans.Pools[i].Steps = map[int][]sdk.Step{}
		for _, o := range pool.Offerings {
			var steps []sdk.Step
			for c, x := range req.Commitments {
				step := sdk.Step{USDPerHour: s.CommittedShare * req.USDPerHour[o], Shared: fmt.Sprint(c), Nodes: max(0, x.Nodes-x.UsedNodes)}
				if step.Nodes == 0 {
					step.SumUSDPerHour = max(0, x.USDPerHour-x.UsedUSDPerHour)
				}
				if x.Covers.Matches(&req.Catalogue.Offerings[o]) && step.Nodes+int(step.SumUSDPerHour*1e6) > 0 && len(steps)+1 < sdk.MaxSteps {
					steps = append(steps, step)
				}
			}
			if len(steps) > 0 {
				ans.Pools[i].Steps[o] = append(steps, sdk.Step{USDPerHour: req.USDPerHour[o]})
			}
		}
	}
	return ans, nil
}

func main() { sdk.Serve(&commitmentsFirst{}) }
