package fakekubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Config is what all fake nodes of one process share. Only Client is required.
type Config struct {
	// Client must be allowed about one call per second for each node and five for each pod that starts or stops; the
	// defaults of client-go (5 per second) are too low for more than a few nodes.
	Client kubernetes.Interface
	Logger *zap.Logger
	// HeartbeatInterval between two renewals of a node's lease; 10 s where 0. Keep it well below the controller
	// manager's node-monitor-grace-period.
	HeartbeatInterval time.Duration
	// StatusInterval between two reports of an unchanged node status; 1 min where 0.
	StatusInterval time.Duration
	// PodStartDelay is the time from a pod being bound to Running; 0 is at once.
	PodStartDelay time.Duration
	// PodStopTime is the time a deleted pod takes to stop; the pod's grace period cuts it short.
	PodStopTime time.Duration
	// Workers handle pods at the same time; 4 where 0.
	Workers int
}

// byNode is the informer's index of pods by the node they are bound to.
const byNode = "node"

// callTimeout bounds one call to the API server.
const callTimeout = 15 * time.Second

// Kubelets are the fake kubelets of one process. All methods may be called from any goroutine.
type Kubelets struct {
	cfg   Config
	log   *zap.Logger
	pods  cache.SharedIndexInformer
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu      sync.Mutex
	stopped bool
	nodes   map[string]*Node
	seen    map[types.UID]*podMemory
	ips     uint32 // number of addresses handed out so far
}

// New checks the configuration. Nothing runs before Run.
func New(cfg Config) (*Kubelets, error) {
	if cfg.Client == nil {
		return nil, errors.New("fake kubelets: config needs a client")
	}
	for field, d := range map[string]time.Duration{
		"heartbeatInterval": cfg.HeartbeatInterval, "statusInterval": cfg.StatusInterval,
		"podStartDelay": cfg.PodStartDelay, "podStopTime": cfg.PodStopTime,
	} {
		if d < 0 {
			return nil, fmt.Errorf("fake kubelets: config: %s: %v is negative", field, d)
		}
	}
	if cfg.HeartbeatInterval == 0 {
		cfg.HeartbeatInterval = 10 * time.Second
	}
	if cfg.StatusInterval == 0 {
		cfg.StatusInterval = time.Minute
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 4
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	k := &Kubelets{
		cfg:   cfg,
		log:   cfg.Logger.Named("fakekubelet"),
		nodes: map[string]*Node{},
		seen:  map[types.UID]*podMemory{},
		// A failed call is tried again soon: the cluster under test waits for it.
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](50*time.Millisecond, 5*time.Second)),
	}
	// Pods without a node are none of a kubelet's business.
	factory := informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	k.pods = factory.Core().V1().Pods().Informer()
	return k, k.watchPods()
}

func (k *Kubelets) watchPods() error {
	if err := k.pods.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("pod informer holds a %T", obj)
		}
		return []string{pod.Spec.NodeName}, nil
	}}); err != nil {
		return fmt.Errorf("fake kubelets: index pods: %w", err)
	}
	_, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.enqueue,
		UpdateFunc: func(_, obj any) { k.enqueue(obj) },
		DeleteFunc: k.forget,
	})
	if err != nil {
		return fmt.Errorf("fake kubelets: watch pods: %w", err)
	}
	return nil
}

// Run serves the pods of all nodes until ctx is done, then terminates all nodes and returns nil. It fails when ctx is done
// before the pods were listed. It may be called once.
func (k *Kubelets) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { k.pods.RunWithContext(ctx) })
	defer func() {
		k.queue.ShutDown()
		wg.Wait()
		k.terminateAll()
	}()
	if !cache.WaitForCacheSync(ctx.Done(), k.pods.HasSynced) {
		return nil // told to end before the first list was there
	}
	for range k.cfg.Workers {
		wg.Go(func() {
			for k.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (k *Kubelets) terminateAll() {
	k.mu.Lock()
	k.stopped = true // no new ones from here
	k.mu.Unlock()
	for _, n := range k.Nodes() {
		n.Terminate()
	}
}

// Start brings up one machine and returns at once. The machine runs until ctx is done or Terminate is called, so ctx must
// outlive the call that asked for the machine. A name may be used again once its machine is terminated.
func (k *Kubelets) Start(ctx context.Context, spec NodeSpec) (*Node, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil, fmt.Errorf("node %s: the fake kubelets have been stopped", spec.Name)
	}
	if _, ok := k.nodes[spec.Name]; ok {
		return nil, fmt.Errorf("node %s: already started", spec.Name)
	}
	n := newNode(k, spec.withDefaults(k.nextIP(1)))
	ctx, n.cancel = context.WithCancelCause(ctx)
	k.nodes[spec.Name] = n
	go func() {
		defer k.drop(n)
		n.run(ctx)
	}()
	return n, nil
}

// Node returns the running machine of that name.
func (k *Kubelets) Node(name string) (*Node, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, ok := k.nodes[name]
	return n, ok
}

// Nodes returns all running machines in no particular order.
func (k *Kubelets) Nodes() []*Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*Node, 0, len(k.nodes))
	for _, n := range k.nodes {
		out = append(out, n)
	}
	return out
}

func (k *Kubelets) drop(n *Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.nodes, n.spec.Name)
	close(n.done)
}

// nextIP hands out addresses of 10.<net>.0.0/16, over again after 65,000. The caller holds the lock.
func (k *Kubelets) nextIP(net int) string {
	k.ips++
	return fmt.Sprintf("10.%d.%d.%d", net, k.ips/250%250, k.ips%250+1)
}

func (k *Kubelets) podIP() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nextIP(2)
}
