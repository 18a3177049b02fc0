package cluster_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

var t0 = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

var equal = cmp.Options{cmpopts.EquateEmpty(), cmp.AllowUnexported(require.Set{}), cmpopts.IgnoreFields(model.PDB{}, "Selects")}

func pid(i int) string { return fmt.Sprintf("aws:///us-east-1a/i-%d", i) }

func node(i int) *model.Node {
	return &model.Node{
		Name: "n" + strconv.Itoa(i), UID: "un" + strconv.Itoa(i), ProviderID: pid(i), Ready: true,
		Labels:   map[string]string{model.LabelPool: "p", model.LabelInstanceType: "m5.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.Spot},
		Capacity: resource.New(2000, 8<<30, 29, 0), Allocatable: resource.New(1900, 7<<30, 29, 0),
	}
}

func claim(i int, f ...func(*model.Claim)) *model.Claim {
	c := &model.Claim{
		Name: "c" + strconv.Itoa(i), UID: "uc" + strconv.Itoa(i), Pool: "p", ProviderID: pid(i), NodeClass: model.NodeClassRef{Name: "default"},
		Labels: map[string]string{model.LabelPool: "p"}, Capacity: resource.New(2000, 8<<30, 29, 0), Allocatable: resource.New(1800, 6<<30, 29, 0), Created: t0,
	}
	for _, g := range f {
		g(c)
	}
	return c
}

func pod(i int, node string) *model.Pod {
	return &model.Pod{UID: "up" + strconv.Itoa(i), Namespace: "ns", Name: "p" + strconv.Itoa(i), NodeName: node, Unschedulable: node == "", Requests: resource.New(100, 1<<20, 1, 0),
		Owner: model.Owner{Kind: "ReplicaSet", UID: "rs"}, Ready: node != ""}
}

func offering(typ string, usd float64) *model.Offering {
	return &model.Offering{Type: &model.InstanceType{Name: typ, Labels: map[string]string{model.LabelInstanceType: typ, model.LabelArch: "amd64"},
		Capacity: resource.New(4000, 16<<30, 58, 0), Allocatable: resource.New(3900, 14<<30, 58, 0)},
		Zone: "us-east-1a", CapacityType: model.Spot, USDPerHour: usd, PriceSource: "list", Available: true}
}

func mirror(changes ...cluster.Change) *cluster.Mirror {
	m := cluster.New(cluster.Options{})
	for _, c := range changes {
		m.Apply(c, t0)
	}
	return m
}

func ids(nodes []*model.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.ID())
	}
	return out
}

func TestJoin(t *testing.T) {
	t.Parallel()
	m := mirror(cluster.UpsertClaim{Claim: claim(1)}, cluster.Offerings{Class: "default", List: []*model.Offering{offering("m5.large", 0.05)}})
	w := m.World(t0)
	if len(w.Nodes) != 1 || w.Nodes[0].Joined() || w.Nodes[0].ID() != "c1" || w.Nodes[0].Allocatable.Get("cpu") != 1800 {
		t.Fatalf("a claim on its way: %+v", w.Nodes)
	}
	m.Apply(cluster.UpsertNode{Node: node(1)}, t0)
	m.Apply(cluster.UpsertPod{Pod: pod(1, "n1")}, t0)
	n := m.World(t0).Nodes
	if len(n) != 1 || n[0].Name != "n1" || n[0].Claim == nil || n[0].Claim.Name != "c1" || len(n[0].Pods) != 1 {
		t.Fatalf("joined: %+v", n)
	}
	if !n[0].PriceKnown || n[0].USDPerHour != 0.05 {
		t.Errorf("price %v %v", n[0].USDPerHour, n[0].PriceKnown)
	}
	if got := n[0].Allocatable.Get("cpu"); got != 1800 {
		t.Errorf("allocatable %d before it is initialized, expected the claim's estimate", got)
	}
	m.Apply(cluster.UpsertClaim{Claim: claim(1, func(c *model.Claim) {
		c.Conditions = []model.Condition{{Type: model.CondInitialized, Status: "True"}}
	})}, t0)
	if got := m.World(t0).Nodes[0].Allocatable.Get("cpu"); got != 1900 {
		t.Errorf("allocatable %d once initialized, expected the node's", got)
	}
	m.Apply(cluster.DeleteNode{Name: "n1"}, t0)
	if got := ids(m.World(t0).Nodes); !cmp.Equal(got, []string{"c1"}) {
		t.Errorf("after the node went: %v", got)
	}
	m.Apply(cluster.DeleteClaim{Name: "c1"}, t0)
	if got := ids(m.World(t0).Nodes); len(got) != 0 {
		t.Errorf("after the claim went: %v", got)
	}
}

// B013: a pod that is bound to a node which does not exist is on no node.
func TestGhosts(t *testing.T) {
	t.Parallel()
	m := mirror(cluster.UpsertPod{Pod: pod(1, "gone-1")}, cluster.UpsertNode{Node: node(1)})
	w := m.World(t0)
	if len(w.Pods) != 0 || len(w.Nodes) != 1 || len(w.Nodes[0].Pods) != 0 {
		t.Errorf("pods %v, nodes %+v", w.Pods, w.Nodes)
	}
}

func TestWhoWaits(t *testing.T) {
	t.Parallel()
	deleting := t0
	for name, f := range map[string]func(*model.Pod){
		"not tried yet":       func(p *model.Pod) { p.Unschedulable = false },
		"B020: will preempt":  func(p *model.Pod) { p.NominatedNode = "n1" },
		"gated":               func(p *model.Pod) { p.Gated = true },
		"of a daemon set":     func(p *model.Pod) { p.Owner.Kind = "DaemonSet" },
		"of a node":           func(p *model.Pod) { p.Owner.Kind = "Node" },
		"ended":               func(p *model.Pod) { p.Terminal = true },
		"being deleted":       func(p *model.Pod) { p.Deleting = &deleting },
		"kept off on purpose": func(p *model.Pod) { p.Ignore = true },
		"bound":               func(p *model.Pod) { p.NodeName = "n1" },
	} {
		p := pod(1, "")
		f(p)
		m := mirror(cluster.UpsertPod{Pod: p})
		if n := len(m.World(t0).Pods); n != 0 || m.Waiting() != 0 {
			t.Errorf("%s: waits", name)
		}
	}
	m := mirror(cluster.UpsertPod{Pod: pod(1, "")}, cluster.UpsertPod{Pod: pod(1, "")}, cluster.UpsertPod{Pod: pod(2, "")})
	if m.Waiting() != 2 || m.NewWaiting() != 2 {
		t.Errorf("%d wait, %d started to", m.Waiting(), m.NewWaiting())
	}
	if at, ok := m.WaitingSince("up1"); !ok || !at.Equal(t0) {
		t.Errorf("waits since %v %v", at, ok)
	}
	m.Apply(cluster.UpsertPod{Pod: pod(1, "n1")}, t0)
	m.Apply(cluster.DeletePod{ID: "ns/p2"}, t0)
	if m.Waiting() != 0 {
		t.Error("bound and deleted pods wait on")
	}
}

// B020: what a pod preempts others for is promised to it until it is bound or gives up.
func TestPreemption(t *testing.T) {
	t.Parallel()
	high := func(opts ...func(*model.Pod)) cluster.UpsertPod {
		p := pod(7, "")
		p.NominatedNode = "n1"
		for _, o := range opts {
			o(p)
		}
		return cluster.UpsertPod{Pod: p}
	}
	m := mirror(high(), cluster.UpsertNode{Node: node(1)}, cluster.UpsertNode{Node: node(2)})
	preempting := func() []string {
		out := []string{}
		for _, n := range m.World(t0).Nodes {
			for _, p := range n.Preempting {
				out = append(out, n.Name+" "+p.ID())
			}
		}
		return out
	}
	for _, step := range []struct {
		name   string
		change cluster.Change
		want   []string
	}{
		{"nominated", nil, []string{"n1 ns/p7"}},
		{"nominated elsewhere", high(func(p *model.Pod) { p.NominatedNode = "n2" }), []string{"n2 ns/p7"}},
		{"bound", high(func(p *model.Pod) { p.NominatedNode, p.NodeName = "n2", "n2" }), []string{}},
		{"gave up", high(func(p *model.Pod) { p.NominatedNode = "" }), []string{}},
		{"again", high(), []string{"n1 ns/p7"}},
		{"deleted", cluster.DeletePod{ID: "ns/p7"}, []string{}},
	} {
		if step.change != nil {
			m.Apply(step.change, t0)
		}
		if diff := cmp.Diff(step.want, preempting()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// A claim that was decided on is part of the world at once, with its machine's
// figures, and a claim that nobody ever sees does not stay.
func TestAssume(t *testing.T) {
	t.Parallel()
	m := mirror()
	c := claim(1, func(c *model.Claim) {
		c.ProviderID, c.UID, c.Capacity, c.Allocatable = "", "", resource.Vector{}, resource.Vector{}
	})
	m.Assume(c, offering("m5.xlarge", 0.1))
	n := m.World(t0).Nodes
	if len(n) != 1 || n[0].Allocatable.Get("cpu") != 3900 || n[0].InstanceType() != "m5.xlarge" || n[0].Zone() != "us-east-1a" || n[0].Pool() != "p" {
		t.Fatalf("assumed: %+v", n)
	}
	if used, nodes := m.Usage("p"); used.Get("cpu") != 4000 || nodes != 1 {
		t.Errorf("usage %v of %d nodes: what was decided on counts (B037)", used, nodes)
	}
	m.Confirm("c1", t0)
	seen := *c
	seen.UID = "uc1"
	m.Apply(cluster.UpsertClaim{Claim: &seen}, t0)
	if n := m.World(t0).Nodes; len(n) != 1 || n[0].Allocatable.Get("cpu") != 3900 {
		t.Errorf("seen, without a status: %+v", n)
	}
	m.Apply(cluster.UpsertClaim{Claim: claim(1)}, t0)
	if n := m.World(t0).Nodes; len(n) != 1 || n[0].Allocatable.Get("cpu") != 1800 {
		t.Errorf("launched: %+v", n)
	}
	if got := m.Unseen(t0.Add(time.Hour), 15*time.Second); len(got) != 0 {
		t.Errorf("unseen: %v", got)
	}

	m = mirror()
	m.Assume(c, offering("m5.xlarge", 0.1))
	m.Confirm("c1", t0)
	if got := m.Unseen(t0.Add(14*time.Second), 15*time.Second); len(got) != 0 {
		t.Errorf("unseen too early: %v", got)
	}
	if got := m.Unseen(t0.Add(15*time.Second), 15*time.Second); !cmp.Equal(got, []string{"c1"}) {
		t.Errorf("unseen: %v", got)
	}
	m.Forget("c1")
	if n := m.World(t0).Nodes; len(n) != 0 {
		t.Errorf("forgotten, and still there: %+v", n)
	}
}

func TestDoomedClaimsTakeNothingMore(t *testing.T) {
	t.Parallel()
	m := mirror(cluster.UpsertClaim{Claim: claim(1)})
	m.Doom("c1")
	if n := m.World(t0).Nodes[0]; !n.BeingRemoved() {
		t.Error("a pod could be planned onto it")
	}
	if _, nodes := m.Usage("p"); nodes != 0 {
		t.Errorf("%d nodes count", nodes)
	}
}

func TestNominationEnds(t *testing.T) {
	t.Parallel()
	m := mirror(cluster.UpsertNode{Node: node(1)}, cluster.UpsertClaim{Claim: claim(1)})
	m.Nominate("n1", t0.Add(cluster.Nomination))
	if n := m.World(t0.Add(19 * time.Second)).Nodes[0]; !n.Nominated.After(t0.Add(19 * time.Second)) {
		t.Error("not nominated")
	}
	if n := m.World(t0.Add(20 * time.Second)).Nodes[0]; !n.Nominated.IsZero() {
		t.Error("nominated for ever")
	}
}

// B080: a shortage is over the moment it is over.
func TestClosedOfferings(t *testing.T) {
	t.Parallel()
	m := mirror(cluster.Offerings{Class: "default", List: []*model.Offering{offering("m5.large", 0.05), offering("m5.xlarge", 0.1)}})
	m.CloseOffering("m5.large/us-east-1a/spot", t0, t0.Add(3*time.Minute), "no capacity")
	before := m.World(t0.Add(time.Minute))
	if o := before.Offerings["default"]; o[0].Available || o[0].Unavailable == "" || !o[1].Available {
		t.Errorf("one minute later: %+v %+v", o[0], o[1])
	}
	if o := m.World(t0.Add(3 * time.Minute)).Offerings["default"]; !o[0].Available {
		t.Errorf("three minutes later: %+v", o[0])
	}
	if before.Offerings["default"][0].Available {
		t.Error("a world changed after it was handed out")
	}
}

// What is remembered of offerings reaches worlds, beside shortages, and is forgotten.
func TestHistoryOfOfferings(t *testing.T) {
	t.Parallel()
	m := mirror(cluster.Offerings{Class: "default", List: []*model.Offering{offering("m5.large", 0.05), offering("m5.xlarge", 0.1)}})
	m.RememberOffering("m5.large/us-east-1a/spot", cluster.Memory{Shortages: 2, Interruptions: 5, LastShortage: t0.Add(-time.Minute), LastInterruption: t0.Add(-time.Hour)})
	m.RememberOffering("m5.huge/us-east-1a/spot", cluster.Memory{Shortages: 1, Interruptions: 1}) // not sold any more
	m.CloseOffering("m5.large/us-east-1a/spot", t0, t0.Add(3*time.Minute), "no capacity")
	before := m.World(t0)
	if o := before.Offerings["default"]; o[0].Shortages != 2 || o[0].Interruptions != 5 || o[0].Available || o[1].Interruptions != 0 ||
		!o[0].LastShortage.Equal(t0.Add(-time.Minute)) || !o[0].LastInterruption.Equal(t0.Add(-time.Hour)) || !o[1].LastInterruption.IsZero() {
		t.Errorf("%+v %+v", o[0], o[1])
	}
	if o := m.World(t0.Add(3 * time.Minute)).Offerings["default"][0]; !o.Available || o.Interruptions != 5 {
		t.Errorf("open again: %+v", o)
	}
	m.RememberOffering("m5.large/us-east-1a/spot", cluster.Memory{})
	if o := m.World(t0.Add(3 * time.Minute)).Offerings["default"][0]; o.Shortages != 0 || o.Interruptions != 0 {
		t.Errorf("forgotten: %+v", o)
	}
	if before.Offerings["default"][0].Interruptions != 5 {
		t.Error("a world changed after it was handed out")
	}
}

func TestPodEvents(t *testing.T) {
	t.Parallel()
	at := t0.Add(time.Hour)
	m := mirror(cluster.UpsertNode{Node: node(1)}, cluster.UpsertPod{Pod: pod(1, "n1")})
	if !m.PodEvent("n1").IsZero() {
		t.Error("the first list counts: every restart would begin consolidateAfter anew")
	}
	m.Apply(cluster.Synced{}, t0)
	m.Apply(cluster.UpsertPod{Pod: pod(1, "n1")}, at)
	if !m.PodEvent("n1").IsZero() {
		t.Error("an update that moves nobody counts")
	}
	daemon := pod(3, "n1")
	daemon.Owner.Kind = "DaemonSet"
	m.Apply(cluster.UpsertPod{Pod: daemon}, at)
	if !m.PodEvent("n1").IsZero() {
		t.Error("a daemon's pod counts")
	}
	m.Apply(cluster.UpsertPod{Pod: pod(2, "n1")}, at)
	if !m.PodEvent("n1").Equal(at) {
		t.Errorf("a pod came: %v", m.PodEvent("n1"))
	}
	m.Apply(cluster.DeletePod{ID: "ns/p2"}, at.Add(time.Minute))
	if !m.PodEvent("n1").Equal(at.Add(time.Minute)) {
		t.Errorf("a pod went: %v", m.PodEvent("n1"))
	}
}

// What is built step by step equals what is built at once, and worlds handed out
// earlier stay as they were.
func TestIncrementalEqualsRebuilt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := mirror()
		nodes, claims, pods := map[int]*model.Node{}, map[int]*model.Claim{}, map[int]*model.Pod{}
		var kept *model.World
		var keptText string
		for range rapid.IntRange(1, 60).Draw(r, "changes") {
			i := rapid.IntRange(0, 4).Draw(r, "i")
			var c cluster.Change
			switch rapid.IntRange(0, 5).Draw(r, "kind") {
			case 0:
				n := node(i)
				n.ProviderID = rapid.SampledFrom([]string{"", pid(i), pid(i + 1)}).Draw(r, "pid")
				n.Ready = rapid.Bool().Draw(r, "ready")
				nodes[i], c = n, cluster.UpsertNode{Node: n}
			case 1:
				delete(nodes, i)
				c = cluster.DeleteNode{Name: "n" + strconv.Itoa(i)}
			case 2:
				k := claim(i)
				k.ProviderID = rapid.SampledFrom([]string{"", pid(i)}).Draw(r, "pid")
				claims[i], c = k, cluster.UpsertClaim{Claim: k}
			case 3:
				delete(claims, i)
				c = cluster.DeleteClaim{Name: "c" + strconv.Itoa(i)}
			case 4:
				p := pod(i, rapid.SampledFrom([]string{"", "n0", "n1", "n9"}).Draw(r, "node"))
				pods[i], c = p, cluster.UpsertPod{Pod: p}
			case 5:
				delete(pods, i)
				c = cluster.DeletePod{ID: "ns/p" + strconv.Itoa(i)}
			}
			m.Apply(c, t0)
			if rapid.Bool().Draw(r, "look") {
				w := m.World(t0)
				if kept == nil {
					kept, keptText = w, text(w)
				}
			}
		}
		fresh := mirror()
		for _, p := range pods {
			fresh.Apply(cluster.UpsertPod{Pod: p}, t0)
		}
		for _, c := range claims {
			fresh.Apply(cluster.UpsertClaim{Claim: c}, t0)
		}
		for _, n := range nodes {
			fresh.Apply(cluster.UpsertNode{Node: n}, t0)
		}
		if d := cmp.Diff(fresh.World(t0), m.World(t0), equal); d != "" {
			r.Fatalf("(-rebuilt +incremental)\n%s", d)
		}
		if kept != nil && text(kept) != keptText {
			r.Fatalf("a world changed after it was handed out:\n%s\n%s", keptText, text(kept))
		}
	})
}

func text(w *model.World) string {
	s := ""
	for _, n := range w.Nodes {
		s += fmt.Sprintf("%s %v %v:", n.ID(), n.Ready, n.Claim != nil)
		for _, p := range n.Pods {
			s += " " + p.Name
		}
		s += "\n"
	}
	for _, p := range w.Pods {
		s += p.Name + "\n"
	}
	return s
}

func large(b *testing.B) *cluster.Mirror {
	m := cluster.New(cluster.Options{})
	m.Apply(cluster.Offerings{Class: "default", List: []*model.Offering{offering("m5.large", 0.05)}}, t0)
	for i := range 5000 {
		m.Apply(cluster.UpsertClaim{Claim: claim(i)}, t0)
		m.Apply(cluster.UpsertNode{Node: node(i)}, t0)
		for j := range 20 {
			m.Apply(cluster.UpsertPod{Pod: pod(i*20+j, "n"+strconv.Itoa(i))}, t0)
		}
	}
	if w := m.World(t0); len(w.Nodes) != 5000 || len(w.Nodes[0].Pods) != 20 {
		b.Fatalf("%d nodes", len(w.Nodes))
	}
	return m
}

// BenchmarkWorld is a snapshot of 5,000 nodes with 100,000 pods after one pod, or ten
// of them, changed; and the first one.
func BenchmarkWorld(b *testing.B) {
	for _, touched := range []int{0, 1, 10, 1000} {
		b.Run(fmt.Sprintf("touched=%d", touched), func(b *testing.B) {
			m := large(b)
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				for j := range touched {
					i := (k*touched + j) % 100000
					p := pod(i, "n"+strconv.Itoa(i/20))
					p.RestartCount = int32(k)
					m.Apply(cluster.UpsertPod{Pod: p}, t0)
				}
				m.World(t0)
			}
		})
	}
}

// What the account remembers closes an offering too, and says what comes after; the longer of two reasons holds.
func TestMemoryClosesOfferings(t *testing.T) {
	t.Parallel()
	m := mirror(cluster.Offerings{Class: "default", List: []*model.Offering{offering("m5.large", 0.05)}})
	const key = "m5.large/us-east-1a/spot"
	m.CloseOffering(key, t0, t0.Add(time.Minute), "quota")
	m.RememberOffering(key, cluster.Memory{Shortages: 1, Since: t0, Until: t0.Add(3 * time.Minute), Why: "no capacity"})
	if o := m.World(t0.Add(2 * time.Minute)).Offerings["default"][0]; o.Available || !strings.Contains(o.Unavailable, "then one is tried: no capacity") {
		t.Errorf("two minutes later: available %t: %s", o.Available, o.Unavailable)
	}
	if until := m.Closed(t0)[key]; !until.Equal(t0.Add(3 * time.Minute)) {
		t.Errorf("closed until %v", until)
	}
	if o := m.World(t0.Add(3 * time.Minute)).Offerings["default"][0]; !o.Available {
		t.Errorf("three minutes later: %s", o.Unavailable)
	}
	m.RememberOffering(key, cluster.Memory{Shortages: 1, Since: t0, Until: t0.Add(9 * time.Minute), Probing: true, Why: "no capacity"})
	if o := m.World(t0.Add(4 * time.Minute)).Offerings["default"][0]; o.Available || !strings.Contains(o.Unavailable, "under way") || !m.Probing(key) {
		t.Errorf("while it is tried: available %t: %s", o.Available, o.Unavailable)
	}
}
