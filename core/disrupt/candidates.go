package disrupt

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

var disrupted = model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}

// Candidate is a node that may be disrupted as far as the node itself, its pods
// and its pool go; budgets, room for its pods and the strategy come after.
type Candidate struct {
	Node    *model.Node
	Pool    *model.Pool
	Reasons []model.DisruptionReason // in the order in which they are tried
	Pods    []*model.Pod             // that need another place
	Expired bool                     // past its expireAfter, in a pool that replaces such nodes within its budgets: like Drifted
	Cost    float64                  // of the move, see MoveCost
	Ratio   float64                  // USD per hour saved for each unit of cost
}

// Candidates sorts the nodes of the world into those that may be disrupted, best
// savings ratio first, and those that may not, each with its reason. Nodes that
// are not ours are blocked as well: they are destinations, never candidates.
func Candidates(w *model.World, opts Options) ([]*Candidate, []model.Blocked) {
	c := newChecker(w, opts)
	var cands []*Candidate
	var blocked []model.Blocked
	for _, n := range w.Nodes {
		cand, b := c.check(n)
		if cand == nil {
			b.Node = n.ID()
			blocked = append(blocked, *b)
			continue
		}
		cands = append(cands, cand)
	}
	sort.SliceStable(cands, func(i, j int) bool {
		a, b := cands[i], cands[j]
		if a.Ratio != b.Ratio {
			return a.Ratio > b.Ratio
		}
		return a.Node.ID() < b.Node.ID()
	})
	return cands, blocked
}

// checker holds what the checks look up.
type checker struct {
	w      *model.World
	opts   Options
	pools  map[string]*model.Pool
	totals map[string]totals
	pdbs   pdbIndex
	types  map[string]map[string]bool // by node class: names of types that have an offering
}

func newChecker(w *model.World, opts Options) *checker {
	c := &checker{w: w, opts: opts, pools: map[string]*model.Pool{}, totals: poolTotals(w), pdbs: indexPDBs(w.PDBs),
		types: map[string]map[string]bool{}}
	for _, p := range w.Pools {
		c.pools[p.Name] = p
	}
	for class, offerings := range w.Offerings {
		names := map[string]bool{}
		for _, o := range offerings {
			names[o.Type.Name] = true
		}
		c.types[class] = names
	}
	return c
}

func no(reason, format string, args ...any) *model.Blocked {
	return &model.Blocked{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// check is the verdict on one node: a candidate, or what blocks it.
func (c *checker) check(n *model.Node) (*Candidate, *model.Blocked) {
	if b := c.nodeBlock(n); b != nil {
		return nil, b
	}
	pool := c.pools[n.Pool()]
	cand := &Candidate{Node: n, Pool: pool, Cost: MoveCost(n)}
	if n.PriceKnown {
		cand.Ratio = n.USDPerHour / cand.Cost
	}
	podBlock := c.podBlock(n)
	var first *model.Blocked
	try := func(r model.DisruptionReason, b *model.Blocked) {
		if b == nil {
			cand.Reasons = append(cand.Reasons, r)
		} else if first == nil {
			first = b
		}
	}
	isEmpty := empty(n)
	if podBlock != nil {
		first = podBlock
	} else if isEmpty {
		try(model.Empty, firstBlock(c.young(n), c.quiet(n, pool)))
	}
	// with a grace period the deadline frees such pods anyway, so they do not hold these back
	if podBlock == nil || n.Claim.TerminationGP != nil {
		if cand.Expired = pool.BudgetedExpiry() && Expired(c.w, n.Claim); cand.Expired {
			try(model.Drifted, firstBlock(staticBlock(pool), c.held(pool)))
		} else if n.Claim.Is(model.CondDrifted) {
			try(model.Drifted, firstBlock(staticBlock(pool), c.young(n), c.soak(n, pool), c.held(pool)))
		}
	}
	if podBlock == nil && !isEmpty {
		try(model.Underutilized, firstBlock(c.young(n), c.consolidationBlock(n, pool, cand.Cost)))
	}
	if len(cand.Reasons) == 0 {
		return nil, first
	}
	for _, p := range n.Pods {
		if p.Reschedulable() && (podBlock == nil || c.movable(p)) {
			cand.Pods = append(cand.Pods, p)
		}
	}
	if b := unsupported(cand.Pods); b != nil {
		return nil, b
	}
	return cand, nil
}

// nodeBlock is what keeps a node for its own sake, in the order of the reference.
func (c *checker) nodeBlock(n *model.Node) *model.Blocked {
	until, nominated := c.opts.Nominated[n.ID()]
	switch {
	case c.opts.Running[n.ID()]:
		return no(BlockedRunning, "node is part of a command that is under way")
	case !n.Managed():
		return no(BlockedUnmanaged, "node has no NodeClaim, so it is not ours to remove")
	case !n.Joined():
		return no(BlockedNotJoined, "nodeclaim does not have an associated node%s", said(n.Claim, model.CondLaunched, model.CondRegistered))
	case n.BeingRemoved():
		return no(BlockedDeleting, "node is deleting or marked for deletion%s", said(n.Claim, model.CondDrained, model.CondVolumesDetached))
	case !n.Initialized():
		return no(BlockedUninitialized, "node isn't initialized%s", orElse(said(n.Claim, model.CondInitialized), ": not ready, startup taints left, or resources not registered"))
	case nominated && until.After(c.w.Now):
		b := no(BlockedNominated, "node is nominated for a pending pod")
		b.Until = &until
		return b
	case len(n.Preempting) > 0:
		return no(BlockedNominated, "node is nominated for a pending pod: %s preempts others on it", n.Preempting[0].ID())
	case n.Annotations[model.AnnotationDoNotDisrupt] == "true":
		return no(BlockedDoNotDisrupt, "disruption is blocked through the %q annotation of the node", model.AnnotationDoNotDisrupt)
	case n.Claim.Annotations[model.AnnotationDoNotDisrupt] == "true":
		return no(BlockedDoNotDisrupt, "disruption is blocked through the %q annotation of NodeClaim %s", model.AnnotationDoNotDisrupt, n.Claim.Name)
	case n.Pool() == "":
		return no(BlockedLabel, "node doesn't have required label %q", model.LabelPool)
	}
	pool := c.pools[n.Pool()]
	switch {
	case pool == nil:
		return no(BlockedPool, "NodePool not found (NodePool=%s)", n.Pool())
	case pool.Deleting:
		return no(BlockedPool, "NodePool %s is being deleted, and its nodes go with it", pool.Name)
	case len(c.types[pool.NodeClass.Name]) == 0:
		why := pool.Unusable
		if why == "" {
			why = "no instance type can be bought"
		}
		return no(BlockedPool, "NodePool %s resolves to no instance types: %s", pool.Name, why)
	case c.opts.Frozen != "":
		return no(BlockedFrozen, "%s", c.opts.Frozen)
	}
	return heldBack(c.opts.Paused[pool.Name], pool, BlockedPaused)
}

// said is what the first of some conditions of a claim that is not true has to say.
func said(c *model.Claim, conditions ...string) string {
	for _, t := range conditions {
		if x := c.Condition(t); x.Status != "True" && x.Reason != "" {
			return ": " + orElse(x.Message, x.Reason)
		}
	}
	return ""
}

// firstBlock is the first of several verdicts that blocks.
func firstBlock(list ...*model.Blocked) *model.Blocked {
	for _, b := range list {
		if b != nil {
			return b
		}
	}
	return nil
}

// young says what keeps a node that was bought a short while ago.
func (c *checker) young(n *model.Node) *model.Blocked {
	until := n.Claim.Created.Add(c.w.Settings.MinNodeAge)
	if c.w.Settings.MinNodeAge <= 0 || !until.After(c.w.Now) {
		return nil
	}
	b := no(BlockedYoung, "node is younger than %s (disruption.minNodeAge)", c.w.Settings.MinNodeAge)
	b.Until = &until
	return b
}

// held says what the next wave of the pool waits for.
func (c *checker) held(pool *model.Pool) *model.Blocked {
	return heldBack(c.opts.Held[pool.Name], pool, BlockedWave)
}

// podBlock is the first pod that keeps the node.
func (c *checker) podBlock(n *model.Node) *model.Blocked {
	for _, p := range n.Pods {
		if !p.Active() {
			continue
		}
		if active, until := DoNotDisrupt(p, c.w.Now); active {
			b := no(BlockedDoNotDisrupt, "pod %s has %q annotation", p.ID(), model.AnnotationDoNotDisrupt)
			b.Until = until
			return b
		}
	}
	for _, p := range n.Pods {
		if !p.Active() || p.Mirror || p.Tolerates(disrupted) {
			continue
		}
		if b := c.pdbBlock(p); b != nil {
			return b
		}
	}
	return nil
}

func (c *checker) pdbBlock(p *model.Pod) *model.Blocked {
	switch match := c.pdbs.of(p); {
	case len(match) > 1:
		names := make([]string, len(match))
		for i, b := range match {
			names[i] = b.Namespace + "/" + b.Name
		}
		sort.Strings(names)
		return no(BlockedMultiplePDBs, "eviction does not support multiple PDBs: pod %s is selected by %s", p.ID(), strings.Join(names, ", "))
	case len(match) == 1 && match[0].DisruptionsAllowed <= 0 && (!match[0].AlwaysAllow || p.Ready):
		if match[0].FullyBlocking {
			return no(BlockedPDB, "pdb prevents pod evictions: %s/%s can never allow one (maxUnavailable 0 or minAvailable 100%%), so pod %s keeps the node for as long as it runs", match[0].Namespace, match[0].Name, p.ID())
		}
		return no(BlockedPDB, "pdb prevents pod evictions: %s/%s allows no disruption of pod %s now", match[0].Namespace, match[0].Name, p.ID())
	}
	return nil
}

// movable says whether a pod could be evicted one day without the deadline: no
// capacity is planned for those that cannot.
func (c *checker) movable(p *model.Pod) bool {
	if active, _ := DoNotDisrupt(p, c.w.Now); active {
		return false
	}
	match := c.pdbs.of(p)
	return len(match) == 0 || len(match) == 1 && !match[0].FullyBlocking
}

// DoNotDisrupt says whether the pod's annotation protects it at now, and until
// when: "true" for ever, a duration from the start of the pod, anything else not.
func DoNotDisrupt(p *model.Pod, now time.Time) (bool, *time.Time) {
	v, ok := p.Annotations[model.AnnotationDoNotDisrupt]
	if !ok {
		return false, nil
	}
	if v == "true" {
		return true, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return false, nil
	}
	if p.Started == nil {
		return true, nil
	}
	until := p.Started.Add(d)
	if now.Before(until) {
		return true, &until
	}
	return false, nil
}

func staticBlock(pool *model.Pool) *model.Blocked {
	if pool.Static != nil {
		return no(BlockedStatic, "NodePool %q keeps a fixed number of %d nodes", pool.Name, *pool.Static)
	}
	return nil
}

// quiet says what keeps a node that emptiness or consolidation would take: the
// pool is static, never consolidates, or pods came or went too recently.
func (c *checker) quiet(n *model.Node, pool *model.Pool) *model.Blocked {
	if b := staticBlock(pool); b != nil {
		return b
	}
	if pool.ConsolidateAfter == model.Never {
		return no(BlockedNever, "NodePool %q has consolidation disabled (consolidateAfter: Never)", pool.Name)
	}
	if until := quietFrom(n, pool); until.After(c.w.Now) {
		b := no(BlockedAfter, "pods came or went less than %s ago (consolidateAfter of NodePool %q)", pool.ConsolidateAfter, pool.Name)
		b.Until = &until
		return b
	}
	return nil
}

// quietFrom is the instant from which the node counts as quiet.
func quietFrom(n *model.Node, pool *model.Pool) time.Time {
	last := n.Claim.Condition(model.CondInitialized).Since
	if n.Claim.LastPodEvent != nil {
		last = *n.Claim.LastPodEvent
	}
	return last.Add(max(pool.ConsolidateAfter, 0))
}

// consolidationBlock says what keeps a node that is not empty from consolidation.
func (c *checker) consolidationBlock(n *model.Node, pool *model.Pool, cost float64) *model.Blocked {
	if b := staticBlock(pool); b != nil {
		return b
	}
	for _, key := range []string{model.LabelInstanceType, model.LabelCapacityType, model.LabelZone} {
		if n.Labels[key] == "" {
			return no(BlockedLabel, "node does not have label %q", key)
		}
	}
	if !c.types[pool.NodeClass.Name][n.InstanceType()] {
		return no(BlockedType, "instance type %q not found", n.InstanceType())
	}
	if pool.ConsolidateAfter == model.Never {
		return c.quiet(n, pool)
	}
	if pool.Policy == model.WhenEmpty {
		return no(BlockedPolicy, "NodePool %q has consolidation policy WhenEmpty, but node is not empty", pool.Name)
	}
	if b := c.quiet(n, pool); b != nil {
		return b
	}
	if !n.PriceKnown || n.USDPerHour <= 0 {
		return no(BlockedPrice, "no price is known for %s in %s as %s, so a saving cannot be proven", n.InstanceType(), n.Zone(), n.CapacityType())
	}
	if pool.Policy == model.Balanced {
		t := c.totals[pool.Name]
		if s := BalancedScore(n.USDPerHour, t.price, cost, t.cost); s < balancedFloor {
			return no(BlockedBalanced, "Balanced score %.2f is below %.2f: it saves %.1f%% of the price of NodePool %q for %.1f%% of its disruption",
				s, balancedFloor, 100*n.USDPerHour/t.price, pool.Name, 100*cost/t.cost)
		}
	}
	return nil
}

// unsupported names the first pod whose constraints a move cannot be checked against.
func unsupported(pods []*model.Pod) *model.Blocked {
	for _, p := range pods {
		switch {
		case p.Invalid != "":
			return no(BlockedUnsupported, "pod %s could not be placed again: %s", p.ID(), p.Invalid)
		case len(p.Unsupported) > 0:
			return no(BlockedUnsupported, "pod %s cannot be planned for a move: %s: %s", p.ID(), p.Unsupported[0].Filter, p.Unsupported[0].Message)
		}
	}
	return nil
}

// pdbIndex finds the budgets that may cover a pod without asking every one.
type pdbIndex struct {
	byLabel map[[3]string][]*model.PDB // namespace, key, value that every covered pod has
	rest    map[string][]*model.PDB    // by namespace
}

func indexPDBs(pdbs []*model.PDB) pdbIndex {
	ix := pdbIndex{byLabel: map[[3]string][]*model.PDB{}, rest: map[string][]*model.PDB{}}
	for _, b := range pdbs {
		if len(b.MatchLabels) == 0 {
			ix.rest[b.Namespace] = append(ix.rest[b.Namespace], b)
			continue
		}
		var key string // the last one in order: any would do, but always the same
		for k := range b.MatchLabels {
			key = max(key, k)
		}
		at := [3]string{b.Namespace, key, b.MatchLabels[key]}
		ix.byLabel[at] = append(ix.byLabel[at], b)
	}
	return ix
}

// of is the budgets that cover the pod.
func (ix pdbIndex) of(p *model.Pod) []*model.PDB {
	var out []*model.PDB
	add := func(list []*model.PDB) {
		for _, b := range list {
			if b.Covers(p) {
				out = append(out, b)
			}
		}
	}
	add(ix.rest[p.Namespace])
	if len(ix.byLabel) > 0 {
		for k, v := range p.Labels {
			add(ix.byLabel[[3]string{p.Namespace, k, v}])
		}
	}
	return out
}
