package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// tinyWorld draws at most 12 pods and at most 8 offerings, with requirements, taints,
// devices, daemon pods, pods that shun each other, and pools that compete.
func tinyWorld(d dice) *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	w := &model.World{Now: mt.Now, NodeClasses: map[string]*model.NodeClass{mt.Class: class}, Offerings: map[string][]*model.Offering{}}
	for i := range 2 + d.n(7) {
		cpu, mib := int64(1+d.n(8)), int64(2+d.n(16))
		room := resource.New(cpu*1000, mib<<30, int64(one(d, 110, 110, 3, 5)), 20<<30)
		if d.in(5) {
			room = room.With(devices, int64(1+d.n(2)))
		}
		t := &model.InstanceType{Name: fmt.Sprintf("t%d", i), Capacity: room, Allocatable: room, Labels: map[string]string{
			model.LabelInstanceType: fmt.Sprintf("t%d", i), model.LabelArch: one(d, "amd64", "amd64", "arm64"), model.LabelOS: "linux"}}
		w.Offerings[mt.Class] = append(w.Offerings[mt.Class], &model.Offering{Type: t, Zone: one(d, proofZones...), CapacityType: one(d, model.Spot, model.OnDemand), Available: true,
			USDPerHour: (float64(cpu)*0.04 + float64(mib)*0.005) * (0.8 + float64(d.n(40))/100), PriceSource: "list"})
	}
	w.Pools = []*model.Pool{mt.Pool("a")}
	if d.in(2) {
		w.Pools = append(w.Pools, tainted(mt.Pool("b", mt.CapacityType(model.Spot))))
	}
	if d.in(2) {
		w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("agent", 100, 256)}
	}
	for i := 0; len(w.Pods) < 12 && i < 1+d.n(6); i++ {
		var opts []func(*model.Pod)
		switch d.n(8) {
		case 4:
			opts = append(opts, mt.Requires(mt.CapacityType(model.OnDemand)))
		case 5:
			opts = append(opts, mt.Requires(require.Must(model.LabelArch, require.In, "arm64")))
		case 6:
			opts = append(opts, is(fmt.Sprint(i)), away(model.LabelHostname, app(fmt.Sprint(i))))
		case 7:
			opts = append(opts, mt.Requires(require.Must(model.LabelZone, require.NotIn, proofB)))
		}
		if d.in(3) {
			opts = append(opts, mt.Tolerates(model.Toleration{Operator: "Exists"}))
		}
		if d.in(8) {
			opts = append(opts, func(p *model.Pod) { p.Requests = p.Requests.With(devices, 1) })
		}
		w.Pods = append(w.Pods, mt.Pods(min(1+d.n(5), 12-len(w.Pods)), fmt.Sprintf("p%d", i), int64(100*(1+d.n(40))), int64(256*(1+d.n(32))), opts...)...)
	}
	return w
}

// cheapest is what one node for exactly these pods costs at the least, by plain
// evaluation of every rule of a tiny world; +Inf where no node can hold them.
func cheapest(w *model.World, pods []*model.Pod, fee float64) float64 {
	best := math.Inf(1)
	for _, pool := range w.Pools {
	offerings:
		for _, o := range w.Offerings[pool.NodeClass.Name] {
			labels := map[string]string{model.LabelPool: pool.Name, model.LabelZone: o.Zone, model.LabelCapacityType: o.CapacityType}
			for k, v := range o.Type.Labels {
				labels[k] = v
			}
			if pool.Requirements.LabelsSatisfy(labels) != nil {
				continue
			}
			room := o.Type.Allocatable
			for _, d := range w.DaemonSets {
				room = room.Sub(d.Pod.Requests)
			}
			for i, p := range pods {
				if _, bad := p.Untolerated(pool.Taints); bad || p.Terms[0].LabelsSatisfy(labels) != nil {
					continue offerings
				}
				for _, q := range pods[:i] {
					if p.Topology != nil && p.Topology.AntiAffinity[0].Selector.Picks(q) {
						continue offerings
					}
				}
				room = room.Sub(p.Requests)
			}
			if (resource.Vector{}).Fits(room) {
				best = min(best, o.USDPerHour+fee)
			}
		}
	}
	return best
}

// optimum tries every way to share the pods out over nodes.
func optimum(w *model.World, pods []*model.Pod, fee float64) float64 {
	all := 1<<len(pods) - 1
	node := make([]float64, all+1) // price of one node for a set of pods
	for set := 1; set <= all; set++ {
		var on []*model.Pod
		for i, p := range pods {
			if set&(1<<i) != 0 {
				on = append(on, p)
			}
		}
		node[set] = cheapest(w, on, fee)
	}
	best := make([]float64, all+1)
	for set := 1; set <= all; set++ {
		best[set] = math.Inf(1)
		first := set & -set // some node holds the first pod
		for part := set; part > 0; part = (part - 1) & set {
			if part&first != 0 {
				best[set] = min(best[set], node[part]+best[set&^part])
			}
		}
	}
	return best[all]
}

// On tiny problems the plan is compared with the best of all plans: on the average it
// costs at most 2% more, never more than a single node for all, and no bound is ever above the optimum.
func TestTinyProblemsAreNearTheOptimum(t *testing.T) {
	t.Parallel()
	const problems = 300
	sum, worst, at, solved := 0.0, 0.0, uint64(0), 0
	for seed := range uint64(problems) {
		d := seeded(seed)
		w := tinyWorld(d)
		fee := one(d, 0, 0.0222)
		prices := &model.Prices{ByPool: map[string]model.PoolPrices{"a": {FeePerNode: fee}, "b": {FeePerNode: fee}}}
		r := engine.Place(w, prices)
		sound(t, w, prices, r)
		for _, v := range r.Unplaced {
			if usd := cheapest(w, []*model.Pod{v.Pod}, 0); !math.IsInf(usd, 1) {
				t.Errorf("seed %d: %s has no place, a node for it costs %v: %+v", seed, v.Pod.Name, usd, v.Reasons)
			}
		}
		var pods []*model.Pod
		cost := 0.0
		for _, n := range r.New {
			pods = append(pods, n.Pods...)
			cost += n.Effective + fee
		}
		if len(pods) == 0 {
			continue
		}
		if one := cheapest(w, pods, fee); one < cost-1e-9 {
			t.Errorf("seed %d: the plan costs %v, one node for all of its pods costs %v", seed, cost, one)
		}
		best := optimum(w, pods, fee)
		if cost < best-1e-9 {
			t.Fatalf("seed %d: the plan costs %v, less than the optimum %v: one of them is wrong", seed, cost, best)
		}
		real := optimum(w, pods, 0)
		if b := engine.Bound(w, pods); b > real+1e-9 || r.Bound > real+1e-9 {
			t.Errorf("seed %d: the bounds %v and %v are above the optimum %v", seed, b, r.Bound, real)
		}
		solved++
		sum += cost / best
		if cost/best > worst {
			worst, at = cost/best, seed
		}
	}
	t.Logf("%d problems: %.4f x optimum on the average, %.4f at worst (seed %d)", solved, sum/float64(solved), worst, at)
	if sum/float64(solved) > 1.02 {
		t.Errorf("%.4f x optimum on the average, want at most 1.02", sum/float64(solved))
	}
}
