package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// either buys spot or on demand.
func either() *model.Pool {
	p := pool("default", model.Spot)
	p.Requirements = require.NewSet(require.Must(model.LabelCapacityType, "In", model.Spot, model.OnDemand),
		require.Must(model.LabelPool, "In", "default"), require.Must("team", "In", "a"))
	return p
}

func TestWhatEachKindOfErrorLeadsTo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind   cloud.ErrorKind
		code   string
		closed bool   // offerings that were asked for are left alone
		shared bool   // and other clusters hear of it
		want   string // capacity type that is bought in the end
	}{
		{cloud.Shortage, "InsufficientInstanceCapacity", true, true, model.Spot},
		{cloud.Shortage, "UnfulfillableCapacity", true, true, model.Spot},
		{cloud.Quota, "MaxSpotInstanceCountExceeded", true, false, model.OnDemand},
		{cloud.Auth, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", true, false, model.OnDemand},
		{cloud.Quota, "VcpuLimitExceeded", true, true, model.OnDemand}, // each capacity type has a quota of its own
		{cloud.Quota, "MaxFleetCountExceeded", false, false, model.Spot},
		{cloud.Throttled, "RequestLimitExceeded", false, false, model.Spot},
		{cloud.Auth, "UnauthorizedOperation", false, false, model.Spot},
		{cloud.Template, "InvalidParameterValue", false, false, model.Spot},
		{cloud.Token, "IdempotentParameterMismatch", false, false, model.Spot},
		{cloud.Internal, "InternalError", false, false, model.Spot},
	} {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			store := mem.New()
			s := newScene(t, store, either())
			v := watch(t, s)
			s.Workloads = append(s.Workloads, web(1))
			s.EC2.FailNext(sim.OpLaunch, 1, tt.kind, tt.code, "no")
			refused := func() bool { return s.EC2.Calls()[sim.OpLaunch] > 0 }
			if !s.Until(time.Minute, refused) {
				t.Fatal("nothing was asked for")
			}
			s.Run(5 * time.Second)
			closed := s.current.c.Mirror().Closed(s.Now())
			if (len(closed) > 0) != tt.closed {
				t.Errorf("closed: %v, want any: %v", closed, tt.closed)
			}
			health, err := ledger.Offerings(t.Context(), store, "111122223333", "us-east-1", s.Now())
			if err != nil || (len(health) > 0) != tt.shared {
				t.Errorf("the ledger remembers %v (%v), want anything: %v", health, err, tt.shared)
			}
			if !s.Until(3*time.Minute, func() bool { return s.Running("web") == 1 }) {
				t.Fatalf("the pod does not run; claims %v", s.API.Claims)
			}
			for _, m := range s.EC2.Machines() {
				if _, short := closed[m.Type+"/"+m.Zone+"/"+m.CapacityType]; short || m.CapacityType != tt.want {
					t.Errorf("bought %s in %s (%s), want %s that is not closed", m.Type, m.Zone, m.CapacityType, tt.want)
				}
			}
			v.check()
		})
	}
}

func TestConditionsNameWhyALaunchFails(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.Workloads = append(s.Workloads, web(1))
	s.EC2.FailNext(sim.OpLaunch, 3, cloud.Auth, "UnauthorizedOperation", "You are not authorized")
	told := ""
	s.Saw = func(_ time.Time, r execute.Result) {
		for _, c := range s.API.Claims {
			if l := c.Condition(model.CondLaunched); l.Status == "Unknown" && strings.Contains(l.Message, "authorized") {
				told = fmt.Sprint(l.Reason, ": ", l.Message)
			}
		}
	}
	if !s.Until(3*time.Minute, func() bool { return s.Running("web") == 1 }) {
		t.Fatalf("the pod does not run; claims %v", s.API.Claims)
	}
	if !strings.HasPrefix(told, "UnauthorizedOperation: ") {
		t.Errorf("told %q", told)
	}
}

// A class that is not ready keeps no claim: it goes at once, without an event as in v1, and the pods are planned for another
// pool. The pool of the class is planned with again once the cloud says that it can be.
func TestAClassThatIsNotReadyKeepsNoClaim(t *testing.T) {
	t.Parallel()
	for code, event := range map[string]bool{"NodeClassNotReady": false, cloud.CodeTerminating: true} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			first, second := pool("first", model.OnDemand), pool("second", model.OnDemand)
			first.Weight, second.NodeClass.Name = 10, "other"
			s := newScene(t, nil, first, second)
			s.API.PutClass(&model.NodeClass{Name: "other", UID: "uid-other", Family: "AL2023"})
			v := watch(t, s)
			s.Run(time.Second)
			s.EC2.FailNext(sim.OpRender, 1, cloud.NotReady, code, "it is not ready")
			s.EC2.FailNext(sim.OpOfferings, 3, cloud.Internal, "InternalError", "not now") // nothing newer is known of what can be bought
			s.Workloads = append(s.Workloads, web(1))
			began := s.Now()
			mustRun(t, s, 1, time.Minute)
			c := s.claim(t)
			if c.Pool != "second" || len(s.API.Claims) != 1 || c.Created.Sub(began) > 5*time.Second {
				t.Errorf("%d claims; that of pool %s was made %s after the pod came", len(s.API.Claims), c.Pool, c.Created.Sub(began))
			}
			if got := s.hasEvent("InsufficientCapacityError", code); got != event {
				t.Errorf("an event tells of it: %t, want %t: %v", got, event, s.API.Events)
			}
			if n := s.current.c.Executor().Counters.Disrupted["nodeclass_not_ready"]; n > 0 == event {
				t.Errorf("%d claims counted as given up for a class that is not ready", n)
			}
			s.Workloads[0].Replicas = 2
			s.Run(2 * time.Minute)
			n := 0
			for _, c := range s.API.Claims {
				if c.Pool == "first" {
					n++
				}
			}
			if n == 0 {
				t.Errorf("the first pool is never planned with again: %v", s.API.Claims)
			}
			v.check()
		})
	}
}

// Where it is not known whether a class is ready, a launch waits, and the claim says for what.
func TestAClassOfWhichNothingIsKnownMakesClaimsWait(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	v := watch(t, s)
	s.EC2.FailNext(sim.OpRender, 3, cloud.Internal, "NodeClassReadinessUnknown", "it has not been looked at yet")
	s.Workloads = append(s.Workloads, web(1))
	if !s.Until(time.Minute, func() bool {
		return len(s.API.Claims) == 1 && s.claim(t).Condition(model.CondLaunched).Reason == "NodeClassReadinessUnknown"
	}) {
		t.Errorf("the claim does not say it: %v", s.API.Claims)
	}
	name := s.claim(t).Name
	mustRun(t, s, 1, time.Minute)
	if s.API.Claims[name] == nil {
		t.Error("the claim was given up")
	}
	v.check()
}
