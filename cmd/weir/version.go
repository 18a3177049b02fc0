package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/report"
)

// version is set by the linker for releases.
var version = "devel"

// commit is set by make, whose builds do not ask git for it; else it is what the Go command recorded.
var commit string

type versionOptions struct {
	*common
	format string
}

// versionInfo is the answer of weir version.
type versionInfo struct {
	Kind      string `json:"kind"`
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	Modified  bool   `json:"modified"` // built from changed sources
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func newVersion(c *common) *cobra.Command {
	o := &versionOptions{common: c}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Long:  "version shows version and commit of this program, and the Go release and platform it was built for.",
		Example: `  weir version
  weir version -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	cmd.Flags().StringVarP(&o.format, "output", "o", "text", "json, yaml or text")
	return cmd
}

func (o *versionOptions) run() error {
	v := versionInfo{Kind: "Version", Version: version, Commit: commit, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	switch o.format {
	case "json":
		return report.WriteJSON(o.out, v)
	case "yaml":
		return report.WriteYAML(o.out, v)
	case "text":
		built := v.Commit
		if built == "" {
			built = "unknown"
		}
		if v.Modified {
			built += " (modified)"
		}
		_, err := fmt.Fprintf(o.out, "weir %s, commit %s, %s, %s\n", v.Version, built, v.GoVersion, v.Platform)
		return err
	}
	return bad("--output: expected json, yaml or text, got %q", o.format)
}
