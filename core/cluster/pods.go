package cluster

import (
	"sort"
	"time"

	"github.com/weir-project/weir/core/model"
)

func podLess(a, b *model.Pod) bool {
	if a.Namespace != b.Namespace {
		return a.Namespace < b.Namespace
	}
	return a.Name < b.Name
}

// Waits says whether the pod asks for a node: a scheduler has tried it in vain, no
// eviction will make room for it, and it is not of a kind that comes with nodes.
func Waits(p *model.Pod) bool {
	return p.Unschedulable && p.NodeName == "" && p.NominatedNode == "" && !p.Gated && !p.Ignore &&
		p.Active() && !p.Mirror && !p.Daemon() && p.Owner.Kind != "Node"
}

func (m *Mirror) upsertPod(p *model.Pod, now time.Time) {
	id := p.ID()
	old := m.pods[id]
	if old != nil && old.UID != p.UID {
		m.deletePod(id, now)
		old = nil
	}
	m.pods[id] = p
	m.countVolumes(p)
	if p.Owner.UID != "" {
		siblings := m.owned[p.Owner.UID]
		if siblings == nil {
			siblings = map[string]*model.Pod{}
			m.owned[p.Owner.UID] = siblings
		}
		siblings[id] = p
	}
	if old != nil && old.NodeName != p.NodeName {
		m.unbind(old)
	}
	m.nominate(old, p)
	if p.NodeName != "" {
		on := m.podsOn[p.NodeName]
		if on == nil {
			on = map[string]*model.Pod{}
			m.podsOn[p.NodeName] = on
		}
		on[id] = p
		m.touchNode(p.NodeName)
		if m.synced && !p.Daemon() && podMoved(old, p) {
			m.podEvent[p.NodeName] = now
		}
	}
	switch waits := Waits(p); {
	case waits && m.waiting[id] == nil:
		m.waiting[id], m.cache.waiting = p, nil
		if _, known := m.waitSince[p.UID]; !known {
			m.waitSince[p.UID] = now
			m.newWaiting++
		}
	case waits:
		m.waiting[id], m.cache.waiting = p, nil
	default:
		m.stopWaiting(id)
		if p.NodeName != "" || !p.Active() {
			delete(m.waitSince, p.UID)
		}
	}
}

// podMoved says whether the change counts for consolidateAfter: newly bound, newly
// ended or newly terminating.
func podMoved(old, p *model.Pod) bool {
	if old == nil || old.NodeName == "" {
		return true
	}
	return old.Terminal != p.Terminal || (old.Deleting == nil) != (p.Deleting == nil)
}

func (m *Mirror) deletePod(id string, now time.Time) {
	p := m.pods[id]
	if p == nil {
		return
	}
	if m.synced && p.NodeName != "" && !p.Daemon() && p.Active() {
		m.podEvent[p.NodeName] = now
	}
	m.unbind(p)
	m.nominate(p, nil)
	if siblings := m.owned[p.Owner.UID]; siblings != nil {
		delete(siblings, id)
		if len(siblings) == 0 {
			delete(m.owned, p.Owner.UID)
		}
	}
	delete(m.pods, id)
	m.stopWaiting(id)
	delete(m.waitSince, p.UID)
}

func (m *Mirror) stopWaiting(id string) {
	if m.waiting[id] != nil {
		delete(m.waiting, id)
		m.cache.waiting = nil
	}
}

// nominate keeps which pods preempt others on which node; now is nil where the pod is gone.
func (m *Mirror) nominate(old, now *model.Pod) {
	if old != nil && old.Preempts() {
		on := m.nominees[old.NominatedNode]
		delete(on, old.ID())
		if len(on) == 0 {
			delete(m.nominees, old.NominatedNode)
		}
		m.touchNode(old.NominatedNode)
	}
	if now != nil && now.Preempts() {
		on := m.nominees[now.NominatedNode]
		if on == nil {
			on = map[string]*model.Pod{}
			m.nominees[now.NominatedNode] = on
		}
		on[now.ID()] = now
		m.touchNode(now.NominatedNode)
	}
}

// listed is the pods that have not ended, by namespace and name.
func listed(on map[string]*model.Pod) []*model.Pod {
	pods := make([]*model.Pod, 0, len(on))
	for _, p := range on {
		if !p.Terminal {
			pods = append(pods, p)
		}
	}
	sort.Slice(pods, func(i, j int) bool { return podLess(pods[i], pods[j]) })
	return pods
}

func (m *Mirror) unbind(p *model.Pod) {
	on := m.podsOn[p.NodeName]
	if on == nil {
		return
	}
	delete(on, p.ID())
	if len(on) == 0 {
		delete(m.podsOn, p.NodeName)
	}
	m.touchNode(p.NodeName)
}

// Pod finds a pod by namespace/name, nil where there is none.
func (m *Mirror) Pod(id string) *model.Pod { return m.pods[id] }

// Waiting is how many pods wait now.
func (m *Mirror) Waiting() int { return len(m.waiting) }

// NewWaiting counts the pods that have ever started to wait, each uid once: a
// batch is idle while the count stands still.
func (m *Mirror) NewWaiting() int { return m.newWaiting }

// WaitingSince is when a pod was first seen waiting.
func (m *Mirror) WaitingSince(uid string) (time.Time, bool) {
	t, ok := m.waitSince[uid]
	return t, ok
}

// OnlyReady says whether the pod is the only ready one of its owner. A pod without
// an owner has no successor and is none.
func (m *Mirror) OnlyReady(p *model.Pod) bool {
	if !p.Ready || p.Owner.UID == "" {
		return false
	}
	for _, o := range m.owned[p.Owner.UID] {
		if o.UID != p.UID && o.Ready && o.Active() {
			return false
		}
	}
	return true
}

// PDBs lists the budgets, sorted by name.
func (m *Mirror) PDBs() []*model.PDB { return m.pdbList() }

// PDB finds a budget by namespace/name, nil where it is not there.
func (m *Mirror) PDB(id string) *model.PDB { return m.pdbs[id] }
