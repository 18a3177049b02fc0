package respond_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/kube/direct"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/lambda/interruption/respond"
)

const (
	i1      = "i-0aaa0000000000001"
	i2      = "i-0aaa0000000000002"
	foreign = "i-0eee0000000000009"
	account = "111122223333"
	region  = "us-east-2"
	cluster = "prod"
)

// fake is a cluster that behaves: pods that were evicted stop after a while, budgets
// block, a claim that was deleted is being deleted.
type fake struct {
	mu      sync.Mutex // guards all below
	nodes   map[string]*model.Node
	pods    map[string][]*model.Pod // by node
	blocked map[string]bool         // pods whose budget allows nothing
	lone    map[string]bool         // pods that are the only ready ones of their owner
	stops   time.Duration           // from eviction to the end of a pod
	pools   map[string]map[string]string
	fail    map[string]error // by "verb object"
	log     []string         // every write, in order
	looked  []string         // instances that were looked for
	scans   int              // of those, for which all nodes might be read
}

func newFake(nodes ...*model.Node) *fake {
	f := &fake{nodes: map[string]*model.Node{}, pods: map[string][]*model.Pod{}, blocked: map[string]bool{}, stops: 3 * time.Second, pools: map[string]map[string]string{}, fail: map[string]error{}}
	for _, n := range nodes {
		f.nodes[n.Name] = n
		f.pods[n.Name] = n.Pods
		n.Pods = nil
	}
	return f
}

func spotNode(name, instance string, pods ...string) *model.Node {
	var running []*model.Pod
	for _, p := range pods {
		running = append(running, modeltest.Pod(p, 100, 64))
	}
	return modeltest.Node(name, 2000, 8192, nil, modeltest.Managed("default"), func(n *model.Node) {
		n.ProviderID = model.ProviderID("us-east-2a", instance)
		n.Claim.ProviderID, n.Claim.Annotations = n.ProviderID, map[string]string{}
		n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], n.Labels[model.LabelCapacityType] = "m5.large", "us-east-2a", model.Spot
	}, modeltest.Running(running...))
}

func (f *fake) did(format string, args ...any) error {
	l := fmt.Sprintf(format, args...)
	if err := f.fail[l]; err != nil {
		return err
	}
	f.log = append(f.log, l)
	return nil
}

// writes are the writes so far, events of Kubernetes left out.
func (f *fake) writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.log), func(s string) bool { return strings.HasPrefix(s, "emit ") })
}

func (f *fake) NodeByInstance(_ context.Context, id string, h direct.Hints) (*direct.Found, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = append(f.looked, id)
	if !h.NoScan {
		f.scans++
	}
	if err := f.fail["find "+id]; err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		if n := f.nodes[name]; model.InstanceID(n.ProviderID) == id {
			c := *n
			c.Taints = slices.Clone(n.Taints)
			if n.Claim != nil {
				claim := *n.Claim
				claim.Annotations = maps.Clone(n.Claim.Annotations)
				c.Claim = &claim
			}
			return &direct.Found{Node: &c, How: direct.ByLabel}, nil
		}
	}
	return nil, fmt.Errorf("node of %s: %w", id, direct.ErrNotFound)
}

func (f *fake) PoolAnnotations(_ context.Context, name string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pools[name], nil
}

func (f *fake) Pods(_ context.Context, node string) ([]*model.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.pods[node] = slices.DeleteFunc(f.pods[node], func(p *model.Pod) bool { return p.Deleting != nil && !now.Before(*p.Deleting) })
	out := make([]*model.Pod, len(f.pods[node]))
	for i, p := range f.pods[node] {
		c := *p
		out[i] = &c
	}
	return out, f.fail["pods "+node]
}

func (f *fake) OnlyReady(_ context.Context, p *model.Pod) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lone[p.Name], f.fail["alone "+p.Name]
}

func (f *fake) PatchNode(_ context.Context, p model.NodePatch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	verb := "taint"
	if len(p.RemoveTaints) > 0 {
		verb = "untaint"
	}
	if err := f.did("%s %s", verb, p.Name); err != nil {
		return err
	}
	n := f.nodes[p.Name]
	n.Taints = append(n.Taints, p.AddTaints...)
	for _, gone := range p.RemoveTaints {
		n.Taints = slices.DeleteFunc(n.Taints, func(t model.Taint) bool { return t == gone })
	}
	maps.DeleteFunc(n.Labels, func(k, _ string) bool { v, ok := p.Labels[k]; return ok && v == "" })
	for k, v := range p.Labels {
		if v != "" {
			n.Labels[k] = v
		}
	}
	return nil
}

func (f *fake) AnnotateClaim(_ context.Context, name, _ string, annotations map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.Claim != nil && n.Claim.Name == name {
			if err := f.did("annotate %s", name); err != nil {
				return err
			}
			maps.Copy(n.Claim.Annotations, annotations)
			maps.DeleteFunc(n.Claim.Annotations, func(_, v string) bool { return v == "" })
			return nil
		}
	}
	return direct.ErrNotFound
}

func (f *fake) DeleteClaim(_ context.Context, name, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did("delete %s", name); err != nil {
		return err
	}
	for _, n := range f.nodes {
		if n.Claim != nil && n.Claim.Name == name {
			now := time.Now()
			n.Claim.Deleting = &now
		}
	}
	return nil
}

func (f *fake) leave(p *model.Pod, after time.Duration) {
	for _, list := range f.pods {
		for _, o := range list {
			if o.UID == p.UID && (o.Deleting == nil || o.DeletingGrace > after) {
				at := time.Now().Add(after)
				o.Deleting, o.DeletingGrace = &at, after
			}
		}
	}
}

func (f *fake) Evict(_ context.Context, p *model.Pod, grace time.Duration) (drain.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blocked[p.Name] {
		return drain.Blocked, nil
	}
	what := "evict " + p.Name
	if grace > 0 {
		what += " " + grace.String()
	}
	if err := f.did("%s", what); err != nil {
		return drain.Failed, err
	}
	f.leave(p, min(f.stops, cmp.Or(grace, p.GracePeriod)))
	return drain.Accepted, nil
}

func (f *fake) DeletePod(_ context.Context, p *model.Pod, grace time.Duration) (drain.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did("kill %s", p.Name); err != nil {
		return drain.Failed, err
	}
	f.leave(p, min(grace, f.stops))
	return drain.Accepted, nil
}

func (f *fake) Emit(_ context.Context, e model.Event, _ time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.did("emit %s %s", e.Reason, e.Object.Name)
}

// brittle is a ledger whose writes fail for one instance, or which is away altogether.
type brittle struct {
	ledger.Store
	instance string
	away     bool
	hangs    bool // nothing is answered before the context ends
}

var errStore = errors.New("conditional write failed")

func (b *brittle) Put(ctx context.Context, it ledger.Item, expect int64, now time.Time) (int64, error) {
	if b.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if b.away || b.instance != "" && it.Instance == b.instance {
		return 0, errStore
	}
	return b.Store.Put(ctx, it, expect, now)
}

func (b *brittle) Get(ctx context.Context, k ledger.Key, now time.Time) (ledger.Item, bool, error) {
	if b.hangs {
		<-ctx.Done()
		return ledger.Item{}, false, ctx.Err()
	}
	if b.away {
		return ledger.Item{}, false, ledger.ErrUnavailable
	}
	return b.Store.Get(ctx, k, now)
}

func responder(t *testing.T, f *fake, store ledger.Store) *respond.Responder {
	return respond.New(respond.Config{
		Cluster: f, Ledger: store, Log: zaptest.NewLogger(t, zaptest.Level(zapError)), ClusterName: cluster, Account: account, Region: region, TimeBox: 3 * time.Minute,
	})
}
