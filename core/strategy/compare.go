package strategy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// background does work one after the other behind calls and drops what does not fit.
type background struct {
	jobs    chan func(context.Context)
	ctx     context.Context
	stop    context.CancelFunc
	dropped atomic.Int64
}

func newBackground(size int, work *sync.WaitGroup) *background {
	b := &background{jobs: make(chan func(context.Context), size)}
	b.ctx, b.stop = context.WithCancel(context.Background())
	work.Go(func() {
		for {
			select {
			case <-b.ctx.Done():
				return
			case f := <-b.jobs:
				if b.ctx.Err() == nil {
					f(b.ctx)
				}
			}
		}
	})
	return b
}

// try takes a job on, or says that there is no room.
func (b *background) try(f func(context.Context)) bool {
	select {
	case b.jobs <- f:
		return true
	default:
		b.dropped.Add(1)
		return false
	}
}

// end drops what waits and cancels what runs.
func (b *background) end() { b.stop() }

// costs prices plans of one world; that of who acts once, whoever asks.
type costs struct {
	h      *Host
	market *market
	world  *model.World
	prices *model.Prices
	acting func() (PlanCost, error)
}

func (h *Host) costsOf(m *market, w *model.World, prices *model.Prices) *costs {
	c := &costs{h: h, market: m, world: w, prices: prices}
	c.acting = sync.OnceValues(func() (PlanCost, error) { return c.of(prices) })
	return c
}

// of is what the plan with some prices and drafts costs.
func (c *costs) of(prices *model.Prices) (PlanCost, error) {
	ctx, cancel := context.WithTimeout(c.h.behind.ctx, costTimeout)
	defer cancel()
	return c.h.opts.Cost(ctx, c.world, prices)
}

// with is the prices and drafts that there would be if a slot, which is entered, answered
// for some pools, with the drafts of others as they were. packing are the pools of these for
// which it packs, if it does so by itself: where that fails its prices stand, as they would.
func (c *costs) with(ctx context.Context, s *slot, pools, packing []*model.Pool) (*model.Prices, Outcome, time.Duration, error) {
	own, out, took, err := s.opinion(ctx, c.market, c.world, pools)
	if out != OK {
		return nil, out, took, err
	}
	prices := &model.Prices{ByPool: maps.Clone(c.prices.ByPool)}
	maps.Copy(prices.ByPool, own)
	for _, d := range c.prices.Drafts {
		if _, mine := own[d.Pool.Name]; !mine {
			prices.Drafts = append(prices.Drafts, d)
		}
	}
	if len(packing) == 0 || !s.serves(sdk.InstanceSelection, LevelPlan) {
		return prices, OK, took, nil
	}
	rest := *c.world
	rest.Pods = besides(rest.Pods, prices.Drafts)
	q, drafts := c.market.drafting(&rest, prices, packing)
	if q == nil {
		return prices, OK, took, nil
	}
	began := time.Now()
	version, out, err := s.ask(ctx, q)
	took += time.Since(began)
	if out != OK {
		return prices, out, took, fmt.Errorf("at level %s: %w", LevelPlan, err)
	}
	prices.Drafts, prices.Drafted = append(prices.Drafts, *drafts...), s.spec.Name+" "+version
	return prices, OK, took, nil
}

// draftsFollow says whether some strategy packs by itself, so that its prices alone do not
// say what it buys: what observes the plan waits for Draft.
func draftsFollow(groups []*group) bool {
	return slices.ContainsFunc(groups, func(g *group) bool {
		return g.slot != nil && g.slot.serves(sdk.InstanceSelection, LevelPlan)
	})
}

// observe has strategies on probation compared with those before them and shows the problem
// to shadows, both behind the call. The prices have the drafts of who acts.
func (h *Host) observe(ctx context.Context, m *market, w *model.World, groups []*group, out *model.Prices) {
	h.compareLater(m, w, groups, out)
	h.showPrices(ctx, m, w, out)
}

// compareLater has the plans of strategies on probation compared, behind the call.
func (h *Host) compareLater(m *market, w *model.World, groups []*group, out *model.Prices) {
	if h.opts.Cost == nil || len(w.Pods) == 0 {
		return
	}
	var costs *costs
	for _, g := range groups {
		if g.trial == nil || g.trial.current() != Probation || out.ByPool[g.pools[0].Name].Outcome != string(OK) {
			continue
		}
		if costs == nil {
			costs = h.costsOf(m, w, out)
		}
		t, pools, packing := g.trial, g.pools, g.first(groups, out)
		h.behind.try(func(ctx context.Context) { h.comparePlans(ctx, t, pools, packing, costs) })
	}
}

// comparePlans asks the version before what it would have answered for the same pools, and
// holds the plans against each other.
func (h *Host) comparePlans(ctx context.Context, t *trial, pools, packing []*model.Pool, c *costs) {
	h.mu.RLock()
	ok := slices.Contains(h.current.trials, t) && t.from.enterAwake()
	h.mu.RUnlock()
	if !ok {
		return
	}
	defer t.from.leave()
	log := h.opts.Log.Named("strategy").With(zap.String("strategy", t.name))
	prices, out, _, err := c.with(ctx, t.from, pools, packing)
	if out != OK {
		log.Warn("last good version did not answer well when it was compared with", zap.String("outcome", string(out)), zap.Error(err))
	}
	if prices == nil {
		return
	}
	before, err := c.of(prices)
	if err != nil {
		log.Warn("plan of the last good version", zap.Error(err))
		return
	}
	after, err := c.acting()
	if err != nil {
		log.Warn("plan of a strategy on probation", zap.Error(err))
		return
	}
	if why := t.compare(before, after); why != "" {
		h.rollBack(t, why)
	}
}

// opinion is the prices of a slot, which is entered, for some pools, whoever is bound.
func (s *slot) opinion(ctx context.Context, m *market, w *model.World, pools []*model.Pool) (map[string]model.PoolPrices, Outcome, time.Duration, error) {
	req := m.priceRequest(w, pools)
	began := time.Now()
	var kept any
	version, out, err := s.ask(ctx, problem{kind: sdk.InstanceSelection, level: LevelPrice, input: req, hash: m.hash}.about(&kept))
	took := time.Since(began)
	if out != OK {
		return nil, out, took, err
	}
	prices := map[string]model.PoolPrices{}
	for i, p := range pools {
		prices[p.Name] = m.poolPrices(w, s.spec.Name, &req.Pools[i], &kept.(*sdk.PriceAnswer).Pools[i])
		x := prices[p.Name]
		x.Strategy, x.Outcome = s.spec.Name+" "+version, string(OK)
		prices[p.Name] = x
	}
	return prices, OK, took, nil
}
