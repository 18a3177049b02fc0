package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The leases.
const (
	LeaseName          = "weir-scaler"
	KarpenterLeaseName = "karpenter-leader-election"
)

// ElectOptions say which leases are held. Zero values mean the default written beside each.
type ElectOptions struct {
	Namespace string // of our lease; required
	Name      string // LeaseName
	// KarpenterNamespace and KarpenterName are those of Karpenter's lease, which is held,
	// too, so that a Karpenter that is started later stays passive: Namespace and KarpenterLeaseName.
	KarpenterNamespace string
	KarpenterName      string
	// Identity names this process: host name and a random part. Each term adds its number.
	Identity string

	LeaseDuration time.Duration // 15 s: how long a lease is good without being renewed
	RenewDeadline time.Duration // 10 s: how long a leader tries to renew it before it stops
	RetryPeriod   time.Duration // 2 s: between tries

	// Passive hears why this process does not lead, each time the reason changes; empty = it leads.
	Passive func(why string)
}

func (o *ElectOptions) defaults() error {
	if o.Namespace == "" {
		return errors.New("leader election: the namespace of the lease is not set")
	}
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Name, LeaseName)
	set(&o.KarpenterNamespace, o.Namespace)
	set(&o.KarpenterName, KarpenterLeaseName)
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&o.LeaseDuration, 15 * time.Second}, {&o.RenewDeadline, 10 * time.Second}, {&o.RetryPeriod, 2 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if o.Passive == nil {
		o.Passive = func(string) {}
	}
	return nil
}

// Elect takes part in the election until the context ends. Each time that this process
// holds both leases it calls run with an epoch that no earlier leader had; the
// context of run ends as soon as one of the leases may be lost, and run must then
// return at once: Elect waits for it before it lets the leases go. When run returns by
// itself, the term is over and the next election begins.
func Elect(ctx context.Context, client kubernetes.Interface, o ElectOptions, run func(ctx context.Context, epoch int64)) error {
	if err := o.defaults(); err != nil {
		return err
	}
	p := &passive{tell: o.Passive}
	for n := 1; ctx.Err() == nil; n++ {
		t := term{client: client, o: o, passive: p, identity: fmt.Sprintf("%s_%d", o.Identity, n)}
		if err := t.ours(ctx, run); err != nil {
			return err
		}
		select { // a term that ends at once must not spin
		case <-ctx.Done():
		case <-time.After(o.RetryPeriod):
		}
	}
	return nil
}

// passive tells reasons when they change.
type passive struct {
	mu   sync.Mutex
	why  string
	told bool
	tell func(string)
}

func (p *passive) set(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told && p.why == why {
		return
	}
	p.why, p.told = why, true
	p.tell(why)
}

// term is one try to lead. Its identity is its own, so that each term counts as a
// change of the holder and has an epoch of its own.
type term struct {
	client   kubernetes.Interface
	o        ElectOptions
	passive  *passive
	identity string
}

// ours holds our lease and, while it does, contends for Karpenter's.
func (t *term) ours(ctx context.Context, run func(context.Context, int64)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	return t.hold(ctx, t.o.Namespace, t.o.Name, func(ctx context.Context, l *lock) {
		defer end()
		epoch := l.epoch()
		ctx, endInner := context.WithCancel(ctx)
		defer endInner()
		err := t.hold(ctx, t.o.KarpenterNamespace, t.o.KarpenterName, func(ctx context.Context, _ *lock) {
			defer endInner()
			t.passive.set("")
			run(ctx, epoch)
			t.passive.set("the term has ended")
		})
		if err != nil {
			t.passive.set(err.Error())
		}
	})
}

// hold contends for a lease, calls lead while it has it, and returns when lead is over
// or the context ends. The lease is let go after lead has returned, never before.
func (t *term) hold(ctx context.Context, namespace, name string, lead func(context.Context, *lock)) error {
	l := &lock{term: t, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     t.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: t.identity},
	}}
	done := make(chan struct{}) // closed when lead has returned
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: name,
		LeaseDuration: t.o.LeaseDuration, RenewDeadline: t.o.RenewDeadline, RetryPeriod: t.o.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer close(done)
				lead(ctx, l)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != "" && holder != t.identity {
					t.passive.set(fmt.Sprintf("lease %s/%s is held by %s", namespace, name, holder))
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: lease %s/%s: %w", namespace, name, err)
	}
	e.Run(ctx)
	if l.acquired() {
		<-done
		l.release()
	}
	return nil
}

// lock is a lease that says why it cannot be had.
type lock struct {
	resourcelock.LeaseLock
	term *term

	mu          sync.Mutex
	held        bool
	transitions int64
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.LeaseLock.Get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		l.failed(ctx, err)
	}
	return r, raw, err
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, r)
	l.wrote(ctx, r, err)
	return err
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Update(ctx, r)
	l.wrote(ctx, r, err)
	return err
}

func (l *lock) wrote(ctx context.Context, r resourcelock.LeaderElectionRecord, err error) {
	switch {
	case err == nil:
		l.mu.Lock()
		l.held, l.transitions = true, int64(r.LeaderTransitions)
		l.mu.Unlock()
	case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
		l.failed(ctx, err)
	}
}

func (l *lock) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.term.passive.set(fmt.Sprintf("lease %s: %v", l.Describe(), err))
	}
}

func (l *lock) acquired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// epoch numbers the leaders by how often the lease changed hands, from 1.
func (l *lock) epoch() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.transitions + 1
}

// release lets the lease go for whoever waits, if it is still ours.
func (l *lock) release() {
	ctx, cancel := context.WithTimeout(context.Background(), l.term.o.RenewDeadline)
	defer cancel()
	r, _, err := l.LeaseLock.Get(ctx)
	if err != nil || r.HolderIdentity != l.term.identity {
		return // it expires by itself
	}
	now := metav1.NewTime(time.Now())
	_ = l.LeaseLock.Update(ctx, resourcelock.LeaderElectionRecord{ // likewise
		LeaderTransitions: r.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}
