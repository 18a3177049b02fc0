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
		{cloud.Quota, "VcpuLimitExceeded", false, false, model.Spot},
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
