package model

import "slices"

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
