package respond

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// remembered is what the ledger said to a notice.
type remembered struct {
	change  ledger.NoticeChange
	passive bool  // no scaler was active lately: only record
	err     error // the notice was not recorded, so that its message must come again
}

// remember looks up whose the instance is and keeps the notice. A ledger that cannot
// be read keeps nobody from tainting and draining; one that cannot be written has
// the message come again.
func (r *Responder) remember(ctx context.Context, t *target) remembered {
	if r.cfg.Ledger == nil {
		return remembered{}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := r.cfg.Clock.Now()
	owner, _, owned, err := ledger.Load[ledger.InstanceOwner](ctx, r.cfg.Ledger, ledger.InstanceKey(r.account(t), r.region(t), t.notice.InstanceID), now)
	if err != nil {
		r.cfg.Log.Error("the ledger does not say whose the instance is", zap.String("instance", t.notice.InstanceID), zap.Error(err))
	}
	t.owner, t.cluster = owner, r.cfg.ClusterName
	if owned && owner.Cluster != r.cfg.ClusterName {
		t.owner, t.cluster = ledger.InstanceOwner{}, owner.Cluster
	}
	beat, _, beats, err := ledger.Load[ledger.Heartbeat](ctx, r.cfg.Ledger, ledger.HeartbeatKey(t.cluster), now)
	if err != nil {
		r.cfg.Log.Error("the ledger does not say whether a scaler lives", zap.Error(err))
	}
	out := remembered{passive: err == nil && (!beats || !beat.Governs(now))}
	t.living = beats && beat.Active && beat.Alive(now)
	_, out.change, out.err = ledger.PutNotice(ctx, r.cfg.Ledger, t.cluster, ledger.NoticeOf(t.notice, now), now)
	return out
}

func (r *Responder) account(t *target) string {
	if t.notice.Account != "" {
		return t.notice.Account
	}
	return r.cfg.Account
}

func (r *Responder) region(t *target) string {
	if t.notice.Region != "" {
		return t.notice.Region
	}
	return r.cfg.Region
}

// disown moves the notice of an instance that is no node of this cluster to those
// that wait for an owner: a launch may learn of that instance moments later. A notice
// of another cluster is left to it.
func (r *Responder) disown(ctx context.Context, t *target) error {
	if r.cfg.Ledger == nil || t.cluster != r.cfg.ClusterName {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := r.cfg.Clock.Now()
	if _, _, err := ledger.PutNotice(ctx, r.cfg.Ledger, ledger.Unowned, ledger.NoticeOf(t.notice, now), now); err != nil {
		return err
	}
	if t.owner.Claim != "" {
		return nil // known to be ours: the record of the cluster stays for the scaler
	}
	if err := r.cfg.Ledger.Delete(ctx, ledger.NoticeKey(t.cluster, t.notice.InstanceID, string(t.notice.Kind)), ledger.Any); err != nil {
		return fmt.Errorf("the notice of %s waits for an owner: %w", t.notice.InstanceID, err)
	}
	return nil
}

func (r *Responder) markOffering(ctx context.Context, offering string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := ledger.AddInterruption(ctx, r.cfg.Ledger, r.cfg.Account, r.cfg.Region, offering, r.cfg.Clock.Now())
	return err
}

// advance writes down what was done about a notice. It is a help for people and for
// the sweep: that it was not written is no reason to do everything again.
func (r *Responder) advance(ctx context.Context, t *target, state string) {
	if r.cfg.Ledger == nil || t.cluster == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	err := ledger.AdvanceNotice(ctx, r.cfg.Ledger, t.cluster, t.notice.InstanceID, t.notice.Kind, state, string(t.outcome.Action), r.cfg.Clock.Now())
	if err != nil {
		r.cfg.Log.Warn("the state of a notice was not written", zap.String("instance", t.notice.InstanceID), zap.Error(err))
	}
}

// sweep carries on with the notices that have no living scaler.
func (r *Responder) sweep(ctx context.Context) (any, error) {
	if r.cfg.Ledger == nil {
		return &Response{Outcomes: []Outcome{}}, nil // nothing was remembered
	}
	now := r.cfg.Clock.Now()
	beat, _, ok, err := ledger.Load[ledger.Heartbeat](ctx, r.cfg.Ledger, ledger.HeartbeatKey(r.cfg.ClusterName), now)
	if err != nil {
		return nil, fmt.Errorf("sweeping notices: %w", err)
	}
	if ok && beat.Active && beat.Alive(now) {
		return &Response{Outcomes: []Outcome{}}, nil
	}
	notices, err := ledger.Notices(ctx, r.cfg.Ledger, r.cfg.ClusterName, now)
	if err != nil {
		return nil, fmt.Errorf("sweeping notices: %w", err)
	}
	it := &item{}
	for _, n := range notices {
		if n.State == ledger.NoticeDone || n.Action == string(interrupt.Record) {
			continue
		}
		t := &target{notice: n.Model(), kind: typeOf(model.NoticeKind(n.Kind)), outcome: Outcome{Event: n.EventID, Instance: n.Instance}}
		t.notice.Account, t.notice.Region = r.cfg.Account, r.cfg.Region
		it.targets = append(it.targets, t)
	}
	return r.resume(ctx, it)
}

// resume works on notices that need no parsing.
func (r *Responder) resume(ctx context.Context, it *item) (any, error) {
	for _, t := range it.targets {
		t.err = r.taint(ctx, t)
	}
	r.drainAll(ctx, []*item{it})
	for _, t := range it.targets {
		if t.err != nil || t.unfinished != nil && !errors.Is(t.unfinished, errUnfinished) {
			return nil, it.err
		}
	}
	// What is unfinished is swept again in a minute.
	return &Response{Outcomes: it.outcomes()}, nil
}

func typeOf(k model.NoticeKind) string {
	switch k {
	case model.NoticeSpot:
		return event.SpotInterruption
	case model.NoticeRebalance:
		return event.RebalanceRecommendation
	case model.NoticeScheduled, model.NoticeStatus:
		return event.ScheduledChange
	case model.NoticeReservation:
		return event.ReservationInterruption
	case model.NoticeLifecycle:
		return event.LifecycleTermination
	default:
		return event.StateChange
	}
}

// deadlineOf is when the instance goes, nil where nothing presses now.
func deadlineOf(n model.Notice, now time.Time) *time.Time {
	at, ok := interrupt.Until(n)
	if !ok || at.After(now.Add(near)) {
		return nil
	}
	return &at
}
