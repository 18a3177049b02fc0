package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// notices are what AWS has said about our instances and what is being done about it.
type notices struct {
	readAt time.Time
	peek   bool                // a node was cordoned by somebody else: look why
	open   map[string]*notice  // by instance/kind
	faced  **model.Node        // begin of the snapshot whose faces were looked at
	told   map[NoticeID]string // what an event source waits to be rid of, and the notice it went into
}

// notice is one of them.
type notice struct {
	model.Notice
	seen     time.Time
	ours     bool                   // its instance has a claim, or had one
	recorded bool                   // the ledger has it
	untold   *execute.AdvanceNotice // what the ledger does not know yet
	marked   bool                   // its offering is marked short
	done     bool
	cordoned time.Time
	action   interrupt.Action
	why      string
}

const (
	unknownFor  = 10 * time.Minute // instances that nobody knows are looked for that long
	foreignIn   = time.Minute      // an event source keeps such a notice for so long: by then a launch knows its instance
	noticeKeeps = 24 * time.Hour   // after its deadline
	peekEvery   = 2 * time.Second  // the ledger is read that often while somebody else's cordon is unexplained
)

// take opens a notice, or shortens the deadline of one that is open.
func (c *Controller) take(n model.Notice) *notice {
	key := n.InstanceID + "/" + string(n.Kind)
	old := c.notices.open[key]
	if old == nil {
		old = &notice{Notice: n, seen: c.now}
		c.notices.open[key] = old
		return old
	}
	sooner := n.Deadline != nil && (old.Deadline == nil || n.Deadline.Before(*old.Deadline))
	update := n.EventARN != "" && n.EventARN == old.EventARN && n.Time.After(old.Time)
	if sooner || update {
		seen, marked := old.seen, old.marked
		*old = notice{Notice: n, seen: seen, marked: marked}
	}
	return old
}

// tell takes a notice of an event source that wants to hear when it may forget it.
func (c *Controller) tell(n model.Notice) {
	c.take(n)
	c.notices.told[NoticeID{n.EventID, n.InstanceID, n.Kind}] = n.InstanceID + "/" + string(n.Kind)
}

// Settled answers, once, which notices of event sources need them no more: the ledger has them, nothing is left to be done about
// them, or their instance is nobody's. What is not answered before this process ends has to come again.
func (c *Controller) Settled() []NoticeID {
	if !c.leading || !c.m.Synced() || !c.x.Recovered() {
		return nil // whose they are was not looked for yet
	}
	var out []NoticeID
	for id, key := range c.notices.told {
		n := c.notices.open[key]
		if n == nil || n.recorded || n.done && n.untold == nil || !n.ours && c.now.Sub(n.seen) >= foreignIn {
			out = append(out, id)
			delete(c.notices.told, id)
		}
	}
	slices.SortFunc(out, func(a, b NoticeID) int {
		return cmp.Or(cmp.Compare(a.EventID, b.EventID), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// readNotices takes in what the Lambda has stored.
func (c *Controller) readNotices(stored execute.Noticed) {
	for _, s := range stored.Ours {
		if s.State != ledger.NoticeDone {
			c.take(s.Model()).recorded = true
		}
	}
	for _, s := range stored.Unowned {
		// Only of instances that turned out to be ours; it is recorded under our name then.
		if s.State != ledger.NoticeDone && c.m.ClaimByInstance(s.Instance) != nil {
			c.take(s.Model())
		}
	}
}

// stepNotices goes on with all open notices. It is level-triggered: each step looks
// what is still missing on claim and node.
func (c *Controller) stepNotices() {
	ns := &c.notices
	every := c.set.NoticesEvery
	if ns.peek {
		every = min(every, peekEvery)
	}
	if at := ns.readAt.Add(every); ns.readAt.IsZero() || !c.now.Before(at) {
		if c.x.Do("notices", execute.ReadNotices{Cluster: c.cfg.Cluster}, c.now) {
			ns.readAt, ns.peek = c.now, false
		}
		c.wake(c.now.Add(c.set.NoticesEvery))
	} else {
		c.wake(at)
	}
	c.readFaces()
	for _, key := range slices.Sorted(maps.Keys(ns.open)) {
		n := ns.open[key]
		end := n.seen
		if n.Deadline != nil && n.Deadline.After(end) {
			end = *n.Deadline
		}
		if c.now.Sub(end) > noticeKeeps {
			delete(ns.open, key)
			continue
		}
		if !n.done {
			c.stepNotice(n)
		}
		if n.done {
			c.write(n)
		}
	}
}

// readFaces opens the notices that claims show and nobody told of: the Lambda writes them there before anything else, so that
// they are known at once, and also where no ledger is shared. What is being deleted already needs no notice any more.
func (c *Controller) readFaces() {
	nodes := c.m.World(c.now).Nodes
	if len(nodes) == 0 || &nodes[0] == c.notices.faced {
		return // no node or claim has changed since
	}
	c.notices.faced = &nodes[0]
	for _, n := range nodes {
		if !n.Managed() || n.Claim.Deleting != nil || n.Claim.ProviderID == "" {
			continue
		}
		f, ok, err := interrupt.ReadFace(n.Claim.Annotations)
		id := model.InstanceID(n.Claim.ProviderID)
		if !ok || err != nil || c.notices.open[id+"/"+string(f.Kind)] != nil {
			continue
		}
		notice := model.Notice{EventID: f.EventID, Kind: f.Kind, InstanceID: id, Account: c.cfg.Account, Region: c.cfg.Region, Time: c.now}
		if !f.Deadline.IsZero() {
			notice.Deadline = &f.Deadline
		}
		c.take(notice)
	}
}

// onlyCordoned says whether a claim shows that its node gets no new pods for a while and keeps those that it has.
func onlyCordoned(c *model.Claim) bool {
	f, ok, err := interrupt.ReadFace(c.Annotations)
	return ok && err == nil && f.Action == interrupt.Cordon && c.Deleting == nil
}

// acting lists the notices under which nodes lose their pods.
func (ns *notices) acting() []model.Notice {
	var out []model.Notice
	for _, key := range slices.Sorted(maps.Keys(ns.open)) {
		switch n := ns.open[key]; n.action {
		case interrupt.Drain, interrupt.ReplaceThenDrain, interrupt.Remove:
			out = append(out, n.Notice)
		}
	}
	return out
}

// pressing says whether an instance is about to be taken: its pods are planned for
// without waiting for a batch.
func (ns *notices) pressing() bool {
	for _, n := range ns.open {
		if !n.done && n.action.Acts() {
			return true
		}
	}
	return false
}

// write has the ledger know a notice of ours, which must survive this process, and then
// what was done about it. The results say whether it does; until then it is tried again.
func (c *Controller) write(n *notice) {
	key := "notice/" + n.InstanceID + "/" + string(n.Kind)
	switch {
	case n.ours && !n.recorded:
		c.x.Do(key, execute.RecordNotice{Cluster: c.cfg.Cluster, Notice: n.Notice}, c.now)
	case n.untold != nil:
		c.x.Do(key+"/done", *n.untold, c.now)
	}
}

func (c *Controller) stepNotice(n *notice) {
	claim := c.m.ClaimByInstance(n.InstanceID)
	n.ours = n.ours || claim != nil
	c.write(n)
	if claim == nil {
		if c.now.Sub(n.seen) >= unknownFor {
			n.done = true // not ours, or gone since
			return
		}
		c.wake(c.now.Add(time.Second))
		return
	}
	rebalance := ""
	if p := c.m.Pool(claim.Pool); p != nil {
		rebalance = p.Annotations[model.AnnotationRebalance]
	}
	if (n.Kind == model.NoticeStopped || n.Kind == model.NoticeTerminated) && c.x.Ending(claim.Name) {
		n.done = true // the end that we asked for ourselves
		if n.Kind == model.NoticeTerminated {
			c.x.Ended(claim.Name, c.now)
		}
		return
	}
	action, why := interrupt.React(n.Notice, rebalance)
	n.action, n.why = action, why
	if (n.Kind == model.NoticeSpot || n.Kind == model.NoticeReservation) && !n.marked {
		n.marked = true
		if off := offeringOf(claim); off != "" {
			c.x.Short([]execute.Shortage{{Offering: off, Message: "spot interruption", Interruption: true}}, c.now)
		}
	}
	switch action {
	case interrupt.Cordon:
		c.cordon(n, claim)
	case interrupt.ReplaceThenDrain:
		c.replaceThenDrain(n, claim)
	case interrupt.Drain, interrupt.Remove:
		c.drainFor(n, claim)
	default:
		c.finish(n, claim)
	}
}

func offeringOf(c *model.Claim) string {
	t, z, ct := c.Labels[model.LabelInstanceType], c.Labels[model.LabelZone], c.Labels[model.LabelCapacityType]
	if t == "" || z == "" || ct == "" {
		return ""
	}
	return t + "/" + z + "/" + ct
}

// finish ends a notice; nodes and claims hear what was done.
func (c *Controller) finish(n *notice, claim *model.Claim) {
	n.done = true
	message := fmt.Sprintf("%s (%s%s)", n.why, n.action, deadlineText(n.Deadline))
	c.x.Event(model.Event{Object: model.ObjectRef{Kind: "NodeClaim", Name: claim.Name, UID: claim.UID}, Warning: true, Reason: reasonOf(n.Kind), Message: message}, c.now)
	for _, node := range c.m.NodeObjects(claim.ProviderID) {
		c.x.Event(model.Event{Object: model.ObjectRef{Kind: "Node", Name: node.Name, UID: node.UID}, Warning: true, Reason: reasonOf(n.Kind), Message: message}, c.now)
	}
	c.Stats.Notices[string(n.Kind)+"/"+string(n.action)]++
	n.untold = &execute.AdvanceNotice{Cluster: c.cfg.Cluster, Instance: n.InstanceID, NoticeKind: n.Kind, State: ledger.NoticeDone, Action: string(n.action)}
}

func deadlineText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return ", the instance goes at " + t.UTC().Format(time.RFC3339)
}

func reasonOf(k model.NoticeKind) string {
	switch k {
	case model.NoticeSpot:
		return "SpotInterrupted"
	case model.NoticeRebalance:
		return "SpotRebalanceRecommendation"
	case model.NoticeScheduled:
		return "InstanceScheduledChange"
	case model.NoticeStopped:
		return "InstanceStopping"
	case model.NoticeTerminated:
		return "InstanceTerminated"
	case model.NoticeReservation:
		return "CapacityReservationInterrupted"
	case model.NoticeLifecycle:
		return "InstanceLifecycleEnding"
	}
	return "InstanceUnhealthy"
}

// cordonNode taints the nodes of a claim; true where they are all tainted.
func (c *Controller) cordonNode(claim *model.Claim) bool {
	all := true
	for _, n := range c.m.NodeObjects(claim.ProviderID) {
		if p := drain.Cordon(n); p != nil && !slices.ContainsFunc(n.Taints, drain.Taint.Same) {
			all = false
			c.x.Do("node/"+n.Name, execute.PatchNode{Patch: *p}, c.now)
		}
	}
	return all
}

// annotate writes the notice's face to the claim, joined with what it shows already:
// the stronger action and the earliest deadline stand. It answers true where the
// claim shows enough.
func (c *Controller) annotate(n *notice, claim *model.Claim) bool {
	face := interrupt.FaceOf(n.Notice, n.action)
	if have, ok, err := interrupt.ReadFace(claim.Annotations); ok && err == nil {
		merged, changed := have.Merge(face)
		if !changed {
			return true
		}
		face = merged
	}
	c.x.Do("claim/"+claim.Name, execute.PatchClaim{Patch: model.ClaimPatch{Name: claim.Name, UID: claim.UID,
		Annotations: map[string]string{model.AnnotationInterruption: face.Text()}}}, c.now)
	c.wake(c.now.Add(time.Second))
	return false
}

// drainFor cordons, writes the face and deletes the claim; the executor drains by
// the deadline and the pods get their new places at once.
func (c *Controller) drainFor(n *notice, claim *model.Claim) {
	c.cordonNode(claim)
	if !c.annotate(n, claim) {
		return
	}
	if claim.Deleting == nil {
		c.x.Do("claim/"+claim.Name+"/delete", execute.DeleteClaim{Name: claim.Name, UID: claim.UID, Reason: "interrupted_" + string(n.Kind)}, c.now)
		c.wake(c.now.Add(time.Second))
		return
	}
	c.finish(n, claim)
}

// cordon keeps new pods off a node for half an hour.
func (c *Controller) cordon(n *notice, claim *model.Claim) {
	if n.cordoned.IsZero() {
		n.cordoned = c.now
	}
	end := n.cordoned.Add(interrupt.CordonFor)
	if c.now.Before(end) {
		c.cordonNode(claim)
		c.annotate(n, claim)
		c.wake(end)
		return
	}
	c.unmark(claim)
	c.finish(n, claim)
}

// unmark takes the face off again; the executor then takes the stray cordon away.
func (c *Controller) unmark(claim *model.Claim) {
	c.x.Do("claim/"+claim.Name, execute.PatchClaim{Patch: model.ClaimPatch{Name: claim.Name, UID: claim.UID,
		Annotations: map[string]string{model.AnnotationInterruption: ""}}}, c.now)
}

// replaceThenDrain cordons, lets the pods' new machines come up, and drains then.
func (c *Controller) replaceThenDrain(n *notice, claim *model.Claim) {
	if n.cordoned.IsZero() {
		n.cordoned = c.now
	}
	tainted := c.cordonNode(claim)
	annotated := c.annotate(n, claim)
	late := c.now.Sub(n.cordoned) >= execute.ReplaceWithin
	planned := c.batch.planned.After(n.cordoned) && !c.batch.planning
	if !late && (!tainted || !annotated || !planned || c.x.ComingUp()) {
		c.wake(c.now.Add(time.Second))
		return
	}
	if claim.Deleting == nil {
		c.x.Do("claim/"+claim.Name+"/delete", execute.DeleteClaim{Name: claim.Name, UID: claim.UID, Reason: "interrupted_" + string(n.Kind)}, c.now)
		c.wake(c.now.Add(time.Second))
		return
	}
	c.finish(n, claim)
}

// sameNotice says whether a record of one is a record of the other.
func sameNotice(a, b model.Notice) bool {
	if (a.Deadline == nil) != (b.Deadline == nil) || a.Deadline != nil && !a.Deadline.Equal(*b.Deadline) {
		return false
	}
	return a.EventID == b.EventID && a.State == b.State
}
