package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/model"
)

// A strategy that somebody else answers for, or that is not fenced in, shows on the pools
// that it decides for and on no other, with an event when that changes.
func TestPoolsTellOfTheirStrategies(t *testing.T) {
	t.Parallel()
	other := pool("other", model.Spot)
	other.Annotations = map[string]string{model.AnnotationInstanceSelection: "carbon"}
	s := newScene(t, nil, pool("default", model.Spot), other)
	s.Run(15 * time.Second)
	if c := s.condition("default", control.ConditionAnswer); c.Type != "" {
		t.Errorf("condition %+v although nobody told of strategies", c)
	}
	for _, tt := range []struct {
		in                    control.Strategies
		pool, answers, fenced string
		says                  string
	}{
		{control.Strategies{}, "other", "True", "True", ""},
		{control.Strategies{Faults: map[string]string{"carbon": "its last call was late"}}, "other", "False", "True", "carbon: its last call was late"},
		{control.Strategies{Faults: map[string]string{"carbon": "its last call was late"}}, "default", "True", "True", ""},
		{control.Strategies{Unfenced: map[string]string{"savings": "no Landlock"}}, "default", "True", "False", "savings: no Landlock"},
		{control.Strategies{Unfenced: map[string]string{"carbon": "no Landlock", "savings": "no Landlock"}}, "other", "True", "False", "carbon: no Landlock; savings: no Landlock"},
		{control.Strategies{}, "other", "True", "True", ""},
	} {
		tt.in.InstanceSelection, tt.in.Consolidation = "cost-optimal", "savings"
		s.current.in = append(s.current.in, tt.in)
		s.Run(15 * time.Second)
		a, f := s.condition(tt.pool, control.ConditionAnswer), s.condition(tt.pool, control.ConditionFenced)
		if a.Status != tt.answers || f.Status != tt.fenced || a.Message+f.Message != tt.says {
			t.Errorf("%+v: pool %s has %+v and %+v", tt.in, tt.pool, a, f)
		}
	}
	told := 0
	for _, e := range s.API.Events {
		if e.Reason == control.ConditionAnswer && e.Object.Name == "other" && strings.Contains(e.Message, "Reason: StrategyFellBack") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d events of the fall-back, want 1: %+v", told, s.API.Events)
	}
}
