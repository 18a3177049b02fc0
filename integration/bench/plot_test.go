package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/integration/bench/measure"
)

var update = flag.Bool("update", false, "write the golden files anew")

func growthRows() []row {
	var out []row
	for _, x := range []struct {
		pods       int
		solve, cpu float64
	}{{1000, 0.08, 0.07}, {10_000, 0.26, 0.2}, {100_000, 2.1, 2}} {
		out = append(out, row{measure.Question{Workload: "mixed", Pods: x.pods}, &measure.Answer{Pods: x.pods, Solve: []float64{x.solve}, CPU: []float64{x.cpu}}})
	}
	return out
}

func TestPlot(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if err := writePlot(&got, "Time & pods", "pods", "seconds", growthLines(growthRows())); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "growth.svg")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("growth.svg (-want +got), -update writes it anew:\n%s", d)
	}
	for d := xml.NewDecoder(&got); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}

// A doubled number of pods at doubled time lies on the line that is drawn as linear.
func TestLinearLineGoesThroughTheMiddle(t *testing.T) {
	t.Parallel()
	lines := growthLines(growthRows())
	want := []point{{1000, 0.02}, {100_000, 2}}
	if d := cmp.Diff(want, lines[len(lines)-1].points, cmp.AllowUnexported(point{}), cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestPlotOfNothing(t *testing.T) {
	t.Parallel()
	for _, rows := range [][]row{nil, {{measure.Question{}, &measure.Answer{Pods: 1000}}}} {
		if err := writePlot(io.Discard, "Nothing", "x", "y", growthLines(rows)); err == nil || !strings.Contains(err.Error(), "above zero") {
			t.Errorf("%d rows: got error %v, want one about values above zero", len(rows), err)
		}
	}
}

func TestPlotOfOneValue(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	if err := writePlot(&got, "One", "x", "y", growthLines(growthRows()[1:2])); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got.String(), "NaN") || strings.Contains(got.String(), "Inf") || strings.Count(got.String(), "<circle") != 2 {
		t.Errorf("one value in two lines is not two dots:\n%s", got.String())
	}
}

func TestDocumentHasItsPlotBesideIt(t *testing.T) {
	markBegin, markEnd := measure.Marks(maker)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(path, []byte(markBegin+"\n"+markEnd+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &results{options: &benchOptions{shifts: 1, runs: 1, write: path}, rows: map[string][]row{"growth": growthRows()}}
	if err := r.writeDocument(path); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(filepath.Dir(path), "doc-growth.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "](doc-growth.svg)") || !strings.Contains(string(svg), "10,000") {
		t.Errorf("the document does not show its plot, or the plot lacks a value:\n%s\n%s", doc, svg)
	}
}
