package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// fieldDocs says what each field is for; a test holds it complete.
var fieldDocs = map[string]string{
	"apiVersion":      "always `" + APIVersion + "`",
	"kind":            "always `" + Kind + "`",
	"cluster":         "name of the cluster; required",
	"clusterEndpoint": "URL of the API server that nodes are told; empty = found out",
	"clusterCABundle": "certificate authority that nodes are told; empty = found out",
	"region":          "AWS region; empty = found out",
	"account":         "AWS account, 12 digits; empty = found out. Interruption events of other accounts are ignored",
	"zones":           "zones to buy in; empty = every zone of the node class's subnets",
	"replicas":        "how many scalers run; only one of them acts",

	"cloud.kind":          "`aws`, or `sim`: a simulated EC2",
	"cloud.address":       "address of the simulated EC2; empty = inside the scaler",
	"cloud.dryRun":        "classes are tried by dry runs: one that the role may not launch from is not ready",
	"cloud.catalogue":     "file of instance types and prices instead of the embedded one",
	"ledger.kind":         "`bolt` (a file, one replica, no Lambda), `dynamodb`, or `none` (Lambda only)",
	"ledger.path":         "file of the bolt ledger",
	"ledger.table":        "DynamoDB table",
	"interruption.lambda": "an interruption Lambda shares the ledger",
	"interruption.queue":  "name of an SQS queue of interruption events, such as Karpenter's, that the leader polls; empty = none. Nothing else may read it",

	"strategyBinary":                       "program that runs the built-in strategies",
	"strategyFolder":                       "folder for the programs of strategies that are fetched as images",
	"strategyLock":                         "file of the programs that may run as strategies, by name, version and SHA-256 (`weir strategy pin` writes it); empty = none, and each has its own `sha256`",
	"requireSandbox":                       "no strategy runs as a child where the kernel cannot fence it in, built-ins neither: they answer inside the scaler then",
	"strategies.<name>.kind":               "`instance-selection` or `consolidation`",
	"strategies.<name>.path":               "program; empty = the built-in of that name. With `image`, the program in it; empty = the image's entry point, or its only file",
	"strategies.<name>.image":              "OCI artifact or image with the program, by digest: `registry/repository@sha256:…`; fetched by the scaler, again and again until it comes",
	"strategies.<name>.sha256":             "SHA-256 of the program, required for any that is not built in and has no `image`, whose digest says as much",
	"strategies.<name>.config":             "handed to the strategy as JSON",
	"strategies.<name>.chain":              "strategies whose answers are taken together: a list of `strategy`, `weight` (1) and `required` (false); instead of `path`, `image` and `config`",
	"commitments.file":                     "file with `savingsPlans` and `reservedInstances` instead of those here: `apiVersion: config.weir.dev/v1alpha1`, `kind: Commitments`; it is watched, too",
	"commitments.savingsPlans":             "Savings Plans: a list of `name`, `usdPerHour` (committed), `match` (values by node label; left out = all that is on demand), `discount` (part of the price on demand), `prices` (USD per hour by instance type), `usedElsewhereUSDPerHour`",
	"commitments.reservedInstances":        "reserved instances: a list of `name`, `instanceType`, `zone` (left out = any), `count`, `usdPerHour`, `usedElsewhere`",
	"strategies.<name>.startTimeout":       "how long it may take to start",
	"strategies.<name>.callTimeout":        "how long one answer may take; then the built-in answers. Of a chain, all of it; by default as long as its members have",
	"strategies.<name>.memoryLimit":        "bytes; a process above it is killed",
	"strategies.<name>.cpuLimit":           "processors, on average over a minute; a process above it is killed; 0 = no limit",
	"strategies.<name>.env":                "names of environment variables that are handed on; all others are not",
	"strategies.<name>.isolation":          "`process` (child of the scaler) or `container` (sidecar)",
	"strategies.<name>.socket":             "socket of a strategy in a container",
	"strategies.<name>.allowUnsandboxed":   "run it as a child even where the kernel cannot fence it in (Linux 6.12 can); what the kernel can is put up all the same",
	"bindings.instanceSelection":           "strategy that picks machines, unless a NodePool has the annotation `weir.dev/instance-selection`",
	"bindings.consolidation":               "strategy that gives machines back, unless a NodePool has the annotation `weir.dev/consolidation`",
	"shadow":                               "names of strategies that see every problem, in the background, and never act; what they would have done is counted and recorded",
	"swap.maxErrorRate":                    "a strategy that took another's place goes again when more than this part of its last 20 calls went wrong",
	"swap.maxDearerPercent":                "or when the plans of a new version are dearer at the market than those of the version before by more percent; -1 = however much",
	"swap.probation":                       "for how long it is looked at, and for five calls at least; 0 = not at all",
	"strategyRecords.folder":               "folder where calls of strategies, and what shadows made of them, are recorded; empty = nowhere",
	"strategyRecords.maxBytes":             "of all records together; the oldest go",
	"batch.idle":                           "plan when no new pod came for so long",
	"batch.max":                            "plan at the latest after so long",
	"planning.budget":                      "how long one plan may take: after that the best so far is taken, which may be dearer than need be, and pods that were not looked at are at the next plan; half of it is for making the first plan cheaper. 0 = no bound",
	"preferencePolicy":                     "`Respect`: preferred affinities and `ScheduleAnyway` spreads count as required until they would cost a pod its place; `Ignore`: they count for nothing",
	"minValuesPolicy":                      "`Strict` or `BestEffort`",
	"schedulerConfig":                      "how kube-scheduler was configured: a file, or the YAML or JSON itself, with `podTopologySpread.defaultConstraints`, which hold for pods without any; unknown fields are errors",
	"featureGates.nodeRepair":              "replace nodes that stay unhealthy",
	"featureGates.reservedCapacity":        "use capacity reservations",
	"featureGates.spotToSpotConsolidation": "replace spot nodes by cheaper spot nodes",
	"featureGates.nodeOverlay":             "accepted; not supported yet",
	"featureGates.staticCapacity":          "NodePools with `replicas`",
	"featureGates.capacityBuffer":          "accepted; not supported yet",
	"alternatives.maxPriceRatio":           "other offerings of a launch cost at most so many times the best one",
	"alternatives.max":                     "other offerings that a launch names",
	"nodes.vmMemoryOverheadPercent":        "share of a machine's memory that the hypervisor keeps; for the commands only, so far",
	"nodes.reservedENIs":                   "network interfaces left out when pods per node are counted; for the commands only, so far",
	"nodes.prefixDelegation":               "the VPC CNI gives interfaces prefixes of 16 addresses: more pods per node, at most 110 below 30 vCPU and 250 from there; for the commands only, so far",
	"garbageCollection.interval":           "how often instances and claims are compared",
	"garbageCollection.brakeNodes":         "it stops by itself when it would end more than so many instances",
	"garbageCollection.brakeShare":         "or more than this share of the fleet, whichever is more",
	"garbageCollection.brakeWindow":        "within so long",
	"disruption.interval":                  "pause between two looks for nodes to give back or to replace",
	"disruption.validation":                "a plan is carried out when one made so much later, of the cluster as it is then, wants the same nodes gone",
	"disruption.minNodeAge":                "nodes that are younger are neither consolidated nor replaced for drift; 0 = no such rule",
	"disruption.maxMovesPerHour":           "the same pods are moved at most so often within an hour to save money or for drift: a move more, or one back to the kind of machine that they were just taken off, pauses the NodePool's voluntary disruption. 0 = no such rule",
	"termination.outOfServiceTaint":        "taint the Node of a machine that is gone with node.kubernetes.io/out-of-service, and keep it for up to a minute, so that its volumes are detached at once and not after six minutes",

	"leaderElection.enabled":            "hold leases; off only for one replica",
	"leaderElection.name":               "lease of Weir",
	"leaderElection.namespace":          "its namespace; empty = the scaler's own",
	"leaderElection.karpenterName":      "lease of Karpenter: Weir is passive while somebody else holds it",
	"leaderElection.karpenterNamespace": "its namespace; empty = the scaler's own",
	"leaderElection.leaseDuration":      "how long a lease holds without being renewed",
	"leaderElection.renewDeadline":      "the leader gives up when it could not renew for so long",
	"leaderElection.retryPeriod":        "how often it is renewed or asked for",
	"kube.kubeconfig":                   "kubeconfig file; empty = the pod's service account",
	"kube.qps":                          "requests per second to the API server",
	"kube.burst":                        "requests at once to the API server",
	"log.level":                         "`debug`, `info` or `error`",
	"log.outputPaths":                   "where log lines go",
	"log.errorOutputPaths":              "where errors of the logger go",
	"metrics.port":                      "port of `/metrics`; 0 = any free one",
	"metrics.clusterGauges":             "gauges per pod, node and pool",
	"metrics.profiling":                 "`/debug/pprof` on the metrics port",
	"health.port":                       "port of `/healthz` and `/readyz`; 0 = any free one",
	"admin.enabled":                     "serve what `weir strategy` asks, on the loopback address alone: it is reached by port-forward",
	"admin.port":                        "its port; 0 = any free one",
	"admin.configMap":                   "ConfigMap with the strategies that were swapped by command, in the namespace of the lease; what runs is told in the one of this name and `-status`",
	"memoryLimit":                       "bytes that the process may use; -1 = not told",
}

// Reference is the page docs/reference/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

Generated from core/config; do not edit.

The scaler, the Lambda and the commands that take ` + "`--config`" + ` read one YAML or JSON file. A flag wins over an environment
variable, which wins over the file, which wins over the default. Unknown fields and values that make no sense are errors: the
program does not start, and a running scaler keeps what it has. The file is watched; what cannot be changed while running is said so.

` + "```yaml\napiVersion: " + APIVersion + "\nkind: " + Kind + "\ncluster: my-cluster\n```" + `

## Fields

| field | default | while running | meaning |
|---|---|---|---|
`)
	defaults := reflect.ValueOf(*Default())
	walkValues(defaults, "", func(path string, v reflect.Value) {
		live := "yes"
		for _, f := range fixed {
			if path == f || strings.HasPrefix(path, f+".") {
				live = "no"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", path, show(v), live, fieldDocs[path])
	})
	b.WriteString(`
## Flags and environment

Karpenter's names keep their meaning. An empty variable counts as unset.

| flag | environment | sets | notes |
|---|---|---|---|
`)
	for _, s := range Settings() {
		field := "-"
		if s.Field != "" {
			field = "`" + s.Field + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", s.Flag, s.Env, field, s.Note)
	}
	b.WriteString(`
## Which ledger goes with what

| ledger | scaler | with the Lambda |
|---|---|---|
| ` + "`bolt`" + ` | one replica | refused: a Lambda cannot read the scaler's file |
| ` + "`dynamodb`" + ` | any number of replicas | yes |
| ` + "`none`" + ` | refused | the Lambda alone: it taints and drains, and remembers nothing |
`)
	return b.String()
}

func walkValues(v reflect.Value, path string, leaf func(path string, v reflect.Value)) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			walkValues(v.Field(i), join(path, jsonName(v.Type().Field(i))), leaf)
		}
	case v.Kind() == reflect.Map && v.Type().Elem() == strategyType:
		walkValues(reflect.ValueOf(defaultStrategy()), path+".<name>", leaf)
	default:
		leaf(path, v)
	}
}

func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case Duration:
		return x.String()
	case string:
		if x == "" {
			return "-"
		}
		return "`" + x + "`"
	case []string:
		if len(x) == 0 {
			return "-"
		}
		return "`" + strings.Join(x, ", ") + "`"
	case map[string]any:
		return "-"
	default:
		if v.Kind() == reflect.Slice && v.Len() == 0 {
			return "-"
		}
		return fmt.Sprint(x)
	}
}

// Schema is the JSON schema of the file, for editors.
func Schema() ([]byte, error) {
	s := schemaOf(reflect.TypeFor[Config](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = Kind
	s["required"] = []string{"apiVersion", "kind"}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(b, '\n'), nil
}

func schemaOf(t reflect.Type, path string) map[string]any {
	s := map[string]any{}
	if d := fieldDocs[path]; d != "" {
		s["description"] = d
	}
	switch {
	case path == "apiVersion":
		s["const"] = APIVersion
	case path == "kind":
		s["const"] = Kind
	case t == durationType:
		s["type"], s["pattern"] = "string", `^-?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
	case t.Kind() == reflect.Struct:
		props := map[string]any{}
		for i := range t.NumField() {
			f := t.Field(i)
			props[jsonName(f)] = schemaOf(f.Type, join(path, jsonName(f)))
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", props, false
	case t.Kind() == reflect.Map && t.Elem() == anyType:
		s["type"] = "object"
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", schemaOf(t.Elem(), path+".<name>")
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), path+"[]")
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		s["type"] = "integer"
	case t.Kind() == reflect.Float64:
		s["type"] = "number"
	default:
		s["type"] = "string"
	}
	return s
}
