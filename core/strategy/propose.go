package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/plugins/sdk"
)

// maxSimulations is how many moves one call of Propose may have tried.
const maxSimulations = 1000

// Proposer answers the strategies that find moves by themselves for pools of the world,
// nil where none does. Where one of them does not answer well, its pools go by what it says
// of the planner's moves: the call names the outcome.
func (h *Host) Proposer(ctx context.Context, w *model.World) *model.Proposer {
	out := &model.Proposer{Pools: map[string]bool{}}
	for _, g := range h.bind(ctx, sdk.Consolidation, w.Pools) {
		if g.slot != nil && g.slot.serves(sdk.Consolidation, LevelPropose) {
			for _, p := range g.pools {
				out.Pools[p.Name] = true
			}
		}
		g.leave()
	}
	if len(out.Pools) == 0 {
		return nil
	}
	out.Ask = func(q *model.Proposing) ([]model.Proposal, error) { return h.propose(ctx, q, out.Pools) }
	return out
}

// propose asks everybody whose pools are named.
func (h *Host) propose(ctx context.Context, q *model.Proposing, names map[string]bool) ([]model.Proposal, error) {
	var pools []*model.Pool
	for _, p := range q.World.Pools {
		if names[p.Name] {
			pools = append(pools, p)
		}
	}
	groups := h.bind(ctx, sdk.Consolidation, pools)
	defer func() {
		for _, g := range groups {
			g.leave()
		}
	}()
	one, found, errs := *q, make([][]model.Proposal, len(groups)), make([]error, len(groups))
	var trying sync.Mutex // the planner tries moves one after the other
	one.Try = func(list []model.Proposal) []model.Trial {
		trying.Lock()
		defer trying.Unlock()
		return q.Try(list)
	}
	inParallel(len(groups), func(i int) { found[i], errs[i] = h.proposeGroup(ctx, &one, groups[i]) })
	out := &model.PartlyProposed{Pools: map[string]bool{}, Err: errors.Join(errs...)}
	for i, g := range groups {
		if errs[i] != nil {
			continue
		}
		out.Proposals = append(out.Proposals, found[i]...)
		for _, p := range g.pools {
			out.Pools[p.Name] = true
		}
	}
	switch {
	case out.Err == nil:
		return out.Proposals, nil
	case len(out.Pools) == 0:
		return nil, out.Err
	}
	return nil, out
}

func (h *Host) proposeGroup(ctx context.Context, q *model.Proposing, g *group) ([]model.Proposal, error) {
	if g.slot == nil {
		return nil, fmt.Errorf("no strategy %q is configured", g.name)
	}
	found := h.marketOf(q.World).finding(ctx, q, g.pools)
	_, outcome := h.askLevel(ctx, g, g.pools, found.question)
	if outcome != OK {
		return nil, fmt.Errorf("strategy %q found no moves: %s", g.name, outcome)
	}
	return found.moves, nil
}

// finding is a question for moves of some pools, and the checked answer where it came.
type finding struct {
	question *question
	moves    []model.Proposal
}

func (m *market) finding(ctx context.Context, q *model.Proposing, pools []*model.Pool) *finding {
	world, out := m.proposeWorld(q, pools), &finding{}
	input := &Proposing{World: world}
	simulate := input.noting(m.simulate(ctx, q))
	var kept *sdk.Proposal
	use := func(p *sdk.Proposal, err error) error {
		kept = p
		if err != nil {
			return err
		}
		out.moves = proposals(q, p.Moves)
		return nil
	}
	out.question = &question{
		answer: func() any { return kept },
		problem: problem{kind: sdk.Consolidation, level: LevelPropose, input: input, hash: m.hash,
			serves: func(x *sdk.Manifest) bool { return x.ServesLevel(sdk.Consolidation, LevelPropose) }},
		remote: func(ctx context.Context, in *instance) error {
			if len(world.Nodes) > sdk.MaxNodes {
				return &refusal{fmt.Sprintf("%d nodes are more than a strategy is asked about", len(world.Nodes))}
			}
			return use(in.propose(ctx, world, simulate))
		},
		local: func(ctx context.Context, s sdk.Strategy) error {
			return use(localPropose(ctx, s, world, simulate))
		}}
	return out
}

// proposals is checked moves in the model's words.
func proposals(q *model.Proposing, moves []sdk.ProposedMove) []model.Proposal {
	out := make([]model.Proposal, len(moves))
	for i, v := range moves {
		out[i] = model.Proposal{Score: v.Score, Why: v.Why}
		for _, k := range v.Remove {
			out[i].Remove = append(out[i].Remove, q.World.Nodes[k])
		}
	}
	return out
}

// simulate tells what the planner would make of moves.
func (m *market) simulate(ctx context.Context, q *model.Proposing) sdk.Simulate {
	return func(moves []sdk.ProposedMove) ([]sdk.Trial, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out := make([]sdk.Trial, len(moves))
		for i, t := range q.Try(proposals(q, moves)) {
			if t.Refused != nil {
				out[i] = sdk.Trial{Reason: t.Refused.Reason, Message: t.Refused.Message}
				continue
			}
			c := t.Command
			out[i] = sdk.Trial{Legal: true, USDPerHourBefore: c.Before, USDPerHourAfter: c.After, USDPerHourWorst: c.Worst, PodsEvicted: c.PodsEvicted}
			for _, n := range c.Launch {
				if o, ok := m.index[offeringKey(n.Pool.NodeClass.Name, n.Offering)]; ok {
					out[i].Launch = append(out[i].Launch, sdk.LaunchedNode{Offering: o, USDPerHour: n.Offering.USDPerHour})
				}
			}
		}
		return out, nil
	}
}

// propose asks for moves; the client checks their form.
func (in *instance) propose(ctx context.Context, whole *sdk.ProposeWorld, simulate sdk.Simulate) (*sdk.Proposal, error) {
	on, w, err := in.laidOut(whole.Catalogue).cutWorld(whole)
	if err != nil {
		return nil, err
	}
	var ans *sdk.Proposal
	err = in.withCatalogue(ctx, w.Catalogue, func(ctx context.Context) (err error) {
		ans, err = in.client.Propose(ctx, w, on.trials(simulate))
		return err
	})
	return ans, err
}

// localPropose lets a strategy answer in process, under the same checks.
func localPropose(ctx context.Context, strategy sdk.Strategy, w *sdk.ProposeWorld, simulate sdk.Simulate) (*sdk.Proposal, error) {
	proposer, ok := strategy.(sdk.Proposer)
	if !ok {
		return nil, &refusal{fmt.Sprintf("%s does not serve level propose", strategy.Describe().Name)}
	}
	var mu sync.Mutex
	left := w.MaxSimulations
	ans, err := proposer.Propose(ctx, w, func(moves []sdk.ProposedMove) ([]sdk.Trial, error) {
		mu.Lock()
		defer mu.Unlock()
		if left -= max(len(moves), 1); left < 0 {
			return nil, fmt.Errorf("more than %d simulations", w.MaxSimulations)
		}
		if err := sdk.CheckMoves(w, moves); err != nil {
			return nil, err
		}
		return simulate(moves)
	})
	switch {
	case err != nil && errors.Is(err, ctx.Err()):
		return nil, err
	case err != nil:
		return nil, &refusal{err.Error()}
	case ans == nil:
		return nil, errEmpty
	}
	if err := sdk.CheckMoves(w, ans.Moves); err != nil {
		return nil, invalid("%w", err)
	}
	return ans, nil
}

// proposeWorld is the cluster for the strategy of some pools.
func (m *market) proposeWorld(q *model.Proposing, pools []*model.Pool) *sdk.ProposeWorld {
	w := q.World
	out := &sdk.ProposeWorld{Catalogue: m.catalogue, Now: w.Now, USDPerHour: m.priceRequest(w, nil).USDPerHour, Pools: m.pools(w, pools),
		Nodes: make([]sdk.Node, len(w.Nodes)), MaxSimulations: maxSimulations}
	position := map[string]int{}
	for i, p := range pools {
		position[p.Name] = i
	}
	cands := make(map[*model.Node]*model.ProposeCandidate, len(q.Candidates))
	for i := range q.Candidates {
		cands[q.Candidates[i].Node] = &q.Candidates[i]
	}
	for i, n := range w.Nodes {
		x := sdk.Node{Name: n.ID(), Pool: -1, Offering: -1, Age: w.Now.Sub(n.Created), Free: amounts(q.Free[n])}
		if n.PriceKnown {
			x.USDPerHour = n.USDPerHour
		}
		if p := w.Pool(n.Pool()); p != nil {
			x.Offering = m.find(p.NodeClass.Name, n)
		}
		if k, ok := position[n.Pool()]; ok && n.Managed() {
			x.Pool = k
		}
		if c := cands[n]; c != nil && x.Pool >= 0 {
			x.Removable, x.DisruptionCost, x.Pods = true, c.Cost, len(c.Pods)
			var sum resource.Vector
			for _, p := range c.Pods {
				sum = sum.Add(p.Requests)
			}
			x.Requests = amounts(sum)
		} else {
			x.Pods, x.Blocked = reschedulable(n), "NotACandidate"
			if b := q.Blocked[n]; b != nil {
				x.Blocked = b.Reason
			}
		}
		out.Nodes[i] = x
	}
	for _, b := range q.Allowed {
		if k, ok := position[b.Pool]; ok {
			out.Budgets = append(out.Budgets, sdk.Budget{Pool: k, Reason: string(b.Reason), Nodes: b.Nodes})
		}
	}
	slices.SortStableFunc(out.Budgets, func(a, b sdk.Budget) int { return a.Pool - b.Pool })
	return out
}
