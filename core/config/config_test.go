package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/config"
)

var update = flag.Bool("update", false, "write the generated reference pages")

const head = "apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\n"

func load(t *testing.T, in config.Input) *config.Loaded {
	t.Helper()
	if in.Role == "" {
		in.Role = config.Scaler
	}
	c, err := config.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(text string) config.Input {
	return config.Input{Role: config.Scaler, File: "weir.yaml", Data: []byte(text)}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	in := file(head + "cluster: of-file\nbatch: {idle: 2s, max: 20s}\nfeatureGates: {nodeRepair: true}\nlog: {level: debug}\n")
	in.Env = map[string]string{"CLUSTER_NAME": "of-env", "BATCH_IDLE_DURATION": "3s", "FEATURE_GATES": "StaticCapacity=true,Unheard=true", "LOG_LEVEL": "", "PATH": "/bin"}
	in.Flags = map[string]string{"cluster-name": "of-flag"}
	got := load(t, in)
	want := config.Default()
	want.Cluster = "of-flag"
	want.Batch = config.Batch{Idle: config.Duration(3 * time.Second), Max: config.Duration(20 * time.Second)}
	want.FeatureGates.NodeRepair, want.FeatureGates.StaticCapacity = true, true
	want.Log.Level = "debug"
	if diff := cmp.Diff(want, got.Config); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	warnings := []string{"environment variable FEATURE_GATES: unknown gates are ignored: Unheard"}
	if diff := cmp.Diff(warnings, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestWholeFile(t *testing.T) {
	t.Parallel()
	pin := strings.Repeat("ab", 32)
	got := load(t, file(head+`
cluster: prod
region: us-east-1
account: 012345678901
zones: [us-east-1a, us-east-1b]
replicas: 2
ledger: {kind: dynamodb, table: weir-prod}
interruption: {lambda: true}
strategies:
  green:
    kind: instance-selection
    path: /strategies/green
    sha256: `+pin+`
    callTimeout: 500ms
    config: {carbon: {weight: 0.5}, zones: [a, b]}
    env: [HTTPS_PROXY]
  savings: {config: {floor: 0}}
bindings: {instanceSelection: green}
minValuesPolicy: BestEffort
metrics: {clusterGauges: false}
memoryLimit: null
`))
	want := config.Strategy{
		Kind: config.InstanceSelection, Path: "/strategies/green", SHA256: pin,
		Config:       map[string]any{"carbon": map[string]any{"weight": 0.5}, "zones": []any{"a", "b"}},
		StartTimeout: config.Duration(10 * time.Second), CallTimeout: config.Duration(500 * time.Millisecond),
		MemoryLimit: 256 << 20, CPULimit: 0.75, Env: []string{"HTTPS_PROXY"}, Isolation: config.IsolationProcess,
	}
	if diff := cmp.Diff(want, got.Strategies["green"]); diff != "" {
		t.Errorf("strategy (-want +got):\n%s", diff)
	}
	if got.Account != "012345678901" {
		t.Errorf("account %q lost its zero", got.Account)
	}
	if s, ok := got.Strategy("savings"); !ok || s.Kind != config.Consolidation || s.Config["floor"] != 0 {
		t.Errorf("built-in with settings: %+v", s)
	}
	if s, ok := got.Strategy("first-fit"); !ok || s.Kind != config.InstanceSelection || s.CallTimeout == 0 {
		t.Errorf("built-in without settings: %+v", s)
	}
	if s := got.PlanningSettings(); !s.MinValuesBestEffort || !s.ReservedCapacity || s.AlternativesMaxRatio != 1.25 {
		t.Errorf("planning settings: %+v", s)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	ok := head + "cluster: c\n"
	for name, c := range map[string]struct {
		text  string
		env   map[string]string
		flags map[string]string
		role  config.Role
		want  []string // each a whole line of the error
	}{
		"empty":         {text: "", want: []string{"weir.yaml: is empty, expected apiVersion: config.weir.dev/v1alpha1, kind: ScalerConfiguration"}},
		"comment":       {text: "# nothing\n", want: []string{"weir.yaml: is empty, expected apiVersion: config.weir.dev/v1alpha1, kind: ScalerConfiguration"}},
		"list":          {text: "[]", want: []string{"weir.yaml:1: expected fields such as apiVersion: config.weir.dev/v1alpha1, kind: ScalerConfiguration"}},
		"broken":        {text: "a: [", want: []string{"weir.yaml: is not YAML or JSON: line 1: did not find expected node content"}},
		"two documents": {text: ok + "---\na: 1\n", want: []string{"weir.yaml: has more than one document, expected one ScalerConfiguration"}},
		"other kind": {text: "apiVersion: v1\nkind: ConfigMap\ndata: {}\n", want: []string{
			`weir.yaml:1: apiVersion: is "v1", expected config.weir.dev/v1alpha1`,
			`weir.yaml:2: kind: is "ConfigMap", expected ScalerConfiguration`}},
		"no type": {text: "cluster: c\n", want: []string{
			"weir.yaml:1: apiVersion: is missing, expected config.weir.dev/v1alpha1",
			"weir.yaml:1: kind: is missing, expected ScalerConfiguration"}},
		"typing error": {text: ok + "bacth: {idle: 1s}\nbatch:\n  ilde: 1s\n", want: []string{
			`weir.yaml:4: bacth: unknown field, did you mean "batch"?`,
			`weir.yaml:6: batch.ilde: unknown field, did you mean "idle"?`}},
		"field elsewhere": {text: ok + "vmMemoryOverheadPercent: 0.1\nbatchIdle: 1s\n", want: []string{
			`weir.yaml:4: vmMemoryOverheadPercent: unknown field, did you mean "nodes.vmMemoryOverheadPercent"?`,
			`weir.yaml:5: batchIdle: unknown field, did you mean "batch.idle"?`}},
		"of the top":      {text: ok + "batch: {cluster: red}\n", want: []string{`weir.yaml:4: batch.cluster: unknown field, did you mean "cluster" at the top of the file?`}},
		"of the header":   {text: ok + "batch: {kind: red}\n", want: []string{`weir.yaml:4: batch.kind: unknown field, did you mean "cloud.kind"?`}},
		"nothing like it": {text: ok + "batch: {colour: red}\n", want: []string{`weir.yaml:4: batch.colour: unknown field; known here: idle, max`}},
		"unknown gate":    {text: ok + "featureGates: {nodeRepairs: true}\n", want: []string{`weir.yaml:4: featureGates.nodeRepairs: unknown field, did you mean "nodeRepair"?`}},
		"twice":           {text: ok + "batch: {idle: 1s, idle: 2s}\n", want: []string{"weir.yaml:4: batch.idle: is given twice"}},
		"alias":           {text: ok + "zones: &z [us-east-1a]\n", want: []string{"weir.yaml:4: zones: anchors and aliases are not supported here, write the value out"}},
		"wrong types": {text: ok + "batch: 1s\nzones: us-east-1a\nreplicas: two\nregion: [a]\nlog: {level: true}\nmetrics: {profiling: 1, port: 80.5}\nkube: {qps: fast}\nstrategies: []\nbindings: {}\n", want: []string{
			`weir.yaml:4: batch: is "1s", expected fields: idle, max`,
			`weir.yaml:5: zones: is "us-east-1a", expected a list`,
			`weir.yaml:6: replicas: is "two", expected a whole number`,
			`weir.yaml:7: region: is a list, expected text`,
			`weir.yaml:8: log.level: is "true", expected text (put it in quotes)`,
			`weir.yaml:9: metrics.profiling: is "1", expected true or false`,
			`weir.yaml:9: metrics.port: is "80.5", expected a whole number`,
			`weir.yaml:10: kube.qps: is "fast", expected a number`,
			`weir.yaml:11: strategies: is a list, expected names with their values`}},
		"no unit":         {text: ok + "batch: {idle: 10}\n", want: []string{`weir.yaml:4: batch.idle: is "10", expected a duration such as 10s or 5m`}},
		"planning budget": {text: ok + "planning: {budget: 1ms}\n", want: []string{`weir.yaml:4: planning.budget: is 1ms, expected 100ms to 10m0s`}},
		"disruption": {text: ok + "disruption: {interval: 1ms, validation: 1h, minNodeAge: 1ms, maxMovesPerHour: -1}\n", want: []string{
			`weir.yaml:4: disruption.interval: is 1ms, expected 1s to 1h0m0s`,
			`weir.yaml:4: disruption.maxMovesPerHour: is -1, expected 0 (no such rule) to 1000`,
			`weir.yaml:4: disruption.minNodeAge: is 1ms, expected 1s to 720h0m0s`,
			`weir.yaml:4: disruption.validation: is 1h0m0s, expected 1s to 10m0s`}},
		"values": {text: ok + "batch: {idle: 20s}\nalternatives: {maxPriceRatio: 0.9}\npreferencePolicy: respect\nzones: [a]\naccount: '1'\nhealth: {port: 8080}\n", want: []string{
			`weir.yaml:8: account: is "1", expected 12 digits`,
			`weir.yaml:5: alternatives.maxPriceRatio: is 0.9, expected 1 to 100`,
			`weir.yaml:4: batch.idle: is 20s, expected at most batch.max, which is 10s`,
			`weir.yaml:9: health.port: is 8080, the port of the metrics as well`,
			`weir.yaml:6: preferencePolicy: is "respect", expected Respect or Ignore, did you mean Respect?`,
			`weir.yaml:7: zones[0]: is "a", expected a zone such as us-east-1a`}},
		"not a number": {text: ok + "nodes: {vmMemoryOverheadPercent: nan}\n", want: []string{`weir.yaml:4: nodes.vmMemoryOverheadPercent: is NaN, expected a share of at least 0 and below 1, such as 0.075`}},
		"no cluster":   {text: head, want: []string{"default: cluster: is missing: name the cluster in the file, in CLUSTER_NAME or with --cluster-name"}},
		"environment": {text: ok, env: map[string]string{"BATCH_MAX_DURATION": "10", "RESERVED_ENIS": "-1", "ENABLE_PROFILING": "yes", "FEATURE_GATES": "NodeRepair"}, want: []string{
			`environment variable BATCH_MAX_DURATION: batch.max: is "10", expected a duration such as 10s`,
			`environment variable FEATURE_GATES: featureGates: is "NodeRepair", expected a comma-separated list such as NodeRepair=true,StaticCapacity=false`,
			`environment variable ENABLE_PROFILING: metrics.profiling: is "yes", expected true or false`}},
		"value of the environment": {text: ok, env: map[string]string{"RESERVED_ENIS": "-1"}, want: []string{
			`environment variable RESERVED_ENIS: nodes.reservedENIs: is -1, expected 0 to 100`}},
		"flag": {text: ok, flags: map[string]string{"log-level": "warn", "cluster-nmae": "x"}, want: []string{
			`flag --cluster-nmae: unknown flag, did you mean --cluster-name?`}},
		"value of a flag": {text: ok, flags: map[string]string{"log-level": "warn"}, want: []string{`flag --log-level: log.level: is "warn", expected debug or info or error`}},
		"queue ARN": {text: ok, env: map[string]string{"INTERRUPTION_QUEUE": "arn:aws:sqs:us-east-2:111122223333:q-x"}, want: []string{
			`environment variable INTERRUPTION_QUEUE: interruption.queue: expected the name of an SQS queue; of "arn:aws:sqs:us-east-2:111122223333:q-x" that is "q-x"`}},
		"bolt with replicas": {text: ok + "replicas: 2\n", want: []string{
			"default: ledger.kind: bolt is a file that one replica has open, and replicas is 2: use dynamodb, or one replica"}},
		"bolt with a Lambda": {text: ok + "interruption: {lambda: true}\n", want: []string{
			"default: ledger.kind: bolt is a file that the interruption Lambda cannot read, and interruption.lambda is true: use dynamodb, or run without the Lambda"}},
		"bolt in the Lambda": {text: ok, role: config.Lambda, want: []string{
			"default: ledger.kind: bolt is a file of the scaler, which a Lambda cannot read: use dynamodb, or none to taint and drain without a ledger"}},
		"no ledger": {text: ok + "ledger: {kind: none}\n", want: []string{
			"weir.yaml:4: ledger.kind: none is for the Lambda only: without a ledger a crash of the scaler could buy a machine twice; use bolt or dynamodb"}},
		"no table":       {text: ok + "ledger: {kind: dynamodb}\n", want: []string{`weir.yaml:4: ledger.table: is "", expected the name of a DynamoDB table`}},
		"unknown ledger": {text: ok + "ledger: {kind: bold}\n", want: []string{`weir.yaml:4: ledger.kind: is "bold", expected bolt or dynamodb or none, did you mean bolt?`}},
		"strategies": {text: ok + "strategies:\n  mine: {kind: instance-selection}\n  other: {kind: consolidation, path: /x}\n  savings: {kind: instance-selection}\n  pinned: {kind: consolidation, path: /x, sha256: ABC}\n  boxed: {kind: consolidation, isolation: container}\n", want: []string{
			`default: bindings.consolidation: strategy "savings" is of kind instance-selection, expected one of kind consolidation`,
			`weir.yaml:9: strategies.boxed.socket: is missing: a strategy in a container is reached over a socket`,
			`weir.yaml:5: strategies.mine.path: is missing, and "mine" is not a built-in (capacity-mix, cost-optimal, first-fit, resilient, savings)`,
			`weir.yaml:6: strategies.other.sha256: is missing: a program that is not built in runs only with the SHA-256 it is pinned to`,
			`weir.yaml:8: strategies.pinned.sha256: is "ABC", expected 64 hexadecimal digits in small letters`,
			`weir.yaml:7: strategies.savings.kind: is "instance-selection", the built-in savings is of kind consolidation`}},
		"swap": {text: ok + "shadow: [gren]\nswap: {maxErrorRate: 2, maxDearerPercent: 0, probation: 1ms}\nstrategyRecords: {folder: records, maxBytes: 5}\n", want: []string{
			`weir.yaml:4: shadow[0]: there is no strategy "gren"`,
			`weir.yaml:5: swap.maxDearerPercent: is 0, expected a percentage above 0, or -1 for no such rule`,
			`weir.yaml:5: swap.maxErrorRate: is 2, expected a part above 0 and at most 1, such as 0.2`,
			`weir.yaml:5: swap.probation: is 1ms, expected 1s to 168h0m0s`,
			`weir.yaml:6: strategyRecords.folder: is "records", expected an absolute path`,
			`weir.yaml:6: strategyRecords.maxBytes: is 5, expected at least 1048576 bytes`}},
		"settings that JSON cannot say": {text: ok + "strategies:\n  savings:\n    config:\n      floor: .nan\n      a: [1, -.inf]\n      b: {1: x}\n      c: &c {d: .inf}\n      e: *c\n", want: []string{
			`weir.yaml:7: strategies.savings.config.floor: is .nan, expected a number that JSON has: it is handed to the strategy as JSON`,
			`weir.yaml:8: strategies.savings.config.a.1: is -.inf, expected a number that JSON has: it is handed to the strategy as JSON`,
			`weir.yaml:9: strategies.savings.config.b.1: the name is "1", expected text (put it in quotes)`,
			`weir.yaml:10: strategies.savings.config.c.d: is .inf, expected a number that JSON has: it is handed to the strategy as JSON`,
			`weir.yaml:10: strategies.savings.config.e.d: is .inf, expected a number that JSON has: it is handed to the strategy as JSON`}},
		"a shadow twice": {text: ok + "shadow: [resilient, savings, resilient]\n", want: []string{`weir.yaml:4: shadow[2]: is "resilient" twice, expected each strategy once`}},
		"a socket of a process": {text: ok + "strategies:\n  savings: {socket: /run/s}\n", want: []string{
			`weir.yaml:5: strategies.savings.socket: is set, and isolation is process: a strategy is reached over a socket where isolation is container`}},
		"a program in a container": {text: ok + "strategies:\n  mine: {kind: consolidation, isolation: container, socket: /run/s, path: /x, sha256: " + strings.Repeat("0a", 32) + ", env: [A], startTimeout: 10s, memoryLimit: 1073741824, cpuLimit: 0.75, allowUnsandboxed: false}\n", want: []string{
			`weir.yaml:5: strategies.mine.allowUnsandboxed: is given, and isolation is container: nothing is started here`,
			`weir.yaml:5: strategies.mine.cpuLimit: is given, and isolation is container: nothing is started here`,
			`weir.yaml:5: strategies.mine.env: is given, and isolation is container: nothing is started here`,
			`weir.yaml:5: strategies.mine.memoryLimit: is given, and isolation is container: nothing is started here`,
			`weir.yaml:5: strategies.mine.path: is given, and isolation is container: nothing is started here`,
			`weir.yaml:5: strategies.mine.sha256: is given, and isolation is container: nothing is started here`}},
		"bindings": {text: ok + "bindings: {instanceSelection: cost-optimall, consolidation: first-fit}\n", want: []string{
			`weir.yaml:4: bindings.consolidation: strategy "first-fit" is of kind instance-selection, expected one of kind consolidation`,
			`weir.yaml:4: bindings.instanceSelection: there is no strategy "cost-optimall", did you mean "cost-optimal"?`}},
		"same lease": {text: ok + "leaderElection: {name: karpenter-leader-election}\n", want: []string{
			"weir.yaml:4: leaderElection.name: is the lease of Karpenter as well, expected another one: Weir holds both"}},
		"lease times": {text: ok + "leaderElection: {renewDeadline: 20s}\n", want: []string{
			"weir.yaml:4: leaderElection.renewDeadline: is 20s, expected less than leaseDuration, which is 15s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := file(c.text)
			in.Env, in.Flags = c.env, c.flags
			if c.role != "" {
				in.Role = c.role
			}
			_, err := config.Load(in)
			var errs config.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error %v, want config.Errors", err)
			}
			got := strings.Split(err.Error(), "\n")
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHugeFileIsRefused(t *testing.T) {
	t.Parallel()
	_, err := config.Load(file(head + "# " + strings.Repeat("x", 2<<20)))
	if err == nil || !strings.Contains(err.Error(), "weir.yaml: is 2097") {
		t.Errorf("error %v, want the size", err)
	}
}

func TestCLINeedsNoCluster(t *testing.T) {
	t.Parallel()
	if _, err := config.Load(config.Input{Role: config.CLI}); err != nil {
		t.Error(err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	old := load(t, file(head+"cluster: c\n"))
	for text, want := range map[string]struct {
		changed []string
		err     string
	}{
		"bindings: {instanceSelection: first-fit}\nbatch: {idle: 2s}\n": {[]string{"bindings.instanceSelection", "batch.idle"}, ""},
		"strategies: {savings: {config: {a: 1}}}\n":                     {[]string{"strategies"}, ""},
		"ledger: {path: /x}\nlog: {level: debug}\n":                     {[]string{"ledger.path", "log.level"}, "weir.yaml: ledger.path: cannot be changed while running: start the scaler again"},
	} {
		next := load(t, file(head+"cluster: c\n"+text))
		if diff := cmp.Diff(want.changed, config.Changed(old.Config, next.Config)); diff != "" {
			t.Errorf("%q: changed (-want +got):\n%s", text, diff)
		}
		got := ""
		if err := config.CheckChange(old.Config, next.Config, "weir.yaml"); err != nil {
			got = err.Error()
		}
		if got != want.err {
			t.Errorf("%q: error %q, want %q", text, got, want.err)
		}
	}
}

// TestSettings gives every flag and variable a good and a bad value.
func TestSettings(t *testing.T) {
	t.Parallel()
	samples := map[string]string{
		"cluster-endpoint": "https://x.example", "account": "111122223333", "zones": "us-east-1a, us-east-1b", "replicas": "1",
		"cloud": "sim", "cloud-address": "http://127.0.0.1:1", "ledger": "dynamodb", "instance-selection": "first-fit",
		"consolidation": "savings", "preference-policy": "Ignore", "min-values-policy": "BestEffort", "log-level": "debug",
		"feature-gates": "NodeRepair=true", "batch-idle-duration": "2s", "batch-max-duration": "11s", "planning-budget": "0s", "min-node-age": "30m", "disruption-interval": "1m", "disruption-validation": "20s",
		"vm-memory-overhead-percent": "0.05", "alternatives-max-price-ratio": "2", "interruption-lambda": "false",
	}
	for _, s := range config.Settings() {
		t.Run(s.Flag, func(t *testing.T) {
			t.Parallel()
			value, ok := samples[s.Flag]
			switch {
			case ok:
			case s.Bool():
				value = "true"
			case s.Expected == "a whole number" || s.Expected == "a number":
				value = "7"
			default:
				value = "some-thing"
			}
			base := map[string]string{"CLUSTER_NAME": "c", "WEIR_LEDGER_TABLE": "table"}
			env := map[string]string{s.Env: value}
			for k, v := range base {
				if _, ok := env[k]; !ok {
					env[k] = v
				}
			}
			byEnv, err := config.Load(config.Input{Role: config.Scaler, Env: env})
			if err != nil {
				t.Fatal(err)
			}
			byFlag, err := config.Load(config.Input{Role: config.Scaler, Env: base, Flags: map[string]string{s.Flag: value}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(byEnv.Config, byFlag.Config); diff != "" {
				t.Errorf("flag and variable differ:\n%s", diff)
			}
			if s.Field == "" {
				if len(byEnv.Warnings) != 1 || !strings.Contains(byEnv.Warnings[0], s.Env) {
					t.Errorf("warnings %q, want one about %s", byEnv.Warnings, s.Env)
				}
				return
			}
			if s.Expected == "true or false" || strings.Contains(s.Expected, "number") || strings.Contains(s.Expected, "duration") {
				if _, err := config.Load(config.Input{Role: config.Scaler, Env: base, Flags: map[string]string{s.Flag: "nonsense"}}); err == nil {
					t.Error("nonsense was accepted")
				}
			}
			changed := strings.Join(config.Changed(config.Default(), byFlag.Config), " ")
			same := value == "false" || value == "1" || s.Flag == "consolidation"
			if !same && !strings.Contains(changed, s.Field) {
				t.Errorf("%s=%s changed %q, want %s", s.Flag, value, changed, s.Field)
			}
		})
	}
}

// TestReference holds the generated pages equal to the code: go test -update writes them.
func TestReference(t *testing.T) {
	t.Parallel()
	schema, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	page := config.Reference()
	if strings.Contains(page, "| yes |  |") || strings.Contains(page, "| no |  |") {
		t.Error("a field has no description")
	}
	for name, want := range map[string]string{"configuration.md": page, "configuration.schema.json": string(schema)} {
		path := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is old, run go test ./core/config -update (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(head + "cluster: c\nstrategies: {a: {kind: consolidation}}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(head + "batch: [1]\nzones: {a: b}\n? [x]\n: y\n"))
	f.Add([]byte("---\n...\n"))
	f.Add([]byte("!!binary x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Load(config.Input{Role: config.Scaler, File: "x", Data: data})
		if (c == nil) == (err == nil) {
			t.Errorf("config %v with error %v", c, err)
		}
	})
}

func TestQueueIsNotIgnoredInSilence(t *testing.T) {
	t.Parallel()
	in := config.Input{Role: config.Scaler, Env: map[string]string{"CLUSTER_NAME": "c", "INTERRUPTION_QUEUE": "q-x"}, Flags: map[string]string{"cloud": "sim", "cloud-address": "http://127.0.0.1:1"}}
	c, err := config.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `"q-x" is not polled`) {
		t.Errorf("warnings %q, want one that says that the queue is not polled", c.Warnings)
	}
	in.Flags = map[string]string{"cloud": "aws", "region": "us-east-2"}
	if c, err = config.Load(in); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "queue") }) {
		t.Errorf("warnings %q about a queue that is polled", c.Warnings)
	}
}

// Rules of a probation that there is not are told of.
func TestRulesWithoutProbation(t *testing.T) {
	t.Parallel()
	got := load(t, file(head+"cluster: c\nswap: {probation: 0s, maxErrorRate: 0.1}\n"))
	want := []string{"weir.yaml:4: swap.maxErrorRate: has no effect: swap.probation is 0, so that nothing is taken back by itself"}
	if diff := cmp.Diff(want, got.Warnings); diff != "" || got.Swap.Probation != 0 {
		t.Errorf("probation %v, warnings (-want +got):\n%s", got.Swap.Probation, diff)
	}
	if w := load(t, file(head+"cluster: c\nswap: {probation: 0s}\n")).Warnings; len(w) > 0 {
		t.Errorf("warnings %q about rules that nobody gave", w)
	}
}

// A setting that is accepted and that nothing reads is told of; defaults are not.
func TestSettingsWithoutEffectAreTold(t *testing.T) {
	t.Parallel()
	if got := load(t, file(head+"cluster: c\n")).Warnings; len(got) != 0 {
		t.Errorf("warnings about defaults: %q", got)
	}
	got := load(t, file(head+`cluster: c
cloud: {kind: sim, address: "http://127.0.0.1:1"}
featureGates: {nodeOverlay: true, capacityBuffer: true, spotToSpotConsolidation: true}
nodes: {vmMemoryOverheadPercent: 0.05, reservedENIs: 1}
alternatives: {max: 10}
`)).Warnings
	var fields []string
	for _, w := range got {
		field, _, _ := strings.Cut(w, ": has no effect")
		fields = append(fields, field)
	}
	want := []string{"featureGates.nodeOverlay", "featureGates.capacityBuffer",
		"nodes.vmMemoryOverheadPercent", "nodes.reservedENIs", "alternatives.max"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("settings without effect (-want +got):\n%s", diff)
	}
	if got := load(t, file(head+"cluster: c\nnodes: {reservedENIs: 1, prefixDelegation: true}\n")).Warnings; len(got) != 0 {
		t.Errorf("on EC2 they have an effect, warnings %q", got)
	}
}

func TestStrategiesFromElsewhere(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0a", 32)
	image := "registry.example/team/carbon@sha256:" + sum
	base := config.Default()
	base.Strategies["carbon"] = config.Strategy{Kind: config.InstanceSelection, Path: "/x", SHA256: sum, Isolation: config.IsolationProcess,
		StartTimeout: config.Duration(time.Second), CallTimeout: config.Duration(time.Second), MemoryLimit: 32 << 20}
	other := base.Strategies["carbon"]
	other.Path, other.SHA256, other.Image = "", "", image
	got, err := base.WithStrategies("ConfigMap a/b", map[string]config.Strategy{"carbon": other})
	if err != nil {
		t.Fatal(err)
	}
	if got.Strategies["carbon"].Image != image || base.Strategies["carbon"].Image != "" {
		t.Errorf("got %+v from %+v", got.Strategies, base.Strategies)
	}
	other.Image = "registry.example/team/carbon:latest"
	_, err = base.WithStrategies("ConfigMap a/b", map[string]config.Strategy{"carbon": other})
	if want := `ConfigMap a/b: strategies.carbon.image: is "registry.example/team/carbon:latest", expected registry/repository@sha256:`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Who finds out later that a value is of no use can say where it stands, down to the
// settings of a strategy.
func TestWrong(t *testing.T) {
	t.Parallel()
	c := load(t, file("apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\nstrategies:\n  capacity-mix:\n    config:\n      maxSpotShare: 2\n      parts:\n      - max: 7\ncluster: c\n"))
	for field, line := range map[string]string{
		"strategies.capacity-mix.config.maxSpotShare": "weir.yaml:6: ",
		"strategies.capacity-mix.config.parts.0.max":  "weir.yaml:8: ",
		"strategies.capacity-mix.config.parts.0.min":  "weir.yaml:8: ",
		"strategies.capacity-mix.path":                "weir.yaml:5: ", // not there: what it would be in
		"strategyLock":                                "default: ",
	} {
		want := line + field + ": is 2, expected less"
		if err := c.Wrong(field, "is %d, expected less", 2); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAdminPort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"admin: {enabled: true, port: 8080}":                      "admin.port: is 8080, the port of another server as well",
		"admin: {enabled: true, configMap: Weir}":                 `admin.configMap: is "Weir", expected the name of a ConfigMap`,
		"admin: {port: -1}":                                       "admin.port: is -1",
		"admin: {enabled: true, port: 0, configMap: other-names}": "",
	} {
		_, err := config.Load(config.Input{Role: config.CLI, File: "weir.yaml", Data: []byte("apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\n" + text + "\n")})
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
