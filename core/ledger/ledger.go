package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// ErrConflict says that the record's version is not the expected one.
var ErrConflict = errors.New("ledger: record was changed by somebody else")

// ErrUnavailable says that the store cannot be reached now; wrap it around the cause.
var ErrUnavailable = errors.New("ledger: store unavailable")

// Key names a record: a partition (such as "cluster/claim") and a name in it.
type Key struct{ Partition, Sort string }

// Item is a stored record.
type Item struct {
	Key
	Version  int64     // 1 with the first write, then one more each time
	Expires  time.Time // zero = never
	Instance string    // indexed where not empty: the instance id the record is about
	Data     json.RawMessage
}

// Any as expected version writes whatever is there.
const Any int64 = -1

// Store keeps items. Every call has the deadline of its context.
type Store interface {
	// Get reads strongly consistently; ok is false where there is none or it has expired at now.
	Get(ctx context.Context, k Key, now time.Time) (it Item, ok bool, err error)
	// Put writes where the stored version equals expect (0: no record, or an expired one; Any:
	// whatever) and answers the new version, else ErrConflict.
	Put(ctx context.Context, it Item, expect int64, now time.Time) (version int64, err error)
	// Transact puts all or none.
	Transact(ctx context.Context, puts []PutOp, now time.Time) error
	// Delete removes where the version equals expect (Any: whatever); no record is no error.
	Delete(ctx context.Context, k Key, expect int64) error
	// Query lists a partition's items whose Sort begins with prefix, in Sort order, expired ones left out.
	Query(ctx context.Context, partition, prefix string, now time.Time) ([]Item, error)
	// ByInstance lists the items with this Instance, expired ones left out.
	ByInstance(ctx context.Context, instanceID string, now time.Time) ([]Item, error)
	Close() error
}

// Sweeper is a store that can drop expired records for good; others do so by themselves.
type Sweeper interface {
	// Sweep drops what has expired at now and answers how many records that were.
	Sweep(ctx context.Context, now time.Time) (int, error)
}

// PutOp is one write of a transaction.
type PutOp struct {
	Item   Item
	Expect int64
}

// Launch is the intent to buy, written before the call and closed after it.
// Partition "<cluster>/launch", sort = ID.
type Launch struct {
	ID       string        `json:"id"`
	Attempt  int           `json:"attempt"`
	Token    string        `json:"token"`
	Epoch    int64         `json:"epoch"` // leader epoch that wrote it
	Claims   []LaunchClaim `json:"claims"`
	Request  []byte        `json:"request"` // complete request, sent again byte for byte
	State    string        `json:"state"`   // open, done, cancelled
	Opened   time.Time     `json:"opened"`
	Closed   time.Time     `json:"closed,omitzero"`
	Error    string        `json:"error,omitempty"`
	Pool     string        `json:"pool"`
	Capacity string        `json:"capacity"` // capacity type
	Taken    *Taken        `json:"taken,omitempty"`
}

// Taken is what a launch counts for on the ramps of offerings that were short.
type Taken struct {
	Count  int              `json:"count"`  // launches
	Rounds map[string]int64 `json:"rounds"` // by offering, its Round then
}

// States of a Launch.
const (
	LaunchOpen      = "open"
	LaunchDone      = "done"
	LaunchCancelled = "cancelled"
)

// LaunchClaim is the part of one claim in a launch.
type LaunchClaim struct {
	Name       string  `json:"name"`
	UID        string  `json:"uid"`
	InstanceID string  `json:"instanceId,omitempty"`
	Asked      string  `json:"asked"`         // best offering: type/zone/capacity type
	Got        string  `json:"got,omitempty"` // offering that was bought
	USDPerHour float64 `json:"usdPerHour,omitempty"`
}

// Fence keeps leaders apart: whoever leads with an earlier epoch than it says may
// open no launch any more. Partition "<cluster>/fence", sort "leader".
type Fence struct {
	Epoch  int64  `json:"epoch"`
	Launch string `json:"launch,omitempty"` // id of the launch opened last
	// Since is when the ledger's memory begins: the time of its first leader; zero = always.
	Since time.Time `json:"since,omitzero"`
}

// ClaimState is the memory of one claim. Partition "<cluster>/claim", sort = uid, Instance set once known.
type ClaimState struct {
	Name       string    `json:"name"`
	UID        string    `json:"uid"`
	Pool       string    `json:"pool"`
	State      string    `json:"state"` // planned, launched, registered, initialized, draining, terminating, gone
	LaunchID   string    `json:"launchId,omitempty"`
	InstanceID string    `json:"instanceId,omitempty"`
	NodeName   string    `json:"nodeName,omitempty"`
	Offering   string    `json:"offering,omitempty"`
	USDPerHour float64   `json:"usdPerHour,omitempty"`
	Reason     string    `json:"reason,omitempty"` // why it ends
	Updated    time.Time `json:"updated"`
	// Blocked says since when pods, by uid, are in the way of its drain.
	Blocked map[string]time.Time `json:"blocked,omitempty"`
}

// InstanceOwner tells the Lambda whose an instance is. Partition "<account>/<region>/instance", sort = id.
type InstanceOwner struct {
	Cluster   string `json:"cluster"`
	Claim     string `json:"claim"`
	Node      string `json:"node,omitempty"`
	Rebalance string `json:"rebalance,omitempty"` // record, cordon, replace-then-drain
	Offering  string `json:"offering,omitempty"`
}

// Notice is a stored interruption notice. Partition "<cluster>/notice" (or
// "unowned/notice"), sort = "<instance>/<kind>", Instance = instance id.
type Notice struct {
	Instance  string    `json:"instance"`
	Kind      string    `json:"kind"`
	EventID   string    `json:"eventId"`
	EventARN  string    `json:"eventArn,omitempty"`
	FirstSeen time.Time `json:"firstSeen"`
	Deadline  time.Time `json:"deadline,omitzero"`
	State     string    `json:"state"` // seen, cordoned, draining, done
	Action    string    `json:"action,omitempty"`

	EventTime  time.Time `json:"eventTime,omitzero"`   // when AWS sent it
	EventState string    `json:"eventState,omitempty"` // of scheduled changes: open, upcoming, closed
	Reason     string    `json:"reason,omitempty"`     // why the action was chosen
}

// States of a Notice, in the order in which it goes through them.
const (
	NoticeSeen     = "seen"
	NoticeCordoned = "cordoned"
	NoticeDraining = "draining"
	NoticeDone     = "done"
)

// OfferingHealth is what the account remembers of an offering, shared by all its
// clusters. Partition "<account>/<region>/offering", sort = type/zone/capacity type.
type OfferingHealth struct {
	Shortages     int       `json:"shortages"`     // in a row
	Interruptions int       `json:"interruptions"` // ever seen
	LastShortage  time.Time `json:"lastShortage,omitzero"`
	// LastInterruption is when AWS last took an instance of it back; records of earlier
	// releases do not know.
	LastInterruption time.Time `json:"lastInterruption,omitzero"`
	ClosedUntil      time.Time `json:"closedUntil,omitzero"`
	Message          string    `json:"message,omitempty"`

	// How the offering comes back: see Take and Settle.
	Allowance int       `json:"allowance,omitempty"` // how many may be launched at a time; 0 = one, of an offering that was short
	Out       int       `json:"out,omitempty"`       // of these, how many are under way
	OutUntil  time.Time `json:"outUntil,omitzero"`   // from then on they count no more
	Round     int64     `json:"round,omitempty"`     // shortages and interruptions ever
	Writes    int64     `json:"writes,omitempty"`    // changes of the record, which order what is read of it
}

// Decision is one line of the diary. Partition "<cluster>/decision/<yyyy-mm-dd>", sort = ULID.
type Decision struct {
	At       time.Time `json:"at"`
	Plan     string    `json:"plan"`
	Kind     string    `json:"kind"`
	What     string    `json:"what"`
	Why      string    `json:"why"`
	Strategy string    `json:"strategy"`
	Outcome  string    `json:"outcome"`
	Basis    string    `json:"basis"`
	Before   float64   `json:"usdPerHourBefore"`
	After    float64   `json:"usdPerHourAfter"`
	Bound    float64   `json:"lowerBoundUsdPerHour,omitempty"`
	RunnerUp string    `json:"runnerUp,omitempty"`
}

// Capacity is what real nodes of a type and an image offered. Partition "<cluster>/capacity", sort = type/image.
// Fields are those of catalogue.Learned.
type Capacity struct {
	Memory int64                       `json:"memory,omitempty"` // bytes of capacity, the least that one reported
	Short  map[string]map[string]int64 `json:"short,omitempty"`  // by class and settings, resource: less than computed
	Doubt  *CapacityDoubt              `json:"doubt,omitempty"`  // one node that is not believed yet
	Node   string                      `json:"node"`             // that taught it last
	At     time.Time                   `json:"at"`
}

// CapacityDoubt is what one node reported that was hard to believe.
type CapacityDoubt struct {
	Instance    string `json:"instance"`
	Memory      int64  `json:"memory"`      // bytes of capacity
	Allocatable int64  `json:"allocatable"` // bytes for pods
}

// Moved is the pods of one node that a voluntary disruption takes away. Partition
// "<cluster>/moved", sort = instant and claim. Fields are those of disrupt.Hop.
type Moved struct {
	Hops []Hop `json:"hops"`
}

// Hop is the part of one workload in it.
type Hop struct {
	Workload string `json:"workload"`
	Name     string `json:"name"`
	Pods     int    `json:"pods"`
	Trail    []Stop `json:"trail"`
}

// Stop is a node that pods were moved off.
type Stop struct {
	At       time.Time `json:"at"`
	Pool     string    `json:"pool"`
	Node     string    `json:"node"`
	Offering string    `json:"offering"`
	Reason   string    `json:"reason"`
}

// Command is a disruption under way. Partition "<cluster>/command", sort = its id.
type Command struct {
	Reason   string           `json:"reason"`
	Why      string           `json:"why,omitempty"`
	Remove   []CommandedClaim `json:"remove"`
	Replace  []string         `json:"replace,omitempty"` // names of the claims that must be usable before
	Started  time.Time        `json:"started"`
	Deadline time.Time        `json:"deadline,omitzero"` // replacements must be usable by then
	Done     bool             `json:"done,omitempty"`
}

// CommandedClaim is a claim that a command removes.
type CommandedClaim struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// PoolState is what holds the disruption of a pool back. Partition "<cluster>/pool", sort =
// name of the pool.
type PoolState struct {
	PausedUntil time.Time `json:"pausedUntil,omitzero"` // its pods went round in circles
	PausedWhy   string    `json:"pausedWhy,omitempty"`
	Wave        *Wave     `json:"wave,omitempty"` // of nodes that did not match it, under way
}

// Wave is nodes that are replaced together. Fields are those of disrupt.Wave.
type Wave struct {
	Template string               `json:"template"`
	Started  time.Time            `json:"started"`
	Last     time.Time            `json:"last"`
	Claims   []string             `json:"claims"`
	Moved    map[string]MovedPods `json:"moved,omitempty"`
}

// MovedPods is what a wave took of one workload.
type MovedPods struct {
	Name  string `json:"name"`
	Pods  int    `json:"pods"`
	Ready int    `json:"ready"`
}

// Heartbeat is the controller's last sign of life. Partition "<cluster>/heartbeat", sort "scaler".
type Heartbeat struct {
	At      time.Time `json:"at"`
	Holder  string    `json:"holder"`
	Epoch   int64     `json:"epoch"`
	Version string    `json:"version"`
	Active  bool      `json:"active"`
}
