package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/kube"
	"github.com/weir-project/weir/core/metric"
	"github.com/weir-project/weir/core/strategy"
)

// openTest opens strategies whose programs are not there: what is wanted is looked at, not
// what runs.
func openTest(t *testing.T, clients *fake.Clientset, change func(*config.Config)) *strategies {
	t.Helper()
	m, err := metric.New(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := testStrategies(t, change)
	s, err := openStrategies(t.Context(), c, &kube.Clients{Core: clients}, &observer{m: m, log: zap.NewNop()}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.host.Close)
	return s
}

func testStrategies(t *testing.T, change func(*config.Config)) *config.Config {
	t.Helper()
	c := config.Default()
	c.Admin.Enabled, c.LeaderElection.Namespace, c.StrategyBinary = true, "weir", filepath.Join(t.TempDir(), "weir-strategy")
	c.Strategies["carbon"] = config.Strategy{Kind: config.InstanceSelection, Path: "/none", SHA256: strings.Repeat("0a", 32), Isolation: config.IsolationProcess, AllowUnsandboxed: true,
		StartTimeout: config.Duration(time.Second), CallTimeout: config.Duration(time.Second), MemoryLimit: 32 << 20}
	change(c)
	return c
}

// wanted is the program of carbon that is in force.
func (s *strategies) wanted() string { return s.state().InForce.Strategies["carbon"].Path }

// What was swapped before a scaler starts is what it starts with; the configuration's
// newer word ends the swap, and the leader takes it out.
func TestSwapsAndTheConfiguration(t *testing.T) {
	t.Parallel()
	clients := fake.NewClientset()
	none := func(*config.Config) {}
	first := openTest(t, clients, none)
	if first.wanted() != "/none" {
		t.Fatalf("without swaps: %s", first.wanted())
	}
	swap := admin.Swap{Path: "/swapped", SHA256: strings.Repeat("1b", 32), Instead: admin.Program("", "/none", strings.Repeat("0a", 32)), By: "ann", At: time.Now().UTC().Truncate(time.Second)}
	text, err := admin.Desired{Strategies: map[string]admin.Swap{"carbon": swap}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.desired.Change(t.Context(), func([]byte) ([]byte, error) { return text, nil }); err != nil {
		t.Fatal(err)
	}
	first.reswap(text)
	if first.wanted() != "/swapped" {
		t.Errorf("after a swap: %s", first.wanted())
	}
	first.reswap([]byte("strategies: nonsense"))
	if first.wanted() != "/swapped" {
		t.Errorf("after nonsense: %s", first.wanted())
	}
	second := openTest(t, clients, none)
	if second.wanted() != "/swapped" {
		t.Errorf("a scaler that starts later wants %s", second.wanted())
	}
	// Another setting leaves it, another program ends it.
	if err := second.reconfigure(testStrategies(t, func(c *config.Config) {
		s := c.Strategies["carbon"]
		s.CallTimeout = config.Duration(3 * time.Second)
		c.Strategies["carbon"] = s
	})); err != nil || second.wanted() != "/swapped" || second.state().InForce.Strategies["carbon"].CallTimeout.D() != 3*time.Second {
		t.Errorf("after another setting: %s, %v", second.wanted(), err)
	}
	if err := second.reconfigure(testStrategies(t, func(c *config.Config) {
		s := c.Strategies["carbon"]
		s.Path = "/newer"
		c.Strategies["carbon"] = s
	})); err != nil || second.wanted() != "/newer" {
		t.Errorf("after another program: %s, %v", second.wanted(), err)
	}
	if err := second.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	cm, err := clients.CoreV1().ConfigMaps("weir").Get(t.Context(), "weir-strategies", metav1.GetOptions{})
	if err != nil || strings.Contains(cm.Data["strategies.yaml"], "carbon") {
		t.Errorf("the swap that is over: %v, %v", cm, err)
	}
}

// An API server that does not answer keeps no scaler from starting.
func TestStartsWithoutKnowingSwaps(t *testing.T) {
	t.Parallel()
	clients := fake.NewClientset()
	clients.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no route to the API server")
	})
	if s := openTest(t, clients, func(*config.Config) {}); s.wanted() != "/none" {
		t.Errorf("it wants %s", s.wanted())
	}
}

func TestHealthOfStrategies(t *testing.T) {
	t.Parallel()
	st := admin.State{InForce: config.Default(), Strategies: []strategy.Status{
		{Name: "well", State: strategy.Ready, Role: strategy.Serving, Counts: strategy.Counts{Rung: strategy.ByStrategy}, Fence: strategy.Fence{Isolation: "process", Whole: true}},
		{Name: "new", State: strategy.Starting, Role: strategy.Serving},
		{Name: "gone", State: strategy.Broken, LastError: "exit status 2", Role: strategy.Serving},
		{Name: "late", State: strategy.Ready, Role: strategy.Serving, Counts: strategy.Counts{Rung: strategy.ByLastGood, LastCallError: "too late"}},
		{Name: "late", State: strategy.Broken, Role: strategy.LastGood, LastError: "of another"},
		{Name: "open", State: strategy.Ready, Role: strategy.Serving, Fence: strategy.Fence{Isolation: "process", Missing: "no Landlock"}},
		{Name: "next", State: strategy.BackingOff, Role: strategy.Serving, Pending: true, LastError: "not yet"},
	}}
	want := control.Strategies{InstanceSelection: "cost-optimal", Consolidation: "savings", Unfenced: map[string]string{"open": "no Landlock"},
		Faults: map[string]string{"gone": "broken: exit status 2", "late": "its last call was answered by another (last-good): too late"}}
	if diff := cmp.Diff(want, health(st)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeadership(t *testing.T) {
	t.Parallel()
	var l leadership
	if yes, why := l.get(); yes || why == "" {
		t.Errorf("before the election: %v, %q", yes, why)
	}
	l.set(true, "")
	if yes, _ := l.get(); !yes {
		t.Error("it leads and says no")
	}
	l.set(false, "lease a/b is held by c")
	if yes, why := l.get(); yes || why != "lease a/b is held by c" {
		t.Errorf("later: %v, %q", yes, why)
	}
}
