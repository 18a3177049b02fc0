package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// Perform does one effect against the ports and answers what came of it. The
// context carries the deadline of the call.
func Perform(ctx context.Context, p Ports, e Effect) Result {
	v, err := perform(ctx, p, e.Do)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", e.Kind(), e.Key, err)
	}
	return Result{Effect: e, Value: v, Err: err}
}

func perform(ctx context.Context, p Ports, do Do) (any, error) {
	switch d := do.(type) {
	case CreateClaim:
		return value(p.Kube.CreateClaim(ctx, d.Claim))
	case PatchClaim:
		return nil, p.Kube.PatchClaim(ctx, d.Patch)
	case DeleteClaim:
		return nil, p.Kube.DeleteClaim(ctx, d.Name, d.UID)
	case PatchNode:
		return nil, p.Kube.PatchNode(ctx, d.Patch)
	case DeleteNode:
		return nil, p.Kube.DeleteNode(ctx, d.Name, d.UID)
	case Evict:
		return nil, p.Kube.Evict(ctx, d.Pod, d.Grace)
	case DeletePod:
		return nil, p.Kube.DeletePod(ctx, d.Pod, d.Grace)
	case PatchPool:
		return nil, p.Kube.PatchPool(ctx, d.Status)
	case Emit:
		return nil, p.Kube.Emit(ctx, d.Event)
	case OpenLaunch:
		return openLaunch(ctx, p, d)
	case SendLaunch:
		return value(p.Cloud.Launch(ctx, d.Token, d.Request))
	case FindLaunch:
		return value(findLaunch(ctx, p, d.ID))
	case CloseLaunch:
		return value(closeLaunch(ctx, p, d))
	case Terminate:
		return nil, p.Cloud.Terminate(ctx, d.IDs)
	case Describe:
		return value(p.Cloud.Describe(ctx, d.IDs))
	case TagInstances:
		return value(tagInstances(ctx, p, d))
	case FetchOfferings:
		return value(p.Cloud.Offerings(ctx, d.Class))
	case Recover:
		return value(recoverAll(ctx, p, d))
	case Sweep:
		return value(sweep(ctx, p, d))
	case ReadNotices:
		return value(readNotices(ctx, p, d.Cluster))
	case RecordNotice:
		n, _, err := ledger.PutNotice(ctx, p.Ledger, d.Cluster, ledger.NoticeOf(d.Notice, p.Now()), p.Now())
		return n, err
	case AdvanceNotice:
		return nil, ledger.AdvanceNotice(ctx, p.Ledger, d.Cluster, d.Instance, d.NoticeKind, d.State, d.Action, p.Now())
	case Write:
		return nil, write(ctx, p, d)
	case ReadHealth:
		return value(ledger.Offerings(ctx, p.Ledger, d.Account, d.Region, p.Now()))
	case AddShortages:
		return value(addShortages(ctx, p, d))
	case Plan:
		return value(plan(ctx, p, d))
	}
	return nil, fmt.Errorf("no way to perform %T", do)
}

// value turns a typed answer into one of type any.
func value[T any](v T, err error) (any, error) { return v, err }

// openLaunch renders the request and stores it with the record. The request is
// answered even where the store is away, since the claim's annotation is the intent then.
func openLaunch(ctx context.Context, p Ports, d OpenLaunch) (any, error) {
	asking, done := third(ctx)
	a, err := admit(asking, p, d)
	done()
	switch {
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // told below, with the request
	case err != nil:
		return nil, err
	case a.why != "":
		// What holds it may be this very launch, stored a moment ago with the answer lost.
		if o, ok := storedLaunch(ctx, p, d); ok {
			o.Health = a.health
			return o, nil
		}
		return Opened{Held: a.why, Health: a.health}, nil
	}
	d.Launch.Offers = a.offers
	request, err := p.Cloud.Render(ctx, d.Launch)
	if err != nil {
		a.release(ctx, p, d)
		return Opened{Health: a.health}, fmt.Errorf("rendering the request: %w", err)
	}
	rec := d.Record
	rec.Request = request
	if len(a.taken.Rounds) > 0 {
		rec.Taken = &a.taken
	}
	o, err := storeLaunch(ctx, p, d, rec)
	if err != nil || o.Taken != rec.Taken {
		a.release(ctx, p, d)
	} else {
		o.Offers = a.offers
	}
	o.Health = a.health
	return o, err
}

// third is a context for a third of the time that is left: a store that hangs may not use
// up what rendering the request needs.
func third(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/3)
}

// storeLaunch writes the record of a launch, whose request it answers in any case.
func storeLaunch(ctx context.Context, p Ports, d OpenLaunch, rec ledger.Launch) (Opened, error) {
	request := rec.Request
	cluster := d.Launch.Tags[TagCluster]
	key := ledger.LaunchKey(cluster, rec.ID)
	for range fenceTries {
		version, err := fencedPut(ctx, p, key, ledger.FenceKey(cluster), rec, d.Expect)
		if !errors.Is(err, ledger.ErrConflict) || errors.Is(err, ErrFenced) {
			return Opened{Request: request, Version: version, Taken: rec.Taken}, err
		}
		// The write may have been made with its answer lost: then the record is ours, to the word.
		if o, ok := storedLaunch(ctx, p, d); ok {
			return o, nil
		}
		_, v, _, lerr := ledger.Load[ledger.Launch](ctx, p.Ledger, key, p.Now())
		if lerr == nil && v != d.Expect {
			return Opened{Request: request}, err
		}
	}
	return Opened{Request: request}, fmt.Errorf("opening launch %s: %w (%d times in a row)", rec.ID, ledger.ErrConflict, fenceTries)
}

// storedLaunch finds the record of a launch where it is stored already, to the word.
func storedLaunch(ctx context.Context, p Ports, d OpenLaunch) (Opened, bool) {
	old, v, ok, err := ledger.Load[ledger.Launch](ctx, p.Ledger, ledger.LaunchKey(d.Launch.Tags[TagCluster], d.Record.ID), p.Now())
	if err != nil || !ok || old.Token != d.Record.Token || old.Epoch != d.Record.Epoch || old.State != d.Record.State {
		return Opened{}, false
	}
	return Opened{Request: old.Request, Version: v, Taken: old.Taken}, true
}

// fenceTries is how often a launch is opened again when another launch was opened at
// the same moment.
const fenceTries = 10

// fencedPut writes a launch record together with the cluster's fence, in one
// transaction: a leader whose epoch is over can open nothing, however late its call comes.
func fencedPut(ctx context.Context, p Ports, key, fenceKey ledger.Key, rec ledger.Launch, expect int64) (int64, error) {
	fence, version, _, err := ledger.Load[ledger.Fence](ctx, p.Ledger, fenceKey, p.Now())
	if err != nil {
		return 0, err
	}
	if fence.Epoch > rec.Epoch {
		return 0, fmt.Errorf("epoch %d, now %d: %w", rec.Epoch, fence.Epoch, ErrFenced)
	}
	item, err := ledger.Encode(key, rec, ledger.Meta{})
	if err != nil {
		return 0, err
	}
	fence.Epoch, fence.Launch = rec.Epoch, rec.ID
	mark, err := ledger.Encode(fenceKey, fence, ledger.Meta{})
	if err != nil {
		return 0, err
	}
	err = p.Ledger.Transact(ctx, []ledger.PutOp{{Item: item, Expect: expect}, {Item: mark, Expect: version}}, p.Now())
	return expect + 1, err
}

func findLaunch(ctx context.Context, p Ports, id string) ([]cloud.Instance, error) {
	all, err := p.Cloud.List(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(i cloud.Instance) bool { return i.Tags[TagLaunch] != id || i.Gone() }), nil
}

func closeLaunch(ctx context.Context, p Ports, d CloseLaunch) (int64, error) {
	if len(d.Puts) == 0 {
		return 0, nil
	}
	err := p.Ledger.Transact(ctx, d.Puts, p.Now())
	if errors.Is(err, ledger.ErrConflict) {
		it, ok, gerr := p.Ledger.Get(ctx, d.Puts[0].Item.Key, p.Now())
		if gerr == nil && ok && it.Version == d.Puts[0].Expect+1 && string(it.Data) == string(d.Puts[0].Item.Data) {
			return it.Version, nil // written before, with the answer lost
		}
	}
	return d.Puts[0].Expect + 1, err
}

// recoverAll reads all that a fresh leader must know. A ledger that is away does
// not keep it from working: objects and tags are enough to be safe.
func recoverAll(ctx context.Context, p Ports, d Recover) (Recovered, error) {
	var r Recovered
	// The fence comes first: what an earlier leader opens after this is refused, what it
	// opened before is read below.
	fence, err := raiseFence(ctx, p, d)
	if errors.Is(err, ErrFenced) {
		return r, err
	}
	r.Remembers, r.LedgerErr = fence.Since, err
	if r.Instances, err = p.Cloud.List(ctx); err != nil {
		return r, fmt.Errorf("listing instances: %w", err)
	}
	if r.Claims, err = p.Kube.ListClaims(ctx); err != nil {
		return r, fmt.Errorf("listing claims: %w", err)
	}
	if r.LedgerErr != nil {
		return r, nil
	}
	r.LedgerErr = func() error {
		items, err := p.Ledger.Query(ctx, ledger.LaunchKey(d.Cluster, "").Partition, "", p.Now())
		if err != nil {
			return err
		}
		r.Versions = map[string]int64{}
		for _, it := range items {
			l, err := ledger.Decode[ledger.Launch](it)
			if err != nil {
				return err
			}
			if l.State == ledger.LaunchOpen {
				r.Launches = append(r.Launches, l)
				r.Versions[l.ID] = it.Version
			}
		}
		if r.States, err = ledger.List[ledger.ClaimState](ctx, p.Ledger, ledger.ClaimKey(d.Cluster, "").Partition, "", p.Now()); err != nil {
			return err
		}
		if r.Health, err = ledger.Offerings(ctx, p.Ledger, d.Account, d.Region, p.Now()); err != nil {
			return err
		}
		if r.Learned, err = ledger.Capacities(ctx, p.Ledger, d.Cluster, p.Now()); err != nil {
			return err
		}
		if r.Moved, err = ledger.List[ledger.Moved](ctx, p.Ledger, ledger.MovedKey(d.Cluster, p.Now(), "").Partition, "", p.Now()); err != nil {
			return err
		}
		if r.Commands, err = ledger.Commands(ctx, p.Ledger, d.Cluster, p.Now()); err != nil {
			return err
		}
		r.Pools, err = ledger.PoolStates(ctx, p.Ledger, d.Cluster, p.Now())
		return err
	}()
	return r, nil
}

func raiseFence(ctx context.Context, p Ports, d Recover) (ledger.Fence, error) {
	f, err := ledger.Update(ctx, p.Ledger, ledger.FenceKey(d.Cluster), p.Now(), func(f ledger.Fence, ok bool) (ledger.Fence, ledger.Meta, bool) {
		write := f.Epoch < d.Epoch
		if !ok {
			f.Since = p.Now()
		}
		f.Epoch = max(f.Epoch, d.Epoch)
		return f, ledger.Meta{}, write
	})
	if err == nil && f.Epoch > d.Epoch {
		return f, fmt.Errorf("epoch %d, now %d: %w", d.Epoch, f.Epoch, ErrFenced)
	}
	return f, err
}

// sweep reads instances first and claims after them: whatever has been bought by
// then has its claim in the later list, unless the claim is gone.
func sweep(ctx context.Context, p Ports, d Sweep) (Swept, error) {
	var s Swept
	var err error
	if s.Instances, err = p.Cloud.List(ctx); err != nil {
		return s, fmt.Errorf("listing instances: %w", err)
	}
	if s.Claims, err = p.Kube.ListClaims(ctx); err != nil {
		return s, fmt.Errorf("listing claims: %w", err)
	}
	claimed := map[string]bool{}
	for _, c := range s.Claims {
		claimed[c.ProviderID] = true
	}
	s.LedgerErr = func() error {
		items, err := p.Ledger.Query(ctx, ledger.LaunchKey(d.Cluster, "").Partition, "", p.Now())
		if err != nil {
			return err
		}
		for _, it := range items {
			l, err := ledger.Decode[ledger.Launch](it)
			if err != nil {
				return err
			}
			if l.State == ledger.LaunchOpen {
				s.Launches = append(s.Launches, l)
			}
		}
		for _, i := range s.Instances {
			if claimed[i.ProviderID()] {
				continue
			}
			items, err := p.Ledger.ByInstance(ctx, i.ID, p.Now())
			if err != nil {
				return err
			}
			for _, it := range items {
				if it.Partition != ledger.ClaimKey(d.Cluster, "").Partition {
					continue
				}
				st, err := ledger.Decode[ledger.ClaimState](it)
				if err != nil {
					return err
				}
				s.States = append(s.States, st)
			}
		}
		return nil
	}()
	return s, nil
}

// readNotices reads the cluster's notices and those whose owner nobody knew: an
// instance may be warned about before its claim knows it.
func readNotices(ctx context.Context, p Ports, cluster string) (Noticed, error) {
	var n Noticed
	var err error
	if n.Ours, err = ledger.Notices(ctx, p.Ledger, cluster, p.Now()); err != nil {
		return n, err
	}
	n.Unowned, err = ledger.Notices(ctx, p.Ledger, ledger.Unowned, p.Now())
	return n, err
}

func write(ctx context.Context, p Ports, d Write) error {
	for _, it := range d.Items {
		if _, err := p.Ledger.Put(ctx, it, ledger.Any, p.Now()); err != nil {
			return err
		}
	}
	return nil
}

func addShortages(ctx context.Context, p Ports, d AddShortages) (map[string]ledger.OfferingHealth, error) {
	out := map[string]ledger.OfferingHealth{}
	for _, s := range d.Shortages {
		at := s.At
		if at.IsZero() {
			at = p.Now()
		}
		var h ledger.OfferingHealth
		var err error
		if s.Interruption {
			h, err = ledger.AddInterruption(ctx, p.Ledger, d.Account, d.Region, s.Offering, at)
		} else {
			h, err = ledger.SettleOffering(ctx, p.Ledger, d.Account, d.Region, s.Offering, s.settled(), at)
		}
		if err != nil {
			return out, err
		}
		out[s.Offering] = h
	}
	return out, nil
}

// plan asks the strategies for prices and then the planner. Who may not answer the
// second question answers nothing: a plan is only data.
func plan(ctx context.Context, p Ports, d Plan) (Planned, error) {
	if p.Planner == nil {
		return Planned{}, errors.New("no planner is wired")
	}
	if pinner, ok := p.Strategy.(Pinner); ok {
		var end func()
		ctx, end = pinner.Begin(ctx)
		defer end()
	}
	prices, err := p.Strategy.Price(ctx, d.World)
	if err != nil {
		return Planned{}, fmt.Errorf("pricing: %w", err)
	}
	if d.For == model.PlanProvision {
		if x, ok := p.Strategy.(Drafter); ok {
			prices = x.Draft(ctx, d.World, prices)
		}
		return Planned{Plan: p.Planner.Provision(d.World, prices), Prices: prices}, nil
	}
	who, how := map[string]bool{}, map[string]bool{}
	score := func(moves []*model.Command) ([]model.MoveScore, error) {
		scores, err := p.Strategy.Score(ctx, d.World, moves)
		for _, s := range scores {
			who[s.Strategy], how[s.Outcome] = true, true
		}
		return scores, err
	}
	if x, ok := p.Strategy.(Proposing); ok {
		d.Disrupt.Propose = x.Proposer(ctx, d.World)
	}
	pl, err := p.Planner.Disrupt(d.World, prices, score, d.Disrupt)
	if pl != nil && pl.Strategy == "" {
		pl.Strategy, pl.Outcome = named(who, ""), cmp.Or(pl.Outcome, named(how, "ok"))
	}
	return Planned{Plan: pl, Prices: prices}, err
}

// named lists what is set, in the order of the alphabet, without an empty one; common is
// left out beside others.
func named(set map[string]bool, common string) string {
	delete(set, "")
	if len(set) > 1 {
		delete(set, common)
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}

// outcomeOf is a short word for logs and metrics.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrNotFound):
		return "not-found"
	case errors.Is(err, ErrConflict), errors.Is(err, ledger.ErrConflict):
		return "conflict"
	case errors.Is(err, ledger.ErrUnavailable):
		return "ledger-away"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	}
	return string(cloud.KindOf(err))
}

// Outcome is a short word for how an effect ended, for logs and metrics.
func (r Result) Outcome() string { return outcomeOf(r.Err) }

// Timeout is how long an effect may take before its context ends.
func Timeout(e Effect) time.Duration {
	switch e.Do.(type) {
	case Plan:
		return 2 * time.Minute
	case Recover, Sweep, FetchOfferings:
		return time.Minute
	case SendLaunch, OpenLaunch, Terminate, FindLaunch:
		return 30 * time.Second
	}
	return 15 * time.Second
}

// cut shortens a text to the 300 characters that conditions and events of v1 keep.
func cut(s string) string {
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "..."
	}
	return s
}
