package main

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/core/report"
)

type provisionOptions struct {
	inputs
	output
	strategy string
	budget   time.Duration
	record   recordFlags
}

func newSimulateProvision(c *common) *cobra.Command {
	o := &provisionOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "provision [-f FILE]",
		Short: "Show what would be bought for the waiting pods",
		Long: `provision shows which nodes would be bought for the pods that wait, which pods go on
nodes that are there, and for each pod without a place the filter of each NodePool that
stood in its way. Totals carry a proven lower bound of the price.

A pod waits if it is bound to no node, has not ended, is not gated, will not preempt
others, and belongs to no DaemonSet. Deployments and the like count with their replicas
where files have no pods of theirs.

Without -f it asks the cluster of the kubeconfig, of which it lists what planning looks at
and changes nothing (weir explain rbac prints the rights). What the controller alone knows,
such as recent shortages, is not in it.`,
		Example: `  weir simulate provision -f pools.yaml -f pods.yaml
  weir simulate provision --context prod --zones eu-west-1a,eu-west-1b
  weir simulate provision -f manifests/ --zones us-east-1a,us-east-1b -o json
  weir simulate provision -f pools.yaml -f pods.yaml --strategy first-fit
  weir simulate provision -f pools.yaml -f pods.yaml --record records --shadow ./mine`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.inputs.registerCluster(cmd)
	o.output.register(cmd)
	cmd.Flags().StringVar(&o.strategy, "strategy", "", "built-in or configured strategy by name, or the path of an executable; what the configuration binds if left out")
	cmd.Flags().DurationVar(&o.budget, "budget", 0, "how long planning may take: after that the best plan so far is shown, and said to be so; 0 = as long as it does")
	o.record.register(cmd)
	return cmd
}

func (o *provisionOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
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
	host, name, err := openStrategies(ctx, s, config.InstanceSelection, o.strategy, &o.record)
	if err != nil {
		return err
	}
	defer host.Close()
	prices, err := host.Price(ctx, s.world)
	if err != nil {
		return err
	}
	prices = host.Draft(ctx, s.world, prices)
	s.world.Budget = within(ctx, o.budget)
	plan := provision.Plan(s.world, prices)
	if err := errors.Join(o.record.catchUp(ctx, host), o.record.finish(host)); err != nil {
		return err
	}
	t := report.Timings{LoadSeconds: report.Number(s.loaded.Seconds()), SolveSeconds: report.Number(time.Since(s.began).Seconds()), PeakHeapBytes: heap.close()}
	return o.answer(o.format, report.Provision(s.world, plan, answeredBy(prices, name), t, append(s.warnings, s.faults.unwell(prices)...)))
}

// answer writes a report to standard output, unless the command was interrupted: what was
// made in haste is no answer.
func (c *common) answer(format string, r report.Tabler) error {
	if c.ended != nil {
		if err := c.ended(); err != nil {
			return err
		}
	}
	w := bufio.NewWriter(c.out)
	if err := report.Write(w, format, r); err != nil {
		return err
	}
	return w.Flush()
}
