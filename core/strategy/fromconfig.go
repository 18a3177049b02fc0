package strategy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/plugins/builtin"
)

// FromConfig reads the strategies of the controller's configuration: built-ins that
// are bound or configured run from its strategyBinary, others from their path, or in
// a container that serves at their socket. It is an error if the executable of the
// built-ins is not found, or if there is a lock file and it does not have a strategy.
func FromConfig(c *config.Config) (Config, error) {
	out := Config{InstanceSelection: c.Bindings.InstanceSelection, Consolidation: c.Bindings.Consolidation, Shadow: c.Shadow,
		Swap: SwapRules{MaxErrorRate: c.Swap.MaxErrorRate, MaxDearerPercent: c.Swap.MaxDearerPercent, Probation: c.Swap.Probation.D()}}
	if out.Swap.Probation == 0 {
		out.Swap.Probation = -1 // none; a zero value here is the default
	}
	names := map[string]bool{out.InstanceSelection: true, out.Consolidation: true}
	for _, name := range c.Shadow {
		names[name] = true
	}
	for name, s := range c.Strategies {
		names[name] = true
		for _, m := range s.Chain {
			names[m.Strategy] = true
		}
	}
	var lock *Lock
	if c.StrategyLock != "" {
		var err error
		if lock, err = ReadLock(c.StrategyLock); err != nil {
			return Config{}, fmt.Errorf("strategyLock: %w", err)
		}
	}
	var errs []error
	for _, name := range sortedNames(names) {
		s, ok := c.Strategy(name)
		if !ok {
			errs = append(errs, fmt.Errorf("strategy %q is bound and neither configured nor built in", name))
			continue
		}
		spec, err := fromStrategy(name, s, c)
		if err == nil && lock != nil && (s.Path != "" || s.Image != "") && spec.Socket == "" {
			spec, err = lock.lock(spec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("strategies.%s: %w", name, err))
			continue
		}
		out.Strategies = append(out.Strategies, spec)
	}
	return out, errors.Join(errs...)
}

func fromStrategy(name string, s config.Strategy, c *config.Config) (Spec, error) {
	spec := Spec{Name: name, Path: s.Path, SHA256: s.SHA256, Env: s.Env, MemoryLimit: s.MemoryLimit, CPULimit: s.CPULimit,
		AllowUnsandboxed: s.AllowUnsandboxed, RequireSandbox: c.RequireSandbox, CallTimeout: time.Duration(s.CallTimeout), StartTimeout: time.Duration(s.StartTimeout)}
	if len(s.Config) > 0 {
		settings, err := json.Marshal(s.Config)
		if err != nil {
			return Spec{}, fmt.Errorf("config: %w", err)
		}
		spec.Config = settings
	}
	switch {
	case len(s.Chain) > 0:
		for _, m := range s.Chain {
			spec.Chain = append(spec.Chain, ChainMember{Strategy: m.Strategy, Weight: m.Weight, Required: m.Required})
		}
	case s.Isolation == config.IsolationContainer:
		spec.Socket = s.Socket
	case s.Image != "":
		spec.Image, spec.Program = s.Image, s.Path
		spec.Path = ArtifactPath(c.StrategyFolder, s.Image, s.Path)
	case s.Path == "" && !builtin.Has(name):
		return Spec{}, errors.New("path: is missing")
	case s.Path == "":
		path, err := findBinary(c.StrategyBinary)
		if err != nil {
			return Spec{}, err
		}
		spec.Path, spec.Args = path, []string{name}
		spec.AllowUnsandboxed = true // it came with us
	}
	return spec, nil
}

// findBinary makes the path of the built-ins' executable absolute: a bare name is
// looked for beside our own executable, then in PATH.
func findBinary(binary string) (string, error) {
	if strings.ContainsRune(binary, filepath.Separator) {
		return filepath.Abs(binary)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), binary)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		return "", fmt.Errorf("strategyBinary: %q is neither beside our own executable nor in PATH: %w", binary, err)
	}
	return filepath.Abs(path)
}
