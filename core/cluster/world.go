package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/model/resource"
)

// World is a snapshot at now. It is read-only and stays as it is whatever is
// applied later.
func (m *Mirror) World(now time.Time) *model.World {
	for key, until := range m.nominated {
		if !until.After(now) {
			delete(m.nominated, key)
			m.dirty[key] = struct{}{}
		}
	}
	m.refresh()
	w := &model.World{
		Now: now, Settings: m.settings, Nodes: m.cache.nodes,
		Pools: m.poolList(), NodeClasses: m.classMap(), DaemonSets: m.daemonSetList(), PDBs: m.pdbList(),
		Offerings: m.offeringLists(now),
		Pods:      m.waitingList(),
	}
	return w
}

func (m *Mirror) waitingList() []*model.Pod {
	if m.cache.waiting == nil {
		list := make([]*model.Pod, 0, len(m.waiting))
		for _, p := range m.waiting {
			list = append(list, p)
		}
		sort.Slice(list, func(i, j int) bool { return podLess(list[i], list[j]) })
		m.cache.waiting = list
	}
	return m.cache.waiting
}

// refresh builds the entries that were touched.
func (m *Mirror) refresh() {
	if len(m.dirty) == 0 && m.cache.nodes != nil {
		return
	}
	for key := range m.dirty {
		n := m.build(key)
		old := m.entries[key]
		switch {
		case n == nil && old == nil:
			continue
		case n == nil:
			delete(m.entries, key)
			delete(m.nominated, key)
			m.cache.keys = nil
		default:
			m.entries[key] = n
			if old == nil {
				m.cache.keys = nil
			}
		}
	}
	clear(m.dirty)
	if m.cache.keys == nil {
		m.cache.keys = slices.Sorted(maps.Keys(m.entries))
	}
	nodes := make([]*model.Node, len(m.cache.keys))
	for i, key := range m.cache.keys {
		nodes[i] = m.entries[key]
	}
	m.cache.nodes = nodes
}

// build makes the entry of a key, nil where it is none (any more).
func (m *Mirror) build(key string) *model.Node {
	name := key[2:]
	if key[0] == 'n' {
		raw := m.nodes[name]
		if raw == nil {
			return nil
		}
		n := *raw
		if n.ProviderID != "" {
			n.Claim = m.claims[m.claimOf[n.ProviderID]]
		}
		n.Pods = m.PodsOn(name)
		if on := m.nominees[name]; len(on) > 0 {
			n.Preempting = listed(on)
		}
		n.Nominated = m.nominated[key]
		if n.Claim != nil && !n.Initialized() {
			n.Capacity = estimate(n.Claim.Capacity, n.Capacity)
			n.Allocatable = estimate(n.Claim.Allocatable, n.Allocatable)
		}
		m.price(&n)
		m.attachable(&n)
		return &n
	}
	c := m.Claim(name)
	if c == nil || c.ProviderID != "" && len(m.nodesOf[c.ProviderID]) > 0 {
		return nil
	}
	n := &model.Node{
		Claim: c, ProviderID: c.ProviderID, Labels: c.Labels, Annotations: c.Annotations, Taints: c.Taints,
		Capacity: c.Capacity, Allocatable: c.Allocatable, Created: c.Created, Nominated: m.nominated[key],
	}
	if at, doomed := m.doomed[name]; doomed {
		n.Deleting = &at
	}
	if a := m.assumed[name]; a != nil && a.offering != nil && c.ProviderID == "" {
		n.Labels = expectedLabels(c.Labels, a.offering)
		n.Capacity, n.Allocatable = a.offering.Type.Capacity, a.offering.Type.Allocatable
	}
	m.price(n)
	m.attachable(n)
	return n
}

// estimate is the claim's figure, with what only the node reports filled in.
func estimate(claim, node resource.Vector) resource.Vector {
	out := claim
	node.Each(func(name string, v int64) {
		if out.Get(name) == 0 {
			out = out.With(name, v)
		}
	})
	return out
}

func expectedLabels(claim map[string]string, o *model.Offering) map[string]string {
	labels := make(map[string]string, len(claim)+len(o.Type.Labels)+3)
	maps.Copy(labels, o.Type.Labels)
	labels[model.LabelInstanceType] = o.Type.Name
	labels[model.LabelZone] = o.Zone
	if o.ZoneID != "" {
		labels[model.LabelZoneID] = o.ZoneID
	}
	labels[model.LabelCapacityType] = o.CapacityType
	maps.Copy(labels, claim)
	return labels
}

func (m *Mirror) price(n *model.Node) {
	if n.Claim == nil {
		return
	}
	c := m.offers[n.Claim.NodeClass.Name]
	if c == nil {
		return
	}
	i, ok := c.index[n.InstanceType()+"/"+n.Zone()+"/"+n.CapacityType()]
	if !ok || c.list[i].PriceSource == "unknown" {
		return
	}
	n.USDPerHour, n.PriceKnown = c.list[i].USDPerHour, true
}

func (m *Mirror) setOfferings(o Offerings) {
	c := &classOffers{list: o.List, index: make(map[string]int, len(o.List))}
	for i, off := range o.List {
		if _, dup := c.index[off.Key()]; !dup {
			c.index[off.Key()] = i
		}
	}
	old := m.offers[o.Class]
	m.offers[o.Class] = c
	m.cache.offerings = nil
	for key, n := range m.entries {
		if n.Claim == nil || n.Claim.NodeClass.Name != o.Class {
			continue
		}
		k := n.InstanceType() + "/" + n.Zone() + "/" + n.CapacityType()
		if old == nil || !samePrice(old, c, k) {
			m.dirty[key] = struct{}{}
		}
	}
}

func samePrice(a, b *classOffers, key string) bool {
	i, ok1 := a.index[key]
	j, ok2 := b.index[key]
	if !ok1 || !ok2 {
		return ok1 == ok2
	}
	return a.list[i].USDPerHour == b.list[j].USDPerHour && a.list[i].PriceSource == b.list[j].PriceSource
}

// Offering finds what a class sells under a key (type/zone/capacity type), nil where it does not.
func (m *Mirror) Offering(class, key string) *model.Offering {
	c := m.offers[class]
	if c == nil {
		return nil
	}
	i, ok := c.index[key]
	if !ok {
		return nil
	}
	return c.list[i]
}

// OfferingsOf is the list of a class as it was given, with false where it has not been read yet.
func (m *Mirror) OfferingsOf(class string) ([]*model.Offering, bool) {
	c := m.offers[class]
	if c == nil {
		return nil, false
	}
	return c.list, true
}

// CloseOffering makes worlds say that an offering is short from now until the given
// instant.
func (m *Mirror) CloseOffering(key string, now, until time.Time, why string) {
	m.closed[key] = closure{since: now, until: until, why: why}
	m.cache.offerings = nil
}

// Memory is what the account remembers of an offering.
type Memory struct {
	Shortages, Interruptions int
	// LastShortage and LastInterruption are when it last happened; zero = not known.
	LastShortage, LastInterruption time.Time
	Since, Until                   time.Time // not to be bought from since then, until then; zero = open
	Probing                        bool      // closed because all that may be tried is under way
	Why                            string
}

// RememberOffering makes worlds tell what is remembered of an offering. It stands beside what
// CloseOffering says.
func (m *Mirror) RememberOffering(key string, h Memory) {
	if m.history[key] == h {
		return
	}
	m.history[key] = h
	if h == (Memory{}) {
		delete(m.history, key)
	}
	m.cache.offerings = nil
}

// ClosedSince is when an offering was last found short, zero where it is open.
func (m *Mirror) ClosedSince(key string) time.Time {
	if h := m.history[key]; h.Since.After(m.closed[key].since) {
		return h.Since
	}
	return m.closed[key].since
}

// Probing says whether what may be tried of an offering that was short is under way.
func (m *Mirror) Probing(key string) bool { return m.history[key].Probing }

// OpenOffering makes worlds offer what was closed.
func (m *Mirror) OpenOffering(key string) {
	delete(m.closed, key)
	if h, ok := m.history[key]; ok {
		h.Until = time.Time{}
		m.history[key] = h
	}
	m.cache.offerings = nil
}

// Closed lists the offerings that are short at now with the instant they open again.
func (m *Mirror) Closed(now time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for key, c := range m.closed {
		if c.until.After(now) {
			out[key] = c.until
		}
	}
	for key, h := range m.history {
		if h.Until.After(now) && h.Until.After(out[key]) {
			out[key] = h.Until
		}
	}
	return out
}

// says is how worlds tell that an offering is closed.
func (h Memory) says() string {
	if h.Probing {
		return "was short of capacity, and what may be tried of it is under way: " + h.Why
	}
	return "short of capacity until " + h.Until.UTC().Format(time.RFC3339) + ", then one is tried: " + h.Why
}

// offeringLists overlays what the cloud sells with the shortages that still hold.
func (m *Mirror) offeringLists(now time.Time) map[string][]*model.Offering {
	if m.cache.offerings != nil && (m.cache.reopens.IsZero() || now.Before(m.cache.reopens)) {
		return m.cache.offerings
	}
	m.cache.reopens = time.Time{}
	for key, c := range m.closed {
		if !c.until.After(now) {
			delete(m.closed, key)
		} else if m.cache.reopens.IsZero() || c.until.Before(m.cache.reopens) {
			m.cache.reopens = c.until
		}
	}
	for _, h := range m.history {
		if h.Until.After(now) && (m.cache.reopens.IsZero() || h.Until.Before(m.cache.reopens)) {
			m.cache.reopens = h.Until
		}
	}
	lists := make(map[string][]*model.Offering, len(m.offers))
	for class, c := range m.offers {
		list, copied := c.list, false
		for key, h := range m.history {
			i, ok := c.index[key]
			if !ok {
				continue
			}
			if !copied {
				list, copied = slices.Clone(c.list), true
			}
			told := *list[i]
			told.Shortages, told.Interruptions = h.Shortages, h.Interruptions
			told.LastShortage, told.LastInterruption = h.LastShortage, h.LastInterruption
			if told.Available && h.Until.After(now) {
				told.Available, told.Unavailable = false, h.says()
			}
			list[i] = &told
		}
		for key, shut := range m.closed {
			i, ok := c.index[key]
			if !ok || !c.list[i].Available {
				continue
			}
			if !copied {
				list, copied = slices.Clone(c.list), true
			}
			short := *list[i]
			short.Available = false
			short.Unavailable = fmt.Sprintf("short of capacity until %s: %s", shut.until.UTC().Format(time.RFC3339), shut.why)
			list[i] = &short
		}
		list = m.overQuota(list, copied, now)
		lists[class] = attach.Offerings(list, m.book.drivers, m.book.known)
	}
	m.cache.offerings = lists
	return lists
}

// overQuota closes the offerings of quotas that were used up. copied says whether the list may be written to.
func (m *Mirror) overQuota(list []*model.Offering, copied bool, now time.Time) []*model.Offering {
	used := map[string]string{}
	for key, h := range m.history {
		if strings.HasPrefix(key, model.QuotaPrefix) && h.Until.After(now) {
			used[key] = fmt.Sprintf("the account's %s is used up, not asked again until %s: %s", key, h.Until.UTC().Format(time.RFC3339), h.Why)
		}
	}
	if len(used) == 0 {
		return list
	}
	for i, o := range list {
		why := used[model.QuotaKey(o.Type.Name, o.CapacityType)]
		if why == "" || !o.Available {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
		}
		over := *o
		over.Available, over.Unavailable = false, why
		list[i] = &over
	}
	return list
}

func (m *Mirror) poolList() []*model.Pool {
	if m.cache.pools == nil {
		m.cache.pools = slices.SortedFunc(maps.Values(m.pools), func(a, b *model.Pool) int {
			// The order in which v1 tries pools: heaviest first, ties by name, last first.
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
		})
	}
	return m.cache.pools
}

func (m *Mirror) classMap() map[string]*model.NodeClass {
	if m.cache.classes == nil {
		m.cache.classes = maps.Clone(m.classes)
	}
	return m.cache.classes
}

func (m *Mirror) daemonSetList() []*model.DaemonSet {
	if m.cache.daemonSets == nil {
		m.cache.daemonSets = sortedByKey(m.daemonSets)
	}
	return m.cache.daemonSets
}

func (m *Mirror) pdbList() []*model.PDB {
	if m.cache.pdbs == nil {
		m.cache.pdbs = sortedByKey(m.pdbs)
	}
	return m.cache.pdbs
}

func sortedByKey[T any](byKey map[string]T) []T {
	out := make([]T, 0, len(byKey))
	for _, k := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, byKey[k])
	}
	return out
}
