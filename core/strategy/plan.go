package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/plugins/sdk"
)

// The levels at which a strategy decides by itself.
const (
	LevelPlan    = "plan"
	LevelPropose = "propose"
)

// ByPrices is the rung below a plan or a proposal: the same strategy at the level that
// every strategy of its kind has, price or score.
const ByPrices Rung = "price-or-score"

// Draft asks the strategies that pack by themselves, and answers the prices with their
// nodes beside them. It never fails: a plan that is late, empty or illegal leaves the
// prices of the same strategy. Such a strategy plans for the pools that no pool of
// another one outweighs: pools are tried in the order of their weight, whoever packs. All
// are asked at once; of two that plan for the same pod, the first by name has it.
func (h *Host) Draft(ctx context.Context, w *model.World, prices *model.Prices) *model.Prices {
	if len(w.Pods) == 0 || prices == nil {
		return prices
	}
	groups := h.bind(ctx, sdk.InstanceSelection, w.Pools)
	defer func() {
		for _, g := range groups {
			g.leave()
		}
	}()
	out := *prices
	var names []string
	if draftsFollow(groups) {
		defer func() { h.observe(ctx, h.marketOf(w), w, groups, &out) }()
	}
	m, found, who := h.marketOf(w), make([][]model.Draft, len(groups)), make([]string, len(groups))
	inParallel(len(groups), func(i int) {
		g := groups[i]
		if pools := g.first(groups, prices); len(pools) > 0 && g.slot.serves(sdk.InstanceSelection, LevelPlan) {
			found[i], who[i] = h.draft(ctx, m, w, prices, g, pools)
		}
	})
	for i := range groups {
		if drafts := beside(w, &out, found[i]); len(drafts) > 0 {
			out.Drafts = append(slices.Clone(out.Drafts), drafts...)
			names = append(names, who[i])
		}
	}
	slices.Sort(names)
	for i, n := range names {
		if i > 0 {
			out.Drafted += ", "
		}
		out.Drafted += n
	}
	return &out
}

// beside is the drafts whose pods none of those before has, as far as they are legal
// without the others.
func beside(w *model.World, before *model.Prices, drafts []model.Draft) []model.Draft {
	taken := map[*model.Pod]bool{}
	for _, d := range before.Drafts {
		for _, p := range d.Pods {
			taken[p] = true
		}
	}
	free := slices.DeleteFunc(slices.Clone(drafts), func(d model.Draft) bool {
		return slices.ContainsFunc(d.Pods, func(p *model.Pod) bool { return taken[p] })
	})
	if len(free) == 0 || len(free) < len(drafts) && engine.CheckDrafts(w, before, free) != nil {
		return nil
	}
	return free
}

// besides is the pods that are on none of the drafts.
func besides(pods []*model.Pod, drafts []model.Draft) []*model.Pod {
	taken := map[*model.Pod]bool{}
	for _, d := range drafts {
		for _, p := range d.Pods {
			taken[p] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *model.Pod) bool { return taken[p] })
}

// first is the pools of the group that no pool of another group outweighs, where the
// group's own strategy has priced them.
func (g *group) first(groups []*group, prices *model.Prices) []*model.Pool {
	if g.slot == nil {
		return nil
	}
	top, others := int32(0), false
	for _, o := range groups {
		for _, p := range o.pools {
			if o != g && (!others || p.Weight > top) {
				top, others = p.Weight, true
			}
		}
	}
	var out []*model.Pool
	for _, p := range g.pools {
		if (!others || p.Weight >= top) && prices.ByPool[p.Name].Outcome == string(OK) {
			out = append(out, p)
		}
	}
	return out
}

// serves says whether the slot's strategy decides at a level, as far as is known now.
func (s *slot) serves(kind sdk.Kind, level string) bool {
	if s.local != nil {
		if level == LevelPlan {
			_, ok := s.local.(sdk.Planner)
			return ok
		}
		_, ok := s.local.(sdk.Proposer)
		return ok
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inst != nil && s.inst.manifest.ServesLevel(kind, level)
}

// draft asks one strategy for the nodes of its pools.
func (h *Host) draft(ctx context.Context, m *market, w *model.World, prices *model.Prices, g *group, pools []*model.Pool) ([]model.Draft, string) {
	q, drafts := m.drafting(w, prices, pools)
	if q == nil {
		return nil, ""
	}
	who, out := h.askLevel(ctx, g, pools, q)
	if out != OK {
		return nil, ""
	}
	return *drafts, who
}

// drafting is the question for the nodes of some pools, nil where no pod could be on them,
// and where its checked answer will be.
func (m *market) drafting(w *model.World, prices *model.Prices, pools []*model.Pool) (*question, *[]model.Draft) {
	asked := engine.Ask(w, prices, pools)
	if len(asked.Groups) == 0 {
		return nil, nil
	}
	req := m.planRequest(w, pools, asked)
	var drafts []model.Draft
	var kept *sdk.PlanAnswer
	use := func(ans *sdk.PlanAnswer, err error) error {
		kept = ans
		if err != nil {
			return err
		}
		drafts = m.drafts(w, pools, asked, ans)
		if err := engine.CheckDrafts(w, prices, drafts); err != nil {
			drafts = nil
			return invalid("the plan is illegal: %w", err)
		}
		return nil
	}
	return &question{
		answer: func() any { return kept },
		problem: problem{kind: sdk.InstanceSelection, level: LevelPlan, input: req, hash: m.hash, world: w,
			serves: func(x *sdk.Manifest) bool { return x.ServesLevel(sdk.InstanceSelection, LevelPlan) }},
		remote: func(ctx context.Context, in *instance) error {
			if err := planBounds(req); err != nil {
				return err
			}
			return use(in.plan(ctx, req))
		},
		local: func(ctx context.Context, s sdk.Strategy) error { return use(localPlan(ctx, s, req)) }}, &drafts
}

// planBounds refuses problems that do not cross the wire.
func planBounds(req *sdk.PlanRequest) error {
	entries := 0
	for _, s := range req.Sets {
		entries += len(s)
	}
	if len(req.Groups) > sdk.MaxGroups || len(req.Sets) > sdk.MaxSets || entries > sdk.MaxSetEntries {
		return &refusal{fmt.Sprintf("%d kinds of pods over %d offerings are more than a plan is asked for", len(req.Groups), entries)}
	}
	return nil
}

// askLevel puts a question to the group's strategy that only it can answer: where it does
// not, what it says at the level below counts, and the call says so.
func (h *Host) askLevel(ctx context.Context, g *group, pools []*model.Pool, q *question) (string, Outcome) {
	began := time.Now()
	call := Call{Strategy: g.name, began: began, Kind: q.kind, Level: q.level, Rung: ByStrategy}
	for _, p := range pools {
		call.Pools = append(call.Pools, p.Name)
	}
	ctx, call.Trace = traced(ctx)
	call.start = g.slot.starts()
	call.Version, call.Outcome, call.Err = g.slot.ask(ctx, q)
	call.Took = time.Since(began)
	h.record(q, g.slot, &call, began)
	who := g.name + " " + call.Version
	if call.Outcome == OK {
		h.recent.add(q.problem)
	} else {
		call.Rung, call.Fallback = ByPrices, who
		h.opts.Log.Named("strategy").Warn("strategy did not decide by itself, what it says of each part counts", zap.String("strategy", g.name),
			zap.String("level", q.level), zap.String("outcome", string(call.Outcome)), zap.Error(call.Err), zap.String("trace", call.Trace))
	}
	g.slot.count(call)
	h.opts.OnCall(call)
	if g.trial != nil && !errors.Is(ctx.Err(), context.Canceled) {
		h.tried(g.trial, call)
	}
	return who, call.Outcome
}

// plan asks for nodes and checks the form of the answer.
func (in *instance) plan(ctx context.Context, whole *sdk.PlanRequest) (*sdk.PlanAnswer, error) {
	on, req, err := in.laidOut(whole.Catalogue).cutPlan(whole)
	if err != nil {
		return nil, err
	}
	var ans *sdk.PlanAnswer
	err = in.withCatalogue(ctx, req.Catalogue, func(ctx context.Context) (err error) {
		ans, err = in.client.Plan(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := checkPlan(req, ans); err != nil {
		return nil, err
	}
	for i := range ans.Nodes {
		ans.Nodes[i].Offering = on.off(ans.Nodes[i].Offering)
	}
	return ans, nil
}

// localPlan lets a strategy answer in process, under the same checks.
func localPlan(ctx context.Context, strategy sdk.Strategy, req *sdk.PlanRequest) (*sdk.PlanAnswer, error) {
	planner, ok := strategy.(sdk.Planner)
	if !ok {
		return nil, &refusal{fmt.Sprintf("%s does not serve level plan", strategy.Describe().Name)}
	}
	ans, err := planner.Plan(ctx, req)
	if err != nil {
		return nil, &refusal{err.Error()}
	}
	if ans == nil {
		return nil, errEmpty
	}
	return ans, checkPlan(req, ans)
}

func checkPlan(req *sdk.PlanRequest, ans *sdk.PlanAnswer) error {
	if len(ans.Nodes) == 0 && len(req.Groups) > 0 {
		return errEmpty
	}
	if err := sdk.CheckPlan(req, ans); err != nil {
		return invalid("%w", err)
	}
	return nil
}

// planRequest asks for nodes of the given pools.
func (m *market) planRequest(w *model.World, pools []*model.Pool, asked *engine.Asked) *sdk.PlanRequest {
	req := &sdk.PlanRequest{PriceRequest: *m.priceRequest(w, pools), Groups: make([]sdk.PodGroup, len(asked.Groups))}
	sets := &offeringSets{req: req, known: map[*int]int{}}
	near := &pickers{asked: asked, known: map[string][]int{}}
	for i, g := range asked.Groups {
		p := g.Pods[0]
		out := sdk.PodGroup{Pods: len(g.Pods), Requests: amounts(p.Requests), Priority: p.Priority, Neighbours: near.of(p)}
		for k, on := range g.On {
			if len(on) > 0 {
				out.Allowed = append(out.Allowed, sdk.Allowed{Pool: k, Set: sets.of(on, m.classes[pools[k].NodeClass.Name].base)})
			}
		}
		req.Groups[i] = out
	}
	for k, x := range asked.Pools {
		req.Rooms = append(req.Rooms, sets.room(x, req.Pools[k].Offerings, m.classes[pools[k].NodeClass.Name].base))
	}
	return req
}

// offeringSets numbers sets of offerings.
type offeringSets struct {
	req   *sdk.PlanRequest
	known map[*int]int // by the list that the engine shares between equal ones
}

func (s *offeringSets) of(positions []int, base int) int {
	if i, ok := s.known[&positions[0]]; ok {
		return i
	}
	set := make([]int, len(positions))
	for k, p := range positions {
		set[k] = base + p
	}
	s.known[&positions[0]] = len(s.req.Sets)
	s.req.Sets = append(s.req.Sets, set)
	return len(s.req.Sets) - 1
}

// room says what daemon pods take and limits leave of a pool's new nodes.
func (s *offeringSets) room(x engine.AskedPool, offerings []int, base int) sdk.PoolRoom {
	out := sdk.PoolRoom{Left: x.Left, NodesLeft: -1}
	if x.Nodes != nil {
		out.NodesLeft = int(max(*x.Nodes, 0))
	}
	at := map[string]int{}
	for _, o := range offerings {
		if o-base >= len(x.Daemons) || x.Daemons[o-base].IsZero() {
			continue
		}
		v := x.Daemons[o-base]
		i, ok := at[v.String()]
		if !ok {
			i = len(out.Daemons)
			at[v.String()] = i
			out.Daemons = append(out.Daemons, sdk.DaemonRoom{Set: len(s.req.Sets), Requests: amounts(v)})
			s.req.Sets = append(s.req.Sets, nil)
		}
		set := out.Daemons[i].Set
		s.req.Sets[set] = append(s.req.Sets[set], o)
	}
	return out
}

func amounts(v resource.Vector) sdk.Amounts {
	a := sdk.Amounts{CPUMilli: v.Base[resource.CPU], MemoryBytes: v.Base[resource.Memory], Pods: v.Base[resource.Pods], StorageBytes: v.Base[resource.Storage]}
	for _, x := range v.Ext {
		if a.Extended == nil {
			a.Extended = map[string]int64{}
		}
		a.Extended[x.Name] = x.Value
	}
	return a
}

// pickers finds the groups whose pods a selector picks.
type pickers struct {
	asked *engine.Asked
	known map[string][]int
}

// of is what a pod asks of those around it.
func (k *pickers) of(p *model.Pod) []sdk.Neighbours {
	if p.Topology == nil {
		return nil
	}
	var out []sdk.Neighbours
	for _, s := range p.Topology.Spreads {
		out = append(out, sdk.Neighbours{Relation: sdk.RelationSpread, Key: s.Key, MaxSkew: int(s.MaxSkew), Groups: k.picked(s.Selector)})
	}
	for _, t := range p.Topology.Affinity {
		out = append(out, sdk.Neighbours{Relation: sdk.RelationAffinity, Key: t.Key, Groups: k.picked(t.Selector)})
	}
	for _, t := range p.Topology.AntiAffinity {
		out = append(out, sdk.Neighbours{Relation: sdk.RelationAntiAffinity, Key: t.Key, Groups: k.picked(t.Selector)})
	}
	return out
}

func (k *pickers) picked(s model.Selector) []int {
	if list, ok := k.known[s.ID]; ok {
		return list
	}
	var list []int
	for i, g := range k.asked.Groups { // the pods of a group are picked by the same selectors
		if s.Picks(g.Pods[0]) {
			list = append(list, i)
		}
	}
	k.known[s.ID] = list
	return list
}

// drafts is a checked answer in the model's words: the pods of a group go in its order.
func (m *market) drafts(w *model.World, pools []*model.Pool, asked *engine.Asked, ans *sdk.PlanAnswer) []model.Draft {
	next := make([]int, len(asked.Groups))
	var out []model.Draft
	for _, n := range ans.Nodes {
		pool := pools[n.Pool]
		o := w.Offerings[pool.NodeClass.Name][n.Offering-m.classes[pool.NodeClass.Name].base]
		for range max(n.Count, 1) {
			d := model.Draft{Pool: pool, Offering: o}
			for _, p := range n.Pods {
				d.Pods = append(d.Pods, asked.Groups[p.Group].Pods[next[p.Group]:next[p.Group]+p.Pods]...)
				next[p.Group] += p.Pods
			}
			out = append(out, d)
		}
	}
	return out
}
