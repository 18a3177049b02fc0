package disrupt

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// keepReplicas adds to the plan what pools with a fixed number of nodes need: nodes that
// are missing (Plan.Launch), surplus ones that go, and drifted ones that are replaced one
// for one within the budgets. It answers the verdicts on the nodes that stay.
func keepReplicas(w *model.World, prices *model.Prices, opts Options, plan *model.Plan, blocked []model.Blocked) []model.Blocked {
	if !w.Settings.StaticCapacity {
		return blocked
	}
	verdict := map[string]*model.Blocked{} // by node; nil = it goes
	for _, p := range w.Pools {
		if p.Static == nil || p.Deleting {
			continue
		}
		s := &static{w: w, pool: p, opts: opts, prices: prices, plan: plan, verdict: verdict, check: newChecker(w, opts)}
		for _, n := range w.Nodes {
			if n.Pool() != p.Name || n.Claim == nil {
				continue
			}
			s.all++
			if !n.BeingRemoved() && !opts.Running[n.ID()] {
				s.active = append(s.active, n)
			}
		}
		switch missing := *p.Static - int64(len(s.active)); {
		case missing > 0:
			s.grow(missing)
		case missing < 0:
			s.shrink(-missing)
		default:
			s.drift()
		}
	}
	var out []model.Blocked
	for _, b := range blocked {
		v, seen := verdict[b.Node]
		if seen && v != nil {
			v.Node = b.Node
			b = *v
		}
		if !seen || v != nil {
			out = append(out, b)
		}
	}
	return out
}

// static is the view on one pool with a fixed number of nodes.
type static struct {
	w       *model.World
	pool    *model.Pool
	opts    Options
	prices  *model.Prices
	plan    *model.Plan
	verdict map[string]*model.Blocked
	check   *checker
	all     int64         // nodes and claims, those on their way out included
	active  []*model.Node // that count for the replicas
	made    int           // new nodes so far
}

// room is how many more nodes the pool's limit allows.
func (s *static) room() int64 {
	if s.pool.Limits.Nodes == nil {
		return math.MaxInt64
	}
	return max(0, *s.pool.Limits.Nodes-s.all)
}

// grow buys what is missing.
func (s *static) grow(missing int64) {
	n := min(missing, s.room())
	if n < missing {
		s.warn("%d of its %d nodes are missing, and limits.nodes %d leaves room for %d", missing, *s.pool.Static, *s.pool.Limits.Nodes, n)
	}
	if n == 0 {
		return
	}
	model, why := s.model()
	if model == nil {
		s.warn("%d of its %d nodes are missing, and none can be bought: %s", missing, *s.pool.Static, why)
		return
	}
	for range n {
		s.plan.Launch = append(s.plan.Launch, s.another(model))
	}
}

func (s *static) warn(format string, args ...any) {
	s.plan.Warnings = append(s.plan.Warnings, fmt.Sprintf("NodePool %s: ", s.pool.Name)+fmt.Sprintf(format, args...))
}

// another is one more node like the model.
func (s *static) another(like *model.NewNode) *model.NewNode {
	n := *like
	s.made++
	n.Name = fmt.Sprintf("%s-static-%d", s.pool.Name, s.made)
	return &n
}

// model is a node as the pool would buy it for whoever comes: the cheapest that it allows.
func (s *static) model() (*model.NewNode, string) {
	p := *s.pool
	p.Static, p.Limits = nil, model.Limits{}
	w := *s.w
	w.Pools, w.Nodes, w.PDBs = []*model.Pool{&p}, nil, nil
	w.Pods = []*model.Pod{{Namespace: "weir", Name: "replica", UID: "replica", Requests: resource.New(0, 0, 1, 0), Terms: []require.Set{{}},
		Tolerations: []model.Toleration{{Operator: "Exists"}}, Unschedulable: true}}
	var prices *model.Prices
	if s.prices != nil {
		pp := s.prices.ByPool[p.Name]
		pp.Limits = nil // over nodes that are not shown here
		prices = &model.Prices{ByPool: map[string]model.PoolPrices{p.Name: pp}}
	}
	r := engine.Place(&w, prices)
	if len(r.New) == 0 {
		why := "nothing matches it"
		for _, v := range r.Unplaced {
			for _, x := range v.Reasons {
				why = cmp.Or(x.Message, string(x.Filter))
			}
		}
		return nil, why
	}
	n := *r.New[0]
	n.Pool, n.Pods, n.Requests = s.pool, nil, resource.Vector{}
	return &n, ""
}

// shrink takes surplus nodes away: what is not launched first, then empty nodes, then
// those that nobody protects, then those whose end costs least. Budgets do not count.
func (s *static) shrink(surplus int64) {
	if s.opts.Frozen != "" {
		return
	}
	rank := func(n *model.Node) (int, float64) {
		switch {
		case n.Claim.ProviderID == "":
			return 0, 0
		case !slices.ContainsFunc(n.Pods, func(p *model.Pod) bool { return p.Active() && !p.Daemon() && !p.Mirror }) && !s.protected(n):
			return 1, 0
		case !s.protected(n):
			return 2, s.endCost(n)
		}
		return 3, s.endCost(n)
	}
	order := slices.Clone(s.active)
	slices.SortStableFunc(order, func(a, b *model.Node) int {
		ra, ca := rank(a)
		rb, cb := rank(b)
		return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(ca, cb), cmp.Compare(a.ID(), b.ID()))
	})
	for _, n := range order[:surplus] {
		s.take(n, model.Command{Reason: model.Underutilized, Why: fmt.Sprintf("NodePool %q is to have %d nodes and has %d", s.pool.Name, *s.pool.Static, len(s.active))})
	}
}

// protected says whether the node or a pod on it asks not to be disrupted.
func (s *static) protected(n *model.Node) bool {
	return n.Annotations[model.AnnotationDoNotDisrupt] == "true" || slices.ContainsFunc(n.Pods, func(p *model.Pod) bool {
		on, _ := DoNotDisrupt(p, s.w.Now)
		return on && p.Active()
	})
}

// endCost weighs the pods by how much of the node's life is left.
func (s *static) endCost(n *model.Node) float64 {
	left := 1.0
	if e := n.Claim.ExpireAfter; e > 0 && !n.Claim.Created.IsZero() {
		left = min(max(float64(e-s.w.Now.Sub(n.Claim.Created))/float64(e), 0), 1)
	}
	sum := 0.0
	for _, p := range n.Pods {
		sum += EvictionCost(p)
	}
	return sum * left
}

// take adds a command that may start now.
func (s *static) take(n *model.Node, c model.Command) {
	c.Remove, c.Wave = []*model.Node{n}, 1
	if n.PriceKnown {
		c.Before = n.USDPerHour
	}
	for _, l := range c.Launch {
		c.After += l.Offering.USDPerHour
		c.Worst += l.Offering.USDPerHour
		for _, o := range l.Alternatives {
			c.Worst = max(c.Worst, o.USDPerHour)
		}
	}
	for _, p := range n.Pods {
		if p.Reschedulable() {
			c.PodsEvicted++
		}
	}
	s.verdict[n.ID()] = nil
	s.plan.Commands = append(s.plan.Commands, c)
}

// drift replaces drifted nodes one for one, as many at a time as budget and limit allow.
func (s *static) drift() {
	total, lost := Disrupting(s.w, s.pool.Name, s.opts.Running)
	a := Allowed(s.pool, model.Drifted, total, lost, s.w.Now)
	left, room := a.Nodes, s.room()
	var like *model.NewNode
	for _, n := range s.active {
		due := s.pool.BudgetedExpiry() && Expired(s.w, n.Claim)
		if !due && !n.Claim.Is(model.CondDrifted) {
			continue
		}
		b := firstBlock(s.check.nodeBlock(n), s.podBlock(n), s.check.held(s.pool))
		if b == nil && !due {
			b = firstBlock(s.check.young(n), s.check.soak(n, s.pool))
		}
		if b == nil && left <= 0 {
			b = budgetBlock(model.Drifted, a)
		}
		if b == nil && room <= 0 {
			b = no(BlockedStatic, "it is to be replaced, and limits.nodes %d of NodePool %q leaves no room for the replacement", *s.pool.Limits.Nodes, s.pool.Name)
		}
		if b == nil && like == nil {
			var why string
			if like, why = s.model(); like == nil {
				b = no(BlockedReplacement, "no replacement can be bought: %s", why)
			}
		}
		if b != nil {
			s.verdict[n.ID()] = b
			continue
		}
		c := model.Command{Reason: model.Drifted, Launch: []*model.NewNode{s.another(like)},
			Why: "it no longer matches its pool: " + orElse(n.Claim.Condition(model.CondDrifted).Reason, "Drifted")}
		if due && !n.Claim.Is(model.CondDrifted) {
			c.Reason, c.Why = model.Expired, fmt.Sprintf("it is due by its expireAfter of %s", n.Claim.ExpireAfter)
		}
		s.take(n, c)
		left--
		room--
	}
}

// podBlock is what a pod has against it; with a grace period the deadline decides.
func (s *static) podBlock(n *model.Node) *model.Blocked {
	if n.Claim.TerminationGP != nil {
		return nil
	}
	return s.check.podBlock(n)
}
