package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/core/strategy"
)

// recordDay lets a host with cost-optimal, and first-fit as its shadow, price a world and
// answers the folder of what was recorded.
func recordDay(t *testing.T, calls int) string {
	t.Helper()
	dir := t.TempDir()
	input := filepath.Join(dir, "input.yaml")
	if err := os.WriteFile(input, []byte(onePool), 0o644); err != nil {
		t.Fatal(err)
	}
	in := inputs{common: &common{environ: map[string]string{}}, files: []string{input}, zones: []string{"us-east-1a"}}
	s, err := in.load()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "records")
	h, err := strategy.New(strategy.Config{Shadow: []string{"first-fit"}}, strategy.Options{Records: strategy.RecordOptions{Folder: folder},
		Cost: func(_ context.Context, w *model.World, p *model.Prices) (c strategy.PlanCost, err error) {
			c.USDPerHour, c.Nodes, c.Unplaced = provision.Cost(provision.Plan(w, p))
			return c, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		if _, err := h.Price(context.Background(), s.world); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Minute); seen(h) != int64(i+1); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the shadow did not see the problem")
			}
		}
	}
	h.Close()
	return folder
}

// seen is how many problems the shadow has seen.
func seen(h *strategy.Host) int64 {
	for _, st := range h.Status() {
		if st.Shadow != nil {
			return st.Shadow.Problems
		}
	}
	return 0
}

func command(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	if code := run(args, streams{strings.NewReader(""), &o, &e}, nil); code != want {
		t.Fatalf("%q: exit code %d, want %d: %s%s", args, code, want, o.String(), e.String())
	}
	return o.String(), e.String()
}

// TestReplay replays a recorded day with the strategy of then, with another one, and from
// files that were cut off or are something else.
func TestReplay(t *testing.T) {
	t.Parallel()
	folder := recordDay(t, 2)
	files, err := strategy.RecordFiles(folder, false)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, exitDone, "strategy", "replay", files[0])
	if !strings.Contains(out, "asked cost-optimal 1.") || !strings.Contains(out, "2 calls: 2 answers are the same, 0 are not") {
		t.Errorf("replay says\n%s", out)
	}
	out, errs := command(t, exitFailed, "strategy", "replay", files[0], "--strategy", "first-fit")
	if !strings.Contains(out, "pool default: largest first was false, is true") || !strings.Contains(errs, "2 of 2 answers are not the same") {
		t.Errorf("replay with first-fit says\n%s%s", out, errs)
	}
	out, _ = command(t, exitFailed, "strategy", "replay", files[0], "--strategy", "first-fit", "-o", "json")
	var rep replayReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || rep.Kind != "StrategyReplay" || rep.Different != 2 || len(rep.Answers) != 2 || len(rep.Answers[0].Changes) == 0 {
		t.Errorf("as JSON: %v, %+v", err, rep)
	}
	if out, _ = command(t, exitDone, "strategy", "replay", files[0], "--strategy", "savings"); !strings.Contains(out, "2 calls of another kind were left out") {
		t.Errorf("replay with a strategy for moves says\n%s", out)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.jsonl")
	if err := os.WriteFile(cut, whole[:len(whole)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs = command(t, exitBadInput, "strategy", "replay", cut); out != "" || !strings.Contains(errs, cut+":3: expected a complete line that ends with a newline") {
		t.Errorf("a file that was cut off: %q, %q", out, errs)
	}
	shadows, err := strategy.RecordFiles(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs = command(t, exitBadInput, "strategy", "replay", shadows[0]); !strings.Contains(errs, "weir strategy shadow report") {
		t.Errorf("a file of shadows: %q", errs)
	}
	for _, args := range [][]string{{"nowhere.jsonl"}, {}, {files[0], "--strategy", "no-such"}, {files[0], "--strategy", "./no-such"}} {
		command(t, exitBadInput, append([]string{"strategy", "replay"}, args...)...)
	}
}

// A file that was cut off is bad input to whoever reads it; in a folder, where it may be
// growing, the line is left out and told of.
func TestCutRecords(t *testing.T) {
	t.Parallel()
	folder := recordDay(t, 2)
	for _, c := range []struct {
		shadows bool
		command []string
	}{{true, []string{"shadow", "report"}}, {false, []string{"bench", "--strategy", "cost-optimal", "--records"}}} {
		files, err := strategy.RecordFiles(folder, c.shadows)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[0], whole[:len(whole)-10], 0o600); err != nil {
			t.Fatal(err)
		}
		line := strconv.Itoa(bytes.Count(whole, []byte("\n")))
		args := append([]string{"strategy"}, c.command...)
		if out, errs := command(t, exitBadInput, append(args, files[0])...); out != "" || !strings.Contains(errs, files[0]+":"+line+": expected a complete line") {
			t.Errorf("%q of a file that was cut off: %q, %q", c.command, out, errs)
		}
		out, errs := command(t, exitDone, append(args, folder)...)
		if !strings.Contains(out+errs, files[0]+": line "+line+" is not finished and was left out") {
			t.Errorf("%q of its folder: %q, %q", c.command, out, errs)
		}
	}
}

// TestShadowReport sums up a shadow's day, of the folder and of the file.
func TestShadowReport(t *testing.T) {
	t.Parallel()
	folder := recordDay(t, 3)
	out, _ := command(t, exitDone, "strategy", "shadow", "report", folder)
	for _, want := range []string{"first-fit 1.", "calls         3, 0 without an answer; p50", "plans         3 compared:", "nodes         3 instead of 3", "without place 0 pods instead of 0", "worst plan"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	files, err := strategy.RecordFiles(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	out, _ = command(t, exitDone, "strategy", "shadow", "report", files[0], "-o", "json")
	var rep strategy.ShadowReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || rep.Kind != "ShadowReport" || len(rep.Candidates) != 1 || rep.Candidates[0].Plans.Compared != 3 {
		t.Errorf("as JSON: %v\n%s", err, out)
	}
	calls, err := strategy.RecordFiles(folder, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs := command(t, exitBadInput, "strategy", "shadow", "report", calls[0]); !strings.Contains(errs, "weir strategy replay") {
		t.Errorf("a file of calls: %q", errs)
	}
	command(t, exitBadInput, "strategy", "shadow", "report")
	command(t, exitBadInput, "strategy", "shadow", "report", t.TempDir())
}

// TestBench prices strategies against each other on a recorded day, on manifests and on a
// drawn workload, and draws it.
func TestBench(t *testing.T) {
	t.Parallel()
	folder := recordDay(t, 3)
	manifests := filepath.Join(t.TempDir(), "pools & pods.yaml")
	if err := os.WriteFile(manifests, []byte(onePool), 0o644); err != nil {
		t.Fatal(err)
	}
	page, chart := filepath.Join(t.TempDir(), "bench.html"), filepath.Join(t.TempDir(), "bench.svg")
	out, _ := command(t, exitDone, "strategy", "bench", "--records", folder, "-f", manifests, "--workload", "a", "--pool", "a", "--strategy", "cost-optimal", "--strategy", "first-fit",
		"--zones", "us-east-1a", "--html", page, "--svg", chart, "-o", "json")
	var rep benchReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Problems) != 3 || len(rep.Strategies) != 2 {
		t.Fatalf("%d problems, %d strategies, want 3 and 2: the recorded one is there once", len(rep.Problems), len(rep.Strategies))
	}
	for _, p := range rep.Problems {
		cheap, large := p.Answers[0], p.Answers[1]
		if p.LowerBoundUSDPerHour <= 0 || cheap.USDPerHour < p.LowerBoundUSDPerHour || cheap.USDPerHour > large.USDPerHour || cheap.Unplaced+large.Unplaced > 0 || cheap.Nodes == 0 || cheap.Seconds <= 0 {
			t.Errorf("%s: bound %v, %+v", p.Name, p.LowerBoundUSDPerHour, p.Answers)
		}
	}
	// the same pod and the same machines, once from manifests and once as recorded
	if m, r := rep.Problems[1], rep.Problems[2]; m.Pods != r.Pods || m.Answers[0].USDPerHour != r.Answers[0].USDPerHour || m.Answers[1].USDPerHour != r.Answers[1].USDPerHour {
		t.Errorf("from manifests %+v, as recorded %+v", m, r)
	}
	if rep.Strategies[0].Nodes != rep.Problems[0].Answers[0].Nodes+rep.Problems[1].Answers[0].Nodes+rep.Problems[2].Answers[0].Nodes {
		t.Errorf("sums %+v", rep.Strategies)
	}
	for path, want := range map[string]string{page: "<table>", chart: `<svg xmlns`} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte(want)) || !bytes.Contains(b, []byte("pools &amp; pods")) {
			t.Errorf("%s:\n%s", path, b)
		}
		if path != chart {
			continue
		}
		for dec := xml.NewDecoder(bytes.NewReader(b)); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("the chart is no XML: %v", err)
			}
		}
	}
	out, _ = command(t, exitDone, "strategy", "bench", "--records", folder, "--strategy", "resilient")
	if !strings.Contains(out, "PROBLEM") || !strings.Contains(out, ":2, 1 pods") || strings.Contains(out, "all ") {
		t.Errorf("the table says\n%s", out)
	}
	out, _ = command(t, exitDone, "strategy", "bench", "--kind", "consolidation", "--nodes", "40", "-o", "json")
	rep = benchReport{}
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Problems) != 1 || len(rep.Strategies) != 1 {
		t.Fatalf("of a cluster: %s", out)
	}
	if a, bound := rep.Problems[0].Answers[0], rep.Problems[0].LowerBoundUSDPerHour; a.Strategy != "savings" || a.Nodes >= 40 || a.Commands == 0 || bound <= 0 || a.USDPerHour < bound-1e-9 {
		t.Errorf("bound %v, answer %+v", bound, a)
	}
	for want, args := range map[string][]string{
		"--kind: expected":                     {"--kind", "both"},
		"--nodes: expected":                    {"--nodes", "0"},
		"--kind consolidation: ":               {"--kind", "consolidation", "--workload", "a"},
		"--nodes: expected a number from 1 to": {"--kind", "consolidation", "--nodes", "20001"},
		"--shifts: expected a number from 1":   {"--shifts", "0"},
		"--shifts: expected a number from":     {"--shifts", "1001"},
		"--problems: expected a number from 1": {"--problems", "0"},
		"--problems: expected a number from":   {"--problems", "10001"},
		"--workload: expected some of":         {"--workload", "z"},
		"--pool: expected a, cmr":              {"--pool", "daemons"},
		"is of kind consolidation":             {"--strategy", "savings"},
		"cost-optimal is named twice":          {"--strategy", "cost-optimal", "--strategy", "cost-optimal"},
		"no such file":                         {"--records", "nowhere"},
		"there is no file calls-*.jsonl in it": {"--records", t.TempDir()},
		"expected an executable file":          {"--strategy", "./nothing"},
	} {
		if _, errs := command(t, exitBadInput, append([]string{"strategy", "bench"}, args...)...); !strings.Contains(errs, want) {
			t.Errorf("%q: %q, want %q", args, errs, want)
		}
	}
}

// TestBenchChart draws many problems as lines, and cuts long names.
func TestBenchChart(t *testing.T) {
	t.Parallel()
	r := &benchReport{Strategies: []benchTotals{{Name: "a<b"}}}
	for range maxBars + 1 {
		r.Problems = append(r.Problems, benchProblem{Name: "p", LowerBoundUSDPerHour: 1, Answers: []benchAnswer{{USDPerHour: 2}}})
	}
	var b strings.Builder
	if err := r.writeSVG(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "<polyline") != 1 || !strings.Contains(b.String(), "a&lt;b") || !strings.Contains(b.String(), "13 problems") {
		t.Errorf("the chart:\n%s", b.String())
	}
	if got := short("calls-20260304T120000.jsonl", 12); len([]rune(got)) != 12 {
		t.Errorf("cut to %q", got)
	}
	if len(r.rows()) != maxBars+3 {
		t.Errorf("%d rows", len(r.rows()))
	}
}
