package model

import (
	"math"
	"slices"
)

// Price is a strategy's word on one offering for one pool.
type Price struct {
	USDPerHour float64 // effective price; may differ from the market's
	Veto       string  // why the offering may not be used, or empty
}

// Prices is the answer of the strategies for all pools of a problem.
type Prices struct {
	ByPool map[string]PoolPrices // by pool name; a pool that is missing is priced at the market
	// Drafts are the nodes of strategies that pack by themselves (level plan); the waiting
	// pods that are on none of them are the engine's. Drafted names who made them.
	Drafts  []Draft
	Drafted string
}

// PoolPrices is the answer for one pool.
type PoolPrices struct {
	Strategy    string  // name and version
	Outcome     string  // ok, or why the built-in answered: dead, late, invalid, empty, refused
	FeePerNode  float64 // USD per hour added for each node, so that a few cents never buy hundreds of small ones
	Offerings   []Price // in the order of World.Offerings[pool.NodeClass.Name]; nil = market prices
	PreferLarge bool    // fill the largest legal machine first, then rank by price (first-fit)
	// Steps are prices that depend on the quantity, by position in Offerings, where the
	// price of the last step stands, too.
	Steps  map[int][]PriceStep
	Limits []StrategyLimit
}

// MoveScore is a strategy's word on one command.
type MoveScore struct {
	Accept bool
	Score  float64
	Reason string
	// Strategy is the name and version of who judged, Outcome how the strategy that was
	// asked answered; both empty where nobody did.
	Strategy, Outcome string
}

// PriceStep is a price up to a quantity that one plan buys. The last step of an
// offering has no quantity and so no end.
type PriceStep struct {
	USDPerHour    float64
	Nodes         int64   // up to this many nodes; 0 = not counted in nodes
	SumUSDPerHour float64 // up to this much market price in sum; 0 = not counted in money
	Shared        string  // steps of one name draw on one quantity, over all pools; empty = on its own
}

// Endless says whether the step has no quantity.
func (s PriceStep) Endless() bool { return s.Nodes == 0 && s.SumUSDPerHour == 0 }

// StrategyLimit is a strategy's rule over the nodes of a pool, running and new
// together. Exactly one of Share, PodsPerNode and Variety is set.
type StrategyLimit struct {
	Name        string
	Share       *ShareLimit
	PodsPerNode *PodsPerNode
	Variety     *Variety
}

// Measure is what a share is a share of.
type Measure int

// The measures.
const (
	MeasureNodes      Measure = iota
	MeasureCPU                // milli-CPU of the machines' capacity
	MeasureUSDPerHour         // market price; one that is not known counts 0
)

// ShareLimit bounds the part that the selected offerings have in the measure of all
// nodes of the pool. Nothing is rounded. Max is a wall; Min is an aim: what cannot be
// placed otherwise is placed against it, and the plan has a Shortfall.
type ShareLimit struct {
	Selector OfferingSelector
	Min, Max float64 // 0 to 1
	Measure  Measure
}

// PodsPerNode bounds the pods of one workload on a node; the smaller bound holds.
type PodsPerNode struct {
	Max   int64   // 0 = not set
	Share float64 // of the workload's pods, waiting and running, rounded down, never under one; 0 = not set
}

// Of is the bound for a workload of so many pods.
func (b *PodsPerNode) Of(pods int64) int64 {
	bound := int64(math.MaxInt64)
	if b.Max > 0 {
		bound = b.Max
	}
	if b.Share > 0 {
		// a third of three pods is one, whatever binary fractions make of it
		bound = min(bound, max(1, int64(b.Share*float64(pods)+1e-9)))
	}
	return bound
}

// Over is what a variety counts.
type Over int

// What a variety can count.
const (
	OverZones     Over = iota
	OverSpotPools      // pairs of instance type and zone, spot nodes only
)

// Variety asks that the nodes lie in at least Min places, as far as there are so many
// nodes, and that none holds more than its even part, rounded up. It is an aim.
type Variety struct {
	Over Over
	Min  int64
}

// Place is the place of a node of the given offering; false = it is not counted.
func (v *Variety) Place(instanceType, zone, capacityType string) (string, bool) {
	if v.Over == OverZones {
		return zone, true
	}
	return instanceType + "/" + zone, capacityType == Spot
}

// OfferingSelector picks offerings, and nodes, by their labels: every match must
// hold, none = all.
type OfferingSelector []LabelMatch

// LabelMatch holds if the label has one of the values, or has none of them if negated.
type LabelMatch struct {
	Key    string
	Values []string
	Negate bool
}

// Picks says whether the labels that the function knows satisfy the selector.
func (s OfferingSelector) Picks(label func(key string) (string, bool)) bool {
	for _, m := range s {
		v, ok := label(m.Key)
		if (ok && slices.Contains(m.Values, v)) == m.Negate {
			return false
		}
	}
	return true
}

// Shortfall says that a plan did not reach what a strategy aims at.
type Shortfall struct{ Pool, Limit, Message string }
