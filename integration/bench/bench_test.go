package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/workload"
)

func world(b *testing.B, q *measure.Question) *model.World {
	b.Helper()
	w, err := q.World(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// BenchmarkPlace is the engine alone: no loading, no strategy, no check.
func BenchmarkPlace(b *testing.B) {
	for _, name := range []string{"b", "c", "d", "e"} {
		for _, pool := range []string{"cmr", "cmr32"} {
			b.Run(name+"/"+pool, func(b *testing.B) {
				w := world(b, &measure.Question{Workload: name, Pool: pool})
				prices := &model.Prices{ByPool: map[string]model.PoolPrices{pool: {FeePerNode: 0.02}}}
				b.ReportAllocs()
				var r *engine.Result
				for b.Loop() {
					r = engine.Place(w, prices)
				}
				usd := 0.0
				for _, n := range r.New {
					usd += n.Offering.USDPerHour
				}
				if len(r.Unplaced) > 0 {
					b.Fatalf("%d pods have no place", len(r.Unplaced))
				}
				b.ReportMetric(usd/r.Bound, "price/bound")
				b.ReportMetric(float64(len(r.New)), "nodes")
			})
		}
	}
}

// BenchmarkCheck is the price of distrust: the check of a finished plan.
func BenchmarkCheck(b *testing.B) {
	for _, name := range []string{"c", "e"} {
		b.Run(name, func(b *testing.B) {
			w := world(b, &measure.Question{Workload: name, Pool: "cmr"})
			r := engine.Place(w, nil)
			plan := &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}
			b.ReportAllocs()
			for b.Loop() {
				if bad := engine.Check(w, plan); len(bad) > 0 {
					b.Fatal(bad[0])
				}
			}
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	o, err := parse([]string{"-only", "provision", "-workloads", "b,d", "-pools", "cmr", "-shifts", "2", "-daemons", "with"}, &log)
	if err != nil {
		t.Fatal(err)
	}
	if qs := o.questions("provision"); len(qs) != 4 || title(&qs[3]) != "d, shift 1, pool cmr, daemons" {
		t.Errorf("%d questions, the last %q, want 4 and %q", len(qs), title(&qs[len(qs)-1]), "d, shift 1, pool cmr, daemons")
	}
	for _, args := range [][]string{{"-only", "everything"}, {"-workloads", "z"}, {"-pools", ""}, {"-shifts", "0"}, {"-runs", "-1"}, {"-nodes", "many"}, {"extra"}} {
		if _, err := parse(args, &log); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	r := &results{options: &benchOptions{shifts: 2, runs: 1}}
	for shift, usd := range []float64{1040, 1060} {
		r.add("provision", measure.Question{Workload: "d", Pool: "cmr", Shift: uint64(shift)},
			&measure.Answer{Pods: 10_000, Nodes: 100, USD: usd, Bound: 1000, Solve: []float64{0.55}, CPU: []float64{0.25}, PeakHeap: 50e6})
	}
	r.add("consolidate", measure.Question{Cluster: workload.Cluster{Nodes: 2000, Fill: 0.4}, Pool: "cmr"},
		&measure.Answer{NodesBefore: 2000, Nodes: 900, USDBefore: 1000, USD: 400, Solve: []float64{1}})
	r.add("consolidate", measure.Question{Cluster: workload.Cluster{Nodes: 2000, Fill: 0.4}, Pool: "cmr", Repack: true}, &measure.Answer{USD: 200, Solve: []float64{1}})
	r.add("growth", measure.Question{Workload: "mixed", Pods: 1000, Pool: "cmr"}, &measure.Answer{Pods: 1000, USD: 8, Bound: 8, Solve: []float64{0.1}})
	text := r.markdown()
	for _, want := range []string{"1.0500 | 1.0600 | ≤ 1.04 ✗", "0.550 |        0.250 | ≤ 0.3 ✓", "154.55", "| 2.00 |", "How time grows"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

func TestDocumentIsRewrittenBetweenItsMarkers(t *testing.T) {
	markBegin, markEnd := measure.Marks(maker)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "doc.md")
	for _, text := range []string{"first", "second"} {
		if text == "first" {
			if err := os.WriteFile(path, []byte("before\n"+markBegin+"\nold\n"+markEnd+"\nafter\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := measure.Rewrite(path, maker, text); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := "before\n" + markBegin + "\n\n" + text + "\n\n" + markEnd + "\nafter\n"; string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := os.WriteFile(path, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := measure.Rewrite(path, maker, "text"); err == nil {
		t.Error("a document without markers: got no error")
	}
}

func TestPodsAndClustersAreWritten(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"pods", "-w", "a"}, {"cluster", "-nodes", "3"}} {
		var out, log strings.Builder
		if err := run(context.Background(), args, &out, &log); err != nil || !strings.Contains(out.String(), `"kind":"Pod"`) {
			t.Errorf("%v: error %v, output %.80s", args, err, out.String())
		}
		path := filepath.Join(t.TempDir(), "out.json")
		var none strings.Builder
		if err := run(context.Background(), append(args, "-o", path), &none, &log); err != nil {
			t.Fatal(err)
		}
		if file, err := os.ReadFile(path); err != nil || string(file) != out.String() {
			t.Errorf("%v: the file differs from the output (error %v)", args, err)
		}
	}
}
