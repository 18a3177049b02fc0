package model

import (
	"time"

	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Condition is a status condition of a claim or pool.
type Condition struct {
	Type, Status    string // Status: True, False, Unknown
	Reason, Message string
	Since           time.Time
}

// Condition types of a NodeClaim.
const (
	CondLaunched            = "Launched"
	CondRegistered          = "Registered"
	CondInitialized         = "Initialized"
	CondReady               = "Ready"
	CondConsolidatable      = "Consolidatable"
	CondDrifted             = "Drifted"
	CondDisruptionReason    = "DisruptionReason"
	CondDrained             = "Drained"
	CondVolumesDetached     = "VolumesDetached"
	CondInstanceTerminating = "InstanceTerminating"
)

// Claim is a NodeClaim as planning and execution see it.
type Claim struct {
	Name, UID, ResourceVersion string
	Pool, PoolUID              string // of the NodePool that owns it; empty: made by hand
	NodeClass                  NodeClassRef
	Labels, Annotations        map[string]string
	Finalizers                 []string
	Taints, StartupTaints      []Taint
	Requirements               require.Set
	Requests                   resource.Vector
	ExpireAfter                time.Duration // Never = no expiry
	TerminationGP              *time.Duration
	Created                    time.Time
	Deleting                   *time.Time

	ProviderID, ImageID, NodeName string
	Capacity, Allocatable         resource.Vector // estimates of the provider
	Conditions                    []Condition
	LastPodEvent                  *time.Time
}

// Condition finds a condition by type; absent counts as Unknown.
func (c *Claim) Condition(t string) Condition {
	for _, x := range c.Conditions {
		if x.Type == t {
			return x
		}
	}
	return Condition{Type: t, Status: "Unknown"}
}

// Is says whether a condition is True.
func (c *Claim) Is(t string) bool { return c.Condition(t).Status == "True" }

// InstanceID is the part of a provider id (aws:///zone/i-...) behind the last slash.
func InstanceID(providerID string) string {
	for i := len(providerID) - 1; i >= 0; i-- {
		if providerID[i] == '/' {
			return providerID[i+1:]
		}
	}
	return providerID
}

// ProviderID is the provider id of an instance, as kubelets on EC2 report it.
func ProviderID(zone, instanceID string) string { return "aws:///" + zone + "/" + instanceID }

// Node is a machine of the cluster: a Node object, a claim that has not joined
// yet, or both joined by provider id.
type Node struct {
	Name, UID   string // of the Node object; empty until it joined
	Claim       *Claim // nil: not ours
	ProviderID  string
	Labels      map[string]string // of the Node object, else of the claim
	Annotations map[string]string
	Taints      []Taint
	Finalizers  []string
	Capacity    resource.Vector // of the node once initialized, else the claim's estimate
	Allocatable resource.Vector
	Cordoned    bool // spec.unschedulable
	Ready       bool
	ReadySince  time.Time // last change of the condition Ready, zero = never reported
	Silent      bool      // Ready is Unknown: its kubelet does not report any more
	// Health are the conditions other than Ready by which agents say that a part of the
	// node works (their types end in Ready).
	Health     []Condition
	Created    time.Time
	Deleting   *time.Time
	Pods       []*Pod  // bound to it, terminal ones left out
	USDPerHour float64 // of its own offering; meaningless unless PriceKnown
	PriceKnown bool
	// Preempting are pods that were nominated to the node: they wait for others to be
	// evicted from it, and nothing else may take their room.
	Preempting []*Pod
	Nominated  time.Time // until then pods are expected on it; zero = none
	// VolumeLimits is how many volumes may be attached, by CSI driver, as the node's
	// drivers report it; nil = they have not reported yet.
	VolumeLimits map[string]int64
}

// NodeReady is the condition by which a kubelet says that it works.
const NodeReady = "Ready"

// Condition finds Ready or one of Health, with false where the node does not have it.
func (n *Node) Condition(t string) (Condition, bool) {
	if t == NodeReady {
		c := Condition{Type: t, Status: "False", Since: n.ReadySince}
		switch {
		case n.Ready:
			c.Status = "True"
		case n.Silent:
			c.Status = "Unknown"
		}
		return c, n.Ready || n.Silent || !n.ReadySince.IsZero()
	}
	for _, c := range n.Health {
		if c.Type == t {
			return c, true
		}
	}
	return Condition{}, false
}

// ID is the name to show: of the node, else of its claim.
func (n *Node) ID() string {
	if n.Name != "" || n.Claim == nil {
		return n.Name
	}
	return n.Claim.Name
}

// Joined says whether a Node object exists.
func (n *Node) Joined() bool { return n.Name != "" }

// Managed says whether the node is ours.
func (n *Node) Managed() bool { return n.Claim != nil }

// Pool is the name of the NodePool, or empty.
func (n *Node) Pool() string { return n.Labels[LabelPool] }

// InstanceType, Zone and CapacityType read the labels.
func (n *Node) InstanceType() string { return n.Labels[LabelInstanceType] }

// Zone is the availability zone.
func (n *Node) Zone() string { return n.Labels[LabelZone] }

// CapacityType is spot, on-demand or reserved.
func (n *Node) CapacityType() string { return n.Labels[LabelCapacityType] }

// Registered says whether a managed node has been taken over; unmanaged nodes count as such.
func (n *Node) Registered() bool {
	return n.Claim == nil || n.Labels[LabelRegistered] == "true" || n.Claim.Is(CondRegistered)
}

// Initialized says whether a managed node is usable; unmanaged nodes count as such.
func (n *Node) Initialized() bool {
	return n.Claim == nil || n.Labels[LabelInitialized] == "true" || n.Claim.Is(CondInitialized)
}

// BeingRemoved says whether the node or its claim is being deleted or is marked as disrupted.
func (n *Node) BeingRemoved() bool {
	if n.Deleting != nil || n.Claim != nil && n.Claim.Deleting != nil {
		return true
	}
	for _, t := range n.Taints {
		if t.Key == TaintDisrupted {
			return true
		}
	}
	return false
}

// Promised is the sum of the requests of the pods on the node and of those nominated to it.
func (n *Node) Promised() resource.Vector {
	sum := n.Used()
	for _, p := range n.Preempting {
		sum = sum.Add(p.Requests)
	}
	return sum
}

// Used is the sum of the requests of the pods on the node.
func (n *Node) Used() resource.Vector {
	var sum resource.Vector
	for _, p := range n.Pods {
		sum = sum.Add(p.Requests)
	}
	return sum
}
