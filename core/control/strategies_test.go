package control_test

import (
	"slices"
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
	late := control.StrategyFault{Name: "carbon", Version: "1.2", Kind: "instance-selection", Level: "price", Outcome: "late", Rung: "built-in", Error: "no answer"}
	sun := control.StrategyFault{Name: "sun", Outcome: "dead", Rung: "left-out", Error: "broken"}
	for _, tt := range []struct {
		in                    control.Strategies
		pool, answers, fenced string
		says                  string
	}{
		{control.Strategies{}, "other", "True", "True", ""},
		{control.Strategies{Faults: []control.StrategyFault{late}}, "other", "False", "True", late.String()},
		{control.Strategies{Faults: []control.StrategyFault{late}}, "default", "True", "True", ""},
		{control.Strategies{Unfenced: map[string]string{"savings": "no Landlock"}}, "default", "True", "False", "savings: no Landlock"},
		{control.Strategies{Unfenced: map[string]string{"carbon": "no Landlock", "savings": "no Landlock"}}, "other", "True", "False", "carbon: no Landlock; savings: no Landlock"},
		{control.Strategies{Chains: map[string][]string{"carbon": {"wind", "sun"}}, Faults: []control.StrategyFault{sun}, Unfenced: map[string]string{"wind": "no Landlock"}},
			"other", "False", "False", sun.String() + "wind: no Landlock"},
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
		if e.Reason == control.ConditionAnswer && e.Object.Name == "other" && strings.Contains(e.Message, "Reason: StrategyLate") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d events of the fall-back, want 1: %+v", told, s.API.Events)
	}
}

// Whatever is new about the strategy of a pool is a warning on it: how it fails, who answers
// instead, which strategy it is, a name that nobody has, and that it was taken back.
func TestPoolsWarnOfTheirStrategies(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.Spot))
	s.Run(15 * time.Second)
	fault := control.StrategyFault{Name: "carbon", Version: "1.2", Kind: "instance-selection", Level: "price", Outcome: "late", Rung: "last-good", Error: "no answer"}
	dead, builtin, other, elsewhere := fault, fault, fault, fault
	dead.Kind, dead.Level, dead.Outcome, dead.Error = "", "", "dead", "backing-off: the process ended; it said: panic: a bug"
	builtin.Rung = "built-in"
	other.Name = "lunar"
	elsewhere.Kind = "consolidation"
	back := []control.StrategyRollBack{{Name: "carbon", Serves: "carbon", From: "carbon 1.3", To: "carbon 1.2", Why: "late: no answer", At: time.Unix(1, 0)}}
	steps := []struct {
		bound string
		in    control.Strategies
		want  string // the warning, empty = none
	}{
		{"carbon", control.Strategies{Faults: []control.StrategyFault{fault}}, "StrategyLate carbon 1.2 (instance-selection price) is late, the version before it answers: no answer"},
		{"carbon", control.Strategies{Faults: []control.StrategyFault{fault, elsewhere}}, ""},
		{"carbon", control.Strategies{Faults: []control.StrategyFault{dead}}, "StrategyDead carbon 1.2 is dead, the version before it answers: backing-off: the process ended; it said: panic: a bug"},
		{"carbon", control.Strategies{Faults: []control.StrategyFault{builtin}}, "StrategyLate carbon 1.2 (instance-selection price) is late, the built-in answers: no answer"},
		{"lunar", control.Strategies{Faults: []control.StrategyFault{builtin, other}}, "StrategyLate lunar 1.2 (instance-selection price) is late, the version before it answers: no answer"},
		{"carbon", control.Strategies{Serving: []string{"carbon", "savings"}, RollBacks: back}, "StrategyRolledBack carbon 1.3 was taken out of service for carbon 1.2: late: no answer"},
		{"carbon", control.Strategies{Serving: []string{"carbon", "savings"}, RollBacks: back}, ""},
		{"no-such", control.Strategies{Serving: []string{"carbon", "savings"}, RollBacks: back}, "StrategyUnknown no-such (instance-selection) is unknown, the built-in answers: no strategy of this name is in service"},
	}
	for i, tt := range steps {
		before := len(s.API.Events)
		tt.in.InstanceSelection, tt.in.Consolidation = tt.bound, "savings"
		s.current.in = append(s.current.in, tt.in)
		s.Run(3 * time.Minute) // longer than equal events are held back
		var got []string
		for _, e := range s.API.Events[before:] {
			if e.Warning && strings.HasPrefix(e.Reason, "Strategy") {
				got = append(got, e.Object.Name+" "+e.Reason+" "+e.Message)
			}
		}
		var want []string
		if tt.want != "" {
			want = []string{"default " + tt.want}
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %d: warnings %q, want %q", i, got, want)
		}
	}
	if c := s.condition("default", control.ConditionAnswer); c.Status != "False" || c.Reason != "StrategyUnknown" {
		t.Errorf("a name that nobody has: %+v", c)
	}
}
