package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
)

// Strategies by which a fleet chooses among its lines.
const (
	LowestPrice                  = "lowest-price"
	Prioritized                  = "prioritized"
	Diversified                  = "diversified"
	CapacityOptimized            = "capacity-optimized"
	CapacityOptimizedPrioritized = "capacity-optimized-prioritized"
	PriceCapacityOptimized       = "price-capacity-optimized"
)

// Line is one line of a fleet: what may be bought, and where.
type Line struct {
	InstanceType, Zone string
	Priority           float64 // lower goes first, for strategies that go by it
	USDPerHour         float64 // market price, which is billed too; 0 = the catalogue's
	Reserved           bool    // out of a capacity reservation: what is left of the offering does not matter
}

// Fleet is an order for instances that are all alike, as EC2 itself takes it.
type Fleet struct {
	CapacityType string // spot or on-demand
	Strategy     string
	Lines        []Line
	Count        int
	Min          int // fewer than this are none
	// Refuse, where set, may refuse a line for the next instance by a code, before the line's capacity is looked at. It is
	// asked as often as a line is tried, and only once Took was told of what was taken so far.
	Refuse func(line int) (code, message string)
	Took   func(line int)
	// Launch is what the instances carry: ID, Labels, Taints and Tags.
	Launch cloud.Launch
}

// Bought is an instance and the line that it came from.
type Bought struct {
	Line int
	Machine
}

// Refusal is why a line was passed over.
type Refusal struct {
	Line          int
	Code, Message string
}

// Order buys a fleet at once, as much of it as is to be had. Client tokens, limits of calls and faults are the caller's
// business: see Launch for an EC2 with those.
func (e *EC2) Order(f Fleet) ([]Bought, []Refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	picks, refused := e.pick(e.sold("default"), f)
	f.Launch.CapacityType = f.CapacityType
	out := make([]Bought, len(picks))
	for i, p := range picks {
		out[i] = Bought{Line: p.line, Machine: e.machines[e.start(now, f.Launch, "", p)].copy()}
	}
	return out, refused
}

type pick struct {
	line     int
	offering *model.Offering
	usd      float64 // market price, 0 = the offering's
	reserved bool
	rank     float64
}

// pick chooses a line for each instance of a fleet, as far as there is capacity, without starting anything.
func (e *EC2) pick(sold map[string]*model.Offering, f Fleet) ([]pick, []Refusal) {
	var refused []Refusal
	told := map[string]bool{}
	refuse := func(line int, code, message string) {
		if k := fmt.Sprint(line, code); !told[k] {
			told[k] = true
			refused = append(refused, Refusal{line, code, message})
		}
	}
	var list []pick
	for i, l := range f.Lines {
		key := l.InstanceType + "/" + l.Zone + "/" + f.CapacityType
		of := sold[key]
		if of == nil {
			refuse(i, "Unsupported", fmt.Sprintf("%s is not supported in %s as %s", l.InstanceType, l.Zone, f.CapacityType))
			continue
		}
		list = append(list, pick{line: i, offering: of, usd: l.USDPerHour, reserved: l.Reserved, rank: e.rank(f.Strategy, key, l, of)})
	}
	slices.SortStableFunc(list, func(a, b pick) int { return cmp.Compare(a.rank, b.rank) })
	var out []pick
	taken := map[string]int{}
	short := map[string]bool{}
	for n := range f.Count {
		for i := range list {
			if f.Strategy == Diversified {
				i = (i + n) % len(list)
			}
			p := list[i]
			key := p.offering.Key()
			if f.Refuse != nil {
				if code, message := f.Refuse(p.line); code != "" {
					refuse(p.line, code, message)
					continue
				}
			}
			if left, limited := e.capacity[key]; !p.reserved && (limited && left <= taken[key] || !p.offering.Available) {
				if !short[key] {
					short[key] = true
					refuse(p.line, "InsufficientInstanceCapacity", fmt.Sprintf("not enough %s capacity of %s in %s", f.CapacityType, p.offering.Type.Name, p.offering.Zone))
				}
				continue
			}
			if !p.reserved {
				taken[key]++
			}
			if f.Took != nil {
				f.Took(p.line)
			}
			out = append(out, p)
			break
		}
	}
	if len(out) < f.Min {
		return nil, refused
	}
	return out, refused
}

// rank orders the lines of a fleet; prices are EC2's own, not those of the request.
func (e *EC2) rank(strategy, key string, l Line, of *model.Offering) float64 {
	usd := cmp.Or(l.USDPerHour, of.USDPerHour)
	depth := float64(e.hash("depth", key)>>11) / float64(1<<53)
	switch strategy {
	case Prioritized, CapacityOptimizedPrioritized:
		return l.Priority
	case CapacityOptimized:
		return depth
	case PriceCapacityOptimized:
		// a shallow pool counts as up to a tenth dearer: it is more likely to be reclaimed
		return usd * (1 + 0.1*depth)
	case Diversified:
		return 0
	}
	return usd
}

// buy buys a launch of the port: lowest-price for on-demand, price-capacity-optimized for spot, the given priority where
// the fleet is prioritized.
func (e *EC2) buy(now time.Time, l cloud.Launch) *fleet {
	o := Fleet{CapacityType: l.CapacityType, Strategy: LowestPrice, Count: len(l.Claims)}
	switch {
	case l.Prioritized:
		o.Strategy = Prioritized
	case l.CapacityType == model.Spot:
		o.Strategy = PriceCapacityOptimized
	}
	for _, x := range l.Offers {
		o.Lines = append(o.Lines, Line{InstanceType: x.InstanceType, Zone: x.Zone, Priority: x.Priority})
	}
	picks, refused := e.pick(e.sold(l.NodeClass), o)
	f := &fleet{}
	for i, p := range picks {
		f.ids = append(f.ids, e.start(now, l, l.Claims[i], p))
	}
	for _, r := range refused {
		kind := cloud.Shortage
		if r.Code == "Unsupported" {
			kind = cloud.Template
		}
		f.errors = append(f.errors, cloud.OfferError{Offer: l.Offers[r.Line], Kind: kind, Code: r.Code, Message: r.Message})
	}
	return f
}

// Each tells the instances in the order of their launch, until f says to stop. listed is false for one that EC2's
// answers do not show: it is too new, or has ended long ago. f must not call the EC2 nor keep or change what m holds.
func (e *EC2) Each(f func(m *Machine, listed bool) (more bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	for _, m := range e.order {
		if !f(&m.Machine, e.visible(now, m)) {
			return
		}
	}
}

// End ends an instance as its owner's call does; one that has ended is fine.
func (e *EC2) End(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	m := e.machines[id]
	if m == nil {
		return fmt.Errorf("instance %s: not found", id)
	}
	e.end(now, m, reasonUser)
	return nil
}
