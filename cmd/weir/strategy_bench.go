package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/core/report"
	"github.com/weir-project/weir/core/strategy"
	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/workload"
	"github.com/weir-project/weir/plugins/builtin"
)

type strategyBenchOptions struct {
	inputs
	output
	strategies, records, workloads []string
	kind, pool                     string
	shifts, problems, nodes        int
	html, svg                      string
}

func newStrategyBench(c *common) *cobra.Command {
	o := &strategyBenchOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Price strategies against each other",
		Long: `bench plans the same problems with several strategies and shows what each plan costs at the
market: USD per hour, nodes, pods without a place, the gap to the proven lower bound, and the
seconds that asking and planning took.

Problems are
  - recorded days: --records with files or folders of strategyRecords. Each recorded call is
    planned for again as if no node ran: with its machines and prices and the pods that
    waited. Spreads and affinities between pods are not recorded; how many pods had some is
    said. A problem that is the one before again, within the same hour, as while pods
    wait for their nodes, is left out; how many were is said.
  - manifests: -f, one problem each, with everything that pods ask for.
  - drawn workloads: --workload a, b, c, d, e or mixed (a is 10 pods, b 1,000, c 5,000 with
    spreads and affinities, d 10,000, e 50,000), --shifts draws of each, for one NodePool that
    allows much (--pool cmr).
Without any of them the workload is b.

With --kind consolidation strategies that give machines back are compared: what is left of a
running cluster, and what it costs then, when all waves of their plans are carried out. Problems
are manifests (-f), one cluster each, or drawn clusters (--nodes, --shifts).

Exit code 1: a strategy did not start, or did not answer for itself.`,
		Example: `  weir strategy bench --strategy cost-optimal --strategy ./carbon --workload b,c --html bench.html
  weir strategy bench --records /var/cache/weir/records --strategy cost-optimal --strategy resilient
  weir strategy bench -f monday.yaml -f friday.yaml -o json
  weir strategy bench --kind consolidation --nodes 500 --strategy savings --strategy ./mine`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.inputs.register(cmd)
	o.output.register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.strategies, "strategy", nil, "built-in or configured strategy by name, or the path of an executable; may be repeated (default: the built-in ones of the kind)")
	f.StringVar(&o.kind, "kind", config.InstanceSelection, "kind of the strategies: instance-selection or consolidation")
	f.IntVar(&o.nodes, "nodes", 200, "nodes of drawn clusters, up to 20000")
	f.StringArrayVar(&o.records, "records", nil, "file or folder of recorded calls; may be repeated")
	f.StringSliceVar(&o.workloads, "workload", nil, "drawn workloads: some of a, b, c, d, e, mixed")
	f.StringVar(&o.pool, "pool", "cmr", "NodePool of drawn workloads: a, cmr, cmr32, cmrod or open")
	f.IntVar(&o.shifts, "shifts", 1, "draws of each workload or cluster, up to 1000")
	f.IntVar(&o.problems, "problems", 100, "recorded problems at most; of more, so many are taken evenly")
	f.StringVar(&o.html, "html", "", "file for a page with the table and a chart")
	f.StringVar(&o.svg, "svg", "", "file for the chart alone")
	return cmd
}

// benchReport is the answer of weir strategy bench.
type benchReport struct {
	Kind       string         `json:"kind"`    // StrategyBench
	Decision   string         `json:"decides"` // kind of the strategies
	Strategies []benchTotals  `json:"strategies"`
	Problems   []benchProblem `json:"problems"`
	Repeats    int            `json:"repeats"` // recorded problems that are the one before again, left out
	Warnings   []string       `json:"warnings"`
}

type benchProblem struct {
	Name                 string        `json:"name"`
	Pods                 int           `json:"pods"`
	LowerBoundUSDPerHour float64       `json:"lowerBoundUsdPerHour"`
	Answers              []benchAnswer `json:"answers"` // in the order of the strategies
}

type benchAnswer struct {
	Strategy   string  `json:"strategy"`
	Outcome    string  `json:"outcome"` // ok, or why it did not answer for itself
	USDPerHour float64 `json:"usdPerHour"`
	Nodes      int     `json:"nodes"`
	Unplaced   int     `json:"unschedulable"`
	Commands   int     `json:"commands,omitempty"` // that give machines back
	Seconds    float64 `json:"seconds"`
}

// benchTotals sums up a strategy over all problems.
type benchTotals struct {
	Name       string  `json:"name"`
	Version    string  `json:"version"`
	USDPerHour float64 `json:"usdPerHour"`
	Nodes      int     `json:"nodes"`
	Unplaced   int     `json:"unschedulable"`
	Commands   int     `json:"commands,omitempty"`
	Bound      float64 `json:"lowerBoundUsdPerHour"`
	Failed     int     `json:"failed"` // problems that it did not answer for itself
	Seconds    float64 `json:"seconds"`
}

// benched is a strategy that takes part.
type benched struct {
	name   string
	host   *strategy.Host
	faults *faults
}

// benchWorld is a problem that takes part.
type benchWorld struct {
	name  string
	world *model.World
}

func (o *strategyBenchOptions) run(ctx context.Context) error {
	if err := o.checkBench(); err != nil {
		return err
	}
	cfg, err := o.configuration()
	if err != nil {
		return err
	}
	r := &benchReport{Kind: "StrategyBench", Decision: o.kind, Strategies: []benchTotals{}, Problems: []benchProblem{}, Warnings: []string{}}
	hosts, err := o.hosts(ctx, cfg)
	defer func() {
		for _, b := range hosts {
			b.host.Close()
		}
	}()
	if err != nil {
		return err
	}
	for _, b := range hosts {
		t := benchTotals{Name: b.name}
		for _, st := range b.host.Status() {
			if st.Name == b.name {
				t.Version = st.Version
			}
		}
		r.Strategies = append(r.Strategies, t)
	}
	err = o.each(ctx, cfg, r, func(p benchWorld) error { return r.add(ctx, p, hosts) })
	if err != nil {
		return err
	}
	if len(r.Problems) == 0 {
		return bad("there is no problem to plan for: in none of the recorded calls did pods wait")
	}
	if err := o.draw(r); err != nil {
		return err
	}
	if err := o.answer(o.format, r); err != nil {
		return err
	}
	failed := 0
	for _, t := range r.Strategies {
		failed += t.Failed
	}
	if failed > 0 {
		return fmt.Errorf("%d answers did not come from the strategy that was asked", failed)
	}
	return nil
}

// Bounds of what is drawn and planned for.
const (
	maxShifts     = 1000
	maxProblems   = 10_000
	maxDrawnNodes = 20_000
)

func (o *strategyBenchOptions) checkBench() error {
	if err := o.check(); err != nil {
		return err
	}
	for _, n := range []struct {
		flag      string
		got, most int
	}{{"shifts", o.shifts, maxShifts}, {"problems", o.problems, maxProblems}, {"nodes", o.nodes, maxDrawnNodes}} {
		if n.got < 1 || n.got > n.most {
			return bad("--%s: expected a number from 1 to %d, got %d", n.flag, n.most, n.got)
		}
	}
	names := append(slices.Clone(workload.Names), "mixed")
	for _, w := range o.workloads {
		if !slices.Contains(names, w) {
			return bad("--workload: expected some of %v, got %q", names, w)
		}
	}
	switch {
	case o.kind != config.InstanceSelection && o.kind != config.Consolidation:
		return bad("--kind: expected %s or %s, got %q", config.InstanceSelection, config.Consolidation, o.kind)
	case o.kind == config.Consolidation && len(o.records)+len(o.workloads) > 0:
		return bad("--kind consolidation: expected -f or nothing: records and workloads have no cluster to give machines back from")
	}
	if _, err := measure.Manifest(o.pool); err != nil || o.pool == "daemons" {
		return bad("--pool: expected a, cmr, cmr32, cmrod or open, got %q", o.pool)
	}
	if o.kind == config.InstanceSelection && len(o.records)+len(o.workloads)+len(o.files) == 0 {
		o.workloads = []string{"b"}
	}
	return nil
}

// hosts starts the strategies, each in a host of its own that binds nothing else.
func (o *strategyBenchOptions) hosts(ctx context.Context, cfg *config.Loaded) ([]benched, error) {
	names := o.strategies
	if len(names) == 0 {
		for name, kind := range config.Builtins() {
			if kind == o.kind && builtin.Has(name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	var out []benched
	for _, n := range names {
		p := newPicks(cfg)
		name, err := p.flag("--strategy", o.kind, n)
		if err != nil {
			return out, err
		}
		if slices.ContainsFunc(out, func(b benched) bool { return b.name == name }) {
			return out, bad("--strategy: %s is named twice: rows could not be told apart", name)
		}
		bound := strategy.Config{InstanceSelection: name}
		if o.kind == config.Consolidation {
			bound = strategy.Config{Consolidation: name}
		}
		why := &faults{}
		host, err := p.start(ctx, bound, strategy.Options{OnCall: why.hear})
		if err != nil {
			return out, err
		}
		out = append(out, benched{name, host, why})
	}
	return out, nil
}

// each makes the problems one after the other: they are large, and one is enough at a time.
func (o *strategyBenchOptions) each(ctx context.Context, cfg *config.Loaded, r *benchReport, f func(benchWorld) error) error {
	if err := o.eachDrawn(ctx, f); err != nil {
		return err
	}
	for _, file := range o.files {
		one := o.inputs
		one.files = []string{file}
		s, err := one.load()
		if err != nil {
			return err
		}
		for _, w := range s.warnings {
			r.warn(w)
		}
		if err := f(benchWorld{file, s.world}); err != nil {
			return err
		}
	}
	recorded, err := o.recorded(ctx, r)
	if err != nil {
		return err
	}
	for _, rec := range recorded {
		w, together, err := rec.World()
		if err != nil {
			return badInput{fmt.Errorf("%s:%d: %w", rec.File, rec.Line, err)}
		}
		if together > 0 {
			r.warn(fmt.Sprintf("%s: %d pods ask something of each other, which is not recorded and does not count here", rec.Title(), together))
		}
		w.Settings = cfg.PlanningSettings()
		w.Settings.ReservedCapacity = true
		if err := f(benchWorld{rec.Title(), w}); err != nil {
			return err
		}
	}
	return nil
}

// eachDrawn makes the problems that are drawn: a cluster or workloads, --shifts of each.
func (o *strategyBenchOptions) eachDrawn(ctx context.Context, f func(benchWorld) error) error {
	questions := map[string]measure.Question{}
	names := o.workloads
	for _, name := range o.workloads {
		questions[name] = measure.Question{Workload: name, Pods: 1000}
	}
	if o.kind == config.Consolidation && len(o.files) == 0 {
		names = []string{""}
		questions[""] = measure.Question{Cluster: workload.Cluster{Nodes: o.nodes, Fill: 0.4, Seed: 5, Hard: true}}
	}
	for _, name := range names {
		for shift := range o.shifts {
			if err := ctx.Err(); err != nil {
				return err
			}
			q, title := questions[name], "workload "+name
			if q.Shift = uint64(shift); name == "" {
				q.Shift, q.Cluster.Seed, title = 0, q.Cluster.Seed+uint64(shift), fmt.Sprintf("%d nodes", o.nodes)
			}
			p, err := o.world(title, &q, uint64(shift))
			if err != nil {
				return err
			}
			if err := f(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *benchReport) warn(w string) {
	if !slices.Contains(r.Warnings, w) {
		r.Warnings = append(r.Warnings, w)
	}
}

// world draws a problem.
func (o *strategyBenchOptions) world(title string, q *measure.Question, shift uint64) (benchWorld, error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return benchWorld{}, err
	}
	defer os.RemoveAll(dir)
	q.Pool = o.pool
	w, err := q.World(dir)
	if err != nil {
		return benchWorld{}, err
	}
	if o.shifts > 1 {
		title += fmt.Sprintf(", draw %d", shift)
	}
	return benchWorld{title, w}, nil
}

// recorded reads the calls for prices with waiting pods, evenly so many of them.
func (o *strategyBenchOptions) recorded(ctx context.Context, r *benchReport) ([]*strategy.Recorded, error) {
	var all []*strategy.Recorded
	for _, path := range o.records {
		files, err := strategy.RecordFiles(path, false)
		if err != nil {
			return nil, badInput{err}
		}
		for _, file := range files {
			if all, err = r.readProblems(ctx, file, file != path, all); err != nil {
				return nil, err
			}
		}
	}
	if len(all) <= o.problems {
		return all, nil
	}
	out := make([]*strategy.Recorded, o.problems)
	for i := range out {
		out[i] = all[i*len(all)/o.problems]
	}
	return out, nil
}

// readProblems adds those of a file. One in a folder may be growing: then its last line need
// not be finished.
func (r *benchReport) readProblems(ctx context.Context, file string, growing bool, all []*strategy.Recorded) ([]*strategy.Recorded, error) {
	f, err := openFile(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for rec, err := range strategy.ReadRecords(f, file) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var unfinished *strategy.RecordError
		if growing && errors.As(err, &unfinished) && unfinished.Unfinished {
			r.warn(unfinished.LeftOut())
			return all, nil
		}
		if err != nil {
			return nil, badInput{err}
		}
		if rec.Call == nil || len(rec.Call.Waiting) == 0 {
			continue
		}
		if len(all) > 0 && rec.SameProblem(all[len(all)-1]) {
			r.Repeats++
			continue
		}
		all = append(all, rec)
	}
	return all, nil
}

// add plans for a problem with the prices of each strategy.
func (r *benchReport) add(ctx context.Context, p benchWorld, hosts []benched) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.world.Budget = within(ctx, 0)
	unannotate(p.world.Pools, model.AnnotationInstanceSelection)
	unannotate(p.world.Pools, model.AnnotationConsolidation)
	if r.Decision == config.Consolidation {
		return r.giveBack(ctx, p, hosts)
	}
	out := benchProblem{Name: p.name, Pods: len(p.world.Pods), LowerBoundUSDPerHour: provision.Plan(p.world, nil).LowerBoundUSDPerHour, Answers: []benchAnswer{}}
	for i, b := range hosts {
		began := time.Now()
		prices, err := b.host.Price(ctx, p.world)
		if err != nil {
			return err
		}
		plan := provision.Plan(p.world, b.host.Draft(ctx, p.world, prices))
		if err := ctx.Err(); err != nil {
			return err
		}
		a := benchAnswer{Strategy: b.name, Outcome: string(strategy.OK), Seconds: time.Since(began).Seconds()}
		a.USDPerHour, a.Nodes, a.Unplaced = provision.Cost(plan)
		for _, w := range b.faults.unwell(prices) {
			r.warn(p.name + ", " + b.name + ": " + w)
		}
		for _, x := range prices.ByPool {
			if x.Outcome != string(strategy.OK) {
				a.Outcome = x.Outcome
			}
		}
		out.answered(&r.Strategies[i], a)
	}
	r.Problems = append(r.Problems, out)
	return nil
}

// answered takes in an answer and adds it to the sums of its strategy.
func (p *benchProblem) answered(t *benchTotals, a benchAnswer) {
	p.Answers = append(p.Answers, a)
	t.USDPerHour += a.USDPerHour
	t.Nodes += a.Nodes
	t.Unplaced += a.Unplaced
	t.Commands += a.Commands
	t.Bound += p.LowerBoundUSDPerHour
	t.Seconds += a.Seconds
	if a.Outcome != string(strategy.OK) {
		t.Failed++
	}
}

// giveBack plans what to give back of a running cluster, as each strategy judges moves.
func (r *benchReport) giveBack(ctx context.Context, p benchWorld, hosts []benched) error {
	out := benchProblem{Name: p.name, Answers: []benchAnswer{}}
	before := benchAnswer{}
	for _, n := range p.world.Nodes {
		out.Pods += len(n.Pods)
		before.USDPerHour += n.USDPerHour
		before.Nodes++
	}
	for i, b := range hosts {
		a := benchAnswer{Strategy: b.name, Outcome: string(strategy.OK), USDPerHour: before.USDPerHour, Nodes: before.Nodes}
		began := time.Now()
		prices, err := b.host.Price(ctx, p.world)
		if err != nil {
			return err
		}
		plan := disrupt.Plan(p.world, prices, func(moves []*model.Command) []model.MoveScore {
			scores, failed := b.host.Score(ctx, p.world, moves)
			err = errors.Join(err, failed)
			for _, s := range scores {
				if s.Outcome != "" && s.Outcome != string(strategy.OK) {
					a.Outcome = s.Outcome
				}
			}
			return scores
		}, disrupt.Options{Waves: true, Bound: true, Propose: b.host.Proposer(ctx, p.world)})
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		a.Seconds = time.Since(began).Seconds()
		for _, c := range plan.Commands {
			a.Commands++
			a.Nodes += len(c.Launch) - len(c.Remove)
			a.USDPerHour += c.After - c.Before
		}
		out.LowerBoundUSDPerHour = plan.LowerBoundUSDPerHour
		out.answered(&r.Strategies[i], a)
	}
	r.Problems = append(r.Problems, out)
	return nil
}

func (o *strategyBenchOptions) draw(r *benchReport) error {
	for path, write := range map[string]func(io.Writer) error{o.svg: r.writeSVG, o.html: r.writeHTML} {
		if path == "" {
			continue
		}
		f, err := os.Create(path)
		if err != nil {
			return badInput{err}
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// maxRows of problems are in the table; the other formats have them all.
const maxRows = 20

// rows are the lines of the table, problems first, then the sums.
func (r *benchReport) rows() [][]string {
	rows := [][]string{{"PROBLEM", "PODS", "STRATEGY", "USD/H", "NODES", "UNSCHEDULABLE", "TO THE BOUND", "SECONDS"}}
	if r.Decision == config.Consolidation {
		rows[0][5] = "COMMANDS"
	}
	row := func(name, pods, who string, usd float64, nodes, unplaced int, bound, seconds float64, outcome string) {
		if outcome != "" && outcome != string(strategy.OK) {
			who += " (" + outcome + ": the built-in)"
		}
		rows = append(rows, []string{name, pods, who, fmt.Sprintf("%.4f", usd), fmt.Sprint(nodes), fmt.Sprint(unplaced), toBound(usd, bound), fmt.Sprintf("%.3f", seconds)})
	}
	for i, p := range r.Problems {
		if i == maxRows && len(r.Problems) > maxRows+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(r.Problems)-i), "", "", "", "", "", "", ""})
			break
		}
		for _, a := range p.Answers {
			row(p.Name, fmt.Sprint(p.Pods), a.Strategy, a.USDPerHour, a.Nodes, a.Unplaced+a.Commands, p.LowerBoundUSDPerHour, a.Seconds, a.Outcome)
		}
	}
	if len(r.Problems) > 1 {
		pods := 0
		for _, p := range r.Problems {
			pods += p.Pods
		}
		for _, t := range r.Strategies {
			row(fmt.Sprintf("all %d", len(r.Problems)), fmt.Sprint(pods), t.Name, t.USDPerHour, t.Nodes, t.Unplaced+t.Commands, t.Bound, t.Seconds, "")
		}
	}
	return rows
}

// toBound says how far a price is from the bound.
func toBound(usd, bound float64) string {
	if bound <= 0 || math.IsInf(bound, 0) {
		return "-"
	}
	return fmt.Sprintf("%.3f x", usd/bound)
}

// WriteTable shows all problems and the sums.
func (r *benchReport) WriteTable(w io.Writer) error {
	l := &textLines{w: w}
	rows := r.rows()
	width := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, c := range cells {
			width[i] = max(width[i], len(c))
		}
	}
	for _, cells := range rows {
		line := ""
		for i, c := range cells {
			line += fmt.Sprintf("%-*s", width[i]+2, c)
		}
		l.printf("%s\n", trimRight(line))
	}
	if r.Repeats > 0 {
		l.printf("recorded problems left out as repeats of the one before: %d\n", r.Repeats)
	}
	for _, s := range r.Warnings {
		l.printf("warning: %s\n", s)
	}
	return l.err
}

var _ report.Tabler = (*benchReport)(nil)
