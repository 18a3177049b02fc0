package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
)

func newExplain(c *common) *cobra.Command {
	return group("explain", "Ask why something is as it is",
		"explain answers why, with the code by which the controller decides.",
		newExplainPod(c), newExplainNode(c), newExplainPool(c), newExplainBudgets(c))
}

// oneName takes exactly one argument, the name of one of those.
func oneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return bad("%s: expected the name of one %s, got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// buy is the plan for the pods that wait in the world.
func (s *situation) buy(ctx context.Context, strategy string, w *model.World) (*model.Plan, []string, error) {
	host, name, err := openStrategies(ctx, s, config.InstanceSelection, strategy)
	if err != nil {
		return nil, nil, err
	}
	defer host.Close()
	prices, err := host.Price(ctx, w)
	if err != nil {
		return nil, nil, fmt.Errorf("asking strategy %s: %w", name, err)
	}
	plan := provision.Plan(w, prices)
	return plan, append(plan.Warnings, unwell(prices)...), nil
}

// findPool is the NodePool of that name.
func (s *situation) findPool(name string) (*model.Pool, error) {
	if p := s.world.Pool(name); p != nil {
		return p, nil
	}
	var names []string
	for _, p := range s.world.Pools {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return nil, bad("NodePool %q is not in the input, expected one of %v%s", name, names, didYouMean(name, names, ""))
}
