package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/workload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "pods":
			return writePods(args[1:], out)
		case "cluster":
			return writeCluster(args[1:], out, log)
		case "week":
			return runWeek(ctx, args[1:], out, log)
		case answerVerb:
			return measure.Serve(ctx, os.Stdin, out, measure.Run)
		}
	}
	return runBench(ctx, args, out, log)
}

type benchOptions struct {
	only, workloads, pools, daemons []string
	shifts                          uint64
	runs, nodes                     int
	write, profile                  string
}

var parts = []string{"provision", "consolidate", "growth"}

func parse(args []string, log io.Writer) (*benchOptions, error) {
	o := &benchOptions{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(log)
	list := func(to *[]string, name string, known, def []string) {
		*to = def
		f.Func(name, fmt.Sprintf("some of %s (default %s)", strings.Join(known, ","), strings.Join(def, ",")), func(s string) error {
			*to = strings.Split(s, ",")
			for _, x := range *to {
				if !slices.Contains(known, x) {
					return fmt.Errorf("%q: expected some of %s", x, strings.Join(known, ","))
				}
			}
			return nil
		})
	}
	list(&o.only, "only", parts, parts)
	list(&o.workloads, "workloads", workload.Names, []string{"b", "c", "d", "e"})
	list(&o.pools, "pools", []string{"cmr", "cmr32", "open", "cmrod", "a"}, []string{"cmr", "cmr32"})
	list(&o.daemons, "daemons", []string{"without", "with"}, []string{"without", "with"})
	f.Uint64Var(&o.shifts, "shifts", 3, "draws of each workload: seed shifts 0, 1, …")
	f.IntVar(&o.runs, "runs", 3, "solves of each case; the time is their median")
	f.IntVar(&o.nodes, "nodes", 2000, "nodes of the clusters to consolidate")
	f.StringVar(&o.write, "write", "", "document to put the tables into, between its markers; the growth plot goes beside it, as NAME-growth.svg")
	f.StringVar(&o.profile, "profile", "", "folder for a CPU profile of each case")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q: expected flags only, or pods, cluster or week", f.Arg(0))
	case o.shifts == 0 || o.runs < 1 || o.nodes < 1:
		return nil, fmt.Errorf("-shifts, -runs and -nodes: expected at least 1")
	}
	return o, nil
}

func runBench(ctx context.Context, args []string, out, log io.Writer) error {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	r := &results{options: o}
	for _, part := range parts {
		if !slices.Contains(o.only, part) {
			continue
		}
		for _, q := range o.questions(part) {
			fmt.Fprintf(log, "%s … ", title(&q))
			if o.profile != "" {
				q.Profile = filepath.Join(o.profile, strings.NewReplacer(", ", "-", " ", "-", "%", "").Replace(title(&q))+".pprof")
			}
			a, err := measure.Apart(ctx, answerVerb, &q)
			if err != nil {
				fmt.Fprintln(log)
				return fmt.Errorf("%s: %w", title(&q), err)
			}
			fmt.Fprintf(log, "%.3f s (%.3f s CPU), %d nodes, %.2f USD/h, %.4f x bound\n", a.Seconds(), a.CPUSeconds(), a.Nodes, a.USD, a.Ratio())
			for _, p := range a.Problems {
				fmt.Fprintln(log, "  !", p)
			}
			r.add(part, q, a)
		}
	}
	if o.write != "" {
		if err := r.writeDocument(o.write); err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, r.markdown())
	return err
}

// questions are the cases of a part, in the order of their rows.
func (o *benchOptions) questions(part string) []measure.Question {
	var out []measure.Question
	switch part {
	case "provision":
		for _, d := range o.daemons {
			for _, w := range o.workloads {
				for _, p := range o.pools {
					for s := range o.shifts {
						out = append(out, measure.Question{Workload: w, Pool: p, Shift: s, Daemons: d == "with", Runs: o.runs})
					}
				}
			}
		}
	case "consolidate":
		for _, fill := range []float64{0.4, 0.85} {
			for _, hard := range []bool{false, true} {
				for _, pool := range []string{"cmr", "cmr-on-demand"} {
					q := measure.Question{Cluster: workload.Cluster{Nodes: o.nodes, Fill: fill, Seed: 11, Hard: hard}, Pool: pool, Runs: o.runs}
					out = append(out, q)
					q.AnySaving = true
					out = append(out, q)
					if !hard {
						q.Repack, q.Runs = true, 1
						out = append(out, q)
					}
				}
			}
		}
	case "growth":
		for _, n := range []int{1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000} {
			out = append(out, measure.Question{Workload: "mixed", Pods: n, Pool: "cmr", Runs: o.runs})
		}
	}
	return out
}

func title(q *measure.Question) string {
	var b strings.Builder
	switch q.Workload {
	case "":
		fmt.Fprintf(&b, "%d nodes, %.0f%% used", q.Cluster.Nodes, 100*q.Cluster.Fill)
		if q.Cluster.Hard {
			b.WriteString(", hard")
		}
		switch {
		case q.Repack:
			b.WriteString(", packed again")
		case q.AnySaving:
			b.WriteString(", floor 0")
		}
	case "mixed":
		fmt.Fprintf(&b, "%d mixed pods", q.Pods)
	default:
		fmt.Fprintf(&b, "%s, shift %d", q.Workload, q.Shift)
	}
	fmt.Fprintf(&b, ", pool %s", q.Pool)
	if q.Daemons {
		b.WriteString(", daemons")
	}
	return b.String()
}

// answerVerb is the hidden sub-command of the processes that measure one case.
const answerVerb = "answer-one"

func writePods(args []string, out io.Writer) error {
	f := flag.NewFlagSet("bench pods", flag.ContinueOnError)
	w := f.String("w", "b", "workload: "+strings.Join(workload.Names, ", "))
	shift := f.Uint64("seed-shift", 0, "added to the seed; 0 gives the published draw")
	to := f.String("o", "-", "file to write")
	if err := f.Parse(args); err != nil {
		return err
	}
	pods, err := workload.Pods(*w, *shift)
	if err != nil {
		return err
	}
	return writeTo(*to, out, func(w io.Writer) error { return workload.WritePods(w, pods) })
}

func writeCluster(args []string, out, log io.Writer) error {
	f := flag.NewFlagSet("bench cluster", flag.ContinueOnError)
	var c workload.Cluster
	f.IntVar(&c.Nodes, "nodes", 100, "number of nodes")
	f.Float64Var(&c.Fill, "fill", 0.4, "CPU requests as a share of the allocatable")
	f.Uint64Var(&c.Seed, "seed", 11, "seed of the draw")
	f.BoolVar(&c.Hard, "hard", false, "a fifth of the pods with constraints")
	to := f.String("o", "-", "file to write")
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := c.Draw(catalogue.Embedded())
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%d nodes, %d pods, %.2f USD/h\n", r.Nodes, r.Pods, r.USDPerHour)
	return writeTo(*to, out, r.Write)
}

func writeTo(path string, std io.Writer, write func(io.Writer) error) error {
	if path == "-" {
		return write(std)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
