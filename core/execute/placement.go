package execute

import (
	"maps"
	"strconv"

	"github.com/weir-project/weir/core/model"
)

// A class with a placement group has its machines started in it. What is short there may be had outside, so it is no
// shortage to tell other clusters of; it is left alone for a while here.

// partition is the one that an offering buys in, empty where the cloud chooses.
func partition(o *model.Offering) string { return o.Type.Labels[model.LabelPlacementPartition] }

// grouped says whether a launch goes into a placement group.
func (x *Executor) grouped(l *launch) bool {
	c := x.m.NodeClass(l.class.Name)
	return c != nil && c.PlacementGroup != nil
}

// placed names the partition that the cloud chose on the claim, and on its node where it has joined: pods are spread over it.
func (x *Executor) placed(c *model.Claim, m *model.Machine, nodes []*model.Node, patch **model.ClaimPatch) {
	if m == nil || m.Partition == 0 {
		return
	}
	want := strconv.Itoa(m.Partition)
	if c.Labels[model.LabelPlacementPartition] == "" {
		p := model.ClaimPatch{Name: c.Name, UID: c.UID}
		if *patch != nil {
			p = **patch
		}
		labels := map[string]string{model.LabelPlacementPartition: want}
		maps.Copy(labels, p.Labels)
		p.Labels = labels
		*patch = &p
	}
	for _, n := range nodes {
		if n.Labels[model.LabelRegistered] == "true" && n.Labels[model.LabelPlacementPartition] == "" {
			x.do("node/"+n.Name, PatchNode{Patch: NodePatch{Name: n.Name, UID: n.UID, Labels: map[string]string{model.LabelPlacementPartition: want}}})
		}
	}
}

// kubeletLabels are what the node of a claim registers with; the partition that is asked for is among them although a claim that
// somebody made does not name it.
func (x *Executor) kubeletLabels(c *coming) map[string]string {
	if c.offering == nil || partition(c.offering) == "" || c.claim.Labels[model.LabelPlacementPartition] != "" {
		return c.claim.Labels
	}
	out := maps.Clone(c.claim.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[model.LabelPlacementPartition] = partition(c.offering)
	return out
}
