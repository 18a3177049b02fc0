package execute

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// track is what the executor remembers of a claim that has an object.
type track struct {
	name, uid string
	at        time.Time // look again then; zero = only when something changes
	phase     claim.Phase
	ending    claim.Ending
	drains    map[string]*drain.State // by node name
	reason    string                  // why it ends
	freeing   time.Time               // since when volumes of its machine, which is gone, are waited for
	told      time.Time               // when its blockers were last written
	strayed   time.Time               // since when its node carries a cordon that nobody of us wants

	awaitsLedger bool
}

func (t *track) due(at time.Time) {
	if t.at.IsZero() || at.Before(t.at) {
		t.at = at
	}
}

func (x *Executor) trackOf(name string) *track {
	t := x.tracks[name]
	if t == nil {
		t = &track{name: name}
		x.tracks[name] = t
	}
	return t
}

// recheck looks at a claim again after a while, although nothing was seen to change.
func (x *Executor) recheck(name string, in time.Duration) {
	if t := x.tracks[name]; t != nil {
		t.due(x.now.Add(in))
	}
}

func (x *Executor) recheckNode(name string) {
	if n := x.m.NodeObject(name); n != nil && n.ProviderID != "" {
		if c := x.m.ClaimByProviderID(n.ProviderID); c != nil {
			x.recheck(c.Name, Recheck)
		}
	}
}

// stepClaims looks at the claims that changed or whose time has come.
func (x *Executor) stepClaims() {
	x.stepGates()
	for _, name := range x.m.TakeTouched() {
		if x.m.Seen(name) {
			x.trackOf(name).due(x.now)
		} else if t := x.tracks[name]; t != nil {
			x.goneClaim(t)
		}
	}
	var due []string
	for name, t := range x.tracks {
		switch {
		case t.at.IsZero():
		case t.at.After(x.now):
			x.wake(t.at)
		default:
			due = append(due, name)
		}
	}
	slices.Sort(due)
	for _, name := range due {
		t := x.tracks[name]
		t.at = time.Time{}
		x.look(t)
		if !t.at.IsZero() {
			x.wake(t.at)
		}
	}
}

// goneClaim ends the memory of a claim whose object has vanished.
func (x *Executor) goneClaim(t *track) {
	delete(x.tracks, t.name)
	x.untag(x.reclaim[t.uid].InstanceID)
	for id, name := range x.describe {
		if name == t.name {
			delete(x.describe, id)
		}
	}
	if t.uid == "" {
		return
	}
	if t.phase != "" {
		st := x.stateOf(t, nil, claim.Gone)
		x.remember(ledger.ClaimKey(x.cfg.Cluster, t.uid), st, ledger.Meta{Instance: st.InstanceID, Expires: x.now.Add(ledger.ClaimTTL)})
	}
	delete(x.reclaim, t.uid)
}

// look takes the next steps of one claim.
func (x *Executor) look(t *track) {
	c := x.m.Claim(t.name)
	if c == nil || !x.m.Seen(t.name) || !ourKind(c) {
		return
	}
	if t.uid != c.UID {
		*t = track{name: t.name, uid: c.UID}
	}
	if c.ProviderID == "" && c.Deleting == nil && x.launchOf[t.name] == nil {
		x.launchSpec(c)
		x.wake(x.now)
	}
	nodes := []*model.Node(nil)
	if c.ProviderID != "" {
		nodes = x.m.NodeObjects(c.ProviderID)
	}
	o := claim.Observed{Claim: c, Nodes: nodes, Pool: x.m.Pool(c.Pool), Class: x.m.NodeClass(c.NodeClass.Name), Ending: t.ending}
	o.Machine = x.machineOf(c)
	o.Ending.LaunchOpen = x.launchOpen(t.name)
	if f, ok, err := interrupt.ReadFace(c.Annotations); ok && err == nil && f.Action == interrupt.Remove {
		o.Ending.NoDrain = true
		o.Ending.InstanceGone = o.Ending.InstanceGone || f.Kind == model.NoticeTerminated
	}
	for _, n := range nodes {
		if at := x.m.PodEvent(n.Name); at.After(o.PodEvent) {
			o.PodEvent = at
		}
	}
	if at, ok, err := claim.Deadline(c); err == nil && ok {
		o.Ending.Expired = x.now.After(at)
	}
	if c.Deleting != nil && !t.ending.Drained && t.ending.Waiting == "" && t.told.IsZero() {
		o.Ending.Waiting = c.Condition(model.CondDrained).Message // of the leader before, until it is known anew
	}
	if c.Deleting != nil {
		o.Ending.Left = x.leftVolumes(t, nodes)
	}
	if c.Deleting != nil && t.ending.Drained {
		x.volumes(t, c, nodes, &o.Ending)
	}
	r := claim.Step(o, x.now)
	if c.Deleting == nil {
		x.uncordon(t, c, nodes, &r)
		x.stamp(c, o, &r)
		x.tag(c, &r.Claim)
		x.placed(c, o.Machine, nodes, &r.Claim)
	}
	x.apply(t, c, nodes, r)
}

func (x *Executor) launchOpen(name string) bool {
	l := x.launchOf[name]
	if l == nil {
		return false
	}
	for _, c := range l.claims {
		if c.claim.Name == name {
			return c.dropped == "" && !c.patched
		}
	}
	return false
}

// apply turns a step of a claim into effects.
func (x *Executor) apply(t *track, c *model.Claim, nodes []*model.Node, r claim.Result) {
	if !r.Next.IsZero() {
		t.due(r.Next)
	}
	for _, ev := range r.Events {
		x.event(ev)
	}
	x.phase(t, c, nodes, r.Phase)
	if r.Claim != nil && !x.do("claim/"+c.Name, PatchClaim{Patch: *r.Claim}) {
		x.retryAt(t, "claim/"+c.Name)
	}
	if r.Node != nil && !x.do("node/"+r.Node.Name, PatchNode{Patch: *r.Node}) {
		x.retryAt(t, "node/"+r.Node.Name)
	}
	for _, n := range r.DeleteNodes {
		x.do("node/"+n.Name+"/delete", DeleteNode{Name: n.Name, UID: n.UID})
		t.due(x.now.Add(Recheck))
	}
	if r.Delete != "" {
		x.claimEvent(c, false, "DisruptionTerminating", "Disrupting NodeClaim: %s", r.Delete)
		if t.reason != r.Delete && (r.Delete == claim.ReasonLaunchTimeout || r.Delete == claim.ReasonRegistrationTimeout) {
			x.outcome(c.Pool, false)
		}
		t.reason = r.Delete
		x.deleteClaim(c.Name, c.UID, r.Delete)
		t.due(x.now.Add(Recheck))
	}
	if r.Drain {
		x.drain(t, c, nodes)
	}
	if r.Terminate {
		x.terminate(t, c)
	}
	if r.Poll {
		x.describe[model.InstanceID(c.ProviderID)] = c.Name
	}
}

// retryAt looks again when an effect that could not be emitted may be tried.
func (x *Executor) retryAt(t *track, key string) {
	if r, ok := x.retry[key]; ok && r.at.After(x.now) { // a try that is under way answers by itself
		t.due(r.at)
	}
}

func (x *Executor) deleteClaim(name, uid, reason string) {
	if x.do("claim/"+name+"/delete", DeleteClaim{Name: name, UID: uid, Reason: reason}) {
		x.Counters.Disrupted[reason]++
	}
}

// phase writes a change of phase to the ledger.
func (x *Executor) phase(t *track, c *model.Claim, nodes []*model.Node, p claim.Phase) {
	if p == t.phase || p == "" {
		return
	}
	first := t.phase == ""
	if p == claim.Registered && !first {
		x.outcome(c.Pool, true)
	}
	t.phase = p
	if first {
		if old, ok := x.reclaim[c.UID]; ok && old.State == string(p) {
			return // written by the leader before
		}
	}
	if p == claim.Planned || p == claim.Gone {
		return // the launch record, and the object's end, say so
	}
	st := x.stateOf(t, c, p)
	x.remember(ledger.ClaimKey(x.cfg.Cluster, c.UID), st, ledger.Meta{Instance: st.InstanceID})
	x.reclaim[c.UID] = st
	if p == claim.Registered && len(nodes) == 1 {
		x.remember(ledger.InstanceKey(x.cfg.Account, x.cfg.Region, st.InstanceID), x.owner(c, nodes[0].Name, st.Offering), ledger.Meta{Instance: st.InstanceID})
	}
}

// outcomesKept is how many launches of a pool its health is judged by.
const outcomesKept = 4

func (x *Executor) outcome(pool string, registered bool) {
	list := append(x.outcomes[pool], registered)
	x.outcomes[pool] = list[max(0, len(list)-outcomesKept):]
}

// RegistrationHealthy says whether the machines of a pool join: known is false
// before the first has, or has failed to; two failures among the last four launches
// make it false.
func (x *Executor) RegistrationHealthy(pool string) (healthy, known bool) {
	failed := 0
	for _, ok := range x.outcomes[pool] {
		if !ok {
			failed++
		}
	}
	return 2*failed < outcomesKept, len(x.outcomes[pool]) > 0
}

func (x *Executor) stateOf(t *track, c *model.Claim, p claim.Phase) ledger.ClaimState {
	st := x.reclaim[t.uid]
	st.Name, st.UID, st.State, st.Updated = t.name, t.uid, string(p), x.now
	if t.reason != "" {
		st.Reason = t.reason
	}
	if c == nil {
		return st
	}
	st.Pool = c.Pool
	if c.ProviderID != "" {
		st.InstanceID = model.InstanceID(c.ProviderID)
	}
	if c.NodeName != "" {
		st.NodeName = c.NodeName
	}
	if st.Offering == "" && c.Labels[model.LabelInstanceType] != "" {
		st.Offering = c.Labels[model.LabelInstanceType] + "/" + c.Labels[model.LabelZone] + "/" + c.Labels[model.LabelCapacityType]
	}
	if off := x.m.Offering(c.NodeClass.Name, st.Offering); off != nil && st.USDPerHour == 0 {
		st.USDPerHour = off.USDPerHour
	}
	return st
}

// strayAfter is how long a cordon that nobody of us wants stays: the Lambda sets it
// first and says why a moment later.
const strayAfter = 30 * time.Second

// uncordon takes a cordon away that a leader left behind when it died: one on a node
// whose claim is neither being deleted nor about to be interrupted.
func (x *Executor) uncordon(t *track, c *model.Claim, nodes []*model.Node, r *claim.Result) {
	stray := false
	for _, n := range nodes {
		stray = stray || slices.ContainsFunc(n.Taints, drain.Taint.Same)
	}
	if !stray || c.Annotations[model.AnnotationInterruption] != "" || x.commanded(c.Name) || r.Delete != "" {
		t.strayed = time.Time{}
		return
	}
	if t.strayed.IsZero() {
		t.strayed = x.now
	}
	if at := t.strayed.Add(strayAfter); x.now.Before(at) || x.LedgerDown {
		t.due(later(at, x.now.Add(Recheck)))
		return
	}
	for _, n := range nodes {
		p := NodePatch{Name: n.Name, UID: n.UID, RemoveTaints: []model.Taint{drain.Taint}}
		if n.Labels[model.LabelExcludeLB] == drain.LBValue {
			p.Labels = map[string]string{model.LabelExcludeLB: ""}
		}
		x.do("node/"+n.Name, PatchNode{Patch: p})
	}
	if c.Condition(model.CondDisruptionReason).Status == "True" {
		patch := model.ClaimPatch{Name: c.Name, UID: c.UID}
		if r.Claim != nil {
			patch = *r.Claim
		}
		patch.RemoveConditions = append(patch.RemoveConditions, model.CondDisruptionReason)
		r.Claim = &patch
	}
}

// drain takes drain steps on the nodes of a claim.
func (x *Executor) drain(t *track, c *model.Claim, nodes []*model.Node) {
	if !x.remembered(ledger.ClaimKey(x.cfg.Cluster, c.UID)) {
		t.awaitsLedger = true // intent before act; the answer of the write brings us back
		return
	}
	t.awaitsLedger = false
	if t.drains == nil {
		t.drains = map[string]*drain.State{}
	}
	done := true
	for _, n := range nodes {
		s := t.drains[n.Name]
		if s == nil {
			s = &drain.State{}
			x.blockedBefore(c, s)
			t.drains[n.Name] = s
		}
		s.Deadline, s.Interruption = nil, nil
		if at, ok, err := claim.Deadline(c); err == nil && ok {
			s.Deadline = &at
		}
		if f, ok, err := interrupt.ReadFace(c.Annotations); ok && err == nil {
			if !f.Deadline.IsZero() {
				s.Interruption = &f.Deadline
			}
			s.Hold = x.holds
		}
		s.Gate = x.admits(t.name, s.Interruption != nil)
		r := drain.Step(s, n, x.m.PodsOn(n.Name), x.m.PDBs(), x.now)
		x.drainStep(t, c, n, s, r)
		done = done && r.Done
		if !n.Ready {
			x.describe[model.InstanceID(c.ProviderID)] = c.Name // it may be gone already
		}
	}
	if done {
		t.ending.Drained = true
		t.due(x.now)
		x.look(t)
	}
}

func (x *Executor) drainStep(t *track, c *model.Claim, n *model.Node, s *drain.State, r drain.Result) {
	if r.Node != nil {
		x.do("node/"+n.Name, PatchNode{Patch: *r.Node})
	}
	for _, e := range r.Evict {
		switch {
		case x.do("pod/"+e.Pod.UID, Evict{Pod: e.Pod, Grace: e.Grace, Claim: c.Name}):
		case e.Pod.Deleting == nil:
			x.notAsked(e.Pod)
		default: // its eviction is not answered yet
			s.Unasked(e.Pod, x.now)
		}
	}
	for _, d := range r.Delete {
		if !x.do("pod/"+d.Pod.UID, DeletePod{Pod: d.Pod, Grace: d.Grace, Claim: c.Name}) {
			s.Unasked(d.Pod, x.now)
		}
	}
	x.blockers(t, c, n, r.Blockers)
	if !r.Next.IsZero() {
		t.due(r.Next)
	}
}

// holds says whether a pod should wait for its successor's machine: it is the only
// ready one of its workload.
func (x *Executor) holds(p *model.Pod) bool { return x.m.OnlyReady(p) && x.ComingUp() }

// ComingUp says whether machines are on their way that pods may be waiting for.
func (x *Executor) ComingUp() bool {
	for name := range x.tracks {
		if c := x.m.Claim(name); c != nil && c.Deleting == nil && !c.Is(model.CondInitialized) {
			return true
		}
	}
	return len(x.launches) > 0
}

// evicted takes in what the eviction of a pod was answered. grace is what it was given, 0 = its own.
func (x *Executor) evicted(p *model.Pod, name string, r Result, grace time.Duration) {
	o := outcomeOfPod(r.Err)
	if p.Deleting == nil {
		x.Counters.Evicted[string(o)]++
		x.gateAnswered(p, o)
	}
	reason, ok := x.left(p, name, o)
	switch {
	case !ok:
	case p.Deleting != nil:
		x.event(Event{Object: podRef(p), Reason: "Disrupted", Message: fmt.Sprintf("Cut the grace period of the pod to %s, for its machine is taken then: %s", grace, reason)})
	case grace > 0:
		x.event(Event{Object: podRef(p), Reason: "Evicted", Message: fmt.Sprintf("Evicted pod: %s, with a grace period of %s instead of %s, for its machine is taken then", reason, grace, p.GracePeriod)})
	default:
		x.event(Event{Object: podRef(p), Reason: "Evicted", Message: "Evicted pod: " + reason})
	}
}

func (x *Executor) deletedPod(d DeletePod, r Result) {
	o := outcomeOfPod(r.Err)
	x.Counters.Evicted[string(o)]++
	x.gateAnswered(d.Pod, o)
	if reason, ok := x.left(d.Pod, d.Claim, o); ok {
		x.event(Event{Object: podRef(d.Pod), Reason: "Disrupted", Message: "Deleted the pod to accommodate the terminationTime of the node: " + reason})
	}
}

func outcomeOfPod(err error) drain.Outcome {
	switch {
	case err == nil:
		return drain.Accepted
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict):
		return drain.Gone
	case errors.Is(err, ErrBlocked):
		return drain.Blocked
	case errors.Is(err, ErrMultiplePDBs):
		return drain.MultiplePDBs
	}
	return drain.Failed
}

// left tells the drain of a claim what a pod's eviction or deletion was answered. ok says
// that the pod is on its way, and the reason for it.
func (x *Executor) left(p *model.Pod, name string, o drain.Outcome) (reason string, ok bool) {
	t := x.tracks[name]
	if t == nil {
		return "", false
	}
	if s := t.drains[p.NodeName]; s != nil {
		s.Answered(p, o, x.now)
	}
	t.due(x.now)
	if o != drain.Accepted {
		return "", false
	}
	reason = "Forceful Termination"
	if c := x.m.Claim(name); c != nil {
		if f, ok, err := interrupt.ReadFace(c.Annotations); ok && err == nil {
			reason = "Interrupted (" + string(f.Kind) + ")"
		} else if d := c.Condition(model.CondDisruptionReason); d.Status == "True" {
			reason = d.Reason
		}
	}
	return reason, true
}

// terminate ends the instance of a claim once the ledger says that it is to end.
func (x *Executor) terminate(t *track, c *model.Claim) {
	if !x.remembered(ledger.ClaimKey(x.cfg.Cluster, c.UID)) {
		t.awaitsLedger = true
		return
	}
	t.awaitsLedger = false
	id := model.InstanceID(c.ProviderID)
	if !x.do("instance/"+id, Terminate{IDs: []string{id}, Reason: "claim " + c.Name}) {
		x.retryAt(t, "instance/"+id)
	}
}

func (x *Executor) terminated(d Terminate, r Result) {
	if r.Err == nil {
		x.Counters.Terminated++
	}
	for _, id := range d.IDs {
		for _, l := range x.launches {
			if r.Err == nil {
				l.surplus = slices.DeleteFunc(l.surplus, func(i cloud.Instance) bool { return i.ID == id })
			}
		}
		c := x.m.ClaimByInstance(id)
		if c == nil {
			continue
		}
		t := x.tracks[c.Name]
		if t == nil {
			continue
		}
		t.due(x.now)
		if r.Err == nil {
			t.ending.Terminating = true
			x.describe[id] = c.Name
			x.described = x.now
		}
	}
}

// Ending says whether the end of a claim's instance has been asked for.
func (x *Executor) Ending(name string) bool {
	t := x.tracks[name]
	return t != nil && t.ending.Terminating
}

// Ended takes in that the cloud says by itself that a claim's instance has ended.
func (x *Executor) Ended(name string, now time.Time) {
	x.now = now
	if t := x.tracks[name]; t != nil {
		t.ending.InstanceGone = true
		t.due(now)
	}
}

// stepDescribe looks at the instances that are ending, all together.
func (x *Executor) stepDescribe() {
	if len(x.describe) == 0 {
		return
	}
	if at := x.described.Add(claim.PollInstance); x.now.Before(at) {
		x.wake(at)
		return
	}
	if x.do("describe", Describe{IDs: slices.Sorted(maps.Keys(x.describe))}) {
		x.described = x.now
	}
}

func (x *Executor) describedInstances(d Describe, r Result) {
	if r.Err != nil {
		return
	}
	alive := map[string]bool{}
	for _, i := range r.Value.([]cloud.Instance) {
		alive[i.ID] = i.State != "terminated"
	}
	for _, id := range d.IDs {
		name, asked := x.describe[id]
		t := x.tracks[name]
		if !asked || t == nil {
			delete(x.describe, id)
			continue
		}
		if alive[id] {
			if !t.ending.Terminating {
				delete(x.describe, id) // asked because its node is not ready; the next drain step asks again
			}
			continue
		}
		delete(x.describe, id)
		t.ending.InstanceGone = true
		t.due(x.now)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
