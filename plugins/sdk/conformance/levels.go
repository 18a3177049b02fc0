package conformance

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

// question is a call of a level beyond prices and verdicts.
type question struct {
	name      string
	method    string
	nodes     int // that it is about
	catalogue *sdk.Catalogue
	ask       func(ctx context.Context) (any, error)
}

// plan asks for nodes, and holds what is answered against the rules that can be checked
// without the engine.
func (s *session) plan(name string, req *sdk.PlanRequest) question {
	return question{name: name, method: "Plan", catalogue: req.Catalogue, ask: func(ctx context.Context) (any, error) {
		a, err := s.client.Plan(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("Plan: %w", err)
		}
		if err := sdk.CheckPlan(req, a); err != nil {
			return nil, fmt.Errorf("Plan, illegal answer: %w", err)
		}
		return a, nil
	}}
}

// propose asks for moves. Simulations are answered as a host would in a cluster where
// every other move is legal.
func (s *session) propose(name string, world *sdk.ProposeWorld) question {
	return question{name: name, method: "Propose", nodes: len(world.Nodes), catalogue: world.Catalogue, ask: func(ctx context.Context) (any, error) {
		a, err := s.client.Propose(ctx, world, func(moves []sdk.ProposedMove) ([]sdk.Trial, error) {
			trials := make([]sdk.Trial, len(moves))
			for i, m := range moves {
				t := &trials[i]
				for _, k := range m.Remove {
					t.USDPerHourBefore += world.Nodes[k].USDPerHour
					t.PodsEvicted += world.Nodes[k].Pods
				}
				if t.Legal = m.Remove[0]%2 == 0; !t.Legal {
					t.Reason, t.Message = "Budget", "no budget is left"
				}
			}
			return trials, nil
		})
		if err != nil {
			return nil, fmt.Errorf("Propose: %w", err)
		}
		return a, nil // the client has checked the moves
	}}
}

// levels are the questions of the levels that the strategy serves beside price and score.
func (s *session) levels() []question {
	var out []question
	if s.manifest.ServesLevel(sdk.InstanceSelection, "plan") {
		nothing := sdk.SamplePlan()
		nothing.Groups, nothing.Demand = nil, sdk.Demand{}
		nowhere := sdk.SamplePlan()
		for i := range nowhere.Groups {
			nowhere.Groups[i].Allowed = nil
		}
		out = append(out, s.plan("sample plan", sdk.SamplePlan()), s.plan("no pods wait", nothing), s.plan("pods that may go nowhere", nowhere))
	}
	if s.manifest.ServesLevel(sdk.Consolidation, "propose") {
		nothing := sdk.SamplePropose()
		nothing.Nodes = nil
		unsimulated := sdk.SamplePropose()
		unsimulated.MaxSimulations = 0
		fixed := sdk.SamplePropose()
		for i := range fixed.Nodes {
			fixed.Nodes[i].Removable, fixed.Nodes[i].Blocked = false, "Budget"
		}
		out = append(out, s.propose("sample world", sdk.SamplePropose()), s.propose("no nodes", nothing), s.propose("no simulations", unsimulated), s.propose("nothing may go", fixed))
	}
	return out
}

// answer sends the catalogue and asks.
func (s *session) answer(ctx context.Context, q question) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := s.client.Configure(ctx, nil, q.catalogue); err != nil {
		return nil, fmt.Errorf("sending the catalogue: %w", err)
	}
	return q.ask(ctx)
}

func checkLevels(ctx context.Context, s *session, f *finding) {
	questions := s.levels()
	if len(questions) == 0 {
		f.skipped = "the strategy serves neither plan nor propose"
		return
	}
	var mu sync.Mutex
	for _, q := range questions {
		first, err := s.answer(ctx, q)
		if err != nil {
			f.errorf("%s: %v", q.name, err)
			continue
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, callTime)
				defer cancel()
				again, err := q.ask(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					f.errorf("%s, several calls at once: %v", q.name, err)
				} else if s.manifest.Deterministic && !reflect.DeepEqual(first, again) {
					f.errorf("%s: two answers to the same question differ: %.200s, then %.200s", q.name, fmt.Sprintf("%+v", first), fmt.Sprintf("%+v", again))
				}
			})
		}
		wg.Wait()
	}
}

// large are the questions about 5,000 nodes that the strategy serves.
func (s *session) large() []question {
	var out []question
	for _, p := range s.mine([]Problem{{Name: "5,000 nodes", Price: LargePrice()}, {Name: "5,000 nodes", Score: LargeScore()}}) {
		out = append(out, question{name: p.Name, method: map[bool]string{true: "Price", false: "Score"}[p.Price != nil], nodes: LargeNodes, catalogue: p.Catalogue(),
			ask: func(ctx context.Context) (any, error) { return s.call(ctx, &p) }})
	}
	if s.manifest.ServesLevel(sdk.InstanceSelection, "plan") {
		q := s.plan("50,000 pods", LargePlan())
		q.nodes = LargeNodes
		out = append(out, q)
	}
	if s.manifest.ServesLevel(sdk.Consolidation, "propose") {
		out = append(out, s.propose("5,000 nodes", LargeWorld()))
	}
	return out
}

// LargePlan is 50,000 pods in 250 groups that need nodes, in the pools of LargePrice.
func LargePlan() *sdk.PlanRequest {
	const groups = 250
	r := &sdk.PlanRequest{PriceRequest: *LargePrice()}
	all := r.Pools[0].Offerings
	var onDemand, spot []int
	for _, o := range all {
		if r.Catalogue.Offerings[o].CapacityType == sdk.Spot {
			spot = append(spot, o)
		} else {
			onDemand = append(onDemand, o)
		}
	}
	r.Sets = [][]int{all, onDemand, spot}
	for range r.Pools {
		r.Rooms = append(r.Rooms, sdk.PoolRoom{NodesLeft: -1})
	}
	for i := range groups {
		r.Groups = append(r.Groups, sdk.PodGroup{Pods: r.Demand.Pods / groups, Allowed: []sdk.Allowed{{Pool: i % largePools, Set: i % len(r.Sets)}},
			Requests: sdk.Amounts{CPUMilli: int64(100 + i*7%1900), MemoryBytes: int64(128+i*31%3800) << 20, Pods: 1}})
	}
	return r
}

// LargeWorld is 5,000 nodes, half of which may go.
func LargeWorld() *sdk.ProposeWorld {
	price := LargePrice()
	w := &sdk.ProposeWorld{Catalogue: price.Catalogue, Now: price.Now, USDPerHour: price.USDPerHour, Pools: price.Pools, MaxSimulations: 100}
	for i := range LargeNodes {
		o := i * 7 % len(price.USDPerHour)
		t := price.Catalogue.Offerings[o].Type
		n := sdk.Node{Name: fmt.Sprintf("node-%d", i), Pool: i % largePools, Offering: o, USDPerHour: price.USDPerHour[o], Age: time.Duration(i) * time.Minute,
			Pods: i % 40, Requests: sdk.Amounts{CPUMilli: t.CPUMilli * int64(i%10) / 10, MemoryBytes: t.MemoryBytes / 4, Pods: int64(i % 40)}, Removable: i%2 == 0, DisruptionCost: float64(i % 40)}
		if !n.Removable {
			n.Blocked = "Budget"
		}
		n.Free = sdk.Amounts{CPUMilli: t.CPUMilli - n.Requests.CPUMilli, MemoryBytes: t.MemoryBytes - n.Requests.MemoryBytes, Pods: t.Pods - n.Requests.Pods}
		w.Nodes = append(w.Nodes, n)
	}
	for i := range w.Pools {
		w.Budgets = append(w.Budgets, sdk.Budget{Pool: i, Reason: "Empty", Nodes: 50}, sdk.Budget{Pool: i, Reason: "Underutilized", Nodes: 50})
	}
	return w
}
