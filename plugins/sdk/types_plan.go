package sdk

import (
	"context"
	"slices"
	"time"
)

// Planner decides itself which nodes are bought and which pods go on them: level plan.
// Prices are what the engine falls back to where a plan is illegal, late or empty.
type Planner interface {
	Pricer
	// Plan answers nodes for the pods of the request; pods that it leaves out are packed
	// by the engine. It is asked after Price of the same batch.
	Plan(ctx context.Context, req *PlanRequest) (*PlanAnswer, error)
}

// Proposer finds moves itself: level propose. Verdicts on the moves of the host are what
// is fallen back to.
type Proposer interface {
	Scorer
	// Propose answers moves in order, each meant with the ones before it done; simulate
	// tells what the host would make of some.
	Propose(ctx context.Context, world *ProposeWorld, simulate Simulate) (*Proposal, error)
}

// Simulate asks the host what would become of moves, one after the other, starting from
// the world as it was given. Not more than ProposeWorld.MaxSimulations moves are
// simulated in one call of Propose, over all calls of this.
type Simulate func(moves []ProposedMove) ([]Trial, error)

// Amounts is what pods ask for, or what there is room for.
type Amounts struct {
	CPUMilli, MemoryBytes, Pods, StorageBytes int64
	Extended                                  map[string]int64 // devices and the like; read-only
}

// Add is the sum.
func (a Amounts) Add(b Amounts, times int64) Amounts {
	out := Amounts{CPUMilli: a.CPUMilli + times*b.CPUMilli, MemoryBytes: a.MemoryBytes + times*b.MemoryBytes, Pods: a.Pods + times*b.Pods,
		StorageBytes: a.StorageBytes + times*b.StorageBytes}
	if len(a.Extended)+len(b.Extended) > 0 {
		out.Extended = make(map[string]int64, len(a.Extended)+len(b.Extended))
		for k, v := range a.Extended {
			out.Extended[k] = v
		}
		for k, v := range b.Extended {
			out.Extended[k] += times * v
		}
	}
	return out
}

// Fits is how many of the amounts there is room for, at most most.
func (a Amounts) Fits(room Amounts, most int64) int64 {
	n := most
	bound := func(want, have int64) {
		if want > 0 {
			n = max(0, min(n, have/want))
		}
	}
	bound(a.CPUMilli, room.CPUMilli)
	bound(a.MemoryBytes, room.MemoryBytes)
	bound(a.Pods, room.Pods)
	bound(a.StorageBytes, room.StorageBytes)
	for k, v := range a.Extended {
		bound(v, room.Extended[k])
	}
	return n
}

// PlanRequest is the pods that need new nodes, and the market. It is read-only.
type PlanRequest struct {
	PriceRequest         // what Price was asked with, for the pools that may be planned for
	Sets         [][]int // of offerings, ascending; groups and rooms refer to them by index
	Groups       []PodGroup
	Rooms        []PoolRoom // in the order of Pools
}

// PodGroup is pods that ask for the very same.
type PodGroup struct {
	Pods       int
	Requests   Amounts   // of one
	Allowed    []Allowed // by pool; a pool that is not there can take none
	Priority   int32
	Neighbours []Neighbours // what they ask of the pods around them: leaving these pods to the engine is a good answer
}

// Allowed is the offerings of a pool that a group may use.
type Allowed struct {
	Pool int // index into PlanRequest.Pools
	Set  int // index into PlanRequest.Sets
}

// Relation is what Neighbours asks for.
type Relation int

// The relations.
const (
	RelationSpread Relation = iota + 1
	RelationAffinity
	RelationAntiAffinity
)

// Neighbours is a spread or an affinity. Pods that run already count as well and are not
// told; the engine verifies it.
type Neighbours struct {
	Relation Relation
	Key      string // label that makes the domains
	MaxSkew  int    // of a spread
	Groups   []int  // of the request whose pods it counts
}

// PoolRoom is what counts for all new nodes of a pool.
type PoolRoom struct {
	Daemons   []DaemonRoom
	Left      map[string]int64 // what the pool's limits leave, by resource; nil = no limits
	NodesLeft int              // -1 = any number
}

// DaemonRoom is what daemon pods take on nodes of some offerings.
type DaemonRoom struct {
	Set      int // index into PlanRequest.Sets
	Requests Amounts
}

// Room is what a new node of a pool has for pods: the room of its type less the daemon pods.
func (r *PlanRequest) Room(pool, offering int) Amounts {
	t := r.Catalogue.Offerings[offering].Type
	room := Amounts{CPUMilli: t.CPUMilli, MemoryBytes: t.MemoryBytes, Pods: t.Pods, StorageBytes: t.StorageBytes, Extended: t.Extended}
	for _, d := range r.Rooms[pool].Daemons {
		if _, ok := slices.BinarySearch(r.Sets[d.Set], offering); ok {
			room = room.Add(d.Requests, -1)
		}
	}
	return room
}

// On is the offerings of a pool that a group may use, ascending.
func (r *PlanRequest) On(group, pool int) []int {
	for _, a := range r.Groups[group].Allowed {
		if a.Pool == pool {
			return r.Sets[a.Set]
		}
	}
	return nil
}

// PlanAnswer is the nodes to be bought.
type PlanAnswer struct{ Nodes []PlannedNode }

// PlannedNode is one node, or several that are alike.
type PlannedNode struct {
	Pool     int // index into PlanRequest.Pools
	Offering int // index into the catalogue
	Count    int // such nodes; 0 = one
	Pods     []PodCount
}

// PodCount is some pods of a group.
type PodCount struct{ Group, Pods int }

// ProposeWorld is what moves are found in. It is read-only.
type ProposeWorld struct {
	Catalogue      *Catalogue
	Now            time.Time
	USDPerHour     []float64 // market price by offering
	Pools          []Pool    // whose nodes may be moved
	Nodes          []Node    // of the cluster, others among them
	Budgets        []Budget
	MaxSimulations int
}

// Node is a node of the cluster.
type Node struct {
	Name           string
	Pool           int // index into ProposeWorld.Pools, -1 = of none of them
	Offering       int // index into the catalogue, -1 if it is not in it
	USDPerHour     float64
	Age            time.Duration
	Pods           int     // that would have to move
	Requests       Amounts // of these, in sum
	Free           Amounts // room that is left
	Removable      bool
	Blocked        string // why not
	DisruptionCost float64
}

// Budget is how many nodes of a pool may go now for a reason.
type Budget struct {
	Pool   int
	Reason string // Empty or Underutilized
	Nodes  int
}

// ProposedMove takes nodes of one pool away together; where their pods go is the host's.
type ProposedMove struct {
	Remove []int   // indexes into ProposeWorld.Nodes
	Score  float64 // order, greater first
	Why    string  // for people
}

// Trial is what would become of a move.
type Trial struct {
	Legal            bool
	Reason, Message  string // why not
	USDPerHourBefore float64
	USDPerHourAfter  float64
	USDPerHourWorst  float64
	PodsEvicted      int
	Launch           []LaunchedNode
}

// Proposal is the moves to be made, none included.
type Proposal struct{ Moves []ProposedMove }
