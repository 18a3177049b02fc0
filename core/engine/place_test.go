package engine_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// world puts pods, pools and the embedded catalogue together.
func world(pods []*model.Pod, pools ...*model.Pool) *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	return &model.World{Now: mt.Now, Pods: pods, Pools: pools, NodeClasses: map[string]*model.NodeClass{mt.Class: class},
		Offerings: map[string][]*model.Offering{mt.Class: catalogue.Embedded().Offerings(class, nil, catalogue.Options{})}}
}

// place runs the engine and has the plan checked.
func place(t *testing.T, w *model.World, prices *model.Prices) *engine.Result {
	t.Helper()
	r := engine.Place(w, prices)
	for _, err := range engine.Check(w, &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}) {
		t.Errorf("check: %v", err)
	}
	if usd := total(r); usd < r.Bound-1e-9 {
		t.Errorf("the plan costs %v, below the bound %v", usd, r.Bound)
	}
	return r
}

func total(r *engine.Result) float64 {
	sum := 0.0
	for _, n := range r.New {
		sum += n.Offering.USDPerHour
	}
	return sum
}

func bought(r *engine.Result) []string {
	var out []string
	for _, n := range r.New {
		out = append(out, n.Pool.Name+" "+n.Offering.Type.Name)
	}
	slices.Sort(out)
	return out
}

func own(key string, op require.Operator, values ...string) require.Requirement {
	return require.Must(key, op, values...)
}

func TestSeedIsCheap(t *testing.T) {
	t.Parallel()
	pool := mt.Pool("default-amd", own(model.LabelArch, require.In, "amd64"), own(model.LabelOS, require.In, "linux"), mt.CapacityType(model.OnDemand),
		own("karpenter.k8s.aws/instance-category", require.In, "c", "m"), own("karpenter.k8s.aws/instance-cpu", require.In, "8", "16", "32", "64"),
		own("karpenter.k8s.aws/instance-cpu-manufacturer", require.In, "amd"), own("karpenter.k8s.aws/instance-generation", require.In, "6", "7"))
	w := world(mt.Pods(10, "inflate", 2000, 4096), pool)
	for _, fee := range []float64{0, 0.0222} {
		r := place(t, w, &model.Prices{ByPool: map[string]model.PoolPrices{"default-amd": {FeePerNode: fee}}})
		if len(r.Unplaced) > 0 || total(r) > 1.05 {
			t.Errorf("fee %v: %d unplaced, %.4f USD/h on %v, want all for at most 1.05", fee, len(r.Unplaced), total(r), bought(r))
		}
	}
	tiny := mt.Pool("tiny", mt.Types("t3.nano"))
	r := place(t, world(w.Pods, tiny), nil)
	if len(r.Unplaced) != 10 || len(r.New) != 0 {
		t.Fatalf("%d unplaced, %d nodes; a pool that cannot hold them places none", len(r.Unplaced), len(r.New))
	}
	want := model.Reason{Pool: "tiny", Filter: model.FilterResources, TypesLeft: 1, Nearest: "t3.nano",
		Message: "needs 2 cpu, the nearest allowed type t3.nano offers 1930m",
		Trail:   []model.Passed{{Filter: model.FilterPool, Types: 1}, {Filter: model.FilterTaints, Types: 1}, {Filter: model.FilterRequirements, Types: 1}, {Filter: model.FilterResources}}}
	if diff := cmp.Diff([]model.Reason{want}, r.Unplaced[0].Reasons); diff != "" {
		t.Error(diff)
	}
}

// TestCases replays reported faults; the names are those of the case list.
func TestCases(t *testing.T) {
	t.Parallel()
	tier := own("tier", require.NotIn, "gold")
	m5 := mt.Types("m5.large", "m5.xlarge")
	od := mt.CapacityType(model.OnDemand)
	for _, c := range []struct {
		name    string
		pods    []*model.Pod
		pools   []*model.Pool
		daemons []*model.DaemonSet
		nodes   []*model.Node
		bought  []string
		reasons []string // "pool filter: text" of the first unplaced pod
		check   func(t *testing.T, r *engine.Result)
	}{
		{name: "B001 NotIn on a label the pool never defines", pods: mt.Pods(1, "web", 1000, 0, mt.Requires(tier)),
			pools: []*model.Pool{mt.Pool("plain", m5, od)}, daemons: []*model.DaemonSet{mt.DaemonSet("tailer", 500, 0, mt.Requires(tier))},
			bought: []string{"plain m5.large"}, check: func(t *testing.T, r *engine.Result) {
				if got := r.New[0].Daemons.Get("cpu"); got != 500 {
					t.Errorf("overhead %dm, want 500m", got)
				}
			}},
		{name: "B002 a label of one's own must be offered", pods: mt.Pods(1, "job", 1000, 0, mt.Requires(own("team", require.In, "red"))),
			pools: []*model.Pool{mt.Pool("p1", m5, od), mt.Pool("p2", m5, od, own("team", require.Exists))}, bought: []string{"p2 m5.large"},
			check: func(t *testing.T, r *engine.Result) {
				if got := r.New[0].Labels["team"]; got != "red" {
					t.Errorf("label team is %q, want red", got)
				}
			}},
		{name: "B002 alone", pods: mt.Pods(1, "job", 1000, 0, mt.Requires(own("team", require.In, "red"))), pools: []*model.Pool{mt.Pool("p1", m5, od)},
			reasons: []string{`p1 requirements: label "team" is not offered`}},
		{name: "B004 a real node's labels are final", pods: mt.Pods(1, "big", 2000, 0, mt.Requires(own("karpenter.k8s.aws/instance-size", require.In, "24xlarge"))),
			nodes: []*model.Node{mt.Node("n1", 8000, 65536, map[string]string{model.LabelInstanceType: "m5.4xlarge"})},
			pools: []*model.Pool{mt.Pool("p", mt.Types("m5.24xlarge"), od)}, bought: []string{"p m5.24xlarge"}},
		{name: "B007 DoesNotExist goes with NotIn, not with Exists", pods: mt.Pods(1, "cpuonly", 1000, 0, mt.Requires(own("gpu-kind", require.DoesNotExist))),
			pools: []*model.Pool{mt.Pool("pa", m5, od, own("gpu-kind", require.NotIn, "a10"))}, bought: []string{"pa m5.large"},
			check: func(t *testing.T, r *engine.Result) {
				if v, ok := r.New[0].Labels["gpu-kind"]; ok {
					t.Errorf("the node carries gpu-kind=%s, want no such label", v)
				}
			}},
		{name: "B007 with Exists", pods: mt.Pods(1, "cpuonly", 1000, 0, mt.Requires(own("gpu-kind", require.DoesNotExist))),
			pools:   []*model.Pool{mt.Pool("pb", m5, od, own("gpu-kind", require.Exists))},
			reasons: []string{"pb requirements: asks for gpu-kind DoesNotExist, offered is gpu-kind Exists"}},
		{name: "B008 Exists does not reserve a pool", pods: mt.Pods(1, "plain", 1000, 0), pools: []*model.Pool{mt.Pool("gpu", mt.Types("g4dn.xlarge"), od, own("node.acme.io/gpu", require.Exists))},
			bought: []string{"gpu g4dn.xlarge"}, check: func(t *testing.T, r *engine.Result) {
				if got := r.New[0].Labels["node.acme.io/gpu"]; got != "0" {
					t.Errorf("generated value %q, want 0", got)
				}
			}},
		{name: "B031 either term of a daemonset counts", pods: mt.Pods(1, "app", 1600, 0), pools: []*model.Pool{mt.Pool("general", m5, od)},
			daemons: []*model.DaemonSet{mt.DaemonSet("sec", 500, 0, mt.Requires(own("site", require.In, "edge")), mt.Requires(own(model.LabelPool, require.In, "general")))},
			bought:  []string{"general m5.xlarge"}},
		{name: "B032 overhead depends on the type", pods: mt.Pods(1, "app", 1000, 0), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large", "m5.xlarge", "m5.2xlarge"), od)},
			daemons: []*model.DaemonSet{mt.DaemonSet("probe", 1500, 0, mt.Requires(mt.Types("m5.2xlarge")))}, bought: []string{"p m5.large"}},
		{name: "B032 on the type", pods: mt.Pods(1, "app", 6500, 0), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.2xlarge"), od)},
			daemons: []*model.DaemonSet{mt.DaemonSet("probe", 1500, 0, mt.Requires(mt.Types("m5.2xlarge")))},
			reasons: []string{"p daemonsets: needs 6500m cpu, the nearest allowed type m5.2xlarge offers 6410m after 1500m of daemonsets"}},
		{name: "B040 one broken pool does not stop the rest", pods: mt.Pods(1, "a", 1000, 0), bought: []string{"fine m5.large"},
			pools: []*model.Pool{weight(90, broken("broken", `node class "missing" does not exist`)), weight(80, broken("nosubnet", "node class has no subnets")), weight(1, mt.Pool("fine", m5, od))}},
		{name: "B083 bare metal comes last", pods: mt.Pods(1, "p", 10000, 0), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.metal", "c6i.metal", "m7i.metal-24xl", "m7i.metal-48xl", "m5.4xlarge"), od)},
			bought: []string{"p m5.4xlarge"}, check: func(t *testing.T, r *engine.Result) {
				for _, a := range r.New[0].Alternatives {
					if a.Type.Name != "m5.4xlarge" {
						t.Errorf("alternative %s, want no other type", a.Key())
					}
				}
			}},
		{name: "B083 unless nothing else will do", pods: mt.Pods(1, "p", 60000, 0), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.metal", "m5.4xlarge"), od)}, bought: []string{"p m5.metal"}},
		{name: "a mistyped label is guessed", pods: mt.Pods(1, "p", 100, 0, mt.Requires(own("taem", require.In, "red"))), pools: []*model.Pool{mt.Pool("p", m5, od, own("team", require.Exists))},
			reasons: []string{`p requirements: label "taem" is not offered (did you mean "team"?)`}},
		{name: "taints", pods: mt.Pods(1, "p", 100, 0), pools: []*model.Pool{tainted(mt.Pool("p", m5, od))}, reasons: []string{"p taints: does not tolerate taint dedicated=gpu:NoSchedule"}},
		{name: "any of several terms", pods: mt.Pods(1, "p", 100, 0, mt.Requires(mt.Zones("nowhere")), mt.Requires(mt.Zones("us-east-1b"))), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od)}, bought: []string{"p m5.large"}},
		{name: "labels of one's own that exclude each other need two nodes", pods: slices.Concat(mt.Pods(1, "r", 100, 0, mt.Requires(own("team", require.In, "red"))), mt.Pods(1, "b", 100, 0, mt.Requires(own("team", require.In, "blue")))),
			pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od, own("team", require.Exists))}, bought: []string{"p m5.large", "p m5.large"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(c.pods, c.pools...)
			w.DaemonSets, w.Nodes = c.daemons, c.nodes
			r := place(t, w, nil)
			if diff := cmp.Diff(c.bought, bought(r)); diff != "" {
				t.Errorf("bought: %s", diff)
			}
			var reasons []string
			if len(r.Unplaced) > 0 {
				for _, x := range r.Unplaced[0].Reasons {
					reasons = append(reasons, x.Pool+" "+string(x.Filter)+": "+x.Message)
				}
			}
			if diff := cmp.Diff(c.reasons, reasons); diff != "" {
				t.Errorf("reasons: %s", diff)
			}
			if c.check != nil && !t.Failed() {
				c.check(t, r)
			}
		})
	}
}

func weight(w int32, p *model.Pool) *model.Pool { p.Weight = w; return p }

func broken(name, why string) *model.Pool {
	p := mt.Pool(name)
	p.Unusable = why
	return p
}

func tainted(p *model.Pool) *model.Pool {
	p.Taints = []model.Taint{{Key: "dedicated", Value: "gpu", Effect: model.NoSchedule}}
	return p
}

func limited(p *model.Pool, resources map[string]int64, nodes int64) *model.Pool {
	p.Limits.Resources = resources
	if nodes >= 0 {
		p.Limits.Nodes = &nodes
	}
	return p
}

func TestWeights(t *testing.T) {
	t.Parallel()
	od := mt.CapacityType(model.OnDemand)
	heavy, light := weight(50, mt.Pool("heavy", mt.Types("m5.xlarge"), od)), weight(10, mt.Pool("light", mt.Types("m5.large"), od))
	r := place(t, world(mt.Pods(1, "p", 100, 0), light, heavy), nil)
	if diff := cmp.Diff([]string{"heavy m5.xlarge"}, bought(r)); diff != "" {
		t.Errorf("the heavier pool comes first, whatever it costs: %s", diff)
	}
	a, z := mt.Pool("a", mt.Types("m5.large"), od), mt.Pool("z", mt.Types("m5.large"), od)
	r = place(t, world(mt.Pods(1, "p", 100, 0), a, z), nil)
	if diff := cmp.Diff([]string{"z m5.large"}, bought(r)); diff != "" {
		t.Errorf("equal weight and price: the later name comes first: %s", diff)
	}
	r = place(t, world(mt.Pods(4, "p", 3500, 0), limited(weight(50, mt.Pool("heavy", mt.Types("m5.xlarge"), od)), map[string]int64{"cpu": 8000}, -1), weight(10, mt.Pool("light", mt.Types("c5.xlarge"), od))), nil)
	if diff := cmp.Diff([]string{"heavy m5.xlarge", "heavy m5.xlarge", "light c5.xlarge", "light c5.xlarge"}, bought(r)); diff != "" {
		t.Errorf("what exceeds the limit goes to the next pool: %s", diff)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	od := mt.CapacityType(model.OnDemand)
	claim := func(name string, cpu int64) *model.Node {
		n := mt.Node(name, cpu, 15155, map[string]string{model.LabelInstanceType: "m5.xlarge"}, mt.Managed("p"))
		n.Pods = mt.Pods(1, "busy-"+name, cpu, 0)
		return n
	}
	unregistered := func(name string) *model.Node {
		n := claim(name, 4000)
		n.Claim.Conditions = []model.Condition{{Type: model.CondLaunched, Status: "True"}}
		n.Name, n.UID, n.Labels = "", "", map[string]string{model.LabelPool: "p"}
		return n
	}
	for _, c := range []struct {
		name   string
		pool   *model.Pool
		nodes  []*model.Node
		pods   []*model.Pod
		bought int
		reason string
	}{
		{name: "B037 launched but unregistered claims count", pool: limited(mt.Pool("p", mt.Types("m5.xlarge"), od), map[string]int64{"cpu": 8000}, -1),
			nodes: []*model.Node{unregistered("c1"), unregistered("c2")}, pods: mt.Pods(1, "p3", 3000, 0), reason: "every instance type left exceeds the pool's limit: 0 cpu of 8 is left, m5.xlarge has 4"},
		{name: "B038 a limit below the usage stops creation only", pool: limited(mt.Pool("p", mt.Types("m5.xlarge"), od), map[string]int64{"cpu": 4000}, -1),
			nodes: []*model.Node{claim("n1", 4000), claim("n2", 4000), claim("n3", 4000), claim("n4", 4000)}, pods: mt.Pods(1, "q", 3000, 0), reason: "0 cpu of 4 is left"},
		{name: "the limit of nodes holds within one pass", pool: limited(mt.Pool("p", mt.Types("m5.xlarge"), od), nil, 2), pods: mt.Pods(5, "q", 3000, 0), bought: 2, reason: "the limit of nodes is reached"},
		{name: "the limit of cpu holds within one pass, to the last node", pool: limited(mt.Pool("p", mt.Types("m5.xlarge", "m5.large"), od), map[string]int64{"cpu": 10000}, -1), pods: mt.Pods(9, "q", 1900, 0), bought: 5,
			reason: "0 cpu of 10 is left"},
		{name: "a node that goes no longer counts", pool: limited(mt.Pool("p", mt.Types("m5.xlarge"), od), map[string]int64{"cpu": 4000}, -1),
			nodes: []*model.Node{going(claim("n1", 4000))}, pods: mt.Pods(1, "q", 3000, 0), bought: 1},
		{name: "a limit on something no machine has limits nothing", pool: limited(mt.Pool("p", mt.Types("m5.xlarge"), od), map[string]int64{"example.com/foo": 0}, -1), pods: mt.Pods(1, "q", 3000, 0), bought: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(c.pods, c.pool)
			w.Nodes = c.nodes
			r := place(t, w, nil)
			if len(r.New) != c.bought {
				t.Errorf("bought %v, want %d nodes", bought(r), c.bought)
			}
			if (c.reason != "") != (len(r.Unplaced) > 0) {
				t.Fatalf("%d unplaced, want a reason %q", len(r.Unplaced), c.reason)
			}
			if c.reason != "" && (r.Unplaced[0].Reasons[0].Filter != model.FilterLimits || !strings.Contains(r.Unplaced[0].Reasons[0].Message, c.reason)) {
				t.Errorf("reason %+v, want limits: %s", r.Unplaced[0].Reasons[0], c.reason)
			}
		})
	}
}

func going(n *model.Node) *model.Node {
	at := mt.Now
	n.Claim.Deleting = &at
	return n
}

func TestMinValues(t *testing.T) {
	t.Parallel()
	flexible := func(key string, n int, op require.Operator, values ...string) require.Requirement {
		r := own(key, op, values...)
		r.MinValues = n
		return r
	}
	distinctOf := func(n *model.NewNode, key string) int {
		seen := map[string]bool{}
		for _, o := range append([]*model.Offering{n.Offering}, n.Alternatives...) {
			v, _ := o.Label(key)
			seen[v] = true
		}
		return len(seen)
	}
	family := "karpenter.k8s.aws/instance-family"
	r := place(t, world(mt.Pods(30, "p", 900, 900), mt.Pool("p", mt.CapacityType(model.OnDemand), flexible(family, 5, require.Exists))), nil)
	if len(r.Unplaced) > 0 {
		t.Fatalf("%v", r.Unplaced[0].Reasons)
	}
	for _, n := range r.New {
		if got := distinctOf(n, family); got < 5 || len(n.Alternatives) >= 60 {
			t.Errorf("%s names %d families in %d offers, want at least 5 in at most 60", n.Name, got, len(n.Alternatives)+1)
		}
	}
	zones := flexible(model.LabelZone, 3, require.Exists)
	closed := world(mt.Pods(1, "a", 1000, 0), weight(50, mt.Pool("strict", mt.Types("m5.large"), mt.CapacityType(model.OnDemand), zones)), weight(10, mt.Pool("easy", mt.Types("m5.xlarge"), mt.CapacityType(model.OnDemand))))
	for _, o := range closed.Offerings[mt.Class] {
		if o.Zone == "us-east-1c" {
			o.Available, o.Unavailable = false, "short"
		}
	}
	if diff := cmp.Diff([]string{"easy m5.xlarge"}, bought(place(t, closed, nil))); diff != "" {
		t.Errorf("B035: two zones left are fewer than three: %s", diff)
	}
	closed.Settings.MinValuesBestEffort = true
	best := place(t, closed, nil)
	if diff := cmp.Diff([]string{"strict m5.large"}, bought(best)); diff != "" {
		t.Errorf("best effort: %s", diff)
	}
	zone, _ := best.New[0].Requirements.Get(model.LabelZone)
	if relaxed := best.New[0].MinValuesRelaxed; relaxed == nil || !*relaxed || zone.MinValues != 2 {
		t.Errorf("best effort: relaxed %v, minValues %d of the claim; want what there is, 2, and said to be so", relaxed, zone.MinValues)
	}
	for _, o := range closed.Offerings[mt.Class] {
		o.Available = true
	}
	if n := place(t, closed, nil).New[0]; n.MinValuesRelaxed == nil || *n.MinValuesRelaxed {
		t.Errorf("three zones are there: relaxed %v", n.MinValuesRelaxed)
	}
	closed.Settings.MinValuesBestEffort = false
	if n := place(t, closed, nil).New[0]; n.Pool.Name != "strict" || n.MinValuesRelaxed != nil {
		t.Errorf("strict: pool %s, relaxed %v", n.Pool.Name, n.MinValuesRelaxed)
	}
	only := place(t, world(mt.Pods(1, "a", 1000, 0), mt.Pool("p", mt.Types("m5.large"), flexible(model.LabelInstanceType, 2, require.In, "m5.large", "zz.large"))), nil)
	if len(only.Unplaced) != 1 || !strings.Contains(only.Unplaced[0].Reasons[0].Message, "minValues 2") {
		t.Errorf("want a reason that names minValues, got %+v", only.Unplaced)
	}
}

func TestExistingNodesComeFirst(t *testing.T) {
	t.Parallel()
	startup := model.Taint{Key: "node.cilium.io/agent-not-ready", Effect: model.NoSchedule}
	young := func(declared bool) *model.Node {
		n := mt.Node("n1", 1900, 7000, nil, mt.Managed("cil"))
		delete(n.Labels, model.LabelInitialized)
		n.Claim.Conditions = []model.Condition{{Type: model.CondRegistered, Status: "True"}}
		n.Taints = []model.Taint{startup, {Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule}}
		if declared {
			n.Claim.StartupTaints = []model.Taint{startup}
		}
		return n
	}
	pool := mt.Pool("cil", mt.Types("m5.large"))
	declaring := mt.Pool("cil", mt.Types("m5.large"))
	declaring.StartupTaints = []model.Taint{startup}
	w := world(mt.Pods(1, "a", 500, 100), declaring)
	w.Nodes = []*model.Node{young(false)}
	if r := place(t, w, nil); len(r.New) != 0 {
		t.Errorf("the pool declares the startup taint: bought %v", bought(r))
	}
	if got := engine.Unexplained(w, w.Nodes[0]); len(got) != 0 {
		t.Errorf("unexplained %v", got)
	}
	w.Pools = []*model.Pool{pool}
	if d := cmp.Diff([]model.Taint{startup}, engine.Unexplained(w, w.Nodes[0])); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		name   string
		node   *model.Node
		pod    *model.Pod
		bought int
	}{
		{"room is used", mt.Node("n1", 2000, 4000, nil), mt.Pod("a", 500, 100), 0},
		{"B019 a declared startup taint goes away", young(true), mt.Pod("a", 500, 100), 0},
		{"B019 an undeclared one does not", young(false), mt.Pod("a", 500, 100), 1},
		{"a cordoned node takes nothing", mt.Node("n1", 2000, 4000, nil, func(n *model.Node) { n.Cordoned = true }), mt.Pod("a", 500, 100), 1},
		{"a disrupted node takes nothing", mt.Node("n1", 2000, 4000, nil, func(n *model.Node) {
			n.Taints = []model.Taint{{Key: model.TaintDisrupted, Effect: model.NoSchedule}}
		}), mt.Pod("a", 500, 100, mt.Tolerates(model.Toleration{Operator: "Exists"})), 1},
		{"a full node takes nothing", mt.Node("n1", 2000, 4000, nil, mt.Running(mt.Pod("r", 1800, 0))), mt.Pod("a", 500, 100), 1},
		{"an over-committed node takes nothing, not even a pod that asks for nothing", mt.Node("n1", 2000, 4000, nil, mt.Running(mt.Pod("r", 2100, 0))), mt.Pod("a", 0, 0), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world([]*model.Pod{c.pod}, pool)
			w.Nodes = []*model.Node{c.node}
			if r := place(t, w, nil); len(r.New) != c.bought || len(r.Unplaced) != 0 {
				t.Errorf("bought %v, %d unplaced; want %d nodes", bought(r), len(r.Unplaced), c.bought)
			}
		})
	}
	w = world(mt.Pods(1, "a", 1500, 0), mt.Pool("p", mt.Types("m5.large")))
	w.Nodes = []*model.Node{mt.Node("n1", 2000, 4000, nil)}
	w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("log", 600, 0)}
	if r := place(t, w, nil); len(r.New) != 0 || len(r.Unplaced) != 1 {
		t.Errorf("room is kept for daemon pods that are still to come: bought %v", bought(r))
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	r := place(t, world(mt.Pods(4, "p", 3000, 8000), mt.Pool("p", mt.CapacityType(model.Spot), own("karpenter.k8s.aws/instance-category", require.In, "c", "m", "r"))), nil)
	for _, n := range r.New {
		if len(n.Alternatives) == 0 {
			t.Errorf("%s has %d alternatives", n.Name, len(n.Alternatives))
		}
		last := n.Offering.USDPerHour
		for _, a := range n.Alternatives {
			if a.USDPerHour < last-1e-9 || a.USDPerHour > 1.25*n.Offering.USDPerHour+1e-9 {
				t.Errorf("alternative %s at %v after %v, best %v: want ascending, at most 1.25 times the best", a.Key(), a.USDPerHour, last, n.Offering.USDPerHour)
			}
			last = a.USDPerHour
		}
	}
}

func TestStrategyPricesRule(t *testing.T) {
	t.Parallel()
	w := world(mt.Pods(1, "p", 1000, 0), mt.Pool("p", mt.Types("m5.large", "c5.large"), mt.CapacityType(model.OnDemand)))
	prices := make([]model.Price, len(w.Offerings[mt.Class]))
	for i, o := range w.Offerings[mt.Class] {
		prices[i] = model.Price{USDPerHour: o.USDPerHour}
		if o.Type.Name == "c5.large" {
			prices[i].USDPerHour = 1
		}
	}
	r := place(t, w, &model.Prices{ByPool: map[string]model.PoolPrices{"p": {Offerings: prices}}})
	if diff := cmp.Diff([]string{"p m5.large"}, bought(r)); diff != "" {
		t.Errorf("the effective price decides: %s", diff)
	}
	for i := range prices {
		prices[i].Veto = "no capacity reserved"
	}
	r = place(t, w, &model.Prices{ByPool: map[string]model.PoolPrices{"p": {Offerings: prices, Strategy: "s"}}})
	if len(r.Unplaced) != 1 || r.Unplaced[0].Reasons[0].Filter != model.FilterStrategy {
		t.Errorf("a veto on everything is the strategy's no: %+v", r.Unplaced)
	}
}

func TestSetAside(t *testing.T) {
	t.Parallel()
	bad, ignored, spread := mt.Pod("bad", 1, 0), mt.Pod("ignored", 1, 0), mt.Pod("spread", 1, 0)
	bad.Invalid = "label x is restricted"
	ignored.Ignore = true
	spread.Unsupported = []model.Unsupported{{Filter: model.FilterTopology, Message: "not placed yet"}}
	r := place(t, world([]*model.Pod{bad, ignored, spread}, mt.Pool("p")), nil)
	var got []string
	for _, v := range r.Unplaced {
		got = append(got, v.Pod.Name+" "+string(v.Reasons[0].Filter))
	}
	if diff := cmp.Diff([]string{"bad requirements", "ignored requirements", "spread topology"}, got); diff != "" || len(r.New) > 0 {
		t.Errorf("%s; bought %v", diff, bought(r))
	}
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	t.Parallel()
	pods := slices.Concat(mt.Pods(40, "a", 700, 3000), mt.Pods(30, "b", 1500, 800), mt.Pods(20, "c", 90, 6000))
	one := place(t, world(pods, mt.Pool("p")), nil)
	back := slices.Clone(pods)
	slices.Reverse(back)
	two := place(t, world(back, mt.Pool("p")), nil)
	if diff := cmp.Diff(bought(one), bought(two)); diff != "" || math.Abs(total(one)-total(two)) > 1e-9 {
		t.Error(diff)
	}
	for i, n := range one.New {
		if !slices.EqualFunc(n.Pods, two.New[i].Pods, func(a, b *model.Pod) bool { return a.UID == b.UID }) {
			t.Errorf("%s holds other pods", n.Name)
		}
	}
}

func TestReservedCountHolds(t *testing.T) {
	t.Parallel()
	table, err := catalogue.Load(strings.NewReader(`[{"name":"x.1","onDemandUSD":1,"vcpu":4,"memoryMiB":8192,"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"},
		"offerings":[{"zone":"a","capacityType":"reserved","reservationId":"cr-1","count":2},{"zone":"a","capacityType":"on-demand"}]}]`), "t")
	if err != nil {
		t.Fatal(err)
	}
	w := world(mt.Pods(5, "p", 3000, 0), mt.Pool("p"))
	w.Offerings[mt.Class] = table.Offerings(w.NodeClasses[mt.Class], []string{"a"}, catalogue.Options{})
	w.Settings.ReservedCapacity = true
	r := place(t, w, nil)
	n := map[string]int{}
	for _, x := range r.New {
		n[x.Offering.CapacityType]++
	}
	if diff := cmp.Diff(map[string]int{"reserved": 2, "on-demand": 3}, n); diff != "" {
		t.Error(diff)
	}
}
