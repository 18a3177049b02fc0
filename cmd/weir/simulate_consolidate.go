package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/report"
)

type consolidateOptions struct {
	inputs
	output
	strategy string
	floor    float64
	hasFloor bool
	budget   time.Duration
	record   recordFlags
}

func newSimulateConsolidate(c *common) *cobra.Command {
	o := &consolidateOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "consolidate [-f FILE]",
		Short: "Show which nodes would be given back",
		Long: `consolidate shows which nodes would be given back because they are empty, drifted or
under-used, wave by wave within the disruption budgets that hold at --now, and for every
node that stays the reason, and until when it holds where that is known.

Each command is strictly cheaper than what it replaces, and names where every pod goes.
Totals carry a proven lower bound: what nodes cost that nothing may take away now, and what
the pods of the others would cost at least beside them.
Nodes past their expireAfter are named in a warning: the controller ends those by itself,
whatever they cost.

Without -f it asks the cluster of the kubeconfig, of which it lists what planning looks at
and changes nothing (weir explain rbac prints the rights).`,
		Example: `  weir simulate consolidate --context prod --zones eu-west-1a,eu-west-1b
  kubectl get nodepools,ec2nodeclasses,nodeclaims,nodes,pods,pdb,ds -A -o yaml > cluster.yaml
  weir simulate consolidate -f cluster.yaml
  weir simulate consolidate -f cluster.yaml --now 2026-03-07T03:00:00Z --floor 0 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.hasFloor = cmd.Flags().Changed("floor")
			return o.run(cmd.Context())
		},
	}
	o.inputs.registerCluster(cmd)
	o.output.register(cmd)
	cmd.Flags().StringVar(&o.strategy, "strategy", "", "built-in or configured strategy by name, or the path of an executable; what the configuration binds if left out")
	cmd.Flags().DurationVar(&o.budget, "budget", 0, "how long planning may take: after that the best plan so far is shown, and said to be so; 0 = as long as it does")
	cmd.Flags().Float64Var(&o.floor, "floor", 0, "least score of an accepted command, in place of the strategy's own verdict; 0 refuses nothing that is strictly cheaper")
	cmd.Flags().Lookup("floor").DefValue = ""
	o.record.register(cmd)
	return cmd
}

func (o *consolidateOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	if math.IsNaN(o.floor) || math.IsInf(o.floor, 0) || o.floor < 0 {
		return bad("--floor: expected a number of at least 0, got %v", o.floor)
	}
	if o.budget < 0 {
		return bad("--budget: expected a duration of at least 0, got %s", o.budget)
	}
	if err := o.record.check(); err != nil {
		return err
	}
	heap := watchHeap()
	s, err := o.ask(ctx)
	if err != nil {
		return err
	}
	host, name, err := openStrategies(ctx, s, config.Consolidation, o.strategy, &o.record)
	if err != nil {
		return err
	}
	defer host.Close()
	var failed error
	var talk []string
	score := func(moves []*model.Command) []model.MoveScore {
		scores, err := host.Score(ctx, s.world, moves)
		if err = errors.Join(err, o.record.catchUp(ctx, host)); err != nil {
			failed = err
		}
		talk = append(talk, s.faults.unjudged(scores)...)
		if o.hasFloor {
			refloor(scores, o.floor)
		}
		return scores
	}
	prices, err := host.Price(ctx, s.world)
	if err != nil {
		return fmt.Errorf("asking for prices: %w", err)
	}
	s.world.Budget = within(ctx, o.budget)
	plan := disrupt.Plan(s.world, prices, score, disrupt.Options{Waves: true, Bound: true, Propose: host.Proposer(ctx, s.world)})
	if failed != nil {
		return fmt.Errorf("asking strategy %s: %w", name, failed)
	}
	if err := o.record.finish(host); err != nil {
		return err
	}
	t := report.Timings{LoadSeconds: report.Number(s.loaded.Seconds()), SolveSeconds: report.Number(time.Since(s.began).Seconds()), PeakHeapBytes: heap.close()}
	return o.answer(o.format, report.Disruption(s.world, plan, name, t, slices.Concat(s.warnings, expiredWarning(s.world), s.faults.unwell(prices), distinct(talk))))
}

// refloor replaces the strategy's verdicts by a comparison with the floor.
func refloor(scores []model.MoveScore, floor float64) {
	for i := range scores {
		s := &scores[i]
		s.Accept = s.Score >= floor
		if !s.Accept {
			s.Reason = fmt.Sprintf("its score is under the floor of %g", floor)
		}
	}
}

// expiredWarning names nodes that age has overtaken at this instant.
func expiredWarning(w *model.World) []string {
	var names []string
	for _, n := range w.Nodes {
		if p := w.Pool(n.Pool()); n.Managed() && n.Claim.Deleting == nil && disrupt.Expired(w, n.Claim) && (p == nil || !p.BudgetedExpiry()) {
			names = append(names, n.ID())
		}
	}
	if len(names) == 0 {
		return nil
	}
	shown := names
	if len(shown) > 3 {
		shown = append(append([]string{}, names[:3]...), fmt.Sprintf("and %d more", len(names)-3))
	}
	return []string{fmt.Sprintf("%d of %d nodes are past their expireAfter at %s (%s): the controller ends them by itself; this plan leaves that out", len(names), len(w.Nodes), w.Now.Format(time.RFC3339), strings.Join(shown, ", "))}
}
