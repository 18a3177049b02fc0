package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/bench/measure"
	crowds "github.com/weir-project/weir/integration/bench/workload"
)

// consolidations are the clusters that every run asks: half empty and fuller, with and
// without pods that are hard to move.
var consolidations = []crowds.Cluster{
	{Nodes: 12, Fill: 0.4, Seed: 11, Hard: true}, {Nodes: 15, Fill: 0.85, Seed: 12, Hard: true}, {Nodes: 12, Fill: 0.5, Seed: 13},
}

// everyEvictedPodHasAPlace makes the end of a consolidation plan in the API server, all
// nodes that go away, all pods that move let go: kube-scheduler must bind every one of them.
func everyEvictedPodHasAPlace(t *testing.T, c *Cluster) {
	t.Helper()
	for _, x := range consolidations {
		t.Run(fmt.Sprintf("%d nodes, %.0f%%, seed %d", x.Nodes, 100*x.Fill, x.Seed), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
			defer cancel()
			w, nodes, pods := drawRunning(t, x)
			plan := disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true})
			d, placed := ending(t, w, plan, nodes, pods)
			if err := c.Reset(ctx); err != nil {
				t.Fatal(err)
			}
			if err := c.Make(ctx, d); err != nil {
				t.Fatal(err)
			}
			if err := c.Probe(ctx, "probe-1"); err != nil {
				t.Fatal(err)
			}
			if err := c.bindPlanned(ctx, &model.World{}, d.Nodes, placed); err != nil {
				t.Fatal(err)
			}
			a := &Answer{Seed: x.Seed}
			c.judge(a, placed)
			for _, f := range a.Faults {
				t.Error(f)
			}
			t.Logf("%d commands, %d of %d nodes left, %d pods moved, %d bound", len(plan.Commands), len(d.Nodes), len(w.Nodes), len(placed), a.Bound)
		})
	}
}

// drawRunning draws a cluster, as objects of the API and as planning sees it.
func drawRunning(t *testing.T, x crowds.Cluster) (*model.World, map[string]*corev1.Node, map[string]*corev1.Pod) {
	t.Helper()
	r, err := x.Draw(catalogue.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	nodes, pods := map[string]*corev1.Node{}, map[string]*corev1.Pod{}
	for _, o := range r.Objects {
		meta := o["metadata"].(map[string]any)
		if _, namespaced := meta["namespace"]; namespaced {
			meta["namespace"] = namespaces[0].Name
		}
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		switch o["kind"] {
		case "Node":
			n := &corev1.Node{}
			err = json.Unmarshal(raw, n)
			nodes[n.Name] = n
		case "Pod":
			p := &corev1.Pod{}
			err = json.Unmarshal(raw, p)
			pods[p.Namespace+"/"+p.Name] = p
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var objects bytes.Buffer
	if err := r.Write(&objects); err != nil {
		t.Fatal(err)
	}
	manifest, err := measure.Manifest("cmr-on-demand")
	if err != nil {
		t.Fatal(err)
	}
	objects.WriteString("\n---\n")
	objects.Write(manifest)
	in, err := load.Files([]string{"-"}, &objects, load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := measure.Settings()
	if err != nil {
		t.Fatal(err)
	}
	w := measure.World(in, cfg)
	if len(w.Nodes) != x.Nodes || len(pods) == 0 {
		t.Fatalf("%d nodes and %d pods", len(w.Nodes), len(pods))
	}
	return w, nodes, pods
}

// ending is the cluster once a plan is carried out, its moved pods still waiting, and where
// they are to go. What a command costs and whom it moves is looked at on the way.
func ending(t *testing.T, w *model.World, plan *model.Plan, nodes map[string]*corev1.Node, pods map[string]*corev1.Pod) (*Draw, []placement) {
	t.Helper()
	d := &Draw{}
	to, from := map[string]string{}, map[string]*model.Pod{}
	commands := slices.Clone(plan.Commands)
	slices.SortStableFunc(commands, func(a, b model.Command) int { return a.Wave - b.Wave })
	gone := map[string]bool{}
	for _, c := range commands {
		if c.Before <= c.After || c.Before <= c.Worst {
			t.Errorf("command on %s: %.4f USD/h before, %.4f after, %.4f at worst", c.Remove[0].ID(), c.Before, c.After, c.Worst)
		}
		for _, n := range c.Launch {
			made := nodeOf(n.Name, n.Pool, n.Offering, n.Labels)
			nodes[n.Name] = made
		}
		for _, m := range c.Moves {
			if on, _ := disrupt.DoNotDisrupt(m.Pod, w.Now); on {
				t.Errorf("pod %s is moved, and asks not to be disrupted", m.Pod.ID())
			}
			for _, b := range w.PDBs {
				if b.Covers(m.Pod) && b.DisruptionsAllowed == 0 {
					t.Errorf("pod %s is moved, and budget %s allows nothing", m.Pod.ID(), b.Name)
				}
			}
			to[m.Pod.ID()], from[m.Pod.ID()] = m.To, m.Pod
		}
		for _, n := range c.Remove {
			gone[n.ID()] = true
		}
	}
	if len(commands) == 0 || len(to) == 0 {
		t.Fatal("the plan gives nothing back, or moves nobody: this tests nothing")
	}
	for name, n := range nodes {
		if !gone[name] {
			d.Nodes = append(d.Nodes, n)
		}
	}
	var placed []placement
	for id, p := range pods {
		if node, moved := to[id]; moved {
			p.Spec.NodeName = ""
			d.Waiting = append(d.Waiting, p)
			placed = append(placed, placement{from[id], node})
			continue
		}
		if gone[p.Spec.NodeName] {
			t.Errorf("pod %s has no new place, and its node %s goes", id, p.Spec.NodeName)
		}
		d.Running = append(d.Running, p)
	}
	for _, p := range append(slices.Clone(d.Running), d.Waiting...) {
		p.ResourceVersion, p.UID, p.OwnerReferences = "", "", nil
	}
	return d, placed
}
