package cluster

import (
	"maps"
	"slices"
)

// attachment is a volume on a node.
type attachment struct{ node, volume string }

// attachments are the VolumeAttachments of the cluster.
type attachments struct {
	byName map[string]attachment
	on     map[string]map[string]string // node name -> attachment -> volume
}

// setAttachment takes in an attachment; the zero value = it is gone. Only claims that are
// being deleted ask what is attached, so only they are looked at again.
func (m *Mirror) setAttachment(name string, now attachment) {
	a := &m.attached
	old := a.byName[name]
	if old == now {
		return
	}
	if a.byName == nil {
		a.byName, a.on = map[string]attachment{}, map[string]map[string]string{}
	}
	if old != (attachment{}) {
		delete(a.byName, name)
		delete(a.on[old.node], name)
		if len(a.on[old.node]) == 0 {
			delete(a.on, old.node)
		}
		m.touchEnding(old.node)
	}
	if now == (attachment{}) {
		return
	}
	a.byName[name] = now
	if a.on[now.node] == nil {
		a.on[now.node] = map[string]string{}
	}
	a.on[now.node][name] = now.volume
	m.touchEnding(now.node)
}

// touchEnding marks the claim of a node if it is being deleted.
func (m *Mirror) touchEnding(node string) {
	n := m.nodes[node]
	if n == nil || n.ProviderID == "" {
		return
	}
	if c := m.claims[m.claimOf[n.ProviderID]]; c != nil && c.Deleting != nil {
		m.touched[c.Name] = struct{}{}
	}
}

// Attached names the volumes that are attached to a node, sorted.
func (m *Mirror) Attached(node string) []string {
	return slices.Compact(slices.Sorted(maps.Values(m.attached.on[node])))
}
