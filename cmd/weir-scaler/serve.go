package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/core/cloud/aws/status"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/config/live"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/kube"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/metric"
	"github.com/weir-project/weir/core/strategy"
)

const (
	configEvery = 5 * time.Second
	lagEvery    = 5 * time.Second
	tidyEvery   = 10 * time.Minute // expired records are dropped
	stuckAfter  = time.Minute      // a loop that has not turned for so long is not healthy
	stopWithin  = 10 * time.Second // servers get so long to end
)

// events is where notices come from besides the ledger and a queue: a cloud that tells of its own.
type events func(ctx context.Context, after int64) (list []rawEvent, last int64, err error)

type rawEvent = []byte

// serve wires everything and runs it until the context ends.
func serve(ctx context.Context, source live.Source, cfg *config.Loaded, fail failpoints, log *zap.Logger) error {
	metrics, err := metric.New(metric.Options{Version: version, ClusterGauges: cfg.Metrics.ClusterGauges, Process: true})
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	watch := &observer{m: metrics, log: log}
	file, err := openLedger(ctx, cfg.Config)
	if err != nil {
		return err
	}
	known, err := checkLedger(ctx, file, log)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	store := &metered{Store: file, m: metrics}
	defer func() {
		if err := store.Close(); err != nil {
			log.Error("closing the ledger", zap.Error(err))
		}
	}()
	scheduler, err := schedulerConfig(cfg.SchedulerConfig)
	if err != nil {
		return usageError{err}
	}
	strategies, err := strategy.FromConfig(cfg.Config)
	if err != nil {
		return usageError{err}
	}
	host, err := strategy.New(strategies, strategy.Options{Log: log, OnCall: watch.strategyCall, OnState: watch.strategyState, Cost: planCost,
		Records: strategy.RecordOptions{Folder: cfg.StrategyRecords.Folder, MaxBytes: cfg.StrategyRecords.MaxBytes}})
	if err != nil {
		return usageError{err}
	}
	defer host.Close()
	server, err := kube.Configure(kube.ConnectOptions{Kubeconfig: cfg.Kube.Kubeconfig, QPS: float32(cfg.Kube.QPS), Burst: cfg.Kube.Burst})
	if err != nil {
		return usageError{err}
	}
	clients, err := kube.Connect(server)
	if err != nil {
		return err
	}
	sold, err := openCloud(ctx, cfg.Config, clients, server, countAWS(metrics), log)
	if err != nil {
		return err
	}
	holder, err := os.Hostname()
	if err != nil {
		holder = "weir-scaler"
	}
	holder = fmt.Sprintf("%s_%d_%d", holder, os.Getpid(), time.Now().UnixNano())
	c := control.New(control.Config{Cluster: cfg.Cluster, Account: cfg.Account, Region: cfg.Region, Holder: holder, Version: version, Settings: settings(cfg.Config)})
	l := newLoop(c, execute.Ports{Kube: kube.NewClient(clients, kube.ClientOptions{}), Cloud: sold.provider, Ledger: store, Strategy: host,
		Planner: control.Planners{Now: time.Now}, Now: time.Now}, fail, log, watch)
	c.OnPlan(l.plan)
	watcher := kube.NewWatcher(clients, l.sink, kube.WatchOptions{SpreadDefaults: scheduler.PodTopologySpread.DefaultConstraints, OnError: func(kind, name string, err error) {
		log.Error("watch", zap.String("kind", kind), zap.String("name", name), zap.Error(err))
	}})

	leading := []func(context.Context){sold.lead}
	if name := cfg.Interruption.Queue; name != "" && sold.queue != nil {
		leading = append(leading, l.hear(sold.queue, name))
	}
	if sold.status != nil {
		leading = append(leading, func(ctx context.Context) { status.Run(ctx, sold.status, time.Now, l.checks()) })
	}
	beside := func(ctx context.Context) {
		var wg sync.WaitGroup
		for _, f := range leading {
			wg.Go(func() { f(ctx) })
		}
		wg.Wait()
	}

	group, ctx := errgroup.WithContext(ctx)
	background := func(f func(context.Context)) {
		group.Go(func() error { f(ctx); return nil })
	}
	// The loop outlives the term, so that the last results find somebody.
	loopCtx, endLoop := context.WithCancel(context.WithoutCancel(ctx))
	loopDone := make(chan struct{})
	go func() {
		defer close(loopDone)
		l.run(loopCtx)
	}()
	defer func() {
		endLoop()
		<-loopDone
	}()
	background(watcher.Run)
	background(func(ctx context.Context) { tidy(ctx, file, log) })
	if !known {
		group.Go(func() error { return awaitLedger(ctx, file, log) })
	}
	background(func(ctx context.Context) { l.lag(ctx, watcher.Behind) })
	background(func(ctx context.Context) { follow(ctx, source, cfg, l, host, watch) })
	if sold.poll != nil {
		background(func(ctx context.Context) { l.poll(ctx, sold.poll) })
	}
	background(sold.run)
	group.Go(func() error { return elect(ctx, cfg.Config, clients, holder, l, beside, log) })
	group.Go(func() error { return listen(ctx, "health", cfg.Health.Port, l.probes(), log) })
	group.Go(func() error { return listen(ctx, "metrics", cfg.Metrics.Port, metricsMux(cfg.Config, metrics), log) })
	log.Info("started", zap.String("cluster", cfg.Cluster), zap.String("cloud", cfg.Cloud.Kind), zap.String("ledger", cfg.Ledger.Kind), zap.String("apiServer", server.Host))
	err = group.Wait()
	log.Info("stopped")
	return err
}

// settings maps the configuration to what control reads.
func settings(c *config.Config) control.Settings {
	return control.Settings{
		Planning: c.PlanningSettings(), BatchIdle: c.Batch.Idle.D(), BatchMax: c.Batch.Max.D(), NodeRepair: c.FeatureGates.NodeRepair,
		OutOfService: c.Termination.OutOfServiceTaint, MaxMovesPerHour: c.Disruption.MaxMovesPerHour,
		DisruptEvery: c.Disruption.Interval.D(), DisruptValidate: c.Disruption.Validation.D(),
		// An interval promises that no leak lives longer: what appears just after one look
		// must be gone before it is over.
		SweepEvery: c.GarbageCollection.Interval.D() / 2,
		Brake:      execute.Brake{Nodes: c.GarbageCollection.BrakeNodes, Share: c.GarbageCollection.BrakeShare, Window: c.GarbageCollection.BrakeWindow.D()},
	}
}

// backend is whatever sells machines, with what it does beside being asked.
type backend struct {
	provider cloud.Provider
	poll     events                // nil = it has no events of its own
	queue    queueAPI              // nil = it has no queues
	status   status.API            // nil = it has no status checks
	run      func(context.Context) // for as long as the process runs
	lead     func(context.Context) // for as long as it leads
}

func openCloud(ctx context.Context, c *config.Config, clients *kube.Clients, server *rest.Config, called func(sdkconf.Call), log *zap.Logger) (*backend, error) {
	switch c.Cloud.Kind {
	case config.CloudSim:
		client := sim.Dial(c.Cloud.Address)
		nothing := func(context.Context) {}
		return &backend{provider: client, run: nothing, lead: nothing, poll: func(ctx context.Context, after int64) ([]rawEvent, int64, error) {
			list, err := client.Events(ctx, after, 20*time.Second)
			var out []rawEvent
			for _, e := range list {
				out, after = append(out, e.JSON), e.Seq
			}
			return out, after, err
		}}, nil
	case config.CloudAWS:
		return openAWS(ctx, c, clients, server, called, log)
	}
	return nil, usageError{fmt.Errorf("cloud.kind: %q is unknown", c.Cloud.Kind)}
}

// elect leads while it holds both leases.
func elect(ctx context.Context, c *config.Config, clients *kube.Clients, holder string, l *loop, beside func(context.Context), log *zap.Logger) error {
	lead := func(ctx context.Context, epoch int64) {
		var wg sync.WaitGroup
		l.lead(ctx, epoch, func() { wg.Go(func() { beside(ctx) }) })
		wg.Wait()
	}
	if !c.LeaderElection.Enabled {
		log.Warn("leader election is off: a second scaler, or Karpenter, in this cluster is not kept away")
		lead(ctx, time.Now().Unix())
		return nil
	}
	e := c.LeaderElection
	namespace := e.Namespace
	if namespace == "" {
		namespace = kube.PodNamespace()
	}
	if namespace == "" {
		namespace = "kube-system"
	}
	return kube.Elect(ctx, clients.Core, kube.ElectOptions{
		Namespace: namespace, Name: e.Name, KarpenterNamespace: e.KarpenterNamespace, KarpenterName: e.KarpenterName, Identity: holder,
		LeaseDuration: e.LeaseDuration.D(), RenewDeadline: e.RenewDeadline.D(), RetryPeriod: e.RetryPeriod.D(),
		Passive: func(why string) {
			if why != "" {
				log.Info("passive", zap.String("reason", why))
				l.box.put(control.Following{Why: why})
			}
		},
	}, lead)
}

// follow takes in changes of the configuration file.
func follow(ctx context.Context, source live.Source, cfg *config.Loaded, l *loop, host *strategy.Host, watch *observer) {
	refuse := func(err error) {
		watch.m.ConfigReloads.WithLabelValues("refused").Inc()
		l.log.Error("the changed configuration is not taken, the one before stays", zap.Error(err))
	}
	source.Watch(ctx, cfg, configEvery, func(ch live.Change) {
		if ch.Err != nil {
			refuse(ch.Err)
			return
		}
		strategies, err := strategy.FromConfig(ch.Config.Config)
		if err == nil {
			err = host.Apply(strategies)
		}
		if err != nil {
			refuse(err)
			return
		}
		l.box.put(control.ConfigChanged{Settings: settings(ch.Config.Config)})
		watch.m.ConfigReloads.WithLabelValues("taken").Inc()
		l.log.Info("configuration changed", zap.Strings("fields", ch.Fields))
	})
}

// tidy drops expired records of a ledger that does not do so by itself.
func tidy(ctx context.Context, s ledger.Store, log *zap.Logger) {
	sweeper, ok := s.(ledger.Sweeper)
	if !ok {
		return
	}
	ticks := time.NewTicker(tidyEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		n, err := sweeper.Sweep(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			log.Error("tidying the ledger", zap.Error(err))
		} else if n > 0 {
			log.Debug("tidied the ledger", zap.Int("records", n))
		}
	}
}

// lag tells the controller when watches fall behind.
func (l *loop) lag(ctx context.Context, behind func() time.Duration) {
	ticks := time.NewTicker(lagEvery)
	defer ticks.Stop()
	last := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if b := behind(); b != last {
			l.box.put(control.Lag{Behind: b})
			last = b
		}
	}
}

// poll reads events and hands their notices over.
func (l *loop) poll(ctx context.Context, next events) {
	after := int64(0)
	for ctx.Err() == nil {
		list, last, err := next(ctx, after)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Error("reading events", zap.Error(err))
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Second):
				}
			}
			continue
		}
		after = last
		for _, raw := range list {
			parsed, err := event.Parse(raw, time.Now())
			if err != nil {
				l.log.Error("event", zap.Error(err))
				l.watch.m.NoticesIgnored.WithLabelValues("unreadable").Inc()
				continue
			}
			l.hand(parsed, true)
			l.watch.m.MessagesDeleted.WithLabelValues().Inc()
		}
	}
}

// probes answers whether the loop turns and whether the picture of the cluster is complete.
func (l *loop) probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if at := l.alive.Load(); at == 0 || time.Since(time.Unix(0, at)) > stuckAfter {
			http.Error(w, "the loop stands still", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !l.synced.Load() {
			http.Error(w, "the cluster has not been listed yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

func metricsMux(c *config.Config, m *metric.Metrics) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	if c.Metrics.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// listen serves HTTP until the context ends; port 0 takes any free one.
func listen(ctx context.Context, what string, port int, h http.Handler, log *zap.Logger) error {
	ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return fmt.Errorf("%s server: %w", what, err)
	}
	log.Info("listening", zap.String("server", what), zap.String("address", ln.Addr().String()))
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return fmt.Errorf("%s server: %w", what, err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return srv.Shutdown(stop)
}

// schedulerConfig reads what the setting names: a file, or the text itself.
func schedulerConfig(setting string) (*convert.SchedulerConfig, error) {
	if setting == "" {
		return &convert.SchedulerConfig{}, nil
	}
	source, data := "schedulerConfig", []byte(setting)
	if !convert.IsSchedulerConfig(setting) {
		source = setting
		var err error
		if data, err = os.ReadFile(setting); err != nil {
			return nil, fmt.Errorf("schedulerConfig: %w", err)
		}
	}
	c, err := convert.ReadSchedulerConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return c, nil
}
