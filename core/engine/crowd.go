package engine

import (
	"fmt"
	"math"

	"github.com/weir-project/weir/core/model"
)

// crowd is how many pods of one workload a node of each pool may hold, where a
// strategy bounds that; nil where none does.
type crowd struct {
	ids   map[string]int // workloads
	sizes []int64        // pods of each, waiting and running
	caps  map[string]crowdCaps
}

// crowdCaps is the bounds of one pool by workload, and the limits that they are of.
type crowdCaps struct {
	most   []int64
	limits []*model.StrategyLimit
}

// share of a unit of pods in a workload.
type belongs struct {
	workload int
	per      int64
}

func newCrowd(w *model.World, prices *model.Prices) *crowd {
	c := &crowd{ids: map[string]int{}, caps: map[string]crowdCaps{}}
	bounded := map[string][]*model.StrategyLimit{}
	for name, pp := range prices.ByPool {
		for i := range pp.Limits {
			if pp.Limits[i].PodsPerNode != nil {
				bounded[name] = append(bounded[name], &pp.Limits[i])
			}
		}
	}
	if len(bounded) == 0 {
		return nil
	}
	sizes := workloadSizes(w)
	for _, name := range sortedKeys(sizes) {
		c.ids[name] = len(c.sizes)
		c.sizes = append(c.sizes, sizes[name])
	}
	for name, limits := range bounded {
		cc := crowdCaps{most: make([]int64, len(c.sizes)), limits: make([]*model.StrategyLimit, len(c.sizes))}
		for i, n := range c.sizes {
			cc.most[i] = math.MaxInt64
			for _, l := range limits {
				if most := l.PodsPerNode.Of(n); most < cc.most[i] {
					cc.most[i], cc.limits[i] = most, l
				}
			}
		}
		c.caps[name] = cc
	}
	return c
}

// workloadSizes counts the pods of each workload: those that wait, and those that
// run on nodes that stay.
func workloadSizes(w *model.World) map[string]int64 {
	out := map[string]int64{}
	for _, p := range w.Pods {
		if k := p.Workload(); k != "" {
			out[k]++
		}
	}
	for _, n := range w.Nodes {
		if n.BeingRemoved() {
			continue // its pods are among those that wait
		}
		for _, p := range n.Pods {
			if k := p.Workload(); k != "" && p.Active() {
				out[k]++
			}
		}
	}
	return out
}

// of is what a unit of pods adds to each workload.
func (c *crowd) of(pods []*model.Pod) []belongs {
	if c == nil {
		return nil
	}
	var out []belongs
next:
	for _, p := range pods {
		id, ok := c.ids[p.Workload()]
		if !ok {
			continue
		}
		for i := range out {
			if out[i].workload == id {
				out[i].per++
				continue next
			}
		}
		out = append(out, belongs{id, 1})
	}
	return out
}

// held is how many pods of each workload are on a node.
func (c *crowd) held(n *model.Node) []int64 {
	out := make([]int64, len(c.sizes))
	for _, p := range n.Pods {
		if id, ok := c.ids[p.Workload()]; ok && p.Active() {
			out[id]++
		}
	}
	return out
}

// crowdReason says that a unit of the group is more than a node of the pool may hold.
func (pr *problem) crowdReason(g *group, p *pool) string {
	if pr.crowd == nil {
		return ""
	}
	caps, ok := pr.crowd.caps[p.Name]
	if !ok {
		return ""
	}
	for _, b := range g.belongs {
		if b.per > caps.most[b.workload] {
			return fmt.Sprintf("limit %q of strategy %s: at most %d of the %d pods of its workload may share a node, %d must", caps.limits[b.workload].Name,
				p.prices.Strategy, caps.most[b.workload], pr.crowd.sizes[b.workload], b.per)
		}
	}
	return ""
}
