package control

import (
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
)

// Planners are the planners of core, as the executor's port wants them.
type Planners struct{}

var _ execute.Planner = Planners{}

// Provision plans for the waiting pods.
func (Planners) Provision(w *model.World, prices *model.Prices) *model.Plan {
	return provision.Plan(w, prices)
}

// Disrupt plans what may start now. A strategy that cannot be asked accepts nothing.
func (Planners) Disrupt(w *model.World, prices *model.Prices, score execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	var failed error
	opts := disrupt.Options{Running: o.Running, Frozen: o.Frozen, Nominated: map[string]time.Time{}}
	for _, n := range w.Nodes {
		if n.Nominated.After(w.Now) {
			opts.Nominated[n.ID()] = n.Nominated
		}
	}
	p := disrupt.Plan(w, prices, func(moves []*model.Command) []model.MoveScore {
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
	return p, nil
}
