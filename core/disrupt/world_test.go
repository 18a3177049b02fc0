package disrupt_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	born = noon.Add(-48 * time.Hour)
)

const gi = 1 << 30

// kind is an instance type of the tests: cores, GiB and price.
type kind struct {
	cores, gib int64
	usd        float64
}

var kinds = map[string]kind{
	"m5.large": {2, 8, 0.096}, "m5.xlarge": {4, 16, 0.192}, "m5.2xlarge": {8, 32, 0.384}, "m5.4xlarge": {16, 64, 0.768}, "m5.8xlarge": {32, 128, 1.536},
}

// world is one pool, default, over all kinds; each option changes it.
func world(opts ...func(*model.World)) *model.World {
	w := &model.World{Now: noon, NodeClasses: map[string]*model.NodeClass{"c": {Name: "c"}}, Offerings: map[string][]*model.Offering{}}
	w.Pools = []*model.Pool{{Name: "default", NodeClass: model.NodeClassRef{Name: "c"}, Policy: model.WhenEmptyOrUnderutilized, ExpireAfter: model.Never}}
	for _, name := range []string{"m5.large", "m5.xlarge", "m5.2xlarge", "m5.4xlarge", "m5.8xlarge"} {
		k := kinds[name]
		t := &model.InstanceType{Name: name, Labels: map[string]string{model.LabelInstanceType: name}, Allocatable: room(k)}
		for _, z := range []string{"a", "b"} {
			w.Offerings["c"] = append(w.Offerings["c"], &model.Offering{Type: t, Zone: z, CapacityType: model.OnDemand, USDPerHour: k.usd, Available: true})
		}
	}
	for _, o := range opts {
		o(w)
	}
	return w
}

func room(k kind) resource.Vector { return resource.New(k.cores*1000, k.gib*gi, 58, 20*gi) }

func pool(f func(*model.Pool)) func(*model.World) { return func(w *model.World) { f(w.Pools[0]) } }

// node adds an initialized, ready node of the pool with the given pods.
func node(name, instanceType string, opts ...func(*model.Node)) func(*model.World) {
	return func(w *model.World) {
		n := &model.Node{Name: name, Ready: true, Created: born, Annotations: map[string]string{}, Labels: map[string]string{
			model.LabelPool: "default", model.LabelInstanceType: instanceType, model.LabelZone: "a", model.LabelCapacityType: model.OnDemand,
			model.LabelInitialized: "true", model.LabelRegistered: "true", model.LabelHostname: name}}
		k := kinds[instanceType]
		n.Allocatable, n.Capacity, n.USDPerHour, n.PriceKnown = room(k), room(k), k.usd, k.usd > 0
		n.Claim = &model.Claim{Name: "claim-" + name, Pool: "default", Labels: n.Labels, NodeName: name, Created: born, ExpireAfter: model.Never,
			Conditions: []model.Condition{{Type: model.CondInitialized, Status: "True", Since: born}}}
		for _, o := range opts {
			o(n)
		}
		w.Nodes = append(w.Nodes, n)
	}
}

// pod adds a running pod of so many milli-CPU.
func pod(name string, milli int64, opts ...func(*model.Pod)) func(*model.Node) {
	return func(n *model.Node) {
		p := &model.Pod{Namespace: "x", Name: name, UID: name, NodeName: n.Name, Requests: resource.New(milli, 0, 1, 0), Ready: true, Labels: map[string]string{"app": name},
			Annotations: map[string]string{}, Owner: model.Owner{Kind: "ReplicaSet", Name: name}, Terms: []require.Set{{}}}
		for _, o := range opts {
			o(p)
		}
		n.Pods = append(n.Pods, p)
	}
}

func annotated(key, value string) func(*model.Pod) {
	return func(p *model.Pod) { p.Annotations[key] = value }
}

func pdb(name string, allowed int32, app string, always bool) func(*model.World) {
	return func(w *model.World) {
		w.PDBs = append(w.PDBs, &model.PDB{Namespace: "x", Name: name, DisruptionsAllowed: allowed, AlwaysAllow: always,
			MatchLabels: map[string]string{"app": app}, Selects: func(l map[string]string) bool { return l["app"] == app }})
	}
}

// soldOut leaves nothing to buy, so that nothing is replaced.
func soldOut(w *model.World) {
	for _, list := range w.Offerings {
		for _, o := range list {
			o.Available = false
		}
	}
}

// only has all nodes but one stay where they are, for others to move to.
func only(name string) func(*model.World) {
	return func(w *model.World) {
		for _, n := range w.Nodes {
			if n.Name != name {
				n.Annotations[model.AnnotationDoNotDisrupt] = "true"
			}
		}
	}
}

func plan(w *model.World) *model.Plan {
	return disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true})
}

func removed(p *model.Plan) []string {
	out := []string{}
	for _, c := range p.Commands {
		for _, n := range c.Remove {
			out = append(out, n.ID())
		}
	}
	slices.Sort(out)
	return out
}

func blocked(t *testing.T, p *model.Plan, node string) model.Blocked {
	t.Helper()
	for _, b := range p.Blocked {
		if b.Node == node {
			return b
		}
	}
	t.Fatalf("node %s is not among the blocked ones: %+v", node, p.Blocked)
	return model.Blocked{}
}

// verify replays a plan against the plain rules: everybody has a place in the end
// state, nothing is removed and used, money goes down, and each wave is within
// the budgets.
func verify(w *model.World, p *model.Plan) error {
	free, byName := map[string]resource.Vector{}, map[string]*model.Node{}
	for _, n := range w.Nodes {
		free[n.ID()], byName[n.ID()] = n.Allocatable.Sub(n.Used()), n
	}
	gone, seen := map[string]bool{}, map[string]int{}
	for _, c := range p.Commands {
		for _, n := range c.Launch {
			if byName[n.Name] != nil {
				return fmt.Errorf("new node %s has the name of another", n.Name)
			}
			byName[n.Name] = &model.Node{Name: n.Name, Labels: n.Labels, Taints: n.Pool.Taints, Ready: true}
			free[n.Name] = engine.Allocatable(n)
		}
		for _, n := range c.Remove {
			gone[n.ID()] = true
			seen[n.ID()]++
		}
	}
	for id, n := range seen {
		if n > 1 {
			return fmt.Errorf("node %s is removed %d times", id, n)
		}
	}
	for _, b := range p.Blocked {
		if seen[b.Node] > 0 || b.Reason == "" || b.Message == "" {
			return fmt.Errorf("blocked entry is wrong: %+v (removed %d times)", b, seen[b.Node])
		}
		seen[b.Node]--
	}
	for _, n := range w.Nodes {
		if seen[n.ID()] == 0 {
			return fmt.Errorf("node %s is neither removed nor blocked", n.ID())
		}
	}
	for _, c := range p.Commands {
		if c.Reason != model.Drifted && (c.Before <= c.After || c.Before <= c.Worst) {
			return fmt.Errorf("command on %s costs %g before, %g after, %g at worst", c.Remove[0].ID(), c.Before, c.After, c.Worst)
		}
		moved := map[string]bool{}
		for _, m := range c.Moves {
			to := byName[m.To]
			switch {
			case to == nil || gone[m.To] && !later(p, c, m.To):
				return fmt.Errorf("pod %s moves to %s, which is gone", m.Pod.ID(), m.To)
			case !disrupt.Legal(m.Pod, to) || !to.Ready || to.Cordoned || to.BeingRemoved():
				return fmt.Errorf("pod %s may not run on %s", m.Pod.ID(), m.To)
			case !m.Pod.Requests.Fits(free[m.To]):
				return fmt.Errorf("pod %s (%s) does not fit on %s (%s)", m.Pod.ID(), m.Pod.Requests, m.To, free[m.To])
			}
			free[m.To] = free[m.To].Sub(m.Pod.Requests)
			moved[m.Pod.ID()] = true
		}
		for _, n := range c.Remove {
			for _, x := range n.Pods {
				if x.Reschedulable() && !moved[x.ID()] {
					return fmt.Errorf("pod %s of %s has no new place", x.ID(), n.ID())
				}
			}
		}
	}
	return verifyBudgets(w, p)
}

// later says whether a node is replaced in a later wave than a command: what the command
// moves there moves on with it.
func later(p *model.Plan, c model.Command, node string) bool {
	for _, o := range p.Commands {
		if len(o.Launch) > 0 || len(o.Moves) > 0 {
			for _, n := range o.Remove {
				if n.ID() == node {
					return o.Wave > c.Wave
				}
			}
		}
	}
	return false
}

func verifyBudgets(w *model.World, p *model.Plan) error {
	last := 0
	for _, c := range p.Commands {
		last = max(last, c.Wave)
	}
	gone := map[string]bool{}
	var added []*model.Node
	for wave := 1; wave <= last; wave++ {
		now := *w
		now.Nodes = nil
		for _, n := range w.Nodes {
			if !gone[n.ID()] && (wave == 1 || !n.BeingRemoved()) {
				now.Nodes = append(now.Nodes, n)
			}
		}
		now.Nodes = append(now.Nodes, added...)
		running := map[string]bool{}
		for _, c := range p.Commands {
			if c.Wave != wave {
				continue
			}
			for _, n := range c.Remove {
				total, lost := disrupt.Disrupting(&now, n.Pool(), running)
				if a := disrupt.Allowed(w.Pool(n.Pool()), c.Reason, total, lost, w.Now); a.Nodes < 1 {
					return fmt.Errorf("wave %d removes %s for %s, but the budget is used up: %s", wave, n.ID(), c.Reason, a.Why)
				}
				running[n.ID()] = true
			}
		}
		for id := range running {
			gone[id] = true
		}
		for _, c := range p.Commands {
			for _, n := range c.Launch {
				if c.Wave == wave {
					labels := maps.Clone(n.Labels)
					labels[model.LabelInitialized] = "true"
					added = append(added, &model.Node{Name: n.Name, Labels: labels, Ready: true, Claim: &model.Claim{Name: n.Name, Pool: n.Pool.Name, Conditions: []model.Condition{{Type: model.CondInitialized, Status: "True"}}}})
				}
			}
		}
	}
	return nil
}

func selector(key, value string) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Terms = []require.Set{require.NewSet(require.Must(key, require.In, value))}
	}
}
