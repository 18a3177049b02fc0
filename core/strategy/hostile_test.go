package strategy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-project/weir/core/strategy/sandbox"
	"github.com/weir-project/weir/plugins/sdk"
)

// noFence is a kernel that has no fences, on which a strategy can start processes.
func noFence() *sandbox.Kernel { return &sandbox.Kernel{} }

// beHostile is what a hostile strategy does when it is started.
func beHostile(behaviour string) {
	switch behaviour {
	case "ignores-sigterm":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "ends-slowly":
		go func() { // the library ends with main, and main does not
			c := make(chan os.Signal, 1)
			signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
			select {}
		}()
	}
}

// takeEarly takes too much of something before the handshake.
func takeEarly(what string) {
	switch what {
	case "memory":
		hold := make([]byte, 200<<20)
		for i := 0; i < len(hold); i += 4096 {
			hold[i] = 1
		}
		defer runtime.KeepAlive(hold)
		select {}
	case "processors":
		for x := uint64(0); ; x++ {
			runtime.KeepAlive(x)
		}
	case "threads":
		for range maxThreads + 100 {
			go func() {
				runtime.LockOSThread()
				select {}
			}()
		}
	case "files":
		for i := range 3 * maxEntries {
			_ = os.WriteFile(fmt.Sprintf("file%d", i), nil, 0o600) // until it is ended
		}
	}
}

// hostile is what it does in a call.
func (f *fake) hostile(req *sdk.PriceRequest, ans *sdk.PriceAnswer) {
	switch f.behaviour {
	case "steals":
		for name, err := range steal(f.args) {
			fmt.Fprintf(os.Stderr, "try: %s: %v\n", name, err)
		}
		fmt.Fprintln(os.Stderr, "tried")
	case "allocates":
		for hold := [][]byte{}; ; {
			b := make([]byte, 16<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			hold = append(hold, b)
		}
	case "threads":
		for range maxThreads + 100 {
			go func() {
				runtime.LockOSThread()
				select {}
			}()
		}
		select {}
	case "spins":
		go func() {
			for x := int64(0); ; x++ {
				f.asked.Store(x)
			}
		}()
	case "floods":
		for _, out := range []*os.File{os.Stdout, os.Stderr} {
			go func() {
				for {
					fmt.Fprint(out, strings.Repeat("z", 1<<20)) // lines without end
					fmt.Fprintln(out, strings.Repeat("flood\n", 1000))
				}
			}()
		}
	case "panics-aside":
		go func() { panic("nobody recovers this") }()
		select {}
	case "million-offerings":
		ans.Pools[0].USDPerHour = make([]float64, 1_000_000)
	case "makes-files":
		go func() {
			for i := range 3 * maxEntries {
				_ = os.WriteFile(fmt.Sprintf("file%d", i), nil, 0o600) // until it is ended
			}
		}()
	case "leaves-things":
		for i := range 100 {
			if err := os.WriteFile(fmt.Sprintf("file%d", i), nil, 0o600); err != nil {
				panic(err)
			}
		}
		if _, err := net.Listen("unix", "left"); err != nil {
			panic(err)
		}
	}
}

// steal tries to get at what is not its own, and tells what came of each try; nil is a
// success. The arguments: a token, a TCP and a UDP address, a Unix socket.
func steal(args []string) map[string]error {
	token, tcp, udp, socket := args[0], args[1], args[2], args[3]
	out := map[string]error{}
	_, out["token"] = os.ReadFile(token)
	host := os.Getppid()
	_, out["token by /proc"] = os.ReadFile(fmt.Sprintf("/proc/%d/root%s", host, token))
	_, out["host's environment"] = os.ReadFile(fmt.Sprintf("/proc/%d/environ", host))
	_, out["host's memory"] = os.Open(fmt.Sprintf("/proc/%d/mem", host))
	out["write outside"] = os.WriteFile(token+".stolen", []byte("x"), 0o600)
	out["write inside"] = os.WriteFile("file", []byte("x"), 0o600)
	dial := func(network, address string) error {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("secret"))
		return err
	}
	out["TCP"], out["UDP"], out["Unix"] = dial("tcp", tcp), dial("udp", udp), dial("unix", socket)
	_, out["listen"] = net.Listen("tcp", "127.0.0.1:0")
	out["signal"] = syscall.Kill(host, syscall.SIGURG)
	out["trace"] = syscall.PtraceAttach(host)
	out["fork"] = exec.Command("/bin/true").Run()
	out["itself again"] = exec.Command("/proc/self/exe").Run()
	if os.Getenv("AWS_SECRET_ACCESS_KEY") == "" {
		out["AWS keys"] = errors.New("not there")
	} else {
		out["AWS keys"] = nil
	}
	var open []*os.File
	for range 10 * maxFiles {
		f, err := os.Open("/dev/null")
		if out["descriptors"] = err; err != nil {
			break
		}
		open = append(open, f)
	}
	for _, f := range open {
		f.Close()
	}
	return out
}

// watched is a host whose only strategy is hostile, what it logs and the call it made.
func watched(t *testing.T, spec Spec, change ...func(*Options)) (*Host, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	h := testHost(t, bound(spec), append([]func(*Options){func(o *Options) {
		o.Log = zap.New(core)
		o.Backoff = func(int) time.Duration { return time.Hour }
	}}, change...)...)
	settle(t, h)
	return h, logs
}

// TestStealsNothing tries to read a token, the environment and the memory of the host,
// to reach anybody, to write anywhere, to signal and trace the host and to start
// processes, behind the fence of this kernel and behind that of AL2023's first one.
func TestStealsNothing(t *testing.T) {
	// Serial: it sets the environment of this process.
	if ok, why := sandbox.Detect().Whole(); !ok {
		t.Skip(why)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	older := sandbox.Detect().Mask(2, true)
	for name, kernel := range map[string]*sandbox.Kernel{"this kernel": nil, "Landlock 2": &older} {
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		unix, err := net.Listen("unix", filepath.Join(os.TempDir(), strconv.Itoa(rand.IntN(1e9))))
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close()
		spec := fakeSpec(t, "fake", "steals", token, tcp.Addr().String(), udp.LocalAddr().String(), unix.Addr().String())
		h, logs := watched(t, spec, func(o *Options) { o.Kernel = kernel })
		prices, err := h.Price(context.Background(), testWorld())
		if err != nil {
			t.Fatal(err)
		}
		p := prices.ByPool["default"]
		if p.Outcome != "ok" {
			t.Fatalf("%s: outcome %s, %+v", name, p.Outcome, statusOf(h, "fake"))
		}
		until(t, "all has been tried", func() bool { return logs.FilterMessage("tried").Len() == 1 })
		tries := logs.FilterMessageSnippet("try: ").All()
		if len(tries) != 16 {
			t.Errorf("%s: %d tries in the log, want 16", name, len(tries))
		}
		for _, e := range tries {
			if strings.HasSuffix(e.Message, "<nil>") {
				t.Errorf("%s: %s", name, e.Message)
			}
		}
		if _, err := os.Stat(token + ".stolen"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it wrote beside the token: %v", name, err)
		}
		if err := udp.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if n, _, err := udp.ReadFrom(make([]byte, 10)); err == nil {
			t.Errorf("%s: %d bytes came by UDP", name, n)
		}
		if f := statusOf(h, "fake").Fence; f.Whole != (kernel == nil) || f.Isolation != "process" || !f.Seccomp || (f.Missing == "") != f.Whole {
			t.Errorf("%s: the status says %+v", name, f)
		}
		h.Close()
	}
}

// TestRefusedWithoutFence: what is not trusted does not start where the kernel cannot
// fence it in, and nothing does where the setting insists; both say what is missing.
func TestRefusedWithoutFence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allow, require bool
		kernel         sandbox.Kernel
		want           string // part of the error, empty = it runs
	}{
		"Linux 6.12":                       {false, false, sandbox.Kernel{Landlock: 6, Seccomp: true}, ""},
		"AL2023, not trusted":              {false, false, sandbox.Kernel{Landlock: 2, Seccomp: true}, "version 2 of Landlock, a whole fence needs 6 (Linux 6.12)"},
		"AL2023, trusted":                  {true, false, sandbox.Kernel{Landlock: 2, Seccomp: true}, ""},
		"AL2023, trusted, setting insists": {true, true, sandbox.Kernel{Landlock: 2, Seccomp: true}, "requireSandbox is set"},
		"no Landlock":                      {false, false, sandbox.Kernel{Seccomp: true}, "has no Landlock"},
		"no filter":                        {false, false, sandbox.Kernel{Landlock: 7}, "no seccomp filter"},
		"nothing, trusted":                 {true, false, sandbox.Kernel{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := sandbox.Detect(); d.Landlock < c.kernel.Landlock || c.kernel.Seccomp && !d.Seccomp {
				t.Skipf("this kernel has %+v", d)
			}
			spec := fakeSpec(t, "fake", "well")
			spec.AllowUnsandboxed, spec.RequireSandbox = c.allow, c.require
			h := testHost(t, bound(spec), func(o *Options) {
				o.Kernel = &c.kernel
				o.Backoff = func(int) time.Duration { return time.Hour }
			})
			err := h.Settled(context.Background())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if p := price(t, h); (p.Outcome == "ok") != (c.want == "") {
				t.Errorf("outcome %s", p.Outcome)
			}
		})
	}
}

// TestCeilings ends strategies that take too much; the built-in answers and the reason
// is kept.
func TestCeilings(t *testing.T) {
	t.Parallel()
	for behaviour, c := range map[string]struct {
		change func(*Spec)
		want   []string // any of these in the last error
	}{
		// Either the kernel refuses more, or the watchdog comes first.
		"allocates":   {func(s *Spec) { s.MemoryLimit = 64 << 20 }, []string{"memoryLimit is 64 MiB", "out of memory", "cannot allocate memory"}},
		"threads":     {func(*Spec) {}, []string{fmt.Sprintf("%d is the most", maxThreads)}},
		"makes-files": {func(*Spec) {}, []string{fmt.Sprintf("more than %d files", maxEntries)}},
		"spins":       {func(s *Spec) { s.CPULimit = 0.2 }, []string{"cpuLimit is 0.2 processors"}},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			spec := fakeSpec(t, "fake", behaviour)
			c.change(&spec)
			h, _ := watched(t, spec, func(o *Options) { o.CPUWindow = 2 * time.Second })
			want := "dead"
			if behaviour == "spins" || behaviour == "makes-files" {
				want = "ok" // it answers, and goes on after that
			}
			if p := price(t, h); p.Outcome != want {
				t.Errorf("outcome %s, want %s", p.Outcome, want)
			}
			until(t, "its end", func() bool { return statusOf(h, "fake").State == BackingOff })
			last := statusOf(h, "fake").LastError
			for _, w := range c.want {
				if strings.Contains(last, w) {
					return
				}
			}
			t.Errorf("last error %q, want one of %q", last, c.want)
		})
	}
}

// TestCeilingsHoldFromTheStart: the same before the handshake, of strategies that are never
// ready.
func TestCeilingsHoldFromTheStart(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{"memory": "memoryLimit is 64 MiB", "processors": "cpuLimit is 0.2 processors",
		"threads": fmt.Sprintf("%d is the most", maxThreads), "files": fmt.Sprintf("more than %d files", maxEntries)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			spec := fakeSpec(t, "fake", "takes-early", what)
			spec.CPULimit = 0.2
			if what == "memory" {
				spec.MemoryLimit = 64 << 20
			}
			h := testHost(t, bound(spec), func(o *Options) {
				o.CPUWindow, o.Backoff = 2*time.Second, func(int) time.Duration { return time.Hour }
				if what != "processors" {
					o.CPUWindow = time.Hour // a busy start is no matter here
				}
			})
			err := h.Settled(context.Background()) // would wait for the start time-out if nobody looked
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// TestProcessorTimeIsAnAverage feeds the watchdog: bursts are fine.
func TestProcessorTimeIsAnAverage(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	for name, c := range map[string]struct {
		cpu  []time.Duration // taken, second by second
		ends int             // second at which it is ended, -1 = never
	}{
		"idle":            {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0}, -1},
		"a burst":         {[]time.Duration{0, 1, 2, 2, 2, 2, 2, 3, 4, 4}, -1},
		"all the time":    {[]time.Duration{0, 1, 2, 3, 4, 5, 6}, 3},
		"many processors": {[]time.Duration{0, 4, 8}, 1},
	} {
		w := newWatchdog(Spec{CPULimit: 0.5}, 4*time.Second, "")
		w.begin(1, start)
		ended := -1
		for second, cpu := range c.cpu {
			if err := w.judge(taken{cpu: cpu * time.Second}, start.Add(time.Duration(second)*time.Second)); err != nil {
				ended = second
				break
			}
		}
		if ended != c.ends {
			t.Errorf("%s: ended at second %d, want %d", name, ended, c.ends)
		}
	}
}

// TestFloods writes to standard output and standard error as fast as it can, in lines
// of a megabyte: calls are answered, and little of it is in the log.
func TestFloods(t *testing.T) {
	t.Parallel()
	h, logs := watched(t, fakeSpec(t, "fake", "floods"))
	began := time.Now()
	for range 50 {
		if p := price(t, h); p.Outcome != "ok" {
			t.Fatalf("outcome %s", p.Outcome)
		}
	}
	size := 0
	for _, e := range logs.All() {
		if len(e.Message) > maxLine {
			t.Fatalf("a line of %d bytes", len(e.Message))
		}
		size += len(e.Message)
	}
	if most := int(time.Since(began).Seconds()+6) * 25 * maxLine; size > most {
		t.Errorf("%d bytes in the log", size)
	}
}

// TestPanicIsKept: the panic of a goroutine ends the process, and its text is the last
// error.
func TestPanicIsKept(t *testing.T) {
	t.Parallel()
	h, logs := watched(t, fakeSpec(t, "fake", "panics-aside"))
	if p := price(t, h); p.Outcome != "dead" {
		t.Errorf("outcome %s", p.Outcome)
	}
	until(t, "its end", func() bool { return statusOf(h, "fake").State == BackingOff })
	if last := statusOf(h, "fake").LastError; !strings.Contains(last, "panic: nobody recovers this") {
		t.Errorf("last error %q", last)
	}
	if logs.FilterLevelExact(zapcore.ErrorLevel).FilterMessageSnippet("panic: nobody recovers this").Len() != 1 {
		t.Error("the panic is not in the log as an error")
	}
}

// TestHostileAnswers: as TestOutcomes, for answers that are large or for others.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	h, _ := watched(t, fakeSpec(t, "fake", "million-offerings"))
	if p := price(t, h); p.Outcome != "invalid" || p.Strategy != "cost-optimal 1.0.0" || len(p.Offerings) != 4 {
		t.Errorf("answered by %q, outcome %s", p.Strategy, p.Outcome)
	}
}

// TestEndsWhenItShould: neither ignored signals nor a main that does not return keep a
// strategy alive, and what it left in its folder goes with it.
func TestEndsWhenItShould(t *testing.T) {
	t.Parallel()
	for _, behaviour := range []string{"ignores-sigterm", "ends-slowly", "leaves-things"} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			h, _ := watched(t, fakeSpec(t, "fake", behaviour))
			if p := price(t, h); p.Outcome != "ok" {
				t.Fatalf("outcome %s", p.Outcome)
			}
			pid, dir := statusOf(h, "fake").PID, h.current.slots["fake"].inst.dir
			if first, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); runtime.GOOS == "linux" && (err != nil || string(first) != "1000\n") {
				t.Errorf("where memory is short it is not the first to go: %q, %v", first, err)
			}
			if behaviour == "leaves-things" {
				if left, err := os.ReadDir(dir); err != nil || len(left) < 100 {
					t.Fatalf("%d files in its folder, %v", len(left), err)
				}
			}
			h.Close()
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d: %v, want that there is none", pid, err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder: %v, want that there is none", err)
			}
		})
	}
}

// TestSoak makes two thousand calls (a thousand with -short), at each level in turn, while
// the process is killed at random moments: every call is answered, and nothing is left over.
func TestSoak(t *testing.T) {
	// Serial: it counts what this whole process holds.
	calls, most := 10_000, 400
	if testing.Short() {
		calls, most = 1000, 50
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	before, goroutines := measure(t), stacks()
	heard := &heard{}
	h := testHost(t, everywhere(fakeSpec(t, "fake", "levels", "well")), func(o *Options) {
		o.OnCall = heard.on
		o.Backoff = func(int) time.Duration { return 0 }
	})
	ctx, w := context.Background(), levelsWorld()
	settle(t, h)
	own, err := pricesOf(ctx, h, w) // of the strategy, without which it is asked for no draft
	if err != nil {
		t.Fatal(err)
	}
	kills, last := 0, 0
	var killing sync.WaitGroup
	ready := func() {
		until(t, "ready", func() bool { st := statusOf(h, "fake"); return st.State == Ready && st.PID != last })
	}
	for done, kill, wait := 0, 0, -1; done < calls; done++ {
		switch done {
		case wait: // until then it was asked while it was dead or starting
			ready()
		case kill:
			ready()
			kills++
			wait = done + 1 + random.IntN(20)
			kill = wait + 1 + random.IntN(most)
			last = statusOf(h, "fake").PID
			pid, spin := last, random.IntN(1000)
			killing.Add(1)
			go func() { // somewhere within the call below
				defer killing.Done()
				for range spin {
					runtime.Gosched()
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("killing %d: %v", pid, err)
				}
			}()
		}
		switch done % 4 {
		case 0:
			_, err = pricesOf(ctx, h, w)
		case 1:
			err = draftOf(ctx, h, w, own)
		case 2:
			_, err = scoresOf(ctx, h, w)
		case 3:
			err = movesOf(ctx, h, w)
		}
		if err != nil {
			t.Fatalf("seed %d, call %d: %v", seed, done, err)
		}
		killing.Wait()
	}
	h.Close()
	dead := 0
	for _, level := range []string{LevelPrice, LevelScore, LevelPlan, LevelPropose} {
		outcomes := map[Outcome]int{}
		for _, c := range heard.level(level) {
			outcomes[c.Outcome]++
		}
		dead += outcomes[Dead]
		t.Logf("%s: %d kills, outcomes %v", level, kills, outcomes)
		// A dead one is not asked for plans and moves, and what it does not propose is judged.
		n := len(heard.level(level))
		if outcomes[OK] == 0 || outcomes[OK]+outcomes[Dead] != n || level == LevelPrice && n != 1+calls/4 || level == LevelScore && n < calls/4 {
			t.Errorf("seed %d, level %s: %d calls of %d, %d kills, outcomes %v", seed, level, n, calls, kills, outcomes)
		}
	}
	if dead < kills/4 {
		t.Errorf("seed %d: %d kills, %d calls that found it dead", seed, kills, dead)
	}
	until(t, "everything is as before", func() bool { return measure(t) == before })
	until(t, "goroutines as before:\n"+stacks(), func() bool { return strings.Count(stacks(), "goroutine ") <= strings.Count(goroutines, "goroutine ") })
}

// TestLinesWithoutEnd: a line that never ends takes a bounded part of memory.
func TestLinesWithoutEnd(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.InfoLevel)
	l := newLineLog(zap.New(core))
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range 64 {
		if n, err := l.Write(block); n != len(block) || err != nil {
			t.Fatal(n, err)
		}
	}
	if cap(l.partial) > 4*maxLine || logs.Len() != 0 {
		t.Errorf("%d bytes are kept, %d lines logged", cap(l.partial), logs.Len())
	}
	if _, err := l.Write([]byte("\n")); err != nil || logs.Len() != 1 {
		t.Errorf("%d lines logged, %v", logs.Len(), err)
	}
}
