package engine_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
)

// A pod does not lose its place because others, which it does not ask for, must share a
// node with it and cannot. Their verdict is that of pods with neighbours: each of them
// could run if it were by itself.
func TestPodIsPlacedWithoutThoseThatCannotShareItsNode(t *testing.T) {
	t.Parallel()
	db := func(n int, opts ...func(*model.Pod)) []*model.Pod {
		return mt.Pods(n, "db", 100, 0, append(opts, is("db"))...)
	}
	cache := func(n int, opts ...func(*model.Pod)) []*model.Pod {
		return mt.Pods(n, "cache", 100, 0, append(opts, is("cache"), near(model.LabelHostname, app("db")))...)
	}
	full := mt.Node("full", 100, 1000, map[string]string{model.LabelZone: "us-east-1c"})
	roomy := mt.Node("roomy", 8000, 16000, map[string]string{model.LabelZone: "us-east-1c"})
	for _, c := range []struct {
		name   string
		pods   []*model.Pod
		nodes  []*model.Node
		pool   *model.Pool
		placed map[string]int // by zone, or name of an existing node
		left   int
		filter model.Filter
	}{
		{name: "in another zone, no node", pods: append(db(1, mt.Requires(mt.Zones("us-east-1a"))), cache(1, mt.Requires(mt.Zones("us-east-1b")))...),
			placed: map[string]int{"us-east-1a": 1}, left: 1, filter: model.FilterAffinity},
		{name: "in another zone, beside a node with room that neither may use", nodes: []*model.Node{roomy},
			pods:   append(db(1, mt.Requires(mt.Zones("us-east-1a"))), cache(1, mt.Requires(mt.Zones("us-east-1b")))...),
			placed: map[string]int{"us-east-1a": 1}, left: 1, filter: model.FilterTopology},
		{name: "several of each", nodes: []*model.Node{roomy},
			pods:   append(db(3, mt.Requires(mt.Zones("us-east-1a"))), cache(5, mt.Requires(mt.Zones("us-east-1b")))...),
			placed: map[string]int{"us-east-1a": 3}, left: 5, filter: model.FilterTopology},
		{name: "too dear for the limit together, beside a full node", nodes: []*model.Node{full},
			pods:   append(mt.Pods(1, "db", 1000, 0, is("db")), mt.Pods(1, "cache", 1800, 0, is("cache"), near(model.LabelHostname, app("db")))...),
			pool:   limited(mt.Pool("p", mt.Types("m5.large", "m5.xlarge"), mt.CapacityType(model.OnDemand)), map[string]int64{"cpu": 2000}, -1),
			placed: map[string]int{"us-east-1a": 1}, left: 1, filter: model.FilterLimits},
		{name: "they share one where they can", nodes: []*model.Node{roomy}, pods: append(db(1), cache(2)...), placed: map[string]int{"roomy": 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool := c.pool
			if pool == nil {
				pool = mt.Pool("p", mt.Types("m5.large", "m5.xlarge"), mt.CapacityType(model.OnDemand))
			}
			w := world(c.pods, pool)
			w.Nodes = c.nodes
			r := place(t, w, nil)
			if diff := cmp.Diff(c.placed, perZone(r)); diff != "" {
				t.Errorf("placed %s", diff)
			}
			var want, got []string
			for range c.left {
				want = append(want, fmt.Sprintf("cache p %s", c.filter))
			}
			for _, v := range r.Unplaced {
				got = append(got, fmt.Sprintf("%s %s %s", v.Pod.Labels["app"], v.Reasons[0].Pool, v.Reasons[0].Filter))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("left %s", diff)
			}
		})
	}
}
