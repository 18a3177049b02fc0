package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
)

func newExplain(c *common) *cobra.Command {
	return group("explain", "Ask why something is as it is",
		`explain answers why, with the code by which the controller decides.

It asks manifests (-f) or, where none are named, the cluster of the kubeconfig, of which it
lists what the planners look at and changes nothing; rbac prints the rights that this takes.
Of a cluster every pod and node is read, whatever the question: each bears on the others.`,
		newExplainPod(c), newExplainNode(c), newExplainPool(c), newExplainBudgets(c), newExplainRBAC(c))
}

// oneName takes exactly one argument, the name of one of those.
func oneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return bad("%s: expected the name of one %s, got %d arguments", cmd.CommandPath(), what, len(args))
		}
		if args[0] == "" || strings.Trim(args[0], "/ ") != args[0] {
			return bad("%s: expected the name of one %s, got %q", cmd.CommandPath(), what, args[0])
		}
		return nil
	}
}

// buy is the plan for the pods that wait in the world.
func (s *situation) buy(ctx context.Context, strategy string, w *model.World) (*model.Plan, []string, error) {
	host, name, err := openStrategies(ctx, s, config.InstanceSelection, strategy, nil)
	if err != nil {
		return nil, nil, err
	}
	defer host.Close()
	prices, err := host.Price(ctx, w)
	if err != nil {
		return nil, nil, fmt.Errorf("asking strategy %s: %w", name, err)
	}
	w.Budget = within(ctx, 0)
	plan := provision.Plan(w, prices)
	return plan, append(plan.Warnings, s.faults.unwell(prices)...), nil
}

// unasked checks a --strategy that the answer has no use for, and warns of it.
func (s *situation) unasked(kind, nameOrPath, why string) ([]string, error) {
	if nameOrPath == "" {
		return nil, nil
	}
	if _, err := newPicks(s.config).flag("--strategy", kind, nameOrPath); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("--strategy: %s was not asked: %s", nameOrPath, why)}, nil
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
