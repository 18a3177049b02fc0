package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// Taints that the node controller and kubelets keep on nodes.
const (
	taintNotReady    = "node.kubernetes.io/not-ready"
	taintUnreachable = "node.kubernetes.io/unreachable"
)

// Budget is a PodDisruptionBudget with what its controller needs to know.
type Budget struct {
	model.PDB
	MinAvailable, MaxUnavailable *intstr.IntOrString
}

// share is a count, or a share of total, which Kubernetes rounds up in both cases.
func share(v *intstr.IntOrString, total int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, true)
	if err != nil {
		return 0 // refused when the object was read
	}
	return n
}

// api is an API server with the parts of the controller manager that react at
// once: garbage collection by owner, and budgets. Every object it hands out is a
// snapshot; a change replaces the object.
type api struct {
	now     func() time.Time
	serial  int64
	pods    *table[*model.Pod]
	nodes   *table[*model.Node]
	claims  *table[*model.Claim]
	pools   *table[*model.Pool]
	classes *table[*model.NodeClass]
	daemons *table[*model.DaemonSet]
	budgets *table[*Budget]

	nodeOwner map[string]string // node name -> uid of its claim
	onNode    map[string]*table[*model.Pod]

	watch    func(cluster.Change) // every change, in order
	told     func(execute.Event)  // Kubernetes events
	seen     observer
	replicas func(workload string) int // that a workload should have
}

// observer hears of what happens to objects, for the happenings and the figures.
type observer interface {
	podCreated(p *model.Pod)
	podChanged(old, p *model.Pod)
	podGone(p *model.Pod)
	podEvicted(p *model.Pod, forced bool)
	claimCreated(c *model.Claim)
	claimChanged(old, c *model.Claim)
	claimGone(c *model.Claim)
	nodeCreated(n *model.Node)
	nodeChanged(old, n *model.Node)
	nodeGone(n *model.Node)
	budgetBroken(b *Budget, p *model.Pod)
}

var _ execute.Kube = (*api)(nil)

func newAPI(now func() time.Time) *api {
	return &api{now: now, pods: newTable[*model.Pod](), nodes: newTable[*model.Node](), claims: newTable[*model.Claim](),
		pools: newTable[*model.Pool](), classes: newTable[*model.NodeClass](), daemons: newTable[*model.DaemonSet](), budgets: newTable[*Budget](),
		nodeOwner: map[string]string{}, onNode: map[string]*table[*model.Pod]{}}
}

func (a *api) uid() string {
	a.serial++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", a.serial, a.serial)
}

func (a *api) version() string {
	a.serial++
	return fmt.Sprint(a.serial)
}

// Pods.

func (a *api) putPod(p *model.Pod) {
	old, had := a.pods.get(p.ID())
	a.pods.put(p.ID(), p)
	if had && old.NodeName != "" {
		a.bound(old.NodeName).del(p.ID())
	}
	if p.NodeName != "" {
		a.bound(p.NodeName).put(p.ID(), p)
	}
	a.watch(cluster.UpsertPod{Pod: p})
	if had {
		a.seen.podChanged(old, p)
	} else {
		a.seen.podCreated(p)
	}
	a.recount(p.Namespace)
}

func (a *api) bound(node string) *table[*model.Pod] {
	t := a.onNode[node]
	if t == nil {
		t = newTable[*model.Pod]()
		a.onNode[node] = t
	}
	return t
}

func (a *api) removePod(id string) {
	p, ok := a.pods.get(id)
	if !ok {
		return
	}
	a.pods.del(id)
	if p.NodeName != "" {
		a.bound(p.NodeName).del(id)
	}
	a.watch(cluster.DeletePod{ID: id})
	a.seen.podGone(p)
	a.recount(p.Namespace)
}

// editPod changes a copy of the pod, where it is still there.
func (a *api) editPod(id string, f func(*model.Pod)) {
	if p, ok := a.pods.get(id); ok {
		c := *p
		f(&c)
		a.putPod(&c)
	}
}

// deletePod begins the graceful end of a pod; what no kubelet holds is gone at once.
func (a *api) deletePod(id string, grace time.Duration) {
	p, ok := a.pods.get(id)
	if !ok {
		return
	}
	if p.NodeName == "" || grace <= 0 || p.Terminal {
		a.removePod(id)
		return
	}
	end := a.now().Add(grace)
	if p.Deleting != nil && !p.Deleting.After(end) {
		return
	}
	a.editPod(id, func(p *model.Pod) { p.Deleting, p.DeletingGrace = &end, grace })
}

// Budgets.

func healthy(p *model.Pod) bool { return p.Ready && p.Active() }

// counts is what a budget's controller counts: pods that are healthy, that must
// stay healthy, and that are expected.
func (a *api) counts(b *Budget) (healthyNow, desired, expected int) {
	owners := map[string]bool{}
	matched := 0
	for _, p := range a.pods.all() {
		if p.Terminal || !b.Covers(p) {
			continue
		}
		matched++
		if owner := p.Owner.Name; owner != "" && !owners[owner] {
			owners[owner] = true
			expected += a.replicas(workloadOf(p))
		}
		if p.Owner.Name == "" {
			expected++
		}
		if healthy(p) {
			healthyNow++
		}
	}
	switch {
	case b.MaxUnavailable != nil:
		desired = max(expected-share(b.MaxUnavailable, expected), 0)
	case b.MinAvailable != nil && b.MinAvailable.Type == intstr.String:
		desired = share(b.MinAvailable, expected)
	case b.MinAvailable != nil:
		desired, expected = b.MinAvailable.IntValue(), matched
	}
	return healthyNow, desired, expected
}

// recount writes the budgets' status.
func (a *api) recount(namespace string) {
	for _, b := range a.budgets.all() {
		if b.Namespace != namespace {
			continue
		}
		h, d, expected := a.counts(b)
		allowed := int32(max(h-d, 0))
		if expected == 0 {
			allowed = 0
		}
		if allowed != b.DisruptionsAllowed {
			c := *b
			c.DisruptionsAllowed = allowed
			a.putBudget(&c)
		}
	}
}

func (a *api) putBudget(b *Budget) {
	a.budgets.put(b.Namespace+"/"+b.Name, b)
	m := b.PDB
	a.watch(cluster.UpsertPDB{PDB: &m})
}

func (a *api) covering(p *model.Pod) []*Budget {
	var out []*Budget
	for _, b := range a.budgets.all() {
		if b.Covers(p) {
			out = append(out, b)
		}
	}
	return out
}

// Evict is the eviction API.
func (a *api) Evict(ctx context.Context, want *model.Pod, grace time.Duration) error {
	p, err := a.find(ctx, want)
	if err != nil {
		return err
	}
	if p.Deleting != nil {
		if grace > 0 {
			a.deletePod(p.ID(), grace)
		}
		return nil
	}
	list := a.covering(p)
	if len(list) > 1 {
		return fmt.Errorf("pod %s: %w", p.ID(), execute.ErrMultiplePDBs)
	}
	if len(list) == 1 && p.NodeName != "" {
		b := list[0]
		h, d, _ := a.counts(b)
		switch {
		case p.Ready && b.DisruptionsAllowed <= 0:
			return fmt.Errorf("pod %s: budget %s: %w", p.ID(), b.Name, execute.ErrBlocked)
		case !p.Ready && !b.AlwaysAllow && h < d:
			return fmt.Errorf("pod %s: budget %s: %w", p.ID(), b.Name, execute.ErrBlocked)
		}
	}
	a.seen.podEvicted(p, false)
	a.deletePod(p.ID(), cmp.Or(grace, p.GracePeriod))
	a.checkBudgets(p)
	return nil
}

// checkBudgets notes the budgets that are broken now that p was taken away.
func (a *api) checkBudgets(p *model.Pod) {
	if !p.Ready {
		return
	}
	for _, b := range a.covering(p) {
		if h, d, _ := a.counts(b); h < d {
			a.seen.budgetBroken(b, p)
		}
	}
}

// DeletePod deletes past the budgets.
func (a *api) DeletePod(ctx context.Context, want *model.Pod, grace time.Duration) error {
	p, err := a.find(ctx, want)
	if err != nil {
		return err
	}
	a.seen.podEvicted(p, true)
	a.deletePod(p.ID(), max(grace, time.Second))
	a.checkBudgets(p)
	return nil
}

func (a *api) find(ctx context.Context, want *model.Pod) (*model.Pod, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, ok := a.pods.get(want.ID())
	if !ok {
		return nil, fmt.Errorf("pod %s: %w", want.ID(), execute.ErrNotFound)
	}
	if p.UID != want.UID {
		return nil, fmt.Errorf("pod %s: %w", want.ID(), execute.ErrConflict)
	}
	return p, nil
}

// Claims.

// CreateClaim stores a claim with its finalizer on.
func (a *api) CreateClaim(ctx context.Context, c *model.Claim) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if _, ok := a.claims.get(c.Name); ok {
		return "", fmt.Errorf("nodeclaim %s: %w", c.Name, execute.ErrConflict)
	}
	n := *c
	n.UID, n.ResourceVersion, n.Created, n.Deleting = a.uid(), a.version(), a.now(), nil
	if !slices.Contains(n.Finalizers, model.FinalizerTermination) {
		n.Finalizers = append(slices.Clone(n.Finalizers), model.FinalizerTermination)
	}
	a.claims.put(n.Name, &n)
	a.watch(cluster.UpsertClaim{Claim: &n})
	a.seen.claimCreated(&n)
	return n.UID, nil
}

func (a *api) claim(ctx context.Context, name, uid string) (*model.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, ok := a.claims.get(name)
	if !ok {
		return nil, fmt.Errorf("nodeclaim %s: %w", name, execute.ErrNotFound)
	}
	if uid != "" && c.UID != uid {
		return nil, fmt.Errorf("nodeclaim %s: %w", name, execute.ErrConflict)
	}
	return c, nil
}

// PatchClaim changes a claim; one that is being deleted goes with its last finalizer.
func (a *api) PatchClaim(ctx context.Context, p execute.ClaimPatch) error {
	old, err := a.claim(ctx, p.Name, p.UID)
	if err != nil {
		return err
	}
	c := *old
	c.ResourceVersion = a.version()
	c.Labels = overlay(c.Labels, p.Labels, false)
	c.Annotations = overlay(c.Annotations, p.Annotations, true)
	c.Finalizers = finalizers(c.Finalizers, p.AddFinalizers, p.RemoveFinalizers)
	set := func(dst *string, v string) {
		if v != "" {
			*dst = v
		}
	}
	set(&c.ProviderID, p.ProviderID)
	set(&c.ImageID, p.ImageID)
	set(&c.NodeName, p.NodeName)
	if len(p.Capacity) > 0 {
		if c.Capacity, err = quantities(p.Capacity); err != nil {
			return fmt.Errorf("nodeclaim %s: capacity: %w: %w", p.Name, execute.ErrInvalid, err)
		}
	}
	if len(p.Allocatable) > 0 {
		if c.Allocatable, err = quantities(p.Allocatable); err != nil {
			return fmt.Errorf("nodeclaim %s: allocatable: %w: %w", p.Name, execute.ErrInvalid, err)
		}
	}
	c.Conditions = a.conditions(c.Conditions, p.Conditions, p.RemoveConditions)
	if p.LastPodEvent != nil {
		t := *p.LastPodEvent
		c.LastPodEvent = &t
	}
	if c.Deleting != nil && len(c.Finalizers) == 0 {
		a.removeClaim(old)
		return nil
	}
	a.claims.put(c.Name, &c)
	a.watch(cluster.UpsertClaim{Claim: &c})
	a.seen.claimChanged(old, &c)
	return nil
}

// conditions merges by type; the time of the last change is the server's where the caller names none.
func (a *api) conditions(have, set []model.Condition, remove []string) []model.Condition {
	out := slices.DeleteFunc(slices.Clone(have), func(c model.Condition) bool { return slices.Contains(remove, c.Type) })
	for _, n := range set {
		i := slices.IndexFunc(out, func(c model.Condition) bool { return c.Type == n.Type })
		if n.Since.IsZero() {
			n.Since = a.now()
		}
		switch {
		case i < 0:
			out = append(out, n)
		case out[i].Status == n.Status:
			n.Since = out[i].Since
			out[i] = n
		default:
			out[i] = n
		}
	}
	return out
}

func (a *api) removeClaim(c *model.Claim) {
	a.claims.del(c.Name)
	a.watch(cluster.DeleteClaim{Name: c.Name})
	a.seen.claimGone(c)
	for _, n := range a.nodes.all() { // garbage collection by owner
		if a.nodeOwner[n.Name] == c.UID {
			a.deleteNode(n)
		}
	}
}

// DeleteClaim asks for deletion.
func (a *api) DeleteClaim(ctx context.Context, name, uid string) error {
	c, err := a.claim(ctx, name, uid)
	if err != nil {
		if _, there := a.claims.get(name); !there && ctx.Err() == nil {
			return nil
		}
		return err
	}
	if c.Deleting != nil {
		return nil
	}
	if len(c.Finalizers) == 0 {
		a.removeClaim(c)
		return nil
	}
	n, now := *c, a.now()
	n.Deleting, n.ResourceVersion = &now, a.version()
	a.claims.put(n.Name, &n)
	a.watch(cluster.UpsertClaim{Claim: &n})
	a.seen.claimChanged(c, &n)
	return nil
}

// ListClaims lists all claims.
func (a *api) ListClaims(ctx context.Context) ([]*model.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return a.claims.all(), nil
}

// Nodes.

func (a *api) putNode(n *model.Node) {
	old, had := a.nodes.get(n.Name)
	a.nodes.put(n.Name, n)
	a.watch(cluster.UpsertNode{Node: n})
	if had {
		a.seen.nodeChanged(old, n)
	} else {
		a.seen.nodeCreated(n)
	}
}

func (a *api) editNode(name string, f func(*model.Node)) {
	if n, ok := a.nodes.get(name); ok {
		c := *n
		f(&c)
		a.putNode(&c)
	}
}

func (a *api) node(ctx context.Context, name, uid string) (*model.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n, ok := a.nodes.get(name)
	if !ok {
		return nil, fmt.Errorf("node %s: %w", name, execute.ErrNotFound)
	}
	if uid != "" && n.UID != uid {
		return nil, fmt.Errorf("node %s: %w", name, execute.ErrConflict)
	}
	return n, nil
}

// PatchNode changes a node; one that is being deleted goes with its last finalizer.
func (a *api) PatchNode(ctx context.Context, p execute.NodePatch) error {
	old, err := a.node(ctx, p.Name, p.UID)
	if err != nil {
		return err
	}
	n := *old
	n.Labels = overlay(n.Labels, p.Labels, false)
	n.Annotations = overlay(n.Annotations, p.Annotations, true)
	n.Finalizers = finalizers(n.Finalizers, p.AddFinalizers, p.RemoveFinalizers)
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return slices.ContainsFunc(p.RemoveTaints, t.Same) })
	for _, t := range p.AddTaints {
		if !slices.ContainsFunc(n.Taints, t.Same) {
			n.Taints = append(n.Taints, t)
		}
	}
	if p.OwnerClaim != nil {
		a.nodeOwner[n.Name] = p.OwnerClaim.UID
	}
	if n.Deleting != nil && len(n.Finalizers) == 0 {
		a.removeNode(old)
		return nil
	}
	a.putNode(&n)
	return nil
}

func (a *api) removeNode(n *model.Node) {
	a.nodes.del(n.Name)
	delete(a.nodeOwner, n.Name)
	a.watch(cluster.DeleteNode{Name: n.Name})
	a.seen.nodeGone(n)
}

// deleteNode asks for the deletion of a node; its finalizers hold it.
func (a *api) deleteNode(n *model.Node) {
	if n.Deleting != nil {
		return
	}
	if len(n.Finalizers) == 0 {
		a.removeNode(n)
		return
	}
	c, now := *n, a.now()
	c.Deleting = &now
	a.putNode(&c)
}

// DeleteNode asks for deletion; a node that is gone is fine.
func (a *api) DeleteNode(ctx context.Context, name, uid string) error {
	n, err := a.node(ctx, name, uid)
	if err != nil {
		if _, there := a.nodes.get(name); !there && ctx.Err() == nil {
			return nil
		}
		return err
	}
	a.deleteNode(n)
	return nil
}

// PatchPool writes the status, of which the planners see the annotations only.
func (a *api) PatchPool(ctx context.Context, s execute.PoolStatus) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, ok := a.pools.get(s.Name)
	if !ok {
		return fmt.Errorf("nodepool %s: %w", s.Name, execute.ErrNotFound)
	}
	next := overlay(p.Annotations, s.Annotations, true)
	if maps.Equal(next, p.Annotations) {
		return nil
	}
	c := *p
	c.Annotations = next
	a.pools.put(c.Name, &c)
	a.watch(cluster.UpsertPool{Pool: &c})
	return nil
}

// Emit hands the event on.
func (a *api) Emit(ctx context.Context, e execute.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.told(e)
	return nil
}

func overlay(have, set map[string]string, emptyRemoves bool) map[string]string {
	if len(set) == 0 {
		return have
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range set {
		if v == "" && emptyRemoves {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func finalizers(have, add, remove []string) []string {
	out := slices.DeleteFunc(slices.Clone(have), func(f string) bool { return slices.Contains(remove, f) })
	for _, f := range add {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func quantities(m map[string]string) (resource.Vector, error) {
	var v resource.Vector
	for name, text := range m {
		q, err := apiresource.ParseQuantity(text)
		if err != nil {
			return v, fmt.Errorf("%s: %q: %w", name, text, err)
		}
		v = v.With(name, convert.Amount(name, q))
	}
	return v, nil
}

// workloadOf is the name of the workload that a pod belongs to, else its own.
func workloadOf(p *model.Pod) string {
	if p.Owner.Name == "" {
		return p.ID()
	}
	return p.Namespace + "/" + strings.TrimSuffix(p.Owner.Name, replicaSetSuffix)
}

// replicaSetSuffix stands for the pod template's hash in the name of a ReplicaSet.
const replicaSetSuffix = "-rs"
