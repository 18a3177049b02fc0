package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// app selects the pods with a label app.
func app(name string) model.Selector {
	return model.Selector{ID: "default/app=" + name, Matches: func(p *model.Pod) bool { return p.Namespace == "default" && p.Labels["app"] == name }}
}

func spread(key string, skew int64, s model.Selector) func(*model.Pod) {
	return func(p *model.Pod) {
		topo(p).Spreads = append(topo(p).Spreads, model.Spread{Key: key, MaxSkew: skew, Selector: s, HonorAffinity: true})
	}
}

func topo(p *model.Pod) *model.Topology {
	if p.Topology == nil {
		p.Topology = &model.Topology{}
	}
	return p.Topology
}

func away(key string, s model.Selector) func(*model.Pod) {
	return func(p *model.Pod) {
		topo(p).AntiAffinity = append(topo(p).AntiAffinity, model.PodTerm{Key: key, Selector: s})
	}
}

func near(key string, s model.Selector) func(*model.Pod) {
	return func(p *model.Pod) {
		topo(p).Affinity = append(topo(p).Affinity, model.PodTerm{Key: key, Selector: s})
	}
}

func port(n int32) func(*model.Pod) {
	return func(p *model.Pod) {
		topo(p).HostPorts = append(topo(p).HostPorts, model.HostPort{Protocol: "TCP", Port: n})
	}
}

func is(name string) func(*model.Pod) { return mt.Labelled(map[string]string{"app": name}) }

// perZone counts the pods of new nodes by zone, of existing ones by name.
func perZone(r *engine.Result) map[string]int {
	out := map[string]int{}
	for _, n := range r.New {
		out[n.Offering.Zone] += len(n.Pods)
	}
	for _, p := range r.Placements {
		out[p.Node.Name] += len(p.Pods)
	}
	return out
}

func counts(m map[string]int) []int {
	var out []int
	for _, n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func zoned(name, zone string, pods ...*model.Pod) *model.Node {
	return mt.Node(name, 64000, 256<<10, map[string]string{model.LabelZone: zone}, mt.Running(pods...))
}

func TestTopology(t *testing.T) {
	t.Parallel()
	const zone = model.LabelZone
	a, b, c := "us-east-1a", "us-east-1b", "us-east-1c"
	plain := func() *model.Pool { return mt.Pool("p", mt.Types("m5.large", "m5.xlarge", "m5.4xlarge")) }
	full := func(n *model.Node) *model.Node { n.Allocatable = n.Used(); return n }
	for _, tc := range []struct {
		name    string
		pods    []*model.Pod
		nodes   []*model.Node
		pool    *model.Pool
		perZone map[string]int // exact, or
		counts  []int          // sorted
		left    int
		filter  model.Filter
		nodesN  int // new nodes, 0 = any
	}{
		{name: "spread over zones", pods: mt.Pods(7, "w", 100, 100, is("w"), spread(zone, 1, app("w"))), counts: []int{2, 2, 3}},
		{name: "spread counts what is running", pods: mt.Pods(3, "w", 100, 100, is("w"), spread(zone, 1, app("w"))),
			nodes: []*model.Node{full(zoned("n1", a, mt.Pods(2, "r", 100, 100, is("w"))...))}, perZone: map[string]int{b: 2, c: 1}},
		{name: "B011 an impossible zone is no domain", pods: mt.Pods(6, "w", 100, 0, is("w"), spread(zone, 1, app("w"))), counts: []int{2, 2, 2}},
		{name: "B013 pods on no node do not count", pods: mt.Pods(4, "q", 100, 0, is("q"), spread(zone, 1, app("q"))), counts: []int{1, 1, 2}},
		{name: "B014 a selector that picks nothing", pods: mt.Pods(1, "n", 100, 0, spread(zone, 1, model.Selector{ID: "nothing"})), counts: []int{1}},
		{name: "B010 the zone of a volume does not change the counting", pool: mt.Pool("p", mt.Types("m5.large")),
			nodes: []*model.Node{full(zoned("n1", a, mt.Pods(1, "ra", 100, 100, is("st"))...)), full(zoned("n2", b, mt.Pods(2, "rb", 100, 100, is("st"))...)), full(zoned("n3", c, mt.Pods(1, "rc", 100, 100, is("st"))...))},
			pods: mt.Pods(1, "st", 100, 100, is("st"), func(p *model.Pod) {
				topo(p).Spreads = []model.Spread{{Key: zone, MaxSkew: 1, MinDomains: 3, Selector: app("st"), HonorAffinity: true}}
				topo(p).VolumeTerms = []require.Set{require.NewSet(mt.Zones(a))}
			}), perZone: map[string]int{a: 1}},
		{name: "B016 nodes that the pod may not use do not count", pool: mt.Pool("new", mt.Types("m5.large"), mt.Zones(a, b)),
			nodes: []*model.Node{mt.Node("old-1", 64000, 64000, map[string]string{zone: a, model.LabelPool: "old"}, mt.Running(mt.Pods(3, "r", 100, 0, is("k"))...))},
			pods:  mt.Pods(2, "k", 100, 0, is("k"), mt.Requires(require.Must(model.LabelPool, require.In, "new")), spread(zone, 1, app("k"))), counts: []int{1, 1}},
		{name: "spread over hosts", pods: mt.Pods(5, "h", 100, 0, is("h"), spread(model.LabelHostname, 2, app("h"))), nodesN: 3},
		{name: "anti-affinity between hosts", pods: mt.Pods(4, "x", 100, 0, is("x"), away(model.LabelHostname, app("x"))), nodesN: 4},
		{name: "anti-affinity between zones", pods: mt.Pods(5, "x", 100, 0, is("x"), away(zone, app("x"))), counts: []int{1, 1, 1}, left: 2, filter: model.FilterAffinity},
		{name: "anti-affinity of a running pod is symmetric", nodes: []*model.Node{zoned("n1", a, mt.Pod("guard", 100, 0, is("g"), away(zone, app("y"))))},
			pods: mt.Pods(4, "y", 100, 0, is("y")), perZone: nil, counts: nil},
		{name: "affinity to a running pod in a zone", nodes: []*model.Node{full(zoned("n1", b, mt.Pod("db", 100, 0, is("db"))))},
			pods: mt.Pods(3, "c", 100, 0, is("c"), near(zone, app("db"))), perZone: map[string]int{b: 3}},
		{name: "affinity to its own kind in a zone", pods: mt.Pods(5, "c", 100, 0, is("c"), near(zone, app("c"))), counts: []int{5}},
		{name: "affinity to nobody", pods: mt.Pods(2, "c", 100, 0, is("c"), near(zone, app("nobody"))), left: 2, filter: model.FilterAffinity},
		{name: "affinity to pods that wait too", pods: slices.Concat(mt.Pods(2, "c", 100, 0, is("c"), near(zone, app("db"))), mt.Pods(1, "db", 100, 0, is("db"))), counts: []int{3}},
		{name: "affinity to its own kind on a host", pods: mt.Pods(6, "c", 500, 0, is("c"), near(model.LabelHostname, app("c"))), nodesN: 1},
		{name: "affinity on a host that no machine can keep", pods: mt.Pods(40, "c", 500, 0, is("c"), near(model.LabelHostname, app("c"))), nodesN: 1, left: 9, filter: model.FilterAffinity},
		{name: "guests share a host with those they want to be near", pods: slices.Concat(mt.Pods(4, "side", 500, 0, is("side"), near(model.LabelHostname, app("db"))), mt.Pods(2, "db", 1000, 0, is("db"), away(model.LabelHostname, app("db")))), nodesN: 2},
		{name: "host affinity to a running pod", nodes: []*model.Node{mt.Node("n1", 4000, 8000, map[string]string{zone: a}, mt.Running(mt.Pod("db", 100, 0, is("db"))))},
			pods: mt.Pods(5, "c", 1000, 0, is("c"), near(model.LabelHostname, app("db"))), perZone: map[string]int{"n1": 3}, left: 2, filter: model.FilterAffinity},
		{name: "host ports", pods: mt.Pods(3, "web", 100, 0, port(80)), nodesN: 3},
		{name: "host ports on existing nodes", nodes: []*model.Node{mt.Node("n1", 4000, 8000, nil, mt.Running(mt.Pod("r", 100, 0, port(80))))}, pods: mt.Pods(1, "web", 100, 0, port(80)), nodesN: 1},
		{name: "volumes in three zones (B025)", pods: mt.Pods(1, "multi", 2000, 0, func(p *model.Pod) {
			topo(p).VolumeTerms = []require.Set{require.NewSet(mt.Zones(a), mt.Zones(b))}
		}), left: 1, filter: model.FilterRequirements},
		{name: "a spread over capacity types", pods: mt.Pods(4, "w", 100, 0, is("w"), spread(model.LabelCapacityType, 1, app("w"))), nodesN: 2},
		{name: "a spread over a label nobody has", pods: mt.Pods(1, "w", 100, 0, is("w"), spread("rack", 1, app("w"))), left: 1, filter: model.FilterTopology},
		{name: "a spread over two keys", pods: mt.Pods(6, "w", 100, 0, is("w"), spread(zone, 1, app("w")), spread(model.LabelHostname, 1, app("w"))), counts: []int{2, 2, 2}, nodesN: 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pool := tc.pool
			if pool == nil {
				pool = plain()
			}
			w := world(tc.pods, pool)
			w.Nodes = tc.nodes
			r := place(t, w, nil)
			if len(r.Unplaced) != tc.left {
				t.Fatalf("%d unplaced, want %d: %+v", len(r.Unplaced), tc.left, r.Unplaced)
			}
			if tc.left > 0 && r.Unplaced[0].Reasons[0].Filter != tc.filter {
				t.Errorf("reason %+v, want filter %s", r.Unplaced[0].Reasons[0], tc.filter)
			}
			if tc.perZone != nil {
				if diff := cmp.Diff(tc.perZone, perZone(r)); diff != "" {
					t.Error(diff)
				}
			}
			if tc.counts != nil {
				if diff := cmp.Diff(tc.counts, counts(perZone(r))); diff != "" {
					t.Error(diff)
				}
			}
			if tc.nodesN > 0 && len(r.New) != tc.nodesN {
				t.Errorf("%d new nodes, want %d", len(r.New), tc.nodesN)
			}
		})
	}
}

// TestRandomWorldsPassTheCheck draws clusters that use everything at once; place
// fails the test where the check finds a fault.
func TestRandomWorldsPassTheCheck(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			place(t, randomWorld(rand.New(rand.NewPCG(seed, 1))), nil)
		})
	}
}

func randomWorld(r *rand.Rand) *model.World {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	apps := []string{"a", "b", "c", "d", "e"}
	var pods []*model.Pod
	for i := range 4 + r.IntN(5) {
		name := apps[r.IntN(len(apps))]
		opts := []func(*model.Pod){is(name)}
		for range r.IntN(3) {
			other := app(apps[r.IntN(len(apps))])
			key := pick(model.LabelZone, model.LabelHostname, model.LabelCapacityType)
			switch r.IntN(6) {
			case 0, 1:
				opts = append(opts, spread(key, int64(1+r.IntN(2)), app(name)))
			case 2:
				opts = append(opts, away(key, other))
			case 3:
				opts = append(opts, near(key, other))
			case 4:
				opts = append(opts, port(int32(80+r.IntN(2))))
			case 5:
				opts = append(opts, mt.Requires(mt.Zones(pick("us-east-1a", "us-east-1b"))))
			}
		}
		pods = append(pods, mt.Pods(1+r.IntN(12), fmt.Sprintf("p%d", i), int64(50+r.IntN(3000)), int64(r.IntN(8000)), opts...)...)
	}
	w := world(pods, weight(int32(r.IntN(3)), mt.Pool("x", mt.Types("m5.large", "m5.2xlarge", "c5.4xlarge"))), weight(int32(r.IntN(3)), limited(mt.Pool("y", mt.Types("m5.xlarge", "r5.xlarge")), map[string]int64{"cpu": 16000}, -1)))
	for i := range r.IntN(4) {
		n := zoned(fmt.Sprintf("n%d", i), pick("us-east-1a", "us-east-1b", "us-east-1c"), mt.Pods(r.IntN(3), fmt.Sprintf("r%d", i), 100, 100, is(apps[r.IntN(len(apps))]), away(model.LabelHostname, app("e")))...)
		n.Labels[model.LabelCapacityType] = pick(model.Spot, model.OnDemand)
		n.Allocatable.Base[0] = int64(1000 * r.IntN(8))
		w.Nodes = append(w.Nodes, n)
	}
	if r.IntN(2) == 0 {
		w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("log", 100, 100)}
	}
	return w
}

// A port that a daemon pod will have on every new node is named, not the offerings.
func TestPortOfADaemonSet(t *testing.T) {
	t.Parallel()
	w := world(mt.Pods(1, "web", 100, 0, port(80)), mt.Pool("p", mt.Types("m5.large")))
	w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("proxy", 100, 0, port(80))}
	r := place(t, w, nil)
	if len(r.New) != 0 || len(r.Unplaced) != 1 {
		t.Fatalf("bought %v, %d unplaced", bought(r), len(r.Unplaced))
	}
	if got := r.Unplaced[0].Reasons[0]; got.Filter != model.FilterPorts || !strings.Contains(got.Message, "proxy") {
		t.Errorf("got %+v", got)
	}
}

// A daemon pod has its ports on the nodes where it runs, and on no others.
func TestPortOfADaemonSetOnSomeNodes(t *testing.T) {
	t.Parallel()
	w := world(slices.Concat(mt.Pods(2, "web", 100, 0, port(80)), mt.Pods(1, "plain", 100, 0, is("plain"))),
		mt.Pool("p", mt.Types("m5.large", "m6g.large"), mt.CapacityType(model.OnDemand)))
	w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("proxy", 100, 0, port(80), mt.Requires(own(model.LabelArch, require.In, "arm64")))}
	r := place(t, w, nil)
	if d := cmp.Diff([]string{"p m5.large", "p m5.large"}, bought(r)); d != "" || len(r.Unplaced) > 0 {
		t.Errorf("bought (-want +got):\n%s%+v", d, r.Unplaced)
	}
	for _, n := range r.New {
		for _, a := range n.Alternatives {
			if a.Type.Name != "m5.large" {
				t.Errorf("alternative %s has a daemon pod on the port", a.Key())
			}
		}
	}
}

// A node that is still starting keeps the ports of the daemon pods that will come.
func TestPortOfADaemonPodThatIsStillToCome(t *testing.T) {
	t.Parallel()
	proxy := mt.DaemonSet("proxy", 100, 0, port(80), mt.Requires(own("edge", require.In, "true")))
	running := mt.Pod("proxy-x", 100, 0, func(p *model.Pod) { p.Owner = proxy.Pod.Owner })
	for name, c := range map[string]struct {
		node *model.Node
		want string
	}{
		"still to come":              {mt.Node("n1", 4000, 8000, map[string]string{"edge": "true"}), ""},
		"comes to other nodes":       {mt.Node("n1", 4000, 8000, map[string]string{"edge": "false"}), "n1"},
		"is there, and has moved on": {mt.Node("n1", 4000, 8000, map[string]string{"edge": "true"}, mt.Running(running)), "n1"},
	} {
		w := world(mt.Pods(1, "web", 100, 0, port(80)), mt.Pool("p", mt.Types("m5.large")))
		w.Nodes, w.DaemonSets = []*model.Node{c.node}, []*model.DaemonSet{proxy}
		r := place(t, w, nil)
		got := ""
		for _, pl := range r.Placements {
			got += pl.Node.Name
		}
		if got != c.want || len(r.Unplaced) > 0 {
			t.Errorf("%s: on %q, want %q; %+v", name, got, c.want, r.Unplaced)
		}
	}
}
