package strategy

import (
	"errors"
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

// Who asks a strategy on a machine of their own has it bounded and pinned as the scaler has.
func TestHere(t *testing.T) {
	t.Parallel()
	sum, locked := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	path := filepath.Join(t.TempDir(), LockFile)
	lock := &Lock{}
	if err := lock.Pin("green", "1.2", locked, Platform()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Write(path); err != nil {
		t.Fatal(err)
	}
	bounded := config.Strategy{Kind: config.InstanceSelection, Path: "strategies/green", SHA256: sum, Env: []string{"ZONE"}, Config: map[string]any{"region": "x"},
		CallTimeout: config.Duration(time.Second), StartTimeout: config.Duration(5 * time.Second), MemoryLimit: 32 << 20, CPULimit: 0.5, Isolation: config.IsolationProcess}
	here, err := filepath.Abs("strategies/green")
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{Name: "green", Path: here, SHA256: sum, Env: []string{"ZONE"}, Config: []byte(`{"region":"x"}`), CallTimeout: time.Second, StartTimeout: 5 * time.Second,
		MemoryLimit: 32 << 20, CPULimit: 0.5, AllowUnsandboxed: true}
	c := config.Default()
	c.RequireSandbox = true
	c.Strategies["green"] = bounded
	got, err := Here(c, "green")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	bounded.SHA256 = ""
	c.Strategies["green"], c.StrategyLock = bounded, path
	want.SHA256, want.Version = locked, "1.2"
	got, err = Here(c, "green")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("with a lock file: %v\n%s", err, diff)
	}
	if got, err := Here(c, "savings"); err != nil || got.Path != "" || got.Name != "savings" {
		t.Errorf("a built-in: %+v, %v", got, err)
	}
	for want, s := range map[string]config.Strategy{
		"strategies.x.image: the program is in a registry": {Image: "r/x@sha256:" + sum, Isolation: config.IsolationProcess},
		"strategies.x.image: the program is in":            {Image: "r/x@sha256:" + sum, Path: here, Isolation: config.IsolationProcess},
		`strategies.x: strategy "x" is not in the lock`:    {Path: here, Isolation: config.IsolationProcess},
		"strategies.x: socket \"s\" is not absolute":       {Socket: "s", Isolation: config.IsolationContainer},
		"strategies.x.path: is missing":                    {Isolation: config.IsolationProcess},
	} {
		c.Strategies["x"] = s
		var field *FieldError
		if _, err := Here(c, "x"); !errors.As(err, &field) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c.StrategyLock = path + ".none"
	if _, err := Here(c, "green"); err == nil || !strings.HasPrefix(err.Error(), "strategyLock: ") {
		t.Errorf("a lock file that is not there: %v", err)
	}
}

// Each setting that a built-in does not take is named.
func TestCheckBuiltins(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Strategies["capacity-mix"] = config.Strategy{Config: map[string]any{"maxSpotShare": 2, "colour": "red"}}
	c.Strategies["savings"] = config.Strategy{Config: map[string]any{"floor": "high"}}
	c.Strategies["resilient"] = config.Strategy{Path: "/elsewhere", Config: map[string]any{"zones": "all"}} // only the program can tell
	err := CheckBuiltins(c)
	for _, want := range []string{"strategies.capacity-mix.config.maxSpotShare: ", "strategies.capacity-mix.config.colour: unknown field; known here: commitments, ", "strategies.savings.config.floor: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 3 {
		t.Errorf("%d faults, want 3: %v", n, err)
	}
	c.Strategies = map[string]config.Strategy{"capacity-mix": {Config: map[string]any{"maxSpotShare": 0.5}}}
	if err := CheckBuiltins(c); err != nil {
		t.Error(err)
	}
}
