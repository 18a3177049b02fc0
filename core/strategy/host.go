package strategy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// Host answers for strategies. It is safe for use from several goroutines.
type Host struct {
	opts   Options
	images images
	recent recent
	writer *recorder      // nil = nothing is recorded
	behind *background    // comparisons of plans
	work   sync.WaitGroup // settling, retiring, and what runs behind calls

	mu      sync.RWMutex  // guards what follows
	current *generation   // in service
	next    *generation   // not ready yet, nil = none
	changed chan struct{} // closed and replaced whenever something is another
	closed  bool
	market  *market          // of the last call
	extra   map[string]*slot // built-ins in process that annotations name and the configuration does not
	rolled  []*rolledBack    // what was tried and taken out of service again
	desired Config           // as it was applied last
}

// generation is a configuration with its strategies.
type generation struct {
	config Config
	slots  map[string]*slot // by name
	trials []*trial
	// shadows see every problem; their slots are among the others.
	shadows []*shadow
}

// New makes a host with its first configuration, which is in service at once:
// processes start in the background, and built-ins answer until they are ready.
func New(config Config, opts Options) (*Host, error) {
	h := &Host{opts: opts.withDefaults(), changed: make(chan struct{}), extra: map[string]*slot{}}
	h.behind = newBackground(maxBehind, &h.work)
	if h.opts.Records.Folder != "" {
		h.writer = newRecorder(h.opts.Records, h.opts.Log)
	}
	for _, name := range builtin.Names() {
		s, err := newSlot(Spec{Name: name}, &h.opts, &h.images, h)
		if err != nil {
			h.behind.end()
			h.writer.end()
			return nil, err
		}
		h.extra[name] = s
	}
	if err := h.Apply(config); err != nil {
		h.behind.end()
		h.writer.end()
		return nil, err
	}
	return h, nil
}

// Apply changes the configuration. It returns at once; the new configuration is in
// service when all of its processes are ready, and the one before until then. With an
// error nothing has changed.
func (h *Host) Apply(config Config) error {
	config, err := config.complete()
	if err != nil {
		return fmt.Errorf("strategies: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("the strategy host is closed")
	}
	gen, err := h.build(config)
	if err != nil {
		return err
	}
	superseded := h.next
	h.forget(config)
	if h.current == nil {
		h.current = gen
		h.watch(gen, nil)
	} else {
		h.next = gen
		h.work.Add(1)
		go h.settle(gen)
	}
	h.retireUnused(superseded)
	h.tell()
	return nil
}

// build makes the slots of a configuration and takes over those that stay as they are.
// The caller holds mu.
func (h *Host) build(config Config) (*generation, error) {
	gen := &generation{config: config, slots: map[string]*slot{}}
	var made []*slot
	for _, spec := range config.Strategies {
		if s := h.instead(spec); s != nil {
			gen.slots[spec.Name] = s
			continue
		}
		if s := h.reusable(spec); s != nil {
			gen.slots[spec.Name] = s
			h.rouse(s, true)
			continue
		}
		s, err := newSlot(spec, &h.opts, &h.images, h)
		if err != nil {
			for _, m := range made {
				h.retire(m)
			}
			return nil, err
		}
		made = append(made, s)
		gen.slots[spec.Name] = s
	}
	h.keepRolledBack(gen)
	return gen, nil
}

func (h *Host) reusable(spec Spec) *slot {
	for _, gen := range []*generation{h.next, h.current} {
		if gen == nil {
			continue
		}
		for _, s := range gen.held() {
			if s.spec.key() == spec.key() {
				return s
			}
		}
	}
	return nil
}

// settle waits until all strategies of a generation serve, and switches to it.
func (h *Host) settle(gen *generation) {
	defer h.work.Done()
	for {
		h.mu.Lock()
		if h.next != gen || h.closed {
			h.mu.Unlock()
			return
		}
		if gen.waitsFor(h.current) == "" {
			before := h.current
			gen.trials = h.trials(before, gen)
			h.current, h.next = gen, nil
			h.watch(gen, before)
			h.retireUnused(before)
			h.tell()
			h.mu.Unlock()
			h.opts.Log.Named("strategy").Info("configuration of strategies is in service",
				zap.String("instanceSelection", gen.config.InstanceSelection), zap.String("consolidation", gen.config.Consolidation))
			return
		}
		wait := h.changed
		h.mu.Unlock()
		<-wait
	}
}

// waitsFor is the name of a strategy that has to serve before the generation takes the
// place of another, nil = of nothing; empty if all do. What only watches is not waited for,
// and what does not serve in the other either only where it is given more to do.
func (g *generation) waitsFor(before *generation) string {
	for _, name := range sortedNames(g.slots) {
		s := g.slots[name]
		if g.config.onlyShadow(name) || s.state().serving() || before.serves(s) && !g.burdens(before, name) {
			continue
		}
		return name
	}
	return ""
}

// burdens says whether a strategy that serves in the generation before has more to do in
// this one: a binding, a place in a chain, or anything at all for one that only watched.
func (g *generation) burdens(before *generation, name string) bool {
	for _, kind := range []sdk.Kind{sdk.InstanceSelection, sdk.Consolidation} {
		if g.config.bound(kind) == name && before.config.bound(kind) != name {
			return true
		}
	}
	return before.config.onlyShadow(name) || slices.Contains(g.config.chained(), name) && !slices.Contains(before.config.chained(), name)
}

// retireUnused ends the slots of a generation that no other has. The caller holds mu.
func (h *Host) retireUnused(old *generation) {
	if old == nil {
		return
	}
	for _, s := range old.held() {
		if h.current.has(s) || h.next.has(s) {
			continue
		}
		h.retire(s)
	}
}

func (h *Host) retire(s *slot) {
	h.work.Add(1)
	go func() {
		defer h.work.Done()
		s.retire()
	}()
}

// held is all slots of a generation, each once: those that serve by name, then those
// that did before.
func (g *generation) held() []*slot {
	if g == nil {
		return nil
	}
	var out []*slot
	for _, name := range sortedNames(g.slots) {
		if s := g.slots[name]; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, t := range g.trials {
		if !slices.Contains(out, t.from) {
			out = append(out, t.from)
		}
	}
	return out
}

func (g *generation) has(s *slot) bool { return slices.Contains(g.held(), s) }

// serves says whether a slot answers under some name, and is not only kept.
func (g *generation) serves(s *slot) bool {
	if g == nil {
		return false
	}
	for _, x := range g.slots {
		if x == s {
			return true
		}
	}
	return false
}

// tell wakes everybody who waits for a change. The caller holds mu.
func (h *Host) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *Host) stateChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell()
}

// Settled waits until the last configuration is in service and all of its strategies
// serve. It fails when one of them has failed to start, which the host will try
// again, or when ctx ends.
func (h *Host) Settled(ctx context.Context) error {
	for {
		h.mu.RLock()
		gen, wait := h.next, h.changed
		pending, before := gen != nil, h.current
		if gen == nil {
			gen, before = h.current, nil
		}
		closed := h.closed
		h.mu.RUnlock()
		if closed {
			return errors.New("the strategy host is closed")
		}
		name := gen.waitsFor(before)
		if name == "" && !pending {
			return nil
		}
		if name != "" {
			if st := gen.slots[name].snapshot(); st.State == BackingOff || st.State == Broken {
				return gen.slots[name].startError()
			}
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("waiting for strategy %q: %w", name, ctx.Err())
		}
	}
}

// Close ends all processes after their last calls. Calls that come later are answered
// by the built-ins.
func (h *Host) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		all := h.current.held()
		for _, s := range h.next.held() {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
		for _, x := range h.current.shadows {
			x.end()
		}
		h.current, h.next = &generation{config: h.current.config}, nil
		h.behind.end()
		for _, s := range all {
			h.retire(s)
		}
		h.tell()
	}
	h.mu.Unlock()
	h.work.Wait()
	h.writer.end()
}

// group is the pools of a world that one strategy answers for.
type group struct {
	name  string
	slot  *slot  // entered; nil = not in service
	prior *slot  // entered: the last good version; nil = there is none, or it sleeps
	trial *trial // nil = there is none
	pools []*model.Pool
	// unknown says that no strategy of the name is in service, by the configuration or built in.
	unknown bool
}

// bind groups pools by the strategy that answers for them and enters its slots.
func (h *Host) bind(ctx context.Context, kind sdk.Kind, pools []*model.Pool) []*group {
	annotation := model.AnnotationInstanceSelection
	if kind == sdk.Consolidation {
		annotation = model.AnnotationConsolidation
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	gen := h.generationOf(ctx)
	groups := map[string]*group{}
	for _, p := range pools {
		name := p.Annotations[annotation]
		if name == "" {
			name = gen.config.bound(kind)
		}
		g := groups[name]
		if g == nil {
			g = h.enter(gen, kind, name)
			groups[name] = g
		}
		g.pools = append(g.pools, p)
	}
	out := make([]*group, 0, len(groups))
	for _, name := range sortedNames(groups) {
		out = append(out, groups[name])
	}
	return out
}

// enter makes the group of a name. The caller holds mu.
func (h *Host) enter(gen *generation, kind sdk.Kind, name string) *group {
	g := &group{name: name, slot: gen.slots[name]}
	if g.slot == nil && !h.closed {
		g.slot = h.extra[name]
		g.unknown = g.slot == nil
	}
	if g.slot != nil {
		g.slot.enter()
	}
	if t := gen.trial(kind, name); t != nil {
		g.trial = t
		if t.from.enterAwake() {
			g.prior = t.from
		}
	}
	return g
}

// marketOf is the catalogue of the world, made once for equal offerings.
func (h *Host) marketOf(w *model.World) *market {
	h.mu.RLock()
	m := h.market
	h.mu.RUnlock()
	if m.over(w.Offerings) {
		return m
	}
	old := m
	m = newMarket(w.Offerings)
	if old != nil && old.hashed.Load() {
		if m.hash(); old.catalogue.Hash == m.catalogue.Hash {
			// Equal content in other slices: keep the catalogue that processes hold.
			m.catalogue = old.catalogue
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.market = m
	return m
}

// Price asks the strategies that are bound to the world's pools. It never fails: a
// strategy that does not answer well is replaced by a built-in, and a pool that even
// that has no answer for is left out, which means market prices.
func (h *Host) Price(ctx context.Context, w *model.World) (*model.Prices, error) {
	m := h.marketOf(w)
	out := &model.Prices{ByPool: make(map[string]model.PoolPrices, len(w.Pools))}
	groups := h.bind(ctx, sdk.InstanceSelection, w.Pools)
	answers := make([]map[string]model.PoolPrices, len(groups))
	inParallel(len(groups), func(i int) { answers[i] = h.priceGroup(ctx, m, w, groups[i]) })
	for _, a := range answers {
		maps.Copy(out.ByPool, a)
	}
	if !draftsFollow(groups) {
		h.observe(ctx, m, w, groups, out)
	}
	return out, nil
}

// priceGroup answers by pool, those left out for which nobody had an answer.
func (h *Host) priceGroup(ctx context.Context, m *market, w *model.World, g *group) map[string]model.PoolPrices {
	req := m.priceRequest(w, g.pools)
	p := &pricing{market: m, world: w, name: g.name, how: map[string]Outcome{}, out: make(map[string]model.PoolPrices, len(g.pools)),
		used: &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}}
	h.answer(ctx, g, p.question(req, all(len(req.Pools))))
	return p.out
}

// pricing is the prices of a group's pools, as they come in: what one rung of the ladder has
// no good answer for is asked of the next.
type pricing struct {
	market *market
	world  *model.World
	name   string                      // of the group's strategy
	how    map[string]Outcome          // of the first rung that had no good answer, by pool
	out    map[string]model.PoolPrices // by pool
	used   *sdk.PriceAnswer            // of all pools, whoever answered
}

// question asks about the pools at some positions.
func (p *pricing) question(req *sdk.PriceRequest, at []int) *question {
	var answer *sdk.PriceAnswer
	var why error
	use := func(ans *sdk.PriceAnswer, err error) error {
		answer, why = ans, err
		return err
	}
	return &question{problem: problem{kind: sdk.InstanceSelection, level: LevelPrice, input: req, hash: p.market.hash, world: p.world}, answer: func() any { return p.used },
		remote: func(ctx context.Context, in *instance) error { return use(in.price(ctx, req)) },
		local:  func(ctx context.Context, s sdk.Strategy) error { return use(localPrice(ctx, s, req)) },
		rest: func(who string, how Outcome) *question {
			var open []sdk.Pool
			var where []int
			for i := range req.Pools {
				pool := &req.Pools[i]
				fault := faultOf(why, i)
				if how == OK || answer != nil && fault == nil {
					p.take(pool, &answer.Pools[i], who)
					p.used.Pools[at[i]] = answer.Pools[i]
					continue
				}
				if _, known := p.how[pool.Name]; !known {
					p.how[pool.Name] = ofPart(fault, how)
				}
				open, where = append(open, *pool), append(where, at[i])
			}
			if len(open) == 0 {
				return nil
			}
			next := *req
			next.Pools = open
			return p.question(&next, where)
		}}
}

// take notes a good answer for a pool.
func (p *pricing) take(pool *sdk.Pool, a *sdk.PoolPrices, who string) {
	prices := p.market.poolPrices(p.world, p.name, pool, a)
	prices.Strategy, prices.Outcome = who, string(OK)
	if how, fell := p.how[pool.Name]; fell {
		prices.Outcome = string(how)
	}
	p.out[pool.Name] = prices
}

// Score asks the strategies that are bound to the moves' pools; a move is judged by
// the pool of its first node. It never fails: where nobody has an answer, moves are
// refused, because not moving is safe.
func (h *Host) Score(ctx context.Context, w *model.World, moves []*model.Command) ([]model.MoveScore, error) {
	m := h.marketOf(w)
	pools, byPool := poolsOf(w, moves)
	out := make([]model.MoveScore, len(moves))
	for i := range out {
		out[i] = model.MoveScore{Reason: "no strategy had an answer"}
	}
	groups := h.bind(ctx, sdk.Consolidation, pools)
	inParallel(len(groups), func(i int) {
		defer groups[i].leave()
		var mine []int
		for _, p := range groups[i].pools {
			mine = append(mine, byPool[p.Name]...)
		}
		slices.Sort(mine)
		for chunk := range slices.Chunk(mine, sdk.MaxMoves) {
			h.scoreChunk(ctx, m, w, groups[i], moves, chunk, out)
		}
	})
	h.showMoves(ctx, m, w, moves, out)
	return out, nil
}

// poolsOf lists the pools that judge some moves, and the moves of each.
func poolsOf(w *model.World, moves []*model.Command) ([]*model.Pool, map[string][]int) {
	byPool := map[string][]int{}
	for i, c := range moves {
		byPool[poolOf(c)] = append(byPool[poolOf(c)], i)
	}
	pools := make([]*model.Pool, 0, len(byPool))
	for _, name := range sortedNames(byPool) {
		if p := w.Pool(name); p != nil {
			pools = append(pools, p)
			continue
		}
		pools = append(pools, &model.Pool{Name: name})
	}
	return pools, byPool
}

// scoreChunk fills in the scores of some moves of a group.
func (h *Host) scoreChunk(ctx context.Context, m *market, w *model.World, g *group, moves []*model.Command, chunk []int, out []model.MoveScore) {
	asked := make([]*model.Command, len(chunk))
	for k, i := range chunk {
		asked[k] = moves[i]
	}
	req, err := m.scoreRequest(w, g.pools, asked)
	if err != nil {
		for _, i := range chunk {
			out[i].Reason = err.Error()
		}
		return
	}
	s := &scoring{market: m, out: out, how: map[int]Outcome{}, moves: chunk, used: &sdk.ScoreAnswer{Verdicts: make([]sdk.Verdict, len(chunk))}}
	h.ask(ctx, g, s.question(req, all(len(chunk))))
}

// scoring is the verdicts on moves, as they come in.
type scoring struct {
	market *market
	out    []model.MoveScore // of all moves
	how    map[int]Outcome   // of the first rung that had no good answer, by move
	moves  []int             // that are asked about
	used   *sdk.ScoreAnswer  // of these, whoever answered
}

// question asks about the moves at some positions of those.
func (s *scoring) question(req *sdk.ScoreRequest, at []int) *question {
	var answer *sdk.ScoreAnswer
	var why error
	use := func(ans *sdk.ScoreAnswer, err error) error {
		answer, why = ans, err
		return err
	}
	return &question{problem: problem{kind: sdk.Consolidation, level: LevelScore, input: req, hash: s.market.hash}, answer: func() any { return s.used },
		remote: func(ctx context.Context, in *instance) error { return use(in.score(ctx, req)) },
		local:  func(ctx context.Context, strategy sdk.Strategy) error { return use(localScore(ctx, strategy, req)) },
		rest: func(who string, how Outcome) *question {
			var open, moves []int
			for k, i := range at {
				fault := faultOf(why, k)
				if how == OK || answer != nil && fault == nil {
					s.take(i, answer.Verdicts[k], who)
					continue
				}
				if _, known := s.how[i]; !known {
					s.how[i] = ofPart(fault, how)
				}
				open, moves = append(open, i), append(moves, k)
			}
			if len(open) == 0 {
				return nil
			}
			return s.question(wholeShelf(req.Catalogue).scores(req, moves), open)
		}}
}

// take notes a good verdict on a move.
func (s *scoring) take(i int, v sdk.Verdict, who string) {
	how := OK
	if first, fell := s.how[i]; fell {
		how = first
	}
	s.used.Verdicts[i] = v
	s.out[s.moves[i]] = model.MoveScore{Accept: v.Accept, Score: v.Score, Reason: v.Reason, Strategy: who, Outcome: string(how)}
}

// ofPart is the outcome for one of the things that were asked about.
func ofPart(fault error, of Outcome) Outcome {
	if fault == nil || of == Dead { // the end of a process is known beside its errors
		return of
	}
	return outcome(fault, false)
}

// leave ends the call of a group.
func (g *group) leave() {
	if g.slot != nil {
		g.slot.leave()
	}
	if g.prior != nil {
		g.prior.leave()
	}
}

// inParallel calls f for 0 to n-1 and returns when all have returned.
func inParallel(n int, f func(int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(i)
		}()
	}
	wg.Wait()
}
