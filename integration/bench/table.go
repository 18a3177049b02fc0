package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weir-project/weir/integration/bench/measure"
)

type row struct {
	measure.Question
	*measure.Answer
}

// results are the answers by part, in the order in which they came.
type results struct {
	options *benchOptions
	rows    map[string][]row
}

func (r *results) add(part string, q measure.Question, a *measure.Answer) {
	if r.rows == nil {
		r.rows = map[string][]row{}
	}
	r.rows[part] = append(r.rows[part], row{q, a})
}

// table writes rows as Markdown that reads well as text too: numbers to the right.
func table(b *strings.Builder, left int, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for n, r := range rows {
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-len([]rune(c)))
			if i < left {
				fmt.Fprintf(b, "| %s%s ", c, pad)
			} else {
				fmt.Fprintf(b, "| %s%s ", pad, c)
			}
		}
		b.WriteString("|\n")
		if n == 0 {
			for i := range r {
				line := strings.Repeat("-", width[i]+1)
				if i < left {
					fmt.Fprintf(b, "|%s-", line)
				} else {
					fmt.Fprintf(b, "|%s:", line)
				}
			}
			b.WriteString("|\n")
		}
	}
	b.WriteString("\n")
}

func mega(bytes uint64) string { return fmt.Sprintf("%.0f", float64(bytes)/1e6) }

func thousands(n uint64) string { return fmt.Sprintf("%.0f", float64(n)/1000) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, GOMAXPROCS %d, %s/%s; times are medians of %d solves, draws are seed shifts 0 to %d.\n\n",
		runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, r.options.runs, r.options.shifts-1)
	if rows := r.rows["provision"]; len(rows) > 0 {
		b.WriteString("### Provisioning, all draws together\n\n")
		r.summary(&b, rows)
		b.WriteString("### Provisioning, each draw\n\n")
		r.each(&b, rows)
	}
	if rows := r.rows["consolidate"]; len(rows) > 0 {
		b.WriteString("### Consolidation: one plan for a whole cluster\n\n")
		r.consolidation(&b, rows)
	}
	if rows := r.rows["growth"]; len(rows) > 0 {
		b.WriteString("### How time grows with the number of pods\n\n")
		r.growth(&b, rows)
	}
	return b.String()
}

// summary has a line for each workload and pool without daemon pods: the worst of the
// draws beside the goal and beside Karpenter.
func (r *results) summary(b *strings.Builder, rows []row) {
	out := [][]string{{"workload", "pool", "pods", "nodes", "USD/h", "÷ bound, mean", "worst", "goal", "solve s, worst", "CPU s, worst", "goal", "heap MB, worst", "Karpenter s", "nodes", "USD/h", "÷ bound", "heap MB"}}
	seen := map[[2]string]bool{}
	for _, first := range rows {
		key := [2]string{first.Workload, first.Pool}
		if seen[key] || first.Daemons {
			continue
		}
		seen[key] = true
		n, sum, worst, slow, busy, heap := 0.0, 0.0, 0.0, 0.0, 0.0, uint64(0)
		for _, x := range rows {
			if x.Workload != first.Workload || x.Pool != first.Pool || x.Daemons {
				continue
			}
			n, sum = n+1, sum+x.Ratio()
			worst, slow, busy, heap = max(worst, x.Ratio()), max(slow, x.Seconds()), max(busy, x.CPUSeconds()), max(heap, x.PeakHeap)
		}
		line := []string{first.Workload, first.Pool, fmt.Sprint(first.Answer.Pods), fmt.Sprint(first.Nodes), fmt.Sprintf("%.2f", first.USD), fmt.Sprintf("%.4f", sum/n), fmt.Sprintf("%.4f", worst)}
		if g, ok := goals[key]; ok {
			line = append(line, met(worst, g.ratio), fmt.Sprintf("%.3f", slow), fmt.Sprintf("%.3f", busy), met(undisturbed(slow, busy), g.seconds))
		} else {
			line = append(line, "", fmt.Sprintf("%.3f", slow), fmt.Sprintf("%.3f", busy), "")
		}
		line = append(line, mega(heap))
		if k, ok := karpenter[key]; ok {
			line = append(line, fmt.Sprint(k.seconds), k.nodes, k.usd, k.perBound, fmt.Sprint(k.heapMB))
		} else {
			line = append(line, "not run", "", "", "", "")
		}
		out = append(out, line)
	}
	if len(out) > 1 {
		table(b, 2, out)
	}
}

// undisturbed is what a solve would take if nothing else ran: no more than its
// processor time, where that is known.
func undisturbed(wall, cpu float64) float64 {
	if cpu > 0 {
		return min(wall, cpu)
	}
	return wall
}

// met shows a goal, and whether it is reached.
func met(have, want float64) string {
	if have <= want {
		return fmt.Sprintf("≤ %g ✓", want)
	}
	return fmt.Sprintf("≤ %g ✗", want)
}

func (r *results) each(b *strings.Builder, rows []row) {
	out := [][]string{{"workload", "pool", "daemons", "shift", "pods", "unplaced", "nodes", "USD/h", "bound", "÷ bound", "load s", "solve s", "CPU s", "allocs, 1000", "alloc MB", "heap MB"}}
	for _, x := range rows {
		out = append(out, []string{x.Workload, x.Pool, yes(x.Daemons), fmt.Sprint(x.Shift), fmt.Sprint(x.Answer.Pods), fmt.Sprint(x.Unplaced), fmt.Sprint(x.Nodes),
			fmt.Sprintf("%.2f", x.USD), fmt.Sprintf("%.2f", x.Bound), fmt.Sprintf("%.4f", x.Ratio()), fmt.Sprintf("%.3f", x.Load), fmt.Sprintf("%.3f", x.Seconds()), fmt.Sprintf("%.3f", x.CPUSeconds()),
			thousands(x.Allocs), mega(x.Bytes), mega(x.PeakHeap)})
	}
	table(b, 3, out)
}

func (r *results) consolidation(b *strings.Builder, rows []row) {
	again := map[string]float64{}
	key := func(x row) string { return fmt.Sprint(x.Cluster.Nodes, x.Cluster.Fill, x.Pool) }
	for _, x := range rows {
		if x.Repack {
			again[key(x)] = x.USD
		}
	}
	out := [][]string{{"used", "pods", "to buy", "floor", "nodes", "with pods", "after", "USD/h", "after", "packed again", "÷", "bound", "commands", "waves", "load s", "plan s", "CPU s", "heap MB"}}
	for _, x := range rows {
		if x.Repack {
			continue
		}
		kind, fresh, ratio := "plain", "", ""
		if x.Cluster.Hard {
			kind = "hard"
		} else if usd := again[key(x)]; usd > 0 {
			fresh, ratio = fmt.Sprintf("%.2f", usd), fmt.Sprintf("%.2f", x.USD/usd)
		}
		floor := "default"
		if x.AnySaving {
			floor = "0"
		}
		buy := "spot or on demand"
		if x.Pool == "cmr-on-demand" {
			buy = "on demand"
		}
		out = append(out, []string{fmt.Sprintf("%.0f%%", 100*x.Cluster.Fill), kind, buy, floor, fmt.Sprint(x.NodesBefore), fmt.Sprint(x.Answer.Pods), fmt.Sprint(x.Nodes), fmt.Sprintf("%.2f", x.USDBefore), fmt.Sprintf("%.2f", x.USD),
			fresh, ratio, fmt.Sprintf("%.2f", x.Bound), fmt.Sprint(x.Commands), fmt.Sprint(x.Waves), fmt.Sprintf("%.3f", x.Load), fmt.Sprintf("%.3f", x.Seconds()), fmt.Sprintf("%.3f", x.CPUSeconds()), mega(x.PeakHeap)})
	}
	table(b, 4, out)
	b.WriteString("Karpenter, one decision (at most 101 nodes, then a wait and a second look), measured earlier on clusters of the same kind:\n\n")
	out = [][]string{{"CPU / memory used", "decision", "nodes", "with pods", "decision s", "heap MB"}}
	for _, k := range karpenterDecisions {
		out = append(out, []string{k.fill, k.decision, fmt.Sprint(k.nodes), fmt.Sprint(k.pods), fmt.Sprint(k.seconds), fmt.Sprint(k.heapMB)})
	}
	table(b, 2, out)
}

func (r *results) growth(b *strings.Builder, rows []row) {
	out := [][]string{{"pods", "nodes", "USD/h", "÷ bound", "load s", "solve s", "CPU s", "CPU µs a pod", "heap MB"}}
	for _, w := range rows {
		out = append(out, []string{fmt.Sprint(w.Answer.Pods), fmt.Sprint(w.Nodes), fmt.Sprintf("%.2f", w.USD), fmt.Sprintf("%.4f", w.Ratio()), fmt.Sprintf("%.3f", w.Load), fmt.Sprintf("%.3f", w.Seconds()), fmt.Sprintf("%.3f", w.CPUSeconds()),
			fmt.Sprintf("%.1f", 1e6*w.CPUSeconds()/float64(max(w.Answer.Pods, 1))), mega(w.PeakHeap)})
	}
	table(b, 0, out)
	if r.options.write != "" {
		fmt.Fprintf(b, "![Seconds and CPU seconds of a solve by number of pods, both axes logarithmic, beside a linear slope](%s)\n\n", filepath.Base(plotPath(r.options.write)))
	}
}

// plotPath is the picture that belongs to a document: docs/benchmarks-growth.svg to
// docs/benchmarks.md.
func plotPath(document string) string {
	return strings.TrimSuffix(document, filepath.Ext(document)) + "-growth.svg"
}

// writeDocument puts the tables into a document and, where growth was measured, its
// plot beside it.
func (r *results) writeDocument(path string) error {
	if err := measure.Rewrite(path, maker, r.markdown()); err != nil {
		return err
	}
	rows := r.rows["growth"]
	if len(rows) == 0 {
		return nil
	}
	return writeTo(plotPath(path), nil, func(w io.Writer) error {
		return writePlot(w, "A solve by number of pods, pool "+rows[0].Pool, "pods", "seconds", growthLines(rows))
	})
}

// Makers of parts of a document, as its markers name them.
const (
	maker     = "integration/bench"
	makerWeek = "integration/bench week"
)
