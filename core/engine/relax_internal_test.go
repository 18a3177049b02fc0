package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
)

// Worlds in which nobody prefers anything pay nothing for preferences.
func TestNoPreferencesCostNothing(t *testing.T) {
	hard := model.Taint{Key: "dedicated", Effect: model.NoSchedule}
	pool := mt.Pool("p", mt.Types("m5.large"))
	pool.Taints = []model.Taint{hard}
	w := &model.World{Pools: []*model.Pool{pool}, Pods: mt.Pods(100, "p", 100, 100), Nodes: []*model.Node{mt.Node("n", 1000, 1000, nil, mt.Managed("p"))}}
	w.Pods = append(w.Pods, mt.Pod("none", 1, 1, func(p *model.Pod) { p.Soft = &model.Soft{} }))
	var r *relaxer
	if n := testing.AllocsPerRun(10, func() { r = newRelaxer(w, nil, w.Pods) }); n > 0 || r != nil {
		t.Errorf("%v allocations, %v", n, r)
	}
	w.Pods[0].Preferred = []model.Preference{{Weight: 1}}
	if r = newRelaxer(w, nil, w.Pods); r == nil {
		t.Error("a preferred term is looked at")
	}
	w.Settings.IgnorePreferences = true
	if r = newRelaxer(w, nil, w.Pods); r != nil {
		t.Error("a preferred term is looked at under Ignore")
	}
	w.Nodes[0].Taints = []model.Taint{{Key: "soft", Effect: model.PreferNoSchedule}}
	if r = newRelaxer(w, nil, w.Pods); r == nil {
		t.Error("soft taints are looked at under Ignore")
	}
}

// Equal pods share what is made for them, and the number of passes is bounded.
func TestEqualPodsShareTheirForms(t *testing.T) {
	t.Parallel()
	var pods []*model.Pod
	for i := range 40 { // parts that are equal and not the same
		p := mt.Pod(fmt.Sprintf("p-%d", i), 100, 100)
		p.Preferred = []model.Preference{{Weight: 1, Set: mt.Pool("", mt.Zones("us-east-1a")).Requirements.Without(model.LabelPool)}}
		pods = append(pods, p)
	}
	w := &model.World{Pods: pods, Nodes: []*model.Node{mt.Node("n", 1000, 1000, map[string]string{model.LabelZone: "us-east-1a"})}}
	r := newRelaxer(w, nil, pods)
	for i := range pods {
		if r.of[i] != r.of[0] || r.pod(i).Topology != r.pod(0).Topology || r.pod(i) == pods[i] {
			t.Fatalf("pod %d has parts of its own", i)
		}
	}
	before := r.budget
	r.place()
	if used := before - r.budget; used > 4 {
		t.Errorf("%d passes for one preference", used)
	}
}

func BenchmarkPreferences(b *testing.B) {
	for _, prefer := range []bool{false, true} {
		b.Run(fmt.Sprintf("prefer=%t", prefer), func(b *testing.B) {
			var offerings []*model.Offering
			for _, size := range []int64{2, 4, 8, 16} {
				for _, z := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
					n := mt.Node("n", size*1000, size*4096, nil)
					t := &model.InstanceType{Name: fmt.Sprintf("m.%d", size), Capacity: n.Capacity, Allocatable: n.Allocatable,
						Labels: map[string]string{model.LabelInstanceType: fmt.Sprintf("m.%d", size), model.LabelArch: "amd64", model.LabelOS: "linux"}}
					offerings = append(offerings, &model.Offering{Type: t, Zone: z, CapacityType: model.OnDemand, USDPerHour: 0.05 * float64(size), Available: true})
				}
			}
			w := &model.World{Now: mt.Now, Pools: []*model.Pool{mt.Pool("p")}, NodeClasses: map[string]*model.NodeClass{mt.Class: {Name: mt.Class}},
				Offerings: map[string][]*model.Offering{mt.Class: offerings}}
			for k := range 100 {
				name := fmt.Sprintf("w%d", k)
				sel := model.Selector{ID: name, Matches: func(p *model.Pod) bool { return p.Labels["app"] == name }}
				soft := &model.Soft{AntiAffinity: []model.WeightedTerm{{Weight: 1, PodTerm: model.PodTerm{Key: model.LabelHostname, Selector: sel}}},
					Spreads: []model.Spread{{Key: model.LabelZone, MaxSkew: 1, Selector: sel, HonorAffinity: true}}}
				w.Pods = append(w.Pods, mt.Pods(100, name, int64(100+k*10), 256, mt.Labelled(map[string]string{"app": name}), func(p *model.Pod) {
					if prefer {
						p.Soft = soft
					}
				})...)
			}
			for b.Loop() {
				if r := Place(w, nil); len(r.Unplaced) > 0 {
					b.Fatal(r.Unplaced[0])
				}
			}
		})
	}
}

// When the passes are used up the plan is the one without preferences, and says so.
func TestPassesAreBounded(t *testing.T) {
	t.Parallel()
	sel := model.Selector{ID: "web", Matches: func(p *model.Pod) bool { return p.Labels["app"] == "web" }}
	w := &model.World{Now: mt.Now, Nodes: []*model.Node{mt.Node("n", 1000, 1000, map[string]string{model.LabelZone: "a"})},
		Pods: mt.Pods(3, "p", 100, 100, mt.Labelled(map[string]string{"app": "web"}), func(p *model.Pod) {
			p.Soft = &model.Soft{AntiAffinity: []model.WeightedTerm{{Weight: 7, PodTerm: model.PodTerm{Key: model.LabelHostname, Selector: sel}}}}
		})}
	r := newRelaxer(w, nil, w.Pods)
	r.budget = 1
	res := r.place()
	if len(res.Unplaced) > 0 || len(res.Notes) != 1 || len(res.Relaxed) != 3 || res.Relaxed[0].Pod != w.Pods[0] {
		t.Errorf("%d unplaced, relaxed %v, notes %q", len(res.Unplaced), res.Relaxed, res.Notes)
	}
	if want := "preferences are not looked at in this plan"; len(res.Notes) > 0 && !strings.HasPrefix(res.Notes[0], want) {
		t.Errorf("%q", res.Notes)
	}
	if res = newRelaxer(w, nil, w.Pods).place(); len(res.Unplaced) > 0 || len(res.Notes) > 0 {
		t.Errorf("with all passes: %d unplaced, notes %q", len(res.Unplaced), res.Notes)
	}
}

// A pod with a thousand preferences of each kind is planned for in a bounded number of
// passes.
func TestThousandPreferences(t *testing.T) {
	t.Parallel()
	p := mt.Pod("p", 100, 100)
	p.Soft = &model.Soft{}
	for i := range 1000 {
		app := fmt.Sprint(i)
		term := model.PodTerm{Key: model.LabelHostname, Selector: model.Selector{ID: app, Matches: func(p *model.Pod) bool { return p.Labels["app"] == app }}}
		p.Soft.Affinity = append(p.Soft.Affinity, model.WeightedTerm{Weight: 1, PodTerm: term})
		p.Soft.AntiAffinity = append(p.Soft.AntiAffinity, model.WeightedTerm{Weight: 1, PodTerm: term})
		p.Soft.Spreads = append(p.Soft.Spreads, model.Spread{Key: "rack" + app, MaxSkew: 1, Selector: term.Selector})
		p.Preferred = append(p.Preferred, model.Preference{Weight: 1, Set: mt.Pool("", mt.Zones("zone"+app)).Requirements.Without(model.LabelPool)})
	}
	n := mt.Node("n", 1000, 1000, map[string]string{model.LabelZone: "a"}, mt.Running(mt.Pod("other", 1, 1, mt.Labelled(map[string]string{"app": "7"}))))
	w := &model.World{Now: mt.Now, Nodes: []*model.Node{n}, Pods: []*model.Pod{p}}
	r := newRelaxer(w, nil, w.Pods)
	before := r.budget
	res := r.place()
	if len(res.Placements) != 1 || before-r.budget > maxPasses {
		t.Errorf("%d placements after %d passes", len(res.Placements), before-r.budget)
	}
}
