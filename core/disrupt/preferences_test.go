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

func softly(name string, s *model.Soft) func(*model.Pod) {
	return func(p *model.Pod) { p.Labels, p.Soft = map[string]string{"app": name}, s }
}

func softApart(key, name string) *model.Soft {
	return &model.Soft{AntiAffinity: []model.WeightedTerm{{Weight: 1, PodTerm: model.PodTerm{Key: key, Selector: pick(name)}}}}
}

func softNear(key, name string) *model.Soft {
	return &model.Soft{Affinity: []model.WeightedTerm{{Weight: 1, PodTerm: model.PodTerm{Key: key, Selector: pick(name)}}}}
}

func softSpread(key, name string, skew int64) *model.Soft {
	return &model.Soft{Spreads: []model.Spread{{Key: key, MaxSkew: skew, Selector: pick(name), HonorAffinity: true}}}
}

func likes(key string, values ...string) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Preferred = []model.Preference{{Weight: 1, Set: require.NewSet(require.Must(key, require.In, values...))}}
	}
}

// A node stays where its pods would have another one bought for what they prefer, and
// goes where nothing could keep that anyway, or nobody looks at it.
func TestMovesKeepWhatPodsPrefer(t *testing.T) {
	t.Parallel()
	const host = model.LabelHostname
	for name, tt := range map[string]struct {
		world []func(*model.World)
		stays string // why n1 does under Respect; empty = it goes
		all   bool   // others may go as well
	}{
		"a node for each": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, softly("w", softApart(host, "w")))),
			node("n2", "m5.xlarge", pod("p2", 1950, softly("w", softApart(host, "w"))))}, stays: "preferred pod anti-affinity over kubernetes.io/hostname"},
		"a node for each, and one is free": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, softly("w", softApart(host, "w")))),
			node("n2", "m5.xlarge", pod("q", 1950))}},
		"apart from pods that are moved there": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, softly("w", softApart(host, "w"))), pod("o", 10)),
			node("n2", "m5.large", pod("p2", 200, softly("w", softApart(host, "w")))), node("n3", "m5.large", pod("q", 1300))}, stays: "prefer", all: true},
		"few on a node": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, softly("w", softSpread(host, "w", 1)))),
			node("n2", "m5.xlarge", pod("p2", 1950, softly("w", softSpread(host, "w", 1))))}, stays: "ScheduleAnyway spread over kubernetes.io/hostname"},
		"not too many on a node": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, softly("w", softSpread(host, "w", 2)))),
			node("n2", "m5.xlarge", pod("p2", 1950, softly("w", softSpread(host, "w", 2))))}},
		"a spread over zones": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, softly("w", softSpread(model.LabelZone, "w", 1)))),
			node("n2", "m5.xlarge", zone("b"), pod("p2", 1950, softly("w", softSpread(model.LabelZone, "w", 1))))}, stays: "ScheduleAnyway spread over topology.kubernetes.io/zone"},
		"a spread over zones, within one": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, softly("w", softSpread(model.LabelZone, "w", 1)))),
			node("n2", "m5.large", zone("b"), pod("p2", 1950, softly("w", softSpread(model.LabelZone, "w", 1)))), node("n3", "m5.xlarge", zone("a"), pod("q", 1950))}},
		"a spread over zones that is uneven and gets even": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, softly("w", softSpread(model.LabelZone, "w", 1)))),
			node("n2", "m5.large", zone("a"), pod("p2", 1950, softly("w", softSpread(model.LabelZone, "w", 1)))), node("n3", "m5.xlarge", zone("b"), pod("q", 1950))}},
		"a spread over zones in which nothing can be bought": {world: []func(*model.World){node("n1", "m5.large", zone("c"), pod("p1", 200, softly("w", softSpread(model.LabelZone, "w", 1)))),
			node("n2", "m5.large", zone("c"), pod("p2", 200, softly("w", softSpread(model.LabelZone, "w", 1)))), node("n3", "m5.large", zone("c"), pod("q", 1700)), noOfferings}},
		"apart over more zones than there are": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, softly("w", softApart(model.LabelZone, "w")))),
			node("n2", "m5.xlarge", zone("a"), pod("p2", 1950, softly("w", softApart(model.LabelZone, "w")))), node("n3", "m5.xlarge", zone("b"), pod("p3", 3950, softly("w", softApart(model.LabelZone, "w"))))}},
		"apart, and a zone is free": {world: []func(*model.World){node("n1", "m5.large", zone("a"), pod("p1", 200, softly("w", softApart(model.LabelZone, "w")))),
			node("n2", "m5.xlarge", zone("a"), pod("p2", 1950, softly("w", softApart(model.LabelZone, "w"))))}, stays: "preferred pod anti-affinity over topology.kubernetes.io/zone"},
		"near in the zone": {world: []func(*model.World){node("n1", "m5.large", zone("b"), pod("p1", 200, softly("w", softNear(model.LabelZone, "q")))),
			node("n2", "m5.xlarge", zone("b"), pod("q", 3900)), node("n3", "m5.xlarge", zone("a"), pod("x", 1950))}, stays: "preferred pod affinity over topology.kubernetes.io/zone"},
		"near on the node, which has no room": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200, softly("w", softNear(host, "q")))),
			node("n2", "m5.xlarge", pod("q", 3900)), node("n3", "m5.xlarge", pod("x", 1950))}},
		"a preferred zone": {world: []func(*model.World){node("n1", "m5.large", zone("b"), pod("p1", 200, likes(model.LabelZone, "b"))),
			node("n2", "m5.xlarge", zone("a"), pod("x", 1950))}, stays: "preferred node affinity"},
		"a preferred zone that there is not": {world: []func(*model.World){node("n1", "m5.large", zone("b"), pod("p1", 200, likes(model.LabelZone, "d"))),
			node("n2", "m5.xlarge", zone("a"), pod("x", 1950))}},
		"a soft taint": {world: []func(*model.World){node("n1", "m5.large", pod("p1", 200)),
			node("n2", "m5.xlarge", pod("x", 1950), softTaint)}, stays: "PreferNoSchedule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(tt.world...)
			if !tt.all {
				only("n1")(w)
			}
			p := plan(w)
			if err := verify(w, p); err != nil {
				t.Fatal(err)
			}
			gone := slices.Contains(removed(p), "n1")
			if gone != (tt.stays == "") {
				t.Errorf("removed %v", removed(p))
			}
			if tt.stays != "" && !gone {
				if b := blocked(t, p, "n1"); !strings.Contains(b.Message, tt.stays) {
					t.Errorf("%q does not say %q", b.Message, tt.stays)
				}
			}
			w.Settings.IgnorePreferences = true
			before := len(removed(p))
			if p := plan(w); tt.stays != "" && tt.stays != "PreferNoSchedule" && len(removed(p)) <= before {
				t.Errorf("under Ignore only %v go", removed(p))
			}
		})
	}
}

func noOfferings(w *model.World) {
	for _, o := range w.Offerings["c"] {
		o.Available = o.Zone != "b" && o.Zone != "a"
	}
}

func softTaint(n *model.Node) {
	n.Taints = []model.Taint{{Key: "soft", Effect: model.PreferNoSchedule}}
}

// Whatever a plan takes away, nothing is bought for the pods that had to move: what
// was bought for the sake of preferences is not given back only to be bought again.
func TestMovesBuyNothing(t *testing.T) {
	t.Parallel()
	moves := 0
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{model.LabelHostname, model.LabelZone})
		name := rapid.SampledFrom([]string{"v", "w"})
		var opts []func(*model.World)
		for i := range rapid.IntRange(2, 5).Draw(t, "nodes") {
			id := fmt.Sprintf("n%d", i)
			parts := []func(*model.Node){zone(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"))}
			if rapid.IntRange(0, 5).Draw(t, "tainted") == 0 {
				parts = append(parts, softTaint)
			}
			for k := range rapid.IntRange(0, 3).Draw(t, "pods") {
				s := &model.Soft{}
				for _, more := range []*model.Soft{softApart(key.Draw(t, "key"), name.Draw(t, "app")), softNear(key.Draw(t, "key"), name.Draw(t, "app")), softSpread(key.Draw(t, "key"), name.Draw(t, "app"), 1)} {
					if rapid.IntRange(0, 2).Draw(t, "prefers") == 0 {
						s.Affinity, s.AntiAffinity, s.Spreads = append(s.Affinity, more.Affinity...), append(s.AntiAffinity, more.AntiAffinity...), append(s.Spreads, more.Spreads...)
					}
				}
				change := []func(*model.Pod){softly(name.Draw(t, "own"), s)}
				if rapid.IntRange(0, 3).Draw(t, "likes") == 0 {
					change = append(change, likes(model.LabelZone, rapid.SampledFrom([]string{"a", "b", "z"}).Draw(t, "liked")))
				}
				parts = append(parts, pod(fmt.Sprintf("%s-%d", id, k), 200, change...))
			}
			opts = append(opts, node(id, "m5.large", parts...)) // nothing is cheaper: no replacements
		}
		w := world(opts...)
		p := disrupt.Plan(w, nil, nil, disrupt.Options{}) // what may go at once; later waves are planned anew
		if err := verify(w, p); err != nil {
			t.Fatal(err)
		}
		after := *w
		after.Nodes = slices.DeleteFunc(slices.Clone(w.Nodes), func(n *model.Node) bool { return slices.Contains(removed(p), n.ID()) })
		last := map[*model.Pod]string{} // a pod that came to a node moves on when that is replaced in a later wave
		for _, c := range p.Commands {
			for _, m := range c.Moves {
				last[m.Pod] = m.To
			}
		}
		for _, c := range p.Commands {
			for _, n := range c.Launch {
				labels := maps.Clone(n.Labels)
				labels[model.LabelHostname] = n.Name
				after.Nodes = append(after.Nodes, &model.Node{Name: n.Name, Labels: labels, Ready: true, Pods: n.Pods, Allocatable: n.Requests})
				for _, m := range n.Pods {
					delete(last, m)
				}
			}
		}
		for m := range last {
			waiting := *m
			waiting.NodeName, waiting.Unschedulable = "", true
			after.Pods = append(after.Pods, &waiting)
		}
		moves += len(after.Pods)
		var bought []string
		for _, n := range engine.Place(&after, nil).New {
			for _, p := range n.Pods {
				bought = append(bought, p.Name)
			}
		}
		if d := cmp.Diff([]string(nil), bought); d != "" {
			t.Errorf("after %v went, nodes are bought for: %s\n%s", removed(p), d, shown(p))
		}
	})
	if moves == 0 {
		t.Error("no plan moved a pod: the property says nothing")
	}
}

func shown(p *model.Plan) string {
	out := ""
	for _, c := range p.Commands {
		out += fmt.Sprintf("wave %d, %s:", c.Wave, c.Why)
		for _, m := range c.Moves {
			out += fmt.Sprintf(" %s from %s to %s", m.Pod.Name, m.From, m.To)
		}
		out += "\n"
	}
	return out
}
