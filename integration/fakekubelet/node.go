package fakekubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// errTerminated is why a machine ended that was told to.
var errTerminated = errors.New("instance terminated")

// Node is one running machine. All methods may be called from any goroutine.
type Node struct {
	k      *Kubelets
	spec   NodeSpec
	log    *zap.Logger
	cancel context.CancelCauseFunc
	wake   chan struct{} // something changed that the machine's goroutine must look at

	registered, ready, done chan struct{}

	mu         sync.Mutex
	uid        types.UID // of the Node object, empty before registration
	isReady    bool
	silent     bool // died
	orphan     bool // the Node object was deleted
	report     bool // a status report is due
	beat       bool // a heartbeat is due
	late       bool // late resources are there
	conditions map[corev1.NodeConditionType]corev1.NodeCondition
	err        error

	// Only the machine's goroutine uses these.
	plan  []*step
	lease *coordinationv1.Lease
}

// step is something the machine does at a time. do returns after which time to do it again, 0 for never.
type step struct {
	name     string
	at       time.Time
	do       func(context.Context) (again time.Duration, err error)
	failures int
}

func newNode(k *Kubelets, spec NodeSpec) *Node {
	n := &Node{
		k: k, spec: spec,
		log:        k.log.With(zap.String("node", spec.Name), zap.String("providerID", spec.ProviderID)),
		wake:       make(chan struct{}, 1),
		registered: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{}),
		conditions: map[corev1.NodeConditionType]corev1.NodeCondition{},
	}
	n.setCondition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", "network plugin is not ready")
	n.setCondition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "")
	n.setCondition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "")
	n.setCondition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "")
	return n
}

// Name of the Node object.
func (n *Node) Name() string { return n.spec.Name }

// ProviderID of the machine.
func (n *Node) ProviderID() string { return n.spec.ProviderID }

// Registered is closed once the Node object exists.
func (n *Node) Registered() <-chan struct{} { return n.registered }

// Ready is closed once the node has reported Ready for the first time.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Done is closed once the machine has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the machine could not go on, nil while it runs and after Terminate or the end of its context.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Die makes the kubelet silent: no heartbeat, no report, pods neither start nor stop. Before registration it never joins.
func (n *Node) Die() {
	n.change(func() { n.silent = true })
	n.log.Info("node died")
}

// Revive undoes Die: the node reports again and catches up with its pods.
func (n *Node) Revive() {
	n.change(func() { n.silent, n.report, n.beat = false, true, true })
	n.k.enqueueNode(n.spec.Name)
	n.log.Info("node is back")
}

// Terminate ends the machine for good and waits for its goroutine. The Node object stays; it is for others to remove.
func (n *Node) Terminate() {
	n.cancel(errTerminated)
	<-n.done
}

// SetCondition reports a condition from now on, such as the ones that node repair acts on. Ready=False also keeps new pods
// outside the host network from starting.
func (n *Node) SetCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) {
	n.change(func() {
		n.setCondition(kind, status, reason, message)
		n.report = true
	})
	n.k.enqueueNode(n.spec.Name)
}

func (n *Node) change(f func()) {
	n.mu.Lock()
	f()
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default: // already awake
	}
}

// setCondition keeps the time of the last transition where the status stays. The caller holds the lock.
func (n *Node) setCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) {
	since := metav1.Now()
	if old, ok := n.conditions[kind]; ok && old.Status == status {
		since = old.LastTransitionTime
	}
	n.conditions[kind] = corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: since}
	if kind == corev1.NodeReady {
		n.isReady = status == corev1.ConditionTrue
	}
}

// runsPod reports whether the kubelet is in a state to look after a pod: it waits for the network, pods of the host's
// network and pods that are stopping do not.
func (n *Node) runsPod(pod *corev1.Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.uid == "" || n.silent {
		return false
	}
	return n.isReady || pod.Spec.HostNetwork || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending
}

// run is the life of the machine.
func (n *Node) run(ctx context.Context) {
	if n.spec.Behaviour.NeverJoin {
		n.log.Info("node boots and never joins")
		<-ctx.Done()
		return
	}
	n.after(n.spec.Behaviour.JoinDelay, "register", n.register)
	for {
		// Asked before the plan: a step that was done while the machine ended is still in it, and select may choose its timer.
		if ctx.Err() != nil {
			n.log.Info("node ended", zap.NamedError("cause", context.Cause(ctx)))
			return
		}
		n.answer()
		next := n.next()
		var timer <-chan time.Time
		if next != nil {
			timer = time.After(time.Until(next.at))
		}
		select {
		case <-ctx.Done():
			continue
		case <-n.wake:
			continue
		case <-timer:
		}
		if err := n.perform(ctx, next); err != nil {
			n.mu.Lock()
			n.err = err
			n.mu.Unlock()
			n.log.Error("node cannot go on", zap.Error(err))
			return
		}
	}
}

func (n *Node) after(d time.Duration, name string, do func(context.Context) (time.Duration, error)) {
	n.plan = append(n.plan, &step{name: name, at: time.Now().Add(d), do: do})
}

// answer turns what other goroutines asked for into steps that are due now.
func (n *Node) answer() {
	n.mu.Lock()
	report, beat := n.report && n.uid != "", n.beat && n.uid != ""
	if n.uid != "" {
		n.report, n.beat = false, false
	}
	n.mu.Unlock()
	for _, s := range n.plan {
		if s.name == stepReport && report || s.name == stepHeartbeat && beat {
			s.at = time.Now()
		}
	}
}

// next is the step that is due first, nil while the machine is dead or has nothing left to do.
func (n *Node) next() *step {
	n.mu.Lock()
	idle := n.silent || n.orphan
	n.mu.Unlock()
	if idle || len(n.plan) == 0 {
		return nil
	}
	return slices.MinFunc(n.plan, func(a, b *step) int { return a.at.Compare(b.at) })
}

const (
	stepReport    = "report status"
	stepHeartbeat = "renew lease"
)

// permanent marks an error that trying again cannot help.
type permanent struct{ error }

// perform does a step and puts it back into the plan where it is to be done again. It returns permanent errors only.
func (n *Node) perform(ctx context.Context, s *step) error {
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	again, err := s.do(callCtx)
	switch fatal := (permanent{}); {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &fatal):
		return fmt.Errorf("%s: %w", s.name, fatal.error)
	case err != nil:
		s.failures++
		again = min(5*time.Second, 100*time.Millisecond<<min(s.failures, 10))
		n.log.Warn("step failed, trying again", zap.String("step", s.name), zap.Duration("in", again), zap.Error(err))
	default:
		s.failures = 0
	}
	if again == 0 {
		n.plan = slices.DeleteFunc(n.plan, func(other *step) bool { return other == s })
		return nil
	}
	s.at = time.Now().Add(again)
	return nil
}

// register makes the Node object, or takes over the one of this machine, and plans the rest of its life.
func (n *Node) register(ctx context.Context) (time.Duration, error) {
	nodes := n.k.cfg.Client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, n.object(), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		if node, err = n.adopt(ctx); err != nil {
			return 0, err
		}
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return 0, permanent{err}
	case err != nil:
		return 0, err
	}
	n.mu.Lock()
	n.uid = node.UID
	n.mu.Unlock()
	close(n.registered)
	n.log.Info("node registered")

	b := &n.spec.Behaviour
	n.after(0, stepHeartbeat, n.heartbeat)
	n.after(0, stepReport, n.reportStatus)
	if !b.NeverReady {
		n.after(b.ReadyDelay, "become ready", n.becomeReady)
	}
	if b.DieAfter > 0 {
		n.after(b.DieAfter, "die", func(context.Context) (time.Duration, error) { n.Die(); return 0, nil })
	}
	n.k.enqueueNode(n.spec.Name)
	return 0, nil
}

func (n *Node) object() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.spec.Name, Labels: n.spec.Labels, Annotations: n.spec.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: n.spec.ProviderID, Taints: n.spec.Taints},
		Status:     n.status(),
	}
}

// adopt takes over the Node object that an earlier kubelet of the same machine left, and brings its labels up to date. A
// Node of another machine is a permanent error.
func (n *Node) adopt(ctx context.Context) (*corev1.Node, error) {
	nodes := n.k.cfg.Client.CoreV1().Nodes()
	old, err := nodes.Get(ctx, n.spec.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.spec.ProviderID {
		return nil, permanent{fmt.Errorf("node %s exists with provider id %s, this machine is %s", old.Name, old.Spec.ProviderID, n.spec.ProviderID)}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": old.UID, "labels": n.spec.Labels},
		"spec":     map[string]any{"providerID": n.spec.ProviderID},
	})
	if err != nil {
		return nil, permanent{err}
	}
	return nodes.Patch(ctx, old.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

func (n *Node) becomeReady(ctx context.Context) (time.Duration, error) {
	n.mu.Lock()
	n.setCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	n.mu.Unlock()
	if _, err := n.reportStatus(ctx); err != nil {
		return 0, err
	}
	close(n.ready)
	n.log.Info("node ready")
	n.k.enqueueNode(n.spec.Name)
	b := &n.spec.Behaviour
	for _, c := range b.ClearTaints {
		n.after(c.After, "clear taint "+c.Key, func(ctx context.Context) (time.Duration, error) { return 0, n.clearTaint(ctx, c.Key) })
	}
	if len(b.LateResources) > 0 {
		n.after(b.LateResourcesDelay, "offer late resources", func(ctx context.Context) (time.Duration, error) {
			n.mu.Lock()
			n.late = true
			n.mu.Unlock()
			_, err := n.reportStatus(ctx)
			return 0, err
		})
	}
	return 0, nil
}

func (n *Node) clearTaint(ctx context.Context, key string) error {
	nodes := n.k.cfg.Client.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, n.spec.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == key })
		if len(kept) == len(node.Spec.Taints) {
			n.log.Info("no such taint to clear", zap.String("taint", key))
			return nil
		}
		node.Spec.Taints = kept
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	return n.orphanIfGone(err)
}

// status is what the node reports now.
func (n *Node) status() corev1.NodeStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := corev1.NodeStatus{
		Capacity: n.spec.Capacity.DeepCopy(), Allocatable: n.spec.Allocatable.DeepCopy(),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.spec.InternalIP},
			{Type: corev1.NodeHostName, Address: n.spec.Name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: n.spec.ProviderID, SystemUUID: n.spec.ProviderID, BootID: n.spec.ProviderID,
			KernelVersion: "6.12.0", OSImage: n.spec.OSImage, ContainerRuntimeVersion: "containerd://2.1.0",
			KubeletVersion:  n.spec.KubeletVersion,
			OperatingSystem: n.spec.Labels[corev1.LabelOSStable], Architecture: n.spec.Labels[corev1.LabelArchStable],
		},
	}
	if n.late {
		for name, q := range n.spec.Behaviour.LateResources {
			st.Capacity[name], st.Allocatable[name] = q.DeepCopy(), q.DeepCopy()
		}
	}
	now := metav1.Now()
	for _, c := range n.conditions {
		c.LastHeartbeatTime = now
		st.Conditions = append(st.Conditions, c)
	}
	slices.SortFunc(st.Conditions, func(a, b corev1.NodeCondition) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
	return st
}

func (n *Node) reportStatus(ctx context.Context) (time.Duration, error) {
	patch, err := json.Marshal(map[string]any{"status": n.status()})
	if err != nil {
		return 0, permanent{fmt.Errorf("encode node status: %w", err)}
	}
	_, err = n.k.cfg.Client.CoreV1().Nodes().Patch(ctx, n.spec.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return n.k.cfg.StatusInterval, n.orphanIfGone(err)
}

// orphanIfGone turns "not found" of the Node object into the end of all reports: a kubelet does not make its Node again.
func (n *Node) orphanIfGone(err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	n.mu.Lock()
	n.orphan = true
	n.mu.Unlock()
	n.log.Info("node object was deleted, no more reports")
	return nil
}

// heartbeat renews the lease, making it where missing.
func (n *Node) heartbeat(ctx context.Context) (time.Duration, error) {
	leases := n.k.cfg.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	again := n.k.cfg.HeartbeatInterval
	if n.lease == nil {
		lease, err := leases.Get(ctx, n.spec.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return n.makeLease(ctx)
		case err != nil:
			return 0, err
		}
		n.lease = lease
	}
	lease := n.lease.DeepCopy()
	n.fillLease(lease)
	lease, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		n.lease = nil // look at it again, whatever is wrong
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return time.Millisecond, nil
		}
		return 0, err
	}
	n.lease = lease
	return again, nil
}

// makeLease makes the lease, unless it is missing because the Node object is: leases are collected with their node.
func (n *Node) makeLease(ctx context.Context) (time.Duration, error) {
	if _, err := n.k.cfg.Client.CoreV1().Nodes().Get(ctx, n.spec.Name, metav1.GetOptions{}); err != nil {
		return n.k.cfg.HeartbeatInterval, n.orphanIfGone(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.spec.Name, Namespace: corev1.NamespaceNodeLease}}
	n.fillLease(lease)
	lease, err := n.k.cfg.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	n.lease = lease
	return n.k.cfg.HeartbeatInterval, nil
}

func (n *Node) fillLease(lease *coordinationv1.Lease) {
	n.mu.Lock()
	uid := n.uid
	n.mu.Unlock()
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.spec.Name, UID: uid}}
	lease.Spec.HolderIdentity = ptr.To(n.spec.Name)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(max(1, 4*n.k.cfg.HeartbeatInterval/time.Second)))
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
}
