package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
)

// TestWarningsSayWhyStrategiesFailed: the reason is printable and bounded, only of those who
// were to answer, and who answered is named.
func TestWarningsSayWhyStrategiesFailed(t *testing.T) {
	t.Parallel()
	var f faults
	f.hear(strategy.Call{Strategy: "member", Level: strategy.LevelPrice, Outcome: strategy.Late, Err: errors.New("a member"), FellBack: []string{"a"}, Rung: strategy.LeftOut})
	prices := &model.Prices{ByPool: map[string]model.PoolPrices{
		"a": {Outcome: "invalid", Strategy: "cost-optimal 1.0.0"}, "b": {Outcome: "ok", Strategy: "mine 0.1.0"}, "c": {Outcome: "ok", Strategy: "mine 0.1.0"}}}
	if d := cmp.Diff([]string{"NodePool a: its strategy did not answer (invalid); cost-optimal 1.0.0 did"}, f.unwell(prices)); d != "" {
		t.Error(d)
	}
	f.hear(strategy.Call{Strategy: "mine", Level: strategy.LevelPrice, Outcome: strategy.Invalid, Err: errors.New("a price of \x1b[2J NaN" + strings.Repeat("!", 2*strategy.MaxError)), FellBack: []string{"a"}, Rung: strategy.ByBuiltin})
	got := strings.Join(f.unwell(prices), "\n")
	if !strings.HasPrefix(got, "NodePool a: its strategy did not answer (invalid: a price of ") || !strings.Contains(got, "NaN") || strings.Contains(got, "\x1b") || len(got) > strategy.MaxError+100 {
		t.Errorf("%d bytes: %.120q", len(got), got)
	}
	f.hear(strategy.Call{Strategy: "careful", Level: strategy.LevelScore, Outcome: strategy.Dead, Err: errors.New("it ended"), Rung: strategy.ByBuiltin})
	if d := cmp.Diff([]string{"a consolidation strategy did not answer (dead: it ended); savings 1.0.0 did"},
		f.unjudged([]model.MoveScore{{Outcome: "dead", Strategy: "savings 1.0.0"}, {Outcome: "ok", Strategy: "careful 1"}})); d != "" {
		t.Error(d)
	}
	for want, p := range map[string]*model.Prices{"cost-optimal, mine": prices, "asked": {}} {
		if got := answeredBy(p, "asked"); got != want {
			t.Errorf("%s answered, want %s", got, want)
		}
	}
}
