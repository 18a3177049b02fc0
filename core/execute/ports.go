package execute

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// Errors of the Kube port; implementations wrap the cause.
var (
	ErrNotFound     = errors.New("object not found")
	ErrConflict     = errors.New("object was changed by somebody else or has another uid")
	ErrBlocked      = errors.New("eviction refused by a PodDisruptionBudget")                   // 429
	ErrMultiplePDBs = errors.New("eviction does not support more than one PodDisruptionBudget") // 500
	ErrInvalid      = errors.New("object refused by the API server")
	ErrFenced       = errors.New("a leader with a later epoch has taken over")
)

// What is written to objects are nouns of the model, since claim and drain make them too.
type (
	ClaimPatch = model.ClaimPatch
	NodePatch  = model.NodePatch
	PoolStatus = model.PoolStatus
	ObjectRef  = model.ObjectRef
	Event      = model.Event
)

// Kube changes the cluster. Every call has the deadline of its context.
type Kube interface {
	// CreateClaim creates a NodeClaim with its finalizer on and answers its uid. When one of
	// that name exists already it answers ErrConflict.
	CreateClaim(ctx context.Context, c *model.Claim) (uid string, err error)
	PatchClaim(ctx context.Context, p ClaimPatch) error
	// DeleteClaim asks for deletion (finalizers still hold it); a claim that is gone is fine.
	DeleteClaim(ctx context.Context, name, uid string) error
	// ListClaims reads all claims consistently from the server.
	ListClaims(ctx context.Context) ([]*model.Claim, error)
	PatchNode(ctx context.Context, p NodePatch) error
	// DeleteNode asks for deletion; a node that is gone is fine.
	DeleteNode(ctx context.Context, name, uid string) error
	// Evict uses the eviction API with a uid precondition: nil, ErrBlocked, ErrMultiplePDBs, ErrNotFound, ErrConflict.
	// grace, whole seconds, replaces the pod's own grace period, 0 = does not. A pod that is terminating is not
	// held against budgets; a shorter grace period is all that changes of it.
	Evict(ctx context.Context, p *model.Pod, grace time.Duration) error
	// DeletePod deletes with a grace period of at least 1 s and a uid precondition.
	DeletePod(ctx context.Context, p *model.Pod, grace time.Duration) error
	PatchPool(ctx context.Context, s PoolStatus) error
	Emit(ctx context.Context, e Event) error
}

// Ports are everything that effects act on.
type Ports struct {
	Kube     Kube
	Cloud    cloud.Provider
	Ledger   ledger.Store
	Strategy Strategy
	Planner  Planner
	Now      func() time.Time // instant of ledger reads and writes; a virtual clock in the simulator
}

// Planner turns a world into plans. Planners are pure; the port exists so that the
// executor does not depend on any one of them.
type Planner interface {
	// Provision plans for the waiting pods of the world.
	Provision(w *model.World, prices *model.Prices) *model.Plan
	// Disrupt plans what to give back or replace; score asks the consolidation strategy.
	Disrupt(w *model.World, prices *model.Prices, score Scorer, o DisruptOptions) (*model.Plan, error)
}

// Scorer asks the consolidation strategy about moves, one answer each.
type Scorer func([]*model.Command) ([]model.MoveScore, error)

// DisruptOptions is what a disruption planner must know beside the world.
type DisruptOptions struct {
	Running map[string]bool // nodes of commands under way, by Node.ID
	Frozen  string          // why nothing voluntary may start, or empty
	// Paused holds pools, by name, back from everything voluntary; Held from the next wave
	// of nodes that no longer match them.
	Paused, Held map[string]*model.Hold
	Propose      *model.Proposer // strategies that find moves by themselves, nil = none
}

// Proposing is a Strategy that knows strategies which find moves by themselves: it answers
// who is to be asked for the pools of a world, nil = nobody.
type Proposing interface {
	Proposer(ctx context.Context, w *model.World) *model.Proposer
}

// Drafter is a Strategy that knows strategies which pack by themselves: it adds their
// nodes to the prices of a plan that buys for waiting pods.
type Drafter interface {
	Draft(ctx context.Context, w *model.World, prices *model.Prices) *model.Prices
}

// Strategy prices offerings and scores moves; it always answers, by a built-in if
// the process that should have answered is dead, late or wrong.
type Strategy interface {
	Price(ctx context.Context, w *model.World) (*model.Prices, error)
	Score(ctx context.Context, w *model.World, moves []*model.Command) ([]model.MoveScore, error)
}

// Pinner is a Strategy that can be changed while it is asked. Between Begin and the
// function that it answers, all that is asked with the context hears the same strategies.
type Pinner interface {
	Begin(ctx context.Context) (context.Context, func())
}
