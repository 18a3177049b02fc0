package disrupt

import "github.com/weir-project/weir/core/model"

// clock remembers that the world's time budget has ended: no time to look at nodes means
// no time to look for a better plan.
type clock struct {
	of          *model.TimeBudget
	short, over bool
}

// timed is the world with a budget that remembers its end; the clock is nil where there
// is none.
func timed(w *model.World) (*model.World, *clock) {
	if w.Budget == nil {
		return w, nil
	}
	c := &clock{of: w.Budget}
	out := *w
	out.Budget = &model.TimeBudget{Limit: w.Budget.Limit, Improve: c.improve, Place: c.place}
	return &out, c
}

func (c *clock) place() bool {
	c.over = c.over || !c.of.MayPlace()
	c.short = c.short || c.over
	return !c.over
}

func (c *clock) improve() bool {
	c.short = c.short || !c.of.MayImprove()
	return !c.short
}

// end has a plan say that its budget ended.
func (c *clock) end(p *model.Plan) {
	if c == nil || !c.short {
		return
	}
	p.Budget = &model.BudgetEnd{Limit: c.of.Limit}
	for _, b := range p.Blocked {
		if b.Reason == BlockedTime {
			p.Budget.Unseen++
		}
	}
	p.Warnings = append(p.Warnings, p.Budget.Text("nodes", "more might be saved"))
}
