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
		MemoryLimit: 1 << 20, CPULimit: 0.5, Isolation: config.IsolationProcess}
	c.Strategies["boxed"] = config.Strategy{Kind: config.Consolidation, Isolation: config.IsolationContainer, Socket: "/run/boxed.sock"}
	c.RequireSandbox = true
	got, err := FromConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{InstanceSelection: "green", Consolidation: "savings", Swap: got.Swap, Strategies: []Spec{
		{Name: "boxed", Socket: "/run/boxed.sock", RequireSandbox: true},
		{Name: "green", Path: "/strategies/green", SHA256: strings.Repeat("ab", 32), Env: []string{"ZONE"}, Config: []byte(`{"region":"x"}`),
			CallTimeout: time.Second, StartTimeout: 5 * time.Second, MemoryLimit: 1 << 20, CPULimit: 0.5, RequireSandbox: true},
		{Name: "savings", Path: binary, Args: []string{"savings"}, CallTimeout: 2 * time.Second, StartTimeout: 10 * time.Second, MemoryLimit: 256 << 20, CPULimit: 0.75,
			AllowUnsandboxed: true, RequireSandbox: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFromConfigRefuses(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), LockFile)
	if err := (&Lock{}).Write(lock); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*config.Config){
		"strategies.green: strategy \"green\" is not in the lock file": func(c *config.Config) {
			c.Strategies["green"] = config.Strategy{Path: "/strategies/green", Isolation: config.IsolationProcess}
			c.StrategyLock = lock
		},
		"strategyLock: reading the lock file":           func(c *config.Config) { c.StrategyLock = lock + ".none" },
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
