package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"

	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/workload"
)

const maker = "integration/peer consolidate"

// runConsolidate compares consolidation on generated clusters.
func runConsolidate(ctx context.Context, args []string, out, log io.Writer) error {
	f := flag.NewFlagSet("peer consolidate", flag.ContinueOnError)
	f.SetOutput(log)
	nodes := f.Int("nodes", 2000, "nodes of each cluster")
	fills := f.String("fills", "0.4,0.85", "CPU requests as a share of what there is")
	pools := f.String("pools", "cmr,cmr-on-demand", "what may be bought: cmr, cmr-on-demand")
	hard := f.String("pods", "plain,hard", "plain, hard (a fifth of the pods with constraints), or both")
	write := f.String("write", "", "document to put the table into, between its markers")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || *nodes < 2 {
		return fmt.Errorf("expected flags only, and at least 2 nodes")
	}
	var questions []*measure.Question
	for _, fill := range strings.Split(*fills, ",") {
		share, err := strconv.ParseFloat(fill, 64)
		if err != nil || share <= 0 || share > 1 {
			return fmt.Errorf("-fills: expected shares up to 1, got %q", fill)
		}
		for _, kind := range strings.Split(*hard, ",") {
			if kind != "plain" && kind != "hard" {
				return fmt.Errorf("-pods: expected plain, hard or both, got %q", kind)
			}
			for _, pool := range strings.Split(*pools, ",") {
				questions = append(questions, &measure.Question{Cluster: workload.Cluster{Nodes: *nodes, Fill: share, Seed: 11, Hard: kind == "hard"}, Pool: pool, Runs: 1, AnySaving: true})
			}
		}
	}
	text, err := compareClusters(ctx, questions, log)
	if err != nil {
		return err
	}
	text = fmt.Sprintf("`make bench-peer ARGS=\"consolidate %s\"`, %s, GOMAXPROCS %d.\n\n%s", strings.Join(withoutWrite(args), " "), runtime.Version(), runtime.GOMAXPROCS(0), text)
	if *write != "" {
		if err := measure.Rewrite(*write, maker, text); err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, text)
	return err
}

// withoutWrite leaves out where the table goes.
func withoutWrite(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-write" || args[i] == "--write":
			i++
		case strings.HasPrefix(strings.TrimLeft(args[i], "-"), "write="):
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// compareClusters asks both about each cluster, one after the other, each in a process of its own.
func compareClusters(ctx context.Context, questions []*measure.Question, log io.Writer) (string, error) {
	var b strings.Builder
	b.WriteString("| used | pods | to buy | who | nodes | with pods | after | USD/h | after | saved | decisions | first s | all s | CPU s | heap MB |\n|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, q := range questions {
		kind := map[bool]string{false: "plain", true: "hard"}[q.Cluster.Hard]
		for _, x := range []struct{ who, verb string }{{"Karpenter", verbKarpenter}, {"Weir", verbWeir}} {
			fmt.Fprintf(log, "%d nodes, %.0f%%, %s, %s: %s … ", q.Cluster.Nodes, 100*q.Cluster.Fill, kind, q.Pool, x.who)
			a, err := measure.Apart(ctx, x.verb, q)
			if err != nil {
				fmt.Fprintln(log)
				return "", fmt.Errorf("%s on %s: %w", x.who, q.Pool, err)
			}
			for _, p := range a.Problems {
				fmt.Fprintln(log, "  !", p)
			}
			decisions := a.Commands
			if x.verb == verbWeir {
				decisions = len(a.Solve)
			}
			all, cpu := 0.0, 0.0
			for i := range a.Solve {
				all, cpu = all+a.Solve[i], cpu+a.CPU[i]
			}
			fmt.Fprintf(log, "%d nodes, %.2f USD/h, %.2f s in %d decisions\n", a.Nodes, a.USD, all, decisions)
			fmt.Fprintf(&b, "| %.0f%% | %s | %s | %s | %d | %d | %d | %.2f | %.2f | %.1f%% | %d | %.2f | %.2f | %.2f | %.0f |\n", 100*q.Cluster.Fill, kind, map[bool]string{true: "on demand", false: "spot or on demand"}[q.Pool == "cmr-on-demand"], x.who,
				a.NodesBefore, a.Pods, a.Nodes, a.USDBefore, a.USD, 100*(1-a.USD/a.USDBefore), decisions, a.Solve[0], all, cpu, float64(a.PeakHeap)/1e6)
		}
	}
	return b.String(), nil
}
