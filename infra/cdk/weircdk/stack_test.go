package weircdk

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain ends the CDK's helper process once, after all tests.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// resource is one resource of a template.
type resource struct {
	Type                                string
	Properties                          map[string]any
	Metadata                            map[string]any
	DependsOn                           []string
	DeletionPolicy, UpdateReplacePolicy string
}

// template is a synthesised stack, by logical ids without their hash.
type template struct {
	Description string
	Resources   map[string]resource
	Outputs     map[string]any
	raw         []byte // as CloudFormation gets it, assets' hashes included
}

// synth makes templates one after the other: there is one helper process.
var synthMu sync.Mutex

func synth(t *testing.T, change func(*Config)) template {
	t.Helper()
	return synthStack(t, func(app awscdk.App, cfg Config) awscdk.Stack { change(&cfg); return NewStack(app, cfg) })
}

func synthStack(t *testing.T, stack func(awscdk.App, Config) awscdk.Stack) template {
	t.Helper()
	synthMu.Lock()
	defer synthMu.Unlock()
	return read(t, stack(awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)}), config(t)))
}

// read is for those who hold synthMu.
func read(t *testing.T, stack awscdk.Stack) template {
	t.Helper()
	b, err := json.Marshal(assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	var raw, out template
	if err := json.Unmarshal(b, &raw); err != nil {
		t.Fatal(err)
	}
	out = raw
	out.raw = b
	out.Resources = map[string]resource{}
	for id, r := range raw.Resources {
		out.Resources[bare(id)] = r
	}
	if len(out.Resources) != len(raw.Resources) {
		t.Fatal("two resources have the same name but for their hash")
	}
	return out
}

var (
	standardOnce sync.Once
	standardMade template
)

// standard is the stack with nothing but what is required.
func standard(t *testing.T) template {
	t.Helper()
	standardOnce.Do(func() { standardMade = synth(t, func(*Config) {}) })
	return standardMade
}

func config(t *testing.T) Config {
	t.Helper()
	functions, installer := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(functions, "bootstrap"), filepath.Join(installer, "bootstrap"), filepath.Join(installer, "image", "index.json")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("content of "+filepath.Base(file)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Config{
		ClusterName: "demo", Endpoint: "https://api.example", CertificateAuthority: authority, LambdaDir: functions, DeployDir: installer,
		Chart: ChartInstall, Namespace: "weir-system", ServiceAccount: "weir", StackName: "Weir-demo", Ledger: LedgerDynamoDB,
		KarpenterNamespace: "kube-system", ReservedConcurrency: 10,
	}
}

// everything sets every option that goes with the others.
func everything(c *Config) {
	c.NodeRole, c.Queue, c.Image, c.Table = "teams/blue/Nodes", "karpenter", "registry.example/weir:v1", "shared-ledger"
	c.Subnets, c.VPC, c.ClusterSecurityGroup = []string{"subnet-0aaaaaa1", "subnet-0aaaaaa2"}, "vpc-0aaaaaa1", "sg-0aaaaaa1"
	c.DiscoverySubnets, c.DiscoverySecurityGroups = []string{"subnet-0bbbbbb1"}, []string{"sg-0bbbbbb1"}
	c.PermissionsBoundary, c.AlarmTopic = "Boundary", "arn:aws:sns:us-east-1:123456789012:operators"
	c.StrategyRepositories = []string{"team/carbon", "strategies/*", "arn:aws:ecr:eu-west-1:210987654321:repository/shared/night-owl"}
	c.Issuer, c.ImageParameters = "oidc.eks.us-east-1.amazonaws.com/id/ABC", []string{"/golden/image", "/golden/arm/*"}
}

// authority is a certificate in form.
const authority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="

// newCluster asks for a cluster, too.
func newCluster(c *Config) {
	c.Endpoint, c.CertificateAuthority = "", ""
	c.NewCluster, c.ClusterAdmin = "1.34", "arn:aws:iam::123456789012:role/Admin"
}

var hash = regexp.MustCompile(`[0-9A-F]{8}$`)

func bare(id string) string { return hash.ReplaceAllString(id, "") }

// show writes a value of a template with its functions resolved: ${Resource}, ${Resource.Arn}.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return v
	case []any:
		var parts []string
		for _, x := range v {
			parts = append(parts, show(x))
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok {
			return "${" + bare(ref) + "}"
		}
		if att, ok := v["Fn::GetAtt"].([]any); ok {
			return "${" + bare(att[0].(string)) + "." + att[1].(string) + "}"
		}
		if join, ok := v["Fn::Join"].([]any); ok {
			var parts []string
			for _, x := range join[1].([]any) {
				parts = append(parts, show(x))
			}
			return strings.Join(parts, join[0].(string))
		}
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+"="+show(v[k]))
		}
		return strings.Join(parts, "; ")
	}
	return fmt.Sprint(v)
}

func (tp template) get(t *testing.T, id string) resource {
	t.Helper()
	r, ok := tp.Resources[id]
	if !ok {
		t.Fatalf("no resource %s; there are %v", id, slices.Sorted(maps.Keys(tp.Resources)))
	}
	return r
}

func (tp template) ofType(typ string) map[string]resource {
	out := map[string]resource{}
	for id, r := range tp.Resources {
		if r.Type == typ {
			out[id] = r
		}
	}
	return out
}

// equal compares properties after a trip through JSON, as numbers are.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(clean(t, want), clean(t, got)); diff != "" {
		t.Errorf("%s (-expected +is):\n%s", what, diff)
	}
}

func clean(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTable(t *testing.T) {
	t.Parallel()
	r := standard(t).get(t, "LedgerTable")
	attribute := func(n string) any { return map[string]any{"AttributeName": n, "AttributeType": "S"} }
	key := func(n, k string) any { return map[string]any{"AttributeName": n, "KeyType": k} }
	equal(t, "table", r.Properties, map[string]any{
		"AttributeDefinitions":             []any{attribute("pk"), attribute("sk"), attribute("instance")},
		"KeySchema":                        []any{key("pk", "HASH"), key("sk", "RANGE")},
		"BillingMode":                      "PAY_PER_REQUEST",
		"TimeToLiveSpecification":          map[string]any{"AttributeName": "expires", "Enabled": true},
		"PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": true},
		"SSESpecification":                 map[string]any{"SSEEnabled": true},
		"DeletionProtectionEnabled":        true,
		"GlobalSecondaryIndexes": []any{map[string]any{
			"IndexName": "instance", "KeySchema": []any{key("instance", "HASH")}, "Projection": map[string]any{"ProjectionType": "ALL"},
		}},
	})
	if r.DeletionPolicy != "Retain" || r.UpdateReplacePolicy != "Retain" {
		t.Errorf("deletion %q and replacement %q, expected the table to be kept by both", r.DeletionPolicy, r.UpdateReplacePolicy)
	}
}

// TestWithoutALedger: no table, functions that are told so, and nothing is swept.
func TestWithoutALedger(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.Ledger = LedgerNone })
	for _, id := range []string{"InterruptionResponder", "InterruptionDrainer"} {
		if got := show(tp.get(t, id).Properties["Environment"]); !strings.Contains(got, "WEIR_LEDGER=none") {
			t.Errorf("%s is told %s", id, got)
		}
	}
	if got := tp.get(t, "InterruptionSweepRule").Properties["State"]; got != "DISABLED" {
		t.Errorf("the sweep is %v", got)
	}
	for id, r := range tp.Resources {
		if r.Type == "AWS::DynamoDB::Table" || strings.Contains(show(r.Properties["PolicyDocument"]), "dynamodb:") {
			t.Errorf("%s is made", id)
		}
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	if n := len(tp.ofType("AWS::Lambda::Function")); n != 3 {
		t.Errorf("%d functions, expected 2 and the installer", n)
	}
	for id, want := range map[string]struct {
		timeout  float64
		reserved any
	}{
		"InterruptionResponder": {10, nil}, // it must never wait for a drain
		"InterruptionDrainer":   {150, 10.0},
	} {
		p := tp.get(t, id).Properties
		if p["Timeout"] != want.timeout || p["ReservedConcurrentExecutions"] != want.reserved {
			t.Errorf("%s: timeout %v and reserved concurrency %v, expected %v and %v", id, p["Timeout"], p["ReservedConcurrentExecutions"], want.timeout, want.reserved)
		}
		equal(t, id, map[string]any{"Runtime": p["Runtime"], "Architectures": p["Architectures"], "MemorySize": p["MemorySize"], "Handler": p["Handler"]},
			map[string]any{"Runtime": "provided.al2023", "Architectures": []any{"arm64"}, "MemorySize": 512, "Handler": "bootstrap"})
		dead := p["Environment"].(map[string]any)["Variables"].(map[string]any)["WEIR_DEAD_LETTER_QUEUE"]
		if got := show(dead); got != "${InterruptionDeadLetters}" {
			t.Errorf("%s: dead letters go to %s", id, got)
		}
		equal(t, id+" environment", p["Environment"], map[string]any{"Variables": map[string]any{
			"CLUSTER_NAME": "demo", "CLUSTER_ENDPOINT": "https://api.example", "CLUSTER_CA_BUNDLE": authority,
			"WEIR_ACCOUNT": map[string]any{"Ref": "AWS::AccountId"}, "WEIR_RELAY": "queue",
			"WEIR_DEAD_LETTER_QUEUE": dead,
			"WEIR_LEDGER":            "dynamodb", "WEIR_LEDGER_TABLE": p["Environment"].(map[string]any)["Variables"].(map[string]any)["WEIR_LEDGER_TABLE"],
		}})
		if got := show(p["Environment"]); !strings.Contains(got, "WEIR_LEDGER_TABLE=${LedgerTable}") {
			t.Errorf("%s is not told the table: %s", id, got)
		}
		if got := show(p["Role"]); got != "${InterruptionRole.Arn}" {
			t.Errorf("%s has role %s", id, got)
		}
		logs := tp.get(t, id+"Logs")
		if logs.Properties["RetentionInDays"] != 30.0 {
			t.Errorf("%s keeps its log for %v days, expected 30", id, logs.Properties["RetentionInDays"])
		}
		config := tp.get(t, id+"EventInvokeConfig")
		if config.Properties["MaximumRetryAttempts"] != 0.0 {
			t.Errorf("%s is invoked again %v times, expected 0: the queue has the event too", id, config.Properties["MaximumRetryAttempts"])
		}
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	dead := tp.get(t, "InterruptionDeadLetters").Properties
	equal(t, "dead letters", dead, map[string]any{"MessageRetentionPeriod": 14 * 86400, "SqsManagedSseEnabled": true})
	drain := tp.get(t, "InterruptionDrainQueue").Properties
	if got := show(drain["RedrivePolicy"]); got != "deadLetterTargetArn=${InterruptionDeadLetters.Arn}; maxReceiveCount=5" {
		t.Errorf("redrive policy is %s", got)
	}
	delete(drain, "RedrivePolicy")
	equal(t, "drain queue", drain, map[string]any{
		"VisibilityTimeout": 180, "DelaySeconds": 10, "MessageRetentionPeriod": 86400, "SqsManagedSseEnabled": true,
	})
	if drainSeconds >= visibilitySeconds {
		t.Error("a message comes back while its drain still runs")
	}
	source := tp.get(t, "InterruptionDrainSource")
	p := source.Properties
	equal(t, "event source", map[string]any{"batch": p["BatchSize"], "partial": p["FunctionResponseTypes"], "scaling": p["ScalingConfig"]},
		map[string]any{"batch": 10, "partial": []any{"ReportBatchItemFailures"}, "scaling": map[string]any{"MaximumConcurrency": 10}})
	if show(p["EventSourceArn"]) != "${InterruptionDrainQueue.Arn}" || show(p["FunctionName"]) != "${InterruptionDrainer}" {
		t.Errorf("event source leads from %s to %s", show(p["EventSourceArn"]), show(p["FunctionName"]))
	}
	if !slices.ContainsFunc(source.DependsOn, func(s string) bool { return bare(s) == "InterruptionQueuePolicy" }) {
		t.Errorf("event source depends on %v, expected the policy that lets it read", source.DependsOn)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	patterns := map[string]any{
		"SpotInterruption":    map[string]any{"source": []any{"aws.ec2"}, "detail-type": []any{"EC2 Spot Instance Interruption Warning"}},
		"Rebalance":           map[string]any{"source": []any{"aws.ec2"}, "detail-type": []any{"EC2 Instance Rebalance Recommendation"}},
		"StateChange":         map[string]any{"source": []any{"aws.ec2"}, "detail-type": []any{"EC2 Instance State-change Notification"}, "detail": map[string]any{"state": []any{"stopping", "stopped", "shutting-down", "terminated"}}},
		"CapacityReservation": map[string]any{"source": []any{"aws.ec2"}, "detail-type": []any{"EC2 Capacity Reservation Instance Interruption Warning"}},
		"ScheduledChange":     map[string]any{"source": []any{"aws.health"}, "detail-type": []any{"AWS Health Event"}, "detail": map[string]any{"service": []any{"EC2"}, "eventTypeCategory": []any{"scheduledChange"}}},
	}
	if n := len(tp.ofType("AWS::Events::Rule")); n != len(patterns)+1 {
		t.Errorf("%d rules, expected %d and the sweep", n, len(patterns))
	}
	for id, want := range patterns {
		p := tp.get(t, "Interruption"+id+"Rule").Properties
		equal(t, id, p["EventPattern"], want)
		if p["State"] != "ENABLED" {
			t.Errorf("%s is %v", id, p["State"])
		}
		var to []string
		for _, target := range p["Targets"].([]any) {
			tg := target.(map[string]any)
			to = append(to, show(tg["Arn"]))
			if got := show(tg["DeadLetterConfig"]); got != "Arn=${InterruptionDeadLetters.Arn}" {
				t.Errorf("%s to %s: dead letters go to %q", id, show(tg["Arn"]), got)
			}
			if got := show(tg["RetryPolicy"]); got != "MaximumEventAgeInSeconds=3600" {
				t.Errorf("%s to %s: retries %q", id, show(tg["Arn"]), got)
			}
		}
		equal(t, id+" targets", to, []string{"${InterruptionResponder.Arn}", "${InterruptionDrainQueue.Arn}"})
	}
	sweep := tp.get(t, "InterruptionSweepRule").Properties
	if sweep["ScheduleExpression"] != "rate(1 minute)" || sweep["State"] != "ENABLED" {
		t.Errorf("sweep is %v and %v, expected each minute, and on as there is a ledger", sweep["ScheduleExpression"], sweep["State"])
	}
	for id, r := range tp.ofType("AWS::Lambda::Permission") {
		if r.Properties["Action"] != "lambda:InvokeFunction" || r.Properties["Principal"] != "events.amazonaws.com" || !strings.Contains(show(r.Properties["SourceArn"]), "Rule.Arn}") {
			t.Errorf("permission %s: %s", id, show(r.Properties))
		}
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	entry := tp.get(t, "InterruptionAccessEntry").Properties
	equal(t, "functions' access entry", map[string]any{"cluster": entry["ClusterName"], "groups": entry["KubernetesGroups"], "type": entry["Type"]},
		map[string]any{"cluster": "demo", "groups": []any{"weir:interruption"}, "type": "STANDARD"})
	if got := show(entry["PrincipalArn"]); got != "${InterruptionRole.Arn}" {
		t.Errorf("the entry is of %s", got)
	}
	node := tp.get(t, "NodeRoleAccessEntry").Properties
	if node["Type"] != "EC2_LINUX" || node["KubernetesGroups"] != nil || show(node["PrincipalArn"]) != "${NodeRole.Arn}" {
		t.Errorf("nodes' access entry: %s", show(node))
	}
	if got := show(tp.get(t, "NodeRoleProfile").Properties["Roles"]); got != "${NodeRole}" || show(tp.Outputs["NodeInstanceProfile"].(map[string]any)["Value"]) != "${NodeRoleProfile}" {
		t.Errorf("instance profile of %s; outputs %v", got, tp.Outputs)
	}
	pod := tp.get(t, "ScalerRoleAssociation").Properties
	if got := show(pod); got != "ClusterName=demo; Namespace=weir-system; RoleArn=${ScalerRole.Arn}; ServiceAccount=weir" {
		t.Errorf("association: %s", got)
	}
}

// statement is one statement of a policy.
type statement struct {
	id   string // of the resource it is in
	data map[string]any
}

// statements collects every statement of a template, wherever it stands: identity
// policies, trust and resource policies.
func statements(tp template) []statement {
	var out []statement
	var walk func(id string, v any)
	walk = func(id string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["Effect"] != nil {
				out = append(out, statement{id, v})
				return
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(id, v[k])
			}
		case []any:
			for _, x := range v {
				walk(id, x)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tp.Resources)) {
		walk(id, tp.Resources[id].Properties)
	}
	return out
}

func (s statement) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", s.id, s.data["Effect"], show(s.data["Sid"]))
	for _, part := range []string{"Principal", "Action", "Resource", "Condition"} {
		v, ok := s.data[part]
		if !ok {
			continue
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, x := range list {
			if ops, ok := x.(map[string]any); ok && part == "Condition" {
				for _, op := range slices.Sorted(maps.Keys(ops)) {
					fmt.Fprintf(&b, "  Condition %s\n", op+" "+show(ops[op]))
				}
				continue
			}
			fmt.Fprintf(&b, "  %s %s\n", part, show(x))
		}
	}
	return b.String()
}

func TestEveryStatementIsKnown(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# nothing but what is required, and a queue\n")
	for _, s := range statements(synth(t, func(c *Config) { c.Queue = "karpenter" })) {
		b.WriteString(s.String())
	}
	b.WriteString("# every option\n")
	for _, s := range statements(synth(t, everything)) {
		b.WriteString(s.String())
	}
	b.WriteString("# a new cluster\n")
	for _, s := range statements(synthStack(t, variants["cluster"])) {
		b.WriteString(s.String())
	}
	file := filepath.Join("testdata", "statements.golden")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("statements changed; if that is meant: go test ./weircdk -run TestEveryStatement -update (-golden +is):\n%s", diff)
	}
}

func TestStatementsAreNarrow(t *testing.T) {
	t.Parallel()
	for name, tp := range map[string]template{"required": standard(t), "everything": synth(t, everything), "cluster": synthStack(t, variants["cluster"])} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			narrow(t, tp)
		})
	}
}

func narrow(t *testing.T, tp template) {
	all := statements(tp)
	if len(all) < 5 {
		t.Fatalf("only %d statements were found", len(all))
	}
	patterns := map[string]bool{}
	for _, s := range all {
		if s.data["Effect"] == "Allow" {
			allows(t, s)
		}
		if s.data["Principal"] != nil || !strings.Contains(show(s.data["Resource"]), "*") {
			continue
		}
		reasons, _ := tp.Resources[s.id].Metadata[metadataWildcards].(map[string]any)
		sid := show(s.data["Sid"])
		if reason, _ := reasons[sid].(string); reason == "" {
			t.Errorf("%s is about resources that nobody counts, without a reason", s)
		}
		patterns[s.id+"/"+sid] = true
	}
	for id, r := range tp.Resources {
		reasons, _ := r.Metadata[metadataWildcards].(map[string]any)
		for sid := range reasons {
			if !patterns[id+"/"+sid] {
				t.Errorf("%s gives a reason for %s, which has no such resource", id, sid)
			}
		}
	}
}

// allows checks one statement that allows: actions by name, and never anybody.
func allows(t *testing.T, s statement) {
	for _, bad := range []string{"NotAction", "NotResource", "NotPrincipal"} {
		if s.data[bad] != nil {
			t.Errorf("%s allows by %s", s, bad)
		}
	}
	for _, a := range strings.Split(show(s.data["Action"]), ", ") {
		if strings.Contains(a, "*") {
			t.Errorf("%s allows %s", s, a)
		}
	}
	if s.data["Principal"] != nil && strings.Contains(show(s.data["Principal"]), "*") {
		t.Errorf("%s lets anybody in", s)
	}
}

// IAM counts the characters of a managed policy without white space.
func TestPoliciesFit(t *testing.T) {
	t.Parallel()
	longest := synth(t, func(c *Config) {
		c.ClusterName = strings.Repeat("x", 100)
		c.StackName = "Weir-" + c.ClusterName
		c.Queue = strings.Repeat("q", 80)
		c.Namespace, c.ServiceAccount = strings.Repeat("n", 63), strings.Repeat("s", 63)
	})
	policies := longest.ofType("AWS::IAM::ManagedPolicy")
	if len(policies) == 0 {
		t.Fatal("no policies")
	}
	for id, r := range policies {
		b, err := json.Marshal(resolved(r.Properties["PolicyDocument"]))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 6144 {
			t.Errorf("%s has %d characters, the limit is 6144", id, len(b))
		}
	}
}

// resolved replaces functions by values as long as they can be.
func resolved(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = resolved(x)
		}
		return out
	case map[string]any:
		if v["Ref"] != nil || v["Fn::Join"] != nil {
			return strings.NewReplacer("${AWS::Partition}", "aws-us-gov", "${AWS::Region}", "ap-southeast-1", "${AWS::AccountId}", "123456789012").Replace(show(v))
		}
		if v["Fn::GetAtt"] != nil {
			return strings.Repeat("r", 160)
		}
		out := map[string]any{}
		for k, x := range v {
			out[k] = resolved(x)
		}
		return out
	}
	return v
}

func TestExistingNodeRoleIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.NodeRole = "KarpenterNodeRole-demo" })
	for id := range tp.Resources {
		if strings.HasPrefix(id, "NodeRole") {
			t.Errorf("resource %s is made for a role that exists", id)
		}
	}
	var passed string
	for _, s := range statements(tp) {
		if s.data["Sid"] == "AllowNodeRole" {
			passed = show(s.data["Resource"])
		}
	}
	if want := "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/KarpenterNodeRole-demo"; passed != want {
		t.Errorf("the scaler may pass %q, expected %q", passed, want)
	}
	if got := show(tp.Outputs["NodeRoleName"].(map[string]any)["Value"]); got != "KarpenterNodeRole-demo" {
		t.Errorf("output is %q", got)
	}
}

func TestQueueRightsOnlyWithAQueue(t *testing.T) {
	t.Parallel()
	has := func(tp template) bool {
		return slices.ContainsFunc(statements(tp), func(s statement) bool { return s.data["Sid"] == "AllowInterruptionQueue" })
	}
	if has(standard(t)) {
		t.Error("rights on a queue that nobody named")
	}
	if !has(synth(t, func(c *Config) { c.Queue = "karpenter" })) {
		t.Error("no rights on the queue that was named")
	}
}

func TestStackSaysWhatItDoesNot(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	if !strings.Contains(tp.Description, "infra/cdk/README.md for all that is not done") || len(tp.Description) > 1024 {
		t.Errorf("description is %q", tp.Description)
	}
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var told []Gap
	for _, m := range regexp.MustCompile("(?m)^- \\*\\*([a-z-]+)\\*\\*: (.*)$").FindAllStringSubmatch(string(readme), -1) {
		told = append(told, Gap{m[1], m[2]})
	}
	if diff := cmp.Diff(Gaps(), told); diff != "" {
		t.Errorf("README and Gaps differ (-code +README):\n%s", diff)
	}
	for _, k := range Keys() {
		if !strings.Contains(string(readme), "| `"+k.Name+"` |") {
			t.Errorf("README has no row for context %s", k.Name)
		}
	}
}

func TestReadConfig(t *testing.T) {
	t.Parallel()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
	dir, deploy := config(t).LambdaDir, config(t).DeployDir
	good := map[string]string{"clusterName": "my_cluster", "endpoint": "https://ABC.gr7.us-east-1.eks.amazonaws.com", "certificateAuthority": ca, "lambdaDir": dir, "deployDir": deploy}
	for name, tc := range map[string]struct {
		change map[string]string
		want   []string // parts of the error; none = good
	}{
		"good":                                 {nil, nil},
		"nothing":                              {map[string]string{"clusterName": "", "endpoint": "", "certificateAuthority": ""}, []string{"clusterName is missing: set -c clusterName=…", "set -c endpoint=…", "set -c certificateAuthority=…"}},
		"cluster":                              {map[string]string{"clusterName": "a b"}, []string{`"a b", expected letters`, "-c clusterName=…"}},
		"endpoint":                             {map[string]string{"endpoint": "http://x"}, []string{"expected the https URL", "-c endpoint=…"}},
		"authority":                            {map[string]string{"certificateAuthority": "%"}, []string{"is not base64"}},
		"authority, no PEM":                    {map[string]string{"certificateAuthority": "Q0E="}, []string{"no certificate in PEM"}},
		"function not built":                   {map[string]string{"lambdaDir": filepath.Join(dir, "none")}, []string{"build it first (make lambda)", "-c lambdaDir=…"}},
		"installer not built":                  {map[string]string{"deployDir": filepath.Join(dir, "none")}, []string{"build it first (make image lambda-deploy)", "-c deployDir=…", "-c chart=none"}},
		"no image":                             {map[string]string{"deployDir": dir}, []string{"there is no image in " + dir, "make image lambda-deploy", "-c image=…"}},
		"no image, but one is named":           {map[string]string{"deployDir": dir, "image": "r/weir:1"}, nil},
		"no installer needed":                  {map[string]string{"deployDir": filepath.Join(dir, "none"), "chart": "none"}, nil},
		"chart":                                {map[string]string{"chart": "no"}, []string{`"no", expected install or none`}},
		"role with a path":                     {map[string]string{"nodeRole": "teams/blue/Nodes"}, nil},
		"table and no ledger":                  {map[string]string{"table": "shared", "ledger": "none"}, []string{"leave out one of them"}},
		"table ARN":                            {map[string]string{"table": "arn:aws:dynamodb:x"}, []string{"the name of a table, not its ARN"}},
		"subnets alone":                        {map[string]string{"subnets": "subnet-0aaaaaa1"}, []string{"-c securityGroups=…", "-c vpcId=…"}},
		"subnets, one wrong":                   {map[string]string{"subnets": "subnet-0aaaaaa1,x", "vpcId": "vpc-0aaaaaa1"}, []string{`is "x", expected ids of subnets`}},
		"subnets and a group":                  {map[string]string{"subnets": "subnet-0aaaaaa1", "securityGroups": "sg-0aaaaaa1,sg-0123456789abcdef0"}, nil},
		"a group without subnets":              {map[string]string{"securityGroups": "sg-0aaaaaa1"}, []string{"-c subnets=…"}},
		"two sorts of groups":                  {map[string]string{"subnets": "subnet-0aaaaaa1", "securityGroups": "sg-0aaaaaa1", "vpcId": "vpc-0aaaaaa1"}, []string{"leave out securityGroups or them"}},
		"cluster's group alone":                {map[string]string{"clusterSecurityGroup": "sg-0aaaaaa1"}, []string{"-c vpcId=…"}},
		"issuer URL":                           {map[string]string{"oidcIssuer": "https://oidc.eks"}, []string{"an issuer without https://"}},
		"key by alias":                         {map[string]string{"kmsKey": "alias/weir"}, []string{"the ARN of a key, or create"}},
		"topic name":                           {map[string]string{"alarmTopic": "ops"}, []string{"the ARN of an SNS topic"}},
		"boundary":                             {map[string]string{"permissionsBoundary": "arn:aws:iam::123456789012:policy/a/b"}, nil},
		"new cluster":                          {map[string]string{"endpoint": "", "certificateAuthority": "", "newCluster": "1.34", "clusterAdmin": "arn:aws:iam::123456789012:role/Admin"}, nil},
		"new cluster without an administrator": {map[string]string{"endpoint": "", "certificateAuthority": "", "newCluster": "1.34"}, []string{"newCluster and clusterAdmin go together"}},
		"new cluster that is there":            {map[string]string{"newCluster": "1.34", "clusterAdmin": "arn:aws:iam::123456789012:role/Admin"}, []string{"leave them out, or newCluster"}},
		"new cluster with subnets":             {map[string]string{"endpoint": "", "certificateAuthority": "", "newCluster": "1.34", "clusterAdmin": "arn:aws:iam::123456789012:role/Admin", "discoverySubnets": "subnet-0aaaaaa1"}, []string{"of a cluster that exists"}},
		"no version":                           {map[string]string{"newCluster": "yes"}, []string{"expected a minor version"}},
		"reserved concurrency":                 {map[string]string{"reservedConcurrency": "-1"}, []string{"expected a number from 0 to 1000"}},
		"no reserved concurrency":              {map[string]string{"reservedConcurrency": "0"}, nil},
		"repositories":                         {map[string]string{"strategyRepositories": "team/night-owl,team/*,arn:aws:ecr:us-east-1:123456789012:repository/x"}, nil},
		"every repository":                     {map[string]string{"strategyRepositories": "*"}, []string{"names or ARNs of repositories, not URIs"}},
		"repository URI":                       {map[string]string{"strategyRepositories": "team/carbon,123456789012.dkr.ecr.us-east-1.amazonaws.com/team/carbon:v1"}, []string{"names or ARNs of repositories, not URIs"}},
		"parameter ARN":                        {map[string]string{"imageParameters": "/a,arn:aws:ssm:x"}, []string{"names of parameters, not ARNs"}},

		"role ARN":          {map[string]string{"nodeRole": "arn:aws:iam::123456789012:role/x"}, []string{"the name of a role, not its ARN"}},
		"queue URL":         {map[string]string{"queue": "https://sqs/x"}, []string{"the name of a queue"}},
		"image without tag": {map[string]string{"image": "weir"}, []string{"expected a reference"}},
		"ledger":            {map[string]string{"ledger": "bolt"}, []string{"expected dynamodb or none"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := maps.Clone(good)
			maps.Copy(in, tc.change)
			c, err := ReadConfig(func(k string) string { return in[k] })
			if len(tc.want) == 0 {
				if err != nil || c.StackName != "Weir-my-cluster" || c.Namespace != "weir-system" || c.ReservedConcurrency != 10 && in["reservedConcurrency"] == "" {
					t.Errorf("error %v, configuration %+v", err, c)
				}
				return
			}
			for _, w := range tc.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("error %v, expected it to say %q", err, w)
				}
			}
		})
	}
	if err := CheckNames([]string{"clusterNam"}); err == nil || !strings.Contains(err.Error(), "clusterNam is not known") {
		t.Errorf("error %v", err)
	}
}

func TestTooMuchCodeIsRefused(t *testing.T) {
	t.Parallel()
	dir := config(t).DeployDir
	if err := checkSize(dir, lambdaLimit); err != nil {
		t.Error(err)
	}
	if err := checkSize(dir, 10); err == nil || !strings.Contains(err.Error(), "a function may have 10") {
		t.Errorf("error %v", err)
	}
	if err := checkSize(filepath.Join(dir, "none"), 10); err == nil {
		t.Error("a folder that is not there has no size")
	}
}

// The end of the stack reaches the cluster by one resource, the release, whose function
// removes the scaler and leaves definitions, pools and machines (lambda/deploy has the
// tests). It goes first, while its rights are there. The memory stays.
func TestDeletionReachesTheClusterOnce(t *testing.T) {
	t.Parallel()
	tables := 0
	for id, r := range standard(t).Resources {
		if !strings.HasPrefix(r.Type, "AWS::") && r.Type != "Custom::WeirRelease" || r.Type == "AWS::CloudFormation::CustomResource" {
			t.Errorf("%s is a %s: it acts when the stack is deleted", id, r.Type)
		}
		if strings.HasPrefix(r.Type, "AWS::EKS::") && r.Type != "AWS::EKS::AccessEntry" && r.Type != "AWS::EKS::PodIdentityAssociation" {
			t.Errorf("%s is a %s", id, r.Type)
		}
		if r.Type == "AWS::DynamoDB::Table" || r.Type == "AWS::DynamoDB::GlobalTable" {
			tables++
			if r.DeletionPolicy != "Retain" {
				t.Errorf("%s is deleted with the stack (%q)", id, r.DeletionPolicy)
			}
		}
	}
	if tables == 0 {
		t.Error("the stack has no table")
	}
	for _, id := range []string{"NodeRole", "NodeRoleAccessEntry", "NodeRoleProfile"} {
		if p := standard(t).get(t, id).DeletionPolicy; p != "RetainExceptOnCreate" {
			t.Errorf("%s is deleted with the stack (%q), while machines need it", id, p)
		}
	}
}
