package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// disruption remembers the pass under way. A plan is acted on when a second one,
// made from the world as it is some seconds later, still wants to remove the same
// nodes.
type disruption struct {
	last      time.Time       // end of the last pass
	planning  bool            // a plan is being made
	candidate map[string]bool // claim names that the first plan removes; nil = no plan to confirm
	confirm   time.Time       // when it is to be confirmed
	id        string
}

// consolidate asks for a disruption plan when nothing waits and nothing forbids it.
func (c *Controller) consolidate() {
	d := &c.disrupt
	frozen := c.frozen()
	c.Stats.Frozen = frozen
	if c.set.DisruptionOff || d.planning {
		return
	}
	if c.batch.planning || !c.batch.first.IsZero() || c.batch.demand && c.batch.planned.IsZero() {
		d.candidate = nil // what waits comes first, and changes what may be given back
		return
	}
	if d.last.After(c.now) {
		d.last = c.now // the clock was set back
	}
	at := d.last.Add(c.set.DisruptEvery)
	if d.candidate != nil {
		at = d.confirm
	}
	if c.now.Before(at) {
		c.wake(at)
		return
	}
	if !c.canPlan() {
		c.wake(c.now.Add(time.Second))
		return
	}
	w := c.m.World(c.now)
	if !managed(w) && !slices.ContainsFunc(w.Pools, func(p *model.Pool) bool { return p.Static != nil && w.Settings.StaticCapacity }) {
		d.last, d.candidate = c.now, nil
		c.wake(c.now.Add(c.set.DisruptEvery))
		return
	}
	paused, waves := c.held(w)
	plan := execute.Plan{For: model.PlanDisrupt, World: w, Disrupt: execute.DisruptOptions{Running: c.x.Running(), Frozen: frozen, Paused: paused, Held: waves}}
	if d.candidate != nil {
		plan.Confirm = d.id
	}
	if c.x.Do("plan/disrupt", plan, c.now) {
		d.planning = true
	}
}

func managed(w *model.World) bool {
	for _, n := range w.Nodes {
		if n.Managed() {
			return true
		}
	}
	return false
}

func (c *Controller) disruptPlanned(e execute.Plan, r execute.Result) {
	d := &c.disrupt
	d.planning = false
	candidate := d.candidate
	d.candidate, d.last = nil, c.now
	if r.Err != nil {
		return
	}
	plan := r.Value.(execute.Planned).Plan
	if plan.ID == "" {
		plan.ID = fmt.Sprintf("disrupt-%s", e.World.Now.UTC().Format("20060102T150405.000"))
	}
	c.blocked(e.World, plan.Blocked)
	c.shut(e.World)
	c.acceptStatic(plan)
	ready := startable(plan)
	if len(ready) == 0 {
		return
	}
	if e.Confirm == "" && c.set.DisruptValidate >= 0 {
		d.candidate, d.id = map[string]bool{}, plan.ID
		for _, cmd := range ready {
			for _, n := range cmd.Remove {
				d.candidate[claimOf(n)] = true
			}
		}
		d.confirm = c.now.Add(c.set.DisruptValidate)
		c.wake(d.confirm)
		return
	}
	if c.decisions != nil {
		c.decisions(plan)
	}
	w := c.m.World(c.now)
	for _, cmd := range ready {
		c.act(w, plan, cmd, candidate)
	}
	c.holds.moves.Forget(c.now)
}

// startable are the commands that may start now.
func startable(p *model.Plan) []model.Command {
	var out []model.Command
	for _, cmd := range p.Commands {
		if cmd.Wave <= 1 {
			out = append(out, cmd)
		}
	}
	return out
}

func claimOf(n *model.Node) string {
	if n.Claim == nil {
		return ""
	}
	return n.Claim.Name
}

// act carries out one command if it still holds. w is the world as it is before any of
// the plan's commands.
func (c *Controller) act(w *model.World, plan *model.Plan, cmd model.Command, candidate map[string]bool) {
	if why, what := c.stale(cmd, candidate); why != "" {
		c.Stats.Rejected[why]++
		for _, n := range cmd.Remove {
			c.nodeEvent(n, false, "ConsolidationRejected", fmt.Sprintf("%s: %s (%s)", cmd.Reason, what, why))
		}
		return
	}
	hops, round := c.circles(w, plan, &cmd)
	if round != "" {
		c.Stats.Rejected["circle"]++
		for _, n := range cmd.Remove {
			c.nodeEvent(n, false, "DisruptionBlocked", fmt.Sprintf("%s: %s", cmd.Reason, round))
		}
		return
	}
	if err := c.x.Disrupt(cmd, c.now); err != nil {
		c.Stats.Rejected["churn"]++
		for _, n := range cmd.Remove {
			c.nodeEvent(n, false, "ConsolidationRejected", fmt.Sprintf("%s: %v", cmd.Reason, err))
		}
		return
	}
	c.moved(w, &cmd, hops)
	c.Stats.Commands++
	what := fmt.Sprintf("remove %d nodes, launch %d", len(cmd.Remove), len(cmd.Launch))
	for _, n := range cmd.Remove {
		what += " " + n.ID()
		if len(cmd.Launch) > 0 {
			c.nodeEvent(n, false, "ConsolidationCandidate", fmt.Sprintf("replace, saving %.4f USD/h", cmd.Before-cmd.After))
		}
	}
	c.x.Decide(ledger.Decision{
		At: c.now, Plan: plan.ID, Kind: string(plan.Kind), What: what, Why: string(cmd.Reason) + ": " + cmd.Why,
		Strategy: plan.Strategy, Outcome: plan.Outcome, Basis: plan.Basis, Before: cmd.Before, After: cmd.After,
	}, c.now)
}

// stale says why a command does not hold any more: churn, scheduling or budget, with
// what happened.
func (c *Controller) stale(cmd model.Command, candidate map[string]bool) (why, what string) {
	w := c.m.World(c.now)
	now := map[string]*model.Node{}
	for _, n := range w.Nodes {
		now[n.ID()] = n
	}
	take := map[string]int{}
	for _, n := range cmd.Remove {
		cur := now[n.ID()]
		switch {
		case candidate != nil && !candidate[claimOf(n)]:
			return "churn", n.ID() + " was no candidate a moment ago"
		case cur == nil || cur.Claim == nil || cur.Claim.UID != n.Claim.UID:
			return "churn", n.ID() + " is gone"
		case cur.BeingRemoved():
			return "churn", n.ID() + " is on its way out"
		case cur.Nominated.After(c.now) || len(cur.Preempting) > 0:
			return "scheduling", n.ID() + " is nominated for a pending pod"
		case !samePods(n, cur):
			return "scheduling", "pods came to or left " + n.ID()
		}
		take[cur.Pool()]++
	}
	running := c.x.Running()
	for pool, n := range take {
		p := w.Pool(pool)
		if p == nil {
			return "churn", "NodePool " + pool + " is gone"
		}
		if p.Static != nil && cmd.Reason == model.Underutilized {
			continue // surplus nodes of a fixed number: v1 asks no budget
		}
		total, lost := disrupt.Disrupting(w, pool, running)
		if a := disrupt.Allowed(p, cmd.Reason, total, lost, c.now); a.Nodes < n {
			return "budget", fmt.Sprintf("NodePool %s allows %d more now", pool, a.Nodes)
		}
	}
	return "", ""
}

// samePods says whether the pods that would have to move are the same.
func samePods(a, b *model.Node) bool {
	uids := map[string]bool{}
	for _, p := range a.Pods {
		if p.Reschedulable() {
			uids[p.UID] = true
		}
	}
	for _, p := range b.Pods {
		if p.Reschedulable() {
			if !uids[p.UID] {
				return false
			}
		}
	}
	return true // pods that left only make it easier
}

// quiet are the reasons that need no event: they say nothing that a person would act on.
var quiet = map[string]bool{
	disrupt.BlockedUnmanaged: true, disrupt.BlockedRunning: true, disrupt.BlockedAfter: true, disrupt.BlockedFrozen: true, disrupt.BlockedNever: true,
	disrupt.BlockedYoung: true, disrupt.BlockedSoak: true, disrupt.BlockedWave: true, disrupt.BlockedHalted: true, disrupt.BlockedPaused: true, // the pool says so
	disrupt.BlockedNotJoined: true, disrupt.BlockedUninitialized: true, disrupt.BlockedDeleting: true, disrupt.BlockedNominated: true,
}

func (c *Controller) blocked(w *model.World, list []model.Blocked) {
	nodes := map[string]*model.Node{}
	for _, n := range w.Nodes {
		nodes[n.ID()] = n
	}
	for _, b := range list {
		n := nodes[b.Node]
		if n == nil || quiet[b.Reason] {
			continue
		}
		reason := "DisruptionBlocked"
		switch b.Reason {
		case disrupt.BlockedCheapest, disrupt.BlockedSpotToSpot, disrupt.BlockedReplacement, disrupt.BlockedType, disrupt.BlockedPolicy, disrupt.BlockedPrice, disrupt.BlockedStrategy, disrupt.BlockedBalanced, disrupt.BlockedUnsupported:
			reason = "Unconsolidatable"
		}
		message := b.Message
		if message == "" {
			message = b.Reason
		}
		c.nodeEvent(n, false, reason, message)
	}
}

// nodeEvent tells about a node on the node and on its claim.
func (c *Controller) nodeEvent(n *model.Node, warning bool, reason, message string) {
	if n.Name != "" {
		c.x.Event(model.Event{Object: model.ObjectRef{Kind: "Node", Name: n.Name, UID: n.UID}, Warning: warning, Reason: reason, Message: message}, c.now)
	}
	if n.Claim != nil {
		c.x.Event(model.Event{Object: model.ObjectRef{Kind: "NodeClaim", Name: n.Claim.Name, UID: n.Claim.UID}, Warning: warning, Reason: reason, Message: message}, c.now)
	}
}
