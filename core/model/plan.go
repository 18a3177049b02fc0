package model

import "time"

// PlanKind says which planner made a plan.
type PlanKind string

// The three planners.
const (
	PlanProvision PlanKind = "provision"
	PlanDisrupt   PlanKind = "disrupt"
	PlanInterrupt PlanKind = "interrupt"
)

// Plan is what a planner wants done. It is data: it can be printed, stored,
// dry-run, replayed or refused, and only the executor carries it out.
type Plan struct {
	ID       string
	Kind     PlanKind
	Made     time.Time
	Strategy string // name and version of the strategy that answered
	Outcome  string // how the strategy answered: ok, or why the built-in did
	Basis    string // hash of the inputs

	Launch     []*NewNode  // of provisioning and replacement
	Placements []Placement // pods for nodes that exist or are on their way
	Unplaced   []Verdict
	Commands   []Command // of disruption
	Blocked    []Blocked // nodes that stay, and why
	// Eligible is how many nodes could go for each reason as far as they themselves, their
	// pods and their pool let them; budgets, room and the strategy come after that.
	Eligible map[DisruptionReason]int

	LowerBoundUSDPerHour float64     // proven bound for the pods of the plan, real money
	Shortfalls           []Shortfall // aims of strategies that the plan did not reach
	Warnings             []string
	Budget               *BudgetEnd // nil = planning was not stopped by its time budget
}

// Move takes a pod from one node to another; To may be a node of the plan's Launch.
type Move struct {
	Pod      *Pod
	From, To string
}

// Command takes nodes away together.
type Command struct {
	Reason      DisruptionReason
	Remove      []*Node
	Launch      []*NewNode
	Moves       []Move
	Before      float64 // USD per hour of the removed nodes
	After       float64 // USD per hour of the launched ones
	Worst       float64 // USD per hour of the launched ones, at the dearest alternative
	PodsEvicted int
	Wave        int // 1 = may start now, later ones once the earlier are done
	Score       float64
	Why         string
}

// Blocked says why a node stays.
type Blocked struct {
	Node    string
	Reason  string // such as PodDisruptionBudget, DoNotDisrupt, Budget, ConsolidateAfter
	Message string
	Until   *time.Time // when it may be looked at again, nil = not known
}

// Hold says why nothing more of some kind may start in a pool.
type Hold struct {
	Halted bool // something is wrong; else it just takes its time
	Why    string
	Until  *time.Time // nil = not known
}

// NoticeKind is the kind of an interruption notice.
type NoticeKind string

// The kinds of the ledger's notices.
const (
	NoticeSpot        NoticeKind = "spot"
	NoticeRebalance   NoticeKind = "rebalance"
	NoticeScheduled   NoticeKind = "scheduled"
	NoticeStopped     NoticeKind = "stopped"
	NoticeTerminated  NoticeKind = "terminated"
	NoticeReservation NoticeKind = "reservation"
	NoticeStatus      NoticeKind = "status"
	NoticeLifecycle   NoticeKind = "lifecycle" // an Auto Scaling group ends the instance
)

// Notice says that AWS is about to take, or has taken, an instance.
type Notice struct {
	EventID         string
	Kind            NoticeKind
	InstanceID      string
	Account, Region string
	Time            time.Time  // of the event
	Deadline        *time.Time // when the instance goes, nil = not known
	Action          string     // terminate, stop or hibernate, of spot and reservation notices
	EventARN        string     // of scheduled changes: updates carry the same one
	State           string     // of scheduled changes: open, upcoming, closed
}
