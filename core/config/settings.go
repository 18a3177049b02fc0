package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Setting is a flag and its environment variable.
type Setting struct {
	Flag, Env string
	Field     string // the field it sets; empty: accepted, and without a meaning here
	Expected  string // what a value looks like
	Note      string
	set       func(c *Config, value string) (warning string, err error)
}

// Bool says whether the flag may stand without a value.
func (s Setting) Bool() bool { return s.Expected == expectBool }

const (
	expectBool     = "true or false"
	expectDuration = "a duration such as 10s"
	expectInt      = "a whole number"
	expectFloat    = "a number"
	expectText     = "text"
	expectList     = "a comma-separated list"
	expectGates    = "a comma-separated list such as NodeRepair=true,StaticCapacity=false"
)

// Settings lists the flags and variables in the order of the reference page.
func Settings() []Setting {
	out := []Setting{
		at("cluster-name", "CLUSTER_NAME", "cluster", ""),
		at("cluster-endpoint", "CLUSTER_ENDPOINT", "clusterEndpoint", ""),
		at("cluster-ca-bundle", "CLUSTER_CA_BUNDLE", "clusterCABundle", ""),
		at("region", "AWS_REGION", "region", ""),
		at("account", "WEIR_ACCOUNT", "account", ""),
		at("zones", "WEIR_ZONES", "zones", ""),
		at("replicas", "WEIR_REPLICAS", "replicas", ""),
		at("cloud", "WEIR_CLOUD", "cloud.kind", ""),
		at("cloud-address", "WEIR_CLOUD_ADDRESS", "cloud.address", ""),
		at("catalogue", "WEIR_CATALOGUE", "cloud.catalogue", ""),
		inverse("disable-dry-run", "DISABLE_DRY_RUN", "cloud.dryRun"),
		at("ledger", "WEIR_LEDGER", "ledger.kind", ""),
		at("ledger-path", "WEIR_LEDGER_PATH", "ledger.path", ""),
		at("ledger-table", "WEIR_LEDGER_TABLE", "ledger.table", ""),
		at("interruption-lambda", "WEIR_INTERRUPTION_LAMBDA", "interruption.lambda", ""),
		at("interruption-queue", "INTERRUPTION_QUEUE", "interruption.queue", ""),
		at("strategy-binary", "WEIR_STRATEGY_BINARY", "strategyBinary", ""),
		at("instance-selection", "WEIR_INSTANCE_SELECTION", "bindings.instanceSelection", ""),
		at("consolidation", "WEIR_CONSOLIDATION", "bindings.consolidation", ""),
		at("batch-idle-duration", "BATCH_IDLE_DURATION", "batch.idle", ""),
		at("batch-max-duration", "BATCH_MAX_DURATION", "batch.max", ""),
		at("planning-budget", "WEIR_PLANNING_BUDGET", "planning.budget", ""),
		at("disruption-interval", "WEIR_DISRUPTION_INTERVAL", "disruption.interval", ""),
		at("disruption-validation", "WEIR_DISRUPTION_VALIDATION", "disruption.validation", ""),
		at("min-node-age", "WEIR_MIN_NODE_AGE", "disruption.minNodeAge", ""),
		at("max-moves-per-hour", "WEIR_MAX_MOVES_PER_HOUR", "disruption.maxMovesPerHour", ""),
		at("preference-policy", "PREFERENCE_POLICY", "preferencePolicy", ""),
		at("min-values-policy", "MIN_VALUES_POLICY", "minValuesPolicy", ""),
		at("scheduler-config", "SCHEDULER_CONFIG", "schedulerConfig", "a file, or the YAML or JSON itself"),
		{Flag: "feature-gates", Env: "FEATURE_GATES", Field: "featureGates", Expected: expectGates, Note: "gates that are not named keep their value; unknown ones are ignored with a warning", set: setGates},
		at("alternatives-max-price-ratio", "WEIR_ALTERNATIVES_MAX_PRICE_RATIO", "alternatives.maxPriceRatio", ""),
		at("vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT", "nodes.vmMemoryOverheadPercent", ""),
		at("reserved-enis", "RESERVED_ENIS", "nodes.reservedENIs", ""),
		at("prefix-delegation", "ENABLE_PREFIX_DELEGATION", "nodes.prefixDelegation", "the variable is that of the VPC CNI's aws-node DaemonSet"),
		inverse("disable-leader-election", "DISABLE_LEADER_ELECTION", "leaderElection.enabled"),
		at("weir-leader-election-name", "WEIR_LEADER_ELECTION_NAME", "leaderElection.name", ""),
		at("weir-leader-election-namespace", "WEIR_LEADER_ELECTION_NAMESPACE", "leaderElection.namespace", ""),
		at("leader-election-name", "LEADER_ELECTION_NAME", "leaderElection.karpenterName", "the lease of Karpenter, which Weir must hold as well"),
		at("leader-election-namespace", "LEADER_ELECTION_NAMESPACE", "leaderElection.karpenterNamespace", "the namespace of Karpenter's lease"),
		at("kubeconfig", "KUBECONFIG", "kube.kubeconfig", ""),
		at("kube-client-qps", "KUBE_CLIENT_QPS", "kube.qps", ""),
		at("kube-client-burst", "KUBE_CLIENT_BURST", "kube.burst", ""),
		at("log-level", "LOG_LEVEL", "log.level", ""),
		at("log-output-paths", "LOG_OUTPUT_PATHS", "log.outputPaths", ""),
		at("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", "log.errorOutputPaths", ""),
		at("metrics-port", "METRICS_PORT", "metrics.port", ""),
		inverse("disable-cluster-state-observability", "DISABLE_CLUSTER_STATE_OBSERVABILITY", "metrics.clusterGauges"),
		at("enable-profiling", "ENABLE_PROFILING", "metrics.profiling", ""),
		at("health-probe-port", "HEALTH_PROBE_PORT", "health.port", ""),
		at("admin-port", "WEIR_ADMIN_PORT", "admin.port", ""),
		at("memory-limit", "MEMORY_LIMIT", "memoryLimit", ""),
	}
	for _, x := range [][3]string{
		{"karpenter-service", "KARPENTER_SERVICE", "Weir has no webhook service"},
		{"disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP", "Weir has one loop, always warm"},
		{"cpu-requests", "CPU_REQUESTS", "Weir has no worker pools to size"},
		{"ignore-dra-requests", "IGNORE_DRA_REQUESTS", "pods with resource claims are refused with a reason"},
		{"eks-control-plane", "EKS_CONTROL_PLANE", "not read by this version"},
		{"isolated-vpc", "ISOLATED_VPC", "not read by this version"},
		{"enable-zonal-shift", "ENABLE_ZONAL_SHIFT", "zonal shifts are followed wherever the role may read them"},
		{"ami-refresh-interval", "AMI_REFRESH_INTERVAL", "not read by this version"},
		{"subnet-refresh-interval", "SUBNET_REFRESH_INTERVAL", "not read by this version"},
		{"aws-feature-gates", "AWS_FEATURE_GATES", "not read by this version"},
	} {
		out = append(out, Setting{Flag: x[0], Env: x[1], Expected: expectText, Note: x[2], set: func(*Config, string) (string, error) {
			return "has no meaning here: " + x[2], nil
		}})
	}
	return out
}

// at sets one plain field by its path.
func at(flag, env, field, note string) Setting {
	s := Setting{Flag: flag, Env: env, Field: field, Note: note}
	v := fieldAt(reflect.ValueOf(Default()).Elem(), field)
	switch {
	case v.Type() == durationType:
		s.Expected = expectDuration
	case v.Kind() == reflect.Bool:
		s.Expected = expectBool
	case v.Kind() == reflect.Int, v.Kind() == reflect.Int64:
		s.Expected = expectInt
	case v.Kind() == reflect.Float64:
		s.Expected = expectFloat
	case v.Kind() == reflect.Slice:
		s.Expected = expectList
	default:
		s.Expected = expectText
	}
	s.set = func(c *Config, value string) (string, error) {
		return "", setText(fieldAt(reflect.ValueOf(c).Elem(), field), value)
	}
	return s
}

// inverse sets a switch whose name says the opposite.
func inverse(flag, env, field string) Setting {
	s := at(flag, env, field, "true sets the field to false")
	s.set = func(c *Config, value string) (string, error) {
		v := fieldAt(reflect.ValueOf(c).Elem(), field)
		if err := setBool(v, value); err != nil {
			return "", err
		}
		v.SetBool(!v.Bool())
		return "", nil
	}
	return s
}

func fieldAt(v reflect.Value, path string) reflect.Value {
	for part := range strings.SplitSeq(path, ".") {
		f, ok := fieldByName(v, part)
		if !ok {
			panic("config: no field " + path) // the table above is wrong; a test walks all of it
		}
		v = f
	}
	return v
}

func setText(v reflect.Value, s string) error {
	switch {
	case v.Type() == durationType:
		return setDuration(v, s)
	case v.Kind() == reflect.Bool:
		return setBool(v, s)
	case v.Kind() == reflect.Int, v.Kind() == reflect.Int64:
		return setInt(v, s)
	case v.Kind() == reflect.Float64:
		return setFloat(v, s)
	case v.Kind() == reflect.Slice:
		var list []string
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		v.Set(reflect.ValueOf(list))
		return nil
	default:
		v.SetString(s)
		return nil
	}
}

// setGates takes Karpenter's notation. Gates that nobody knows are ignored, as they
// are there, but told.
func setGates(c *Config, value string) (string, error) {
	v := reflect.ValueOf(&c.FeatureGates).Elem()
	var unknown []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, val, ok := strings.Cut(part, "=")
		if !ok {
			return "", fmt.Errorf("%q has no value", part)
		}
		name = strings.TrimSpace(name)
		f := v.FieldByName(name)
		if !f.IsValid() {
			unknown = append(unknown, name)
			continue
		}
		if err := setBool(f, strings.ToLower(strings.TrimSpace(val))); err != nil {
			return "", fmt.Errorf("%q is neither true nor false", part)
		}
	}
	if len(unknown) > 0 {
		return "unknown gates are ignored: " + strings.Join(unknown, ", "), nil
	}
	return "", nil
}

// apply merges values by flag or variable name. Empty variables count as unset, as
// charts write them so.
func apply(cfg *Config, values map[string]string, name func(Setting) string, source func(Setting) string, skipEmpty bool, origins map[string]string) (warnings []string, errs Errors) {
	known := map[string]bool{}
	for _, s := range Settings() {
		known[name(s)] = true
		value, ok := values[name(s)]
		if !ok || skipEmpty && value == "" {
			continue
		}
		from := source(s)
		warning, err := s.set(cfg, value)
		switch {
		case err != nil:
			errs.add(from, s.Field, "is %q, expected %s", value, s.Expected)
			continue
		case warning != "":
			warnings = append(warnings, from+": "+warning)
		}
		if s.Field != "" {
			origins[s.Field] = from
		}
	}
	if skipEmpty {
		return warnings, errs // an environment holds other people's variables as well
	}
	for _, n := range slices.Sorted(maps.Keys(values)) {
		if !known[n] {
			hint := ""
			if s := Nearest(n, slices.Sorted(maps.Keys(known))); s != "" {
				hint = fmt.Sprintf(", did you mean --%s?", s)
			}
			errs.add("flag --"+n, "", "unknown flag%s", hint)
		}
	}
	return warnings, errs
}
