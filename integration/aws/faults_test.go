package aws_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/fleet"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/aws/ec2front"
)

const image = "ami-00000000000000001"

// region is our EC2 with a cluster in it, its class, and the fleet of it.
type region struct {
	*account
	front *ec2front.Server
	fleet *fleet.Fleet
	ready *awsv1.EC2NodeClass
}

func newRegion(t testing.TB, o ec2front.Options) *region {
	t.Helper()
	front := startFront(t, o)
	a := newAccount(t, front, "faults")
	now := o.Now
	if now == nil {
		now = time.Now
	}
	return &region{account: a, front: front, fleet: fleet.New(a.ec2, a.cluster, now), ready: a.resolved(t)}
}

const (
	inA = "m5.large/" + ec2front.Region + "a"
	inB = "m5.large/" + ec2front.Region + "b"
)

func (r *region) launch(t testing.TB, token, capacity string, claims int, offers ...string) (cloud.Answer, error) {
	t.Helper()
	return r.fleet.Launch(t.Context(), token, r.request(t, r.ready, capacity, claims, offers...))
}

// bought launches and expects instances, and answers them.
func (r *region) bought(t testing.TB, want int, token, capacity string, claims int, offers ...string) []cloud.Instance {
	t.Helper()
	got, err := r.launch(t, token, capacity, claims, offers...)
	if err != nil || len(got.Instances) != want {
		t.Fatalf("%d instances, want %d: %+v, %v", len(got.Instances), want, got, err)
	}
	return got.Instances
}

func (r *region) capacity(t testing.TB, offering string, left int) {
	t.Helper()
	if err := r.front.EC2().SetCapacity(offering, left); err != nil {
		t.Fatal(err)
	}
}

// living is how many instances there are behind the front.
func (r *region) living() int {
	n := 0
	for _, m := range r.front.EC2().Machines() {
		if !m.Gone() {
			n++
		}
	}
	return n
}

func TestAllSpotShort(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	r.capacity(t, "*/*/spot", 0)
	got, err := r.launch(t, "spot", model.Spot, 1, inA, inB)
	if err != nil || len(got.Instances) != 0 || len(got.Errors) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, e := range got.Errors {
		if e.Kind != cloud.Shortage || e.Code != "InsufficientInstanceCapacity" || e.Offer.InstanceType != "m5.large" {
			t.Errorf("%+v", e)
		}
	}
	if i := r.bought(t, 1, "on-demand", model.OnDemand, 1, inA, inB); i[0].CapacityType != model.OnDemand {
		t.Errorf("%+v", i)
	}
}

func TestOneZoneShort(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	r.capacity(t, "*/"+ec2front.Region+"a/*", 0)
	got, err := r.launch(t, "zone", model.OnDemand, 3, inA, inB)
	if err != nil || len(got.Instances) != 3 || len(got.Errors) != 1 || got.Errors[0].Offer.Zone != ec2front.Region+"a" {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, i := range got.Instances {
		if i.Zone != ec2front.Region+"b" {
			t.Errorf("%+v", i)
		}
	}
}

func TestPartOfAFleet(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	r.capacity(t, "*/*/spot", 0)
	r.capacity(t, inA+"/spot", 2)
	r.capacity(t, inB+"/spot", 1)
	got, err := r.launch(t, "part", model.Spot, 5, inA, inB)
	if err != nil || len(got.Instances) != 3 || len(got.Errors) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// The cheapest is bought by EC2's own prices, whatever the request was planned with.
func TestFleetChoosesByPrice(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	if i := r.bought(t, 1, "od", model.OnDemand, 1, "m5.xlarge/"+ec2front.Region+"a", inB); i[0].Type != "m5.large" {
		t.Errorf("on-demand: %+v", i)
	}
	r.front.SetSpotPrice("m5.large", ec2front.Region+"a", 0.09)
	r.front.SetSpotPrice("m5.large", ec2front.Region+"b", 0.01)
	if i := r.bought(t, 1, "spot", model.Spot, 1, inA, inB); i[0].Zone != ec2front.Region+"b" {
		t.Errorf("spot: %+v", i)
	}
}

// Throttling, at whichever call, is never read as a shortage, and ends.
func TestThrottledForAWhile(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	rule := r.front.Order(-1, ec2front.Throttled, ec2front.On("", ""))
	got, err := r.launch(t, "throttled", model.OnDemand, 1, inA)
	if cloud.KindOf(err) != cloud.Throttled || len(got.Errors) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.fleet.List(t.Context()); cloud.KindOf(err) != cloud.Throttled {
		t.Errorf("list: %v", err)
	}
	rule.End()
	r.bought(t, 1, "throttled", model.OnDemand, 1, inA)
	if n := r.living(); n != 1 {
		t.Errorf("%d instances", n)
	}
}

// A bucket that is empty lets calls through again as time goes by.
func TestThrottledByRate(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newRegion(t, ec2front.Options{Now: c.Now})
	r.front.Throttle("CreateFleet", 1, 1)
	r.bought(t, 1, "one", model.OnDemand, 1, inA)
	if _, err := r.launch(t, "two", model.OnDemand, 1, inA); cloud.KindOf(err) != cloud.Throttled {
		t.Errorf("%v", err)
	}
	c.add(2 * time.Second)
	r.bought(t, 1, "two", model.OnDemand, 1, inA)
}

// The fleet is bought and its answer is lost, wholly or in part: the SDK's own repetition, and ours after a restart, find
// the same instance.
func TestFleetAnswerLost(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]ec2front.Fault{"cut after": ec2front.CutAfter, "cut before": ec2front.CutBefore, "half": ec2front.HalfAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegion(t, ec2front.Options{})
			lost := r.front.Order(-1, fault, ec2front.On("CreateFleet", ""))
			if got, err := r.launch(t, "lost", model.OnDemand, 1, inA, inB); err == nil || cloud.KindOf(err) == cloud.Shortage {
				t.Fatalf("%+v, %v", got, err)
			}
			if lost.Met() == 0 {
				t.Fatal("the fault met no call")
			}
			lost.End()
			r.front.Order(1, fault, ec2front.On("CreateFleet", ""))
			first, err := r.launch(t, "lost", model.OnDemand, 1, inA, inB)
			if err != nil { // half an answer is not tried again by the SDK
				first, err = r.launch(t, "lost", model.OnDemand, 1, inA, inB)
			}
			again := r.bought(t, 1, "lost", model.OnDemand, 1, inA, inB)
			if err != nil || len(first.Instances) != 1 || first.Instances[0].ID != again[0].ID || r.living() != 1 {
				t.Errorf("%+v then %+v, %v; %d instances", first, again, err, r.living())
			}
		})
	}
}

func TestTokenOfAnotherRequest(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	r.bought(t, 1, "token", model.OnDemand, 1, inA)
	if _, err := r.launch(t, "token", model.OnDemand, 2, inA); cloud.KindOf(err) != cloud.Token {
		t.Errorf("%v", err)
	}
}

// Two scalers that both believe to lead send the same stored request: it buys once, from one template.
func TestTwoScalersAtOnce(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	request := r.request(t, r.ready, model.OnDemand, 3, inA, inB)
	var wg sync.WaitGroup
	answers := make([]cloud.Answer, 8)
	for i := range answers {
		wg.Go(func() {
			var err error
			if answers[i], err = fleet.New(r.ec2, r.cluster, time.Now).Launch(t.Context(), "both", request); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, a := range answers {
		if len(a.Instances) != 3 || a.Instances[0].ID != answers[0].Instances[0].ID {
			t.Errorf("%+v", a)
		}
	}
	out, err := r.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil || len(out.LaunchTemplates) != 1 || r.living() != 3 {
		t.Errorf("%d templates, %d instances, %v", len(out.LaunchTemplates), r.living(), err)
	}
}

func TestInstanceEndedFromOutside(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	i := r.bought(t, 2, "outside", model.OnDemand, 2, inA)
	if err := r.front.Terminate(i[0].ID); err != nil {
		t.Fatal(err)
	}
	left, err := r.fleet.List(t.Context())
	if err != nil || len(left) != 1 || left[0].ID != i[1].ID {
		t.Errorf("%+v, %v", left, err)
	}
	if err := r.fleet.Terminate(t.Context(), []string{i[0].ID, i[1].ID, "i-0123456789abcdef0"}); err != nil || r.living() != 0 {
		t.Errorf("%d left, %v", r.living(), err)
	}
}

// An image that is taken away fails the launch by its name, not as a shortage; the class says so at its next look.
func TestImageRemoved(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	r.front.Deregister(image)
	got, err := r.launch(t, "image", model.OnDemand, 1, inA)
	if err != nil || len(got.Instances) != 0 || len(got.Errors) != 1 || got.Errors[0].Code != "InvalidAMIID.NotFound" || got.Errors[0].Kind == cloud.Shortage {
		t.Errorf("%+v, %v", got, err)
	}
	status := r.resolver().Resolve(t.Context(), r.ready, time.Now()).Status
	for _, c := range status.Conditions {
		if c.Type == keys.ConditionAMIsReady && (c.Status != "False" || c.Reason != keys.ReasonAMINotFound) {
			t.Errorf("%+v", c)
		}
	}
	if len(status.AMIs) != 0 {
		t.Errorf("%+v", status.AMIs)
	}
}

// A subnet without addresses is told by id, other zones go on, and it gets its addresses back.
func TestSubnetWithoutAddresses(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	r.front.SetSubnetSize(r.subnets[0], 1)
	full := ""
	r.fleet.Full = func(subnet string) { full = subnet }
	got, err := r.launch(t, "addresses", model.OnDemand, 3, inA, inB)
	if err != nil || len(got.Instances) != 3 || full != r.subnets[0] {
		t.Fatalf("%+v, %v; full: %q", got, err, full)
	}
	for _, e := range got.Errors {
		if e.Kind == cloud.Shortage {
			t.Errorf("%+v", e)
		}
	}
	if free := r.resolver().Resolve(t.Context(), r.ready, time.Now()).Free[full]; free != 0 {
		t.Errorf("%d free addresses", free)
	}
	for _, i := range got.Instances {
		if err := r.fleet.Terminate(t.Context(), []string{i.ID}); err != nil {
			t.Fatal(err)
		}
	}
	r.bought(t, 1, "later", model.OnDemand, 1, inA)
}

func TestExpiredCredentials(t *testing.T) {
	t.Parallel()
	for _, fault := range []ec2front.Fault{ec2front.Expired, ec2front.AuthFailure, ec2front.Unauthorized} {
		r := newRegion(t, ec2front.Options{})
		rule := r.front.Order(-1, fault, ec2front.On("", ""))
		got, err := r.launch(t, "auth", model.OnDemand, 1, inA)
		if cloud.KindOf(err) != cloud.Auth || len(got.Errors) != 0 {
			t.Errorf("%s: %+v, %v", fault.Code, got, err)
		}
		// what the class stood for is kept
		if s := r.resolver().Resolve(t.Context(), r.ready, time.Now()).Status; len(s.Subnets) != 2 || len(s.AMIs) != 1 {
			t.Errorf("%s: %+v", fault.Code, s)
		}
		rule.End()
		r.bought(t, 1, "auth", model.OnDemand, 1, inA)
	}
}

// Quotas are the account's: they close no offering.
func TestQuotas(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	for capacity, code := range map[string]string{model.OnDemand: "VcpuLimitExceeded", model.Spot: "MaxSpotInstanceCountExceeded"} {
		r.front.SetQuota(capacity, 4)
		got, err := r.launch(t, capacity, capacity, 3, inA)
		if err != nil || len(got.Instances) != 2 || len(got.Errors) != 1 || got.Errors[0].Code != code || got.Errors[0].Kind != cloud.Quota {
			t.Errorf("%s: %+v, %v", capacity, got, err)
		}
	}
	r.front.SetQuota(model.Spot, -1)
	r.front.Refuse("*/"+ec2front.Region+"a/spot", "UnfulfillableCapacity", "no")
	if i := r.bought(t, 1, "refused", model.Spot, 1, inA, inB); i[0].Zone != ec2front.Region+"b" {
		t.Errorf("%+v", i)
	}
}

// New instances show up late, run later, and are told of for a while after their end.
func TestInstancesTakeTheirTime(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newRegion(t, ec2front.Options{Now: c.Now, Delays: sim.Delays{Listed: 3 * time.Second, Run: 20 * time.Second, Terminate: 30 * time.Second, Keep: time.Hour}})
	id := r.bought(t, 1, "late", model.Spot, 1, inA)[0].ID
	state := func(want string) {
		t.Helper()
		got, err := r.fleet.Describe(t.Context(), []string{id})
		have := ""
		if len(got) == 1 {
			have = got[0].State
		}
		if err != nil || have != want {
			t.Errorf("state %q, want %q, %v", have, want, err)
		}
	}
	state("")
	c.add(5 * time.Second)
	state(sim.Pending)
	c.add(20 * time.Second)
	state(sim.Running)
	if err := r.front.EC2().Reclaim(id); err != nil {
		t.Fatal(err)
	}
	c.add(2 * time.Minute)
	state(sim.ShuttingDown)
	c.add(30 * time.Second)
	state(sim.Terminated)
	c.add(2 * time.Hour)
	state("")
	if n := len(r.front.EC2().Events(0)); n != 5 { // pending, running, the warning, shutting-down, terminated
		t.Errorf("%d events", n)
	}
}

// A reservation sells what it has, and only to launches that name it.
func TestReservation(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	id := r.front.Reserve(ec2front.Reservation{InstanceType: "m5.large", Zone: ec2front.Region + "a", Total: 2})
	r.bought(t, 1, "open", model.OnDemand, 1, inA)
	out, err := r.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}})
	if err != nil || len(out.CapacityReservations) != 1 || sdk.ToInt32(out.CapacityReservations[0].AvailableInstanceCount) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Five thousand instances are listed a thousand a call.
func TestFiveThousandInstances(t *testing.T) {
	t.Parallel()
	r := newRegion(t, ec2front.Options{})
	for i := range 5 {
		r.bought(t, 1000, fmt.Sprint("many-", i), model.OnDemand, 1000, inA, inB)
	}
	pages := r.front.Watch(ec2front.On("DescribeInstances", ""))
	all, err := r.fleet.List(t.Context())
	if err != nil || len(all) != 5000 || pages.Met() != 5 {
		t.Errorf("%d instances in %d calls, %v", len(all), pages.Met(), err)
	}
}

// clock is a clock that stands still.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)} }

// Now is the instant that it shows.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// BenchmarkThousandClaims launches claims, polls them once and gives them back, and tells how many calls it took for each claim:
// one by one, as the executor batches claims that are alike, and as many as a fleet takes.
func BenchmarkThousandClaims(b *testing.B) {
	for _, x := range []struct{ claims, launch int }{{1000, 1}, {1000, 49}, {1000, 1000}, {5000, 49}} {
		b.Run(fmt.Sprintf("%d-claims-%d-a-launch", x.claims, x.launch), func(b *testing.B) {
			for b.Loop() {
				r := newRegion(b, ec2front.Options{})
				before := r.front.Calls()
				var ids []string
				for len(ids) < x.claims {
					n := min(x.launch, x.claims-len(ids))
					for _, i := range r.bought(b, n, fmt.Sprint("claims-", len(ids)), model.OnDemand, n, inA, inB) {
						ids = append(ids, i.ID)
					}
				}
				if got, err := r.fleet.Describe(b.Context(), ids); err != nil || len(got) != x.claims {
					b.Fatalf("%d instances, %v", len(got), err)
				}
				if all, err := r.fleet.List(b.Context()); err != nil || len(all) != x.claims {
					b.Fatalf("%d instances, %v", len(all), err)
				}
				if err := r.fleet.Terminate(b.Context(), ids); err != nil {
					b.Fatal(err)
				}
				for op, n := range r.front.Calls() {
					if n -= before[op]; n > 0 {
						b.ReportMetric(float64(n)/float64(x.claims), op+"/claim")
					}
				}
			}
		})
	}
}
