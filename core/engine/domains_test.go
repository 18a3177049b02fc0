package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// TestDomainsOfASpread: the values over which a spread is counted are those of nodes
// that there are and those that can really be bought for the pod, for these are what
// kube-scheduler counts once the nodes are there.
func TestDomainsOfASpread(t *testing.T) {
	t.Parallel()
	const zone = model.LabelZone
	a, b, c := "us-east-1a", "us-east-1b", "us-east-1c"
	pods := func(n int, opts ...func(*model.Pod)) []*model.Pod {
		return mt.Pods(n, "w", 100, 100, append([]func(*model.Pod){is("w"), spread(zone, 1, app("w"))}, opts...)...)
	}
	honour := func(p *model.Pod) { topo(p).Spreads[0].HonorTaints = true }
	atLeast := func(n int64) func(*model.Pod) {
		return func(p *model.Pod) { topo(p).Spreads[0].MinDomains = n }
	}
	full := func(n *model.Node) *model.Node { n.Allocatable = n.Used(); return n }
	cordoned := func(n *model.Node) *model.Node {
		n.Cordoned, n.Taints = true, []model.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}}
		return n
	}
	tainted := func(p *model.Pool) *model.Pool {
		p.Taints = []model.Taint{{Key: "dedicated", Effect: model.NoSchedule}}
		return p
	}
	only := func(name string, zones ...string) *model.Pool {
		return mt.Pool(name, mt.Types("m5.large"), mt.Zones(zones...))
	}
	racks := mt.Pool("racks", mt.Types("m5.large"), own("example.com/rack", require.In, "r1", "r2", "r3"))
	for _, tc := range []struct {
		name   string
		pods   []*model.Pod
		pools  []*model.Pool
		nodes  []*model.Node
		change func(w *model.World) *model.Prices
		want   map[string]int // pods by zone of new nodes and by name of existing ones
		left   int
	}{
		{name: "a zone whose offerings are not available", pods: pods(7), pools: []*model.Pool{only("p", a, b, c)}, change: func(w *model.World) *model.Prices {
			for _, o := range w.Offerings[mt.Class] {
				o.Available = o.Zone != c
			}
			return nil
		}, want: map[string]int{a: 4, b: 3}},
		{name: "a zone that the strategy vetoes", pods: pods(7), pools: []*model.Pool{only("p", a, b, c)}, change: func(w *model.World) *model.Prices {
			prices := make([]model.Price, len(w.Offerings[mt.Class]))
			for i, o := range w.Offerings[mt.Class] {
				prices[i].USDPerHour = o.USDPerHour
				if o.Zone == a {
					prices[i].Veto = "no"
				}
			}
			return &model.Prices{ByPool: map[string]model.PoolPrices{"p": {Offerings: prices}}}
		}, want: map[string]int{b: 4, c: 3}},
		{name: "a zone whose pool is at its limit of nodes", pods: pods(5), pools: []*model.Pool{only("p", a, b), nodesLimit(only("q", c), 0)}, want: map[string]int{a: 3, b: 2}},
		{name: "a zone whose pool is at its limit of CPU", pods: pods(5), pools: []*model.Pool{only("p", a, b), cpuLimit(only("q", c), 1000)}, want: map[string]int{a: 3, b: 2}},
		{name: "a zone whose pool is not tolerated", pods: pods(5), pools: []*model.Pool{only("p", a, b), tainted(only("q", c))}, want: map[string]int{a: 3, b: 2}},
		{name: "a zone that the pod does not select", pods: pods(5, mt.Requires(mt.Zones(a, c))), pools: []*model.Pool{only("p", a, b, c)}, want: map[string]int{a: 3, c: 2}},
		{name: "a zone with machines that are too small", pods: mt.Pods(4, "w", 3000, 100, is("w"), spread(zone, 1, app("w"))),
			pools: []*model.Pool{mt.Pool("p", mt.Types("m5.xlarge"), mt.Zones(a, b)), only("q", c)}, want: map[string]int{a: 2, b: 2}},
		{name: "a zone that is on an existing node only, with room", pods: pods(4), pools: []*model.Pool{only("p", a, b)}, nodes: []*model.Node{zoned("n", c)},
			want: map[string]int{a: 1, b: 1, "n": 2}},
		{name: "a zone on a full node counts, and is empty", pods: pods(4), pools: []*model.Pool{only("p", a, b)}, nodes: []*model.Node{full(zoned("n", c))},
			want: map[string]int{a: 1, b: 1}, left: 2},
		{name: "a zone on a cordoned node counts as well", pods: pods(4), pools: []*model.Pool{only("p", a, b)}, nodes: []*model.Node{cordoned(zoned("n", c))},
			want: map[string]int{a: 1, b: 1}, left: 2},
		{name: "unless taints are honoured", pods: pods(4, honour), pools: []*model.Pool{only("p", a, b)}, nodes: []*model.Node{cordoned(zoned("n", c))},
			want: map[string]int{a: 2, b: 2}},
		{name: "fewer zones than minDomains", pods: pods(4, atLeast(3)), pools: []*model.Pool{only("p", a, b)}, want: map[string]int{a: 1, b: 1}, left: 2},
		{name: "as many as minDomains", pods: pods(4, atLeast(2)), pools: []*model.Pool{only("p", a, b)}, want: map[string]int{a: 2, b: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := world(tc.pods, tc.pools...)
			w.Nodes = tc.nodes
			var prices *model.Prices
			if tc.change != nil {
				prices = tc.change(w)
			}
			r := place(t, w, prices)
			if len(r.Unplaced) != tc.left {
				t.Fatalf("%d unplaced, want %d: %+v", len(r.Unplaced), tc.left, r.Unplaced)
			}
			if d := cmp.Diff(counts(tc.want), counts(perZone(r))); d != "" {
				t.Errorf("%v, want %v (-want +got):\n%s", perZone(r), tc.want, d)
			}
			for at := range perZone(r) {
				if _, ok := tc.want[at]; !ok {
					t.Errorf("pods in %s, want %v", at, tc.want)
				}
			}
		})
	}
	t.Run("labels of one's own", func(t *testing.T) {
		t.Parallel()
		r := place(t, world(mt.Pods(7, "w", 100, 100, is("w"), spread("example.com/rack", 1, app("w"))), racks), nil)
		got := map[string]int{}
		for _, n := range r.New {
			got[n.Labels["example.com/rack"]] += len(n.Pods)
		}
		if d := cmp.Diff([]int{2, 2, 3}, counts(got)); d != "" || len(r.Unplaced) > 0 {
			t.Errorf("%v, %d unplaced", got, len(r.Unplaced))
		}
	})
	t.Run("capacity types, of which one can be had", func(t *testing.T) {
		t.Parallel()
		w := world(mt.Pods(4, "w", 100, 100, is("w"), spread(model.LabelCapacityType, 1, app("w"))), only("p", a, b))
		for _, o := range w.Offerings[mt.Class] {
			o.Available = o.CapacityType == model.OnDemand
		}
		if r := place(t, w, nil); len(r.Unplaced) > 0 || len(r.New) == 0 {
			t.Errorf("%d unplaced", len(r.Unplaced))
		}
	})
	t.Run("a pool with a limit that ends while pods are spread", func(t *testing.T) {
		t.Parallel()
		w := world(pods(9, func(p *model.Pod) { p.Requests.Base[0] = 1500 }), only("p", a, b), nodesLimit(only("q", c), 1))
		r := engine.Place(w, nil)
		if bad := engine.Check(w, &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}); len(bad) > 0 {
			t.Fatal(bad)
		}
		// zone c has one pod and takes no more: two in each of the others is all there can be
		if got := perZone(r); got[a] != 2 || got[b] != 2 || got[c] != 1 || len(r.Unplaced) != 4 {
			t.Errorf("%v, %d unplaced", got, len(r.Unplaced))
		}
	})
}
