package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/userfile"
	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/conformance"
)

type strategyTestOptions struct {
	*common
	output
	config       string
	problems     []string
	latencyLimit time.Duration
	socket       string
}

func newStrategyTest(c *common) *cobra.Command {
	o := &strategyTestOptions{common: c}
	cmd := &cobra.Command{
		Use:   "test PATH [-- ARGUMENTS...]",
		Short: "Hold a strategy against what the host expects",
		Long: `test starts an executable as the host does (handshake, mutual TLS, an empty environment; no
sandbox) and runs the conformance kit on it: is the manifest legal, are wrong settings refused
by name, is every golden problem answered legally, are equal questions answered equally, how
long do 5,000 nodes take, and does it live on after calls that are cancelled, catalogues that it
does not know, messages that are garbage or too large, many calls at once, being stopped and
being killed.

--socket tests a strategy that listens on a unix socket already, as one in a container does;
checks that need a process of ours are left out.

--problems adds calls that a scaler has recorded. Exit code 1: some check failed.`,
		Example: `  weir strategy test ./prefer-arm
  weir strategy test ./prefer-arm --config settings.yaml --problems records -o json
  weir strategy test .cache/python/bin/python -- strategy.py`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "file with the strategy's settings, YAML or JSON; its defaults if left out")
	f.StringArrayVar(&o.problems, "problems", nil, "file or folder of recorded calls to ask as well; may be repeated")
	f.DurationVar(&o.latencyLimit, "latency-limit", 2*time.Second, "for each answer about 5,000 nodes")
	f.StringVar(&o.socket, "socket", "", "unix socket of a strategy that runs already, in place of PATH")
	o.output.register(cmd)
	return cmd
}

// target is what the arguments name.
func (o *strategyTestOptions) target(args []string) (conformance.Target, error) {
	switch {
	case o.socket != "" && len(args) > 0:
		return nil, bad("--socket: expected no PATH beside it, got %q", args[0])
	case o.socket != "":
		return conformance.Socket(o.socket), nil
	case len(args) == 0:
		return nil, bad("expected the path of an executable, or --socket")
	}
	if err := executable(args[0]); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		return nil, err
	}
	// arguments that are files here are files there: the process runs in a folder of its own
	rest := append([]string{}, args[1:]...)
	for i, a := range rest {
		if info, err := os.Stat(a); err == nil && !info.IsDir() {
			if rest[i], err = filepath.Abs(a); err != nil {
				return nil, err
			}
		}
	}
	return conformance.Process(path, rest...), nil
}

func (o *strategyTestOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	target, err := o.target(args)
	if err != nil {
		return err
	}
	opts := conformance.Options{LatencyLimit: o.latencyLimit}
	if o.latencyLimit <= 0 {
		return bad("--latency-limit: expected a time above zero, got %v", o.latencyLimit)
	}
	if opts.Config, err = settingsFrom(o.config); err != nil {
		return err
	}
	for _, name := range o.problems {
		problems, err := problemsFrom(name)
		if err != nil {
			return err
		}
		opts.Problems = append(opts.Problems, problems...)
	}
	r, err := conformance.Run(ctx, target, opts)
	if err != nil {
		return err
	}
	if err := o.answer(o.format, &strategyTest{r}); err != nil {
		return err
	}
	if n := len(r.Failures()); n > 0 {
		return fmt.Errorf("%d of %d checks failed", n, len(r.Checks))
	}
	return nil
}

// settingsFrom reads a strategy's settings as a JSON object; nil without a file.
func settingsFrom(name string) (json.RawMessage, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readUpTo(name, sdk.MaxConfigBytes)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if err := config.OneDocument(text); err != nil {
		return nil, bad("--config: %s: expected YAML or JSON: %w", name, err)
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, bad("--config: %s: expected YAML or JSON: %w", name, err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, bad("--config: %s: expected an object of settings, as under strategies.<name>.config", name)
	}
	return raw, nil
}

// problemsFrom reads recorded calls of a file, or of a folder of them.
func problemsFrom(name string) ([]conformance.Problem, error) {
	files := []string{name}
	info, err := os.Stat(name)
	if err != nil {
		return nil, bad("--problems: %s: %w", name, userfile.Reason(err))
	}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(name, "calls-*.jsonl")); err != nil {
			return nil, bad("--problems: %s: %w", name, err)
		}
	}
	var problems []conformance.Problem
	for _, file := range files {
		some, err := problemsOf(file)
		if err != nil {
			return nil, bad("--problems: %w", err)
		}
		problems = append(problems, some...)
	}
	if len(problems) == 0 {
		return nil, bad("--problems: %s: expected recorded calls, found none", name)
	}
	return problems, nil
}

func problemsOf(file string) ([]conformance.Problem, error) {
	f, err := userfile.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return conformance.ReadProblems(f, file)
}

// strategyTest is the answer of weir strategy test.
type strategyTest struct{ *conformance.Report }

// WriteTable shows a line for each check, and why what failed did.
func (t *strategyTest) WriteTable(out io.Writer) error {
	if t.Strategy != "" {
		if _, err := fmt.Fprintf(out, "strategy %s %s\n\n", t.Strategy, t.Version); err != nil {
			return err
		}
	}
	rows := [][]string{{"CHECK", "RESULT", "TOOK", "EXPECTED"}}
	var why strings.Builder
	for _, c := range t.Checks {
		rows = append(rows, []string{c.Check, string(c.Outcome), took(c.TookSeconds), c.Rule})
		for _, r := range c.Reasons {
			fmt.Fprintf(&why, "%s (%s): %s\n", c.Check, c.Outcome, r)
		}
	}
	if err := writeRows(out, rows); err != nil {
		return err
	}
	for _, l := range t.Latency {
		fmt.Fprintf(&why, "%s of %d nodes: median %s, longest %s of %d calls\n", l.Method, l.Nodes, took(l.MedianSeconds), took(l.MaxSeconds), l.Calls)
	}
	if why.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "\n%s", why.String())
	return err
}

func took(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
