package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/week"
)

type weekOptions struct {
	nodes      int
	length     time.Duration
	seeds      uint64
	sizes      string
	spotToSpot bool
	write      string
}

func parseWeek(args []string, log io.Writer) (*weekOptions, error) {
	o := &weekOptions{}
	f := flag.NewFlagSet("bench week", flag.ContinueOnError)
	f.SetOutput(log)
	f.IntVar(&o.nodes, "nodes", 200, "nodes of 8 vCPUs at the peak")
	f.DurationVar(&o.length, "for", 7*24*time.Hour, "virtual time")
	f.Uint64Var(&o.seeds, "seeds", 3, "stories: seeds 1, 2, …")
	f.StringVar(&o.sizes, "sizes", "16,any", "machines that may be bought: 16 (up to so many vCPUs), any, or both")
	f.BoolVar(&o.spotToSpot, "spot-to-spot", false, "spot nodes may be replaced by spot nodes, by both")
	f.StringVar(&o.write, "write", "", "document to put the table into, between its markers")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q: expected flags only", f.Arg(0))
	case o.nodes < 1 || o.seeds < 1 || o.length < time.Hour:
		return nil, fmt.Errorf("-nodes, -seeds and -for: expected at least 1, 1 and 1h")
	}
	for _, s := range strings.Split(o.sizes, ",") {
		if s != "16" && s != "any" {
			return nil, fmt.Errorf("-sizes: expected 16, any or both, got %q", s)
		}
	}
	return o, nil
}

// weekRow is one run.
type weekRow struct {
	story week.Story
	*week.Outcome
}

func runWeek(ctx context.Context, args []string, out, log io.Writer) error {
	o, err := parseWeek(args, log)
	if err != nil {
		return err
	}
	var rows []weekRow
	for _, size := range strings.Split(o.sizes, ",") {
		for seed := range o.seeds {
			s := week.Story{Nodes: o.nodes, For: o.length, Seed: seed + 1, Large: size == "any"}
			for _, p := range []week.Player{week.Peer(o.spotToSpot), week.Weir(o.spotToSpot)} {
				fmt.Fprintf(log, "seed %d, machines up to %s vCPUs, %s … ", s.Seed, size, p.Name)
				a, err := week.Run(ctx, s, p)
				if err != nil {
					fmt.Fprintln(log)
					return fmt.Errorf("seed %d, %s: %w", s.Seed, p.Name, err)
				}
				fmt.Fprintf(log, "%.2f USD, %d evictions, %.0f node-hours (%s)\n", a.USD, a.Evictions, a.NodeHours, a.Took.Round(time.Second))
				rows = append(rows, weekRow{s, a})
			}
		}
	}
	text := o.markdown(rows)
	if o.write != "" {
		if err := measure.Rewrite(o.write, makerWeek, text); err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, text)
	return err
}

// markdown is the table: two lines for each story, the second of which is ours.
func (o *weekOptions) markdown(rows []weekRow) string {
	var b strings.Builder
	gate := "off"
	if o.spotToSpot {
		gate = "on"
	}
	fmt.Fprintf(&b, "`make bench-week ARGS=\"-nodes %d -for %s -seeds %d -sizes %s -spot-to-spot=%t\"`: %s of virtual time, load for about %d nodes of 8 vCPUs at the peak; replacing spot by spot is %s for both.\n\n",
		o.nodes, o.length, o.seeds, o.sizes, o.spotToSpot, span(o.length), o.nodes, gate)
	out := [][]string{{"machines", "who", "seed", "USD", "against", "node-hours", "mean nodes", "bought", "evictions", "against", "pending pod-s", "longest s", "CPU used", "memory used", "emptied", "deleted", "replaced", "drifted", "pods lost", "budgets broken"}}
	var usd, evictions [2]float64
	for i, r := range rows {
		size := "≤ 16 vCPUs"
		if r.story.Large {
			size = "any size"
		}
		usd[i%2] += r.USD
		evictions[i%2] += float64(r.Evictions)
		cheaper, calmer := "", ""
		if i%2 == 1 {
			cheaper, calmer = change(rows[i-1].USD, r.USD), change(float64(rows[i-1].Evictions), float64(r.Evictions))
		}
		out = append(out, []string{size, r.Player, fmt.Sprint(r.story.Seed), fmt.Sprintf("%.2f", r.USD), cheaper, fmt.Sprintf("%.0f", r.NodeHours), fmt.Sprintf("%.1f", r.MeanNodes), fmt.Sprint(r.Nodes),
			fmt.Sprint(r.Evictions), calmer, fmt.Sprintf("%.0f", r.PendingPodSeconds), fmt.Sprintf("%.0f", r.LongestPending), fmt.Sprintf("%.0f%%", 100*r.CPU), fmt.Sprintf("%.0f%%", 100*r.Memory),
			fmt.Sprint(r.Commands["Empty"]), fmt.Sprint(r.Commands["deleted"]), fmt.Sprint(r.Commands["replaced"]), fmt.Sprint(r.Commands["Drifted"]), fmt.Sprint(r.PodsLost), fmt.Sprint(r.BrokenBudgets)})
	}
	table(&b, 2, out)
	fmt.Fprintf(&b, "All together: %s of the money, %s of the evictions (the aim: -15%% of the money with no more evictions).\n", change(usd[0], usd[1]), change(evictions[0], evictions[1]))
	return b.String()
}

func change(was, is float64) string {
	if was == 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f%%", 100*(is/was-1))
}

func span(d time.Duration) string {
	if days := d.Hours() / 24; days >= 1 && d%(24*time.Hour) == 0 {
		if days == 1 {
			return "a day"
		}
		return fmt.Sprintf("%.0f days", days)
	}
	return d.String()
}
