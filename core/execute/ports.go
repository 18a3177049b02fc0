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
)

// ClaimPatch changes one NodeClaim; nil and empty fields are left alone. UID is a precondition.
type ClaimPatch struct {
	Name, UID        string
	Labels           map[string]string
	Annotations      map[string]string // an empty value removes the annotation
	AddFinalizers    []string
	RemoveFinalizers []string
	ProviderID       string
	ImageID          string
	NodeName         string
	Capacity         map[string]string // quantities
	Allocatable      map[string]string
	Conditions       []model.Condition // merged by type
	RemoveConditions []string
	LastPodEvent     *time.Time
}

// NodePatch changes one Node; nil and empty fields are left alone. UID is a precondition.
type NodePatch struct {
	Name, UID        string
	Labels           map[string]string
	Annotations      map[string]string // an empty value removes the annotation
	AddTaints        []model.Taint
	RemoveTaints     []model.Taint // by key and effect
	AddFinalizers    []string
	RemoveFinalizers []string
	OwnerClaim       *model.Claim // set as owner, blocking its deletion
}

// PoolStatus is what we write back to a NodePool.
type PoolStatus struct {
	Name        string
	Annotations map[string]string // hash and its version
	Resources   map[string]string // quantities
	Nodes       int64
	Conditions  []model.Condition
}

// ObjectRef names the object that an event is about.
type ObjectRef struct{ Kind, Namespace, Name, UID string }

// Event is a Kubernetes event.
type Event struct {
	Object  ObjectRef
	Warning bool
	Reason  string // as in the reference, such as Nominated
	Message string
}

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
	Evict(ctx context.Context, p *model.Pod) error
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
}

// Strategy prices offerings and scores moves; it always answers, by a built-in if
// the process that should have answered is dead, late or wrong.
type Strategy interface {
	Price(ctx context.Context, w *model.World) (*model.Prices, error)
	Score(ctx context.Context, w *model.World, moves []*model.Command) ([]model.MoveScore, error)
}
