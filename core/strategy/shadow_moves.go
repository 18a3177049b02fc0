package strategy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// MovesGain is what a plan that gives nodes back comes to.
type MovesGain struct {
	Removed         int     `json:"removed"`  // nodes that go
	Launched        int     `json:"launched"` // in their place
	SavedUSDPerHour float64 `json:"savedUsdPerHour"`
}

func gainOf(p *model.Plan) MovesGain {
	var g MovesGain
	for i := range p.Commands {
		c := &p.Commands[i]
		g.Removed, g.Launched = g.Removed+len(c.Remove), g.Launched+len(c.Launch)
		g.SavedUSDPerHour += c.Before - c.After
	}
	return g
}

// Replan makes a plan that gives nodes back of the same world, options and prices as one
// that was made, with moves by others and verdicts by others. It changes nothing of them.
type Replan func(*model.Proposer, func([]*model.Command) ([]model.MoveScore, error)) (*model.Plan, error)

// ShowMoves lets shadows that find moves by themselves do so for all pools, behind a plan
// that gives nodes back, and has what comes of it compared with that plan.
func (h *Host) ShowMoves(w *model.World, acting *model.Plan, again Replan) {
	h.mu.RLock()
	shadows := h.current.shadows
	h.mu.RUnlock()
	gain := gainOf(acting)
	for _, x := range shadows {
		if x.slot.serves(sdk.Consolidation, LevelPropose) {
			x.bg.try(func(ctx context.Context) { h.shadowProposals(ctx, x, w, gain, again) })
		}
	}
}

func (h *Host) shadowProposals(ctx context.Context, x *shadow, w *model.World, acting MovesGain, again Replan) {
	if !h.enterShadow(x, sdk.Consolidation) {
		return
	}
	defer x.slot.leave()
	m := h.marketOf(w)
	by := &model.Proposer{Pools: map[string]bool{}}
	for _, p := range w.Pools {
		by.Pools[p.Name] = true
	}
	out, took, failed := OK, time.Duration(0), error(nil)
	asked := false
	by.Ask = func(q *model.Proposing) ([]model.Proposal, error) {
		asked = true
		found := m.finding(ctx, q, q.World.Pools)
		began := time.Now()
		_, how, err := x.slot.ask(ctx, found.question)
		took += time.Since(began)
		if how != OK {
			out, failed = how, err
			return nil, err
		}
		return found.moves, nil
	}
	plan, err := again(by, func(moves []*model.Command) ([]model.MoveScore, error) { return x.slot.verdicts(ctx, m, w, moves) })
	if !asked || ctx.Err() != nil {
		return // there was nothing that could go
	}
	d := x.difference(sdk.Consolidation, out, took, failed)
	switch {
	case failed != nil:
	case err != nil:
		d.Error = "plan: " + err.Error()
	default:
		candidate := gainOf(plan)
		d.ActingMoves, d.CandidateMoves = &acting, &candidate
	}
	h.note(x, d, took, failed)
}

// verdicts is what a slot, which is entered, says of the moves that it did not find.
func (s *slot) verdicts(ctx context.Context, m *market, w *model.World, moves []*model.Command) ([]model.MoveScore, error) {
	pools, _ := poolsOf(w, moves)
	var out []model.MoveScore
	for chunk := range slices.Chunk(moves, sdk.MaxMoves) {
		req, err := m.scoreRequest(w, pools, chunk)
		if err != nil {
			return nil, err
		}
		var kept any
		_, how, err := s.ask(ctx, problem{kind: sdk.Consolidation, level: LevelScore, input: req, hash: m.hash}.about(&kept))
		if how != OK {
			return nil, errors.Join(errors.New("verdicts: "+string(how)), err)
		}
		for _, v := range kept.(*sdk.ScoreAnswer).Verdicts {
			out = append(out, model.MoveScore{Accept: v.Accept, Score: v.Score, Reason: v.Reason})
		}
	}
	return out, nil
}
