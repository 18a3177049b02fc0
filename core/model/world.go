package model

import (
	"time"

	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// World is a snapshot of everything that planners decide from. It is read-only.
type World struct {
	Now         time.Time
	Pools       []*Pool
	NodeClasses map[string]*NodeClass // by name
	Nodes       []*Node               // ours and others, also claims that have not joined
	Pods        []*Pod                // waiting pods only; the rest is on the nodes
	DaemonSets  []*DaemonSet
	PDBs        []*PDB
	// Offerings by node class name: what can be bought with it, price and health included.
	Offerings map[string][]*Offering
	Settings  Settings
	// Budget ends planning early; it is no part of what was seen. Nil = never.
	Budget *TimeBudget `json:"-"`
}

// Settings are the parts of the configuration that planning reads; field names
// follow Karpenter's settings.
type Settings struct {
	IgnorePreferences    bool // PREFERENCE_POLICY=Ignore
	MinValuesBestEffort  bool // MIN_VALUES_POLICY=BestEffort
	ReservedCapacity     bool
	SpotToSpot           bool
	StaticCapacity       bool
	AlternativesMaxRatio float64       // alternatives cost at most best x this; 0 = 1.25
	MinNodeAge           time.Duration // younger nodes are not disrupted for a voluntary reason; 0 = no such rule
	Commitments          []Commitment  // in the order in which they are applied
	PlanningBudget       time.Duration // how long one plan may take; 0 = as long as it does. Whoever has a clock sees to it: World.Budget
}

// Pool finds a pool by name, nil where it is not there.
func (w *World) Pool(name string) *Pool {
	for _, p := range w.Pools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Filter names what stood in the way of a pod, in the words of the plan formats.
type Filter string

// The filters, in the order in which they are tried.
const (
	FilterPool         Filter = "pool"
	FilterTaints       Filter = "taints"
	FilterRequirements Filter = "requirements"
	FilterDaemonSets   Filter = "daemonsets"
	FilterResources    Filter = "resources"
	FilterOfferings    Filter = "offerings"
	FilterLimits       Filter = "limits"
	FilterTopology     Filter = "topology"
	FilterAffinity     Filter = "affinity"
	FilterVolumes      Filter = "volumes"
	FilterPorts        Filter = "ports"
	FilterStrategy     Filter = "strategy"
)

// Known says whether the filter is one of those above.
func (f Filter) Known() bool {
	switch f {
	case FilterPool, FilterTaints, FilterRequirements, FilterDaemonSets, FilterResources, FilterOfferings,
		FilterLimits, FilterTopology, FilterAffinity, FilterVolumes, FilterPorts, FilterStrategy:
		return true
	}
	return false
}

// Reason says why a pod cannot run on a new node of one pool.
type Reason struct {
	Pool      string // empty: holds for every pool
	Filter    Filter
	TypesLeft int    // instance types that passed everything before this filter
	Nearest   string // the nearest miss, such as the largest type that was too small
	Message   string
	Trail     []Passed // how many instance types each filter left, in the order in which they were tried; this one last, with 0
}

// Passed says how many instance types of a pool a filter left.
type Passed struct {
	Filter Filter
	Types  int
}

// Verdict is the answer for a pod that was not placed.
type Verdict struct {
	Pod     *Pod
	Reasons []Reason // never empty
}

// NewNode is a node to be bought.
type NewNode struct {
	Name         string // of the plan, such as default-1; the claim gets its own
	Pool         *Pool
	Offering     *Offering
	Effective    float64     // price of the strategy, USD per hour, without its fee per node
	Alternatives []*Offering // same capacity type, same pods legal, best first; without Offering itself
	Requirements require.Set // what the claim asks for: pool and pods together, the types and zones of Offering and Alternatives
	Labels       map[string]string
	Pods         []*Pod
	Requests     resource.Vector // of the pods
	Daemons      resource.Vector // of the daemon pods expected on it
	// MinValuesRelaxed says, where best effort is enough for the pool's minValues, whether
	// less flexibility than asked for was to be had; nil = all of it was demanded, or none.
	MinValuesRelaxed *bool
}

// Placement puts pods on a node that exists or is on its way.
type Placement struct {
	Node *Node
	Pods []*Pod
}
