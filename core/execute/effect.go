package execute

import (
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// Effect is one thing to be done to the world. Two effects of the same key are
// never in flight together: the step function emits the second one only after the
// result of the first came back.
type Effect struct {
	Key string
	Do  Do
}

// Kind names what the effect does, such as SendLaunch; failpoints and metrics use it.
func (e Effect) Kind() string { return e.Do.Kind() }

// Do is the action of an effect: one of the types of this file.
type Do interface{ Kind() string }

// Result is what came of an effect. Value's type is written at each action.
type Result struct {
	Effect Effect
	Err    error
	Value  any
}

// Writes to the cluster.
type (
	// CreateClaim makes a NodeClaim object. Value: its uid, a string.
	CreateClaim struct{ Claim *model.Claim }
	// PatchClaim changes a NodeClaim. No value.
	PatchClaim struct{ Patch ClaimPatch }
	// DeleteClaim asks for the deletion of a NodeClaim. No value.
	DeleteClaim struct{ Name, UID, Reason string }
	// PatchNode changes a Node. No value.
	PatchNode struct{ Patch NodePatch }
	// DeleteNode asks for the deletion of a Node. No value.
	DeleteNode struct{ Name, UID string }
	// Evict evicts a pod through the eviction API; of one that is terminating already it cuts the grace period. No value.
	Evict struct {
		Pod   *model.Pod
		Grace time.Duration // whole seconds; 0 = the pod's own
		Claim string        // whose node is drained
	}
	// DeletePod deletes a pod past its budgets. No value.
	DeletePod struct {
		Pod   *model.Pod
		Grace time.Duration
		Claim string
	}
	// PatchPool writes a NodePool's status. No value.
	PatchPool struct{ Status PoolStatus }
	// Emit records a Kubernetes event. No value.
	Emit struct{ Event Event }
)

// Launching and ending machines.
type (
	// OpenLaunch renders the request and writes the launch record: the intent. Value: Opened,
	// also where the ledger is unavailable (then with Err and without a version).
	OpenLaunch struct {
		Record ledger.Launch // without Request
		Launch cloud.Launch
		Expect int64 // version of the record that is replaced, 0 = none

		Account, Region string
		Probes          []string // offerings that may be asked although they are closed
		All             bool     // nothing is launched where an offer has to be left out
	}
	// SendLaunch sends a stored request under its token. Value: cloud.Answer.
	SendLaunch struct {
		ID      string
		Token   string
		Request []byte
	}
	// FindLaunch looks for the instances of a launch by their tag. Value: []cloud.Instance.
	FindLaunch struct{ ID string }
	// CloseLaunch writes what came of a launch in one transaction. Value: the new version of the record, an int64.
	CloseLaunch struct {
		ID   string
		Puts []ledger.PutOp // the launch record comes first
	}
	// Terminate ends instances. No value.
	Terminate struct {
		IDs    []string
		Reason string
	}
	// Describe reads instances. Value: []cloud.Instance.
	Describe struct{ IDs []string }
	// FetchOfferings reads what can be bought with a class. Value: []*model.Offering.
	FetchOfferings struct{ Class *model.NodeClass }
)

// Opened is the value of OpenLaunch.
type Opened struct {
	Request []byte
	Version int64
	Offers  []cloud.Offer                    // that the request names: those that no more may be bought from are left out; nil = as asked
	Taken   *ledger.Taken                    // what it counts for on ramps of offerings that were short
	Health  map[string]ledger.OfferingHealth // of offerings, as it is known now
	Held    string                           // why nothing may be launched now; no record was written then
}

// Reading back what is known, and writing it down.
type (
	// Recover reads everything a fresh leader needs. Value: Recovered.
	Recover struct {
		Cluster, Account, Region string
		Epoch                    int64 // earlier leaders are fenced off
	}
	// Sweep reads claims, instances and their memory for garbage collection. Value: Swept.
	Sweep struct{ Cluster string }
	// ReadNotices reads the notices that the Lambda has stored. Value: Noticed.
	ReadNotices struct{ Cluster string }
	// Write stores items without looking at their versions. No value.
	Write struct{ Items []ledger.Item }
	// RecordNotice stores a notice, the earliest deadline winning. Value: the ledger.Notice as stored.
	RecordNotice struct {
		Cluster string
		Notice  model.Notice
	}
	// AdvanceNotice writes what was done about a notice. No value.
	AdvanceNotice struct {
		Cluster, Instance string
		NoticeKind        model.NoticeKind
		State, Action     string
	}
	// ReadHealth reads what the account remembers of offerings. Value: map[string]ledger.OfferingHealth by key.
	ReadHealth struct{ Account, Region string }
	// AddShortages counts shortages of offerings, by read and conditional write. Value: map[string]ledger.OfferingHealth by key.
	AddShortages struct {
		Account, Region string
		Shortages       []Shortage
	}
)

// Shortage is one report that an offering is short.
type Shortage struct {
	Offering     string // type/zone/capacity type
	Message      string
	Interruption bool // reported by a spot interruption, not by a launch
	Bought       bool // no shortage: what was launched of it came (Got), or was not asked of it after all

	Got   int   // machines that were bought from it
	Took  int   // launches that its record counts as under way, which have ended
	Round int64 // of the record when they were counted

	At time.Time // when it was seen; zero = now
}

// Noticed is the value of ReadNotices.
type Noticed struct {
	Ours    []ledger.Notice
	Unowned []ledger.Notice // of instances whose owner nobody knew when they came
}

// Recovered is the value of Recover.
type Recovered struct {
	Claims    []*model.Claim // by a consistent list
	Instances []cloud.Instance
	Launches  []ledger.Launch // not yet closed
	Versions  map[string]int64
	States    []ledger.ClaimState
	Health    map[string]ledger.OfferingHealth // by offering key
	Learned   map[string]ledger.Capacity       // by type/image
	Moved     []ledger.Moved                   // of late
	Pools     map[string]ledger.PoolState      // by name
	Commands  map[string]ledger.Command        // under way, by id
	LedgerErr error                            // why the ledger could not be read; the rest is there
	Remembers time.Time                        // since when the ledger remembers; zero = always
}

// Swept is the value of Sweep.
type Swept struct {
	Claims    []*model.Claim
	Instances []cloud.Instance
	States    []ledger.ClaimState // of instances without a claim
	Launches  []ledger.Launch     // open ones
	LedgerErr error
}

// Plan asks a planner. Value: Planned.
type Plan struct {
	For     model.PlanKind
	World   *model.World
	Disrupt DisruptOptions // of a disruption plan
	Confirm string         // id of the plan that this one is to confirm, or empty
}

// Planned is the value of Plan.
type Planned struct {
	Plan   *model.Plan
	Prices *model.Prices
}

// Kind implements Do; the names are those of the types.
func (CreateClaim) Kind() string    { return "CreateClaim" }
func (PatchClaim) Kind() string     { return "PatchClaim" }
func (DeleteClaim) Kind() string    { return "DeleteClaim" }
func (PatchNode) Kind() string      { return "PatchNode" }
func (DeleteNode) Kind() string     { return "DeleteNode" }
func (Evict) Kind() string          { return "Evict" }
func (DeletePod) Kind() string      { return "DeletePod" }
func (PatchPool) Kind() string      { return "PatchPool" }
func (Emit) Kind() string           { return "Emit" }
func (OpenLaunch) Kind() string     { return "OpenLaunch" }
func (SendLaunch) Kind() string     { return "SendLaunch" }
func (FindLaunch) Kind() string     { return "FindLaunch" }
func (CloseLaunch) Kind() string    { return "CloseLaunch" }
func (Terminate) Kind() string      { return "Terminate" }
func (Describe) Kind() string       { return "Describe" }
func (FetchOfferings) Kind() string { return "FetchOfferings" }
func (Recover) Kind() string        { return "Recover" }
func (Sweep) Kind() string          { return "Sweep" }
func (ReadNotices) Kind() string    { return "ReadNotices" }
func (RecordNotice) Kind() string   { return "RecordNotice" }
func (AdvanceNotice) Kind() string  { return "AdvanceNotice" }
func (Write) Kind() string          { return "Write" }
func (AddShortages) Kind() string   { return "AddShortages" }
func (ReadHealth) Kind() string     { return "ReadHealth" }
func (Plan) Kind() string           { return "Plan" }
