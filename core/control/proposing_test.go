package control_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// counting counts the searches.
type counting struct {
	execute.Planner
	searches int
}

func (c *counting) Disrupt(w *model.World, prices *model.Prices, score execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	c.searches++
	return &model.Plan{Kind: model.PlanDisrupt, Made: w.Now}, nil
}

// A strategy that finds moves by itself is asked at every pass, whether anything that the
// host sees has changed or not, and also where the pass before went without it.
func TestProposersAreAskedAtEveryPass(t *testing.T) {
	t.Parallel()
	search := &counting{}
	r := control.Remember(search)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	score := func(moves []*model.Command) ([]model.MoveScore, error) {
		return make([]model.MoveScore, len(moves)), nil
	}
	by := &model.Proposer{Pools: map[string]bool{"p": true}}
	for i, step := range []struct {
		by   *model.Proposer
		want int
	}{{nil, 1}, {nil, 1}, {by, 2}, {by, 3}, {nil, 4}, {nil, 4}} {
		w := &model.World{Now: now.Add(time.Duration(i) * time.Second)}
		if _, err := r.Disrupt(w, nil, score, execute.DisruptOptions{Propose: step.by}); err != nil {
			t.Fatal(err)
		}
		if search.searches != step.want {
			t.Errorf("after pass %d: %d searches, want %d", i, search.searches, step.want)
		}
	}
}
