package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/report"
	"github.com/weir-project/weir/core/strategy"
)

// shownChanges of one answer are in the table; the other formats have them all.
const shownChanges = 10

type strategyReplayOptions struct {
	*common
	output
	strategy, config string
}

func newStrategyReplay(c *common) *cobra.Command {
	o := &strategyReplayOptions{common: c}
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Ask again what was recorded, and show what is another answer now",
		Long: `replay asks a strategy every question of a file of records again and compares the answers:
prices, vetoes, steps, limits, fees, nodes, verdicts, scores, moves. The scaler writes such files where its
configuration has strategyRecords.folder; each can be replayed by itself, anywhere.

Without --strategy each call is put to the strategy of the recorded name: as --config says, or
built in. Calls of a kind that the strategy does not serve are left out and counted. A call
that had no answer for want of a process or of time is asked, and compared with nothing.

Exit code 0: the answers are the same. 1: some are not, or the strategy did not start. 2: the
file is not what it should be; then its name, the line and what was expected are on standard error.`,
		Example: `  weir strategy replay calls-20260304T120000.jsonl
  weir strategy replay calls-20260304T120000.jsonl --strategy ./carbon -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&o.strategy, "strategy", "", "built-in or configured strategy by name, or the path of an executable; as recorded if left out")
	cmd.Flags().StringVar(&o.config, "config", "", "configuration file of the controller, for strategies that it has")
	o.register(cmd)
	return cmd
}

// replayReport is the answer of weir strategy replay.
type replayReport struct {
	Kind       string              `json:"kind"` // StrategyReplay
	File       string              `json:"file"`
	Strategies []replayedBy        `json:"strategies"`
	Calls      int                 `json:"calls"`
	Same       int                 `json:"same"`
	Different  int                 `json:"different"`
	NotHeld    int                 `json:"comparedWithNothing"` // no answer was recorded
	Skipped    int                 `json:"skipped"`             // of a kind that the strategy does not serve
	Answers    []strategy.Replayed `json:"answers"`             // those that differ
	Warnings   []string            `json:"warnings"`
}

type replayedBy struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256,omitempty"`
}

func (o *strategyReplayOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(args) != 1 {
		return bad("strategy replay: expected one FILE of records, got %d arguments", len(args))
	}
	f, err := openFile(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	asked := &askedStrategies{common: o.common, config: o.config, only: o.strategy, open: map[string]*strategy.Direct{}}
	defer asked.close()
	r := &replayReport{Kind: "StrategyReplay", File: args[0], Strategies: []replayedBy{}, Answers: []strategy.Replayed{}, Warnings: []string{}}
	for rec, err := range strategy.ReadRecords(f, args[0]) {
		if err != nil {
			return badInput{err}
		}
		if rec.Call == nil {
			return badInput{&strategy.RecordError{File: rec.File, Line: rec.Line, Expected: "a call",
				Err: errors.New("it is what a shadow made of a problem: see weir strategy shadow report")}}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.ask(ctx, asked, rec); err != nil {
			return err
		}
	}
	if err := o.answer(o.format, r); err != nil {
		return err
	}
	if r.Different > 0 {
		return fmt.Errorf("%d of %d answers are not the same", r.Different, r.Calls)
	}
	return nil
}

func (r *replayReport) ask(ctx context.Context, asked *askedStrategies, rec *strategy.Recorded) error {
	d, name, err := asked.of(ctx, rec.Call.Strategy)
	if err != nil {
		return err
	}
	if st := d.Status(); !slices.ContainsFunc(r.Strategies, func(b replayedBy) bool { return b.Name == name }) {
		r.Strategies = append(r.Strategies, replayedBy{name, st.Version, st.SHA256})
	}
	if !d.Serves(rec.Call.Kind, rec.Call.Level) {
		r.Skipped++
		return nil
	}
	if name == rec.Call.Strategy && d.ConfigSHA256() != rec.Call.ConfigSHA256 {
		if w := fmt.Sprintf("%s was configured otherwise when it was recorded: use --config", name); !slices.Contains(r.Warnings, w) {
			r.Warnings = append(r.Warnings, w)
		}
	}
	got, err := strategy.Replay(ctx, d, rec)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", rec.File, rec.Line, err)
	}
	r.Calls++
	switch {
	case len(got.Changes) > 0:
		r.Different++
		r.Answers = append(r.Answers, got)
	case rec.Answer == nil && got.Outcome != got.Now:
		r.NotHeld++
	default:
		r.Same++
	}
	return nil
}

// WriteTable shows every answer that differs, and how many there were.
func (r *replayReport) WriteTable(w io.Writer) error {
	l := &textLines{w: w}
	for _, a := range r.Answers {
		l.printf("line %d, %s, recorded of %s %s:\n", a.Line, a.Kind, a.Strategy, a.Version)
		for i, c := range a.Changes {
			if i == shownChanges {
				l.printf("  and %d more\n", len(a.Changes)-i)
				break
			}
			l.printf("  %s\n", c)
		}
		if a.Error != "" {
			l.printf("  it says: %s\n", a.Error)
		}
	}
	for _, b := range r.Strategies {
		l.printf("asked %s %s\n", b.Name, b.Version)
	}
	l.printf("%d calls: %d answers are the same, %d are not", r.Calls, r.Same, r.Different)
	if r.NotHeld > 0 {
		l.printf(", %d had none to compare with", r.NotHeld)
	}
	if r.Skipped > 0 {
		l.printf("; %d calls of another kind were left out", r.Skipped)
	}
	l.printf("\n")
	for _, s := range r.Warnings {
		l.printf("warning: %s\n", s)
	}
	return l.err
}

// textLines writes texts one by one and keeps the first error.
type textLines struct {
	w   io.Writer
	err error
}

func (l *textLines) printf(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format, args...)
	}
}

// askedStrategies starts strategies once, when they are asked first.
type askedStrategies struct {
	*common
	config string // of the controller, or empty
	only   string // name or path that is asked whatever was recorded, or empty
	loaded *config.Loaded
	open   map[string]*strategy.Direct
}

// of is the strategy that answers for a recorded name, and its own name.
func (a *askedStrategies) of(ctx context.Context, recorded string) (*strategy.Direct, string, error) {
	p, name, err := a.pick(recorded)
	if err != nil {
		return nil, "", err
	}
	d := a.open[name]
	if d == nil {
		if d, err = strategy.OpenAmong(ctx, p.list(), name, strategy.Options{}); err != nil {
			if wrong := p.settings(err); wrong != nil {
				return nil, "", wrong
			}
			return nil, "", err
		}
		a.open[name] = d
	}
	return d, name, nil
}

// pick is the strategy of --strategy or of the recorded name, with the members of a chain.
func (a *askedStrategies) pick(recorded string) (*picks, string, error) {
	if a.loaded == nil {
		in := inputs{common: a.common, config: a.config}
		cfg, err := in.configuration()
		if err != nil {
			return nil, "", err
		}
		a.loaded = cfg
	}
	p := newPicks(a.loaded)
	if a.only != "" {
		name, err := p.flag("--strategy", "", a.only)
		return p, name, err
	}
	if _, known := a.loaded.Strategy(recorded); !known {
		return nil, "", bad("the records are of strategy %q, which is not built in: expected --strategy with its path, or --config", recorded)
	}
	return p, recorded, p.add(recorded)
}

func (a *askedStrategies) close() {
	for _, d := range a.open {
		d.Close()
	}
}

var _ report.Tabler = (*replayReport)(nil)
