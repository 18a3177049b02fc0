package engine_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// mounts gives a pod n volumes of its own, in any of the given zones.
func mounts(n int64, zones ...string) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Requests = p.Requests.With(attach.Resource(attach.EBS), n)
		if len(zones) > 0 {
			topo(p).VolumeTerms = []require.Set{require.NewSet(mt.Zones(zones...))}
		}
	}
}

// holds makes a node report how many EBS volumes it takes.
func holds(n int64) func(*model.Node) {
	return func(x *model.Node) { x.VolumeLimits = map[string]int64{attach.EBS: n} }
}

func of(instanceType string) map[string]string {
	return map[string]string{model.LabelInstanceType: instanceType}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	a, b := "us-east-1a", "us-east-1b"
	in := func(zone string) map[string]string {
		return map[string]string{model.LabelInstanceType: "m5.4xlarge", model.LabelZone: zone}
	}
	five := func(name string, attached int) *model.Node {
		return mt.Node(name, 64000, 256<<10, in(a), holds(5), mt.Running(mt.Pods(attached, "on-"+name, 100, 10, mounts(1))...))
	}
	for _, tc := range []struct {
		name  string
		pods  []*model.Pod
		nodes []*model.Node
		types []string
		// pods by zone of new nodes or name of old ones; how many new nodes; how many left
		where map[string]int
		nodeN int
		left  int
	}{
		{name: "B026 full nodes take none, a new one takes all", types: []string{"m5.4xlarge"}, nodes: []*model.Node{five("n1", 5), five("n2", 5), five("n3", 5)},
			pods: mt.Pods(5, "w", 100, 10, mounts(1, a)), where: map[string]int{a: 5}, nodeN: 1},
		{name: "B026 twenty pods are four nodes", types: []string{"m5.4xlarge"}, nodes: []*model.Node{five("n1", 5)},
			pods: mt.Pods(20, "w", 100, 10, mounts(1, a)), where: map[string]int{a: 20}, nodeN: 4},
		{name: "what is free is used first", types: []string{"m5.4xlarge"}, nodes: []*model.Node{five("n1", 3), five("n2", 5)},
			pods: mt.Pods(4, "w", 100, 10, mounts(1, a)), where: map[string]int{"n1": 2, a: 2}, nodeN: 1},
		{name: "pods without volumes go on", types: []string{"m5.4xlarge"}, nodes: []*model.Node{five("n1", 6)},
			pods: mt.Pods(4, "w", 100, 10), where: map[string]int{"n1": 4}},
		{name: "a driver that does not report is without limit", types: []string{"m5.4xlarge"},
			nodes: []*model.Node{mt.Node("n1", 64000, 256<<10, in(a), func(n *model.Node) { n.VolumeLimits = map[string]int64{} })},
			pods:  mt.Pods(60, "w", 100, 10, mounts(1)), where: map[string]int{"n1": 60}},
		{name: "a node that has not reported is judged by its kind", types: []string{"m5.4xlarge"},
			nodes: []*model.Node{five("n1", 5), mt.Node("n2", 64000, 256<<10, in(a))},
			pods:  mt.Pods(6, "w", 100, 10, mounts(1, a, b)), where: map[string]int{"n2": 5, a: 1}, nodeN: 1},
		{name: "nothing reported: the formula", types: []string{"m5.4xlarge"},
			pods: mt.Pods(50, "w", 100, 10, mounts(1, b)), where: map[string]int{b: 50}, nodeN: 2},
		{name: "more volumes than any machine takes", types: []string{"m5.4xlarge"}, pods: mt.Pods(1, "w", 100, 10, mounts(26)), where: map[string]int{}, left: 1},
		{name: "places and slots together", types: []string{"m5.4xlarge"}, nodes: []*model.Node{five("n1", 2)},
			pods: append(mt.Pods(5, "x", 100, 10, mounts(1, a)), mt.Pods(5, "y", 100, 10, mounts(1, b))...), where: map[string]int{"n1": 3, a: 2, b: 5}, nodeN: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := world(tc.pods, mt.Pool("p", mt.Types(tc.types...)))
			w.Nodes = tc.nodes
			attach.World(w)
			r := place(t, w, nil)
			if d := cmp.Diff(tc.where, perZone(r)); d != "" {
				t.Error(d)
			}
			if len(r.New) != tc.nodeN || len(r.Unplaced) != tc.left {
				t.Errorf("%d new nodes, %d left; want %d, %d", len(r.New), len(r.Unplaced), tc.nodeN, tc.left)
			}
		})
	}
}

// TestNoNodeHoldsMoreVolumesThanItTakes draws worlds and counts volumes by node.
func TestNoNodeHoldsMoreVolumesThanItTakes(t *testing.T) {
	t.Parallel()
	types := []string{"m5.large", "m5.4xlarge", "c5d.4xlarge", "t2.medium"}
	zones := []string{"us-east-1a", "us-east-1b"}
	base := world(nil, mt.Pool("p", mt.Types(types...)))
	slotsOf := map[string]map[string]string{} // labels by type
	for _, o := range base.Offerings[mt.Class] {
		slotsOf[o.Type.Name] = o.Type.Labels
	}
	rapid.Check(t, func(t *rapid.T) {
		w := *base
		volumes := func(label string) int64 { return rapid.Int64Range(0, 9).Draw(t, label) }
		place := func(label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(zones), 0, 1, rapid.ID).Draw(t, label)
		}
		reported := attach.Known{}
		limits := map[string]int64{} // of nodes that report
		for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			kind := rapid.SampledFrom(types).Draw(t, "type")
			labels := of(kind)
			labels[model.LabelZone] = rapid.SampledFrom(zones).Draw(t, "zone")
			n := mt.Node(fmt.Sprintf("n%d", i), 8000, 32<<10, labels)
			if rapid.Bool().Draw(t, "reports") {
				limits[n.Name] = rapid.Int64Range(0, 12).Draw(t, "limit")
				holds(limits[n.Name])(n)
				reported.Note(kind, n.VolumeLimits)
			}
			mt.Running(mt.Pods(rapid.IntRange(0, 3).Draw(t, "running"), n.Name+"-r", 100, 10, mounts(volumes("has")))...)(n)
			w.Nodes = append(w.Nodes, n)
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "groups") {
			w.Pods = append(w.Pods, mt.Pods(rapid.IntRange(1, 12).Draw(t, "pods"), fmt.Sprintf("g%d", i), rapid.Int64Range(50, 900).Draw(t, "cpu"), 64,
				mounts(volumes("volumes"), place("place")...))...)
		}
		attach.World(&w)
		r := engine.Place(&w, nil)
		for _, err := range engine.Check(&w, &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}) {
			t.Errorf("check: %v", err)
		}
		count := func(pods []*model.Pod) (n int64) {
			for _, p := range pods {
				n += p.Requests.Get(attach.Resource(attach.EBS))
			}
			return n
		}
		for _, n := range r.New {
			for _, o := range append([]*model.Offering{n.Offering}, n.Alternatives...) {
				most, known := reported[o.Type.Name][attach.EBS]
				if !known {
					most, known = attach.Slots(o.Type.Labels)
				}
				if got := count(n.Pods); !known || got > most {
					t.Fatalf("%s on %s: %d volumes, %d fit (%v)", n.Name, o.Key(), got, most, slotLabels(o.Type.Labels))
				}
			}
		}
		for zone, pods := range byZone(r) {
			for _, p := range pods {
				if p.Topology != nil && p.Topology.VolumeTerms[0].LabelsSatisfy(map[string]string{model.LabelZone: zone}) != nil {
					t.Fatalf("%s is in %s, its volumes in %s", p.Name, zone, p.Topology.VolumeTerms[0])
				}
			}
		}
		for _, u := range r.Unplaced { // the slots are the only thing that can be short
			want := u.Pod.Requests.Get(attach.Resource(attach.EBS))
			for _, name := range types {
				most, known := reported[name][attach.EBS]
				if !known {
					most, _ = attach.Slots(slotsOf[name])
				}
				if most >= want && u.Pod.Requests.Base[resource.CPU] <= 1000 {
					t.Fatalf("%s wants %d volumes, %s takes %d: %v", u.Pod.Name, want, name, most, u.Reasons)
				}
			}
		}
		for _, p := range r.Placements {
			if most, ok := limits[p.Node.Name]; ok && count(p.Pods) > 0 && count(p.Pods)+count(p.Node.Pods) > most {
				t.Fatalf("%s has %d volumes, gets %d, takes %d", p.Node.Name, count(p.Node.Pods), count(p.Pods), most)
			}
		}
	})
}

func slotLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(k, _ string) bool {
		return len(k) < len(model.AWSLabelDomain) || k[:len(model.AWSLabelDomain)] != model.AWSLabelDomain
	})
	return out
}

// byZone is the pods by every zone that they may come to be in.
func byZone(r *engine.Result) map[string][]*model.Pod {
	out := map[string][]*model.Pod{}
	for _, n := range r.New {
		for _, o := range append([]*model.Offering{n.Offering}, n.Alternatives...) {
			out[o.Zone] = append(out[o.Zone], n.Pods...)
		}
	}
	for _, p := range r.Placements {
		out[p.Node.Zone()] = append(out[p.Node.Zone()], p.Pods...)
	}
	return out
}
