package disrupt

import (
	"maps"
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// proposing is the candidates whose moves a strategy finds by itself. What it proposes is
// held against the same rules as what the planner finds: it goes through the replacer.
type proposing struct {
	by     *model.Proposer
	cands  []*Candidate
	of     map[*model.Node]*Candidate
	failed error
	others []model.Blocked // nodes that may not go, and why
}

// proposed splits candidates into those of a proposer's pools and the rest. Drifted nodes
// have to go, which is no matter of taste: they stay the planner's.
func proposed(by *model.Proposer, cands []*Candidate) (*proposing, []*Candidate) {
	if by == nil {
		return nil, cands
	}
	x := &proposing{by: by, of: map[*model.Node]*Candidate{}}
	var rest []*Candidate
	for _, c := range cands {
		if by.Pools[c.Pool.Name] && !slices.Contains(c.Reasons, model.Drifted) {
			x.cands = append(x.cands, c)
			x.of[c.Node] = c
		} else {
			rest = append(rest, c)
		}
	}
	if len(x.cands) == 0 {
		return nil, cands
	}
	return x, rest
}

// propose asks the strategy and makes commands of what is legal. done has what goes before
// it in the same wave.
func (r *replacer) propose(x *proposing, allow *allowances, done map[*model.Pool]int) []model.Command {
	if r.world == nil {
		r.look()
	}
	before := len(done) > 0
	q := r.question(x, allow)
	q.Try = func(list []model.Proposal) []model.Trial {
		sim := &replacer{p: r.p.apart(), prices: r.prices, totals: r.totals, named: maps.Clone(r.named), came: map[*model.Node][]*model.Pod{}, busy: map[*model.Node]bool{}}
		sim.look()
		return sim.proposals(x, list, allow.clone(), before)
	}
	list, err := x.by.Ask(q)
	if err != nil {
		x.failed = err
		return nil
	}
	if r.busy == nil {
		r.busy = map[*model.Node]bool{}
	}
	score := r.score
	r.score = nil // it was the strategy's own idea
	trials := r.proposals(x, list, allow, before)
	r.score = score
	for _, c := range x.cands {
		r.p.stays[c.Node] = no(BlockedStrategy, "the strategy, which finds moves by itself, proposes none for it")
	}
	var out []model.Command
	for i, t := range trials {
		for _, n := range list[i].Remove {
			if x.of[n] == nil || r.p.gone[n] {
				continue
			}
			if t.Refused != nil {
				r.p.stays[n] = no(t.Refused.Reason, "the strategy proposes that it goes: %s", t.Refused.Message)
				r.p.stays[n].Until = t.Refused.Until
			}
		}
		if t.Command == nil {
			continue
		}
		for _, n := range t.Command.Remove {
			delete(r.p.stays, n)
			r.p.gone[n] = true
			done[x.of[n].Pool]++
		}
		c := *t.Command
		c.Wave = 1
		out = append(out, c)
	}
	return out
}

// apart is the planner for a trial, which changes nothing of it.
func (p *planner) apart() *planner {
	c := *p
	c.stays = maps.Clone(p.stays)
	c.mixes = make(map[string][]*mix, len(p.mixes))
	for pool, list := range p.mixes {
		for _, m := range list {
			one := *m
			one.on = maps.Clone(m.on)
			c.mixes[pool] = append(c.mixes[pool], &one)
		}
	}
	return &c
}

func (r *replacer) question(x *proposing, allow *allowances) *model.Proposing {
	q := &model.Proposing{World: r.p.w, Blocked: map[*model.Node]*model.Blocked{}, Free: make(map[*model.Node]resource.Vector, len(r.p.rooms.list))}
	for _, c := range x.cands {
		q.Candidates = append(q.Candidates, model.ProposeCandidate{Node: c.Node, Pods: c.Pods, Cost: c.Cost})
	}
	byID := make(map[string]*model.Blocked, len(x.others))
	for i := range x.others {
		byID[x.others[i].Node] = &x.others[i]
	}
	for _, n := range r.p.w.Nodes {
		if b := byID[n.ID()]; b != nil {
			q.Blocked[n] = b
		}
	}
	for n, b := range r.p.stays {
		q.Blocked[n] = b
	}
	for _, room := range r.p.rooms.list {
		if room.open {
			q.Free[room.node] = room.free
		}
	}
	for _, p := range r.p.w.Pools {
		if !x.by.Pools[p.Name] {
			continue
		}
		for _, reason := range []model.DisruptionReason{model.Empty, model.Underutilized} {
			q.Allowed = append(q.Allowed, model.ProposeBudget{Pool: p.Name, Reason: reason, Nodes: max(allow.left(p, reason).Nodes, 0)})
		}
	}
	return q
}

// proposals tries proposals one after the other, each with the legal ones before it done.
func (r *replacer) proposals(x *proposing, list []model.Proposal, allow *allowances, before bool) []model.Trial {
	out := make([]model.Trial, len(list))
	taken := map[*model.Node]bool{}
	for i, p := range list {
		cmd, why := r.proposal(x, p, allow, taken, before)
		if why != nil {
			out[i].Refused = why
			continue
		}
		for _, n := range p.Remove {
			taken[n] = true
		}
		before = true
		out[i].Command = cmd
	}
	return out
}

// proposal is the command of one proposal, or why it is none.
func (r *replacer) proposal(x *proposing, p model.Proposal, allow *allowances, taken map[*model.Node]bool, before bool) (*model.Command, *model.Blocked) {
	if !r.p.w.Budget.MayImprove() {
		return nil, no(BlockedTime, "the time budget ended before this was looked at")
	}
	group, reason, why := r.asCandidates(x, p, taken)
	if why != nil {
		return nil, why
	}
	pool := group[0].Pool
	if a := allow.left(pool, reason); a.Nodes < len(group) {
		b := budgetBlock(reason, a)
		b.Message += orNothing(a.Nodes, len(group))
		return nil, b
	}
	if before && slices.ContainsFunc(group, func(c *Candidate) bool {
		return r.p.rooms.around.likes != nil || slices.ContainsFunc(r.pods(c), func(p *model.Pod) bool { return !p.Topology.None() })
	}) {
		return nil, no(BlockedReplacement, "its pods ask for others near them, or prefer something: they move while nothing else does; at the next pass")
	}
	if reason == model.Underutilized {
		for i, c := range group {
			if b := r.p.unmixes(c.Node); b != nil {
				for _, done := range group[:i] {
					r.p.back(done.Node)
				}
				return nil, b
			}
			r.p.left(c.Node)
		}
	}
	cmd, why := r.try(&line{pool: pool, reason: reason}, group)
	if why != nil {
		if reason == model.Underutilized {
			for _, c := range group {
				r.p.back(c.Node)
			}
		}
		return nil, why
	}
	cmd.Score = p.Score
	if p.Why != "" {
		cmd.Why += " (" + p.Why + ")"
	}
	allow.use(pool, len(group))
	for _, n := range cmd.Launch {
		allow.launch(n.Pool)
	}
	return cmd, nil
}

// asCandidates is the candidates of a proposal and the reason for which they would go.
func (r *replacer) asCandidates(x *proposing, p model.Proposal, taken map[*model.Node]bool) ([]*Candidate, model.DisruptionReason, *model.Blocked) {
	if len(p.Remove) == 0 || len(p.Remove) > maxTogether {
		return nil, "", no(BlockedStrategy, "%d nodes are to go together, want 1 to %d", len(p.Remove), maxTogether)
	}
	var group []*Candidate
	reason := model.Empty
	for _, n := range p.Remove {
		c := x.of[n]
		switch {
		case c == nil:
			return nil, "", no(BlockedStrategy, "node %s may not go", n.ID())
		case taken[n] || slices.Contains(group, c):
			return nil, "", no(BlockedStrategy, "node %s goes already", n.ID())
		case len(group) > 0 && group[0].Pool != c.Pool:
			return nil, "", no(BlockedStrategy, "nodes %s and %s are of two pools", group[0].Node.ID(), n.ID())
		case r.busy[n] || len(r.guests(n)) > 0:
			return nil, "", no(BlockedReplacement, "node %s takes pods of others that go now", n.ID())
		}
		group = append(group, c)
		if len(c.Pods) > 0 {
			reason = model.Underutilized
		}
	}
	for _, c := range group {
		if !slices.Contains(c.Reasons, reason) {
			return nil, "", no(BlockedPolicy, "node %s may not go as %s", c.Node.ID(), reason)
		}
	}
	// spot nodes first: the rules for their replacement look at the first
	slices.SortStableFunc(group, func(a, b *Candidate) int {
		return rankSpot(a.Node) - rankSpot(b.Node)
	})
	return group, reason, nil
}

func rankSpot(n *model.Node) int {
	if n.CapacityType() == model.Spot {
		return 0
	}
	return 1
}

func orNothing(left, want int) string {
	if left <= 0 {
		return ""
	}
	return "; " + no("", "%d may go, %d are to go together", left, want).Message
}

// back undoes left.
func (p *planner) back(n *model.Node) {
	for _, m := range p.mixes[n.Pool()] {
		m.count(n, 1)
	}
}
