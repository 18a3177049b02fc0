package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// under is prices of pool p with the given limits.
func under(limits ...model.StrategyLimit) *model.Prices {
	return &model.Prices{ByPool: map[string]model.PoolPrices{"p": {Strategy: "s 1", FeePerNode: 0.02, Limits: limits}}}
}

func capacity(name string, least, most float64, measure model.Measure, types ...string) model.StrategyLimit {
	return model.StrategyLimit{Name: name, Share: &model.ShareLimit{Min: least, Max: most, Measure: measure,
		Selector: model.OfferingSelector{{Key: model.LabelCapacityType, Values: types}}}}
}

// priced runs the engine and has the plan checked, limits of strategies included.
func priced(t interface {
	Helper()
	Errorf(string, ...any)
}, w *model.World, prices *model.Prices) *engine.Result {
	t.Helper()
	r := engine.Place(w, prices)
	for _, err := range engine.CheckPriced(w, &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced, Shortfalls: r.Shortfalls}, prices) {
		t.Errorf("check: %v", err)
	}
	return r
}

// mix counts new nodes by capacity type.
func mix(r *engine.Result) map[string]int {
	out := map[string]int{}
	for _, n := range r.New {
		out[n.Offering.CapacityType]++
	}
	return out
}

func TestSharesOfNodes(t *testing.T) {
	t.Parallel()
	spotOnly := mt.Requires(mt.CapacityType(model.Spot))
	running := func(name, capacityType string) *model.Node {
		return mt.Node(name, 2000, 4096, map[string]string{model.LabelCapacityType: capacityType, model.LabelInstanceType: "m5.large", model.LabelZone: "us-east-1a"},
			mt.Managed("p"), mt.Running(mt.Pod("on-"+name, 1900, 0)))
	}
	for _, c := range []struct {
		name      string
		pods      []*model.Pod
		nodes     []*model.Node
		limits    []model.StrategyLimit
		want      map[string]int
		unplaced  int
		reason    string
		shortfall string
	}{
		{name: "without limits spot is the cheapest", pods: mt.Pods(10, "a", 1500, 0), want: map[string]int{model.Spot: 10}},
		{name: "at most 70% spot", pods: mt.Pods(10, "a", 1500, 0), limits: []model.StrategyLimit{capacity("mix", 0, 0.7, model.MeasureNodes, model.Spot)},
			want: map[string]int{model.Spot: 7, model.OnDemand: 3}},
		{name: "at least 30% on demand", pods: mt.Pods(10, "a", 1500, 0), limits: []model.StrategyLimit{capacity("mix", 0.3, 1, model.MeasureNodes, model.OnDemand)},
			want: map[string]int{model.Spot: 7, model.OnDemand: 3}},
		{name: "nothing is rounded: one node of at least 30% on demand", pods: mt.Pods(1, "a", 1500, 0), limits: []model.StrategyLimit{capacity("mix", 0.3, 1, model.MeasureNodes, model.OnDemand)},
			want: map[string]int{model.OnDemand: 1}},
		{name: "what runs counts", pods: mt.Pods(4, "a", 1500, 0), nodes: []*model.Node{running("n1", model.OnDemand), running("n2", model.OnDemand)},
			limits: []model.StrategyLimit{capacity("mix", 0.3, 1, model.MeasureNodes, model.OnDemand)}, want: map[string]int{model.Spot: 4}},
		{name: "what runs counts against it, too", pods: mt.Pods(2, "a", 1500, 0), nodes: []*model.Node{running("n1", model.Spot), running("n2", model.Spot)},
			limits: []model.StrategyLimit{capacity("mix", 0.5, 1, model.MeasureNodes, model.OnDemand)}, want: map[string]int{model.OnDemand: 2}},
		{name: "a wall leaves pods", pods: mt.Pods(4, "a", 1500, 0, spotOnly), limits: []model.StrategyLimit{capacity("half", 0, 0.5, model.MeasureNodes, model.Spot)},
			want: map[string]int{}, unplaced: 4, reason: `limit "half" of strategy s 1: at most 50% of the pool's nodes may be spot`},
		{name: "a wall leaves what is too much", pods: slices.Concat(mt.Pods(4, "a", 1500, 0, spotOnly), mt.Pods(2, "b", 1500, 0, mt.Requires(mt.CapacityType(model.OnDemand)))),
			limits: []model.StrategyLimit{capacity("half", 0, 0.5, model.MeasureNodes, model.Spot)}, want: map[string]int{model.Spot: 2, model.OnDemand: 2}, unplaced: 2, reason: "it is 2 of 4 now"},
		{name: "an aim gives way and says so", pods: mt.Pods(4, "a", 1500, 0, spotOnly), limits: []model.StrategyLimit{capacity("mix", 0.3, 1, model.MeasureNodes, model.OnDemand)},
			want: map[string]int{model.Spot: 4}, shortfall: "at least 30% of the nodes was asked for, it is 0 of 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(c.pods, mt.Pool("p", mt.Types("m5.large"), mt.CapacityType(model.Spot, model.OnDemand)))
			w.Nodes = c.nodes
			r := priced(t, w, under(c.limits...))
			if diff := cmp.Diff(c.want, mix(r)); diff != "" {
				t.Error(diff)
			}
			if len(r.Unplaced) != c.unplaced {
				t.Fatalf("%d unplaced, want %d", len(r.Unplaced), c.unplaced)
			}
			for _, v := range r.Unplaced {
				if x := v.Reasons[0]; x.Filter != model.FilterStrategy || !strings.Contains(x.Message, c.reason) {
					t.Errorf("reason %+v, want %q", x, c.reason)
				}
			}
			if got := fmt.Sprint(r.Shortfalls); c.shortfall == "" && len(r.Shortfalls) > 0 || !strings.Contains(got, c.shortfall) {
				t.Errorf("shortfalls %s, want %q", got, c.shortfall)
			}
		})
	}
}

// TestSharesHoldOnAnything draws worlds with several limits of every kind and has the
// plans checked; whatever is left has a reason.
func TestSharesHoldOnAnything(t *testing.T) {
	t.Parallel()
	table := &catalogue.Table{}
	for _, family := range []string{"m5", "m6a", "c5", "c6g", "r5", "r6a"} {
		for _, size := range []string{"large", "xlarge", "2xlarge"} {
			table.Types = append(table.Types, catalogue.Embedded().Get(family+"."+size))
		}
	}
	offerings := table.Offerings(&model.NodeClass{Name: mt.Class, Family: "AL2023"}, nil, catalogue.Options{})
	rapid.Check(t, func(t *rapid.T) {
		var pods []*model.Pod
		for g := range rapid.IntRange(1, 6).Draw(t, "workloads") {
			name := fmt.Sprintf("w%d", g)
			opts := []func(*model.Pod){func(p *model.Pod) { p.Owner.Name, p.Owner.UID = name, name }}
			if rapid.IntRange(0, 4).Draw(t, "spot only") == 0 {
				opts = append(opts, mt.Requires(mt.CapacityType(model.Spot)))
			}
			if rapid.IntRange(0, 4).Draw(t, "zone") == 0 {
				opts = append(opts, mt.Requires(mt.Zones("us-east-1b")))
			}
			pods = append(pods, mt.Pods(rapid.IntRange(1, 25).Draw(t, "pods"), name, rapid.Int64Range(100, 3000).Draw(t, "cpu"), rapid.Int64Range(100, 8000).Draw(t, "memory"), opts...)...)
		}
		w := &model.World{Now: mt.Now, Pods: pods, Pools: []*model.Pool{mt.Pool("p")}, NodeClasses: map[string]*model.NodeClass{mt.Class: {Name: mt.Class, Family: "AL2023"}},
			Offerings: map[string][]*model.Offering{mt.Class: offerings}}
		for i := range rapid.IntRange(0, 4).Draw(t, "running") {
			ct := rapid.SampledFrom([]string{model.Spot, model.OnDemand}).Draw(t, "capacity type")
			zone := rapid.SampledFrom([]string{"us-east-1a", "us-east-1b"}).Draw(t, "in")
			n := mt.Node(fmt.Sprintf("n%d", i), 3900, 15000, map[string]string{model.LabelCapacityType: ct, model.LabelInstanceType: "m5.xlarge", model.LabelZone: zone}, mt.Managed("p"))
			n.USDPerHour, n.PriceKnown = 0.1, true
			w.Nodes = append(w.Nodes, n)
		}
		var limits []model.StrategyLimit
		measure := func() model.Measure {
			return rapid.SampledFrom([]model.Measure{model.MeasureNodes, model.MeasureCPU, model.MeasureUSDPerHour}).Draw(t, "measure")
		}
		if rapid.Bool().Draw(t, "share") {
			least := float64(rapid.IntRange(0, 10).Draw(t, "min")) / 10
			limits = append(limits, capacity("mix", least, max(least, float64(rapid.IntRange(0, 10).Draw(t, "max"))/10), measure(), rapid.SampledFrom([]string{model.Spot, model.OnDemand}).Draw(t, "of")))
		}
		if rapid.Bool().Draw(t, "zone share") {
			limits = append(limits, model.StrategyLimit{Name: "b", Share: &model.ShareLimit{Max: 0.5, Measure: measure(), Selector: model.OfferingSelector{{Key: model.LabelZone, Values: []string{"us-east-1b"}}}}})
		}
		if rapid.Bool().Draw(t, "per node") {
			limits = append(limits, model.StrategyLimit{Name: "blast", PodsPerNode: &model.PodsPerNode{Max: rapid.Int64Range(0, 4).Draw(t, "pods per node"), Share: 0.3}})
		}
		if rapid.Bool().Draw(t, "zones") {
			limits = append(limits, model.StrategyLimit{Name: "zones", Variety: &model.Variety{Min: rapid.Int64Range(1, 4).Draw(t, "how many zones")}})
		}
		if rapid.Bool().Draw(t, "spot pools") {
			limits = append(limits, model.StrategyLimit{Name: "pools", Variety: &model.Variety{Over: model.OverSpotPools, Min: rapid.Int64Range(1, 12).Draw(t, "how many pools")}})
		}
		prices := under(limits...)
		if rapid.Bool().Draw(t, "steps") {
			pp := prices.ByPool["p"]
			pp.Steps = map[int][]model.PriceStep{}
			for i, o := range w.Offerings[mt.Class] {
				pp.Offerings = append(pp.Offerings, model.Price{USDPerHour: o.USDPerHour})
				if o.CapacityType == model.OnDemand && o.Type.Name[0] == 'm' {
					pp.Steps[i] = []model.PriceStep{{USDPerHour: 0, SumUSDPerHour: 0.7, Shared: "plan"}, {USDPerHour: o.USDPerHour / 2, Nodes: 1}, {USDPerHour: o.USDPerHour}}
				}
			}
			prices.ByPool["p"] = pp
		}
		r := priced(t, w, prices)
		for _, v := range r.Unplaced {
			if len(v.Reasons) == 0 || v.Reasons[0].Filter != model.FilterStrategy {
				t.Errorf("pod %s: %+v, want the strategy's limit as the reason", v.Pod.Name, v.Reasons)
			}
		}
		if len(limits) == 0 && len(r.Unplaced) > 0 {
			t.Errorf("%d unplaced without limits", len(r.Unplaced))
		}
	})
}

func TestPriceSteps(t *testing.T) {
	t.Parallel()
	// pods that fill a node each, on two types of which only one has steps
	w := world(mt.Pods(6, "a", 1500, 0), mt.Pool("p", mt.Types("m5.large", "m5a.large"), mt.CapacityType(model.OnDemand), mt.Zones("us-east-1a")))
	step := func(free ...model.PriceStep) *model.Prices {
		pp := model.PoolPrices{Strategy: "s 1", Steps: map[int][]model.PriceStep{}}
		for i, o := range w.Offerings[mt.Class] {
			pp.Offerings = append(pp.Offerings, model.Price{USDPerHour: o.USDPerHour})
			if o.Type.Name == "m5.large" {
				pp.Steps[i] = append(slices.Clone(free), model.PriceStep{USDPerHour: o.USDPerHour})
			}
		}
		return &model.Prices{ByPool: map[string]model.PoolPrices{"p": pp}}
	}
	for _, c := range []struct {
		name   string
		prices *model.Prices
		want   map[string]int
		free   int // nodes charged at nothing
	}{
		{"without steps the cheaper type is bought", nil, map[string]int{"m5a.large": 6}, 0},
		{"two nodes are paid for", step(model.PriceStep{Nodes: 2}), map[string]int{"m5.large": 2, "m5a.large": 4}, 2},
		{"so much money is spent already: 0.096 USD per hour a node", step(model.PriceStep{SumUSDPerHour: 0.4}), map[string]int{"m5.large": 4, "m5a.large": 2}, 4},
		{"one step after the other", step(model.PriceStep{Nodes: 1}, model.PriceStep{USDPerHour: 0.01, Nodes: 2}), map[string]int{"m5.large": 3, "m5a.large": 3}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := priced(t, w, c.prices)
			got, free := map[string]int{}, 0
			for _, n := range r.New {
				got[n.Offering.Type.Name]++
				if n.Effective == 0 {
					free++
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || free != c.free {
				t.Errorf("%s; %d nodes at no price, want %d", diff, free, c.free)
			}
		})
	}
}

// TestSharedStepsOverPoolsOfDifferentWeight: a quantity that two pools draw on is used
// up once.
func TestSharedStepsOverPoolsOfDifferentWeight(t *testing.T) {
	t.Parallel()
	first, second := mt.Pool("first", mt.Types("m5.large", "m5a.large"), mt.CapacityType(model.OnDemand)), mt.Pool("second", mt.Types("m5.large", "m5a.large"), mt.CapacityType(model.OnDemand))
	first.Weight = 10
	first.Taints = []model.Taint{{Key: "first", Effect: model.NoSchedule}}
	w := world(slices.Concat(mt.Pods(3, "a", 1500, 0, mt.Tolerates(model.Toleration{Key: "first", Operator: "Exists"}), mt.Requires(own(model.LabelPool, require.In, "first"))), mt.Pods(3, "b", 1500, 0)), first, second)
	pp := model.PoolPrices{Strategy: "s 1", Steps: map[int][]model.PriceStep{}}
	for i, o := range w.Offerings[mt.Class] {
		pp.Offerings = append(pp.Offerings, model.Price{USDPerHour: o.USDPerHour})
		if o.Type.Name == "m5.large" {
			pp.Steps[i] = []model.PriceStep{{Nodes: 4, Shared: "plan"}, {USDPerHour: o.USDPerHour}}
		}
	}
	got := map[string]int{}
	for _, n := range priced(t, w, &model.Prices{ByPool: map[string]model.PoolPrices{"first": pp, "second": pp}}).New {
		got[n.Pool.Name+" "+n.Offering.Type.Name]++
	}
	if diff := cmp.Diff(map[string]int{"first m5.large": 3, "second m5.large": 1, "second m5a.large": 2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPodsPerNode(t *testing.T) {
	t.Parallel()
	of := func(workload string) func(*model.Pod) {
		return func(p *model.Pod) { p.Owner.Name, p.Owner.UID = workload, workload }
	}
	bound := func(most int64, share float64) model.StrategyLimit {
		return model.StrategyLimit{Name: "blast", PodsPerNode: &model.PodsPerNode{Max: most, Share: share}}
	}
	w := world(slices.Concat(mt.Pods(12, "a", 100, 100, of("a")), mt.Pods(3, "b", 100, 100, of("b")), mt.Pods(40, "bare", 100, 100, func(p *model.Pod) { p.Owner = model.Owner{} })), mt.Pool("p"))
	there := mt.Node("n1", 8000, 16384, nil, mt.Managed("p"), mt.Running(mt.Pods(2, "a-runs", 100, 100, of("a"))...))
	for _, c := range []struct {
		name  string
		limit model.StrategyLimit
		nodes []*model.Node
		a, b  int // pods of the workload on the fullest node
		least int // nodes with pods
	}{
		{"at most five", bound(5, 0), nil, 5, 3, 3},
		{"at most a third", bound(0, 0.334), nil, 4, 1, 3},
		{"the smaller holds", bound(2, 0.5), nil, 2, 1, 6},
		{"what runs there counts", bound(3, 0), []*model.Node{there}, 3, 3, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := *w
			w.Nodes = c.nodes
			r := priced(t, &w, under(c.limit))
			if len(r.Unplaced) > 0 {
				t.Fatalf("%d unplaced", len(r.Unplaced))
			}
			var nodes [][]*model.Pod
			for _, n := range r.New {
				nodes = append(nodes, n.Pods)
			}
			for _, p := range r.Placements {
				nodes = append(nodes, slices.Concat(p.Pods, p.Node.Pods))
			}
			most := map[string]int{}
			for _, pods := range nodes {
				on := map[string]int{}
				for _, p := range pods {
					on[p.Workload()]++
					most[p.Workload()] = max(most[p.Workload()], on[p.Workload()])
				}
			}
			if most["a"] > c.a || most["b"] > c.b || len(nodes) < c.least {
				t.Errorf("%v pods of a workload on one of %d nodes, want at most %d and %d on at least %d", most, len(nodes), c.a, c.b, c.least)
			}
		})
	}
	near := &model.Topology{Affinity: []model.PodTerm{{Key: model.LabelHostname, Selector: model.Selector{ID: "app=a", Matches: func(p *model.Pod) bool { return p.Labels["app"] == "a" }}}}}
	together := world(mt.Pods(4, "a", 100, 100, mt.Labelled(map[string]string{"app": "a"}), func(p *model.Pod) { p.Topology = near }), mt.Pool("p"))
	r := priced(t, together, under(bound(0, 0.5)))
	if len(r.Unplaced) != 4 || !strings.Contains(r.Unplaced[0].Reasons[0].Message, `limit "blast" of strategy s 1: at most 2 of the 4 pods`) {
		t.Errorf("pods that must share a node and may not: %+v", r.Unplaced)
	}
}

func TestVariety(t *testing.T) {
	t.Parallel()
	zones := func(n int64) model.StrategyLimit {
		return model.StrategyLimit{Name: "zones", Variety: &model.Variety{Min: n}}
	}
	pools := func(n int64) model.StrategyLimit {
		return model.StrategyLimit{Name: "pools", Variety: &model.Variety{Over: model.OverSpotPools, Min: n}}
	}
	in := func(name, zone string) *model.Node {
		return mt.Node(name, 2000, 4096, map[string]string{model.LabelCapacityType: model.Spot, model.LabelInstanceType: "m5.large", model.LabelZone: zone}, mt.Managed("p"), mt.Running(mt.Pod("on-"+name, 1900, 0)))
	}
	for _, c := range []struct {
		name      string
		pods      int
		opts      []func(*model.Pod)
		nodes     []*model.Node
		limits    []model.StrategyLimit
		most      map[model.Over]int // nodes of the fullest place
		shortfall string
	}{
		{name: "seven nodes over three zones", pods: 7, limits: []model.StrategyLimit{zones(3)}, most: map[model.Over]int{model.OverZones: 3}},
		{name: "four nodes over three zones lie in all three", pods: 4, limits: []model.StrategyLimit{zones(3)}, most: map[model.Over]int{model.OverZones: 2}},
		{name: "two nodes of three zones lie in two", pods: 2, limits: []model.StrategyLimit{zones(3)}, most: map[model.Over]int{model.OverZones: 1}},
		{name: "what runs counts", pods: 4, nodes: []*model.Node{in("n1", "us-east-1a"), in("n2", "us-east-1a")}, limits: []model.StrategyLimit{zones(3)}, most: map[model.Over]int{model.OverZones: 2}},
		{name: "over spot pools", pods: 12, limits: []model.StrategyLimit{pools(4)}, most: map[model.Over]int{model.OverSpotPools: 3}},
		{name: "over both", pods: 12, limits: []model.StrategyLimit{pools(6), zones(3)}, most: map[model.Over]int{model.OverSpotPools: 2, model.OverZones: 4}},
		{name: "pods that may run in one zone only", pods: 3, opts: []func(*model.Pod){mt.Requires(mt.Zones("us-east-1b"))}, limits: []model.StrategyLimit{zones(3)},
			most: map[model.Over]int{model.OverZones: 3}, shortfall: "3 zones were asked for, the 3 nodes lie in 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(mt.Pods(c.pods, "a", 1500, 0, c.opts...), mt.Pool("p", own("karpenter.k8s.aws/instance-cpu", require.In, "2"), mt.CapacityType(model.Spot)))
			w.Nodes = c.nodes
			r := priced(t, w, under(c.limits...))
			if len(r.Unplaced) > 0 || len(r.New) != c.pods {
				t.Fatalf("%d unplaced, %d nodes", len(r.Unplaced), len(r.New))
			}
			for over, want := range c.most {
				on := map[string]int{}
				v := model.Variety{Over: over}
				for _, n := range r.New {
					place, _ := v.Place(n.Offering.Type.Name, n.Offering.Zone, n.Offering.CapacityType)
					on[place]++
					if want < len(r.New) && over == model.OverZones && slices.ContainsFunc(n.Alternatives, func(o *model.Offering) bool { return o.Zone != n.Offering.Zone }) {
						t.Errorf("%s may end in another zone than planned", n.Name)
					}
				}
				for _, n := range c.nodes {
					on[n.Zone()]++
				}
				for place, n := range on {
					if n > want {
						t.Errorf("%d nodes in %s, want at most %d: %v", n, place, want, on)
					}
				}
			}
			if got := fmt.Sprint(r.Shortfalls); c.shortfall == "" && len(r.Shortfalls) > 0 || !strings.Contains(got, c.shortfall) {
				t.Errorf("shortfalls %s, want %q", got, c.shortfall)
			}
		})
	}
}

// TestCheckRefusesBrokenLimits makes a plan without limits and holds it against limits
// that it does not keep.
func TestCheckRefusesBrokenLimits(t *testing.T) {
	t.Parallel()
	w := world(mt.Pods(8, "a", 1500, 0), mt.Pool("p", mt.Types("m5.large", "c5.large"), mt.CapacityType(model.Spot, model.OnDemand)))
	r := priced(t, w, under())
	plan := func() *model.Plan { return &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced} }
	pools := model.StrategyLimit{Name: "pools", Variety: &model.Variety{Over: model.OverSpotPools, Min: 6}}
	for _, c := range []struct {
		name  string
		limit model.StrategyLimit
		short bool // the plan says that it fell short
		want  string
	}{
		{"greatest share", capacity("mix", 0, 0.5, model.MeasureNodes, model.Spot), false, `limit "mix" allows a share of 0.5`},
		{"greatest share, said to fall short", capacity("mix", 0, 0.5, model.MeasureNodes, model.Spot), true, `limit "mix" allows a share of 0.5`},
		{"least share", capacity("mix", 0.3, 1, model.MeasureCPU, model.OnDemand), false, `limit "mix" asks for a share of 0.3`},
		{"least share, said to fall short", capacity("mix", 0.3, 1, model.MeasureCPU, model.OnDemand), true, ""},
		{"pods per node", model.StrategyLimit{Name: "blast", PodsPerNode: &model.PodsPerNode{Share: 0.05}}, false, ""}, // one pod may always be there
		{"variety", pools, false, `limit "pools"`},
		{"variety, said to fall short", pools, true, ""},
		{"alternatives that count otherwise", model.StrategyLimit{Name: "zone", Share: &model.ShareLimit{Max: 0.999999999, Selector: model.OfferingSelector{{Key: model.LabelZone, Values: []string{r.New[0].Offering.Zone}}}}}, false, `counts otherwise for limit "zone"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := plan()
			if c.short {
				p.Shortfalls = []model.Shortfall{{Pool: "p", Limit: c.limit.Name, Message: "no other way"}}
			}
			got := fmt.Sprint(engine.CheckPriced(w, p, under(c.limit)))
			if c.want == "" && got != "[]" || !strings.Contains(got, c.want) {
				t.Errorf("check says %s, want %q", got, c.want)
			}
		})
	}
	crowded := world(mt.Pods(8, "a", 100, 0), mt.Pool("p", mt.Types("m5.large")))
	all := engine.Place(crowded, nil)
	if got := fmt.Sprint(engine.CheckPriced(crowded, &model.Plan{Launch: all.New, Unplaced: all.Unplaced}, &model.Prices{ByPool: map[string]model.PoolPrices{
		"p": {Limits: []model.StrategyLimit{{Name: "blast", PodsPerNode: &model.PodsPerNode{Max: 3}}}}}})); !strings.Contains(got, `limit "blast" allows 3 of the 8 pods`) {
		t.Errorf("check says %s", got)
	}
}
