package simulate

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// bench is a simulated cluster without a controller.
func bench(t *testing.T) *sim {
	t.Helper()
	opts := options(t)
	opts.Catalogue = few
	return newSim(t.Context(), &Scenario{Seed: 1, Start: monday}, opts)
}

// run lets virtual time pass.
func (s *sim) run(t *testing.T, d time.Duration) {
	t.Helper()
	s.loop(s.now.Add(d))
	if s.failed != nil {
		t.Fatal(s.failed)
	}
}

func webPod() *model.Pod {
	return &model.Pod{Namespace: "default", Labels: map[string]string{"app": "web"}, Requests: resource.New(1000, 1<<30, 1, 0), GracePeriod: 30 * time.Second}
}

func (s *sim) machine(name string, milliCPU int64, taints ...model.Taint) {
	s.byNode[name] = &kubelet{alive: true, joined: true}
	s.api.putNode(&model.Node{Name: name, UID: s.api.uid(), Labels: map[string]string{model.LabelHostname: name}, Taints: taints, Ready: true,
		Allocatable: resource.New(milliCPU, 64<<30, 100, 0)})
}

func (s *sim) apply1(t *testing.T, replicas int) {
	t.Helper()
	if err := s.apply(&Input{Workloads: []*Workload{{Kind: "Deployment", Namespace: "default", Name: "web", Replicas: replicas, Pod: webPod()}}}); err != nil {
		t.Fatal(err)
	}
}

// where counts the workload's pods by node, "" for those that wait.
func (s *sim) where() map[string]int {
	out := map[string]int{}
	for _, p := range s.api.pods.all() {
		if p.Deleting == nil {
			out[p.NodeName]++
		}
	}
	return out
}

func TestFinalizersHoldObjects(t *testing.T) {
	t.Parallel()
	s := bench(t)
	ctx := t.Context()
	uid, err := s.api.CreateClaim(ctx, &model.Claim{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.CreateClaim(ctx, &model.Claim{Name: "c"}); !errors.Is(err, execute.ErrConflict) {
		t.Errorf("second claim of the name: %v", err)
	}
	if err := s.api.PatchClaim(ctx, execute.ClaimPatch{Name: "c", UID: "another"}); !errors.Is(err, execute.ErrConflict) {
		t.Errorf("another uid: %v", err)
	}
	s.machine("n", 4000)
	n, _ := s.api.nodes.get("n")
	c, _ := s.api.claims.get("c")
	if err := s.api.PatchNode(ctx, execute.NodePatch{Name: "n", UID: n.UID, AddFinalizers: []string{"f"}, OwnerClaim: c}); err != nil {
		t.Fatal(err)
	}
	if err := s.api.DeleteClaim(ctx, "c", uid); err != nil {
		t.Fatal(err)
	}
	if c, ok := s.api.claims.get("c"); !ok || c.Deleting == nil {
		t.Fatal("the finalizer does not hold the claim")
	}
	if n, _ := s.api.nodes.get("n"); n.Deleting != nil {
		t.Error("the node goes before its owner is gone")
	}
	if err := s.api.PatchClaim(ctx, execute.ClaimPatch{Name: "c", UID: uid, RemoveFinalizers: []string{model.FinalizerTermination}}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.api.claims.get("c"); ok {
		t.Error("the claim outlives its last finalizer")
	}
	n, ok := s.api.nodes.get("n")
	if !ok || n.Deleting == nil {
		t.Fatal("the node of a claim that is gone is to be deleted, and held by its own finalizer")
	}
	if err := s.api.PatchNode(ctx, execute.NodePatch{Name: "n", RemoveFinalizers: []string{"f"}}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.api.nodes.get("n"); ok {
		t.Error("the node outlives its last finalizer")
	}
	if err := errors.Join(s.api.DeleteClaim(ctx, "c", uid), s.api.DeleteNode(ctx, "n", n.UID)); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}

func TestSchedulerAndWorkload(t *testing.T) {
	t.Parallel()
	s := bench(t)
	s.machine("a", 3000)
	s.machine("b", 2000)
	s.machine("tainted", 9000, model.Taint{Key: "x", Effect: model.NoSchedule})
	s.apply1(t, 6)
	s.run(t, time.Minute)
	if d := cmp.Diff(map[string]int{"a": 3, "b": 2, "": 1}, s.where()); d != "" {
		t.Errorf("pods by node (-want +got):\n%s", d)
	}
	for _, p := range s.api.pods.all() {
		if (p.NodeName == "") != p.Unschedulable || (p.NodeName != "") != p.Ready {
			t.Errorf("pod %s: on %q, unschedulable %t, ready %t", p.ID(), p.NodeName, p.Unschedulable, p.Ready)
		}
	}
	s.machine("c", 1000)
	s.run(t, time.Minute)
	if d := cmp.Diff(map[string]int{"a": 3, "b": 2, "c": 1}, s.where()); d != "" {
		t.Errorf("with another node (-want +got):\n%s", d)
	}
	if err := s.scale(&ScaleStep{Workload: "default/web", Replicas: new(int)}); err != nil {
		t.Fatal(err)
	}
	s.run(t, time.Minute)
	if n := s.api.pods.len(); n != 0 {
		t.Errorf("%d pods are left of none", n)
	}
}

func TestEvictionKeepsBudgets(t *testing.T) {
	t.Parallel()
	web := func(l map[string]string) bool { return l["app"] == "web" }
	pct := intstr.FromString("60%")
	one, four := intstr.FromInt32(1), intstr.FromInt32(4)
	for name, tc := range map[string]struct {
		budgets []*Budget
		want    []error // of evicting one pod after another at one instant
	}{
		"none":                {nil, []error{nil, nil, nil}},
		"minAvailable":        {[]*Budget{{PDB: model.PDB{Namespace: "default", Name: "b", Selects: web}, MinAvailable: &four}}, []error{nil, execute.ErrBlocked, execute.ErrBlocked}},
		"minAvailable share":  {[]*Budget{{PDB: model.PDB{Namespace: "default", Name: "b", Selects: web}, MinAvailable: &pct}}, []error{nil, nil, execute.ErrBlocked}},
		"maxUnavailable":      {[]*Budget{{PDB: model.PDB{Namespace: "default", Name: "b", Selects: web}, MaxUnavailable: &one}}, []error{nil, execute.ErrBlocked, execute.ErrBlocked}},
		"of another":          {[]*Budget{{PDB: model.PDB{Namespace: "other", Name: "b", Selects: web}, MaxUnavailable: &one}}, []error{nil, nil, nil}},
		"two cannot be asked": {[]*Budget{{PDB: model.PDB{Namespace: "default", Name: "a", Selects: web}, MaxUnavailable: &four}, {PDB: model.PDB{Namespace: "default", Name: "b", Selects: web}, MaxUnavailable: &four}}, []error{execute.ErrMultiplePDBs, execute.ErrMultiplePDBs, execute.ErrMultiplePDBs}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bench(t)
			s.machine("a", 9000)
			if err := s.apply(&Input{Budgets: tc.budgets}); err != nil {
				t.Fatal(err)
			}
			s.apply1(t, 5)
			s.run(t, time.Minute)
			for i, p := range s.api.pods.all()[:3] {
				if err := s.api.Evict(t.Context(), p, 0); !errors.Is(err, tc.want[i]) || (tc.want[i] == nil) != (err == nil) {
					t.Errorf("eviction %d: %v, want %v", i, err, tc.want[i])
				}
			}
			if s.totals.BrokenBudgets != 0 {
				t.Error("the eviction API broke a budget")
			}
			s.run(t, time.Minute)
			if d := cmp.Diff(map[string]int{"a": 5}, s.where()); d != "" {
				t.Errorf("what was evicted comes back (-want +got):\n%s", d)
			}
			gone := s.api.pods.all()[0]
			stale := *gone
			stale.UID = "of an earlier pod"
			if err := s.api.Evict(t.Context(), &stale, 0); !errors.Is(err, execute.ErrConflict) {
				t.Errorf("another uid: %v", err)
			}
			stale.Name = "nobody"
			if err := s.api.Evict(t.Context(), &stale, 0); !errors.Is(err, execute.ErrNotFound) {
				t.Errorf("a pod that is not there: %v", err)
			}
		})
	}
}

func TestForcedDeletionIsSeenToBreakABudget(t *testing.T) {
	t.Parallel()
	s := bench(t)
	s.machine("a", 9000)
	five := intstr.FromInt32(5)
	if err := s.apply(&Input{Budgets: []*Budget{{PDB: model.PDB{Namespace: "default", Name: "b", Selects: func(map[string]string) bool { return true }}, MinAvailable: &five}}}); err != nil {
		t.Fatal(err)
	}
	s.apply1(t, 5)
	s.run(t, time.Minute)
	if err := s.api.DeletePod(t.Context(), s.api.pods.all()[0], time.Second); err != nil {
		t.Fatal(err)
	}
	if s.totals.BrokenBudgets != 1 || s.totals.ForcedDeletions != 1 {
		t.Errorf("broken budgets %d, forced deletions %d, want 1 and 1", s.totals.BrokenBudgets, s.totals.ForcedDeletions)
	}
}

// A machine that fails takes its pods with it: the node turns NotReady after 40 s
// and goes once the cloud has forgotten the machine; its pods start elsewhere.
func TestLostMachine(t *testing.T) {
	t.Parallel()
	s := bench(t)
	s.apply1(t, 2)
	id, err := s.cloud.AddForeign("m6a.2xlarge", "us-east-1a", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.followCloud()
	s.run(t, 2*time.Minute)
	m, _ := s.cloud.Machine(id)
	if d := cmp.Diff(map[string]int{m.NodeName: 2}, s.where()); d != "" {
		t.Fatalf("before (-want +got):\n%s", d)
	}
	if err := s.cloud.Fail(id); err != nil {
		t.Fatal(err)
	}
	s.followCloud()
	if s.totals.PodsLost != 2 {
		t.Errorf("%d pods lost, want 2", s.totals.PodsLost)
	}
	s.run(t, 39*time.Second)
	if n, _ := s.api.nodes.get(m.NodeName); !n.Ready {
		t.Error("NotReady before anybody can know")
	}
	s.run(t, 2*time.Second)
	if _, ok := s.api.nodes.get(m.NodeName); ok { // nothing of ours holds it
		t.Error("the node of a machine that is gone is still there")
	}
	s.run(t, 30*time.Second)
	if d := cmp.Diff(map[string]int{"": 2}, s.where()); d != "" {
		t.Errorf("after (-want +got):\n%s", d)
	}
	waits := slices.ContainsFunc(s.report.Happenings, func(h Happening) bool { return h.Kind == "lost" && h.Count == 2 })
	if !waits {
		t.Error("nobody was told of the lost pods")
	}
}

func TestQueueKeepsOrder(t *testing.T) {
	t.Parallel()
	var q queue
	var got []string
	for i, d := range []int{3, 1, 2, 1} {
		q.add(monday.Add(time.Duration(d)*time.Second), func() { got = append(got, fmt.Sprintf("%d/%d", d, i)) })
	}
	for q.Len() > 0 {
		q.take().do()
	}
	if d := cmp.Diff([]string{"1/1", "1/3", "2/2", "3/0"}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}
