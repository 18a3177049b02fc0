package config

import (
	"time"

	"github.com/weir-project/weir/core/model"
)

// What a file must say at its top.
const (
	APIVersion = "config.weir.dev/v1alpha1"
	Kind       = "ScalerConfiguration"
)

// Duration is a time.Duration that is written as 10s, 5m or 1h30m.
type Duration time.Duration

// Config is the whole configuration; the zero value is not valid, see Default.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	Cluster         string   `json:"cluster"`
	ClusterEndpoint string   `json:"clusterEndpoint"`
	ClusterCABundle string   `json:"clusterCABundle"`
	Region          string   `json:"region"`
	Account         string   `json:"account"`
	Zones           []string `json:"zones"`
	Replicas        int      `json:"replicas"`

	Cloud        Cloud        `json:"cloud"`
	Ledger       Ledger       `json:"ledger"`
	Interruption Interruption `json:"interruption"`

	StrategyBinary string              `json:"strategyBinary"`
	StrategyFolder string              `json:"strategyFolder"`
	StrategyLock   string              `json:"strategyLock"`
	RequireSandbox bool                `json:"requireSandbox"`
	Strategies     map[string]Strategy `json:"strategies"`
	Bindings       Bindings            `json:"bindings"`
	Shadow         []string            `json:"shadow"`
	Swap           Swap                `json:"swap"`
	// StrategyRecords says where calls of strategies are recorded.
	StrategyRecords StrategyRecords `json:"strategyRecords"`
	Commitments     Commitments     `json:"commitments"`

	Batch             Batch             `json:"batch"`
	Planning          Planning          `json:"planning"`
	PreferencePolicy  string            `json:"preferencePolicy"`
	MinValuesPolicy   string            `json:"minValuesPolicy"`
	SchedulerConfig   string            `json:"schedulerConfig"`
	FeatureGates      FeatureGates      `json:"featureGates"`
	Alternatives      Alternatives      `json:"alternatives"`
	Nodes             Nodes             `json:"nodes"`
	GarbageCollection GarbageCollection `json:"garbageCollection"`
	Disruption        Disruption        `json:"disruption"`
	Termination       Termination       `json:"termination"`

	LeaderElection LeaderElection `json:"leaderElection"`
	Kube           Kube           `json:"kube"`
	Log            Log            `json:"log"`
	Metrics        Metrics        `json:"metrics"`
	Health         Health         `json:"health"`
	Admin          Admin          `json:"admin"`
	MemoryLimit    int64          `json:"memoryLimit"`
}

// Kinds of Cloud.
const (
	CloudAWS = "aws"
	CloudSim = "sim"
)

// Cloud says who sells the machines.
type Cloud struct {
	Kind      string `json:"kind"`
	Address   string `json:"address"`
	Catalogue string `json:"catalogue"`
	DryRun    bool   `json:"dryRun"`
}

// Kinds of Ledger.
const (
	LedgerBolt     = "bolt"
	LedgerDynamoDB = "dynamodb"
	LedgerNone     = "none"
)

// Ledger says where the memory is.
type Ledger struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Table string `json:"table"`
}

// Interruption says where notices come from.
type Interruption struct {
	Lambda bool   `json:"lambda"`
	Queue  string `json:"queue"`
}

// Strategy kinds, levels of isolation.
const (
	InstanceSelection  = "instance-selection"
	Consolidation      = "consolidation"
	IsolationProcess   = "process"
	IsolationContainer = "container"
)

// Strategy is one plugin.
type Strategy struct {
	Kind             string         `json:"kind"`
	Path             string         `json:"path"`
	Image            string         `json:"image"`
	SHA256           string         `json:"sha256"`
	Config           map[string]any `json:"config"`
	Chain            []ChainMember  `json:"chain"`
	StartTimeout     Duration       `json:"startTimeout"`
	CallTimeout      Duration       `json:"callTimeout"`
	MemoryLimit      int64          `json:"memoryLimit"`
	CPULimit         float64        `json:"cpuLimit"`
	Env              []string       `json:"env"`
	Isolation        string         `json:"isolation"`
	Socket           string         `json:"socket"`
	AllowUnsandboxed bool           `json:"allowUnsandboxed"`
}

// ChainMember is a strategy whose answers a chain takes in.
type ChainMember struct {
	Strategy string  `json:"strategy"`
	Weight   float64 `json:"weight"` // above 0; 1 where a file leaves it out
	Required bool    `json:"required"`
}

// Bindings names the strategies that decide where a NodePool has no annotation.
type Bindings struct {
	InstanceSelection string `json:"instanceSelection"`
	Consolidation     string `json:"consolidation"`
}

// Swap says when a strategy that took another's place is taken out of service again.
type Swap struct {
	MaxErrorRate     float64  `json:"maxErrorRate"`
	MaxDearerPercent float64  `json:"maxDearerPercent"`
	Probation        Duration `json:"probation"`
}

// StrategyRecords bounds the records of calls.
type StrategyRecords struct {
	Folder   string `json:"folder"`
	MaxBytes int64  `json:"maxBytes"`
}

// Batch is the window in which pending pods are gathered.
type Batch struct {
	Idle Duration `json:"idle"`
	Max  Duration `json:"max"`
}

// Planning bounds the time of one plan: after Budget the best one so far is taken. 0 =
// no bound.
type Planning struct {
	Budget Duration `json:"budget"`
}

// FeatureGates switch whole features; names and defaults are Karpenter's.
type FeatureGates struct {
	NodeRepair              bool `json:"nodeRepair"`
	ReservedCapacity        bool `json:"reservedCapacity"`
	SpotToSpotConsolidation bool `json:"spotToSpotConsolidation"`
	NodeOverlay             bool `json:"nodeOverlay"`
	StaticCapacity          bool `json:"staticCapacity"`
	CapacityBuffer          bool `json:"capacityBuffer"`
}

// Alternatives bounds the other offerings that a launch names.
type Alternatives struct {
	MaxPriceRatio float64 `json:"maxPriceRatio"`
	Max           int     `json:"max"`
}

// Nodes is about what a machine offers.
type Nodes struct {
	VMMemoryOverheadPercent float64 `json:"vmMemoryOverheadPercent"`
	ReservedENIs            int     `json:"reservedENIs"`
	PrefixDelegation        bool    `json:"prefixDelegation"`
}

// GarbageCollection says how often leaks are looked for, and when to stop by itself.
type GarbageCollection struct {
	Interval    Duration `json:"interval"`
	BrakeNodes  int      `json:"brakeNodes"`
	BrakeShare  float64  `json:"brakeShare"`
	BrakeWindow Duration `json:"brakeWindow"`
}

// Disruption is about what is given back or replaced although it works.
type Disruption struct {
	Interval        Duration `json:"interval"`
	Validation      Duration `json:"validation"`
	MinNodeAge      Duration `json:"minNodeAge"`
	MaxMovesPerHour int      `json:"maxMovesPerHour"`
}

// Termination is about the end of machines.
type Termination struct {
	OutOfServiceTaint bool `json:"outOfServiceTaint"`
}

// LeaderElection names the leases that fence the scaler.
type LeaderElection struct {
	Enabled            bool     `json:"enabled"`
	Name               string   `json:"name"`
	Namespace          string   `json:"namespace"`
	KarpenterName      string   `json:"karpenterName"`
	KarpenterNamespace string   `json:"karpenterNamespace"`
	LeaseDuration      Duration `json:"leaseDuration"`
	RenewDeadline      Duration `json:"renewDeadline"`
	RetryPeriod        Duration `json:"retryPeriod"`
}

// Kube is about the API server.
type Kube struct {
	Kubeconfig string  `json:"kubeconfig"`
	QPS        float64 `json:"qps"`
	Burst      int     `json:"burst"`
}

// Log is about log lines.
type Log struct {
	Level            string   `json:"level"`
	OutputPaths      []string `json:"outputPaths"`
	ErrorOutputPaths []string `json:"errorOutputPaths"`
}

// Metrics is about the Prometheus endpoint.
type Metrics struct {
	Port          int  `json:"port"`
	ClusterGauges bool `json:"clusterGauges"`
	Profiling     bool `json:"profiling"`
}

// Health is about the probes.
type Health struct {
	Port int `json:"port"`
}

// Admin is about the interface for operators of strategies.
type Admin struct {
	Enabled   bool   `json:"enabled"`
	Port      int    `json:"port"`
	ConfigMap string `json:"configMap"`
}

// Default is the configuration that holds where nothing else is said. It lacks only
// the name of the cluster.
func Default() *Config {
	return &Config{
		APIVersion: APIVersion, Kind: Kind, Replicas: 1,
		Cloud:          Cloud{Kind: CloudAWS, DryRun: true},
		Ledger:         Ledger{Kind: LedgerBolt, Path: "/var/lib/weir/ledger.db"},
		StrategyBinary: "weir-strategy", StrategyFolder: "/var/cache/weir/strategies",
		Strategies:      map[string]Strategy{},
		Bindings:        Bindings{InstanceSelection: "cost-optimal", Consolidation: "savings"},
		Swap:            Swap{MaxErrorRate: 0.2, MaxDearerPercent: 25, Probation: Duration(10 * time.Minute)},
		StrategyRecords: StrategyRecords{MaxBytes: 256 << 20},
		Batch:           Batch{Idle: Duration(time.Second), Max: Duration(10 * time.Second)},
		Planning:        Planning{Budget: Duration(10 * time.Second)},

		PreferencePolicy: "Respect", MinValuesPolicy: "Strict",
		FeatureGates: FeatureGates{ReservedCapacity: true},
		Alternatives: Alternatives{MaxPriceRatio: 1.25, Max: 60},
		Nodes:        Nodes{VMMemoryOverheadPercent: 0.075},
		GarbageCollection: GarbageCollection{
			Interval: Duration(2 * time.Minute), BrakeNodes: 3, BrakeShare: 0.05, BrakeWindow: Duration(10 * time.Minute),
		},
		Disruption: Disruption{Interval: Duration(10 * time.Second), Validation: Duration(15 * time.Second), MaxMovesPerHour: 3},
		LeaderElection: LeaderElection{
			Enabled: true, Name: "weir-leader-election", KarpenterName: "karpenter-leader-election",
			LeaseDuration: Duration(15 * time.Second), RenewDeadline: Duration(10 * time.Second), RetryPeriod: Duration(2 * time.Second),
		},
		Kube:    Kube{QPS: 200, Burst: 300},
		Log:     Log{Level: "info", OutputPaths: []string{"stdout"}, ErrorOutputPaths: []string{"stderr"}},
		Metrics: Metrics{Port: 8080, ClusterGauges: true},
		Health:  Health{Port: 8081},
		Admin:   Admin{Port: 8082, ConfigMap: "weir-strategies"},

		MemoryLimit: -1,
	}
}

// defaultStrategy fills what a strategy of the file leaves out.
func defaultStrategy() Strategy {
	return Strategy{
		StartTimeout: Duration(10 * time.Second), CallTimeout: Duration(2 * time.Second),
		MemoryLimit: 256 << 20, CPULimit: 0.75, Isolation: IsolationProcess,
	}
}

// defaultMember fills what a member of a chain leaves out.
func defaultMember() ChainMember { return ChainMember{Weight: 1} }

// Builtins are the strategies that run from StrategyBinary, by name, with their kinds.
func Builtins() map[string]string {
	return map[string]string{
		"capacity-mix": InstanceSelection,
		"cost-optimal": InstanceSelection,
		"first-fit":    InstanceSelection,
		"resilient":    InstanceSelection,
		"savings":      Consolidation,
	}
}

// Strategy is a strategy by name: of the file, or a built-in.
func (c *Config) Strategy(name string) (Strategy, bool) {
	if s, ok := c.Strategies[name]; ok {
		return s, true
	}
	kind, ok := Builtins()[name]
	if !ok {
		return Strategy{}, false
	}
	s := defaultStrategy()
	s.Kind = kind
	return s, true
}

// PlanningSettings is the part that planning reads.
func (c *Config) PlanningSettings() model.Settings {
	return model.Settings{
		IgnorePreferences:    c.PreferencePolicy == "Ignore",
		MinValuesBestEffort:  c.MinValuesPolicy == "BestEffort",
		ReservedCapacity:     c.FeatureGates.ReservedCapacity,
		SpotToSpot:           c.FeatureGates.SpotToSpotConsolidation,
		StaticCapacity:       c.FeatureGates.StaticCapacity,
		AlternativesMaxRatio: c.Alternatives.MaxPriceRatio,
		PlanningBudget:       c.Planning.Budget.D(),
		MinNodeAge:           c.Disruption.MinNodeAge.D(),
		Commitments:          c.Commitments.model(),
	}
}

// String writes the duration as it is written in a file.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as it is written in a file.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the duration as it is written in a file.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// D is the duration in the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }
