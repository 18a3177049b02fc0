package main

import (
	"maps"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
)

// shownPlanner is a planner whose plans to give nodes back are shown to shadows.
type shownPlanner struct {
	execute.Planner
	again execute.Planner // which remembers nothing
	host  *strategy.Host
}

var _ execute.Planner = (*shownPlanner)(nil)

// Disrupt implements execute.Planner.
func (p *shownPlanner) Disrupt(w *model.World, prices *model.Prices, score execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	plan, err := p.Planner.Disrupt(w, prices, score, o)
	if err != nil || plan == nil || o.Frozen != "" {
		return plan, err
	}
	o.Running, o.Paused, o.Held = maps.Clone(o.Running), maps.Clone(o.Paused), maps.Clone(o.Held)
	p.host.ShowMoves(w, plan, func(by *model.Proposer, verdicts func([]*model.Command) ([]model.MoveScore, error)) (*model.Plan, error) {
		again := o
		again.Propose = by
		return p.again.Disrupt(w, prices, verdicts, again)
	})
	return plan, nil
}
