package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -run TestReferencePages -update

var update = flag.Bool("update", false, "write the reference pages anew")

// The reference pages are the commands' own help, so that they cannot drift.
func TestReferencePages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "reference", "cli")
	pages := map[string]string{}
	collect(newRoot(streams{}, nil, nil), pages)
	if *update {
		for name, text := range pages {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := pages[e.Name()]; !ok {
			t.Errorf("%s is the page of no command", e.Name())
		}
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not what the command says; go generate ./cmd/weir writes it anew (-want +got):\n%s", name, diff)
		}
	}
}

func collect(c *cobra.Command, pages map[string]string) {
	if c.Hidden || c.Name() == "help" {
		return
	}
	pages[strings.ReplaceAll(c.CommandPath(), " ", "_")+".md"] = page(c)
	for _, s := range c.Commands() {
		collect(s, pages)
	}
}

// page is a command's help in Markdown.
func page(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n%s\n", c.CommandPath(), c.Short, strings.TrimSpace(c.Long))
	if !c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\n## Examples\n\n```sh\n%s\n```\n", unindent(c.Example))
	}
	flags := func(title string, set *pflag.FlagSet) {
		var lines []string
		set.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			kind, usage := pflag.UnquoteUsage(f)
			if kind != "" {
				name += " " + kind
			}
			if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
				usage += fmt.Sprintf(" (default %s)", f.DefValue)
			}
			lines = append(lines, fmt.Sprintf("| `%s` | %s |", name, usage))
		})
		if len(lines) > 0 {
			sort.Strings(lines)
			fmt.Fprintf(&b, "\n## %s\n\n| flag | meaning |\n|---|---|\n%s\n", title, strings.Join(lines, "\n"))
		}
	}
	flags("Flags", c.LocalNonPersistentFlags())
	flags("Flags of every command", c.PersistentFlags())
	var sub []string
	for _, s := range c.Commands() {
		if !s.Hidden && s.Name() != "help" {
			sub = append(sub, fmt.Sprintf("| [%s](%s.md) | %s |", s.CommandPath(), strings.ReplaceAll(s.CommandPath(), " ", "_"), s.Short))
		}
	}
	if len(sub) > 0 {
		fmt.Fprintf(&b, "\n## Commands\n\n| command | does |\n|---|---|\n%s\n", strings.Join(sub, "\n"))
	}
	if c.HasParent() {
		b.WriteString("\nSee also the flags of every command at [weir](weir.md).\n")
	}
	return b.String()
}

func unindent(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
