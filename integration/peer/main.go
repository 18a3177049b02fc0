package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/logging"

	"github.com/weir-project/weir/integration/bench/measure"
)

// The hidden sub-commands of the processes that measure one case.
const (
	verbKarpenter = "answer-karpenter"
	verbWeir      = "answer-weir"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log.SetLogger(logging.NopLogger)
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 {
		switch args[0] {
		case verbKarpenter:
			return measure.Serve(ctx, os.Stdin, os.Stdout, answer)
		case verbWeir:
			return measure.Serve(ctx, os.Stdin, os.Stdout, measure.Run)
		}
	}
	if len(args) > 0 && args[0] == "consolidate" {
		return runConsolidate(ctx, args[1:], os.Stdout, os.Stderr)
	}
	f := flag.NewFlagSet("peer", flag.ContinueOnError)
	workloads := f.String("workloads", "", "workloads of integration/bench, such as b,d")
	pools := f.String("pools", "cmr,cmr32", "pools of integration/bench, such as cmr,cmr32")
	shifts := f.Uint64("shifts", 1, "draws of each workload: seed shifts 0, 1, …")
	runs := f.Int("runs", 1, "solves of each case; the time is their median")
	daemons := f.Bool("daemons", false, "with 200m and 512Mi of daemon pods on every node")
	slow := f.Bool("slow", false, "c and e on pool cmr as well; Karpenter needs minutes for e")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q: expected flags only, or consolidate and its flags", f.Arg(0))
	}
	var questions []*measure.Question
	for _, c := range cases(*workloads, *pools, *slow) {
		for s := range *shifts {
			questions = append(questions, &measure.Question{Workload: c[0], Pool: c[1], Shift: s, Runs: *runs, Daemons: *daemons})
		}
	}
	return compare(ctx, questions, os.Stdout, os.Stderr)
}

// answer is Karpenter's answer to a question of either kind.
func answer(ctx context.Context, q *measure.Question) (*measure.Answer, error) {
	if q.Workload == "" {
		return consolidateWithKarpenter(ctx, q)
	}
	return askKarpenter(ctx, q)
}

// cases are workloads and pools. Without a choice they are those that Karpenter ends
// within half a minute, and, if asked for, those that take it some minutes.
func cases(workloads, pools string, slow bool) [][2]string {
	if workloads != "" {
		var out [][2]string
		for _, w := range strings.Split(workloads, ",") {
			for _, p := range strings.Split(pools, ",") {
				out = append(out, [2]string{w, p})
			}
		}
		return out
	}
	out := [][2]string{{"a", "a"}, {"b", "cmr"}, {"b", "cmr32"}, {"d", "cmr"}}
	if slow {
		out = append(out, [2]string{"c", "cmr"}, [2]string{"e", "cmr"})
	}
	return slices.DeleteFunc(out, func(c [2]string) bool { return c[1] != "a" && !slices.Contains(strings.Split(pools, ","), c[1]) })
}

// compare asks both and prints a table. The last three columns are for what this is
// done: on a busy machine seconds say little, but two processes that ran one after the
// other can be compared, by processor time at best.
func compare(ctx context.Context, questions []*measure.Question, out, log io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tpool\tshift\tpods\twho\tunplaced\tnodes\tUSD/h\tbound\t÷ bound\tseconds\tCPU s\theap MB\ttimes faster\ttimes less CPU\tprice ratio\t")
	for _, q := range questions {
		fmt.Fprintf(log, "%s on %s, shift %d: Karpenter … ", q.Workload, q.Pool, q.Shift)
		k, err := measure.Apart(ctx, verbKarpenter, q)
		if err != nil {
			return fmt.Errorf("Karpenter on %s, pool %s: %w", q.Workload, q.Pool, err)
		}
		fmt.Fprintf(log, "%.2f s; Weir … ", k.Seconds())
		w, err := measure.Apart(ctx, verbWeir, q)
		if err != nil {
			return fmt.Errorf("Weir on %s, pool %s: %w", q.Workload, q.Pool, err)
		}
		fmt.Fprintf(log, "%.2f s\n", w.Seconds())
		k.Bound = w.Bound
		for _, x := range []struct {
			who string
			*measure.Answer
		}{{"Karpenter", k}, {"Weir", w}} {
			for _, p := range x.Problems {
				fmt.Fprintf(log, "  ! %s: %s\n", x.who, p)
			}
			ratios := "\t\t\t"
			if x.Answer == w {
				ratios = versus(w, k)
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%.2f\t%.2f\t%.3f\t%.3f\t%.3f\t%.0f\t%s\n", q.Workload, q.Pool, q.Shift, x.Pods, x.who, x.Unplaced, x.Nodes, x.USD, x.Bound,
				x.Ratio(), x.Seconds(), x.CPUSeconds(), float64(x.PeakHeap)/1e6, ratios)
		}
	}
	return t.Flush()
}

// versus is three cells: how many times as long and as much processor time the other
// one took, and our price over theirs. A cell is empty where there is nothing to
// divide by, or where not all pods were placed, so that prices are of different things.
func versus(ours, theirs *measure.Answer) string {
	cell := func(format string, a, b float64) string {
		if a <= 0 || b <= 0 {
			return "\t"
		}
		return fmt.Sprintf(format, a/b) + "\t"
	}
	out := cell("%.1f", theirs.Seconds(), ours.Seconds()) + cell("%.1f", theirs.CPUSeconds(), ours.CPUSeconds())
	if ours.Unplaced != theirs.Unplaced {
		return out + "\t"
	}
	return out + cell("%.3f", ours.USD, theirs.USD)
}
