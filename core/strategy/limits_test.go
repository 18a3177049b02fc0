package strategy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/provision"
)

// workloads is a world with one pool over everything and waiting pods of workloads of
// the given sizes.
func workloads(sizes ...int) *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	w := &model.World{Now: mt.Now, NodeClasses: map[string]*model.NodeClass{mt.Class: class},
		Offerings: map[string][]*model.Offering{mt.Class: catalogue.Embedded().Offerings(class, nil, catalogue.Options{})}}
	w.Pools = []*model.Pool{mt.Pool("default", mt.CapacityType(model.Spot, model.OnDemand), require.Must("karpenter.k8s.aws/instance-category", require.In, "c", "m", "r"))}
	for i, n := range sizes {
		name := fmt.Sprintf("w%d", i)
		w.Pods = append(w.Pods, mt.Pods(n, name, 300+int64(i%5)*450, 500+int64(i%7)*900, func(p *model.Pod) { p.Owner.Name, p.Owner.UID = name, name })...)
	}
	return w
}

// planWith asks a strategy that runs as a process of its own, and has its plan checked.
func planWith(t *testing.T, w *model.World, name, config string) *model.Plan {
	t.Helper()
	spec := fakeSpec(t, name, "builtin", name)
	spec.Config = json.RawMessage(config)
	h := testHost(t, bound(spec))
	settle(t, h)
	prices, err := h.Price(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	plan := provision.Plan(w, prices)
	if len(plan.Unplaced) > 0 || plan.Outcome != "ok" || !strings.HasPrefix(plan.Strategy, name+" ") {
		t.Fatalf("%d pods not placed, answered by %q, outcome %s: %v", len(plan.Unplaced), plan.Strategy, plan.Outcome, plan.Warnings)
	}
	for _, err := range engine.CheckPriced(w, plan, prices) {
		t.Error(err)
	}
	return plan
}

// TestResilientBoundsWhatIsLost: whichever node, zone or spot pool goes, it takes no
// more than the bounded part along.
func TestResilientBoundsWhatIsLost(t *testing.T) {
	t.Parallel()
	sizes := []int{1, 2, 3, 5, 9, 20, 40, 60}
	w := workloads(sizes...)
	plan := planWith(t, w, "resilient", `{"maxShare": 0.25, "zones": 3, "spotPools": 6}`)
	zones, pools := map[string]int{}, map[string]int{}
	spot := 0
	for _, n := range plan.Launch {
		on := map[string]int{}
		for _, p := range n.Pods {
			on[p.Owner.Name]++
		}
		for i, size := range sizes {
			name := fmt.Sprintf("w%d", i)
			if most := max(1, size/4); on[name] > most {
				t.Errorf("losing %s takes %d of the %d pods of %s, at most %d are wanted", n.Name, on[name], size, name, most)
			}
		}
		zones[n.Offering.Zone]++
		if n.Offering.CapacityType == model.Spot {
			pools[n.Offering.Type.Name+"/"+n.Offering.Zone]++
			spot++
		}
	}
	part := func(n, places int) int { return (n + places - 1) / places }
	for zone, n := range zones {
		if n > part(len(plan.Launch), 3) {
			t.Errorf("losing zone %s takes %d of %d nodes", zone, n, len(plan.Launch))
		}
	}
	for pool, n := range pools {
		if n > part(spot, 6) {
			t.Errorf("losing spot pool %s takes %d of %d nodes", pool, n, spot)
		}
	}
	if len(plan.Launch) < 4 || spot == 0 || len(plan.Shortfalls) > 0 {
		t.Errorf("%d nodes, %d of them spot, shortfalls %v", len(plan.Launch), spot, plan.Shortfalls)
	}
}

// TestResilientAvoidsWhatWasInterrupted: what the plain price would buy is interrupted
// often; something else is bought.
func TestResilientAvoidsWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	w := workloads(6)
	const config = `{"zones": 0, "spotPools": 0, "maxShare": 1}`
	before := planWith(t, w, "resilient", config)
	key := before.Launch[0].Offering.Key()
	for i, o := range w.Offerings[mt.Class] {
		if o.Key() == key {
			x := *o
			x.Interruptions = 9
			w.Offerings[mt.Class][i] = &x
		}
	}
	for _, n := range planWith(t, w, "resilient", config).Launch {
		if n.Offering.Key() == key {
			t.Errorf("%s was interrupted nine times and is bought again", key)
		}
	}
}

// TestCapacityMixHolds over new and running nodes, in each measure.
func TestCapacityMixHolds(t *testing.T) {
	t.Parallel()
	for _, measure := range []string{"nodes", "vcpu", "price"} {
		t.Run(measure, func(t *testing.T) {
			t.Parallel()
			w := workloads(30, 50, 8, 90)
			for i := range 5 { // spot nodes that are full: the new ones have to make up for them
				n := mt.Node(fmt.Sprintf("n%d", i), 3920, 15000, map[string]string{model.LabelCapacityType: model.Spot, model.LabelInstanceType: "m5.xlarge", model.LabelZone: "us-east-1a"},
					mt.Managed("default"), mt.Running(mt.Pod(fmt.Sprintf("on-n%d", i), 3900, 1000)))
				n.USDPerHour, n.PriceKnown = 0.08, true
				w.Nodes = append(w.Nodes, n)
			}
			plan := planWith(t, w, "capacity-mix", fmt.Sprintf(`{"measure": %q}`, measure))
			amount := func(milliCPU int64, usd float64) float64 {
				return map[string]float64{"nodes": 1, "vcpu": float64(milliCPU), "price": usd}[measure]
			}
			all, onDemand, spot := 0.0, 0.0, 0
			for _, n := range w.Nodes {
				all += amount(n.Capacity.Get("cpu"), n.USDPerHour)
			}
			for _, n := range plan.Launch {
				x := amount(n.Offering.Type.Capacity.Get("cpu"), n.Offering.USDPerHour)
				all += x
				if n.Offering.CapacityType == model.OnDemand {
					onDemand += x
				} else {
					spot++
				}
			}
			if onDemand < 0.3*all-1e-9 || spot == 0 {
				t.Errorf("%v of %v is on demand, want at least 30%%; %d new nodes are spot", onDemand, all, spot)
			}
			if share := onDemand / all; share > 0.6 {
				t.Errorf("%.0f%% is on demand, far more than was asked for", 100*share)
			}
		})
	}
}

// TestCapacityMixGivesWay: a least share is an aim, a strict one is not.
func TestCapacityMixGivesWay(t *testing.T) {
	t.Parallel()
	w := workloads(12)
	w.Pools[0].Requirements = w.Pools[0].Requirements.With(mt.CapacityType(model.Spot))
	plan := planWith(t, w, "capacity-mix", `{}`)
	if len(plan.Shortfalls) != 1 || !strings.Contains(strings.Join(plan.Warnings, "\n"), `limit "on-demand" of strategy capacity-mix 1.1.0: at least 30% of the vCPUs was asked for, it is 0 of`) {
		t.Errorf("shortfalls %v, warnings %v", plan.Shortfalls, plan.Warnings)
	}
	spec := fakeSpec(t, "capacity-mix", "builtin", "capacity-mix")
	spec.Config = json.RawMessage(`{"parts": [{"name": "od", "match": {"karpenter.sh/capacity-type": ["on-demand"]}, "min": 0.3, "strict": true}]}`)
	h := testHost(t, bound(spec))
	settle(t, h)
	prices, err := h.Price(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	plan = provision.Plan(w, prices)
	if len(plan.Launch) != 0 || len(plan.Unplaced) != 12 {
		t.Fatalf("%d nodes, %d pods not placed, want none and all", len(plan.Launch), len(plan.Unplaced))
	}
	if r := plan.Unplaced[0].Reasons[0]; r.Filter != model.FilterStrategy || !strings.Contains(r.Message, `limit "od, least" of strategy capacity-mix 1.1.0: at most 70%`) {
		t.Errorf("reason %+v", r)
	}
	if math.Abs(plan.LowerBoundUSDPerHour) > 0 {
		t.Errorf("bound %v of nothing", plan.LowerBoundUSDPerHour)
	}
}
