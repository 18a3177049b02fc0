package strategy

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/plugins/sdk"
)

// planFake packs by itself, in a way that its argument names.
type planFake struct{ *fake }

func (f *planFake) Plan(ctx context.Context, req *sdk.PlanRequest) (*sdk.PlanAnswer, error) {
	how := f.args[0]
	if req.Now.Equal(sdk.SamplePlan().Now) {
		how = "well"
	}
	ans := packed(req)
	switch how {
	case "empty":
		return &sdk.PlanAnswer{}, nil
	case "waits":
		<-ctx.Done()
		return nil, ctx.Err()
	case "foreign":
		ans.Nodes[0].Pods[0].Group = 4711
	case "overfull": // everything on the first machine that there is
		for g := range req.Groups {
			if a := req.Groups[g].Allowed; len(a) > 0 {
				o := req.On(g, a[0].Pool)[0]
				return &sdk.PlanAnswer{Nodes: []sdk.PlannedNode{{Pool: a[0].Pool, Offering: o, Pods: []sdk.PodCount{{Group: g, Pods: req.Groups[g].Pods}}}}}, nil
			}
		}
	case "alone": // a machine for each pod
		var nodes []sdk.PlannedNode
		for _, n := range ans.Nodes {
			nodes = append(nodes, sdk.PlannedNode{Pool: n.Pool, Offering: n.Offering, Count: max(1, n.Count) * n.Pods[0].Pods, Pods: []sdk.PodCount{{Group: n.Pods[0].Group, Pods: 1}}})
		}
		ans.Nodes = nodes
	case "half":
		for i := range ans.Nodes {
			ans.Nodes[i].Count = max(1, ans.Nodes[i].Count/2)
		}
		ans.Nodes = ans.Nodes[:1]
	case "panics":
		panic("a bug")
	}
	return ans, nil
}

// packed buys for each group, of the first pool that may, the machine that is cheapest for
// each of its pods, and leaves alone what asks for neighbours.
func packed(req *sdk.PlanRequest) *sdk.PlanAnswer {
	ans := &sdk.PlanAnswer{}
	for g := range req.Groups {
		group := &req.Groups[g]
		if len(group.Neighbours) > 0 || len(group.Allowed) == 0 {
			continue
		}
		pool, best, each, price := group.Allowed[0].Pool, -1, int64(0), 0.0
		for _, o := range req.On(g, pool) {
			n := group.Requests.Fits(req.Room(pool, o), 8)
			if h := req.HealthOf(o); n == 0 || !h.Available {
				continue
			}
			if per := req.USDPerHour[o] / float64(n); best < 0 || per < price {
				best, each, price = o, n, per
			}
		}
		if best < 0 {
			continue
		}
		if full := group.Pods / int(each); full > 0 {
			ans.Nodes = append(ans.Nodes, sdk.PlannedNode{Pool: pool, Offering: best, Count: full, Pods: []sdk.PodCount{{Group: g, Pods: int(each)}}})
		}
		if rest := group.Pods % int(each); rest > 0 {
			ans.Nodes = append(ans.Nodes, sdk.PlannedNode{Pool: pool, Offering: best, Pods: []sdk.PodCount{{Group: g, Pods: rest}}})
		}
	}
	return ans
}

var embedded = sync.OnceValue(catalogue.Embedded)

// draftWorld has pods of two kinds, a daemon pod, room for three of the pods on a node that
// is there, and a pod that nothing holds.
func draftWorld() *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	w := &model.World{Now: mt.Now.Add(time.Hour), Pools: []*model.Pool{mt.Pool("p")}, DaemonSets: []*model.DaemonSet{mt.DaemonSet("agent", 100, 100)},
		NodeClasses: map[string]*model.NodeClass{mt.Class: class},
		Offerings:   map[string][]*model.Offering{mt.Class: embedded().Offerings(class, nil, catalogue.Options{})},
		Nodes:       []*model.Node{mt.Node("there", 3100, 8000, nil, mt.Managed("p"))}}
	w.Pods = append(mt.Pods(30, "a", 1000, 1500), mt.Pods(20, "b", 500, 4000)...)
	w.Pods = append(w.Pods, mt.Pod("giant", 1_000_000, 1))
	return w
}

// heard is a host's calls.
type heard struct {
	mu    sync.Mutex
	calls []Call
}

func (h *heard) on(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

func (h *heard) level(level string) []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Call
	for _, c := range h.calls {
		if c.Level == level {
			out = append(out, c)
		}
	}
	return out
}

// A strategy in a process of its own packs by itself: its nodes are bought, what it leaves
// out is the engine's; what is illegal, late, empty or nonsense leaves its prices.
func TestPlansOfAProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how     string
		outcome Outcome
		err     string
	}{
		{"well", OK, ""},
		{"half", OK, ""},
		{"overfull", Invalid, "the plan is illegal"},
		{"foreign", Invalid, "group 4711"},
		{"panics", Invalid, "panic: a bug"},
		{"empty", Empty, "empty"},
		{"waits", Late, ""},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			calls := &heard{}
			spec := fakeSpec(t, "solver", "plans", c.how)
			h := testHost(t, bound(spec), func(o *Options) { o.OnCall = calls.on })
			if err := h.Settled(t.Context()); err != nil {
				t.Fatal(err)
			}
			w := draftWorld()
			prices, err := h.Price(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if c.how == "waits" { // however slow this machine is, it does so for longer
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			prices = h.Draft(ctx, w, prices)
			plan := provision.Plan(w, prices)
			if bad := engine.CheckPriced(w, plan, prices); len(bad) > 0 {
				t.Fatal(bad)
			}
			if len(plan.Unplaced) != 1 || plan.Unplaced[0].Pod.Name != "giant" {
				t.Errorf("without a place: %+v", plan.Unplaced)
			}
			asked := calls.level(LevelPlan)
			if len(asked) != 1 || asked[0].Outcome != c.outcome || c.err != "" && !strings.Contains(asked[0].Err.Error(), c.err) {
				t.Fatalf("calls at level plan: %+v", asked)
			}
			if own := len(prices.Drafts) > 0; own != (c.outcome == OK) {
				t.Errorf("%d drafts with outcome %s", len(prices.Drafts), c.outcome)
			}
			if c.outcome == OK {
				if plan.Strategy != "solver 0.1" || plan.Launch[0].Offering != prices.Drafts[0].Offering {
					t.Errorf("strategy %q buys %s first, want what was drafted, %s", plan.Strategy, plan.Launch[0].Offering.Key(), prices.Drafts[0].Offering.Key())
				}
			} else if asked[0].Rung != ByPrices || prices.ByPool["p"].Outcome != string(OK) {
				t.Errorf("rung %s, prices %s, want the strategy's own prices", asked[0].Rung, prices.ByPool["p"].Outcome)
			}
		})
	}
}

// A strategy plans only for pools that no other strategy's pool outweighs, and only where
// its own prices are in force.
func TestWhoMayPlan(t *testing.T) {
	t.Parallel()
	pool := func(name string, weight int32) *model.Pool { return &model.Pool{Name: name, Weight: weight} }
	mine := &group{slot: &slot{}, pools: []*model.Pool{pool("a", 1), pool("b", 5), pool("c", 9), pool("d", 9)}}
	other := &group{slot: &slot{}, pools: []*model.Pool{pool("x", 5), pool("y", 2)}}
	prices := &model.Prices{ByPool: map[string]model.PoolPrices{}}
	for _, n := range []string{"a", "b", "c"} {
		prices.ByPool[n] = model.PoolPrices{Outcome: string(OK)}
	}
	prices.ByPool["d"] = model.PoolPrices{Outcome: string(Late)}
	names := func(list []*model.Pool) string {
		var out []string
		for _, p := range list {
			out = append(out, p.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names(mine.first([]*group{mine, other}, prices)); got != "b c" {
		t.Errorf("beside pools of weight 5: %s, want b c", got)
	}
	if got := names(mine.first([]*group{mine}, prices)); got != "a b c" {
		t.Errorf("alone: %s, want a b c", got)
	}
}

// drafted makes the calls of a plan for the pods of the draft world.
func drafted(t *testing.T, h *Host) *model.Prices {
	t.Helper()
	w := draftWorld()
	prices, err := h.Price(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return h.Draft(t.Context(), w, prices)
}

// TestRollBackOnDearDrafts: a new version that packs by itself is held to what its nodes
// cost, though its prices are those of the version before.
func TestRollBackOnDearDrafts(t *testing.T) {
	t.Parallel()
	for how, rolledBack := range map[string]bool{"alone": true, "well": false} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := testHost(t, bound(factored(t, 1, "plans", "well")), func(o *Options) { o.Cost = planCost })
			settle(t, h)
			next := factored(t, 1, "plans", how)
			next.Env = append(next.Env, "ANOTHER") // to be another program where it packs alike
			if err := h.Apply(bound(next)); err != nil {
				t.Fatal(err)
			}
			settle(t, h)
			for i := range trialPlans {
				if p := drafted(t, h); len(p.Drafts) == 0 {
					t.Fatal("no drafts")
				}
				until(t, "the comparison", func() bool {
					st := statusOf(h, "fake")
					return st.RolledBack != nil || st.Trial != nil && st.Trial.Plans == int64(i+1)
				})
			}
			st := statusOf(h, "fake")
			if (st.RolledBack != nil) != rolledBack || rolledBack && !strings.Contains(st.RolledBack.Why, "% dearer") {
				t.Errorf("rolled back %+v, trial %+v", st.RolledBack, st.Trial)
			}
			if !rolledBack && (st.Trial.USDPerHour != st.Trial.USDPerHourBefore || st.Trial.USDPerHour <= 0) {
				t.Errorf("trial %+v, want the same cost", st.Trial)
			}
		})
	}
}

// TestShadowsPack: a candidate that packs by itself is shown beside who acts by what its
// nodes would cost, and who acts by what its own do.
func TestShadowsPack(t *testing.T) {
	t.Parallel()
	solver := func(name, how string) Spec {
		s := factored(t, 1, "plans", how)
		s.Name = name
		return s
	}
	for acting, want := range map[string]func(acting, candidate PlanCost) bool{
		"cost-optimal": func(a, c PlanCost) bool { return c.Nodes > a.Nodes && c.USDPerHour > a.USDPerHour },
		"spender":      func(a, c PlanCost) bool { return a.Nodes == c.Nodes && a.USDPerHour == c.USDPerHour },
	} {
		t.Run(acting, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := Config{Strategies: []Spec{solver("candidate", "alone")}, InstanceSelection: acting, Shadow: []string{"candidate"}}
			if acting != "cost-optimal" {
				config.Strategies = append(config.Strategies, solver(acting, "alone"))
			}
			h := testHost(t, config, func(o *Options) { o.Cost = planCost; o.Records.Folder = dir })
			settle(t, h)
			until(t, "the candidate is ready", func() bool { return statusOf(h, "candidate").State == Ready })
			drafted(t, h)
			until(t, "its view", func() bool { return statusOf(h, "candidate").Shadow.Problems == 1 })
			h.Close()
			d := differences(t, dir)
			if len(d) != 1 || d[0].Outcome != OK || d[0].Acting == nil || !want(*d[0].Acting, *d[0].Candidate) {
				t.Errorf("differences %+v", d)
			}
		})
	}
}

// differences is what shadows made of problems, as it was recorded in a folder.
func differences(t *testing.T, dir string) (out []*Difference) {
	t.Helper()
	files, err := RecordFiles(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		records, err := readAll(t, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			out = append(out, r.Shadow)
		}
	}
	return out
}
