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
	"github.com/weir-project/weir/plugins/sdk"
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
	spec, err := asConfigured(name, s)
	if err != nil {
		return Spec{}, err
	}
	spec.AllowUnsandboxed, spec.RequireSandbox = s.AllowUnsandboxed, c.RequireSandbox
	switch {
	case len(spec.Chain) > 0 || spec.Socket != "":
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

// asConfigured is what a configuration says of a strategy, whoever runs it.
func asConfigured(name string, s config.Strategy) (Spec, error) {
	spec := Spec{Name: name, Path: s.Path, SHA256: s.SHA256, Env: s.Env, MemoryLimit: s.MemoryLimit, CPULimit: s.CPULimit,
		CallTimeout: time.Duration(s.CallTimeout), StartTimeout: time.Duration(s.StartTimeout)}
	if len(s.Config) > 0 {
		settings, err := json.Marshal(s.Config)
		if err != nil {
			return Spec{}, fmt.Errorf("config: %w", err)
		}
		spec.Config = settings
	}
	for _, m := range s.Chain {
		spec.Chain = append(spec.Chain, ChainMember{Strategy: m.Strategy, Weight: m.Weight, Required: m.Required})
	}
	if len(s.Chain) == 0 && s.Isolation == config.IsolationContainer {
		spec.Socket = s.Socket
	}
	return spec, nil
}

// FieldError says what is the matter with a field of the configuration.
type FieldError struct {
	Field string // such as strategies.carbon.path
	Err   error
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap gives the fault.
func (e *FieldError) Unwrap() error { return e.Err }

// Here makes the spec of a strategy of the configuration for somebody who asks it on a
// machine of their own: a built-in runs in this process, a path goes by the working folder,
// and the program need not be fenced in, since whoever asks could run it as well. What the
// configuration bounds and pins, in itself or by its lock file, holds as it does for a
// scaler. The error is a *FieldError, also for a program that only a scaler can fetch.
func Here(c *config.Config, name string) (Spec, error) {
	at := func(field string, err error) (Spec, error) {
		return Spec{}, &FieldError{Field: strings.TrimSuffix("strategies."+name+"."+field, "."), Err: err}
	}
	s, ok := c.Strategy(name)
	if !ok {
		return at("", errors.New("there is no such strategy"))
	}
	spec, err := asConfigured(name, s)
	if err != nil {
		return at("", err)
	}
	spec.AllowUnsandboxed = true
	switch {
	case len(spec.Chain) > 0 || spec.Socket != "":
	case s.Image != "":
		return at("image", errors.New("the program is in a registry, from which only a scaler fetches it: expected a configuration with the path of a file here"))
	case s.Path == "" && !builtin.Has(name):
		return at("path", errors.New("is missing"))
	case s.Path == "":
		spec.SHA256 = "" // of nothing: it is part of this program
	default:
		if spec.Path, err = filepath.Abs(s.Path); err != nil {
			return at("path", err)
		}
		if c.StrategyLock == "" {
			break
		}
		lock, err := ReadLock(c.StrategyLock)
		if err != nil {
			return Spec{}, &FieldError{Field: "strategyLock", Err: err}
		}
		if spec, err = lock.lock(spec); err != nil {
			return at("", err)
		}
	}
	if err := spec.check(); err != nil {
		return at("", err)
	}
	return spec, nil
}

// CheckBuiltins holds the settings of built-in strategies against what these take. The
// error joins a *FieldError for each fault.
func CheckBuiltins(c *config.Config) error {
	var errs []error
	for _, name := range sortedNames(c.Strategies) {
		s := c.Strategies[name]
		if !builtin.Has(name) || s.Path != "" || s.Image != "" || s.Isolation == config.IsolationContainer {
			continue
		}
		spec, err := asConfigured(name, s)
		if err == nil {
			_, err = configured(spec, nil)
		}
		errs = append(errs, settingsErrors("strategies."+name+".config", err)...)
	}
	return errors.Join(errs...)
}

// StartError says why a strategy does not start.
type StartError struct {
	Strategy string
	Err      error
}

// Error implements error.
func (e *StartError) Error() string { return fmt.Sprintf("strategy %q: %v", e.Strategy, e.Err) }

// Unwrap gives the fault.
func (e *StartError) Unwrap() error { return e.Err }

// Settings are the faults of its settings, a *FieldError each; none where something else
// keeps it from starting.
func (e *StartError) Settings() []error {
	var wrong *sdk.ConfigError
	if !errors.As(e.Err, &wrong) {
		return nil
	}
	return settingsErrors("strategies."+e.Strategy+".config", e.Err)
}

// startError is why the slot does not serve.
func (s *slot) startError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &StartError{Strategy: s.spec.Name, Err: s.why}
}

// settingsErrors takes what a strategy says of its settings apart, by field.
func settingsErrors(field string, err error) []error {
	if err == nil {
		return nil
	}
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		var out []error
		for _, e := range several.Unwrap() {
			out = append(out, settingsErrors(field, e)...)
		}
		return out
	}
	var wrong *sdk.ConfigError
	if errors.As(err, &wrong) {
		return []error{&FieldError{Field: strings.TrimSuffix(field+"."+wrong.Field, "."), Err: errors.New(wrong.Message)}}
	}
	return []error{&FieldError{Field: field, Err: err}}
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
