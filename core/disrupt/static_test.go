package disrupt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

func fixed(n int64) func(*model.World) {
	return func(w *model.World) { w.Pools[0].Static, w.Settings.StaticCapacity = &n, true }
}

func limit(n int64) func(*model.World) {
	return func(w *model.World) { w.Pools[0].Limits.Nodes = &n }
}

// Pools with a fixed number of nodes: what is bought, what goes, and why the rest stays.
func TestStatic(t *testing.T) {
	t.Parallel()
	launched := func(n *model.Node) { n.Claim.ProviderID = "aws:///a/i-" + n.Name }
	some := func(opts ...func(*model.World)) []func(*model.World) {
		return append([]func(*model.World){node("full", "m5.large", launched, pod("p1", 200)), node("empty", "m5.large", launched),
			node("held", "m5.large", launched, pod("p2", 10, annotated(model.AnnotationDoNotDisrupt, "true")))}, opts...)
	}
	drifted := on(0, drifts(time.Hour))
	type verdict struct {
		reason, message string
	}
	for name, tc := range map[string]struct {
		world   []func(*model.World)
		opts    disrupt.Options
		launch  int
		removed []string
		stays   map[string]verdict
		warning string
	}{
		"as many as asked":            {world: some(fixed(3)), stays: map[string]verdict{"empty": {disrupt.BlockedStatic, "fixed number of 3"}}},
		"two are missing":             {world: some(fixed(5)), launch: 2},
		"missing, with a limit":       {world: some(fixed(5), limit(4)), launch: 1, warning: "2 of its 5 nodes are missing, and limits.nodes 4 leaves room for 1"},
		"missing, nothing to buy":     {world: some(fixed(5), func(w *model.World) { w.Offerings["c"] = nil }), warning: "none can be bought"},
		"the empty one goes first":    {world: some(fixed(2)), removed: []string{"empty"}},
		"protected ones go last":      {world: some(fixed(1)), removed: []string{"empty", "full"}},
		"all go":                      {world: some(fixed(0)), removed: []string{"empty", "full", "held"}},
		"budgets are not asked":       {world: some(fixed(2), pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "0"}} })), removed: []string{"empty"}},
		"what is not launched, first": {world: some(fixed(3), node("new", "m5.large")), removed: []string{"new"}},
		"B118 what is not launched, then what is empty": {world: []func(*model.World){fixed(2), node("c4", "m5.large", launched, pod("a", 100), pod("b", 100), pod("c", 100)),
			node("c3", "m5.large", launched, pod("d", 10, annotated(model.AnnotationDoNotDisrupt, "true"))), node("c2", "m5.large", launched), node("c1", "m5.large")}, removed: []string{"c1", "c2"}},
		"frozen: nothing goes": {world: some(fixed(1)), opts: disrupt.Options{Frozen: "a zone is away"}},
		"frozen: what lacks is bought": {
			world: some(fixed(4)), opts: disrupt.Options{Frozen: "a zone is away"}, launch: 1},
		"the feature is off":    {world: some(fixed(5), func(w *model.World) { w.Settings.StaticCapacity = false })},
		"what leaves is missed": {world: some(fixed(3), on(0, cordoned)), launch: 1},
		"drift, one for one":    {world: some(fixed(3), drifted), removed: []string{"full"}},
		"drift within budgets": {world: some(fixed(3), drifted, pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "0"}} })),
			stays: map[string]verdict{"full": {disrupt.BlockedBudget, "Drifted"}}},
		"drift without room": {world: some(fixed(3), drifted, limit(3)), stays: map[string]verdict{"full": {disrupt.BlockedStatic, "limits.nodes 3"}}},
		"drift soaks":        {world: some(fixed(3), drifted, onPool(model.AnnotationSoak, "72h")), stays: map[string]verdict{"full": {disrupt.BlockedSoak, "72h"}}},
		"drift of a protected one": {world: some(fixed(3), on(2, drifts(time.Hour))),
			stays: map[string]verdict{"held": {disrupt.BlockedDoNotDisrupt, "x/p2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := disrupt.Plan(world(tc.world...), nil, nil, tc.opts)
			want := tc.removed
			if want == nil {
				want = []string{}
			}
			if diff := cmp.Diff(want, removed(p)); diff != "" || len(p.Launch) != tc.launch {
				t.Errorf("removed (-want +got):\n%s; launches %d, want %d", diff, len(p.Launch), tc.launch)
			}
			for _, c := range p.Commands {
				if (c.Reason == model.Drifted) != (len(c.Launch) == 1) || c.Wave != 1 || c.Why == "" {
					t.Errorf("command %+v", c)
				}
			}
			names := map[string]bool{}
			for _, n := range p.Launch {
				if names[n.Name] || len(n.Pods) > 0 || n.Offering == nil || n.Pool.Name != "default" {
					t.Errorf("launch %+v", n)
				}
				names[n.Name] = true
			}
			for node, v := range tc.stays {
				if b := blocked(t, p, node); b.Reason != v.reason || !strings.Contains(b.Message, v.message) {
					t.Errorf("%s: %s %q, want %s with %q", node, b.Reason, b.Message, v.reason, v.message)
				}
			}
			if tc.warning != "" && !strings.Contains(strings.Join(p.Warnings, "\n"), tc.warning) {
				t.Errorf("warnings %q, want %q", p.Warnings, tc.warning)
			}
		})
	}
}
