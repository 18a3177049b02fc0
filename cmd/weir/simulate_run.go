package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/report"
	"github.com/weir-project/weir/core/simulate"
)

type runOptions struct {
	inputs
	output
	scenario string
	length   time.Duration
	html     string
	details  bool
	strategy string
}

func newSimulateRun(c *common) *cobra.Command {
	o := &runOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "run --scenario FILE",
		Short: "Play a cluster in virtual time, with its bill",
		Long: `run plays a cluster in virtual time: workloads, a scheduler, kubelets and an EC2 that
behaves, driven by the same controller, planners and executor as in a real cluster. The
scenario says what happens when: manifests applied, workloads scaled, machines reclaimed,
offerings short of capacity, the controller killed.

Manifests of -f are there from the start. Paths in the scenario are relative to its file.
The run ends where the scenario says, else after --for, else with the last step. The same
input gives the same run. An expectation of the scenario that is not met gives exit code 1.`,
		Example: `  weir simulate run --scenario integration/demo/scenario.yaml
  weir simulate run -f cluster.yaml --scenario week.yaml --for 168h -o json
  weir simulate run --scenario integration/demo/scenario.yaml --html run.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.inputs.register(cmd)
	if err := cmd.Flags().MarkHidden("reservations"); err != nil {
		panic(err) // registered a line above
	}
	o.output.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "", "file that says what happens when (kind Scenario)")
	f.DurationVar(&o.length, "for", 0, "length of the run where the scenario names no end, such as 24h")
	f.StringVar(&o.html, "html", "", "also write the report as a page to this file")
	f.BoolVar(&o.details, "details", false, "also tell what is of interest only when something is looked for")
	f.StringVar(&o.strategy, "strategy", "", "instance-selection strategy by name, or the path of an executable; what the configuration binds if left out")
	return cmd
}

func (o *runOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.scenario == "" {
		return bad("--scenario: expected a file of kind Scenario")
	}
	if o.length < 0 {
		return bad("--for: expected a duration of at least 0, got %s", o.length)
	}
	script, err := o.script()
	if err != nil {
		return err
	}
	cfg, err := o.configuration()
	if err != nil {
		return err
	}
	if len(o.left) > 0 {
		return bad("--reservations: the simulated EC2 sells on demand and as spot only")
	}
	table, err := o.market(cfg)
	if err != nil {
		return err
	}
	start := &simulate.Input{}
	if len(o.files) > 0 {
		if start, err = o.manifests(o.files); err != nil {
			return err
		}
	}
	s := &situation{config: cfg, table: table, world: &model.World{Pools: start.Pools}}
	host, _, err := openStrategies(ctx, s, config.InstanceSelection, o.strategy, nil)
	if err != nil {
		return err
	}
	defer host.Close()
	var bought []string // zones, of classes that the scenario applies as well
	opts := simulate.Options{
		For: o.length,
		Catalogue: func(class *model.NodeClass) []*model.Offering {
			zones := zonesOf(cfg, append(slices.Clone(start.NodeClasses), class)...)
			bought = append(bought, zones...)
			// the simulated EC2 sells on demand and as spot only
			return slices.DeleteFunc(table.Offerings(class, zones, marketOptions(cfg)), func(x *model.Offering) bool { return x.ReservationID != "" })
		},
		Strategy: host,
		Settings: control.Settings{Planning: cfg.PlanningSettings(), BatchIdle: cfg.Batch.Idle.D(), BatchMax: cfg.Batch.Max.D(), NodeRepair: cfg.FeatureGates.NodeRepair, MaxMovesPerHour: cfg.Disruption.MaxMovesPerHour,
			DisruptEvery: cfg.Disruption.Interval.D(), DisruptValidate: cfg.Disruption.Validation.D()},
		Cluster: cfg.Cluster,
		Load: func(paths []string) (*simulate.Input, error) {
			full := make([]string, len(paths))
			for i, p := range paths {
				full[i] = p
				if !filepath.IsAbs(p) {
					full[i] = filepath.Join(filepath.Dir(o.scenario), p)
				}
			}
			return o.manifests(full)
		},
	}
	r, err := o.play(ctx, start, script, opts, func() []string {
		if table.Source != "embedded" {
			return nil
		}
		slices.Sort(bought)
		return []string{embeddedPrices(slices.Compact(bought))}
	})
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := writePage(o.html, r); err != nil {
			return err
		}
	}
	failed := 0
	for _, c := range r.Checks {
		if !c.OK {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d expectations of the scenario are not met", failed, len(r.Checks))
	}
	return nil
}

// play runs the scenario: told as it happens on a table, as a report otherwise. prices are
// the warnings about them, asked for when the run is over.
func (o *runOptions) play(ctx context.Context, start *simulate.Input, script *simulate.Scenario, opts simulate.Options, prices func() []string) (*simulate.Report, error) {
	style := simulate.Style{Color: o.colour(), Details: o.details}
	telling := o.format == report.Table
	var told error
	if telling {
		opts.Happened = func(h simulate.Happening) {
			if told == nil {
				told = simulate.WriteHappening(o.out, h, script.Start, style)
			}
		}
	}
	r, err := simulate.Run(ctx, start, script, opts)
	if err != nil {
		var f *simulate.FieldError
		if errors.As(err, &f) {
			return nil, badInput{err}
		}
		return nil, err
	}
	if told != nil {
		return nil, told
	}
	r.Warnings = append(r.Warnings, prices()...)
	if telling {
		return r, simulate.WriteSummary(o.out, r, style)
	}
	if o.format == report.YAML {
		return r, report.WriteYAML(o.out, r)
	}
	return r, report.WriteJSON(o.out, r)
}

func (o *runOptions) script() (*simulate.Scenario, error) {
	f, err := openFile(o.scenario)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	defer f.Close()
	script, err := simulate.ParseScenario(f, o.scenario)
	if err != nil {
		return nil, badInput{err}
	}
	return script, nil
}

func (o *runOptions) manifests(paths []string) (*simulate.Input, error) {
	cfg, err := o.configuration()
	if err != nil {
		return nil, err
	}
	spreads, err := schedulerConfig(cfg.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	in, err := load.Files(paths, o.in, load.Options{SpreadDefaults: spreads.PodTopologySpread.DefaultConstraints})
	if err != nil {
		return nil, badInput{err}
	}
	return simulate.FromFiles(in), nil
}

// colour says whether the answer goes to a terminal that wants colours.
func (o *runOptions) colour() bool {
	f, ok := o.out.(*os.File)
	_, no := o.environ["NO_COLOR"]
	return ok && !no && o.environ["TERM"] != "dumb" && isatty.IsTerminal(f.Fd())
}

// writePage writes the report as a page that needs nothing else.
func writePage(path string, r *simulate.Report) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return badInput{fmt.Errorf("--html: %w", err)}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return simulate.WriteHTML(io.Writer(f), r)
}
