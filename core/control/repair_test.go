package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// broken is a cluster of one node whose kubelet falls silent, with a pod that a budget and
// an annotation protect.
func broken(t *testing.T) (*scene, *model.Claim) {
	t.Helper()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.settings.NodeRepair = true
	w := web(1)
	w.Pod = func(p *model.Pod) {
		p.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "true"}
		p.Volumes = []string{"data-1"}
	}
	s.Workloads = append(s.Workloads, w)
	s.API.PutPDB(&model.PDB{Namespace: "default", Name: "web", Selects: func(l map[string]string) bool { return l["app"] == "web" }})
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	s.Dead[c.NodeName] = true
	return s, c
}

// B112: a node whose kubelet is silent for half an hour is replaced by force: nobody is
// waited for beyond the minute that a dead kubelet has to end pods, no volume either.
func TestABrokenNodeIsReplacedByForce(t *testing.T) {
	t.Parallel()
	s, c := broken(t)
	s.Run(29 * time.Minute)
	if now := s.API.Claims[c.Name]; now == nil || now.Deleting != nil {
		t.Fatal("replaced before half an hour was over")
	}
	if !s.Until(2*time.Minute, func() bool { return s.API.Claims[c.Name] == nil || s.API.Claims[c.Name].Deleting != nil }) {
		t.Fatalf("not replaced: %+v", s.API.Claims[c.Name])
	}
	if a := s.API.Claims[c.Name].Annotations; !strings.HasPrefix(a[model.AnnotationRepair], "Ready=Unknown since ") || a[model.AnnotationTerminationTimestamp] == "" {
		t.Errorf("annotations %v", a)
	}
	if !s.hasEvent("DisruptionTerminating", "Unhealthy: Ready=Unknown") {
		t.Error("no event tells why")
	}
	if !s.Until(2*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
		t.Errorf("its end takes more than two minutes: %+v", s.API.Claims[c.Name].Conditions)
	}
	if n := s.current.c.Executor().Counters.Disrupted[execute.ReasonUnhealthy]; n != 1 {
		t.Errorf("counted %d times", n)
	}
	mustRun(t, s, 1, 3*time.Minute)
}

// Without the gate nobody is replaced.
func TestRepairIsAskedFor(t *testing.T) {
	t.Parallel()
	s, c := broken(t)
	s.current.in = append(s.current.in, control.ConfigChanged{})
	s.Run(time.Hour)
	if now := s.API.Claims[c.Name]; now == nil || now.Deleting != nil {
		t.Error("replaced although nobody asked for it")
	}
}

// Too many at once: it is hardly the nodes that are broken.
func TestManyBrokenNodesAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.settings.NodeRepair = true
	w := web(4)
	w.Requests = w.Requests.With("cpu", 6000)
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 4, 4*time.Minute)
	n := 0
	for name := range s.API.Nodes {
		if n++; n <= 2 {
			s.Dead[name] = true
		}
	}
	s.Run(time.Hour)
	for name, c := range s.API.Claims {
		if c.Deleting != nil {
			t.Errorf("claim %s is replaced", name)
		}
	}
	if len(s.Dead) != 2 || !s.hasEvent("NodeRepairBlocked", "more than 20% nodes are unhealthy in the nodepool: 2 of 4") {
		t.Errorf("%d nodes are dead, and no event tells why they stay", len(s.Dead))
	}
}

// A death at any point of a repair: whoever leads next ends it, by force still.
func TestRepairSurvivesACrash(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"PatchClaim", "DeleteClaim", "DeletePod", "Terminate"} {
		for _, after := range []bool{false, true} {
			s, c := broken(t)
			s.Run(29 * time.Minute)
			s.Crash = func(_ int, done bool, e execute.Effect) bool {
				return s.Crashes == 0 && done == after && e.Kind() == kind
			}
			if !s.Until(5*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
				t.Errorf("death at %s, after it: %v: the claim is still there: %+v", kind, after, s.API.Claims[c.Name])
			}
			if s.Crashes != 1 {
				t.Errorf("%s: %d deaths", kind, s.Crashes)
			}
		}
	}
}

// A node that recovers while the claim waits for its deletion is not ended, and a later
// deletion is not by force.
func TestRepairIsTakenBack(t *testing.T) {
	t.Parallel()
	s, c := broken(t)
	s.Run(29 * time.Minute)
	s.Crash = func(_ int, after bool, e execute.Effect) bool { return !after && e.Kind() == "DeleteClaim" }
	if !s.Until(3*time.Minute, func() bool { return s.Crashes > 0 }) {
		t.Fatal("no repair was begun")
	}
	if s.API.Claims[c.Name].Annotations[model.AnnotationRepair] == "" {
		t.Fatal("the claim does not say that it is to be replaced")
	}
	s.Crash, s.Dead = nil, map[string]bool{}
	s.Run(30 * time.Second)
	now := s.API.Claims[c.Name]
	if now == nil || now.Deleting != nil || now.Annotations[model.AnnotationRepair] != "" || now.Annotations[model.AnnotationTerminationTimestamp] != "" {
		t.Errorf("after it recovered: %+v", now)
	}
	if err := s.API.DeleteClaim(context.Background(), c.Name, ""); err != nil {
		t.Fatal(err)
	}
	s.Run(5 * time.Minute)
	if s.Running("web") != 1 || s.API.Claims[c.Name] == nil {
		t.Error("a protected pod was ended by force")
	}
}
