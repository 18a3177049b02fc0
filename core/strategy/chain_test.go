package strategy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// drawPrices is any legal answer to the sample request.
func drawPrices(t *rapid.T, req *sdk.PriceRequest, name string) *sdk.PriceAnswer {
	draw := func(what string, least, most float64) float64 {
		return rapid.Float64Range(least, most).Draw(t, name+" "+what)
	}
	share := func() float64 { return math.Round(draw("share", 0, 1)*100) / 100 }
	ans := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
	for i := range req.Pools {
		p := &ans.Pools[i]
		p.FeePerNode, p.LargestFirst = draw("fee", 0, 1), rapid.Bool().Draw(t, name+" large")
		for _, o := range req.Pools[i].Offerings {
			usd := req.USDPerHour[o] * rapid.SampledFrom([]float64{0, 0.5, 1, 1, 1, 2, 1e9}).Draw(t, name+" factor")
			usd = math.Min(usd, sdk.MaxUSDPerHour)
			p.USDPerHour = append(p.USDPerHour, usd)
			if rapid.IntRange(0, 4).Draw(t, name+" stepped") == 0 {
				if p.Steps == nil {
					p.Steps = map[int][]sdk.Step{}
				}
				p.Steps[o] = []sdk.Step{{USDPerHour: usd / 4, Nodes: rapid.IntRange(1, 5).Draw(t, name+" nodes"), Shared: rapid.SampledFrom([]string{"", "plan"}).Draw(t, name+" shared")}, {USDPerHour: usd}}
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, name+" vetoes") {
			p.Vetoes = append(p.Vetoes, sdk.Veto{Reason: "no " + name, Offerings: []int{rapid.SampledFrom(req.Pools[i].Offerings).Draw(t, name+" veto")}})
		}
		for k := range rapid.IntRange(0, 3).Draw(t, name+" limits") {
			l := sdk.Limit{Name: fmt.Sprintf("%s %d", name, k)}
			switch rapid.IntRange(0, 2).Draw(t, name+" rule") {
			case 0:
				least, most := share(), share()
				l.Share = &sdk.Share{Selector: sdk.Selector{{Key: sdk.LabelZone, Values: []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, name+" zone")}}},
					Min: min(least, most), Max: max(least, most), Measure: sdk.MeasureCPU}
			case 1:
				l.PodsPerNode = &sdk.PodsPerNode{Max: rapid.IntRange(0, 3).Draw(t, name+" pods"), Share: math.Max(share(), 0.01)}
			default:
				l.Variety = &sdk.Variety{Over: rapid.SampledFrom([]sdk.Over{sdk.OverZones, sdk.OverSpotPools}).Draw(t, name+" over"), Min: rapid.IntRange(1, 5).Draw(t, name+" least")}
			}
			p.Limits = append(p.Limits, l)
		}
	}
	if err := sdk.CheckPrices(req, ans); err != nil {
		t.Fatalf("the test draws an illegal answer: %v", err)
	}
	return ans
}

func drawWeight(t *rapid.T, name string) float64 {
	return rapid.SampledFrom([]float64{0.1, 0.5, 1, 1, 2, 100}).Draw(t, name+" weight")
}

// TestCombinedPrices: one alone is itself, a member that says the market's prices changes
// none, what comes out is legal and the same each time, every veto holds, and no limit is
// wider than that of any member.
func TestCombinedPrices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req := sdk.SamplePrice()
		var parts []pricePart
		for i := range rapid.IntRange(1, 4).Draw(t, "members") {
			name := fmt.Sprintf("m%d", i)
			parts = append(parts, pricePart{ChainMember{Strategy: name, Weight: drawWeight(t, name)}, drawPrices(t, req, name)})
		}
		alone := parts[0]
		alone.Weight = 1
		one, err := combinePrices(req, []pricePart{alone})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(alone.answer, one); diff != "" {
			t.Fatalf("a chain of one is not itself: %s", diff)
		}
		market := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
		for i := range req.Pools {
			for _, o := range req.Pools[i].Offerings {
				market.Pools[i].USDPerHour = append(market.Pools[i].USDPerHour, req.USDPerHour[o])
			}
		}
		beside, err := combinePrices(req, []pricePart{alone, {ChainMember{Strategy: "market", Weight: drawWeight(t, "market")}, market}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range beside.Pools {
			if diff := cmp.Diff(alone.answer.Pools[i].USDPerHour, beside.Pools[i].USDPerHour); diff != "" {
				t.Fatalf("the market's prices beside change prices: %s", diff)
			}
		}
		first, err := combinePrices(req, parts)
		if err != nil {
			t.Fatal(err)
		}
		if err := sdk.CheckPrices(req, first); err != nil {
			t.Fatalf("illegal: %v", err)
		}
		again, err := combinePrices(req, parts)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("another answer to the same question: %s", diff)
		}
		holds(t, parts, first)
	})
}

// holds checks that all vetoes and limits of the members hold in the combined answer.
func holds(t *rapid.T, parts []pricePart, got *sdk.PriceAnswer) {
	for _, p := range parts {
		for i, pool := range p.answer.Pools {
			vetoed := map[int]bool{}
			for _, v := range got.Pools[i].Vetoes {
				for _, o := range v.Offerings {
					vetoed[o] = true
				}
			}
			for _, v := range pool.Vetoes {
				if !vetoed[v.Offerings[0]] {
					t.Fatalf("%s vetoes offering %d, and it may be bought", p.Strategy, v.Offerings[0])
				}
			}
			for _, l := range pool.Limits {
				if !slices.ContainsFunc(got.Pools[i].Limits, func(x sdk.Limit) bool { return asTight(x, l) }) {
					t.Fatalf("limit %+v of %s is not in %+v", l, p.Strategy, got.Pools[i].Limits)
				}
			}
		}
	}
}

// asTight says whether what keeps x keeps l, but for a least share that a wall of another
// member does not allow.
func asTight(x, l sdk.Limit) bool {
	switch {
	case !sameRule(x, l):
		return false
	case l.Variety != nil:
		return x.Variety.Min >= l.Variety.Min
	case l.PodsPerNode != nil:
		return (l.PodsPerNode.Max == 0 || x.PodsPerNode.Max > 0 && x.PodsPerNode.Max <= l.PodsPerNode.Max) && x.PodsPerNode.Share <= l.PodsPerNode.Share
	}
	return x.Share.Max <= l.Share.Max && (x.Share.Min >= l.Share.Min || x.Share.Min == x.Share.Max)
}

// TestCombine: prices as factors of the market's.
func TestCombine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		market float64
		said   []priced
		want   float64
	}{
		"nobody departs":           {2, []priced{{2, 1}, {2, 5}}, 2},
		"one departs":              {2, []priced{{2, 3}, {1.7, 1}}, 1.7},
		"one departs, half":        {2, []priced{{0.5, 0.5}}, 1},
		"both depart":              {2, []priced{{1, 1}, {4, 1}}, 2},
		"factors multiply":         {2, []priced{{1, 1}, {1, 1}}, 0.5},
		"the same by its weight":   {2, []priced{{1, 2}}, 0.5},
		"nothing is nothing":       {2, []priced{{0, 0.1}, {1e6, 100}}, 0},
		"without a market":         {0, []priced{{1, 1}, {3, 0.1}}, 3},
		"no more than is believed": {2, []priced{{1e6, 100}}, sdk.MaxUSDPerHour},
	} {
		if got := combine(c.market, c.said); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestCombinedScores: one alone is itself, all have to accept, and the score is a mean.
func TestCombinedScores(t *testing.T) {
	t.Parallel()
	req := sdk.SampleScore()
	say := func(verdicts ...sdk.Verdict) *sdk.ScoreAnswer {
		return &sdk.ScoreAnswer{Verdicts: append(verdicts, make([]sdk.Verdict, len(req.Moves)-len(verdicts))...)}
	}
	a := say(sdk.Verdict{Accept: true, Score: 4, Reason: "saves"}, sdk.Verdict{Accept: true, Score: 1}, sdk.Verdict{Score: 2, Reason: "too little"})
	b := say(sdk.Verdict{Accept: true, Score: 1, Reason: "clean"}, sdk.Verdict{Reason: "not now"}, sdk.Verdict{Score: 2, Reason: strings.Repeat("x", 190)})
	if got := combineScores(req, []scorePart{{ChainMember{Strategy: "a", Weight: 7}, a}}); got != a {
		t.Errorf("a chain of one is not itself: %+v", got)
	}
	got := combineScores(req, []scorePart{{ChainMember{Strategy: "a", Weight: 2}, a}, {ChainMember{Strategy: "b", Weight: 1}, b}})
	want := []sdk.Verdict{{Accept: true, Score: 3, Reason: "a: saves; b: clean"}, {Score: 2.0 / 3, Reason: "b: not now"},
		{Score: 2, Reason: "a: too little; b: " + strings.Repeat("x", 181) + "…"}}
	if diff := cmp.Diff(want, got.Verdicts[:3], cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Error(diff)
	}
	if err := sdk.CheckScores(req, &sdk.ScoreAnswer{Verdicts: got.Verdicts[:3]}); err == nil {
		t.Error("the sample has four moves") // so that the next line says something
	}
	for _, v := range got.Verdicts[:3] {
		if !v.Accept && v.Reason == "" {
			t.Errorf("refused without a reason: %+v", v)
		}
	}
}

func chainOf(members ...ChainMember) Spec { return Spec{Name: "mix", Chain: members} }

// TestChainAnswers: with members in this process and in others, whatever their order; one
// member is as that strategy by itself.
func TestChainAnswers(t *testing.T) {
	t.Parallel()
	w := workloads(6)
	ask := func(c Config) any {
		h := testHost(t, c)
		settle(t, h)
		prices, err := h.Price(context.Background(), w)
		if err != nil {
			t.Fatal(err)
		}
		p := prices.ByPool["default"]
		if p.Outcome != string(OK) {
			t.Fatalf("%s answered: %s", p.Strategy, p.Outcome)
		}
		p.Strategy = ""
		return p
	}
	alone := ask(Config{InstanceSelection: "resilient"})
	if diff := cmp.Diff(alone, ask(bound(chainOf(ChainMember{Strategy: "resilient"})))); diff != "" {
		t.Errorf("a chain of one is not itself: %s", diff)
	}
	local := ask(bound(chainOf(ChainMember{Strategy: "resilient", Weight: 0.5}, ChainMember{Strategy: "capacity-mix"}, ChainMember{Strategy: "first-fit"})))
	remote := bound(chainOf(ChainMember{Strategy: "first-fit"}, ChainMember{Strategy: "resilient", Weight: 0.5}, ChainMember{Strategy: "capacity-mix"}))
	remote.Strategies = append(remote.Strategies, fakeSpec(t, "resilient", "builtin", "resilient"), fakeSpec(t, "first-fit", "builtin", "first-fit"))
	if diff := cmp.Diff(local, ask(remote)); diff != "" {
		t.Errorf("another order, two members as processes: %s", diff)
	}
}

// TestChainGoesOn without a member that does not answer, says so, and does not without one
// that is required.
func TestChainGoesOn(t *testing.T) {
	t.Parallel()
	w := workloads(6)
	w.Now = w.Now.Add(time.Minute) // the fake behaves well at the time of the sample
	for name, c := range map[string]struct {
		members []ChainMember
		outcome Outcome
		who     string
	}{
		"left out":      {[]ChainMember{{Strategy: "broken"}, {Strategy: "cost-optimal"}}, OK, "mix cost-optimal 1."},
		"required":      {[]ChainMember{{Strategy: "broken", Required: true}, {Strategy: "cost-optimal"}}, Refused, "cost-optimal"},
		"nobody":        {[]ChainMember{{Strategy: "broken"}}, Refused, "cost-optimal"},
		"of other kind": {[]ChainMember{{Strategy: "savings"}, {Strategy: "cost-optimal"}}, OK, "mix cost-optimal 1."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var calls []Call
			cfg := bound(chainOf(c.members...))
			if c.members[0].Strategy == "broken" {
				cfg.Strategies = append(cfg.Strategies, fakeSpec(t, "broken", "negative"))
			}
			h := testHost(t, cfg, func(o *Options) {
				o.OnCall = func(c Call) {
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, c)
				}
			})
			settle(t, h)
			prices, err := h.Price(context.Background(), w)
			if err != nil {
				t.Fatal(err)
			}
			p := prices.ByPool["default"]
			if p.Outcome != string(c.outcome) || !strings.HasPrefix(p.Strategy, c.who) {
				t.Errorf("%s answered, outcome %s, want %s and %s", p.Strategy, p.Outcome, c.who, c.outcome)
			}
			var member, chain []Call
			for _, x := range calls {
				switch x.Strategy {
				case c.members[0].Strategy:
					member = append(member, x)
				case "mix":
					chain = append(chain, x)
				}
			}
			if len(member) != 1 || member[0].Rung != LeftOut || member[0].Fallback != "the rest of chain mix" || member[0].Outcome == OK || member[0].Err == nil {
				t.Errorf("calls of the member: %+v", member)
			}
			if len(chain) != 1 || (chain[0].Err == nil) != (c.outcome == OK) || chain[0].Err != nil && !strings.Contains(chain[0].Err.Error(), "member broken of the chain did not answer (invalid)") {
				t.Errorf("calls of the chain: %+v", chain)
			}
			if plan := provision.Plan(w, prices); len(plan.Unplaced) > 0 {
				t.Errorf("%d pods have no place", len(plan.Unplaced))
			}
		})
	}
}

// TestChainOfScorers judges moves, and its members can be swapped beneath it.
func TestChainOfScorers(t *testing.T) {
	t.Parallel()
	w := testWorld()
	node := &model.Node{Name: "n1", Created: w.Now.Add(-time.Hour), USDPerHour: 0.0864, PriceKnown: true, Labels: map[string]string{
		model.LabelPool: "default", model.LabelInstanceType: "m6a.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand}}
	moves := []*model.Command{{Reason: model.Empty, Remove: []*model.Node{node}, Before: 0.0864}}
	strict := Spec{Name: "savings", Config: json.RawMessage(`{"floor": 1e9}`)}
	c := Config{Consolidation: "mix", Strategies: []Spec{chainOf(ChainMember{Strategy: "savings"}), {Name: "savings", Config: json.RawMessage(`{"floor": 0}`)}}}
	h := testHost(t, c)
	judge := func() int {
		t.Helper()
		scores, err := h.Score(context.Background(), w, moves)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range scores {
			if s.Accept {
				n++
			}
		}
		return n
	}
	if n := judge(); n == 0 {
		t.Error("with a floor of 0 no move is accepted")
	}
	c.Strategies[1] = strict
	if err := h.Apply(c); err != nil {
		t.Fatal(err)
	}
	settle(t, h)
	if n := judge(); n != 0 {
		t.Errorf("%d moves are accepted by a member with a floor beyond all", n)
	}
}

// TestBadChains are refused when they are applied.
func TestBadChains(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		`member "cost-optimal" is there twice`: bound(chainOf(ChainMember{Strategy: "cost-optimal"}, ChainMember{Strategy: "cost-optimal"})),
		`member "mix" is a chain`:              bound(chainOf(ChainMember{Strategy: "mix"})),
		`strategy "nobody" is bound, a shadow or in a chain, and neither configured nor built in`: bound(chainOf(ChainMember{Strategy: "nobody"})),
		`weight of "cost-optimal" is -1`:       bound(chainOf(ChainMember{Strategy: "cost-optimal", Weight: -1})),
		`weight of "first-fit" is NaN`:         bound(chainOf(ChainMember{Strategy: "first-fit", Weight: math.NaN()})),
		`a chain has no path, image or config`: bound(Spec{Name: "mix", Config: json.RawMessage(`{}`), Chain: []ChainMember{{Strategy: "cost-optimal"}}}),
	} {
		if _, err := New(c, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if builtin.Has("mix") {
		t.Error("the tests need a name that is not built in")
	}
}

// TestChainFromConfig: its members run as they would without it.
func TestChainFromConfig(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.StrategyBinary = filepath.Join(t.TempDir(), "weir-strategy")
	c.Bindings.InstanceSelection = "mix"
	c.Strategies["mix"] = config.Strategy{Kind: config.InstanceSelection, Isolation: config.IsolationProcess,
		Chain: []config.ChainMember{{Strategy: "resilient", Weight: 0.5}, {Strategy: "cost-optimal", Required: true}}}
	got, err := FromConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Name, Path string
		Args       []string
		Chain      []ChainMember
	}
	var lines []line
	for _, s := range got.Strategies {
		lines = append(lines, line{s.Name, s.Path, s.Args, s.Chain})
	}
	want := []line{{Name: "cost-optimal", Path: c.StrategyBinary, Args: []string{"cost-optimal"}},
		{Name: "mix", Chain: []ChainMember{{Strategy: "resilient", Weight: 0.5}, {Strategy: "cost-optimal", Required: true}}},
		{Name: "resilient", Path: c.StrategyBinary, Args: []string{"resilient"}}, {Name: "savings", Path: c.StrategyBinary, Args: []string{"savings"}}}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if _, err := got.complete(); err != nil {
		t.Error(err)
	}
}

// TestChainsAndSwaps: a chain whose weights change is on probation as any other; a member
// that turns bad is rolled back beneath it; and as a shadow it is asked, too.
func TestChainsAndSwaps(t *testing.T) {
	t.Parallel()
	w := workloads(6)
	w.Now = w.Now.Add(time.Minute)
	member := func(behaviour ...string) Spec { return fakeSpec(t, "member", behaviour...) }
	cfg := bound(chainOf(ChainMember{Strategy: "member"}, ChainMember{Strategy: "cost-optimal"}))
	cfg.Strategies = append(cfg.Strategies, member("well"), Spec{Name: "aside", Chain: []ChainMember{{Strategy: "resilient"}}})
	cfg.Shadow = []string{"aside"}
	h := testHost(t, cfg)
	settle(t, h)
	ask := func() {
		t.Helper()
		prices, err := h.Price(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if p := prices.ByPool["default"]; p.Outcome != string(OK) || !strings.HasPrefix(p.Strategy, "mix cost-optimal 1.") {
			t.Fatalf("%s answered, outcome %s", p.Strategy, p.Outcome)
		}
	}
	ask()
	until(t, "the shadow", func() bool { st := statusOf(h, "aside"); return st.Shadow != nil && st.Counts.Outcomes[OK] > 0 })
	cfg.Strategies[1] = member("turns-bad", "4")
	if err := h.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	settle(t, h)
	until(t, "the member to be rolled back", func() bool {
		ask()
		return statusOf(h, "member").RolledBack != nil
	})
	ask()
	cfg.Strategies[0] = chainOf(ChainMember{Strategy: "member", Weight: 0.5}, ChainMember{Strategy: "cost-optimal"})
	if err := h.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	settle(t, h)
	if st := statusOf(h, "mix"); st.Trial == nil || st.Trial.State != Probation {
		t.Errorf("a chain with other weights: %+v", st.Trial)
	}
	ask()
}
