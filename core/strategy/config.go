package strategy

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy/sandbox"
	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// Config says which strategies there are and where they are bound.
type Config struct {
	Strategies        []Spec
	InstanceSelection string // name bound where a pool has no annotation; empty = cost-optimal
	Consolidation     string // likewise; empty = savings
	// Shadow names strategies that see every problem and never act.
	Shadow []string
	Swap   SwapRules
}

// bound is the name that is bound for a kind where a pool has no annotation.
func (c Config) bound(kind sdk.Kind) string {
	if kind == sdk.Consolidation {
		return c.Consolidation
	}
	return c.InstanceSelection
}

// onlyShadow says whether a strategy is a shadow and not bound.
func (c Config) onlyShadow(name string) bool {
	return slices.Contains(c.Shadow, name) && name != c.InstanceSelection && name != c.Consolidation
}

// Spec is one strategy.
type Spec struct {
	// Name under which configuration and annotations refer to it.
	Name string
	// Path of the executable, absolute. Empty: the built-in of this name, in process.
	Path string
	// Image names where the executable comes from, by digest; with it Path is where it
	// is put, and Program names it in the image: empty = the entry point, or the only file.
	Image, Program string
	// Args of the executable.
	Args []string
	// SHA256 of the executable in hex. Empty: whatever is there when the strategy is
	// first taken into service, and nothing else until the next configuration.
	SHA256 string
	// Env names the variables of our own environment that the process may see.
	Env []string
	// Config is handed to the strategy; empty = its defaults.
	Config json.RawMessage
	// Chain makes the strategy of others: it has no program, and asks them.
	Chain []ChainMember
	// CallTimeout bounds each call, StartTimeout the time from the start of the process
	// until it is ready; 0 = that of the host.
	CallTimeout, StartTimeout time.Duration
	// MemoryLimit in bytes: a process whose own memory is greater is ended and started
	// again; looked at five times a second, on Linux only. 0 = none.
	MemoryLimit int64
	// CPULimit in processors, as an average over a minute: a process that takes more is
	// ended and started again, on Linux only. 0 = none.
	CPULimit float64
	// Socket, absolute, is where a strategy in a container of its own serves, instead of
	// Path: nothing is started, and restarts are somebody else's.
	Socket string
	// Version that the strategy must say it is; empty = any.
	Version string
	// AllowUnsandboxed lets it run where the kernel cannot fence it in. What the kernel
	// can is put up all the same. RequireSandbox is stronger.
	AllowUnsandboxed, RequireSandbox bool
}

// Spell makes a spec of what people write for a strategy: the name of a built-in, or
// a path to an executable.
func Spell(nameOrPath string) Spec {
	if !strings.ContainsRune(nameOrPath, filepath.Separator) {
		return Spec{Name: nameOrPath}
	}
	path, err := filepath.Abs(nameOrPath)
	if err != nil {
		path = nameOrPath
	}
	return Spec{Name: filepath.Base(path), Path: path, AllowUnsandboxed: true} // who names a program on a command line could run it as well
}

// Options are what the host itself works with; zero values are defaults.
type Options struct {
	Log          *zap.Logger
	CallTimeout  time.Duration // of one call; 2 s
	StartTimeout time.Duration // from the start of a process until it is ready; 30 s
	// Backoff is the wait after the n-th failure in a row, n from 1; 1, 2, 4, ... 60 s.
	Backoff func(n int) time.Duration
	// BreakAfter failures in a row the host waits BreakFor before each further try; 8 and 10 minutes.
	BreakAfter int
	BreakFor   time.Duration
	// Steady is how long a process must live for its failures to be forgotten; 60 s.
	Steady time.Duration
	// Kernel is what there is to fence processes in with; nil = what the kernel says.
	Kernel *sandbox.Kernel
	// CPUWindow is what a CPULimit is an average over; a minute.
	CPUWindow time.Duration
	// Artifacts fetches executables that are named by image; nil = there are none.
	Artifacts Artifacts
	// Records says where calls and comparisons are recorded; without a folder nothing is.
	Records RecordOptions
	// Cost is what the plan for the waiting pods of a world costs with some prices. It
	// compares strategies on probation with those before them, and shadows with those that
	// act, after the plan was made and on a goroutine of its own; the world may not be changed.
	// Nil = plans are not compared.
	Cost func(ctx context.Context, w *model.World, prices *model.Prices) (PlanCost, error)
	// OnCall hears of every call, OnState of every change of a strategy's state. Both
	// are called from several goroutines and must not block.
	OnCall  func(Call)
	OnState func(Status)
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 2 * time.Second
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 30 * time.Second
	}
	if o.Backoff == nil {
		o.Backoff = func(n int) time.Duration { return min(time.Second<<min(n-1, 6), time.Minute) }
	}
	if o.BreakAfter == 0 {
		o.BreakAfter = 8
	}
	if o.BreakFor == 0 {
		o.BreakFor = 10 * time.Minute
	}
	if o.Steady == 0 {
		o.Steady = time.Minute
	}
	if o.CPUWindow == 0 {
		o.CPUWindow = time.Minute
	}
	if o.OnCall == nil {
		o.OnCall = func(Call) {}
	}
	if o.OnState == nil {
		o.OnState = func(Status) {}
	}
	return o
}

// complete fills in the default bindings and a spec for every bound name that has
// none but is built in, and says everything that is wrong.
func (c Config) complete() (Config, error) {
	if c.InstanceSelection == "" {
		c.InstanceSelection = builtin.DefaultInstanceSelection
	}
	if c.Consolidation == "" {
		c.Consolidation = builtin.DefaultConsolidation
	}
	c.Strategies = slices.Clone(c.Strategies)
	var errs []error
	seen := map[string]bool{}
	for i, s := range c.Strategies {
		field := fmt.Sprintf("strategies[%d]", i)
		if s.Name == "" {
			errs = append(errs, fmt.Errorf("%s: name is missing", field))
			continue
		}
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("%s: name %q is there twice", field, s.Name))
		}
		seen[s.Name] = true
		if err := s.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s (%s): %w", field, s.Name, err))
		}
	}
	errs = append(errs, c.checkChains()...)
	for _, name := range slices.Concat([]string{c.InstanceSelection, c.Consolidation}, c.Shadow, c.chained()) {
		switch {
		case seen[name]:
		case builtin.Has(name):
			c.Strategies = append(c.Strategies, Spec{Name: name})
			seen[name] = true
		default:
			errs = append(errs, fmt.Errorf("strategy %q is bound, a shadow or in a chain, and neither configured nor built in (%s)", name, strings.Join(builtin.Names(), ", ")))
		}
	}
	if err := c.Swap.check(); err != nil {
		errs = append(errs, fmt.Errorf("swap: %w", err))
	}
	return c, errors.Join(errs...)
}

func (s Spec) check() error {
	if s.Socket != "" {
		return s.checkSocket()
	}
	if len(s.Chain) > 0 {
		return nil // its members are looked at with all others
	}
	if s.Path == "" {
		_, err := builtin.New(s.Name)
		return err
	}
	if !filepath.IsAbs(s.Path) {
		return fmt.Errorf("path %q is not absolute", s.Path)
	}
	if sum, err := hex.DecodeString(s.SHA256); s.SHA256 != "" && (err != nil || len(sum) != 32) {
		return fmt.Errorf("sha256 %q: want 64 hexadecimal digits", s.SHA256)
	}
	if len(s.Config) > 0 && !json.Valid(s.Config) {
		return fmt.Errorf("config is not JSON")
	}
	return nil
}

// key is equal for specs that the same process can serve.
func (s Spec) key() string {
	return fmt.Sprintf("%v %q %q %t %t %g %q %q %q %q %q %q %q %q %d %d %d", s.Chain, s.Socket, s.Version, s.AllowUnsandboxed, s.RequireSandbox, s.CPULimit, s.Name, s.Path, s.Image, s.Program, s.Args, strings.ToLower(s.SHA256), s.Env, s.Config, s.CallTimeout, s.StartTimeout, s.MemoryLimit)
}
