package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

func prefers(weight int32, reqs ...require.Requirement) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Preferred = append(p.Preferred, model.Preference{Weight: weight, Set: require.NewSet(reqs...)})
		slices.SortStableFunc(p.Preferred, func(a, b model.Preference) int { return int(b.Weight - a.Weight) })
	}
}

func soft(p *model.Pod) *model.Soft {
	if p.Soft == nil {
		p.Soft = &model.Soft{}
	}
	return p.Soft
}

func softNear(key string, s model.Selector) func(*model.Pod) {
	return func(p *model.Pod) {
		soft(p).Affinity = append(soft(p).Affinity, model.WeightedTerm{Weight: 1, PodTerm: model.PodTerm{Key: key, Selector: s}})
	}
}

func softAway(key string, s model.Selector) func(*model.Pod) {
	return func(p *model.Pod) {
		soft(p).AntiAffinity = append(soft(p).AntiAffinity, model.WeightedTerm{Weight: 1, PodTerm: model.PodTerm{Key: key, Selector: s}})
	}
}

func softSpread(key string, skew int64, s model.Selector) func(*model.Pod) {
	return func(p *model.Pod) {
		soft(p).Spreads = append(soft(p).Spreads, model.Spread{Key: key, MaxSkew: skew, Selector: s, HonorAffinity: true})
	}
}

func softly(p *model.Pool) *model.Pool {
	p.Taints = append(p.Taints, model.Taint{Key: "dedicated", Value: "x", Effect: model.PreferNoSchedule})
	return p
}

func hardly(p *model.Pool) *model.Pool {
	p.Taints = append(p.Taints, model.Taint{Key: "only", Value: "broken", Effect: model.NoSchedule})
	return p
}

func atMost(p *model.Pool, nodes int64) *model.Pool {
	p.Limits.Nodes = &nodes
	return p
}

const (
	zoneA, zoneB, zoneC = "us-east-1a", "us-east-1b", "us-east-1c"
)

// in is a node of a zone with a pod of an application on it and no room.
func in(zone, name string) *model.Node {
	return mt.Node("node-"+zone+"-"+name, 100, 100, map[string]string{model.LabelZone: zone},
		mt.Running(mt.Pod("running-"+zone+"-"+name, 100, 100, is(name))))
}

// where tells for each node that pods were placed on how many: pool and zone of new
// ones, the name of existing ones.
func where(r *engine.Result) []string {
	var out []string
	for _, pl := range r.Placements {
		out = append(out, fmt.Sprintf("%s: %d", pl.Node.ID(), len(pl.Pods)))
	}
	for _, n := range r.New {
		out = append(out, fmt.Sprintf("%s %s: %d", n.Pool.Name, strings.TrimPrefix(n.Offering.Zone, "us-east-1"), len(n.Pods)))
	}
	slices.Sort(out)
	return out
}

// dropped is the preferences that some pods gave up, without repetition.
func dropped(r *engine.Result) []string {
	set := map[string]bool{}
	for _, x := range r.Relaxed {
		for _, d := range x.Dropped {
			set[d] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// TestRelaxation goes through the steps in the order in which preferences are given up.
func TestRelaxation(t *testing.T) {
	t.Parallel()
	zone := func(v ...string) require.Requirement { return mt.Zones(v...) }
	named := func(name string, weight int32, reqs ...require.Requirement) *model.Pool {
		p := mt.Pool(name, append(reqs, mt.Types("m5.xlarge"), mt.CapacityType(model.OnDemand))...)
		p.Weight = weight
		return p
	}
	pool := func(reqs ...require.Requirement) *model.Pool { return named("p", 0, reqs...) }
	web, db := app("web"), app("db")
	const host = model.LabelHostname
	for _, c := range []struct {
		name    string
		pods    []*model.Pod
		pools   []*model.Pool
		nodes   []*model.Node
		want    []string
		dropped []string
		ignore  []string // under Ignore; nil = as under Respect
		offered func(*model.Offering) bool
	}{
		{name: "a preferred zone", pods: mt.Pods(2, "web", 1000, 0, prefers(1, zone(zoneC))), pools: []*model.Pool{pool()},
			want: []string{"p c: 2"}, ignore: []string{"p a: 2"}},
		{name: "the heaviest first", pods: mt.Pods(2, "web", 1000, 0, prefers(1, zone(zoneC)), prefers(9, zone(zoneB))), pools: []*model.Pool{pool()},
			want: []string{"p b: 2"}, ignore: []string{"p a: 2"}},
		{name: "the next one where the heaviest has no offering", pods: mt.Pods(2, "web", 1000, 0, prefers(1, zone(zoneC)), prefers(9, zone(zoneB))), pools: []*model.Pool{pool()},
			offered: func(o *model.Offering) bool { return o.Zone != zoneB },
			want:    []string{"p c: 2"}, ignore: []string{"p a: 2"},
			dropped: []string{"preferred node affinity topology.kubernetes.io/zone In [us-east-1b] (weight 9), which nothing could keep"}},
		{name: "B017 unsatisfiable preferred affinity must not hide the pod", pods: slices.Concat(mt.Pods(1, "p1", 2000, 0), mt.Pods(1, "p2", 1000, 0, prefers(1, zone("nowhere")))),
			pools: []*model.Pool{pool()}, want: []string{"p a: 2"},
			dropped: []string{"preferred node affinity topology.kubernetes.io/zone In [nowhere] (weight 1), which nothing could keep"}},
		{name: "every required term is tried before a preference goes", pods: mt.Pods(1, "web", 1000, 0, mt.Requires(zone(zoneA)), mt.Requires(zone(zoneB)), prefers(1, zone(zoneB))),
			pools: []*model.Pool{pool()}, want: []string{"p b: 1"}, ignore: []string{"p a: 1"}},
		{name: "a pool of less weight that keeps a preference comes before one that does not", pods: mt.Pods(1, "web", 1000, 0, prefers(1, own("disk", require.In, "fast"))),
			pools: []*model.Pool{named("heavy", 10), named("light", 0, own("disk", require.In, "fast"))},
			want:  []string{"light a: 1"}, ignore: []string{"heavy a: 1"}},
		{name: "a new node rather than a preference broken", pods: mt.Pods(1, "web", 1000, 0, prefers(1, zone(zoneB))), pools: []*model.Pool{pool()},
			nodes: []*model.Node{mt.Node("n", 8000, 8000, map[string]string{model.LabelZone: zoneA})}, want: []string{"p b: 1"}, ignore: []string{"n: 1"}},
		{name: "an existing node rather than a limit exceeded", pods: mt.Pods(1, "web", 1000, 0, prefers(1, zone(zoneB))), pools: []*model.Pool{atMost(pool(), 0)},
			nodes: []*model.Node{mt.Node("n", 8000, 8000, map[string]string{model.LabelZone: zoneA})}, want: []string{"n: 1"},
			dropped: []string{"preferred node affinity topology.kubernetes.io/zone In [us-east-1b] (weight 1), which nothing could keep"}},

		{name: "pod affinity", pods: mt.Pods(1, "web", 1000, 0, softNear(model.LabelZone, db)), pools: []*model.Pool{pool()}, nodes: []*model.Node{in(zoneB, "db")},
			want: []string{"p b: 1"}, ignore: []string{"p a: 1"}},
		{name: "pod affinity to nobody", pods: mt.Pods(1, "web", 1000, 0, softNear(model.LabelZone, db)), pools: []*model.Pool{pool()},
			want: []string{"p a: 1"}, dropped: []string{"preferred pod affinity over topology.kubernetes.io/zone (weight 1), which nothing could keep"}},
		{name: "pod affinity goes before node affinity", pods: mt.Pods(1, "web", 1000, 0, softNear(model.LabelZone, db), prefers(1, zone(zoneC))), pools: []*model.Pool{pool()},
			nodes: []*model.Node{in(zoneB, "db")}, want: []string{"p c: 1"}, dropped: []string{"preferred pod affinity over topology.kubernetes.io/zone (weight 1)"}, ignore: []string{"p a: 1"}},
		{name: "pod affinity goes before pod anti-affinity", pods: mt.Pods(1, "web", 1000, 0, is("web"), softNear(model.LabelZone, db), softAway(model.LabelZone, app("cache"))), pools: []*model.Pool{pool(zone(zoneA, zoneB))},
			nodes: []*model.Node{in(zoneA, "db"), in(zoneA, "cache")}, want: []string{"p b: 1"}, dropped: []string{"preferred pod affinity over topology.kubernetes.io/zone (weight 1)"}, ignore: []string{"p a: 1"}},
		{name: "pod anti-affinity", pods: mt.Pods(1, "web", 1000, 0, softAway(model.LabelZone, db)), pools: []*model.Pool{pool(zone(zoneA, zoneB))}, nodes: []*model.Node{in(zoneA, "db")},
			want: []string{"p b: 1"}, ignore: []string{"p a: 1"}},
		{name: "pod anti-affinity goes before node affinity", pods: mt.Pods(1, "web", 1000, 0, softAway(model.LabelZone, db), prefers(1, zone(zoneB))), pools: []*model.Pool{pool()},
			nodes: []*model.Node{in(zoneB, "db")}, want: []string{"p b: 1"}, dropped: []string{"preferred pod anti-affinity over topology.kubernetes.io/zone (weight 1)"}, ignore: []string{"p a: 1"}},
		{name: "node affinity goes before a spread", pods: mt.Pods(1, "web", 1000, 0, is("web"), prefers(1, zone(zoneA)), softSpread(model.LabelZone, 1, web)), pools: []*model.Pool{pool(zone(zoneA, zoneB))},
			nodes: []*model.Node{in(zoneA, "web")}, want: []string{"p b: 1"}, ignore: []string{"p a: 1"},
			dropped: []string{"preferred node affinity topology.kubernetes.io/zone In [us-east-1a] (weight 1)"}},
		{name: "a spread goes before soft taints", pods: mt.Pods(1, "web", 1000, 0, is("web"), softSpread(model.LabelZone, 1, web)), nodes: []*model.Node{in(zoneA, "web"), in(zoneB, "db")},
			pools: []*model.Pool{named("a", 0, zone(zoneA)), softly(named("b", 9, zone(zoneB)))},
			want:  []string{"a a: 1"}, dropped: []string{"ScheduleAnyway spread over topology.kubernetes.io/zone"}},
		{name: "soft taints of a pool", pods: mt.Pods(1, "web", 1000, 0), pools: []*model.Pool{softly(named("soft", 9)), pool()},
			want: []string{"p a: 1"}},
		{name: "soft taints where nothing else is left", pods: mt.Pods(1, "web", 1000, 0), pools: []*model.Pool{softly(pool())},
			want: []string{"p a: 1"}, dropped: []string{"taint dedicated=x:PreferNoSchedule, which nothing could keep"}},
		{name: "soft taints that are tolerated", pods: mt.Pods(1, "web", 1000, 0, mt.Tolerates(model.Toleration{Key: "dedicated", Operator: "Exists", Effect: model.PreferNoSchedule})),
			pools: []*model.Pool{softly(named("soft", 9)), pool()}, want: []string{"soft a: 1"}},
		{name: "soft taints of a node", pods: mt.Pods(1, "web", 1000, 0), pools: []*model.Pool{pool()},
			nodes: []*model.Node{mt.Node("n", 8000, 8000, nil, func(n *model.Node) {
				n.Taints = []model.Taint{{Key: "going", Effect: model.PreferNoSchedule}}
			})}, want: []string{"p a: 1"}},
		{name: "soft taints of the only node", pods: mt.Pods(1, "web", 1000, 0), nodes: []*model.Node{mt.Node("n", 8000, 8000, nil, func(n *model.Node) {
			n.Taints = []model.Taint{{Key: "going", Effect: model.PreferNoSchedule}}
		})}, want: []string{"n: 1"}, dropped: []string{"taint going:PreferNoSchedule, which nothing could keep"}},

		{name: "a node for each replica", pods: mt.Pods(3, "web", 100, 0, is("web"), softAway(host, web)), pools: []*model.Pool{pool()},
			want: []string{"p a: 1", "p a: 1", "p a: 1"}, ignore: []string{"p a: 3"}},
		{name: "a node for each replica up to the limit", pods: mt.Pods(4, "web", 100, 0, is("web"), softAway(host, web)), pools: []*model.Pool{atMost(pool(), 2)},
			want: []string{"p a: 1", "p a: 3"}, dropped: []string{"preferred pod anti-affinity over kubernetes.io/hostname (weight 1)"}, ignore: []string{"p a: 4"}},
		{name: "a spread over nodes", pods: mt.Pods(4, "web", 100, 0, is("web"), softSpread(host, 2, web)), pools: []*model.Pool{pool()},
			want: []string{"p a: 2", "p a: 2"}, ignore: []string{"p a: 4"}},
		{name: "a spread over zones", pods: mt.Pods(6, "web", 100, 0, is("web"), softSpread(model.LabelZone, 1, web)), pools: []*model.Pool{pool(zone(zoneA, zoneB, zoneC))},
			want: []string{"p a: 2", "p b: 2", "p c: 2"}, ignore: []string{"p a: 6"}},
		{name: "B011 a soft spread is not dropped for a zone that cannot be bought", pods: mt.Pods(6, "web", 100, 0, is("web"), softSpread(model.LabelZone, 1, web)),
			pools: []*model.Pool{named("good", 0, zone(zoneA, zoneB)), hardly(named("broken", 0, zone(zoneC)))},
			want:  []string{"good a: 3", "good b: 3"}, ignore: []string{"good a: 6"}},
		{name: "a spread over what nobody has", pods: mt.Pods(2, "web", 100, 0, is("web"), prefers(1, zone(zoneB)), softSpread("rack", 1, web)), pools: []*model.Pool{pool()},
			want: []string{"p b: 2"}, ignore: []string{"p a: 2"}, dropped: []string{"ScheduleAnyway spread over rack, which nothing could keep"}},
		{name: "more replicas than zones to be apart in", pods: mt.Pods(5, "web", 100, 0, is("web"), softAway(model.LabelZone, web)), pools: []*model.Pool{pool(zone(zoneA, zoneB, zoneC))},
			want: []string{"p a: 3", "p b: 1", "p c: 1"}, ignore: []string{"p a: 5"}, dropped: []string{"preferred pod anti-affinity over topology.kubernetes.io/zone (weight 1)"}},
		{name: "together as long as a machine holds them", pods: mt.Pods(4, "web", 1500, 0, is("web"), softNear(host, web)), pools: []*model.Pool{pool()},
			want: []string{"p a: 2", "p a: 2"}, dropped: []string{"preferred pod affinity over kubernetes.io/hostname (weight 1)"}},
		{name: "others are kept apart, too, as long as that costs nobody a place", pods: slices.Concat(mt.Pods(1, "web", 100, 0, is("web"), softAway(host, db)), mt.Pods(1, "db", 200, 0, is("db"))),
			pools: []*model.Pool{pool()}, want: []string{"p a: 1", "p a: 1"}, ignore: []string{"p a: 2"}},
		{name: "others get their place", pods: slices.Concat(mt.Pods(1, "web", 100, 0, is("web"), softAway(host, db)), mt.Pods(1, "db", 200, 0, is("db"))),
			pools: []*model.Pool{atMost(pool(), 1)}, want: []string{"p a: 2"}, dropped: []string{"preferred pod anti-affinity over kubernetes.io/hostname (weight 1)"}},
		{name: "limits are for pods first", pods: slices.Concat(mt.Pods(2, "web", 100, 0, is("web"), softAway(host, web)), mt.Pods(1, "big", 3900, 0)),
			pools: []*model.Pool{atMost(pool(), 2)}, want: []string{"p a: 1", "p a: 2"}, dropped: []string{"preferred pod anti-affinity over kubernetes.io/hostname (weight 1)"}},
		{name: "the hard spread counts by what is required", pods: mt.Pods(4, "web", 100, 0, is("web"), spread(model.LabelZone, 1, web), prefers(1, zone(zoneA))), pools: []*model.Pool{pool(zone(zoneA, zoneB))},
			want: []string{"p a: 2", "p b: 2"}, dropped: []string{"preferred node affinity topology.kubernetes.io/zone In [us-east-1a] (weight 1)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(c.pods, c.pools...)
			w.Nodes = c.nodes
			if c.offered != nil {
				w.Offerings[mt.Class] = slices.DeleteFunc(w.Offerings[mt.Class], func(o *model.Offering) bool { return !c.offered(o) })
			}
			r := place(t, w, nil)
			if d := cmp.Diff(c.want, where(r)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.dropped, dropped(r)); d != "" {
				t.Error(d)
			}
			if c.ignore == nil {
				c.ignore = c.want
			}
			w.Settings.IgnorePreferences = true
			if d := cmp.Diff(c.ignore, where(place(t, w, nil))); d != "" {
				t.Errorf("under Ignore: %s", d)
			}
		})
	}
}
