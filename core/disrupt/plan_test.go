package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// two nodes of which one can always take the other's pod
func pair(opts ...func(*model.World)) *model.World {
	return world(append([]func(*model.World){
		node("n1", "m5.large", pod("p1", 200)), node("n2", "m5.large", pod("p2", 200)),
	}, opts...)...)
}

func on(i int, f func(*model.Node)) func(*model.World) {
	return func(w *model.World) { f(w.Nodes[i]) }
}

func onPod(i int, f func(*model.Pod)) func(*model.World) {
	return func(w *model.World) { f(w.Nodes[i].Pods[0]) }
}

// Each check that keeps a node, with what a person reads and when it ends.
func TestBlockingReasons(t *testing.T) {
	t.Parallel()
	soon := noon.Add(10 * time.Minute)
	started := noon.Add(-20 * time.Minute)
	lastEvent := noon.Add(-time.Minute)
	tests := map[string]struct {
		opts    disrupt.Options
		change  func(*model.World)
		reason  string
		message string
		until   *time.Time
	}{
		"running command": {opts: disrupt.Options{Running: map[string]bool{"n1": true}}, reason: disrupt.BlockedRunning, message: "under way"},
		"unmanaged":       {change: on(0, func(n *model.Node) { n.Claim = nil }), reason: disrupt.BlockedUnmanaged, message: "no NodeClaim"},
		"not initialized": {change: on(0, func(n *model.Node) { delete(n.Labels, model.LabelInitialized); n.Claim.Conditions = nil }),
			reason: disrupt.BlockedUninitialized, message: "isn't initialized"},
		"deleting node":  {change: on(0, func(n *model.Node) { n.Deleting = &noon }), reason: disrupt.BlockedDeleting, message: "deleting"},
		"deleting claim": {change: on(0, func(n *model.Node) { n.Claim.Deleting = &noon }), reason: disrupt.BlockedDeleting, message: "deleting"},
		"marked": {change: on(0, func(n *model.Node) {
			n.Taints = []model.Taint{{Key: model.TaintDisrupted, Effect: model.NoSchedule}}
		}), reason: disrupt.BlockedDeleting, message: "marked"},
		"nominated": {opts: disrupt.Options{Nominated: map[string]time.Time{"n1": soon}}, reason: disrupt.BlockedNominated, message: "nominated", until: &soon},
		"preempted on": {change: on(0, func(n *model.Node) {
			n.Preempting = []*model.Pod{{Namespace: "x", Name: "high", NominatedNode: "n1"}}
		}), reason: disrupt.BlockedNominated, message: "x/high preempts"},
		"node annotation":  {change: on(0, func(n *model.Node) { n.Annotations[model.AnnotationDoNotDisrupt] = "true" }), reason: disrupt.BlockedDoNotDisrupt, message: "annotation of the node"},
		"no pool label":    {change: on(0, func(n *model.Node) { delete(n.Labels, model.LabelPool) }), reason: disrupt.BlockedLabel, message: `"karpenter.sh/nodepool"`},
		"pool gone":        {change: on(0, func(n *model.Node) { n.Labels[model.LabelPool] = "other" }), reason: disrupt.BlockedPool, message: "NodePool=other"},
		"nothing to buy":   {change: func(w *model.World) { w.Offerings = nil; w.Pools[0].Unusable = "class is missing" }, reason: disrupt.BlockedPool, message: "class is missing"},
		"pod annotation":   {change: onPod(0, annotated(model.AnnotationDoNotDisrupt, "true")), reason: disrupt.BlockedDoNotDisrupt, message: "pod x/p1"},
		"pod duration":     {change: onPod(0, func(p *model.Pod) { annotated(model.AnnotationDoNotDisrupt, "30m")(p); p.Started = &started }), reason: disrupt.BlockedDoNotDisrupt, message: "pod x/p1", until: &soon},
		"unknown start":    {change: onPod(0, annotated(model.AnnotationDoNotDisrupt, "30m")), reason: disrupt.BlockedDoNotDisrupt, message: "pod x/p1"},
		"daemon pod":       {change: on(0, pod("ds", 10, func(p *model.Pod) { p.Owner.Kind = "DaemonSet"; annotated(model.AnnotationDoNotDisrupt, "true")(p) })), reason: disrupt.BlockedDoNotDisrupt, message: "pod x/ds"},
		"pdb":              {change: pdb("b", 0, "p1", false), reason: disrupt.BlockedPDB, message: "x/b"},
		"two pdbs (B047)":  {change: func(w *model.World) { pdb("b1", 1, "p1", false)(w); pdb("b2", 1, "p1", false)(w) }, reason: disrupt.BlockedMultiplePDBs, message: "x/b1, x/b2"},
		"unhealthy (B064)": {change: func(w *model.World) { pdb("b", 0, "p1", false)(w); w.Nodes[0].Pods[0].Ready = false }, reason: disrupt.BlockedPDB, message: "x/b"},
		"healthy, always":  {change: pdb("b", 0, "p1", true), reason: disrupt.BlockedPDB, message: "x/b"},
		"never":            {change: pool(func(p *model.Pool) { p.ConsolidateAfter = model.Never }), reason: disrupt.BlockedNever, message: "Never"},
		"too young": {change: func(w *model.World) {
			w.Pools[0].ConsolidateAfter = 11 * time.Minute
			w.Nodes[0].Claim.LastPodEvent = &lastEvent
		}, reason: disrupt.BlockedAfter, message: "11m0s", until: &soon},
		"when empty":        {change: pool(func(p *model.Pool) { p.Policy = model.WhenEmpty }), reason: disrupt.BlockedPolicy, message: "not empty"},
		"static":            {change: pool(func(p *model.Pool) { n := int64(2); p.Static = &n }), reason: disrupt.BlockedStatic, message: "fixed number of 2"},
		"no type label":     {change: on(0, func(n *model.Node) { delete(n.Labels, model.LabelInstanceType) }), reason: disrupt.BlockedLabel, message: "instance-type"},
		"no capacity label": {change: on(0, func(n *model.Node) { delete(n.Labels, model.LabelCapacityType) }), reason: disrupt.BlockedLabel, message: "capacity-type"},
		"type is gone":      {change: on(0, func(n *model.Node) { n.Labels[model.LabelInstanceType] = "zz9.huge" }), reason: disrupt.BlockedType, message: `"zz9.huge" not found`},
		"no price":          {change: on(0, func(n *model.Node) { n.PriceKnown = false }), reason: disrupt.BlockedPrice, message: "m5.large in a as on-demand"},
		"unsupported pod": {change: onPod(0, func(p *model.Pod) {
			p.Unsupported = []model.Unsupported{{Filter: model.FilterTopology, Message: "spreads over zones"}}
		}), reason: disrupt.BlockedUnsupported, message: "topology: spreads over zones"},
		"no room":       {change: func(w *model.World) { w.Nodes[0].Pods[0].Requests = resource.New(1900, 0, 1, 0) }, reason: disrupt.BlockedCheapest, message: "cpu=1900m"},
		"no legal node": {change: onPod(0, selector(model.LabelHostname, "n1")), reason: disrupt.BlockedReplacement, message: "may run on no other node that stays"},
		"target too young": {change: func(w *model.World) {
			w.Pools[0].ConsolidateAfter = 11 * time.Minute
			w.Nodes[1].Claim.LastPodEvent = &lastEvent
		}, reason: disrupt.BlockedCheapest, message: "no other node that stays"},
		"target cordoned":  {change: on(1, func(n *model.Node) { n.Cordoned = true; n.Annotations[model.AnnotationDoNotDisrupt] = "true" }), reason: disrupt.BlockedCheapest, message: "no other node that stays"},
		"target not ready": {change: on(1, func(n *model.Node) { n.Ready = false; n.Annotations[model.AnnotationDoNotDisrupt] = "true" }), reason: disrupt.BlockedCheapest, message: "no other node that stays"},
		"budget":           {change: pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "0"}} }), reason: disrupt.BlockedBudget, message: `budget "0" allows 0 of 2`},
		"bad budget":       {change: pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "1", Schedule: "x", Duration: 1}} }), reason: disrupt.BlockedBudget, message: "cron line"},
		"closed window": {change: pool(func(p *model.Pool) {
			p.Budgets = []model.Budget{{Nodes: "0", Schedule: "0 12 * * *", Duration: 10 * time.Minute}}
		}), reason: disrupt.BlockedBudget, message: "0 12 * * *", until: &soon},
		"frozen": {opts: disrupt.Options{Frozen: "a third of the nodes is not ready"}, reason: disrupt.BlockedFrozen, message: "a third"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pair(on(1, func(n *model.Node) { n.Labels[model.LabelZone] = "b" }))
			if tc.change != nil {
				tc.change(w)
			}
			tc.opts.Waves = true
			b := blocked(t, disrupt.Plan(w, nil, nil, tc.opts), "n1")
			if b.Reason != tc.reason || !strings.Contains(b.Message, tc.message) {
				t.Errorf("got %s %q, want %s with %q", b.Reason, b.Message, tc.reason, tc.message)
			}
			if diff := cmp.Diff(tc.until, b.Until); diff != "" {
				t.Errorf("until (-want +got):\n%s", diff)
			}
		})
	}
}

// What looks like a blocker and is none.
func TestNotBlocking(t *testing.T) {
	t.Parallel()
	started := noon.Add(-31 * time.Minute)
	tests := map[string]func(*model.World){
		"nothing":          func(*model.World) {},
		"ownerless pod":    onPod(0, func(p *model.Pod) { p.Owner = model.Owner{} }),
		"annotation false": onPod(0, annotated(model.AnnotationDoNotDisrupt, "false")),
		"duration over":    onPod(0, func(p *model.Pod) { annotated(model.AnnotationDoNotDisrupt, "30m")(p); p.Started = &started }),
		"not ready":        on(0, func(n *model.Node) { n.Ready = false }),
		"cordoned":         on(0, func(n *model.Node) { n.Cordoned = true }),
		"nomination over":  func(*model.World) {},
		"pdb allows":       pdb("b", 1, "p1", false),
		"pdb of others":    pdb("b", 0, "p2", false),
		"crashing, always": func(w *model.World) { pdb("b", 0, "p1", true)(w); w.Nodes[0].Pods[0].Ready = false },
		"ended pod":        onPod(0, func(p *model.Pod) { p.Terminal = true; annotated(model.AnnotationDoNotDisrupt, "true")(p) }),
		"tolerates the taint": func(w *model.World) {
			pdb("b", 0, "p1", false)(w)
			w.Nodes[0].Pods[0].Tolerations = []model.Toleration{{Operator: "Exists"}}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pair(pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "2"}} }))
			change(w)
			w.Nodes[1].Annotations[model.AnnotationDoNotDisrupt] = "true" // so that only n1 can go
			p := disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true, Nominated: map[string]time.Time{"n1": noon}})
			if diff := cmp.Diff([]string{"n1"}, removed(p)); diff != "" {
				t.Errorf("removed (-want +got):\n%s\n%+v", diff, p.Blocked)
			}
		})
	}
}

// B052: a pod that can never be placed does not block consolidation.
// Nodes are eligible before room, budgets and strategies are asked.
func TestEligible(t *testing.T) {
	t.Parallel()
	w := pair(func(w *model.World) {
		w.Nodes[1].Pods = nil
		w.Pools[0].Budgets = []model.Budget{{Nodes: "0"}}
	})
	p := disrupt.Plan(w, nil, nil, disrupt.Options{})
	if d := cmp.Diff(map[model.DisruptionReason]int{model.Underutilized: 1, model.Empty: 1}, p.Eligible); d != "" || len(p.Commands) > 0 {
		t.Errorf("%s; %d commands", d, len(p.Commands))
	}
}

func TestLostPodDoesNotBlock(t *testing.T) {
	t.Parallel()
	w := pair()
	lost := &model.Pod{Namespace: "x", Name: "lost", Requests: resource.New(100, 0, 1, 0)}
	selector("no-such", "label")(lost)
	w.Pods = append(w.Pods, lost)
	p := plan(w)
	if len(removed(p)) != 1 {
		t.Errorf("removed %v, want one of the two nodes; blocked %+v", removed(p), p.Blocked)
	}
	if err := verify(w, p); err != nil {
		t.Error(err)
	}
}

// A waiting pod that fits only on an empty node keeps it.
func TestWaitingPodKeepsItsPlace(t *testing.T) {
	t.Parallel()
	w := world(node("full", "m5.large", pod("p1", 1500)), node("empty", "m5.large"))
	w.Pods = []*model.Pod{{Namespace: "x", Name: "waits", Requests: resource.New(1000, 0, 1, 0)}}
	p := plan(w)
	if len(p.Commands) != 0 {
		t.Fatalf("removed %v", removed(p))
	}
	if b := blocked(t, p, "empty"); b.Reason != disrupt.BlockedReplacement || !strings.Contains(b.Message, "waiting pod x/waits") {
		t.Errorf("empty is blocked by %s %q", b.Reason, b.Message)
	}
}

// B043: the same price is no saving. Two half-used nodes could become one of twice
// the size and price, and a well-used one itself again: neither happens.
func TestEqualPriceIsNoSaving(t *testing.T) {
	t.Parallel()
	w := world(node("n1", "m5.2xlarge", pod("p1", 5000)), node("n2", "m5.2xlarge", pod("p2", 5000)), node("n3", "m5.8xlarge", pod("p3", 28800)))
	p := plan(w)
	if len(p.Commands) != 0 {
		t.Errorf("removed %v", removed(p))
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if b := blocked(t, p, n); b.Reason != disrupt.BlockedCheapest {
			t.Errorf("%s: %s %q", n, b.Reason, b.Message)
		}
	}
}

// B044: what a move saves and costs, as shares of its pool.
func TestBalancedScore(t *testing.T) {
	t.Parallel()
	if got := disrupt.BalancedScore(0.10, 1.00, 3, 10); got < 0.33 || got > 0.34 {
		t.Errorf("0.10 of 1.00 for 3 of 10 scores %v, want a third", got)
	}
	for _, zero := range []float64{disrupt.BalancedScore(0, 1, 1, 1), disrupt.BalancedScore(-1, 1, 1, 1), disrupt.BalancedScore(1, 0, 1, 1), disrupt.BalancedScore(1, 1, 0, 1), disrupt.BalancedScore(1, 1, 1, 0)} {
		if zero != 0 {
			t.Errorf("got %v, want 0", zero)
		}
	}
	balanced := pool(func(p *model.Pool) { p.Policy = model.Balanced })
	// n1 carries 20 of 22 pods for a tenth of the money: too much disruption for it
	var many []func(*model.Node)
	for i := range 20 {
		many = append(many, pod(fmt.Sprintf("m%02d", i), 10))
	}
	w := world(balanced, node("n1", "m5.large", many...), node("n2", "m5.4xlarge", pod("p2", 200)), node("empty", "m5.large"))
	p := plan(w)
	if b := blocked(t, p, "n1"); b.Reason != disrupt.BlockedBalanced {
		t.Errorf("n1: %s %q", b.Reason, b.Message)
	}
	if got := removed(p); !strings.Contains(strings.Join(got, " "), "empty") {
		t.Errorf("removed %v, want the empty node, which is not scored", got)
	}
}

// B049: drift takes an empty node where emptiness is off, before ones with pods.
func TestEmptyDriftedNode(t *testing.T) {
	t.Parallel()
	drifted := func(since time.Time) func(*model.Node) {
		return func(n *model.Node) {
			n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: model.CondDrifted, Status: "True", Reason: "NodePoolDrifted", Since: since})
		}
	}
	w := world(pool(func(p *model.Pool) {
		p.ConsolidateAfter = model.Never
		p.Budgets = []model.Budget{{Nodes: "1", Reasons: []model.DisruptionReason{model.Drifted}}}
	}), node("old", "m5.large", pod("p", 100), drifted(born)), node("e", "m5.large", drifted(noon)), node("other", "m5.large", pod("q", 100)))
	p := disrupt.Plan(w, nil, nil, disrupt.Options{})
	if len(p.Commands) != 1 || p.Commands[0].Reason != model.Drifted || p.Commands[0].Remove[0].Name != "e" {
		t.Fatalf("commands %+v, want e for Drifted", p.Commands)
	}
	if b := blocked(t, p, "old"); b.Reason != disrupt.BlockedBudget {
		t.Errorf("old: %s %q", b.Reason, b.Message)
	}
	all := plan(w)
	if diff := cmp.Diff([]string{"e", "old"}, removed(all)); diff != "" {
		t.Errorf("removed in all waves (-want +got):\n%s", diff)
	}
	if all.Commands[0].Wave != 1 || all.Commands[1].Wave != 2 {
		t.Errorf("waves %d and %d, want 1 and 2", all.Commands[0].Wave, all.Commands[1].Wave)
	}
}

// B046: with a grace period drift may pick a node whose pods cannot be evicted yet,
// and plans no place for those.
func TestDriftWithGracePeriod(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	w := world(node("d1", "m5.large", pod("locked", 1900, annotated(model.AnnotationDoNotDisrupt, "true")), pod("guarded", 50), func(n *model.Node) {
		n.Claim.TerminationGP = &day
		n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: model.CondDrifted, Status: "True"})
	}), node("n2", "m5.large", pod("p2", 500)))
	w.PDBs = []*model.PDB{{Namespace: "x", Name: "none", FullyBlocking: true, Selects: func(l map[string]string) bool { return l["app"] == "guarded" }}}
	p := plan(w)
	if len(p.Commands) == 0 || p.Commands[0].Reason != model.Drifted || len(p.Commands[0].Moves) != 0 {
		t.Fatalf("commands %+v, want d1 for Drifted without moves", p.Commands)
	}
	w.Nodes[0].Claim.TerminationGP = nil
	if b := blocked(t, plan(w), "d1"); b.Reason != disrupt.BlockedDoNotDisrupt {
		t.Errorf("without a grace period: %s %q", b.Reason, b.Message)
	}
}

func TestEmptyNodes(t *testing.T) {
	t.Parallel()
	daemon := func(p *model.Pod) { p.Owner.Kind = "DaemonSet" }
	w := world(node("bare", "m5.large"), node("daemons", "m5.large", pod("ds", 100, daemon)),
		node("cheap-pod", "m5.large", pod("low", 100, func(p *model.Pod) { p.Priority = -1 << 25 })),
		node("unpriced", "m5.large", func(n *model.Node) { n.PriceKnown = false }),
		node("used", "m5.large", pod("p", 1500)))
	p := plan(w)
	if diff := cmp.Diff([]string{"bare", "cheap-pod", "daemons", "unpriced"}, removed(p)); diff != "" {
		t.Fatalf("removed (-want +got):\n%s", diff)
	}
	if len(p.Commands) != 1 || p.Commands[0].Reason != model.Empty || p.Commands[0].PodsEvicted != 1 {
		t.Errorf("commands %+v, want one for Empty with one eviction", p.Commands)
	}
}

// What may start now is within the budget, the rest says so; empty nodes come first.
func TestOnlyNow(t *testing.T) {
	t.Parallel()
	w := world(pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "34%"}} }))
	for i := range 4 {
		node(fmt.Sprintf("n%d", i), "m5.xlarge", pod(fmt.Sprintf("p%d", i), 500))(w)
	}
	node("e", "m5.large")(w)
	p := disrupt.Plan(w, nil, nil, disrupt.Options{})
	if got := removed(p); len(got) != 2 || got[0] != "e" {
		t.Fatalf("removed %v, want e and one more (34%% of 5)", got)
	}
	held := 0
	for _, b := range p.Blocked {
		if b.Reason == disrupt.BlockedBudget {
			held++
		}
	}
	if held != 2 { // and one takes everybody's pods in the end
		t.Errorf("%d nodes are held by the budget, want 2: %+v", held, p.Blocked)
	}
	if err := verify(w, p); err != nil {
		t.Error(err)
	}
	all := plan(w)
	if last := all.Commands[len(all.Commands)-1]; len(removed(all)) != 5 || len(last.Launch) != 1 {
		t.Errorf("all waves remove %v, want all, and in the last a smaller node in place of the one that took everybody's pods: %+v", removed(all), last)
	}
	if err := verify(w, all); err != nil {
		t.Error(err)
	}
}

// A strategy's "no" keeps the node, which then takes pods of others.
func TestStrategyRefuses(t *testing.T) {
	t.Parallel()
	w := pair()
	asked := 0
	p := disrupt.Plan(w, nil, func(moves []*model.Command) []model.MoveScore {
		asked++
		out := make([]model.MoveScore, len(moves))
		for i, m := range moves {
			out[i] = model.MoveScore{Accept: m.Remove[0].Name != "n1", Score: 2.5, Reason: "not today"}
		}
		return out
	}, disrupt.Options{Waves: true})
	if diff := cmp.Diff([]string{"n2"}, removed(p)); diff != "" || asked != 2 {
		t.Fatalf("removed (-want +got):\n%s\nasked %d times", diff, asked)
	}
	if b := blocked(t, p, "n1"); b.Reason != disrupt.BlockedStrategy || !strings.Contains(b.Message, "not today") {
		t.Errorf("n1: %s %q", b.Reason, b.Message)
	}
	if p.Commands[0].Score != 2.5 {
		t.Errorf("score %v", p.Commands[0].Score)
	}
	// an answer that is too short accepts nothing it does not name
	if p := disrupt.Plan(w, nil, func([]*model.Command) []model.MoveScore { return nil }, disrupt.Options{Waves: true}); len(p.Commands) != 0 {
		t.Errorf("a strategy without answers has %v removed", removed(p))
	}
}

// Expiry asks nobody: budget, PDB and annotation do not hold it.
func TestExpiry(t *testing.T) {
	t.Parallel()
	w := pair(pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "0"}} }), pdb("b", 0, "p1", false), on(0, func(n *model.Node) {
		n.Claim.ExpireAfter = 48 * time.Hour
		pod("huge", 5000)(n)
	}))
	p := disrupt.Plan(w, nil, nil, disrupt.Options{Expire: true})
	if len(p.Commands) != 1 || p.Commands[0].Reason != model.Expired || p.Commands[0].PodsEvicted != 2 || len(p.Commands[0].Moves) != 1 {
		t.Fatalf("commands %+v", p.Commands)
	}
	if !strings.Contains(p.Commands[0].Why, "1 of its pods") {
		t.Errorf("why %q", p.Commands[0].Why)
	}
	if p := disrupt.Plan(w, nil, nil, disrupt.Options{}); len(p.Commands) != 0 {
		t.Errorf("expiry is planned unasked: %+v", p.Commands)
	}
	w.Now = w.Now.Add(-time.Second)
	if p := disrupt.Plan(w, nil, nil, disrupt.Options{Expire: true}); len(p.Commands) != 0 {
		t.Errorf("a node expired a second early: %+v", p.Commands)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	w := pair(onPod(0, annotated(model.AnnotationDoNotDisrupt, "false")), pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "1", Schedule: "x", Duration: 1}} }))
	got := strings.Join(plan(w).Warnings, "\n")
	for _, want := range []string{`"false" has no effect on pod x/p1`, "spec.disruption.budgets[0].schedule"} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings lack %q:\n%s", want, got)
		}
	}
}

// Pods of nodes on their way out and daemon pods to come have their room kept.
func TestRoomIsKept(t *testing.T) {
	t.Parallel()
	w := world(node("n1", "m5.large", pod("p1", 600)), node("n2", "m5.large", pod("p2", 600)),
		node("out", "m5.large", pod("leaving", 600), func(n *model.Node) { n.Claim.Deleting = &noon }))
	if p := plan(w); len(p.Commands) != 1 {
		t.Fatalf("three pods of 600m fit on one node of 2: removed %v", removed(p))
	}
	w.DaemonSets = []*model.DaemonSet{{Namespace: "x", Name: "ds", Pod: &model.Pod{Requests: resource.New(300, 0, 1, 0)}}}
	if p := plan(w); len(p.Commands) != 0 {
		t.Errorf("with 300m for a daemon pod to come they do not: removed %v", removed(p))
	}
	w.DaemonSets[0].Pod.Terms = []require.Set{require.NewSet(require.Must("other", require.In, "nodes"))}
	if p := plan(w); len(p.Commands) != 1 {
		t.Errorf("a daemon set of other nodes keeps room: removed %v", removed(p))
	}
}

// Whatever the cluster: pods fit, money goes down, budgets hold, every node has an answer.
func TestPlansAreSound(t *testing.T) {
	t.Parallel()
	names := []string{"m5.large", "m5.xlarge", "m5.2xlarge", "m5.4xlarge"}
	rapid.Check(t, func(t *rapid.T) {
		w := world(pool(func(p *model.Pool) {
			p.Policy = rapid.SampledFrom([]model.ConsolidationPolicy{model.WhenEmpty, model.WhenEmptyOrUnderutilized, model.Balanced}).Draw(t, "policy")
			for _, v := range rapid.SliceOfN(rapid.SampledFrom([]string{"0", "1", "2", "10%", "50%", "100%"}), 0, 2).Draw(t, "budgets") {
				b := model.Budget{Nodes: v}
				if rapid.Bool().Draw(t, "narrow") {
					b.Reasons = []model.DisruptionReason{rapid.SampledFrom([]model.DisruptionReason{model.Empty, model.Underutilized}).Draw(t, "reason")}
				}
				p.Budgets = append(p.Budgets, b)
			}
		}))
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			name := fmt.Sprintf("n%02d", i)
			k := rapid.SampledFrom(names).Draw(t, "type")
			var opts []func(*model.Node)
			free := kinds[k].cores * 1000
			for j := range rapid.IntRange(0, 5).Draw(t, "pods") {
				milli := rapid.Int64Range(10, 2500).Draw(t, "milli")
				if milli > free {
					break
				}
				free -= milli
				opts = append(opts, pod(fmt.Sprintf("p%02d-%d", i, j), milli, func(p *model.Pod) {
					switch rapid.IntRange(0, 14).Draw(t, "special") {
					case 0:
						selector(model.LabelHostname, name)(p)
					case 1:
						p.Owner.Kind = "DaemonSet"
					case 2:
						annotated(model.AnnotationDoNotDisrupt, "true")(p)
					case 3:
						selector(model.LabelZone, "a")(p)
					}
				}))
			}
			node(name, k, append(opts, func(n *model.Node) {
				switch rapid.IntRange(0, 12).Draw(t, "state") {
				case 0:
					n.Ready = false
				case 1:
					n.Claim.Deleting = &noon
				case 2:
					n.Cordoned = true
				case 3:
					n.Labels[model.LabelZone] = "b"
				case 4:
					n.Taints = []model.Taint{{Key: "team", Effect: model.NoSchedule}}
				}
			})...)(w)
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "waiting") {
			w.Pods = append(w.Pods, &model.Pod{Namespace: "x", Name: fmt.Sprintf("w%d", i), Requests: resource.New(rapid.Int64Range(10, 3000).Draw(t, "waits"), 0, 1, 0)})
		}
		refuse := rapid.IntRange(0, 5).Draw(t, "refuse")
		score := func(moves []*model.Command) []model.MoveScore {
			out := make([]model.MoveScore, len(moves))
			for i, m := range moves {
				out[i] = model.MoveScore{Accept: m.PodsEvicted != refuse || m.Reason == model.Empty, Score: m.Before, Reason: "by number"}
			}
			return out
		}
		for _, waves := range []bool{true, false} {
			if err := verify(w, disrupt.Plan(w, nil, score, disrupt.Options{Waves: waves})); err != nil {
				t.Fatalf("waves %t: %v", waves, err)
			}
		}
	})
}
