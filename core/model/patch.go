package model

import "time"

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
	Conditions       []Condition // merged by type
	RemoveConditions []string
	LastPodEvent     *time.Time
}

// Empty says whether the patch changes nothing.
func (p *ClaimPatch) Empty() bool {
	return len(p.Labels) == 0 && len(p.Annotations) == 0 && len(p.AddFinalizers) == 0 && len(p.RemoveFinalizers) == 0 &&
		p.ProviderID == "" && p.ImageID == "" && p.NodeName == "" && len(p.Capacity) == 0 && len(p.Allocatable) == 0 &&
		len(p.Conditions) == 0 && len(p.RemoveConditions) == 0 && p.LastPodEvent == nil
}

// NodePatch changes one Node; nil and empty fields are left alone. UID is a precondition.
type NodePatch struct {
	Name, UID        string
	Labels           map[string]string
	Annotations      map[string]string // an empty value removes the annotation
	AddTaints        []Taint
	RemoveTaints     []Taint // by key and effect
	AddFinalizers    []string
	RemoveFinalizers []string
	OwnerClaim       *Claim // set as owner, blocking its deletion
}

// Empty says whether the patch changes nothing.
func (p *NodePatch) Empty() bool {
	return len(p.Labels) == 0 && len(p.Annotations) == 0 && len(p.AddTaints) == 0 && len(p.RemoveTaints) == 0 &&
		len(p.AddFinalizers) == 0 && len(p.RemoveFinalizers) == 0 && p.OwnerClaim == nil
}

// PoolStatus is what is written back to a NodePool.
type PoolStatus struct {
	Name        string
	Annotations map[string]string // hash and its version
	Resources   map[string]string // quantities
	Nodes       int64
	Conditions  []Condition
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
