package metric

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sort"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// durationBuckets are the bounds of all histograms of durations, seconds.
var durationBuckets = []float64{.005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600}

// lifetimeBuckets are the bounds of the lives of nodes, seconds: 15 minutes to 30 days.
var lifetimeBuckets = []float64{900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 432000, 864000, 1296000, 2592000}

var quantiles = map[float64]float64{0: 0, 0.5: 0.05, 0.9: 0.01, 0.99: 0.001, 1: 0}

// Info describes one metric, for the reference page and the tests of names.
type Info struct {
	Name, Type, Help string
	Labels           []string
}

// Options of the metrics.
type Options struct {
	Version, Commit string
	ClusterGauges   bool // gauges of each node, pod and pool
	Process         bool // memory, CPU and garbage collector of the process
}

// Metrics are all metrics of one process. The fields are set once and safe for
// concurrent use.
type Metrics struct {
	Registry *prometheus.Registry
	infos    []Info
	cluster  *clusterCollector

	// Of Karpenter.
	ClaimsCreated           *prometheus.CounterVec
	ClaimsTerminated        *prometheus.CounterVec
	ClaimsDisrupted         *prometheus.CounterVec
	ClaimsUnhealthy         *prometheus.CounterVec
	PodsDisruptionInitiated *prometheus.CounterVec
	ClaimTermination        *prometheus.HistogramVec
	InstanceTermination     *prometheus.HistogramVec
	NodesCreated            *prometheus.CounterVec
	NodesTerminated         *prometheus.CounterVec
	NodesDrained            *prometheus.CounterVec
	NodeTermination         *prometheus.SummaryVec
	NodeLifetime            *prometheus.HistogramVec
	PodsStartup             *prometheus.SummaryVec
	PodsBound               *prometheus.HistogramVec
	PodsDecision            *prometheus.HistogramVec
	Evictions               *prometheus.CounterVec
	PodsDrained             *prometheus.CounterVec
	Scheduling              *prometheus.HistogramVec
	QueueDepth              *prometheus.GaugeVec
	IgnoredPods             *prometheus.GaugeVec
	UnschedulablePods       *prometheus.GaugeVec
	DisruptionEvaluation    *prometheus.HistogramVec
	DisruptionDecisions     *prometheus.CounterVec
	EligibleNodes           *prometheus.GaugeVec
	AllowedDisruptions      *prometheus.GaugeVec
	ClusterSynced           *prometheus.GaugeVec
	CloudDuration           *prometheus.HistogramVec
	CloudErrors             *prometheus.CounterVec
	MessagesReceived        *prometheus.CounterVec
	MessagesDeleted         *prometheus.CounterVec
	MessageAge              *prometheus.HistogramVec

	// Our own.
	Active            *prometheus.GaugeVec
	LeaderEpoch       *prometheus.GaugeVec
	PlanDuration      *prometheus.HistogramVec
	Plans             *prometheus.CounterVec
	PlansStopped      *prometheus.CounterVec
	Unplaced          *prometheus.GaugeVec
	LowerBound        *prometheus.GaugeVec
	PlannedPrice      *prometheus.GaugeVec
	StrategyCalls     *prometheus.CounterVec
	StrategyDuration  *prometheus.HistogramVec
	StrategyFallbacks *prometheus.CounterVec
	StrategyRestarts  *prometheus.CounterVec
	StrategyUp        *prometheus.GaugeVec
	StrategyAnswers   *prometheus.CounterVec
	StrategyVerdicts  *prometheus.CounterVec
	StrategyFenced    *prometheus.GaugeVec
	StrategyRollBacks *prometheus.CounterVec
	StrategyRecords   *prometheus.CounterVec
	Effects           *prometheus.CounterVec
	EffectDuration    *prometheus.HistogramVec
	Launches          *prometheus.CounterVec
	Shortages         *prometheus.CounterVec
	AWSCalls          *prometheus.CounterVec
	AWSDuration       *prometheus.HistogramVec
	AWSThrottled      *prometheus.CounterVec
	LedgerCalls       *prometheus.CounterVec
	LedgerDuration    *prometheus.HistogramVec
	LedgerUp          *prometheus.GaugeVec
	LedgerQueued      *prometheus.GaugeVec
	LedgerForgotten   *prometheus.CounterVec
	GarbageBrake      *prometheus.GaugeVec
	GarbageCollected  *prometheus.CounterVec
	Notices           *prometheus.CounterVec
	NoticesIgnored    *prometheus.CounterVec
	QueueUp           *prometheus.GaugeVec
	StatusUnhealthy   *prometheus.CounterVec
	ConfigReloads     *prometheus.CounterVec
	Frozen            *prometheus.GaugeVec
	DisruptionHeld    *prometheus.GaugeVec
	Circles           *prometheus.CounterVec
}

// New makes and registers all metrics.
func New(o Options) (*Metrics, error) {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	b := &builder{m: m}
	m.karpenter(b)
	m.own(b)
	build := b.gauge("karpenter_build_info", "Always 1; the labels say which build runs.", "version", "goversion", "goarch", "commit")
	build.WithLabelValues(o.Version, runtime.Version(), runtime.GOARCH, o.Commit).Set(1)
	m.cluster = newClusterCollector(o.ClusterGauges, b)
	if o.Process {
		b.register(collectors.NewGoCollector())
		b.register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	if b.err != nil {
		return nil, b.err
	}
	slices.SortFunc(m.infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return m, nil
}

func (m *Metrics) karpenter(b *builder) {
	disrupted := []string{"reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"}
	m.ClaimsCreated = b.counter("karpenter_nodeclaims_created_total", "NodeClaims created, by reason (provisioned, drifted, underutilized).", "reason", "nodepool", "min_values_relaxed")
	m.ClaimsTerminated = b.counter("karpenter_nodeclaims_terminated_total", "NodeClaims that are gone.", "nodepool", "capacity_type", "zone")
	m.ClaimsDisrupted = b.counter("karpenter_nodeclaims_disrupted_total", "NodeClaims taken away, by reason in small letters.", disrupted...)
	m.ClaimsUnhealthy = b.counter("karpenter_nodeclaims_unhealthy_disrupted_total", "NodeClaims replaced because their node stayed unhealthy, by the node's condition in snake case.", "condition", "nodepool", "capacity_type", "image_id")
	m.PodsDisruptionInitiated = b.counter("karpenter_pods_disruption_initiated_total", "Pods that had to move with a disrupted NodeClaim.", disrupted...)
	m.ClaimTermination = b.histogram("karpenter_nodeclaims_termination_duration_seconds", "From the deletion of a NodeClaim until it is gone.", nil, "nodepool")
	m.InstanceTermination = b.histogram("karpenter_nodeclaims_instance_termination_duration_seconds", "From the request to end an instance until it is gone.", nil, "nodepool")
	m.NodesCreated = b.counter("karpenter_nodes_created_total", "Nodes that joined.", "nodepool", "zone")
	m.NodesTerminated = b.counter("karpenter_nodes_terminated_total", "Nodes that are gone.", "nodepool", "zone")
	m.NodesDrained = b.counter("karpenter_nodes_drained_total", "Nodes that were drained.", "nodepool")
	m.NodeTermination = b.summary("karpenter_nodes_termination_duration_seconds", "From the deletion of a Node until it is gone.", "nodepool")
	m.NodeLifetime = b.histogram("karpenter_nodes_lifetime_duration_seconds", "How long Nodes lived.", lifetimeBuckets, "nodepool")
	m.PodsStartup = b.summary("karpenter_pods_startup_duration_seconds", "From the creation of a pod until it is ready.")
	m.PodsBound = b.histogram("karpenter_pods_bound_duration_seconds", "From the creation of a pod until it is bound.", nil)
	m.PodsDecision = b.histogram("karpenter_pods_scheduling_decision_duration_seconds", "From the first sight of a pod until there is a plan for it.", nil)
	m.Evictions = b.counter("karpenter_pods_eviction_requests_total", "Eviction requests, by HTTP status code of the answer.", "code")
	m.PodsDrained = b.counter("karpenter_pods_drained_total", "Pods that left a node in a drain.", "reason")
	m.Scheduling = b.histogram("karpenter_scheduler_scheduling_duration_seconds", "Time of one plan (controller: provisioner, disruption).", nil, "controller")
	m.QueueDepth = b.gauge("karpenter_scheduler_queue_depth", "Pods that wait to be planned for.", "controller", "scheduling_id")
	m.IgnoredPods = b.gauge("karpenter_scheduler_ignored_pods_count", "Waiting pods that are left alone, for a reason told on the pod.")
	m.UnschedulablePods = b.gauge("karpenter_scheduler_unschedulable_pods_count", "Waiting pods that no pool can take.", "controller")
	m.DisruptionEvaluation = b.histogram("karpenter_voluntary_disruption_decision_evaluation_duration_seconds", "Time of one look for nodes to give back.", nil, "reason", "consolidation_type")
	m.DisruptionDecisions = b.counter("karpenter_voluntary_disruption_decisions_total", "Decisions to give nodes back (delete, replace).", "decision", "reason", "consolidation_type")
	m.EligibleNodes = b.gauge("karpenter_voluntary_disruption_eligible_nodes", "Nodes that could be given back.", "reason")
	m.AllowedDisruptions = b.gauge("karpenter_nodepools_allowed_disruptions", "Nodes that the budgets of a pool let go at once.", "nodepool", "reason")
	m.ClusterSynced = b.gauge("karpenter_cluster_state_synced", "1 while the picture of the cluster is complete.")
	m.CloudDuration = b.histogram("karpenter_cloudprovider_duration_seconds", "Time of one call to the cloud.", nil, "controller", "method", "provider")
	m.CloudErrors = b.counter("karpenter_cloudprovider_errors_total", "Errors of calls to the cloud.", "controller", "method", "provider", "error")
	m.MessagesReceived = b.counter("karpenter_interruption_received_messages_total", "Interruption messages received.", "message_type")
	m.MessagesDeleted = b.counter("karpenter_interruption_deleted_messages_total", "Interruption messages done with.")
	m.MessageAge = b.histogram("karpenter_interruption_message_queue_duration_seconds", "Age of an interruption message when it was handled.", nil)
}

func (m *Metrics) own(b *builder) {
	m.Active = b.gauge("weir_active", "1 while this process holds its lease and Karpenter's and acts; 0 while it is passive.")
	m.LeaderEpoch = b.gauge("weir_leader_epoch", "Epoch of the leader that this process is or saw last.")
	m.PlanDuration = b.histogram("weir_plan_duration_seconds", "Time of one plan, strategies included.", nil, "kind")
	m.PlansStopped = b.counter("weir_plans_stopped_total", "Plans that their time budget (planning.budget) ended: legal, and perhaps dearer than need be, or not for all pods.", "kind")
	m.Plans = b.counter("weir_plans_total", "Plans made, by what the strategy did (ok, dead, late, invalid, empty, refused).", "kind", "outcome")
	m.Unplaced = b.gauge("weir_unplaced_pods", "Pods of the last plan without a place, by the filter that stood in the way.", "filter")
	m.LowerBound = b.gauge("weir_plan_lower_bound_usd_per_hour", "Proven lower bound of the price of the last plan.", "kind")
	m.PlannedPrice = b.gauge("weir_plan_usd_per_hour", "Price of what the last plan buys.", "kind")
	m.StrategyCalls = b.counter("weir_strategy_calls_total", "Calls of strategies, by outcome.", "strategy", "method", "outcome")
	m.StrategyDuration = b.histogram("weir_strategy_call_duration_seconds", "Time of one call of a strategy.", nil, "strategy", "method")
	m.StrategyFallbacks = b.counter("weir_strategy_fallbacks_total", "Calls that somebody else answered instead (the version before, the built-in, or its own prices and verdicts instead of its plan), by reason.", "strategy", "reason")
	m.StrategyRestarts = b.counter("weir_strategy_restarts_total", "Starts of a strategy's process after the first.", "strategy")
	m.StrategyUp = b.gauge("weir_strategy_up", "1 while the process of a strategy in service answers.", "strategy")
	m.StrategyAnswers = b.counter("weir_strategy_answers_total", "Who answered in the end when a strategy was asked: strategy, last-good, built-in or none.", "strategy", "by")
	m.StrategyVerdicts = b.counter("weir_strategy_proposals_total", "What a strategy said about moves that it was asked to judge (accepted, refused).", "strategy", "verdict")
	m.StrategyFenced = b.gauge("weir_strategy_fenced", "1 while nothing is missing that keeps a strategy's process from the rest of the machine, else 0, by isolation.", "strategy", "isolation")
	m.StrategyRollBacks = b.counter("weir_strategy_rollbacks_total", "Times that a strategy was taken out of service for the version before it.", "strategy")
	m.StrategyRecords = b.counter("weir_strategy_records_total", "Records of calls of strategies and of what shadows made of them: written, dropped (the disk was slower than the calls) or failed.", "result")
	m.Effects = b.counter("weir_effects_total", "Actions carried out, by kind and outcome.", "kind", "outcome")
	m.EffectDuration = b.histogram("weir_effect_duration_seconds", "Time of one action.", nil, "kind")
	m.Launches = b.counter("weir_launched_instances_total", "Instances bought.", "nodepool", "capacity_type")
	m.Shortages = b.counter("weir_offering_shortages_total", "Answers that an offering was short of capacity.", "instance_type", "zone", "capacity_type")
	m.AWSCalls = b.counter("weir_aws_calls_total", "Calls of AWS, by outcome (ok, or the kind of the error: throttled, shortage, quota, auth, template, token, not-found, internal, deadline); repetitions count with their call.", "service", "operation", "outcome")
	m.AWSDuration = b.histogram("weir_aws_call_duration_seconds", "Time of one call of AWS, repetitions and their pauses included.", nil, "service", "operation")
	m.AWSThrottled = b.counter("weir_aws_throttled_attempts_total", "Attempts of calls that AWS answered with \"too often\", those that came through later included.", "service", "operation")
	m.LedgerCalls = b.counter("weir_ledger_calls_total", "Calls of the ledger, by outcome (ok, conflict, error).", "operation", "outcome")
	m.LedgerDuration = b.histogram("weir_ledger_call_duration_seconds", "Time of one call of the ledger.", nil, "operation")
	m.LedgerUp = b.gauge("weir_ledger_up", "0 while the ledger cannot be reached and writes are queued.")
	m.LedgerQueued = b.gauge("weir_ledger_queued_writes", "Records that wait to be written to the ledger.")
	m.LedgerForgotten = b.counter("weir_ledger_forgotten_decisions_total", "Lines of the diary that were dropped because the ledger was away for too long.")
	m.GarbageBrake = b.gauge("weir_garbage_collection_stopped", "1 when garbage collection stopped by itself and waits for a person.")
	m.GarbageCollected = b.counter("weir_garbage_collected_total", "Instances without a claim, by what was done (adopted, ended).", "outcome")
	m.Notices = b.counter("weir_interruption_notices_total", "Interruption notices for our nodes, by kind and action; repetitions left out.", "kind", "action")
	m.NoticesIgnored = b.counter("weir_interruption_events_ignored_total", "Events that asked for nothing, by reason.", "reason")
	m.StatusUnhealthy = b.counter("karpenter_interruption_instance_status_unhealthy_total", "Failed status checks and planned events that EC2 told of when asked, each once.", "category")
	m.QueueUp = b.gauge("weir_interruption_queue_up", "Whether this replica reads the interruption queue; 0 where it does not lead, or cannot.")
	m.ConfigReloads = b.counter("weir_config_reloads_total", "Changes of the configuration file, by outcome (taken, refused).", "outcome")
	m.DisruptionHeld = b.gauge("weir_disruption_held", "1 while something holds the voluntary disruption of a NodePool back, by reason (PodsGoRound, RolloutHalted, BudgetsInvalid, SoakInvalid).", "nodepool", "reason")
	m.Circles = b.counter("weir_disruption_circles_total", "Pauses of NodePools whose pods were about to be moved in circles.")
	m.Frozen = b.gauge("weir_disruption_frozen", "1 while voluntary disruption is frozen, by reason.", "reason")
}

// Handler serves the metrics in Prometheus' and OpenMetrics' formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError})
}

// Infos lists the metrics by name.
func (m *Metrics) Infos() []Info { return slices.Clone(m.infos) }

// builder registers and keeps the first error.
type builder struct {
	m   *Metrics
	err error
}

func (b *builder) register(c prometheus.Collector) {
	if err := b.m.Registry.Register(c); err != nil && b.err == nil {
		b.err = fmt.Errorf("registering metrics: %w", err)
	}
}

func (b *builder) note(name, kind, help string, labels []string) {
	b.m.infos = append(b.m.infos, Info{Name: name, Type: kind, Help: help, Labels: labels})
}

func (b *builder) counter(name, help string, labels ...string) *prometheus.CounterVec {
	b.note(name, "counter", help, labels)
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.register(c)
	return c
}

func (b *builder) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	b.note(name, "gauge", help, labels)
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	b.register(g)
	return g
}

func (b *builder) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	b.note(name, "histogram", help, labels)
	if buckets == nil {
		buckets = durationBuckets
	}
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	b.register(h)
	return h
}

func (b *builder) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	b.note(name, "summary", help, labels)
	s := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help, Objectives: quantiles}, labels)
	b.register(s)
	return s
}

// Reference is the page docs/reference/metrics.md.
func (m *Metrics) Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Generated from core/metric; do not edit.

` + "`/metrics` on `metrics.port`" + `. Names that begin with ` + "`karpenter_`" + ` mean what they mean in Karpenter, so that dashboards and alerts keep
working; what is new begins with ` + "`weir_`" + `. The gauges of nodes, pods and pools can be switched off (` + "`metrics.clusterGauges`" + `).

| name | type | labels | meaning |
|---|---|---|---|
`)
	infos := m.Infos()
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	for _, i := range infos {
		labels := "-"
		if len(i.Labels) > 0 {
			labels = "`" + strings.Join(i.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", i.Name, i.Type, labels, i.Help)
	}
	return b.String()
}
