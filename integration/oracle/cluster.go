package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/weir-project/weir/core/api/awsv1"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/model/attach"
)

// hold is the scheduling gate by which pods wait until the oracle lets them go.
const hold = "oracle.weir.dev/hold"

// parallel is how many calls are made to the API server at once.
const parallel = 12

// Cluster is the API server that draws are made in, one after the other.
type Cluster struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface

	mu      sync.Mutex
	pods    map[types.UID]*corev1.Pod // as the watch tells them
	claims  map[types.UID]bool        // of volumes
	changed time.Time                 // when a pod was bound or went away last
	failed  error                     // of the provisioner
}

// Open makes what all draws share and follows the pods until ctx ends. The cluster must
// have the definitions of NodePool, NodeClaim and EC2NodeClass.
func Open(ctx context.Context, client kubernetes.Interface, dyn dynamic.Interface) (*Cluster, error) {
	c := &Cluster{client: client, dynamic: dyn, pods: map[types.UID]*corev1.Pod{}, claims: map[types.UID]bool{}}
	for _, ns := range namespaces {
		if err := created(client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]int32{"low": -10, "normal": 0, "high": 100, "higher": 1000} {
		pc := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: name == "normal",
			PreemptionPolicy: ptr.To(corev1.PreemptNever)} // whom it would push out is not the question
		if err := created(client.SchedulingV1().PriorityClasses().Create(ctx, pc, metav1.CreateOptions{})); err != nil {
			return nil, err
		}
	}
	overhead := &nodev1.Overhead{PodFixed: quantities("cpu", "250m", "memory", "120Mi")}
	for _, rc := range []*nodev1.RuntimeClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "overhead"}, Handler: "runc", Overhead: overhead},
		{ObjectMeta: metav1.ObjectMeta{Name: "sandbox"}, Handler: "runsc", Overhead: overhead, Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{corev1.LabelArchStable: "amd64"}, Tolerations: []corev1.Toleration{{Key: "level", Operator: corev1.TolerationOpExists}}}},
	} {
		if err := created(client.NodeV1().RuntimeClasses().Create(ctx, rc, metav1.CreateOptions{})); err != nil {
			return nil, err
		}
	}
	later, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	for _, sc := range []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "wait"}, Provisioner: attach.EBS, VolumeBindingMode: &later},
		{ObjectMeta: metav1.ObjectMeta{Name: "wait-narrow"}, Provisioner: attach.EBS, VolumeBindingMode: &later, AllowedTopologies: []corev1.TopologySelectorTerm{
			{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "topology.ebs.csi.aws.com/zone", Values: zones[:2]}}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "immediate"}, Provisioner: attach.EBS, VolumeBindingMode: &now},
	} {
		if err := created(client.StorageV1().StorageClasses().Create(ctx, sc, metav1.CreateOptions{})); err != nil {
			return nil, err
		}
	}
	return c, c.follow(ctx)
}

// created passes over objects that are there already.
func created(_ any, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// follow watches pods and claims.
func (c *Cluster) follow(ctx context.Context) error {
	pods := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything()), &corev1.Pod{}, 0, cache.Indexers{})
	claims := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "persistentvolumeclaims", metav1.NamespaceAll, fields.Everything()), &corev1.PersistentVolumeClaim{}, 0, cache.Indexers{})
	note := func(o any) {
		p := o.(*corev1.Pod)
		c.mu.Lock()
		defer c.mu.Unlock()
		if have := c.pods[p.UID]; have == nil || have.Spec.NodeName != p.Spec.NodeName || verdict(have) != verdict(p) {
			c.changed = time.Now()
		}
		c.pods[p.UID] = p
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pods, o.(*corev1.Pod).UID)
		c.changed = time.Now()
	}}); err != nil {
		return err
	}
	provide := func(o any) {
		c.mu.Lock()
		c.claims[o.(*corev1.PersistentVolumeClaim).UID] = true
		c.mu.Unlock()
		c.provision(ctx, o.(*corev1.PersistentVolumeClaim))
	}
	if _, err := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: provide, UpdateFunc: func(_, o any) { provide(o) }, DeleteFunc: func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.claims, o.(*corev1.PersistentVolumeClaim).UID)
	}}); err != nil {
		return err
	}
	go pods.RunWithContext(ctx)
	go claims.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, claims.HasSynced) {
		return fmt.Errorf("pods and claims are not told: %w", context.Cause(ctx))
	}
	return nil
}

// provision makes the volume of a claim once kube-scheduler has chosen a node, as the
// driver's provisioner would.
func (c *Cluster) provision(ctx context.Context, pvc *corev1.PersistentVolumeClaim) {
	node := pvc.Annotations["volume.kubernetes.io/selected-node"]
	if node == "" || pvc.Spec.VolumeName != "" || pvc.DeletionTimestamp != nil {
		return
	}
	n, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err == nil {
		ref := corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID}
		err = created(c.client.CoreV1().PersistentVolumes().Create(ctx, volumeIn(n.Labels[corev1.LabelTopologyZone], "pvc-"+string(pvc.UID), ref, ptr.Deref(pvc.Spec.StorageClassName, "")), metav1.CreateOptions{}))
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
		c.mu.Lock()
		c.failed = fmt.Errorf("volume of claim %s/%s: %w", pvc.Namespace, pvc.Name, err)
		c.mu.Unlock()
	}
}

// verdict is what kube-scheduler said of a pod last.
func verdict(p *corev1.Pod) string {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			return cond.Reason + ": " + cond.Message
		}
	}
	return ""
}

// each does something with every element, several at once, and stops at the first error.
func each[T any](ctx context.Context, list []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, x := range list {
		g.Go(func() error { return do(ctx, x) })
	}
	return g.Wait()
}

// Reset takes everything away that a draw has made.
func (c *Cluster) Reset(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	all := metav1.ListOptions{}
	for _, ns := range namespaces {
		if err := c.client.CoreV1().Pods(ns.Name).DeleteCollection(ctx, now, all); err != nil {
			return err
		}
		if err := c.client.AppsV1().DaemonSets(ns.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, all); err != nil {
			return err
		}
	}
	if err := c.until(ctx, 30*time.Second, "the pods of the draw before are gone", func() (bool, string) {
		left := len(c.pods)
		return left == 0, fmt.Sprintf("%d left", left)
	}); err != nil {
		return err
	}
	for _, ns := range namespaces { // after the pods, for which their controller makes claims
		if err := c.client.CoreV1().PersistentVolumeClaims(ns.Name).DeleteCollection(ctx, now, all); err != nil {
			return err
		}
	}
	for _, del := range []func() error{
		func() error { return c.client.CoreV1().PersistentVolumes().DeleteCollection(ctx, now, all) },
		func() error { return c.client.StorageV1().CSINodes().DeleteCollection(ctx, now, all) },
		func() error { return c.client.CoreV1().Nodes().DeleteCollection(ctx, now, all) },
		func() error { return c.dynamic.Resource(apiv1.NodeClaims).DeleteCollection(ctx, now, all) },
		func() error { return c.dynamic.Resource(apiv1.NodePools).DeleteCollection(ctx, now, all) },
		func() error { return c.dynamic.Resource(awsv1.EC2NodeClasses).DeleteCollection(ctx, now, all) },
	} {
		if err := del(); err != nil {
			return err
		}
	}
	return c.until(ctx, limit, "the pods of the draw before are gone", func() (bool, string) {
		left := len(c.pods)
		return left == 0, fmt.Sprintf("%d left", left)
	})
}

// until waits for a condition, which is asked with the lock held.
func (c *Cluster) until(ctx context.Context, limit time.Duration, what string, done func() (bool, string)) error {
	deadline := time.Now().Add(limit)
	for {
		c.mu.Lock()
		ok, last := done()
		failed := c.failed
		c.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case ok:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s: not so after %v: %s", what, limit, last)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Make creates the objects of a draw. Waiting pods are held by a scheduling gate.
func (c *Cluster) Make(ctx context.Context, d *Draw) error {
	opts := metav1.CreateOptions{}
	custom := func(gvr schema.GroupVersionResource, o runtime.Object, status bool) error {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		u, err := c.dynamic.Resource(gvr).Create(ctx, &unstructured.Unstructured{Object: m}, opts)
		if err != nil || !status {
			return err
		}
		u.Object["status"] = m["status"]
		_, err = c.dynamic.Resource(gvr).UpdateStatus(ctx, u, metav1.UpdateOptions{})
		return err
	}
	for _, o := range d.Classes {
		if err := custom(awsv1.EC2NodeClasses, o, false); err != nil {
			return err
		}
	}
	for _, o := range d.Pools {
		if err := custom(apiv1.NodePools, o, false); err != nil {
			return err
		}
	}
	for _, o := range d.Claims {
		if err := custom(apiv1.NodeClaims, o, true); err != nil {
			return err
		}
	}
	for _, o := range d.DaemonSets {
		if err := created(c.client.AppsV1().DaemonSets(o.Namespace).Create(ctx, o, opts)); err != nil {
			return err
		}
	}
	if err := each(ctx, d.Volumes, func(ctx context.Context, o *corev1.PersistentVolume) error {
		_, err := c.client.CoreV1().PersistentVolumes().Create(ctx, o, opts)
		return err
	}); err != nil {
		return err
	}
	if err := each(ctx, d.PVCs, func(ctx context.Context, o *corev1.PersistentVolumeClaim) error {
		_, err := c.client.CoreV1().PersistentVolumeClaims(o.Namespace).Create(ctx, o, opts)
		return err
	}); err != nil {
		return err
	}
	if err := c.addNodes(ctx, d.Nodes, d.CSINodes); err != nil {
		return err
	}
	if err := c.addDaemons(ctx, d, d.Nodes); err != nil { // before all others: they came with the node
		return err
	}
	pods := slices.Clone(d.Running)
	for _, p := range d.Waiting {
		p = p.DeepCopy()
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: hold})
		pods = append(pods, p)
	}
	if err := c.addPods(ctx, pods); err != nil {
		return err
	}
	return c.volumesBound(ctx)
}

func (c *Cluster) addNodes(ctx context.Context, nodes []*corev1.Node, csi []*storagev1.CSINode) error {
	if err := each(ctx, csi, func(ctx context.Context, o *storagev1.CSINode) error {
		_, err := c.client.StorageV1().CSINodes().Create(ctx, o, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	return each(ctx, nodes, func(ctx context.Context, o *corev1.Node) error {
		_, err := c.client.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

func (c *Cluster) addPods(ctx context.Context, pods []*corev1.Pod) error {
	return each(ctx, pods, func(ctx context.Context, o *corev1.Pod) error {
		_, err := c.client.CoreV1().Pods(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// volumesBound waits until claims that name a volume are bound to it.
func (c *Cluster) volumesBound(ctx context.Context) error {
	for deadline := time.Now().Add(limit); ; {
		list, err := c.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		waits := slices.IndexFunc(list.Items, func(p corev1.PersistentVolumeClaim) bool {
			return p.Spec.VolumeName != "" && p.Status.Phase != corev1.ClaimBound
		})
		if waits < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("claim %s/%s is not bound to its volume", list.Items[waits].Namespace, list.Items[waits].Name)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lists are what planning reads.
var lists = []string{
	"/api/v1/namespaces", "/api/v1/nodes", "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims", "/apis/apps/v1/daemonsets",
	"/apis/storage.k8s.io/v1/storageclasses", "/apis/storage.k8s.io/v1/csinodes",
	"/apis/karpenter.k8s.aws/v1/ec2nodeclasses", "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims",
}

// Read writes all objects as the server has them, without the oracle's gate.
func (c *Cluster) Read(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	for _, path := range lists {
		b, err := c.client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		out.Write(append(b, '\n'))
	}
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods.APIVersion, pods.Kind = "v1", "PodList"
	for i := range pods.Items {
		p := &pods.Items[i]
		p.ManagedFields = nil
		p.Spec.SchedulingGates = slices.DeleteFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == hold })
	}
	b, err := json.Marshal(pods)
	if err != nil {
		return nil, err
	}
	out.Write(b)
	return out.Bytes(), nil
}

// Probe returns once kube-scheduler knows all nodes that exist now: it has bound a pod to
// a node that was made after them. The node has no labels, so that it counts for nothing.
func (c *Cluster) Probe(ctx context.Context, name string) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Taints = []corev1.Taint{{Key: "oracle.weir.dev/probe", Effect: corev1.TaintEffectNoSchedule}, {Key: "oracle.weir.dev/probe", Effect: corev1.TaintEffectNoExecute}}
	n.Status = status(quantities("cpu", "1", "memory", "1Gi", "pods", "1"), quantities("cpu", "1", "memory", "1Gi", "pods", "1"))
	if _, err := c.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		return err
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0].Name, Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "probe", Image: "example.com/probe"}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "oracle.weir.dev/probe", Operator: corev1.TolerationOpExists}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{name}}}}}}}}
	p, err := c.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := c.until(ctx, limit, "kube-scheduler knows the nodes", func() (bool, string) {
		have := c.pods[p.UID]
		return have != nil && have.Spec.NodeName != "", "probe not bound"
	}); err != nil {
		return err
	}
	if err := c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		return err
	}
	return c.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

// release lets a pod go; node, where not empty, is the one that kube-scheduler is to try first.
func (c *Cluster) release(ctx context.Context, namespace, name, node string, others []corev1.PodSchedulingGate) error {
	pods := c.client.CoreV1().Pods(namespace)
	if node != "" {
		patch := fmt.Appendf(nil, `{"status":{"nominatedNodeName":%q}}`, node)
		if _, err := pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	gates, err := json.Marshal(map[string]any{"spec": map[string]any{"schedulingGates": append([]corev1.PodSchedulingGate{}, others...)}})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, name, types.MergePatchType, gates, metav1.PatchOptions{})
	return err
}

// seen is the pods as the watch has told them, by namespace/name.
func (c *Cluster) seen() map[string]*corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]*corev1.Pod, len(c.pods))
	for p := range maps.Values(c.pods) {
		out[p.Namespace+"/"+p.Name] = p
	}
	return out
}
