package strategy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// readAll reads a file of records to its end.
func readAll(t testing.TB, path string) ([]*Recorded, error) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []*Recorded
	for r, err := range ReadRecords(bytes.NewReader(b), path) {
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

// recorded makes a host with records ask both kinds so many times and answers the file.
func recorded(t testing.TB, config Config, plans int) string {
	t.Helper()
	dir := t.TempDir()
	h := testHost(t, config, func(o *Options) { o.Records.Folder = dir })
	settle(t, h)
	for range plans {
		if _, _, err := askBoth(context.Background(), h); err != nil {
			t.Fatal(err)
		}
	}
	h.Close()
	if st := h.Records(); st.Written != int64(2*plans) || st.Dropped+st.Failed > 0 {
		t.Fatalf("records %+v, want %d written", st, 2*plans)
	}
	files, err := RecordFiles(dir, false)
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v (%v), want one", files, err)
	}
	return files[0]
}

// TestRecordAndReplay records calls of a process and of a built-in, and asks again: the
// same strategy gives the same answers, another one a difference that can be read.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	path := recorded(t, everywhere(factored(t, 2)), 2)
	records, err := readAll(t, path)
	if err != nil || len(records) != 4 {
		t.Fatalf("%d records (%v), want 4", len(records), err)
	}
	c := records[0].Call
	if c.Strategy != "fake" || c.Version != "0.1" || len(c.SHA256) != 64 || len(c.ConfigSHA256) != 64 || c.Outcome != OK || c.TookSeconds <= 0 || time.Since(c.Time) > time.Hour {
		t.Errorf("record %+v", c)
	}
	replay := func(spec Spec) (changes []string) {
		d, err := Open(context.Background(), spec, Options{CallTimeout: patience, StartTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, r := range records {
			got, err := Replay(context.Background(), d, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range got.Changes {
				changes = append(changes, c.String())
			}
		}
		return changes
	}
	if got := replay(factored(t, 2)); got != nil {
		t.Errorf("the same strategy: %q, want no difference", got)
	}
	want := []string{
		"pool default: price of m6a.large/us-east-1a/on-demand was 0.1728 USD/h, is 0.2592 USD/h",
		"pool default: price of m6a.large/us-east-1a/spot was 0.06 USD/h, is 0.09 USD/h",
		"pool default: price of m6a.large/us-east-1b/on-demand was 0.1728 USD/h, is 0.2592 USD/h",
		"pool default: price of m6a.large/us-east-1b/spot was 0.06 USD/h, is 0.09 USD/h",
		"pool steady: price of m6a.large/us-east-1a/on-demand was 0.1728 USD/h, is 0.2592 USD/h",
		"pool steady: price of m6a.large/us-east-1b/on-demand was 0.1728 USD/h, is 0.2592 USD/h",
		"move 1: score of n1 was 2, is 3",
	}
	if diff := cmp.Diff(append(want, want...), replay(factored(t, 3))); diff != "" {
		t.Error(diff)
	}
	if got := replay(factored(t, 2, "veto")); len(got) != 2 || got[0] != "pool default: veto of m6a.large/us-east-1a/on-demand was none, is not today" {
		t.Errorf("with a veto: %q", got)
	}
	if got := replay(factored(t, 2, "nan")); len(got) != 4 || got[0] != "answer: outcome was ok, is invalid" {
		t.Errorf("no numbers: %q", got)
	}
	if got := replay(Spec{Name: "cost-optimal"}); len(got) < 8 {
		t.Errorf("a built-in: %q, want its prices and that it judges no moves", got)
	}
}

// TestRecordedInputs: what is read is what was asked.
func TestRecordedInputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRecorder(RecordOptions{Folder: dir}, testLog())
	price, score := sdk.SamplePrice(), sdk.SampleScore()
	price.Commitments = []sdk.Commitment{{Name: "plan", Covers: sdk.Selector{{Key: sdk.LabelArch, Values: []string{"arm64"}}}, USDPerHour: 3}}
	for _, p := range []problem{{kind: sdk.InstanceSelection, level: LevelPrice, input: price}, {kind: sdk.Consolidation, level: LevelScore, input: score}} {
		r.later(func() error {
			return r.call(&Record{Strategy: "x", Kind: p.kind, Level: p.level, Outcome: Late, Error: "too late"}, p, nil)
		})
	}
	r.end()
	files, err := RecordFiles(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(t, files[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Answer != nil {
		t.Fatalf("%d records, the first with answer %v", len(got), got[0].Answer)
	}
	if diff := cmp.Diff([]any{price, score}, []any{got[0].Input, got[1].Input}); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want that only we can read it", info.Mode(), err)
	}
}

// TestRecordsAreBounded writes much more than fits: the newest is there, in files that
// can each be read by itself, and never more than allowed.
func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "calls-00000000T000000.000000000Z-1-000001.jsonl"), make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	const limit = 400 << 10
	r := newRecorder(RecordOptions{Folder: dir, MaxBytes: limit}, testLog())
	p := problem{kind: sdk.InstanceSelection, level: LevelPrice, input: sdk.SamplePrice()}
	for i := range 1000 {
		if err := r.call(&Record{Strategy: "x", Kind: p.kind, Level: p.level, Outcome: Late, TookSeconds: float64(i)}, p, nil); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			sum := int64(0)
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				info, err := e.Info()
				if err != nil {
					t.Fatal(err)
				}
				sum += info.Size()
			}
			if sum > limit {
				t.Fatalf("%d bytes after %d calls, want at most %d", sum, i+1, limit)
			}
		}
	}
	r.end()
	files, err := RecordFiles(dir, false)
	if err != nil || len(files) < 3 {
		t.Fatalf("files %v (%v), want several", files, err)
	}
	var last float64
	for _, f := range files {
		records, err := readAll(t, f)
		if err != nil || len(records) == 0 {
			t.Fatalf("%d records (%v)", len(records), err)
		}
		last = records[len(records)-1].Call.TookSeconds
	}
	if last != 999 {
		t.Errorf("the last record is of call %v, want 999", last)
	}
	big := &Record{Strategy: strings.Repeat("x", limit)}
	if err := r.call(big, p, nil); err == nil {
		t.Error("a call that is larger than all records may be was recorded")
	}
}

// TestRecordingNeverFailsACall records into a folder that cannot be.
func TestRecordingNeverFailsACall(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := testHost(t, Config{}, func(o *Options) { o.Records.Folder = filepath.Join(file, "sub") })
	if p := price(t, h); p.Outcome != "ok" {
		t.Errorf("outcome %s", p.Outcome)
	}
	until(t, "the failure", func() bool { return h.Records().Failed == 1 })
	if got := h.Records(); !strings.Contains(got.LastError, "not a directory") {
		t.Errorf("records %+v", got)
	}
}

// TestGarbledRecords spoils a good file in many ways: each time the file, the line and what
// was expected are named.
func TestGarbledRecords(t *testing.T) {
	t.Parallel()
	path := recorded(t, Config{}, 1)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n") // catalogue, price, score
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3", len(lines))
	}
	answer := regexp.MustCompile(`,"answer":.*`) // the last field
	for name, c := range map[string]struct {
		text, want string
	}{
		"empty":             {"", ":1: expected at least one line"},
		"cut":               {lines[0] + lines[1][:len(lines[1])/2], ":2: expected a complete line that ends with a newline"},
		"cut and ended":     {lines[0] + lines[1][:len(lines[1])/2] + "\n", `:2: expected a JSON object with "catalogue", "call" or "shadow"`},
		"no JSON":           {lines[0] + "hello\n", ":2: expected a JSON object"},
		"two values":        {lines[0] + "{} {}\n", ":2: expected a JSON object"},
		"nothing":           {lines[0] + "{}\n", ":2: expected a JSON object"},
		"unknown field":     {lines[0] + strings.Replace(lines[1], `"strategy"`, `"strategi"`, 1), "strategi"},
		"no catalogue":      {lines[1], ":1: expected the catalogue of the call on an earlier line"},
		"another catalogue": {strings.Replace(lines[0], "us-east-1b", "us-east-1c", 1) + lines[1], ":1: expected a catalogue that is as its hash says"},
		"unknown level":     {lines[0] + strings.Replace(lines[1], `"level":"price"`, `"level":"guess"`, 1), ":2: expected a call of instance-selection at level price"},
		"far offering":      {lines[0] + strings.Replace(lines[1], `"Offerings":[0,1,2,3]`, `"Offerings":[0,1,2,9]`, 1), ":2: expected an input that fits its catalogue"},
		"fewer prices":      {lines[0] + strings.Replace(lines[1], `"USDPerHour":[0.0864,`, `"USDPerHour":[`, 1), ":2: expected an input that fits its catalogue"},
		"no answer":         {lines[0] + answer.ReplaceAllString(lines[1], "}}"), ":2: expected an answer beside the outcome ok"},
		"an empty answer":   {lines[0] + answer.ReplaceAllString(lines[1], `,"answer":null}}`), ":2: expected an answer beside the outcome ok"},
		"answered late":     {lines[0] + strings.Replace(lines[1], `"outcome":"ok"`, `"outcome":"late"`, 1), ":2: expected no answer beside an outcome that is not ok"},
		"unknown outcome":   {lines[0] + strings.Replace(lines[1], `"outcome":"ok"`, `"outcome":"fine"`, 1), `:2: expected an outcome: outcome is "fine", want one of [ok empty late invalid dead refused]`},
		"time before":       {lines[0] + strings.Replace(lines[1], `"tookSeconds":`, `"tookSeconds":-1`, 1), ":2: expected how long the call took: tookSeconds is -1"},
		"negative price":    {lines[0] + strings.Replace(lines[1], `"USDPerHour":[0.0864,`, `"USDPerHour":[-0.0864,`, 1), ":2: expected an input that fits its catalogue: offering 0: price is -0.0864, want 0 to 1e+06"},
		"endless price":     {lines[0] + strings.Replace(lines[1], `"USDPerHour":[0.0864,`, `"USDPerHour":[1e308,`, 1), "offering 0: price is 1e+308"},
		"no price":          {lines[0] + strings.Replace(lines[1], `"USDPerHour":[0.0864,`, `"USDPerHour":[NaN,`, 1), ":2: expected a JSON object"},
		"a fee":             {lines[0] + strings.Replace(lines[1], `"VolumesUSDPerHour":`, `"VolumesUSDPerHour":-1`, 1), "volumes in USD per hour is -1"},
		"a move":            {lines[0] + regexp.MustCompile(`"USDPerHourBefore":[0-9.e-]+`).ReplaceAllString(lines[2], `"USDPerHourBefore":-3`) + "\n", ":2: expected an input that fits its catalogue: move 0: usdPerHourBefore in USD per hour is -3"},
		"a shadow's plan":   {`{"shadow":{"strategy":"x","kind":"instance-selection","outcome":"ok","acting":{"usdPerHour":1},"candidate":{"usdPerHour":1e308}}}` + "\n", ":1: expected what a shadow made of a problem: a plan in USD per hour is 1e+308"},
		"half a comparison": {`{"shadow":{"strategy":"x","kind":"instance-selection","outcome":"ok","acting":{"usdPerHour":1}}}` + "\n", "want both or none"},
		"a shadow's end":    {`{"shadow":{"strategy":"x","kind":"instance-selection","outcome":"gone"}}` + "\n", `outcome is "gone"`},
		"a shadow's kind":   {`{"shadow":{"strategy":"x","outcome":"ok"}}` + "\n", `kind is ""`},
		"more than all":     {`{"shadow":{"strategy":"x","kind":"consolidation","outcome":"ok","verdicts":1,"disagreements":2}}` + "\n", "1 verdicts, 2 disagreements"},
		"foreign answer":    {lines[0] + strings.Replace(lines[1], `"answer":{"Pools":[{`, `"answer":{"Pools":[{}, {`, 1), ":2: expected an answer that fits its input"},
	} {
		var got *RecordError
		for _, err := range ReadRecords(strings.NewReader(c.text), "day.jsonl") {
			if err != nil && !errors.As(err, &got) {
				t.Errorf("%s: %v is no *RecordError", name, err)
			}
		}
		if got == nil || !strings.Contains(got.Error(), c.want) || !strings.HasPrefix(got.Error(), "day.jsonl:") || got.Unfinished != (name == "cut") {
			t.Errorf("%s: error %v, want %q", name, got, c.want)
		}
	}
}

// FuzzRecords reads arbitrary bytes: records or an error, never a panic, and what is read
// can be asked.
func FuzzRecords(f *testing.F) {
	b, err := os.ReadFile(recorded(f, Config{}, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"shadow":{"strategy":"x"}}` + "\n"))
	d, err := Open(context.Background(), Spec{Name: "cost-optimal"}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for r, err := range ReadRecords(bytes.NewReader(b), "f") {
			if err == nil && r.Call != nil {
				if _, err := Replay(context.Background(), d, r); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestShadow runs candidates that misbehave in every way beside the default: what acts is
// the same as without them, to the last bit.
func TestShadow(t *testing.T) {
	t.Parallel()
	alone := testHost(t, Config{})
	w := testWorld()
	want, err := alone.Price(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	wantScores, err := alone.Score(context.Background(), w, testMoves(w))
	if err != nil {
		t.Fatal(err)
	}
	for _, behaviour := range []string{"hang", "panic", "exit", "nan", "empty", "no-spot", "die"} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			h := testHost(t, Config{Strategies: []Spec{fakeSpec(t, "fake", behaviour)}, Shadow: []string{"fake"}},
				func(o *Options) { o.CallTimeout = 50 * time.Millisecond; o.Cost = planCost })
			if behaviour != "die" {
				until(t, "ready", func() bool { return statusOf(h, "fake").State == Ready })
			}
			for range 20 { // more than fit behind a candidate that hangs
				got, err := h.Price(context.Background(), w)
				if err != nil {
					t.Fatal(err)
				}
				scores, err := h.Score(context.Background(), w, testMoves(w))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got) + cmp.Diff(wantScores, scores); diff != "" {
					t.Fatalf("a shadow changed an answer:\n%s", diff)
				}
			}
			until(t, "every problem is counted", func() bool {
				st := statusOf(h, "fake").Shadow
				return st.Problems+st.Dropped == 40
			})
			st := statusOf(h, "fake")
			if st.Role != Shadow || behaviour != "no-spot" && st.Shadow.Failures == 0 {
				t.Errorf("role %s, shadow %+v, want failures counted", st.Role, st.Shadow)
			}
			if behaviour == "hang" && st.Shadow.Dropped == 0 {
				t.Error("nothing was dropped behind a candidate that hangs")
			}
		})
	}
}

// TestShadowReport lets a candidate that buys no spot and takes every move watch, and
// reads what it would have done.
func TestShadowReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := testHost(t, Config{Strategies: []Spec{fakeSpec(t, "fake", "no-spot")}, Shadow: []string{"fake"}},
		func(o *Options) { o.Cost = planCost; o.Records.Folder = dir })
	until(t, "ready", func() bool { return statusOf(h, "fake").State == Ready })
	w := planWorld()
	moves := testMoves(w)
	moves[0].Reason, moves[0].Before, moves[0].After, moves[0].PodsEvicted = model.Underutilized, 0.0864, 0.0863, 30
	for i := range 3 {
		if _, err := h.Price(context.Background(), w); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Score(context.Background(), w, moves); err != nil {
			t.Fatal(err)
		}
		until(t, "its view", func() bool { return statusOf(h, "fake").Shadow.Problems == int64(2*i+2) })
	}
	h.Close()
	rep, err := ReadShadows([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Candidates) != 1 {
		t.Fatalf("report %+v, want one candidate", rep)
	}
	c := rep.Candidates[0]
	if c.P50Seconds <= 0 || c.P99Seconds < c.P50Seconds {
		t.Errorf("p50 %v, p99 %v", c.P50Seconds, c.P99Seconds)
	}
	c.P50Seconds, c.P99Seconds, c.First, c.Last, c.Worst.At = 0, 0, time.Time{}, time.Time{}, time.Time{}
	for i := range c.Examples {
		c.Examples[i].At = time.Time{}
	}
	example := ShadowExample{VerdictDifference: VerdictDifference{Pool: "default", Reason: "Underutilized", Remove: []string{"n1"}, SavingsUSDPerHour: moves[0].Before - moves[0].After,
		ActingReason: c.Examples[0].ActingReason}}
	want := ShadowSummary{Strategy: "fake", Versions: []string{"0.1"}, Calls: 6, Failures: map[Outcome]int{},
		Plans:    PlanDifferences{Compared: 3, USDPerHourActing: 0.09, USDPerHourCandidate: 0.2592, MeanUSDPerHour: 0.0564, Dearer: 3, NodesActing: 3, NodesCandidate: 3},
		Worst:    &WorstPlan{Acting: PlanCost{USDPerHour: 0.03, Nodes: 1}, Candidate: PlanCost{USDPerHour: 0.0864, Nodes: 1}},
		Verdicts: 3, Disagreements: 3, Examples: []ShadowExample{example, example, example}}
	near := cmp.Comparer(func(a, b float64) bool { return same(a, b) })
	if diff := cmp.Diff(want, c, near); diff != "" || example.ActingReason == "" {
		t.Error(diff)
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRecordsAreDroppedNotWaitedFor lets the writer hang: calls go on, and what does not
// fit behind it is counted.
func TestRecordsAreDroppedNotWaitedFor(t *testing.T) {
	t.Parallel()
	core, seen := observer.New(zapcore.WarnLevel)
	h := testHost(t, Config{}, func(o *Options) { o.Records.Folder, o.Log = t.TempDir(), zap.New(core) })
	hang, hanging := make(chan struct{}), make(chan struct{})
	h.writer.later(func() error {
		close(hanging)
		<-hang
		return nil
	})
	<-hanging
	for range maxWaiting + 7 {
		if p := price(t, h); p.Outcome != "ok" {
			t.Fatalf("outcome %s", p.Outcome)
		}
	}
	if st := h.Records(); st.Dropped != 7 {
		t.Errorf("records %+v, want 7 dropped", st)
	}
	if n := seen.FilterMessage("records of calls are dropped: the disk is slower than the calls").Len(); n != 1 {
		t.Errorf("%d lines about 7 dropped records within a minute, want one: %v", n, seen.All())
	}
	close(hang)
	h.Close()
	if st := h.Records(); st.Written != maxWaiting+1 || st.Failed != 0 {
		t.Errorf("records %+v, want the rest written", st)
	}
}

// TestPlansAreReplayed records a strategy that packs by itself and asks it again, and one
// that packs otherwise.
func TestPlansAreReplayed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := testHost(t, bound(fakeSpec(t, "solver", "plans", "well")), func(o *Options) { o.Records.Folder = dir })
	settle(t, h)
	w := draftWorld()
	prices, err := h.Price(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if prices = h.Draft(t.Context(), w, prices); len(prices.Drafts) == 0 {
		t.Fatal("no plan of its own")
	}
	h.Close()
	files, err := RecordFiles(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	records, err := readAll(t, files[0])
	if err != nil || len(records) != 2 || records[1].Call.Level != LevelPlan || records[1].Answer == nil {
		t.Fatalf("%d records (%v), want prices and a plan", len(records), err)
	}
	for how, same := range map[string]bool{"well": true, "half": false} {
		d, err := Open(t.Context(), fakeSpec(t, "solver", "plans", how), Options{CallTimeout: patience, StartTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		if !d.Serves(sdk.InstanceSelection, LevelPlan) {
			t.Error("it does not serve level plan")
		}
		got, err := Replay(t.Context(), d, records[1])
		d.Close()
		if err != nil || (len(got.Changes) == 0) != same {
			t.Errorf("%s: %v, %+v", how, err, got)
		}
		if !same && (got.Changes[0].What != "nodes" || !strings.HasPrefix(got.Changes[0].String(), "pool p: nodes of ")) {
			t.Errorf("%s: %s", how, got.Changes[0])
		}
	}
}

// TestShadowReportTellsTheFirstError: of several, and printable.
func TestShadowReportTellsTheFirstError(t *testing.T) {
	t.Parallel()
	s := &ShadowSummary{Failures: map[Outcome]int{}}
	for _, d := range []Difference{{Outcome: OK}, {Outcome: Invalid, Error: "a price of \x1b NaN"}, {Outcome: Late, Error: "too late"}} {
		s.add(&d)
	}
	if s.FirstError != "a price of \ufffd NaN" || s.Failures[Invalid] != 1 || s.Failures[Late] != 1 {
		t.Errorf("%q, %v", s.FirstError, s.Failures)
	}
}

// TestTryRecords: a folder is made and left empty, and one that cannot be is told.
func TestTryRecords(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a", "b")
	if err := TryRecords(folder); err != nil {
		t.Fatal(err)
	}
	if in, err := os.ReadDir(folder); err != nil || len(in) > 0 {
		t.Errorf("%v, %v", in, err)
	}
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := TryRecords(file); err == nil {
		t.Error("records would go into a file")
	}
}
