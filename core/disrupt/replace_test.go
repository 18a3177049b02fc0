package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// launched is what a plan buys, by type.
func launched(p *model.Plan) []string {
	out := []string{}
	for _, c := range p.Commands {
		for _, n := range c.Launch {
			out = append(out, n.Offering.Type.Name+" "+n.Offering.CapacityType)
		}
	}
	slices.Sort(out)
	return out
}

func drifted(n *model.Node) {
	n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: model.CondDrifted, Status: "True", Reason: "AMIDrift", Since: born})
}

func as(label, value string) func(*model.Node) {
	return func(n *model.Node) { n.Labels[label] = value }
}

// cheap offers every type as spot as well, at a share of the price.
func cheap(share float64) func(*model.World) {
	return func(w *model.World) {
		for _, o := range slices.Clone(w.Offerings["c"]) {
			s := *o
			s.CapacityType, s.USDPerHour = model.Spot, o.USDPerHour*share
			w.Offerings["c"] = append(w.Offerings["c"], &s)
		}
	}
}

// more offers so many types of the size of an m5.large as spot, each a little dearer.
func more(types int, usd float64) func(*model.World) {
	return func(w *model.World) {
		for i := range types {
			name := fmt.Sprintf("t%02d.large", i)
			t := &model.InstanceType{Name: name, Labels: map[string]string{model.LabelInstanceType: name}, Allocatable: room(kinds["m5.large"])}
			w.Offerings["c"] = append(w.Offerings["c"], &model.Offering{Type: t, Zone: "a", CapacityType: model.Spot, USDPerHour: usd * (1 + float64(i)/1000), Available: true})
		}
	}
}

func TestReplacements(t *testing.T) {
	t.Parallel()
	spot := as(model.LabelCapacityType, model.Spot)
	priced := func(usd float64) func(*model.Node) { return func(n *model.Node) { n.USDPerHour = usd } }
	spotToSpot := func(w *model.World) { w.Settings.SpotToSpot = true }
	for name, tc := range map[string]struct {
		world  []func(*model.World)
		remove []string
		launch []string
		why    string // of the command, or, where nothing is removed, that n1 stays
	}{
		"one by a smaller one": {world: []func(*model.World){node("n1", "m5.2xlarge", pod("p", 1500))},
			remove: []string{"n1"}, launch: []string{"m5.large on-demand"}, why: "one m5.large (on-demand, a)"},
		"several by one": {world: []func(*model.World){node("n1", "m5.2xlarge", pod("p", 5000)), node("n2", "m5.2xlarge", pod("q", 5000)), node("n3", "m5.2xlarge", pod("r", 5000))},
			remove: []string{"n1", "n2", "n3"}, launch: []string{"m5.4xlarge on-demand"}, why: "one m5.4xlarge"},
		"one by several": {world: []func(*model.World){node("n1", "m5.4xlarge", pod("p", 1900, selector(model.LabelZone, "a")), pod("q", 1900, selector(model.LabelZone, "b")))},
			remove: []string{"n1"}, launch: []string{"m5.large on-demand", "m5.large on-demand"}, why: "2 new nodes"},
		"on demand by spot": {world: []func(*model.World){cheap(0.4), node("n1", "m5.large", pod("p", 1500))},
			remove: []string{"n1"}, launch: []string{"m5.large spot"}},
		"spot by spot, which is off": {world: []func(*model.World){cheap(0.4), more(20, 0.03), node("n1", "m5.large", spot, pod("p", 1500))},
			remove: []string{}, launch: []string{}, why: "featureGates.spotToSpotConsolidation is off"},
		"spot by spot": {world: []func(*model.World){spotToSpot, more(20, 0.03), node("n1", "m5.large", spot, pod("p", 1500))},
			remove: []string{"n1"}, launch: []string{"t00.large spot"}},
		"spot by spot, with too little choice": {world: []func(*model.World){spotToSpot, more(14, 0.03), node("n1", "m5.large", spot, pod("p", 1500))},
			remove: []string{}, launch: []string{}, why: "only 14 types are cheaper"},
		"spot by spot, two at once": {world: []func(*model.World){spotToSpot, cheap(0.5), node("n1", "m5.2xlarge", spot, pod("p", 5000)), node("n2", "m5.2xlarge", spot, pod("q", 5000))},
			remove: []string{"n1", "n2"}, launch: []string{"m5.2xlarge spot", "m5.2xlarge spot"}},
		"drift, dearer than before": {world: []func(*model.World){node("n1", "m5.large", drifted, priced(0.01), pod("p", 1500))},
			remove: []string{"n1"}, launch: []string{"m5.large on-demand"}, why: "AMIDrift"},
		"drift, and nothing to be had": {world: []func(*model.World){soldOut, node("n1", "m5.large", drifted, pod("p", 1500))},
			remove: []string{}, launch: []string{}, why: "no place on a new one either"},
		"hardly cheaper": {world: []func(*model.World){node("n1", "m5.large", priced(0.0965), pod("p", 1500))},
			remove: []string{}, launch: []string{}, why: "already the cheapest"},
		"the pool's limit": {world: []func(*model.World){node("n1", "m5.2xlarge", pod("p", 1500)), func(w *model.World) { one := int64(1); w.Pools[0].Limits.Nodes = &one }},
			remove: []string{}, launch: []string{}, why: "limit"},
		"policy WhenEmpty": {world: []func(*model.World){node("n1", "m5.2xlarge", pod("p", 1500)), pool(func(p *model.Pool) { p.Policy = model.WhenEmpty })},
			remove: []string{}, launch: []string{}, why: "WhenEmpty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(tc.world...)
			p := plan(w)
			if d := cmp.Diff(tc.remove, removed(p)); d != "" {
				t.Errorf("removed (-want +got):\n%s\n%+v", d, p.Blocked)
			}
			if d := cmp.Diff(tc.launch, launched(p)); d != "" {
				t.Errorf("launched (-want +got):\n%s", d)
			}
			if tc.why != "" {
				got := ""
				if len(tc.remove) == 0 {
					got = blocked(t, p, "n1").Message
				} else if len(p.Commands) > 0 {
					got = p.Commands[0].Why
				}
				if !strings.Contains(got, tc.why) {
					t.Errorf("%q does not say %q", got, tc.why)
				}
			}
			if err := verify(w, p); err != nil {
				t.Error(err)
			}
			if err := runs(w, p); err != nil {
				t.Error(err)
			}
		})
	}
}

// The launch may come to any of its alternatives: even the dearest saves.
func TestReplacementIsCheaperAtWorst(t *testing.T) {
	t.Parallel()
	w := world(cheap(0.9), more(10, 0.085), node("n1", "m5.large", pod("p", 1500)))
	p := plan(w)
	if len(p.Commands) != 1 || len(p.Commands[0].Launch) != 1 {
		t.Fatalf("commands %+v; blocked %+v", p.Commands, p.Blocked)
	}
	c := p.Commands[0]
	dearest := c.Launch[0].Offering.USDPerHour
	for _, o := range c.Launch[0].Alternatives {
		dearest = max(dearest, o.USDPerHour)
	}
	if dearest > c.Before*0.99 || c.Worst != dearest || c.After != 0.085 {
		t.Errorf("before %v, after %v, worst %v, dearest alternative %v", c.Before, c.After, c.Worst, dearest)
	}
	types, _ := c.Launch[0].Requirements.Get(model.LabelInstanceType)
	for _, o := range c.Launch[0].Alternatives {
		if !types.Has(o.Type.Name) {
			t.Errorf("the claim does not ask for alternative %s: %s", o.Type.Name, types)
		}
	}
	if len(types.Values) > len(c.Launch[0].Alternatives)+1 {
		t.Errorf("the claim asks for types that are too dear: %s", types)
	}
}

// The strategy's word counts for replacements; a refused group is looked at in halves.
func TestStrategyRefusesReplacement(t *testing.T) {
	t.Parallel()
	w := world(node("n1", "m5.2xlarge", pod("p", 1500)), node("n2", "m5.2xlarge", pod("q", 1500, selector(model.LabelZone, "b")), as(model.LabelZone, "b")))
	p := disrupt.Plan(w, nil, func(moves []*model.Command) []model.MoveScore {
		out := make([]model.MoveScore, len(moves))
		for i, m := range moves {
			out[i] = model.MoveScore{Accept: len(m.Remove) == 1 && m.Remove[0].Name == "n2", Score: 3, Reason: "not this one"}
		}
		return out
	}, disrupt.Options{Waves: true})
	if d := cmp.Diff([]string{"n2"}, removed(p)); d != "" {
		t.Fatal(d, p.Blocked)
	}
	if b := blocked(t, p, "n1"); b.Reason != disrupt.BlockedStrategy || !strings.Contains(b.Message, "not this one") {
		t.Errorf("n1: %+v", b)
	}
}

// Replacements share the budgets with removals, and what does not fit in waits.
func TestReplacementsKeepBudgets(t *testing.T) {
	t.Parallel()
	w := world(pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "1"}} }))
	for i := range 4 {
		node(fmt.Sprintf("n%d", i), "m5.4xlarge", pod(fmt.Sprintf("p%d", i), 1500, selector(model.LabelZone, "a"), func(p *model.Pod) {
			p.Topology = apart(model.LabelHostname, "w")
			p.Labels = map[string]string{"app": "w"}
		}))(w)
	}
	now := disrupt.Plan(w, nil, nil, disrupt.Options{})
	if len(removed(now)) != 1 || len(launched(now)) != 1 {
		t.Errorf("now: removed %v, launched %v", removed(now), launched(now))
	}
	all := plan(w)
	if len(removed(all)) != 4 || all.Commands[3].Wave != 4 {
		t.Errorf("removed %v in %d commands; blocked %+v", removed(all), len(all.Commands), all.Blocked)
	}
	for _, p := range []*model.Plan{now, all} {
		if err := verify(w, p); err != nil {
			t.Error(err)
		}
	}
}

// Whatever the cluster: replacements fit, cost less at worst, keep budgets, and the end
// state passes the engine's check.
func TestReplacementsAreSound(t *testing.T) {
	t.Parallel()
	replaced := 0
	rapid.Check(t, func(t *rapid.T) {
		w := world(cheap(rapid.SampledFrom([]float64{0.35, 0.7, 1}).Draw(t, "spot")), pool(func(p *model.Pool) {
			p.Policy = rapid.SampledFrom([]model.ConsolidationPolicy{model.WhenEmptyOrUnderutilized, model.Balanced}).Draw(t, "policy")
			p.Budgets = []model.Budget{{Nodes: rapid.SampledFrom([]string{"1", "3", "50%", "100%"}).Draw(t, "budget")}}
			p.Requirements = require.Set{}
		}))
		w.Settings.SpotToSpot = rapid.Bool().Draw(t, "spot to spot")
		asks := []*model.Topology{nil, nil, nil, spread(model.LabelZone, "w"), apart(model.LabelHostname, "w"), spread(model.LabelHostname, "w"),
			{Affinity: []model.PodTerm{{Key: model.LabelZone, Selector: pick("w")}}}}
		ask := rapid.SampledFrom(asks).Draw(t, "asks")
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			k := rapid.SampledFrom([]string{"m5.large", "m5.xlarge", "m5.2xlarge", "m5.4xlarge"}).Draw(t, "type")
			opts := []func(*model.Node){zone(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"))}
			if rapid.IntRange(0, 3).Draw(t, "bought as") == 0 {
				opts = append(opts, as(model.LabelCapacityType, model.Spot))
			}
			if rapid.IntRange(0, 6).Draw(t, "drifts") == 0 {
				opts = append(opts, drifted)
			}
			free := kinds[k].cores * 1000
			for j := range rapid.IntRange(0, 4).Draw(t, "pods") {
				milli := rapid.Int64Range(100, 2500).Draw(t, "milli")
				if free -= milli; free < 0 {
					break
				}
				var change []func(*model.Pod)
				if rapid.IntRange(0, 2).Draw(t, "of w") == 0 {
					change = append(change, app("w", ask))
				}
				opts = append(opts, pod(fmt.Sprintf("p%d-%d", i, j), milli, change...))
			}
			node(fmt.Sprintf("n%d", i), k, opts...)(w)
		}
		for _, waves := range []bool{true, false} {
			p := disrupt.Plan(w, nil, nil, disrupt.Options{Waves: waves})
			replaced += len(launched(p))
			if err := verify(w, p); err != nil {
				t.Fatal(err)
			}
			if err := runs(w, p); err != nil {
				t.Fatal(err)
			}
		}
	})
	if replaced == 0 {
		t.Error("no plan replaced a node: the property says nothing")
	}
}
