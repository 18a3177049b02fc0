package week

import (
	"maps"
	"slices"
	"sort"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// Bounds of Karpenter's searches.
const (
	mostTogether = 100 // candidates of one command
	leastTypes   = 15  // cheaper types for a spot node in the place of a spot node
)

// Rules plans disruption as Karpenter v1 documents it: all empty nodes, else one drifted
// node, else as many nodes as the largest prefix of the candidates whose pods fit on what
// stays and on at most one new node that is cheaper, else one node alone. What is bought
// for waiting pods is planned as ever, by the strategy's prices.
type Rules struct{ control.Planners }

var _ execute.Planner = Rules{}

// Disrupt implements execute.Planner. The consolidation strategy is not asked: any saving is
// worth a move there.
func (Rules) Disrupt(w *model.World, prices *model.Prices, _ execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	opts := disrupt.Options{Running: o.Running, Frozen: o.Frozen}
	cands, blocked := disrupt.Candidates(w, opts)
	r := &rules{w: w, prices: prices, running: o.Running, left: map[string]int{}, cands: cands}
	plan := &model.Plan{Kind: model.PlanDisrupt, Made: w.Now, Strategy: "karpenter's rules", Blocked: blocked}
	for _, find := range []func() *model.Command{r.empty, r.drifted, r.several, r.single} {
		if c := find(); c != nil {
			c.Wave = 1
			plan.Commands = []model.Command{*c}
			break
		}
	}
	return plan, nil
}

type rules struct {
	w       *model.World
	prices  *model.Prices
	running map[string]bool
	cands   []*disrupt.Candidate
	left    map[string]int // of the budgets, by pool, for the reason that is looked at
}

// within is the candidates for a reason that the budgets allow, best first: as many as may go
// together, or all of which any one may go.
func (r *rules) within(reason model.DisruptionReason, together bool) []*disrupt.Candidate {
	clear(r.left)
	var out []*disrupt.Candidate
	for _, c := range r.cands {
		if !slices.Contains(c.Reasons, reason) {
			continue
		}
		left, known := r.left[c.Pool.Name]
		if !known {
			total, lost := disrupt.Disrupting(r.w, c.Pool.Name, r.running)
			left = disrupt.Allowed(c.Pool, reason, total, lost, r.w.Now).Nodes
		}
		if left > 0 {
			if together {
				left--
			}
			out = append(out, c)
		}
		r.left[c.Pool.Name] = left
	}
	return out
}

func (r *rules) empty() *model.Command {
	list := r.within(model.Empty, true)
	if len(list) == 0 {
		return nil
	}
	return command(model.Empty, list)
}

// command removes candidates.
func command(reason model.DisruptionReason, list []*disrupt.Candidate) *model.Command {
	c := &model.Command{Reason: reason}
	for _, x := range list {
		c.Remove = append(c.Remove, x.Node)
		if x.Node.PriceKnown {
			c.Before += x.Node.USDPerHour
		}
		c.PodsEvicted += len(x.Pods)
	}
	return c
}

// drifted replaces the one that drifted first, those without pods before others.
func (r *rules) drifted() *model.Command {
	list := r.within(model.Drifted, false)
	since := func(c *disrupt.Candidate) int64 { return c.Node.Claim.Condition(model.CondDrifted).Since.Unix() }
	sort.SliceStable(list, func(i, j int) bool {
		if a, b := len(list[i].Pods) == 0, len(list[j].Pods) == 0; a != b {
			return a
		}
		return since(list[i]) < since(list[j])
	})
	for _, c := range list {
		if placed, ok := r.without([]*disrupt.Candidate{c}); ok {
			cmd := command(model.Drifted, []*disrupt.Candidate{c})
			cmd.Launch = placed.New
			r.price(cmd)
			return cmd
		}
	}
	return nil
}

// several looks for the largest prefix by halving, as Karpenter does.
func (r *rules) several() *model.Command {
	list := r.within(model.Underutilized, true)
	list = list[:min(len(list), mostTogether)]
	var best *model.Command
	for low, high := 1, len(list)-1; low <= high; {
		middle := (low + high) / 2
		if c := r.consolidate(list[:middle+1]); c != nil {
			best, low = c, middle+1
		} else {
			high = middle - 1
		}
	}
	return best
}

func (r *rules) single() *model.Command {
	for _, c := range r.within(model.Underutilized, false) {
		if cmd := r.consolidate([]*disrupt.Candidate{c}); cmd != nil {
			return cmd
		}
	}
	return nil
}

// without places the pods of candidates as if these were gone; false = not all of them fit.
func (r *rules) without(list []*disrupt.Candidate) (*engine.Result, bool) {
	gone := map[*model.Node]bool{}
	for _, c := range list {
		gone[c.Node] = true
	}
	w := *r.w
	w.Settings.AlternativesMaxRatio = 1000 // whatever is cheaper than what goes
	w.Nodes, w.Pods = nil, slices.Clone(r.w.Pods)
	moved := map[string]bool{}
	pools := map[string]*model.Pool{}
	for _, p := range w.Pools {
		pools[p.Name] = p
	}
	for _, n := range r.w.Nodes {
		leaves := gone[n] || n.BeingRemoved() || r.running[n.ID()]
		if !leaves {
			w.Nodes = append(w.Nodes, destination(r.w, n, pools[n.Pool()]))
			continue
		}
		for _, p := range n.Pods {
			if !p.Reschedulable() {
				continue
			}
			waiting := *p
			waiting.NodeName, waiting.Ready = "", false
			w.Pods = append(w.Pods, &waiting)
			moved[p.UID] = gone[n]
		}
	}
	placed := engine.Place(&w, r.prices)
	for _, v := range placed.Unplaced {
		if moved[v.Pod.UID] {
			return nil, false
		}
	}
	return placed, true
}

// destination is a node as a simulation sees it: nothing is moved to nodes that are not
// ready for it, or that have not been quiet for long enough.
func destination(w *model.World, n *model.Node, pool *model.Pool) *model.Node {
	usable := n.Joined() && n.Initialized() && n.Ready
	if usable && n.Managed() && pool != nil && pool.ConsolidateAfter > 0 {
		last := n.Claim.Condition(model.CondInitialized).Since
		if n.Claim.LastPodEvent != nil {
			last = *n.Claim.LastPodEvent
		}
		usable = !last.Add(pool.ConsolidateAfter).After(w.Now)
	}
	if usable {
		return n
	}
	closed := *n
	closed.Cordoned = true
	return &closed
}

// consolidate removes candidates if their pods fit on what stays, or on that and one new
// node that costs less; nil = they stay.
func (r *rules) consolidate(list []*disrupt.Candidate) *model.Command {
	placed, ok := r.without(list)
	if !ok || len(placed.New) > 1 {
		return nil
	}
	cmd := command(model.Underutilized, list)
	if len(placed.New) == 0 {
		return cmd
	}
	allSpot, cheapest := true, map[string]float64{} // by type that goes
	for _, c := range list {
		allSpot = allSpot && c.Node.CapacityType() == model.Spot
		t := c.Node.InstanceType()
		if usd, seen := cheapest[t]; !seen || c.Node.USDPerHour < usd {
			cheapest[t] = c.Node.USDPerHour
		}
	}
	below := cmd.Before
	offered := append([]*model.Offering{placed.New[0].Offering}, placed.New[0].Alternatives...)
	if len(list) > 1 { // not three for one of the same kind
		for _, o := range offered {
			if usd, goes := cheapest[o.Type.Name]; goes {
				below = min(below, usd)
			}
		}
	}
	offered = slices.DeleteFunc(offered, func(o *model.Offering) bool { return o.USDPerHour >= below })
	sort.SliceStable(offered, func(i, j int) bool { return offered[i].USDPerHour < offered[j].USDPerHour })
	if len(offered) == 0 {
		return nil
	}
	if allSpot && offered[0].CapacityType == model.Spot {
		types := map[string]bool{}
		for _, o := range offered {
			types[o.Type.Name] = true
		}
		if !r.w.Settings.SpotToSpot || len(list) == 1 && len(types) < leastTypes {
			return nil
		}
		if len(list) == 1 {
			offered = cut(offered, leastTypes)
		}
	}
	n := *placed.New[0]
	n.Offering, n.Alternatives = offered[0], offered[1:]
	n.Effective = n.Offering.USDPerHour
	cmd.Launch = []*model.NewNode{&n}
	r.price(cmd)
	return cmd
}

// cut keeps the offerings of the first so many types.
func cut(list []*model.Offering, types int) []*model.Offering {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(o *model.Offering) bool {
		if !seen[o.Type.Name] && len(seen) == types {
			return true
		}
		seen[o.Type.Name] = true
		return false
	})
}

func (r *rules) price(cmd *model.Command) {
	for _, n := range cmd.Launch {
		worst := n.Offering.USDPerHour
		for _, o := range n.Alternatives {
			worst = max(worst, o.USDPerHour)
		}
		cmd.After += n.Offering.USDPerHour
		cmd.Worst += worst
	}
	for _, n := range cmd.Launch { // labels are the plan's own from here on
		n.Labels = maps.Clone(n.Labels)
	}
}
