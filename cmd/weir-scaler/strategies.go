package main

import (
	"context"
	"errors"
	"net/http"
	"reflect"
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

	applying sync.Mutex // serializes apply

	mu      sync.Mutex // guards what follows
	file    *config.Config
	inForce *config.Config // file with the swaps
	swaps   admin.Desired
	over    []string // swaps that are
}

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
	s := &strategies{logs: admin.NewLogs(), log: log, file: cfg, inForce: cfg}
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
	keep := zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, s.logs.Core()) })
	s.host, err = strategy.New(specs, strategy.Options{Log: log.WithOptions(keep), OnCall: watch.strategyCall, OnState: watch.strategyState, Cost: planCost,
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
	if err == nil {
		_, err = strategy.FromConfig(inForce)
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
	return nil
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
	every(ctx, func() time.Duration {
		st := s.state()
		o.strategies(st.Strategies)
		if now := health(st); !reflect.DeepEqual(now, told) {
			told = now
			tell(now)
		}
		return statusEvery
	})
}

// health is what the pools tell of the strategies.
func health(st admin.State) control.Strategies {
	out := control.Strategies{InstanceSelection: st.InForce.Bindings.InstanceSelection, Consolidation: st.InForce.Bindings.Consolidation,
		Faults: map[string]string{}, Unfenced: map[string]string{}}
	for _, s := range st.Strategies {
		if s.Pending || s.Role != strategy.Serving {
			continue
		}
		switch {
		case s.State == strategy.BackingOff, s.State == strategy.Broken:
			out.Faults[s.Name] = string(s.State) + ": " + s.LastError
		case s.Rung != "" && s.Rung != strategy.ByStrategy:
			out.Faults[s.Name] = "its last call was answered by another (" + string(s.Rung) + "): " + s.LastCallError
		}
		if f := s.Fence; f.Isolation != "" && !f.Whole && s.State == strategy.Ready {
			out.Unfenced[s.Name] = f.Missing
		}
	}
	return out
}

// options are those of the admin interface.
func (s *strategies) options(clients *kube.Clients, scaler string, leads func() (bool, string)) admin.Options {
	return admin.Options{Scaler: scaler, Reviewer: access.NewReviewer(clients.Core), State: s.state, Leads: leads, Logs: s.logs, Desired: s.desired,
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
	s.over = nil
	s.mu.Unlock()
	var errs []error
	if len(over) > 0 {
		err := admin.Drop(ctx, s.desired, over)
		if err != nil {
			s.mu.Lock()
			s.over = over
			s.mu.Unlock()
		} else {
			s.log.Info("swaps of strategies are over: the configuration has another program, or no such strategy", zap.Strings("strategies", over))
		}
		errs = append(errs, err)
	}
	for _, x := range st.Strategies {
		swap, ok := st.Swaps.Strategies[x.Name]
		if !ok || swap.RolledBack != "" || x.RolledBack == nil || x.RolledBack.At.Before(swap.At) {
			continue
		}
		errs = append(errs, admin.RolledBack(ctx, s.desired, x.Name, swap, x.RolledBack.Why))
	}
	return errors.Join(errs...)
}
