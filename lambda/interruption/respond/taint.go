package respond

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/kube/direct"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// target is one notice on its way.
type target struct {
	notice  model.Notice
	kind    string // of the event
	found   *direct.Found
	owner   ledger.InstanceOwner
	cluster string     // under which the ledger keeps the notice; empty = not kept
	again   bool       // the node was tainted for this notice before
	living  bool       // a scaler gave a sign of life
	drain   bool       // pods are to be evicted here
	shown   bool       // the claim showed less before
	until   *time.Time // earliest deadline that the claim shows, of whatever notice
	outcome Outcome

	twin *target // another notice of this invocation that says the same; nothing is done for this one

	looked   bool                // the ledger was asked
	passive  bool                // no scaler was active lately: only record
	known    bool                // the ledger could say whose the instance is, and did or did not know it
	change   ledger.NoticeChange // what recording it changed; after tail only
	tail     chan struct{}       // closed when what was asked of the ledger so far has ended; nil = nothing was
	recorded error               // the notice was not recorded, so that its message must come again; after tail only

	err        error // why it could not be recorded or tainted
	unfinished error // why the drain must go on in another invocation
}

// insist tries to taint until it works: for a machine that goes in two minutes the next
// delivery of its message may be too late. It gives up in time for others.
func (v *visit) insist(ctx context.Context, t *target) error {
	return v.try(ctx, func() error { return v.taint(ctx, t) })
}

// try repeats what fails for as long as insistFor, with ever longer breaks.
func (v *visit) try(ctx context.Context, f func() error) error {
	end := v.cfg.Clock.Now().Add(insistFor)
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := f()
		next := v.cfg.Clock.Now().Add(wait)
		if err == nil || ctx.Err() != nil || next.After(end) {
			return err
		}
		v.cfg.Log.Warn("it is tried again", zap.Error(err))
		v.cfg.Clock.Sleep(ctx, next)
	}
}

// taint does everything about a notice but evicting. It waits for the ledger only as
// long as it takes to learn whose the instance is; the notice is recorded beside it.
func (v *visit) taint(ctx context.Context, t *target) error {
	if !t.looked {
		v.look(ctx, t)
		t.looked = true
		v.record(t)
	}
	if t.passive {
		t.outcome.Action, t.outcome.Done = interrupt.Record, true
		t.outcome.Reason = "no scaler of this cluster was active within 24 hours: recorded only"
		return nil
	}
	if t.cluster != "" && t.cluster != v.cfg.ClusterName {
		t.outcome.Done, t.outcome.Reason = true, "instance "+t.notice.InstanceID+" belongs to cluster "+t.cluster
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := v.cfg.Cluster.NodeByInstance(call, t.notice.InstanceID, direct.Hints{Node: t.owner.Node, Claim: t.owner.Claim, NoScan: t.known})
	if errors.Is(err, direct.ErrNotFound) {
		t.outcome.Done, t.outcome.Reason = true, "instance "+t.notice.InstanceID+" is no node of this cluster"
		v.disown(t)
		return nil
	}
	if err != nil {
		return err
	}
	t.found = found
	if found.How == direct.ByScan {
		v.cfg.Log.Warn("no node has the label of the instance, so that all nodes were read", zap.String("label", model.LabelInstanceID), zap.String("instance", t.notice.InstanceID))
	}
	verdict, err := v.judge(call, t)
	if err != nil {
		return err
	}
	t.outcome.Node, t.outcome.Action, t.outcome.Reason = verdict.Node, verdict.Action, verdict.Reason
	if v.leaves(t, verdict) {
		t.outcome.Action, t.outcome.Done = interrupt.Record, true
		t.outcome.Reason += "; that is days or hours away and left to the scaler, which lives"
		return nil
	}
	if err := v.act(ctx, t, verdict); err != nil {
		return err
	}
	if verdict.Marks {
		v.mark(t, verdict.Offering)
	}
	return nil
}

// leaves says whether a planned change is for the scaler: it lives, it reads the ledger,
// and it drains with replacements at hand, for which there is time.
func (v *visit) leaves(t *target, verdict interrupt.Verdict) bool {
	return t.notice.Kind == model.NoticeScheduled && verdict.Action == interrupt.Drain && t.living &&
		deadlineOf(t.notice, v.cfg.Clock.Now()) == nil && v.kept(t) == nil
}

// judge asks core/interrupt about the node as it is now. A node that is being
// removed already is judged as if it were not: what was begun is carried on.
func (v *visit) judge(ctx context.Context, t *target) (interrupt.Verdict, error) {
	n := *t.found.Node
	t.again = n.BeingRemoved()
	n.Taints, n.Deleting = nil, nil
	if n.Claim != nil {
		c := *n.Claim
		c.Deleting = nil
		n.Claim = &c
	}
	w := &model.World{Now: v.cfg.Clock.Now(), Nodes: []*model.Node{&n}}
	if n.Claim != nil && n.Pool() != "" && t.notice.Kind == model.NoticeRebalance {
		annotations, err := v.cfg.Cluster.PoolAnnotations(ctx, n.Pool())
		if err != nil {
			return interrupt.Verdict{}, err
		}
		w.Pools = []*model.Pool{{Name: n.Pool(), Annotations: annotations}}
	}
	o := interrupt.Options{Account: v.cfg.Account, Region: v.cfg.Region, Cluster: v.cfg.ClusterName, Now: w.Now}
	return interrupt.NewDecider(w, o).Notice(t.kind, t.notice), nil
}

// act puts the face on the claim, then the taint on the node, then deletes the
// claim: in this order, because a scaler that recovers takes the taint off nodes
// whose claim is neither annotated nor deleted.
func (v *visit) act(ctx context.Context, t *target, verdict interrupt.Verdict) error {
	if !verdict.Action.Acts() {
		t.outcome.Done = true
		return nil
	}
	claim := t.found.Node.Claim
	if verdict.Action == interrupt.Cordon && !v.cfg.Clock.Now().Before(t.notice.Time.Add(interrupt.CordonFor)) {
		return v.uncordon(ctx, t)
	}
	shown, err := v.face(ctx, t, verdict)
	if errors.Is(err, direct.ErrNotFound) {
		t.outcome.Done, t.outcome.Reason = true, "claim "+claim.Name+" is gone"
		return nil
	}
	if err != nil {
		return err
	}
	t.shown = t.shown || shown
	if verdict.Action == interrupt.ReplaceThenDrain {
		t.outcome.Done = true // the scaler sees the annotation; without it nothing presses
		return nil
	}
	if err := v.cordon(ctx, t.found.Node); err != nil {
		return err
	}
	if verdict.Action == interrupt.Cordon {
		t.outcome.Done = true
		v.advance(t, ledger.NoticeCordoned)
		v.tell(t, verdict)
		return nil
	}
	if claim.Deleting == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := v.cfg.Cluster.DeleteClaim(call, claim.Name, claim.UID); err != nil {
			return err
		}
	}
	v.tell(t, verdict)
	if verdict.Action == interrupt.Remove || !t.found.Node.Joined() {
		t.outcome.Done = true
		return nil
	}
	t.drain = true
	return nil
}

// uncordon ends the cordon of a recommendation that is older than interrupt.CordonFor,
// where nothing else is to be done about the node.
func (v *visit) uncordon(ctx context.Context, t *target) error {
	n, claim := t.found.Node, t.found.Node.Claim
	t.outcome.Done, t.outcome.Action = true, interrupt.Record
	t.outcome.Reason = fmt.Sprintf("the recommendation is older than %d minutes", int(interrupt.CordonFor.Minutes()))
	face, ok, err := interrupt.ReadFace(claim.Annotations)
	if err != nil || !ok || face.Action != interrupt.Cordon || claim.Deleting != nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = v.cfg.Cluster.AnnotateClaim(call, claim.Name, claim.UID, map[string]string{model.AnnotationInterruption: ""})
	if err == nil && n.Joined() {
		err = v.cfg.Cluster.PatchNode(call, model.NodePatch{Name: n.Name, UID: n.UID, RemoveTaints: []model.Taint{drain.Taint}, Labels: map[string]string{model.LabelExcludeLB: ""}})
	}
	if err != nil && !errors.Is(err, direct.ErrNotFound) {
		return err
	}
	t.outcome.Reason += ": its cordon has ended"
	v.advance(t, ledger.NoticeDone)
	return nil
}

// face writes the notice onto the claim, and says whether it showed less before.
func (v *visit) face(ctx context.Context, t *target, verdict interrupt.Verdict) (bool, error) {
	claim := t.found.Node.Claim
	next := interrupt.FaceOf(t.notice, verdict.Action)
	defer func() {
		if !next.Deadline.IsZero() {
			t.until = &next.Deadline
		}
	}()
	changed := true
	old, ok, err := interrupt.ReadFace(claim.Annotations)
	if err != nil {
		v.cfg.Log.Warn("annotation is written anew", zap.String("claim", claim.Name), zap.Error(err))
	} else if ok {
		next, changed = old.Merge(next)
	}
	annotations := map[string]string{}
	if changed {
		annotations[model.AnnotationInterruption] = next.Text()
	}
	if verdict.Action == interrupt.Remove && claim.Annotations[model.AnnotationTerminationTimestamp] == "" {
		annotations[model.AnnotationTerminationTimestamp] = v.cfg.Clock.Now().UTC().Format(time.RFC3339)
	}
	if len(annotations) == 0 {
		return false, nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return true, v.cfg.Cluster.AnnotateClaim(call, claim.Name, claim.UID, annotations)
}

// cordon puts the taint on, where a node has joined and lacks it.
func (v *visit) cordon(ctx context.Context, n *model.Node) error {
	if !n.Joined() {
		return nil
	}
	p := drain.Cordon(n)
	if p == nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := v.cfg.Cluster.PatchNode(call, *p); err != nil && !errors.Is(err, direct.ErrNotFound) {
		return err
	}
	n.Taints = append(n.Taints, drain.Taint)
	v.cordoned(v.cfg.Clock.Now())
	return nil
}

// reasons of the Kubernetes events, by kind of notice.
var reasons = map[model.NoticeKind]string{
	model.NoticeSpot:        "SpotInterrupted",
	model.NoticeRebalance:   "SpotRebalanceRecommendation",
	model.NoticeScheduled:   "InstanceUnhealthy",
	model.NoticeStatus:      "InstanceUnhealthy",
	model.NoticeStopped:     "InstanceStopping",
	model.NoticeTerminated:  "InstanceTerminating",
	model.NoticeLifecycle:   "InstanceTerminating",
	model.NoticeReservation: "CapacityReservationInstanceInterrupted",
}

// deadline is when the instance goes, by this notice or by one that the claim shows; nil
// where nothing presses now.
func (t *target) deadline(now time.Time) *time.Time {
	at := deadlineOf(t.notice, now)
	if t.until != nil && (at == nil || t.until.Before(*at)) && !t.until.After(now.Add(near)) {
		at = t.until
	}
	return at
}

// tell tells people, beside the work. An event that cannot be written changes nothing.
func (v *visit) tell(t *target, verdict interrupt.Verdict) {
	if t.shown {
		t.shown = false
		v.asked.Go(func() { v.emit(v.ledgerCtx, t, verdict) })
	}
}

func (v *visit) emit(ctx context.Context, t *target, verdict interrupt.Verdict) {
	n := t.found.Node
	objects := []model.ObjectRef{{Kind: "NodeClaim", Name: n.Claim.Name, UID: n.Claim.UID}}
	if n.Joined() {
		objects = append(objects, model.ObjectRef{Kind: "Node", Name: n.Name, UID: n.UID})
	}
	for _, o := range objects {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		e := model.Event{Object: o, Warning: t.notice.Kind != model.NoticeRebalance, Reason: reasons[t.notice.Kind], Message: fmt.Sprintf("%s of instance %s: %s (%s)", verdict.Type, verdict.Instance, verdict.Reason, verdict.Action)}
		if err := v.cfg.Cluster.Emit(call, e, v.cfg.Clock.Now()); err != nil {
			v.cfg.Log.Warn("event was not written", zap.Error(err))
		}
		cancel()
	}
}
