package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

func priority(n int32) func(*model.Pod) {
	return func(p *model.Pod) { p.Priority = n }
}

func nodesLimit(p *model.Pool, n int64) *model.Pool {
	p.Limits.Nodes = &n
	return p
}

func cpuLimit(p *model.Pool, milli int64) *model.Pool {
	p.Limits.Resources = map[string]int64{"cpu": milli}
	return p
}

// placed is the names of the pods that have a place.
func placed(r *engine.Result) []string {
	out := []string{}
	add := func(pods []*model.Pod) {
		for _, p := range pods {
			out = append(out, p.Name)
		}
	}
	for _, pl := range r.Placements {
		add(pl.Pods)
	}
	for _, n := range r.New {
		add(n.Pods)
	}
	slices.Sort(out)
	return out
}

// TestPriorityDecidesWhatIsScarce: where room or limits end, pods of higher priority
// have the places, whatever their sizes are and in whatever order they come.
func TestPriorityDecidesWhatIsScarce(t *testing.T) {
	t.Parallel()
	large := func() *model.Pool { return mt.Pool("p", mt.Types("m5.xlarge"), mt.CapacityType(model.OnDemand)) }
	anti := func(app string) func(*model.Pod) {
		return func(p *model.Pod) {
			p.Labels = map[string]string{"app": app}
			p.Topology = &model.Topology{AntiAffinity: []model.PodTerm{{Key: model.LabelZone, Selector: model.Selector{ID: "default/app=" + app,
				Matches: func(o *model.Pod) bool { return o.Labels["app"] == app }}}}}
		}
	}
	for _, c := range []struct {
		name  string
		pods  []*model.Pod
		pools []*model.Pool
		nodes []*model.Node
		want  []string
	}{
		{name: "an existing node goes to the small pod of high priority, not to the large one",
			pods:  []*model.Pod{mt.Pod("large", 1500, 0), mt.Pod("small", 1000, 0, priority(100))},
			nodes: []*model.Node{mt.Node("n", 2000, 4096, nil)}, want: []string{"small"}},
		{name: "equal pods share a node by priority, then by name",
			pods:  []*model.Pod{mt.Pod("a", 1000, 0), mt.Pod("b", 1000, 0, priority(5)), mt.Pod("c", 1000, 0, priority(-5)), mt.Pod("d", 1000, 0)},
			nodes: []*model.Node{mt.Node("n", 2000, 4096, nil)}, want: []string{"a", "b"}},
		{name: "the last node of a limit",
			pods:  []*model.Pod{mt.Pod("large", 3000, 0), mt.Pod("small", 1000, 0, priority(100))},
			pools: []*model.Pool{nodesLimit(large(), 1)}, want: []string{"small"}},
		{name: "a limit of CPU, and what is left beside the important pods",
			pods: slices.Concat(mt.Pods(4, "batch", 2500, 0), mt.Pods(4, "web", 1200, 0, priority(1000)), mt.Pods(2, "spare", 300, 0)),
			// two machines of 3,920m: three web pods fit one; the fourth takes the other, beside one of batch
			pools: []*model.Pool{cpuLimit(large(), 8000)}, want: []string{"batch-0", "spare-0", "web-0", "web-1", "web-2", "web-3"}},
		{name: "one that has no place anyhow keeps nothing from the others",
			pods:  []*model.Pod{mt.Pod("huge", 300_000, 0, priority(100)), mt.Pod("low", 3000, 0)},
			pools: []*model.Pool{nodesLimit(large(), 1)}, nodes: []*model.Node{mt.Node("n", 500, 1024, nil)}, want: []string{"low"}},
		{name: "one that prefers what is not to be had, before one that prefers nothing",
			pods: []*model.Pod{mt.Pod("large", 3000, 0), mt.Pod("small", 1000, 0, priority(100), func(p *model.Pod) {
				p.Preferred = []model.Preference{{Weight: 1, Set: require.NewSet(mt.Zones("us-east-1z"))}}
			})},
			pools: []*model.Pool{nodesLimit(large(), 1)}, want: []string{"small"}},
		{name: "a zone that only one may have",
			pods:  []*model.Pod{mt.Pod("a-low", 3000, 0, anti("x")), mt.Pod("z-high", 1000, 0, anti("x"), priority(7))},
			pools: []*model.Pool{mt.Pool("p", mt.Types("m5.xlarge"), mt.Zones("us-east-1a"), mt.CapacityType(model.OnDemand))}, want: []string{"z-high"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, reversed := range []bool{false, true} {
				w := world(slices.Clone(c.pods), c.pools...)
				w.Nodes = c.nodes
				if reversed {
					slices.Reverse(w.Pods)
				}
				if diff := cmp.Diff(c.want, placed(place(t, w, nil))); diff != "" {
					t.Errorf("reversed %v, placed (-want +got):\n%s", reversed, diff)
				}
			}
		})
	}
}

// few is the offerings of some types, made once: properties look at many worlds.
var few = sync.OnceValue(func() map[string][]*model.Offering {
	all := catalogue.Embedded().Offerings(&model.NodeClass{Name: mt.Class, Family: "AL2023"}, nil, catalogue.Options{})
	return map[string][]*model.Offering{mt.Class: slices.DeleteFunc(all, func(o *model.Offering) bool {
		return !slices.Contains([]string{"m5.large", "m5.xlarge", "m5.2xlarge", "c5.2xlarge", "r5.large", "r5.xlarge", "m5.8xlarge"}, o.Type.Name)
	})}
})

func fewTypes(pods []*model.Pod, nodes []*model.Node, pool *model.Pool) *model.World {
	return &model.World{Now: mt.Now, Pods: pods, Nodes: nodes, Pools: []*model.Pool{pool}, Offerings: few()}
}

// TestPriorityIsFreeWhereNothingIsScarce: without limits every pod has a place, and
// the price is the same as if all had one priority.
func TestPriorityIsFreeWhereNothingIsScarce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var plain, ranked []*model.Pod
		for i := range rapid.IntRange(1, 12).Draw(rt, "pods") {
			cpu, mem := int64(rapid.IntRange(1, 30).Draw(rt, "cpu"))*250, int64(rapid.IntRange(1, 40).Draw(rt, "memory"))*256
			p := int32(rapid.IntRange(0, 3).Draw(rt, "priority"))
			plain = append(plain, mt.Pod(fmt.Sprintf("p%d", i), cpu, mem))
			ranked = append(ranked, mt.Pod(fmt.Sprintf("p%d", i), cpu, mem, priority(p)))
		}
		nodes := []*model.Node{mt.Node("n", 4000, 8192, nil)}
		x, y := engine.Place(fewTypes(plain, nodes, mt.Pool("p")), nil), engine.Place(fewTypes(ranked, nodes, mt.Pool("p")), nil)
		if len(x.Unplaced)+len(y.Unplaced) > 0 {
			rt.Fatalf("%d and %d unplaced", len(x.Unplaced), len(y.Unplaced))
		}
		if total(x) != total(y) {
			rt.Fatalf("%v USD/h without priorities, %v with", total(x), total(y))
		}
	})
}

// TestLowerPriorityTakesNothingAway: whatever is scarce, pods of lower priority do not
// change how many of the higher ones have a place.
func TestLowerPriorityTakesNothingAway(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var pods []*model.Pod
		for i := range rapid.IntRange(2, 14).Draw(rt, "pods") {
			pods = append(pods, mt.Pod(fmt.Sprintf("p%d", i), int64(rapid.IntRange(1, 16).Draw(rt, "cpu"))*250, int64(rapid.IntRange(0, 24).Draw(rt, "memory"))*512,
				priority(int32(rapid.IntRange(0, 3).Draw(rt, "priority")))))
		}
		pool := cpuLimit(mt.Pool("p"), int64(rapid.IntRange(0, 16).Draw(rt, "limit"))*1000)
		if rapid.Bool().Draw(rt, "nodes limit") {
			nodesLimit(pool, int64(rapid.IntRange(0, 3).Draw(rt, "nodes")))
		}
		nodes := []*model.Node{mt.Node("n", 3000, 8192, nil)}
		byPriority := func(r *engine.Result) (n [4]int) {
			for _, v := range r.Unplaced {
				n[v.Pod.Priority]++
			}
			return n
		}
		all := fewTypes(pods, nodes, pool)
		r := engine.Place(all, nil)
		if bad := engine.Check(all, &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}); len(bad) > 0 {
			rt.Fatal(bad)
		}
		have := byPriority(r)
		for level := 1; level <= 3; level++ {
			only := slices.DeleteFunc(slices.Clone(pods), func(p *model.Pod) bool { return int(p.Priority) < level })
			want := byPriority(engine.Place(fewTypes(only, nodes, pool), nil))
			// what is left out above the level is not its fault
			if slices.Equal(have[level+1:], want[level+1:]) && have[level] > want[level] {
				rt.Fatalf("%d pods of priority %d are left out, %d where nothing below waits", have[level], level, want[level])
			}
		}
	})
}

// TestReservedForThePriority: the last instance of a reservation is the more important pod's.
func TestReservedForThePriority(t *testing.T) {
	t.Parallel()
	table, err := catalogue.Load(strings.NewReader(`[{"name": "m5.xlarge", "vcpu": 4, "memoryMiB": 16384, "allocatable": {"pods": "58"},
		"offerings": [{"zone": "us-east-1a", "capacityType": "reserved", "usdPerHour": 0.01, "reservationId": "cr-1", "count": 1}]}]`), "reserved")
	if err != nil {
		t.Fatal(err)
	}
	w := world([]*model.Pod{mt.Pod("a-large", 3500, 0), mt.Pod("z-small", 1000, 0, priority(9))}, mt.Pool("p"))
	w.Settings.ReservedCapacity = true
	w.Offerings[mt.Class] = table.Offerings(w.NodeClasses[mt.Class], []string{"us-east-1a"}, catalogue.Options{})
	r := place(t, w, nil)
	if d := cmp.Diff([]string{"z-small"}, placed(r)); d != "" {
		t.Errorf("placed (-want +got):\n%s%+v", d, r.Unplaced)
	}
	for _, v := range r.Unplaced {
		if len(v.Reasons) != 1 || v.Reasons[0].Pool != "p" {
			t.Errorf("%s: %+v, want a reason of pool p", v.Pod.Name, v.Reasons)
		}
	}
}

// TestNominated (B020): a pod that preempts others on a node has its place, and those
// that it drove out are not planned back onto it.
func TestNominated(t *testing.T) {
	t.Parallel()
	high := mt.Pod("high", 3000, 0, priority(1000), func(p *model.Pod) { p.NominatedNode = "n1" })
	w := world([]*model.Pod{mt.Pod("low", 3000, 0, priority(-10))}, mt.Pool("p", mt.Types("m5.xlarge"), mt.CapacityType(model.OnDemand)))
	w.Nodes = []*model.Node{mt.Node("n1", 4000, 16384, nil, func(n *model.Node) { n.Preempting = []*model.Pod{high} })}
	r := place(t, w, nil)
	if len(r.Placements) != 0 || len(r.New) != 1 || len(r.New[0].Pods) != 1 {
		t.Errorf("placements %v, %d new nodes; want one node for the pod that was driven out", r.Placements, len(r.New))
	}
	bad := &model.Plan{Placements: []model.Placement{{Node: w.Nodes[0], Pods: w.Pods}}}
	if errs := engine.Check(w, bad); len(errs) == 0 {
		t.Error("Check lets others take the room of a nominated pod")
	}
}
