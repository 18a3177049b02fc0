package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/integration/fakekubelet"
)

// Behaviour says how a machine joins. The zero value joins as soon as it runs.
type Behaviour struct {
	NeverJoin  bool          `json:"neverJoin,omitempty"`
	NeverReady bool          `json:"neverReady,omitempty"`
	JoinDelay  time.Duration `json:"joinDelay,omitempty"`  // running to Node object
	ReadyDelay time.Duration `json:"readyDelay,omitempty"` // Node object to Ready
	DieAfter   time.Duration `json:"dieAfter,omitempty"`   // Node object to silence; 0 = never
}

// Config of a Joiner. Client, Kubelets and EC2 are required.
type Config struct {
	Client   kubernetes.Interface
	Kubelets *fakekubelet.Kubelets
	EC2      *sim.EC2
	Logger   *zap.Logger
	Usual    Behaviour // of machines that nothing else was said about
	// Deliver receives every event of EC2 in order; an error is tried again.
	Deliver func(context.Context, sim.Event) error
	// Tick is how often EC2 is looked at, default 100 ms.
	Tick time.Duration
}

// Joiner joins nodes for the instances of one EC2.
type Joiner struct {
	cfg Config

	mu   sync.Mutex
	next []Behaviour // of the next machines, first first
}

// New checks the configuration.
func New(cfg Config) (*Joiner, error) {
	if cfg.Client == nil || cfg.Kubelets == nil || cfg.EC2 == nil {
		return nil, errors.New("machines: client, kubelets and EC2 are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Tick <= 0 {
		cfg.Tick = 100 * time.Millisecond
	}
	return &Joiner{cfg: cfg}, nil
}

// Next says how the next n machines behave.
func (j *Joiner) Next(n int, b Behaviour) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range n {
		j.next = append(j.next, b)
	}
}

func (j *Joiner) behaviour() Behaviour {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.next) == 0 {
		return j.cfg.Usual
	}
	b := j.next[0]
	j.next = j.next[1:]
	return b
}

// Run follows EC2 until ctx is done. The kubelets must run already.
func (j *Joiner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	out := make(chan sim.Event, 1024)
	wg.Go(func() { j.deliver(ctx, out) })
	tick := time.NewTicker(j.cfg.Tick)
	defer tick.Stop()
	var seen int64
	for {
		for _, ev := range j.cfg.EC2.Events(seen) {
			seen = ev.Seq
			j.follow(ctx, &wg, ev)
			select {
			case out <- ev:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// deliver hands events on in order; one that is not taken is tried again for a
// minute, as EventBridge does for longer, and then dropped with a log line.
func (j *Joiner) deliver(ctx context.Context, in <-chan sim.Event) {
	for {
		var ev sim.Event
		select {
		case ev = <-in:
		case <-ctx.Done():
			return
		}
		if j.cfg.Deliver == nil {
			continue
		}
		for began, wait := time.Now(), 100*time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			err := j.cfg.Deliver(ctx, ev)
			if err == nil || ctx.Err() != nil {
				break
			}
			if time.Since(began) > time.Minute {
				j.cfg.Logger.Error("event dropped", zap.Int64("seq", ev.Seq), zap.Error(err))
				break
			}
			j.cfg.Logger.Warn("event not delivered, trying again", zap.Int64("seq", ev.Seq), zap.Error(err))
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	}
}

func (j *Joiner) follow(ctx context.Context, wg *sync.WaitGroup, ev sim.Event) {
	var e struct {
		Detail struct {
			Instance string `json:"instance-id"`
			State    string `json:"state"`
		} `json:"detail"`
	}
	if err := json.Unmarshal(ev.JSON, &e); err != nil {
		j.cfg.Logger.Error("event of the simulated EC2", zap.Error(err))
		return
	}
	m, ok := j.cfg.EC2.Machine(e.Detail.Instance)
	if !ok {
		return
	}
	switch e.Detail.State {
	case sim.Running:
		if err := j.start(ctx, m); err != nil {
			j.cfg.Logger.Error("machine cannot join", zap.String("instance", m.ID), zap.Error(err))
		}
	case sim.ShuttingDown:
		if n, ok := j.cfg.Kubelets.Node(m.NodeName); ok && n.ProviderID() == m.ProviderID() {
			n.Terminate()
		}
	case sim.Terminated:
		wg.Go(func() { j.removeNode(ctx, m) })
	}
}

func (j *Joiner) start(ctx context.Context, m sim.Machine) error {
	spec, err := Spec(m, j.behaviour())
	if err != nil {
		return err
	}
	_, err = j.cfg.Kubelets.Start(ctx, spec)
	return err
}

// Spec is the kubelet of a machine.
func Spec(m sim.Machine, b Behaviour) (fakekubelet.NodeSpec, error) {
	list := func(what string, in map[string]string) (corev1.ResourceList, error) {
		out := corev1.ResourceList{}
		for name, text := range in {
			q, err := apiresource.ParseQuantity(text)
			if err != nil {
				return nil, fmt.Errorf("instance %s: %s %s: %q: %w", m.ID, what, name, text, err)
			}
			out[corev1.ResourceName(name)] = q
		}
		return out, nil
	}
	capacity, err := list("capacity", m.Capacity)
	if err != nil {
		return fakekubelet.NodeSpec{}, err
	}
	allocatable, err := list("allocatable", m.Allocatable)
	if err != nil {
		return fakekubelet.NodeSpec{}, err
	}
	return fakekubelet.NodeSpec{Name: m.NodeName, ProviderID: m.ProviderID(), Labels: m.Labels, Taints: convert.APITaints(m.Taints),
		Capacity: capacity, Allocatable: allocatable,
		Behaviour: fakekubelet.Behaviour{NeverJoin: b.NeverJoin, NeverReady: b.NeverReady, JoinDelay: b.JoinDelay, ReadyDelay: b.ReadyDelay, DieAfter: b.DieAfter}}, nil
}

// cloudCheck is how often the cloud controller manager looks at nodes that are not ready.
const cloudCheck = 5 * time.Second

// removeNode deletes the Node of an instance that is gone once it is NotReady.
func (j *Joiner) removeNode(ctx context.Context, m sim.Machine) {
	tick := time.NewTicker(cloudCheck)
	defer tick.Stop()
	for {
		done, err := j.tryRemove(ctx, m)
		if done {
			return
		}
		if err != nil && ctx.Err() == nil {
			j.cfg.Logger.Warn("node of an instance that is gone", zap.String("node", m.NodeName), zap.Error(err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (j *Joiner) tryRemove(ctx context.Context, m sim.Machine) (done bool, err error) {
	nodes := j.cfg.Client.CoreV1().Nodes()
	n, err := nodes.Get(ctx, m.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (n.Spec.ProviderID != m.ProviderID() || n.DeletionTimestamp != nil) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return false, nil
		}
	}
	err = nodes.Delete(ctx, m.NodeName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.UID}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true, nil
	}
	return false, err
}
