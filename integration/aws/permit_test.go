package aws_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud/aws/classes"
	"github.com/weir-project/weir/core/cloud/aws/permit"
	"github.com/weir-project/weir/integration/aws/ec2front"
)

var _ classes.Checker = (*permit.Checker)(nil)

// A class that resolved may be launched from: both stand-ins say so to dry runs, and nothing is made by them.
func TestDryRunsOfAClass(t *testing.T) {
	t.Parallel()
	for _, s := range standIns {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, s.start(t), "permit-"+s.name)
			c := a.resolved(t)
			v, until, err := permit.New(a.ec2, a.cluster).Check(t.Context(), c, time.Now())
			if err != nil || v != (permit.Verdict{}) || time.Until(until) < 29*time.Minute {
				t.Errorf("%+v until %v, %v", v, until, err)
			}
		})
	}
}

// B086: one subnet's dry run does not speak for the others; no right at all does, with its cause; a throttled try says nothing.
func TestDryRunsThatAreRefused(t *testing.T) {
	t.Parallel()
	full := ec2front.Fault{Code: "InsufficientFreeAddressesInSubnet", Message: "There are not enough free addresses in subnet to satisfy the requested number of instances."}
	for name, tc := range map[string]struct {
		fault  ec2front.Fault
		op     string
		n      int
		reason string
		fails  bool
	}{
		"first subnet full":     {full, "RunInstances", 1, "", false},
		"no right for one":      {ec2front.Unauthorized, "RunInstances", 1, "", false},
		"no right for any":      {ec2front.Unauthorized, "RunInstances", -1, keys.ReasonRunInstancesAuthFailed, false},
		"no right to fleets":    {ec2front.Unauthorized, "CreateFleet", -1, keys.ReasonCreateFleetAuthFailed, false},
		"no right to templates": {ec2front.Unauthorized, "CreateLaunchTemplate", -1, keys.ReasonLaunchTemplateAuthFailed, false},
		"credentials ran out":   {ec2front.Expired, "CreateFleet", -1, "", true},
		"throttled":             {ec2front.Throttled, "CreateFleet", -1, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front := startFront(t, ec2front.Options{})
			a := newAccount(t, front, "refused")
			c := a.resolved(t)
			if len(c.Status.Subnets) < 2 {
				t.Fatalf("subnets %v", c.Status.Subnets)
			}
			checker := permit.New(a.ec2, a.cluster)
			rule := front.Order(tc.n, tc.fault, ec2front.On(tc.op, ""))
			now := time.Now()
			v, _, err := checker.Check(t.Context(), c, now)
			if v.Reason != tc.reason || (err != nil) != tc.fails || tc.reason != "" && !strings.Contains(v.Message, tc.op) {
				t.Errorf("%+v, %v", v, err)
			}
			rule.End()
			if tc.reason != "" { // it is asked again soon, and the class comes back
				if again, _, err := checker.Check(t.Context(), c, now); err != nil || again != v {
					t.Errorf("asked again at once: %+v, %v", again, err)
				}
				if again, _, err := checker.Check(t.Context(), c, now.Add(permit.KeepNo)); err != nil || again.Reason != "" {
					t.Errorf("after it was mended: %+v, %v", again, err)
				}
			}
			calls := front.Calls()["CreateFleet"]
			if _, _, err := checker.Check(t.Context(), c, now.Add(permit.KeepNo+permit.Keep/2)); err != nil {
				t.Error(err)
			}
			if !tc.fails && front.Calls()["CreateFleet"] != calls {
				t.Error("a yes is asked for again within half an hour")
			}
		})
	}
}
