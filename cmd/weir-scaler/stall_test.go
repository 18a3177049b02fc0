package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// patience bounds every wait; it is many times what a healthy machine needs.
const patience = 5 * time.Minute

func await(t *testing.T, what string, holds func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// sharedAPI is an API server for many callers, whose watch is the loop's sink.
type sharedAPI struct {
	mu   sync.Mutex
	api  *executetest.API
	sink func(cluster.Change)
}

func (a *sharedAPI) do(f func(*executetest.API) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := f(a.api)
	for _, c := range a.api.Changes() {
		a.sink(c)
	}
	return err
}

func (a *sharedAPI) CreateClaim(ctx context.Context, c *model.Claim) (uid string, err error) {
	err = a.do(func(api *executetest.API) error { uid, err = api.CreateClaim(ctx, c); return err })
	return uid, err
}

func (a *sharedAPI) PatchClaim(ctx context.Context, p execute.ClaimPatch) error {
	return a.do(func(api *executetest.API) error { return api.PatchClaim(ctx, p) })
}

func (a *sharedAPI) DeleteClaim(ctx context.Context, name, uid string) error {
	return a.do(func(api *executetest.API) error { return api.DeleteClaim(ctx, name, uid) })
}

func (a *sharedAPI) ListClaims(ctx context.Context) (list []*model.Claim, err error) {
	err = a.do(func(api *executetest.API) error { list, err = api.ListClaims(ctx); return err })
	return list, err
}

func (a *sharedAPI) PatchNode(ctx context.Context, p execute.NodePatch) error {
	return a.do(func(api *executetest.API) error { return api.PatchNode(ctx, p) })
}

func (a *sharedAPI) DeleteNode(ctx context.Context, name, uid string) error {
	return a.do(func(api *executetest.API) error { return api.DeleteNode(ctx, name, uid) })
}

func (a *sharedAPI) Evict(ctx context.Context, p *model.Pod, grace time.Duration) error {
	return a.do(func(api *executetest.API) error { return api.Evict(ctx, p, grace) })
}

func (a *sharedAPI) DeletePod(ctx context.Context, p *model.Pod, grace time.Duration) error {
	return a.do(func(api *executetest.API) error { return api.DeletePod(ctx, p, grace) })
}

func (a *sharedAPI) PatchPool(ctx context.Context, s execute.PoolStatus) error {
	return a.do(func(api *executetest.API) error { return api.PatchPool(ctx, s) })
}

func (a *sharedAPI) Emit(ctx context.Context, e execute.Event) error {
	return a.do(func(api *executetest.API) error { return api.Emit(ctx, e) })
}

// heldPlanner makes no plan while it is held.
type heldPlanner struct {
	control.Planners
	hold    atomic.Bool
	entered chan struct{} // one element for each plan that is held
	release chan struct{} // closed
}

func (p *heldPlanner) Provision(w *model.World, prices *model.Prices) *model.Plan {
	if p.hold.Load() {
		p.entered <- struct{}{}
		<-p.release
	}
	return p.Planners.Provision(w, prices)
}

func waitingPod(name string) *model.Pod {
	return &model.Pod{Namespace: "default", Name: name, UID: "uid-" + name, Requests: resource.New(500, 1<<30, 1, 0), Terms: []require.Set{{}},
		Owner: model.Owner{Kind: "ReplicaSet", Name: "web", UID: "rs"}, GracePeriod: time.Hour, Unschedulable: true}
}

// stage is a loop that leads in a cluster of one bought machine with one pod on it.
type stage struct {
	l       *loop
	api     *sharedAPI
	ec2     *sim.EC2
	planner *heldPlanner
	machine sim.Machine
	end     func() // of the term; it waits
}

func newStage(t *testing.T) *stage {
	t.Helper()
	it := &model.InstanceType{Name: "m5.large", Labels: map[string]string{model.LabelInstanceType: "m5.large", model.LabelArch: "amd64", model.LabelOS: "linux"},
		Capacity: resource.New(2000, 8<<30, 29, 20<<30), Allocatable: resource.New(1900, 7<<30, 29, 18<<30)}
	s := &stage{planner: &heldPlanner{entered: make(chan struct{}, 100), release: make(chan struct{})}}
	s.ec2 = sim.New(sim.Config{Seed: 1, Now: time.Now, Cluster: "c", Delays: sim.Delays{Run: time.Millisecond, Terminate: time.Millisecond, Listed: -1},
		Catalogue: func(*model.NodeClass) []*model.Offering {
			return []*model.Offering{{Type: it, Zone: "us-east-1a", CapacityType: model.Spot, USDPerHour: 0.04, Available: true}}
		}})
	s.api = &sharedAPI{api: executetest.NewAPI(time.Now)}
	s.l = testLoop(t, execute.Ports{Kube: s.api, Cloud: s.ec2, Ledger: mem.New(), Strategy: executetest.Strategy{}, Planner: s.planner})
	s.api.sink = s.l.sink
	running, stop := context.WithCancel(context.Background())
	term, endTerm := context.WithCancel(context.Background())
	var loops, terms sync.WaitGroup
	loops.Go(func() { s.l.run(running) })
	terms.Go(func() { s.l.lead(term, 1, func() {}) })
	s.end = func() { endTerm(); terms.Wait() }
	t.Cleanup(func() { s.end(); stop(); loops.Wait() })

	s.put(t, func(api *executetest.API) {
		api.PutClass(&model.NodeClass{Name: "default", UID: "uid-class", Family: "AL2023"})
		api.PutPool(&model.Pool{Name: "spot", UID: "uid-pool", NodeClass: model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
			Requirements: require.NewSet(require.Must(model.LabelPool, "In", "spot")), ExpireAfter: model.Never, Policy: model.WhenEmpty, ConsolidateAfter: time.Hour})
		api.PutPod(waitingPod("first"))
	})
	s.l.sink(cluster.Synced{})
	s.join(t)
	return s
}

func (s *stage) put(t *testing.T, f func(*executetest.API)) {
	t.Helper()
	if err := s.api.do(func(api *executetest.API) error { f(api); return nil }); err != nil {
		t.Fatal(err)
	}
}

// see looks at the API server.
func (s *stage) see(f func(*executetest.API) error) error { return s.api.do(f) }

// join is the kubelet and the scheduler: the machine's node comes up and the pod runs on it.
func (s *stage) join(t *testing.T) {
	t.Helper()
	await(t, "a machine is bought", func() error {
		for _, m := range s.ec2.Machines() {
			if m.State == sim.Running {
				s.machine = m
				return nil
			}
		}
		return errors.New("none runs")
	})
	node := &model.Node{Name: s.machine.NodeName, UID: "uid-node", ProviderID: s.machine.ProviderID(), Labels: maps.Clone(s.machine.Labels), Taints: s.machine.Taints,
		Capacity: executetest.Vector(s.machine.Capacity), Allocatable: executetest.Vector(s.machine.Allocatable), Ready: true, ReadySince: time.Now(), Created: time.Now()}
	s.put(t, func(api *executetest.API) { api.Nodes[node.Name] = node })
	s.l.sink(cluster.UpsertNode{Node: node})
	bound := *waitingPod("first")
	bound.NodeName, bound.Unschedulable, bound.Ready = node.Name, false, true
	s.put(t, func(api *executetest.API) { api.PutPod(&bound) })
	await(t, "its claim is initialized", func() error {
		return s.see(func(api *executetest.API) error {
			for _, c := range api.Claims {
				if c.Is(model.CondInitialized) {
					return nil
				}
			}
			return fmt.Errorf("claims %v", api.Claims)
		})
	})
}

// While a plan does not come the loop answers its probes, and an interruption is taken
// up: taint, the claim's end, eviction. When the term ends nobody waits for the plan.
func TestAPlanThatDoesNotCome(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.planner.hold.Store(true)
	s.put(t, func(api *executetest.API) { api.PutPod(waitingPod("second")) })
	select {
	case <-s.planner.entered:
	case <-time.After(patience):
		t.Fatal("no plan for the second pod")
	}
	before := s.l.alive.Load()
	deadline := time.Now().Add(10 * time.Minute)
	s.l.box.put(control.Notice{Notice: model.Notice{EventID: "e", Kind: model.NoticeSpot, InstanceID: s.machine.ID, Time: time.Now(), Deadline: &deadline, Action: "terminate"}})
	await(t, "the node is tainted, its claim deleted and its pod evicted", func() error {
		return s.see(func(api *executetest.API) error {
			n, p := api.Nodes[s.machine.NodeName], api.Pods["default/first"]
			if n == nil || p == nil {
				return fmt.Errorf("node %v, pod %v", n, p)
			}
			tainted := false
			for _, x := range n.Taints {
				tainted = tainted || drain.Taint.Same(x)
			}
			for _, c := range api.Claims {
				if tainted && c.Deleting != nil && p.Deleting != nil {
					return nil
				}
			}
			return fmt.Errorf("tainted %v, pod leaves %v, claims %v", tainted, p.Deleting, api.Claims)
		})
	})
	if s.l.alive.Load() == before {
		t.Error("the loop has not turned")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code := get(t, s.l.probes(), path); code != 200 {
			t.Errorf("%s answers %d", path, code)
		}
	}
	s.end()
	close(s.planner.release)
}
