package strategy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/plugins/sdk"
)

// classWorld has a pool for each of so many node classes, with the whole catalogue in each.
func classWorld(classes int) *model.World {
	w := &model.World{Now: mt.Now.Add(time.Hour), NodeClasses: map[string]*model.NodeClass{}, Offerings: map[string][]*model.Offering{},
		Pods: mt.Pods(3, "a", 1000, 1500)}
	for i := range classes {
		class := &model.NodeClass{Name: fmt.Sprintf("class-%02d", i), Family: "AL2023"}
		w.NodeClasses[class.Name] = class
		w.Offerings[class.Name] = embedded().Offerings(class, nil, catalogue.Options{})
		p := mt.Pool(fmt.Sprintf("pool-%02d", i))
		p.NodeClass.Name = class.Name
		w.Pools = append(w.Pools, p)
	}
	return w
}

// samePrices asks a built-in in this process and in one of its own.
func samePrices(t *testing.T, w *model.World) []Call {
	t.Helper()
	calls := &heard{}
	inside := testHost(t, Config{})
	outside := testHost(t, bound(fakeSpec(t, "cost-optimal", "builtin", "cost-optimal")), func(o *Options) { o.OnCall = calls.on })
	settle(t, outside)
	want, err := inside.Price(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time with what the process holds
		got, err := outside.Price(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in process (-) and as a process (+):\n%.2000s", diff)
		}
	}
	return calls.level(LevelPrice)
}

// A catalogue that is too large for one message goes in parts; strategies answer for all pools.
func TestThirtyClasses(t *testing.T) {
	t.Parallel()
	w := classWorld(30)
	for _, c := range samePrices(t, w) {
		if c.Outcome != OK || len(c.Pools) != 30 {
			t.Errorf("%s for %d pools: %v", c.Outcome, len(c.Pools), c.Err)
		}
	}
}

// More pools than go into one message are asked about in several.
func TestThousandAndOnePools(t *testing.T) {
	t.Parallel()
	w := testWorld()
	steady := w.Pools[1]
	for i := range sdk.MaxPools - 1 {
		p := *steady
		p.Name = fmt.Sprintf("pool-%d", i)
		w.Pools = append(w.Pools, &p)
	}
	for _, c := range samePrices(t, w) {
		if c.Outcome != OK || len(c.Pools) != sdk.MaxPools+1 {
			t.Errorf("%s for %d pools: %v", c.Outcome, len(c.Pools), c.Err)
		}
	}
}

// largeCatalogue has some classes with so many offerings each.
func largeCatalogue(classes, offerings int) *sdk.Catalogue {
	c := &sdk.Catalogue{}
	for i := range classes {
		typ := &sdk.InstanceType{Name: "m5.large", NodeClass: fmt.Sprintf("class-%d", i)}
		for range offerings {
			c.Offerings = append(c.Offerings, sdk.Offering{Type: typ, Zone: "a", CapacityType: sdk.Spot})
		}
	}
	return c
}

// Moves are asked about with all that they buy, whatever shelf it is on; a class that is too
// large by itself is refused before anything is sent.
func TestShelves(t *testing.T) {
	t.Parallel()
	const each = sdk.MaxOfferings * 2 / 5 // two stand together
	c := largeCatalogue(4, each)
	s := newShelves(c)
	req := &sdk.ScoreRequest{Catalogue: c, Pools: []sdk.Pool{{Name: "a", NodeClass: "class-0"}, {Name: "b", NodeClass: "class-3"}}, Moves: []sdk.Move{
		{Pool: 0, Launch: []sdk.LaunchedNode{{Offering: each + 1}}},
		{Pool: 1, Launch: []sdk.LaunchedNode{{Offering: 7}}, Remove: []sdk.RemovedNode{{Offering: 2*each + 5}, {Offering: -1}}},
	}}
	cuts, err := s.cutScores(req)
	if err != nil || len(cuts) != 2 {
		t.Fatalf("%d cuts (%v), want 2", len(cuts), err)
	}
	for i, want := range []string{"class-0", "class-0"} {
		m := cuts[i].req.Moves[0]
		o := cuts[i].req.Catalogue.Offerings
		if len(o) != 2*each || m.Pool != 0 || len(cuts[i].req.Pools) != 1 || o[0].Type.NodeClass != want {
			t.Errorf("cut %d: %d offerings, pool %d of %d", i, len(o), m.Pool, len(cuts[i].req.Pools))
		}
	}
	if m := cuts[0].req.Moves[0]; m.Launch[0].Offering != each+1 {
		t.Errorf("it buys %d, want %d", m.Launch[0].Offering, each+1)
	}
	if m := cuts[1].req.Moves[0]; m.Launch[0].Offering != 7 || m.Remove[0].Offering != -1 || m.Remove[1].Offering != -1 {
		t.Errorf("the second cut: %+v", m)
	}
	if req.Moves[1].Remove[0].Offering != 2*each+5 {
		t.Error("the whole question was changed")
	}
	_, err = newShelves(largeCatalogue(1, sdk.MaxOfferings+1)).cutPrices(&sdk.PriceRequest{})
	if outcome(err, false) != Refused || !strings.Contains(err.Error(), `node class "class-0" has 200001 offerings`) {
		t.Errorf("a class that is too large: %v", err)
	}
}

// What is wrong for one pool is answered by the next rung for this pool alone.
func TestOneBadPool(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[string]Outcome{"nan": Invalid, "short": Invalid, "foreign-offering": Invalid} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			calls := &heard{}
			h := testHost(t, bound(fakeSpec(t, "fake", behaviour)), func(o *Options) { o.OnCall = calls.on })
			settle(t, h)
			prices, err := h.Price(t.Context(), testWorld())
			if err != nil {
				t.Fatal(err)
			}
			if p := prices.ByPool["default"]; p.Outcome != string(want) || p.Strategy != "cost-optimal 1.0.0" || len(p.Offerings) != 4 {
				t.Errorf("the bad one is answered by %q, outcome %s", p.Strategy, p.Outcome)
			}
			if p := prices.ByPool["steady"]; p.Outcome != string(OK) || p.Strategy != "fake 0.1" || len(p.Offerings) != 4 {
				t.Errorf("the good one is answered by %q, outcome %s", p.Strategy, p.Outcome)
			}
			c := calls.level(LevelPrice)
			if len(c) != 1 || c[0].Outcome != want || cmp.Diff(c[0].FellBack, []string{"default"}) != "" || !strings.Contains(c[0].Err.Error(), `pool "default"`) {
				t.Errorf("calls %+v", c)
			}
		})
	}
}

// A verdict that makes no sense is a fault of the moves of its pool.
func TestOneBadVerdict(t *testing.T) {
	t.Parallel()
	spec := fakeSpec(t, "fake", "nan")
	h := testHost(t, Config{Strategies: []Spec{spec}, Consolidation: "fake"})
	settle(t, h)
	w := testWorld()
	move := func(pool string) *model.Command {
		n := mt.Node(pool+"-node", 1000, 1000, nil, mt.Managed(pool))
		return &model.Command{Reason: model.Empty, Remove: []*model.Node{n}, Before: 1}
	}
	got, err := h.Score(t.Context(), w, []*model.Command{move("default"), move("steady"), move("default")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Outcome{Invalid, OK, Invalid} {
		if own := got[i].Strategy == "fake 0.1"; got[i].Outcome != string(want) || own != (want == OK) {
			t.Errorf("move %d: outcome %s by %q", i, got[i].Outcome, got[i].Strategy)
		}
	}
}

// Where one strategy finds no moves, those of the others stand.
func TestOneBadProposer(t *testing.T) {
	t.Parallel()
	calls := &heard{}
	h := testHost(t, Config{Strategies: []Spec{fakeSpec(t, "bad", "proposes", "panics"), fakeSpec(t, "good", "proposes", "well")}, Consolidation: "good"},
		func(o *Options) { o.OnCall = calls.on })
	settle(t, h)
	w := moveWorld()
	other := *w.Pools[0]
	other.Name, other.Annotations = "q", map[string]string{model.AnnotationConsolidation: "bad"}
	w.Pools = append(w.Pools, &other)
	more := moveWorld().Nodes[0]
	more.Name, more.Labels[model.LabelPool] = "spare", "q"
	w.Nodes = append(w.Nodes, more)
	score := func(moves []*model.Command) []model.MoveScore {
		out, err := h.Score(t.Context(), w, moves)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	plan := disrupt.Plan(w, nil, score, disrupt.Options{Propose: h.Proposer(t.Context(), w)})
	if n := len(calls.level(LevelPropose)); n != 2 {
		t.Errorf("%d questions at level propose, want one for each strategy", n)
	}
	own := map[string]bool{}
	for _, c := range plan.Commands {
		for _, n := range c.Remove {
			own[n.ID()] = strings.Contains(c.Why, "simulated")
		}
	}
	if !own["empty"] {
		t.Errorf("the proposals of the good one are gone: %v", own)
	}
	if by, gone := own["spare"]; !gone || by {
		t.Errorf("the planner's own move of the bad one's pool: %v", own)
	}
}

// meeting is a planner that answers when so many are asked at once.
type meeting struct {
	planFake
	all *sync.WaitGroup
}

func (m *meeting) Plan(ctx context.Context, req *sdk.PlanRequest) (*sdk.PlanAnswer, error) {
	m.all.Done()
	met := make(chan struct{})
	go func() { m.all.Wait(); close(met) }()
	select {
	case <-met:
		return packed(req), nil
	case <-ctx.Done():
		return nil, errors.New("the other one was not asked meanwhile")
	}
}

// Strategies that pack by themselves are asked at once; a pod that two plan for is the first one's.
func TestDraftsAtOnce(t *testing.T) {
	t.Parallel()
	calls := &heard{}
	h := testHost(t, Config{}, func(o *Options) { o.OnCall = calls.on; o.CallTimeout = 20 * time.Second })
	var all sync.WaitGroup
	all.Add(2)
	for _, name := range []string{"cost-optimal", "first-fit"} {
		f := &meeting{planFake{fake: &fake{args: []string{"well"}}}, &all}
		if err := f.Configure(nil); err != nil {
			t.Fatal(err)
		}
		h.extra[name].local = f
		if s := h.current.slots[name]; s != nil {
			s.local = f
		}
	}
	w := draftWorld()
	second := mt.Pool("q")
	second.Annotations = map[string]string{model.AnnotationInstanceSelection: "first-fit"}
	w.Pools = append(w.Pools, second)
	prices, err := h.Price(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	got := h.Draft(t.Context(), w, prices)
	for _, c := range calls.level(LevelPlan) {
		if c.Outcome != OK {
			t.Errorf("%s: %s, %v", c.Strategy, c.Outcome, c.Err)
		}
	}
	if len(got.Drafts) == 0 || !strings.HasPrefix(got.Drafted, "cost-optimal ") || strings.Contains(got.Drafted, "first-fit") {
		t.Errorf("%d drafts by %q", len(got.Drafts), got.Drafted)
	}
	seen := map[*model.Pod]bool{}
	for _, d := range got.Drafts {
		for _, p := range d.Pods {
			if seen[p] {
				t.Fatalf("pod %s is on two nodes", p.Name)
			}
			seen[p] = true
		}
	}
}

// A process that does not take its catalogue is replaced after the first call; the call was
// answered by the built-in.
func TestCatalogueIsNotTaken(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "fake", "well")), func(o *Options) { o.CallTimeout = 100 * time.Millisecond })
	settle(t, h)
	first := statusOf(h, "fake").PID
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if p := price(t, h); p.Outcome != string(Late) || p.Strategy != "cost-optimal 1.0.0" {
		t.Errorf("answered by %q, outcome %s", p.Strategy, p.Outcome)
	}
	until(t, "a new process", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.PID != first })
}
