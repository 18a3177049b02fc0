package fakekubelet_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/weir-project/weir/integration/fakekubelet"
	"github.com/weir-project/weir/integration/harness"
)

// A short grace so that a dead node is noticed soon; heartbeats are ten times as frequent.
func TestMain(m *testing.M) { os.Exit(harness.Shared(m, harness.NodeMonitorGrace(5*time.Second))) }

// limit bounds every wait; it is many times what a healthy machine needs.
const limit = 5 * time.Minute

// bench is one test's own nodes and namespace. All nodes carry the label bench=<namespace>, which keeps the pods of tests
// that run at the same time apart.
type bench struct {
	*harness.ControlPlane
	t        *testing.T
	ns       string
	kubelets *fakekubelet.Kubelets
}

func newBench(t *testing.T, change ...func(*fakekubelet.Config)) *bench {
	t.Helper()
	c := harness.Cluster(t)
	cfg := fakekubelet.Config{Client: c.Client, Logger: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)), HeartbeatInterval: 500 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	k, err := fakekubelet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &bench{ControlPlane: c, t: t, ns: c.Namespace(t), kubelets: k}
}

func (b *bench) spec(name string, behaviour fakekubelet.Behaviour) fakekubelet.NodeSpec {
	name = b.ns + "-" + name
	return fakekubelet.NodeSpec{
		Name: name, ProviderID: "aws:///us-east-1a/i-" + name, Labels: map[string]string{"bench": b.ns},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("58"),
		},
		Behaviour: behaviour,
	}
}

func (b *bench) start(spec fakekubelet.NodeSpec) *fakekubelet.Node {
	b.t.Helper()
	n, err := b.kubelets.Start(context.Background(), spec) // until the bench's kubelets end
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := b.Client.CoreV1().Nodes().Delete(context.Background(), spec.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			b.t.Error(err)
		}
	})
	return n
}

func (b *bench) await(what string, ch <-chan struct{}) {
	b.t.Helper()
	select {
	case <-ch:
	case <-time.After(limit):
		b.t.Fatalf("%s: not in %v", what, limit)
	}
}

func (b *bench) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	b.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"bench": b.ns},
			Containers:   []corev1.Container{{Name: "main", Image: "pause"}},
		},
	}
	if change != nil {
		change(p)
	}
	p, err := b.Client.CoreV1().Pods(b.ns).Create(b.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) ready(name string) corev1.Pod {
	b.t.Helper()
	return b.WaitPods(b.t, b.ns, "app="+name, 1, limit, harness.PodReady)[0]
}

func (b *bench) delete(name string, graceSeconds int64) {
	b.t.Helper()
	if err := b.Client.CoreV1().Pods(b.ns).Delete(b.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &graceSeconds}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) deployment(name string, replicas int) {
	b.t.Helper()
	b.Apply(b.t, b.ns, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {bench: %[3]s}
      containers: [{name: main, image: pause, resources: {requests: {cpu: 100m}}}]
`, name, replicas, b.ns))
}

func TestPendingPodsRunOnceALateNodeJoins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.deployment("web", 10)
	b.WaitPods(t, b.ns, "app=web", 10, limit, harness.PodUnschedulable)
	const delay = 700 * time.Millisecond
	began := time.Now()
	n := b.start(b.spec("late", fakekubelet.Behaviour{JoinDelay: delay, ReadyDelay: delay}))
	b.await("registered", n.Registered())
	if took := time.Since(began); took < delay {
		t.Errorf("registered after %v, before its delay of %v", took, delay)
	}
	b.await("ready", n.Ready())
	if took := time.Since(began); took < 2*delay {
		t.Errorf("ready after %v, before its delays of %v", took, 2*delay)
	}
	b.WaitDeployment(t, b.ns, "web", limit)
	node := b.WaitNodeReady(t, n.Name(), true, limit)
	if node.Spec.ProviderID != n.ProviderID() || node.Labels["kubernetes.io/hostname"] != n.Name() {
		t.Errorf("provider id %q, labels %v", node.Spec.ProviderID, node.Labels)
	}
}

func TestNodeThatNeverJoins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(b.spec("never", fakekubelet.Behaviour{NeverJoin: true}))
	harness.Consistently(t, "no node", time.Second, func(ctx context.Context) error {
		_, err := b.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("want not found, got %w", err)
		}
		return nil
	})
	n.Terminate()
	if err := n.Err(); err != nil {
		t.Error(err)
	}
	if _, ok := b.kubelets.Node(n.Name()); ok {
		t.Error("the terminated node is still listed")
	}
}

func TestTaintsOfRegistrationAndStartup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := b.spec("tainted", fakekubelet.Behaviour{ClearTaints: []fakekubelet.ClearTaint{{Key: "example.com/starting", After: 300 * time.Millisecond}}})
	spec.Taints = []corev1.Taint{
		{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
		{Key: "example.com/starting", Value: "x", Effect: corev1.TaintEffectNoSchedule},
	}
	n := b.start(spec)
	b.await("registered", n.Registered())
	keys := func(ctx context.Context) ([]string, error) {
		node, err := b.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		var out []string
		for _, t := range node.Spec.Taints {
			out = append(out, t.Key)
		}
		return out, nil
	}
	harness.Eventually(t, "only the taint of registration is left", limit, func(ctx context.Context) error {
		got, err := keys(ctx)
		if err == nil && !slices.Equal(got, []string{"karpenter.sh/unregistered"}) {
			err = fmt.Errorf("taints %v", got)
		}
		return err
	})
}

func TestDeadNodeTurnsNotReadyAndComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(b.spec("dying", fakekubelet.Behaviour{}))
	b.pod("stays", nil)
	b.pod("deleted", nil)
	b.ready("stays")
	b.ready("deleted")
	n.Die()
	b.WaitNodeReady(t, n.Name(), false, limit)
	b.delete("deleted", 1)
	harness.Consistently(t, "nobody stops the pod", 2*time.Second, func(ctx context.Context) error {
		_, err := b.Client.CoreV1().Pods(b.ns).Get(ctx, "deleted", metav1.GetOptions{})
		return err
	})
	b.WaitPods(t, b.ns, "app=stays", 1, limit, func(p *corev1.Pod) error {
		if harness.PodReady(p) == nil {
			return fmt.Errorf("still ready")
		}
		return nil
	})
	n.Revive()
	b.WaitNodeReady(t, n.Name(), true, limit)
	b.ready("stays")
	b.WaitPods(t, b.ns, "app=deleted", 0, limit, nil)
}

func TestNodeDiesAtItsTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(b.spec("dies", fakekubelet.Behaviour{DieAfter: time.Second}))
	b.await("ready", n.Ready())
	node := b.WaitNodeReady(t, n.Name(), false, limit)
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown {
			t.Errorf("Ready=%s, want Unknown: the node must not have said so itself", c.Status)
		}
	}
}

func TestTerminatedMachineLeavesItsNode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := b.spec("gone", fakekubelet.Behaviour{})
	n := b.start(spec)
	b.await("ready", n.Ready())
	if _, err := b.kubelets.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "already started") {
		t.Errorf("second machine of one name: error %v", err)
	}
	n.Terminate()
	b.WaitNodeReady(t, n.Name(), false, limit)

	other := spec
	other.ProviderID = "aws:///us-east-1a/i-other"
	imposter := b.start(other)
	b.await("imposter ends", imposter.Done())
	if err := imposter.Err(); err == nil || !strings.Contains(err.Error(), "exists with provider id "+spec.ProviderID) {
		t.Errorf("machine with the name of another: error %v", err)
	}

	spec.Labels["restarted"] = "yes"
	again := b.start(spec)
	b.await("ready again", again.Ready())
	if node := b.WaitNodeReady(t, n.Name(), true, limit); node.Labels["restarted"] != "yes" {
		t.Errorf("labels %v are not those of the restarted kubelet", node.Labels)
	}
}

func TestDeletedNodeObjectIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *fakekubelet.Config) { c.StatusInterval = 200 * time.Millisecond })
	n := b.start(b.spec("deleted", fakekubelet.Behaviour{}))
	b.await("ready", n.Ready())
	if err := b.Client.CoreV1().Nodes().Delete(t.Context(), n.Name(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Consistently(t, "no node", 1500*time.Millisecond, func(ctx context.Context) error {
		if _, err := b.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("want not found, got %w", err)
		}
		return nil
	})
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}

func TestGracePeriodCutsTheStopTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(b.spec("node", fakekubelet.Behaviour{}))
	b.pod("stubborn", func(p *corev1.Pod) {
		p.Annotations = map[string]string{fakekubelet.AnnotationStopTime: "1h"}
		p.Finalizers = []string{"example.com/look"} // keeps the object so that its last state can be seen
	})
	b.ready("stubborn")
	b.delete("stubborn", 3600)
	harness.Consistently(t, "the pod runs on", time.Second, func(ctx context.Context) error {
		p, err := b.Client.CoreV1().Pods(b.ns).Get(ctx, "stubborn", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase %s", p.Status.Phase)
		}
		return err
	})
	b.delete("stubborn", 1) // as a drain does that has less time left
	b.WaitPods(t, b.ns, "app=stubborn", 1, limit, func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("phase %s", p.Status.Phase)
		}
		if got := p.Status.ContainerStatuses[0].State.Terminated.ExitCode; got != 137 {
			return fmt.Errorf("exit code %d, want that of a killed process", got)
		}
		return nil
	})
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(t.Context(), "stubborn", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.WaitPods(t, b.ns, "app=stubborn", 0, limit, nil)
}

func TestStopTimeIsTaken(t *testing.T) {
	t.Parallel()
	const stop = 800 * time.Millisecond
	b := newBench(t, func(c *fakekubelet.Config) { c.PodStopTime = stop })
	b.start(b.spec("node", fakekubelet.Behaviour{}))
	b.pod("web", nil)
	b.ready("web")
	began := time.Now()
	b.delete("web", 600)
	b.WaitPods(t, b.ns, "app=web", 0, limit, nil)
	if took := time.Since(began); took < stop {
		t.Errorf("gone after %v, before its stop time of %v", took, stop)
	}
}

func TestJobCompletes(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *fakekubelet.Config) { c.PodStartDelay = 200 * time.Millisecond })
	b.start(b.spec("node", fakekubelet.Behaviour{}))
	b.Apply(t, b.ns, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  completions: 3
  parallelism: 2
  template:
    metadata: {annotations: {%s: 1s}}
    spec:
      restartPolicy: Never
      nodeSelector: {bench: %s}
      containers: [{name: main, image: work}]
`, fakekubelet.AnnotationCompleteAfter, b.ns))
	harness.Eventually(t, "job is complete", limit, func(ctx context.Context) error {
		j, err := b.Client.BatchV1().Jobs(b.ns).Get(ctx, "work", metav1.GetOptions{})
		if err == nil && (j.Status.Succeeded != 3 || j.Status.CompletionTime == nil) {
			err = fmt.Errorf("status %+v", j.Status)
		}
		return err
	})
}

func TestOnlyTheHostNetworkRunsBeforeReady(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(b.spec("unready", fakekubelet.Behaviour{NeverReady: true}))
	for _, d := range []struct{ name, hostNetwork string }{{"cni", "true"}, {"logs", "false"}} {
		b.Apply(t, b.ns, fmt.Sprintf(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      hostNetwork: %[2]s
      nodeSelector: {bench: %[3]s}
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: agent}]
`, d.name, d.hostNetwork, b.ns))
	}
	cni := b.ready("cni")
	if cni.Status.PodIP != cni.Status.HostIP {
		t.Errorf("pod of the host network has address %s, host %s", cni.Status.PodIP, cni.Status.HostIP)
	}
	b.WaitPods(t, b.ns, "app=logs", 1, limit, harness.PodBound)
	harness.Consistently(t, "logs waits for the network", time.Second, func(ctx context.Context) error {
		return checkPhase(ctx, b, "app=logs", corev1.PodPending)
	})
	n.SetCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "")
	b.ready("logs")
	n.SetCondition("KernelReady", corev1.ConditionFalse, "SoftLockup", "told so by a test")
	harness.Eventually(t, "node reports the condition", limit, func(ctx context.Context) error {
		node, err := b.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "KernelReady" && c.Status == corev1.ConditionFalse && c.Reason == "SoftLockup" {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", node.Status.Conditions)
	})
}

func checkPhase(ctx context.Context, b *bench, selector string, want corev1.PodPhase) error {
	list, err := b.Client.CoreV1().Pods(b.ns).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if got := list.Items[i].Status.Phase; got != want {
			return fmt.Errorf("phase %s, want %s", got, want)
		}
	}
	return nil
}

func TestPodThatIsToldNotToBeReady(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(b.spec("node", fakekubelet.Behaviour{}))
	b.pod("broken", func(p *corev1.Pod) { p.Annotations = map[string]string{fakekubelet.AnnotationNotReady: "true"} })
	b.WaitPods(t, b.ns, "app=broken", 1, limit, func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s", p.Status.Phase)
		}
		if harness.PodReady(p) == nil {
			return fmt.Errorf("is ready")
		}
		return nil
	})
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(t.Context(), "broken", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.ready("broken")
}

func TestLateResources(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	n := b.start(b.spec("gpu", fakekubelet.Behaviour{LateResources: corev1.ResourceList{gpu: resource.MustParse("1")}, LateResourcesDelay: 500 * time.Millisecond}))
	b.pod("train", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse("1")}
	})
	b.await("ready", n.Ready())
	b.ready("train")
}

func TestLeaseIsRenewedAndOwnedByItsNode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(b.spec("node", fakekubelet.Behaviour{}))
	b.await("ready", n.Ready())
	node := b.WaitNodeReady(t, n.Name(), true, limit)
	var first time.Time
	harness.Eventually(t, "lease is renewed", limit, func(ctx context.Context) error {
		l, err := b.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID != node.UID {
			t.Fatalf("owners %v, want the node %s", l.OwnerReferences, node.UID)
		}
		renewed := ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
		if first.IsZero() {
			first = renewed
		}
		if !renewed.After(first) {
			return fmt.Errorf("renewed at %v", renewed)
		}
		return nil
	})
}

func TestManyNodesAreServedByOneInformer(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *fakekubelet.Config) { c.HeartbeatInterval, c.Workers = time.Second, 8 })
	const nodes, pods = 60, 300
	started := make([]*fakekubelet.Node, 0, nodes)
	for i := range nodes {
		started = append(started, b.start(b.spec(fmt.Sprintf("n%02d", i), fakekubelet.Behaviour{})))
	}
	for _, n := range started {
		b.await("ready", n.Ready())
	}
	b.deployment("web", pods)
	b.WaitDeployment(t, b.ns, "web", limit)
	addresses := map[string]string{}
	for _, p := range b.WaitPods(t, b.ns, "app=web", pods, limit, harness.PodReady) {
		if other, ok := addresses[p.Status.PodIP]; ok {
			t.Errorf("pods %s and %s have address %s", p.Name, other, p.Status.PodIP)
		}
		addresses[p.Status.PodIP] = p.Name
	}
}
