package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
)

// levelled is a strategy of all levels that does what it is told.
type levelled struct {
	plan    func(context.Context, *PlanRequest) (*PlanAnswer, error)
	propose func(context.Context, *ProposeWorld, Simulate) (*Proposal, error)
}

func (*levelled) Describe() Description           { return Description{Name: "levelled", Version: "1"} }
func (*levelled) Configure(json.RawMessage) error { return nil }
func (*levelled) Price(context.Context, *PriceRequest) (*PriceAnswer, error) {
	return &PriceAnswer{}, nil
}
func (*levelled) Score(context.Context, *ScoreRequest) (*ScoreAnswer, error) {
	return &ScoreAnswer{}, nil
}
func (l *levelled) Plan(ctx context.Context, r *PlanRequest) (*PlanAnswer, error) {
	return l.plan(ctx, r)
}
func (l *levelled) Propose(ctx context.Context, w *ProposeWorld, s Simulate) (*Proposal, error) {
	return l.propose(ctx, w, s)
}

// serve is a client of the strategy over a connection in memory, which holds the sample
// catalogue.
func serve(t *testing.T, s Strategy) *Client {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(ServerOptions()...)
	Register(server, s)
	var served sync.WaitGroup
	served.Add(1)
	go func() {
		defer served.Done()
		if err := server.Serve(listener); err != nil {
			t.Errorf("serving: %v", err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); server.Stop(); served.Wait() })
	c := NewClient(conn)
	if err := c.Configure(t.Context(), json.RawMessage(`{}`), SamplePrice().Catalogue); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPlanCrossesTheWire(t *testing.T) {
	t.Parallel()
	want := SamplePlan()
	got, err := toPlanRequest(want.Catalogue, pass(t, fromPlanRequest(want), &instancev1.PlanRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("plan request:\n%+v\n%+v", want, got)
	}
	answer := goodPlan()
	if got := toPlanAnswer(pass(t, fromPlanAnswer(answer), &instancev1.PlanResponse{})); !reflect.DeepEqual(answer, got) {
		t.Errorf("plan answer:\n%+v\n%+v", answer, got)
	}
	world := SamplePropose()
	gotWorld, err := toProposeWorld(world.Catalogue, pass(t, fromProposeWorld(world), &consolidationv1.ProposeWorld{}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(world, gotWorld) {
		t.Errorf("world:\n%+v\n%+v", world, gotWorld)
	}
	if room := want.Room(1, 0); room.CPUMilli != 1730 || room.Pods != 57 {
		t.Errorf("room of m6a.large in the second pool, daemon pods off: %+v", room)
	}
	if on := want.On(1, 0); on != nil {
		t.Errorf("the second group may use %v of the first pool, want nothing", on)
	}
}

func goodPlan() *PlanAnswer {
	return &PlanAnswer{Nodes: []PlannedNode{{Pool: 0, Offering: 5, Count: 2, Pods: []PodCount{{Group: 0, Pods: 3}}}, {Pool: 1, Offering: 4, Pods: []PodCount{{Group: 1, Pods: 1}}}}}
}

func TestCheckPlan(t *testing.T) {
	t.Parallel()
	if err := CheckPlan(SamplePlan(), goodPlan()); err != nil {
		t.Fatalf("a good answer: %v", err)
	}
	for want, spoil := range map[string]func(*PlanAnswer){
		"pool 7 of 2":                  func(a *PlanAnswer) { a.Nodes[0].Pool = 7 },
		"offering 99 is not one":       func(a *PlanAnswer) { a.Nodes[0].Offering = 99 },
		"offering -1 is not one":       func(a *PlanAnswer) { a.Nodes[0].Offering = -1 },
		"more than 100000 nodes":       func(a *PlanAnswer) { a.Nodes[0].Count = 1_000_000 },
		"no pods on it":                func(a *PlanAnswer) { a.Nodes[1].Pods = nil },
		"group 2 of 2":                 func(a *PlanAnswer) { a.Nodes[1].Pods[0].Group = 2 },
		"2 times 4 pods of group 0":    func(a *PlanAnswer) { a.Nodes[0].Pods[0].Pods = 4 },
		"1 times 0 pods of group 1":    func(a *PlanAnswer) { a.Nodes[1].Pods[0].Pods = 0 },
		"group 1 may not run on":       func(a *PlanAnswer) { a.Nodes[0].Pods[0] = PodCount{Group: 1, Pods: 1} },
		"offering 3 of pool":           func(a *PlanAnswer) { a.Nodes[0].Offering = 3 },
		"2 times 3 pods of group 0, w": func(a *PlanAnswer) { a.Nodes = append(a.Nodes, a.Nodes[0]) },
	} {
		a := goodPlan()
		spoil(a)
		if err := CheckPlan(SamplePlan(), a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestCheckMoves(t *testing.T) {
	t.Parallel()
	good := func() []ProposedMove { return []ProposedMove{{Remove: []int{0}, Score: 1}, {Remove: []int{1}}} }
	if err := CheckMoves(SamplePropose(), good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func([]ProposedMove) []ProposedMove{
		"0 nodes":                     func(m []ProposedMove) []ProposedMove { m[0].Remove = nil; return m },
		"is not finite":               func(m []ProposedMove) []ProposedMove { m[0].Score = math.NaN(); return m },
		"node 9 of 4":                 func(m []ProposedMove) []ProposedMove { m[0].Remove[0] = 9; return m },
		"node n3 may not be removed":  func(m []ProposedMove) []ProposedMove { m[0].Remove[0] = 2; return m },
		"n1 is removed twice":         func(m []ProposedMove) []ProposedMove { m[1].Remove[0] = 0; return m },
		"why of 300 characters":       func(m []ProposedMove) []ProposedMove { m[0].Why = strings.Repeat("x", 300); return m },
		"1001 moves, at most 1000":    func([]ProposedMove) []ProposedMove { return make([]ProposedMove, 1001) },
		"51 nodes, want 1 to 50":      func(m []ProposedMove) []ProposedMove { m[0].Remove = make([]int, 51); return m },
		"node n4 may not be removed:": func(m []ProposedMove) []ProposedMove { m[0].Remove = []int{0, 3}; return m },
	} {
		if err := CheckMoves(SamplePropose(), spoil(good())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestPlanIsAsked(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var seen string
	c := serve(t, &levelled{plan: func(ctx context.Context, r *PlanRequest) (*PlanAnswer, error) {
		seen = TraceParent(ctx)
		return goodPlan(), nil
	}})
	m, err := c.Describe(t.Context())
	if err != nil || !m.ServesLevel(InstanceSelection, "plan") || !m.ServesLevel(Consolidation, "propose") {
		t.Fatalf("%+v, %v", m, err)
	}
	got, err := c.Plan(WithTraceParent(t.Context(), parent), SamplePlan())
	if err != nil || !reflect.DeepEqual(got, goodPlan()) {
		t.Errorf("%+v, %v", got, err)
	}
	if seen != parent {
		t.Errorf("the strategy saw traceparent %q", seen)
	}
	if got := TraceParent(WithTraceParent(t.Context(), "00-nonsense")); got != "" {
		t.Errorf("a malformed traceparent is %q", got)
	}
}

func TestProposeSimulates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		propose func(context.Context, *ProposeWorld, Simulate) (*Proposal, error)
		want    string // of the error, empty = none
	}{
		"asks twice": {propose: func(_ context.Context, w *ProposeWorld, sim Simulate) (*Proposal, error) {
			p := &Proposal{}
			for _, k := range []int{0, 1} {
				trials, err := sim([]ProposedMove{{Remove: []int{k}}})
				if err != nil {
					return nil, err
				}
				if trials[0].Legal {
					p.Moves = append(p.Moves, ProposedMove{Remove: []int{k}, Score: trials[0].USDPerHourBefore, Why: "it pays"})
				}
			}
			return p, nil
		}},
		"asks for ever": {want: "more than 100 simulations", propose: func(_ context.Context, w *ProposeWorld, sim Simulate) (*Proposal, error) {
			for {
				if _, err := sim([]ProposedMove{{Remove: []int{0}}}); err != nil {
					return nil, err
				}
			}
		}},
		"asks for nonsense": {want: "node n3 may not be removed", propose: func(_ context.Context, w *ProposeWorld, sim Simulate) (*Proposal, error) {
			_, err := sim([]ProposedMove{{Remove: []int{2}}})
			return &Proposal{}, err
		}},
		"proposes nonsense": {want: "node 4000 of 4", propose: func(context.Context, *ProposeWorld, Simulate) (*Proposal, error) {
			return &Proposal{Moves: []ProposedMove{{Remove: []int{4000}}}}, nil
		}},
		"panics": {want: "panic: a bug", propose: func(context.Context, *ProposeWorld, Simulate) (*Proposal, error) { panic("a bug") }},
		"says no": {want: "the moon is full", propose: func(context.Context, *ProposeWorld, Simulate) (*Proposal, error) {
			return nil, errors.New("the moon is full")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, &levelled{propose: c.propose})
			got, err := client.Propose(t.Context(), SamplePropose(), func(moves []ProposedMove) ([]Trial, error) {
				return []Trial{{Legal: moves[0].Remove[0] == 1, USDPerHourBefore: 0.1728}}, nil
			})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("want %q, got %v", c.want, err)
				}
				return
			}
			want := &Proposal{Moves: []ProposedMove{{Remove: []int{1}, Score: 0.1728, Why: "it pays"}}}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// Whatever comes over the wire, decoding answers or refuses, and what is refused is not
// used.
func FuzzDecodePlan(f *testing.F) {
	for _, m := range []proto.Message{fromPlanRequest(SamplePlan()), fromPlanAnswer(goodPlan()), fromProposeWorld(SamplePropose())} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sample := SamplePlan()
		var req instancev1.PlanRequest
		if proto.Unmarshal(b, &req) == nil {
			if r, err := toPlanRequest(sample.Catalogue, &req); err == nil {
				for g := range r.Groups {
					for p := range r.Pools {
						for _, o := range r.On(g, p) {
							r.Room(p, o)
						}
					}
				}
			}
		}
		var ans instancev1.PlanResponse
		if proto.Unmarshal(b, &ans) == nil {
			a := toPlanAnswer(&ans)
			if CheckPlan(sample, a) == nil {
				pods := 0
				for _, n := range a.Nodes {
					for _, p := range n.Pods {
						pods += max(n.Count, 1) * p.Pods
					}
				}
				if pods > 10 {
					t.Errorf("%d pods are planned, there are 10", pods)
				}
			}
		}
		world := SamplePropose()
		var w consolidationv1.ProposeWorld
		if proto.Unmarshal(b, &w) == nil {
			_, _ = toProposeWorld(world.Catalogue, &w)
		}
		var r consolidationv1.ProposeResponse
		if proto.Unmarshal(b, &r) == nil {
			_ = CheckMoves(world, toMoves(r.GetProposal().GetMoves()))
		}
	})
}
