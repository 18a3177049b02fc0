package disrupt_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

func pick(app string) model.Selector {
	return model.Selector{ID: "x/app=" + app, Labels: map[string]string{"app": app}, Matches: func(p *model.Pod) bool { return p.Namespace == "x" && p.Labels["app"] == app }}
}

func app(name string, t *model.Topology) func(*model.Pod) {
	return func(p *model.Pod) { p.Labels, p.Topology = map[string]string{"app": name}, t }
}

func spread(key, name string) *model.Topology {
	return &model.Topology{Spreads: []model.Spread{{Key: key, MaxSkew: 1, Selector: pick(name), HonorAffinity: true}}}
}

func apart(key, name string) *model.Topology {
	return &model.Topology{AntiAffinity: []model.PodTerm{{Key: key, Selector: pick(name)}}}
}

func zone(z string) func(*model.Node) { return func(n *model.Node) { n.Labels[model.LabelZone] = z } }

// What pods ask of the pods around them holds after a move as before.
func TestMovesKeepWhatPodsAsk(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		world []func(*model.World)
		want  []string
		why   string // that n1 stays
	}{
		"spread within the zone": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, app("w", spread(model.LabelZone, "w")))),
			node("n2", "m5.xlarge", zone("a"), pod("q", 1950)), node("n3", "m5.large", zone("b"), pod("p2", 1900, app("w", spread(model.LabelZone, "w"))))}, want: []string{"n1"}},
		"no room in the zone": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, app("w", spread(model.LabelZone, "w")))),
			node("n3", "m5.xlarge", zone("b"), pod("p2", 1950, app("w", spread(model.LabelZone, "w"))))}, want: []string{}, why: "fits on none of"},
		"uneven already": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, app("w", spread(model.LabelZone, "w")))),
			node("n2", "m5.xlarge", zone("a"), pod("p2", 2500, app("w", spread(model.LabelZone, "w")))), node("n3", "m5.large", zone("b"), pod("q", 1900))}, want: []string{}, why: "uneven already"},
		"spread over nodes": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, app("w", spread(model.LabelHostname, "w")))),
			node("n2", "m5.xlarge", pod("q", 1950))}, want: []string{"n1"}},
		"affinity": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, app("w", &model.Topology{Affinity: []model.PodTerm{{Key: model.LabelZone, Selector: pick("q")}}}))),
			node("n2", "m5.xlarge", pod("q", 1950))}, want: []string{"n1"}},
		"affinity, no room near them": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, app("w", &model.Topology{Affinity: []model.PodTerm{{Key: model.LabelHostname, Selector: pick("q")}}})), pod("q", 100)),
			node("n2", "m5.xlarge", zone("b"), pod("o", 3900))}, want: []string{}, why: "required pod affinity"},
		"anti-affinity, one on the target": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, app("w", apart(model.LabelHostname, "w")))),
			node("n2", "m5.xlarge", pod("p2", 1950, app("w", nil)))}, want: []string{}, why: "fits on none of"},
		"anti-affinity of the target's pod": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, app("w", nil))),
			node("n2", "m5.xlarge", pod("p2", 1950, app("other", apart(model.LabelHostname, "w"))))}, want: []string{}, why: "fits on none of"},
		"anti-affinity of a pod in the target's zone": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, app("w", nil))),
			node("n2", "m5.xlarge", zone("b"), pod("q", 2500)), node("n3", "m5.large", zone("b"), pod("p2", 1900, app("other", apart(model.LabelZone, "w"))))}, want: []string{}, why: "fits on none of"},
		"anti-affinity, nobody there": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, app("w", apart(model.LabelHostname, "w")))),
			node("n2", "m5.xlarge", pod("q", 1950))}, want: []string{"n1"}},
		"anti-affinity over zones, in its zone": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, app("w", apart(model.LabelZone, "w")))),
			node("n2", "m5.xlarge", zone("a"), pod("q", 1950)), node("n3", "m5.large", zone("b"), pod("p2", 1900, app("w", apart(model.LabelZone, "w"))))}, want: []string{"n1"}},
		"anti-affinity broken already": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, app("w", apart(model.LabelZone, "w")))),
			node("n2", "m5.xlarge", zone("a"), pod("p2", 1950, app("w", nil)))}, want: []string{}, why: "would not allow again"},
		"host port taken": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, port(80))), node("n2", "m5.xlarge", pod("q", 1950, port(80)))}, want: []string{}, why: "fits on none of"},
		"host port free":  {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, port(80))), node("n2", "m5.xlarge", pod("q", 1950, port(81)))}, want: []string{"n1"}},
		"volume elsewhere": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, volume("a"))), node("n2", "m5.xlarge", zone("b"), pod("q", 1950))}, want: []string{},
			why: "no other node that stays"},
		"volume in reach": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, volume("a"))), node("n2", "m5.xlarge", zone("a"), pod("q", 1950))}, want: []string{"n1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(append(tc.world, only("n1"))...)
			p := plan(w)
			if diff := cmp.Diff(tc.want, removed(p)); diff != "" {
				t.Errorf("removed (-want +got):\n%s\n%+v", diff, p.Blocked)
			}
			if tc.why != "" && !strings.Contains(blocked(t, p, "n1").Message, tc.why) {
				t.Errorf("n1 stays because %q, want %q", blocked(t, p, "n1").Message, tc.why)
			}
			if err := runs(w, p); err != nil {
				t.Error(err)
			}
		})
	}
}

func port(n int32) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Topology = &model.Topology{HostPorts: []model.HostPort{{Protocol: "TCP", Port: n}}}
	}
}

func volume(z string) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Topology = &model.Topology{VolumeTerms: []require.Set{require.NewSet(require.Must(model.LabelZone, require.In, z))}}
	}
}

// runs has the engine's check replay the moves, wave by wave: a world without the removed
// nodes, in which the pods that move wait and are placed as planned. What earlier waves
// moved runs where they put it.
func runs(w *model.World, p *model.Plan) error {
	now := *w
	now.Nodes, now.Pods = nil, nil
	for _, n := range w.Nodes {
		c := *n
		c.Pods = slices.Clone(n.Pods)
		now.Nodes = append(now.Nodes, &c)
	}
	last := 0
	for _, c := range p.Commands {
		last = max(last, c.Wave)
	}
	for wave := 1; wave <= last; wave++ {
		if err := runWave(&now, p, wave); err != nil {
			return fmt.Errorf("wave %d: the engine's check refuses what it leaves: %w", wave, err)
		}
	}
	return nil
}

func runWave(now *model.World, p *model.Plan, wave int) error {
	gone, moved, q := map[string]bool{}, map[string][]*model.Pod{}, &model.Plan{}
	now.Pods = nil
	for _, c := range p.Commands {
		if c.Wave != wave {
			continue
		}
		for _, n := range c.Remove {
			gone[n.ID()] = true
		}
		q.Launch = append(q.Launch, c.Launch...)
		for _, m := range c.Moves {
			moved[m.To] = append(moved[m.To], m.Pod)
			now.Pods = append(now.Pods, m.Pod)
		}
	}
	now.Nodes = slices.DeleteFunc(now.Nodes, func(n *model.Node) bool { return gone[n.ID()] })
	for _, n := range now.Nodes {
		if pods := moved[n.ID()]; len(pods) > 0 {
			q.Placements = append(q.Placements, model.Placement{Node: n, Pods: pods})
			delete(moved, n.ID())
		}
	}
	for _, n := range q.Launch {
		delete(moved, n.Name)
	}
	for name := range moved {
		return fmt.Errorf("pods move to %s, which there is not", name)
	}
	if bad := engine.Check(now, q); len(bad) > 0 {
		return bad[0]
	}
	for _, pl := range q.Placements {
		pl.Node.Pods = append(pl.Node.Pods, pl.Pods...)
	}
	for _, n := range q.Launch {
		labels := maps.Clone(n.Labels)
		labels[model.LabelHostname] = n.Name
		now.Nodes = append(now.Nodes, &model.Node{Name: n.Name, Labels: labels, Taints: n.Pool.Taints, Ready: true, Pods: n.Pods, Allocatable: n.Offering.Type.Allocatable})
	}
	return nil
}

// Whatever pods ask of each other, the engine's own check finds the end state legal.
func TestEndStatesAreLegal(t *testing.T) {
	t.Parallel()
	zones := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		asks := map[string]*model.Topology{}
		for _, name := range []string{"u", "v", "w"} {
			key := rapid.SampledFrom([]string{model.LabelZone, model.LabelHostname}).Draw(t, "key")
			other := rapid.SampledFrom([]string{"u", "v", "w"}).Draw(t, "other")
			switch rapid.IntRange(0, 5).Draw(t, "asks") {
			case 0:
				asks[name] = spread(model.LabelZone, name)
			case 1:
				asks[name] = apart(key, name)
			case 2:
				asks[name] = apart(key, other)
			case 3:
				asks[name] = &model.Topology{HostPorts: []model.HostPort{{Protocol: "TCP", Port: 80}}}
			}
		}
		w := world()
		for i := range rapid.IntRange(2, 9).Draw(t, "nodes") {
			var opts []func(*model.Node)
			for j := range rapid.IntRange(0, 3).Draw(t, "pods") {
				name := rapid.SampledFrom([]string{"u", "v", "w", "plain", "plain"}).Draw(t, "app")
				opts = append(opts, pod(fmt.Sprintf("p%d-%d", i, j), rapid.Int64Range(10, 600).Draw(t, "milli"), app(name, asks[name])))
			}
			node(fmt.Sprintf("n%d", i), "m5.large", append(opts, zone(rapid.SampledFrom(zones).Draw(t, "zone")))...)(w)
		}
		for _, waves := range []bool{true, false} {
			p := disrupt.Plan(w, nil, nil, disrupt.Options{Waves: waves})
			if err := verify(w, p); err != nil {
				t.Fatal(err)
			}
			if err := runs(w, p); err != nil {
				t.Fatalf("waves %t: %v\n%s", waves, err, shown(p))
			}
		}
	})
}

// The bound is of a fresh start: pods that keep each other apart now do not raise it.
func TestBoundForgetsWhoIsWhere(t *testing.T) {
	t.Parallel()
	bound := func(topology *model.Topology) float64 {
		w := world(node("n1", "m5.large", pod("p1", 700, app("w", topology))), node("n2", "m5.large", pod("p2", 700, app("w", topology))))
		return disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true, Bound: true}).LowerBoundUSDPerHour
	}
	free, apart := bound(nil), bound(apart(model.LabelHostname, "w"))
	if free <= 0 || free > 0.096 || apart != free {
		t.Errorf("bound %v without and %v with anti-affinity, want the same, at most the price of one m5.large", free, apart)
	}
}

func TestEvictionCost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		priority int32
		cost     string
		want     float64
	}{{0, "", 1}, {1 << 25, "", 2}, {-1 << 25, "", 0}, {0, "134217728", 2}, {0, "-2147483648", -10}, {2000001000, "", 10}, {0, "much", 1}} {
		p := &model.Pod{Priority: c.priority, Annotations: map[string]string{}}
		if c.cost != "" {
			p.Annotations[model.AnnotationPodDeletionCost] = c.cost
		}
		if got := disrupt.EvictionCost(p); got != c.want {
			t.Errorf("priority %d, deletion cost %q: %v, want %v", c.priority, c.cost, got, c.want)
		}
	}
}
