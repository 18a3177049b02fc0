package execute

import (
	"time"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/model"
)

// gate lets so many evictions of the pods of one PodDisruptionBudget through as the budget
// allows by what was seen of it, all drains together: without it each of a thousand pods that
// wait for the same budget would ask by itself, and nearly all of the answers would be no.
// What was seen may be late, so that where it allows none one pod at a time asks all the same.
type gate struct {
	seen    *model.PDB // what left was read from
	left    int        // evictions that it allows yet
	asking  int        // that are not answered yet
	refused int        // in a row
	next    time.Time  // of the next try where none is left
	trying  string     // uid of the pod that asks although none is left
	waiting []string   // claims whose drain waits, in the order in which they came
	waits   map[string]bool
}

// evicting is an eviction that is not answered yet.
type evicting struct {
	budget  string // namespace/name
	counted bool   // against what the budget has left
}

// gateOf is the gate of a budget, up to date with what was seen of it last.
func (x *Executor) gateOf(b *model.PDB) *gate {
	key := b.Namespace + "/" + b.Name
	g := x.gates[key]
	if g == nil {
		g = &gate{waits: map[string]bool{}}
		x.gates[key] = g
	}
	g.read(b)
	return g
}

func (g *gate) read(b *model.PDB) {
	if g.seen == b {
		return
	}
	g.seen, g.left = b, max(0, int(b.DisruptionsAllowed)-g.asking)
	if g.left > 0 {
		g.refused, g.next = 0, time.Time{}
	}
}

// admits says for the drains of a claim whether a pod may be evicted now, and if not when to
// ask again at the latest, zero where the gate wakes the drain. urgent drains, which have a
// machine that AWS takes, do not wait: their pods ask as often as they may.
func (x *Executor) admits(claim string, urgent bool) func(*model.Pod) (bool, time.Time) {
	return func(p *model.Pod) (bool, time.Time) {
		b := x.onlyBudget(p)
		if b == nil {
			return true, time.Time{}
		}
		if _, asked := x.evicting[p.UID]; asked {
			return false, time.Time{} // not answered yet
		}
		g := x.gateOf(b)
		e := evicting{budget: b.Namespace + "/" + b.Name}
		switch {
		case g.left > 0:
			e.counted = true
			if g.left--; g.left == 0 {
				g.next = x.now.Add(drain.Poll) // until then what these do to the budget is seen
			}
		case urgent:
		case g.asking == 0 && !x.now.Before(g.next):
			g.trying = p.UID
		default:
			if !g.waits[claim] {
				g.waits[claim] = true
				g.waiting = append(g.waiting, claim)
			}
			if g.asking > 0 {
				return false, time.Time{}
			}
			return false, g.next
		}
		g.asking++
		x.evicting[p.UID] = e
		return true, time.Time{}
	}
}

// onlyBudget is the budget that an eviction of the pod is counted against, nil where there
// is none: pods that are not ready may go by other rules, and under two budgets none goes.
func (x *Executor) onlyBudget(p *model.Pod) *model.PDB {
	if !p.Ready {
		return nil
	}
	var only *model.PDB
	for _, b := range x.m.PDBs() {
		if !b.Covers(p) {
			continue
		}
		if only != nil {
			return nil
		}
		only = b
	}
	return only
}

// notAsked takes back that a pod was let through.
func (x *Executor) notAsked(p *model.Pod) {
	g, e := x.takeAsked(p)
	switch {
	case g == nil:
	case e.counted:
		g.left++
	case g.trying == p.UID:
		g.trying = ""
	}
}

func (x *Executor) takeAsked(p *model.Pod) (*gate, evicting) {
	e, ok := x.evicting[p.UID]
	if !ok {
		return nil, e
	}
	delete(x.evicting, p.UID)
	g := x.gates[e.budget]
	if g != nil {
		g.asking--
	}
	return g, e
}

// gateAnswered takes in what the eviction of a pod was answered.
func (x *Executor) gateAnswered(p *model.Pod, o drain.Outcome) {
	g, _ := x.takeAsked(p)
	if g == nil {
		return
	}
	switch o {
	case drain.Accepted:
		if g.refused = 0; g.trying == p.UID {
			g.next = time.Time{} // what is seen of the budget is late, or nobody keeps its status
		}
	case drain.Blocked:
		g.left = 0
		g.next = x.now.Add(min(drain.Poll<<min(g.refused, 4), drain.MaxBackoff))
		g.refused++
	}
	if g.trying == p.UID {
		g.trying = ""
	}
	x.letThrough(g)
}

// stepGates looks at what has become of the budgets that drains wait for.
func (x *Executor) stepGates() {
	for key, g := range x.gates {
		b := x.m.PDB(key)
		if b == nil {
			if g.left = len(g.waiting); g.asking == 0 {
				delete(x.gates, key)
			}
		} else {
			g.read(b)
		}
		x.letThrough(g)
	}
}

// letThrough has as many of the drains that wait look again as may evict a pod now. What they do
// not use is used by others at their next look, at the latest after drain.Poll.
func (x *Executor) letThrough(g *gate) {
	n := g.left
	if n == 0 && g.asking == 0 && !x.now.Before(g.next) {
		n = 1
	}
	n = min(n, len(g.waiting))
	for _, name := range g.waiting[:n] {
		delete(g.waits, name)
		if t := x.tracks[name]; t != nil {
			t.due(x.now)
		}
	}
	g.waiting = g.waiting[n:]
}
