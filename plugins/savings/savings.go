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
const Version = "1.1.0"

// Defaults of the configuration.
const (
	DefaultFloor     = 1.0
	DefaultUSDPerPod = 0.005
	DefaultHorizon   = 1.0
	DefaultYoung     = 1.0
	DefaultRestart   = 0.1
)

// How much of controller.kubernetes.io/pod-deletion-cost, and of a priority, counts as one
// more pod: what Kubernetes lets users set comes to 16 and 30 pods at most.
const (
	deletionCostUnit = 1 << 27
	priorityUnit     = 1 << 25
)

// moveWeight is what a move is held to disrupt by itself, in pods. It keeps moves
// without pods finite and first.
const moveWeight = 0.1

// Config is the strategy's configuration.
type Config struct {
	// Floor is the least score of an accepted move.
	Floor float64 `json:"floor"`
	// USDPerPod is what the eviction of one pod is held to cost, USD.
	USDPerPod float64 `json:"usdPerPod"`
	// HorizonHours is for how long money is held to be saved at most; less where a node
	// expires before.
	HorizonHours float64 `json:"horizonHours"`
	// YoungPod is as how many pods more one counts that was started less than ten minutes ago:
	// it would hardly have begun to work.
	YoungPod float64 `json:"youngPod"`
	// Restart is as how many pods more each restart counts that a pod has had, one in sum
	// for each pod: it starts with difficulty.
	Restart float64 `json:"restart"`
}

const schema = `{"type": "object", "additionalProperties": false, "properties": {
 "floor": {"type": "number", "minimum": 0, "default": 1, "description": "least score of an accepted move; 0 refuses nothing that saves money"},
 "usdPerPod": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000000, "default": 0.005, "description": "what the eviction of one pod is held to cost, USD"},
 "horizonHours": {"type": "number", "exclusiveMinimum": 0, "maximum": 8760, "default": 1, "description": "hours that a saving is held to last at most; less where the node expires before"},
 "youngPod": {"type": "number", "minimum": 0, "maximum": 1000, "default": 1, "description": "as how many pods more one counts that was started less than ten minutes ago"},
 "restart": {"type": "number", "minimum": 0, "maximum": 1000, "default": 0.1, "description": "as how many pods more each restart of a pod's containers counts, in sum at most one for each pod"}}}`

// Strategy is the strategy; New makes one.
type Strategy struct{ config Config }

// New is the strategy with its defaults.
func New() *Strategy {
	return &Strategy{config: Config{Floor: DefaultFloor, USDPerPod: DefaultUSDPerPod, HorizonHours: DefaultHorizon, YoungPod: DefaultYoung, Restart: DefaultRestart}}
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
	switch {
	case !(c.HorizonHours > 0 && c.HorizonHours <= 8760):
		return &sdk.ConfigError{Field: "horizonHours", Message: "want more than 0 and at most 8760"}
	case !(c.YoungPod >= 0 && c.YoungPod <= 1000):
		return &sdk.ConfigError{Field: "youngPod", Message: "want 0 to 1000"}
	case !(c.Restart >= 0 && c.Restart <= 1000):
		return &sdk.ConfigError{Field: "restart", Message: "want 0 to 1000"}
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
	if m.Reason != "Empty" { // which goes all the same: nobody is disturbed
		saved -= m.Committed
	}
	score := saved * s.lasts(m) / ((s.pods(m) + moveWeight) * s.config.USDPerPod)
	v := sdk.Verdict{Accept: true, Score: score,
		Reason: fmt.Sprintf("saves %.4f USD/h for %d pods moved, score %.2f", saved, m.PodsEvicted, score)}
	if m.Reason != "Empty" && m.Reason != "Underutilized" {
		return v
	}
	switch {
	case saved <= 0:
		v.Accept, v.Reason = false, fmt.Sprintf("saves nothing: %.4f USD/h before, %.4f after at worst%s", m.USDPerHourBefore, math.Max(m.USDPerHourAfter, m.USDPerHourWorst), paidAnyhow(m))
	case score < s.config.Floor:
		v.Accept, v.Reason = false, v.Reason+fmt.Sprintf(" is under the floor of %g", s.config.Floor)
	}
	return v
}

// paidAnyhow tells of commitments, where there are any.
func paidAnyhow(m *sdk.Move) string {
	if m.Committed == 0 {
		return ""
	}
	return fmt.Sprintf(", %.4f is paid for anyhow", m.Committed)
}

// pods is as how many ordinary pods those count that the move evicts.
func (s *Strategy) pods(m *sdk.Move) float64 {
	var f sdk.PodFacts
	for i := range m.Remove {
		f.Priorities += m.Remove[i].Priorities
		f.Young += m.Remove[i].Young
		f.Restarts += m.Remove[i].Restarts
	}
	evicted := float64(m.PodsEvicted)
	pods := evicted + math.Max(0, float64(m.PodDeletionCost)/deletionCostUnit) + math.Max(0, float64(f.Priorities)/priorityUnit)
	return pods + s.config.YoungPod*float64(f.Young) + math.Min(s.config.Restart*float64(f.Restarts), evicted)
}

// lasts is for how many hours the move saves money: until the first of its nodes would
// have expired anyhow.
func (s *Strategy) lasts(m *sdk.Move) float64 {
	hours := s.config.HorizonHours
	for i := range m.Remove {
		if left := m.Remove[i].Expires; left > 0 {
			hours = math.Min(hours, left.Hours())
		}
	}
	return hours
}
