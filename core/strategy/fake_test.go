package strategy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// TestMain turns this test binary into a strategy process when it is started with
// the argument "serve": real processes, without building anything else. Tests have a
// folder for temporary files of their own, so that they can count what is left in it;
// its name is short because those of sockets have to be.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		serveFake(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// fakeSpec is a strategy that runs this test binary with a behaviour.
func fakeSpec(t testing.TB, name string, behaviour ...string) Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{Name: name, Path: self, Args: append([]string{"serve"}, behaviour...), AllowUnsandboxed: true}
}

// fake is a strategy that behaves well on the sample problem and then as it is told.
type fake struct {
	behaviour string
	args      []string
	config    struct{ Factor float64 }
	asked     atomic.Int64 // problems that are not the sample
}

func serveFake(behaviour string, args []string) {
	switch behaviour {
	case "builtin":
		s, err := builtin.New(args[0])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		sdk.Serve(s)
	case "host": // a host with a strategy of its own, whose process id it prints
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		h, err := New(bound(Spec{Name: "fake", Path: self, Args: []string{"serve", "well"}}), Options{})
		if err != nil {
			panic(err)
		}
		if err := h.Settled(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println(statusOf(h, "fake").PID)
		select {}
	case "other-version": // a handshake line, the socket that it names, and then nothing
		if _, err := net.Listen("unix", strings.Split(args[0], "|")[3]); err != nil {
			panic(err)
		}
		dir, err := os.Getwd()
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "here:", os.Getpid(), dir)
		fmt.Println(args[0])
		select {}
	case "takes-early": // too much, before it is ready, and never is
		takeEarly(args[0])
		select {}
	case "points": // the host at somebody else
		point(args[0], args[1], args[2])
	case "mute":
		select {}
	case "die":
		fmt.Fprintln(os.Stderr, "panic: cannot go on")
		os.Exit(3)
	case "slow-start":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			panic(err)
		}
		time.Sleep(d)
	case "stray":
		fmt.Println("loading 1|2 models...")
		fmt.Println("1|not a handshake")
	case "grows":
		hold := make([]byte, 300<<20)
		for i := range hold {
			hold[i] = byte(i)
		}
		defer func() { fmt.Fprintln(os.Stderr, len(hold)) }()
	case "noisy":
		for i := range 5000 {
			fmt.Fprintf(os.Stderr, "[WARN] line %d\n", i)
		}
	case "noise-without-end":
		for {
			fmt.Println(strings.Repeat("x", 1000))
		}
	case "forks":
		child := exec.Command("sleep", "1000")
		child.Path, child.Err = "/bin/sleep", nil
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	beHostile(behaviour)
	if behaviour == "plans" {
		sdk.Serve(&planFake{fake: &fake{behaviour: behaviour, args: args}})
	}
	if behaviour == "levels" {
		sdk.Serve(&levelsFake{&fake{behaviour: behaviour, args: args}})
	}
	if behaviour == "proposes" {
		sdk.Serve(&proposeFake{fake: &fake{behaviour: behaviour, args: args}})
	}
	sdk.Serve(&fake{behaviour: behaviour, args: args})
}

func (f *fake) Describe() sdk.Description {
	summary := ""
	if f.behaviour == "environment" {
		var names []string
		for _, e := range os.Environ() {
			name, _, _ := strings.Cut(e, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		summary = strings.Join(names, " ")
	}
	return sdk.Description{Name: "fake", Version: "0.1", Summary: summary}
}

func (f *fake) Configure(config json.RawMessage) error {
	f.config.Factor = 1
	return sdk.Decode(config, &f.config)
}

func (f *fake) Price(ctx context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	ans := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
	for i := range req.Pools {
		for _, o := range req.Pools[i].Offerings {
			ans.Pools[i].USDPerHour = append(ans.Pools[i].USDPerHour, f.config.Factor*req.USDPerHour[o])
		}
	}
	if req.Now.Equal(sdk.SamplePrice().Now) && f.behaviour != "fails-self-test" {
		return ans, nil
	}
	asked := f.asked.Add(1)
	first := &ans.Pools[0]
	switch f.behaviour {
	case "turns-bad": // after so many good answers
		if good, err := strconv.ParseInt(f.args[0], 10, 64); err != nil || asked > good {
			first.USDPerHour[0] = -1
		}
	case "no-spot":
		for i := range ans.Pools {
			veto := sdk.Veto{Reason: "interrupted too often"}
			for _, o := range req.Pools[i].Offerings {
				if req.Catalogue.Offerings[o].CapacityType == sdk.Spot {
					veto.Offerings = append(veto.Offerings, o)
				}
			}
			ans.Pools[i].Vetoes = append(ans.Pools[i].Vetoes, veto)
		}
	case "hang":
		select {}
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "nan":
		first.USDPerHour[0] = math.NaN()
	case "infinite":
		first.USDPerHour[0] = math.Inf(1)
	case "negative":
		first.USDPerHour[0] = -0.01
	case "short":
		first.USDPerHour = first.USDPerHour[1:]
	case "other-pools":
		ans.Pools = append(ans.Pools, ans.Pools[0])
	case "steals", "allocates", "threads", "spins", "floods", "panics-aside", "million-offerings", "makes-files", "leaves-things":
		f.hostile(req, ans)
	case "empty":
		ans.Pools = nil
	case "foreign-offering":
		first.Vetoes = []sdk.Veto{{Reason: "no", Offerings: []int{99999}}}
	case "oversize":
		first.Vetoes = []sdk.Veto{{Reason: strings.Repeat("x", sdk.MaxMessageBytes+1), Offerings: []int{0}}}
	case "a million pools":
		ans.Pools = make([]sdk.PoolPrices, 1_000_000)
	case "panic":
		panic("a bug")
	case "exit":
		os.Exit(7)
	case "escapes":
		fmt.Fprintln(os.Stderr, "[WARN] over\rwritten \x1b[2J")
		first.Vetoes = []sdk.Veto{{Reason: "\x1b[2J\u202e", Offerings: req.Pools[0].Offerings[:1]}}
	case "escapes at length":
		return nil, errors.New(strings.Repeat("\x1b[2J\n", 16<<10))
	case "error", "fails-self-test":
		return nil, fmt.Errorf("the moon is full")
	case "steps":
		first.Steps = map[int][]sdk.Step{req.Pools[0].Offerings[0]: {{USDPerHour: 0, Nodes: 2, Shared: "plan"}, {USDPerHour: 0.5, SumUSDPerHour: 3}, {USDPerHour: 1}}}
	case "share":
		first.Limits = []sdk.Limit{{Name: "spot", Share: &sdk.Share{Max: 0.5, Measure: sdk.MeasureCPU,
			Selector: sdk.Selector{{Key: sdk.LabelCapacityType, Values: []string{sdk.Spot}, Negate: true}}}}}
	case "variety":
		first.Limits = []sdk.Limit{{Name: "zones", Variety: &sdk.Variety{Over: sdk.OverZones, Min: 2}}, {Name: "pools", Variety: &sdk.Variety{Over: sdk.OverSpotPools, Min: 3}}}
	case "per-node":
		first.Limits = []sdk.Limit{{Name: "blast", PodsPerNode: &sdk.PodsPerNode{Max: 4, Share: 0.25}}}
	case "veto":
		first.Vetoes = []sdk.Veto{{Reason: "not today", Offerings: req.Pools[0].Offerings[:1]}}
	case "prints":
		fmt.Println("to standard output,", len(req.Pools), "pools")
		for range 3000 {
			fmt.Println(strings.Repeat("y", 100)) // more than a pipe holds: blocks if nobody reads
		}
	}
	return ans, nil
}

func (f *fake) Score(ctx context.Context, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	ans := &sdk.ScoreAnswer{}
	for range req.Moves {
		ans.Verdicts = append(ans.Verdicts, sdk.Verdict{Accept: true, Score: f.config.Factor})
	}
	if req.Now.Equal(sdk.SampleScore().Now) {
		return ans, nil
	}
	switch f.behaviour {
	case "hang", "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "nan":
		ans.Verdicts[0].Score = math.NaN()
	case "short":
		ans.Verdicts = ans.Verdicts[1:]
	case "empty":
		ans.Verdicts = nil
	}
	return ans, nil
}
