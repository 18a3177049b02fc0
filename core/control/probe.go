package control

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/model/require"
)

// Capacity memory orders, it does not forbid: where a pod could only run on offerings
// that were short, the one that has waited longest is asked again.

// probeEvery is the pause between two probes.
const probeEvery = 30 * time.Second

// probe opens one closed offering for a pod that has nothing else, and answers
// whether it did: then the next pass is due at once.
func (c *Controller) probe(plan *model.Plan) bool {
	if c.now.Sub(c.probed) < probeEvery {
		return false
	}
	closed := c.m.Closed(c.now)
	if len(closed) == 0 {
		return false
	}
	var keys []string
	for key := range closed {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(c.m.ClosedSince(a).Compare(c.m.ClosedSince(b)), cmp.Compare(a, b))
	})
	for _, v := range plan.Unplaced {
		for _, r := range v.Reasons {
			p := c.m.Pool(r.Pool)
			if r.Filter != model.FilterOfferings || p == nil {
				continue
			}
			for _, key := range keys {
				o := c.m.Offering(p.NodeClass.Name, key)
				if o != nil && o.Available && !c.m.Probing(key) && suits(v.Pod, p, o) {
					c.x.Probe(key, c.now)
					c.probed = c.now
					return true
				}
			}
		}
	}
	return false
}

// suits says whether a pod could run on a node of the pool bought with the offering.
// It may err on the side of yes: the planner has the last word.
func suits(pod *model.Pod, p *model.Pool, o *model.Offering) bool {
	if !attach.Strip(pod.Requests).Fits(o.Type.Allocatable) {
		return false
	}
	label := func(key string) (string, bool) {
		if v, ok := o.Label(key); ok {
			return v, true
		}
		if key == model.LabelInstanceType {
			return o.Type.Name, true
		}
		v, ok := p.Labels[key]
		return v, ok
	}
	for _, r := range p.Requirements.All() {
		if v, ok := label(r.Key); ok && !r.Has(v) {
			return false
		}
	}
	return len(pod.Terms) == 0 || slices.ContainsFunc(pod.Terms, func(term require.Set) bool {
		for _, r := range term.All() {
			if v, ok := label(r.Key); ok && !r.Has(v) {
				return false
			}
		}
		return true
	})
}
