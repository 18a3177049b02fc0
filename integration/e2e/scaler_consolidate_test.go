package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/integration/harness"
)

// What the cluster of the consolidation test has: two pods to a node, then one.
const (
	halfNodes  = 50
	halfBudget = 15 // nodes at once
	halfPDB    = 10 // pods at once
	heldPods   = 5  // that ask not to be disrupted
)

const halfPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: half}
spec:
  template:
    metadata: {labels: {half: half}}
    spec:
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m6i.xlarge]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: Never
  disruption:
    consolidateAfter: 0s
    budgets: [{nodes: "%d"}]
`

const halfDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {%[4]s}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {half: half}
      containers:
        - name: c
          image: public.ecr.aws/eks-distro/kubernetes/pause:3.7
          resources: {requests: {cpu: %[3]s, memory: 1Gi}}
`

const halfBudgetOfPods = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: half, namespace: default}
spec:
  maxUnavailable: %d
  selector: {matchLabels: {app: half}}
`

// onlooker follows pods and claims through every state that the API server had, for what
// must never be.
type onlooker struct {
	mu        sync.Mutex // guards everything below
	ready     map[types.UID]bool
	least     int // pods that were ready, at the worst moment
	held      map[types.UID]bool
	lost      int // of the held ones
	disrupted map[string]bool
	most      int // nodes that were disrupted, at the worst moment
}

func (o *onlooker) pod(e watch.Event) {
	p, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	out := e.Type == watch.Deleted || p.DeletionTimestamp != nil
	if o.held[p.UID] && out {
		o.lost++
	}
	if p.Labels["app"] != "half" {
		return
	}
	delete(o.ready, p.UID)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !out {
			o.ready[p.UID] = true
		}
	}
	o.least = min(o.least, len(o.ready))
}

// claim counts nodes as v1's budgets do: until their instance is being ended.
func (o *onlooker) claim(e watch.Event) {
	c, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	delete(o.disrupted, c.GetName())
	conditions, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
	is := map[any]bool{}
	for _, x := range conditions {
		if m, ok := x.(map[string]any); ok {
			is[m["type"]] = m["status"] == "True"
		}
	}
	if e.Type != watch.Deleted && is["DisruptionReason"] && !is["InstanceTerminating"] {
		o.disrupted[c.GetName()] = true
	}
	o.most = max(o.most, len(o.disrupted))
}

// follow begins with what is there now.
func (k *killed) follow(t *testing.T) *onlooker {
	t.Helper()
	o := &onlooker{ready: map[types.UID]bool{}, held: map[types.UID]bool{}, disrupted: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	loop := func(w watch.Interface, err error, take func(watch.Event)) {
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer w.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case e, ok := <-w.ResultChan():
					if !ok || e.Type == watch.Error {
						if ctx.Err() == nil {
							t.Errorf("a watch ended: %v", e.Object)
						}
						return
					}
					o.mu.Lock()
					take(e)
					o.mu.Unlock()
				}
			}
		})
	}
	pods := k.Client.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app in (half, held)"})
	if err != nil {
		t.Fatal(err)
	}
	o.least = halfNodes
	for i := range list.Items {
		p := &list.Items[i]
		if p.Labels["app"] == "held" {
			o.held[p.UID] = true
		} else {
			o.ready[p.UID] = true
		}
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app in (half, held)", ResourceVersion: list.ResourceVersion})
	loop(w, err, o.pod)
	claims := k.Dynamic.Resource(v1.NodeClaims)
	known, err := claims.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err = claims.Watch(ctx, metav1.ListOptions{ResourceVersion: known.GetResourceVersion(), LabelSelector: "karpenter.sh/nodepool=half"})
	loop(w, err, o.claim)
	return o
}

// nodesOf lists the nodes of the pool.
func (k *killed) nodesOf(ctx context.Context, pool string) ([]corev1.Node, error) {
	list, err := k.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + pool})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// consolidates gives half of a half-empty cluster back, with a death in the middle: what
// is left is what was planned, no budget of nodes or pods was ever broken, and who asked
// not to be disrupted was not.
func (k *killed) consolidates(t *testing.T) {
	text, err := os.ReadFile(k.config)
	if err != nil {
		t.Fatal(err)
	}
	k.config = filepath.Join(t.TempDir(), "quick.yaml")
	if err := os.WriteFile(k.config, append(text, "disruption: {interval: 1s, validation: 1s}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	s := k.start(t, "")
	k.Apply(t, metav1.NamespaceDefault, fmt.Sprintf(halfPool, 0)+"---"+fmt.Sprintf(halfDeployment, "half", 2*halfNodes, "1500m", ""))
	k.WaitPods(t, metav1.NamespaceDefault, "app=half", 2*halfNodes, patience, harness.PodReady)
	k.Apply(t, metav1.NamespaceDefault, fmt.Sprintf(halfDeployment, "half", halfNodes, "1500m", "")+"---"+
		fmt.Sprintf(halfDeployment, "held", heldPods, "700m", `karpenter.sh/do-not-disrupt: "true"`)+"---"+fmt.Sprintf(halfBudgetOfPods, halfPDB))
	k.WaitPods(t, metav1.NamespaceDefault, "app=half", halfNodes, patience, harness.PodReady)
	k.WaitPods(t, metav1.NamespaceDefault, "app=held", heldPods, patience, harness.PodReady)
	nodes, err := k.nodesOf(t.Context(), "half")
	if err != nil || len(nodes) != halfNodes {
		t.Fatalf("%d of %d nodes (%v)", len(nodes), halfNodes, err)
	}
	s.stops(t)

	o := k.follow(t)
	k.Apply(t, metav1.NamespaceDefault, fmt.Sprintf(halfPool, halfBudget))
	k.dies(t, k.start(t, "Evict:after"))
	s = k.start(t, "")
	harness.Eventually(t, "two pods to a node again", patience, func(ctx context.Context) error {
		nodes, err := k.nodesOf(ctx, "half")
		if err != nil {
			return err
		}
		if len(nodes) != halfNodes/2 {
			return fmt.Errorf("%d nodes", len(nodes))
		}
		for _, n := range nodes {
			if hasTaint(n, "karpenter.sh/disrupted") {
				return fmt.Errorf("node %s is on its way out", n.Name)
			}
		}
		return k.accounts(ctx, "half")
	})
	k.WaitPods(t, metav1.NamespaceDefault, "app=half", halfNodes, patience, harness.PodReady)
	k.WaitPods(t, metav1.NamespaceDefault, "app=held", heldPods, patience, harness.PodReady)
	s.stops(t)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.most > halfBudget || o.most == 0 {
		t.Errorf("%d nodes were disrupted at once, the budget allows %d", o.most, halfBudget)
	}
	if o.least < halfNodes-halfPDB || o.least == halfNodes {
		t.Errorf("%d of %d pods were ready at the worst moment, the budget allows %d to be away", o.least, halfNodes, halfPDB)
	}
	if o.lost > 0 || len(o.held) != heldPods {
		t.Errorf("%d of %d pods went that asked not to be disrupted", o.lost, len(o.held))
	}
}
