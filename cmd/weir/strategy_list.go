package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
)

const strategyLong = `strategy looks after strategies: the programs that decide which machines are bought and
which are given back.

swap and logs ask the leading scaler of a cluster, and so does list with any flag that is about
a cluster, such as --context; KUBECONFIG alone says nothing. The other verbs answer from files
alone.`

// newStrategy is the parent of everything about strategies; each verb has a file of its own.
func newStrategy(c *common) *cobra.Command {
	return group("strategy", "List, check, pin, test and swap strategies", strategyLong,
		newStrategyList(c),
		newStrategyDescribe(c),
		newStrategyVerify(c),
		newStrategyPin(c),
		newStrategySwap(c),
		newStrategyLogs(c),
		newStrategyTest(c),
		newStrategyReplay(c),
		newStrategyShadow(c),
		newStrategyBench(c),
	)
}

type strategyListOptions struct {
	*common
	output
	clusterFlags
	config string
}

func newStrategyList(c *common) *cobra.Command {
	o := &strategyListOptions{common: c}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List strategies",
		Long: `list lists the built-in strategies and those of the configuration, and where they are bound.

With a flag about a cluster, such as --context, it lists what runs: state, version, calls and how long
they took, how often somebody else had to answer and why, the last error, what was swapped.
` + fmt.Sprintf(clusterLong, "get"),
		Example: `  weir strategy list
  weir strategy list --config weir.yaml -o json
  weir strategy list --context prod`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.config, "config", "", "configuration file of the controller")
	o.output.register(cmd)
	o.clusterFlags.register(cmd)
	return cmd
}

// strategyList is the answer of weir strategy list without a cluster.
type strategyList struct {
	Kind       string          `json:"kind"`
	Strategies []strategyEntry `json:"strategies"`
}

type strategyEntry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // of decision
	BuiltIn bool   `json:"builtIn"`
	Bound   bool   `json:"bound"` // decides where a NodePool has no annotation
	Path    string `json:"path,omitempty"`
	Image   string `json:"image,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	// Socket of one in a container of its own; Chain is the strategies that make it up.
	Socket string   `json:"socket,omitempty"`
	Chain  []string `json:"chain,omitempty"`
}

func (o *strategyListOptions) run(ctx context.Context) error {
	if err := o.output.check(); err != nil {
		return err
	}
	if o.given() {
		if o.config != "" {
			return bad("--config: expected no cluster beside it: the scaler has its own configuration")
		}
		if err := o.clusterFlags.check(); err != nil {
			return err
		}
		return o.running(ctx)
	}
	if o.environ["KUBECONFIG"] != "" && o.config == "" {
		if _, err := fmt.Fprintln(o.err, "note: what is built in; --context or --kubeconfig asks a cluster what it runs, --config reads a configuration"); err != nil {
			return err
		}
	}
	cfg, err := (&inputs{common: o.common, config: o.config}).configuration()
	if err != nil {
		return err
	}
	names := config.Builtins()
	for n, s := range cfg.Strategies {
		names[n] = s.Kind
	}
	l := strategyList{Kind: "StrategyList"}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		l.Strategies = append(l.Strategies, entryOf(cfg, n, names[n]))
	}
	return o.answer(o.format, &l)
}

// entryOf is a strategy as the configuration has it.
func entryOf(cfg *config.Loaded, name, kind string) strategyEntry {
	s := cfg.Strategies[name]
	e := strategyEntry{Name: name, Kind: kind, Image: s.Image, Path: s.Path, SHA256: s.SHA256, Bound: name == cfg.Bindings.InstanceSelection || name == cfg.Bindings.Consolidation}
	for _, m := range s.Chain {
		e.Chain = append(e.Chain, m.Strategy)
	}
	if s.Isolation == config.IsolationContainer && len(s.Chain) == 0 {
		e.Socket = s.Socket
	}
	e.BuiltIn = e.Path == "" && e.Image == "" && e.Socket == "" && len(e.Chain) == 0
	return e
}

// running lists what a scaler runs.
func (o *strategyListOptions) running(ctx context.Context) error {
	conn, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	l, err := conn.client.List(ctx)
	if err != nil {
		return err
	}
	return o.answer(o.format, &clusterList{*l})
}

// WriteTable shows a line for each strategy.
func (l *strategyList) WriteTable(out io.Writer) error {
	rows := [][]string{{"NAME", "KIND", "FROM", "BOUND"}}
	for _, s := range l.Strategies {
		from, bound := "built in", "-"
		switch {
		case len(s.Chain) > 0:
			from = "chain of " + strings.Join(s.Chain, ", ")
		case !s.BuiltIn:
			from = cmp.Or(s.Image, s.Path, "a container")
		}
		if s.Bound {
			bound = "default"
		}
		rows = append(rows, []string{s.Name, s.Kind, from, bound})
	}
	return writeRows(out, rows)
}
