package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/metric"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
)

// What is wrong with how it is started is told as such: exit code 2.
func TestBadStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := []string{"--cluster-name", "c", "--region", "us-east-1", "--account", "111122223333", "--ledger-path", filepath.Join(dir, "l.db")}
	for _, tt := range []struct {
		name string
		args []string
		env  []string
		want string
	}{
		{"unknown flag", []string{"--clustername", "x"}, nil, "clustername"},
		{"argument", append(base, "now"), nil, `unexpected argument "now"`},
		{"no cluster", nil, nil, "cluster"},
		{"missing file", []string{"--config", filepath.Join(dir, "none.yaml")}, nil, "cannot be read"},
		{"unknown field", []string{"--config", file("bad.yaml", "apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\nclutser: x\n")}, nil, "clutser"},
		{"nonsense duration", append(base, "--cloud", "sim=http://127.0.0.1:1", "--batch-idle-duration", "soon"), nil, "batch-idle-duration"},
		{"dynamodb without a region", []string{"--cluster-name", "c", "--cloud", "sim=http://127.0.0.1:1", "--ledger", "dynamodb", "--ledger-table", "weir-ledger"}, nil, "no region is set"},
		{"dynamodb without a table", append(base, "--cloud", "sim=http://127.0.0.1:1", "--ledger", "dynamodb"), nil, "ledger.table"},
		{"bolt beside the Lambda", append(base, "--cloud", "sim=http://127.0.0.1:1", "--config", file("lambda.yaml", "apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\ninterruption: {lambda: true}\n")), nil, "cannot read"},
		{"scheduler configuration", append(slices.Clone(base[:6]), "--ledger-path", filepath.Join(dir, "s.db"), "--cloud", "sim=http://127.0.0.1:1", "--scheduler-config", "podTopologySpread: {}\nplugins: {}"), nil, `unknown field "plugins"`},
		{"failpoint", append(base, "--cloud", "sim=http://127.0.0.1:1"), []string{"WEIR_FAILPOINT=Evict"}, "WEIR_FAILPOINT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), tt.args, tt.env, &bytes.Buffer{})
			var usage usageError
			var bad config.Errors
			if err == nil || !errors.As(err, &usage) && !errors.As(err, &bad) {
				t.Fatalf("got %v, expected a usage error", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q does not name %q", err, tt.want)
			}
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"--version": "weir-scaler ", "--help": "--cluster-name"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{arg}, nil, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q (%v)", arg, out.String(), err)
		}
	}
}

func testLoop(t *testing.T, ports execute.Ports) *loop {
	t.Helper()
	m, err := metric.New(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ports.Now = time.Now
	return newLoop(control.New(control.Config{Cluster: "c", Holder: "h"}), ports, nil, zap.NewNop(), &observer{m: m, log: zap.NewNop()})
}

func get(t *testing.T, h http.Handler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code
}

func TestProbes(t *testing.T) {
	t.Parallel()
	l := testLoop(t, execute.Ports{Ledger: mem.New()})
	if get(t, l.probes(), "/healthz") != 500 || get(t, l.probes(), "/readyz") != 503 {
		t.Error("well before it turned once")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	l.sink(cluster.Synced{})
	for get(t, l.probes(), "/readyz") != 200 || get(t, l.probes(), "/healthz") != 200 {
		time.Sleep(time.Millisecond) // until the test's own deadline
	}
	stop()
	<-done
}

// writer counts events that are being written, and holds them until it is told.
type writer struct {
	execute.Kube
	busy, most, done atomic.Int32
	release          chan struct{}
}

func (k *writer) Emit(ctx context.Context, _ execute.Event) error {
	if n := k.busy.Add(1); n > k.most.Load() {
		k.most.Store(n)
	}
	defer k.busy.Add(-1)
	select {
	case <-k.release:
	case <-ctx.Done():
		return ctx.Err()
	}
	k.done.Add(1)
	return nil
}

// A lane performs no more at once than it may; the end of a term ends what is under
// way, and nothing is begun after it.
func TestLanesAndTerms(t *testing.T) {
	t.Parallel()
	k := &writer{release: make(chan struct{})}
	l := testLoop(t, execute.Ports{Kube: k})
	term, end := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); l.lead(term, 1, func() {}) }()
	for len(l.box.take()) == 0 {
		time.Sleep(time.Millisecond) // until Leading is in the mailbox
	}
	var effects []execute.Effect
	for range 50 {
		effects = append(effects, execute.Effect{Key: "event", Do: execute.Emit{}})
	}
	l.dispatch(effects)
	for range 20 {
		k.release <- struct{}{}
	}
	for k.done.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	if most := k.most.Load(); int(most) > lanes["Emit"] {
		t.Errorf("%d at once, the lane has room for %d", most, lanes["Emit"])
	}
	end()
	<-over
	if n := k.busy.Load(); n != 0 {
		t.Errorf("%d effects outlived the term", n)
	}
	done := k.done.Load()
	l.dispatch(effects)
	if n := k.busy.Load(); n != 0 || k.done.Load() != done {
		t.Error("an effect was begun without a term")
	}
}

func TestObserverCounts(t *testing.T) {
	t.Parallel()
	l := testLoop(t, execute.Ports{})
	now := time.Now()
	deleting := now.Add(-time.Minute)
	feed := func(in ...control.Input) {
		l.watch.inputs(l.c, in, now)
		l.c.Step(now, in...)
	}
	claim := &model.Claim{Name: "c", UID: "u", Pool: "p", ProviderID: "aws:///a/i-1", Labels: map[string]string{model.LabelCapacityType: "spot", model.LabelZone: "a"}}
	node := &model.Node{Name: "n", UID: "un", ProviderID: claim.ProviderID, Labels: map[string]string{model.LabelPool: "p", model.LabelZone: "a"}, Created: deleting}
	feed(cluster.UpsertPool{Pool: &model.Pool{Name: "p", Policy: model.WhenEmpty}}, cluster.UpsertClaim{Claim: claim}, cluster.Synced{})
	feed(cluster.UpsertNode{Node: node})
	feed(execute.Result{Effect: execute.Effect{Key: "k", Do: execute.DeleteClaim{Name: "c", UID: "u", Reason: "empty"}}})
	broken := *claim
	broken.Name, broken.UID, broken.ProviderID, broken.ImageID = "b", "ub", "aws:///a/i-2", "ami-1"
	broken.Annotations = map[string]string{model.AnnotationRepair: "AcceleratedHardwareReady=False since 2026-01-01T00:00:00Z"}
	feed(cluster.UpsertClaim{Claim: &broken})
	feed(execute.Result{Effect: execute.Effect{Key: "k2", Do: execute.DeleteClaim{Name: "b", UID: "ub", Reason: "unhealthy"}}})
	gone := *claim
	gone.Deleting = &deleting
	feed(cluster.UpsertClaim{Claim: &gone})
	feed(cluster.DeleteNode{Name: "n"}, cluster.DeleteClaim{Name: "c"})
	families, err := l.watch.m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := ""
			for _, p := range m.GetLabel() {
				text += p.GetValue() + ","
			}
			if c := m.GetCounter(); c != nil && c.GetValue() > 0 {
				got[f.GetName()] += text + ";"
			}
		}
	}
	for name, want := range map[string]string{
		"karpenter_nodeclaims_disrupted_total":           "spot,,p,unhealthy,graceful,;spot,when_empty,p,empty,graceful,;",
		"karpenter_nodeclaims_unhealthy_disrupted_total": "spot,accelerated_hardware_ready,ami-1,p,;",
		"karpenter_nodeclaims_terminated_total":          "spot,p,a,;",
		"karpenter_nodes_created_total":                  "p,a,;",
		"karpenter_nodes_terminated_total":               "p,a,;",
	} {
		if got[name] != want {
			t.Errorf("%s has labels %q, expected %q", name, got[name], want)
		}
	}
}

// Gauges of pods that are left alone and of nodes that could go.
func TestObserverGauges(t *testing.T) {
	t.Parallel()
	l := testLoop(t, execute.Ports{})
	now := time.Now()
	waiting := func(name string, f func(*model.Pod)) cluster.UpsertPod {
		p := &model.Pod{UID: name, Namespace: "ns", Name: name, Unschedulable: true}
		f(p)
		return cluster.UpsertPod{Pod: p}
	}
	l.c.Step(now, waiting("fine", func(*model.Pod) {}), waiting("bad", func(p *model.Pod) { p.Invalid = "a restricted label" }),
		waiting("claims", func(p *model.Pod) {
			p.Unsupported = []model.Unsupported{{Filter: model.FilterVolumes, Message: "claim missing"}}
		}), cluster.Synced{})
	l.watch.gauges(l.c, now)
	l.watch.plan(&model.Plan{Kind: model.PlanDisrupt, Eligible: map[model.DisruptionReason]int{model.Empty: 2, model.Underutilized: 5}})
	l.watch.plan(&model.Plan{Kind: model.PlanProvision, Budget: &model.BudgetEnd{Limit: time.Second, Unseen: 2}})
	l.watch.plan(&model.Plan{Kind: model.PlanProvision})
	if got := testutil.ToFloat64(l.watch.m.PlansStopped.WithLabelValues("provision")); got != 1 {
		t.Errorf("%v plans were stopped, want 1", got)
	}
	families, err := l.watch.m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		switch f.GetName() {
		case "karpenter_scheduler_ignored_pods_count", "karpenter_voluntary_disruption_eligible_nodes":
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, p := range m.GetLabel() {
					name += " " + p.GetValue()
				}
				got[name] = m.GetGauge().GetValue()
			}
		}
	}
	want := map[string]float64{"karpenter_scheduler_ignored_pods_count": 2, "karpenter_voluntary_disruption_eligible_nodes empty": 2,
		"karpenter_voluntary_disruption_eligible_nodes drifted": 0, "karpenter_voluntary_disruption_eligible_nodes underutilized": 5}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The first process of a strategy is no restart, every later one is, whatever became of
// it; a strategy that is configured anew begins again.
func TestRestartsOfStrategies(t *testing.T) {
	t.Parallel()
	o := testLoop(t, execute.Ports{}).watch
	for _, starts := range []int{0, 1, 1, 2, 2, 4, 0, 1, 2} {
		o.strategyState(strategy.Status{Name: "s", State: strategy.Ready, Starts: starts})
	}
	if got := testutil.ToFloat64(o.m.StrategyRestarts.WithLabelValues("s")); got != 4 {
		t.Errorf("%v restarts, expected 3 before the new configuration and 1 after it", got)
	}
}
