package aws_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/integration/aws/ec2front"
	"github.com/weir-project/weir/integration/aws/moto"
)

// The faults that a provider meets, through the whole of the scaler. What counts is where each ends: pods have places, there are
// the instances that there should be and no others, and objects say why it took so long.

func (l *loop) capacity(offering string, left int) {
	l.t.Helper()
	if err := l.EC2.SetCapacity(offering, left); err != nil {
		l.t.Fatal(err)
	}
}

func TestLoopWithoutFaults(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	w := l.web(3)
	l.run(3, 3*time.Minute)
	bought := len(l.EC2.Machines())
	l.ends(bought, bought)
	w.Replicas = 0
	l.Run(25 * time.Minute)
	l.ends(0, bought)
	out, err := l.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil || len(out.LaunchTemplates) != 0 {
		t.Errorf("%d launch templates are left, %v", len(out.LaunchTemplates), err)
	}
}

// More claims at once than one launch holds: all are launched, and every launch comes to its end.
func TestLoopManyClaimsAtOnce(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	p := *l.API.Pools["default"]
	p.Requirements = p.Requirements.With(require.Must(model.LabelInstanceType, "In", "c5.large"))
	l.API.PutPool(&p)
	l.web(130)
	l.run(130, 5*time.Minute)
	l.ends(130, 130)
	if n := l.front.Calls()["CreateFleet"]; n > 4 {
		t.Errorf("%d fleets were asked for", n)
	}
}

// Spot is wanted, there is none anywhere: on-demand is bought, and the ledger tells the other clusters.
func TestLoopAllSpotShort(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.Spot, model.OnDemand)
	l.capacity("*/*/spot", 0)
	l.web(1)
	l.run(1, 5*time.Minute)
	if m := l.living(); m[0].CapacityType != model.OnDemand {
		t.Errorf("%+v", m)
	}
	l.tells("InsufficientCapacityError", "InsufficientInstanceCapacity")
	health, err := ledger.Offerings(t.Context(), l.Ledger, ec2front.Account, ec2front.Region, l.Now())
	if err != nil || len(health) < 2 {
		t.Errorf("the ledger remembers %v, %v", health, err)
	}
	for key, h := range health {
		if h.Shortages == 0 || h.Message == "" {
			t.Errorf("%s: %+v", key, h)
		}
	}
	l.ends(1, 1)
}

// A zone has nothing: its machines come from the other one, in one go, for a fleet tries both.
func TestLoopOneZoneShort(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	l.capacity("*/"+ec2front.Region+"a/*", 0)
	l.web(4)
	l.run(4, 5*time.Minute)
	for _, m := range l.living() {
		if m.Zone != ec2front.Region+"b" {
			t.Errorf("%+v", m)
		}
	}
	bought := len(l.EC2.Machines())
	l.ends(bought, bought)
}

// Two minutes in which EC2 answers nothing but that it is asked too much: no offering is taken for short, and what was wanted is
// bought once.
func TestLoopThrottledForTwoMinutes(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	l.Run(5 * time.Second) // the class is resolved
	rule := l.front.Order(-1, ec2front.Throttled, ec2front.On("", ""))
	l.web(1)
	l.waits("RequestLimitExceeded", "Request limit exceeded")
	name := ""
	for name = range l.API.Claims {
	}
	l.Run(2 * time.Minute)
	if len(l.EC2.Machines()) != 0 || rule.Met() < 5 || rule.Met() > 300 {
		t.Errorf("%d instances, %d calls met the fault", len(l.EC2.Machines()), rule.Met())
	}
	rule.End()
	l.run(1, 3*time.Minute)
	if closed := l.pair.all[0].c.Mirror().Closed(l.Now()); len(closed) != 0 || l.API.Claims[name] == nil {
		t.Errorf("closed %v; the claim is %+v", closed, l.API.Claims[name])
	}
	l.ends(1, 1)
}

// The fleet is bought and its answer never comes, for a while, or half of it comes: there is one instance for the claim.
func TestLoopFleetAnswerLost(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]ec2front.Fault{"cut after": ec2front.CutAfter, "half": ec2front.HalfAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLoop(t, nil, model.OnDemand)
			rule := l.front.Order(-1, fault, ec2front.On("CreateFleet", ""))
			l.web(1)
			l.Run(30 * time.Second)
			if n := len(l.EC2.Machines()); n != 1 || rule.Met() < 2 {
				t.Fatalf("%d instances, %d calls met the fault", n, rule.Met())
			}
			rule.End()
			l.run(1, 3*time.Minute)
			l.ends(1, 1)
		})
	}
	t.Run("and the controller dies", func(t *testing.T) {
		t.Parallel()
		l := newLoop(t, nil, model.OnDemand)
		rule := l.front.Order(-1, ec2front.CutAfter, ec2front.On("CreateFleet", ""))
		l.web(1)
		if !l.Until(time.Minute, func() bool { return rule.Met() > 0 }) {
			t.Fatal("nothing is bought")
		}
		rule.End()
		l.Restart()
		l.run(1, 3*time.Minute)
		l.ends(1, 1)
	})
}

// Two scalers that both believe to lead, for a while: one comes up while the other is about to buy, which goes on at once or stood
// still and sends its request late. What both know of is bought once. Pods that come while both are at work may be planned for by both,
// before the first is told that it leads no more: their claims get one instance each, and what is too much is given back.
func TestLoopTwoScalersAtOnce(t *testing.T) {
	t.Parallel()
	for name, still := range map[string]bool{"both go on": false, "the first stood still": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLoop(t, nil, model.OnDemand)
			l.Run(5 * time.Second)
			first, second := l.pair.all[0], newLeader("b", 2)
			sends := func(e execute.Effect) bool { return e.Kind() == "SendLaunch" }
			first.hold = sends
			w := l.web(4)
			if !l.Until(time.Minute, func() bool { return len(first.held) > 0 }) {
				t.Fatal("the first sends nothing")
			}
			l.pair.fresh = []*leader{second}
			if !still {
				l.Until(time.Second, func() bool { return len(l.pair.all) == 2 })
				first.hold = nil
			}
			l.Until(2*time.Minute, func() bool { return len(l.EC2.Machines()) > 0 && second.c.Executor().Recovered() })
			if leads, why := second.c.Leading(); !leads {
				t.Fatalf("the second does not lead: %s", why)
			}
			fleets := l.front.Calls()["CreateFleet"]
			first.hold = nil
			w.Replicas = 8
			l.run(8, 3*time.Minute)
			if got := l.front.Calls()["CreateFleet"]; got <= fleets {
				t.Errorf("nobody bought anything afterwards")
			}
			if leads, why := first.c.Leading(); leads {
				t.Errorf("the first still leads: %q", why)
			}
			l.Run(5 * time.Minute)
			bought, most := len(l.EC2.Machines()), 12
			if still {
				most = 8
			}
			if bought > most {
				t.Errorf("%d instances were bought, at most %d may be", bought, most)
			}
			l.ends(8, bought)
		})
	}
}

// An instance that somebody ends at EC2's console is replaced, and its claim says why it goes.
func TestLoopInstanceEndedFromOutside(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	l.web(3)
	l.run(3, 3*time.Minute)
	bought := len(l.EC2.Machines())
	gone := l.living()[0]
	if err := l.front.Terminate(gone.ID); err != nil {
		t.Fatal(err)
	}
	if !l.Until(time.Minute, func() bool { return l.Running("web") < 3 }) {
		t.Fatal("its pods run on")
	}
	l.run(3, 5*time.Minute)
	l.tells("GarbageCollected", gone.ID)
	if l.API.Nodes[gone.NodeName] != nil {
		t.Errorf("the node of %s is still there", gone.ID)
	}
	l.ends(bought, bought+1)
}

// The image is deregistered while a class names it: launches say so, then the class does, and pods run once there is another.
func TestLoopImageRemoved(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	l.Run(5 * time.Second)
	l.front.Deregister(image)
	l.web(1)
	l.waits("AMINotFound", image)
	if !l.Until(6*time.Minute, func() bool { return l.API.Classes["default"].Unusable != "" }) {
		t.Fatalf("the class never says it: %+v", l.API.Classes["default"])
	}
	l.Run(30 * time.Second)
	if len(l.API.Claims) != 0 || len(l.EC2.Machines()) != 0 {
		t.Errorf("with a class that is not ready: %s", l.story())
	}
	if s := l.API.Status["default"]; condition(s, "Ready") != "False" || condition(s, "NodeClassReady") != "False" {
		t.Errorf("pool %+v", s)
	}
	next := l.front.AddImage(ec2front.Image{Name: "amazon-eks-node-linux", Owner: "amazon", Arch: "x86_64", Created: l.Now()})
	l.run(1, 5*time.Minute)
	if m, err := l.provider.Describe(t.Context(), []string{l.living()[0].ID}); err != nil || m[0].ImageID != next {
		t.Errorf("%+v, %v", m, err)
	}
	l.ends(1, 1)
}

func condition(s execute.PoolStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// A subnet has no address left: machines come from the other zone. Where none has any, pods wait with the reason, and run once there are addresses.
func TestLoopSubnetWithoutAddresses(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	l.Run(5 * time.Second)
	l.front.SetSubnetSize(l.subnets[0], 1)
	w := l.web(3)
	l.run(3, 5*time.Minute)
	zones := map[string]int{}
	for _, m := range l.living() {
		zones[m.Zone]++
	}
	bought := len(l.EC2.Machines())
	if zones[ec2front.Region+"a"] > 1 || bought == 0 {
		t.Errorf("instances by zone: %v", zones)
	}
	l.front.SetSubnetSize(l.subnets[0], zones[ec2front.Region+"a"])
	l.front.SetSubnetSize(l.subnets[1], zones[ec2front.Region+"b"])
	w.Replicas = 9
	l.Run(5 * time.Minute)
	if n := len(l.EC2.Machines()); n != bought || l.Running("web") == 9 {
		t.Errorf("%d instances, %d were there before the addresses were used up", n, bought)
	}
	l.tells("InsufficientCapacityError", "InsufficientFreeAddressesInSubnet")
	l.front.SetSubnetSize(l.subnets[1], 100)
	l.run(9, 10*time.Minute)
	n := len(l.living())
	if n <= bought {
		t.Errorf("%d instances", n)
	}
	l.ends(n, n)
}

// Credentials that have expired: the claim says it, nothing that runs is harmed, and it goes on when they are renewed.
func TestLoopExpiredCredentials(t *testing.T) {
	t.Parallel()
	l := newLoop(t, nil, model.OnDemand)
	w := l.web(2)
	l.run(2, 3*time.Minute)
	before := len(l.EC2.Machines())
	rule := l.front.Order(-1, ec2front.Expired, ec2front.On("", ""))
	w.Replicas = 4
	l.waits("LaunchFailed", "RequestExpired: Request has expired")
	l.Run(time.Minute)
	if n := len(l.living()); n != before || l.Running("web") != 2 || rule.Met() == 0 {
		t.Errorf("%d of %d instances, %d pods run; %d calls met the fault", n, before, l.Running("web"), rule.Met())
	}
	rule.End()
	l.run(4, 3*time.Minute)
	n := len(l.living())
	l.ends(n, n)
}

// DynamoDB is away for five minutes, amid which pods come and go: they get their machines without it, and when it is back it hears
// of all of them.
func TestLoopDynamoDBAway(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	table := server.Table(t)
	l := newLoop(t, server.Ledger(t, table), model.OnDemand)
	w := l.web(1)
	l.run(1, 3*time.Minute)
	away := server.Order(-1, moto.CutBefore, moto.On("", `"`+table+`"`))
	l.Deadline = 150 * time.Millisecond // of a test that waits, not of the ledger's; rendering a launch has to fit in on a busy machine
	from := l.Now()
	l.Run(30 * time.Second)
	w.Replicas = 5
	l.run(5, 2*time.Minute)
	l.Run(from.Add(5 * time.Minute).Sub(l.Now()))
	if s := l.API.Status["default"]; condition(s, control.ConditionLedger) != "False" || condition(s, "Ready") != "True" || away.Met() == 0 {
		t.Errorf("pool %+v; %d calls met the fault", s, away.Met())
	}
	l.Deadline = 0
	away.End()
	if !l.Until(3*time.Minute, func() bool {
		return l.pair.all[0].c.Executor().QueuedWrites() == 0 && condition(l.API.Status["default"], control.ConditionLedger) == "True"
	}) {
		t.Errorf("%d writes wait still", l.pair.all[0].c.Executor().QueuedWrites())
	}
	n := len(l.living())
	l.ends(n, n)
	states, err := ledger.List[ledger.ClaimState](t.Context(), l.Ledger, ledger.ClaimKey(executetest.Name, "").Partition, "", l.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range l.living() {
		if !slices.ContainsFunc(states, func(s ledger.ClaimState) bool { return s.InstanceID == m.ID }) {
			t.Errorf("DynamoDB has not heard of %s: %+v", m.ID, states)
		}
	}
}
