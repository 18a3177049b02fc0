package disrupt

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// maxRounds bounds how often a strategy is asked again after it refused commands.
// A refused node stays, so its room is free for others and the rest is planned anew.
const maxRounds = 8

// Plan says which nodes to give back and where their pods go.
//
// The end state is planned first: nodes are tried one by one, empty ones before
// drifted before under-used ones, and each that goes has all its pods, and those
// the plan had put on it, placed on nodes that stay. So no pod moves twice in one wave,
// and any subset of its commands, in any order, is feasible. In which order under-used
// nodes are tried decides what is left in the end, so several are gone through and
// the cheapest end state is taken. Then the commands are laid out in waves within
// the budgets, best savings ratio (price for each unit of eviction cost) first.
//
// Limits that instance-selection strategies set (prices, nil = none) hold for moves,
// too: no node gets more pods of one workload than they allow, and no under-used node
// goes whose going breaks a share or a variety.
//
// Each node is a command of its own, save for empty ones, which go together: it is
// the smallest unit that a strategy can refuse and that can fail alone.
//
// Under-used and empty nodes of pools whose strategy finds moves by itself
// (opts.Propose) go as it proposes, in the first wave, where that is legal.
func Plan(w *model.World, prices *model.Prices, score Score, opts Options) *model.Plan {
	asked := w
	w, deadline := timed(w)
	plan := &model.Plan{Kind: model.PlanDisrupt, Made: w.Now, Warnings: warnings(w)}
	expired := expiredNodes(w, opts)
	cands, blocked := Candidates(w, opts)
	goes := mayGo(cands, expired)
	plan.Eligible = map[model.DisruptionReason]int{}
	for _, c := range cands {
		for _, r := range c.Reasons {
			plan.Eligible[r]++
		}
	}
	if len(expired) > 0 {
		cands, blocked = withoutExpired(expired, cands, blocked)
	}
	stays := verdicts{}
	cands = withinBudget(w, opts, cands, stays)
	near := newAround(w)
	near.bounds = newStrategyBounds(w, prices, func(n *model.Node) bool { return opts.Running[n.ID()] || slices.Contains(expired, n) })
	candidates := cands
	cands = movable(cands, near, stays)
	if len(candidates)+len(expired) > 0 {
		near.prefer(prices)
	}

	own, cands := proposed(opts.Propose, cands)
	p := settled(w, opts, cands, expired, score, stays, near)
	if p.own = own; own != nil {
		own.others = blocked
		for _, c := range own.cands {
			p.stays[c.Node] = no(BlockedStrategy, "its strategy, which finds moves by itself, is asked at the next pass: pods that are spread move first")
		}
	}
	plan.Commands = append(p.forced, p.waves(newAllowances(w, opts), newReplacer(p, candidates, prices, score))...)
	if own != nil && own.failed != nil {
		opts.Propose = opts.Propose.After(own.failed)
		return Plan(asked, prices, score, opts)
	}
	expiredBudgeted(w, plan)
	for node, b := range p.stays {
		b.Node = node.ID()
		blocked = append(blocked, *b)
	}
	blocked = keepReplicas(w, prices, opts, plan, blocked)
	sort.SliceStable(blocked, func(i, j int) bool { return blocked[i].Node < blocked[j].Node })
	plan.Blocked = blocked
	ended(deadline, plan)
	if opts.Bound && w.Budget.MayPlace() {
		surplus := map[*model.Node]bool{}
		for _, c := range plan.Commands {
			for _, n := range c.Remove {
				surplus[n] = !goes[n]
			}
		}
		plan.LowerBoundUSDPerHour = lowerBound(w, goes, surplus)
	}
	return plan
}

// mayGo is the nodes that something may take away now.
func mayGo(cands []*Candidate, expired []*model.Node) map[*model.Node]bool {
	out := make(map[*model.Node]bool, len(cands)+len(expired))
	for _, c := range cands {
		out[c.Node] = true
	}
	for _, n := range expired {
		out[n] = true
	}
	return out
}

// verdicts say why candidates stay after all.
type verdicts map[*model.Node]*model.Blocked

// settled plans until the strategy agrees to all of it. stays holds why nodes stay
// that are no candidates any more.
func settled(w *model.World, opts Options, cands []*Candidate, expired []*model.Node, score Score, stays verdicts, near *around) *planner {
	orders := rankings(w, cands)
	for range maxRounds {
		var best *planner
		var by ranking
		for _, r := range orders {
			if best != nil && !w.Budget.MayImprove() {
				break
			}
			p := newPlanner(w, opts, cands, expired, stays, near, r)
			p.evacuate(expired)
			p.greedy()
			if best == nil || p.better(best) {
				best, by = p, r
			}
		}
		refused := best.rebought()
		if len(refused) == 0 {
			refused = best.ask(score)
		}
		if len(refused) == 0 {
			return best
		}
		orders = []ranking{by}
		cands = keep(cands, refused, stays)
	}
	// still refusing: what was agreed to in the last round would need another check
	p := newPlanner(w, opts, nil, expired, stays, near, bySavings)
	p.evacuate(expired)
	for _, c := range cands {
		p.stays[c.Node] = no(BlockedStrategy, "the strategy refused other commands %d times over; this one is looked at in the next plan", maxRounds)
	}
	return p
}

// better says whether the end state is cheaper than another one, or as cheap with
// fewer pods moved.
func (p *planner) better(o *planner) bool {
	a, b := p.saved(), o.saved()
	if math.Abs(a-b) > 1e-9 {
		return a > b
	}
	return p.evictions() < o.evictions()
}

func (p *planner) saved() float64 {
	sum := 0.0
	for _, g := range p.going {
		if g.cand.Node.PriceKnown {
			sum += g.cand.Node.USDPerHour
		}
	}
	return sum
}

func (p *planner) evictions() int {
	n := 0
	for _, g := range p.going {
		n += len(g.pods)
	}
	return n
}

// ranking orders candidates: the higher, the sooner a node is tried.
type ranking func(*Candidate) float64

func bySavings(c *Candidate) float64 { return c.Ratio }

// rankings are the orders that are gone through: by savings ratio, and by price for
// what a machine can hold, with CPU and memory weighed in several ways, because
// which of them is scarce decides which machines are worth their price.
func rankings(w *model.World, cands []*Candidate) []ranking {
	out := []ranking{bySavings}
	var cpu, memory float64
	for _, c := range cands {
		cpu += float64(c.Node.Allocatable.Base[resource.CPU])
		memory += float64(c.Node.Allocatable.Base[resource.Memory])
	}
	if cpu <= 0 || memory <= 0 {
		return out
	}
	known := map[string]bool{}
	for _, share := range []float64{0.25, 0.5, 0.65, 0.75, 0.85} {
		by := func(c *Candidate) float64 {
			v := c.Node.Allocatable.Base
			worth := share*float64(v[resource.CPU])/cpu + (1-share)*float64(v[resource.Memory])/memory
			if worth <= 0 {
				return c.Node.USDPerHour
			}
			return c.Node.USDPerHour / worth
		}
		if order := sequence(cands, by); !known[order] { // few kinds of machines have few orders
			known[order] = true
			out = append(out, by)
		}
	}
	return out
}

// sequence is equal for rankings that try candidates in the same order.
func sequence(cands []*Candidate, by ranking) string {
	at := make([]int, len(cands))
	for i := range at {
		at[i] = i
	}
	sort.SliceStable(at, func(i, j int) bool { return by(cands[at[i]]) > by(cands[at[j]]) })
	b := make([]byte, 0, 4*len(at))
	for _, i := range at {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return string(b)
}

// lowerBound is a price that our nodes cannot go below: those that nothing may take away
// now are paid for in any case, and the pods of the others run in what room there is on
// nodes that stay, on their own nodes, or on new ones. What pods ask of each other is left
// out: it can only raise the price, and the pods that run now must not stand in their own
// way.
func lowerBound(w *model.World, mayGo, surplus map[*model.Node]bool) float64 {
	var pods []*model.Pod
	var kept []engine.Kept
	stays := 0.0
	for _, n := range w.Nodes {
		if surplus[n] {
			continue
		}
		room := n.Allocatable
		var own resource.Vector
		price := 0.0
		if n.Managed() && n.PriceKnown {
			price = n.USDPerHour
		}
		if !mayGo[n] {
			if stays += price; !n.BeingRemoved() {
				kept = append(kept, engine.Kept{Room: room.Sub(n.Used())})
			}
			continue
		}
		for _, p := range n.Pods {
			if !p.Reschedulable() {
				room = room.Sub(p.Requests)
				continue
			}
			if p.Topology != nil {
				alone := *p
				alone.Topology = nil
				p = &alone
			}
			own = own.Add(p.Requests)
			pods = append(pods, p)
		}
		kept = append(kept, engine.Kept{Room: room.Max(own), USDPerHour: price})
	}
	bare := *w
	bare.Nodes, bare.Pods = nil, nil
	return stays + engine.BoundKeeping(&bare, pods, kept)
}

// movable takes out candidates with a pod that cannot move whatever room there is.
func movable(cands []*Candidate, near *around, stays verdicts) []*Candidate {
	var left []*Candidate
	for _, c := range cands {
		var b *model.Blocked
		for _, p := range c.Pods {
			if why := near.unmovable(p); why != "" {
				b = no(BlockedUnsupported, "pod %s cannot be planned for a move: %s", p.ID(), why)
				break
			}
		}
		if b != nil {
			stays[c.Node] = b
		} else {
			left = append(left, c)
		}
	}
	return left
}

// keep takes refused candidates out and notes why they stay.
func keep(cands []*Candidate, refused, stays verdicts) []*Candidate {
	var left []*Candidate
	for _, c := range cands {
		if b := refused[c.Node]; b != nil {
			stays[c.Node] = b
		} else {
			left = append(left, c)
		}
	}
	return left
}

// planner is the state of one round.
type planner struct {
	w      *model.World
	opts   Options
	cands  []*Candidate
	rooms  *rooms
	going  []*going
	gone   map[*model.Node]bool // those of going
	stays  verdicts
	forced []model.Command
	mixes  map[string][]*mix // of the pools that a strategy bounds
	own    *proposing        // what a strategy finds moves for by itself, nil = nothing
}

// going is a node that leaves, and its pods.
type going struct {
	cand   *Candidate
	reason model.DisruptionReason
	pods   []*tenant
	score  model.MoveScore
}

// newPlanner opens the rooms in keep order, those that stay anyway first, then the
// ones that are least worth removing, and settles the pods that wait.
func newPlanner(w *model.World, opts Options, cands []*Candidate, expired []*model.Node, stays verdicts, near *around, by ranking) *planner {
	p := &planner{w: w, opts: opts, cands: slices.Clone(cands), gone: map[*model.Node]bool{}, stays: maps.Clone(stays), mixes: near.bounds.mixes()}
	rank := make(map[*model.Node]float64, len(cands))
	for _, c := range cands {
		rank[c.Node] = by(c) + 1e-9 // behind every node that stays anyway
	}
	sort.SliceStable(p.cands, func(i, j int) bool { return rank[p.cands[i].Node] > rank[p.cands[j].Node] })
	leaving := map[*model.Node]bool{}
	for _, n := range expired {
		leaving[n] = true
	}
	pools := map[string]*model.Pool{}
	for _, x := range w.Pools {
		pools[x.Name] = x
	}
	var list []*room
	for _, n := range w.Nodes {
		if leaving[n] || n.BeingRemoved() || opts.Running[n.ID()] {
			continue
		}
		x := &room{node: n, free: freeOn(w, n), urgent: takesWaiting(n)}
		x.open = x.urgent && takesMoved(w, n, pools[n.Pool()])
		if x.urgent {
			list = append(list, x)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i].node, list[j].node
		if rank[a] != rank[b] {
			return rank[a] < rank[b]
		}
		return a.ID() < b.ID()
	})
	p.rooms = newRooms(list, near)
	p.settle()
	return p
}

// takesWaiting says whether a scheduler would put a waiting pod on the node.
func takesWaiting(n *model.Node) bool {
	return !n.Cordoned && (n.Ready || !n.Initialized())
}

// takesMoved says whether a move may count on the node: usable now, and quiet.
func takesMoved(w *model.World, n *model.Node, pool *model.Pool) bool {
	if !n.Joined() || !n.Ready || !n.Initialized() {
		return false
	}
	if n.Managed() && pool != nil && pool.ConsolidateAfter > 0 && quietFrom(n, pool).After(w.Now) {
		return false
	}
	return true
}

// settle gives room to the pods that wait and to those of nodes on their way out,
// before anybody moves: their places may not be taken away. Pods that fit nowhere
// hold nothing up.
func (p *planner) settle() {
	var list []*tenant
	for _, x := range p.w.Pods {
		list = append(list, p.rooms.tenant(x, nil))
	}
	for _, n := range p.w.Nodes {
		if !n.BeingRemoved() && !p.opts.Running[n.ID()] {
			continue
		}
		for _, x := range n.Pods {
			if x.Reschedulable() {
				list = append(list, p.rooms.tenant(x, nil))
			}
		}
	}
	if len(list) == 0 {
		return
	}
	var young []int // take these pods, but no moved ones
	for i, x := range p.rooms.list {
		if !x.open {
			young = append(young, i)
			p.rooms.reopen(i)
		}
	}
	largestFirst(list)
	for _, t := range list {
		if t.pod.Invalid != "" || t.pod.Ignore || len(t.pod.Unsupported) > 0 || t.pod.Topology != nil && len(t.pod.Topology.Affinity) > 0 {
			continue
		}
		if i := p.rooms.find(t); i >= 0 {
			p.rooms.put(t, i)
		}
	}
	for _, i := range young {
		p.rooms.close(i)
	}
}

func largestFirst(list []*tenant) {
	size := func(v resource.Vector) float64 { // cores, with 4 GiB worth one
		return float64(v.Base[resource.CPU])/1000 + float64(v.Base[resource.Memory])/(4<<30)
	}
	sort.SliceStable(list, func(i, j int) bool { return size(list[i].pod.Requests) > size(list[j].pod.Requests) })
}

// greedy decides who goes, as if there were no budgets: those only say when.
func (p *planner) greedy() {
	for _, want := range []model.DisruptionReason{model.Empty, model.Drifted, model.Underutilized} {
		for _, c := range p.inOrder(want) {
			if p.gone[c.Node] {
				continue
			}
			if !p.w.Budget.MayPlace() {
				p.stays[c.Node] = no(BlockedTime, "the time budget ended before this node was looked at; it is at the next pass")
				continue
			}
			if want == model.Underutilized {
				if b := p.unmixes(c.Node); b != nil {
					p.stays[c.Node] = b
					continue
				}
			}
			g, b := p.remove(c, want)
			if b != nil {
				p.stays[c.Node] = b
				continue
			}
			delete(p.stays, c.Node)
			p.going, p.gone[c.Node] = append(p.going, g), true
			p.left(c.Node)
		}
	}
}

// inOrder is the candidates that may go for a reason, in the round's order; drifted
// ones without pods and with the oldest drift come first.
func (p *planner) inOrder(want model.DisruptionReason) []*Candidate {
	var out []*Candidate
	for _, c := range p.cands {
		for _, r := range c.Reasons {
			if r == want {
				out = append(out, c)
			}
		}
	}
	if want == model.Drifted {
		oldestDrift(out)
	}
	return out
}

// remove places the pods of a candidate, and the guests the plan had put there, on
// what stays. Where one fits nowhere everything is put back, with the reason.
func (p *planner) remove(c *Candidate, reason model.DisruptionReason) (*going, *model.Blocked) {
	g := &going{cand: c, reason: reason}
	for _, x := range c.Pods {
		g.pods = append(g.pods, p.rooms.tenant(x, c.Node))
	}
	all := append([]*tenant(nil), g.pods...)
	home, isRoom := p.rooms.index[c.Node]
	wasOpen := false
	var guests []*tenant
	if isRoom {
		wasOpen = p.rooms.list[home].open
		guests = append(guests, p.rooms.list[home].guests...)
		all = append(all, guests...)
		p.rooms.close(home)
	}
	largestFirst(all)
	for k, t := range all {
		back := t.at
		i := p.rooms.find(t)
		if i >= 0 {
			if back >= 0 {
				p.rooms.take(t)
			}
			p.rooms.put(t, i)
			continue
		}
		b := p.needsNode(c, t)
		for _, done := range all[:k] {
			p.rooms.take(done)
		}
		for _, guest := range guests {
			if guest.at < 0 {
				p.rooms.put(guest, home)
			}
		}
		if wasOpen {
			p.rooms.reopen(home)
		}
		return nil, b
	}
	return g, nil
}

// needsNode says which pod holds the node, and what would be needed.
func (p *planner) needsNode(c *Candidate, t *tenant) *model.Blocked {
	legal, room := 0, resource.Vector{}
	for i, x := range p.rooms.list {
		if x.open && p.rooms.allowed(t, i) {
			legal++
			if x.free.Base[resource.CPU] > room.Base[resource.CPU] {
				room = x.free
			}
		}
	}
	unkept := ""
	for i, x := range p.rooms.list {
		if unkept == "" && x.open && t.pod.Requests.Fits(x.free) && Legal(t.pod, x.node) && p.rooms.welcome(t, i) {
			unkept = p.rooms.unkept(t, i)
		}
	}
	what := "pod " + t.pod.ID()
	if t.from == nil {
		what = "waiting pod " + t.pod.ID() + ", which is expected here,"
	}
	if unkept != "" {
		return no(BlockedReplacement, "%s would fit on another node that stays, but not keep its %s: a node would be bought for that under preferencePolicy Respect, so removing this one needs a replacement", what, unkept)
	}
	if legal == 0 {
		return no(BlockedReplacement, "%s may run on no other node that stays (labels, taints, or pods came or went there too recently); removing this one needs a replacement", what)
	}
	return no(BlockedReplacement, "%s asks for %s and fits on none of the %d other nodes that stay and where it may run (the freest has %s); removing this one needs a replacement",
		what, t.pod.Requests, legal, room)
}

// ask has the strategy judge the commands; the answer names the refused nodes.
// Drift is not a matter of money, and where no price is known there is none to
// weigh: such commands are scored, but not refused.
func (p *planner) ask(score Score) verdicts {
	refused := verdicts{}
	if score == nil || len(p.going) == 0 {
		return refused
	}
	moves := make([]*model.Command, len(p.going))
	for i, g := range p.going {
		c := p.command(g)
		moves[i] = &c
	}
	answers := score(moves)
	for i, g := range p.going {
		g.score = model.MoveScore{Reason: "the strategy gave no answer"}
		if i < len(answers) {
			g.score = answers[i]
		}
		if !g.score.Accept && g.reason != model.Drifted && g.cand.Node.PriceKnown {
			refused[g.cand.Node] = no(BlockedStrategy, "the strategy refuses: %s (score %.3g; saves %.4f USD/h for %d evictions)",
				orElse(g.score.Reason, "no reason given"), g.score.Score, g.cand.Node.USDPerHour, len(g.pods))
		}
	}
	return refused
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// command is one node's removal as data.
func (p *planner) command(g *going) model.Command {
	n := g.cand.Node
	c := model.Command{Reason: g.reason, Remove: []*model.Node{n}, PodsEvicted: len(g.pods), Score: g.score.Score}
	if n.PriceKnown {
		c.Before = n.USDPerHour
	}
	for _, t := range g.pods {
		if t.at >= 0 {
			c.Moves = append(c.Moves, model.Move{Pod: t.pod, From: n.ID(), To: p.rooms.list[t.at].node.ID()})
		}
	}
	sort.Slice(c.Moves, func(i, j int) bool { return c.Moves[i].Pod.ID() < c.Moves[j].Pod.ID() })
	switch g.reason {
	case model.Empty:
		c.Why = "nothing that has to move runs on it"
	case model.Drifted:
		c.Why = "it no longer matches its pool: " + orElse(n.Claim.Condition(model.CondDrifted).Reason, "Drifted")
	default:
		c.Why = "its pods fit on nodes that stay"
	}
	return c
}

// waves lays the commands out so that each wave is within the budgets that hold
// once the earlier ones are done; what never gets its turn stays, with the reason.
// Nodes that need replacements use what the removals of the first wave leave of the
// budgets, and have the waves after the last removal.
func (p *planner) waves(allow *allowances, r *replacer) []model.Command {
	var out []model.Command
	left := slices.Clone(p.going)
	sort.SliceStable(left, func(i, j int) bool {
		a, b := left[i], left[j]
		if a.reason != b.reason {
			return order[a.reason] < order[b.reason]
		}
		return a.reason == model.Underutilized && a.cand.Ratio > b.cand.Ratio
	})
	for wave := 1; len(left) > 0 || r.more() || wave == 1 && p.own != nil; wave++ {
		if wave > 1 && !p.opts.Waves {
			break
		}
		done := map[*model.Pool]int{}
		commands, over := p.wave(left, wave, allow, done)
		if wave == 1 && p.own != nil && !slices.ContainsFunc(commands, movesSpread) {
			commands = append(commands, r.propose(p.own, allow, done)...)
		}
		stuck := len(done) == 0
		if (wave == 1 || len(left) == 0 || stuck) && !slices.ContainsFunc(commands, movesSpread) {
			commands = append(commands, r.wave(wave, allow, done)...)
		}
		out = append(out, commands...)
		if len(done) == 0 && wave > 1 {
			break
		}
		allow.finish(done)
		left = over
	}
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].Wave != out[j].Wave {
			return out[i].Wave < out[j].Wave
		}
		return order[out[i].Reason] < order[out[j].Reason]
	})
	return out
}

// movesSpread says whether a command moves pods that are spread: what is bought beside it
// could open another place for them.
func movesSpread(c model.Command) bool {
	return slices.ContainsFunc(c.Moves, func(m model.Move) bool { return spreads(m.Pod) })
}

// wave is the removals of one wave, and those that its budgets do not allow. done counts
// the nodes of each pool that go.
func (p *planner) wave(left []*going, wave int, allow *allowances, done map[*model.Pool]int) (out []model.Command, over []*going) {
	var empties *model.Command
	for _, g := range left {
		if a := allow.left(g.cand.Pool, g.reason); a.Nodes <= 0 {
			p.stays[g.cand.Node] = budgetBlock(g.reason, a)
			over = append(over, g)
			continue
		}
		allow.use(g.cand.Pool, 1)
		done[g.cand.Pool]++
		delete(p.stays, g.cand.Node)
		c := p.command(g)
		c.Wave = wave
		if g.reason != model.Empty {
			out = append(out, c)
			continue
		}
		if empties == nil {
			empties = &c
			continue
		}
		empties.Remove = append(empties.Remove, c.Remove...)
		empties.Moves = append(empties.Moves, c.Moves...)
		empties.Before += c.Before
		empties.PodsEvicted += c.PodsEvicted
		empties.Score = min(empties.Score, c.Score)
		empties.Why = "nothing that has to move runs on them"
	}
	if empties != nil {
		out = append(out, *empties)
	}
	return out, over
}

var order = map[model.DisruptionReason]int{model.Empty: 0, model.Drifted: 1, model.Underutilized: 2}

func budgetBlock(r model.DisruptionReason, a Allowance) *model.Blocked {
	b := no(BlockedBudget, "no allowed disruptions for disruption reason %s: %s", r, orElse(a.Why, "the pool's budget is used up by this plan"))
	b.Until = a.Until
	return b
}

// warnings lists what is written on objects but has no effect.
func warnings(w *model.World) []string {
	bad := map[string][]string{}
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			v, ok := p.Annotations[model.AnnotationDoNotDisrupt]
			if ok && p.Active() {
				if on, _ := DoNotDisrupt(p, w.Now); !on && !isDuration(v) {
					bad[v] = append(bad[v], p.ID())
				}
			}
		}
	}
	var out []string
	for v, pods := range bad {
		sort.Strings(pods)
		shown := pods
		if len(shown) > 5 {
			shown = append(append([]string(nil), pods[:5]...), fmt.Sprintf("and %d more", len(pods)-5))
		}
		out = append(out, fmt.Sprintf("annotation %s: %q has no effect on pod %s: expected \"true\" or a duration such as 30m",
			model.AnnotationDoNotDisrupt, v, strings.Join(shown, ", ")))
	}
	for _, p := range w.Pools {
		if err := CheckBudgets(p); err != nil {
			out = append(out, err.Error()+"; until it is mended nothing of this pool is disrupted")
		}
		if _, err := Soak(p); err != nil {
			out = append(out, err.Error()+"; until it is mended no node of this pool is replaced for drift")
		}
		if err := CheckExpire(p); err != nil {
			out = append(out, err.Error()+"; its nodes are ended by force when they are past their expireAfter")
		}
	}
	sort.Strings(out)
	return out
}

func isDuration(s string) bool {
	d, err := time.ParseDuration(s)
	return err == nil && d > 0
}
