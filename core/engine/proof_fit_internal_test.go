package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// naively says whether one pod alone may run on one offering of a pool, by plain
// evaluation of what the rules say: taints, requirements, daemon pods, room.
func naively(w *model.World, p *model.Pool, o *model.Offering, pod *model.Pod) bool {
	if _, bad := pod.Untolerated(p.Taints); bad || !o.Available {
		return false
	}
	// labels that no offering and no requirement decides may have any value that both sides allow
	decided := map[string]string{model.LabelZone: o.Zone, model.LabelCapacityType: o.CapacityType, model.LabelPool: p.Name}
	maps.Copy(decided, o.Type.Labels)
	holds := func(sets ...require.Set) bool {
		all := require.Set{}
		for _, s := range sets {
			all = all.And(s)
		}
		for _, r := range all.All() {
			if v, ok := decided[r.Key]; ok && !r.Has(v) || r.Impossible() {
				return false
			}
			if _, ok := decided[r.Key]; !ok && model.WellKnown(r.Key) && !r.AllowsAbsent() {
				return false
			}
		}
		for _, s := range sets[1:] { // what a pod asks for must be offered by the pool
			for _, r := range s.All() {
				if _, ok := decided[r.Key]; !ok && !model.WellKnown(r.Key) && !p.Requirements.Has(r.Key) && !r.AllowsAbsent() {
					return false
				}
			}
		}
		return true
	}
	room := o.Type.Allocatable
	for _, d := range w.DaemonSets {
		if _, bad := d.Pod.Untolerated(p.Taints); bad {
			continue
		}
		for _, term := range d.Pod.Terms {
			if holds(p.Requirements, term) {
				room = room.Sub(d.Pod.Requests)
				break
			}
		}
	}
	for _, term := range pod.Terms {
		if holds(p.Requirements, term) {
			return pod.Requests.Fits(room)
		}
	}
	return false
}

// What the engine has compiled to bitsets and numbers is what plain evaluation says,
// for every pod, pool and offering of drawn worlds.
func TestBitsetFitIsNaiveFit(t *testing.T) {
	t.Parallel()
	zones := []string{"a", "b", "c"}
	agreed := map[bool]int{}
	for seed := range uint64(150) {
		d := rand.New(rand.NewPCG(seed, 3))
		requirement := func() require.Requirement {
			keys := []string{model.LabelZone, model.LabelCapacityType, model.LabelArch, model.LabelInstanceType, model.AWSLabelDomain + "/instance-cpu", "team", "tier"}
			values := map[string][]string{model.LabelZone: zones, model.LabelCapacityType: {model.Spot, model.OnDemand}, model.LabelArch: {"amd64", "arm64"},
				model.LabelInstanceType: {"t0", "t1", "t2"}, model.AWSLabelDomain + "/instance-cpu": {"1", "2", "4"}, "team": {"red", "blue"}, "tier": {"1", "3"}}
			k := keys[d.IntN(len(keys))]
			vs := values[k]
			some := vs[:1+d.IntN(len(vs))]
			switch d.IntN(6) {
			case 0, 1:
				return require.Must(k, require.In, some...)
			case 2:
				return require.Must(k, require.NotIn, some...)
			case 3:
				return require.Must(k, require.Exists)
			case 4:
				return require.Must(k, require.DoesNotExist)
			}
			if k == "tier" || k == model.AWSLabelDomain+"/instance-cpu" {
				return require.Must(k, []require.Operator{require.Gt, require.Lt, require.Gte, require.Lte}[d.IntN(4)], fmt.Sprint(d.IntN(5)))
			}
			return require.Must(k, require.In, some...)
		}
		several := func() (out []require.Requirement) {
			for range d.IntN(3) {
				out = append(out, requirement())
			}
			return out
		}
		rules := func(p *model.Pod) {
			for range 1 + d.IntN(2) {
				mt.Requires(several()...)(p)
			}
			if d.IntN(2) == 0 {
				mt.Tolerates(model.Toleration{Key: "dedicated", Operator: "Exists"})(p)
			}
		}
		w := &model.World{Now: mt.Now, Offerings: map[string][]*model.Offering{}}
		for i := range 5 {
			cpu := int64(1) << d.IntN(3)
			room := resource.New(cpu*1000-70, (1+d.Int64N(8))<<30, 1+d.Int64N(10), 20<<30)
			if d.IntN(3) == 0 {
				room = room.With("example.com/device", 1)
			}
			labels := map[string]string{model.LabelInstanceType: fmt.Sprintf("t%d", i), model.LabelArch: []string{"amd64", "arm64"}[d.IntN(2)]}
			if d.IntN(4) > 0 {
				labels[model.AWSLabelDomain+"/instance-cpu"] = fmt.Sprint(cpu)
			}
			ty := &model.InstanceType{Name: fmt.Sprintf("t%d", i), Labels: labels, Capacity: room, Allocatable: room}
			for _, z := range zones {
				for _, c := range []string{model.Spot, model.OnDemand} {
					w.Offerings[mt.Class] = append(w.Offerings[mt.Class], &model.Offering{Type: ty, Zone: z, CapacityType: c, USDPerHour: 1, Available: d.IntN(6) > 0})
				}
			}
		}
		for i := range 3 {
			p := mt.Pool(fmt.Sprintf("p%d", i), several()...)
			if d.IntN(3) == 0 {
				p.Taints = []model.Taint{{Key: "dedicated", Effect: model.NoSchedule}}
			}
			w.Pools = append(w.Pools, p)
		}
		for i := range d.IntN(3) {
			w.DaemonSets = append(w.DaemonSets, mt.DaemonSet(fmt.Sprintf("d%d", i), 100, 256, func(p *model.Pod) { p.Tolerations = nil }, rules))
		}
		for i := range 8 {
			p := mt.Pod(fmt.Sprintf("x%d", i), d.Int64N(4500), d.Int64N(8000), rules)
			if d.IntN(6) == 0 {
				p.Requests = p.Requests.With("example.com/device", 1)
			}
			w.Pods = append(w.Pods, p)
		}
		pr := compile(w, nil, w.Pods, false, nil)
		for _, g := range pr.groups {
			for _, p := range pr.pools {
				some := map[bool]bool{} // plainly, compiled
				for i, o := range w.Offerings[mt.Class] {
					got := false
					if p.why == nil && g.spec.elig[p.index].bits != nil {
						at := i
						if p.class.from != nil {
							at = slices.Index(p.class.from, i)
						}
						got = g.spec.elig[p.index].bits.has(at) && p.usable.has(at) && p.holds(at, g.size)
					}
					want := naively(w, p.Pool, o, g.pods[0])
					some[true], some[false] = some[true] || want, some[false] || got
					// of terms that ask different things of the pool's own labels only one is used
					if got && !want || want && !got && len(g.pods[0].Terms) == 1 {
						t.Fatalf("seed %d: pod %s (%v) on %s of pool %s (%s, taints %v): compiled %t, plainly %t\nlabels %v, room %s, requests %s", seed, g.pods[0].Name,
							g.pods[0].Terms, o.Key(), p.Name, p.Requirements, p.Taints, got, want, o.Type.Labels, o.Type.Allocatable, g.pods[0].Requests)
					}
					agreed[got]++
				}
				if some[true] != some[false] {
					t.Errorf("seed %d: pod %s (%v) has a place in pool %s (%s): compiled %t, plainly %t", seed, g.pods[0].Name, g.pods[0].Terms, p.Name, p.Requirements, some[false], some[true])
				}
			}
		}
	}
	if agreed[true] < 500 || agreed[false] < 500 {
		t.Errorf("the draws say little: %v", agreed)
	}
}
