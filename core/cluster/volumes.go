package cluster

import (
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
)

// book is what is known of places for volumes. As long as no pod has asked for any,
// nodes and offerings say nothing of them.
type book struct {
	limits  map[string]map[string]int64 // node name -> CSI driver -> volumes, as CSINodes say
	drivers []string                    // of the pods seen so far, sorted
	known   attach.Known
}

// setVolumeLimits takes in what a CSINode says; nil = it is gone.
func (m *Mirror) setVolumeLimits(node string, limits map[string]int64) {
	switch {
	case limits == nil:
		delete(m.book.limits, node)
	case m.book.limits == nil:
		m.book.limits = map[string]map[string]int64{node: limits}
	default:
		m.book.limits[node] = limits
	}
	m.touchNode(node)
}

// countVolumes learns which drivers pods ask for; a new one concerns every node.
func (m *Mirror) countVolumes(p *model.Pod) {
	drivers, added := attach.AddDrivers(m.book.drivers, p.Requests)
	if !added {
		return
	}
	m.book.drivers = drivers
	m.cache.offerings = nil
	for key := range m.entries {
		m.dirty[key] = struct{}{}
	}
}

// attachable gives an entry its places for volumes.
func (m *Mirror) attachable(n *model.Node) {
	if l, ok := m.book.limits[n.Name]; ok {
		n.VolumeLimits = l
	}
	if len(m.book.drivers) == 0 {
		return
	}
	if m.book.known == nil {
		m.book.known = attach.Known{}
	}
	if m.book.known.Note(n.InstanceType(), n.VolumeLimits) {
		m.cache.offerings = nil
	}
	n.Allocatable = attach.Allocatable(n, m.book.drivers, m.book.known)
}
