package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) move(d time.Duration)    { c.t = c.t.Add(d) }
func key(t, z, ct string) string         { return t + "/" + z + "/" + ct }
func offer(t, z string) cloud.Offer      { return cloud.Offer{InstanceType: t, Zone: z} }
func ctxOf(t *testing.T) context.Context { return t.Context() }

func smallCatalogue(class *model.NodeClass) []*model.Offering {
	var out []*model.Offering
	for i, name := range []string{"m6a.2xlarge", "c6a.2xlarge"} {
		it := &model.InstanceType{Name: name, Labels: map[string]string{model.LabelArch: "amd64", model.LabelNodeClass: class.Name},
			Capacity: resource.New(8000, 16<<30, 58, 20<<30), Allocatable: resource.New(7910, 14<<30, 58, 17<<30)}
		for j, zone := range []string{"us-east-1a", "us-east-1b"} {
			price := 0.3456 - 0.04*float64(i) + 0.001*float64(j)
			out = append(out, &model.Offering{Type: it, Zone: zone, CapacityType: model.OnDemand, USDPerHour: price, Available: true},
				&model.Offering{Type: it, Zone: zone, CapacityType: model.Spot, USDPerHour: price * 0.4, Available: true})
		}
	}
	return out
}

func newEC2(c *clock) *EC2 {
	return New(Config{Seed: 7, Now: c.now, Cluster: "seed", Catalogue: smallCatalogue})
}

func launch(ct string, claims ...string) cloud.Launch {
	return cloud.Launch{ID: "l1", Claims: claims, Pool: "default", NodeClass: "default", CapacityType: ct,
		Offers: []cloud.Offer{offer("m6a.2xlarge", "us-east-1a"), offer("m6a.2xlarge", "us-east-1b"), offer("c6a.2xlarge", "us-east-1a"), offer("c6a.2xlarge", "us-east-1b")},
		Labels: map[string]string{"team": "a"}, Taints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}}}
}

func buy(t *testing.T, p cloud.Provider, token string, l cloud.Launch) cloud.Answer {
	t.Helper()
	raw, err := p.Render(ctxOf(t), l)
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Launch(ctxOf(t), token, raw)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheSameTokenBuysOnce(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	e := newEC2(c)
	raw, err := e.Render(ctxOf(t), launch(model.OnDemand, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := e.Launch(ctxOf(t), "token", raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Instances) != 2 || first.Instances[0].ID == first.Instances[1].ID {
		t.Fatalf("want two instances, got %+v", first)
	}
	c.move(time.Minute)
	again, err := e.Launch(ctxOf(t), "token", raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range again.Instances {
		if again.Instances[i].ID != first.Instances[i].ID {
			t.Errorf("instance %d: first %s, then %s", i, first.Instances[i].ID, again.Instances[i].ID)
		}
	}
	if n := len(e.Machines()); n != 2 {
		t.Errorf("%d machines after two calls with one token, want 2", n)
	}
	other, err := e.Render(ctxOf(t), launch(model.OnDemand, "a", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = e.Launch(ctxOf(t), "token", other); cloud.KindOf(err) != cloud.Token {
		t.Errorf("other bytes under the same token: %v, want a token error", err)
	}
	if _, err = e.Launch(ctxOf(t), "second", raw); err != nil || len(e.Machines()) != 4 {
		t.Errorf("another token: %v, %d machines, want 4", err, len(e.Machines()))
	}
}

func TestALostAnswerHasBoughtAndTheTokenFindsIt(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	e := newEC2(c)
	raw, err := e.Render(ctxOf(t), launch(model.OnDemand, "a"))
	if err != nil {
		t.Fatal(err)
	}
	e.LoseNext(OpLaunch, 1)
	if _, err := e.Launch(ctxOf(t), "token", raw); cloud.KindOf(err) != cloud.Internal {
		t.Fatalf("want an internal error, got %v", err)
	}
	if len(e.Machines()) != 1 {
		t.Fatal("the call whose answer was lost bought nothing")
	}
	a, err := e.Launch(ctxOf(t), "token", raw)
	if err != nil || len(a.Instances) != 1 || a.Instances[0].ID != e.Machines()[0].ID || len(e.Machines()) != 1 {
		t.Errorf("the token does not find the instance: %+v, %v", a, err)
	}
}

func TestChoiceOfOffers(t *testing.T) {
	t.Parallel()
	prioritized := launch(model.OnDemand, "a")
	prioritized.Prioritized = true
	for i := range prioritized.Offers {
		prioritized.Offers[i].Priority = float64(10 - i)
	}
	prioritized.Offers[0].Priority = 0.5
	for name, tc := range map[string]struct {
		launch cloud.Launch
		short  []string
		want   []string
		errs   int
	}{
		"on-demand takes the lowest price":      {launch: launch(model.OnDemand, "a"), want: []string{"c6a.2xlarge/us-east-1a/on-demand"}},
		"a shortage goes to the next and tells": {launch: launch(model.OnDemand, "a"), short: []string{"c6a.2xlarge/us-east-1a/on-demand"}, want: []string{"c6a.2xlarge/us-east-1b/on-demand"}, errs: 1},
		"priority comes before price":           {launch: prioritized, want: []string{"m6a.2xlarge/us-east-1a/on-demand"}},
		"nothing left gives no instance":        {launch: launch(model.OnDemand, "a", "b"), short: []string{"*/*/on-demand"}, errs: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEC2(&clock{start})
			for _, s := range tc.short {
				if err := e.SetCapacity(s, 0); err != nil {
					t.Fatal(err)
				}
			}
			a := buy(t, e, "token", tc.launch)
			var got []string
			for _, i := range a.Instances {
				got = append(got, key(i.Type, i.Zone, i.CapacityType))
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("bought (-want +got):\n%s", d)
			}
			if len(a.Errors) != tc.errs {
				t.Errorf("%d errors, want %d: %+v", len(a.Errors), tc.errs, a.Errors)
			}
			for _, err := range a.Errors {
				if err.Kind != cloud.Shortage || err.Code != "InsufficientInstanceCapacity" {
					t.Errorf("want a shortage, got %+v", err)
				}
			}
		})
	}
}

func TestAFleetFillsWhatIsLeftAndCapacityComesBack(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	e := newEC2(c)
	if err := e.SetCapacity("*/*/on-demand", 0); err != nil {
		t.Fatal(err)
	}
	if err := e.SetCapacity("m6a.2xlarge/us-east-1b/on-demand", 2); err != nil {
		t.Fatal(err)
	}
	a := buy(t, e, "one", launch(model.OnDemand, "a", "b", "c"))
	if len(a.Instances) != 2 {
		t.Fatalf("%d instances, want the 2 that are left", len(a.Instances))
	}
	if err := e.Terminate(ctxOf(t), []string{a.Instances[0].ID}); err != nil {
		t.Fatal(err)
	}
	if a := buy(t, e, "two", launch(model.OnDemand, "d")); len(a.Instances) != 1 {
		t.Errorf("a returned machine is not sold again: %+v", a)
	}
}

func TestStatesListingsAndBill(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	e := newEC2(c)
	id := buy(t, e, "token", launch(model.OnDemand, "a")).Instances[0].ID
	state := func() string {
		t.Helper()
		list, err := e.Describe(ctxOf(t), []string{id, "i-0unknown"})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return ""
		}
		return list[0].State
	}
	listed := func() int {
		t.Helper()
		list, err := e.List(ctxOf(t))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	check := func(when, wantState string, wantListed int) {
		t.Helper()
		if s, n := state(), listed(); s != wantState || n != wantListed {
			t.Errorf("%s: state %q, %d listed; want %q, %d", when, s, n, wantState, wantListed)
		}
	}
	check("at once", "", 0) // eventually consistent
	c.move(3 * time.Second)
	check("after 3 s", Pending, 1)
	c.move(17 * time.Second)
	check("after 20 s", Running, 1)
	if _, err := e.AddForeign("m6a.2xlarge", "us-east-1a", map[string]string{"Name": "theirs"}); err != nil {
		t.Fatal(err)
	}
	c.move(2 * time.Hour)
	check("beside a foreign instance", Running, 1)
	if err := e.Terminate(ctxOf(t), []string{id}); err != nil {
		t.Fatal(err)
	}
	check("told to end", ShuttingDown, 1)
	c.move(30 * time.Second)
	check("ended", Terminated, 0)
	if err := e.Terminate(ctxOf(t), []string{id}); err != nil {
		t.Errorf("ending an ended instance: %v", err)
	}
	if err := e.Terminate(ctxOf(t), []string{"i-0unknown"}); cloud.KindOf(err) != cloud.NotFound {
		t.Errorf("ending an instance that never was: %v, want not-found", err)
	}
	c.move(time.Hour)
	check("forgotten", "", 0)
	line := e.Bill()[0]
	if line.Hours != 2 || line.Open || line.USD != 2*line.USDPerHour || !line.From.Equal(start.Add(20*time.Second)) {
		t.Errorf("bill: %+v, want 2 closed hours", line)
	}
}

type seen struct{ at, kind, detail string }

func eventsOf(t *testing.T, e *EC2) []seen {
	t.Helper()
	var out []seen
	for _, ev := range e.Events(0) {
		var x envelope
		if err := json.Unmarshal(ev.JSON, &x); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, x.Time)
		if err != nil || x.Account != "111122223333" || x.Region != "us-east-1" || x.Source != "aws.ec2" || x.Version != "0" || len(x.ID) != 36 {
			t.Errorf("envelope %+v: %v", x, err)
		}
		out = append(out, seen{at.Sub(start).String(), x.DetailType, x.Detail["state"] + x.Detail["instance-action"]})
	}
	return out
}

func TestReclaimWarnsTwoMinutesAhead(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	e := newEC2(c)
	a := buy(t, e, "token", launch(model.Spot, "a"))
	id := a.Instances[0].ID
	c.move(10 * time.Minute)
	if err := e.Reclaim(id); err != nil {
		t.Fatal(err)
	}
	c.move(2*time.Minute - time.Second)
	if m, _ := e.Machine(id); m.State != Running {
		t.Errorf("a second before the deadline: %s", m.State)
	}
	c.move(time.Hour)
	const change = "EC2 Instance State-change Notification"
	want := []seen{{"0s", change, Pending}, {"20s", change, Running}, {"10m0s", "EC2 Spot Instance Interruption Warning", "terminate"},
		{"12m0s", change, ShuttingDown}, {"12m30s", change, Terminated}}
	if d := cmp.Diff(want, eventsOf(t, e), cmp.AllowUnexported(seen{})); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if err := e.Reclaim(id); err == nil {
		t.Error("an ended instance was reclaimed again")
	}
	od := buy(t, e, "od", launch(model.OnDemand, "b")).Instances[0].ID
	if err := e.Reclaim(od); err == nil {
		t.Error("an on-demand instance was reclaimed")
	}
}

func TestFaultsAndThrottling(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	e := newEC2(c)
	e.FailNext(OpList, 2, cloud.Auth, "UnauthorizedOperation", "no")
	for i, want := range []cloud.ErrorKind{cloud.Auth, cloud.Auth, ""} {
		_, err := e.List(ctxOf(t))
		if want == "" && err != nil || want != "" && cloud.KindOf(err) != want {
			t.Errorf("call %d: %v, want %q", i, err, want)
		}
	}
	e.Throttle(OpList, 1, 2)
	var kinds []string
	for range 3 {
		_, err := e.List(ctxOf(t))
		kinds = append(kinds, fmt.Sprint(err != nil && cloud.KindOf(err) == cloud.Throttled))
	}
	c.move(time.Second)
	_, err := e.List(ctxOf(t))
	kinds = append(kinds, fmt.Sprint(err != nil))
	if d := cmp.Diff([]string{"false", "false", "true", "false"}, kinds); d != "" {
		t.Errorf("throttled (-want +got):\n%s", d)
	}
	ctx, cancel := context.WithCancel(ctxOf(t))
	cancel()
	if _, err := e.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestBadRequestsAreTemplateErrors(t *testing.T) {
	t.Parallel()
	e := newEC2(&clock{start})
	for name, req := range map[string]string{"garbage": "{", "unknown field": `{"surprise":1}`, "no claims": `{"offers":[{}],"capacityType":"spot"}`,
		"no offers": `{"claims":["a"],"capacityType":"spot"}`, "reserved": `{"claims":["a"],"offers":[{}],"capacityType":"reserved"}`} {
		if _, err := e.Launch(ctxOf(t), name, []byte(req)); cloud.KindOf(err) != cloud.Template {
			t.Errorf("%s: %v, want a template error", name, err)
		}
	}
	l := launch(model.OnDemand, "a")
	l.Offers = []cloud.Offer{offer("z9.nano", "us-east-1a")}
	a := buy(t, e, "unknown", l)
	if len(a.Instances) != 0 || len(a.Errors) != 1 || a.Errors[0].Kind != cloud.Template {
		t.Errorf("a type that is not sold: %+v", a)
	}
}

func TestTheWireKeepsAnswersAndErrors(t *testing.T) {
	t.Parallel()
	c := &clock{start}
	e := newEC2(c)
	srv := httptest.NewServer(Handler(e, Front{}))
	t.Cleanup(srv.Close)
	p := Dial(srv.URL)
	ctx := ctxOf(t)
	raw, err := p.Render(ctx, launch(model.Spot, "a"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Launch(ctx, "token", raw)
	if err != nil {
		t.Fatal(err)
	}
	id := a.Instances[0].ID
	if _, err := p.Launch(ctx, "token", append(raw, ' ')); cloud.KindOf(err) != cloud.Token {
		t.Errorf("other bytes over the wire: %v", err)
	}
	far, err := p.Offerings(ctx, &model.NodeClass{Name: "default", Zones: []string{"us-east-1a"}})
	if err != nil {
		t.Fatal(err)
	}
	sold := smallCatalogue(&model.NodeClass{Name: "default"})
	for _, o := range sold {
		o.Type.Image = "ami-0a4d6400000000001" // which the cloud decides, not the catalogue
	}
	if d := cmp.Diff(sold, far); d != "" {
		t.Errorf("offerings (-near +far):\n%s", d)
	}
	c.move(time.Minute)
	near, err := e.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(near, list); d != "" {
		t.Errorf("list (-near +far):\n%s", d)
	}
	if err := p.SetCapacity(ctx, "*/*/spot", 0); err != nil {
		t.Fatal(err)
	}
	if err := p.LoseNext(ctx, OpTerminate, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Reclaim(ctx, id); err != nil {
		t.Fatal(err)
	}
	events, err := p.Events(ctx, 2, time.Second)
	if err != nil || len(events) != 1 || events[0].Seq != 3 {
		t.Errorf("events: %+v, %v", events, err)
	}
	if err := p.Terminate(ctx, []string{id}); cloud.KindOf(err) != cloud.Internal {
		t.Errorf("lost answer over the wire: %v", err)
	}
	if m, _ := e.Machine(id); m.State != ShuttingDown {
		t.Errorf("state %s, the terminate call was not carried out", m.State)
	}
	if err := p.SetCapacity(ctx, "nonsense", 0); err == nil {
		t.Error("a nonsense offering was taken")
	}
	srv.Close()
	if _, err := p.List(ctx); cloud.KindOf(err) != cloud.Internal {
		t.Errorf("no front: %v", err)
	}
}

// The same seed and calls give the same world, whatever the calls are; capacity
// is never oversold and no token buys twice.
func TestDeterministicAndNeverOversold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 40).Draw(rt, "steps")
		limit := rapid.IntRange(0, 4).Draw(rt, "limit")
		run := func() ([]Machine, []Event) {
			c := &clock{start}
			e := newEC2(c)
			if err := e.SetCapacity("*/*/spot", limit); err != nil {
				rt.Fatal(err)
			}
			for i, s := range steps {
				l := launch(model.Spot, "a", "b")
				switch s {
				case 0, 1, 2:
					raw, err := e.Render(context.Background(), l)
					if err != nil {
						rt.Fatal(err)
					}
					if _, err := e.Launch(context.Background(), fmt.Sprint("t", i%(s+3)), raw); err != nil {
						rt.Fatal(err)
					}
				case 3:
					c.move(11 * time.Second)
				case 4, 5:
					for _, m := range e.Machines() {
						if m.Gone() {
							continue
						}
						if s == 4 {
							if err := e.Terminate(context.Background(), []string{m.ID}); err != nil {
								rt.Fatal(err)
							}
						} else if err := e.Reclaim(m.ID); err != nil {
							rt.Fatal(err)
						}
						break
					}
				}
				living := map[string]int{}
				for _, m := range e.Machines() {
					if !m.Gone() {
						living[key(m.Type, m.Zone, m.CapacityType)]++
					}
				}
				for k, n := range living {
					if n > limit {
						rt.Fatalf("%d of %s sold, there are %d", n, k, limit)
					}
				}
			}
			return e.Machines(), e.Events(0)
		}
		m1, e1 := run()
		m2, e2 := run()
		if d := cmp.Diff(m1, m2); d != "" {
			rt.Fatalf("machines differ:\n%s", d)
		}
		if d := cmp.Diff(e1, e2); d != "" {
			rt.Fatalf("events differ:\n%s", d)
		}
	})
}
