package strategy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// machine is a node of the default pool with a pod that fills it.
func machine(name, typ, zone, capacity string, usd float64) *model.Node {
	n := mt.Node(name, 3920, 15000, map[string]string{model.LabelCapacityType: capacity, model.LabelInstanceType: typ, model.LabelZone: zone},
		mt.Managed("default"), mt.Running(mt.Pod("on-"+name, 3900, 1000)))
	n.Labels["karpenter.k8s.aws/instance-family"], _, _ = strings.Cut(typ, ".")
	n.USDPerHour, n.PriceKnown = usd, true
	return n
}

// TestHistoryInTheRequest: what worlds remember of offerings is told, with when it was.
func TestHistoryInTheRequest(t *testing.T) {
	t.Parallel()
	w := workloads(1)
	hour := func(n int) time.Time { return w.Now.Add(-time.Duration(n) * time.Hour) }
	remember := []model.Offering{{Available: true, Shortages: 2, LastShortage: hour(1)}, {Available: true, Interruptions: 3, LastInterruption: hour(2)},
		{Available: true, LastShortage: hour(3)}, {Available: false, Unavailable: "short"}, {Available: true}}
	list := append([]*model.Offering(nil), w.Offerings[mt.Class]...)
	for i, r := range remember {
		x := *list[i]
		x.Available, x.Unavailable, x.Shortages, x.Interruptions = r.Available, r.Unavailable, r.Shortages, r.Interruptions
		x.LastShortage, x.LastInterruption = r.LastShortage, r.LastInterruption
		list[i] = &x
	}
	w.Offerings = map[string][]*model.Offering{mt.Class: list}
	req := newMarket(w.Offerings).priceRequest(w, w.Pools)
	want := map[int]sdk.Health{0: {Available: true, Shortages: 2, LastShortage: hour(1)}, 1: {Available: true, Interruptions: 3, LastInterruption: hour(2)},
		2: {Available: true, LastShortage: hour(3)}, 3: {Unavailable: "short"}}
	got := map[int]sdk.Health{}
	for i := range remember {
		if h, ok := req.Health[i]; ok {
			got[i] = h
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestResilientForgets: what was interrupted often, long ago, is bought again.
func TestResilientForgets(t *testing.T) {
	t.Parallel()
	const config = `{"zones": 0, "spotPools": 0, "maxShare": 1}`
	w := workloads(6)
	key := planWith(t, w, "resilient", config).Launch[0].Offering.Key()
	bought := func(last time.Duration) bool {
		w := workloads(6)
		for i, o := range w.Offerings[mt.Class] {
			if o.Key() == key {
				x := *o
				x.Interruptions, x.LastInterruption = 9, w.Now.Add(-last)
				w.Offerings[mt.Class][i] = &x
			}
		}
		for _, n := range planWith(t, w, "resilient", config).Launch {
			if n.Offering.Key() == key {
				return true
			}
		}
		return false
	}
	if bought(time.Hour) {
		t.Errorf("%s was interrupted nine times, an hour ago the last, and is bought", key)
	}
	if !bought(30 * 24 * time.Hour) {
		t.Errorf("%s was interrupted a month ago and is still not bought", key)
	}
}

// TestMovesTellOfPods: what is known of the pods of a node that goes.
func TestMovesTellOfPods(t *testing.T) {
	t.Parallel()
	w := workloads(1)
	ago := func(d time.Duration) *time.Time { at := w.Now.Add(-d); return &at }
	n := machine("n1", "m5.xlarge", "us-east-1a", model.OnDemand, 0.192)
	n.Created = w.Now.Add(-2 * time.Hour)
	n.Claim.Created, n.Claim.ExpireAfter = n.Created, 5*time.Hour
	n.Pods = append(n.Pods, mt.Pod("young", 100, 100, func(p *model.Pod) { p.Started, p.Priority, p.RestartCount = ago(time.Minute), 1000, 3 }),
		mt.Pod("system", 100, 100, func(p *model.Pod) { p.Started, p.Priority = ago(time.Hour), 2_000_001_000 }),
		mt.Pod("dear", 100, 100, func(p *model.Pod) { p.Annotations = map[string]string{model.AnnotationPodDeletionCost: "700"} }),
		mt.Pod("daemon", 100, 100, func(p *model.Pod) { p.Owner.Kind, p.RestartCount, p.Priority = "DaemonSet", 99, 99 }))
	w.Nodes = []*model.Node{n}
	facts := func() sdk.RemovedNode {
		req, err := newMarket(w.Offerings).scoreRequest(w, w.Pools, []*model.Command{{Reason: model.Underutilized, Remove: w.Nodes}})
		if err != nil {
			t.Fatal(err)
		}
		return req.Moves[0].Remove[0]
	}
	want := sdk.RemovedNode{Name: "n1", USDPerHour: 0.192, Pods: 4, Age: 2 * time.Hour, Expires: 3 * time.Hour,
		PodFacts: sdk.PodFacts{DeletionCost: 700, Priorities: 1_000_001_000, Young: 1, Restarts: 3}}
	if diff := cmp.Diff(want, facts(), cmpopts.IgnoreFields(sdk.RemovedNode{}, "Offering")); diff != "" {
		t.Error(diff)
	}
	w.Settings.Commitments = []model.Commitment{{Name: "ri", Nodes: 1, Covers: model.OfferingSelector{{Key: model.LabelInstanceType, Values: []string{"m5.xlarge"}}}}}
	req, err := newMarket(w.Offerings).scoreRequest(w, w.Pools, []*model.Command{{Reason: model.Underutilized, Remove: w.Nodes, Before: 0.192}})
	if err != nil || req.Moves[0].Committed != 0.192 {
		t.Errorf("a reserved instance goes, and %v is paid anyhow (%v)", req.Moves[0].Committed, err)
	}
	n.Claim.ExpireAfter = time.Hour
	if got := facts().Expires; got != time.Second {
		t.Errorf("a node past its expiry has %s", got)
	}
	n.Claim.ExpireAfter = model.Never
	if got := facts().Expires; got != 0 {
		t.Errorf("a node that never expires has %s", got)
	}
}

// TestCommitmentsAreUsedFirst, up to what runs has left of them: two instances reserved of
// which one runs, and a plan of which machines here and elsewhere draw a part.
func TestCommitmentsAreUsedFirst(t *testing.T) {
	t.Parallel()
	w := workloads(30, 50, 8, 100)
	w.Nodes = []*model.Node{machine("r1", "m5.xlarge", "us-east-1a", model.OnDemand, 0.192), machine("p1", "c5.xlarge", "us-east-1a", model.OnDemand, 0.17)}
	onDemand := model.LabelMatch{Key: model.LabelCapacityType, Values: []string{model.OnDemand}}
	reserved := model.OfferingSelector{onDemand, {Key: model.LabelInstanceType, Values: []string{"m5.xlarge"}}}
	w.Settings.Commitments = []model.Commitment{{Name: "ri", Nodes: 2, Covers: reserved},
		{Name: "plan", USDPerHour: 1.5, UsedUSDPerHour: 0.5, Discount: 0.5, Covers: model.OfferingSelector{onDemand, {Key: "karpenter.k8s.aws/instance-family", Values: []string{"c5", "c6i"}}}}}
	req := newMarket(w.Offerings).priceRequest(w, w.Pools)
	if len(req.Commitments) != 2 || req.Commitments[0].UsedNodes != 1 || req.Commitments[1].UsedUSDPerHour != 0.5+0.17/2 {
		t.Fatalf("commitments in the request: %+v", req.Commitments)
	}
	plan := planWith(t, w, "capacity-mix", `{"onDemandShare": 0, "commitments": {"first": true}}`)
	ri, drawn, spot := 0, 0.0, 0
	for _, n := range plan.Launch {
		switch o := n.Offering; {
		case o.CapacityType == model.Spot:
			spot++
		case o.Type.Name == "m5.xlarge":
			ri++
		case o.Type.Labels["karpenter.k8s.aws/instance-family"] == "c5" || o.Type.Labels["karpenter.k8s.aws/instance-family"] == "c6i":
			drawn += o.USDPerHour / 2
		default:
			t.Errorf("%s %s is bought, which no commitment covers", o.Type.Name, o.CapacityType)
		}
	}
	if left := 1 - 0.17/2; ri != 1 || drawn > left || drawn < left-0.17 || spot == 0 {
		t.Errorf("%d reserved instances of the one that is left, %.3f USD/h of the plan of %.3f, %d spot nodes", ri, drawn, left, spot)
	}
	for _, n := range planWith(t, w, "capacity-mix", `{"onDemandShare": 0, "commitments": {"first": false}}`).Launch {
		if n.Offering.CapacityType != model.Spot {
			t.Errorf("%s is bought on demand, and commitments are not asked for", n.Offering.Type.Name)
		}
	}
}

// TestBaseOnDemand: so many nodes, or vCPUs, of each pool are on demand, those that run
// counted, before any is spot; pools have mixes of their own.
func TestBaseOnDemand(t *testing.T) {
	t.Parallel()
	count := func(w *model.World, plan *model.Plan) (onDemand, spot int, vcpu float64) {
		for _, n := range plan.Launch {
			if n.Offering.CapacityType == model.Spot {
				spot++
				continue
			}
			onDemand++
			vcpu += float64(n.Offering.Type.Capacity.Get("cpu")) / 1000
		}
		return onDemand, spot, vcpu
	}
	w := workloads(30, 50, 8, 90)
	w.Nodes = []*model.Node{machine("n1", "m5.xlarge", "us-east-1a", model.OnDemand, 0.192), machine("n2", "m5.xlarge", "us-east-1a", model.Spot, 0.08)}
	const spread = `"parts": [{"match": {"node.kubernetes.io/instance-type": ["none"]}, "max": 0.5}]`
	if n, spot, _ := count(w, planWith(t, w, "capacity-mix", `{"onDemandBaseNodes": 2, `+spread+`}`)); n != 1 || spot == 0 {
		t.Errorf("base of two nodes, one of which runs: %d more are bought, and %d as spot", n, spot)
	}
	if _, spot, vcpu := count(w, planWith(t, w, "capacity-mix", `{"onDemandBaseVCPU": 24}`)); vcpu < 16 || vcpu > 60 || spot == 0 {
		t.Errorf("base of 24 vCPUs, 4 of which run: %v more are bought, and %d spot nodes", vcpu, spot)
	}
	if n, _, _ := count(w, planWith(t, w, "capacity-mix", `{"onDemandShare": 1, "pools": {"default": {"maxSpotShare": 1}}}`)); n != 0 {
		t.Errorf("the pool's own mix asks for nothing on demand, %d nodes are", n)
	}
	w.Pools[0].Annotations = map[string]string{"weir.dev/capacity-mix": `{"maxSpotShare": 0}`}
	if n, spot, _ := count(w, planWith(t, w, "capacity-mix", `{"onDemandShare": 0}`)); n == 0 || spot != 0 {
		t.Errorf("the annotation allows no spot: %d nodes on demand, %d as spot", n, spot)
	}
}

// TestWrongAnnotationBuysNothing and the verdict says what is wrong with it.
func TestWrongAnnotationBuysNothing(t *testing.T) {
	t.Parallel()
	w := workloads(3)
	w.Pools[0].Annotations = map[string]string{"weir.dev/capacity-mix": `{"onDemandShare": 20}`}
	h := testHost(t, Config{InstanceSelection: "capacity-mix"})
	prices, err := h.Price(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	plan := provision.Plan(w, prices)
	if len(plan.Launch) != 0 || len(plan.Unplaced) != 3 {
		t.Fatalf("%d nodes, %d pods without a place", len(plan.Launch), len(plan.Unplaced))
	}
	if r := fmt.Sprint(plan.Unplaced[0].Reasons); !strings.Contains(r, "annotation weir.dev/capacity-mix: onDemandShare: want 0 to 1") {
		t.Errorf("reasons %s", r)
	}
}

// TestSettingsAndSchemasAgree: what a built-in takes its schema allows, and what it
// refuses the schema does, too, but for rules between fields.
func TestSettingsAndSchemasAgree(t *testing.T) {
	t.Parallel()
	for name, configs := range map[string]map[string]bool{
		"cost-optimal": {`{}`: true, `{"feePerNode": 0}`: true, `{"feePerNode": 1000}`: true, `{"feePerNode": -1}`: false, `{"feePerNode": 1001}`: false, `{"fee": 1}`: false, `{"feePerNode": "1"}`: false},
		"first-fit":    {`{}`: true, `{"feePerNode": 0}`: false, `[]`: false},
		"resilient": {`{"maxShare": 1, "zones": 0, "spotPools": 1000, "interruptionCost": 10, "shortageCost": 0, "halfLifeHours": 0, "maxPodsPerNode": 10000}`: true, `{"maxShare": 0}`: false,
			`{"maxShare": 1.1}`: false, `{"zones": 101}`: false, `{"zones": 1.5}`: false, `{"spotPools": -1}`: false, `{"interruptionCost": 11}`: false, `{"shortageCost": -1}`: false,
			`{"halfLifeHours": 8761}`: false, `{"maxPodsPerNode": -1}`: false},
		"capacity-mix": {`{"onDemandBaseNodes": 3, "onDemandShare": 0.2, "maxSpotShare": 0.5, "measure": "price"}`: true, `{"pools": {"a": {"onDemandBaseVCPU": 8.5}}}`: true,
			`{"parts": [{"match": {"a": ["b"]}, "min": 0.1, "max": 0.2, "strict": true, "name": "x"}]}`: true, `{"commitments": {"first": false, "maxUSDPerHour": 3, "factor": 0}}`: true,
			`{"onDemandBaseNodes": -1}`: false, `{"onDemandBaseNodes": 1.5}`: false, `{"onDemandShare": 2}`: false, `{"maxSpotShare": -1}`: false, `{"measure": "cores"}`: false,
			`{"pools": {"a": {"measure": "nodes"}}}`: false, `{"pools": {"a": {"onDemandShare": 2}}}`: false, `{"parts": [{}]}`: false, `{"parts": [{"match": {}}]}`: false,
			`{"parts": [{"match": {"a": []}}]}`: false, `{"commitments": {"factor": 2}}`: false, `{"commitments": {"maxUSDPerHour": -1}}`: false, `{"commitments": {"last": true}}`: false},
		"savings": {`{"floor": 0, "usdPerPod": 1, "horizonHours": 24, "youngPod": 0, "restart": 0}`: true, `{"floor": -1}`: false, `{"usdPerPod": 0}`: false, `{"usdPerPod": 1e7}`: false,
			`{"horizonHours": 0}`: false, `{"youngPod": 1001}`: false, `{"restart": -1}`: false},
	} {
		for config, good := range configs {
			s, err := builtin.New(name)
			if err != nil {
				t.Fatal(err)
			}
			bySchema, byStrategy := CheckSettings(s.Describe().ConfigSchema, json.RawMessage(config)), s.Configure(json.RawMessage(config))
			if (bySchema == nil) != good || (byStrategy == nil) != good {
				t.Errorf("%s %s: the schema says %v, the strategy %v, good is %t", name, config, bySchema, byStrategy, good)
			}
		}
	}
}
