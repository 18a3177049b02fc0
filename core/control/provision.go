package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/interrupt/replace"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// batch gathers pods that start to wait, so that they are planned for together.
type batch struct {
	seen     int       // Mirror.NewWaiting when last looked
	leaving  int       // nodes with pods to be placed, when last looked
	first    time.Time // first new pod of the open batch, zero = none is open
	last     time.Time // last new pod of it
	urgent   bool      // a notice: plan at once
	planning bool
	planned  time.Time // end of the last pass
	demand   bool      // something waits
	left     leavers
	givenUp  int64 // Counters.GivenUp and Held when last looked
}

// leavers are the pods of leaving nodes as of a snapshot.
type leavers struct {
	nodes **model.Node // first element of the snapshot's nodes
	at    time.Time
	pods  []*model.Pod
}

// provision opens and closes batches and asks for a plan when one closes, or again
// after a while as long as something waits.
func (c *Controller) provision() {
	b := &c.batch
	if n := c.m.NewWaiting(); n != b.seen {
		b.seen = n
		c.opened()
	}
	leaving := c.leaving()
	if len(leaving) != b.leaving {
		if len(leaving) > b.leaving {
			c.opened()
			b.urgent = b.urgent || c.notices.pressing()
		}
		b.leaving = len(leaving)
	}
	if n := c.x.Counters.GivenUp + c.x.Counters.Held; n != b.givenUp {
		b.givenUp, b.urgent = n, n > b.givenUp // what was short is known: plan around it at once
	}
	b.demand = c.m.Waiting() > 0 || len(leaving) > 0
	c.Stats.Waiting = c.m.Waiting()
	if !b.demand {
		b.first, b.urgent = time.Time{}, false
		c.Stats.Unmet = 0
		return
	}
	if b.planning {
		return
	}
	at := c.batchEnd()
	if c.now.Before(at) {
		c.wake(at)
		return
	}
	if !c.canPlan() {
		c.wake(c.now.Add(time.Second))
		return
	}
	w := *c.m.World(c.now)
	pods := w.Pods
	w.Pods = append(pods[:len(pods):len(pods)], leaving...)
	world := &w
	if acting := c.notices.acting(); len(acting) > 0 {
		world = replace.World(world, acting)
	}
	if c.x.Do("plan/provision", execute.Plan{For: model.PlanProvision, World: world}, c.now) {
		b.planning, b.first, b.urgent = true, time.Time{}, false
	}
}

func (c *Controller) opened() {
	if c.batch.first.IsZero() {
		c.batch.first = c.now
	}
	c.batch.last = c.now
}

// batchEnd is when the next plan is due.
func (c *Controller) batchEnd() time.Time {
	b := &c.batch
	if b.urgent {
		return c.now
	}
	again := b.planned.Add(c.set.Replan)
	if b.first.IsZero() {
		return again
	}
	end := b.last.Add(c.set.BatchIdle)
	if max := b.first.Add(c.set.BatchMax); max.Before(end) {
		end = max
	}
	return end
}

// canPlan says whether what can be bought is known for every class in use, and what
// is on its way.
func (c *Controller) canPlan() bool {
	w := c.m.World(c.now)
	for _, p := range w.Pools {
		class := w.NodeClasses[p.NodeClass.Name]
		if class == nil || p.Unusable != "" || class.Unusable != "" {
			continue // the planner says what is wrong with it; the others go on
		}
		if _, known := c.m.OfferingsOf(class.Name); !known {
			return false
		}
	}
	// A claim of whoever led before, whose machine is not known yet, holds pods that
	// would be bought for twice; its launch is taken up again within seconds.
	for _, n := range w.Nodes {
		if cl := n.Claim; cl != nil && cl.Deleting == nil && cl.ProviderID == "" && n.Allocatable.IsZero() &&
			cl.Created.Before(c.led) && c.now.Sub(c.led) < takeUp {
			return false
		}
	}
	return true
}

// takeUp is how long a new leader waits for the launches that it found under way.
const takeUp = 30 * time.Second

// leaving lists the pods of nodes that are on their way out and need a new place.
// Pods that cannot be evicted for now get none: nobody knows when they will go. Nor do
// those of a node whose replacement a disruption command sees to.
func (c *Controller) leaving() []*model.Pod {
	w := c.m.World(c.now)
	l := &c.batch.left
	if len(w.Nodes) == 0 {
		return nil
	}
	if l.nodes == &w.Nodes[0] && c.now.Sub(l.at) < c.set.Replan && !c.now.Before(l.at) {
		return l.pods // no node has changed since
	}
	var out []*model.Pod
	defer func() { *l = leavers{nodes: &w.Nodes[0], at: c.now, pods: out} }()
	for _, n := range w.Nodes {
		if !n.Managed() || !n.Joined() || !n.BeingRemoved() {
			continue
		}
		if n.Deleting == nil && onlyCordoned(n.Claim) {
			continue // its pods stay
		}
		if n.Deleting == nil && n.Claim.Deleting == nil && n.Claim.Annotations[model.AnnotationInterruption] == "" {
			// Only cordoned: by a command of ours, or by the Lambda, whose notice says why.
			c.notices.peek = c.notices.peek || !c.x.Commanded(n.Claim.Name)
			continue
		}
		for _, p := range n.Pods {
			if p.Reschedulable() && drain.Unevictable(p, w.PDBs, c.now) == "" && !p.Tolerates(drain.Taint) {
				out = append(out, p)
			}
		}
	}
	return out
}

// planned deals with a plan that came back.
func (c *Controller) planned(d execute.Plan, r execute.Result) {
	if d.For == model.PlanDisrupt {
		c.disruptPlanned(d, r)
		return
	}
	c.batch.planning, c.batch.planned = false, c.now
	if r.Err != nil {
		return // the executor's back-off decides when it is tried again
	}
	plan := r.Value.(execute.Planned).Plan
	c.Stats.Plans++
	c.Stats.LastPlanDuration = c.now.Sub(d.World.Now)
	c.Stats.Unmet = len(plan.Unplaced)
	if plan.ID == "" {
		plan.ID = fmt.Sprintf("provision-%s", d.World.Now.UTC().Format("20060102T150405.000"))
	}
	if c.decisions != nil {
		c.decisions(plan)
	}
	c.carryOut(plan)
	if e := plan.Budget; e != nil && e.Unseen > 0 && len(plan.Launch)+len(plan.Placements) > 0 {
		c.batch.urgent = true // the pods that the time did not suffice for; those that it did have their places
	}
	if c.probe(plan) {
		c.batch.urgent = true
	}
}

func (c *Controller) carryOut(plan *model.Plan) {
	var launch []*model.NewNode
	for _, n := range plan.Launch {
		if c.wanted(n) {
			launch = append(launch, n)
		}
	}
	names := c.x.Accept(launch, "", c.now)
	for _, p := range plan.Placements {
		c.m.Nominate(p.Node.ID(), c.now.Add(cluster.Nomination))
		for _, pod := range p.Pods {
			if pod.NodeName == "" {
				c.x.Event(model.Event{Object: ref(pod), Reason: "Nominated", Message: "Pod should schedule on: " + target(p.Node)}, c.now)
			}
		}
	}
	for _, v := range plan.Unplaced {
		if v.Pod.NodeName == "" {
			c.x.Event(model.Event{Object: ref(v.Pod), Warning: true, Reason: "FailedScheduling", Message: "Failed to schedule pod, " + Reasons(v.Reasons)}, c.now)
		}
	}
	if len(launch) == 0 {
		return
	}
	usd := 0.0
	var what []string
	for _, n := range launch {
		usd += n.Offering.USDPerHour
		what = append(what, fmt.Sprintf("%s (%s for %d pods)", names[n.Name], n.Offering.Key(), len(n.Pods)))
	}
	c.x.Decide(ledger.Decision{
		At: c.now, Plan: plan.ID, Kind: string(plan.Kind), What: "launch " + strings.Join(what, ", "),
		Why: fmt.Sprintf("%d pods wait%s", podsOf(launch), missed(plan)), Strategy: plan.Strategy, Outcome: plan.Outcome, Basis: plan.Basis,
		After: usd, Bound: plan.LowerBoundUSDPerHour,
	}, c.now)
}

// missed is what strategies aimed at and the plan did not reach, and that it was stopped,
// as the end of a sentence.
func missed(plan *model.Plan) string {
	var b strings.Builder
	for _, s := range plan.Shortfalls {
		fmt.Fprintf(&b, "; NodePool %s, limit %q: %s", s.Pool, s.Limit, s.Message)
	}
	if plan.Budget != nil {
		b.WriteString("; " + plan.Budget.Text("pods", "the plan may be dearer than need be"))
	}
	return b.String()
}

// wanted says whether any pod of a planned node still needs it.
func (c *Controller) wanted(n *model.NewNode) bool {
	for _, p := range n.Pods {
		now := c.m.Pod(p.ID())
		if now != nil && now.UID == p.UID && (cluster.Waits(now) || now.NodeName == p.NodeName && p.NodeName != "" && now.Reschedulable()) {
			return true
		}
	}
	return false
}

func podsOf(nodes []*model.NewNode) int {
	n := 0
	for _, x := range nodes {
		n += len(x.Pods)
	}
	return n
}

func ref(p *model.Pod) model.ObjectRef {
	return model.ObjectRef{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

func target(n *model.Node) string {
	var parts []string
	if n.Claim != nil {
		parts = append(parts, "nodeclaim/"+n.Claim.Name)
	}
	if n.Name != "" {
		parts = append(parts, "node/"+n.Name)
	}
	return strings.Join(parts, ", ")
}

// Reasons says in one line why a pod was not placed.
func Reasons(rs []model.Reason) string {
	var parts []string
	for _, r := range rs {
		s := r.Message
		if s == "" {
			s = "incompatible " + string(r.Filter)
		}
		if r.Nearest != "" {
			s += " (nearest: " + r.Nearest + ")"
		}
		if r.Pool != "" {
			s = fmt.Sprintf("nodepool %q: %s: %s", r.Pool, r.Filter, s)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}
