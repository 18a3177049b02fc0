package disrupt

import (
	"time"

	"github.com/weir-project/weir/core/model"
)

// Options say what a plan is for and what the snapshot cannot show.
type Options struct {
	// Waves plans on until nothing is left to do, each wave within the budgets that
	// hold once the earlier ones are done. Without it the plan has what may start now.
	Waves bool
	// Expire plans the end of nodes past their expireAfter, which no budget holds back.
	Expire bool
	// Running names, by Node.ID, the nodes of commands that are under way.
	Running map[string]bool
	// Nominated names, by Node.ID, nodes that waiting pods have been promised, and until when.
	Nominated map[string]time.Time
	// Bound asks for a proven lower bound of what our nodes could cost: those that nothing
	// may take away now, and the pods of the others on new nodes; it takes about as long
	// as the rest.
	Bound bool
	// Frozen says why nothing voluntary may start now, or is empty.
	Frozen string
	// Propose is strategies that find moves by themselves; nil = none do.
	Propose *model.Proposer
	// Paused holds pools, by name, back from everything voluntary; Held from the next wave
	// of nodes that no longer match them.
	Paused, Held map[string]*model.Hold
}

// Score is a strategy's word on commands, one answer for each; a shorter answer
// refuses the rest. Nil accepts everything.
type Score func([]*model.Command) []model.MoveScore

// Reasons of model.Blocked.
const (
	BlockedUnmanaged     = "Unmanaged"            // not one of our nodes
	BlockedRunning       = "CommandRunning"       // part of a command already
	BlockedNotJoined     = "NotJoined"            // the claim has no Node yet
	BlockedUninitialized = "NotInitialized"       // the node is not usable yet
	BlockedDeleting      = "BeingRemoved"         // on its way out
	BlockedNominated     = "Nominated"            // a waiting pod is expected on it
	BlockedDoNotDisrupt  = "DoNotDisrupt"         // annotation on node or pod
	BlockedLabel         = "MissingLabel"         // a label that disruption reads is not there
	BlockedPool          = "NodePoolNotFound"     // pool gone, or nothing can be bought with it
	BlockedPDB           = "PodDisruptionBudget"  // allows no eviction now
	BlockedMultiplePDBs  = "MultiplePDBs"         // the eviction API supports one per pod
	BlockedNever         = "ConsolidationOff"     // consolidateAfter Never
	BlockedAfter         = "ConsolidateAfter"     // pods came or went too recently
	BlockedPolicy        = "ConsolidationPolicy"  // WhenEmpty, and it is not empty
	BlockedBalanced      = "Balanced"             // saves too little for what it moves
	BlockedStatic        = "StaticNodePool"       // keeps a fixed number of nodes
	BlockedType          = "InstanceTypeNotFound" // no offering of its type any more
	BlockedPrice         = "PriceUnknown"         // a saving could not be proven
	BlockedUnsupported   = "UnsupportedPod"       // a pod whose constraints cannot be checked for a move
	BlockedReplacement   = "ReplacementNeeded"    // its pods do not fit on the nodes that stay, and nothing was found to replace it
	BlockedCheapest      = "Cheapest"             // its pods would cost as much, or nearly, on new nodes
	BlockedSpotToSpot    = "SpotToSpot"           // v1's rules for spot nodes in the place of spot nodes
	BlockedBudget        = "Budget"               // the pool's budgets allow no more now
	BlockedStrategy      = "Strategy"             // the strategy refuses
	BlockedTime          = "TimeBudget"           // planning ended before the node was looked at
	BlockedFrozen        = "Frozen"               // nothing voluntary starts now
)
