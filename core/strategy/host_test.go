package strategy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/plugins/sdk"
)

// patience bounds waits that a healthy machine ends much sooner: a limit only keeps a
// fault from hanging the run.
const patience = 5 * time.Minute

// testWorld has two pools over one class with four offerings.
func testWorld() *model.World {
	large := &model.InstanceType{Name: "m6a.large", Labels: map[string]string{model.LabelInstanceType: "m6a.large", model.LabelArch: "amd64"},
		Allocatable: resource.New(1930, 7<<30, 29, 17<<30)}
	offerings := []*model.Offering{}
	for _, zone := range []string{"us-east-1a", "us-east-1b"} {
		offerings = append(offerings,
			&model.Offering{Type: large, Zone: zone, CapacityType: model.OnDemand, USDPerHour: 0.0864, Available: true},
			&model.Offering{Type: large, Zone: zone, CapacityType: model.Spot, USDPerHour: 0.03, Available: true})
	}
	class := model.NodeClassRef{Name: "default"}
	onDemand := require.NewSet(require.Must(model.LabelCapacityType, require.In, model.OnDemand))
	return &model.World{Now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		Pools:       []*model.Pool{{Name: "default", NodeClass: class}, {Name: "steady", NodeClass: class, Requirements: onDemand}},
		NodeClasses: map[string]*model.NodeClass{"default": {Name: "default", RootVolumeUSD: 0.002}},
		Offerings:   map[string][]*model.Offering{"default": offerings},
		Pods:        []*model.Pod{{Name: "a", Requests: resource.New(500, 1<<30, 1, 0)}},
	}
}

// testHost is a host with short waits that is closed at the end of the test.
func testHost(t testing.TB, config Config, change ...func(*Options)) *Host {
	t.Helper()
	opts := Options{CallTimeout: patience, StartTimeout: patience, Steady: time.Hour, BreakAfter: 1 << 30,
		Backoff: func(int) time.Duration { return 10 * time.Millisecond }}
	for _, c := range change {
		c(&opts)
	}
	h, err := New(config, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func settle(t testing.TB, h *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Settled(ctx); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition that other goroutines or the kernel bring about.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s", what)
		}
	}
}

func price(t testing.TB, h *Host) model.PoolPrices {
	t.Helper()
	prices, err := h.Price(context.Background(), testWorld())
	if err != nil {
		t.Fatal(err)
	}
	if len(prices.ByPool) != 2 {
		t.Fatalf("%d pools priced, want 2", len(prices.ByPool))
	}
	return prices.ByPool["default"]
}

func bound(spec Spec) Config { return Config{Strategies: []Spec{spec}, InstanceSelection: spec.Name} }

// TestSameAnswerFromProcess compares each built-in in process with the same in a process.
func TestSameAnswerFromProcess(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cost-optimal", "first-fit"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inside := testHost(t, Config{InstanceSelection: name})
			outside := testHost(t, bound(fakeSpec(t, name, "builtin", name)))
			settle(t, outside)
			want, got := price(t, inside), price(t, outside)
			if diff := cmp.Diff(want, got); diff != "" || got.Outcome != "ok" {
				t.Errorf("outcome %s, in process (-) and as a process (+):\n%s", got.Outcome, diff)
			}
		})
	}
}

func TestPricesReachTheEngine(t *testing.T) {
	t.Parallel()
	h := testHost(t, Config{})
	prices, err := h.Price(context.Background(), testWorld())
	if err != nil {
		t.Fatal(err)
	}
	market := []model.Price{{USDPerHour: 0.0864}, {USDPerHour: 0.03}, {USDPerHour: 0.0864}, {USDPerHour: 0.03}}
	want := model.PoolPrices{Strategy: "cost-optimal 1.0.0", Outcome: "ok", FeePerNode: 0.022, Offerings: market}
	for _, pool := range []string{"default", "steady"} {
		if diff := cmp.Diff(want, prices.ByPool[pool]); diff != "" {
			t.Errorf("pool %s: %s", pool, diff)
		}
	}
}

// TestAnnotationBinds binds one pool to another built-in, and one to a strategy that
// nobody knows: that one is answered by the default and says so.
func TestAnnotationBinds(t *testing.T) {
	t.Parallel()
	h := testHost(t, Config{})
	w := testWorld()
	w.Pools[0].Annotations = map[string]string{model.AnnotationInstanceSelection: "first-fit"}
	w.Pools[1].Annotations = map[string]string{model.AnnotationInstanceSelection: "no-such"}
	prices, err := h.Price(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	if p := prices.ByPool["default"]; p.Strategy != "first-fit 1.0.0" || !p.PreferLarge || p.Outcome != "ok" {
		t.Errorf("annotated pool answered by %q, outcome %s, prefer large %t", p.Strategy, p.Outcome, p.PreferLarge)
	}
	if p := prices.ByPool["steady"]; p.Strategy != "cost-optimal 1.0.0" || p.Outcome != "refused" {
		t.Errorf("pool of an unknown strategy answered by %q, outcome %s, want the default and refused", p.Strategy, p.Outcome)
	}
}

// TestOutcomes asks strategies that misbehave: the built-in answers and the outcome
// has its own name.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[string]Outcome{
		"nan": Invalid, "infinite": Invalid, "negative": Invalid, "short": Invalid, "other-pools": Invalid, "foreign-offering": Invalid,
		"oversize": Invalid, "a million pools": Invalid, "panic": Invalid, "empty": Empty, "exit": Dead, "error": Refused, "steps": OK, "variety": OK,
		"share": OK, "per-node": OK, "veto": OK, "prints": OK, "forks": OK, "noisy": OK, "stray": OK,
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			var calls []Call
			h := testHost(t, bound(fakeSpec(t, "fake", behaviour)), func(o *Options) {
				o.OnCall = func(c Call) { calls = append(calls, c) }
				if behaviour == "forks" {
					o.Kernel = noFence()
				}
			})
			settle(t, h)
			p := price(t, h)
			if p.Outcome != string(want) || len(calls) != 1 || calls[0].Outcome != want {
				t.Fatalf("outcome %s (%+v), want %s", p.Outcome, calls, want)
			}
			who := "fake 0.1"
			if want != OK {
				who = "cost-optimal 1.0.0"
				if calls[0].Err == nil || calls[0].Fallback != who {
					t.Errorf("call says error %v, fallback %q", calls[0].Err, calls[0].Fallback)
				}
			}
			if p.Strategy != who || len(p.Offerings) != 4 {
				t.Errorf("answered by %q with %d offerings, want %q with 4", p.Strategy, len(p.Offerings), who)
			}
			if behaviour == "veto" && (p.Offerings[0].Veto != "not today" || p.Offerings[1].Veto != "") {
				t.Errorf("vetoes %+v", p.Offerings)
			}
			limits := map[string][]model.StrategyLimit{
				"share": {{Name: "spot", Share: &model.ShareLimit{Max: 0.5, Measure: model.MeasureCPU,
					Selector: model.OfferingSelector{{Key: model.LabelCapacityType, Values: []string{model.Spot}, Negate: true}}}}},
				"variety":  {{Name: "zones", Variety: &model.Variety{Min: 2}}, {Name: "pools", Variety: &model.Variety{Over: model.OverSpotPools, Min: 3}}},
				"per-node": {{Name: "blast", PodsPerNode: &model.PodsPerNode{Max: 4, Share: 0.25}}},
			}
			if diff := cmp.Diff(limits[behaviour], p.Limits); diff != "" {
				t.Error(diff)
			}
			var steps map[int][]model.PriceStep
			if behaviour == "steps" {
				steps = map[int][]model.PriceStep{0: {{Nodes: 2, Shared: "fake/plan"}, {USDPerHour: 0.5, SumUSDPerHour: 3}, {USDPerHour: 1}}}
			}
			if diff := cmp.Diff(steps, p.Steps); diff != "" || behaviour == "steps" && p.Offerings[0].USDPerHour != 1 {
				t.Errorf("%s; lasting price %v, want 1", diff, p.Offerings[0].USDPerHour)
			}
		})
	}
}

// TestHangIsLate hangs in the call: the answer comes within the deadline, and after
// three of them the process is ended and started again.
func TestHangIsLate(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "fake", "hang")), func(o *Options) { o.CallTimeout = 100 * time.Millisecond })
	settle(t, h)
	first := h.Status()[0].PID
	for range maxLate {
		if p := price(t, h); p.Outcome != "late" || p.Strategy != "cost-optimal 1.0.0" {
			t.Fatalf("answered by %q, outcome %s, want the built-in and late", p.Strategy, p.Outcome)
		}
	}
	until(t, "a new process", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.PID != first })
}

// TestFrozen stops the process instead of killing it: calls are late, it is replaced,
// and a frozen one does not keep the host from closing.
func TestFrozen(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "fake", "well")), func(o *Options) { o.CallTimeout = 100 * time.Millisecond })
	settle(t, h)
	first := statusOf(h, "fake").PID
	if err := h.current.slots["fake"].inst.send(t.Context(), hashed(h.marketOf(testWorld())), false); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "it stands still", func() bool { // each of its threads does so when it gets to it
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", first))
		if err != nil {
			t.Skip("needs /proc")
		}
		return strings.Contains(string(b), ") T ")
	})
	for range maxLate {
		if p := price(t, h); p.Outcome != "late" {
			t.Fatalf("outcome %s, want late", p.Outcome)
		}
	}
	until(t, "a new process", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.PID != first })
	if err := syscall.Kill(statusOf(h, "fake").PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.Close()
}

func hashed(m *market) *sdk.Catalogue {
	m.hash()
	return m.catalogue
}

func statusOf(h *Host, name string) Status {
	for _, st := range h.Status() {
		if st.Name == name {
			return st
		}
	}
	return Status{}
}

// TestConfigurationReachesTheStrategy also shows that a strategy's own complaint
// comes back with the field.
func TestConfigurationReachesTheStrategy(t *testing.T) {
	t.Parallel()
	good := fakeSpec(t, "fake", "well")
	good.Config = []byte(`{"Factor": 3}`)
	h := testHost(t, bound(good))
	settle(t, h)
	if p := price(t, h); p.Offerings[1].USDPerHour != 0.09 {
		t.Errorf("price %v, want three times 0.03", p.Offerings[1].USDPerHour)
	}
	bad := fakeSpec(t, "fake", "well")
	bad.Config = []byte(`{"Factr": 3}`)
	err := testHost(t, bound(bad)).Settled(context.Background())
	if err == nil || !strings.Contains(err.Error(), "Factr: unknown field") {
		t.Errorf("error %v, want the unknown field", err)
	}
}

// TestWrongProtocol is case B127, of plugins of another protocol version: both versions
// are named long before the start time-out, and neither the process nor its socket stays
// behind.
func TestWrongProtocol(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"1|9|unix|p-124.sock|grpc|": "strategy protocol 9, this host speaks 1",
		"2|1|unix|p-125.sock|grpc|": "core protocol 2, this host speaks 1",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			zapCore, logs := observer.New(zapcore.DebugLevel)
			began := time.Now()
			h := testHost(t, bound(fakeSpec(t, "fake", "other-version", line)), func(o *Options) {
				o.Backoff = func(int) time.Duration { return time.Hour }
				o.Log = zap.New(zapCore)
			})
			err := h.Settled(context.Background()) // would wait for the start time-out if the error did not come by itself
			if took := time.Since(began); took > patience/10 {
				t.Errorf("the error took %v, the start time-out is %v", took, patience)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			here := logs.FilterMessageSnippet("here:").All()
			var pid int
			var dir string
			if len(here) != 1 {
				t.Fatalf("it said %d times where it is", len(here))
			}
			if _, err := fmt.Sscanf(here[0].Message, "here: %d %s", &pid, &dir); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) { // one that nobody waited for would still be there
				t.Errorf("process %d: %v, want that there is none", pid, err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder of its socket: %v, want that there is none", err)
			}
			if p := price(t, h); p.Outcome != "dead" || p.Strategy != "cost-optimal 1.0.0" {
				t.Errorf("answered by %q, outcome %s", p.Strategy, p.Outcome)
			}
		})
	}
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pinned := fakeSpec(t, "fake", "well")
	pinned.SHA256 = strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"wrong pin":         {pinned, "pinned is abab"},
		"no file":           {Spec{Name: "fake", Path: "/does/not/exist"}, "no such file"},
		"a folder":          {Spec{Name: "fake", Path: "/"}, "want a regular file"},
		"not a plugin":      {Spec{Name: "fake", Path: script}, "printed no handshake"},
		"dies":              {fakeSpec(t, "fake", "die"), "panic: cannot go on"},
		"fails self-test":   {fakeSpec(t, "fake", "fails-self-test"), "the moon is full"},
		"noise without end": {fakeSpec(t, "fake", "noise-without-end"), "before the handshake: ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := testHost(t, bound(c.spec), func(o *Options) { o.Backoff = func(int) time.Duration { return time.Hour } })
			err := h.Settled(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if p := price(t, h); p.Outcome != "dead" || p.Strategy != "cost-optimal 1.0.0" {
				t.Errorf("answered by %q, outcome %s", p.Strategy, p.Outcome)
			}
		})
	}
}

// TestSlowStart is case B131, of a starved machine: the same plugin with a time-out
// over and under what it needs.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	spec := fakeSpec(t, "fake", "slow-start", "5s")
	slow := testHost(t, bound(spec))
	if p := price(t, slow); p.Outcome != "dead" || p.Strategy != "cost-optimal 1.0.0" {
		t.Errorf("while it starts: answered by %q, outcome %s", p.Strategy, p.Outcome)
	}
	settle(t, slow)
	if p := price(t, slow); p.Outcome != "ok" {
		t.Errorf("outcome %s after the start", p.Outcome)
	}
	var mu sync.Mutex
	failures := 0
	h := testHost(t, bound(spec), func(o *Options) {
		o.StartTimeout = 200 * time.Millisecond
		o.OnState = func(st Status) {
			mu.Lock()
			defer mu.Unlock()
			failures = max(failures, st.Failures)
		}
	})
	answers := func(when string) {
		t.Helper()
		if p := price(t, h); p.Outcome != "dead" || p.Strategy != "cost-optimal 1.0.0" {
			t.Errorf("%s: answered by %q, outcome %s", when, p.Strategy, p.Outcome)
		}
	}
	answers("while it starts for the first time")
	err := h.Settled(context.Background())
	if err == nil || !strings.Contains(err.Error(), "startTimeout") {
		t.Errorf("error %v, want the name of the setting", err)
	}
	answers("after it was not ready in time")
	until(t, "further tries", func() bool { mu.Lock(); defer mu.Unlock(); return failures >= 3 })
	answers("after further tries")
}

// TestEnvironment looks at what the child sees: what go-plugin needs, what the spec
// lists, and nothing else of ours.
func TestEnvironment(t *testing.T) {
	t.Setenv("WEIR_TEST_ALLOWED", "yes")
	t.Setenv("WEIR_TEST_SECRET", "no")
	spec := fakeSpec(t, "fake", "environment")
	spec.Env = []string{"WEIR_TEST_ALLOWED", "WEIR_TEST_ABSENT"}
	h := testHost(t, bound(spec))
	settle(t, h)
	s := h.current.slots["fake"]
	got := s.inst.manifest.Summary
	want := "PLUGIN_CLIENT_CERT PLUGIN_MAX_PORT PLUGIN_MIN_PORT PLUGIN_PROTOCOL_VERSIONS PLUGIN_UNIX_SOCKET_DIR WEIR_STRATEGY WEIR_TEST_ALLOWED"
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(got)); diff != "" {
		t.Errorf("environment of the child:\n%s", diff)
	}
}

// usage is what the host holds of the machine.
type usage struct {
	children, files int
	sockets         string
}

func measure(t testing.TB) usage {
	t.Helper()
	var u usage
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	u.files = len(fds)
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a thread that ended meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		u.children += len(strings.Fields(string(b)))
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "weir-strategy-*"))
	if err != nil {
		t.Fatal(err)
	}
	u.sockets = strings.Join(dirs, " ")
	return u
}

// maxGrowth is how much more memory may be in use after sixteen more deaths, bytes. What
// the host holds of a single process that serves is about 20 KiB.
const maxGrowth = 192 << 10

// heap is the memory in use, bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one has finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestTwentyKills is case B128: it kills the process in the middle of a call, twenty
// times, of prices and of two hundred moves in turn: every call is answered by the
// built-in, the process comes back, memory does not grow with the rounds, and at the end
// nothing is left over.
func TestTwentyKills(t *testing.T) {
	// Serial: it counts what this whole process holds.
	before, goroutines := measure(t), stacks()
	config, calls := bound(fakeSpec(t, "fake", "wait")), make(chan Call, 1)
	config.Consolidation = "fake"
	h := testHost(t, config, func(o *Options) { o.OnCall = func(c Call) { calls <- c } })
	w := testWorld()
	w.Nodes = []*model.Node{{Name: "n1", Created: w.Now.Add(-time.Hour), USDPerHour: 0.0864, PriceKnown: true, Labels: map[string]string{
		model.LabelPool: "default", model.LabelInstanceType: "m6a.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand}}}
	moves := make([]*model.Command, 200)
	for i := range moves {
		moves[i] = &model.Command{Reason: model.Empty, Remove: w.Nodes, Before: 0.0864}
	}
	warm := uint64(0) // memory in use after the first rounds
	for round := range 20 {
		if round == 4 {
			warm = heap()
		}
		until(t, "ready", func() bool { return statusOf(h, "fake").State == Ready })
		answered := make(chan error, 1)
		go func() {
			if round%2 == 0 {
				prices, err := h.Price(context.Background(), w)
				if p := prices.ByPool["default"]; p.Strategy != "cost-optimal 1.0.0" || p.Outcome != "dead" {
					err = fmt.Errorf("answered by %q, outcome %s, want the built-in and dead", p.Strategy, p.Outcome)
				}
				answered <- err
				return
			}
			scores, err := h.Score(context.Background(), w, moves)
			if len(scores) != len(moves) || !scores[0].Accept {
				err = fmt.Errorf("scores %+v, want one for each of %d moves, and that of an empty node accepted", scores, len(moves))
			}
			answered <- err
		}()
		s := h.current.slots["fake"]
		until(t, "a call under way", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.calls > 0 })
		if err := syscall.Kill(statusOf(h, "fake").PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c := <-calls
		if err := <-answered; err != nil || c.Outcome != Dead || !strings.Contains(c.Fallback, " 1.") {
			t.Fatalf("round %d: %v, call %+v", round, err, c)
		}
		until(t, "restart", func() bool { st := statusOf(h, "fake"); return st.Starts > round+1 })
	}
	until(t, fmt.Sprintf("at most %d KiB more in use than the %d KiB after four rounds", maxGrowth>>10, warm>>10),
		func() bool { return heap() <= warm+maxGrowth })
	h.Close()
	until(t, "everything is as before", func() bool { return measure(t) == before })
	until(t, "goroutines as before:\n"+stacks(), func() bool { return strings.Count(stacks(), "goroutine ") <= strings.Count(goroutines, "goroutine ") })
}

// TestFiftyFailedStarts is case B130, of a plugin whose handshake works and whose
// dispense fails: no child is left.
func TestFiftyFailedStarts(t *testing.T) {
	// Serial: it counts what this whole process holds.
	before, goroutines := measure(t), stacks()
	h := testHost(t, bound(fakeSpec(t, "fake", "fails-self-test")), func(o *Options) { o.Backoff = func(int) time.Duration { return 0 } })
	until(t, "fifty failures", func() bool { return statusOf(h, "fake").Failures >= 50 })
	h.Close()
	until(t, "everything is as before", func() bool { return measure(t) == before })
	until(t, "goroutines as before:\n"+stacks(), func() bool { return strings.Count(stacks(), "goroutine ") <= strings.Count(goroutines, "goroutine ") })
}

// TestGrandchildrenEnd ends a strategy that has started a process of its own.
func TestGrandchildrenEnd(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "fake", "forks")), func(o *Options) { o.Kernel = noFence() })
	settle(t, h)
	pid := statusOf(h, "fake").PID
	group := func() int {
		n := 0
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil || len(stats) == 0 {
			t.Skip("needs /proc")
		}
		for _, path := range stats {
			b, err := os.ReadFile(path)
			if err != nil {
				continue // it ended meanwhile
			}
			fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
			if fields[2] == strconv.Itoa(pid) && fields[0] != "Z" {
				n++
			}
		}
		return n
	}
	if n := group(); n != 2 {
		t.Fatalf("%d processes in the group, want the strategy and its child", n)
	}
	h.Close()
	until(t, "the group is gone", func() bool { return group() == 0 })
}

// TestSwapUnderCalls changes the configuration while calls are made without pause:
// each is answered well by one of the two, and the last by the new one.
func TestSwapUnderCalls(t *testing.T) {
	t.Parallel()
	specs := []Spec{fakeSpec(t, "cost-optimal", "builtin", "cost-optimal"), fakeSpec(t, "first-fit", "builtin", "first-fit")}
	h := testHost(t, bound(specs[0]))
	settle(t, h)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				prices, err := h.Price(context.Background(), testWorld())
				if err != nil {
					t.Error(err)
					return
				}
				for name, p := range prices.ByPool {
					if p.Outcome != "ok" {
						t.Errorf("pool %s: outcome %s by %s", name, p.Outcome, p.Strategy)
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	for i := range 6 {
		spec := specs[(i+1)%2]
		if err := h.Apply(bound(spec)); err != nil {
			t.Fatal(err)
		}
		settle(t, h)
		if p := price(t, h); p.Strategy != spec.Name+" 1.0.0" {
			t.Fatalf("swap %d: answered by %q, want %s", i, p.Strategy, spec.Name)
		}
	}
	close(stop)
	wg.Wait()
}

// TestBadConfigurationKeepsTheOld applies configurations that cannot be served.
func TestBadConfigurationKeepsTheOld(t *testing.T) {
	t.Parallel()
	h := testHost(t, Config{InstanceSelection: "first-fit"})
	for name, c := range map[string]Config{
		"unknown name":    {InstanceSelection: "cheapest"},
		"relative path":   bound(Spec{Name: "x", Path: "bin/x"}),
		"pin too short":   bound(Spec{Name: "x", Path: "/x", SHA256: "abcd"}),
		"twice":           {Strategies: []Spec{{Name: "savings"}, {Name: "savings"}}},
		"not for it":      {Strategies: []Spec{{Name: "savings", Config: []byte(`{"floor": -1}`)}}},
		"no JSON":         bound(Spec{Name: "x", Path: "/x", Config: []byte(`{`)}),
		"nameless":        {Strategies: []Spec{{Path: "/x"}}},
		"not a built-in":  {Strategies: []Spec{{Name: "mine"}}},
		"unknown setting": {Strategies: []Spec{{Name: "cost-optimal", Config: []byte(`{"fee": 1}`)}}},
	} {
		if err := h.Apply(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := h.Apply(bound(fakeSpec(t, "fake", "die"))); err != nil {
		t.Fatal(err)
	}
	if err := h.Settled(context.Background()); err == nil {
		t.Error("a strategy that dies at start: no error")
	}
	if p := price(t, h); p.Strategy != "first-fit 1.0.0" || p.Outcome != "ok" {
		t.Errorf("answered by %q, outcome %s, want the configuration before", p.Strategy, p.Outcome)
	}
	if st := statusOf(h, "fake"); !st.Pending {
		t.Errorf("status %+v, want pending", st)
	}
}

// TestPinHoldsWhatRuns replaces the file after it was taken into service: the copy
// that was verified goes on, also after a restart.
func TestPinHoldsWhatRuns(t *testing.T) {
	t.Parallel()
	self, err := os.ReadFile(fakeSpec(t, "fake").Path)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, self, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := fakeSpec(t, "fake", "well")
	spec.Path = path
	h := testHost(t, bound(spec))
	settle(t, h)
	was := statusOf(h, "fake")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(was.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the same again", func() bool {
		st := statusOf(h, "fake")
		return st.State == Ready && st.PID != was.PID && st.SHA256 == was.SHA256
	})
}

// logged is what a behaviour leaves in the log under the strategy's name, after a
// start, a call and the end.
func logged(t *testing.T, behaviour string) *observer.ObservedLogs {
	t.Helper()
	zapCore, logs := observer.New(zapcore.DebugLevel)
	h := testHost(t, bound(fakeSpec(t, "chatty", behaviour)), func(o *Options) { o.Log = zap.New(zapCore) })
	settle(t, h)
	price(t, h)
	h.Close()
	return logs.FilterField(zap.String("strategy", "chatty"))
}

// TestFloodIsLimited floods standard error: some lines are in the log, and how many
// were left out.
func TestFloodIsLimited(t *testing.T) {
	t.Parallel()
	left, lines := int64(0), 0
	for _, e := range logged(t, "noisy").All() {
		if strings.Contains(e.Message, "lines were left out") {
			left += e.ContextMap()["lines"].(int64)
		} else if strings.HasPrefix(e.Message, "line ") {
			lines++
		}
	}
	if left == 0 || lines == 0 || lines > 1000 || lines+int(left) != 5000 {
		t.Errorf("%d lines in the log, %d left out, want some of both and 5000 together", lines, left)
	}
}

// TestStandardOutputIsLogged prints before the handshake and after it.
func TestStandardOutputIsLogged(t *testing.T) {
	t.Parallel()
	for behaviour, line := range map[string]string{"stray": "loading 1|2 models...", "prints": "to standard output, 2 pools"} {
		if n := logged(t, behaviour).FilterMessage(line).Len(); n != 1 {
			t.Errorf("%s: %q is in the log %d times, want once", behaviour, line, n)
		}
	}
}

func TestBackoffAndBreaker(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	for n := 1; n <= 9; n++ {
		waits = append(waits, Options{}.withDefaults().Backoff(n)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60}, waits); diff != "" {
		t.Error(diff)
	}
	h := testHost(t, bound(fakeSpec(t, "fake", "die")), func(o *Options) { o.BreakAfter, o.BreakFor = 3, time.Hour })
	until(t, "the breaker", func() bool { return statusOf(h, "fake").State == Broken })
	if st := statusOf(h, "fake"); st.Starts != 3 || st.Failures != 3 {
		t.Errorf("%d starts, %d failures, want 3", st.Starts, st.Failures)
	}
}

// TestScore judges moves in process and by a process, and falls back.
func TestScore(t *testing.T) {
	t.Parallel()
	w := testWorld()
	node := func(name, pool string) *model.Node {
		return &model.Node{Name: name, Created: w.Now.Add(-time.Hour), USDPerHour: 0.0864, PriceKnown: true, Labels: map[string]string{
			model.LabelPool: pool, model.LabelInstanceType: "m6a.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand}}
	}
	w.Nodes = []*model.Node{node("n1", "default"), node("n2", "steady")}
	moves := []*model.Command{
		{Reason: model.Underutilized, Remove: w.Nodes[1:], Before: 0.0864, After: 0.0863, Worst: 0.0863, PodsEvicted: 30,
			Launch: []*model.NewNode{{Pool: w.Pools[1], Offering: w.Offerings["default"][0]}}},
		{Reason: model.Empty, Remove: w.Nodes[:1], Before: 0.0864},
	}
	for name, c := range map[string]struct {
		config Config
		want   []bool
	}{
		"built-in":           {Config{}, []bool{false, true}},
		"built-in, no floor": {Config{Strategies: []Spec{{Name: "savings", Config: []byte(`{"floor": 0}`)}}}, []bool{true, true}},
		"process":            {Config{Strategies: []Spec{fakeSpec(t, "fake", "well")}, Consolidation: "fake"}, []bool{true, true}},
		"no numbers":         {Config{Strategies: []Spec{fakeSpec(t, "fake", "nan")}, Consolidation: "fake"}, []bool{false, true}},
		"too few":            {Config{Strategies: []Spec{fakeSpec(t, "fake", "short")}, Consolidation: "fake"}, []bool{false, true}},
		"empty":              {Config{Strategies: []Spec{fakeSpec(t, "fake", "empty")}, Consolidation: "fake"}, []bool{false, true}},
		"not for it":         {Config{Consolidation: "first-fit"}, []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := testHost(t, c.config)
			settle(t, h)
			scores, err := h.Score(context.Background(), w, moves)
			if err != nil {
				t.Fatal(err)
			}
			var got []bool
			for i, s := range scores {
				got = append(got, s.Accept)
				if !s.Accept && s.Reason == "" {
					t.Errorf("move %d refused without a reason", i)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("accepted: %s\n%v", diff, fmt.Sprint(scores))
			}
		})
	}
}

// TestClosedHostStillAnswers: calls after the end are answered by the built-ins.
func TestClosedHostStillAnswers(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "fake", "well")))
	h.Close()
	if p := price(t, h); p.Strategy != "cost-optimal 1.0.0" || p.Outcome == "ok" {
		t.Errorf("answered by %q, outcome %s", p.Strategy, p.Outcome)
	}
	if err := h.Apply(Config{}); err == nil {
		t.Error("a closed host took a configuration")
	}
}

// TestParentDeath kills a host with SIGKILL, which cannot clean up after itself: its
// strategy goes with it.
func TestParentDeath(t *testing.T) {
	t.Parallel()
	host := exec.Command(fakeSpec(t, "fake").Path, "serve", "host")
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Errorf("the host printed no process id: %v", err)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait() // says that it was killed
	until(t, "the strategy is gone", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

// TestAnswersMakePlans packs the seed's pods with both strategies as processes: what
// they answer changes the plan, and the engine finds both plans legal.
func TestAnswersMakePlans(t *testing.T) {
	t.Parallel()
	table := catalogue.Embedded()
	w := testWorld()
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	w.Offerings = map[string][]*model.Offering{"default": table.Offerings(w.NodeClasses["default"], zones, catalogue.Options{})}
	w.Pods = nil
	for i := range 200 {
		w.Pods = append(w.Pods, &model.Pod{UID: strconv.Itoa(i), Namespace: "default", Name: fmt.Sprintf("p%d", i), Terms: []require.Set{{}},
			Requests: resource.New(500+int64(i%7)*250, 1<<30, 1, 0)})
	}
	plans := map[string]*model.Plan{}
	h := testHost(t, Config{})
	for _, name := range []string{"cost-optimal", "first-fit"} {
		if err := h.Apply(bound(fakeSpec(t, name, "builtin", name))); err != nil {
			t.Fatal(err)
		}
		settle(t, h)
		prices, err := h.Price(context.Background(), w)
		if err != nil {
			t.Fatal(err)
		}
		plan := provision.Plan(w, prices)
		if len(plan.Unplaced) > 0 || len(plan.Launch) == 0 {
			t.Fatalf("%s: %d nodes, %d pods not placed", name, len(plan.Launch), len(plan.Unplaced))
		}
		for _, err := range engine.Check(w, plan) {
			t.Errorf("%s: %v", name, err)
		}
		plans[name] = plan
	}
	usd := func(p *model.Plan) (sum float64) {
		for _, n := range p.Launch {
			sum += n.Offering.USDPerHour
		}
		return sum
	}
	if cheap, large := usd(plans["cost-optimal"]), usd(plans["first-fit"]); cheap >= large {
		t.Errorf("cost-optimal pays %v USD/h for %d nodes, first-fit %v for %d", cheap, len(plans["cost-optimal"].Launch), large, len(plans["first-fit"].Launch))
	}
}

// BenchmarkPrice compares a call in process with the same call to a process, over the
// whole embedded catalogue and 50,000 waiting pods.
func BenchmarkPrice(b *testing.B) {
	table := catalogue.Embedded()
	w := testWorld()
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	w.Offerings = map[string][]*model.Offering{"default": table.Offerings(w.NodeClasses["default"], zones, catalogue.Options{})}
	for len(w.Pods) < 50000 {
		w.Pods = append(w.Pods, w.Pods[0])
	}
	for name, config := range map[string]Config{"in-process": {}, "process": bound(fakeSpec(b, "cost-optimal", "builtin", "cost-optimal"))} {
		b.Run(name, func(b *testing.B) {
			h := testHost(b, config)
			settle(b, h)
			for b.Loop() {
				if _, err := h.Price(context.Background(), w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMemoryLimit ends a process that holds too much, be it ready by then or not, and says so.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	spec := fakeSpec(t, "fake", "grows")
	spec.MemoryLimit = 200 << 20
	h := testHost(t, bound(spec), func(o *Options) { o.Backoff = func(int) time.Duration { return time.Hour } })
	until(t, "its end", func() bool { return statusOf(h, "fake").State == BackingOff })
	if st := statusOf(h, "fake"); !strings.Contains(st.LastError, "memoryLimit is 200 MiB") {
		t.Errorf("status %+v, want the memory limit as the reason", st)
	}
}
