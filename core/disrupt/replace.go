package disrupt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

const (
	maxTogether = 50   // nodes that one command replaces: they stay or go together
	maxTries    = 24   // problems that are put to the engine for one wave
	maxAllTries = 240  // and for all waves of a plan
	maxRefusals = 3    // of a strategy in a row, of single nodes: those after them save less
	leastSaving = 0.01 // of the price of what is removed: less is no reason to move anybody
	spotChoice  = 15   // types that one spot node must leave to the fleet to be replaced by another
)

// replacer finds new nodes for the pods of nodes that cannot simply go, several nodes
// at a time: the engine packs their pods anew, on room that is left and on whatever is
// cheapest, n nodes by m. Drifted nodes go whatever that costs.
//
// It works on the cluster as it will be once everything before is done, so commands of a
// wave do not count on the same room. The new nodes are full to the others: each command
// holds by itself.
type replacer struct {
	p      *planner
	prices *model.Prices
	score  Score
	totals map[string]totals
	worth  map[*model.Pod]float64
	world  *model.World
	in     map[*model.Node]*model.Node  // in world, by the node of the plan
	of     map[*model.Node]*model.Node  // the other way
	empty  map[*model.Node]bool         // nodes in world that are left or removed
	came   map[*model.Node][]*model.Pod // pods that replacements put on a node of the plan
	busy   map[*model.Node]bool         // nodes that others of the wave count on
	lines  []*line
	named  map[string]int // new nodes by pool
	tries  int            // of this wave
	all    int
}

// line is nodes of a pool that are to be replaced for the same reason, in order.
type line struct {
	pool   *model.Pool
	reason model.DisruptionReason
	cands  []*Candidate
	size   int  // nodes that are tried together
	no     int  // refusals in a row
	alone  bool // has pods that only move while nothing else does: they ask for others near them, are spread, or there are preferences to keep
}

// newReplacer takes those of the candidates whose pods found no room on what stays.
func newReplacer(p *planner, cands []*Candidate, prices *model.Prices, score Score) *replacer {
	r := &replacer{p: p, prices: prices, score: score, totals: poolTotals(p.w), named: map[string]int{}, came: map[*model.Node][]*model.Pod{}}
	var drifted, poor []*Candidate
	for _, c := range cands {
		if b := p.stays[c.Node]; p.gone[c.Node] || b == nil || b.Reason != BlockedReplacement && b.Reason != BlockedUnsupported {
			continue
		}
		switch {
		case slices.Contains(c.Reasons, model.Drifted):
			drifted = append(drifted, c)
		case slices.Contains(c.Reasons, model.Underutilized):
			poor = append(poor, c)
		}
	}
	if len(drifted)+len(poor) == 0 || !p.w.Budget.MayImprove() {
		return r
	}
	r.look()
	oldestDrift(drifted)
	r.line(drifted, model.Drifted, max(1, (len(drifted)+maxTries-1)/maxTries))
	r.line(r.dear(poor), model.Underutilized, maxTogether)
	return r
}

// oldestDrift puts those without pods and with the oldest drift first.
func oldestDrift(list []*Candidate) {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if (len(a.Pods) == 0) != (len(b.Pods) == 0) {
			return len(a.Pods) == 0
		}
		return a.Node.Claim.Condition(model.CondDrifted).Since.Before(b.Node.Claim.Condition(model.CondDrifted).Since)
	})
}

// line sorts candidates into lines by pool, spot apart from the rest.
func (r *replacer) line(cands []*Candidate, reason model.DisruptionReason, size int) {
	type key struct {
		pool        *model.Pool
		spot, alone bool
	}
	known := map[key]*line{}
	for _, c := range cands {
		k := key{c.Pool, c.Node.CapacityType() == model.Spot, r.p.rooms.around.likes != nil || r.p.stays[c.Node].Reason == BlockedUnsupported || slices.ContainsFunc(r.pods(c), spreads)}
		l := known[k]
		if l == nil {
			l = &line{pool: c.Pool, reason: reason, size: min(size, maxTogether), alone: k.alone}
			known[k] = l
			r.lines = append(r.lines, l)
		}
		l.cands = append(l.cands, c)
	}
	slices.SortStableFunc(r.lines, func(a, b *line) int { // those last
		switch {
		case a.alone == b.alone:
			return 0
		case b.alone:
			return -1
		}
		return 1
	})
}

// dear leaves out nodes that no new ones could undercut, and sorts the others, most to
// save for each unit of eviction cost first.
func (r *replacer) dear(cands []*Candidate) []*Candidate {
	var pods []*model.Pod
	for _, c := range cands {
		pods = append(pods, r.pods(c)...)
	}
	r.worth = engine.Worth(r.p.w, pods)
	reserved := r.reserved()
	least := map[*Candidate]float64{}
	var out []*Candidate
	for _, c := range cands {
		sum := 0.0
		for _, x := range r.pods(c) {
			sum += r.worth[x]
		}
		if price := c.Node.USDPerHour; sum > price*(1-leastSaving) && !reserved {
			r.stays(c, no(BlockedCheapest, "already the cheapest: on new nodes its pods would cost %.4f USD/h at the least, here they cost %.4f; a saving under %.0f%% moves nobody", sum, price, 100*leastSaving))
			continue
		}
		least[c] = sum
		out = append(out, c)
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return (a.Node.USDPerHour-least[a])/a.Cost > (b.Node.USDPerHour-least[b])/b.Cost
	})
	return out
}

// spreads says whether the pod is spread over something: a new node may open another
// place for it, and change what is even for all of its kind.
func spreads(p *model.Pod) bool { return p.Topology != nil && len(p.Topology.Spreads) > 0 }

// stays notes why a node is not replaced, beside why it cannot simply go.
func (r *replacer) stays(c *Candidate, why *model.Blocked) {
	b := *why
	if before := r.p.stays[c.Node]; before != nil && before.Message != why.Message {
		b.Message += "; " + before.Message
	}
	r.p.stays[c.Node] = &b
}

// reserved says whether reserved capacity can be had, which Worth does not price.
func (r *replacer) reserved() bool {
	for _, list := range r.p.w.Offerings {
		if slices.ContainsFunc(list, func(o *model.Offering) bool { return o.ReservationID != "" && o.Available }) {
			return true
		}
	}
	return false
}

// look makes the cluster as it will be once all that the plan moves has moved. Of pods
// that matter to nobody only their room is left: every try looks at all that is there.
func (r *replacer) look() {
	w := *r.p.w
	w.Pods, w.Nodes = nil, make([]*model.Node, 0, len(r.p.w.Nodes))
	r.in, r.of, r.empty = make(map[*model.Node]*model.Node, len(r.p.w.Nodes)), make(map[*model.Node]*model.Node, len(r.p.w.Nodes)), map[*model.Node]bool{}
	matters := r.p.rooms.around.matters()
	leaving := map[*model.Node]bool{}
	for _, c := range r.p.forced {
		for _, n := range c.Remove {
			leaving[n] = true
		}
	}
	for _, n := range r.p.w.Nodes {
		c := *n
		r.in[n], r.of[&c] = &c, n
		w.Nodes = append(w.Nodes, &c)
		if r.p.gone[n] || leaving[n] || n.BeingRemoved() || r.p.opts.Running[n.ID()] {
			r.vacate(&c)
			continue
		}
		c.Pods = nil
		silent := resource.Vector{}
		add := func(p *model.Pod, guest bool) {
			switch {
			case matters != nil && !matters[p] && (!guest || r.p.rooms.around.nodes[p] != nil): // those that wait are not among the running ones
				silent = silent.Add(p.Requests)
			case guest:
				c.Pods = append(c.Pods, bound(p, n.ID()))
			default:
				c.Pods = append(c.Pods, p)
			}
		}
		for _, p := range n.Pods {
			add(p, false)
		}
		i, ok := r.p.rooms.index[n]
		if ok {
			for _, t := range r.p.rooms.list[i].guests {
				add(t.pod, true)
			}
		}
		c.Allocatable = c.Allocatable.Sub(silent)
		// Where pods prefer things, a room that is left may be one that nobody would take who
		// can have a new node: they get new ones.
		if !ok || !r.p.rooms.list[i].open || r.p.rooms.around.likes != nil {
			c.Allocatable = c.Promised() // takes nobody
		}
	}
	r.world = &w
}

// vacate leaves a node in the world that runs nothing and takes nobody: it is there, and
// counts against its pool's limits, until the wave is over.
func (r *replacer) vacate(n *model.Node) {
	n.Pods, n.Preempting = nil, nil
	n.Allocatable = n.Promised()
	n.Cordoned = true
	r.empty[n] = true
}

// bound is the pod as it will run on a node.
func bound(p *model.Pod, node string) *model.Pod {
	c := *p
	c.NodeName = node
	return &c
}

// pods is what has to leave a node: its own pods and those that the plan moves there.
func (r *replacer) pods(c *Candidate) []*model.Pod {
	return slices.Concat(c.Pods, r.guests(c.Node))
}

// guests is the pods that the plan has put on a node so far.
func (r *replacer) guests(n *model.Node) []*model.Pod {
	out := slices.Clone(r.came[n])
	if i, ok := r.p.rooms.index[n]; ok {
		for _, t := range r.p.rooms.list[i].guests {
			out = append(out, t.pod)
		}
	}
	return out
}

// more says whether a later wave could bring more.
func (r *replacer) more() bool {
	return r.all < maxAllTries && slices.ContainsFunc(r.lines, func(l *line) bool { return len(l.cands) > 0 })
}

// wave is the commands of a wave within what its budgets still allow. Nodes that others
// of the wave count on stay.
func (r *replacer) wave(wave int, allow *allowances, done map[*model.Pool]int) []model.Command {
	r.tries, r.busy = 0, map[*model.Node]bool{}
	for _, l := range r.lines {
		for _, c := range l.cands {
			r.busy[c.Node] = wave == 1 && len(r.guests(c.Node)) > 0
		}
	}
	if wave > 1 && r.world != nil {
		r.world.Nodes = slices.DeleteFunc(r.world.Nodes, func(n *model.Node) bool { return r.empty[n] })
	}
	var out []model.Command
	for _, l := range r.lines {
		for _, c := range r.advance(l, allow, done) {
			c.Wave = wave
			out = append(out, c)
		}
	}
	return out
}

// advance takes as many nodes of a line as may go now. Where a group cannot be replaced
// for less, its first half is tried.
func (r *replacer) advance(l *line, allow *allowances, done map[*model.Pool]int) []model.Command {
	var out []model.Command
	size := l.size
	for {
		todo := r.ready(l)
		if len(todo) == 0 {
			return out
		}
		a := allow.left(l.pool, l.reason)
		switch {
		case a.Nodes <= 0:
			for _, c := range todo {
				r.p.stays[c.Node] = budgetBlock(l.reason, a)
			}
			return out
		case l.alone && (len(done) > 0 || len(out) > 0):
			return out
		case r.tries >= maxTries || r.all >= maxAllTries || !r.p.w.Budget.MayImprove():
			for _, c := range todo {
				r.p.stays[c.Node] = no(BlockedReplacement, "its pods do not fit on the nodes that stay, and this plan did not come to looking for a replacement; a later one does")
			}
			return out
		}
		n := min(size, a.Nodes, len(todo))
		r.tries++
		r.all++
		cmd, why := r.try(l, todo[:n])
		if why != nil && n > 1 {
			size = n / 2
			continue
		}
		if why != nil {
			first := todo[0]
			r.stays(first, why)
			l.drop(todo[:1])
			r.tired(l, first, why)
			continue
		}
		for _, c := range todo[:n] {
			delete(r.p.stays, c.Node)
		}
		l.drop(todo[:n])
		l.no = 0
		size = min(2*size, l.size)
		allow.use(l.pool, n)
		done[l.pool] += n
		for _, x := range cmd.Launch {
			allow.launch(x.Pool)
		}
		out = append(out, *cmd)
	}
}

// tired gives up a line whose best nodes the strategy refuses to replace one after the other.
func (r *replacer) tired(l *line, c *Candidate, why *model.Blocked) {
	if why.Reason != BlockedStrategy || l.reason == model.Drifted {
		return
	}
	if l.no++; l.no < maxRefusals {
		return
	}
	for _, x := range l.cands {
		r.stays(x, no(BlockedStrategy, "the strategy refuses to replace nodes that promise more for each pod moved, such as %s", c.Node.ID()))
	}
	l.cands = nil
}

// ready is the nodes of a line that nobody counts on, in order.
func (r *replacer) ready(l *line) []*Candidate {
	var out []*Candidate
	for _, c := range l.cands {
		if !r.busy[c.Node] {
			out = append(out, c)
		}
	}
	return out
}

func (l *line) drop(list []*Candidate) {
	l.cands = slices.DeleteFunc(l.cands, func(c *Candidate) bool { return slices.Contains(list, c) })
}

// try replaces some nodes of a line, or says why it does not.
func (r *replacer) try(l *line, group []*Candidate) (*model.Command, *model.Blocked) {
	cmd := &model.Command{Reason: l.reason}
	after := *r.world
	after.Nodes = slices.Clone(r.world.Nodes)
	leaves := map[*model.Node]bool{}
	home, original := map[*model.Pod]*model.Node{}, map[*model.Pod]*model.Pod{}
	for _, c := range group {
		leaves[r.in[c.Node]] = true
		cmd.Remove = append(cmd.Remove, c.Node)
		if c.Node.PriceKnown {
			cmd.Before += c.Node.USDPerHour
		}
		for _, p := range r.pods(c) {
			x := bound(p, "")
			x.Unschedulable = true
			home[x], original[x] = c.Node, p
			after.Pods = append(after.Pods, x)
		}
	}
	var vacated []*model.Node
	for i, n := range after.Nodes {
		if leaves[n] {
			c := *n
			r.vacate(&c)
			after.Nodes[i] = &c
			vacated = append(vacated, &c)
		}
	}
	res := engine.Place(&after, r.prices)
	why := r.refuses(l, group, cmd, res, &after)
	if why != nil {
		for _, n := range vacated {
			delete(r.empty, n)
		}
		return nil, why
	}
	r.world.Nodes = after.Nodes
	r.settle(cmd, res, home, original)
	return cmd, nil
}

// refuses says why the engine's answer is not taken. Where it is, the command has its
// launches and what they cost.
func (r *replacer) refuses(l *line, group []*Candidate, cmd *model.Command, res *engine.Result, after *model.World) *model.Blocked {
	if len(res.Unplaced) > 0 {
		v := res.Unplaced[0]
		return no(BlockedReplacement, "pod %s fits on no other node that stays and would have no place on a new one either: %s", v.Pod.ID(), v.Reasons[0].Message)
	}
	cmd.Launch, cmd.PodsEvicted = res.New, len(after.Pods)
	for _, n := range res.New {
		cmd.After += n.Offering.USDPerHour
	}
	if l.reason != model.Drifted {
		if cmd.After > cmd.Before*(1-leastSaving) {
			return no(BlockedCheapest, "already the cheapest: %s at %.4f USD/h would replace it, here its pods cost %.4f; a saving under %.0f%% moves nobody", describe(res.New), cmd.After, cmd.Before, 100*leastSaving)
		}
		if b := r.spotForSpot(group, cmd); b != nil {
			return b
		}
	}
	for _, n := range res.New {
		if l.reason != model.Drifted && cmd.After > 0 {
			dearest := n.Offering.USDPerHour * cmd.Before * (1 - leastSaving) / cmd.After
			engine.Narrow(n, func(o *model.Offering) bool { return o.USDPerHour <= dearest })
		}
		cmd.Worst += worst(n)
	}
	if bad := engine.CheckPriced(after, &model.Plan{Kind: model.PlanProvision, Launch: res.New, Placements: res.Placements}, r.prices); len(bad) > 0 {
		return no(BlockedReplacement, "the replacement that was found is not legal with the alternatives that are cheap enough: %v", bad[0])
	}
	if b := r.unbalanced(l, group, cmd); b != nil {
		return b
	}
	switch {
	case l.reason == model.Drifted && len(group) == 1:
		cmd.Why = "it no longer matches its pool: " + orElse(group[0].Node.Claim.Condition(model.CondDrifted).Reason, "Drifted")
	case l.reason == model.Drifted:
		cmd.Why = "they no longer match their pool"
	case len(cmd.Launch) == 0:
		cmd.Why = "its pods fit on nodes that stay"
	default:
		cmd.Why = fmt.Sprintf("its pods run for less on %s", describe(cmd.Launch))
	}
	return r.judged(cmd)
}

// worst is the dearest that a launch may come to, USD per hour.
func worst(n *model.NewNode) float64 {
	usd := n.Offering.USDPerHour
	for _, o := range n.Alternatives {
		usd = max(usd, o.USDPerHour)
	}
	return usd
}

func describe(nodes []*model.NewNode) string {
	if len(nodes) == 1 {
		o := nodes[0].Offering
		return fmt.Sprintf("one %s (%s, %s)", o.Type.Name, o.CapacityType, o.Zone)
	}
	return fmt.Sprintf("%d new nodes", len(nodes))
}

// spotForSpot holds v1's rules for spot nodes in the place of spot nodes: only where the
// feature is on, and one by one only with enough types to choose from, since going for
// the cheapest pool again and again ends in the one that is interrupted most.
func (r *replacer) spotForSpot(group []*Candidate, cmd *model.Command) *model.Blocked {
	bought := slices.ContainsFunc(cmd.Launch, func(n *model.NewNode) bool { return n.Offering.CapacityType == model.Spot })
	if !bought || group[0].Node.CapacityType() != model.Spot {
		return nil
	}
	if !r.p.w.Settings.SpotToSpot {
		return no(BlockedSpotToSpot, "%s at %.4f USD/h would do for %.4f, but spot nodes are not replaced by spot nodes (featureGates.spotToSpotConsolidation is off)", describe(cmd.Launch), cmd.After, cmd.Before)
	}
	if len(group) > 1 || len(cmd.Launch) > 1 {
		return nil
	}
	types := map[string]bool{cmd.Launch[0].Offering.Type.Name: true}
	for _, o := range cmd.Launch[0].Alternatives {
		if o.USDPerHour < cmd.Before {
			types[o.Type.Name] = true
		}
	}
	if len(types) < spotChoice {
		return no(BlockedSpotToSpot, "%s at %.4f USD/h would do for %.4f, but only %d types are cheaper, and a spot node is replaced by another one only with %d to choose from", describe(cmd.Launch), cmd.After, cmd.Before, len(types), spotChoice)
	}
	cheapestTypes(cmd.Launch[0], spotChoice)
	return nil
}

// cheapestTypes leaves a planned node so many types, the cheapest ones, or as many as
// the pool's flexibility asks for: with more of them it would be bought from pools that
// the next plan finds too dear again.
func cheapestTypes(n *model.NewNode, most int) {
	for _, r := range n.Pool.Requirements.All() {
		switch {
		case r.MinValues == 0:
		case r.Key == model.LabelInstanceType:
			most = max(most, r.MinValues)
		default:
			return
		}
	}
	least := map[string]float64{}
	for _, o := range n.Alternatives {
		if usd, known := least[o.Type.Name]; !known || o.USDPerHour < usd {
			least[o.Type.Name] = o.USDPerHour
		}
	}
	delete(least, n.Offering.Type.Name)
	types := slices.Collect(maps.Keys(least))
	slices.SortFunc(types, func(a, b string) int { return cmp.Or(cmp.Compare(least[a], least[b]), cmp.Compare(a, b)) })
	keep := map[string]bool{n.Offering.Type.Name: true}
	for _, name := range types[:min(len(types), most-1)] {
		keep[name] = true
	}
	engine.Narrow(n, func(o *model.Offering) bool { return keep[o.Type.Name] })
}

// unbalanced holds policy Balanced against what the command really saves.
func (r *replacer) unbalanced(l *line, group []*Candidate, cmd *model.Command) *model.Blocked {
	if l.pool.Policy != model.Balanced || l.reason == model.Drifted {
		return nil
	}
	cost := 0.0
	for _, c := range group {
		cost += c.Cost
	}
	t := r.totals[l.pool.Name]
	saved := cmd.Before - max(cmd.After, cmd.Worst)
	if s := BalancedScore(saved, t.price, cost, t.cost); s < balancedFloor {
		return no(BlockedBalanced, "Balanced score %.2f of the replacement is below %.2f: it saves %.4f USD/h (%.1f%% of NodePool %q) for %.1f%% of its disruption",
			s, balancedFloor, saved, 100*saved/t.price, l.pool.Name, 100*cost/t.cost)
	}
	return nil
}

// judged has the strategy's word. Drift is not a matter of money.
func (r *replacer) judged(cmd *model.Command) *model.Blocked {
	if r.score == nil {
		return nil
	}
	s := model.MoveScore{Reason: "the strategy gave no answer"}
	if a := r.score([]*model.Command{cmd}); len(a) > 0 {
		s = a[0]
	}
	cmd.Score = s.Score
	if s.Accept || cmd.Reason == model.Drifted {
		return nil
	}
	return no(BlockedStrategy, "the strategy refuses to replace it: %s (score %.3g; saves %.4f USD/h for %d evictions)",
		orElse(s.Reason, "no reason given"), s.Score, cmd.Before-max(cmd.After, cmd.Worst), cmd.PodsEvicted)
}

// settle puts the pods of an accepted command into the world and into the command.
func (r *replacer) settle(cmd *model.Command, res *engine.Result, home map[*model.Pod]*model.Node, original map[*model.Pod]*model.Pod) {
	move := func(p *model.Pod, to string) {
		cmd.Moves = append(cmd.Moves, model.Move{Pod: original[p], From: home[p].ID(), To: to})
	}
	for _, pl := range res.Placements {
		for _, p := range pl.Pods {
			move(p, pl.Node.ID())
			pl.Node.Pods = append(pl.Node.Pods, bound(p, pl.Node.ID()))
			if n := r.of[pl.Node]; n != nil {
				r.came[n], r.busy[n] = append(r.came[n], original[p]), true
			}
		}
	}
	for _, n := range res.New {
		r.named[n.Pool.Name]++
		n.Name = fmt.Sprintf("%s-%d", n.Pool.Name, r.named[n.Pool.Name])
		x := r.full(n)
		r.world.Nodes = append(r.world.Nodes, x)
		for i, p := range n.Pods {
			move(p, n.Name)
			n.Pods[i] = original[p]
		}
	}
	sort.Slice(cmd.Moves, func(i, j int) bool { return cmd.Moves[i].Pod.ID() < cmd.Moves[j].Pod.ID() })
}

// full is a new node as the others see it: its pods count, and it has no room.
func (r *replacer) full(n *model.NewNode) *model.Node {
	labels := map[string]string{model.LabelHostname: n.Name, model.LabelRegistered: "true", model.LabelInitialized: "true"}
	for k, v := range n.Labels {
		labels[k] = v
	}
	x := &model.Node{Name: n.Name, Labels: labels, Ready: true, Created: r.p.w.Now, Taints: n.Pool.Taints, Capacity: n.Offering.Type.Capacity,
		USDPerHour: n.Offering.USDPerHour, PriceKnown: true,
		Claim: &model.Claim{Name: n.Name, Pool: n.Pool.Name, Labels: labels, NodeName: n.Name, Created: r.p.w.Now, ExpireAfter: model.Never,
			Conditions: []model.Condition{{Type: model.CondInitialized, Status: "True", Since: r.p.w.Now}}}}
	for _, p := range n.Pods {
		x.Pods = append(x.Pods, bound(p, n.Name))
	}
	x.Allocatable = x.Promised()
	return x
}
