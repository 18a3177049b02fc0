package main

import (
	"context"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/core/strategy"
)

// planCost is what the waiting pods of a world would cost with some prices. It plans as
// the controller does and within the same time, on a world that it does not change.
func planCost(_ context.Context, w *model.World, prices *model.Prices) (strategy.PlanCost, error) {
	mine := *w
	mine.Budget = model.Within(w.Settings.PlanningBudget, time.Now)
	var c strategy.PlanCost
	c.USDPerHour, c.Nodes, c.Unplaced = provision.Cost(provision.Plan(&mine, prices))
	return c, nil
}
