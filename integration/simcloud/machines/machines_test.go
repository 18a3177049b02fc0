package machines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/integration/fakekubelet"
	"github.com/weir-project/weir/integration/harness"
	"github.com/weir-project/weir/integration/simcloud/machines"
)

func TestMain(m *testing.M) { os.Exit(harness.Shared(m, harness.NodeMonitorGrace(10*time.Second))) }

// limit bounds every wait; it is many times what a healthy machine needs.
const limit = 5 * time.Minute

func sold(c *model.NodeClass) []*model.Offering {
	it := &model.InstanceType{Name: "m6a.xlarge", Labels: map[string]string{model.LabelArch: "amd64", model.LabelNodeClass: c.Name},
		Capacity: resource.New(4000, 16<<30, 58, 20<<30), Allocatable: resource.New(3920, 14<<30, 58, 17<<30)}
	return []*model.Offering{{Type: it, Zone: "us-east-1a", CapacityType: model.Spot, USDPerHour: 0.07, Available: true}}
}

type world struct {
	c   *harness.ControlPlane
	ec2 *sim.EC2
	j   *machines.Joiner

	mu     sync.Mutex
	events []string
	refuse int // that many deliveries fail
}

// deliver notes what arrives, after as many refusals as asked for.
func (w *world) deliver(_ context.Context, e sim.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse > 0 {
		w.refuse--
		return errors.New("not now")
	}
	var x struct {
		Type   string            `json:"detail-type"`
		Detail map[string]string `json:"detail"`
	}
	if err := json.Unmarshal(e.JSON, &x); err != nil {
		return err
	}
	w.events = append(w.events, x.Type+" "+x.Detail["state"]+x.Detail["instance-action"])
	return nil
}

func open(t *testing.T) *world {
	t.Helper()
	w := &world{c: harness.Cluster(t), refuse: 2}
	w.ec2 = sim.New(sim.Config{Seed: uint64(time.Now().UnixNano()), Now: time.Now, Cluster: "test", Catalogue: sold,
		Delays: sim.Delays{Run: 50 * time.Millisecond, Terminate: 50 * time.Millisecond, Listed: -1, Notice: 300 * time.Millisecond}})
	kubelets, err := fakekubelet.New(fakekubelet.Config{Client: w.c.Client, HeartbeatInterval: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.j, err = machines.New(machines.Config{Client: w.c.Client, Kubelets: kubelets, EC2: w.ec2, Deliver: w.deliver, Tick: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := kubelets.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("kubelets: %v", err)
		}
	})
	wg.Go(func() {
		if err := w.j.Run(ctx); err != nil {
			t.Errorf("machines: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

func (w *world) buy(t *testing.T) sim.Machine {
	t.Helper()
	l := cloud.Launch{ID: "l", Claims: []string{"claim"}, Pool: "pool", NodeClass: "default", CapacityType: model.Spot,
		Offers: []cloud.Offer{{InstanceType: "m6a.xlarge", Zone: "us-east-1a"}}, Labels: map[string]string{"team": "a", model.LabelPool: "pool"},
		Taints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}}}
	raw, err := w.ec2.Render(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.ec2.Launch(t.Context(), fmt.Sprintf("token-%d", time.Now().UnixNano()), raw)
	if err != nil || len(a.Instances) != 1 {
		t.Fatalf("launch: %+v, %v", a, err)
	}
	m, _ := w.ec2.Machine(a.Instances[0].ID)
	return m
}

// A bought machine joins with what its launch asked for; when EC2 takes it back its
// node turns NotReady and is deleted, and every event arrives in order although the
// receiver refused some at first.
func TestMachineJoinsAndEnds(t *testing.T) {
	w := open(t)
	m := w.buy(t)
	n := w.c.WaitNodeReady(t, m.NodeName, true, limit)
	if n.Spec.ProviderID != m.ProviderID() || n.Labels["team"] != "a" || n.Labels[model.LabelInstanceType] != "m6a.xlarge" ||
		n.Labels[model.LabelZone] != "us-east-1a" || n.Labels[model.LabelInstanceID] != m.ID {
		t.Errorf("node %s: provider id %s, labels %v", n.Name, n.Spec.ProviderID, n.Labels)
	}
	if !slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool {
		return x.Key == model.TaintUnregistered && x.Effect == corev1.TaintEffectNoExecute
	}) {
		t.Errorf("taints %v, want %s", n.Spec.Taints, model.TaintUnregistered)
	}
	if got := n.Status.Allocatable.Cpu().MilliValue(); got != 3920 {
		t.Errorf("allocatable cpu %dm, want 3920m", got)
	}
	if err := w.ec2.Reclaim(m.ID); err != nil {
		t.Fatal(err)
	}
	w.c.WaitNodeGone(t, m.NodeName, limit)
	want := []string{"EC2 Instance State-change Notification pending", "EC2 Instance State-change Notification running",
		"EC2 Spot Instance Interruption Warning terminate", "EC2 Instance State-change Notification shutting-down", "EC2 Instance State-change Notification terminated"}
	harness.Eventually(t, "all events", limit, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Equal(w.events, want) {
			return fmt.Errorf("got %q", w.events)
		}
		return nil
	})
}

// A machine that was told never to join does not; the next one does.
func TestMachineThatNeverJoins(t *testing.T) {
	w := open(t)
	w.j.Next(1, machines.Behaviour{NeverJoin: true})
	lost := w.buy(t)
	found := w.buy(t)
	w.c.WaitNodeReady(t, found.NodeName, true, limit)
	if _, err := w.c.Client.CoreV1().Nodes().Get(t.Context(), lost.NodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("node of a machine that never joins: %v", err)
	}
	if err := w.ec2.Terminate(t.Context(), []string{lost.ID, found.ID}); err != nil {
		t.Fatal(err)
	}
	w.c.WaitNodeGone(t, found.NodeName, limit)
}
