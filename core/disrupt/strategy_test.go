package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// TestStrategyLimitsHoldForMoves: consolidation does not undo what an
// instance-selection strategy asked for.
func TestStrategyLimitsHoldForMoves(t *testing.T) {
	t.Parallel()
	as := func(label, value string) func(*model.Node) {
		return func(n *model.Node) { n.Labels[label] = value }
	}
	workload := func(p *model.Pod) { p.Owner = model.Owner{Kind: "ReplicaSet", Name: "web", UID: "web"} }
	// six half-empty nodes: two on demand, two in each of three zones
	mixed := func(pods ...func(*model.Pod)) []func(*model.World) {
		var out []func(*model.World)
		for i := range 6 {
			name := fmt.Sprintf("n%d", i)
			capacity := model.Spot
			if i >= 4 {
				capacity = model.OnDemand
			}
			out = append(out, node(name, "m5.xlarge", as(model.LabelCapacityType, capacity), as(model.LabelZone, string(rune('a'+i%3))), pod("on-"+name, 1000, pods...)))
		}
		return out
	}
	share := model.StrategyLimit{Name: "mix", Share: &model.ShareLimit{Min: 0.5, Max: 1, Selector: model.OfferingSelector{{Key: model.LabelCapacityType, Values: []string{model.OnDemand}}}}}
	for _, c := range []struct {
		name   string
		limit  *model.StrategyLimit
		pods   []func(*model.Pod)
		stay   int
		reason string
		check  func(left []*model.Node) string
	}{
		{name: "without limits two nodes hold all", stay: 2},
		{name: "a share that is missed already does not get worse", limit: &share, stay: 2, check: func(left []*model.Node) string {
			for _, n := range left {
				if n.CapacityType() == model.OnDemand {
					return ""
				}
			}
			return "no node on demand stays"
		}},
		{name: "three zones stay", limit: &model.StrategyLimit{Name: "zones", Variety: &model.Variety{Min: 3}}, stay: 3, reason: `limit "zones" of strategy s 1`, check: func(left []*model.Node) string {
			zones := map[string]bool{}
			for _, n := range left {
				zones[n.Zone()] = true
			}
			if len(zones) != 3 {
				return fmt.Sprint("only zones ", zones)
			}
			return ""
		}},
		{name: "two pods of a workload on a node", limit: &model.StrategyLimit{Name: "blast", PodsPerNode: &model.PodsPerNode{Max: 2}}, pods: []func(*model.Pod){workload}, stay: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(append(mixed(c.pods...), soldOut)...)
			var prices *model.Prices
			if c.limit != nil {
				prices = &model.Prices{ByPool: map[string]model.PoolPrices{"default": {Strategy: "s 1", Limits: []model.StrategyLimit{*c.limit}}}}
			}
			p := disrupt.Plan(w, prices, nil, disrupt.Options{Waves: true})
			left := slices.Clone(w.Nodes)
			for _, cmd := range p.Commands {
				left = slices.DeleteFunc(left, func(n *model.Node) bool { return slices.Contains(cmd.Remove, n) })
			}
			if len(left) != c.stay {
				t.Errorf("%d nodes stay, want %d; blocked %+v", len(left), c.stay, p.Blocked)
			}
			if c.check != nil {
				if bad := c.check(left); bad != "" {
					t.Error(bad)
				}
			}
			if c.reason != "" && !slices.ContainsFunc(p.Blocked, func(b model.Blocked) bool {
				return b.Reason == disrupt.BlockedStrategy && strings.Contains(b.Message, c.reason)
			}) {
				t.Errorf("blocked %+v, want %q", p.Blocked, c.reason)
			}
		})
	}
}
