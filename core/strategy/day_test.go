package strategy

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/plugins/sdk"
)

// TestRecordedDayIsPlannedAgain records a world whose pods may not go everywhere, reads it
// back and plans: the pods are where they may be, at the price of then.
func TestRecordedDayIsPlannedAgain(t *testing.T) {
	t.Parallel()
	w := testWorld()
	team := require.Must("team", require.In, "a")
	w.Pools[0].Requirements = require.NewSet(team, require.Must(model.LabelPool, require.In, "default"))
	w.Pools[1].Requirements = w.Pools[1].Requirements.With(require.Must(model.LabelPool, require.In, "steady"))
	w.Pools[1].Taints = []model.Taint{{Key: "steady", Effect: "NoSchedule"}}
	pod := func(name string, terms ...require.Set) *model.Pod {
		return &model.Pod{UID: name, Namespace: "x", Name: name, Requests: resource.New(1500, 1<<30, 1, 0), Terms: terms}
	}
	tolerant := pod("tolerant", require.NewSet(require.Must(model.LabelCapacityType, require.In, model.OnDemand)))
	tolerant.Tolerations = []model.Toleration{{Operator: "Exists"}}
	spread := pod("spread", require.Set{})
	spread.Topology = &model.Topology{Spreads: []model.Spread{{}}}
	w.Pods = []*model.Pod{
		pod("plain-1", require.Set{}), pod("plain-2", require.Set{}), // both in the pool without a taint
		pod("zonal", require.NewSet(team, require.Must(model.LabelZone, require.In, "us-east-1b"))),
		tolerant, spread,
		pod("nowhere", require.NewSet(require.Must("team", require.In, "b"))),
	}
	m := newMarket(w.Offerings)
	req := m.priceRequest(w, w.Pools)
	dir := t.TempDir()
	r := newRecorder(RecordOptions{Folder: dir}, testLog())
	p := problem{kind: sdk.InstanceSelection, level: LevelPrice, input: req, hash: m.hash, world: w}
	r.later(func() error {
		return r.call(&Record{Strategy: "x", Kind: p.kind, Level: p.level, Outcome: Late}, p, nil)
	})
	r.end()
	files, err := RecordFiles(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	records, err := readAll(t, files[0])
	if err != nil {
		t.Fatal(err)
	}
	again, together, err := records[0].World()
	if err != nil {
		t.Fatal(err)
	}
	if together != 1 || len(again.Pods) != 5 || records[0].Title() == "" || !records[0].SameProblem(records[0]) {
		t.Errorf("%d pods, %d of them with others, want 5 and 1: one may be nowhere", len(again.Pods), together)
	}
	plan := provision.Plan(again, nil)
	where := map[string]int{}
	for _, n := range plan.Launch {
		where[n.Pool.Name+" "+n.Offering.Key()] += len(n.Pods)
	}
	got := map[string]int{}
	for place, n := range where {
		got[strings.Replace(place, "us-east-1a/spot", "us-east-1b/spot", 1)] += n // both zones cost the same
	}
	if len(plan.Unplaced) > 0 || got["default m6a.large/us-east-1b/spot"] != 4 || len(got) != 2 {
		t.Errorf("placed %v, %d without a place", where, len(plan.Unplaced))
	}
	for place, n := range where {
		if strings.HasSuffix(place, model.OnDemand) && n != 1 {
			t.Errorf("%d pods on %s, want the one that asks for it", n, place)
		}
	}
	if diff := cmp.Diff(w.Offerings["default"][1].USDPerHour, again.Offerings["default"][1].USDPerHour); diff != "" {
		t.Error(diff)
	}
	if _, _, err := (&Recorded{Call: &Record{}, Input: req}).World(); err == nil {
		t.Error("a problem without pods was planned for")
	}
	bad := bytes.Replace(mustRead(t, files[0]), []byte(`"operator":"In"`), []byte(`"operator":"Like"`), 1)
	for _, err := range ReadRecords(bytes.NewReader(bad), "day") {
		if err != nil && !strings.Contains(err.Error(), "day:2: expected pods that can wait") {
			t.Errorf("error %v", err)
		} else if err == nil {
			t.Error("an operator that there is not was read")
		}
	}
}

// TestProblemsThatDifferAreNotRepeats changes one part of a request at a time: only the
// instant within the hour may be another.
func TestProblemsThatDifferAreNotRepeats(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 3, 10, 0, 0, time.UTC)
	problem := func(change func(*sdk.PriceRequest, *Record)) *Recorded {
		req := &sdk.PriceRequest{Catalogue: &sdk.Catalogue{}, Now: at, USDPerHour: []float64{0.1, 0.2}, Health: map[int]sdk.Health{1: {Available: true, Shortages: 1}},
			Pools:       []sdk.Pool{{Name: "a", Offerings: []int{0, 1}, Running: []sdk.Running{{Offering: 1, Nodes: 2}}}},
			Commitments: []sdk.Commitment{{Name: "plan", USDPerHour: 1}}, Demand: sdk.Demand{Pods: 1}}
		call := &Record{Catalogue: "c", Waiting: []PodGroup{{Count: 1, Requests: map[string]int64{"cpu": 1000}}}}
		if change != nil {
			change(req, call)
		}
		return &Recorded{Call: call, Input: req}
	}
	one := problem(nil)
	for name, change := range map[string]func(*sdk.PriceRequest, *Record){
		"nothing": nil,
		"seconds": func(r *sdk.PriceRequest, _ *Record) { r.Now = at.Add(49 * time.Minute) },
		"another catalogue of the same content": func(r *sdk.PriceRequest, _ *Record) {
			r.Catalogue = &sdk.Catalogue{Offerings: []sdk.Offering{}}
		},
	} {
		if !one.SameProblem(problem(change)) {
			t.Errorf("%s is another, and it is another problem", name)
		}
	}
	for name, change := range map[string]func(*sdk.PriceRequest, *Record){
		"the hour":             func(r *sdk.PriceRequest, _ *Record) { r.Now = at.Add(50 * time.Minute) },
		"the day":              func(r *sdk.PriceRequest, _ *Record) { r.Now = at.Add(24 * time.Hour) },
		"a price":              func(r *sdk.PriceRequest, _ *Record) { r.USDPerHour[0] = 0.3 },
		"a shortage":           func(r *sdk.PriceRequest, _ *Record) { r.Health[0] = sdk.Health{} },
		"a count of shortages": func(r *sdk.PriceRequest, _ *Record) { r.Health[1] = sdk.Health{Available: true, Shortages: 2} },
		"which pool":           func(r *sdk.PriceRequest, _ *Record) { r.Pools[0].Name = "b" },
		"what a pool may buy":  func(r *sdk.PriceRequest, _ *Record) { r.Pools[0].Offerings = []int{1} },
		"an annotation":        func(r *sdk.PriceRequest, _ *Record) { r.Pools[0].Annotations = map[string]string{"x": "y"} },
		"what runs":            func(r *sdk.PriceRequest, _ *Record) { r.Pools[0].Running[0].Nodes = 3 },
		"a commitment":         func(r *sdk.PriceRequest, _ *Record) { r.Commitments[0].UsedUSDPerHour = 0.5 },
		"the demand":           func(r *sdk.PriceRequest, _ *Record) { r.Demand.CPUMilli = 1 },
		"the machines":         func(_ *sdk.PriceRequest, c *Record) { c.Catalogue = "d" },
		"the pods": func(_ *sdk.PriceRequest, c *Record) {
			c.Waiting = []PodGroup{{Count: 2, Requests: map[string]int64{"cpu": 1000}}}
		},
	} {
		if one.SameProblem(problem(change)) {
			t.Errorf("%s is another, and it is the same problem", name)
		}
	}
	if one.SameProblem(&Recorded{Call: one.Call, Input: &sdk.ScoreRequest{}}) {
		t.Error("a call of another kind is the same problem")
	}
}
