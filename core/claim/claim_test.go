package claim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

var t0 = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

const pid = "aws:///us-east-1a/i-1"

// made is a claim as the executor makes it, at t0.
func made(f ...func(*model.Claim)) *model.Claim {
	c := &model.Claim{
		Name: "c1", UID: "u1", Pool: "p", Labels: map[string]string{model.LabelPool: "p", "team": "a"},
		Annotations: map[string]string{"x": "y", model.AnnotationLaunch: "id/token"}, Finalizers: []string{model.FinalizerTermination},
		Taints: []model.Taint{{Key: "gpu", Effect: model.NoSchedule}}, StartupTaints: []model.Taint{{Key: "cni", Effect: model.NoSchedule}},
		ExpireAfter: model.Never, Created: t0, Requests: resource.New(100, 1, 1, 0),
	}
	for _, g := range f {
		g(c)
	}
	return c
}

func launched(c *model.Claim) {
	c.ProviderID = pid
	cond(model.CondLaunched, "True", t0.Add(30*time.Second))(c)
}

func registered(c *model.Claim) {
	launched(c)
	c.NodeName = "n1"
	cond(model.CondRegistered, "True", t0.Add(time.Minute))(c)
}

func initialized(c *model.Claim) {
	registered(c)
	cond(model.CondInitialized, "True", t0.Add(2*time.Minute))(c)
	cond(model.CondReady, "True", t0.Add(2*time.Minute))(c)
	cond("ConsistentStateFound", "True", t0.Add(2*time.Minute))(c)
}

func deleted(at time.Time) func(*model.Claim) { return func(c *model.Claim) { c.Deleting = &at } }

func cond(typ, status string, since time.Time) func(*model.Claim) {
	return func(c *model.Claim) {
		c.Conditions = append(c.Conditions, model.Condition{Type: typ, Status: status, Reason: typ, Since: since})
	}
}

// joined is a node as its kubelet registers it.
func joined(f ...func(*model.Node)) *model.Node {
	n := &model.Node{
		Name: "n1", UID: "un1", ProviderID: pid, Labels: map[string]string{"team": "b"},
		Taints:      []model.Taint{Unregistered, {Key: "gpu", Value: "kept", Effect: model.NoSchedule}},
		Allocatable: resource.New(1000, 1<<30, 10, 0), Capacity: resource.New(1000, 1<<30, 10, 0), Ready: true, Created: t0,
	}
	for _, g := range f {
		g(n)
	}
	return n
}

func takenOver(n *model.Node) {
	n.Labels[model.LabelRegistered] = "true"
	n.Finalizers = []string{model.FinalizerTermination}
	n.Taints = slices.DeleteFunc(n.Taints, Unregistered.Same)
}

// summary tells a step in a few words.
func summary(r Result) string {
	var out []string
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	add("%s", r.Phase)
	if p := r.Claim; p != nil {
		for _, c := range p.Conditions {
			add("%s=%s/%s", c.Type, c.Status, c.Reason)
		}
		for _, c := range p.RemoveConditions {
			add("-%s", c)
		}
		for k, v := range p.Annotations {
			add("%s=%s", k, v)
		}
		if len(p.AddFinalizers) > 0 {
			add("+finalizer")
		}
		if len(p.RemoveFinalizers) > 0 {
			add("-finalizer")
		}
		if p.LastPodEvent != nil {
			add("lastPodEvent=%s", p.LastPodEvent.Sub(t0))
		}
	}
	if p := r.Node; p != nil {
		add("node(+taints %v -taints %v +fin %d -fin %d initialized=%q)", p.AddTaints, p.RemoveTaints, len(p.AddFinalizers), len(p.RemoveFinalizers), p.Labels[model.LabelInitialized])
	}
	if r.Delete != "" {
		add("delete:%s", r.Delete)
	}
	for _, n := range r.DeleteNodes {
		add("delete node %s", n.Name)
	}
	for word, on := range map[string]bool{"drain": r.Drain, "terminate": r.Terminate, "poll": r.Poll} {
		if on {
			add("%s", word)
		}
	}
	if !r.Next.IsZero() {
		add("next=%s", r.Next.Sub(t0))
	}
	return strings.Join(out, " ")
}

func TestStep(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) time.Time { return t0.Add(d) }
	pool := &model.Pool{Name: "p", ConsolidateAfter: 5 * time.Minute, Hash: "1", HashVersion: "v3"}
	for _, tt := range []struct {
		name string
		o    Observed
		now  time.Time
		want string
	}{
		{"new", Observed{Claim: made()}, t0,
			"planned Launched=Unknown/AwaitingReconciliation Registered=Unknown/AwaitingReconciliation Initialized=Unknown/AwaitingReconciliation Ready=Unknown/ReconcilingDependents next=5m0s"},
		{"without its finalizer", Observed{Claim: made(func(c *model.Claim) { c.Finalizers = nil }, waiting)}, t0, "planned +finalizer next=5m0s"},
		{"a launch error is not overwritten", Observed{Claim: made(waiting, func(c *model.Claim) {
			c.Conditions[0].Reason, c.Conditions[0].Message = "RequestLimitExceeded", "slow down"
		})}, t0, "planned next=5m0s"},
		// B068
		{"launch timeout not yet", Observed{Claim: made(waiting)}, after(4*time.Minute + 59*time.Second), "planned next=5m0s"},
		{"launch timeout", Observed{Claim: made(waiting)}, after(5*time.Minute + time.Second), "planned delete:launch_timeout"},
		{"launched, no node", Observed{Claim: made(launched)}, after(time.Minute), "launched Registered=Unknown/NodeNotFound Ready=Unknown/ReconcilingDependents next=15m0s"},
		{"registration timeout not yet", Observed{Claim: made(launched, unregistered)}, after(14*time.Minute + 59*time.Second), "launched next=15m0s"},
		{"registration timeout", Observed{Claim: made(launched, unregistered)}, after(15*time.Minute + 31*time.Second), "launched delete:registration_timeout"},
		{"two nodes", Observed{Claim: made(launched, unregistered), Nodes: []*model.Node{joined(), joined()}}, after(time.Minute),
			"launched Registered=False/MultipleNodesFound Ready=False/UnhealthyDependents next=15m0s"},
		{"node joins: taken over, a taint that is there wins", Observed{Claim: made(launched, unregistered), Nodes: []*model.Node{joined()}}, after(time.Minute),
			`launched node(+taints [cni:NoSchedule] -taints [karpenter.sh/unregistered:NoExecute] +fin 1 -fin 0 initialized="") next=15m0s`},
		{"node joins with its own taints", Observed{Claim: made(launched, unregistered), Nodes: []*model.Node{joined(func(n *model.Node) { n.Labels[model.LabelNoSyncTaints] = "true" })}}, after(time.Minute),
			`launched node(+taints [] -taints [karpenter.sh/unregistered:NoExecute] +fin 1 -fin 0 initialized="") next=15m0s`},
		{"node was taken over", Observed{Claim: made(launched, unregistered), Nodes: []*model.Node{joined(takenOver, notReadyNode)}}, after(time.Minute),
			"registered Registered=True/Registered Initialized=Unknown/NodeNotReady Ready=Unknown/ReconcilingDependents next=15m0s"},
		{"startup taint", Observed{Claim: made(registered), Nodes: []*model.Node{joined(takenOver, taint("cni", model.NoSchedule))}}, after(time.Minute),
			"registered Initialized=Unknown/StartupTaintsExist Ready=Unknown/ReconcilingDependents"},
		{"ephemeral taint", Observed{Claim: made(registered), Nodes: []*model.Node{joined(takenOver, taint("readiness.k8s.io/x", model.NoSchedule))}}, after(time.Minute),
			"registered Initialized=Unknown/KnownEphemeralTaintsExist Ready=Unknown/ReconcilingDependents"},
		{"a device is missing", Observed{Claim: made(registered, func(c *model.Claim) { c.Requests = c.Requests.With("nvidia.com/gpu", 1) }), Nodes: []*model.Node{joined(takenOver)}}, after(time.Minute),
			"registered Initialized=Unknown/ResourceNotRegistered Ready=Unknown/ReconcilingDependents"},
		{"usable: the node says so first", Observed{Claim: made(registered), Nodes: []*model.Node{joined(takenOver)}}, after(time.Minute),
			`registered Ready=Unknown/ReconcilingDependents node(+taints [] -taints [] +fin 0 -fin 0 initialized="true")`},
		{"usable", Observed{Claim: made(registered), Nodes: []*model.Node{joined(takenOver, initializedNode)}}, after(2 * time.Minute),
			"initialized Initialized=True/Initialized Ready=True/Ready"},
		{"not consolidatable yet", Observed{Claim: made(initialized), Nodes: []*model.Node{joined(takenOver, initializedNode)}, Pool: pool}, after(6 * time.Minute), "initialized next=7m0s"},
		{"consolidatable", Observed{Claim: made(initialized), Nodes: []*model.Node{joined(takenOver, initializedNode)}, Pool: pool}, after(7 * time.Minute),
			"initialized Consolidatable=True/Consolidatable"},
		{"a pod came", Observed{Claim: made(initialized, cond(model.CondConsolidatable, "True", t0)), Pool: pool, PodEvent: after(8 * time.Minute)}, after(8 * time.Minute),
			"initialized -Consolidatable lastPodEvent=8m0s next=13m0s"},
		{"another pod came at once: not written again", Observed{Claim: made(initialized, podEvent(8*time.Minute)), Pool: pool, PodEvent: after(8*time.Minute + 9*time.Second)}, after(9 * time.Minute),
			"initialized next=13m9s"},
		{"never consolidatable", Observed{Claim: made(initialized), Pool: &model.Pool{ConsolidateAfter: model.Never}}, after(time.Hour), "initialized"},
		{"NotReady later clears nothing", Observed{Claim: made(initialized), Nodes: []*model.Node{joined(takenOver, notReadyNode)}, Pool: &model.Pool{ConsolidateAfter: model.Never}}, after(time.Hour), "initialized"},
		{"drifted from its pool", Observed{Claim: made(initialized, hashed("2", "v3")), Pool: with(*pool, never)}, after(time.Hour), "initialized Drifted=True/NodePoolDrifted"},
		{"another hash version is no drift", Observed{Claim: made(initialized, hashed("2", "v2")), Pool: with(*pool, never)}, after(time.Hour), "initialized"},
		{"drifted from the requirements", Observed{Claim: made(initialized), Pool: with(*pool, never, func(p *model.Pool) {
			p.Requirements = require.NewSet(require.Must("team", "In", "z"))
		})}, after(time.Hour), "initialized Drifted=True/RequirementsDrifted"},
		{"drift is over", Observed{Claim: made(initialized, hashed("1", "v3"), reason(model.CondDrifted, "NodePoolDrifted")), Pool: with(*pool, never)}, after(time.Hour), "initialized -Drifted"},
		{"a provider's drift stays", Observed{Claim: made(initialized, hashed("1", "v3"), reason(model.CondDrifted, "AMIDrift")), Pool: with(*pool, never)}, after(time.Hour), "initialized"},
		{"expired", Observed{Claim: made(initialized, func(c *model.Claim) { c.ExpireAfter = time.Hour })}, after(time.Hour), " delete:expired"},
		{"expires later", Observed{Claim: made(initialized, func(c *model.Claim) { c.ExpireAfter = time.Hour }), Pool: with(*pool, never)}, after(59 * time.Minute), "initialized next=1h0m0s"},
		{"its node is being deleted", Observed{Claim: made(initialized), Nodes: []*model.Node{joined(func(n *model.Node) { n.Deleting = &t0 })}}, after(time.Hour), " delete:node_deleted"},

		{"deleted before anything was bought", Observed{Claim: made(deleted(t0)), Ending: Ending{}}, t0, "gone -finalizer"},
		{"deleted while a launch is open", Observed{Claim: made(deleted(t0)), Ending: Ending{LaunchOpen: true}}, t0, "draining"},
		{"deleted before the node joined", Observed{Claim: made(launched, deleted(t0)), Ending: Ending{}}, t0, "terminating terminate"},
		{"ending", Observed{Claim: made(launched, deleted(t0)), Ending: Ending{Terminating: true}}, t0, "terminating InstanceTerminating=True/InstanceTerminating poll"},
		{"ended", Observed{Claim: made(launched, deleted(t0)), Ending: Ending{Terminating: true, InstanceGone: true}}, t0, "gone -finalizer"},
		{"drain", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver)}, Ending: Ending{}}, t0,
			"draining Drained=Unknown/Draining delete node n1 drain"},
		{"drain with a grace period", Observed{Claim: made(initialized, deleted(t0), func(c *model.Claim) { d := time.Minute; c.TerminationGP = &d }), Nodes: []*model.Node{joined(takenOver, deletedNode)}, Ending: Ending{}}, t0,
			"draining Drained=Unknown/Draining karpenter.sh/nodeclaim-termination-timestamp=2026-01-01T10:01:00Z drain"},
		{"a deadline that cannot be read stalls it", Observed{Claim: made(initialized, deleted(t0), func(c *model.Claim) {
			c.Annotations[model.AnnotationTerminationTimestamp] = "tomorrow"
		}), Nodes: []*model.Node{joined(takenOver, deletedNode)}, Ending: Ending{Drained: true}}, t0, "draining"},
		{"drained", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver, deletedNode)}, Ending: Ending{Drained: true}}, t0,
			"terminating Drained=True/Drained VolumesDetached=True/VolumesDetached terminate"},
		{"B065: volumes are waited for", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver, deletedNode)}, Ending: Ending{Drained: true, Attached: []string{"v"}}}, t0,
			"draining Drained=True/Drained VolumesDetached=Unknown/AwaitingVolumeDetachment"},
		{"B065: but not past the deadline", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver, deletedNode)}, Ending: Ending{Drained: true, Expired: true, Attached: []string{"v"}}}, t0,
			"terminating Drained=True/Drained VolumesDetached=False/TerminationGracePeriodElapsed terminate"},
		{"nor past the instant at which the machine is taken", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver, deletedNode)}, Ending: Ending{Drained: true, Taken: true, Attached: []string{"v"}}}, t0,
			"terminating Drained=True/Drained VolumesDetached=False/InterruptionDeadlineElapsed terminate"},
		{"nor where the machine is gone", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver, deletedNode, notReadyNode)}, Ending: Ending{Drained: true, InstanceGone: true, Attached: []string{"v"}}}, t0,
			`gone node(+taints [] -taints [] +fin 0 -fin 1 initialized="")`},
		{"instance gone and node dead: no drain", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver, deletedNode, notReadyNode)}, Ending: Ending{InstanceGone: true}}, t0,
			`gone node(+taints [] -taints [] +fin 0 -fin 1 initialized="")`},
		{"instance gone but node Ready: drained all the same", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver, deletedNode)}, Ending: Ending{InstanceGone: true}}, t0,
			"draining Drained=Unknown/Draining drain"},
		{"the cloud says that it ended", Observed{Claim: made(initialized, deleted(t0)), Nodes: []*model.Node{joined(takenOver)}, Ending: Ending{InstanceGone: true, NoDrain: true}}, t0, "gone delete node n1"},
		{"all is over", Observed{Claim: made(initialized, deleted(t0), func(c *model.Claim) {
			cond(model.CondDrained, "True", t0)(c)
			cond(model.CondVolumesDetached, "True", t0)(c)
		}), Ending: Ending{Drained: true, Terminating: true, InstanceGone: true}}, t0, "gone -finalizer"},
		{"somebody took our finalizer off", Observed{Claim: made(initialized, deleted(t0), func(c *model.Claim) { c.Finalizers = []string{"other"} }), Ending: Ending{}}, t0, "gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, summary(Step(tt.o, tt.now))); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func waiting(c *model.Claim) {
	for _, typ := range []string{model.CondLaunched, model.CondRegistered, model.CondInitialized} {
		c.Conditions = append(c.Conditions, model.Condition{Type: typ, Status: "Unknown", Reason: "AwaitingReconciliation", Message: "object is awaiting reconciliation", Since: t0})
	}
	c.Conditions = append(c.Conditions, model.Condition{Type: model.CondReady, Status: "Unknown", Reason: "ReconcilingDependents",
		Message: "Launched=Unknown, Registered=Unknown, Initialized=Unknown", Since: t0})
}

func unregistered(c *model.Claim) {
	c.Conditions = append(c.Conditions,
		model.Condition{Type: model.CondRegistered, Status: "Unknown", Reason: "NodeNotFound", Message: "Node not registered with cluster", Since: t0.Add(30 * time.Second)},
		model.Condition{Type: model.CondReady, Status: "Unknown", Reason: "ReconcilingDependents", Message: "Registered=Unknown, Initialized=Unknown", Since: t0})
}

func notReadyNode(n *model.Node)    { n.Ready = false }
func initializedNode(n *model.Node) { n.Labels[model.LabelInitialized] = "true" }
func deletedNode(n *model.Node)     { n.Deleting = &t0 }

func taint(key string, e model.Effect) func(*model.Node) {
	return func(n *model.Node) { n.Taints = append(n.Taints, model.Taint{Key: key, Effect: e}) }
}

func podEvent(d time.Duration) func(*model.Claim) {
	return func(c *model.Claim) { at := t0.Add(d); c.LastPodEvent = &at }
}

func hashed(h, v string) func(*model.Claim) {
	return func(c *model.Claim) {
		c.Annotations[model.AnnotationPoolHash], c.Annotations[model.AnnotationPoolHashVersion] = h, v
	}
}

func reason(typ, why string) func(*model.Claim) {
	return func(c *model.Claim) {
		c.Conditions = append(c.Conditions, model.Condition{Type: typ, Status: "True", Reason: why, Since: t0})
	}
}

func never(p *model.Pool) { p.ConsolidateAfter = model.Never }

func with(p model.Pool, f ...func(*model.Pool)) *model.Pool {
	for _, g := range f {
		g(&p)
	}
	return &p
}

// What the node gets at registration.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	p := takeOver(made(launched), joined())
	want := map[string]string{model.LabelPool: "p", "team": "a", model.LabelRegistered: "true", model.LabelInstanceID: "i-1"}
	if d := cmp.Diff(want, p.Labels); d != "" {
		t.Errorf("labels (-want +got)\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"x": "y"}, p.Annotations); d != "" {
		t.Errorf("annotations: what belongs to the claim stays there (-want +got)\n%s", d)
	}
	if p.OwnerClaim == nil || p.OwnerClaim.UID != "u1" {
		t.Errorf("owner %+v", p.OwnerClaim)
	}
}

func TestUnregisteredTaintMissingIsTold(t *testing.T) {
	t.Parallel()
	r := Step(Observed{Claim: made(launched, unregistered), Nodes: []*model.Node{joined(func(n *model.Node) { n.Taints = nil })}}, t0)
	if len(r.Events) != 1 || r.Events[0].Reason != "UnregisteredTaintMissing" || r.Node == nil {
		t.Errorf("events %+v, node %+v", r.Events, r.Node)
	}
}
