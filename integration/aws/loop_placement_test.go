package aws_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/integration/aws/ec2front"
)

// placed is a loop whose class names a placement group; each of its pods needs a machine of its own.
func placed(t *testing.T, g ec2front.PlacementGroup) (*loop, string) {
	t.Helper()
	l := newLoop(t, nil, model.OnDemand)
	p := *l.API.Pools["default"]
	p.Requirements = p.Requirements.With(require.Must(model.LabelInstanceType, "In", "c5.large"))
	l.API.PutPool(&p)
	id := l.front.AddPlacementGroup(g)
	l.change(func(s *awsv1.EC2NodeClassSpec) {
		s.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: g.Name}
	})
	return l, id
}

// instances are those that live, as EC2 tells of them.
func (l *loop) described() []cloud.Instance {
	l.t.Helper()
	all, err := l.provider.List(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return slices.DeleteFunc(all, cloud.Instance.Gone)
}

// partitions counts the instances of a group by partition, and holds the labels of their claims and nodes against them.
func (l *loop) partitions(group string) map[string]int {
	l.t.Helper()
	out := map[string]int{}
	for _, i := range l.described() {
		p := fmt.Sprint(i.Partition)
		out[p]++
		if i.PlacementGroup != group {
			l.t.Errorf("instance %s is in placement group %q, want %s", i.ID, i.PlacementGroup, group)
		}
		for _, c := range l.API.Claims {
			if c.ProviderID == i.ProviderID() && (c.Labels[model.LabelPlacementGroup] != group || c.Labels[model.LabelPlacementPartition] != p) {
				l.t.Errorf("claim %s of an instance in partition %s is labelled %v", c.Name, p, c.Labels)
			}
		}
		for _, n := range l.API.Nodes {
			if n.ProviderID == i.ProviderID() && n.Labels[model.LabelPlacementPartition] != p {
				l.t.Errorf("node %s of an instance in partition %s is labelled %v", n.Name, p, n.Labels)
			}
		}
	}
	return out
}

// Pods that do not care are spread over the partitions by EC2; those that ask for one get it, and those that are to be spread are.
func TestLoopPartitions(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		pod  func(*model.Pod)
		want map[string]int
	}{
		"any": {nil, map[string]int{"1": 2, "2": 2, "3": 2}},
		"one": {func(p *model.Pod) {
			p.Terms = []require.Set{require.NewSet(require.Must(model.LabelPlacementPartition, "In", "2"))}
		}, map[string]int{"2": 6}},
		"spread": {func(p *model.Pod) {
			p.Topology = &model.Topology{Spreads: []model.Spread{{Key: model.LabelPlacementPartition, MaxSkew: 1, HonorAffinity: true,
				Selector: model.Selector{ID: "web", Labels: p.Labels, Matches: func(o *model.Pod) bool { return o.Labels["app"] == "web" }}}}}
		}, map[string]int{"1": 2, "2": 2, "3": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, id := placed(t, ec2front.PlacementGroup{Name: "kafka", Strategy: "partition", Partitions: 3})
			l.web(6).Pod = x.pod
			l.run(6, 5*time.Minute)
			l.ends(6, 6)
			if diff := cmp.Diff(x.want, l.partitions(id)); diff != "" {
				t.Errorf("instances by partition (-want +got):\n%s", diff)
			}
		})
	}
}

// A group that was deleted and made again under its name is another: machines drift, and go to the new one.
func TestLoopPlacementGroupDrift(t *testing.T) {
	t.Parallel()
	l, id := placed(t, ec2front.PlacementGroup{Name: "hpc", Strategy: "spread"})
	l.web(3)
	l.run(3, 5*time.Minute)
	l.ends(3, 3)
	l.front.DropPlacementGroup(id)
	l.Run(6 * time.Minute) // the class is not ready: nothing is concluded from that
	if n := len(l.EC2.Machines()); n != 3 || l.Running("web") != 3 || l.API.Classes["default"].Unusable == "" {
		t.Errorf("%d machines, %d pods, class %+v", n, l.Running("web"), l.API.Classes["default"])
	}
	next := l.front.AddPlacementGroup(ec2front.PlacementGroup{Name: "hpc", Strategy: "spread"})
	drifted := false
	if !l.Until(20*time.Minute, func() bool {
		for _, c := range l.API.Claims {
			drifted = drifted || c.Condition(model.CondDrifted).Reason == claim.DriftPlacement
		}
		return !slices.ContainsFunc(l.described(), func(i cloud.Instance) bool { return i.PlacementGroup != next })
	}) || !drifted {
		t.Fatalf("drifted: %t; %+v", drifted, l.described())
	}
	l.run(3, 3*time.Minute)
	l.ends(3, 6)
}

// A spread group takes seven in a zone. What it refuses is no shortage of EC2: no other cluster hears of it, and the claim says why.
func TestLoopSpreadGroupIsFull(t *testing.T) {
	t.Parallel()
	l, _ := placed(t, ec2front.PlacementGroup{Name: "hpc", Strategy: "spread"})
	l.web(16)
	l.Run(6 * time.Minute)
	zones := map[string]int{}
	for _, i := range l.described() {
		zones[i.Zone]++
	}
	if diff := cmp.Diff(map[string]int{ec2front.Region + "a": 7, ec2front.Region + "b": 7}, zones); diff != "" {
		t.Errorf("instances by zone (-want +got):\n%s", diff)
	}
	l.tells("InsufficientCapacityError", "limit of instances in this spread placement group")
	health, err := ledger.Offerings(t.Context(), l.Ledger, ec2front.Account, ec2front.Region, l.Now())
	if err != nil || len(health) != 0 {
		t.Errorf("other clusters hear of %v, %v", slices.Sorted(maps.Keys(health)), err)
	}
}

// A cluster group is in one zone: its machines are together.
func TestLoopClusterGroup(t *testing.T) {
	t.Parallel()
	l, _ := placed(t, ec2front.PlacementGroup{Name: "hpc", Strategy: "cluster"})
	w := l.web(2)
	l.run(2, 5*time.Minute)
	w.Replicas = 5
	l.run(5, 10*time.Minute)
	zones := map[string]bool{}
	for _, i := range l.described() {
		zones[i.Zone] = true
	}
	if len(zones) != 1 {
		t.Errorf("zones %v", zones)
	}
	l.ends(5, 5)
}
