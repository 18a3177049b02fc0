package config

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Role says which program reads the configuration.
type Role string

// The programs.
const (
	Scaler Role = "scaler"
	Lambda Role = "lambda"
	CLI    Role = "cli" // reads files only: no cluster, ledger or lease is needed
)

// Input is everything a configuration is made of. All parts may be empty.
type Input struct {
	Role  Role
	File  string            // name of the file, for errors
	Data  []byte            // its content; nil = no file
	Env   map[string]string // environment variables
	Flags map[string]string // flags that were given, by name without dashes
	// ReadFile reads the files that the configuration names; nil = none can be read.
	ReadFile func(name string) ([]byte, error)
}

// Loaded is a valid configuration.
type Loaded struct {
	*Config
	Warnings []string // what was ignored, and why

	origins map[string]string // field path -> where it was said
}

// Wrong is what is the matter with a field as only whoever uses it can tell, such as a file
// that is not there: an Errors that says where the field, or what it is in, was said.
func (l *Loaded) Wrong(field, format string, args ...any) error {
	var errs Errors
	errs.add(sourceOf(l.origins, field), field, format, args...)
	return errs
}

// Load merges and checks. The error is an Errors that tells everything that is wrong.
func Load(in Input) (*Loaded, error) {
	cfg := Default()
	d := &decoder{file: in.File, origins: map[string]string{}}
	if in.Data != nil {
		d.decodeFile(in.Data, cfg)
	}
	warnings, errs := apply(cfg, in.Env, func(s Setting) string { return s.Env },
		func(s Setting) string { return "environment variable " + s.Env }, true, d.origins)
	d.errs = append(d.errs, errs...)
	more, errs := apply(cfg, in.Flags, func(s Setting) string { return s.Flag },
		func(s Setting) string { return "flag --" + s.Flag }, false, d.origins)
	d.errs = append(d.errs, errs...)
	if in.Role != Lambda { // which buys nothing
		d.readCommitments(cfg, in.ReadFile)
	}
	if len(d.errs) > 0 {
		return nil, d.errs // values that were not read would only be complained about twice
	}
	v := &validator{cfg: cfg, role: in.Role, origins: d.origins}
	v.all()
	if err := v.errs.err(); err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	warnings = append(warnings, v.unused()...)
	if in.Role == Scaler {
		warnings = append(warnings, cfg.withoutEffect()...)
	}
	return &Loaded{Config: cfg, Warnings: warnings, origins: d.origins}, nil
}

// unused names what a file says and another value of it makes pointless.
func (v *validator) unused() (out []string) {
	if v.cfg.Swap.Probation != 0 {
		return nil
	}
	for _, field := range []string{"swap.maxErrorRate", "swap.maxDearerPercent"} {
		if at, said := v.origins[field]; said {
			out = append(out, fmt.Sprintf("%s: %s: has no effect: swap.probation is 0, so that nothing is taken back by itself", at, field))
		}
	}
	return out
}

// withoutEffect names what is asked for and accepted, and what the scaler of this version
// does not do: nobody shall rely on a setting that nothing reads.
func (c *Config) withoutEffect() (out []string) {
	if q := c.Interruption.Queue; q != "" && c.Cloud.Kind != CloudAWS {
		out = append(out, fmt.Sprintf("interruption.queue: %q is not polled: cloud.kind %s has events of its own", q, c.Cloud.Kind))
	}
	usual := Default()
	for _, s := range []struct {
		field string
		asked bool
		why   string
	}{
		{"featureGates.nodeOverlay", c.FeatureGates.NodeOverlay, "NodeOverlays are not read"},
		{"featureGates.capacityBuffer", c.FeatureGates.CapacityBuffer, "CapacityBuffers are not read"},
		{"nodes.vmMemoryOverheadPercent", c.Cloud.Kind != CloudAWS && (c.Nodes.VMMemoryOverheadPercent != usual.Nodes.VMMemoryOverheadPercent), "the cloud says what machines offer"},
		{"nodes.reservedENIs", c.Cloud.Kind != CloudAWS && (c.Nodes.ReservedENIs != usual.Nodes.ReservedENIs), "the cloud says what machines offer"},
		{"nodes.prefixDelegation", c.Cloud.Kind != CloudAWS && c.Nodes.PrefixDelegation, "the cloud says what machines offer"},
		{"alternatives.max", c.Alternatives.Max != usual.Alternatives.Max, fmt.Sprintf("a launch names up to %d other offerings", usual.Alternatives.Max)},
	} {
		if s.asked {
			out = append(out, s.field+": has no effect on the scaler of this version: "+s.why)
		}
	}
	return out
}

// WithStrategies is the configuration with other strategies in place of those of these
// names. The error is an Errors; source names where they come from.
func (c *Config) WithStrategies(source string, others map[string]Strategy) (*Config, error) {
	out := *c
	out.Strategies = maps.Clone(c.Strategies)
	if out.Strategies == nil {
		out.Strategies = map[string]Strategy{}
	}
	v := &validator{cfg: &out, role: Scaler, origins: map[string]string{}}
	for name, s := range others {
		out.Strategies[name] = s
		v.origins["strategies."+name] = source
	}
	v.strategies()
	if err := v.errs.err(); err != nil {
		return nil, err
	}
	return &out, nil
}

type validator struct {
	cfg     *Config
	role    Role
	origins map[string]string
	errs    Errors
}

func (v *validator) fail(field, format string, args ...any) {
	v.errs.add(sourceOf(v.origins, field), field, format, args...)
}

// sourceOf is where a field was said, or else what it is in.
func sourceOf(origins map[string]string, field string) string {
	for at := field; at != ""; at = parent(at) {
		if s, ok := origins[at]; ok {
			return s
		}
	}
	return "default"
}

func parent(path string) string {
	i := strings.LastIndexAny(path, ".[")
	return path[:max(i, 0)]
}

func (v *validator) all() {
	v.place()
	v.memory()
	v.strategies()
	v.planning()
	v.commitments()
	v.election()
	v.process()
}

var (
	zoneName    = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+[a-z](-[a-z0-9-]+)?$`)
	accountID   = regexp.MustCompile(`^[0-9]{12}$`)
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	digest      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	queueName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}(\.fifo)?$`)
	tableName   = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
	imageRef    = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._:-]*(/[a-z0-9][a-z0-9._-]*)+@sha256:[0-9a-f]{64}$`)
	leaseName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

func (v *validator) place() {
	c := v.cfg
	switch {
	case c.Cluster == "" && v.role != CLI:
		v.fail("cluster", "is missing: name the cluster in the file, in CLUSTER_NAME or with --cluster-name")
	case c.Cluster != "" && !clusterName.MatchString(c.Cluster):
		v.fail("cluster", "is %q, expected letters, digits, - and _, at most 100", c.Cluster)
	}
	if c.Account != "" && !accountID.MatchString(c.Account) {
		v.fail("account", "is %q, expected 12 digits", c.Account)
	}
	for i, z := range c.Zones {
		if !zoneName.MatchString(z) {
			v.fail(fmt.Sprintf("zones[%d]", i), "is %q, expected a zone such as us-east-1a", z)
		} else if slices.Contains(c.Zones[:i], z) {
			v.fail(fmt.Sprintf("zones[%d]", i), "is %q twice, expected each zone once", z)
		}
	}
	if c.ClusterEndpoint != "" && !absoluteURL(c.ClusterEndpoint) {
		v.fail("clusterEndpoint", "is %q, expected an absolute URL", c.ClusterEndpoint)
	}
	v.oneOf("cloud.kind", c.Cloud.Kind, CloudAWS, CloudSim)
	if c.Cloud.Address != "" && !absoluteURL(c.Cloud.Address) {
		v.fail("cloud.address", "is %q, expected an absolute URL", c.Cloud.Address)
	}
	if c.Replicas < 1 {
		v.fail("replicas", "is %d, expected 1 or more", c.Replicas)
	}
	if q := c.Interruption.Queue; q != "" && !queueName.MatchString(q) {
		hint := ""
		if i := strings.LastIndexAny(q, ":/"); i >= 0 && queueName.MatchString(q[i+1:]) {
			hint = fmt.Sprintf("; of %q that is %q", q, q[i+1:])
		}
		v.fail("interruption.queue", "expected the name of an SQS queue%s", hint)
	}
}

func absoluteURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && u.Host != ""
}

func (v *validator) memory() {
	l := v.cfg.Ledger
	switch l.Kind {
	case LedgerBolt:
		v.boltLedger()
	case LedgerDynamoDB:
		if !tableName.MatchString(l.Table) {
			v.fail("ledger.table", "is %q, expected the name of a DynamoDB table", l.Table)
		}
	case LedgerNone:
		if v.role == Scaler {
			v.fail("ledger.kind", "none is for the Lambda only: without a ledger a crash of the scaler could buy a machine twice; use bolt or dynamodb")
		}
	default:
		v.oneOf("ledger.kind", l.Kind, LedgerBolt, LedgerDynamoDB, LedgerNone)
	}
}

func (v *validator) boltLedger() {
	c := v.cfg
	switch {
	case v.role == Lambda:
		v.fail("ledger.kind", "bolt is a file of the scaler, which a Lambda cannot read: use dynamodb, or none to taint and drain without a ledger")
	case c.Ledger.Path == "":
		v.fail("ledger.path", "is missing: the bolt ledger needs the path of its file")
	case c.Replicas > 1:
		v.fail("ledger.kind", "bolt is a file that one replica has open, and replicas is %d: use dynamodb, or one replica", c.Replicas)
	case c.Interruption.Lambda && v.role == Scaler:
		v.fail("ledger.kind", "bolt is a file that the interruption Lambda cannot read, and interruption.lambda is true: use dynamodb, or run without the Lambda")
	}
}

func (v *validator) strategies() {
	c := v.cfg
	for _, name := range slices.Sorted(maps.Keys(c.Strategies)) {
		v.strategy("strategies."+name, name, c.Strategies[name])
	}
	v.binding("bindings.instanceSelection", c.Bindings.InstanceSelection, InstanceSelection)
	v.binding("bindings.consolidation", c.Bindings.Consolidation, Consolidation)
	for i, name := range c.Shadow {
		if slices.Contains(c.Shadow[:i], name) {
			v.fail(fmt.Sprintf("shadow[%d]", i), "is %q twice, expected each strategy once", name)
			continue
		}
		v.binding(fmt.Sprintf("shadow[%d]", i), name, "")
	}
	if r := c.Swap.MaxErrorRate; !(r > 0 && r <= 1) {
		v.fail("swap.maxErrorRate", "is %v, expected a part above 0 and at most 1, such as 0.2", r)
	}
	if p := c.Swap.MaxDearerPercent; !(p >= -1 && p <= 1e6) || p == 0 {
		v.fail("swap.maxDearerPercent", "is %v, expected a percentage above 0, or -1 for no such rule", p)
	}
	if c.Swap.Probation != 0 {
		v.between("swap.probation", c.Swap.Probation, time.Second, 7*24*time.Hour)
	}
	if r := c.StrategyRecords; r.Folder != "" && !filepath.IsAbs(r.Folder) {
		v.fail("strategyRecords.folder", "is %q, expected an absolute path", r.Folder)
	}
	if n := c.StrategyRecords.MaxBytes; n < 1<<20 {
		v.fail("strategyRecords.maxBytes", "is %d, expected at least %d bytes", n, 1<<20)
	}
}

func (v *validator) strategy(path, name string, s Strategy) {
	builtin, isBuiltin := Builtins()[name]
	if !leaseName.MatchString(name) {
		v.fail(path, "a strategy is named with small letters, digits and -")
	}
	if s.Kind == "" && isBuiltin && s.Path == "" && s.Image == "" {
		s.Kind = builtin
		v.cfg.Strategies[name] = s
	}
	v.oneOf(path+".kind", s.Kind, InstanceSelection, Consolidation)
	if s.Chain != nil {
		v.chain(path, name, s)
		return
	}
	v.oneOf(path+".isolation", s.Isolation, IsolationProcess, IsolationContainer)
	switch {
	case s.Isolation == IsolationContainer:
		if s.Socket == "" {
			v.fail(path+".socket", "is missing: a strategy in a container is reached over a socket")
		}
		if s.Image != "" {
			v.fail(path+".image", "is set, and isolation is container: the image of a sidecar is named in the pod")
		}
		v.unread(path, s, "isolation is container: nothing is started here", "path", "sha256", "env", "memoryLimit", "cpuLimit", "allowUnsandboxed")
	case s.Socket != "":
		v.fail(path+".socket", "is set, and isolation is process: a strategy is reached over a socket where isolation is container")
	case s.Image != "":
		if !imageRef.MatchString(s.Image) {
			v.fail(path+".image", "is %q, expected registry/repository@sha256: and 64 hexadecimal digits: what runs is named by its content", s.Image)
		}
	case s.Path == "" && !isBuiltin:
		v.fail(path+".path", "is missing, and %q is not a built-in (%s)", name, strings.Join(slices.Sorted(maps.Keys(Builtins())), ", "))
	case s.Path == "" && s.Kind != builtin:
		v.fail(path+".kind", "is %q, the built-in %s is of kind %s", s.Kind, name, builtin)
	case s.Path != "" && s.SHA256 == "" && v.cfg.StrategyLock == "":
		v.fail(path+".sha256", "is missing: a program that is not built in runs only with the SHA-256 it is pinned to")
	}
	if s.SHA256 != "" && !digest.MatchString(s.SHA256) {
		v.fail(path+".sha256", "is %q, expected 64 hexadecimal digits in small letters", s.SHA256)
	}
	v.between(path+".startTimeout", s.StartTimeout, time.Second, 5*time.Minute)
	v.between(path+".callTimeout", s.CallTimeout, 10*time.Millisecond, time.Minute)
	if s.MemoryLimit < 16<<20 {
		v.fail(path+".memoryLimit", "is %d, expected at least %d bytes", s.MemoryLimit, 16<<20)
	}
	if !(s.CPULimit >= 0 && s.CPULimit <= 1024) {
		v.fail(path+".cpuLimit", "is %g, expected a number of processors, 0 = no limit", s.CPULimit)
	}
	if s.Socket != "" && (s.Socket[0] != '/' || len(s.Socket) > 100) {
		v.fail(path+".socket", "is %q, expected an absolute path of at most 100 bytes", s.Socket)
	}
	for i, e := range s.Env {
		if e == "" || strings.ContainsAny(e, "=\x00") {
			v.fail(fmt.Sprintf("%s.env[%d]", path, i), "is %q, expected the name of an environment variable to hand on", e)
		}
	}
}

// unread complains about fields of a strategy that nothing would read, whether a file says
// them or a value differs from what holds anyway.
func (v *validator) unread(path string, s Strategy, why string, fields ...string) {
	usual := defaultStrategy()
	for _, field := range fields {
		value, _ := fieldByName(reflect.ValueOf(s), field)
		otherwise, _ := fieldByName(reflect.ValueOf(usual), field)
		_, said := v.origins[path+"."+field]
		if said || !value.IsZero() && !reflect.DeepEqual(value.Interface(), otherwise.Interface()) {
			v.fail(path+"."+field, "is given, and %s", why)
		}
	}
}

// chain says what is wrong with a strategy that others make up.
func (v *validator) chain(path, name string, s Strategy) {
	if _, isBuiltin := Builtins()[name]; isBuiltin {
		v.fail(path+".chain", "is given to %q, which is built in: expected a name of its own", name)
	}
	v.unread(path, s, "chain is given: a chain has no program", "path", "image", "socket", "config", "sha256", "env", "isolation", "startTimeout", "memoryLimit", "cpuLimit", "allowUnsandboxed")
	if s.CallTimeout != 0 {
		v.between(path+".callTimeout", s.CallTimeout, 10*time.Millisecond, time.Minute)
	}
	if n := len(s.Chain); n == 0 || n > maxChain {
		v.fail(path+".chain", "has %d members, expected 1 to %d", n, maxChain)
	}
	seen := map[string]bool{}
	for i, m := range s.Chain {
		at := fmt.Sprintf("%s.chain[%d]", path, i)
		if !(m.Weight > 0 && m.Weight <= 100) {
			v.fail(at+".weight", "is %v, expected a number above 0 and up to 100", m.Weight)
		}
		switch member := v.cfg.Strategies[m.Strategy]; {
		case m.Strategy == "":
			v.fail(at+".strategy", "is missing")
		case seen[m.Strategy]:
			v.fail(at+".strategy", "is %q twice, expected each strategy once: its weight says how much it counts", m.Strategy)
		case m.Strategy == name || member.Chain != nil:
			v.fail(at+".strategy", "is %q, which is a chain, expected a strategy that is none", m.Strategy)
		default:
			v.binding(at+".strategy", m.Strategy, s.Kind)
		}
		seen[m.Strategy] = true
	}
}

// maxChain is of how many strategies a chain may be made.
const maxChain = 16

func (v *validator) binding(path, name, kind string) {
	s, ok := v.cfg.Strategy(name)
	known := slices.Sorted(maps.Keys(v.cfg.Strategies))
	known = append(known, slices.Sorted(maps.Keys(Builtins()))...)
	switch {
	case !ok:
		hint := ""
		if n := Nearest(name, known); n != "" {
			hint = fmt.Sprintf(", did you mean %q?", n)
		}
		v.fail(path, "there is no strategy %q%s", name, hint)
	case s.Kind != kind && s.Kind != "" && kind != "":
		v.fail(path, "strategy %q is of kind %s, expected one of kind %s", name, s.Kind, kind)
	}
}

func (v *validator) planning() {
	c := v.cfg
	v.oneOf("preferencePolicy", c.PreferencePolicy, "Respect", "Ignore")
	v.oneOf("minValuesPolicy", c.MinValuesPolicy, "Strict", "BestEffort")
	v.between("batch.idle", c.Batch.Idle, 10*time.Millisecond, 10*time.Minute)
	v.between("batch.max", c.Batch.Max, 10*time.Millisecond, time.Hour)
	if c.Planning.Budget != 0 {
		v.between("planning.budget", c.Planning.Budget, 100*time.Millisecond, 10*time.Minute)
	}
	v.between("disruption.interval", c.Disruption.Interval, time.Second, time.Hour)
	v.between("disruption.validation", c.Disruption.Validation, time.Second, 10*time.Minute)
	if c.Disruption.MinNodeAge != 0 {
		v.between("disruption.minNodeAge", c.Disruption.MinNodeAge, time.Second, 30*24*time.Hour)
	}
	if n := c.Disruption.MaxMovesPerHour; n < 0 || n > 1000 {
		v.fail("disruption.maxMovesPerHour", "is %d, expected 0 (no such rule) to 1000", n)
	}
	if c.Batch.Idle > c.Batch.Max {
		v.fail("batch.idle", "is %s, expected at most batch.max, which is %s", c.Batch.Idle, c.Batch.Max)
	}
	if r := c.Alternatives.MaxPriceRatio; !(r >= 1 && r <= 100) {
		v.fail("alternatives.maxPriceRatio", "is %v, expected 1 to 100", r)
	}
	if c.Alternatives.Max < 1 || c.Alternatives.Max > 60 {
		v.fail("alternatives.max", "is %d, expected 1 to 60", c.Alternatives.Max)
	}
	if p := c.Nodes.VMMemoryOverheadPercent; !(p >= 0 && p < 1) || math.IsNaN(p) {
		v.fail("nodes.vmMemoryOverheadPercent", "is %v, expected a share of at least 0 and below 1, such as 0.075", p)
	}
	if n := c.Nodes.ReservedENIs; n < 0 || n > 100 {
		v.fail("nodes.reservedENIs", "is %d, expected 0 to 100", n)
	}
	g := c.GarbageCollection
	v.between("garbageCollection.interval", g.Interval, 5*time.Second, 2*time.Minute)
	v.between("garbageCollection.brakeWindow", g.BrakeWindow, time.Minute, 24*time.Hour)
	if g.BrakeNodes < 1 {
		v.fail("garbageCollection.brakeNodes", "is %d, expected 1 or more", g.BrakeNodes)
	}
	if !(g.BrakeShare > 0 && g.BrakeShare <= 1) {
		v.fail("garbageCollection.brakeShare", "is %v, expected a share above 0 and up to 1", g.BrakeShare)
	}
}

func (v *validator) election() {
	e := v.cfg.LeaderElection
	if !e.Enabled {
		if v.cfg.Replicas > 1 {
			v.fail("leaderElection.enabled", "is false, and replicas is %d: several scalers need leader election", v.cfg.Replicas)
		}
		return
	}
	for field, name := range map[string]string{"leaderElection.name": e.Name, "leaderElection.karpenterName": e.KarpenterName} {
		if !leaseName.MatchString(name) {
			v.fail(field, "is %q, expected the name of a lease", name)
		}
	}
	if e.Name == e.KarpenterName && e.Namespace == e.KarpenterNamespace {
		v.fail("leaderElection.name", "is the lease of Karpenter as well, expected another one: Weir holds both")
	}
	v.between("leaderElection.leaseDuration", e.LeaseDuration, 2*time.Second, 5*time.Minute)
	if e.RenewDeadline >= e.LeaseDuration {
		v.fail("leaderElection.renewDeadline", "is %s, expected less than leaseDuration, which is %s", e.RenewDeadline, e.LeaseDuration)
	}
	if e.RetryPeriod <= 0 || e.RetryPeriod*12/10 >= e.RenewDeadline {
		v.fail("leaderElection.retryPeriod", "is %s, expected more than 0, and 1.2 times as much below renewDeadline, which is %s", e.RetryPeriod, e.RenewDeadline)
	}
}

func (v *validator) process() {
	c := v.cfg
	v.oneOf("log.level", c.Log.Level, "debug", "info", "error")
	if !(c.Kube.QPS > 0) || math.IsInf(c.Kube.QPS, 0) {
		v.fail("kube.qps", "is %v, expected more than 0", c.Kube.QPS)
	}
	if c.Kube.Burst < 1 {
		v.fail("kube.burst", "is %d, expected 1 or more", c.Kube.Burst)
	}
	for field, port := range map[string]int{"metrics.port": c.Metrics.Port, "health.port": c.Health.Port, "admin.port": c.Admin.Port} {
		if port < 0 || port > 65535 {
			v.fail(field, "is %d, expected 0 (any free port) to 65535", port)
		}
	}
	if c.Metrics.Port == c.Health.Port && c.Metrics.Port != 0 {
		v.fail("health.port", "is %d, the port of the metrics as well", c.Health.Port)
	}
	if c.Admin.Enabled {
		if p := c.Admin.Port; p != 0 && (p == c.Metrics.Port || p == c.Health.Port) {
			v.fail("admin.port", "is %d, the port of another server as well", p)
		}
		if !leaseName.MatchString(c.Admin.ConfigMap) {
			v.fail("admin.configMap", "is %q, expected the name of a ConfigMap", c.Admin.ConfigMap)
		}
	}
	slices.SortStableFunc(v.errs, func(a, b Error) int { return strings.Compare(a.Field, b.Field) })
}

func (v *validator) oneOf(field, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	hint := ""
	if n := Nearest(value, allowed); value != "" && n != "" {
		hint = fmt.Sprintf(", did you mean %s?", n)
	}
	v.fail(field, "is %q, expected %s%s", value, strings.Join(allowed, " or "), hint)
}

func (v *validator) between(field string, d Duration, low, high time.Duration) {
	if d.D() < low || d.D() > high {
		v.fail(field, "is %s, expected %s to %s", d, low, high)
	}
}
