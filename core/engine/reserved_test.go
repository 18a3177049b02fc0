package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// reserving is a world whose node class has the given reservations, with so many
// instances left in each.
func reserving(pods []*model.Pod, left map[string]int, reservations []model.Reservation, pools ...*model.Pool) *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023", Reservations: reservations}
	return &model.World{Now: mt.Now, Pods: pods, Pools: pools, NodeClasses: map[string]*model.NodeClass{mt.Class: class}, Settings: model.Settings{ReservedCapacity: true},
		Offerings: map[string][]*model.Offering{mt.Class: catalogue.Embedded().Offerings(class, nil, catalogue.Options{ReservationCounts: left, Now: mt.Now})}}
}

func TestReservedCapacity(t *testing.T) {
	t.Parallel()
	in := func(id, zone string) model.Reservation {
		return model.Reservation{ID: id, InstanceType: "m5.large", Zone: zone, Type: "default"}
	}
	ended := in("cr-1", "us-east-1a")
	ended.End = &mt.Now
	expiring := in("cr-1", "us-east-1a")
	expiring.Expiring = true
	block := in("cr-1", "us-east-1a")
	block.Type = "capacity-block"
	later := mt.Now.Add(time.Hour)
	block.End = &later
	every := mt.Pool("p", mt.Types("m5.large"))
	reservedOnly := mt.Pool("p", mt.Types("m5.large"), mt.CapacityType(model.Reserved))
	heavy := mt.Pool("heavy", mt.Types("m5.large"))
	heavy.Weight = 10
	onTheWay := func(ids ...string) *model.Node {
		return &model.Node{Labels: map[string]string{model.LabelPool: "p"}, Claim: &model.Claim{Name: "c1", Requirements: require.NewSet(require.Must(model.LabelReservationID, require.In, ids...))}}
	}
	launched := onTheWay("cr-1")
	launched.Claim.ProviderID = "aws:///us-east-1a/i-1"
	for _, c := range []struct {
		name     string
		pods     []*model.Pod
		left     map[string]int
		in       []model.Reservation
		pools    []*model.Pool
		nodes    []*model.Node
		off      bool // the gate
		want     map[string]int
		unplaced int
		reason   string
	}{
		{name: "first what is paid for, then the rest", left: map[string]int{"cr-1": 2}, in: []model.Reservation{in("cr-1", "us-east-1a")}, want: map[string]int{"cr-1": 2, model.Spot: 3}},
		{name: "one that nobody counts is one", in: []model.Reservation{in("cr-1", "us-east-1a")}, want: map[string]int{"cr-1": 1, model.Spot: 4}},
		{name: "two in one zone", left: map[string]int{"cr-1": 1, "cr-2": 2}, in: []model.Reservation{in("cr-1", "us-east-1a"), in("cr-2", "us-east-1a")}, want: map[string]int{"cr-1": 1, "cr-2": 2, model.Spot: 2}},
		{name: "pools of different weight draw on one count", pods: slices.Concat(mt.Pods(3, "a", 1500, 0, mt.Requires(own(model.LabelPool, require.In, "heavy"))), mt.Pods(3, "b", 1500, 0, mt.Requires(own(model.LabelPool, require.In, "p")))),
			left: map[string]int{"cr-1": 4}, in: []model.Reservation{in("cr-1", "us-east-1a")}, pools: []*model.Pool{every, heavy}, want: map[string]int{"cr-1": 4, model.Spot: 2}},
		{name: "gate off", off: true, left: map[string]int{"cr-1": 2}, in: []model.Reservation{in("cr-1", "us-east-1a")}, want: map[string]int{model.Spot: 5}},
		{name: "gate off, nothing else", off: true, left: map[string]int{"cr-1": 2}, in: []model.Reservation{in("cr-1", "us-east-1a")}, pools: []*model.Pool{reservedOnly}, want: map[string]int{}, unplaced: 5, reason: "the feature gate ReservedCapacity is off"},
		{name: "used up by this plan", left: map[string]int{"cr-1": 2}, in: []model.Reservation{in("cr-1", "us-east-1a")}, pools: []*model.Pool{reservedOnly}, want: map[string]int{"cr-1": 2}, unplaced: 3,
			reason: "capacity reservation cr-1 (m5.large in us-east-1a) had 2 instances left"},
		{name: "none left", left: map[string]int{"cr-1": 0}, in: []model.Reservation{in("cr-1", "us-east-1a")}, pools: []*model.Pool{reservedOnly}, want: map[string]int{}, unplaced: 5, reason: "the reservation is used up"},
		{name: "ended", left: map[string]int{"cr-1": 2}, in: []model.Reservation{ended}, want: map[string]int{model.Spot: 5}},
		{name: "expiring", left: map[string]int{"cr-1": 2}, in: []model.Reservation{expiring}, want: map[string]int{model.Spot: 5}},
		{name: "a capacity block, asked for by its type", pods: mt.Pods(2, "a", 1500, 0, mt.Requires(own(model.LabelReservationType, require.In, "capacity-block"))),
			left: map[string]int{"cr-1": 5, "cr-2": 5}, in: []model.Reservation{block, in("cr-2", "us-east-1b")}, want: map[string]int{"cr-1": 2}},
		{name: "on the way and not launched", left: map[string]int{"cr-1": 3}, in: []model.Reservation{in("cr-1", "us-east-1a")}, nodes: []*model.Node{onTheWay("cr-0", "cr-1")}, want: map[string]int{"cr-1": 2, model.Spot: 3}},
		{name: "launched: EC2 has counted it", left: map[string]int{"cr-1": 3}, in: []model.Reservation{in("cr-1", "us-east-1a")}, nodes: []*model.Node{launched}, want: map[string]int{"cr-1": 3, model.Spot: 2}},
		{name: "a pool that asks for on-demand", left: map[string]int{"cr-1": 3}, in: []model.Reservation{in("cr-1", "us-east-1a")}, pools: []*model.Pool{mt.Pool("p", mt.Types("m5.large"), mt.CapacityType(model.OnDemand))}, want: map[string]int{model.OnDemand: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.pods == nil {
				c.pods = mt.Pods(5, "a", 1500, 0)
			}
			if c.pools == nil {
				c.pools = []*model.Pool{every}
			}
			w := reserving(c.pods, c.left, c.in, c.pools...)
			w.Settings.ReservedCapacity = !c.off
			w.Nodes = c.nodes
			r := place(t, w, nil)
			got := map[string]int{}
			for _, n := range r.New {
				if n.Offering.CapacityType != model.Reserved {
					got[n.Offering.CapacityType]++
					continue
				}
				id := n.Offering.ReservationID
				got[id]++
				want := map[string][]string{model.LabelReservationID: {id}, model.LabelCapacityType: {model.Reserved}}
				for key, values := range want {
					if q, ok := n.Requirements.Get(key); !ok || !q.Finite() || !slices.Equal(q.Values, values) || n.Labels[key] != values[0] {
						t.Errorf("%s: requirement %v, label %q; want %s In %v", n.Name, q, n.Labels[key], key, values)
					}
				}
				if len(n.Alternatives) > 0 {
					t.Errorf("%s of a reservation names %d alternatives", n.Name, len(n.Alternatives))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if len(r.Unplaced) != c.unplaced {
				t.Fatalf("%d unplaced, want %d", len(r.Unplaced), c.unplaced)
			}
			for _, v := range r.Unplaced {
				if x := v.Reasons[0]; x.Filter != model.FilterOfferings || !strings.Contains(x.Message, c.reason) {
					t.Errorf("reason %+v, want %q", x, c.reason)
				}
			}
		})
	}
}

// TestReservedBound: what is paid for lowers the bound by no more than it can carry.
func TestReservedBound(t *testing.T) {
	t.Parallel()
	pods := mt.Pods(40, "a", 1500, 0)
	pool := mt.Pool("p", mt.Types("m5.large"), mt.CapacityType(model.OnDemand, model.Reserved))
	r := place(t, reserving(pods, map[string]int{"cr-1": 4}, []model.Reservation{{ID: "cr-1", InstanceType: "m5.large", Zone: "us-east-1a"}}, pool), nil)
	if usd := total(r); r.Bound < 0.5*usd || usd < 36*0.096 || usd > 36*0.096+0.001 {
		t.Errorf("the plan costs %v, the bound is %v; 36 nodes of 40 are paid for", usd, r.Bound)
	}
}

// TestReservationsNeverOverdrawn draws pools, classes and reservations: no plan buys
// more of a reservation than is left in it, whatever draws on it.
func TestReservationsNeverOverdrawn(t *testing.T) {
	t.Parallel()
	types := []string{"m5.large", "m5.xlarge", "c5.large", "r5.xlarge"}
	var few []*catalogue.Type
	for _, n := range types {
		few = append(few, catalogue.Embedded().Get(n))
	}
	rapid.Check(t, func(t *rapid.T) {
		left := map[string]int{}
		var list []model.Reservation
		for i := range rapid.IntRange(1, 5).Draw(t, "reservations") {
			id := fmt.Sprintf("cr-%d", i)
			left[id] = rapid.IntRange(0, 6).Draw(t, "left")
			list = append(list, model.Reservation{ID: id, InstanceType: rapid.SampledFrom(types).Draw(t, "type"), Zone: rapid.SampledFrom(catalogue.DefaultZones).Draw(t, "zone")})
		}
		var pods []*model.Pod
		for g := range rapid.IntRange(1, 5).Draw(t, "kinds of pods") {
			var opts []func(*model.Pod)
			switch rapid.IntRange(0, 4).Draw(t, "wish") {
			case 0:
				opts = append(opts, mt.Requires(mt.CapacityType(model.Reserved)))
			case 1:
				opts = append(opts, mt.Requires(mt.Zones("us-east-1b")))
			}
			pods = append(pods, mt.Pods(rapid.IntRange(1, 12).Draw(t, "pods"), fmt.Sprintf("g%d", g), rapid.Int64Range(100, 3500).Draw(t, "cpu"), rapid.Int64Range(100, 12000).Draw(t, "memory"), opts...)...)
		}
		w := &model.World{Now: mt.Now, Pods: pods, NodeClasses: map[string]*model.NodeClass{}, Offerings: map[string][]*model.Offering{}, Settings: model.Settings{ReservedCapacity: true}}
		for _, name := range []string{mt.Class, "other"} {
			class := &model.NodeClass{Name: name, Family: "AL2023", Reservations: list}
			w.NodeClasses[name] = class
			w.Offerings[name] = (&catalogue.Table{Types: few}).Offerings(class, nil, catalogue.Options{ReservationCounts: left})
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
			p := mt.Pool(fmt.Sprintf("p%d", i))
			p.Weight = rapid.Int32Range(0, 2).Draw(t, "weight")
			p.NodeClass.Name = rapid.SampledFrom([]string{mt.Class, "other"}).Draw(t, "class")
			w.Pools = append(w.Pools, p)
		}
		r := priced(t, w, nil)
		used := map[string]int{}
		for _, n := range r.New {
			used[n.Offering.ReservationID]++
		}
		for id, n := range left {
			if used[id] > n {
				t.Errorf("%d instances of %s are planned, %d are left", used[id], id, n)
			}
		}
		if usd := total(r); usd < r.Bound-1e-9 {
			t.Errorf("the plan costs %v, below the bound %v", usd, r.Bound)
		}
		// what is paid for is not left over while money is spent on pods that would fit there
		for _, o := range w.Offerings[mt.Class] {
			if o.CapacityType != model.Reserved || used[o.ReservationID] >= left[o.ReservationID] {
				continue
			}
			for _, n := range r.New {
				same := n.Offering.Type == o.Type || n.Offering.Type.Name == o.Type.Name
				if same && n.Offering.CapacityType != model.Reserved && n.Offering.Zone == o.Zone && n.Pool.NodeClass.Name == mt.Class {
					t.Errorf("%s buys %s although %s has %d left", n.Name, n.Offering.Key(), o.ReservationID, left[o.ReservationID]-used[o.ReservationID])
				}
			}
		}
	})
}

// TestCheckRefusesReservations that are overdrawn, not in use, or named beside.
func TestCheckRefusesReservations(t *testing.T) {
	t.Parallel()
	list := []model.Reservation{{ID: "cr-1", InstanceType: "m5.large", Zone: "us-east-1a"}, {ID: "cr-2", InstanceType: "m5.large", Zone: "us-east-1b"}}
	for _, c := range []struct {
		name  string
		spoil func(w *model.World, p *model.Plan)
		want  string
	}{
		{"as planned", func(*model.World, *model.Plan) {}, ""},
		{"fewer left by another class", func(w *model.World, _ *model.Plan) {
			o := *w.Offerings[mt.Class][slices.IndexFunc(w.Offerings[mt.Class], func(o *model.Offering) bool { return o.ReservationID == "cr-1" })]
			o.Count = 1
			w.Offerings["other"] = []*model.Offering{&o}
		}, "reservation cr-1 has 1 left, more are planned"},
		{"a claim is on its way", func(w *model.World, _ *model.Plan) {
			w.Nodes = append(w.Nodes, &model.Node{Labels: map[string]string{model.LabelReservationID: "cr-1"}, Claim: &model.Claim{Name: "c"}})
		}, "reservation cr-1 has 1 left, more are planned"},
		{"the gate is off", func(w *model.World, _ *model.Plan) { w.Settings.ReservedCapacity = false }, "the feature gate ReservedCapacity is off"},
		{"another reservation beside", func(w *model.World, p *model.Plan) {
			i := slices.IndexFunc(w.Offerings[mt.Class], func(o *model.Offering) bool { return o.ReservationID == "cr-2" })
			p.Launch[0].Alternatives = []*model.Offering{w.Offerings[mt.Class][i]}
		}, "is of reservation cr-2, whose instances are counted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := reserving(mt.Pods(2, "a", 1500, 0), map[string]int{"cr-1": 2, "cr-2": 0}, list, mt.Pool("p", mt.Types("m5.large")))
			r := place(t, w, nil)
			p := &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}
			c.spoil(w, p)
			got := fmt.Sprint(engine.Check(w, p))
			if c.want == "" && got != "[]" || !strings.Contains(got, c.want) {
				t.Errorf("check says %s, want %q", got, c.want)
			}
		})
	}
}
