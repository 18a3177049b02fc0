package strategy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weir-project/weir/plugins/sdk"
)

// ReasonNotRecorded is why a move is not legal that a strategy asks about when a question
// is put to it again: nobody had asked the planner about it then.
const ReasonNotRecorded = "NotRecorded"

// Proposing is a question at level propose: the cluster, and what the planner made of the
// moves that the strategy asked about. It is safe for concurrent use.
type Proposing struct {
	World *sdk.ProposeWorld

	mu        sync.Mutex // guards what follows
	simulated []Simulation
	missing   int // moves that were asked about again and are in no simulation
}

// Simulation is moves, each meant with the legal ones before it done, and what would become
// of each.
type Simulation struct {
	Moves  []sdk.ProposedMove `json:"moves"`
	Trials []sdk.Trial        `json:"trials"`
}

// proposingLine is a Proposing in a file.
type proposingLine struct {
	World     *sdk.ProposeWorld `json:"world"` // without its catalogue
	Simulated []Simulation      `json:"simulated"`
}

// noting is a simulator whose answers are kept.
func (p *Proposing) noting(simulate sdk.Simulate) sdk.Simulate {
	return func(moves []sdk.ProposedMove) ([]sdk.Trial, error) {
		trials, err := simulate(moves)
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.simulated = append(p.simulated, Simulation{Moves: slices.Clone(moves), Trials: slices.Clone(trials)})
		}
		return trials, err
	}
}

// line is what is written of it.
func (p *Proposing) line() *proposingLine {
	p.mu.Lock()
	defer p.mu.Unlock()
	bare := *p.World
	bare.Catalogue = nil
	return &proposingLine{World: &bare, Simulated: slices.Clone(p.simulated)}
}

// again is a simulator that answers what was simulated. A move that nobody had asked about
// is not legal, and counted.
func (p *Proposing) again() sdk.Simulate {
	known := map[string]sdk.Trial{}
	p.mu.Lock()
	p.missing = 0
	for _, s := range p.simulated {
		walk(s.Moves, func(i int, key string) bool {
			known[key] = s.Trials[i]
			return s.Trials[i].Legal
		})
	}
	p.mu.Unlock()
	return func(moves []sdk.ProposedMove) ([]sdk.Trial, error) {
		out := make([]sdk.Trial, len(moves))
		missing := 0
		walk(moves, func(i int, key string) bool {
			trial, ok := known[key]
			if !ok {
				missing++
				trial = sdk.Trial{Reason: ReasonNotRecorded, Message: "nobody asked about this move when the question was recorded"}
			}
			out[i] = trial
			return trial.Legal
		})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.missing += missing
		return out, nil
	}
}

// walk calls f for each move with a key that names it and the legal ones before it; f says
// whether the move is legal.
func walk(moves []sdk.ProposedMove, f func(i int, key string) bool) {
	before := ""
	for i, m := range moves {
		key := before + fmt.Sprint(m.Remove)
		if f(i, key) {
			before = key
		}
	}
}

// notRecorded is how many moves were asked about again without an answer.
func (p *Proposing) notRecorded() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}

// proposing is the question of a line over its catalogue, checked.
func (l *proposingLine) proposing(c *sdk.Catalogue) (*Proposing, error) {
	w := l.World
	if w == nil {
		return nil, errors.New("the world is missing")
	}
	w.Catalogue = c
	n := len(c.Offerings)
	if len(w.USDPerHour) != n || len(w.Nodes) > sdk.MaxNodes {
		return nil, fmt.Errorf("%d prices for %d offerings, %d nodes of at most %d", len(w.USDPerHour), n, len(w.Nodes), sdk.MaxNodes)
	}
	for i, x := range w.Nodes {
		if x.Pool < -1 || x.Pool >= len(w.Pools) || x.Offering < -1 || x.Offering >= n {
			return nil, fmt.Errorf("node %d is of pool %d of %d and offering %d of %d", i, x.Pool, len(w.Pools), x.Offering, n)
		}
		if x.Removable && x.Pool < 0 {
			return nil, fmt.Errorf("node %d may be removed and is of no pool", i)
		}
	}
	for i, b := range w.Budgets {
		if b.Pool < 0 || b.Pool >= len(w.Pools) {
			return nil, fmt.Errorf("budget %d is of pool %d of %d", i, b.Pool, len(w.Pools))
		}
	}
	for i, s := range l.Simulated {
		if len(s.Moves) != len(s.Trials) {
			return nil, fmt.Errorf("simulation %d has %d moves and %d trials", i, len(s.Moves), len(s.Trials))
		}
		if err := sdk.CheckMoves(w, s.Moves); err != nil {
			return nil, fmt.Errorf("simulation %d: %w", i, err)
		}
		for _, t := range s.Trials {
			for _, x := range t.Launch {
				if x.Offering < 0 || x.Offering >= n {
					return nil, fmt.Errorf("simulation %d launches offering %d of %d", i, x.Offering, n)
				}
			}
		}
	}
	return &Proposing{World: w, simulated: l.Simulated}, checkPools(w.Pools, n)
}

// diffProposals compares proposals by the nodes that are to go together.
func diffProposals(p *Proposing, was, is *sdk.Proposal) []Change {
	a, pools := proposedLines(p.World, was)
	b, others := proposedLines(p.World, is)
	for name, pool := range others {
		pools[name] = pool
	}
	var out []Change
	for _, name := range sortedNames(pools) {
		c := Change{Pool: pools[name], What: "removal", Which: name, Was: "not proposed", Is: "not proposed"}
		if text, ok := a[name]; ok {
			c.Was = text
		}
		if text, ok := b[name]; ok {
			c.Is = text
		}
		if c.Was != c.Is {
			out = append(out, c)
		}
	}
	return out
}

// proposedLines is the moves of a proposal, and their pools, by the names of their nodes.
func proposedLines(w *sdk.ProposeWorld, p *sdk.Proposal) (lines, pools map[string]string) {
	lines, pools = map[string]string{}, map[string]string{}
	for i, m := range p.Moves {
		var names []string
		for _, k := range m.Remove {
			names = append(names, w.Nodes[k].Name)
		}
		slices.Sort(names)
		name := strings.Join(names, ", ")
		lines[name] = fmt.Sprintf("number %d with score %.6g (%s)", i+1, m.Score, m.Why)
		pools[name] = w.Pools[w.Nodes[m.Remove[0]].Pool].Name
	}
	return lines, pools
}
