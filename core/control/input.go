package control

import (
	"time"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// Input is what Step takes: a cluster.Change, an execute.Result, or one of the
// types of this file. Any other type is a mistake of the caller and panics.
type Input any

// Notice is an interruption notice from an event source that the loop polls.
type Notice struct{ Notice model.Notice }

// NoticeID names a notice to the event source that it came from; see Controller.Settled.
type NoticeID struct {
	EventID, Instance string
	Kind              model.NoticeKind // events that were rewritten on their way may have no id
}

// Source says how an event source that is polled does. Without one the NodePools have no condition about it.
type Source struct {
	Name string
	Down string // why it cannot be read; empty where it can
}

// ConfigChanged replaces the settings; it takes effect with the next pass.
type ConfigChanged struct{ Settings Settings }

// Leading says that this process holds the lease now, under the given epoch (it
// grows with each leader); Following that it does not, and why. A controller that
// follows mirrors the cluster and has no effects.
type (
	Leading   struct{ Epoch int64 }
	Following struct{ Why string }
)

// Lag says for how long the watches have been behind; 0 = they are not.
type Lag struct{ Behind time.Duration }

// Settings are the parts of the configuration that control reads. Zero values mean
// the default written beside each.
type Settings struct {
	Planning        model.Settings
	BatchIdle       time.Duration // 1 s: a batch closes when no new pod came for so long
	BatchMax        time.Duration // 10 s: and at the latest after so long
	Replan          time.Duration // 10 s: between passes while pods wait
	DisruptEvery    time.Duration // 10 s: between disruption passes
	DisruptValidate time.Duration // 15 s: a disruption plan must still hold after so long; negative = act at once
	SweepEvery      time.Duration // 1 min: garbage collection; only read when the controller is made
	Brake           execute.Brake // 3 nodes or 5% in ten minutes: garbage collection ends no more by itself
	OfferingsEvery  time.Duration // 1 min: what can be bought is read again
	NoticesEvery    time.Duration // 10 s: the ledger's notices are read
	DisruptionOff   bool          // no voluntary disruption at all
	MaxMovesPerHour int           // the same pods may be moved so often within an hour; 0 = no such rule
	OutOfService    bool          // nodes whose machine is gone are tainted so that their volumes are detached at once
	NodeRepair      bool          // nodes that stay unhealthy are replaced by force
}
