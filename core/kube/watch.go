package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-project/weir/core/api/awsv1"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// Sink takes the changes of a cluster. Changes of one kind come one after the other,
// those of different kinds at the same time from different goroutines. A sink that
// blocks holds up the watch of that kind; one that blocks over a pod with volumes also
// those of the objects that say where volumes are.
type Sink func(cluster.Change)

// WatchOptions of a Watcher.
type WatchOptions struct {
	// OnError hears of objects that cannot be converted (kind and name are set) and of
	// watches that break (name is empty). nil = nobody listens.
	OnError func(kind, name string, err error)
	// Now is the clock that Behind counts by; nil = time.Now.
	Now func() time.Time
	// SpreadDefaults are the constraints that kube-scheduler was told to apply to pods
	// without any. With them services and controllers of pods are followed, too.
	SpreadDefaults []corev1.TopologySpreadConstraint
}

// Watcher follows pods, nodes, claims, pools, node classes, daemon sets, budgets and the
// objects of storage, and tells a sink of each change in model form. Pods that ended are not followed: a
// pod that ends is deleted, as far as the sink hears.
type Watcher struct {
	sink    Sink
	opts    WatchOptions
	kinds   []*kind
	daemons daemons
	storage storage
	around  surround
	intern  intern

	mu     sync.Mutex
	broken map[string]time.Time // kinds whose watch cannot reach the server, and since when
}

// kind is one watched kind.
type kind struct {
	name       string
	client     rest.Interface
	resource   string
	fields     string
	example    runtime.Object
	upsert     func(obj any) (cluster.Change, error)
	gone       func(namespace, name string) cluster.Change
	controller cache.Controller
}

// NewWatcher makes a watcher; Run starts it.
func NewWatcher(c *Clients, sink Sink, opts WatchOptions) *Watcher {
	if opts.OnError == nil {
		opts.OnError = func(string, string, error) {}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	w := &Watcher{sink: sink, opts: opts, broken: map[string]time.Time{}}
	w.daemons.init()
	w.storage.init(&w.intern)
	w.intern.init()
	w.around.of.Defaults, w.around.pods = opts.SpreadDefaults, map[string]*dependent{}
	core := c.Core.CoreV1().RESTClient()
	w.kinds = []*kind{
		{name: "EC2NodeClass", client: c.aws, resource: "ec2nodeclasses", example: &awsv1.EC2NodeClass{}, upsert: upsertNodeClass,
			gone: func(_, name string) cluster.Change { return cluster.DeleteNodeClass{Name: name} }},
		{name: "NodePool", client: c.karpenter, resource: "nodepools", example: &apiv1.NodePool{}, upsert: upsertPool,
			gone: func(_, name string) cluster.Change { return cluster.DeletePool{Name: name} }},
		{name: "NodeClaim", client: c.karpenter, resource: "nodeclaims", example: &apiv1.NodeClaim{}, upsert: upsertClaim,
			gone: func(_, name string) cluster.Change { return cluster.DeleteClaim{Name: name} }},
		{name: "Node", client: core, resource: "nodes", example: &corev1.Node{}, upsert: upsertNode,
			gone: func(_, name string) cluster.Change { return cluster.DeleteNode{Name: name} }},
		{name: "Pod", client: core, resource: "pods", example: &corev1.Pod{}, upsert: w.upsertPod,
			fields: "status.phase!=Succeeded,status.phase!=Failed",
			gone:   func(ns, name string) cluster.Change { return cluster.DeletePod{ID: ns + "/" + name} }},
		{name: "DaemonSet", client: c.Core.AppsV1().RESTClient(), resource: "daemonsets", example: &appsv1.DaemonSet{}, upsert: upsertDaemonSet,
			gone: func(ns, name string) cluster.Change { return cluster.DeleteDaemonSet{ID: ns + "/" + name} }},
		{name: "PodDisruptionBudget", client: c.Core.PolicyV1().RESTClient(), resource: "poddisruptionbudgets", example: &policyv1.PodDisruptionBudget{}, upsert: upsertPDB,
			gone: func(ns, name string) cluster.Change { return cluster.DeletePDB{ID: ns + "/" + name} }},
	}
	w.kinds = append(w.kinds, storageKinds(c)...)
	w.kinds = append(w.kinds, surroundKinds(c, len(opts.SpreadDefaults) > 0)...)
	for _, k := range w.kinds {
		_, k.controller = cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: w.listWatch(k), ObjectType: k.example, Transform: w.transform(k),
			Handler: handler{w, k},
		})
	}
	return w
}

// Run follows the cluster until the context ends. Once every kind was listed and the
// sink was told of all of it, it tells cluster.Synced.
func (w *Watcher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, k := range w.kinds {
		wg.Go(func() { k.controller.RunWithContext(ctx) })
	}
	if w.WaitForSync(ctx) {
		w.sink(cluster.Synced{})
	}
	wg.Wait()
}

// WaitForSync waits until every kind was listed and told; false = the context ended first.
func (w *Watcher) WaitForSync(ctx context.Context) bool {
	synced := make([]cache.InformerSynced, len(w.kinds))
	for i, k := range w.kinds {
		synced[i] = k.controller.HasSynced
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}

// Behind is for how long some watch has not reached the server; 0 = none.
func (w *Watcher) Behind() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var longest time.Duration
	for _, since := range w.broken {
		longest = max(longest, w.opts.Now().Sub(since))
	}
	return longest
}

// listWatch reads one kind and notes whether the server can be reached.
func (w *Watcher) listWatch(k *kind) *cache.ListWatch {
	lw := cache.NewFilteredListWatchFromClient(k.client, k.resource, metav1.NamespaceAll, func(o *metav1.ListOptions) { o.FieldSelector = k.fields })
	list, follow := lw.ListWithContextFunc, lw.WatchFuncWithContext
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		out, err := list(ctx, o)
		w.reached(ctx, k, err)
		return out, err
	}
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		out, err := follow(ctx, o)
		w.reached(ctx, k, err)
		return out, err
	}
	return lw
}

func (w *Watcher) reached(ctx context.Context, k *kind, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	_, was := w.broken[k.name]
	switch {
	case err == nil:
		delete(w.broken, k.name)
	case !was:
		w.broken[k.name] = w.opts.Now()
	}
	w.mu.Unlock()
	if err != nil {
		w.opts.OnError(k.name, "", err)
	}
}

// entry is all that is kept of an object.
type entry struct {
	namespace, name, version string
	uid                      types.UID
	change                   cluster.Change // nil: it could not be converted
}

// GetObjectMeta lets the cache find the object's key and version.
func (e *entry) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: e.namespace, Name: e.name, UID: e.uid, ResourceVersion: e.version}
}

// transform converts objects as they arrive, so that the cache keeps model values only.
func (w *Watcher) transform(k *kind) cache.TransformFunc {
	return func(obj any) (any, error) {
		o, ok := obj.(metav1.Object)
		if !ok { // an entry, or the mark of a deletion that was missed
			return obj, nil
		}
		e := &entry{namespace: w.intern.text(o.GetNamespace()), name: o.GetName(), version: o.GetResourceVersion(), uid: o.GetUID()}
		change, err := k.upsert(obj)
		if err != nil {
			w.opts.OnError(k.name, cache.MetaObjectToName(o).String(), err)
			return e, nil
		}
		e.change = change
		return e, nil
	}
}

// handler tells the sink what the cache of one kind saw.
type handler struct {
	w *Watcher
	k *kind
}

// OnAdd implements cache.ResourceEventHandler.
func (h handler) OnAdd(obj any, _ bool) { h.tell(obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (h handler) OnUpdate(old, obj any) {
	a, ok1 := old.(*entry)
	b, ok2 := obj.(*entry)
	if ok1 && ok2 && a.version == b.version && a.uid == b.uid {
		return // listed again, and not changed
	}
	h.tell(obj)
}

// OnDelete implements cache.ResourceEventHandler.
func (h handler) OnDelete(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		name, err := cache.ParseObjectName(d.Key)
		if err != nil {
			h.w.opts.OnError(h.k.name, d.Key, err)
			return
		}
		obj = &entry{namespace: name.Namespace, name: name.Name}
	}
	if e, ok := obj.(*entry); ok {
		h.w.daemons.forget(h.k, e)
		h.send(h.k.gone(e.namespace, e.name))
	}
}

func (h handler) tell(obj any) {
	e, ok := obj.(*entry)
	if !ok {
		h.w.opts.OnError(h.k.name, "", fmt.Errorf("unexpected %T in the cache", obj))
		return
	}
	switch c := e.change.(type) {
	case nil: // what cannot be read must not be planned with
		h.send(h.k.gone(e.namespace, e.name))
	case cluster.UpsertDaemonSet:
		h.w.daemons.set(c.DaemonSet, h.w.sink)
	case cluster.UpsertPod:
		h.send(c)
		if c.Pod.Daemon() {
			h.w.daemons.pod(c.Pod, h.w.sink)
		}
	default:
		h.send(c)
	}
}

// send tells the sink of a change, or keeps what other changes depend on.
func (h handler) send(c cluster.Change) {
	switch c := c.(type) {
	case stored:
		switch c.kind {
		case "PersistentVolumeClaim", "PersistentVolume", "StorageClass":
			h.w.storage.set(c, h.w.sink)
		default:
			h.w.around.set(c, h.w.pass)
		}
	case mounted:
		h.w.storage.pod(c, h.w.sink)
	case surrounded:
		h.w.around.pod(c, h.w.pass)
	case cluster.DeletePod:
		h.w.around.forget(c.ID)
		h.w.storage.forget(c, h.w.sink)
	default:
		h.w.sink(c)
	}
}

// pass tells the sink of a pod whose wishes are known, once it is known where its
// volumes are.
func (w *Watcher) pass(p *model.Pod, volumes []convert.PodVolume) {
	w.intern.pod(p)
	c := cluster.UpsertPod{Pod: p}
	if len(volumes) > 0 {
		w.storage.pod(mounted{c, volumes}, w.sink)
		return
	}
	w.sink(c)
}

func upsertNodeClass(obj any) (cluster.Change, error) {
	return cluster.UpsertNodeClass{NodeClass: convert.NodeClass(obj.(*awsv1.EC2NodeClass))}, nil
}

func upsertPool(obj any) (cluster.Change, error) {
	p, err := convert.Pool(obj.(*apiv1.NodePool))
	return cluster.UpsertPool{Pool: p}, err
}

func upsertClaim(obj any) (cluster.Change, error) {
	c, err := convert.Claim(obj.(*apiv1.NodeClaim))
	return cluster.UpsertClaim{Claim: c}, err
}

func upsertNode(obj any) (cluster.Change, error) {
	n, err := convert.Node(obj.(*corev1.Node))
	if err == nil {
		delete(n.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return cluster.UpsertNode{Node: n}, err
}

func upsertDaemonSet(obj any) (cluster.Change, error) {
	d, err := convert.DaemonSet(obj.(*appsv1.DaemonSet), nil, nil)
	return cluster.UpsertDaemonSet{DaemonSet: d}, err
}

func upsertPDB(obj any) (cluster.Change, error) {
	b, err := convert.PDB(obj.(*policyv1.PodDisruptionBudget))
	return cluster.UpsertPDB{PDB: b}, err
}

// upsertPod converts a pod. What its annotations and labels have in common with other
// pods is shared.
func (w *Watcher) upsertPod(obj any) (cluster.Change, error) {
	p := obj.(*corev1.Pod)
	shape, err := convert.ShapeOf(p)
	if err != nil {
		return nil, err
	}
	m := shape.Pod(p)
	m.Annotations = keepAnnotations(m.Annotations)
	w.intern.pod(m)
	change := cluster.UpsertPod{Pod: m}
	if shape.Depends(&w.around.of) {
		return surrounded{change, shape}, nil
	}
	if len(shape.Volumes) > 0 {
		return mounted{change, shape.Volumes}, nil
	}
	return change, nil
}

func keepAnnotations(in map[string]string) map[string]string {
	var out map[string]string
	for k, v := range in {
		if convert.KeepAnnotation(k) {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

// daemons knows the DaemonSets and the newest pod of each, which shows what admission
// makes of the template.
type daemons struct {
	mu      sync.Mutex
	sets    map[string]*model.DaemonSet // as the template says
	samples map[string]*model.Pod
}

func (d *daemons) init() {
	d.sets, d.samples = map[string]*model.DaemonSet{}, map[string]*model.Pod{}
}

func (d *daemons) set(ds *model.DaemonSet, sink Sink) {
	d.mu.Lock()
	defer d.mu.Unlock() // held over the call, so that set and pod cannot overtake each other
	id := ds.Namespace + "/" + ds.Name
	d.sets[id] = ds
	sink(cluster.UpsertDaemonSet{DaemonSet: shown(ds, d.samples[id])})
}

func (d *daemons) pod(p *model.Pod, sink Sink) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := p.Namespace + "/" + p.Owner.Name
	have := d.samples[id]
	if have != nil && p.Created.Before(have.Created) {
		return
	}
	d.samples[id] = p
	if ds := d.sets[id]; ds != nil && (have == nil || !convert.SameSample(have, p)) {
		sink(cluster.UpsertDaemonSet{DaemonSet: shown(ds, p)})
	}
}

func (d *daemons) forget(k *kind, e *entry) {
	if k.name != "DaemonSet" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sets, e.namespace+"/"+e.name)
	delete(d.samples, e.namespace+"/"+e.name)
}

func shown(ds *model.DaemonSet, sample *model.Pod) *model.DaemonSet {
	if sample == nil {
		return ds
	}
	return convert.Sampled(ds, sample)
}
