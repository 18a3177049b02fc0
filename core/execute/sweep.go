package execute

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// stepSweep starts a garbage collection when it is time.
func (x *Executor) stepSweep() {
	if unseen := x.m.Unseen(x.now, UnseenAfter); len(unseen) > 0 && x.now.Sub(x.sweptAt) >= UnseenAfter {
		x.sweepNow = true
	}
	at := x.sweptAt.Add(x.cfg.Sweep)
	if !x.youngAt.IsZero() && x.youngAt.Before(at) {
		at = x.youngAt // an instance without a claim becomes old enough to be looked at
	}
	if !x.sweepNow && x.now.Before(at) {
		x.wake(at)
		return
	}
	if x.do("sweep", Sweep{Cluster: x.cfg.Cluster}) {
		x.sweepNow, x.sweptAt, x.youngAt = false, x.now, time.Time{}
	}
}

// swept compares what runs with what should. Instances without a claim are adopted
// or ended; claims without an instance are deleted.
func (x *Executor) swept(s Swept) {
	x.list(s.Instances, s.Claims, x.sweptAt)
	x.forget(s)
	byPID := map[string]bool{}
	exists := map[string]bool{}
	for _, c := range s.Claims {
		exists[c.Name] = true
		if c.ProviderID != "" {
			byPID[c.ProviderID] = true
		}
	}
	for _, name := range x.m.Unseen(x.now, UnseenAfter) {
		if !exists[name] {
			x.m.Forget(name) // made and deleted before any watch showed it
		}
	}
	open := map[string]bool{}
	for _, l := range x.launches {
		open[l.id] = true
	}
	for _, l := range s.Launches {
		open[l.ID] = true
	}
	states := map[string]ledger.ClaimState{}
	for _, st := range s.States {
		if old, ok := states[st.InstanceID]; !ok || old.Updated.Before(st.Updated) {
			states[st.InstanceID] = st
		}
	}
	fleet, alive := 0, map[string]bool{}
	for _, i := range s.Instances {
		if !i.Gone() {
			fleet++
		}
		alive[i.ProviderID()] = i.State != "terminated"
	}
	for _, i := range s.Instances {
		if i.Gone() || byPID[i.ProviderID()] || open[i.Tags[TagLaunch]] || i.Tags[TagCluster] != x.cfg.Cluster || i.Tags[TagPool] == "" && i.Tags[TagLaunch] == "" {
			continue
		}
		if at := i.Launched.Add(OrphanAge); x.now.Before(at) {
			if x.youngAt.IsZero() || at.Before(x.youngAt) {
				x.youngAt = at
			}
			continue
		}
		x.orphan(i, states[i.ID], s, fleet)
	}
	x.leftNodes(alive)
	for _, c := range s.Claims {
		if c.ProviderID == "" || alive[c.ProviderID] || c.Deleting != nil || !c.Is(model.CondRegistered) || !ourKind(c) {
			continue
		}
		ready := false
		for _, n := range x.m.NodeObjects(c.ProviderID) {
			ready = ready || n.Ready
		}
		if ready || !x.mayEnd(fleet+1, "claim "+c.Name) {
			continue
		}
		x.Counters.Collected++
		x.claimEvent(c, true, "GarbageCollected", "Deleting the NodeClaim: its instance %s is gone", model.InstanceID(c.ProviderID))
		x.trackOf(c.Name).reason = "garbage_collected"
		x.deleteClaim(c.Name, c.UID, "garbage_collected")
	}
}

// leftNodes lets Node objects go that are being deleted while neither a claim nor an
// instance stands behind them any more: only our finalizer holds them, and nobody else
// would take it off. As in v1 a Ready node is not let go.
func (x *Executor) leftNodes(alive map[string]bool) {
	for _, name := range x.m.NodeNames() {
		n := x.m.NodeObject(name)
		if n.Deleting == nil || n.Ready || x.now.Sub(*n.Deleting) < OrphanAge || alive[n.ProviderID] || n.Labels[model.LabelNodeClass] == "" ||
			!slices.Contains(n.Finalizers, model.FinalizerTermination) || x.m.ClaimByProviderID(n.ProviderID) != nil {
			continue
		}
		if x.do("node/"+name, PatchNode{Patch: NodePatch{Name: name, UID: n.UID, RemoveFinalizers: []string{model.FinalizerTermination}}}) {
			x.event(Event{Object: claim.NodeRef(n), Reason: "Finalized", Message: "Finalized " + model.FinalizerTermination + ": its NodeClaim and its instance are gone"})
		}
	}
}

// orphan deals with an instance of ours that no claim stands for.
func (x *Executor) orphan(i cloud.Instance, st ledger.ClaimState, s Swept, fleet int) {
	nodes := x.m.NodeObjects(i.ProviderID())
	ready := false
	for _, n := range nodes {
		ready = ready || n.Ready
	}
	finished := st.State == string(claim.Gone) || st.State == string(claim.Draining) || st.State == string(claim.Terminating)
	if ready || len(nodes) > 0 && !finished {
		x.adopt(i, st, nodes)
		return
	}
	if s.LedgerErr != nil && len(nodes) > 0 {
		return // joined, and whether it was finished cannot be read now
	}
	if !x.mayEnd(fleet, "instance "+i.ID) {
		return
	}
	if x.do("instance/"+i.ID, Terminate{IDs: []string{i.ID}, Reason: "no claim stands for it"}) {
		x.Counters.Collected++
	}
	for _, n := range nodes {
		x.do("node/"+n.Name+"/delete", DeleteNode{Name: n.Name, UID: n.UID})
	}
}

// mayEnd is the brake: more than max(3, 5%) of the fleet in ten minutes is a mistake
// of ours, or a view of the cluster that is wrong, rather than garbage.
func (x *Executor) mayEnd(fleet int, what string) bool {
	if x.GCStopped != "" {
		return false
	}
	b := x.cfg.Brake
	x.ended = slices.DeleteFunc(x.ended, func(at time.Time) bool { return x.now.Sub(at) >= b.Window })
	if allowed := max(b.Nodes, int(b.Share*float64(fleet))); len(x.ended) >= allowed {
		x.GCSince = x.now
		x.GCStopped = fmt.Sprintf("garbage collection wanted to end %s, the %dth in %s of a fleet of %d; it stands still until annotation weir.dev/release-garbage-collection is set on a NodePool",
			what, len(x.ended)+1, b.Window, fleet)
		for _, p := range x.m.World(x.now).Pools {
			x.event(Event{Object: poolRef(p), Warning: true, Reason: "GarbageCollectionStopped", Message: x.GCStopped})
		}
		return false
	}
	x.ended = append(x.ended, x.now)
	return true
}

// AnnotationRelease on a NodePool lets a stopped garbage collection go on; its value
// is an instant (RFC 3339) after the stop.
const AnnotationRelease = "weir.dev/release-garbage-collection"

// ReleaseGC lets garbage collection go on after a person looked.
func (x *Executor) ReleaseGC() { x.GCStopped, x.ended = "", nil }

// adopt makes a claim for an instance that serves pods although its claim is gone,
// from its tags, the ledger and its node.
func (x *Executor) adopt(i cloud.Instance, st ledger.ClaimState, nodes []*model.Node) {
	pool := x.m.Pool(i.Tags[TagPool])
	if pool == nil {
		x.event(Event{Object: claim.NodeRef(nodes[0]), Warning: true, Reason: "AdoptionFailed",
			Message: fmt.Sprintf("instance %s has no NodeClaim, and NodePool %q of its tags does not exist", i.ID, i.Tags[TagPool])})
		return
	}
	name := cmp.Or(st.Name, i.Tags[TagClaim], pool.Name+"-"+hash(i.ID)[:8])
	if x.launchOf[name] != nil {
		return
	}
	if x.m.Claim(name) != nil {
		name = pool.Name + "-" + hash(i.ID)[:8]
		if x.m.Claim(name) != nil || x.launchOf[name] != nil {
			return
		}
	}
	labels := map[string]string{}
	maps.Copy(labels, pool.Labels)
	labels[model.LabelPool], labels[model.LabelNodeClass] = pool.Name, cmp.Or(i.Tags[TagClass], pool.NodeClass.Name)
	ref := pool.NodeClass
	ref.Name = labels[model.LabelNodeClass]
	c := &model.Claim{
		Name: name, Pool: pool.Name, PoolUID: pool.UID, NodeClass: ref, Labels: labels,
		Annotations: map[string]string{}, Finalizers: []string{model.FinalizerTermination},
		Taints: pool.Taints, ExpireAfter: pool.ExpireAfter, TerminationGP: pool.TerminationGP, Created: x.now,
		Requirements: require.NewSet(
			require.Must(model.LabelInstanceType, "In", i.Type), require.Must(model.LabelZone, "In", i.Zone),
			require.Must(model.LabelCapacityType, "In", i.CapacityType), require.Must(model.LabelPool, "In", pool.Name)),
	}
	for k, v := range pool.NodeAnnotations {
		c.Annotations[k] = v
	}
	for _, k := range stampKeys {
		if v := nodes[0].Annotations[k]; v != "" {
			c.Annotations[k] = v
		}
	}
	id := cmp.Or(i.Tags[TagLaunch], x.id(name))
	c.Annotations[model.AnnotationLaunch] = id + "/adopted"
	l := &launch{id: "adopt-" + i.ID, pool: pool.Name, class: ref, capacity: i.CapacityType, attempt: 1, state: adopting, opened: x.now, sent: true, degraded: true,
		claims: []*coming{{claim: c, marked: true, instance: &i, offering: x.m.Offering(ref.Name, key(i))}}}
	x.launches = append(x.launches, l)
	x.launchOf[name] = l
	if l.claims[0].offering != nil {
		x.m.Assume(c, l.claims[0].offering)
	}
	x.Counters.Adopted++
	x.event(Event{Object: claim.NodeRef(nodes[0]), Reason: "Adopted", Message: fmt.Sprintf("Instance %s had no NodeClaim; made %s for it", i.ID, name)})
	x.stepLaunch(l)
}
