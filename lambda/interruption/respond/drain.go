package respond

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// errUnfinished says that pods are left when the time of the invocation is over.
var errUnfinished = errors.New("drain is not finished")

// drainNode empties one node for all the targets that ask for it.
func (v *visit) drainNode(ctx context.Context, targets []*target) {
	t := targets[0]
	for _, o := range targets {
		v.advance(o, ledger.NoticeDraining)
		if earlier(o, t, v.cfg.Clock.Now()) {
			t = o
		}
	}
	end, err := v.steps(ctx, t)
	for _, o := range targets {
		o.outcome.Evicted, o.outcome.Waiting, o.outcome.Done = end.evicted, end.last.Waiting, true
		switch {
		case err != nil:
			o.outcome.Done = false
			o.unfinished = fmt.Errorf("instance %s: %w", o.notice.InstanceID, err)
		case end.last.Done:
			v.advance(o, ledger.NoticeDone)
		case end.gone:
			v.advance(o, ledger.NoticeDone)
			o.outcome.Reason += "; the instance is gone by now, with the pods that were left"
		case v.handsOver(o):
			o.outcome.Reason += "; the rest of the drain is left to the scaler: " + blockers(end.last)
		default:
			o.outcome.Done = false
			o.outcome.Reason += "; " + blockers(end.last)
			o.unfinished = fmt.Errorf("node %s: %w: %s", o.outcome.Node, errUnfinished, blockers(end.last))
		}
	}
}

// drained is how far a drain came.
type drained struct {
	evicted int
	last    drain.Result // the last step
	gone    bool         // the instance was taken before the node was empty
}

func earlier(a, b *target, now time.Time) bool {
	da, db := a.deadline(now), b.deadline(now)
	return da != nil && (db == nil || da.Before(*db))
}

// handsOver says whether somebody else finishes a drain that nothing presses: a
// scaler that lives, or the sweep, which the ledger makes possible.
func (v *visit) handsOver(t *target) bool {
	return t.deadline(v.cfg.Clock.Now()) == nil && (t.living || v.cfg.Ledger != nil)
}

// steps drives the drain until it is done or the time is over, which is no error.
func (v *visit) steps(ctx context.Context, t *target) (end drained, err error) {
	node := t.found.Node
	now := v.cfg.Clock.Now()
	s := &drain.State{Interruption: t.deadline(now)}
	if t.again && t.notice.Time.Before(now) { // a sender's clock may be ahead of ours
		s.Started = t.notice.Time // begun by an earlier invocation: it has settled
	}
	if c := node.Claim; c.TerminationGP != nil {
		begin := now
		if c.Deleting != nil {
			begin = *c.Deleting
		}
		deadline := begin.Add(*c.TerminationGP)
		s.Deadline = &deadline
	}
	if t.living {
		// A scaler is buying machines: who is alone waits for one, as it does there.
		s.Hold = v.alone(ctx)
	}
	for {
		var pods []*model.Pod
		err := v.try(ctx, func() (err error) { pods, err = v.pods(ctx, node.Name); return err })
		if err != nil {
			if ctx.Err() != nil {
				return end, nil
			}
			return end, err
		}
		end.last = drain.Step(s, node, pods, nil, v.cfg.Clock.Now())
		if end.last.Done {
			return end, nil
		}
		end.evicted += v.evict(ctx, s, end.last)
		if end.gone = v.over(s, end.last); end.gone || ctx.Err() != nil {
			return end, nil
		}
		v.cfg.Clock.Sleep(ctx, end.last.Next)
		if ctx.Err() != nil {
			return end, nil
		}
	}
}

// over says whether it makes no sense to go on: the instance is gone by now, and
// with it whatever was on it.
func (v *visit) over(s *drain.State, last drain.Result) bool {
	return s.Interruption != nil && v.cfg.Clock.Now().After(s.Interruption.Add(drain.Stuck)) && len(last.Evict) == 0
}

func (v *visit) pods(ctx context.Context, node string) ([]*model.Pod, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return v.cfg.Cluster.Pods(call, node)
}

// alone makes a function that says whether a pod is the only ready one of its owner. Where
// that is not known it is not held: budgets still hold.
func (v *visit) alone(ctx context.Context) func(*model.Pod) bool {
	type answer struct {
		at   time.Time
		held bool
	}
	known := map[string]answer{} // by uid
	return func(p *model.Pod) bool {
		now := v.cfg.Clock.Now()
		if a, ok := known[p.UID]; ok && now.Sub(a.at) < aloneFor {
			return a.held
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		held, err := v.cfg.Cluster.OnlyReady(call, p)
		if err != nil {
			v.cfg.Log.Warn("it is not known whether a pod is the only ready one", zap.String("pod", p.ID()), zap.Error(err))
		}
		known[p.UID] = answer{now, held && err == nil}
		return known[p.UID].held
	}
}

// evict carries out one step and tells the drain what came of it. It answers how
// many pods are on their way.
func (v *visit) evict(ctx context.Context, s *drain.State, step drain.Result) int {
	type answered struct {
		pod     *model.Pod
		outcome drain.Outcome
		err     error
	}
	var mu sync.Mutex // guards answers
	var answers []answered
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	do := func(p *model.Pod, f func(ctx context.Context) (drain.Outcome, error)) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			call, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			o, err := f(call)
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, answered{p, o, err})
		})
	}
	for _, e := range step.Evict {
		do(e.Pod, func(ctx context.Context) (drain.Outcome, error) { return v.cfg.Cluster.Evict(ctx, e.Pod, e.Grace) })
	}
	for _, d := range step.Delete {
		do(d.Pod, func(ctx context.Context) (drain.Outcome, error) { return v.cfg.Cluster.DeletePod(ctx, d.Pod, d.Grace) })
	}
	wg.Wait()
	now, n := v.cfg.Clock.Now(), 0
	for _, a := range answers {
		s.Answered(a.pod, a.outcome, now)
		if a.outcome == drain.Accepted && a.pod.Deleting == nil {
			n++
		}
		if a.err != nil {
			v.cfg.Log.Warn("a pod did not leave", zap.String("pod", a.pod.ID()), zap.Error(a.err))
		}
	}
	return n
}

// blockers says who is in the way.
func blockers(r drain.Result) string {
	if len(r.Blockers) == 0 {
		return fmt.Sprintf("%d pods are on their way", r.Waiting)
	}
	var parts []string
	for i, b := range r.Blockers {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("and %d more", len(r.Blockers)-i))
			break
		}
		parts = append(parts, b.Message)
	}
	return strings.Join(parts, "; ")
}
