package engine

import (
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// Worth is what each of the pods is worth, USD per hour in real money: shares of a bill
// such that no new node, whichever is bought and however it is filled, costs less than
// the shares of the pods on it. So any of the pods together cost at least the sum of
// their shares on new nodes, and all of them not much more. Pods that no new node can
// hold are worth nothing; what pods ask of each other is left out.
func Worth(w *model.World, pods []*model.Pod) map[*model.Pod]float64 {
	original := make(map[*model.Pod]*model.Pod)
	alone := make([]*model.Pod, len(pods))
	for i, p := range pods {
		alone[i] = p
		if p.Topology != nil {
			c := *p
			c.Topology = nil
			alone[i] = &c
			original[&c] = p
		}
	}
	bare := *w
	bare.Nodes, bare.Pods = nil, nil
	pr := compileLoosely(&bare, nil, alone)
	left := make([]int64, len(pr.groups))
	for i, g := range pr.groups {
		left[i] = int64(g.units())
	}
	d := newDual(newHolders(pr.groups, left, pr.options(pr.pools, pr.groups)), left, true)
	_, y := d.maximise()
	out := make(map[*model.Pod]float64, len(pods))
	d.each(y, func(i int, value float64) {
		g := pr.groups[i]
		for _, p := range g.pods {
			if o := original[p]; o != nil {
				p = o
			}
			out[p] = value / float64(g.per)
		}
	})
	return out
}

// Narrow takes alternatives away from a planned node: those that keep refuses. What its
// claim asks for follows.
func Narrow(n *model.NewNode, keep func(*model.Offering) bool) {
	all := len(n.Alternatives)
	n.Alternatives = slices.DeleteFunc(slices.Clone(n.Alternatives), func(o *model.Offering) bool { return !keep(o) })
	if len(n.Alternatives) == all {
		return
	}
	types, zones := []string{n.Offering.Type.Name}, []string{n.Offering.Zone}
	for _, o := range n.Alternatives {
		types, zones = append(types, o.Type.Name), append(zones, o.Zone)
	}
	n.Requirements = n.Requirements.With(require.Must(model.LabelInstanceType, require.In, types...), require.Must(model.LabelZone, require.In, zones...))
}
