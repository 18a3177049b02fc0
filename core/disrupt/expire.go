package disrupt

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/weir-project/weir/core/model"
)

// expiryJitter is the share of expireAfter by which nodes of a pool with budgeted expiry
// are due early, each by its own part of it, so that what was bought together does not
// come to its end together.
const expiryJitter = 0.1

// Expired says whether a claim is due because of its age: past its expireAfter, or up to
// a tenth of that earlier where its pool's expiry is budgeted.
func Expired(w *model.World, c *model.Claim) bool {
	at, ever := ExpiresAt(w.Pool(c.Pool), c)
	return ever && !w.Now.Before(at)
}

// ExpiresAt is when a claim is due because of its age, with false where it never is. pool
// may be nil.
func ExpiresAt(pool *model.Pool, c *model.Claim) (at time.Time, ever bool) {
	if c.ExpireAfter <= 0 || c.Created.IsZero() {
		return time.Time{}, false
	}
	after := c.ExpireAfter
	if pool != nil && pool.BudgetedExpiry() {
		h := fnv.New32a()
		_, _ = h.Write([]byte(c.Name + "/" + c.UID)) // a hash takes everything
		after -= time.Duration(expiryJitter * float64(after) * float64(h.Sum32()) / math.MaxUint32)
	}
	return c.Created.Add(after), true
}

// CheckExpire says what is wrong with how a pool wants its nodes' age to be dealt with.
func CheckExpire(p *model.Pool) error {
	if v, ok := p.Annotations[model.AnnotationExpire]; ok && v != model.ExpireBudgeted {
		return fmt.Errorf("NodePool %s: annotation %s: expected %q, got %q", p.Name, model.AnnotationExpire, model.ExpireBudgeted, v)
	}
	return nil
}

// expiredBudgeted gives the commands for nodes that go because of their age alone, within
// budgets, their own reason.
func expiredBudgeted(w *model.World, p *model.Plan) {
	due := func(n *model.Node) bool {
		pool := w.Pool(n.Pool())
		return pool != nil && pool.BudgetedExpiry() && Expired(w, n.Claim) && !n.Claim.Is(model.CondDrifted)
	}
	for i := range p.Commands {
		c := &p.Commands[i]
		if c.Reason != model.Drifted || slices.ContainsFunc(c.Remove, func(n *model.Node) bool { return !due(n) }) {
			continue
		}
		c.Reason = model.Expired
		c.Why = fmt.Sprintf("it is due by its expireAfter of %s, in a pool that replaces such nodes within its budgets (%s: %s)",
			c.Remove[0].Claim.ExpireAfter, model.AnnotationExpire, model.ExpireBudgeted)
	}
}

// expiredNodes are the nodes to end because of their age, oldest first.
func expiredNodes(w *model.World, opts Options) []*model.Node {
	if !opts.Expire {
		return nil
	}
	var out []*model.Node
	for _, n := range w.Nodes {
		if !n.Managed() || n.Claim.Deleting != nil || opts.Running[n.ID()] || !Expired(w, n.Claim) {
			continue
		}
		if p := w.Pool(n.Claim.Pool); p == nil || !p.BudgetedExpiry() {
			out = append(out, n)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Claim.Created.Before(out[j].Claim.Created) })
	return out
}

func withoutExpired(expired []*model.Node, cands []*Candidate, blocked []model.Blocked) ([]*Candidate, []model.Blocked) {
	gone := map[*model.Node]bool{}
	names := map[string]bool{}
	for _, n := range expired {
		gone[n], names[n.ID()] = true, true
	}
	var c []*Candidate
	for _, x := range cands {
		if !gone[x.Node] {
			c = append(c, x)
		}
	}
	var b []model.Blocked
	for _, x := range blocked {
		if !names[x.Node] {
			b = append(b, x)
		}
	}
	return c, b
}

// evacuate plans the end of expired nodes: no budget, no wait for their pods to
// fit. Pods that fit on nodes that stay are shown where; the others are bought for
// by the next provisioning, as v1 does.
func (p *planner) evacuate(expired []*model.Node) {
	for _, n := range expired {
		g := &going{cand: &Candidate{Node: n}, reason: model.Expired}
		for _, x := range n.Pods {
			if x.Reschedulable() {
				g.pods = append(g.pods, p.rooms.tenant(x, n))
			}
		}
		largestFirst(g.pods)
		waiting := 0
		for _, t := range g.pods {
			if t.pod.Invalid == "" && len(t.pod.Unsupported) == 0 && p.rooms.around.unmovable(t.pod) == "" {
				if i := p.rooms.find(t); i >= 0 {
					p.rooms.put(t, i)
					continue
				}
			}
			waiting++
		}
		c := p.command(g)
		c.Wave = 1
		c.Why = fmt.Sprintf("it is older than its expireAfter of %s", n.Claim.ExpireAfter)
		if waiting > 0 {
			c.Why += fmt.Sprintf("; %d of its pods fit on no other node and will need new capacity", waiting)
		}
		p.forced = append(p.forced, c)
	}
}
