package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// Nomination is how long a node is expected to receive the pods that were planned
// onto it.
const Nomination = 20 * time.Second

// Options of a Mirror.
type Options struct {
	Settings model.Settings
}

// Mirror holds what is known of the cluster. It is not safe for concurrent use.
type Mirror struct {
	settings model.Settings
	synced   bool

	pods       map[string]*model.Pod            // by namespace/name
	podsOn     map[string]map[string]*model.Pod // by node name, then namespace/name; also of nodes that do not exist
	nominees   map[string]map[string]*model.Pod // by the node that they preempt others on, then namespace/name
	owned      map[string]map[string]*model.Pod // by owner uid, then namespace/name
	waiting    map[string]*model.Pod            // by namespace/name
	waitSince  map[string]time.Time             // by pod uid
	newWaiting int                              // how many uids have started to wait so far

	nodes    map[string]*model.Node  // by name, as the Node objects say
	claims   map[string]*model.Claim // by name, as the NodeClaim objects say
	assumed  map[string]*assumption  // by claim name
	doomed   map[string]time.Time    // claim name -> since when its deletion is decided
	claimOf  map[string]string       // provider id -> claim name
	nodesOf  map[string][]string     // provider id -> node names, sorted
	podEvent map[string]time.Time    // node name -> last pod event

	pools      map[string]*model.Pool
	classes    map[string]*model.NodeClass
	daemonSets map[string]*model.DaemonSet
	pdbs       map[string]*model.PDB
	offers     map[string]*classOffers
	closed     map[string]closure   // offering key -> shortage
	history    map[string]Memory    // offering key -> what is remembered of it
	nominated  map[string]time.Time // entry key -> until
	book       book                 // places for volumes
	attached   attachments          // volumes that are on nodes

	entries map[string]*model.Node // joined nodes by entry key, the snapshot's parts
	dirty   map[string]struct{}    // entry keys to be built anew
	touched map[string]struct{}    // claim names that changed since TakeTouched
	cache   snapshotCache
}

// assumption is what is known of a claim before, or besides, its object.
type assumption struct {
	claim     *model.Claim    // as it was sent; nil once the object was seen
	offering  *model.Offering // the estimate of its machine, until the object has a status
	confirmed time.Time       // when the API server took it, zero = not yet
}

type closure struct {
	since, until time.Time
	why          string
}

type classOffers struct {
	list  []*model.Offering
	index map[string]int // offering key -> position of the first one
}

// snapshotCache keeps the sorted lists that seldom change; nil = build anew.
type snapshotCache struct {
	keys       []string
	nodes      []*model.Node
	waiting    []*model.Pod
	pools      []*model.Pool
	classes    map[string]*model.NodeClass
	daemonSets []*model.DaemonSet
	pdbs       []*model.PDB
	offerings  map[string][]*model.Offering
	reopens    time.Time // when the next closed offering opens again
}

// New makes an empty mirror.
func New(o Options) *Mirror {
	return &Mirror{
		settings: o.Settings,
		pods:     map[string]*model.Pod{}, podsOn: map[string]map[string]*model.Pod{}, nominees: map[string]map[string]*model.Pod{}, owned: map[string]map[string]*model.Pod{},
		waiting: map[string]*model.Pod{}, waitSince: map[string]time.Time{},
		nodes: map[string]*model.Node{}, claims: map[string]*model.Claim{}, assumed: map[string]*assumption{}, doomed: map[string]time.Time{},
		claimOf: map[string]string{}, nodesOf: map[string][]string{}, podEvent: map[string]time.Time{},
		pools: map[string]*model.Pool{}, classes: map[string]*model.NodeClass{},
		daemonSets: map[string]*model.DaemonSet{}, pdbs: map[string]*model.PDB{},
		offers: map[string]*classOffers{}, closed: map[string]closure{}, history: map[string]Memory{}, nominated: map[string]time.Time{},
		entries: map[string]*model.Node{}, dirty: map[string]struct{}{}, touched: map[string]struct{}{},
	}
}

// SetSettings replaces what worlds say about settings.
func (m *Mirror) SetSettings(s model.Settings) { m.settings = s }

// Apply takes in one change that was seen at now.
func (m *Mirror) Apply(c Change, now time.Time) {
	switch c := c.(type) {
	case UpsertPod:
		m.upsertPod(c.Pod, now)
	case DeletePod:
		m.deletePod(c.ID, now)
	case UpsertNode:
		m.upsertNode(c.Node)
	case DeleteNode:
		m.deleteNode(c.Name)
	case UpsertClaim:
		m.upsertClaim(c.Claim)
	case DeleteClaim:
		m.deleteClaim(c.Name)
	case UpsertPool:
		m.pools[c.Pool.Name] = c.Pool
		m.cache.pools = nil
		m.touchPool(c.Pool.Name)
	case DeletePool:
		delete(m.pools, c.Name)
		m.cache.pools = nil
		m.touchPool(c.Name)
	case UpsertNodeClass:
		m.classes[c.NodeClass.Name] = c.NodeClass
		m.cache.classes = nil
		m.touchClass(c.NodeClass.Name)
	case DeleteNodeClass:
		delete(m.classes, c.Name)
		delete(m.offers, c.Name)
		m.cache.classes, m.cache.offerings = nil, nil
	case UpsertDaemonSet:
		m.daemonSets[c.DaemonSet.Namespace+"/"+c.DaemonSet.Name] = c.DaemonSet
		m.cache.daemonSets = nil
	case DeleteDaemonSet:
		delete(m.daemonSets, c.ID)
		m.cache.daemonSets = nil
	case UpsertPDB:
		m.pdbs[c.PDB.Namespace+"/"+c.PDB.Name] = c.PDB
		m.cache.pdbs = nil
	case DeletePDB:
		delete(m.pdbs, c.ID)
		m.cache.pdbs = nil
	case UpsertVolumeLimits:
		m.setVolumeLimits(c.Node, c.Limits)
	case DeleteVolumeLimits:
		m.setVolumeLimits(c.Node, nil)
	case UpsertAttachment:
		m.setAttachment(c.Name, attachment{node: c.Node, volume: c.Volume})
	case DeleteAttachment:
		m.setAttachment(c.Name, attachment{})
	case Offerings:
		m.setOfferings(c)
	case Synced:
		m.synced = true
	}
}

// Synced says whether every kind has been listed once.
func (m *Mirror) Synced() bool { return m.synced }

// Entry keys: a node by its name, a claim that has no node by its own.
func nodeKey(name string) string  { return "n/" + name }
func claimKey(name string) string { return "c/" + name }

func (m *Mirror) touchNode(name string) {
	m.dirty[nodeKey(name)] = struct{}{}
	if n := m.nodes[name]; n != nil && n.ProviderID != "" {
		if c, ok := m.claimOf[n.ProviderID]; ok {
			m.touched[c] = struct{}{}
		}
	}
}

func (m *Mirror) touchClaim(name string) {
	m.dirty[claimKey(name)] = struct{}{}
	m.touched[name] = struct{}{}
	if c := m.claims[name]; c != nil && c.ProviderID != "" {
		for _, n := range m.nodesOf[c.ProviderID] {
			m.dirty[nodeKey(n)] = struct{}{}
		}
	}
}

// touchPool marks the pool's claims, whose life may depend on its settings.
func (m *Mirror) touchClass(name string) {
	for _, c := range m.claims {
		if c.NodeClass.Name == name {
			m.touched[c.Name] = struct{}{}
		}
	}
}

func (m *Mirror) touchPool(pool string) {
	for name, c := range m.claims {
		if c.Pool == pool {
			m.touched[name] = struct{}{}
		}
	}
}

// TakeTouched answers the names of the claims that changed, or whose node or pods
// did, since the last call, sorted.
func (m *Mirror) TakeTouched() []string {
	if len(m.touched) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(m.touched))
	clear(m.touched)
	return names
}

func (m *Mirror) upsertNode(n *model.Node) {
	if old := m.nodes[n.Name]; old != nil {
		m.touchNode(n.Name)
		if old.ProviderID != n.ProviderID {
			m.unlinkNode(old)
		}
	}
	m.nodes[n.Name] = n
	if n.ProviderID != "" {
		names := m.nodesOf[n.ProviderID]
		if i, found := slices.BinarySearch(names, n.Name); !found {
			m.nodesOf[n.ProviderID] = slices.Insert(slices.Clone(names), i, n.Name)
		}
		if c, ok := m.claimOf[n.ProviderID]; ok {
			m.touchClaim(c)
		}
	}
	m.touchNode(n.Name)
}

func (m *Mirror) unlinkNode(n *model.Node) {
	names := slices.Clone(m.nodesOf[n.ProviderID])
	if i, found := slices.BinarySearch(names, n.Name); found {
		names = slices.Delete(names, i, i+1)
	}
	if len(names) == 0 {
		delete(m.nodesOf, n.ProviderID)
	} else {
		m.nodesOf[n.ProviderID] = names
	}
	if c, ok := m.claimOf[n.ProviderID]; ok {
		m.touchClaim(c)
	}
}

func (m *Mirror) deleteNode(name string) {
	n := m.nodes[name]
	if n == nil {
		return
	}
	m.touchNode(name)
	delete(m.nodes, name)
	delete(m.podEvent, name)
	m.unlinkNode(n)
}

func (m *Mirror) upsertClaim(c *model.Claim) {
	if old := m.claims[c.Name]; old != nil {
		m.touchClaim(c.Name)
		if old.ProviderID != "" && old.ProviderID != c.ProviderID && m.claimOf[old.ProviderID] == c.Name {
			delete(m.claimOf, old.ProviderID)
		}
	}
	m.claims[c.Name] = c
	if c.ProviderID != "" {
		m.claimOf[c.ProviderID] = c.Name
	}
	if a := m.assumed[c.Name]; a != nil {
		a.claim = nil
		if c.ProviderID != "" || c.Deleting != nil {
			delete(m.assumed, c.Name) // the status has its own estimate from here on
		}
	}
	m.touchClaim(c.Name)
}

func (m *Mirror) deleteClaim(name string) {
	c := m.claims[name]
	delete(m.assumed, name)
	delete(m.doomed, name)
	if c == nil {
		m.touchClaim(name)
		return
	}
	m.touchClaim(name)
	if m.claimOf[c.ProviderID] == name {
		delete(m.claimOf, c.ProviderID)
	}
	delete(m.claims, name)
}

// Assume makes a claim part of the world before its object has been seen. The
// offering is the estimate of its machine until its status tells.
func (m *Mirror) Assume(c *model.Claim, o *model.Offering) {
	if m.claims[c.Name] == nil {
		m.assumed[c.Name] = &assumption{claim: c, offering: o}
	} else {
		m.assumed[c.Name] = &assumption{offering: o}
	}
	m.touchClaim(c.Name)
}

// Confirm says that the API server took an assumed claim at now.
func (m *Mirror) Confirm(name string, now time.Time) {
	if a := m.assumed[name]; a != nil {
		a.confirmed = now
	}
}

// Forget drops an assumed claim that has not become an object.
func (m *Mirror) Forget(name string) {
	if a := m.assumed[name]; a != nil && a.claim != nil {
		delete(m.assumed, name)
		m.touchClaim(name)
	}
}

// Doom makes a claim count as being deleted before its object says so: nothing is
// planned onto it any more.
func (m *Mirror) Doom(name string) {
	if c := m.Claim(name); c != nil {
		m.doomed[name] = c.Created
		m.touchClaim(name)
	}
}

// Unseen lists the claims that the API server took at least age ago and that no
// watch has shown: deleted in between, most likely. Whoever asks the server and
// does not find them calls Forget.
func (m *Mirror) Unseen(now time.Time, age time.Duration) []string {
	var names []string
	for name, a := range m.assumed {
		if a.claim != nil && !a.confirmed.IsZero() && now.Sub(a.confirmed) >= age {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Nominate says that pods are expected on a node, or on a claim's coming node,
// until the given instant. id is Node.ID.
func (m *Mirror) Nominate(id string, until time.Time) {
	key := nodeKey(id)
	if m.nodes[id] == nil {
		key = claimKey(id)
	}
	if m.nominated[key].Before(until) {
		m.nominated[key] = until
		m.dirty[key] = struct{}{}
	}
}

// Claim finds a claim by name, assumed ones included; nil where there is none.
func (m *Mirror) Claim(name string) *model.Claim {
	if c := m.claims[name]; c != nil {
		return c
	}
	if a := m.assumed[name]; a != nil {
		return a.claim
	}
	return nil
}

// Seen says whether the claim's object has been seen.
func (m *Mirror) Seen(name string) bool { return m.claims[name] != nil }

// ClaimByProviderID finds a claim by its provider id, nil where there is none.
func (m *Mirror) ClaimByProviderID(id string) *model.Claim { return m.claims[m.claimOf[id]] }

// ClaimByInstance finds a claim by instance id, nil where there is none.
func (m *Mirror) ClaimByInstance(instance string) *model.Claim {
	for pid, name := range m.claimOf {
		if model.InstanceID(pid) == instance {
			return m.claims[name]
		}
	}
	return nil
}

// Claims lists the names of the claims that have been seen, sorted.
func (m *Mirror) Claims() []string { return slices.Sorted(maps.Keys(m.claims)) }

// NodeObjects lists the Node objects that report a provider id, as they are.
func (m *Mirror) NodeObjects(providerID string) []*model.Node {
	var out []*model.Node
	for _, name := range m.nodesOf[providerID] {
		out = append(out, m.nodes[name])
	}
	return out
}

// NodeObject is the Node object of that name, as it is, or nil.
func (m *Mirror) NodeObject(name string) *model.Node { return m.nodes[name] }

// NodeNames lists all Node objects' names, sorted.
func (m *Mirror) NodeNames() []string { return slices.Sorted(maps.Keys(m.nodes)) }

// PodsOn lists the pods bound to a node that are still running, sorted by name.
func (m *Mirror) PodsOn(node string) []*model.Pod {
	return listed(m.podsOn[node])
}

// Pool finds a pool by name, nil where there is none.
func (m *Mirror) Pool(name string) *model.Pool { return m.pools[name] }

// NodeClass finds a node class by name, nil where there is none.
func (m *Mirror) NodeClass(name string) *model.NodeClass { return m.classes[name] }

// PodEvent is when a pod last came to or left a node, zero where nothing was seen.
func (m *Mirror) PodEvent(node string) time.Time { return m.podEvent[node] }

// Usage is what a pool owns: capacity and number of its nodes and claims, those
// that are being deleted left out, those on their way included.
func (m *Mirror) Usage(pool string) (capacity resource.Vector, nodes int64) {
	m.refresh()
	for _, n := range m.entries {
		if n.Pool() != pool || n.Claim == nil || n.Deleting != nil || n.Claim.Deleting != nil {
			continue
		}
		capacity = capacity.Add(n.Capacity)
		nodes++
	}
	return capacity, nodes
}
