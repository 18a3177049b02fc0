package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/report"
)

type explainPodOptions struct {
	inputs
	output
	namespace string
	strategy  string
}

func newExplainPod(c *common) *cobra.Command {
	o := &explainPodOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "pod [NAMESPACE/]NAME [-f FILE]",
		Short: "Show why a pod waits, and what it would get",
		Long: `pod explains one pod, planned together with all others that wait.

Of a pod that waits it says which node would be bought for it, or which one that is there it
fits on; where there is none, for each NodePool the filter that it failed at, how many instance
types were left before that and the nearest miss, and why no node that is there takes it. Of a
pod on a node it says what would keep it there. A pod that does not wait for a node, such as
one with a scheduling gate, is told why.`,
		Example: `  weir explain pod web-7d9f-abcde --context prod
  weir explain pod web-7d9f-abcde -f cluster.yaml
  weir explain pod shop/web-7d9f-abcde -f cluster.yaml -o json`,
		Args: oneName("pod"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.inputs.registerCluster(cmd)
	o.output.register(cmd)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the pod; any if left out and the name is there once")
	cmd.Flags().StringVar(&o.strategy, "strategy", "", "built-in or configured strategy by name, or the path of an executable; what the configuration binds if left out")
	return cmd
}

func (o *explainPodOptions) run(ctx context.Context, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	if ns, rest, ok := strings.Cut(name, "/"); ok {
		if o.namespace != "" && o.namespace != ns {
			return bad("%s is asked for, and --namespace is %s", name, o.namespace)
		}
		o.namespace, name = ns, rest
	}
	s, err := o.ask(ctx)
	if err != nil {
		return err
	}
	p, n, err := s.findPod(o.namespace, name)
	if err != nil {
		return err
	}
	var x *report.PodExplanation
	warnings := s.warnings
	if n != nil || p.Aside {
		said, err := s.unasked(config.InstanceSelection, o.strategy, "the pod does not wait for a node")
		if err != nil {
			return err
		}
		warnings = append(warnings, said...)
	}
	switch {
	case n != nil:
		x = onNode(s.world, p, n)
	case p.Aside:
		x = report.NewPodExplanation(p.Pod, report.PodAside, "%s", aside(p.Pod))
	default:
		plan, said, err := s.buy(ctx, o.strategy, s.world)
		if err != nil {
			return err
		}
		warnings = append(warnings, said...)
		x = report.Planned(p.Pod, plan)
		if x.State == report.PodNoPlace {
			x.Nodes = refusals(s.world, p.Pod)
		}
	}
	x.Warnings = append(x.Warnings, warnings...)
	return o.answer(o.format, x)
}

// foundPod is a pod of the input; Aside where it neither waits nor is on a node.
type foundPod struct {
	*model.Pod
	Aside bool
}

// findPod is the pod of that name, with its node where it is on one.
func (s *situation) findPod(namespace, name string) (*foundPod, *model.Node, error) {
	var found []*foundPod
	var on []*model.Node
	var names []string
	look := func(pods []*model.Pod, n *model.Node, aside bool) {
		for _, p := range pods {
			if namespace != "" {
				names = append(names, p.ID())
			} else {
				names = append(names, p.Name)
			}
			if p.Name == name && (namespace == "" || p.Namespace == namespace) {
				found, on = append(found, &foundPod{p, aside}), append(on, n)
			}
		}
	}
	look(s.world.Pods, nil, false)
	for _, n := range s.world.Nodes {
		look(n.Pods, n, false)
	}
	look(s.aside, nil, true)
	switch len(found) {
	case 1:
		return found[0], on[0], nil
	case 0:
		if namespace != "" {
			name = namespace + "/" + name
		}
		return nil, nil, bad("pod %q is not in the input, which has %d%s", name, len(names), didYouMean(name, names, ""))
	}
	var ids []string
	for _, p := range found {
		ids = append(ids, p.ID())
	}
	return nil, nil, bad("pod %q is there %d times, say which: %s", name, len(found), strings.Join(ids, ", "))
}

// onNode explains a pod that is on a node.
func onNode(w *model.World, p *foundPod, n *model.Node) *report.PodExplanation {
	x := report.NewPodExplanation(p.Pod, report.PodRuns, "it is on node %s", n.ID())
	if p.Deleting != nil {
		x.Message += ending(*p.Deleting, w.Now)
	}
	x.Node = n.ID()
	var deadline time.Time
	if n.Claim != nil {
		at, ok, err := claim.Deadline(n.Claim)
		if err != nil {
			x.Warnings = append(x.Warnings, fmt.Sprintf("the annotation %s of NodeClaim %s cannot be read: %v", model.AnnotationTerminationTimestamp, n.Claim.Name, err))
		}
		if ok {
			deadline = at
		}
	}
	terms, removal, _ := report.Removing(n, deadline)
	if removal != nil {
		x.Message += "; the node is being removed (" + removal.Reason + ")"
	}
	x.Blocks(drain.Explain(terms, n, []*model.Pod{p.Pod}, w.PDBs, w.Now))
	return x
}

// ending says by when a pod that is being deleted ends. The instant is past where its
// kubelet has not ended it in time, or where its grace period was shortened late.
func ending(by, now time.Time) string {
	at := by.UTC().Format(time.RFC3339)
	if by.After(now) {
		return ", and ends by " + at
	}
	return ", and is being deleted: its grace period was over at " + at + ", and it is still there"
}

// aside says why a pod does not wait for a node.
func aside(p *model.Pod) string {
	switch {
	case p.Terminal:
		return "it has ended"
	case p.NodeName != "":
		return fmt.Sprintf("it is bound to node %s, which is not in the input", p.NodeName)
	case p.Deleting != nil:
		return "it is being deleted"
	case p.Gated:
		return "it has scheduling gates: kube-scheduler does not look at it before they are taken away"
	case p.NominatedNode != "":
		return fmt.Sprintf("it waits for others to be evicted from node %s, which kube-scheduler nominated for it", p.NominatedNode)
	case p.Daemon():
		return "it is of a DaemonSet: it goes with its node, and no node is bought for it"
	case p.Mirror:
		return "it is a static pod of a kubelet"
	}
	return "it does not wait for a node"
}

// refusals are, for each node that is there, why the pod may not go onto it.
func refusals(w *model.World, p *model.Pod) []report.NodeRefusal {
	out := []report.NodeRefusal{}
	space := engine.NewSpace(w)
	for _, n := range w.Nodes {
		r := report.NodeRefusal{Node: n.ID(), Message: fmt.Sprintf("node %s has room; what the pod asks of its volumes, its ports or the pods around it keeps it off, or pods that come before it take the room", n.ID())}
		if why := space.Allowed(p, n); why != nil {
			r.Filter, r.Message = string(why.Filter), why.Message
		}
		out = append(out, r)
	}
	return out
}
