package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/core/model"
)

// Offer is one line of a launch request: where the fleet may buy.
type Offer struct {
	InstanceType string  `json:"instanceType"`
	Zone         string  `json:"zone"`
	USDPerHour   float64 `json:"usdPerHour"`         // market price when it was planned
	Priority     float64 `json:"priority,omitempty"` // effective price; lower is preferred

	ReservationID   string `json:"reservationId,omitempty"`   // of reserved capacity
	ReservationType string `json:"reservationType,omitempty"` // default or capacity-block; empty = default
	Interruptible   bool   `json:"interruptible,omitempty"`   // its owner may take the capacity back
}

// Launch asks for instances of one capacity type that are all alike.
type Launch struct {
	ID           string            `json:"id"`     // launch id, also a creation tag on the instances
	Claims       []string          `json:"claims"` // names of the claims, in the order in which instances are handed out
	Pool         string            `json:"pool"`
	NodeClass    string            `json:"nodeClass"`
	CapacityType string            `json:"capacityType"`
	Offers       []Offer           `json:"offers"` // at most 60, best first
	Prioritized  bool              `json:"prioritized"`
	Labels       map[string]string `json:"labels"` // for the kubelet
	Taints       []model.Taint     `json:"taints"` // for the kubelet, karpenter.sh/unregistered included
	Tags         map[string]string `json:"tags"`
	EFA          bool              `json:"efa,omitempty"` // the claims ask for Elastic Fabric Adapters
}

// Instance is a machine as the cloud reports it.
type Instance struct {
	ID, Type, Zone, CapacityType string
	ImageID                      string
	State                        string // pending, running, shutting-down, terminated, stopping, stopped
	Launched                     time.Time
	Tags                         map[string]string

	// What it really has, as far as the cloud tells; read by Describe and List.
	Subnet         string   `json:",omitempty"`
	SecurityGroups []string `json:",omitempty"`
	Reservation    string   `json:",omitempty"` // capacity reservation that it runs in
	Profile        string   `json:",omitempty"` // name of its instance profile
	PlacementGroup string   `json:",omitempty"` // id
	Partition      int      `json:",omitempty"` // of the placement group, 0 = none
}

// ProviderID is the provider id its kubelet reports.
func (i Instance) ProviderID() string { return model.ProviderID(i.Zone, i.ID) }

// Gone says whether the instance has ended or is about to.
func (i Instance) Gone() bool { return i.State == "terminated" || i.State == "shutting-down" }

// TagLaunch is the creation tag that carries the launch id.
const TagLaunch = "weir.dev/launch"

// OfferError is the cloud's "no" for one offer.
type OfferError struct {
	Offer   Offer
	Kind    ErrorKind
	Code    string // of the cloud
	Message string
	Reason  string `json:",omitempty"` // how conditions name it; empty = by its code
}

// Answer is the outcome of a launch: instances in hand-out order (there may be
// fewer than claims) and what was refused.
type Answer struct {
	Instances []Instance
	Errors    []OfferError
}

// CodeTerminating is the code of NotReady errors about a class that is being deleted; v1 has no place for its pods then.
const CodeTerminating = "NodeClassTerminating"

// ErrorKind sorts errors by what to do about them.
type ErrorKind string

// The kinds.
const (
	Shortage  ErrorKind = "shortage"  // the offering is short of capacity: remember it, try others
	Throttled ErrorKind = "throttled" // asked too often: never a shortage, try again later
	Quota     ErrorKind = "quota"     // the account's limit
	Auth      ErrorKind = "auth"      // not allowed
	Template  ErrorKind = "template"  // the request is wrong: image, subnet, profile, user data
	Token     ErrorKind = "token"     // same token, other request
	NotFound  ErrorKind = "not-found"
	NotReady  ErrorKind = "not-ready" // nothing may be launched from the class now: its claims are given up
	Internal  ErrorKind = "internal"  // anything else; try again
)

// Error is an error of a call as a whole.
type Error struct {
	Op      string
	Kind    ErrorKind
	Code    string
	Message string
	Reason  string `json:",omitempty"` // how conditions name it; empty = by its code
}

// Error tells operation, code and message.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Op, e.Code, e.Message) }

// KindOf is the kind of an error of this port, Internal for any other error.
func KindOf(err error) ErrorKind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Provider sells machines. Every call has the deadline of its context; every
// error is an *Error or a context error.
type Provider interface {
	// Render writes the complete launch request as bytes, so that it can be stored before it is sent.
	Render(ctx context.Context, l Launch) ([]byte, error)
	// Launch sends a rendered request under a client token. The same bytes under the same
	// token answer the same instances, however often; other bytes give a Token error.
	Launch(ctx context.Context, token string, request []byte) (Answer, error)
	// Terminate ends instances; ones that are gone already are fine.
	Terminate(ctx context.Context, ids []string) error
	// Tag sets tags of an instance, beside those that it has.
	Tag(ctx context.Context, id string, tags map[string]string) error
	// Describe reads instances; ones that do not exist are left out.
	Describe(ctx context.Context, ids []string) ([]Instance, error)
	// List reads all instances that carry this cluster's tags, terminated ones left out.
	List(ctx context.Context) ([]Instance, error)
	// Offerings is what can be bought with a node class now, prices and health included.
	Offerings(ctx context.Context, class *model.NodeClass) ([]*model.Offering, error)
}
