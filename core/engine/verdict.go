package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// reasons says for every pool why a pod of the group found no place in it.
func (pr *problem) reasons(g *group) []model.Reason {
	if len(pr.pools) == 0 {
		return []model.Reason{{Filter: model.FilterPool, Message: "there is no NodePool"}}
	}
	out := make([]model.Reason, 0, len(pr.pools))
	for _, p := range pr.pools {
		r := pr.reason(g, p)
		if pr.alone(g, p) {
			r = amongOthers(r)
		}
		out = append(out, r)
	}
	return out
}

// alone says whether one pod of the group could run on a new node of the pool if there
// were no others: then it is its neighbours that stand in the way, whatever the pool
// lacks at the place that they leave.
func (pr *problem) alone(g *group, p *pool) bool {
	free := g.spec.free
	if free == nil && g.per == 1 {
		return false
	}
	if free == nil {
		free = g.spec
	}
	one := *g
	one.spec, one.req, one.per = free, g.pods[0].Requests, 1
	for one.spec.free != nil {
		one.spec = one.spec.free
	}
	r := pr.reason(&one, p)
	return r.Filter == model.FilterLimits || r.Message == usedUp
}

// amongOthers is a reason that holds only for the place that a pod's neighbours leave.
func amongOthers(r model.Reason) model.Reason {
	if r.Filter == model.FilterLimits || r.Filter == model.FilterPorts {
		return r
	}
	r.Filter = model.FilterTopology
	r.Message = "where the pods that its spreads and affinities count let it be, there is nothing for it: " + r.Message
	return r
}

// portReason says which DaemonSet has a host port that the group asks for, too.
func (pr *problem) portReason(g *group) string {
	t := g.spec.pod.Topology
	if t == nil {
		return ""
	}
	for _, d := range pr.w.DaemonSets {
		if d.Pod.Topology == nil {
			continue
		}
		for _, h := range t.HostPorts {
			if slices.ContainsFunc(d.Pod.Topology.HostPorts, h.Collides) {
				return fmt.Sprintf("host port %s %d is taken by daemonset %s/%s", h.Protocol, h.Port, d.Namespace, d.Name)
			}
		}
	}
	return ""
}

// reason is the first filter of the pool that leaves nothing for the group.
func (pr *problem) reason(g *group, p *pool) model.Reason {
	e := g.spec.elig[p.index]
	if e.reason != nil {
		return *e.reason
	}
	c := p.class
	left := e.bits.clone()
	types := c.countTypes(left)
	fit := newBits(len(c.offerings))
	fitBare := newBits(len(c.offerings)) // without the daemon pods
	left.each(func(i int) {
		if g.req.Fits(c.offerings[i].Type.Allocatable) {
			fitBare.set(i)
			if g.req.Fits(c.offerings[i].Type.Allocatable.Sub(p.overhead[i])) {
				fit.set(i)
			}
		}
	})
	if fit.empty() {
		r := model.Reason{Pool: p.Name, Filter: model.FilterResources, TypesLeft: types}
		if !fitBare.empty() {
			r.Filter = model.FilterDaemonSets
		}
		r.Message, r.Nearest = p.nearest(g.req, left)
		return r
	}
	left = fit
	types = c.countTypes(left)
	open := left.clone()
	open.and(c.available)
	if open.empty() {
		first := -1
		left.each(func(i int) {
			if first < 0 {
				first = i
			}
		})
		return model.Reason{Pool: p.Name, Filter: model.FilterOfferings, TypesLeft: types, Nearest: c.offerings[first].Key(),
			Message: fmt.Sprintf("none of the offerings of %d instance types is available: %s, for one, %s", types, c.offerings[first].Key(), c.offerings[first].Unavailable)}
	}
	types = c.countTypes(open)
	allowed := open.clone()
	allowed.and(p.usable)
	if allowed.empty() {
		why := ""
		open.each(func(i int) {
			if why == "" {
				why = p.prices.Offerings[i].Veto
			}
		})
		return model.Reason{Pool: p.Name, Filter: model.FilterStrategy, TypesLeft: types, Message: fmt.Sprintf("strategy %s refuses every offering: %s", p.prices.Strategy, why)}
	}
	types = c.countTypes(allowed)
	if p.limits != nil {
		if msg := p.limitReason(allowed); msg != "" {
			return model.Reason{Pool: p.Name, Filter: model.FilterLimits, TypesLeft: types, Message: msg}
		}
	}
	if len(p.minKeys) > 0 {
		d := newDistinct(p.minKeys)
		allowed.each(func(i int) { d.add(p, i) })
		r, n := d.missing()
		if n == 0 {
			n, r = len(d.seen[0]), p.minKeys[0]
		}
		return model.Reason{Pool: p.Name, Filter: model.FilterRequirements, TypesLeft: types,
			Message: fmt.Sprintf("minValues %d of %s cannot be met: %d values are left", r.MinValues, r.Key, n)}
	}
	if msg := cmp.Or(pr.crowdReason(g, p), p.shareReason(allowed)); msg != "" {
		return model.Reason{Pool: p.Name, Filter: model.FilterStrategy, TypesLeft: types, Message: msg}
	}
	if msg := pr.portReason(g); msg != "" {
		return model.Reason{Pool: p.Name, Filter: model.FilterPorts, TypesLeft: types, Message: msg}
	}
	return model.Reason{Pool: p.Name, Filter: model.FilterOfferings, TypesLeft: types, Message: usedUp}
}

// usedUp is the message where nothing but the other pods stands in the way.
const usedUp = "what is left of the offerings is used up by other pods"

// limitReason says which limit every remaining offering exceeds, or nothing.
func (p *pool) limitReason(b bitset) string {
	if n := p.limits.nodes; n != nil && *n <= 0 {
		return "the limit of nodes is reached"
	}
	msg := ""
	some := false
	b.each(func(i int) {
		o := p.class.offerings[i]
		if p.limits.times(o.Type.Capacity, 1) > 0 {
			some = true
			return
		}
		if msg != "" {
			return
		}
		for _, name := range sortedKeys(p.limits.left) {
			if left := p.limits.left[name]; o.Type.Capacity.Get(name) > left {
				msg = fmt.Sprintf("every instance type left exceeds the pool's limit: %s %s of %s is left, %s has %s",
					resource.Format(name, max(left, 0)), name, resource.Format(name, p.Limits.Resources[name]), o.Type.Name, resource.Format(name, o.Type.Capacity.Get(name)))
				return
			}
		}
	})
	if some {
		return ""
	}
	return msg
}

// nearest names the type that comes nearest to holding the request, and what it lacks.
func (p *pool) nearest(req resource.Vector, b bitset) (message, nearest string) {
	best, bestShare := -1, -1.0
	b.each(func(i int) {
		room := p.class.offerings[i].Type.Allocatable.Sub(p.overhead[i])
		share := 1.0
		req.Each(func(name string, v int64) {
			if v > 0 {
				share = min(share, float64(room.Get(name))/float64(v))
			}
		})
		if share > bestShare {
			best, bestShare = i, share
		}
	})
	if best < 0 {
		return "no instance type is left", ""
	}
	t := p.class.offerings[best].Type
	room := t.Allocatable.Sub(p.overhead[best])
	name, want, have, _ := req.Lacking(room)
	message = fmt.Sprintf("needs %s %s, the nearest allowed type %s offers %s", human(name, want), name, t.Name, human(name, have))
	if d := p.overhead[best].Get(name); d > 0 {
		message += fmt.Sprintf(" after %s of daemonsets", human(name, d))
	}
	return message, t.Name
}

// human is an amount for people: memory in Gi with one decimal.
func human(name string, v int64) string {
	if name == "memory" || name == "ephemeral-storage" {
		switch {
		case v >= 1<<30 || v <= -(1<<30):
			return fmt.Sprintf("%.1f Gi", float64(v)/(1<<30))
		case v >= 1<<20 || v <= -(1<<20):
			return fmt.Sprintf("%.1f Mi", float64(v)/(1<<20))
		}
	}
	return resource.Format(name, v)
}
