package control_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
)

// shows does to the claim and its node what the Lambda does first; the ledger hears nothing of it.
func (s *scene) shows(t *testing.T, c *model.Claim, kind model.NoticeKind, action interrupt.Action, deadline *time.Time) {
	t.Helper()
	face := interrupt.FaceOf(model.Notice{Kind: kind, EventID: "e-1", Time: s.Now(), Deadline: deadline}, action)
	if err := s.API.PatchClaim(t.Context(), model.ClaimPatch{Name: c.Name, UID: c.UID, Annotations: map[string]string{model.AnnotationInterruption: face.Text()}}); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.API.Nodes {
		if n.ProviderID == c.ProviderID {
			if err := s.API.PatchNode(t.Context(), *drain.Cordon(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (s *scene) cordoned(c *model.Claim) bool {
	for _, n := range s.API.Nodes {
		if n.ProviderID == c.ProviderID && slices.Contains(n.Taints, drain.Taint) {
			return true
		}
	}
	return false
}

// What the Lambda writes on a claim is enough: a scaler that shares no ledger with it drains and replaces.
func TestFaceOfAClaimIsANotice(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		faceIsANotice(t, i)
	}
}

func faceIsANotice(t *testing.T, which int) {
	t.Helper()
	s := newScene(t, nil, pool("spot", model.Spot))
	s.Workloads = append(s.Workloads, web(3))
	mustRun(t, s, 3, 3*time.Minute)
	names := slices.Sorted(maps.Keys(s.API.Claims))
	if len(names) != 3 {
		t.Fatalf("claims %v, want three", names)
	}
	c := s.API.Claims[names[which]]
	deadline := s.Now().Add(2 * time.Minute).Truncate(time.Second)
	s.shows(t, c, model.NoticeSpot, interrupt.Drain, &deadline)
	if !s.Until(time.Second, func() bool { return len(s.API.Claims) > 3 }) {
		t.Error("no machine was asked for within a second")
	}
	if !s.Until(2*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
		t.Error("the node was not left before the deadline")
	}
	mustRun(t, s, 3, time.Minute)
	if !s.hasEvent("SpotInterrupted", "AWS takes the spot instance back") {
		t.Error("no event tells of the interruption")
	}
}

// A cordon for a recommendation keeps its pods: nothing is bought for them. It ends after half an hour, also where only the claim
// tells of it.
func TestCordonKeepsItsPodsAndEnds(t *testing.T) {
	t.Parallel()
	p := pool("spot", model.Spot)
	p.Annotations = map[string]string{model.AnnotationRebalance: "cordon"}
	s := newScene(t, nil, p)
	s.Workloads = append(s.Workloads, web(3))
	mustRun(t, s, 3, 3*time.Minute)
	c := s.claim(t)
	bought := len(s.API.Claims)
	s.shows(t, c, model.NoticeRebalance, interrupt.Cordon, nil)
	s.Run(interrupt.CordonFor - time.Minute)
	if !s.cordoned(c) || len(s.API.Claims) != bought {
		t.Errorf("cordoned %v, %d claims; want it cordoned and the %d from before", s.cordoned(c), len(s.API.Claims), bought)
	}
	s.Run(5 * time.Minute)
	if _, shown := s.API.Claims[c.Name].Annotations[model.AnnotationInterruption]; shown || s.cordoned(c) {
		t.Errorf("cordoned %v, notice shown %v after half an hour", s.cordoned(c), shown)
	}
}
