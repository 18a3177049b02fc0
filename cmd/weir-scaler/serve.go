package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
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
	"github.com/weir-project/weir/core/userfile"
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

// scaler is everything that one process consists of.
type scaler struct {
	source  live.Source
	cfg     *config.Loaded
	log     *zap.Logger
	metrics *metric.Metrics
	watch   *observer

	scheduler  *convert.SchedulerConfig
	file       ledger.Store
	known      bool // the ledger was looked at and is one
	store      *metered
	strategies *strategies
	server     *rest.Config
	clients    *kube.Clients
	sold       *backend
	holder     string
	loop       *loop
	watcher    *kube.Watcher
	leads      leadership
}

// serve wires everything and runs it until the context ends.
func serve(ctx context.Context, source live.Source, cfg *config.Loaded, fail failpoints, log *zap.Logger) error {
	metrics, err := metric.New(metric.Options{Version: version, ClusterGauges: cfg.Metrics.ClusterGauges, Process: true})
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	s := &scaler{source: source, cfg: cfg, log: log, metrics: metrics, watch: &observer{m: metrics, log: log}, holder: holderName()}
	defer s.close()
	for _, open := range []func(context.Context) error{s.readScheduler, s.openMemory, s.connect, s.openStrategies, s.openCloud} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	s.wire(fail)
	return s.run(ctx)
}

// holderName names this process in leases: its host, and what no other process has.
func holderName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "weir-scaler"
	}
	return fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())
}

func (s *scaler) readScheduler(context.Context) (err error) {
	if s.scheduler, err = schedulerConfig(s.cfg.SchedulerConfig); err != nil {
		return usageError{err}
	}
	return nil
}

func (s *scaler) openMemory(ctx context.Context) (err error) {
	if s.file, err = openLedger(ctx, s.cfg.Config); err != nil {
		return err
	}
	s.store = &metered{Store: s.file, m: s.metrics}
	s.known, err = checkLedger(ctx, s.file, s.log)
	return err
}

// connect makes the clients; it calls nobody.
func (s *scaler) connect(context.Context) (err error) {
	s.server, err = kube.Configure(kube.ConnectOptions{Kubeconfig: s.cfg.Kube.Kubeconfig, QPS: float32(s.cfg.Kube.QPS), Burst: s.cfg.Kube.Burst})
	if err != nil {
		return usageError{err}
	}
	s.clients, err = kube.Connect(s.server)
	return err
}

func (s *scaler) openStrategies(ctx context.Context) (err error) {
	s.strategies, err = openStrategies(ctx, s.cfg.Config, s.clients, s.watch, s.log)
	return err
}

func (s *scaler) openCloud(ctx context.Context) (err error) {
	s.sold, err = openCloud(ctx, s.cfg.Config, s.clients, s.server, countAWS(s.metrics), s.log)
	return err
}

// wire makes the loop and what feeds it.
func (s *scaler) wire(fail failpoints) {
	c := control.New(control.Config{Cluster: s.cfg.Cluster, Account: s.cfg.Account, Region: s.cfg.Region, Holder: s.holder, Version: version, Settings: settings(s.cfg.Config)})
	s.loop = newLoop(c, execute.Ports{Kube: kube.NewClient(s.clients, kube.ClientOptions{}), Cloud: s.sold.provider, Ledger: s.store, Strategy: s.strategies.host,
		Planner: &shownPlanner{Planner: control.Remember(control.Planners{Now: time.Now}), again: control.Planners{Now: time.Now}, host: s.strategies.host}, Now: time.Now}, fail, s.log, s.watch)
	c.OnPlan(s.loop.plan)
	s.watcher = kube.NewWatcher(s.clients, s.loop.sink, kube.WatchOptions{SpreadDefaults: s.scheduler.PodTopologySpread.DefaultConstraints, OnError: func(kind, name string, err error) {
		s.log.Error("watch", zap.String("kind", kind), zap.String("name", name), zap.Error(err))
	}})
}

// close ends what open began.
func (s *scaler) close() {
	if s.strategies != nil {
		s.strategies.host.Close()
	}
	if s.store == nil {
		return
	}
	if err := s.store.Close(); err != nil {
		s.log.Error("closing the ledger", zap.Error(err))
	}
}

// beside is what a leader does beside its loop.
func (s *scaler) beside() func(context.Context) {
	leading := []func(context.Context){s.sold.lead, func(ctx context.Context) { s.strategies.report(ctx, s.holder) }}
	if name := s.cfg.Interruption.Queue; name != "" && s.sold.queue != nil {
		leading = append(leading, s.loop.hear(s.sold.queue, name))
	}
	if s.sold.status != nil {
		leading = append(leading, func(ctx context.Context) { status.Run(ctx, s.sold.status, time.Now, s.loop.checks()) })
	}
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		for _, f := range leading {
			wg.Go(func() { f(ctx) })
		}
		wg.Wait()
	}
}

// run serves until the context ends or a part of it cannot go on.
func (s *scaler) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	background := func(f func(context.Context)) {
		group.Go(func() error { f(ctx); return nil })
	}
	// The loop outlives the term, so that the last results find somebody.
	loopCtx, endLoop := context.WithCancel(context.WithoutCancel(ctx))
	loopDone := make(chan struct{})
	go func() {
		defer close(loopDone)
		s.loop.run(loopCtx)
	}()
	defer func() {
		endLoop()
		<-loopDone
	}()
	background(s.watcher.Run)
	background(func(ctx context.Context) { tidy(ctx, s.file, s.log) })
	if !s.known {
		group.Go(func() error { return awaitLedger(ctx, s.file, s.log) })
	}
	background(func(ctx context.Context) { s.loop.lag(ctx, s.watcher.Behind) })
	background(func(ctx context.Context) { follow(ctx, s.source, s.cfg, s.loop, s.strategies, s.watch) })
	background(s.strategies.follow)
	background(func(ctx context.Context) {
		s.strategies.watch(ctx, s.watch, func(in control.Input) { s.loop.box.put(in) })
	})
	if s.sold.poll != nil {
		background(func(ctx context.Context) { s.loop.poll(ctx, s.sold.poll) })
	}
	background(s.sold.run)
	group.Go(func() error {
		return elect(ctx, s.cfg.Config, s.clients, s.holder, s.loop, &s.leads, s.beside(), s.log)
	})
	group.Go(func() error { return listen(ctx, "health", "", s.cfg.Health.Port, s.loop.probes(), s.log) })
	group.Go(func() error {
		return listen(ctx, "metrics", "", s.cfg.Metrics.Port, metricsMux(s.cfg.Config, s.metrics), s.log)
	})
	if s.cfg.Admin.Enabled {
		// Requests carry tokens and answers are not encrypted: nobody outside of the pod gets at it.
		group.Go(func() error {
			return listen(ctx, "admin", "127.0.0.1", s.cfg.Admin.Port, s.strategies.handler(s.clients, s.holder, s.leads.get), s.log)
		})
	}
	s.log.Info("started", zap.String("cluster", s.cfg.Cluster), zap.String("cloud", s.cfg.Cloud.Kind), zap.String("ledger", s.cfg.Ledger.Kind), zap.String("apiServer", s.server.Host))
	err := group.Wait()
	s.log.Info("stopped")
	return err
}

// leadership is whether this process leads, for those who ask.
type leadership struct {
	mu  sync.Mutex // guards what follows
	yes bool
	why string // not
}

func (l *leadership) set(yes bool, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.yes, l.why = yes, why
}

// get says whether it leads, and if not, why.
func (l *leadership) get() (bool, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.yes && l.why == "" {
		return false, "the election has not been held yet"
	}
	return l.yes, l.why
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
func elect(ctx context.Context, c *config.Config, clients *kube.Clients, holder string, l *loop, leads *leadership, beside func(context.Context), log *zap.Logger) error {
	lead := func(ctx context.Context, epoch int64) {
		leads.set(true, "")
		defer leads.set(false, "the term has ended")
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
	return kube.Elect(ctx, clients.Core, kube.ElectOptions{
		Namespace: namespaceOf(c), Name: e.Name, KarpenterNamespace: e.KarpenterNamespace, KarpenterName: e.KarpenterName, Identity: holder,
		LeaseDuration: e.LeaseDuration.D(), RenewDeadline: e.RenewDeadline.D(), RetryPeriod: e.RetryPeriod.D(),
		Passive: func(why string) {
			if why != "" {
				log.Info("passive", zap.String("reason", why))
				leads.set(false, why)
				l.box.put(control.Following{Why: why})
			}
		},
	}, lead)
}

// follow takes in changes of the configuration file.
func follow(ctx context.Context, source live.Source, cfg *config.Loaded, l *loop, host *strategies, watch *observer) {
	refuse := func(err error) {
		watch.m.ConfigReloads.WithLabelValues("refused").Inc()
		l.log.Error("the changed configuration is not taken, the one before stays", zap.Error(err))
	}
	source.Watch(ctx, cfg, configEvery, func(ch live.Change) {
		if ch.Err != nil {
			refuse(ch.Err)
			return
		}
		if err := host.reconfigure(ch.Config.Config); err != nil {
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

// listen serves HTTP until the context ends, on all addresses of the host where none is
// named; port 0 takes any free one.
func listen(ctx context.Context, what, address string, port int, h http.Handler, log *zap.Logger) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
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
		if data, err = userfile.Read(setting, config.MaxFile); err != nil {
			return nil, fmt.Errorf("schedulerConfig: %w", err)
		}
	}
	c, err := convert.ReadSchedulerConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return c, nil
}
