package model

import (
	"fmt"
	"maps"
	"slices"
)

// Commitment is machines or spend that are paid for anyhow: reserved instances, or a
// Savings Plan.
type Commitment struct {
	Name   string
	Source string // where it is told: a file, or the configuration
	Covers OfferingSelector
	// Nodes and USDPerHour are what is committed, one of the two; UsedNodes and
	// UsedUSDPerHour what of it is used outside of the cluster.
	Nodes, UsedNodes           int64
	USDPerHour, UsedUSDPerHour float64
	// Discount is the part of its market price that a covered machine does not draw;
	// USDPerHourByType is what it draws by instance type, where that is told.
	Discount         float64
	USDPerHourByType map[string]float64
}

// Draws is what a machine of a type with this market price draws, USD per hour.
func (c *Commitment) Draws(instanceType string, market float64) float64 {
	if usd, ok := c.USDPerHourByType[instanceType]; ok {
		return usd
	}
	return market * (1 - c.Discount)
}

// Usage adds what nodes draw to what is used outside of the cluster. A node counts for
// one commitment, the first in order that covers it and has as much left; those that are
// being removed count as long as they run.
func Usage(commitments []Commitment, nodes []*Node) []Commitment {
	return Cover(commitments, nodes).Used
}

// Coverage is which nodes draw on which commitments.
type Coverage struct {
	Used    []Commitment  // with what is drawn
	by      map[*Node]int // the commitment that a node draws on
	waiting []float64     // by commitment, market price of nodes that would draw on it if it had more left
	could   map[*Node]int // the commitment that such a node waits for, the first in order
}

// Cover counts nodes for commitments, in order.
func Cover(commitments []Commitment, nodes []*Node) *Coverage {
	if len(commitments) == 0 {
		return &Coverage{}
	}
	c := &Coverage{Used: slices.Clone(commitments), by: map[*Node]int{}, could: map[*Node]int{}, waiting: make([]float64, len(commitments))}
	for _, n := range nodes {
		label := func(key string) (string, bool) {
			v, ok := n.Labels[key]
			return v, ok
		}
		first := -1
		for i := range c.Used {
			if !c.Used[i].Covers.Picks(label) {
				continue
			}
			if c.Used[i].use(n) {
				c.by[n], first = i, -1
				break
			}
			if first < 0 {
				first = i
			}
		}
		if first >= 0 && n.PriceKnown {
			c.could[n] = first
			c.waiting[first] += n.USDPerHour
		}
	}
	return c
}

// Idle is what of the market price of nodes is paid anyhow when they are gone, USD per
// hour: what they draw that no other node waits for.
func (c *Coverage) Idle(gone []*Node) float64 {
	if len(c.by) == 0 {
		return 0
	}
	freed, waiting := make([]float64, len(c.Used)), slices.Clone(c.waiting)
	for _, n := range gone {
		if i, ok := c.by[n]; ok {
			freed[i] += n.USDPerHour
		} else if i, ok := c.could[n]; ok {
			waiting[i] -= n.USDPerHour
		}
	}
	idle := 0.0
	for i := range freed {
		idle += max(0, freed[i]-max(0, waiting[i]))
	}
	return idle
}

// use takes a node in, unless there is not as much left.
func (c *Commitment) use(n *Node) bool {
	if c.Nodes > 0 {
		if c.UsedNodes >= c.Nodes {
			return false
		}
		c.UsedNodes++
		return true
	}
	if _, told := c.USDPerHourByType[n.InstanceType()]; !told && !n.PriceKnown {
		return false
	}
	draws := c.Draws(n.InstanceType(), n.USDPerHour)
	if c.UsedUSDPerHour+draws > c.USDPerHour {
		return false
	}
	c.UsedUSDPerHour += draws
	return true
}

// UnmatchedCommitments warns of what commitments name and nothing has that is there or can
// be bought: a mistyped instance type, zone, pool or label covers nothing in silence.
// It is nil where nothing can be bought.
func (w *World) UnmatchedCommitments() []string {
	if len(w.Settings.Commitments) == 0 || len(w.Offerings) == 0 {
		return nil
	}
	has := w.labelValues()
	var out []string
	for i := range w.Settings.Commitments {
		c := &w.Settings.Commitments[i]
		for _, m := range c.Covers {
			for _, v := range m.Values {
				if !m.Negate && m.Key != LabelCapacityType && !has(m.Key, v) {
					out = append(out, fmt.Sprintf("commitment %s (%s): no machine has %s %s", c.Name, c.Source, m.Key, v))
				}
			}
		}
		for _, t := range slices.Sorted(maps.Keys(c.USDPerHourByType)) {
			if !has(LabelInstanceType, t) && !c.Covers.names(LabelInstanceType, t) {
				out = append(out, fmt.Sprintf("commitment %s (%s): there is a price for %s, and no machine is of that type", c.Name, c.Source, t))
			}
		}
	}
	return out
}

// names says whether a selector names a value itself.
func (s OfferingSelector) names(key, value string) bool {
	return slices.ContainsFunc(s, func(m LabelMatch) bool { return m.Key == key && slices.Contains(m.Values, value) })
}

// labelValues answers whether a node that is there, or one that can be bought, has a label
// with a value, or may have it by the requirements of its pool: those that the provider fills
// in are what offerings say, whatever a pool asks for.
func (w *World) labelValues() func(key, value string) bool {
	byKey := map[string]map[string]bool{}
	collect := func(key string) map[string]bool {
		values := map[string]bool{}
		for _, list := range w.Offerings {
			for _, o := range list {
				if v, ok := o.Label(key); ok {
					values[v] = true
				}
			}
		}
		for _, n := range w.Nodes {
			values[n.Labels[key]] = true
		}
		for _, p := range w.Pools {
			if key == LabelPool {
				values[p.Name] = true
			}
			values[p.Labels[key]] = true
		}
		return values
	}
	return func(key, value string) bool {
		if byKey[key] == nil {
			byKey[key] = collect(key)
		}
		return byKey[key][value] || !WellKnown(key) && slices.ContainsFunc(w.Pools, func(p *Pool) bool {
			r, ok := p.Requirements.Get(key)
			return ok && r.Has(value)
		})
	}
}
