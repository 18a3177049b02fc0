package disrupt

import (
	"maps"

	"github.com/weir-project/weir/core/model"
)

// allowances keep count of what the budgets of all pools still allow while a plan
// is laid out. All reasons draw on the same count of disrupted nodes.
type allowances struct {
	w     *model.World
	count map[string]counted
	known map[asked]Allowance // answers that were given: schedules take their time
}

// asked is all that an answer depends on.
type asked struct {
	pool        string
	reason      model.DisruptionReason
	total, lost int
}

type counted struct {
	total   int
	lost    int // not usable, or in a command: of this plan or running
	leaving int // those of lost that will be gone after the first wave
	coming  int // bought in this wave: they count once they are there
}

func newAllowances(w *model.World, opts Options) *allowances {
	a := &allowances{w: w, count: map[string]counted{}, known: map[asked]Allowance{}}
	for _, n := range w.Nodes {
		if !counts(n) {
			continue
		}
		c := a.count[n.Pool()]
		c.total++
		gone := n.BeingRemoved() || opts.Running[n.ID()]
		if gone {
			c.leaving++
		}
		if gone || !n.Ready {
			c.lost++
		}
		a.count[n.Pool()] = c
	}
	return a
}

func (a *allowances) clone() *allowances {
	return &allowances{w: a.w, count: maps.Clone(a.count), known: a.known}
}

func (a *allowances) left(p *model.Pool, r model.DisruptionReason) Allowance {
	c := a.count[p.Name]
	q := asked{p.Name, r, c.total, c.lost}
	if x, ok := a.known[q]; ok {
		return x
	}
	x := Allowed(p, r, c.total, c.lost, a.w.Now)
	a.known[q] = x
	return x
}

// use counts n more nodes of the pool as disrupted.
func (a *allowances) use(p *model.Pool, n int) {
	c := a.count[p.Name]
	c.lost += n
	a.count[p.Name] = c
}

// launch counts one more node of the pool.
func (a *allowances) launch(p *model.Pool) {
	c := a.count[p.Name]
	c.coming++
	a.count[p.Name] = c
}

// finish ends a wave: what it took, and what was on its way out before, is gone.
func (a *allowances) finish(done map[*model.Pool]int) {
	for p, n := range done {
		c := a.count[p.Name]
		c.total -= n
		c.lost -= n
		a.count[p.Name] = c
	}
	for name, c := range a.count {
		c.total -= c.leaving
		c.lost -= c.leaving
		c.total += c.coming
		c.leaving, c.coming = 0, 0
		a.count[name] = c
	}
}

// withinBudget takes out the candidates that no wave could ever take, so that they
// count as destinations: neither now, nor once what is on its way out is gone.
func withinBudget(w *model.World, opts Options, cands []*Candidate, stays verdicts) []*Candidate {
	now := newAllowances(w, opts)
	later := now.clone()
	later.finish(nil)
	type question struct {
		pool   string
		reason model.DisruptionReason
	}
	known := map[question]Allowance{}
	var out []*Candidate
	for _, c := range cands {
		var reasons []model.DisruptionReason
		var b *model.Blocked
		for _, r := range c.Reasons {
			q := question{c.Pool.Name, r}
			a, ok := known[q]
			if !ok {
				a = now.left(c.Pool, r)
				if a.Nodes <= 0 && opts.Waves {
					if l := later.left(c.Pool, r); l.Nodes > 0 {
						a = l
					}
				}
				known[q] = a
			}
			if a.Nodes > 0 {
				reasons = append(reasons, r)
			} else if b == nil {
				b = budgetBlock(r, a)
			}
		}
		if len(reasons) == 0 {
			stays[c.Node] = b
			continue
		}
		narrowed := *c
		narrowed.Reasons = reasons
		out = append(out, &narrowed)
	}
	return out
}
