package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-containerregistry/pkg/authn"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/cloud/aws/ecr"
	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/kube"
	"github.com/weir-project/weir/core/kube/access"
	"github.com/weir-project/weir/core/strategy"
	"github.com/weir-project/weir/core/strategy/artifact"
	plugin "github.com/weir-project/weir/plugins/sdk"
)

// swapsName names the document of swaps in errors.
const swapsName = "swaps by command"

const (
	desiredWithin = 5 * time.Second // the first look at what was swapped; then it starts without
	statusEvery   = 2 * time.Second // looks whether there is something to write
	countersEvery = time.Minute     // writes of counters alone
)

// strategies is the host of strategies with the two places that say what it runs: the
// configuration file and, where the admin interface is on, the swaps by command.
type strategies struct {
	host    *strategy.Host
	logs    *admin.Logs
	desired *access.Document // nil: there are no swaps
	status  *access.Document
	log     *zap.Logger

	news     chan struct{} // has one element while watch is to look at once
	applying sync.Mutex    // serializes apply

	mu      sync.Mutex // guards what follows
	file    *config.Config
	inForce *config.Config // file with the swaps
	swaps   admin.Desired
	over    admin.Ended
	past    []known // strategies as they were in force, for what goes back to them
}

// known is a strategy as the host has it and as the configuration has it.
type known struct {
	spec     strategy.Spec
	settings config.Strategy
}

// maxKnown strategies that were in force are remembered.
const maxKnown = 256

// namespaceOf is where the scaler's own objects are.
func namespaceOf(c *config.Config) string {
	for _, n := range []string{c.LeaderElection.Namespace, kube.PodNamespace()} {
		if n != "" {
			return n
		}
	}
	return "kube-system"
}

// openStrategies starts the host with the configuration and the swaps as they are.
func openStrategies(ctx context.Context, cfg *config.Config, clients *kube.Clients, watch *observer, log *zap.Logger) (*strategies, error) {
	s := &strategies{logs: admin.NewLogs(), news: make(chan struct{}, 1), log: log, file: cfg, inForce: cfg}
	if cfg.Admin.Enabled {
		ns := namespaceOf(cfg)
		s.desired = access.NewDocument(clients.Core, ns, cfg.Admin.ConfigMap, "strategies.yaml")
		s.status = access.NewDocument(clients.Core, ns, cfg.Admin.ConfigMap+"-status", "status.yaml")
		s.readSwaps(ctx)
	}
	specs, err := strategy.FromConfig(s.inForce)
	if err != nil {
		return nil, usageError{err}
	}
	s.remember(specs, s.inForce)
	keep := zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, s.logs.Core()) })
	s.host, err = strategy.New(specs, strategy.Options{Log: log.WithOptions(keep), OnCall: s.heard(watch.strategyCall), OnState: s.saw(watch.strategyState), Cost: planCost,
		Artifacts: artifact.New(artifact.Options{Folder: cfg.StrategyFolder, Keychain: registries(cfg)}),
		Records:   strategy.RecordOptions{Folder: cfg.StrategyRecords.Folder, MaxBytes: cfg.StrategyRecords.MaxBytes}})
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}

// registries knows their credentials: those of the Docker configuration, and on AWS of ECR.
func registries(cfg *config.Config) authn.Keychain {
	if cfg.Cloud.Kind != config.CloudAWS {
		return authn.DefaultKeychain
	}
	return ecr.New(func(ctx context.Context) (sdk.Config, error) {
		return sdkconf.Load(ctx, sdkconf.Options{Region: cfg.Region, Program: "weir-scaler", AttemptTimeout: time.Minute})
	}, authn.DefaultKeychain)
}

// readSwaps takes in the swaps before the host starts, so that it starts with what is
// wanted. Without them it starts with the configuration; the watch brings them later.
func (s *strategies) readSwaps(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, desiredWithin)
	defer cancel()
	text, err := s.desired.Read(ctx)
	if err == nil {
		var swaps admin.Desired
		if swaps, err = admin.ReadDesired(text); err == nil {
			err = s.take(s.file, swaps, func(*config.Config) error { return nil })
		}
	}
	if err != nil {
		s.log.Error("strategies that were swapped by command are not known yet, those of the configuration start", zap.Error(err))
	}
}

// take puts a configuration and swaps into force, if apply can. With an error everything
// stays as it was.
func (s *strategies) take(file *config.Config, swaps admin.Desired, apply func(*config.Config) error) error {
	inForce, over, err := swaps.Over(file, swapsName)
	var specs strategy.Config
	if err == nil {
		specs, err = strategy.FromConfig(inForce)
	}
	if err == nil {
		err = apply(inForce)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, s.inForce, s.swaps, s.over = file, inForce, swaps, over
	s.remember(specs, inForce)
	return nil
}

// remember keeps what a configuration says of its strategies. The caller holds mu.
func (s *strategies) remember(specs strategy.Config, cfg *config.Config) {
	for _, spec := range specs.Strategies {
		if settings, ok := cfg.Strategy(spec.Name); ok && !slices.ContainsFunc(s.past, func(k known) bool { return reflect.DeepEqual(k.spec, spec) }) {
			s.past = append(s.past, known{spec, settings})
		}
	}
	s.past = s.past[max(0, len(s.past)-maxKnown):]
}

// settingsOf is what a configuration said of a strategy that the host has.
func (s *strategies) settingsOf(spec strategy.Spec) (config.Strategy, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.past, func(k known) bool { return reflect.DeepEqual(k.spec, spec) })
	if i < 0 {
		return config.Strategy{}, false
	}
	return s.past[i].settings, true
}

func (s *strategies) apply(c *config.Config) error {
	specs, err := strategy.FromConfig(c)
	if err != nil {
		return err
	}
	return s.host.Apply(specs)
}

// reconfigure takes in a changed configuration file. Swaps that do not go with it any
// more, for whatever reason, must not keep it out.
func (s *strategies) reconfigure(file *config.Config) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	swaps := s.state().Swaps
	err := s.take(file, swaps, s.apply)
	if err == nil {
		return nil
	}
	if alone := s.take(file, admin.Desired{}, s.apply); alone != nil {
		return alone
	}
	s.log.Error("strategies that were swapped by command do not go with the changed configuration and are left out", zap.Error(err))
	return nil
}

// reswap takes in changed swaps.
func (s *strategies) reswap(text []byte) {
	s.applying.Lock()
	defer s.applying.Unlock()
	swaps, err := admin.ReadDesired(text)
	if err == nil {
		err = s.take(s.state().Config, swaps, s.apply)
	}
	if err != nil {
		s.log.Error("the strategies that were swapped by command are not taken, those before stay", zap.Error(err))
	}
}

// follow takes in swaps until the context ends. Every replica does, so that whoever leads
// next has them.
func (s *strategies) follow(ctx context.Context) {
	if s.desired == nil {
		return
	}
	s.desired.Watch(ctx, s.reswap, func(err error) {
		s.log.Error("swaps of strategies by command are not heard of", zap.Error(err))
	})
}

// state is what the admin interface tells.
func (s *strategies) state() admin.State {
	list := []strategy.Status(nil)
	if s.host != nil {
		list = s.host.Status()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return admin.State{Strategies: list, Config: s.file, InForce: s.inForce, Swaps: s.swaps}
}

// watch tells the loop, and the metrics, how the strategies do, until the context ends.
func (s *strategies) watch(ctx context.Context, o *observer, tell func(control.Input)) {
	var told control.Strategies
	for {
		st := s.state()
		o.strategies(st.Strategies)
		o.records(s.host.Records())
		if now := health(st); !reflect.DeepEqual(now, told) {
			told = now
			tell(now)
		}
		select {
		case <-s.news: // a process that is started again soon is told of, too
		case <-time.After(statusEvery):
		case <-ctx.Done():
			return
		}
	}
}

// heard and saw have watch look at once at what was not well.
func (s *strategies) heard(next func(strategy.Call)) func(strategy.Call) {
	return func(c strategy.Call) {
		next(c)
		if c.Outcome != strategy.OK {
			s.look()
		}
	}
}

func (s *strategies) saw(next func(strategy.Status)) func(strategy.Status) {
	return func(st strategy.Status) {
		next(st)
		s.look()
	}
}

func (s *strategies) look() {
	select {
	case s.news <- struct{}{}:
	default: // it will
	}
}

// health is what the pools tell of the strategies.
func health(st admin.State) control.Strategies {
	out := control.Strategies{InstanceSelection: st.InForce.Bindings.InstanceSelection, Consolidation: st.InForce.Bindings.Consolidation,
		Unfenced: map[string]string{}}
	serving := config.Builtins()
	for name, s := range st.InForce.Strategies {
		for _, m := range s.Chain {
			if out.Chains == nil {
				out.Chains = map[string][]string{}
			}
			out.Chains[name] = append(out.Chains[name], m.Strategy)
		}
	}
	for _, s := range st.Strategies {
		if s.Pending || s.Role == strategy.LastGood {
			continue
		}
		serving[s.Name] = ""
		if r := s.RolledBack; r != nil {
			out.RollBacks = append(out.RollBacks, control.StrategyRollBack{Name: r.Name, Serves: r.Serves.Name, From: r.From, To: r.To, Why: plugin.Printable(r.Why, strategy.MaxError), At: r.At})
		}
		if s.Role != strategy.Serving {
			continue
		}
		out.Faults = append(out.Faults, faults(s)...)
		if f := s.Fence; f.Isolation != "" && !f.Whole && s.State == strategy.Ready {
			out.Unfenced[s.Name] = f.Missing
		}
	}
	out.Serving = slices.Sorted(maps.Keys(serving))
	return out
}

// faults are why somebody else answers for a strategy.
func faults(s strategy.Status) (out []control.StrategyFault) {
	if s.State != strategy.Ready && s.State != strategy.InProcess && s.LastError != "" { // before its next process is ready, too
		f := control.StrategyFault{Name: s.Name, Version: s.Version, Outcome: string(strategy.Dead), Error: string(s.State) + ": " + plugin.Printable(s.LastError, strategy.MaxError)}
		if s.Rung != strategy.ByStrategy {
			f.Rung = string(s.Rung)
		}
		return []control.StrategyFault{f}
	}
	for _, t := range s.FellBack() {
		last := s.Last[t]
		out = append(out, control.StrategyFault{Name: s.Name, Version: s.Version, Kind: string(t.Kind), Level: t.Level, Outcome: string(last.Outcome), Rung: string(last.Rung),
			Error: plugin.Printable(last.Err, strategy.MaxError)})
	}
	return out
}

// options are those of the admin interface.
func (s *strategies) options(clients *kube.Clients, scaler string, leads func() (bool, string)) admin.Options {
	return admin.Options{Scaler: scaler, Reviewer: access.NewReviewer(clients.Core), State: s.state, Leads: leads, Logs: s.logs, Desired: s.desired, Back: s.back, Retry: s.host.Retry,
		Check: func(c *config.Config) error { _, err := strategy.FromConfig(c); return err }, Now: time.Now, Log: s.log}
}

// handler serves the admin interface.
func (s *strategies) handler(clients *kube.Clients, scaler string, leads func() (bool, string)) http.Handler {
	return admin.Handler(s.options(clients, scaler, leads))
}

// report is what a leader does for as long as it leads: it writes what runs beside what
// is wanted, takes swaps out that are over, and writes down which were rolled back.
func (s *strategies) report(ctx context.Context, scaler string) {
	if s.desired == nil {
		return
	}
	o := admin.Options{Scaler: scaler, State: s.state, Now: time.Now}
	var essence string
	var written time.Time
	failed := false
	every(ctx, func() time.Duration {
		err := s.settle(ctx)
		text, now, e := admin.Status(o.Listed())
		err = errors.Join(err, e)
		if e == nil && (now != essence || time.Since(written) >= countersEvery) {
			if e = s.status.Change(ctx, func([]byte) ([]byte, error) { return text, nil }); e == nil {
				essence, written = now, time.Now()
			}
			err = errors.Join(err, e)
		}
		if err != nil && ctx.Err() == nil && !failed {
			s.log.Error("the state of the strategies cannot be written, it is tried again", zap.Error(err))
		}
		failed = err != nil
		return statusEvery
	})
}

// settle brings the document of swaps up to what has become of them.
func (s *strategies) settle(ctx context.Context) error {
	st := s.state()
	s.mu.Lock()
	over := s.over
	s.over = admin.Ended{}
	s.mu.Unlock()
	var errs []error
	if !over.None() {
		err := admin.Drop(ctx, s.desired, over)
		if err != nil {
			s.mu.Lock()
			s.over = over
			s.mu.Unlock()
		} else {
			var back []string
			for _, r := range over.RolledBack {
				back = append(back, r.Name)
			}
			s.log.Info("swaps and roll-backs of strategies are over: the configuration says something else of them, or has no such strategy",
				zap.Strings("swaps", over.Swaps), zap.Strings("rollBacks", back))
		}
		errs = append(errs, err)
	}
	for _, x := range st.Strategies {
		if x.RolledBack != nil {
			errs = append(errs, s.keepRollBack(ctx, st, *x.RolledBack))
		}
	}
	return errors.Join(errs...)
}

// keepRollBack writes down that a strategy was taken out of service, unless it is: a swap
// says so itself, and what serves instead of the configuration's strategy is kept.
func (s *strategies) keepRollBack(ctx context.Context, st admin.State, r strategy.RollBack) error {
	var errs []error
	swap, swapped := st.Swaps.Strategies[r.Name]
	swapped = swapped && r.Kind == ""
	if swapped && r.At.Before(swap.At) {
		return nil // the swap is the newer word
	}
	if swapped && swap.RolledBack == "" {
		errs = append(errs, admin.TakeBack(ctx, s.desired, r.Name, swap, r.Why))
	}
	kept := admin.RolledBack{Name: r.Name, Binding: string(r.Kind), Serves: r.Serves.Name, From: r.From, To: r.To, Why: r.Why, At: r.At.UTC()}
	if slices.ContainsFunc(st.Swaps.RolledBack, func(k admin.RolledBack) bool {
		return k.Name == kept.Name && k.Binding == kept.Binding && !k.At.Before(kept.At)
	}) {
		return errors.Join(errs...)
	}
	var known bool
	var err error
	if kept.Settings, known = s.settingsOf(r.Serves); !known {
		return errors.Join(append(errs, fmt.Errorf("strategy %s went back to %s, which is not remembered: that ends with this process", r.Name, r.To))...)
	}
	if now, _ := st.Config.Strategy(r.Name); swapped && reflect.DeepEqual(now, kept.Settings) {
		return errors.Join(errs...) // back to what the configuration says
	}
	if kept.Instead, err = admin.Fingerprint(st.Config, r.Name); err == nil {
		err = admin.Keep(ctx, s.desired, kept)
	}
	return errors.Join(append(errs, err)...)
}

// back takes a strategy out of service for the version before it and writes that down.
func (s *strategies) back(ctx context.Context, name, why string) (strategy.RollBack, error) {
	r, err := s.host.RollBack(ctx, name, why)
	if err != nil {
		return r, err
	}
	return r, s.settle(ctx)
}
