package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/kube"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

func clients(t *testing.T, c *harness.ControlPlane) *kube.Clients {
	t.Helper()
	out, err := kube.Connect(rest.CopyConfig(c.Config))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func edge(t *testing.T, c *harness.ControlPlane) *kube.Client {
	t.Helper()
	return kube.NewClient(clients(t, c), kube.ClientOptions{})
}

// heard keeps the last change of each object that a watcher told.
type heard struct {
	mu     sync.Mutex
	last   map[string]cluster.Change
	synced bool
}

func (h *heard) take(c cluster.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var key string
	switch c := c.(type) {
	case cluster.Synced:
		h.synced = true
		return
	case cluster.UpsertPod:
		key = "pod " + c.Pod.ID()
	case cluster.DeletePod:
		key = "pod " + c.ID
	case cluster.UpsertNode:
		key = "node " + c.Node.Name
	case cluster.DeleteNode:
		key = "node " + c.Name
	case cluster.UpsertClaim:
		key = "claim " + c.Claim.Name
	case cluster.DeleteClaim:
		key = "claim " + c.Name
	case cluster.UpsertPool:
		key = "pool " + c.Pool.Name
	case cluster.UpsertNodeClass:
		key = "class " + c.NodeClass.Name
	case cluster.UpsertDaemonSet:
		key = "daemonset " + c.DaemonSet.Namespace + "/" + c.DaemonSet.Name
	case cluster.UpsertPDB:
		key = "pdb " + c.PDB.Namespace + "/" + c.PDB.Name
	case cluster.UpsertAttachment:
		key = "attachment " + c.Name
	case cluster.DeleteAttachment:
		key = "attachment " + c.Name
	default:
		key = fmt.Sprintf("%T", c)
	}
	h.last[key] = c
}

func (h *heard) get(key string) cluster.Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[key]
}

func (h *heard) complete() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.synced
}

// follow starts a watcher that ends with the test.
func follow(t *testing.T, c *harness.ControlPlane) (*heard, *kube.Watcher) {
	t.Helper()
	h := &heard{last: map[string]cluster.Change{}}
	w := kube.NewWatcher(clients(t, c), h.take, kube.WatchOptions{})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	harness.Eventually(t, "the watcher has synced", patience, func(context.Context) error {
		if !h.complete() {
			return errors.New("not synced")
		}
		return nil
	})
	return h, w
}

// until waits for a change of one kind that passes the check.
func until[C cluster.Change](t *testing.T, h *heard, key string, check func(C) bool) {
	t.Helper()
	harness.Eventually(t, "change of "+key, patience, func(context.Context) error {
		got := h.get(key)
		if c, ok := got.(C); ok && check(c) {
			return nil
		}
		return fmt.Errorf("last change: %+v", got)
	})
}

const watched = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: NAME}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  limits: {cpu: 10}
  template: {spec: {requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: NAME}}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: NAME}
spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: NAME}, resources: {requests: {cpu: 2}}}
---
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {a: b}}
spec: {providerID: "aws:///z/NAME"}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template: {metadata: {labels: {app: NAME}}, spec: {nodeSelector: {no: where}, containers: [{name: c, image: x, resources: {limits: {cpu: 250m}}}]}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: NAME}
spec: {attacher: ebs.csi.aws.com, nodeName: NAME, source: {persistentVolumeName: data-NAME}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: NAME}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: web}, annotations: {karpenter.sh/do-not-disrupt: "true", note: x}}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 100, memory: 1Gi}}}], nodeSelector: {beta.kubernetes.io/arch: arm64}}
`

func TestWatcherTellsWhatHappens(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	c.InstallCRDs(t, crds.FS)
	ns := c.Namespace(t)
	before, after := ns+"-1", ns+"-2" // objects that are there at the start, and later ones
	t.Cleanup(func() {
		for _, name := range []string{before, after} {
			if err := c.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
			if err := c.Client.StorageV1().VolumeAttachments().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	c.Apply(t, ns, strings.ReplaceAll(watched, "NAME", before))
	h, w := follow(t, c)
	c.Apply(t, ns, strings.ReplaceAll(watched, "NAME", after))
	for _, name := range []string{before, after} {
		until(t, h, "class "+name, func(c cluster.UpsertNodeClass) bool { return c.NodeClass.Family == "AL2023" })
		until(t, h, "pool "+name, func(c cluster.UpsertPool) bool {
			return c.Pool.Limits.Resources["cpu"] == 10_000 && c.Pool.Unusable == "" && c.Pool.UID != ""
		})
		until(t, h, "claim "+name, func(c cluster.UpsertClaim) bool {
			return c.Claim.Requests.Base[resource.CPU] == 2000 && c.Claim.UID != ""
		})
		until(t, h, "node "+name, func(c cluster.UpsertNode) bool { return c.Node.ProviderID == "aws:///z/"+name })
		until(t, h, "daemonset "+ns+"/"+name, func(c cluster.UpsertDaemonSet) bool { return c.DaemonSet.Pod.Requests.Base[resource.CPU] == 250 })
		until(t, h, "attachment "+name, func(c cluster.UpsertAttachment) bool { return c.Node == name && c.Volume == "data-"+name })
		until(t, h, "pdb "+ns+"/"+name, func(c cluster.UpsertPDB) bool { return c.PDB.FullyBlocking })
		until(t, h, "pod "+ns+"/"+name, func(c cluster.UpsertPod) bool {
			p := c.Pod
			return p.Unschedulable && p.Requests.Base[resource.CPU] == 100_000 && len(p.Annotations) == 1 &&
				p.Terms[0].Equal(require.NewSet(require.Must("kubernetes.io/arch", require.In, "arm64")))
		})
	}
	ctx := t.Context()
	// A patch: the scheduler writes the status of a pod that waits at any time.
	if _, err := c.Client.CoreV1().Pods(ns).Patch(ctx, after, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	until(t, h, "pod "+ns+"/"+after, func(cluster.DeletePod) bool { return true })
	if err := c.Client.StorageV1().VolumeAttachments().Delete(ctx, after, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, h, "attachment "+after, func(cluster.DeleteAttachment) bool { return true })
	if err := c.Delete(ctx, v1.NodeClaimKind, "", after); err != nil {
		t.Fatal(err)
	}
	until(t, h, "claim "+after, func(cluster.DeleteClaim) bool { return true })
	harness.Eventually(t, "the watches are up to date", patience, func(context.Context) error {
		if d := w.Behind(); d != 0 {
			return fmt.Errorf("behind by %s", d)
		}
		return nil
	})
}

func TestWatcherOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t, harness.RestartComponents())
	c.InstallCRDs(t, crds.FS)
	h, w := follow(t, c)
	c.Signal(t, harness.APIServer, syscall.SIGKILL)
	ns := ""
	harness.Eventually(t, "the API server is back", patience, func(ctx context.Context) error {
		o, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "after-"}}, metav1.CreateOptions{})
		if err == nil {
			ns = o.Name
		}
		return err
	})
	harness.Eventually(t, "pods can be created", patience, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	harness.Eventually(t, "the watch goes on", patience, func(context.Context) error {
		if _, ok := h.get("pod " + ns + "/p").(cluster.UpsertPod); !ok {
			return errors.New("the new pod was not told")
		}
		if d := w.Behind(); d != 0 {
			return fmt.Errorf("behind by %s", d)
		}
		return nil
	})
}

func claimOf(name string) *model.Claim {
	return &model.Claim{
		Name: name, NodeClass: model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		Labels:       map[string]string{"team": "a"},
		Requirements: require.NewSet(require.Must("karpenter.k8s.aws/instance-cpu", require.Gt, "3"), require.Must("kubernetes.io/arch", require.In, "amd64")),
		Requests:     resource.New(1500, 1<<30, 3, 0), ExpireAfter: 48 * time.Hour,
	}
}

func read(t *testing.T, k *kube.Client, name string) *model.Claim {
	t.Helper()
	all, err := k.ListClaims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c *model.Claim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func TestClaimsAreWritten(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	c.InstallCRDs(t, crds.FS)
	k, ctx := edge(t, c), t.Context()
	name := c.Namespace(t)
	uid, err := k.CreateClaim(ctx, claimOf(name))
	if err != nil || uid == "" {
		t.Fatalf("create: %q %v", uid, err)
	}
	_, err = k.CreateClaim(ctx, claimOf(name))
	wants(t, "create again", err, execute.ErrConflict)
	bad := claimOf(name + "-bad")
	bad.NodeClass.Name = ""
	_, err = k.CreateClaim(ctx, bad)
	wants(t, "create without a class", err, execute.ErrInvalid)

	got := read(t, k, name)
	if got == nil || got.UID != uid || !slices.Contains(got.Finalizers, model.FinalizerTermination) || got.ExpireAfter != 48*time.Hour ||
		!got.Requirements.Equal(claimOf(name).Requirements) || !got.Requests.Equal(claimOf(name).Requests) {
		t.Fatalf("%+v", got)
	}

	// Ten writers at once, each with its own label and condition: all of it must be there afterwards.
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			for range 100 { // a writer that lost too many races tries again, as the executor does
				errs[i] = k.PatchClaim(ctx, execute.ClaimPatch{
					Name: name, UID: uid, Labels: map[string]string{fmt.Sprintf("l%d", i): "x"},
					AddFinalizers: []string{fmt.Sprintf("weir.dev/f%d", i)},
					Conditions:    []model.Condition{{Type: fmt.Sprintf("C%d", i), Status: "True", Since: time.Now()}},
				})
				if !errors.Is(errs[i], execute.ErrConflict) {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	got = read(t, k, name)
	if len(got.Labels) != 11 || len(got.Conditions) != 10 || len(got.Finalizers) != 11 {
		t.Errorf("%d labels, %d conditions, finalizers %v", len(got.Labels), len(got.Conditions), got.Finalizers)
	}

	at := time.Now().UTC().Truncate(time.Second)
	wants(t, "status", k.PatchClaim(ctx, execute.ClaimPatch{
		Name: name, UID: uid, ProviderID: "aws:///z/i-1", ImageID: "ami-1", NodeName: "n1",
		Capacity: map[string]string{"cpu": "4"}, Allocatable: map[string]string{"cpu": "3920m"},
		Annotations: map[string]string{"weir.dev/launch": "a/b"}, RemoveConditions: []string{"C0"}, LastPodEvent: &at,
	}), nil)
	got = read(t, k, name)
	if got.ProviderID != "aws:///z/i-1" || got.NodeName != "n1" || got.Allocatable.Base[resource.CPU] != 3920 || got.Annotations["weir.dev/launch"] != "a/b" ||
		len(got.Conditions) != 9 || got.LastPodEvent == nil || !got.LastPodEvent.Equal(at) {
		t.Errorf("%+v", got)
	}
	wants(t, "annotation away", k.PatchClaim(ctx, execute.ClaimPatch{Name: name, UID: uid, Annotations: map[string]string{"weir.dev/launch": ""}}), nil)
	if got = read(t, k, name); len(got.Annotations) != 0 {
		t.Errorf("annotations %v", got.Annotations)
	}

	wants(t, "patch of another uid", k.PatchClaim(ctx, execute.ClaimPatch{Name: name, UID: "other", Labels: map[string]string{"x": "y"}}), execute.ErrConflict)
	wants(t, "patch of nobody", k.PatchClaim(ctx, execute.ClaimPatch{Name: name + "-none", UID: "u", ProviderID: "x"}), execute.ErrNotFound)
	wants(t, "delete of another uid", k.DeleteClaim(ctx, name, "other"), execute.ErrConflict)
	wants(t, "delete of nobody", k.DeleteClaim(ctx, name+"-none", "u"), nil)
	wants(t, "delete", k.DeleteClaim(ctx, name, uid), nil)
	if got = read(t, k, name); got == nil || got.Deleting == nil {
		t.Fatalf("its finalizers must hold it: %+v", got)
	}
	wants(t, "last words, then the finalizers", k.PatchClaim(ctx, execute.ClaimPatch{
		Name: name, UID: uid, RemoveFinalizers: got.Finalizers, Conditions: []model.Condition{{Type: model.CondInstanceTerminating, Status: "True"}},
	}), nil)
	if got = read(t, k, name); got != nil {
		t.Errorf("still there: %+v", got)
	}
}

func TestNodesAreWritten(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	k, ctx := edge(t, c), t.Context()
	name := c.Namespace(t)
	o, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: model.TaintUnregistered, Effect: corev1.TaintEffectNoExecute}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := execute.NodePatch{
		Name: name, UID: string(o.UID), Labels: map[string]string{model.LabelRegistered: "true"}, Annotations: map[string]string{"x": "y"},
		AddTaints: []model.Taint{{Key: model.TaintDisrupted, Effect: model.NoSchedule}}, RemoveTaints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}},
		AddFinalizers: []string{model.FinalizerTermination}, OwnerClaim: &model.Claim{Name: "c", UID: "11111111-2222-3333-4444-555555555555"},
	}
	for range 2 { // the second time changes nothing
		wants(t, "patch", k.PatchNode(ctx, p), nil)
	}
	o, err = c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has := func(key string) bool {
		return slices.ContainsFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	}
	if !has(model.TaintDisrupted) || has(model.TaintUnregistered) || o.Labels[model.LabelRegistered] != "true" || len(o.OwnerReferences) != 1 ||
		!*o.OwnerReferences[0].BlockOwnerDeletion || !slices.Contains(o.Finalizers, model.FinalizerTermination) {
		t.Errorf("%+v %+v", o.ObjectMeta, o.Spec)
	}
	wants(t, "patch of another uid", k.PatchNode(ctx, execute.NodePatch{Name: name, UID: "other", Labels: map[string]string{"a": "b"}}), execute.ErrConflict)
	wants(t, "delete", k.DeleteNode(ctx, name, string(o.UID)), nil)
	wants(t, "finalizer away", k.PatchNode(ctx, execute.NodePatch{Name: name, UID: string(o.UID), RemoveFinalizers: []string{model.FinalizerTermination}}), nil)
	c.WaitNodeGone(t, name, patience)
	wants(t, "delete again", k.DeleteNode(ctx, name, string(o.UID)), nil)
}

// running makes a pod that is ready on a node, as a kubelet would report it.
func running(t *testing.T, c *harness.ControlPlane, ns, name, node string, labels map[string]string) *model.Pod {
	t.Helper()
	ctx, grace := t.Context(), int64(0)
	pods := c.Client.CoreV1().Pods(ns)
	o, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	if _, err := pods.Patch(ctx, name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	return &model.Pod{Namespace: ns, Name: name, UID: string(o.UID)}
}

// counted is clients that count their calls of paths with an end.
func counted(t *testing.T, c *harness.ControlPlane, calls *atomic.Int32, end string) *kube.Clients {
	t.Helper()
	cfg := rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, end) {
				calls.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	out, err := kube.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEvictions(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	var calls atomic.Int32
	k, ctx := kube.NewClient(counted(t, c, &calls, "/eviction"), kube.ClientOptions{}), t.Context()
	ns := c.Namespace(t)
	if _, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Client.CoreV1().Nodes().Delete(context.Background(), ns, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	free := running(t, c, ns, "free", ns, nil)
	held := running(t, c, ns, "held", ns, map[string]string{"app": "one"})
	twice := running(t, c, ns, "twice", ns, map[string]string{"app": "two"})
	c.Apply(t, ns, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: one}
spec: {minAvailable: 1, selector: {matchLabels: {app: one}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: two}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: two}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: also-two}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: two}}}
`)
	harness.Eventually(t, "the budgets are counted", patience, func(ctx context.Context) error {
		for _, name := range []string{"one", "two", "also-two"} {
			b, err := c.Client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if b.Status.CurrentHealthy != 1 {
				return fmt.Errorf("%s: %+v", name, b.Status)
			}
		}
		return nil
	})
	wants(t, "held by a budget", k.Evict(ctx, held, 0), execute.ErrBlocked)
	if n := calls.Load(); n != 1 { // the server asks for another try in 10 s; whether there is one is for the drain to say
		t.Errorf("%d calls, want 1: the client tried again by itself", n)
	}
	wants(t, "two budgets", k.Evict(ctx, twice, 0), execute.ErrMultiplePDBs)
	other := *free
	other.UID = "11111111-2222-3333-4444-555555555555"
	wants(t, "another uid", k.Evict(ctx, &other, 0), execute.ErrConflict)
	wants(t, "free", k.Evict(ctx, free, 0), nil)
	wants(t, "gone", k.Evict(ctx, free, 0), execute.ErrNotFound)
	wants(t, "delete past the budget", k.DeletePod(ctx, held, 0), nil)
	o, err := c.Client.CoreV1().Pods(ns).Get(ctx, held.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		t.Error(err)
	case o.DeletionGracePeriodSeconds == nil || *o.DeletionGracePeriodSeconds != 1:
		t.Errorf("grace %v", o.DeletionGracePeriodSeconds)
	}
	wants(t, "delete of nobody", k.DeletePod(ctx, &model.Pod{Namespace: ns, Name: "nobody", UID: "u"}, time.Second), execute.ErrNotFound)
}

func TestPoolsAndEventsAreWritten(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	c.InstallCRDs(t, crds.FS)
	ctx, ns := t.Context(), c.Namespace(t)
	suppressed := 0
	k := kube.NewClient(clients(t, c), kube.ClientOptions{Events: kube.EventOptions{Suppressed: func(string, string) { suppressed++ }}})
	c.Apply(t, ns, strings.ReplaceAll(strings.Split(watched, "---")[1], "NAME", ns))
	for _, resources := range []map[string]string{{"cpu": "8", "memory": "1Gi"}, {"cpu": "4"}} {
		wants(t, "pool", k.PatchPool(ctx, execute.PoolStatus{
			Name: ns, Annotations: map[string]string{model.AnnotationPoolHash: "7"}, Resources: resources, Nodes: 3,
			Conditions: []model.Condition{{Type: "Ready", Status: "True"}},
		}), nil)
	}
	o, err := c.Get(ctx, v1.NodePoolKind, "", ns)
	if err != nil {
		t.Fatal(err)
	}
	status, _ := o.Object["status"].(map[string]any)
	if fmt.Sprint(status["resources"]) != "map[cpu:4]" || fmt.Sprint(status["nodes"]) != "3" || o.GetAnnotations()[model.AnnotationPoolHash] != "7" {
		t.Errorf("%v %v", status, o.GetAnnotations())
	}
	wants(t, "pool of nobody", k.PatchPool(ctx, execute.PoolStatus{Name: ns + "-none"}), execute.ErrNotFound)

	for range 3 {
		wants(t, "event", k.Emit(ctx, execute.Event{Object: execute.ObjectRef{Kind: "Pod", Namespace: ns, Name: "p", UID: "u"}, Warning: true, Reason: "FailedScheduling", Message: "no"}), nil)
	}
	list, err := c.Client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedScheduling,involvedObject.name=p"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Source.Component != "karpenter" || suppressed != 2 {
		t.Errorf("%v: %d events, %d suppressed", err, len(list.Items), suppressed)
	}
}

// leader is one process of an election.
type leader struct {
	mu      sync.Mutex
	epochs  []int64
	leading bool
	why     string
	stop    context.CancelFunc
	done    chan error
}

func (l *leader) state() (leading bool, epochs []int64, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading, slices.Clone(l.epochs), l.why
}

func elect(t *testing.T, c *harness.ControlPlane, ns, identity string) *leader {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &leader{stop: stop, done: make(chan error, 1)}
	go func() {
		l.done <- kube.Elect(ctx, c.Client, kube.ElectOptions{
			Namespace: ns, Identity: identity, // Long enough that no slow call ends a term that the test does not end.
			LeaseDuration: 25 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 500 * time.Millisecond,
			Passive: func(why string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.why = why
			},
		}, func(ctx context.Context, epoch int64) {
			l.mu.Lock()
			l.leading, l.epochs = true, append(l.epochs, epoch)
			l.mu.Unlock()
			<-ctx.Done()
			l.mu.Lock()
			l.leading = false
			l.mu.Unlock()
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-l.done; err != nil {
			t.Error(err)
		}
	})
	return l
}

func leads(t *testing.T, l *leader, want bool, why string) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("leading is %t", want), patience, func(context.Context) error {
		leading, _, said := l.state()
		if leading != want || !strings.Contains(said, why) || want && said != "" {
			return fmt.Errorf("leading %t, because %q", leading, said)
		}
		return nil
	})
}

// hour is longer than any test: a lease that good needs no renewal while it is held.
const hour = int32(3600)

func TestElectionHoldsBothLeases(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	ctx, ns := t.Context(), c.Namespace(t)
	leases := c.Client.CoordinationV1().Leases(ns)
	holder := "karpenter-7d4b9c_1"
	// hold writes Karpenter's lease as its holder would, good for so many seconds.
	hold := func(seconds int32) {
		t.Helper()
		harness.Eventually(t, "Karpenter writes its lease", patience, func(ctx context.Context) error {
			o, err := leases.Get(ctx, kube.KarpenterLeaseName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now := metav1.NowMicro()
			o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds, o.Spec.RenewTime = &holder, &seconds, &now
			_, err = leases.Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
	}
	now := metav1.NowMicro()
	if _, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: kube.KarpenterLeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(hour), RenewTime: &now, AcquireTime: &now},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// A Karpenter whose lease is good keeps Weir passive.
	a := elect(t, c, ns, "a")
	leads(t, a, false, "karpenter-leader-election is held by "+holder)
	harness.Consistently(t, "Weir stays passive", 3*time.Second, func(context.Context) error {
		if leading, _, _ := a.state(); leading {
			return errors.New("it leads beside a living Karpenter")
		}
		return nil
	})

	// Once its lease is stale, Weir takes it.
	hold(1)
	leads(t, a, true, "")
	b := elect(t, c, ns, "b")
	leads(t, b, false, "weir-scaler is held by a_")

	// The next leader has a larger epoch.
	a.stop()
	leads(t, b, true, "")
	_, ofA, _ := a.state()
	_, ofB, _ := b.state()
	if len(ofA) == 0 || len(ofB) == 0 || slices.Max(ofA) >= slices.Min(ofB) || slices.Min(ofA) < 1 {
		t.Errorf("epochs %v, then %v", ofA, ofB)
	}

	// A Karpenter that takes its lease back, against the rules, ends the term.
	o, err := leases.Get(ctx, kube.KarpenterLeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Spec.HolderIdentity == nil || !strings.HasPrefix(*o.Spec.HolderIdentity, "b_") {
		t.Fatalf("Karpenter's lease is held by %v", o.Spec.HolderIdentity)
	}
	hold(hour)
	harness.Eventually(t, "the term ends", patience, func(context.Context) error {
		if leading, _, _ := b.state(); leading {
			return errors.New("it still leads")
		}
		return nil
	})
}
