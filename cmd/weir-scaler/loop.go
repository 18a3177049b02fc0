package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// lanes bound how many effects of a kind are performed at once, so that a flood of
// events holds up no eviction and a long plan holds up nothing.
var lanes = map[string]int{planLane: 2, "Emit": 4, "Evict": 16, "DeletePod": 16, "": 32}

// planLane is that of effects that only think.
const planLane = "Plan"

// mailbox gathers inputs until the loop takes them. Its callers never wait.
type mailbox struct {
	mu    sync.Mutex // guards items
	items []control.Input
	full  chan struct{} // has one element while items are there
}

func newMailbox() *mailbox { return &mailbox{full: make(chan struct{}, 1)} }

func (m *mailbox) put(in ...control.Input) {
	m.mu.Lock()
	m.items = append(m.items, in...)
	m.mu.Unlock()
	select {
	case m.full <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []control.Input {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.items
	m.items = nil
	return out
}

// loop drives a controller: it is the only goroutine that touches it.
type loop struct {
	c     *control.Controller
	box   *mailbox
	ports execute.Ports
	fail  failpoints
	log   *zap.Logger
	watch *observer
	// settled hears which notices their source may forget; nil = nobody asks.
	settled func([]control.NoticeID)

	mu      sync.Mutex // guards term, queue and running
	term    context.Context
	queue   map[string][]execute.Effect // by lane
	running map[string]int
	idle    *sync.Cond // running or queue became empty

	alive  atomic.Int64 // unix nanoseconds of the last turn
	synced atomic.Bool
}

func newLoop(c *control.Controller, ports execute.Ports, fail failpoints, log *zap.Logger, watch *observer) *loop {
	l := &loop{c: c, box: newMailbox(), ports: ports, fail: fail, log: log, watch: watch,
		queue: map[string][]execute.Effect{}, running: map[string]int{}}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// run turns until the context ends.
func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	gauges := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.box.full:
		case <-timer.C:
		}
		now := time.Now()
		in := l.box.take()
		l.watch.inputs(l.c, in, now)
		effects := l.c.Step(now, in...)
		l.alive.Store(now.UnixNano())
		l.synced.Store(l.c.Mirror().Synced())
		l.dispatch(effects)
		if ids := l.c.Settled(); len(ids) > 0 && l.settled != nil {
			l.settled(ids)
		}
		if now.Sub(gauges) >= 5*time.Second {
			gauges = now
			l.watch.gauges(l.c, now)
		}
		wait := 5 * time.Second // the gauges' pace, and a proof of life
		if at := l.c.NextWake(); !at.IsZero() {
			wait = min(wait, max(time.Until(at), time.Millisecond))
		}
		timer.Reset(wait)
	}
}

func laneOf(e execute.Effect) string {
	if _, ok := lanes[e.Kind()]; ok {
		return e.Kind()
	}
	return ""
}

// dispatch starts effects as far as their lanes have room and queues the others.
func (l *loop) dispatch(effects []execute.Effect) {
	if len(effects) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range effects {
		lane := laneOf(e)
		l.queue[lane] = append(l.queue[lane], e)
	}
	for lane := range lanes {
		l.fill(lane)
	}
}

// fill starts what a lane has room for. The lock is held.
func (l *loop) fill(lane string) {
	for l.term != nil && l.running[lane] < lanes[lane] && len(l.queue[lane]) > 0 {
		e := l.queue[lane][0]
		l.queue[lane] = l.queue[lane][1:]
		l.running[lane]++
		go l.perform(l.term, lane, e)
	}
}

func (l *loop) perform(term context.Context, lane string, e execute.Effect) {
	l.fail.hit(e, "before")
	ctx, cancel := context.WithTimeout(term, execute.Timeout(e))
	start := time.Now()
	r := execute.Perform(ctx, l.ports, e)
	cancel()
	l.fail.hit(e, "after")
	l.watch.result(r, time.Since(start))
	l.box.put(r)
	l.mu.Lock()
	l.running[lane]--
	l.fill(lane)
	l.idle.Broadcast()
	l.mu.Unlock()
}

// lead acts under an epoch until the context ends, and returns when the last effect has
// that may change anything. What is begun is told to the loop after it knows that it leads.
func (l *loop) lead(ctx context.Context, epoch int64, begun func()) {
	l.mu.Lock()
	l.term = ctx
	l.queue = map[string][]execute.Effect{}
	l.mu.Unlock()
	l.log.Info("leading", zap.Int64("epoch", epoch))
	l.watch.leading(true, epoch)
	l.box.put(control.Leading{Epoch: epoch})
	begun()
	<-ctx.Done()
	l.box.put(control.Following{Why: "the lease was lost or the process stops"})
	l.watch.leading(false, epoch)
	l.mu.Lock()
	l.term = nil
	// A plan changes nothing outside, and its result is no longer taken: nobody has to
	// wait for it, least of all whoever leads next.
	busy := func() (n int) {
		for lane, r := range l.running {
			if lane != planLane {
				n += r
			}
		}
		return n
	}
	for busy() > 0 {
		l.idle.Wait()
	}
	l.mu.Unlock()
	l.log.Info("not leading any more", zap.Int64("epoch", epoch))
}

// sink takes changes of the cluster from the watches.
func (l *loop) sink(c cluster.Change) { l.box.put(c) }

// plan logs what a planner wants; it is called by the loop's own goroutine.
func (l *loop) plan(p *model.Plan) {
	for _, n := range p.Launch {
		l.log.Info("planned", zap.String("plan", p.ID), zap.String("pool", n.Pool.Name), zap.String("offering", n.Offering.Key()),
			zap.Float64("usdPerHour", n.Offering.USDPerHour), zap.Int("pods", len(n.Pods)), zap.Int("alternatives", len(n.Alternatives)), zap.String("strategy", p.Strategy))
	}
	for _, v := range p.Unplaced {
		l.log.Info("cannot be placed", zap.String("plan", p.ID), zap.String("pod", v.Pod.ID()), zap.String("reason", control.Reasons(v.Reasons)))
	}
	for _, c := range p.Commands {
		l.log.Info("disruption", zap.String("plan", p.ID), zap.String("reason", string(c.Reason)), zap.Int("remove", len(c.Remove)),
			zap.Int("launch", len(c.Launch)), zap.Float64("usdPerHourBefore", c.Before), zap.Float64("usdPerHourAfter", c.After), zap.String("why", c.Why))
	}
	if p.Budget != nil {
		l.log.Warn("planning was stopped by its time budget", zap.String("plan", p.ID), zap.Duration("budget", p.Budget.Limit), zap.Int("notLookedAt", p.Budget.Unseen))
	}
	for _, w := range p.Warnings {
		l.log.Warn("plan", zap.String("plan", p.ID), zap.String("warning", w))
	}
	l.watch.plan(p)
}
