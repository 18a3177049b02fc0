package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/core/strategy"
)

// recordFlags have the calls of a question recorded, as a scaler does with its own.
type recordFlags struct {
	folder  string
	shadows []string
	given   func() bool // --record is there, empty or not
}

func (r *recordFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.folder, "record", "", "folder to record the strategies' calls in, for weir strategy replay, bench, test and shadow report")
	r.given = func() bool { return cmd.Flags().Changed("record") }
	cmd.Flags().StringArrayVar(&r.shadows, "shadow", nil, "strategy to ask beside them, by name or path; what it would have done is recorded; may be repeated (default: shadow of the configuration)")
}

// on says whether anything is recorded; a nil r records nothing.
func (r *recordFlags) on() bool { return r != nil && r.folder != "" }

func (r *recordFlags) check() error {
	if r.given() && r.folder == "" {
		return bad("--record: expected a folder, got \"\"")
	}
	if len(r.shadows) > 0 && !r.on() {
		return bad("--shadow: expected --record beside it: what shadows would have done goes there")
	}
	return nil
}

// pick adds the shadows to the strategies and to what is bound, and answers the options
// with which calls are recorded. Shadows must be of a kind that a question of this kind
// asks: one about consolidation asks for prices, too.
func (r *recordFlags) pick(p *picks, kind string, bound *strategy.Config) (strategy.Options, error) {
	if !r.on() {
		return strategy.Options{}, nil
	}
	if kind == config.Consolidation {
		kind = ""
	}
	for _, nameOrPath := range r.shadows {
		name, err := p.flag("--shadow", kind, nameOrPath)
		if err != nil {
			return strategy.Options{}, err
		}
		bound.Shadow = append(bound.Shadow, name)
	}
	if len(r.shadows) == 0 {
		bound.Shadow = p.cfg.Shadow
		for _, name := range bound.Shadow {
			if err := p.add(name); err != nil {
				return strategy.Options{}, err
			}
		}
	}
	if err := strategy.TryRecords(r.folder); err != nil { // before the work, not after it
		return strategy.Options{}, bad("--record: %w", err)
	}
	return strategy.Options{Records: strategy.RecordOptions{Folder: r.folder}, Cost: planCost}, nil
}

// planCost is what the plan for the waiting pods costs with some prices.
func planCost(ctx context.Context, w *model.World, prices *model.Prices) (strategy.PlanCost, error) {
	mine := *w
	mine.Budget = within(ctx, 0)
	var c strategy.PlanCost
	c.USDPerHour, c.Nodes, c.Unplaced = provision.Cost(provision.Plan(&mine, prices))
	return c, ctx.Err()
}

// catchUp lets shadows see everything before the next question: none is dropped.
func (r *recordFlags) catchUp(ctx context.Context, host *strategy.Host) error {
	if !r.on() {
		return nil
	}
	return host.CatchUp(ctx)
}

// finish writes what is not written yet, and ends the host.
func (r *recordFlags) finish(host *strategy.Host) error {
	host.Close()
	if st := host.Records(); st.Failed+st.Dropped > 0 {
		return fmt.Errorf("--record: %d calls could not be recorded: %s", st.Failed+st.Dropped, st.LastError)
	}
	return nil
}
