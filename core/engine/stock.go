package engine

import (
	"fmt"

	"github.com/weir-project/weir/core/model"
)

// stock is how many instances are left in the capacity reservations of a world, by
// id. Several offerings, pools and node classes may draw on one; the lowest count
// that any of them gives holds. The counts are of what is left, as EC2 tells it: what
// runs is not in them any more. Claims that are on their way and not launched are
// taken off, from every reservation that they may use.
func stock(w *model.World) map[string]int64 {
	var left map[string]int64
	for _, list := range w.Offerings {
		for _, o := range list {
			if o.ReservationID == "" {
				continue
			}
			if left == nil {
				left = map[string]int64{}
			}
			n := int64(max(o.Count, 0))
			if have, ok := left[o.ReservationID]; ok {
				n = min(n, have)
			}
			left[o.ReservationID] = n
		}
	}
	if left == nil {
		return nil
	}
	for _, n := range w.Nodes {
		if n.Claim == nil || n.Joined() || n.Claim.ProviderID != "" || n.BeingRemoved() {
			continue
		}
		for _, id := range promised(n) {
			if _, ok := left[id]; ok {
				left[id] = max(left[id]-1, 0)
			}
		}
	}
	return left
}

// promised is the reservations that a node on its way may use.
func promised(n *model.Node) []string {
	if id := n.Labels[model.LabelReservationID]; id != "" {
		return []string{id}
	}
	if r, ok := n.Claim.Requirements.Get(model.LabelReservationID); ok && r.Finite() {
		return r.Values
	}
	return nil
}

// reservationOf is the id of the reservation that an option draws on, or empty.
func (o *option) reservationOf() string { return o.pool.class.offerings[o.offering].ReservationID }

// spared bounds what reservations can carry beyond their price at weights y, after
// order: of each no more than its instances, filled to the brim with what is dearest
// elsewhere.
func (d *dual) spared(y weights) float64 {
	most := map[string]float64{} // by reservation: of one instance
	count := map[string]float64{}
	d.few.each(func(i int) {
		top := 0.0
		for c, b := range d.by {
			if d.demand[c][dimPods] > 0 && b.has(i) {
				top = max(top, d.least[c])
			}
		}
		o := d.options[i]
		id := o.reservationOf()
		most[id] = max(most[id], top*y.of(o.room)-d.price[i])
		count[id] = float64(o.count)
	})
	sum := 0.0
	for _, id := range sortedKeys(most) {
		sum += count[id] * most[id]
	}
	return sum
}

// stockReason says that every offering of a set is of a reservation that is used up.
func (pr *problem) stockReason(p *pool, b bitset) string {
	msg := ""
	other := false
	b.each(func(i int) {
		o := p.class.offerings[i]
		if o.ReservationID == "" || pr.stock[o.ReservationID] > 0 {
			other = true
		} else if msg == "" {
			msg = fmt.Sprintf(stockOut+" %s (%s in %s) had %d instances left, which this plan and nodes on their way use up, and nothing else is allowed",
				o.ReservationID, o.Type.Name, o.Zone, o.Count)
		}
	})
	if other {
		return ""
	}
	return msg
}

// stockOut begins the message where nothing but reserved capacity would do, and others
// have it.
const stockOut = "capacity reservation"

// gated is the message where only reserved capacity would do and is not used.
const gated = "only reserved capacity is left, and the feature gate ReservedCapacity is off"
