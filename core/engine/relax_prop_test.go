package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// choosyWorld draws a cluster whose pods prefer many things, with soft taints.
func choosyWorld(seed uint64) *model.World {
	d := seeded(seed)
	w := proofWorld(d)
	w.Settings.IgnorePreferences = false
	for _, p := range w.Pools {
		if d.in(5) {
			p.Taints = []model.Taint{{Key: "soft", Value: one(d, "x", "y"), Effect: model.PreferNoSchedule}}
		}
	}
	for _, n := range w.Nodes {
		if d.in(6) {
			n.Taints = append(n.Taints, model.Taint{Key: "soft", Value: "x", Effect: model.PreferNoSchedule})
		}
	}
	for i := 0; i < len(w.Pods); {
		change := choosy(d)
		name := w.Pods[i].Name[:2]
		for ; i < len(w.Pods) && w.Pods[i].Name[:2] == name; i++ {
			change(w.Pods[i])
		}
	}
	return w
}

func choosy(d dice) func(*model.Pod) {
	var opts []func(*model.Pod)
	for range d.n(4) {
		key, other := one(d, model.LabelZone, model.LabelHostname, "rack"), app(one(d, proofApps...))
		switch d.n(6) {
		case 0:
			opts = append(opts, softNear(key, other))
		case 1:
			opts = append(opts, softAway(key, other))
		case 2:
			opts = append(opts, softSpread(key, int64(1+d.n(2)), other))
		case 3, 4:
			opts = append(opts, prefers(int32(1+d.n(100)), one(d, mt.Zones(one(d, proofZones...)), mt.CapacityType(model.Spot), mt.Zones("nowhere"),
				require.Must("team", require.In, "red"), require.Must(family, require.NotIn, "m"))))
		case 5:
			opts = append(opts, mt.Tolerates(model.Toleration{Key: "soft", Value: "x", Effect: model.PreferNoSchedule}))
		}
	}
	return func(p *model.Pod) {
		p.Preferred, p.Soft = nil, nil
		for _, o := range opts {
			o(p)
		}
	}
}

func unplaced(r *engine.Result) map[*model.Pod]bool {
	out := map[*model.Pod]bool{}
	for _, v := range r.Unplaced {
		out[v.Pod] = true
	}
	return out
}

const choosySeeds = 120

// No preference costs a pod its place, and plans with preferences keep all the rules.
func TestRespectPlacesWhateverIgnorePlaces(t *testing.T) {
	t.Parallel()
	for seed := range uint64(choosySeeds) {
		w := choosyWorld(seed)
		r := engine.Place(w, nil)
		sound(t, w, nil, r)
		left := unplaced(r)
		w.Settings.IgnorePreferences = true
		ref := engine.Place(w, nil)
		sound(t, w, nil, ref)
		there := unplaced(ref)
		for _, p := range w.Pods {
			if left[p] && !there[p] {
				t.Errorf("seed %d: %s has a place under Ignore and none under Respect", seed, p.Name)
			}
		}
	}
}

// Under Ignore the plan is the one that pods without preferences get.
func TestIgnoreIsAsIfNothingWerePreferred(t *testing.T) {
	t.Parallel()
	for seed := range uint64(choosySeeds) {
		w := choosyWorld(seed)
		w.Settings.IgnorePreferences = true
		got := written(engine.Place(w, nil))
		w = choosyWorld(seed)
		for _, p := range w.Pods {
			p.Preferred, p.Soft = nil, nil
		}
		if d := cmp.Diff(written(engine.Place(w, nil)), got); d != "" {
			t.Errorf("seed %d: %s", seed, d)
		}
	}
}

// A plan that gave nothing up is legal also where all that is preferred is required.
func TestWhatIsNotGivenUpIsKept(t *testing.T) {
	t.Parallel()
	all := 0
	for seed := range uint64(choosySeeds) {
		w := choosyWorld(seed)
		r := engine.Place(w, nil)
		if len(r.Relaxed)+len(r.Notes) > 0 {
			continue
		}
		for _, p := range w.Pods {
			if len(p.Preferred) == 0 && p.Soft.None() {
				continue
			}
			all++
			hard := model.Topology{}
			if p.Topology != nil {
				hard = *p.Topology
			}
			if len(p.Preferred) > 0 {
				want := p.Preferred[0].Set
				if len(hard.VolumeTerms) == 0 {
					hard.VolumeTerms = []require.Set{{}}
				}
				terms := hard.VolumeTerms
				hard.VolumeTerms = nil
				for _, v := range terms {
					hard.VolumeTerms = append(hard.VolumeTerms, v.And(want))
				}
			}
			if p.Soft != nil {
				hard.Spreads = slices.Concat(hard.Spreads, p.Soft.Spreads)
				for _, x := range p.Soft.Affinity {
					hard.Affinity = append(slices.Clip(hard.Affinity), x.PodTerm)
				}
				for _, x := range p.Soft.AntiAffinity {
					hard.AntiAffinity = append(slices.Clip(hard.AntiAffinity), x.PodTerm)
				}
			}
			p.Topology, p.Preferred, p.Soft = &hard, nil, nil
		}
		for _, err := range engine.Check(w, &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}) {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if all < 100 {
		t.Errorf("only %d pods that prefer something got all of it: the property says little", all)
	}
}

// What a placed pod did not give up is true of its place, whatever others gave up.
func TestEachPreferenceIsKeptOrGivenUp(t *testing.T) {
	t.Parallel()
	kept, gone := 0, 0
	for seed := range uint64(choosySeeds) {
		w := choosyWorld(seed)
		r := engine.Place(w, nil)
		dropped := map[*model.Pod]string{}
		for _, x := range r.Relaxed {
			dropped[x.Pod] = strings.Join(x.Dropped, "\n")
			gone++
		}
		at := homes(w, r)
		for _, p := range w.Pods {
			h, placed := at[p]
			if !placed {
				continue
			}
			for _, pref := range p.Preferred {
				if strings.Contains(dropped[p], "node affinity "+pref.Set.String()) {
					continue
				}
				if c := pref.Set.LabelsSatisfy(h.labels); c != nil {
					t.Errorf("seed %d: %s on %s: %s", seed, p.Name, h.name, c)
				}
				kept++
				break // only the heaviest that is left is asked for
			}
			if p.Soft == nil {
				continue
			}
			for _, x := range p.Soft.AntiAffinity {
				if strings.Contains(dropped[p], "anti-affinity over "+x.Key) {
					continue
				}
				kept++
				for q, o := range at {
					if q != p && x.Selector.Picks(q) && o.value(x.Key) != "" && o.value(x.Key) == h.value(x.Key) &&
						!strings.Contains(dropped[q], "anti-affinity over "+x.Key) && !strings.Contains(dropped[q], "distance from") {
						t.Errorf("seed %d: %s shares %s %s with %s", seed, p.Name, x.Key, h.value(x.Key), q.Name)
					}
				}
			}
			for _, x := range p.Soft.Affinity {
				if strings.Contains(dropped[p], "pod affinity over "+x.Key) {
					continue
				}
				kept++
				near, some := false, false
				for q, o := range at {
					if q != p && x.Selector.Picks(q) {
						some = some || o.value(x.Key) != ""
						near = near || o.value(x.Key) != "" && o.value(x.Key) == h.value(x.Key)
					}
				}
				if !near && (some || !x.Selector.Picks(p)) {
					t.Errorf("seed %d: %s is near nobody in %s %s", seed, p.Name, x.Key, h.value(x.Key))
				}
			}
		}
	}
	if kept < 200 || gone < 50 {
		t.Errorf("%d kept, %d pods that gave something up: the property says little", kept, gone)
	}
}

// address is where a pod is, or will be.
type address struct {
	name   string
	labels map[string]string
}

func (a address) value(key string) string {
	if key == model.LabelHostname {
		return a.name
	}
	return a.labels[key]
}

// homes is where running and placed pods are.
func homes(w *model.World, r *engine.Result) map[*model.Pod]address {
	out := map[*model.Pod]address{}
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			out[p] = address{n.ID(), n.Labels}
		}
	}
	for _, pl := range r.Placements {
		for _, p := range pl.Pods {
			out[p] = address{pl.Node.ID(), pl.Node.Labels}
		}
	}
	for _, n := range r.New {
		for _, p := range n.Pods {
			out[p] = address{"new " + n.Name, n.Labels}
		}
	}
	return out
}
