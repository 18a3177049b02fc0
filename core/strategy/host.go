package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// Host answers for strategies. It is safe for use from several goroutines.
type Host struct {
	opts   Options
	images images
	work   sync.WaitGroup // settling and retiring

	mu      sync.RWMutex  // guards what follows
	current *generation   // in service
	next    *generation   // not ready yet, nil = none
	changed chan struct{} // closed and replaced whenever something is another
	closed  bool
	market  *market          // of the last call
	extra   map[string]*slot // built-ins in process that annotations name and the configuration does not
}

// generation is a configuration with its strategies.
type generation struct {
	config Config
	slots  map[string]*slot // by name
}

// New makes a host with its first configuration, which is in service at once:
// processes start in the background, and built-ins answer until they are ready.
func New(config Config, opts Options) (*Host, error) {
	h := &Host{opts: opts.withDefaults(), changed: make(chan struct{}), extra: map[string]*slot{}}
	for _, name := range builtin.Names() {
		s, err := newSlot(Spec{Name: name}, &h.opts, &h.images, h.stateChanged)
		if err != nil {
			return nil, err
		}
		h.extra[name] = s
	}
	if err := h.Apply(config); err != nil {
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
	if h.current == nil {
		h.current = gen
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
		if s := h.reusable(spec); s != nil {
			gen.slots[spec.Name] = s
			continue
		}
		s, err := newSlot(spec, &h.opts, &h.images, h.stateChanged)
		if err != nil {
			for _, m := range made {
				h.retire(m)
			}
			return nil, err
		}
		made = append(made, s)
		gen.slots[spec.Name] = s
	}
	return gen, nil
}

func (h *Host) reusable(spec Spec) *slot {
	for _, gen := range []*generation{h.next, h.current} {
		if gen == nil {
			continue
		}
		if s := gen.slots[spec.Name]; s != nil && s.spec.key() == spec.key() {
			return s
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
		if gen.waitsFor() == "" {
			before := h.current
			h.current, h.next = gen, nil
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

// waitsFor is the name of a strategy that does not serve, empty if all do.
func (g *generation) waitsFor() string {
	for _, name := range sortedNames(g.slots) {
		if !g.slots[name].state().serving() {
			return name
		}
	}
	return ""
}

// retireUnused ends the slots of a generation that no other has. The caller holds mu.
func (h *Host) retireUnused(old *generation) {
	if old == nil {
		return
	}
	for _, name := range sortedNames(old.slots) {
		s := old.slots[name]
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

func (g *generation) has(s *slot) bool { return g != nil && g.slots[s.spec.Name] == s }

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
		pending := gen != nil
		if gen == nil {
			gen = h.current
		}
		closed := h.closed
		h.mu.RUnlock()
		if closed {
			return errors.New("the strategy host is closed")
		}
		name := gen.waitsFor()
		if name == "" && !pending {
			return nil
		}
		if name != "" {
			if st := gen.slots[name].snapshot(); st.State == BackingOff || st.State == Broken {
				return fmt.Errorf("strategy %q: %s", name, st.LastError)
			}
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("waiting for strategy %q: %w", name, ctx.Err())
		}
	}
}

// Status tells about all strategies, by name; those of a configuration that is not
// in service yet come last.
func (h *Host) Status() []Status {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []Status
	for _, name := range sortedNames(h.current.slots) {
		st := h.current.slots[name].snapshot()
		st.Role = Serving
		out = append(out, st)
	}
	if h.next == nil {
		return out
	}
	for _, name := range sortedNames(h.next.slots) {
		if s := h.next.slots[name]; !h.current.has(s) {
			st := s.snapshot()
			st.Pending = true
			out = append(out, st)
		}
	}
	return out
}

// Close ends all processes after their last calls. Calls that come later are answered
// by the built-ins.
func (h *Host) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		current, next := h.current, h.next
		h.current = &generation{config: current.config}
		h.next = nil
		h.retireUnused(current)
		if next != nil {
			for name, s := range next.slots {
				if current.slots[name] != s {
					h.retire(s)
				}
			}
		}
		h.tell()
	}
	h.mu.Unlock()
	h.work.Wait()
}

// group is the pools of a world that one strategy answers for.
type group struct {
	name  string
	slot  *slot // entered; nil = not configured
	pools []*model.Pool
}

// bind groups pools by the strategy that answers for them and enters its slots.
func (h *Host) bind(kind sdk.Kind, pools []*model.Pool) []*group {
	annotation := model.AnnotationInstanceSelection
	if kind == sdk.Consolidation {
		annotation = model.AnnotationConsolidation
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	groups := map[string]*group{}
	for _, p := range pools {
		name := p.Annotations[annotation]
		if name == "" {
			if name = h.current.config.InstanceSelection; kind == sdk.Consolidation {
				name = h.current.config.Consolidation
			}
		}
		g := groups[name]
		if g == nil {
			g = &group{name: name, slot: h.current.slots[name]}
			if g.slot == nil && !h.closed {
				g.slot = h.extra[name]
			}
			if g.slot != nil {
				g.slot.enter()
			}
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
	groups := h.bind(sdk.InstanceSelection, w.Pools)
	answers := make([][]model.PoolPrices, len(groups))
	inParallel(len(groups), func(i int) { answers[i] = h.priceGroup(ctx, m, w, groups[i]) })
	for i, g := range groups {
		for k, p := range answers[i] {
			out.ByPool[g.pools[k].Name] = p
		}
	}
	return out, nil
}

// priceGroup answers one entry per pool, or none if nobody could.
func (h *Host) priceGroup(ctx context.Context, m *market, w *model.World, g *group) []model.PoolPrices {
	req := m.priceRequest(w, g.pools)
	var answer *sdk.PriceAnswer
	use := func(ans *sdk.PriceAnswer, err error) error {
		answer = ans
		return err
	}
	who, out := h.answer(ctx, g, &question{kind: sdk.InstanceSelection, level: LevelPrice, input: req, answer: func() any { return answer },
		remote: func(ctx context.Context, in *instance) error {
			m.hash()
			return use(in.price(ctx, req))
		},
		local: func(ctx context.Context, s sdk.Strategy) error { return use(localPrice(ctx, s, req)) }})
	if who == "" {
		return nil
	}
	prices := make([]model.PoolPrices, len(req.Pools))
	for i := range req.Pools {
		prices[i] = m.poolPrices(w, g.name, &req.Pools[i], &answer.Pools[i])
		prices[i].Strategy, prices[i].Outcome = who, string(out)
	}
	return prices
}

// Score asks the strategies that are bound to the moves' pools; a move is judged by
// the pool of its first node. It never fails: where nobody has an answer, moves are
// refused, because not moving is safe.
func (h *Host) Score(ctx context.Context, w *model.World, moves []*model.Command) ([]model.MoveScore, error) {
	m := h.marketOf(w)
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
	out := make([]model.MoveScore, len(moves))
	for i := range out {
		out[i] = model.MoveScore{Reason: "no strategy had an answer"}
	}
	groups := h.bind(sdk.Consolidation, pools)
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
	return out, nil
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
	var ans *sdk.ScoreAnswer
	use := func(a *sdk.ScoreAnswer, err error) error {
		ans = a
		return err
	}
	who, _ := h.ask(ctx, g, &question{kind: sdk.Consolidation, level: LevelScore, input: req, answer: func() any { return ans },
		remote: func(ctx context.Context, in *instance) error {
			m.hash()
			return use(in.score(ctx, req))
		},
		local: func(ctx context.Context, s sdk.Strategy) error { return use(localScore(ctx, s, req)) }})
	if who == "" {
		return
	}
	for k, i := range chunk {
		v := ans.Verdicts[k]
		out[i] = model.MoveScore{Accept: v.Accept, Score: v.Score, Reason: v.Reason}
	}
}

// leave ends the call of a group.
func (g *group) leave() {
	if g.slot != nil {
		g.slot.leave()
	}
}

// answer is ask for a group that makes one call.
func (h *Host) answer(ctx context.Context, g *group, q *question) (string, Outcome) {
	defer g.leave()
	return h.ask(ctx, g, q)
}

// ask lets the group's strategy answer and, if it does not answer well, whoever is on
// the next rung of the ladder. It answers the name and version of who answered, empty
// if nobody did, and how the strategy itself did.
func (h *Host) ask(ctx context.Context, g *group, q *question) (string, Outcome) {
	began := time.Now()
	call := Call{Strategy: g.name, Kind: q.kind, Level: q.level, Rung: ByStrategy, Outcome: Refused, Err: fmt.Errorf("no strategy %q is configured", g.name)}
	for _, p := range g.pools {
		call.Pools = append(call.Pools, p.Name)
	}
	if g.slot != nil {
		call.Version, call.Outcome, call.Err = g.slot.ask(ctx, q)
	}
	call.Took = time.Since(began)
	who := g.name + " " + call.Version
	if call.Outcome != OK {
		who, call.Rung = h.fallBack(g, q)
		call.Fallback = who
		h.opts.Log.Named("strategy").Warn("strategy did not answer, another did", zap.String("strategy", g.name), zap.String("kind", string(q.kind)),
			zap.String("outcome", string(call.Outcome)), zap.Error(call.Err), zap.String("fallback", who), zap.String("rung", string(call.Rung)))
	}
	if g.slot != nil {
		g.slot.count(call)
	}
	h.opts.OnCall(call)
	return who, call.Outcome
}

// fallBack lets the built-in answer, whose name and version it answers. It does not
// listen to the caller's context: built-ins do not block, and there must be an answer.
func (h *Host) fallBack(g *group, q *question) (string, Rung) {
	var strategy sdk.Strategy
	if g.slot != nil {
		strategy = g.slot.fallback[q.kind]
	} else {
		bare := &slot{}
		if err := bare.makeFallback(); err != nil {
			return "", ByNobody
		}
		strategy = bare.fallback[q.kind]
	}
	d := strategy.Describe()
	if err := guarded(func() error { return q.local(context.Background(), strategy) }); err != nil {
		h.opts.Log.Named("strategy").Error("built-in strategy did not answer", zap.String("strategy", d.Name), zap.Error(err))
		return "", ByNobody
	}
	return d.Name + " " + d.Version, ByBuiltin
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
