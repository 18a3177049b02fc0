package control_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

const gib = 1 << 30

// offerings is a small shop: two sizes in two zones, on demand and spot.
func offerings(*model.NodeClass) []*model.Offering {
	var out []*model.Offering
	for _, t := range []struct {
		name string
		cpu  int64
		usd  float64
	}{{"m5.large", 2, 0.096}, {"m5.xlarge", 4, 0.192}, {"m5.2xlarge", 8, 0.384}} {
		it := &model.InstanceType{
			Name:        t.name,
			Labels:      map[string]string{model.LabelInstanceType: t.name, model.LabelArch: "amd64", model.LabelOS: "linux", model.LabelNodeClass: "default"},
			Capacity:    resource.New(t.cpu*1000, t.cpu*4*gib, 58, 20*gib),
			Allocatable: resource.New(t.cpu*1000-100, t.cpu*4*gib-gib, 58, 18*gib),
		}
		for _, z := range []string{"us-east-1a", "us-east-1b"} {
			out = append(out,
				&model.Offering{Type: it, Zone: z, CapacityType: model.OnDemand, USDPerHour: t.usd, PriceSource: "list", Available: true},
				&model.Offering{Type: it, Zone: z, CapacityType: model.Spot, USDPerHour: t.usd * 0.4, PriceSource: "synthetic", Available: true})
		}
	}
	return out
}

func pool(name, capacityType string) *model.Pool {
	return &model.Pool{
		Name: name, UID: "uid-" + name, Labels: map[string]string{"team": "a"},
		Requirements: require.NewSet(require.Must(model.LabelCapacityType, "In", capacityType),
			require.Must(model.LabelPool, "In", name), require.Must("team", "In", "a")),
		NodeClass:   model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		ExpireAfter: model.Never, Hash: "1", HashVersion: "v3",
		Policy: model.WhenEmptyOrUnderutilized, ConsolidateAfter: 30 * time.Second,
		Budgets: []model.Budget{{Nodes: "100%"}},
	}
}

// stepper drives a Controller as a loop would.
type stepper struct {
	c     *control.Controller
	epoch int64
	led   bool
	in    []control.Input                         // further inputs of the next step
	spins []time.Time                             // steps that nothing came of and that want to be called again at once
	sift  func([]execute.Effect) []execute.Effect // answers those that are to be performed now; nil = all
}

func (s *stepper) Step(now time.Time, changes []cluster.Change, results []execute.Result) []execute.Effect {
	var in []control.Input
	for _, c := range changes {
		in = append(in, c)
	}
	for _, r := range results {
		in = append(in, r)
	}
	if !s.led {
		in, s.led = append(in, control.Leading{Epoch: s.epoch}), true
	}
	in, s.in = append(in, s.in...), nil
	out := s.c.Step(now, in...)
	if at := s.c.NextWake(); len(out) == 0 && len(in) == 0 && !at.IsZero() && !at.After(now) {
		s.spins = append(s.spins, now)
	}
	if s.sift != nil {
		out = s.sift(out)
	}
	return out
}

func (s *stepper) NextWake() time.Time { return s.c.NextWake() }

// scene is a test cluster with its controller of the moment.
type scene struct {
	*executetest.Cluster
	current  *stepper
	settings control.Settings // of controllers made from now on
}

func newScene(t testing.TB, store ledger.Store, pools ...*model.Pool) *scene {
	t.Helper()
	if store == nil {
		store = mem.New()
	}
	s := &scene{}
	s.Cluster = executetest.New(offerings, store, control.Planners{}, func(epoch int64) executetest.Stepper {
		s.current = &stepper{epoch: epoch, c: control.New(control.Config{
			Cluster: executetest.Name, Account: "111122223333", Region: "us-east-1", Holder: "a", Version: "test", Settings: s.settings,
		})}
		return s.current
	})
	s.API.PutClass(&model.NodeClass{Name: "default", UID: "uid-class", Family: "AL2023"})
	for _, p := range pools {
		s.API.PutPool(p)
	}
	return s
}

// invariants watches the promises while a cluster lives.
type invariants struct {
	t        testing.TB
	s        *scene
	unowned  map[string]time.Time
	longest  time.Duration
	assigned map[string]map[string]bool // claim uid -> instances it has ever had
}

func watch(t testing.TB, s *scene) *invariants {
	v := &invariants{t: t, s: s, unowned: map[string]time.Time{}, assigned: map[string]map[string]bool{}}
	s.Saw = func(now time.Time, _ execute.Result) { v.look(now) }
	return v
}

func (v *invariants) look(now time.Time) {
	owned := map[string]bool{}
	for _, c := range v.s.API.Claims {
		if c.ProviderID == "" {
			continue
		}
		id := model.InstanceID(c.ProviderID)
		owned[id] = true
		if v.assigned[c.UID] == nil {
			v.assigned[c.UID] = map[string]bool{}
		}
		v.assigned[c.UID][id] = true
	}
	for _, m := range v.s.EC2.Machines() {
		if owned[m.ID] || m.State == sim.ShuttingDown || m.State == sim.Terminated {
			delete(v.unowned, m.ID)
			continue
		}
		if _, ok := v.unowned[m.ID]; !ok {
			v.unowned[m.ID] = now
		}
		v.longest = max(v.longest, now.Sub(v.unowned[m.ID]))
	}
}

// check is called at the end.
func (v *invariants) check() {
	v.t.Helper()
	if n := len(v.s.current.spins); n > 0 {
		v.t.Errorf("%d steps had nothing to do and wanted to be called again at once, the first at %s", n, v.s.current.spins[0])
	}
	if v.longest > 2*time.Minute {
		v.t.Errorf("an instance had no claim for %s", v.longest)
	}
	for uid, ids := range v.assigned {
		if len(ids) > 1 {
			v.t.Errorf("claim %s has had %d instances", uid, len(ids))
		}
	}
	bought := map[string]int{}
	for _, m := range v.s.EC2.Machines() {
		if bought[m.Claim]++; bought[m.Claim] > 1 {
			v.t.Errorf("claim %s bought %d instances", m.Claim, bought[m.Claim])
		}
	}
}

// flaky is a store that may be away.
type flaky struct {
	ledger.Store
	down bool
}

func (f *flaky) away() error {
	if f.down {
		return fmt.Errorf("%w: connection refused", ledger.ErrUnavailable)
	}
	return nil
}

func (f *flaky) Get(ctx context.Context, k ledger.Key, now time.Time) (ledger.Item, bool, error) {
	if err := f.away(); err != nil {
		return ledger.Item{}, false, err
	}
	return f.Store.Get(ctx, k, now)
}

func (f *flaky) Put(ctx context.Context, it ledger.Item, expect int64, now time.Time) (int64, error) {
	if err := f.away(); err != nil {
		return 0, err
	}
	return f.Store.Put(ctx, it, expect, now)
}

func (f *flaky) Transact(ctx context.Context, puts []ledger.PutOp, now time.Time) error {
	if err := f.away(); err != nil {
		return err
	}
	return f.Store.Transact(ctx, puts, now)
}

func (f *flaky) Query(ctx context.Context, partition, prefix string, now time.Time) ([]ledger.Item, error) {
	if err := f.away(); err != nil {
		return nil, err
	}
	return f.Store.Query(ctx, partition, prefix, now)
}

func (f *flaky) ByInstance(ctx context.Context, id string, now time.Time) ([]ledger.Item, error) {
	if err := f.away(); err != nil {
		return nil, err
	}
	return f.Store.ByInstance(ctx, id, now)
}
