package model

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
	if len(commitments) == 0 {
		return nil
	}
	out := append([]Commitment(nil), commitments...)
	for _, n := range nodes {
		label := func(key string) (string, bool) {
			v, ok := n.Labels[key]
			return v, ok
		}
		for i := range out {
			if c := &out[i]; c.Covers.Picks(label) && c.use(n) {
				break
			}
		}
	}
	return out
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
