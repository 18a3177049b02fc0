package strategy

import (
	"context"
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

// costs prices plans of one world; that with the acting prices once, whoever asks.
type costs struct {
	h      *Host
	world  *model.World
	prices *model.Prices
	acting func() (PlanCost, error)
}

func (h *Host) costsOf(w *model.World, prices *model.Prices) *costs {
	c := &costs{h: h, world: w, prices: prices}
	c.acting = sync.OnceValues(func() (PlanCost, error) { return c.with(nil) })
	return c
}

// with is the cost of the plan that some pools' prices make, the others being as they were.
func (c *costs) with(other map[string]model.PoolPrices) (PlanCost, error) {
	prices := &model.Prices{ByPool: map[string]model.PoolPrices{}}
	for name, p := range c.prices.ByPool {
		prices.ByPool[name] = p
	}
	for name, p := range other {
		prices.ByPool[name] = p
	}
	ctx, cancel := context.WithTimeout(c.h.behind.ctx, costTimeout)
	defer cancel()
	return c.h.opts.Cost(ctx, c.world, prices)
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
			costs = h.costsOf(w, out)
		}
		t, pools := g.trial, g.pools
		h.behind.try(func(ctx context.Context) { h.comparePlans(ctx, t, m, pools, costs) })
	}
}

// comparePlans asks the version before for prices of the same pools, and holds the
// plans against each other.
func (h *Host) comparePlans(ctx context.Context, t *trial, m *market, pools []*model.Pool, c *costs) {
	h.mu.RLock()
	ok := slices.Contains(h.current.trials, t) && t.from.enterAwake()
	h.mu.RUnlock()
	if !ok {
		return
	}
	defer t.from.leave()
	log := h.opts.Log.Named("strategy").With(zap.String("strategy", t.name))
	prices, out, _, err := t.from.opinion(ctx, m, c.world, pools)
	if out != OK {
		log.Warn("last good version has no prices to compare with", zap.String("outcome", string(out)), zap.Error(err))
		return
	}
	before, err := c.with(prices)
	if err != nil {
		log.Warn("plan with the prices of the last good version", zap.Error(err))
		return
	}
	after, err := c.acting()
	if err != nil {
		log.Warn("plan with the prices of a strategy on probation", zap.Error(err))
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
