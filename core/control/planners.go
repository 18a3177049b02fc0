package control

import (
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
)

// Planners are the planners of core, as the executor's port wants them.
type Planners struct {
	// Now is the clock of time budgets, which the planners themselves must not know. Nil =
	// plans take as long as they do, so that the same world always has the same plan.
	Now func() time.Time
}

var _ execute.Planner = Planners{}

// Provision plans for the waiting pods.
func (p Planners) Provision(w *model.World, prices *model.Prices) *model.Plan {
	return provision.Plan(p.timed(w), prices)
}

// timed is the world with the budget that its settings give to a plan from now on.
func (p Planners) timed(w *model.World) *model.World {
	if p.Now == nil || w.Settings.PlanningBudget <= 0 {
		return w
	}
	out := *w
	out.Budget = model.Within(w.Settings.PlanningBudget, p.Now)
	return &out
}

// Disrupt plans what may start now. A strategy that cannot be asked accepts nothing.
func (p Planners) Disrupt(w *model.World, prices *model.Prices, score execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	var failed error
	opts := disrupt.Options{Running: o.Running, Frozen: o.Frozen, Paused: o.Paused, Held: o.Held, Nominated: nominated(w), Propose: o.Propose}
	plan := disrupt.Plan(p.timed(w), prices, func(moves []*model.Command) []model.MoveScore {
		answers, err := score(moves)
		if err != nil {
			failed = err
			return nil
		}
		return answers
	}, opts)
	if failed != nil {
		return nil, failed
	}
	return plan, nil
}

// nominated is the nodes that waiting pods have been promised, and until when.
func nominated(w *model.World) map[string]time.Time {
	out := map[string]time.Time{}
	for _, n := range w.Nodes {
		if n.Nominated.After(w.Now) {
			out[n.ID()] = n.Nominated
		}
	}
	return out
}
