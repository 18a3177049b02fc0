package model

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model/require"
)

// TestUsage: each node counts for the first commitment that covers it and has enough left.
func TestUsage(t *testing.T) {
	t.Parallel()
	onDemand := LabelMatch{Key: LabelCapacityType, Values: []string{OnDemand}}
	node := func(typ, capacity string, usd float64) *Node {
		return &Node{Labels: map[string]string{LabelInstanceType: typ, LabelCapacityType: capacity}, USDPerHour: usd, PriceKnown: usd > 0}
	}
	commitments := []Commitment{
		{Name: "ri", Covers: OfferingSelector{onDemand, {Key: LabelInstanceType, Values: []string{"m5.large"}}}, Nodes: 3, UsedNodes: 1},
		{Name: "plan", Covers: OfferingSelector{onDemand}, USDPerHour: 1, UsedUSDPerHour: 0.25, Discount: 0.5, USDPerHourByType: map[string]float64{"c5.large": 0.25}},
	}
	for name, c := range map[string]struct {
		nodes []*Node
		ri    int64
		plan  float64
	}{
		"nothing runs":              {nil, 1, 0.25},
		"spot counts for nothing":   {[]*Node{node("m5.large", Spot, 0.1)}, 1, 0.25},
		"reserved instances first":  {[]*Node{node("m5.large", OnDemand, 0.5)}, 2, 0.25},
		"then the plan":             {[]*Node{node("m5.large", OnDemand, 0.5), node("m5.large", OnDemand, 0.5), node("m5.large", OnDemand, 0.5)}, 3, 0.5},
		"at its discount":           {[]*Node{node("r5.large", OnDemand, 0.5)}, 1, 0.5},
		"at its price":              {[]*Node{node("c5.large", OnDemand, 9)}, 1, 0.5},
		"at its price, none known":  {[]*Node{node("c5.large", OnDemand, 0)}, 1, 0.5},
		"no price at all":           {[]*Node{node("r5.large", OnDemand, 0)}, 1, 0.25},
		"what does not fit is left": {[]*Node{node("r5.huge", OnDemand, 4), node("r5.large", OnDemand, 0.5)}, 1, 0.5},
	} {
		got := Usage(commitments, c.nodes)
		if got[0].UsedNodes != c.ri || got[1].UsedUSDPerHour != c.plan {
			t.Errorf("%s: %d nodes and %v USD/h are used, want %d and %v", name, got[0].UsedNodes, got[1].UsedUSDPerHour, c.ri, c.plan)
		}
	}
	a, b, c, spot := node("m5.large", OnDemand, 0.5), node("m5.large", OnDemand, 0.5), node("r5.huge", OnDemand, 2), node("m5.large", Spot, 0.1)
	cover := Cover(commitments, []*Node{a, b, c, spot})
	for name, x := range map[string]struct {
		gone []*Node
		want float64
	}{
		"reserved":                          {[]*Node{a}, 0.5},
		"both":                              {[]*Node{a, b}, 1},
		"beyond the plan":                   {[]*Node{c}, 0},
		"spot":                              {[]*Node{spot}, 0},
		"nobody":                            {nil, 0},
		"one covered and one that is not":   {[]*Node{a, c}, 0.5},
		"one of another world, not covered": {[]*Node{node("m5.large", OnDemand, 0.5)}, 0},
	} {
		if got := cover.Idle(x.gone); got != x.want {
			t.Errorf("%s: %v is paid anyhow, want %v", name, got, x.want)
		}
	}
	plan := []Commitment{{Name: "plan", Covers: OfferingSelector{onDemand}, USDPerHour: 1}}
	if got := Cover(plan, []*Node{a, b, c}).Idle([]*Node{a}); got != 0 {
		t.Errorf("another node waits for what is freed, and %v is paid anyhow", got)
	}
	if got := Cover(plan, []*Node{a, b, c}).Idle([]*Node{a, c}); got != 0.5 {
		t.Errorf("the one that waits goes as well, %v is paid anyhow", got)
	}
	if got := Cover(nil, []*Node{a}).Idle([]*Node{a}); got != 0 {
		t.Errorf("without commitments %v is paid anyhow", got)
	}
	if diff := cmp.Diff(int64(1), commitments[0].UsedNodes); diff != "" {
		t.Errorf("what was handed in has changed: %s", diff)
	}
	if Usage(nil, []*Node{node("m5.large", OnDemand, 1)}) != nil {
		t.Error("commitments out of nothing")
	}
}

// TestUnmatchedCommitments: each name that nothing has is told once, with its commitment.
func TestUnmatchedCommitments(t *testing.T) {
	t.Parallel()
	m5 := &Offering{Type: &InstanceType{Name: "m5.large", Labels: map[string]string{LabelInstanceType: "m5.large"}}, Zone: "us-east-1a", CapacityType: OnDemand}
	w := &World{Offerings: map[string][]*Offering{"default": {m5}}, Pools: []*Pool{{Name: "web", Labels: map[string]string{"team": "shop"}}},
		Nodes: []*Node{{Labels: map[string]string{LabelInstanceType: "c4.large", LabelZone: "us-east-1z"}}}}
	of := func(key string, values ...string) OfferingSelector {
		return OfferingSelector{{Key: LabelCapacityType, Values: []string{OnDemand}}, {Key: key, Values: values}}
	}
	w.Settings.Commitments = []Commitment{
		{Name: "ri", Source: "f.yaml", Covers: of(LabelInstanceType, "m5.large", "m5.lrage", "c4.large"), USDPerHourByType: map[string]float64{"m5.lrage": 1}},
		{Name: "zone", Source: "f.yaml", Covers: of(LabelZone, "us-east-1b", "us-east-1z")},
		{Name: "pool", Source: "f.yaml", Covers: of(LabelPool, "web", "wbe")},
		{Name: "team", Source: "f.yaml", Covers: of("team", "shop", "shpo")},
		{Name: "plan", Source: "f.yaml", USDPerHourByType: map[string]float64{"m5.large": 1, "m6.large": 1}},
	}
	want := []string{
		"commitment ri (f.yaml): no machine has node.kubernetes.io/instance-type m5.lrage",
		"commitment zone (f.yaml): no machine has topology.kubernetes.io/zone us-east-1b",
		"commitment pool (f.yaml): no machine has karpenter.sh/nodepool wbe",
		"commitment team (f.yaml): no machine has team shpo",
		"commitment plan (f.yaml): there is a price for m6.large, and no machine is of that type",
	}
	if got := w.UnmatchedCommitments(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestUnmatchedCommitmentsRequirements: a label that a pool lets its machines have is there
// before the first of them, save for labels that only what is bought can have.
func TestUnmatchedCommitmentsRequirements(t *testing.T) {
	t.Parallel()
	m5 := &Offering{Type: &InstanceType{Name: "m5.large", Labels: map[string]string{LabelInstanceType: "m5.large"}}, Zone: "us-east-1a", CapacityType: OnDemand}
	w := &World{Offerings: map[string][]*Offering{"default": {m5}}, Pools: []*Pool{
		{Name: "a", Requirements: require.NewSet(require.Must("team", require.In, "a", "b"), require.Must(LabelInstanceType, require.In, "m5.lrage"))},
		{Name: "b", Requirements: require.NewSet(require.Must("any", require.Exists), require.Must("rank", require.Gt, "3"), require.Must("no", require.DoesNotExist), require.Must("tier", require.NotIn, "x"))},
	}}
	covers := OfferingSelector{
		{Key: "team", Values: []string{"a", "b", "c"}},
		{Key: LabelInstanceType, Values: []string{"m5.large", "m5.lrage"}},
		{Key: "any", Values: []string{"thing"}},
		{Key: "rank", Values: []string{"3", "4"}},
		{Key: "no", Values: []string{"v"}},
		{Key: "tier", Values: []string{"x", "y"}},
	}
	w.Settings.Commitments = []Commitment{{Name: "ri", Source: "f.yaml", Covers: covers}}
	want := []string{
		"commitment ri (f.yaml): no machine has team c",
		"commitment ri (f.yaml): no machine has node.kubernetes.io/instance-type m5.lrage",
		"commitment ri (f.yaml): no machine has rank 3",
		"commitment ri (f.yaml): no machine has no v",
		"commitment ri (f.yaml): no machine has tier x",
	}
	if got := w.UnmatchedCommitments(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
