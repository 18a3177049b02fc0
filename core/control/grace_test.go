package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
)

// The scaler cuts grace periods to what is left before a machine is taken: of pods that it evicts, and once of pods that were
// terminating for longer. A pod that was cut long after it was deleted has a timestamp that is over; its machine waits for it.
func TestGracePeriodsEndWithTheMachine(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("spot", model.Spot))
	w := web(1)
	w.Pod = func(p *model.Pod) { p.GracePeriod = 10 * time.Minute }
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	first := s.onNode(t, c.NodeName)
	slow := *first
	slow.Name, slow.UID, slow.Owner = "slow", "u-slow", model.Owner{}
	s.API.PutPod(&slow)
	if err := s.API.DeletePod(t.Context(), &slow, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	s.Run(5 * time.Minute) // so that it is long over when it is cut to two minutes
	if s.API.Pods["default/slow"] == nil {
		t.Fatal("the pod that ends slowly is gone")
	}
	at := s.Now().Add(2 * time.Minute).Truncate(time.Second)
	s.shows(t, c, model.NoticeSpot, interrupt.Drain, &at)
	if !s.Until(10*time.Second, func() bool {
		p, q := s.API.Pods[first.ID()], s.API.Pods["default/slow"]
		return p.Deleting != nil && q.DeletingGrace < 10*time.Minute
	}) {
		t.Fatal("the pods were not asked to end with the machine")
	}
	for _, id := range []string{first.ID(), "default/slow"} {
		if p, end := s.API.Pods[id], s.API.Kills[s.API.Pods[id].UID]; end.After(at) || end.Before(at.Add(-5*time.Second)) || p.DeletingGrace < time.Minute {
			t.Errorf("pod %s has %s and ends at %s, the machine at %s", id, p.DeletingGrace, end, at)
		}
	}
	for s.API.Pods["default/slow"] != nil && s.Now().Before(at) {
		if s.API.Claims[c.Name] == nil {
			t.Fatalf("the machine was ended at %s, with pods that run until %s", s.Now(), at)
		}
		s.Run(time.Second)
	}
	if !s.Until(time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
		t.Error("the claim is not gone")
	}
	cuts, evictions := 0, 0
	for _, e := range s.API.Events {
		if e.Object.Name == "slow" && strings.HasPrefix(e.Message, "Cut the grace period of the pod to 1m5") {
			cuts++
		}
		if e.Reason == "Evicted" && e.Object.Name == first.Name && strings.Contains(e.Message, "instead of 10m0s") {
			evictions++
		}
	}
	if cuts != 1 || evictions != 1 {
		t.Errorf("%d cuts and %d evictions are told of, want one each", cuts, evictions)
	}
}

// onNode is the one pod of a node.
func (s *scene) onNode(t *testing.T, node string) *model.Pod {
	t.Helper()
	var found *model.Pod
	for _, p := range s.API.Pods {
		if p.NodeName == node {
			if found != nil {
				t.Fatalf("pods %s and %s on node %s", found.ID(), p.ID(), node)
			}
			found = p
		}
	}
	if found == nil {
		t.Fatalf("no pod on node %s", node)
	}
	return found
}
