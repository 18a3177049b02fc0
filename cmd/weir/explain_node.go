package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/report"
)

type explainNodeOptions struct {
	inputs
	output
	strategy string
}

func newExplainNode(c *common) *cobra.Command {
	o := &explainNodeOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "node NAME [-f FILE]",
		Short: "Show why a node stays, or what is in the way of its drain",
		Long: `node explains one node, by its name, that of its NodeClaim, or the id of its instance.

Of a node that stays it says why, and until when that holds where that is known; of one that
the next plan takes away, what that saves. Of a node that is being removed it says since when,
by when, and which pods are in the way: by what PodDisruptionBudget or annotation, since when,
and when they are deleted all the same. Pods that would be in the way of a drain now are named
of every node.`,
		Example: `  weir explain node ip-10-0-1-2.ec2.internal --context prod
  kubectl get nodepools,ec2nodeclasses,nodeclaims,nodes,pods,pdb,ds -A -o yaml > cluster.yaml
  weir explain node ip-10-0-1-2.ec2.internal -f cluster.yaml
  weir explain node i-0123456789abcdef0 -f cluster.yaml -o json`,
		Args: oneName("node"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.inputs.registerCluster(cmd)
	o.output.register(cmd)
	cmd.Flags().StringVar(&o.strategy, "strategy", "", "built-in or configured strategy by name, or the path of an executable; what the configuration binds if left out")
	return cmd
}

func (o *explainNodeOptions) run(ctx context.Context, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := o.ask(ctx)
	if err != nil {
		return err
	}
	n, err := findNode(s.world, name)
	if err != nil {
		return err
	}
	var deadline time.Time
	warnings := s.warnings
	if n.Claim != nil {
		at, ok, err := claim.Deadline(n.Claim)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("the annotation %s of NodeClaim %s cannot be read, which holds up its removal: %v", model.AnnotationTerminationTimestamp, n.Claim.Name, err))
		}
		if ok {
			deadline = at
		}
	}
	terms, removal, _ := report.Removing(n, deadline)
	blockers := drain.Explain(terms, n, n.Pods, s.world.PDBs, s.world.Now)
	plan := &model.Plan{}
	if removal == nil {
		var talk []string
		if plan, talk, err = o.plan(ctx, s); err != nil {
			return err
		}
		warnings = append(warnings, talk...)
	} else {
		said, err := s.unasked(config.Consolidation, o.strategy, "the node is being removed")
		if err != nil {
			return err
		}
		warnings = append(warnings, said...)
	}
	return o.answer(o.format, report.Node(n, plan, removal, blockers, warnings))
}

// plan is what would be removed now, with the strategies that did not answer.
func (o *explainNodeOptions) plan(ctx context.Context, s *situation) (*model.Plan, []string, error) {
	host, name, err := openStrategies(ctx, s, config.Consolidation, o.strategy, nil)
	if err != nil {
		return nil, nil, err
	}
	defer host.Close()
	var failed error
	var talk []string
	score := func(moves []*model.Command) []model.MoveScore {
		scores, err := host.Score(ctx, s.world, moves)
		if err != nil {
			failed = err
		}
		talk = append(talk, s.faults.unjudged(scores)...)
		return scores
	}
	prices, err := host.Price(ctx, s.world)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for prices: %w", err)
	}
	plan := disrupt.Plan(s.world, prices, score, disrupt.Options{Waves: true})
	if failed != nil {
		return nil, nil, fmt.Errorf("asking strategy %s: %w", name, failed)
	}
	return plan, append(s.faults.unwell(prices), distinct(talk)...), nil
}

// findNode is the node of that name, NodeClaim or instance.
func findNode(w *model.World, name string) (*model.Node, error) {
	var names []string
	for _, n := range w.Nodes {
		if n.Name == name || n.Claim != nil && n.Claim.Name == name || n.ProviderID != "" && model.InstanceID(n.ProviderID) == name {
			return n, nil
		}
		names = append(names, n.ID())
	}
	hint := didYouMean(name, names, "")
	if hint == "" && len(names) > 0 {
		hint = fmt.Sprintf("; the input has %d, such as %s", len(names), strings.Join(names[:min(3, len(names))], ", "))
	}
	return nil, bad("node %q is not in the input%s", name, hint)
}
