package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/report"
)

// Exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitBadInput = 2
)

// streams are the places that a command reads from and writes to. The answer goes to
// out and nothing else does.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// badInput marks what the caller has to mend: flags, files, their content.
type badInput struct{ err error }

func (e badInput) Error() string { return e.err.Error() }
func (e badInput) Unwrap() error { return e.err }

func bad(format string, args ...any) error { return badInput{fmt.Errorf(format, args...)} }

// grace is for how long a command may end in order after it was interrupted.
const grace = 3 * time.Second

// run is the whole program: arguments and environment in, exit code out. A signal ends it:
// in order, else after a while, at once with the second one.
func run(args []string, s streams, environ []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		stop()
		time.AfterFunc(grace, func() { os.Exit(failed(s, errInterrupted)) })
	})()
	return runUntil(ctx, args, s, environ)
}

// errInterrupted is why there is no answer.
var errInterrupted = errors.New("interrupted")

// runUntil is run until ctx ends.
func runUntil(ctx context.Context, args []string, s streams, environ []string) int {
	root := newRoot(s, environ, args)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		err = errInterrupted
	}
	return failed(s, err)
}

// failed tells an error and answers the exit code.
func failed(s streams, err error) int {
	// the answer or the talk about it may have nowhere to go any more; the code says enough
	_, _ = fmt.Fprintln(s.err, "error: "+strings.TrimSpace(err.Error()))
	var b badInput
	if errors.As(err, &b) {
		return exitBadInput
	}
	return exitFailed
}

// common is what every command has: streams, environment and the instant to answer for.
type common struct {
	streams
	environ map[string]string
	nowFlag string
	hasNow  func() bool  // --now is there, empty or not; nil of commands without a root
	ended   func() error // why the command shall give no answer any more; nil of commands without a root
}

// now is the instant of --now, else the clock.
func (c *common) now() (time.Time, error) {
	if c.nowFlag == "" && (c.hasNow == nil || !c.hasNow()) {
		return time.Now().UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, c.nowFlag)
	if err != nil {
		return time.Time{}, bad("--now: expected an instant such as 2026-03-04T12:00:00Z (RFC 3339), got %q", c.nowFlag)
	}
	return t.UTC(), nil
}

func newRoot(s streams, environ, args []string) *cobra.Command {
	c := &common{streams: s, environ: map[string]string{}}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			c.environ[k] = v
		}
	}
	root := &cobra.Command{
		Use:   "weir",
		Short: "Ask what node scaling would do",
		Long: `weir answers questions about the nodes of a Kubernetes cluster on AWS, from
manifests alone or from a cluster that it only reads: it needs no account.

The answer goes to standard output, everything else to standard error. The exit code is 0 when
there is an answer, 1 when something failed, and 2 when the input is bad; then the error
names the file, the document, the field and what was expected.`,
		Example: `  weir simulate provision -f pools.yaml -f pods.yaml
  kubectl get nodepools,ec2nodeclasses,nodeclaims,nodes,pods,pdb -A -o yaml | weir simulate consolidate -f -`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.Version = version
	root.SetVersionTemplate("weir {{.Version}}\n")
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(cmd, err, args) })
	root.PersistentFlags().StringVar(&c.nowFlag, "now", "", "instant to answer for, RFC 3339; the clock if left out")
	c.hasNow = func() bool { return root.PersistentFlags().Changed("now") }
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { c.ended = cmd.Context().Err }
	root.AddCommand(newSimulate(c), newExplain(c), newInterrupt(c), newCatalogue(c), newNodeClass(c), newLedger(c), newStrategy(c), newVersion(c), newCompletion(c))
	root.SetHelpCommand(&cobra.Command{Use: "no-help", Hidden: true})
	return root
}

// group is a command that only has others under it. Without one of them it shows its
// help as what it is, a mistake.
func group(use, short, long string, sub ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Long: long, Args: noArgs}
	g.RunE = func(cmd *cobra.Command, _ []string) error {
		var verbs []string
		for _, s := range sub {
			verbs = append(verbs, s.Name())
		}
		return bad("%s: expected one of %s; see %s --help", cmd.CommandPath(), strings.Join(verbs, ", "), cmd.CommandPath())
	}
	g.AddCommand(sub...)
	return g
}

// noArgs refuses words that are no verb, with what was probably meant.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return bad("%s: expected no argument, got %q", cmd.CommandPath(), args[0])
	}
	var names []string
	for _, s := range cmd.Commands() {
		if s.IsAvailableCommand() {
			names = append(names, s.Name())
		}
	}
	return bad("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], names, ""))
}

// flagError makes flag errors bad input and adds what was probably meant. Flags
// behind a mistyped verb are unknown only because the verb is.
func flagError(cmd *cobra.Command, err error, args []string) error {
	if cmd.HasAvailableSubCommands() {
		var words []string
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				words = append(words, a)
			}
		}
		depth := strings.Count(cmd.CommandPath(), " ")
		if len(words) > depth {
			return noArgs(cmd, words[depth:])
		}
	}
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		add := func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		hint = didYouMean(unknown.GetSpecifiedName(), names, "--")
	}
	return bad("%s: %w%s; see %s --help", cmd.CommandPath(), err, hint, cmd.CommandPath())
}

// didYouMean names the nearest of the names, where one is near.
func didYouMean(word string, names []string, prefix string) string {
	best, least := "", 1+max(1, (len(word)+1)/3)
	for _, n := range names {
		d := distance(word, n)
		if strings.HasPrefix(n, word) && len(word) > 1 {
			d = min(d, 1)
		}
		if d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// distance is the number of letters to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// output is the flag -o.
type output struct{ format string }

func (o *output) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", report.Table, "json, yaml or table")
	formats := []string{report.JSON, report.YAML, report.Table}
	// an error here would mean that the flag does not exist, three lines above
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) check() error {
	switch o.format {
	case report.JSON, report.YAML, report.Table:
		return nil
	}
	return bad("--output: expected json, yaml or table, got %q", o.format)
}
