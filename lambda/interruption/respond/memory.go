package respond

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// visit is one invocation at work. What it asks of the ledger it asks beside the work
// on the cluster, for a table that is away must not hold up a taint or an eviction.
type visit struct {
	*Responder
	ledgerCtx   context.Context // ends when the invocation must answer, not when its work ends
	asked       sync.WaitGroup  // of the ledger, still under way
	ledgerSlots chan struct{}
	began       time.Time
	away        atomic.Bool // the ledger did not answer: nobody waits for it again
	beatOnce    sync.Once
	beatRead    chan struct{} // closed when the three below are set
	beat        ledger.Heartbeat
	beats       bool
	beatErr     error

	mu    sync.Mutex // guards the cordons of the tally; the rest of it is counted at the end
	tally tally
}

func (r *Responder) visit(ctx context.Context) (*visit, context.CancelFunc) {
	v := &visit{Responder: r, ledgerSlots: make(chan struct{}, ledgerCalls), beatRead: make(chan struct{}), began: r.cfg.Clock.Now(), tally: tally{events: map[[2]string]int{}, sums: map[string]int{}}}
	cancel := context.CancelFunc(func() {})
	v.ledgerCtx = context.WithoutCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		v.ledgerCtx, cancel = context.WithDeadline(v.ledgerCtx, end.Add(reserve/2))
	}
	return v, cancel
}

// look asks the ledger whose the instance is and whether a scaler lives. One that
// cannot be read, or not at once, keeps nobody from tainting and draining.
func (v *visit) look(ctx context.Context, t *target) {
	if v.cfg.Ledger == nil {
		return
	}
	t.cluster = v.cfg.ClusterName
	if v.away.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	now := v.cfg.Clock.Now()
	v.readHeartbeat(now) // beside the owner
	owner, _, owned, err := ledger.Load[ledger.InstanceOwner](ctx, v.cfg.Ledger, ledger.InstanceKey(v.account(t), v.region(t), t.notice.InstanceID), now)
	beat, beats, beatErr := v.heartbeat(ctx, now)
	if err = errors.Join(err, beatErr); err != nil && !v.away.Swap(true) {
		v.cfg.Log.Error("the ledger does not say whose instances are and whether a scaler lives: going on without it", zap.String("instance", t.notice.InstanceID), zap.Error(err))
	}
	t.known = err == nil
	if owned {
		t.owner, t.cluster = owner, owner.Cluster
	}
	t.passive = beatErr == nil && (!beats || !beat.Governs(now))
	t.living = beats && beat.Active && beat.Alive(now)
}

// readHeartbeat begins to read the sign of life of our cluster's scaler, once for each invocation.
func (v *visit) readHeartbeat(now time.Time) {
	v.beatOnce.Do(func() {
		v.asked.Go(func() {
			defer close(v.beatRead)
			call, cancel := context.WithTimeout(v.ledgerCtx, callTimeout)
			defer cancel()
			v.beat, _, v.beats, v.beatErr = ledger.Load[ledger.Heartbeat](call, v.cfg.Ledger, ledger.HeartbeatKey(v.cfg.ClusterName), now)
		})
	})
}

func (v *visit) heartbeat(ctx context.Context, now time.Time) (ledger.Heartbeat, bool, error) {
	v.readHeartbeat(now)
	select {
	case <-v.beatRead:
		return v.beat, v.beats, v.beatErr
	case <-ctx.Done():
		return ledger.Heartbeat{}, false, fmt.Errorf("reading the heartbeat: %w", ctx.Err())
	}
}

// later does something with the ledger once what was asked before for the target has
// ended, and lets nobody wait for it.
func (v *visit) later(t *target, f func(ctx context.Context)) {
	if v.cfg.Ledger == nil {
		return
	}
	before, done := t.tail, make(chan struct{})
	t.tail = done
	v.asked.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		v.ledgerSlots <- struct{}{}
		defer func() { <-v.ledgerSlots }()
		wait := callTimeout
		if v.away.Load() {
			wait = awayFor // each of them has to wait in vain
		}
		ctx, cancel := context.WithTimeout(v.ledgerCtx, wait)
		defer cancel()
		f(ctx)
	})
}

// kept waits until the notice is recorded, or says why it is not.
func (v *visit) kept(t *target) error {
	if t.tail == nil {
		return errNoLedger
	}
	<-t.tail
	return t.recorded
}

var errNoLedger = errors.New("there is no ledger")

// record keeps the notice. One that cannot be written has its message come again.
func (v *visit) record(t *target) {
	v.later(t, func(ctx context.Context) {
		now := v.cfg.Clock.Now()
		_, t.change, t.recorded = ledger.PutNotice(ctx, v.cfg.Ledger, t.cluster, ledger.NoticeOf(t.notice, now), now)
	})
}

func (v *visit) account(t *target) string {
	if t.notice.Account != "" {
		return t.notice.Account
	}
	return v.cfg.Account
}

func (v *visit) region(t *target) string {
	if t.notice.Region != "" {
		return t.notice.Region
	}
	return v.cfg.Region
}

// disown moves the notice of an instance that is no node of this cluster to those
// that wait for an owner: a launch may learn of that instance moments later.
func (v *visit) disown(t *target) {
	v.later(t, func(ctx context.Context) {
		now := v.cfg.Clock.Now()
		if _, _, err := ledger.PutNotice(ctx, v.cfg.Ledger, ledger.Unowned, ledger.NoticeOf(t.notice, now), now); err != nil {
			t.recorded = errors.Join(t.recorded, err)
			return
		}
		if t.owner.Claim != "" {
			return // known to be ours: the record of the cluster stays for the scaler
		}
		if err := v.cfg.Ledger.Delete(ctx, ledger.NoticeKey(t.cluster, t.notice.InstanceID, string(t.notice.Kind)), ledger.Any); err != nil {
			t.recorded = errors.Join(t.recorded, fmt.Errorf("the notice of %s waits for an owner: %w", t.notice.InstanceID, err))
		}
	})
}

// mark counts the interruption against the offering, once for each notice.
func (v *visit) mark(t *target, offering string) {
	v.later(t, func(ctx context.Context) {
		if t.change != ledger.NoticeNew {
			return
		}
		if _, err := ledger.AddInterruption(ctx, v.cfg.Ledger, v.cfg.Account, v.cfg.Region, offering, v.cfg.Clock.Now()); err != nil {
			t.recorded = errors.Join(t.recorded, err)
		}
	})
}

// advance writes down what was done about a notice. It is a help for people and for
// the sweep: that it was not written is no reason to do everything again.
func (v *visit) advance(t *target, state string) {
	action := string(t.outcome.Action)
	v.later(t, func(ctx context.Context) {
		err := ledger.AdvanceNotice(ctx, v.cfg.Ledger, t.cluster, t.notice.InstanceID, t.notice.Kind, state, action, v.cfg.Clock.Now())
		if err != nil {
			v.cfg.Log.Warn("the state of a notice was not written", zap.String("instance", t.notice.InstanceID), zap.Error(err))
		}
	})
}

// sweep carries on with the notices that have no living scaler.
func (v *visit) sweep(ctx context.Context) (any, error) {
	if v.cfg.Ledger == nil {
		return &Response{Outcomes: []Outcome{}}, nil // nothing was remembered
	}
	now := v.cfg.Clock.Now()
	beat, beats, err := v.heartbeat(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("sweeping notices: %w", err)
	}
	if beats && beat.Active && beat.Alive(now) {
		return &Response{Outcomes: []Outcome{}}, nil
	}
	notices, err := ledger.Notices(ctx, v.cfg.Ledger, v.cfg.ClusterName, now)
	if err != nil {
		return nil, fmt.Errorf("sweeping notices: %w", err)
	}
	it := &item{swept: true}
	for _, n := range notices {
		if n.State == ledger.NoticeDone || n.Action == string(interrupt.Record) {
			continue
		}
		t := &target{notice: n.Model(), kind: typeOf(model.NoticeKind(n.Kind)), outcome: Outcome{Event: n.EventID, Type: typeOf(model.NoticeKind(n.Kind)), Instance: n.Instance}}
		t.notice.Account, t.notice.Region = v.cfg.Account, v.cfg.Region
		it.targets = append(it.targets, t)
	}
	v.work(ctx, []*item{it})
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
