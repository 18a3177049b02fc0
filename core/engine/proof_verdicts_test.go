package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// said is a reason in one line: pool, filter, the types that each filter left.
func said(r model.Reason) string {
	var left []string
	for _, p := range r.Trail {
		left = append(left, fmt.Sprintf("%s %d", p.Filter, p.Types))
	}
	return fmt.Sprintf("%s: %s (%s)", r.Pool, r.Filter, strings.Join(left, ", "))
}

// Every filter that can stand in the way of a pod is named, with how many instance
// types were left after each that came before it, and what came nearest.
func TestVerdictNamesTheFirstFilterThatLeavesNothing(t *testing.T) {
	t.Parallel()
	types := mt.Types("m5.large", "m5.xlarge", "c5.xlarge", "t3.micro")
	od := mt.CapacityType(model.OnDemand)
	flexible := require.Must("karpenter.k8s.aws/instance-family", require.Exists)
	flexible.MinValues = 3
	veto := func(w *model.World) *model.Prices {
		pp := model.PoolPrices{Strategy: "careful 1"}
		for _, o := range w.Offerings[mt.Class] {
			pp.Offerings = append(pp.Offerings, model.Price{USDPerHour: o.USDPerHour, Veto: "interrupted too often"})
		}
		return &model.Prices{ByPool: map[string]model.PoolPrices{"p": pp}}
	}
	for _, c := range []struct {
		name    string
		pod     *model.Pod
		pool    *model.Pool
		change  func(w *model.World)
		prices  func(w *model.World) *model.Prices
		reason  string
		message string
		nearest string
	}{
		{name: "pool", pod: mt.Pod("a", 1000, 0), pool: broken("p", "node class \"x\" does not exist"), reason: "p: pool ()", message: `node class "x" does not exist`},
		{name: "taints", pod: mt.Pod("a", 1000, 0), pool: tainted(mt.Pool("p", types, od)), reason: "p: taints (pool 4, taints 0)", message: "does not tolerate taint dedicated=gpu:NoSchedule"},
		{name: "requirements on a type", pod: mt.Pod("a", 1000, 0, mt.Requires(mt.Zones("us-west-2a"))), pool: mt.Pool("p", types, od),
			reason: "p: requirements (pool 4, taints 4, requirements 0)", message: "none of the 4 instance types left has", nearest: "topology.kubernetes.io/zone In [us-east-1a, us-east-1b, us-east-1c]"},
		{name: "requirements of the pool", pod: mt.Pod("a", 1000, 0, mt.Requires(mt.CapacityType(model.Spot))), pool: mt.Pool("p", types, od),
			reason: "p: requirements (pool 4, taints 4, requirements 0)", message: "asks for karpenter.sh/capacity-type In [spot]", nearest: "karpenter.sh/capacity-type In [on-demand]"},
		{name: "requirements that contradict each other", pod: mt.Pod("a", 1000, 0, func(p *model.Pod) {
			p.Terms = []require.Set{require.NewSet(mt.Zones("us-east-1a"), mt.Zones("us-east-1b"))}
		}), pool: mt.Pool("p", types, od), reason: "p: requirements (pool 4, taints 4, requirements 0)", message: "the pod's requirements on topology.kubernetes.io/zone contradict each other"},
		{name: "resources", pod: mt.Pod("a", 9000, 0), pool: mt.Pool("p", types, od), reason: "p: resources (pool 4, taints 4, requirements 4, resources 0)",
			message: "needs 9 cpu, the nearest allowed type c5.xlarge offers 3920m", nearest: "c5.xlarge"},
		{name: "resources together", pod: mt.Pod("a", 3900, 12000), pool: mt.Pool("p", mt.Types("c5.xlarge", "m5.large"), od),
			reason: "p: resources (pool 2, taints 2, requirements 2, resources 0)", message: "memory, the nearest allowed type c5.xlarge offers", nearest: "c5.xlarge"},
		{name: "a device", pod: mt.Pod("a", 100, 0, func(p *model.Pod) { p.Requests = p.Requests.With("nvidia.com/gpu", 1) }), pool: mt.Pool("p", types, od),
			reason: "p: resources (pool 4, taints 4, requirements 4, resources 0)", message: "needs 1 nvidia.com/gpu", nearest: "c5.xlarge"},
		{name: "daemonsets", pod: mt.Pod("a", 3500, 0), pool: mt.Pool("p", types, od), change: func(w *model.World) { w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("agent", 500, 0)} },
			reason: "p: daemonsets (pool 4, taints 4, requirements 4, resources 2, daemonsets 0)", message: "offers 3420m after 500m of daemonsets", nearest: "c5.xlarge"},
		{name: "memory after daemonsets in Gi", pod: mt.Pod("a", 100, 14000), pool: mt.Pool("p", types, od), change: func(w *model.World) { w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("agent", 0, 2048)} },
			reason: "p: daemonsets (pool 4, taints 4, requirements 4, resources 1, daemonsets 0)", message: "needs 13.7 Gi memory, the nearest allowed type m5.xlarge offers 11.8 Gi after 2.0 Gi of daemonsets", nearest: "m5.xlarge"},
		{name: "offerings", pod: mt.Pod("a", 3000, 0), pool: mt.Pool("p", types, od), change: func(w *model.World) {
			for _, o := range w.Offerings[mt.Class] {
				o.Available, o.Unavailable = false, "is short until noon"
			}
		}, reason: "p: offerings (pool 4, taints 4, requirements 4, resources 2, daemonsets 2, offerings 0)", message: "is short until noon", nearest: "c5.xlarge/us-east-1a/on-demand"},
		{name: "strategy", pod: mt.Pod("a", 3000, 0), pool: mt.Pool("p", types, od), prices: veto,
			reason: "p: strategy (pool 4, taints 4, requirements 4, resources 2, daemonsets 2, offerings 2, strategy 0)", message: "strategy careful 1 refuses every offering: interrupted too often", nearest: "c5.xlarge/us-east-1a/on-demand"},
		{name: "limits", pod: mt.Pod("a", 3000, 0), pool: limited(mt.Pool("p", types, od), map[string]int64{"cpu": 2000}, -1),
			reason: "p: limits (pool 4, taints 4, requirements 4, resources 2, daemonsets 2, offerings 2, strategy 2, limits 0)", message: "2 cpu of 2 is left, c5.xlarge has 4"},
		{name: "limit of nodes", pod: mt.Pod("a", 3000, 0), pool: limited(mt.Pool("p", types, od), nil, 0),
			reason: "p: limits (pool 4, taints 4, requirements 4, resources 2, daemonsets 2, offerings 2, strategy 2, limits 0)", message: "the limit of nodes is reached"},
		{name: "minValues", pod: mt.Pod("a", 3000, 0), pool: mt.Pool("p", types, od, flexible),
			reason:  "p: requirements (pool 4, taints 4, requirements 4, resources 2, daemonsets 2, offerings 2, strategy 2, requirements 0)",
			message: "minValues 3 of karpenter.k8s.aws/instance-family cannot be met: 2 values are left", nearest: "c5, m5"},
		{name: "ports", pod: mt.Pod("a", 100, 0, port(80)), pool: mt.Pool("p", types, od), change: func(w *model.World) {
			w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("proxy", 10, 0, port(80))}
		}, reason: "p: ports (pool 4, taints 4, requirements 4, ports 0)", message: "host port TCP 80 is taken by daemonset default/proxy"},
		{name: "topology", pod: mt.Pod("a", 100, 0, is("a"), spread("rack", 1, app("a"))), pool: mt.Pool("p", types, od),
			reason: "p: topology (pool 4, taints 4, requirements 4, resources 4, daemonsets 4, offerings 4, strategy 4, topology 0)", message: "no node and no pool offers a value of rack"},
		{name: "affinity", pod: mt.Pod("a", 100, 0, is("a"), near(model.LabelZone, app("b"))), pool: mt.Pool("p", types, od),
			reason: "p: affinity (pool 4, taints 4, requirements 4, resources 4, daemonsets 4, offerings 4, strategy 4, affinity 0)", message: "holds a pod that it must be near"},
		{name: "affinity on a host", pod: mt.Pod("a", 100, 0, is("a"), near(model.LabelHostname, app("b"))), pool: mt.Pool("p", types, od),
			reason: "p: affinity (pool 4, taints 4, requirements 4, resources 4, daemonsets 4, offerings 4, strategy 4, affinity 0)", message: "no pod that it must be near is running or waiting"},
		{name: "a pod that is too large is that, whatever it asks of its neighbours", pod: mt.Pod("a", 9000, 0, is("a"), near(model.LabelZone, app("b"))), pool: mt.Pool("p", types, od),
			reason: "p: resources (pool 4, taints 4, requirements 4, resources 0)", message: "needs 9 cpu", nearest: "c5.xlarge"},
		{name: "volumes", pod: mt.Pod("a", 100, 0, func(p *model.Pod) {
			p.Unsupported = []model.Unsupported{{Filter: model.FilterVolumes, Message: `StorageClass "gone" does not exist`}}
		}), pool: mt.Pool("p", types, od), reason: ": volumes ()", message: `StorageClass "gone" does not exist`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world([]*model.Pod{c.pod}, c.pool)
			if c.change != nil {
				c.change(w)
			}
			var prices *model.Prices
			if c.prices != nil {
				prices = c.prices(w)
			}
			r := place(t, w, prices)
			if len(r.Unplaced) != 1 || len(r.Unplaced[0].Reasons) != 1 {
				t.Fatalf("want one verdict with one reason, got %+v; bought %v", r.Unplaced, bought(r))
			}
			got := r.Unplaced[0].Reasons[0]
			if diff := cmp.Diff(c.reason, said(got)); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(got.Message, c.message) {
				t.Errorf("message %q, want one with %q", got.Message, c.message)
			}
			if got.Nearest != c.nearest {
				t.Errorf("nearest %q, want %q", got.Nearest, c.nearest)
			}
		})
	}
}

// A pod has a reason for every pool, each with its own filter, also where pods around
// it are what keeps it from the pools that would do.
func TestVerdictHasAReasonForEveryPool(t *testing.T) {
	t.Parallel()
	w := world(mt.Pods(1, "a", 3000, 0, is("a"), near(model.LabelZone, app("nobody"))), mt.Pool("fits", mt.Types("m5.xlarge")), mt.Pool("small", mt.Types("m5.large")),
		tainted(mt.Pool("tainted", mt.Types("m5.xlarge"))), broken("broken", "its node class is not ready"), limited(mt.Pool("full", mt.Types("m5.xlarge")), nil, 0))
	r := place(t, w, nil)
	var got []string
	for _, x := range r.Unplaced[0].Reasons {
		got = append(got, x.Pool+" "+string(x.Filter))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"broken pool", "fits affinity", "full limits", "small resources", "tainted taints"}, got); diff != "" {
		t.Error(diff)
	}
}

// In drawn worlds, too: the counts never grow from filter to filter, the last is 0 and
// belongs to the filter of the reason, and no filter is said to leave nothing where a
// node for the pod alone could be bought.
func TestTrailsAreTrue(t *testing.T) {
	t.Parallel()
	trails := 0
	for seed := range uint64(proofSeeds) {
		w := proofWorld(seeded(seed))
		for _, v := range engine.Place(w, nil).Unplaced {
			for _, r := range v.Reasons {
				if len(r.Trail) == 0 {
					continue
				}
				trails++
				last := r.Trail[len(r.Trail)-1]
				if last.Types != 0 || last.Filter != r.Filter {
					t.Errorf("seed %d: %s ends with %v", seed, said(r), last)
				}
				for i := 1; i < len(r.Trail); i++ {
					if r.Trail[i].Types > r.Trail[i-1].Types {
						t.Errorf("seed %d: %s: more types after a filter than before", seed, said(r))
					}
				}
				if r.Filter != model.FilterRequirements && r.Filter != model.FilterTaints && r.TypesLeft != r.Trail[len(r.Trail)-2].Types {
					t.Errorf("seed %d: %s: %d types left before the last filter", seed, said(r), r.TypesLeft)
				}
			}
		}
	}
	if trails < 1000 {
		t.Errorf("only %d trails", trails)
	}
}
