package savings

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/weir-project/weir/plugins/sdk"
)

// Name of the strategy.
const Name = "savings"

// Version of the strategy.
const Version = "1.0.0"

// Defaults of the configuration.
const (
	DefaultFloor     = 1.0
	DefaultUSDPerPod = 0.005
)

// deletionCostUnit is how much of controller.kubernetes.io/pod-deletion-cost counts
// as one more pod: the annotation's range is that of an int32.
const deletionCostUnit = 1 << 27

// moveWeight is what a move is held to disrupt by itself, in pods. It keeps moves
// without pods finite and first.
const moveWeight = 0.1

// Config is the strategy's configuration.
type Config struct {
	// Floor is the least score of an accepted move.
	Floor float64 `json:"floor"`
	// USDPerPod is what the eviction of one pod is held to cost, USD.
	USDPerPod float64 `json:"usdPerPod"`
}

const schema = `{"type": "object", "additionalProperties": false, "properties": {
 "floor": {"type": "number", "minimum": 0, "default": 1, "description": "least score of an accepted move; 0 refuses nothing that saves money"},
 "usdPerPod": {"type": "number", "exclusiveMinimum": 0, "default": 0.005, "description": "what the eviction of one pod is held to cost, USD"}}}`

// Strategy is the strategy; New makes one.
type Strategy struct{ config Config }

// New is the strategy with its defaults.
func New() *Strategy {
	return &Strategy{config: Config{Floor: DefaultFloor, USDPerPod: DefaultUSDPerPod}}
}

// Describe implements sdk.Strategy.
func (s *Strategy) Describe() sdk.Description {
	return sdk.Description{Name: Name, Version: Version, Summary: "money saved per hour against pods moved, with a floor", ConfigSchema: schema, Deterministic: true}
}

// Configure implements sdk.Strategy.
func (s *Strategy) Configure(config json.RawMessage) error {
	c := New().config
	if err := sdk.Decode(config, &c); err != nil {
		return err
	}
	if c.Floor < 0 {
		return &sdk.ConfigError{Field: "floor", Message: "want 0 or more"}
	}
	if c.USDPerPod <= 0 || c.USDPerPod > sdk.MaxUSDPerHour {
		return &sdk.ConfigError{Field: "usdPerPod", Message: "want more than 0 and at most 1000000 USD"}
	}
	s.config = c
	return nil
}

// Score implements sdk.Scorer.
func (s *Strategy) Score(_ context.Context, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	ans := &sdk.ScoreAnswer{Verdicts: make([]sdk.Verdict, len(req.Moves))}
	for i := range req.Moves {
		ans.Verdicts[i] = s.judge(&req.Moves[i])
	}
	return ans, nil
}

// judge counts the saving at the dearest alternative: it is what may be paid.
func (s *Strategy) judge(m *sdk.Move) sdk.Verdict {
	saved := m.USDPerHourBefore - math.Max(m.USDPerHourAfter, m.USDPerHourWorst)
	pods := float64(m.PodsEvicted) + math.Max(0, float64(m.PodDeletionCost)/deletionCostUnit)
	score := saved / ((pods + moveWeight) * s.config.USDPerPod)
	v := sdk.Verdict{Accept: true, Score: score,
		Reason: fmt.Sprintf("saves %.4f USD/h for %d pods moved, score %.2f", saved, m.PodsEvicted, score)}
	if m.Reason != "Empty" && m.Reason != "Underutilized" {
		return v
	}
	switch {
	case saved <= 0:
		v.Accept, v.Reason = false, fmt.Sprintf("saves nothing: %.4f USD/h before, %.4f after at worst", m.USDPerHourBefore, m.USDPerHourBefore-saved)
	case score < s.config.Floor:
		v.Accept, v.Reason = false, v.Reason+fmt.Sprintf(" is under the floor of %g", s.config.Floor)
	}
	return v
}
