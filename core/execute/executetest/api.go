package executetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// API is the API server. Objects it hands out are never written to again.
type API struct {
	Now    func() time.Time
	serial int

	Pods       map[string]*model.Pod
	Nodes      map[string]*model.Node
	Claims     map[string]*model.Claim
	Pools      map[string]*model.Pool
	Classes    map[string]*model.NodeClass
	PDBs       map[string]*model.PDB
	Kills      map[string]time.Time                // when the kubelet kills a pod that was deleted, by uid
	StatusLost bool                                // nobody keeps the status of budgets: it says that they allow nothing
	disrupted  map[string]map[string]bool          // ids of pods that are out, by budget
	Volumes    map[string]cluster.UpsertAttachment // by the name of the attachment
	Owner      map[string]string                   // node name -> uid of its claim
	Events     []execute.Event
	Denied     []string                      // evictions that a budget refused
	Status     map[string]execute.PoolStatus // last written, by pool

	changes []cluster.Change
	created map[string]bool // claims ever created
}

var _ execute.Kube = (*API)(nil)

// NewAPI makes an empty one.
func NewAPI(now func() time.Time) *API {
	return &API{
		Now: now, Pods: map[string]*model.Pod{}, Nodes: map[string]*model.Node{}, Claims: map[string]*model.Claim{}, Pools: map[string]*model.Pool{},
		Classes: map[string]*model.NodeClass{}, PDBs: map[string]*model.PDB{}, disrupted: map[string]map[string]bool{}, Kills: map[string]time.Time{}, Volumes: map[string]cluster.UpsertAttachment{}, Owner: map[string]string{}, created: map[string]bool{}, Status: map[string]execute.PoolStatus{},
	}
}

func (a *API) uid() string {
	a.serial++
	return "uid-" + strconv.Itoa(a.serial)
}

// Changes answers and forgets what changed since the last call.
func (a *API) Changes() []cluster.Change {
	out := a.changes
	a.changes = nil
	return out
}

// Everything is the list that a fresh watch begins with.
func (a *API) Everything() []cluster.Change {
	a.changes = nil
	var out []cluster.Change
	for _, k := range slices.Sorted(maps.Keys(a.Classes)) {
		out = append(out, cluster.UpsertNodeClass{NodeClass: a.Classes[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(a.Pools)) {
		out = append(out, cluster.UpsertPool{Pool: a.Pools[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(a.PDBs)) {
		out = append(out, cluster.UpsertPDB{PDB: a.status(k)})
	}
	for _, k := range slices.Sorted(maps.Keys(a.Claims)) {
		out = append(out, cluster.UpsertClaim{Claim: a.Claims[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(a.Nodes)) {
		out = append(out, cluster.UpsertNode{Node: a.Nodes[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(a.Pods)) {
		out = append(out, cluster.UpsertPod{Pod: a.Pods[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(a.Volumes)) {
		out = append(out, a.Volumes[k])
	}
	return append(out, cluster.Synced{})
}

// PutPool, PutClass and PutPDB apply objects.
func (a *API) PutPool(p *model.Pool) {
	a.Pools[p.Name] = p
	a.changes = append(a.changes, cluster.UpsertPool{Pool: p})
}

// RemovePool makes a pool vanish, as the API server does once its claims are gone.
func (a *API) RemovePool(name string) {
	delete(a.Pools, name)
	delete(a.Status, name)
	a.changes = append(a.changes, cluster.DeletePool{Name: name})
}

// PutClass applies a node class.
func (a *API) PutClass(c *model.NodeClass) {
	a.Classes[c.Name] = c
	a.changes = append(a.changes, cluster.UpsertNodeClass{NodeClass: c})
}

// RemoveClass takes a class away at once.
func (a *API) RemoveClass(name string) {
	delete(a.Classes, name)
	a.changes = append(a.changes, cluster.DeleteNodeClass{Name: name})
}

// PutPDB applies a budget: DisruptionsAllowed of it is how many of its pods may be out at
// a time. Its status, which is seen, says how many more.
func (a *API) PutPDB(b *model.PDB) {
	key := b.Namespace + "/" + b.Name
	a.PDBs[key], a.disrupted[key] = b, map[string]bool{}
	for _, p := range a.Pods {
		if b.Covers(p) && isOut(p) {
			a.disrupted[key][p.ID()] = true
		}
	}
	a.changes = append(a.changes, cluster.UpsertPDB{PDB: a.status(key)})
}

// isOut says whether a pod counts as disrupted: it is not ready or on its way out.
func isOut(p *model.Pod) bool { return !p.Ready || p.Deleting != nil }

// status is the budget with how many more of its pods may go now.
func (a *API) status(key string) *model.PDB {
	b := *a.PDBs[key]
	if a.StatusLost {
		b.DisruptionsAllowed = 0
		return &b
	}
	b.DisruptionsAllowed = max(0, b.DisruptionsAllowed-int32(len(a.disrupted[key])))
	return &b
}

// count has the budgets of a pod take in what has become of it, and tell.
func (a *API) count(p *model.Pod, out bool) {
	for _, key := range slices.Sorted(maps.Keys(a.PDBs)) {
		set := a.disrupted[key]
		if !a.PDBs[key].Covers(p) || set[p.ID()] == out {
			continue
		}
		if out {
			set[p.ID()] = true
		} else {
			delete(set, p.ID())
		}
		a.changes = append(a.changes, cluster.UpsertPDB{PDB: a.status(key)})
	}
}

// PutPod writes a pod.
func (a *API) PutPod(p *model.Pod) {
	a.Pods[p.ID()] = p
	a.changes = append(a.changes, cluster.UpsertPod{Pod: p})
	a.count(p, isOut(p))
}

// RemovePod makes a pod vanish.
func (a *API) RemovePod(id string) {
	if p := a.Pods[id]; p != nil {
		a.count(p, false)
	}
	delete(a.Pods, id)
	a.changes = append(a.changes, cluster.DeletePod{ID: id})
}

// PutNode writes a node, PutClaim a claim: objects that somebody else made.
func (a *API) PutNode(n *model.Node) { a.putNode(n) }

// PutClaim writes a claim.
func (a *API) PutClaim(c *model.Claim) { a.putClaim(c) }

func (a *API) putAttachment(v cluster.UpsertAttachment) {
	a.Volumes[v.Name] = v
	a.changes = append(a.changes, v)
}

// RemoveAttachment detaches a volume.
func (a *API) RemoveAttachment(name string) {
	delete(a.Volumes, name)
	a.changes = append(a.changes, cluster.DeleteAttachment{Name: name})
}

func (a *API) putNode(n *model.Node) {
	if n.Deleting != nil && len(n.Finalizers) == 0 {
		delete(a.Nodes, n.Name)
		delete(a.Owner, n.Name)
		a.changes = append(a.changes, cluster.DeleteNode{Name: n.Name})
		for _, id := range slices.Sorted(maps.Keys(a.Pods)) {
			if a.Pods[id].NodeName == n.Name {
				a.RemovePod(id) // pod garbage collection
			}
		}
		return
	}
	a.Nodes[n.Name] = n
	a.changes = append(a.changes, cluster.UpsertNode{Node: n})
}

func (a *API) putClaim(c *model.Claim) {
	if c.Deleting != nil && len(c.Finalizers) == 0 {
		delete(a.Claims, c.Name)
		a.changes = append(a.changes, cluster.DeleteClaim{Name: c.Name})
		for _, name := range slices.Sorted(maps.Keys(a.Owner)) {
			if a.Owner[name] == c.UID {
				_ = a.DeleteNode(context.Background(), name, "")
			}
		}
		return
	}
	a.serial++
	c.ResourceVersion = strconv.Itoa(a.serial)
	a.Claims[c.Name] = c
	a.changes = append(a.changes, cluster.UpsertClaim{Claim: c})
}

// CreateClaim implements execute.Kube.
func (a *API) CreateClaim(_ context.Context, c *model.Claim) (string, error) {
	if a.Claims[c.Name] != nil {
		return "", fmt.Errorf("nodeclaim %s: %w", c.Name, execute.ErrConflict)
	}
	n := *c
	n.UID, n.Created = a.uid(), a.Now()
	a.created[n.Name] = true
	a.putClaim(&n)
	return n.UID, nil
}

// PatchClaim implements execute.Kube.
func (a *API) PatchClaim(_ context.Context, p execute.ClaimPatch) error {
	old := a.Claims[p.Name]
	if old == nil {
		return fmt.Errorf("nodeclaim %s: %w", p.Name, execute.ErrNotFound)
	}
	if old.UID != p.UID {
		return fmt.Errorf("nodeclaim %s: %w", p.Name, execute.ErrConflict)
	}
	n := *old
	n.Labels, n.Annotations = merged(n.Labels, p.Labels), merged(n.Annotations, p.Annotations)
	n.Finalizers = finalizers(n.Finalizers, p.AddFinalizers, p.RemoveFinalizers)
	if p.ProviderID != "" {
		n.ProviderID = p.ProviderID
	}
	if p.ImageID != "" {
		n.ImageID = p.ImageID
	}
	if p.NodeName != "" {
		n.NodeName = p.NodeName
	}
	if p.Capacity != nil {
		n.Capacity = Vector(p.Capacity)
	}
	if p.Allocatable != nil {
		n.Allocatable = Vector(p.Allocatable)
	}
	if p.LastPodEvent != nil {
		n.LastPodEvent = p.LastPodEvent
	}
	n.Conditions = slices.Clone(n.Conditions)
	for _, c := range p.Conditions {
		i := slices.IndexFunc(n.Conditions, func(o model.Condition) bool { return o.Type == c.Type })
		switch {
		case i < 0:
			n.Conditions = append(n.Conditions, c)
		default:
			n.Conditions[i] = c
		}
	}
	n.Conditions = slices.DeleteFunc(n.Conditions, func(c model.Condition) bool { return slices.Contains(p.RemoveConditions, c.Type) })
	a.putClaim(&n)
	return nil
}

// DeleteClaim implements execute.Kube.
func (a *API) DeleteClaim(_ context.Context, name, uid string) error {
	old := a.Claims[name]
	if old == nil || old.Deleting != nil {
		return nil
	}
	if uid != "" && old.UID != uid {
		return fmt.Errorf("nodeclaim %s: %w", name, execute.ErrConflict)
	}
	n := *old
	at := a.Now()
	n.Deleting = &at
	a.putClaim(&n)
	return nil
}

// ListClaims implements execute.Kube.
func (a *API) ListClaims(context.Context) ([]*model.Claim, error) {
	var out []*model.Claim
	for _, k := range slices.Sorted(maps.Keys(a.Claims)) {
		out = append(out, a.Claims[k])
	}
	return out, nil
}

// PatchNode implements execute.Kube.
func (a *API) PatchNode(_ context.Context, p execute.NodePatch) error {
	old := a.Nodes[p.Name]
	if old == nil {
		return fmt.Errorf("node %s: %w", p.Name, execute.ErrNotFound)
	}
	if p.UID != "" && old.UID != p.UID {
		return fmt.Errorf("node %s: %w", p.Name, execute.ErrConflict)
	}
	n := *old
	n.Labels, n.Annotations = merged(n.Labels, p.Labels), merged(n.Annotations, p.Annotations)
	n.Finalizers = finalizers(n.Finalizers, p.AddFinalizers, p.RemoveFinalizers)
	n.Taints = slices.Clone(n.Taints)
	for _, t := range p.RemoveTaints {
		n.Taints = slices.DeleteFunc(n.Taints, t.Same)
	}
	for _, t := range p.AddTaints {
		if !slices.ContainsFunc(n.Taints, t.Same) {
			n.Taints = append(n.Taints, t)
		}
	}
	if p.OwnerClaim != nil {
		a.Owner[n.Name] = p.OwnerClaim.UID
	}
	a.putNode(&n)
	return nil
}

// DeleteNode implements execute.Kube.
func (a *API) DeleteNode(_ context.Context, name, uid string) error {
	old := a.Nodes[name]
	if old == nil || old.Deleting != nil {
		return nil
	}
	if uid != "" && old.UID != uid {
		return fmt.Errorf("node %s: %w", name, execute.ErrConflict)
	}
	n := *old
	at := a.Now()
	n.Deleting = &at
	a.putNode(&n)
	return nil
}

// Evict implements execute.Kube.
func (a *API) Evict(_ context.Context, p *model.Pod, grace time.Duration) error {
	cur := a.Pods[p.ID()]
	if cur == nil || cur.UID != p.UID {
		return fmt.Errorf("pod %s: %w", p.ID(), execute.ErrNotFound)
	}
	if cur.Deleting != nil {
		return a.cutPod(cur, grace)
	}
	covering := 0
	for _, k := range slices.Sorted(maps.Keys(a.PDBs)) {
		b := a.PDBs[k]
		if !b.Covers(cur) {
			continue
		}
		covering++
		if int(b.DisruptionsAllowed) <= len(a.disrupted[k]) {
			a.Denied = append(a.Denied, cur.ID())
			return fmt.Errorf("pod %s: %w", p.ID(), execute.ErrBlocked)
		}
	}
	if covering > 1 {
		return fmt.Errorf("pod %s: %w", p.ID(), execute.ErrMultiplePDBs)
	}
	return a.DeletePod(context.Background(), cur, cmp.Or(grace, cur.GracePeriod))
}

// DeletePod implements execute.Kube.
func (a *API) DeletePod(_ context.Context, p *model.Pod, grace time.Duration) error {
	cur := a.Pods[p.ID()]
	if cur == nil || cur.UID != p.UID {
		return fmt.Errorf("pod %s: %w", p.ID(), execute.ErrNotFound)
	}
	if cur.NodeName == "" {
		a.RemovePod(cur.ID())
		return nil
	}
	if cur.Deleting != nil {
		return a.cutPod(cur, grace)
	}
	at := a.Now().Add(grace)
	n := *cur
	n.Deleting, n.DeletingGrace, a.Kills[n.UID] = &at, grace, at
	a.PutPod(&n)
	return nil
}

// cutPod gives a pod that is being deleted a shorter grace period, as the server does: its timestamp
// counts from the first deletion, its kubelet from now.
func (a *API) cutPod(p *model.Pod, grace time.Duration) error {
	given := cmp.Or(p.DeletingGrace, p.GracePeriod)
	if grace <= 0 || grace >= given {
		return nil
	}
	n := *p
	at := p.Deleting.Add(grace - given)
	n.Deleting, n.DeletingGrace, a.Kills[n.UID] = &at, grace, a.Now().Add(grace)
	a.PutPod(&n)
	return nil
}

// ends is when the kubelet kills a pod that is being deleted.
func (a *API) ends(p *model.Pod) time.Time {
	if at, ok := a.Kills[p.UID]; ok {
		return at
	}
	return *p.Deleting
}

// PatchPool implements execute.Kube.
func (a *API) PatchPool(_ context.Context, s execute.PoolStatus) error {
	old := a.Pools[s.Name]
	if old == nil {
		return fmt.Errorf("nodepool %s: %w", s.Name, execute.ErrNotFound)
	}
	a.Status[s.Name] = s
	if len(s.Annotations) > 0 {
		n := *old
		n.Annotations = merged(n.Annotations, s.Annotations)
		a.PutPool(&n)
	}
	return nil
}

// Emit implements execute.Kube.
func (a *API) Emit(_ context.Context, e execute.Event) error {
	a.Events = append(a.Events, e)
	return nil
}

func merged(old, patch map[string]string) map[string]string {
	if len(patch) == 0 {
		return old
	}
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range patch {
		if v == "" {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func finalizers(old, add, remove []string) []string {
	out := slices.Clone(old)
	for _, f := range add {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return slices.DeleteFunc(out, func(f string) bool { return slices.Contains(remove, f) })
}

// Vector reads quantities as resource.Vector.Map writes them.
func Vector(m map[string]string) resource.Vector {
	var v resource.Vector
	for name, q := range m {
		scale, num := 1.0, q
		for suffix, s := range map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40} {
			if rest, ok := strings.CutSuffix(q, suffix); ok {
				scale, num = s, rest
			}
		}
		if name == "cpu" {
			scale = 1000
			if rest, ok := strings.CutSuffix(q, "m"); ok {
				scale, num = 1, rest
			}
		}
		f, err := strconv.ParseFloat(num, 64)
		if err != nil {
			panic(fmt.Sprintf("quantity %s=%q: %v", name, q, err))
		}
		v = v.With(name, int64(f*scale))
	}
	return v
}

// Vanish takes a claim away as if it had never been: no watch tells of it.
func (a *API) Vanish(name string) {
	delete(a.Claims, name)
	a.changes = slices.DeleteFunc(a.changes, func(c cluster.Change) bool {
		u, ok := c.(cluster.UpsertClaim)
		return ok && u.Claim.Name == name
	})
}
