package sdk

import (
	"context"
	"encoding/json"
	"time"
)

// Strategy is what every strategy has. A strategy also is a Pricer, a Scorer or both; a
// Pricer may be a Planner as well, a Scorer a Proposer.
//
// All methods but Configure may be called from several goroutines at once; Configure never
// runs beside them.
type Strategy interface {
	// Describe says who the strategy is. It works before Configure.
	Describe() Description
	// Configure takes a JSON object; an empty one means defaults. With an error the
	// configuration before stays in force. Decode does the usual.
	Configure(config json.RawMessage) error
}

// Pricer decides which machines are bought, by pricing them.
type Pricer interface {
	Strategy
	// Price answers one PoolPrices for each pool of the request, in its order.
	Price(ctx context.Context, req *PriceRequest) (*PriceAnswer, error)
}

// Scorer decides which machines are given back, by judging moves.
type Scorer interface {
	Strategy
	// Score answers one Verdict for each move of the request, in its order.
	Score(ctx context.Context, req *ScoreRequest) (*ScoreAnswer, error)
}

// Description is a strategy's manifest. Kinds and levels follow from the
// interfaces that it implements.
type Description struct {
	Name          string // lower case letters, digits and dashes, at most 63 characters
	Version       string // of the strategy, such as 1.4.0
	Summary       string // one line
	Documentation string // address, or empty
	ConfigSchema  string // JSON Schema, or empty
	Deterministic bool   // equal input always gives an equal answer
}

// Catalogue is what can be bought, without prices and health.
type Catalogue struct {
	Offerings []Offering
	// Hash names the content. The host fills it in.
	Hash [32]byte
}

// InstanceType is a kind of machine as one node class runs it.
type InstanceType struct {
	Name, NodeClass string
	Labels          map[string]string // that the node will carry; read-only
	CPUMilli        int64             // allocatable
	MemoryBytes     int64             // allocatable
	Pods            int64             // allocatable
	StorageBytes    int64             // allocatable
	Extended        map[string]int64  // allocatable devices and the like
}

// Offering is a type in a zone as a capacity type.
type Offering struct {
	Type          *InstanceType
	Zone          string
	CapacityType  string // on-demand, spot or reserved
	ReservationID string
}

// Names of the labels that selectors and strategies use most.
const (
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelArch         = "kubernetes.io/arch"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelCapacityType = "karpenter.sh/capacity-type"
	Spot              = "spot"
	OnDemand          = "on-demand"
	Reserved          = "reserved"
)

// Label is the value that a node of this offering will have for key.
func (o *Offering) Label(key string) (string, bool) {
	switch key {
	case LabelZone:
		return o.Zone, true
	case LabelCapacityType:
		return o.CapacityType, true
	case LabelInstanceType:
		return o.Type.Name, true
	}
	v, ok := o.Type.Labels[key]
	return v, ok
}

// Health tells what is known of an offering beside its price.
type Health struct {
	Available       bool
	Unavailable     string // why not
	Shortages       int    // remembered for it
	Interruptions   int    // seen on it
	ReservationLeft int    // instances left, for reserved
	// LastShortage and LastInterruption are when it last happened; zero = not known.
	LastShortage, LastInterruption time.Time
}

// PriceRequest is one batch. It is read-only.
type PriceRequest struct {
	Catalogue   *Catalogue
	Now         time.Time
	USDPerHour  []float64      // market price by offering, in the order of the catalogue
	Health      map[int]Health // by offering; missing = available, no history
	Pools       []Pool
	Commitments []Commitment
	Demand      Demand
}

// HealthOf is the health of an offering, with the default for those without an entry.
func (r *PriceRequest) HealthOf(offering int) Health {
	if h, ok := r.Health[offering]; ok {
		return h
	}
	return Health{Available: true}
}

// Demand sums what the waiting pods ask for.
type Demand struct {
	Pods        int
	CPUMilli    int64
	MemoryBytes int64
}

// Pool is a NodePool and what runs in it.
type Pool struct {
	Name              string
	NodeClass         string
	Weight            int32
	Annotations       map[string]string // the place for context per pool
	VolumesUSDPerHour float64           // of one node
	Offerings         []int             // that the pool's requirements allow: indexes into the catalogue, ascending
	Running           []Running
}

// Running counts the nodes of a pool on one offering.
type Running struct {
	Offering                         int // index into the catalogue, -1 if it is not in it
	InstanceType, Zone, CapacityType string
	Nodes                            int // that joined
	InFlight                         int // bought, not joined yet
	USDPerHour                       float64
}

// Commitment is capacity or spend that is paid for anyhow.
type Commitment struct {
	Name           string
	Covers         Selector
	USDPerHour     float64
	UsedUSDPerHour float64
	Nodes          int
	UsedNodes      int
	// Discount is the part of its market price that a covered node does not draw on
	// USDPerHour; USDPerHourByType says what it draws by instance type instead.
	Discount         float64
	USDPerHourByType map[string]float64
	Source           string // where it is told
}

// Draws is what a node of an offering with this market price draws on the commitment,
// USD per hour.
func (c *Commitment) Draws(o *Offering, market float64) float64 {
	if usd, ok := c.USDPerHourByType[o.Type.Name]; ok {
		return usd
	}
	return market * (1 - c.Discount)
}

// Selector picks offerings by labels; every match must hold, none = all.
type Selector []Match

// Match holds if the label has one of the values, or has none of them if negated.
type Match struct {
	Key    string
	Values []string
	Negate bool
}

// Matches says whether the selector picks the offering.
func (s Selector) Matches(o *Offering) bool {
	for _, m := range s {
		v, ok := o.Label(m.Key)
		in := false
		for _, want := range m.Values {
			in = in || ok && v == want
		}
		if in == m.Negate {
			return false
		}
	}
	return true
}

// PriceAnswer has one entry for each pool of the request, in its order.
type PriceAnswer struct{ Pools []PoolPrices }

// PoolPrices is the answer for one pool. Offerings are named by their index in the
// catalogue throughout, but USDPerHour goes by position in Pool.Offerings.
type PoolPrices struct {
	USDPerHour []float64      // effective price by position in Pool.Offerings
	Steps      map[int][]Step // by offering; replaces USDPerHour
	Vetoes     []Veto
	Limits     []Limit
	FeePerNode float64 // USD per hour, added for each node
	// LargestFirst lets each node take as many pods as the largest legal machine holds,
	// before the lowest effective price decides; false = the least sum.
	LargestFirst bool
}

// Step is a price up to a quantity that one plan buys: Nodes, or market price in sum;
// neither = without end, as the last step must be. What runs already is not counted.
type Step struct {
	USDPerHour    float64
	Nodes         int
	SumUSDPerHour float64
	Shared        string // steps of one name draw on one quantity
}

// Veto keeps offerings from being bought.
type Veto struct {
	Reason    string
	Offerings []int
}

// Measure is what a share is a share of.
type Measure int

// The measures.
const (
	MeasureNodes Measure = iota + 1
	MeasureCPU
	MeasureUSDPerHour
)

// Over is what variety counts.
type Over int

// What variety can count.
const (
	OverZones Over = iota + 1
	OverSpotPools
)

// Limit is a rule that the engine keeps over a pool's nodes, running and new
// together. Exactly one of Share, PodsPerNode and Variety is set.
type Limit struct {
	Name        string
	Share       *Share
	PodsPerNode *PodsPerNode
	Variety     *Variety
}

// PodsPerNode bounds the pods of one workload, those of one controller, on one node.
// At least one of the two is set; the smaller bound holds.
type PodsPerNode struct {
	Max   int     // at most this many; 0 = not set
	Share float64 // at most this part of the workload's pods, rounded down, never under one pod; 0 to 1, 0 = not set
}

// Share bounds the part that selected offerings have. Nothing is rounded. Max is a
// wall, Min an aim: see the protocol.
type Share struct {
	Selector Selector
	Min, Max float64 // 0 to 1
	Measure  Measure
}

// Variety asks for at least Min different places, none of which holds more than its
// even part of the nodes. It is an aim.
type Variety struct {
	Over Over
	Min  int
}

// ScoreRequest is one round of moves to be judged. It is read-only.
type ScoreRequest struct {
	Catalogue *Catalogue
	Now       time.Time
	Pools     []Pool
	Moves     []Move
}

// Move takes nodes away and perhaps launches others for their pods.
type Move struct {
	Pool             int    // index into ScoreRequest.Pools
	Reason           string // Empty, Underutilized, Drifted, Expired or Unhealthy
	Remove           []RemovedNode
	Launch           []LaunchedNode
	PodsEvicted      int
	PodDeletionCost  int64
	USDPerHourBefore float64
	USDPerHourAfter  float64
	USDPerHourWorst  float64 // After, should the dearest alternative be launched
	Committed        float64 // of USDPerHourBefore, what is paid anyhow when the nodes are gone, USD per hour
}

// RemovedNode is a node that a move takes away.
type RemovedNode struct {
	Name       string
	Offering   int // index into the catalogue, -1 if it is not in it
	USDPerHour float64
	Pods       int
	Age        time.Duration
	Expires    time.Duration // how long it has until it expires; 0 = it does not, or it is not known
	PodFacts
}

// PodFacts sum up what is known of the pods that are evicted from a node.
type PodFacts struct {
	DeletionCost int64 // sum of their deletion costs
	Priorities   int64 // sum of their priorities, each at most 1,000,000,000
	Young        int   // how many were started less than ten minutes ago
	Restarts     int   // of their containers, in sum
}

// LaunchedNode is a node that a move buys.
type LaunchedNode struct {
	Offering   int
	USDPerHour float64
}

// ScoreAnswer has one verdict for each move, in the order of the request.
type ScoreAnswer struct{ Verdicts []Verdict }

// Verdict is the judgement of one move.
type Verdict struct {
	Accept bool
	Score  float64 // order among accepted moves, greater first
	Reason string  // needed where Accept is false
}
