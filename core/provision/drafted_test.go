package provision_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/provision"
)

func draftWorld(pods int) *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	return &model.World{Now: mt.Now, Pools: []*model.Pool{mt.Pool("p", mt.CapacityType(model.OnDemand))}, Pods: mt.Pods(pods, "a", 900, 1000),
		DaemonSets:  []*model.DaemonSet{mt.DaemonSet("d", 150, 100)},
		NodeClasses: map[string]*model.NodeClass{mt.Class: class},
		Offerings:   map[string][]*model.Offering{mt.Class: catalogue.Embedded().Offerings(class, nil, catalogue.Options{})}}
}

func offering(t *testing.T, w *model.World, typ string) *model.Offering {
	t.Helper()
	for _, o := range w.Offerings[mt.Class] {
		if o.Type.Name == typ && o.CapacityType == model.OnDemand {
			return o
		}
	}
	t.Fatalf("there is no %s", typ)
	return nil
}

// Nodes that a strategy packed are bought as they are, with the alternatives that hold
// the same pods; what it left out is the engine's.
func TestDraftsAreBought(t *testing.T) {
	t.Parallel()
	w := draftWorld(10)
	big := offering(t, w, "m5.2xlarge")
	prices := &model.Prices{Drafted: "mine 1", Drafts: []model.Draft{{Pool: w.Pools[0], Offering: big, Pods: w.Pods[:7]}}}
	if err := engine.CheckDrafts(w, prices, prices.Drafts); err != nil {
		t.Fatal(err)
	}
	plan := provision.Plan(w, prices)
	if bad := engine.CheckPriced(w, plan, prices); len(bad) > 0 {
		t.Fatal(bad)
	}
	if plan.Outcome != "ok" || plan.Strategy != "mine 1" {
		t.Errorf("strategy %q, outcome %q", plan.Strategy, plan.Outcome)
	}
	first := plan.Launch[0]
	if first.Offering != big || len(first.Pods) != 7 || len(first.Alternatives) == 0 {
		t.Errorf("%s with %d pods and %d alternatives is bought, want m5.2xlarge with 7 and some", first.Offering.Key(), len(first.Pods), len(first.Alternatives))
	}
	left := 0
	for _, n := range plan.Launch[1:] {
		left += len(n.Pods)
	}
	if left != 3 || len(plan.Unplaced) != 0 {
		t.Errorf("%d pods on nodes of the engine, %d without a place, want 3 and 0", left, len(plan.Unplaced))
	}
}

func TestIllegalDraftsFallBackToPrices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		draft func(w *model.World) []model.Draft
		want  string
	}{
		"too many pods": {func(w *model.World) []model.Draft {
			return []model.Draft{{Pool: w.Pools[0], Offering: offering(t, w, "m5.large"), Pods: w.Pods}}
		}, "m5.large"},
		"no room for the daemon pods": {func(w *model.World) []model.Draft {
			return []model.Draft{{Pool: w.Pools[0], Offering: offering(t, w, "m5.large"), Pods: w.Pods[:2]}}
		}, "after daemonsets"},
		"a pod twice": {func(w *model.World) []model.Draft {
			o := offering(t, w, "m5.2xlarge")
			return []model.Draft{{Pool: w.Pools[0], Offering: o, Pods: w.Pods[:2]}, {Pool: w.Pools[0], Offering: o, Pods: w.Pods[1:3]}}
		}, "on another node as well"},
		"a foreign pool": {func(w *model.World) []model.Draft {
			return []model.Draft{{Pool: mt.Pool("q"), Offering: offering(t, w, "m5.2xlarge"), Pods: w.Pods[:2]}}
		}, "not of this world"},
		"spot, which the pool forbids": {func(w *model.World) []model.Draft {
			for _, o := range w.Offerings[mt.Class] {
				if o.CapacityType == model.Spot && o.Type.Name == "m5.2xlarge" {
					return []model.Draft{{Pool: w.Pools[0], Offering: o, Pods: w.Pods[:2]}}
				}
			}
			return nil
		}, "cannot be bought"},
		"beyond the limits": {func(w *model.World) []model.Draft {
			w.Pools[0].Limits.Resources = map[string]int64{"cpu": 4000}
			return []model.Draft{{Pool: w.Pools[0], Offering: offering(t, w, "m5.2xlarge"), Pods: w.Pods[:2]}}
		}, "the limit leaves 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := draftWorld(10)
			prices := &model.Prices{Drafted: "mine 1", Drafts: c.draft(w)}
			if err := engine.CheckDrafts(w, prices, prices.Drafts); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the check says %v, want %q", err, c.want)
			}
			plan := provision.Plan(w, prices)
			if bad := engine.CheckPriced(w, plan, nil); len(bad) > 0 {
				t.Fatal(bad)
			}
			if plan.Outcome != "invalid" || !strings.Contains(strings.Join(plan.Warnings, "\n"), c.want) {
				t.Errorf("outcome %q, warnings %q", plan.Outcome, plan.Warnings)
			}
			if len(plan.Launch) == 0 {
				t.Error("nothing was bought")
			}
		})
	}
}
