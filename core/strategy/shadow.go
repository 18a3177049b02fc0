package strategy

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// maxShadowBehind problems of a shadow wait; more are dropped.
const maxShadowBehind = 4

// maxExamples of disagreements are kept of one round of moves.
const maxExamples = 5

// ShadowStatus sums up what a strategy would have done that sees every problem and
// never acts.
type ShadowStatus struct {
	Problems int64 // seen
	Dropped  int64 // not seen because it was behind
	Failures int64 // problems without a good answer
	// P50 and P99 are of the time that its answers took, over the last thousand.
	P50, P99 time.Duration
	// Plans that were compared with those of who acts, USD per hour at the market: the
	// sum of both, and the most that one plan was dearer by.
	Plans            int64
	USDPerHourActing float64
	USDPerHour       float64
	WorstUSDPerHour  float64
	NodesActing      int64
	Nodes            int64
	// Plans that give nodes back which were compared, of shadows that find moves by themselves:
	// what they save in sum, USD per hour.
	MovePlans             int64
	SavedUSDPerHourActing float64
	SavedUSDPerHour       float64
	Verdicts              int64 // on moves
	Disagreements         int64
}

// Difference is what a shadow made of one problem, beside who acts.
type Difference struct {
	Time        time.Time `json:"time"`
	Strategy    string    `json:"strategy"`
	Version     string    `json:"version"`
	Kind        sdk.Kind  `json:"kind"`
	Outcome     Outcome   `json:"outcome"`
	Error       string    `json:"error,omitempty"`
	TookSeconds float64   `json:"tookSeconds"`
	Acting      *PlanCost `json:"acting,omitempty"` // of plans
	Candidate   *PlanCost `json:"candidate,omitempty"`
	// ActingMoves and CandidateMoves are of plans that give nodes back.
	ActingMoves    *MovesGain          `json:"actingMoves,omitempty"`
	CandidateMoves *MovesGain          `json:"candidateMoves,omitempty"`
	Verdicts       int                 `json:"verdicts,omitempty"` // of moves
	Disagreements  int                 `json:"disagreements,omitempty"`
	Examples       []VerdictDifference `json:"examples,omitempty"`
}

// VerdictDifference is a move that one accepts and the other refuses.
type VerdictDifference struct {
	Pool              string   `json:"pool"`
	Reason            string   `json:"reason"` // of the move
	Remove            []string `json:"remove"`
	SavingsUSDPerHour float64  `json:"savingsUsdPerHour"`
	ActingAccepts     bool     `json:"actingAccepts"`
	ActingReason      string   `json:"actingReason,omitempty"`
	CandidateReason   string   `json:"candidateReason,omitempty"`
}

// shadow lets a slot see every problem behind the calls.
type shadow struct {
	name string
	slot *slot
	bg   *background

	mu    sync.Mutex // guards what follows
	sum   ShadowStatus
	tally tally
}

// watchShadows gives every shadow of a generation its background; the same slot keeps
// what it had. The caller holds mu.
func (h *Host) watchShadows(gen, before *generation) {
	var old []*shadow
	if before != nil {
		old = before.shadows
	}
	gen.shadows = nil
	for _, name := range gen.config.Shadow {
		s := gen.slots[name]
		i := slices.IndexFunc(old, func(x *shadow) bool { return x.slot == s })
		if i >= 0 {
			gen.shadows = append(gen.shadows, old[i])
			continue
		}
		gen.shadows = append(gen.shadows, &shadow{name: name, slot: s, bg: newBackground(maxShadowBehind, &h.work)})
	}
	for _, x := range old {
		if !slices.Contains(gen.shadows, x) {
			x.end()
		}
	}
}

func (x *shadow) end() { x.bg.end() }

func (x *shadow) status() *ShadowStatus {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.sum
	out.Dropped = x.bg.dropped.Load()
	out.P50, out.P99 = quantiles(x.tally.took)
	return &out
}

// shadowsOf is who watches the generation of a context.
func (h *Host) shadowsOf(ctx context.Context) []*shadow {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.generationOf(ctx).shadows
}

// showPrices lets shadows price the pools of a world and pack for them, behind the call.
func (h *Host) showPrices(ctx context.Context, m *market, w *model.World, acting *model.Prices) {
	shadows := h.shadowsOf(ctx)
	if len(shadows) == 0 || len(w.Pods) == 0 || len(w.Pools) == 0 {
		return
	}
	costs := h.costsOf(m, w, acting)
	for _, x := range shadows {
		x.bg.try(func(ctx context.Context) { h.shadowPrices(ctx, x, w, costs) })
	}
}

func (h *Host) shadowPrices(ctx context.Context, x *shadow, w *model.World, c *costs) {
	if !h.enterShadow(x, sdk.InstanceSelection) {
		return
	}
	defer x.slot.leave()
	prices, out, took, err := c.with(ctx, x.slot, w.Pools, w.Pools)
	d := x.difference(sdk.InstanceSelection, out, took, err)
	if prices != nil && h.opts.Cost != nil {
		acting, errActing := c.acting()
		candidate, errCandidate := c.of(prices)
		switch {
		case errActing != nil:
			d.Error = "plan of who acts: " + errActing.Error()
		case errCandidate != nil:
			d.Error = "plan: " + errCandidate.Error()
		default:
			d.Acting, d.Candidate = &acting, &candidate
		}
	}
	if ctx.Err() == nil {
		h.note(x, d, took, err)
	}
}

// showMoves lets shadows judge moves, behind the call.
func (h *Host) showMoves(ctx context.Context, m *market, w *model.World, moves []*model.Command, acting []model.MoveScore) {
	shadows := h.shadowsOf(ctx)
	if len(shadows) == 0 || len(moves) == 0 {
		return
	}
	// The planner goes on with its own.
	acting = slices.Clone(acting)
	copies := make([]model.Command, len(moves))
	mine := make([]*model.Command, len(moves))
	for i, c := range moves {
		copies[i] = *c
		mine[i] = &copies[i]
	}
	for _, x := range shadows {
		x.bg.try(func(ctx context.Context) { h.shadowMoves(ctx, x, m, w, mine, acting) })
	}
}

func (h *Host) shadowMoves(ctx context.Context, x *shadow, m *market, w *model.World, moves []*model.Command, acting []model.MoveScore) {
	if !h.enterShadow(x, sdk.Consolidation) {
		return
	}
	defer x.slot.leave()
	pools, _ := poolsOf(w, moves)
	began := time.Now()
	var verdicts []sdk.Verdict
	out, err := OK, error(nil)
	for chunk := range slices.Chunk(moves, sdk.MaxMoves) {
		var req *sdk.ScoreRequest
		if req, err = m.scoreRequest(w, pools, chunk); err != nil {
			return // those who act were not asked either
		}
		var kept any
		if _, out, err = x.slot.ask(ctx, problem{kind: sdk.Consolidation, level: LevelScore, input: req, hash: m.hash}.about(&kept)); out != OK {
			break
		}
		verdicts = append(verdicts, kept.(*sdk.ScoreAnswer).Verdicts...)
	}
	took := time.Since(began)
	d := x.difference(sdk.Consolidation, out, took, err)
	if out == OK {
		d.Verdicts = len(verdicts)
		for i, v := range verdicts {
			if v.Accept != acting[i].Accept {
				d.disagree(moves[i], acting[i], v)
			}
		}
	}
	if ctx.Err() == nil {
		h.note(x, d, took, err)
	}
}

func (d *Difference) disagree(c *model.Command, acting model.MoveScore, v sdk.Verdict) {
	if d.Disagreements++; len(d.Examples) >= maxExamples {
		return
	}
	e := VerdictDifference{Pool: poolOf(c), Reason: string(c.Reason), SavingsUSDPerHour: c.Before - c.After,
		ActingAccepts: acting.Accept, ActingReason: acting.Reason, CandidateReason: v.Reason}
	for _, n := range c.Remove {
		e.Remove = append(e.Remove, n.ID())
	}
	d.Examples = append(d.Examples, e)
}

// enterShadow enters the slot of a shadow that is still one, unless it has nothing to
// say about the kind.
func (h *Host) enterShadow(x *shadow, kind sdk.Kind) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !slices.Contains(h.current.shadows, x) || x.slot.foreign(kind) {
		return false
	}
	x.slot.enter()
	return true
}

// foreign says that a slot is known not to serve a kind. Of a chain the caller holds the
// mu of its host.
func (s *slot) foreign(kind sdk.Kind) bool {
	if c, ok := s.local.(*chain); ok {
		return c.foreign(kind)
	}
	if s.local != nil {
		_, prices := s.local.(sdk.Pricer)
		_, scores := s.local.(sdk.Scorer)
		return kind == sdk.InstanceSelection && !prices || kind == sdk.Consolidation && !scores
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.manifest != nil && !s.manifest.Serves(kind)
}

func (x *shadow) difference(kind sdk.Kind, out Outcome, took time.Duration, err error) *Difference {
	x.slot.mu.Lock()
	version := x.slot.status.Version
	x.slot.mu.Unlock()
	d := &Difference{Time: time.Now().UTC(), Strategy: x.name, Version: version, Kind: kind, Outcome: out, TookSeconds: took.Seconds()}
	if err != nil {
		d.Error = err.Error()
	}
	return d
}

// note sums a difference up and records it.
func (h *Host) note(x *shadow, d *Difference, took time.Duration, err error) {
	x.mu.Lock()
	x.tally.add(Call{Outcome: d.Outcome, Took: took, Err: err}, d.Time)
	s := &x.sum
	s.Problems++
	if d.Outcome != OK {
		s.Failures++
	}
	if d.Acting != nil {
		s.Plans++
		s.USDPerHourActing += d.Acting.USDPerHour
		s.USDPerHour += d.Candidate.USDPerHour
		s.WorstUSDPerHour = max(s.WorstUSDPerHour, d.Candidate.USDPerHour-d.Acting.USDPerHour)
		s.NodesActing += int64(d.Acting.Nodes)
		s.Nodes += int64(d.Candidate.Nodes)
	}
	if d.ActingMoves != nil {
		s.MovePlans++
		s.SavedUSDPerHourActing += d.ActingMoves.SavedUSDPerHour
		s.SavedUSDPerHour += d.CandidateMoves.SavedUSDPerHour
	}
	s.Verdicts += int64(d.Verdicts)
	s.Disagreements += int64(d.Disagreements)
	x.mu.Unlock()
	x.slot.count(Call{Outcome: d.Outcome, Took: took, Err: err, Rung: ByNobody})
	h.writer.difference(d)
}
