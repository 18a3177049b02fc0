package disrupt

import (
	"fmt"
	"sort"

	"github.com/weir-project/weir/core/model"
)

// Expired says whether a claim is past its expireAfter.
func Expired(w *model.World, c *model.Claim) bool {
	return c.ExpireAfter != model.Never && c.ExpireAfter > 0 && !c.Created.IsZero() && !w.Now.Before(c.Created.Add(c.ExpireAfter))
}

// expiredNodes are the nodes to end because of their age, oldest first.
func expiredNodes(w *model.World, opts Options) []*model.Node {
	if !opts.Expire {
		return nil
	}
	var out []*model.Node
	for _, n := range w.Nodes {
		if n.Managed() && n.Claim.Deleting == nil && !opts.Running[n.ID()] && Expired(w, n.Claim) {
			out = append(out, n)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Claim.Created.Before(out[j].Claim.Created) })
	return out
}

func withoutExpired(expired []*model.Node, cands []*Candidate, blocked []model.Blocked) ([]*Candidate, []model.Blocked) {
	gone := map[*model.Node]bool{}
	names := map[string]bool{}
	for _, n := range expired {
		gone[n], names[n.ID()] = true, true
	}
	var c []*Candidate
	for _, x := range cands {
		if !gone[x.Node] {
			c = append(c, x)
		}
	}
	var b []model.Blocked
	for _, x := range blocked {
		if !names[x.Node] {
			b = append(b, x)
		}
	}
	return c, b
}

// evacuate plans the end of expired nodes: no budget, no wait for their pods to
// fit. Pods that fit on nodes that stay are shown where; the others are bought for
// by the next provisioning, as v1 does.
func (p *planner) evacuate(expired []*model.Node) {
	for _, n := range expired {
		g := &going{cand: &Candidate{Node: n}, reason: model.Expired}
		for _, x := range n.Pods {
			if x.Reschedulable() {
				g.pods = append(g.pods, p.rooms.tenant(x, n))
			}
		}
		largestFirst(g.pods)
		waiting := 0
		for _, t := range g.pods {
			if t.pod.Invalid == "" && len(t.pod.Unsupported) == 0 && p.rooms.around.unmovable(t.pod) == "" {
				if i := p.rooms.find(t); i >= 0 {
					p.rooms.put(t, i)
					continue
				}
			}
			waiting++
		}
		c := p.command(g)
		c.Wave = 1
		c.Why = fmt.Sprintf("it is older than its expireAfter of %s", n.Claim.ExpireAfter)
		if waiting > 0 {
			c.Why += fmt.Sprintf("; %d of its pods fit on no other node and will need new capacity", waiting)
		}
		p.forced = append(p.forced, c)
	}
}
