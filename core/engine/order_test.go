package engine_test

import (
	"slices"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

func worldOf(pool *model.Pool, nodes []*model.Node, pods ...[]*model.Pod) *model.World {
	w := world(slices.Concat(pods...), pool)
	w.Nodes = nodes
	return w
}

// Pods that ask for nothing may be bound before all others, and count then: a plan
// must not depend on being quicker than they are.
func TestSpreadHoldsWhateverBindsFirst(t *testing.T) {
	t.Parallel()
	const zone = model.LabelZone
	// The plain pods can run in one zone only and are counted by the spread of the others.
	plain := mt.Pods(6, "plain", 100, 100, is("w"), mt.Requires(mt.Zones("us-east-1a")))
	asking := mt.Pods(6, "asking", 100, 100, is("w"), spread(zone, 1, app("w")))
	r := engine.Place(worldOf(mt.Pool("p", mt.Types("m5.large", "m5.xlarge")), nil, plain, asking), nil)
	for _, n := range r.New {
		for _, p := range n.Pods {
			if len(topo(p).Spreads) > 0 && n.Offering.Zone == "us-east-1a" {
				t.Errorf("%s is planned for the zone of the six plain pods", p.Name)
			}
		}
	}
	if len(r.Unplaced) > 0 {
		t.Errorf("%d without a place: %+v", len(r.Unplaced), r.Unplaced[0].Reasons)
	}
}

// Pods that must share a node and must be spread over nodes cannot do both: as many as a
// node may hold get a place.
func TestTogetherWithinASpreadOverHosts(t *testing.T) {
	t.Parallel()
	pods := mt.Pods(4, "w", 100, 100, is("w"), near(model.LabelHostname, app("w")), spread(model.LabelHostname, 2, app("w")))
	r := engine.Place(worldOf(mt.Pool("p", mt.Types("m5.large")), nil, pods), nil)
	if len(r.New) != 1 || len(r.New[0].Pods) != 2 || len(r.Unplaced) != 2 {
		t.Fatalf("%d new nodes, %d pods without a place, want one with two pods and two without", len(r.New), len(r.Unplaced))
	}
	if f := r.Unplaced[0].Reasons[0].Filter; f != model.FilterAffinity {
		t.Errorf("filter %s", f)
	}
}

// A zone where nothing can be bought takes as many pods as its nodes have room for; the
// others are not counted on to go there, and their verdict does not blame them.
func TestZoneWithLittleRoom(t *testing.T) {
	t.Parallel()
	small := mt.Node("old", 1000, 4000, map[string]string{model.LabelZone: "us-east-1a"})
	pods := mt.Pods(9, "w", 900, 100, is("w"), spread(model.LabelZone, 2, app("w")))
	r := engine.Place(worldOf(mt.Pool("p", mt.Types("m5.large", "m5.4xlarge"), mt.Zones("us-east-1b")), []*model.Node{small}, pods), nil)
	if got := perZone(r); got["old"] != 1 || got["us-east-1b"] != 3 {
		t.Errorf("pods by place %v, want one on the old node and three in us-east-1b", got)
	}
	for _, v := range r.Unplaced {
		for _, reason := range v.Reasons {
			if reason.Filter != model.FilterTopology {
				t.Errorf("%s: %s: %s", v.Pod.Name, reason.Filter, reason.Message)
			}
		}
	}
}

// Equal specs of different sizes are told apart where only small machines are to be had.
func TestZoneOfSmallMachines(t *testing.T) {
	t.Parallel()
	w := worldOf(mt.Pool("p", mt.Types("m5.large", "m5.4xlarge")), nil,
		mt.Pods(3, "big", 8000, 100, is("w"), spread(model.LabelZone, 1, app("w"))), mt.Pods(3, "small", 100, 100, is("w"), spread(model.LabelZone, 1, app("w"))))
	for class, list := range w.Offerings {
		var some []*model.Offering
		for _, o := range list {
			if o.Zone != "us-east-1c" || o.Type.Name != "m5.4xlarge" {
				some = append(some, o)
			}
		}
		w.Offerings[class] = some
	}
	r := engine.Place(w, nil)
	for _, n := range r.New {
		for _, p := range n.Pods {
			if p.Requests.Get("cpu") == 8000 && n.Offering.Zone == "us-east-1c" {
				t.Errorf("%s in a zone without such machines", p.Name)
			}
		}
	}
	if len(r.Unplaced) > 0 {
		t.Errorf("%d without a place, such as %s: %+v", len(r.Unplaced), r.Unplaced[0].Pod.Name, r.Unplaced[0].Reasons)
	}
}

// kube-scheduler counts no nodes for a spread that lack the label of another one.
func TestSpreadCountsNodesWithAllLabels(t *testing.T) {
	t.Parallel()
	old := mt.Node("old", 1000, 1000, map[string]string{model.LabelZone: "us-east-1a"}, mt.Running(mt.Pods(3, "r", 100, 100, is("w"))...))
	old.Allocatable = old.Used()
	pods := mt.Pods(3, "w", 100, 100, is("w"), spread(model.LabelZone, 1, app("w")), spread("rack", 5, app("w")))
	pool := mt.Pool("p", mt.Types("m5.large"))
	pool.Labels = map[string]string{"rack": "r1"}
	pool.Requirements = pool.Requirements.With(rack("r1"))
	if got := counts(perZone(engine.Place(worldOf(pool, []*model.Node{old}, pods), nil))); len(got) != 3 {
		t.Errorf("pods by zone %v, want one in each: the pods on the node without a rack do not count", got)
	}
}

func rack(values ...string) require.Requirement { return require.Must("rack", require.In, values...) }

// Anti-affinity over a label that no node has keeps nobody away.
func TestAntiAffinityOverALabelThatNodesLack(t *testing.T) {
	t.Parallel()
	pods := mt.Pods(3, "w", 100, 100, is("w"), away("rack", app("w")))
	r := engine.Place(worldOf(mt.Pool("p", mt.Types("m5.large")), nil, pods), nil)
	if len(r.Unplaced) > 0 {
		t.Errorf("no pool gives its nodes a rack: %+v", r.Unplaced[0].Reasons)
	}
	pool := mt.Pool("q", mt.Types("m5.large"))
	pool.Labels = map[string]string{"rack": "r1"}
	pool.Requirements = pool.Requirements.With(rack("r1"))
	if r := engine.Place(worldOf(pool, nil, pods), nil); len(r.Unplaced) != 2 {
		t.Errorf("%d without a place, want all but the one in the only rack", len(r.Unplaced))
	}
}

// Pods that want to be near others go where such pods run already: kube-scheduler would
// not wait for those that are still to come.
func TestAffinityPrefersWhatRuns(t *testing.T) {
	t.Parallel()
	old := zoned("old", "us-east-1c", mt.Pod("r", 100, 100, is("db")))
	old.Allocatable = old.Used()
	hosts := mt.Pods(1, "db", 100, 100, is("db"), mt.Requires(mt.Zones("us-east-1a")))
	guests := mt.Pods(3, "web", 100, 100, near(model.LabelZone, app("db")))
	if got := perZone(engine.Place(worldOf(mt.Pool("p", mt.Types("m5.large")), []*model.Node{old}, hosts, guests), nil)); got["us-east-1c"] != 3 {
		t.Errorf("pods by zone %v, want three in us-east-1c", got)
	}
}
