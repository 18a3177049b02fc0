package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

// rogue is a strategy of both kinds at all levels that does one thing wrong.
type rogue struct {
	wrong string
	calls int

	described, priced atomic.Int64
	several           chan struct{} // closed once two calls are under way
}

func (r *rogue) Describe() sdk.Description {
	version := "1"
	if r.wrong == "another version each time" {
		version = fmt.Sprint(r.described.Add(1))
	}
	return sdk.Description{Name: "rogue", Version: version, Deterministic: true, ConfigSchema: `{"type": "object", "properties": {"factor": {"type": "number", "maximum": 2}}}`}
}

func (r *rogue) Configure(config json.RawMessage) error {
	var c struct {
		Factor float64 `json:"factor"`
	}
	if r.wrong == "changes before it refuses" && strings.Contains(string(config), "no such") {
		r.calls = 100
	}
	if err := sdk.Decode(config, &c); err != nil {
		return err
	}
	if c.Factor > 2 && r.wrong != "too large a setting" {
		return &sdk.ConfigError{Field: map[bool]string{true: "fctr", false: "factor"}[r.wrong == "another field"], Message: "want at most 2"}
	}
	return nil
}

func (r *rogue) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	switch r.wrong {
	case "exits":
		os.Exit(4)
	case "dies of large ones":
		if len(req.Catalogue.Offerings) > 1000 {
			os.Exit(4)
		}
	}
	more := float64(r.calls) + r.moods()
	ans := sdk.PriceEach(req, func(o int) float64 { return req.USDPerHour[o] + more })
	if r.wrong == "by order of pools" && len(ans.Pools) > 1 {
		ans.Pools[0].FeePerNode = 7
	}
	return ans, nil
}

// moods is by how much an answer about prices is another than it should be.
func (r *rogue) moods() float64 {
	n := r.priced.Add(1)
	switch {
	case r.wrong == "another price each time":
		return float64(n)
	case r.wrong == "mixes up calls" && n == 2: // the first is alone
		<-r.several
		return 1
	case r.wrong == "mixes up calls" && n == 3:
		close(r.several)
	case r.wrong == diesOfNonsense && n > 1: // the first is from before it
		<-nonsense
		os.Exit(4)
	}
	return 0
}

func (r *rogue) Score(_ context.Context, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	ans := &sdk.ScoreAnswer{Verdicts: make([]sdk.Verdict, len(req.Moves))}
	for i := range ans.Verdicts {
		ans.Verdicts[i].Accept = true
	}
	return ans, nil
}

func (r *rogue) Plan(_ context.Context, req *sdk.PlanRequest) (*sdk.PlanAnswer, error) {
	ans := &sdk.PlanAnswer{}
	for g := range req.Groups {
		for _, a := range req.Groups[g].Allowed {
			if offerings := req.Sets[a.Set]; len(offerings) > 0 {
				n := sdk.PlannedNode{Pool: a.Pool, Offering: offerings[0], Pods: []sdk.PodCount{{Group: g, Pods: 1}}}
				if r.wrong == "pods twice" {
					n.Count = req.Groups[g].Pods + 1
				}
				ans.Nodes = append(ans.Nodes, n)
				break
			}
		}
	}
	return ans, nil
}

func (r *rogue) Propose(_ context.Context, w *sdk.ProposeWorld, simulate sdk.Simulate) (*sdk.Proposal, error) {
	p := &sdk.Proposal{}
	for k, n := range w.Nodes {
		if n.Removable || r.wrong == "takes what it may not" {
			p.Moves = append(p.Moves, sdk.ProposedMove{Remove: []int{k}, Score: 1})
			break
		}
	}
	if len(p.Moves) > 0 && (w.MaxSimulations > 0 || r.wrong == "simulates without end") {
		trials, err := simulate(p.Moves)
		if err != nil {
			return nil, err
		}
		if !trials[0].Legal {
			p.Moves = nil
		}
	}
	return p, nil
}

// failed are the names of the failed checks.
func failed(r *Report) []string {
	var out []string
	for _, c := range r.Failures() {
		out = append(out, c.Check)
	}
	return out
}

func run(t *testing.T, target Target) *Report {
	t.Helper()
	r, err := Run(t.Context(), target, Options{LatencyLimit: time.Minute, StartTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inMemory are faults and the checks that find them, in a whole run.
var inMemory = map[string][]string{
	"":                          nil,
	"too large a setting":       {"config-errors"},
	"another field":             {"config-errors"},
	"changes before it refuses": {"config-errors"},
	"by order of pools":         {"order"},
	"pods twice":                {"levels", "latency"},
	"takes what it may not":     {"levels"}, // the first of the large world's nodes may go
	"simulates without end":     {"levels"},
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	for wrong, want := range inMemory {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			r := run(t, InProcess(func() sdk.Strategy { return &rogue{wrong: wrong} }))
			got := failed(r)
			if !slices.Equal(got, want) {
				t.Errorf("failed checks %q, want %q: %+v", got, want, r.Failures())
			}
			if r.Passed != (want == nil) {
				t.Errorf("passed: %v", r.Passed)
			}
		})
	}
}

// programVariable makes this test program a strategy with a fault, folderVariable is a
// folder that outlives its processes.
const (
	programVariable = "WEIR_KIT_ROGUE"
	folderVariable  = "WEIR_KIT_FOLDER"
)

func TestMain(m *testing.M) {
	switch wrong := os.Getenv(programVariable); wrong {
	case "":
		os.Exit(m.Run())
	case "noise":
		fmt.Println("hello, I am a strategy")
		sdk.Serve(&rogue{})
	case "child":
		child := exec.Command("/bin/sh", "-c", "PATH=/bin:/usr/bin exec sleep 60")
		if err := child.Start(); err != nil {
			os.Exit(1)
		}
		sdk.Serve(&rogue{})
	case "plain":
		fmt.Printf("1|1|unix|%s/s|grpc|\n", os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
		select {}
	case "elsewhere":
		fmt.Println("1|1|unix|/run/another.sock|grpc|")
		select {}
	case "tcp":
		fmt.Println("1|1|tcp|127.0.0.1:1|grpc|")
		select {}
	case "starts once":
		if _, err := os.OpenFile(os.Getenv(folderVariable)+"/started", os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(5)
		}
		sdk.Serve(&rogue{})
	case takesAnybody, isUnwell, diesOfNonsense, givesUpToo:
		if err := serveByHand(wrong); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "mute":
		select {}
	default:
		sdk.Serve(&rogue{wrong: wrong})
	}
}

// program is this test program as a strategy: the environment of a strategy is empty,
// so that a script names the fault.
func program(t *testing.T, wrong string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := dir + "/rogue"
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexport "+programVariable+"='"+wrong+"' "+folderVariable+"='"+dir+"'\nexec "+self+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// processes are the faults of processes, likewise.
var processes = []struct {
	wrong  string
	checks []string // that must fail
	only   bool     // and no others
	why    string
}{
	{"none", nil, true, ""},
	{"noise", []string{"stdout"}, true, "hello, I am a strategy"},
	{"child", []string{"shutdown"}, true, "processes that it started are still there"},
	{"exits", []string{"defaults", "golden"}, false, "the process ended: exit status 4"},
	{"dies of large ones", []string{"latency", "cancelled"}, true, "the process ended: exit status 4"},
	{"plain", []string{"start"}, true, "no gRPC with mutual TLS"},
	{"tcp", []string{"start"}, true, "the host takes Unix sockets below PLUGIN_UNIX_SOCKET_DIR alone"},
	{"elsewhere", []string{"start"}, true, "the host takes Unix sockets below PLUGIN_UNIX_SOCKET_DIR alone"},
}

func TestProcess(t *testing.T) {
	t.Parallel()
	for _, c := range processes {
		t.Run(c.wrong, func(t *testing.T) {
			t.Parallel()
			r := run(t, Process(program(t, c.wrong)))
			got := failed(r)
			for _, check := range c.checks {
				if !slices.Contains(got, check) {
					t.Errorf("check %s did not fail", check)
				}
			}
			if c.only && len(got) != len(c.checks) {
				t.Errorf("failed checks %q, want %q: %+v", got, c.checks, r.Failures())
			}
			if why := fmt.Sprint(r.Failures()); !strings.Contains(why, c.why) {
				t.Errorf("the reasons are %s, want %q", why, c.why)
			}
		})
	}
}

// What never answers is given up, and what the caller asks for must make sense.
func TestRunGivesUp(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Process(program(t, "mute")), Options{StartTime: 200 * time.Millisecond})
	if err != nil || !slices.Equal(failed(r), []string{"start"}) || !strings.Contains(r.Checks[0].Reasons[0], "not ready in time") {
		t.Errorf("a mute program: %v, %+v", err, r)
	}
	if _, err := Run(t.Context(), InProcess(func() sdk.Strategy { return &rogue{} }), Options{Config: json.RawMessage(`[1]`)}); err == nil {
		t.Error("a configuration that is a list was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, InProcess(func() sdk.Strategy { return &rogue{} }), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	kinds := map[sdk.Kind]int{}
	for _, p := range Golden() {
		kinds[p.Kind()]++
		if p.Catalogue() == nil || p.Catalogue().Hash == [32]byte{} {
			t.Errorf("%s has no catalogue", p.Name)
		}
	}
	if kinds[sdk.InstanceSelection] < 8 || kinds[sdk.Consolidation] < 3 {
		t.Errorf("the golden problems are %v", kinds)
	}
}

func TestReadProblemsRefuses(t *testing.T) {
	t.Parallel()
	const catalogue = `{"catalogue":{"hash":"a","types":[{"Name":"x"}],"offerings":[{"t":0}]}}`
	for text, want := range map[string]string{
		`{`: "value 1: unexpected EOF",
		`{"call":{"level":"price","catalogue":"b"}}`:                                                                                          "not in the file before it",
		`{"catalogue":{"hash":"a","offerings":[{"t":3}]}}`:                                                                                    "offering 0 is of type 3, there are 0 types",
		catalogue + `{"call":{"level":"price","catalogue":"a","input":{"USDPerHour":[1,2]}}}`:                                                 "2 prices for a catalogue of 1 offerings",
		catalogue + `{"call":{"level":"price","catalogue":"a","input":{"USDPerHour":[1],"Pools":[{"Name":"p","Offerings":[1]}]}}}`:            `pool "p"`,
		catalogue + `{"call":{"level":"price","catalogue":"a","input":{"USDPerHour":[1],"Health":{"7":{}}}}}`:                                 "health of offering 7 of 1",
		catalogue + `{"call":{"level":"score","catalogue":"a","input":{"Moves":[{"Pool":1}]}}}`:                                               "move 0 is of pool 1 of 0",
		catalogue + `{"call":{"level":"score","catalogue":"a","input":{"Pools":[{}],"Moves":[{"Launch":[{"Offering":4}]}]}}}`:                 "launches offering 4 of 1",
		catalogue + `{"call":{"level":"score","catalogue":"a","input":{"Pools":[{}],"Moves":[{"Remove":[{"Offering":4}]}]}}}`:                 "removes offering 4 of 1",
		catalogue + `{"call":{"level":"price","catalogue":"a","input":{"USDPerHour":[1],"Pools":[{"Name":"p","Running":[{"Offering":9}]}]}}}`: `pool "p"`,
		catalogue + `{"call":{"level":"price","catalogue":"a","input":{"USDPerHour":[1],"Pools":[{"Name":"p","Offerings":[0,0]}]}}}`:          `pool "p"`,
		catalogue + `{"call":{"level":"price","catalogue":"a","input":{"USDPerHour":"dear"}}}`:                                                "value 2: json",
	} {
		if _, err := ReadProblems(strings.NewReader(text), "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	got, err := ReadProblems(strings.NewReader(catalogue+`{"call":{"level":"plan","catalogue":"a"}}{"shadow":{}}`), "f")
	if err != nil || len(got) != 0 {
		t.Errorf("what the kit does not ask: %v, %v", got, err)
	}
}

// Whatever is in a file, what is read of it can be asked.
func FuzzReadProblems(f *testing.F) {
	f.Add(`{"catalogue":{"hash":"a","types":[{"Name":"x"}],"offerings":[{"t":0}]}}{"call":{"level":"price","catalogue":"a","input":{"USDPerHour":[1],"Pools":[{"Offerings":[0]}]}}}`)
	f.Add(`{"catalogue":{"hash":"a"}}{"call":{"level":"score","catalogue":"a","input":{"Pools":[{}],"Moves":[{"Remove":[{"Offering":-1}]}]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		problems, err := ReadProblems(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		live, err := InProcess(func() sdk.Strategy { return &rogue{} }).Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer live.Stop()
		s := &session{client: sdk.NewClient(live.Conn())}
		for i := range problems {
			if _, err := s.ask(t.Context(), &problems[i]); err != nil && strings.Contains(err.Error(), "panic") {
				t.Errorf("%v", err)
			}
		}
	})
}
