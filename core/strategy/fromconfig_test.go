package strategy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/config"
)

func TestFromConfig(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "weir-strategy")
	c := config.Default()
	c.StrategyBinary = binary
	c.Bindings.InstanceSelection = "green"
	c.Strategies["green"] = config.Strategy{Kind: config.InstanceSelection, Path: "/strategies/green", SHA256: strings.Repeat("ab", 32), Env: []string{"ZONE"},
		Config: map[string]any{"region": "x"}, CallTimeout: config.Duration(time.Second), StartTimeout: config.Duration(5 * time.Second),
		MemoryLimit: 1 << 20, Isolation: config.IsolationProcess, AllowUnsandboxed: true}
	got, err := FromConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{InstanceSelection: "green", Consolidation: "savings", Strategies: []Spec{
		{Name: "green", Path: "/strategies/green", SHA256: strings.Repeat("ab", 32), Env: []string{"ZONE"}, Config: []byte(`{"region":"x"}`),
			CallTimeout: time.Second, StartTimeout: 5 * time.Second, MemoryLimit: 1 << 20},
		{Name: "savings", Path: binary, Args: []string{"savings"}, CallTimeout: 2 * time.Second, StartTimeout: 10 * time.Second, MemoryLimit: 256 << 20},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFromConfigRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*config.Config){
		"strategies.green: is not built in and would run without a sandbox": func(c *config.Config) {
			c.Strategies["green"] = config.Strategy{Path: "/strategies/green", Isolation: config.IsolationProcess}
		},
		"strategies.boxed: isolation: container is not served": func(c *config.Config) {
			c.Strategies["boxed"] = config.Strategy{Isolation: config.IsolationContainer, Socket: "/run/boxed.sock"}
		},
		`strategy "none" is bound`:                      func(c *config.Config) { c.Bindings.Consolidation = "none" },
		"neither beside our own executable nor in PATH": func(c *config.Config) { c.StrategyBinary = "no-such-weir-strategy" },
	} {
		c := config.Default()
		c.StrategyBinary = filepath.Join(os.TempDir(), "weir-strategy")
		change(c)
		if _, err := FromConfig(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
