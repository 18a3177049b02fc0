package control

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// Remembering is a planner that does not search again for what it found already. The same
// disruption plan is given again, with a new time on it, while everything that it was made
// from is as it was: the world but for its time, the prices, the options, and what the
// strategy says to the very questions that it was asked. The clock counts as a change at
// the instants that disrupt.Due names. Other plans are made as ever.
//
// A planner that has a strategy answer from the clock is no reason to search: who prices
// or scores differently by the time of day is asked at each pass.
type Remembering struct {
	execute.Planner

	mu   sync.Mutex
	last *pass
	same int
}

// Remember gives a planner a memory of its last disruption plan.
func Remember(p execute.Planner) *Remembering { return &Remembering{Planner: p} }

var _ execute.Planner = (*Remembering)(nil)

// pass is a disruption plan and what it was made from.
type pass struct {
	world  *model.World
	prices *model.Prices
	opts   execute.DisruptOptions
	asked  []question
	plan   *model.Plan
	due    time.Time // from then on the clock may have changed something; zero = never
}

// question is commands that the strategy was asked about, and its answer.
type question struct {
	moves  []*model.Command
	answer []model.MoveScore
}

// Same is how many plans were given again so far.
func (r *Remembering) Same() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.same
}

// Disrupt implements execute.Planner.
func (r *Remembering) Disrupt(w *model.World, prices *model.Prices, score execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Propose != nil { // who finds moves by himself is asked at each pass: his answer cannot be had without the search
		r.last = nil
		return r.Planner.Disrupt(w, prices, score, o)
	}
	if r.last.holds(w, prices, o) {
		same, err := r.last.confirmed(score)
		if err != nil {
			return nil, err
		}
		if same {
			r.same++
			return r.last.again(w.Now), nil
		}
	}
	r.last = nil
	now := &pass{world: w, prices: prices, opts: o}
	now.opts.Running = maps.Clone(o.Running)
	plan, err := r.Planner.Disrupt(w, prices, func(moves []*model.Command) ([]model.MoveScore, error) {
		asked := make([]*model.Command, len(moves))
		for i, m := range moves {
			c := *m
			asked[i] = &c
		}
		answer, err := score(moves)
		now.asked = append(now.asked, question{moves: asked, answer: slices.Clone(answer)})
		return answer, err
	}, o)
	if err != nil || plan == nil || plan.Budget != nil { // a search that was cut short may find more the next time
		return plan, err
	}
	now.due = disrupt.Due(w, disrupt.Options{Nominated: nominated(w)})
	now.plan = plan
	r.last = now
	return now.again(w.Now), nil
}

// holds says whether a pass over the given world would be one over the same facts.
func (p *pass) holds(w *model.World, prices *model.Prices, o execute.DisruptOptions) bool {
	if p == nil || w.Now.Before(p.world.Now) || !p.due.IsZero() && !w.Now.Before(p.due) {
		return false
	}
	was, is := *p.world, *w
	was.Now, is.Now = time.Time{}, time.Time{}
	was.Budget, is.Budget = nil, nil
	// What did not change is the same pointer in both, so this looks into what did only.
	return sameOptions(p.opts, o) && reflect.DeepEqual(&was, &is) && samePrices(p.prices, prices)
}

// samePrices compares price by price: there are thousands for each pool.
func samePrices(a, b *model.Prices) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.EqualFunc(a.ByPool, b.ByPool, func(x, y model.PoolPrices) bool {
		if !slices.Equal(x.Offerings, y.Offerings) {
			return false
		}
		x.Offerings, y.Offerings = nil, nil
		return reflect.DeepEqual(x, y)
	})
}

func sameOptions(a, b execute.DisruptOptions) bool {
	return maps.Equal(a.Running, b.Running) && a.Frozen == b.Frozen && sameHolds(a.Paused, b.Paused) && sameHolds(a.Held, b.Held)
}

// sameHolds compares what holds pools back; none and no map at all are the same.
func sameHolds(a, b map[string]*model.Hold) bool {
	return maps.EqualFunc(a, b, func(x, y *model.Hold) bool { return reflect.DeepEqual(x, y) })
}

// confirmed says whether the strategy answers as it did.
func (p *pass) confirmed(score execute.Scorer) (bool, error) {
	for _, q := range p.asked {
		moves := make([]*model.Command, len(q.moves))
		for i, m := range q.moves {
			c := *m
			moves[i] = &c
		}
		answer, err := score(moves)
		if err != nil {
			return false, err
		}
		if !slices.Equal(answer, q.answer) {
			return false, nil
		}
	}
	return true, nil
}

// again is the plan as it would be made at now. Whoever gets it may write to its fields.
func (p *pass) again(now time.Time) *model.Plan {
	plan := *p.plan
	plan.Made = now
	plan.Commands = slices.Clone(plan.Commands)
	return &plan
}
