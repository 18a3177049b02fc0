package execute

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/model"
)

// Claims that have no instance and no launch of ours were made by a person, by
// another controller, or by a leader that died before it wrote its intent. They are
// launched from what their object asks for.

// launchSpec starts a launch for a claim that exists already.
func (x *Executor) launchSpec(c *model.Claim) {
	l := &launch{
		id: x.id(c.Name), pool: c.Pool, class: c.NodeClass, attempt: 1, state: opening, opened: x.now, degraded: x.LedgerDown,
		taints: slices.Concat(c.Taints, c.StartupTaints, []model.Taint{claim.Unregistered}),
		claims: []*coming{{claim: c, uid: c.UID, given: true}},
		stamp:  x.m.NodeClass(c.NodeClass.Name).Stamp(),
	}
	x.launches = append(x.launches, l)
	x.launchOf[c.Name] = l
}

// offersOfSpec finds the offers that a claim's own requirements allow: one capacity
// type, cheapest first. It answers false where there is none (yet).
func (x *Executor) offersOfSpec(l *launch, c *model.Claim) bool {
	class := x.m.NodeClass(c.NodeClass.Name)
	if class == nil {
		x.tell(l, "NodeClassNotFound", "EC2NodeClass "+c.NodeClass.Name+" is not there")
		x.later(l)
		return false
	}
	list, known := x.m.OfferingsOf(class.Name)
	if !known {
		x.later(l) // what can be bought has not been read yet
		return false
	}
	closed := x.m.Closed(x.now)
	var fit []*model.Offering
	for _, o := range list {
		if _, shut := closed[o.Key()]; o.Available && !shut && (o.ReservationID == "" || asksReserved(c)) && allows(c, o) {
			fit = append(fit, o)
		}
	}
	if len(fit) == 0 {
		x.claimEvent(c, true, "InsufficientCapacityError", "NodeClaim %s event: nothing that can be bought now meets its requirements", c.Name)
		x.giveUp(l, "nothing that can be bought now meets its requirements")
		return false
	}
	slices.SortStableFunc(fit, func(a, b *model.Offering) int {
		return cmp.Or(cmp.Compare(a.USDPerHour, b.USDPerHour), cmp.Compare(a.Key(), b.Key()))
	})
	l.capacity = fit[0].CapacityType
	for i, o := range fit {
		// a reservation stands alone: its instances are counted
		if o.CapacityType == l.capacity && len(l.offers) < maxOffers && (i == 0 || o.ReservationID == "") && partition(o) == partition(fit[0]) {
			l.offers = append(l.offers, offer(o, i))
		}
	}
	for _, cm := range l.claims {
		if cm.offering == nil {
			cm.offering = fit[0]
			x.m.Assume(cm.claim, fit[0])
		}
	}
	return true
}

// asksReserved says whether a claim names reserved capacity: others do not draw on it.
func asksReserved(c *model.Claim) bool {
	r, ok := c.Requirements.Get(model.LabelCapacityType)
	return ok && r.Finite() && r.Has(model.Reserved)
}

// allows says whether a claim's requirements and requests let it run on an offering.
func allows(c *model.Claim, o *model.Offering) bool {
	if !c.Requests.Fits(o.Type.Allocatable) {
		return false
	}
	for _, r := range c.Requirements.All() {
		v, ok := o.Label(r.Key)
		if !ok && r.Key == model.LabelInstanceType {
			v, ok = o.Type.Name, true
		}
		if !ok {
			v, ok = c.Labels[r.Key]
		}
		if ok && !r.Has(v) || !ok && !r.AllowsAbsent() {
			return false
		}
	}
	return true
}
