package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/strategy"
	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

type strategyDescribeOptions struct {
	*common
	output
	config string
}

func newStrategyDescribe(c *common) *cobra.Command {
	o := &strategyDescribeOptions{common: c}
	cmd := &cobra.Command{
		Use:   "describe NAME|PATH",
		Short: "Show what a strategy says about itself",
		Long: `describe shows a strategy's manifest: its version, which contracts it serves at which levels,
what can be configured (a JSON schema), whether it is deterministic. A built-in is named; an
executable is given by its path and started for it, and so is the one of a strategy of the
configuration.`,
		Example: `  weir strategy describe resilient
  weir strategy describe ./carbon -o json
  weir strategy describe carbon --config weir.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&o.config, "config", "", "configuration file of the controller")
	o.register(cmd)
	return cmd
}

// strategyManifest is the answer of weir strategy describe.
type strategyManifest struct {
	Kind          string             `json:"kind"` // StrategyManifest
	Name          string             `json:"name"`
	Version       string             `json:"version"`
	Summary       string             `json:"summary"`
	Documentation string             `json:"documentation,omitempty"`
	Deterministic bool               `json:"deterministic"`
	Contracts     []strategyContract `json:"contracts"`
	ConfigSchema  json.RawMessage    `json:"configSchema,omitempty"`
	Path          string             `json:"path,omitempty"`
	SHA256        string             `json:"sha256,omitempty"`
	Chain         []string           `json:"chain,omitempty"` // the strategies that make it up
}

type strategyContract struct {
	Kind    string   `json:"kind"`
	Version int      `json:"version"`
	Levels  []string `json:"levels"`
}

func (o *strategyDescribeOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(args) != 1 {
		return bad("strategy describe: expected the NAME or PATH of one strategy, got %d arguments", len(args))
	}
	out, err := o.describe(ctx, args[0])
	if err != nil {
		return err
	}
	return o.answer(o.format, out)
}

func (o *strategyDescribeOptions) describe(ctx context.Context, nameOrPath string) (*strategyManifest, error) {
	cfg, err := (&inputs{common: o.common, config: o.config}).configuration()
	if err != nil {
		return nil, err
	}
	p := newPicks(cfg)
	if !strings.ContainsRune(nameOrPath, filepath.Separator) {
		if _, ok := cfg.Strategy(nameOrPath); !ok {
			known := append(slices.Sorted(maps.Keys(cfg.Strategies)), builtin.Names()...)
			return nil, bad("strategy describe: there is no strategy %q, expected one of the configuration, one of %s, or the path of an executable%s",
				nameOrPath, strings.Join(builtin.Names(), ", "), didYouMean(nameOrPath, known, ""))
		}
	}
	name, err := p.flag("strategy describe", "", nameOrPath)
	if err != nil {
		return nil, err
	}
	return inspect(ctx, p, name)
}

// inspect starts a strategy, asks who it is, and ends it.
func inspect(ctx context.Context, p *picks, name string) (*strategyManifest, error) {
	host, err := p.start(ctx, strategy.Config{}, strategy.Options{})
	if err != nil {
		return nil, err
	}
	defer host.Close()
	m, err := host.Manifest(name)
	if err != nil {
		return nil, err
	}
	out := shown(m)
	for _, member := range p.specs[name].Chain {
		out.Chain = append(out.Chain, member.Strategy)
	}
	for _, st := range host.Status() {
		if st.Name == name {
			out.Path, out.SHA256 = st.Path, st.SHA256
		}
	}
	return out, nil
}

func shown(m *sdk.Manifest) *strategyManifest {
	out := &strategyManifest{Kind: "StrategyManifest", Name: m.Name, Version: m.Version, Summary: m.Summary, Documentation: m.Documentation, Deterministic: m.Deterministic}
	for _, c := range m.Contracts {
		out.Contracts = append(out.Contracts, strategyContract{Kind: string(c.Kind), Version: c.Version, Levels: c.Levels})
	}
	if json.Valid([]byte(m.ConfigSchema)) {
		out.ConfigSchema = json.RawMessage(m.ConfigSchema)
	}
	return out
}

// WriteTable shows it in a few lines, the schema last.
func (m *strategyManifest) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", m.Name, m.Version, cmp.Or(m.Summary, "no summary"))
	for _, c := range m.Contracts {
		fmt.Fprintf(&b, "contract: %s v%d, %s\n", c.Kind, c.Version, strings.Join(c.Levels, ", "))
	}
	fmt.Fprintf(&b, "deterministic: %v\n", m.Deterministic)
	if m.Documentation != "" {
		fmt.Fprintf(&b, "documentation: %s\n", m.Documentation)
	}
	if len(m.Chain) > 0 {
		fmt.Fprintf(&b, "chain of: %s\n", strings.Join(m.Chain, ", "))
	}
	if m.SHA256 != "" {
		fmt.Fprintf(&b, "program: %s\nsha256: %s\n", m.Path, m.SHA256)
	}
	if len(m.ConfigSchema) == 0 {
		b.WriteString("configuration: none\n")
	} else {
		b.WriteString("configuration:\n")
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, m.ConfigSchema, "  ", "  "); err != nil {
			return err
		}
		fmt.Fprintf(&b, "  %s\n", pretty.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
