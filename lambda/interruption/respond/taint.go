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
	cluster string // under which the ledger keeps the notice; empty = not kept
	again   bool   // the node was tainted for this notice before
	living  bool   // a scaler gave a sign of life
	drain   bool   // pods are to be evicted here
	outcome Outcome

	err        error // why it could not be recorded or tainted
	unfinished error // why the drain must go on in another invocation
}

// taint does everything about a notice but evicting.
func (r *Responder) taint(ctx context.Context, t *target) error {
	rec := r.remember(ctx, t)
	if rec.passive {
		t.outcome.Action, t.outcome.Done = interrupt.Record, true
		t.outcome.Reason = "no scaler of this cluster was active within 24 hours: recorded only"
		return rec.err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := r.cfg.Cluster.NodeByInstance(call, t.notice.InstanceID, direct.Hints{Node: t.owner.Node, Claim: t.owner.Claim})
	if errors.Is(err, direct.ErrNotFound) {
		t.outcome.Done, t.outcome.Reason = true, "instance "+t.notice.InstanceID+" is no node of this cluster"
		return errors.Join(rec.err, r.disown(ctx, t))
	}
	if err != nil {
		return errors.Join(rec.err, err)
	}
	t.found = found
	if found.How == direct.ByScan {
		r.cfg.Log.Warn("no node has the label of the instance, so that all nodes were read", zap.String("label", model.LabelInstanceID), zap.String("instance", t.notice.InstanceID))
	}
	v, err := r.judge(call, t)
	if err != nil {
		return errors.Join(rec.err, err)
	}
	t.outcome.Node, t.outcome.Action, t.outcome.Reason = v.Node, v.Action, v.Reason
	err = r.act(ctx, t, v)
	if rec.change == ledger.NoticeNew && v.Marks {
		err = errors.Join(err, r.markOffering(ctx, v.Offering))
	}
	return errors.Join(rec.err, err)
}

// judge asks core/interrupt about the node as it is now. A node that is being
// removed already is judged as if it were not: what was begun is carried on.
func (r *Responder) judge(ctx context.Context, t *target) (interrupt.Verdict, error) {
	n := *t.found.Node
	t.again = n.BeingRemoved()
	n.Taints, n.Deleting = nil, nil
	if n.Claim != nil {
		c := *n.Claim
		c.Deleting = nil
		n.Claim = &c
	}
	w := &model.World{Now: r.cfg.Clock.Now(), Nodes: []*model.Node{&n}}
	if n.Claim != nil && n.Pool() != "" && t.notice.Kind == model.NoticeRebalance {
		annotations, err := r.cfg.Cluster.PoolAnnotations(ctx, n.Pool())
		if err != nil {
			return interrupt.Verdict{}, err
		}
		w.Pools = []*model.Pool{{Name: n.Pool(), Annotations: annotations}}
	}
	o := interrupt.Options{Account: r.cfg.Account, Region: r.cfg.Region, Cluster: r.cfg.ClusterName, Now: w.Now}
	return interrupt.NewDecider(w, o).Notice(t.kind, t.notice), nil
}

// act puts the face on the claim, then the taint on the node, then deletes the
// claim: in this order, because a scaler that recovers takes the taint off nodes
// whose claim is neither annotated nor deleted.
func (r *Responder) act(ctx context.Context, t *target, v interrupt.Verdict) error {
	if !v.Action.Acts() {
		t.outcome.Done = true
		return nil
	}
	claim := t.found.Node.Claim
	shown, err := r.face(ctx, t, v)
	if errors.Is(err, direct.ErrNotFound) {
		t.outcome.Done, t.outcome.Reason = true, "claim "+claim.Name+" is gone"
		return nil
	}
	if err != nil {
		return err
	}
	if v.Action == interrupt.ReplaceThenDrain {
		t.outcome.Done = true // the scaler sees the annotation; without it nothing presses
		return nil
	}
	if err := r.cordon(ctx, t.found.Node); err != nil {
		return err
	}
	if shown {
		r.emit(ctx, t, v)
	}
	if v.Action == interrupt.Cordon {
		t.outcome.Done = true
		return nil
	}
	if claim.Deleting == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := r.cfg.Cluster.DeleteClaim(call, claim.Name, claim.UID); err != nil {
			return err
		}
	}
	if v.Action == interrupt.Remove || !t.found.Node.Joined() {
		t.outcome.Done = true
		return nil
	}
	t.drain = true
	return nil
}

// face writes the notice onto the claim, and says whether it showed less before.
func (r *Responder) face(ctx context.Context, t *target, v interrupt.Verdict) (bool, error) {
	claim := t.found.Node.Claim
	next := interrupt.FaceOf(t.notice, v.Action)
	changed := true
	old, ok, err := interrupt.ReadFace(claim.Annotations)
	if err != nil {
		r.cfg.Log.Warn("annotation is written anew", zap.String("claim", claim.Name), zap.Error(err))
	} else if ok {
		next, changed = old.Merge(next)
	}
	annotations := map[string]string{}
	if changed {
		annotations[model.AnnotationInterruption] = next.Text()
	}
	if v.Action == interrupt.Remove && claim.Annotations[model.AnnotationTerminationTimestamp] == "" {
		annotations[model.AnnotationTerminationTimestamp] = r.cfg.Clock.Now().UTC().Format(time.RFC3339)
	}
	if len(annotations) == 0 {
		return false, nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return true, r.cfg.Cluster.AnnotateClaim(call, claim.Name, claim.UID, annotations)
}

// cordon puts the taint on, where a node has joined and lacks it.
func (r *Responder) cordon(ctx context.Context, n *model.Node) error {
	if !n.Joined() {
		return nil
	}
	p := drain.Cordon(n)
	if p == nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := r.cfg.Cluster.PatchNode(call, *p); err != nil && !errors.Is(err, direct.ErrNotFound) {
		return err
	}
	n.Taints = append(n.Taints, drain.Taint)
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

// emit tells people. An event that cannot be written changes nothing.
func (r *Responder) emit(ctx context.Context, t *target, v interrupt.Verdict) {
	n := t.found.Node
	objects := []model.ObjectRef{{Kind: "NodeClaim", Name: n.Claim.Name, UID: n.Claim.UID}}
	if n.Joined() {
		objects = append(objects, model.ObjectRef{Kind: "Node", Name: n.Name, UID: n.UID})
	}
	for _, o := range objects {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		e := model.Event{Object: o, Warning: t.notice.Kind != model.NoticeRebalance, Reason: reasons[t.notice.Kind], Message: fmt.Sprintf("%s of instance %s: %s (%s)", v.Type, v.Instance, v.Reason, v.Action)}
		if err := r.cfg.Cluster.Emit(call, e, r.cfg.Clock.Now()); err != nil {
			r.cfg.Log.Warn("event was not written", zap.Error(err))
		}
		cancel()
	}
}
