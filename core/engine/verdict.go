package engine

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// reasons says for every pool why a pod of the group found no place in it.
func (pr *problem) reasons(g *group) []model.Reason {
	if len(pr.pools) == 0 {
		return []model.Reason{{Filter: model.FilterPool, Message: "there is no NodePool"}}
	}
	out := make([]model.Reason, 0, len(pr.pools))
	known := map[string]model.Reason{} // of twins
	for _, p := range pr.pools {
		twin := ""
		if p.why == nil && g.spec.elig[p.index].bits != nil {
			twin = p.twin([]*group{g})
		}
		r, ok := known[twin]
		if !ok || twin == "" {
			if r = pr.reason(g, p); pr.alone(g, p) {
				r = amongOthers(r)
			}
			known[twin] = r
		}
		r.Pool = p.Name
		out = append(out, r)
	}
	return out
}

// alone says whether one pod of the group could run on a new node of the pool if there
// were no others: then it is its neighbours that stand in the way, whatever the pool
// lacks at the place that they leave.
func (pr *problem) alone(g *group, p *pool) bool {
	if g.spec.free == nil && g.spec.of == nil && g.per == 1 {
		return false
	}
	for _, s := range g.spec.apart() {
		one := *g
		one.spec, one.req, one.per = s, g.pods[0].Requests, 1
		if g.spec.of != nil {
			one.req = s.pod.Requests
		}
		if ofOthers(pr.reason(&one, p)) {
			return true
		}
	}
	return false
}

// apart is the specs of the pods themselves: of all that share a unit, without the values
// that were chosen for them.
func (s *spec) apart() []*spec {
	switch {
	case s.of != nil:
		return append(s.of[0].apart(), s.of[1].apart()...)
	case s.free != nil:
		return s.free.apart()
	}
	return []*spec{s}
}

// ofOthers says whether a reason is that of a pod which could run on a new node of the
// pool if there were no others.
func ofOthers(r model.Reason) bool {
	return r.Filter == model.FilterLimits || strings.HasPrefix(r.Message, usedUp) || strings.HasPrefix(r.Message, usedUpVariety)
}

// amongOthers is a reason that holds only for the place that a pod's neighbours leave.
func amongOthers(r model.Reason) model.Reason {
	if r.Filter == model.FilterLimits || r.Filter == model.FilterPorts {
		return r
	}
	r.Filter = model.FilterTopology
	if n := len(r.Trail); n > 1 {
		r.TypesLeft = r.Trail[n-2].Types
		r.Trail = append(slices.Clone(r.Trail[:n-1]), model.Passed{Filter: r.Filter})
	}
	r.Message = "where the pods that its spreads and affinities count let it be, there is nothing for it: " + r.Message
	return r
}

// because says for every pool why a pod of the group found no place in it, where what
// stands in the way of all of them is the pods around it: a pool that would not have
// done anyway has its own reason.
func (pr *problem) because(g *group, why model.Reason) []model.Reason {
	if len(pr.pools) == 0 {
		return []model.Reason{why}
	}
	out := pr.reasons(g)
	for i, r := range out {
		if r.Message == usedUp {
			own := why
			own.Pool, own.TypesLeft = r.Pool, r.TypesLeft
			own.Trail = append(slices.Clone(r.Trail[:len(r.Trail)-1]), model.Passed{Filter: why.Filter})
			out[i] = own
		}
	}
	return out
}

// trail notes how many instance types are left after each filter.
type trail struct {
	class *class
	left  bitset
	list  []model.Passed
}

func (t *trail) pass(f model.Filter, left bitset) {
	t.left = left
	t.list = append(t.list, model.Passed{Filter: f, Types: t.class.countTypes(left)})
}

// types is how many instance types are left now.
func (t *trail) types() int {
	if len(t.list) == 0 {
		return t.class.numTypes
	}
	return t.list[len(t.list)-1].Types
}

// stop is the reason of the filter that leaves nothing.
func (t *trail) stop(p *pool, f model.Filter, message string) model.Reason {
	return model.Reason{Pool: p.Name, Filter: f, TypesLeft: t.types(), Message: message, Trail: append(t.list, model.Passed{Filter: f})}
}

// reason is the first filter of the pool that leaves nothing for the group.
func (pr *problem) reason(g *group, p *pool) model.Reason {
	e := g.spec.elig[p.index]
	if e.reason != nil {
		return *e.reason
	}
	t := &trail{class: p.class}
	t.pass(model.FilterPool, p.base)
	t.pass(model.FilterTaints, p.base)
	t.pass(model.FilterRequirements, e.bits)
	if r := p.tooSmall(g, t); r != nil {
		return *r
	}
	if r := p.notOpen(pr, t); r != nil {
		return *r
	}
	if p.limits != nil {
		if msg := p.limitReason(t.left); msg != "" {
			return t.stop(p, model.FilterLimits, msg)
		}
		t.pass(model.FilterLimits, t.left)
	}
	if r := p.tooUniform(pr, g, t); r != nil {
		return *r
	}
	if msg := cmp.Or(pr.crowdReason(g, p), p.shareReason(t.left)); msg != "" {
		return t.stop(p, model.FilterStrategy, msg)
	}
	return t.stop(p, model.FilterOfferings, cmp.Or(pr.stockReason(p, t.left), usedUp))
}

// tooSmall is the reason where no type that is left holds the group: by itself, or
// once the daemon pods are on it.
func (p *pool) tooSmall(g *group, t *trail) *model.Reason {
	c := p.class
	fit, bare := newBits(len(c.offerings)), newBits(len(c.offerings))
	t.left.each(func(i int) {
		if g.req.Fits(c.offerings[i].Type.Allocatable) {
			bare.set(i)
			if g.req.Fits(c.offerings[i].Type.Allocatable.Sub(p.overhead[i])) {
				fit.set(i)
			}
		}
	})
	if !fit.empty() {
		t.pass(model.FilterResources, bare)
		t.pass(model.FilterDaemonSets, fit)
		return nil
	}
	message, nearest := p.nearest(g.req, t.left)
	filter := model.FilterResources
	if !bare.empty() {
		t.pass(model.FilterResources, bare)
		filter = model.FilterDaemonSets
	}
	r := t.stop(p, filter, message)
	r.Nearest = nearest
	return &r
}

// notOpen is the reason where nothing of what is left can be bought now, or the
// strategy refuses all of it.
func (p *pool) notOpen(pr *problem, t *trail) *model.Reason {
	c := p.class
	open := t.left.clone()
	open.and(c.available)
	if open.empty() {
		o := c.offerings[first(t.left)]
		why := o.Unavailable
		if why == "" {
			why = fmt.Sprintf("its price is %v", o.USDPerHour)
		}
		r := t.stop(p, model.FilterOfferings, fmt.Sprintf("none of the offerings of %d instance types is available: %s, for one, %s", t.types(), o.Key(), why))
		r.Nearest = o.Key()
		return &r
	}
	t.pass(model.FilterOfferings, open)
	allowed := open.clone()
	allowed.and(p.usable)
	if c.reserved != nil && !pr.w.Settings.ReservedCapacity {
		if open.andNot(c.reserved); open.empty() {
			r := t.stop(p, model.FilterOfferings, gated)
			return &r
		}
	}
	if allowed.empty() {
		i := first(open)
		why := p.prices.Offerings[i].Veto
		if why == "" {
			why = fmt.Sprintf("its price of %s is %v", c.offerings[i].Key(), p.prices.Offerings[i].USDPerHour)
		}
		r := t.stop(p, model.FilterStrategy, fmt.Sprintf("strategy %s refuses every offering: %s", p.prices.Strategy, why))
		r.Nearest = c.offerings[i].Key()
		return &r
	}
	t.pass(model.FilterStrategy, allowed)
	return nil
}

// tooUniform is the reason where what holds the group has too few values of a label
// for the pool's minValues. One launch names one capacity type, so that the values
// are counted for the one that has most.
func (p *pool) tooUniform(pr *problem, g *group, t *trail) *model.Reason {
	if len(p.minKeys) == 0 || pr.w.Settings.MinValuesBestEffort {
		return nil
	}
	var worst *model.Reason
	byCapacity := map[string]*distinct{}
	t.left.each(func(i int) {
		ct := p.class.offerings[i].CapacityType
		if byCapacity[ct] == nil {
			byCapacity[ct] = newDistinct(p.minKeys)
		}
		byCapacity[ct].add(p, i)
	})
	most := -1
	for _, ct := range sortedKeys(byCapacity) {
		d := byCapacity[ct]
		if d.satisfied() {
			return nil
		}
		if r, n := d.missing(); n > most {
			most = n
			x := t.stop(p, model.FilterRequirements, fmt.Sprintf("minValues %d of %s cannot be met: %d values are left", r.MinValues, r.Key, n))
			x.Nearest = strings.Join(sortedKeys(d.values(r.Key)), ", ")
			worst = &x
		}
	}
	return worst
}

// first is the smallest index of a set that is not empty.
func first(b bitset) int {
	for wi, w := range b {
		if w != 0 {
			return wi<<6 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// usedUp is the message where nothing but the other pods stands in the way.
const usedUp = "what is left of the offerings is used up by other pods"

// usedUpVariety is the beginning of the same for pools that ask for variety.
const usedUpVariety = "with the other pods on its node, too few values would be left"

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
