package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// TestKindsOfCases has, for each area in which users reported faults, further cases of
// the same kind. bought, zones and reasons are compared where they are given.
func TestKindsOfCases(t *testing.T) {
	t.Parallel()
	const cpu = model.AWSLabelDomain + "/instance-cpu"
	od := mt.CapacityType(model.OnDemand)
	sizes := mt.Types("m5.large", "m5.xlarge", "m5.2xlarge")
	least := func(n int, key string, op require.Operator, values ...string) require.Requirement {
		r := require.Must(key, op, values...)
		r.MinValues = n
		return r
	}
	full := func(n *model.Node) *model.Node { n.Allocatable = n.Used(); return n }
	volumeIn := func(zones ...string) func(*model.Pod) {
		return func(p *model.Pod) {
			for _, z := range zones {
				topo(p).VolumeTerms = append(topo(p).VolumeTerms, require.NewSet(mt.Zones(z)))
			}
		}
	}
	tainting := func(p *model.Pool, effect model.Effect) *model.Pool {
		p.Taints = []model.Taint{{Key: "only", Value: "broken", Effect: effect}}
		return p
	}
	closed := func(zone string) func(w *model.World) {
		return func(w *model.World) {
			for _, o := range w.Offerings[mt.Class] {
				if o.Zone == zone {
					o.Available, o.Unavailable = false, "short"
				}
			}
		}
	}
	for _, c := range []struct {
		area, name string
		pods       []*model.Pod
		pools      []*model.Pool
		daemons    []*model.DaemonSet
		nodes      []*model.Node
		change     func(w *model.World)
		bought     []string
		zones      []int // pods by zone or node, sorted
		reasons    []string
		left       int
		check      func(t *testing.T, r *engine.Result)
	}{
		{area: "requirements algebra", name: "bounds of pool and pod meet in one type", pods: mt.Pods(1, "a", 100, 0, mt.Requires(own(cpu, require.Lt, "8"))), pools: []*model.Pool{mt.Pool("p", sizes, od, own(cpu, require.Gt, "2"))}, bought: []string{"p m5.xlarge"}},
		{area: "requirements algebra", name: "bounds that cross", pods: mt.Pods(1, "a", 100, 0, mt.Requires(own(cpu, require.Lt, "4"))), pools: []*model.Pool{mt.Pool("p", sizes, od, own(cpu, require.Gt, "4"))}, left: 1,
			reasons: []string{"p requirements: asks for karpenter.k8s.aws/instance-cpu Lt [4]"}},
		{area: "requirements algebra", name: "a pool that excludes one value of a label of its own offers the others", pods: mt.Pods(1, "a", 100, 0, mt.Requires(own("team", require.In, "red", "blue"))), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od, own("team", require.NotIn, "blue"))},
			bought: []string{"p m5.large"}, check: func(t *testing.T, r *engine.Result) {
				if got := r.New[0].Labels["team"]; got != "red" {
					t.Errorf("team=%q, want red", got)
				}
			}},
		{area: "requirements algebra", name: "the first term contradicts itself, the second will do", pods: mt.Pods(1, "a", 100, 0, mt.Requires(mt.Zones("us-east-1a"), mt.Zones(proofB)), mt.Requires(mt.Zones("us-east-1c"))), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od)},
			check: func(t *testing.T, r *engine.Result) {
				if len(r.New) != 1 || r.New[0].Offering.Zone != "us-east-1c" {
					t.Errorf("bought %v, want one in us-east-1c", bought(r))
				}
			}},
		{area: "requirements algebra", name: "the first term's machine is too small, the second's label is the pool's own", pods: mt.Pods(1, "a", 3000, 0, mt.Requires(mt.Types("m5.large")), mt.Requires(own("team", require.In, "red"))),
			pools: []*model.Pool{mt.Pool("p", sizes, od, own("team", require.Exists))}, bought: []string{"p m5.xlarge"}},
		{area: "topology", name: "zones of a pool whose taint the pods do not tolerate are no domains", pods: mt.Pods(6, "w", 100, 0, is("w"), spread(model.LabelZone, 1, app("w"))),
			pools: []*model.Pool{mt.Pool("good", mt.Types("m5.large"), od, mt.Zones("us-east-1a", proofB)), tainting(mt.Pool("broken", mt.Types("m5.large"), mt.Zones("us-east-1c")), model.NoSchedule)}, zones: []int{3, 3}},
		{area: "topology", name: "a zone that cannot be bought is no domain", pods: mt.Pods(6, "w", 100, 0, is("w"), spread(model.LabelZone, 1, app("w"))), pools: []*model.Pool{mt.Pool("good", mt.Types("m5.large"), od), mt.Pool("broken", mt.Types("m5.large"), mt.Zones("us-east-1z"))},
			change: closed("us-east-1c"), zones: []int{3, 3}},
		{area: "topology", name: "too few domains for minDomains: one pod in each", pods: mt.Pods(5, "w", 100, 0, is("w"), func(p *model.Pod) {
			topo(p).Spreads = []model.Spread{{Key: model.LabelZone, MaxSkew: 1, MinDomains: 3, Selector: app("w"), HonorAffinity: true}}
		}), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od, mt.Zones("us-east-1a", proofB))}, zones: []int{1, 1}, left: 3},
		{area: "topology", name: "a maxSkew of 2 leaves the fuller zone alone until the others are near", pods: mt.Pods(3, "w", 100, 0, is("w"), spread(model.LabelZone, 2, app("w"))), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od, mt.Zones("us-east-1a", proofB))},
			nodes: []*model.Node{full(zoned("n1", "us-east-1a", mt.Pods(4, "r", 100, 0, is("w"))...))}, check: func(t *testing.T, r *engine.Result) {
				if got := perZone(r)[proofB]; got != 3 {
					t.Errorf("%d pods in the empty zone, want 3", got)
				}
			}},
		{area: "topology", name: "pods that end do not count", pods: mt.Pods(2, "w", 100, 0, is("w"), spread(model.LabelZone, 1, app("w"))), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od, mt.Zones("us-east-1a", proofB))},
			nodes: []*model.Node{full(zoned("n1", "us-east-1a", mt.Pods(3, "r", 100, 0, is("w"), func(p *model.Pod) { at := mt.Now; p.Deleting = &at })...))}, zones: []int{1, 1}},
		{area: "topology", name: "a pod that only others count by a label needs no such label", pods: slices.Concat(mt.Pods(1, "w", 100, 0, is("w"), spread("rack", 1, app("w"))), mt.Pods(1, "plain", 100, 0, is("w"))), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od)},
			bought: []string{"p m5.large"}, left: 1},
		{area: "volumes", name: "a class that allows two zones", pods: mt.Pods(1, "v", 100, 0, volumeIn(proofB, "us-east-1c")), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od)}, change: closed(proofB), check: func(t *testing.T, r *engine.Result) {
			if len(r.New) != 1 || r.New[0].Offering.Zone != "us-east-1c" {
				t.Errorf("bought %v, want one in us-east-1c", bought(r))
			}
			for _, a := range r.New[0].Alternatives {
				if a.Zone != "us-east-1c" {
					t.Errorf("alternative in %s", a.Zone)
				}
			}
		}},
		{area: "volumes", name: "a volume where nothing can be bought now", pods: mt.Pods(1, "v", 100, 0, volumeIn(proofB)), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od)}, change: closed(proofB), left: 1, reasons: []string{"p offerings: none of the offerings of 1 instance types is available"}},
		{area: "volumes", name: "a volume in a zone of a node with room", pods: mt.Pods(1, "v", 100, 0, volumeIn(proofB)), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od)}, nodes: []*model.Node{zoned("na", "us-east-1a"), zoned("nb", proofB)},
			check: func(t *testing.T, r *engine.Result) {
				if len(r.Placements) != 1 || r.Placements[0].Node.Name != "nb" {
					t.Errorf("placed %+v, want on nb", r.Placements)
				}
			}},
		{area: "daemonset overhead", name: "a daemonset that does not tolerate the pool's taint costs nothing there", pods: mt.Pods(1, "a", 1800, 0, mt.Tolerates(model.Toleration{Operator: "Exists"})), pools: []*model.Pool{tainting(mt.Pool("p", sizes, od), model.NoSchedule)},
			daemons: []*model.DaemonSet{mt.DaemonSet("d", 500, 0, func(p *model.Pod) { p.Tolerations = nil })}, bought: []string{"p m5.large"}},
		{area: "daemonset overhead", name: "a soft taint keeps no daemon pod away", pods: mt.Pods(1, "a", 1800, 0, mt.Tolerates(model.Toleration{Operator: "Exists"})), pools: []*model.Pool{tainting(mt.Pool("p", sizes, od), model.PreferNoSchedule)},
			daemons: []*model.DaemonSet{mt.DaemonSet("d", 500, 0, func(p *model.Pod) { p.Tolerations = nil })}, bought: []string{"p m5.xlarge"}},
		{area: "daemonset overhead", name: "daemon pods take places of pods, too", pods: mt.Pods(6, "a", 10, 1), pools: []*model.Pool{mt.Pool("p", mt.Types("t3.nano"), od)}, daemons: []*model.DaemonSet{mt.DaemonSet("d", 10, 1), mt.DaemonSet("e", 10, 1)},
			bought: []string{"p t3.nano", "p t3.nano", "p t3.nano"}},
		{area: "daemonset overhead", name: "a daemonset for spot machines only", pods: mt.Pods(1, "a", 1800, 0, mt.Requires(od)), pools: []*model.Pool{mt.Pool("p", sizes)}, daemons: []*model.DaemonSet{mt.DaemonSet("d", 500, 0, mt.Requires(mt.CapacityType(model.Spot)))}, bought: []string{"p m5.large"}},
		{area: "limits", name: "few nodes allowed: larger ones are bought", pods: mt.Pods(4, "a", 1500, 0), pools: []*model.Pool{limited(mt.Pool("p", sizes, od), nil, 1)}, bought: []string{"p m5.2xlarge"}},
		{area: "limits", name: "the tighter of two limits holds", pods: mt.Pods(4, "a", 1500, 0), pools: []*model.Pool{limited(mt.Pool("p", mt.Types("m5.large"), od), map[string]int64{"cpu": 100000, "memory": 17 << 30}, -1)}, bought: []string{"p m5.large", "p m5.large"}, left: 2,
			reasons: []string{"p limits: every instance type left exceeds the pool's limit"}},
		{area: "limits", name: "a limit of nothing buys nothing, existing room is used", pods: mt.Pods(3, "a", 500, 0), pools: []*model.Pool{limited(mt.Pool("p", mt.Types("m5.large"), od), map[string]int64{"cpu": 0}, -1)}, nodes: []*model.Node{mt.Node("n", 1000, 4000, nil)}, bought: nil, left: 1},
		{area: "limits", name: "what only the limited pool can run comes first there", pods: slices.Concat(mt.Pods(2, "any", 3500, 0), mt.Pods(2, "big", 7000, 0)), pools: []*model.Pool{limited(mt.Pool("p", mt.Types("m5.2xlarge", "m5.xlarge"), od), nil, 2), mt.Pool("q", mt.Types("m5.xlarge"), od)},
			bought: []string{"p m5.2xlarge", "p m5.2xlarge", "q m5.xlarge", "q m5.xlarge"}},
		{area: "minValues", name: "of types, for a pod that fits only on some", pods: mt.Pods(1, "a", 3000, 0), pools: []*model.Pool{mt.Pool("p", sizes, od, least(3, model.LabelInstanceType, require.In, "m5.large", "m5.xlarge", "m5.2xlarge"))}, left: 1,
			reasons: []string{"p requirements: minValues 3 of node.kubernetes.io/instance-type cannot be met: 2 values are left"}},
		{area: "minValues", name: "of zones, for a pod that asks for one", pods: mt.Pods(1, "a", 100, 0, mt.Requires(mt.Zones(proofB))), pools: []*model.Pool{weight(9, mt.Pool("p", sizes, od, least(2, model.LabelZone, require.Exists))), mt.Pool("q", mt.Types("m5.xlarge"), od)}, bought: []string{"q m5.xlarge"}},
		{area: "minValues", name: "of capacity types, which no single launch can name", pods: mt.Pods(1, "a", 100, 0), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), least(2, model.LabelCapacityType, require.In, model.OnDemand, model.Spot))}, bought: []string{"p m5.large"}},
		{area: "minValues", name: "of capacity types, of which one is left", pods: mt.Pods(1, "a", 100, 0), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), least(2, model.LabelCapacityType, require.In, model.OnDemand, model.Spot))}, left: 1, change: func(w *model.World) {
			for _, o := range w.Offerings[mt.Class] {
				if o.CapacityType == model.Spot {
					o.Available, o.Unavailable = false, "short"
				}
			}
		}, reasons: []string{"p requirements: minValues 2 of karpenter.sh/capacity-type cannot be met: 1 values are left"}},
		{area: "weights", name: "a heavier pool that cannot hold the pod", pods: mt.Pods(1, "a", 7000, 0), pools: []*model.Pool{weight(90, mt.Pool("heavy", mt.Types("m5.large"), od)), weight(1, mt.Pool("light", mt.Types("m5.2xlarge"), od))}, bought: []string{"light m5.2xlarge"}},
		{area: "weights", name: "a heavier pool that has nothing now", pods: mt.Pods(1, "a", 1000, 0), pools: []*model.Pool{weight(90, mt.Pool("heavy", mt.Types("m5.large"), od, mt.Zones(proofB))), weight(1, mt.Pool("light", mt.Types("m5.xlarge"), od))}, change: closed(proofB), bought: []string{"light m5.xlarge"}},
		{area: "weights", name: "a heavier pool takes its own, the rest goes on", pods: slices.Concat(mt.Pods(1, "a", 1000, 0), mt.Pods(1, "b", 1000, 0, mt.Requires(mt.CapacityType(model.Spot)))),
			pools: []*model.Pool{weight(90, mt.Pool("heavy", mt.Types("m5.large"), od)), mt.Pool("light", mt.Types("m5.large"), mt.CapacityType(model.Spot))}, bought: []string{"heavy m5.large", "light m5.large"}},
		{area: "scheduling", name: "an unregistered node of ours counts with its room", pods: mt.Pods(1, "a", 1000, 0), pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), od)}, nodes: []*model.Node{func() *model.Node {
			n := mt.Node("c1", 2000, 4000, nil, mt.Managed("p"))
			n.Name, n.UID, n.Claim.Conditions = "", "", []model.Condition{{Type: model.CondLaunched, Status: "True"}}
			return n
		}()}, zones: nil, check: func(t *testing.T, r *engine.Result) {
			if len(r.New) != 0 || len(r.Placements) != 1 {
				t.Errorf("bought %v, want the pod on the node that is on its way", bought(r))
			}
		}},
		{area: "scheduling", name: "NoExecute keeps pods off like NoSchedule", pods: mt.Pods(1, "a", 100, 0), pools: []*model.Pool{tainting(mt.Pool("p", mt.Types("m5.large"), od), model.NoExecute)}, left: 1, reasons: []string{"p taints: does not tolerate taint only=broken:NoExecute"}},
		{area: "scheduling", name: "a toleration of another value does not do", pods: mt.Pods(1, "a", 100, 0, mt.Tolerates(model.Toleration{Key: "only", Operator: "Equal", Value: "fixed"})), pools: []*model.Pool{tainting(mt.Pool("p", mt.Types("m5.large"), od), model.NoSchedule)}, left: 1},
		{area: "max-pods", name: "many small pods need many machines", pods: mt.Pods(10, "a", 10, 1), pools: []*model.Pool{mt.Pool("p", mt.Types("t3.nano"), od)}, bought: []string{"p t3.nano", "p t3.nano", "p t3.nano"}},
	} {
		t.Run(c.area+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			w := world(c.pods, c.pools...)
			w.DaemonSets, w.Nodes = c.daemons, c.nodes
			if c.change != nil {
				c.change(w)
			}
			r := place(t, w, nil)
			if len(r.Unplaced) != c.left {
				t.Fatalf("%d pods have no place, want %d: %+v", len(r.Unplaced), c.left, r.Unplaced)
			}
			if c.bought != nil {
				if diff := cmp.Diff(c.bought, bought(r)); diff != "" {
					t.Errorf("bought: %s", diff)
				}
			}
			if c.zones != nil {
				if diff := cmp.Diff(c.zones, counts(perZone(r))); diff != "" {
					t.Errorf("zones: %s", diff)
				}
			}
			for i, want := range c.reasons {
				x := r.Unplaced[0].Reasons[i]
				if got := x.Pool + " " + string(x.Filter) + ": " + x.Message; !strings.HasPrefix(got, want) {
					t.Errorf("reason %q, want %q", got, want)
				}
			}
			if c.check != nil && !t.Failed() {
				c.check(t, r)
			}
		})
	}
}
