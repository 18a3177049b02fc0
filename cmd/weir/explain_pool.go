package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/core/report"
)

type explainPoolOptions struct {
	inputs
	output
	strategy string
}

func newExplainPool(c *common) *cobra.Command {
	o := &explainPoolOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "pool NAME [-f FILE]",
		Short: "Show what limits a NodePool",
		Long: `pool explains one NodePool: whether it can be used, what a small pod that it alone may serve
would get or which filter refuses it, how much of its limits is used, how many instance types
and offerings its requirements leave, its conditions as the controller last wrote them, and
what its disruption budgets allow now.`,
		Example: `  weir explain pool default --context prod
  weir explain pool default -f cluster.yaml
  weir explain pool default -f cluster.yaml -o json`,
		Args: oneName("NodePool"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.inputs.registerCluster(cmd)
	o.output.register(cmd)
	cmd.Flags().StringVar(&o.strategy, "strategy", "", "built-in or configured strategy by name, or the path of an executable; what the configuration binds if left out")
	return cmd
}

func (o *explainPoolOptions) run(ctx context.Context, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := o.ask(ctx)
	if err != nil {
		return err
	}
	p, err := s.findPool(name)
	if err != nil {
		return err
	}
	x := report.Pool(s.world, p, s.conditions[p.Name])
	x.Disruption = budgetsOf(s.world, p)
	x.Warnings = append(x.Warnings, s.warnings...)
	if x.State == "" {
		w := *s.world
		probe := probeOf(p)
		w.Pods = []*model.Pod{probe}
		plan, said, err := s.buy(ctx, o.strategy, &w)
		if err != nil {
			return err
		}
		x.Warnings = append(x.Warnings, said...)
		x.Probed(report.Planned(probe, plan))
	} else {
		said, err := s.unasked(config.InstanceSelection, o.strategy, "the NodePool cannot be used")
		if err != nil {
			return err
		}
		x.Warnings = append(x.Warnings, said...)
	}
	return o.answer(o.format, x)
}

// probeOf is a small pod that only a new node of the pool may serve, or one on its way.
func probeOf(p *model.Pool) *model.Pod {
	return &model.Pod{Name: "probe", Namespace: "default", UID: "probe", Unschedulable: true, Requests: resource.New(1, 1<<20, 1, 0),
		Terms:       []require.Set{require.NewSet(require.Must(model.LabelPool, require.In, p.Name), require.Must(model.LabelRegistered, require.DoesNotExist))},
		Tolerations: []model.Toleration{{Operator: "Exists"}}}
}

type explainBudgetsOptions struct {
	inputs
	output
}

func newExplainBudgets(c *common) *cobra.Command {
	o := &explainBudgetsOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "budgets [NODEPOOL] [-f FILE]",
		Short: "Show what the disruption budgets allow now, and when that changes",
		Long: `budgets explains the disruption budgets of one NodePool, or of all: how many nodes more may be
disrupted now for each reason, until when that holds, which nodes count as disrupted already,
and of each budget whether it restricts now, when its window ends and when the next one opens.

What is on its way in a running controller and not yet shown on a node is not seen. Forced
removals (expiry, interruptions, repair) are outside of budgets.`,
		Example: `  weir explain budgets default -f cluster.yaml
  weir explain budgets -f cluster.yaml --now 2026-03-07T22:00:00Z -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return bad("%s: expected the name of one NodePool or none, got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs.registerCluster(cmd)
	o.output.register(cmd)
	return cmd
}

func (o *explainBudgetsOptions) run(ctx context.Context, names []string) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := o.ask(ctx)
	if err != nil {
		return err
	}
	pools := s.world.Pools
	if len(names) == 1 {
		p, err := s.findPool(names[0])
		if err != nil {
			return err
		}
		pools = []*model.Pool{p}
	}
	x := &report.BudgetsExplanation{Kind: "BudgetsExplanation", Now: report.Deadline(&s.world.Now), Pools: []report.PoolBudgets{}, Warnings: append([]string{}, s.warnings...)}
	if len(pools) == 0 {
		x.Warnings = append(x.Warnings, "there is no NodePool in the input")
	}
	for _, p := range pools {
		x.Pools = append(x.Pools, budgetsOf(s.world, p))
	}
	return o.answer(o.format, x)
}

// budgetsOf is what the budgets of a pool say now.
func budgetsOf(w *model.World, p *model.Pool) report.PoolBudgets {
	total, lost := disrupt.Disrupting(w, p.Name, nil)
	x := report.PoolBudgets{NodePool: p.Name, Policy: string(p.Policy), ConsolidateAfter: "Never", Nodes: total, TimeZone: disrupt.TimeZone(p),
		InFlight: []report.InFlight{}, Allowed: []report.Allowed{}, Budgets: []report.Budget{}}
	if p.ConsolidateAfter != model.Never {
		x.ConsolidateAfter = p.ConsolidateAfter.String()
	}
	for _, f := range disrupt.InFlight(w, p.Name) {
		x.InFlight = append(x.InFlight, report.InFlight{Node: f.Node.ID(), Why: f.Why})
	}
	for _, r := range []model.DisruptionReason{model.Empty, model.Underutilized, model.Drifted} {
		a := disrupt.Allowed(p, r, total, lost, w.Now)
		out := report.Allowed{Reason: string(r), Nodes: a.Nodes, Unlimited: a.Nodes == disrupt.Unlimited, Until: report.Deadline(a.Until), Message: a.Why}
		if out.Unlimited {
			out.Nodes = 0
		}
		x.Allowed = append(x.Allowed, out)
	}
	states, err := disrupt.BudgetStates(p, total, w.Now)
	if err != nil {
		x.Problem = err.Error()
	}
	for _, s := range states {
		b := report.Budget{Nodes: s.Budget.Nodes, Allows: s.Nodes, Reasons: []string{}, Schedule: s.Budget.Schedule, Active: s.Active, Ends: report.Deadline(s.Ends), Opens: report.Deadline(s.Opens)}
		for _, r := range s.Budget.Reasons {
			b.Reasons = append(b.Reasons, string(r))
		}
		if s.Budget.Schedule != "" {
			b.Duration = s.Budget.Duration.String()
		}
		x.Budgets = append(x.Budgets, b)
	}
	return x
}
