package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"

	"github.com/weir-project/weir/integration/bench/measure"
)

func cmpKeys(a, b client.ObjectKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func labelSet(l map[string]string) labels.Labels { return labels.Set(l) }

// provider sells the types of a question. Only what a decision reads is there.
type provider struct {
	cloudprovider.CloudProvider // nil
	types                       []*cloudprovider.InstanceType
}

func (p *provider) GetInstanceTypes(context.Context, *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return p.types, nil
}
func (p *provider) Name() string { return "peer" }

// GetSupportedNodeClasses names the one class that Karpenter brings along.
func (p *provider) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}

// trusting takes a command as it is: nothing changes here while Karpenter waits for 15 s
// before its second look.
type trusting struct{}

func (trusting) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

// running is a cluster that Karpenter consolidates.
type running struct {
	*memory
	cluster *state.Cluster
	sold    *provider
	multi   *disruption.MultiNodeConsolidation
	queue   *disruption.Queue
	events  events.Recorder
	clock   clock.Clock
	bought  int
}

// consolidateRounds is how many decisions are asked for at most.
var consolidateRounds = 100

// consolidateWithKarpenter has Karpenter's multi-node consolidation decide, does what it
// says at once, and goes on until it finds nothing. Solve has the time of each decision;
// Commands is how many there were, Nodes and USD what was left after the last.
func consolidateWithKarpenter(ctx context.Context, q *measure.Question) (*measure.Answer, error) {
	ctx = production(ctx)
	dir, err := os.MkdirTemp("", "weir-peer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := q.Write(dir); err != nil {
		return nil, err
	}
	runtime.GC()
	heap := measure.WatchHeap()
	began := time.Now()
	r, err := open(ctx, dir, q)
	if err != nil {
		return nil, err
	}
	a := &measure.Answer{Pods: len(r.pods), NodesBefore: len(r.nodes), Load: time.Since(began).Seconds()}
	if a.USDBefore, err = r.usd(); err != nil {
		return nil, err
	}
	for range consolidateRounds {
		began, cpu := time.Now(), measure.CPUSeconds()
		c, err := r.decide(ctx)
		if err != nil {
			return nil, err
		}
		a.Solve, a.CPU = append(a.Solve, time.Since(began).Seconds()), append(a.CPU, measure.CPUSeconds()-cpu)
		if c == nil {
			break
		}
		a.Commands++
		if err := r.obey(ctx, c); err != nil {
			return nil, err
		}
	}
	a.PeakHeap, a.Nodes = heap.Close(), len(r.nodes)
	a.USD, err = r.usd()
	return a, err
}

// open reads the objects of a question.
func open(ctx context.Context, dir string, q *measure.Question) (*running, error) {
	r := &running{memory: newMemory(), events: events.NewRecorder(&record.FakeRecorder{}), clock: clock.RealClock{}}
	var err error
	if r.pool, err = pool(q.Pool); err != nil {
		return nil, err
	}
	r.pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: v1alpha1.Group, Kind: "TestNodeClass", Name: "bench"}
	r.pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	r.pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	its, err := instanceTypes(dir)
	if err != nil {
		return nil, err
	}
	r.sold = &provider{types: its}
	r.cluster = state.NewCluster(r.clock, r.memory, r.sold)
	provisioner := provisioning.NewProvisioner(r.memory, r.events, r.sold, r.cluster, r.clock, nil, nil)
	r.queue = disruption.NewQueue(r.memory, r.events, r.cluster, r.clock, provisioner)
	r.multi = disruption.NewMultiNodeConsolidation(disruption.MakeConsolidation(r.clock, r.cluster, r.memory, provisioner, r.sold, r.events, r.queue), disruption.WithValidator(trusting{}))
	return r, r.load(ctx, filepath.Join(dir, "objects.json"))
}

func (r *running) load(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	for _, raw := range list.Items {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(raw, &kind); err != nil {
			return err
		}
		switch kind.Kind {
		case "Pod":
			p := &corev1.Pod{}
			if err := json.Unmarshal(raw, p); err != nil {
				return err
			}
			r.put(p)
		case "Node":
			n := &corev1.Node{}
			if err := json.Unmarshal(raw, n); err != nil {
				return err
			}
			r.nodes[n.Name] = n
		case "NodeClaim":
			c := &karpv1.NodeClaim{}
			if err := json.Unmarshal(raw, c); err != nil {
				return err
			}
			c.Spec.NodeClassRef = r.pool.Spec.Template.Spec.NodeClassRef
			r.claims[c.Name] = c
		case "PodDisruptionBudget":
			var b policyv1.PodDisruptionBudget
			if err := json.Unmarshal(raw, &b); err != nil {
				return err
			}
			r.budgets = append(r.budgets, b)
		}
	}
	for _, c := range r.claims {
		r.cluster.UpdateNodeClaim(c)
	}
	for _, n := range r.nodes {
		if err := r.cluster.UpdateNode(ctx, n); err != nil {
			return err
		}
	}
	for _, p := range r.pods {
		if err := r.cluster.UpdatePod(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// decide is one decision, nil where nothing is left to do.
func (r *running) decide(ctx context.Context) (*disruption.Command, error) {
	candidates, err := disruption.GetCandidates(ctx, r.cluster, r.memory, r.events, r.clock, r.sold, r.multi.ShouldDisrupt, disruption.GracefulDisruptionClass, r.queue)
	if err != nil {
		return nil, err
	}
	commands, err := r.multi.ComputeCommands(ctx, map[string]int{r.pool.Name: math.MaxInt32}, candidates...)
	if err != nil || len(commands) == 0 || commands[0].Decision() == disruption.NoOpDecision {
		return nil, err
	}
	return &commands[0], nil
}

// obey moves the pods of a command, buys the cheapest machine that it allows and takes away
// its nodes.
func (r *running) obey(ctx context.Context, c *disruption.Command) error {
	for _, n := range c.Results.ExistingNodes {
		for _, p := range n.Pods {
			if err := r.move(ctx, p, n.Name()); err != nil {
				return err
			}
		}
	}
	for _, x := range c.Replacements {
		name, err := r.buy(ctx, x)
		if err != nil {
			return err
		}
		for _, p := range x.Pods {
			if err := r.move(ctx, p, name); err != nil {
				return err
			}
		}
	}
	for _, x := range c.Candidates {
		name := x.Name()
		if left := len(r.on[name]); left > 0 {
			return fmt.Errorf("node %s goes with %d pods on it", name, left)
		}
		claim := x.NodeClaim.Name
		r.cluster.DeleteNode(name)
		r.cluster.DeleteNodeClaim(claim)
		delete(r.nodes, name)
		delete(r.claims, claim)
	}
	return nil
}

func (r *running) move(ctx context.Context, p *corev1.Pod, node string) error {
	moved := p.DeepCopy()
	moved.Spec.NodeName = node
	r.put(moved)
	return r.cluster.UpdatePod(ctx, moved)
}

func (r *running) buy(ctx context.Context, x *disruption.Replacement) (string, error) {
	var best *cloudprovider.Offering
	var of *cloudprovider.InstanceType
	for _, it := range ordinary(x.InstanceTypeOptions) {
		for _, o := range it.Offerings.Available().Compatible(x.Requirements) {
			if best == nil || o.Price < best.Price {
				best, of = o, it
			}
		}
	}
	if best == nil {
		return "", errors.New("a replacement has no offering that its requirements allow")
	}
	r.bought++
	name := fmt.Sprintf("bought-%04d", r.bought)
	l := map[string]string{}
	for _, of := range []scheduling.Requirements{of.Requirements, best.Requirements} {
		for k, x := range of {
			if x.Operator() == corev1.NodeSelectorOpIn && x.Len() == 1 {
				l[k] = x.Values()[0]
			}
		}
	}
	for k, v := range map[string]string{karpv1.NodePoolLabelKey: r.pool.Name, karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
		corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: of.Name, corev1.LabelOSStable: "linux"} {
		l[k] = v
	}
	id := "aws:///" + best.Zone() + "/" + name
	born := metav1.NewTime(r.clock.Now().Add(-time.Hour))
	ready := func(kinds ...string) (out []status.Condition) {
		for _, k := range kinds {
			out = append(out, status.Condition{Type: k, Status: metav1.ConditionTrue, Reason: k, LastTransitionTime: born})
		}
		return out
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, UID: types.UID("claim-" + name), Labels: l, CreationTimestamp: born}}
	claim.Spec.NodeClassRef = r.pool.Spec.Template.Spec.NodeClassRef
	claim.Status = karpv1.NodeClaimStatus{ProviderID: id, NodeName: name, Capacity: of.Capacity, Allocatable: of.Allocatable(),
		Conditions: ready(karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsolidatable, status.ConditionReady)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: l, CreationTimestamp: born}, Spec: corev1.NodeSpec{ProviderID: id}}
	node.Status = corev1.NodeStatus{Capacity: of.Capacity, Allocatable: of.Allocatable(), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	r.claims[claim.Name], r.nodes[name] = claim, node
	r.cluster.UpdateNodeClaim(claim)
	return name, r.cluster.UpdateNode(ctx, node)
}

// usd is what the nodes cost.
func (r *running) usd() (float64, error) {
	prices := map[[3]string]float64{}
	for _, it := range r.sold.types {
		for _, o := range it.Offerings {
			prices[[3]string{it.Name, o.Zone(), o.CapacityType()}] = o.Price
		}
	}
	sum := 0.0
	for _, n := range r.nodes {
		usd, ok := prices[[3]string{n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone], n.Labels[karpv1.CapacityTypeLabelKey]}]
		if !ok {
			return 0, fmt.Errorf("node %s has no price", n.Name)
		}
		sum += usd
	}
	return sum, nil
}
