package simulate

import (
	"slices"
	"strings"

	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
)

// FromFiles makes the start of a simulation of what was read from files. Pods that
// belong to a workload of the files and do not run yet are left out: the workload
// makes them.
func FromFiles(in *load.Input) *Input {
	out := &Input{DaemonSets: in.DaemonSets}
	later := map[string]bool{}
	for _, p := range in.Pools {
		c := *p
		if why := p.NodeClass.Name + " is not in the input"; in.NodeClasses[p.NodeClass.Name] == nil && strings.HasSuffix(p.Unusable, why) {
			// one file of several: the class may be in the cluster, or come later, and the mirror looks for itself
			later[p.Unusable] = true
			c.Unusable = ""
		}
		out.Pools = append(out.Pools, &c)
	}
	for _, w := range in.Warnings {
		_, why, _ := strings.Cut(w, "cannot be used: ")
		if !later[why] {
			out.Warnings = append(out.Warnings, w)
		}
	}
	names := make([]string, 0, len(in.NodeClasses))
	for name := range in.NodeClasses {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out.NodeClasses = append(out.NodeClasses, in.NodeClasses[name])
	}
	for _, w := range in.Workloads {
		out.Workloads = append(out.Workloads, &Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Replicas: w.Replicas, Pod: w.Pod})
	}
	adopt := func(p *model.Pod) (*model.Pod, bool) {
		for _, w := range in.Workloads {
			if p.Namespace == w.Namespace && (p.Owner.Name == w.Name || strings.HasPrefix(p.Owner.Name, w.Name+"-")) && w.Selects(p.Labels) {
				c := *p
				c.Owner.Name = w.Name + replicaSetSuffix
				return &c, true
			}
		}
		return p, false
	}
	for _, p := range in.Pods {
		if p, owned := adopt(p); !owned {
			out.Pods = append(out.Pods, p)
		}
	}
	for _, n := range in.Nodes {
		c := *n
		pods := c.Pods
		c.Pods = nil
		for _, p := range pods {
			p, _ := adopt(p)
			out.Pods = append(out.Pods, p)
		}
		out.Nodes = append(out.Nodes, &c)
	}
	for i, b := range in.Budgets {
		out.Budgets = append(out.Budgets, &Budget{PDB: *in.PDBs[i], MinAvailable: b.Spec.MinAvailable, MaxUnavailable: b.Spec.MaxUnavailable})
	}
	return out
}
