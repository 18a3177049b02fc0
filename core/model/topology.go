package model

import "github.com/weir-project/weir/core/model/require"

// Selector picks pods by namespace and labels.
type Selector struct {
	ID      string          // canonical text; equal for selectors that pick the same pods
	Matches func(*Pod) bool // nil matches nothing
	// Labels are values that every picked pod has; they let a reader look pods up by
	// label. Nil = not known.
	Labels map[string]string
}

// Picks says whether the selector picks the pod.
func (s Selector) Picks(p *Pod) bool { return s.Matches != nil && s.Matches(p) }

// Spread asks that the pods a selector picks be spread evenly over the values of a
// node label.
type Spread struct {
	Key           string // canonical label key
	MaxSkew       int64  // at least 1
	MinDomains    int64  // 0 = not set
	Selector      Selector
	HonorAffinity bool // nodeAffinityPolicy: nodes that the pod may not use do not count
	HonorTaints   bool // nodeTaintsPolicy
}

// PodTerm is an affinity or anti-affinity to the pods that a selector picks, within
// the nodes that share the value of a label.
type PodTerm struct {
	Key      string // canonical label key
	Selector Selector
}

// HostPort is a port of the node that a pod occupies.
type HostPort struct {
	IP       string // empty, 0.0.0.0 and :: stand for every address
	Protocol string
	Port     int32
}

// Collides says whether two pods with these ports cannot share a node.
func (h HostPort) Collides(o HostPort) bool {
	every := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return h.Port == o.Port && h.Protocol == o.Protocol && (every(h.IP) || every(o.IP) || h.IP == o.IP)
}

// WeightedTerm is a preferred affinity or anti-affinity with its weight, 1 to 100.
type WeightedTerm struct {
	Weight int32
	PodTerm
}

// Soft is what a pod prefers of the pods around it.
type Soft struct {
	Affinity     []WeightedTerm // heaviest first
	AntiAffinity []WeightedTerm // heaviest first
	Spreads      []Spread       // ScheduleAnyway, in the order of the spec
}

// None says whether nothing is preferred.
func (s *Soft) None() bool {
	return s == nil || len(s.Affinity) == 0 && len(s.AntiAffinity) == 0 && len(s.Spreads) == 0
}

// Topology is what a pod asks of the pods around it and of the places of its volumes.
type Topology struct {
	Spreads      []Spread // DoNotSchedule
	Affinity     []PodTerm
	AntiAffinity []PodTerm
	HostPorts    []HostPort
	// VolumeTerms are the places that the pod's volumes allow: any one of these, on top
	// of the pod's own terms; empty = anywhere. They limit where the pod may be, not
	// what counts for its spreads.
	VolumeTerms []require.Set
}

// None says whether nothing is asked.
func (t *Topology) None() bool {
	return t == nil || len(t.Spreads) == 0 && len(t.Affinity) == 0 && len(t.AntiAffinity) == 0 && len(t.HostPorts) == 0 && len(t.VolumeTerms) == 0
}
