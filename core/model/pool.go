package model

import (
	"cmp"
	"strconv"
	"time"

	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Never is the duration that stands for "never" in pools and claims.
const Never time.Duration = -1

// Limits caps what a pool may own: capacity by resource, and nodes.
type Limits struct {
	Resources map[string]int64 // units as in package resource; absent = no limit
	Nodes     *int64
}

// None says whether nothing is limited.
func (l Limits) None() bool { return len(l.Resources) == 0 && l.Nodes == nil }

// ConsolidationPolicy of a pool.
type ConsolidationPolicy string

// The policies of v1.
const (
	WhenEmpty                ConsolidationPolicy = "WhenEmpty"
	WhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	Balanced                 ConsolidationPolicy = "Balanced"
)

// DisruptionReason says why a node is taken away.
type DisruptionReason string

// The reasons of v1 and of the plan formats.
const (
	Empty         DisruptionReason = "Empty"
	Underutilized DisruptionReason = "Underutilized"
	Drifted       DisruptionReason = "Drifted"
	Expired       DisruptionReason = "Expired"
	Unhealthy     DisruptionReason = "Unhealthy"
	Interrupted   DisruptionReason = "Interrupted"
)

// Budget bounds how many nodes of a pool may be disrupted at once.
type Budget struct {
	Nodes    string             // "10%" or "3", as written
	Reasons  []DisruptionReason // empty = all
	Schedule string             // cron line in UTC, empty = always
	Duration time.Duration      // of the window that Schedule opens
}

// Pool is a NodePool as planning sees it.
type Pool struct {
	Name, UID   string
	Annotations map[string]string // of the NodePool object
	Weight      int32
	Static      *int64 // replicas of a static pool, nil = dynamic

	// Template of the claims.
	Labels          map[string]string // template labels, without the pool's own
	NodeAnnotations map[string]string
	Taints          []Taint
	StartupTaints   []Taint
	Requirements    require.Set // template requirements and labels and the pool label, canonical keys
	NodeClass       NodeClassRef
	ExpireAfter     time.Duration // Never = no expiry
	TerminationGP   *time.Duration
	Hash            string
	HashVersion     string

	Limits           Limits
	Policy           ConsolidationPolicy
	ConsolidateAfter time.Duration // Never = neither emptiness nor consolidation
	Budgets          []Budget      // empty = unlimited
	Deleting         bool
	Unusable         string // why nothing may be bought for it now, or empty
}

// BudgetedExpiry says whether nodes past their expireAfter wait for their turn in the
// pool's budgets.
func (p *Pool) BudgetedExpiry() bool { return p.Annotations[AnnotationExpire] == ExpireBudgeted }

// NodeClassRef names the provider's configuration object.
type NodeClassRef struct{ Group, Kind, Name string }

// NodeClass is what planning needs of an EC2NodeClass. Amounts are nil where unset.
type NodeClass struct {
	Name, UID         string
	Family            string            // AL2023, AL2, Bottlerocket, Windows2019, Windows2022, Windows2025, Custom
	ZoneIDs           map[string]string // by zone, of the resolved subnets
	Zones             []string          // zones of the resolved subnets; nil = not resolved, every zone
	MaxPods           *int32
	PodsPerCore       *int32
	KubeReserved      map[string]int64 // cpu milli, memory and ephemeral-storage bytes
	SystemReserved    map[string]int64
	EvictionMemory    string // memory.available of evictionHard as written, empty = default
	EvictionStorage   string // nodefs.available of evictionHard as written, empty = default
	RootVolumeBytes   int64  // ephemeral-storage of the node, 0 = the family's default
	InstanceStoreRAID bool
	ReservedENIs      int32
	Interfaces        Interfaces
	RootVolumeUSD     float64 // price of the volumes of one node, USD per hour
	Unusable          string  // why nothing may be launched with it, or empty
	Reservations      []Reservation

	Hash, HashVersion string   // annotations of the object; empty = nobody keeps it
	InstanceProfile   string   // that its machines run with
	Images            []Image  // of its status, like the two below: what its machines should have
	Subnets           []string // ids, sorted
	SecurityGroups    []string // ids, sorted
	PlacementGroup    *PlacementGroup
	// Settled says that its status is about its present specification and that all of it was
	// found; nothing is concluded from the status of a class that is not settled.
	Settled bool
}

// Reservation is a capacity reservation that a node class may use. How many instances
// are left in it is not part of the class: it changes with every launch.
type Reservation struct {
	ID, InstanceType, Zone string
	Type                   string     // default or capacity-block
	Interruptible          bool       // AWS may take instances of it back
	Expiring               bool       // takes no more instances
	End                    *time.Time // nil = none
}

// Interfaces is the network interfaces that a node class asks for by itself; zero = one
// ordinary interface.
type Interfaces struct {
	Cards              int64 // network cards that are needed
	EFAOnly            int64 // interfaces for EFA alone
	EFAOnlyDefaultCard int64 // of these, on the card that pods get their addresses from
}

// InstanceType is one kind of machine, as one node class would run it.
type InstanceType struct {
	Name        string
	Labels      map[string]string // everything the node will carry but zone, capacity type and pool
	Capacity    resource.Vector
	Allocatable resource.Vector
	MemoryFrom  string // "estimated" or "learned": where the memory figure comes from
	Image       string // that its machines are started from; empty = not known
}

// Offering is one thing that can be bought: a type in a zone as a capacity type.
type Offering struct {
	Type            *InstanceType
	Zone            string
	ZoneID          string // the zone's name that is the same in every account; empty = not known
	CapacityType    string
	USDPerHour      float64
	PriceSource     string // list, spot-history, synthetic, catalogue, override, unknown
	Available       bool
	Unavailable     string // why not, where Available is false
	ReservationID   string
	ReservationType string // default or capacity-block; empty = default
	Interruptible   bool   // of a reservation: AWS may take its instances back
	Count           int    // of a reservation: how many instances are left in it; those that run do not count
	Shortages       int    // of capacity, in a row, that are remembered of it
	Interruptions   int    // that are remembered of it
	// LastShortage and LastInterruption are when it last happened; zero = not known.
	LastShortage, LastInterruption time.Time
}

// Key names the offering in memory shared by clusters: type/zone/capacity type.
func (o *Offering) Key() string { return o.Type.Name + "/" + o.Zone + "/" + o.CapacityType }

// Label is the value the node bought with this offering will have for key.
func (o *Offering) Label(key string) (string, bool) {
	switch key {
	case LabelZone:
		return o.Zone, true
	case LabelCapacityType:
		return o.CapacityType, true
	case LabelZoneID:
		return o.ZoneID, o.ZoneID != ""
	case LabelReservationID:
		return o.ReservationID, o.ReservationID != ""
	case LabelReservationType:
		return cmp.Or(o.ReservationType, "default"), o.ReservationID != ""
	case LabelReservationInterruptible:
		return strconv.FormatBool(o.Interruptible), o.ReservationID != ""
	}
	v, ok := o.Type.Labels[key]
	return v, ok
}
