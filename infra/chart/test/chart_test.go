package test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

const (
	chartDir  = ".."
	crdsDir   = "../../chart-crds"
	release   = "weir"
	namespace = "weir-system"
)

// least is what has to be set at the least.
func least() map[string]any {
	return map[string]any{
		"clusterName": "demo",
		"image":       map[string]any{"repository": "registry.example/weir", "digest": "sha256:" + strings.Repeat("a", 64)},
		"cloud":       map[string]any{"kind": "sim", "address": "http://simcloud.example:8090"},
	}
}

// onEC2 is the least that has to be set to buy on EC2.
func onEC2(values map[string]any) map[string]any {
	return with(chartutil.CoalesceTables(values, map[string]any{
		"cloud": map[string]any{"kind": "aws", "address": ""}, "config": map[string]any{"region": "eu-west-1"},
	}))
}

func with(values map[string]any) map[string]any {
	return chartutil.CoalesceTables(values, least())
}

// capabilities are those of a cluster of a version.
func capabilities(version string) *chartutil.Capabilities {
	c := *chartutil.DefaultCapabilities
	v, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		panic(err) // a literal of these files
	}
	c.KubeVersion = *v
	return &c
}

// render gives the objects of a chart in the order of their files, on a cluster of today.
func render(dir string, values map[string]any, installed ...*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	return renderOn(capabilities("v1.37.2"), dir, values, installed...)
}

func renderOn(on *chartutil.Capabilities, dir string, values map[string]any, installed ...*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true, Revision: 1}
	full, err := chartutil.ToRenderValues(c, values, options, on)
	if err != nil {
		return nil, err
	}
	files, err := engine.RenderWithClientProvider(c, full, cluster(installed))
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for doc := range strings.SplitSeq(files[name], "\n---") {
			u := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(doc), &u.Object); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, doc)
			}
			if len(u.Object) > 0 {
				out = append(out, u)
			}
		}
	}
	return out, nil
}

// cluster is what a template's lookup sees.
type cluster []*unstructured.Unstructured

func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, false, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
	var objects []runtime.Object
	for _, u := range c {
		objects = append(objects, u)
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: kind + "List"}, objects...)
	return client.Resource(resource), false, nil
}

func must(t *testing.T, dir string, values map[string]any, installed ...*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	out, err := render(dir, values, installed...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	var have []string
	for _, u := range objects {
		if u.GetKind() == kind && u.GetName() == name {
			return u
		}
		have = append(have, u.GetKind()+" "+u.GetName())
	}
	t.Fatalf("no %s %s; there are %s", kind, name, strings.Join(have, ", "))
	return nil
}

func at(t *testing.T, u *unstructured.Unstructured, path ...string) any {
	t.Helper()
	v, ok, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil || !ok {
		t.Fatalf("%s %s: no field %s: %v", u.GetKind(), u.GetName(), strings.Join(path, "."), err)
	}
	return v
}

// yamlOf is the value in a form that tests can write down.
func yamlOf(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLint(t *testing.T) {
	t.Parallel()
	for dir, values := range map[string]map[string]any{chartDir: with(map[string]any{"interruption": map[string]any{"enabled": true}}), crdsDir: {}} {
		for _, m := range lint.AllWithKubeVersion(dir, values, namespace, nil).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %s", dir, m)
			}
		}
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	t.Parallel()
	none := strings.Repeat("x", 101)
	for name, tc := range map[string]struct {
		values map[string]any
		want   string
	}{
		"aws, no region":       {map[string]any{"cloud": map[string]any{"kind": "aws", "address": ""}}, "config.region is missing"},
		"aws, an address":      {map[string]any{"cloud": map[string]any{"kind": "aws"}, "config": map[string]any{"region": "eu-west-1"}}, "cloud.address is set and cloud.kind is aws"},
		"no table":             {map[string]any{"ledger": "dynamodb", "config": map[string]any{"region": "eu-west-1"}}, "ledgerTable is missing"},
		"no region":            {map[string]any{"ledger": "dynamodb", "ledgerTable": "weir"}, "config.region is missing"},
		"bolt with a table":    {map[string]any{"ledgerTable": "weir"}, "the table is for ledger=dynamodb"},
		"other ledger":         {map[string]any{"ledger": "sqlite"}, "ledger"},
		"no cluster":           {map[string]any{"clusterName": ""}, "clusterName is missing"},
		"long cluster":         {map[string]any{"clusterName": none}, "clusterName"},
		"no address":           {map[string]any{"cloud": map[string]any{"address": ""}}, "cloud.address is missing"},
		"no image":             {map[string]any{"image": map[string]any{"repository": ""}}, "image.repository is missing"},
		"no digest, no tag":    {map[string]any{"image": map[string]any{"digest": ""}}, "image.digest is missing"},
		"bad digest":           {map[string]any{"image": map[string]any{"digest": "sha256:x"}}, "digest"},
		"unknown value":        {map[string]any{"replicaCount": 3}, "replicaCount"},
		"unknown in image":     {map[string]any{"image": map[string]any{"name": "x"}}, "name"},
		"config of a value":    {map[string]any{"config": map[string]any{"ledger": map[string]any{"kind": "none"}}}, "ledger"},
		"strategy, no command": {strategyImage("init", nil), "command"},
		"strategy, a command":  {strategyImage("volume", []any{"cp"}), "command"},
		"strategy, no source":  {map[string]any{"strategyImages": map[string]any{"carbon": map[string]any{"image": "x"}}}, "source"},
		"strategy, bad name":   {map[string]any{"strategyImages": map[string]any{"Carbon": map[string]any{"image": "x", "source": "volume"}}}, "Carbon"},
		"strategy, no image":   {map[string]any{"config": map[string]any{"strategies": map[string]any{"wind": map[string]any{"path": "/strategies/wind/w"}}}}, "there is no strategyImages.wind"},
		"sidecar, bad name":    {map[string]any{"strategySidecars": map[string]any{"Carbon": map[string]any{"image": "x"}}}, "Carbon"},
		"sidecar, no image":    {map[string]any{"strategySidecars": map[string]any{"carbon": map[string]any{"user": 7000}}}, "image"},
		"sidecar, no limit":    {badSidecar(map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": "1"}}}, nil), "memory"},
		"sidecar, our user":    {badSidecar(map[string]any{"user": 65532}, nil), "user"},
		"sidecar, root":        {badSidecar(map[string]any{"user": 0}, nil), "user"},
		"sidecars, one user":   {badSidecar(map[string]any{"user": 7000}, nil), "strategySidecars.wind.user is 7000, as that of carbon"},
		"sidecar, our env":     {badSidecar(map[string]any{"env": []any{map[string]any{"name": "WEIR_STRATEGY_SOCKET", "value": "/x"}}}, nil), "env"},
		"sidecar, mounts":      {badSidecar(map[string]any{"volumeMounts": []any{}}, nil), "volumeMounts"},
		"sidecar, no kind":     {badSidecar(nil, map[string]any{"kind": ""}), "config.strategies.carbon.kind is missing"},
		"sidecar, a path":      {badSidecar(nil, map[string]any{"path": "/carbon"}), "config.strategies.carbon.path is set"},
		"sidecar, a socket":    {badSidecar(nil, map[string]any{"socket": "/tmp/s"}), "config.strategies.carbon.socket is set"},
		"sidecar, not there":   {map[string]any{"config": map[string]any{"strategies": map[string]any{"x": map[string]any{"isolation": "container"}}}}, "there is no strategySidecars.x"},
		"interval":             {map[string]any{"serviceMonitor": map[string]any{"enabled": true, "interval": "often"}}, "interval"},
		"unknown in policy":    {map[string]any{"networkPolicy": map[string]any{"enable": true}}, "enable"},
		"reserved group":       {map[string]any{"interruption": map[string]any{"enabled": true, "group": "system:masters"}}, "group"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render(chartDir, with(tc.values))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, expected it to say %q", err, tc.want)
			}
		})
	}
}

// badSidecar are the sidecars of other tests with something changed in carbon's values and configuration.
func badSidecar(values, config map[string]any) map[string]any {
	if values == nil { // nil takes what is below away
		values = map[string]any{}
	}
	if config == nil {
		config = map[string]any{}
	}
	return chartutil.CoalesceTables(map[string]any{
		"strategySidecars": map[string]any{"carbon": values}, "config": map[string]any{"strategies": map[string]any{"carbon": config}},
	}, sidecars())
}

const tokenVolume = "- name: token\n  projected:\n    sources:\n    - serviceAccountToken:\n        expirationSeconds: 3607\n        path: token\n" +
	"    - configMap:\n        items:\n        - key: ca.crt\n          path: ca.crt\n        name: kube-root-ca.crt\n" +
	"    - downwardAPI:\n        items:\n        - fieldRef:\n            fieldPath: metadata.namespace\n          path: namespace\n"

func TestDeployment(t *testing.T) {
	t.Parallel()
	d := find(t, must(t, chartDir, with(nil)), "Deployment", "weir")
	spec := at(t, d, "spec").(map[string]any)
	pod := at(t, d, "spec", "template", "spec").(map[string]any)
	containers := pod["containers"].([]any)
	if len(containers) != 1 {
		t.Fatalf("%d containers, expected 1", len(containers))
	}
	c := containers[0].(map[string]any)
	for what, tc := range map[string]struct {
		got  any
		want string
	}{
		"replicas":           {spec["replicas"], "1\n"},
		"strategy":           {spec["strategy"], "type: Recreate\n"},
		"image":              {c["image"], "registry.example/weir@sha256:" + strings.Repeat("a", 64) + "\n"},
		"pod security":       {pod["securityContext"], "fsGroup: 65532\nrunAsGroup: 65532\nrunAsNonRoot: true\nrunAsUser: 65532\nseccompProfile:\n  type: RuntimeDefault\n"},
		"container security": {c["securityContext"], "allowPrivilegeEscalation: false\ncapabilities:\n  drop:\n  - ALL\nreadOnlyRootFilesystem: true\n"},
		"off its own machines": {at(t, d, "spec", "template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
			"nodeSelectorTerms:\n- matchExpressions:\n  - key: karpenter.sh/nodepool\n    operator: DoesNotExist\n"},
		"volumes": {pod["volumes"], "- configMap:\n    name: weir\n  name: config\n- emptyDir:\n    sizeLimit: 1Gi\n  name: ledger\n" +
			tokenVolume +
			"- emptyDir:\n    sizeLimit: 2Gi\n  name: fetched\n- emptyDir:\n    sizeLimit: 64Mi\n  name: tmp\n"},
		"args": {c["args"], "- --config\n- /etc/weir/config.yaml\n"},
	} {
		if got := yamlOf(t, tc.got); got != tc.want {
			t.Errorf("%s: %s, expected %s", what, got, tc.want)
		}
	}
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		if c[probe] == nil {
			t.Errorf("no %s", probe)
		}
	}
	resources := c["resources"].(map[string]any)
	if resources["requests"] == nil || resources["limits"] == nil {
		t.Errorf("resources are %v", resources)
	}
}

// TestTwoReplicasWithATable: what the table makes possible is there, and the file is not.
func TestTwoReplicasWithATable(t *testing.T) {
	t.Parallel()
	objects := must(t, chartDir, with(map[string]any{
		"ledger": "dynamodb", "ledgerTable": "weir-demo", "config": map[string]any{"region": "eu-west-1"}, "interruption": map[string]any{"enabled": true},
	}))
	d := find(t, objects, "Deployment", "weir")
	spread := ""
	for _, key := range []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"} {
		spread += "- labelSelector:\n    matchLabels:\n      app.kubernetes.io/instance: weir\n      app.kubernetes.io/name: weir\n  maxSkew: 1\n  topologyKey: " + key + "\n  whenUnsatisfiable: ScheduleAnyway\n"
	}
	for what, tc := range map[string]struct {
		got  any
		want string
	}{
		"replicas": {at(t, d, "spec", "replicas"), "2\n"},
		"strategy": {at(t, d, "spec", "strategy"), "rollingUpdate:\n  maxSurge: 1\n  maxUnavailable: 1\ntype: RollingUpdate\n"},
		"spread":   {at(t, d, "spec", "template", "spec", "topologySpreadConstraints"), spread},
		"volumes":  {at(t, d, "spec", "template", "spec", "volumes"), "- configMap:\n    name: weir\n  name: config\n" + tokenVolume + "- emptyDir:\n    sizeLimit: 2Gi\n  name: fetched\n- emptyDir:\n    sizeLimit: 64Mi\n  name: tmp\n"},
	} {
		if got := yamlOf(t, tc.got); got != tc.want {
			t.Errorf("%s: %s, expected %s", what, got, tc.want)
		}
	}
	text := at(t, find(t, objects, "ConfigMap", "weir"), "data", "config.yaml").(string)
	for _, want := range []string{"ledger:\n  kind: dynamodb\n  table: weir-demo\n", "replicas: 2\n", "interruption:\n  lambda: true\n", "region: eu-west-1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the configuration lacks %q:\n%s", want, text)
		}
	}
}

func TestTagInsteadOfDigest(t *testing.T) {
	t.Parallel()
	d := find(t, must(t, chartDir, with(map[string]any{"image": map[string]any{"digest": "", "tag": "v1"}})), "Deployment", "weir")
	c := at(t, d, "spec", "template", "spec", "containers").([]any)[0].(map[string]any)
	if c["image"] != "registry.example/weir:v1" {
		t.Errorf("image is %v", c["image"])
	}
}

func TestConfigurationIsValid(t *testing.T) {
	t.Parallel()
	objects := must(t, chartDir, with(map[string]any{"config": map[string]any{
		"zones": []any{"us-east-1a"}, "cloud": map[string]any{"catalogue": "/c.json"}, "log": map[string]any{"level": "debug"}, "batch": map[string]any{"idle": "2s"},
	}}))
	text := at(t, find(t, objects, "ConfigMap", "weir"), "data", "config.yaml").(string)
	want := `admin:
  configMap: weir-strategies
  enabled: true
  port: 8082
apiVersion: config.weir.dev/v1alpha1
batch:
  idle: 2s
cloud:
  address: http://simcloud.example:8090
  catalogue: /c.json
  kind: sim
cluster: demo
health:
  port: 8081
kind: ScalerConfiguration
leaderElection:
  karpenterName: karpenter-leader-election
  karpenterNamespace: kube-system
  name: weir-leader-election
  namespace: weir-system
ledger:
  kind: bolt
  path: /var/lib/weir/ledger.db
log:
  level: debug
metrics:
  port: 8080
replicas: 1
strategyBinary: /weir-strategy
strategyFolder: /var/cache/weir/strategies
zones:
- us-east-1a
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("configuration (-expected +is):\n%s", diff)
	}
	validConfig(t, text)
}

// validConfig holds a configuration to the schema of the scaler's.
func validConfig(t *testing.T, text string) {
	t.Helper()
	schemaJSON, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "configuration.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := chartutil.ValidateAgainstSingleSchema(values, schemaJSON); err != nil {
		t.Errorf("the scaler would refuse it: %v", err)
	}
	values["ledgers"] = "x"
	if err := chartutil.ValidateAgainstSingleSchema(values, schemaJSON); err == nil {
		t.Error("the schema accepts an unknown field, so that this test proves nothing")
	}
}

// rules flattens a role: "verb group/resource[name]".
func rules(t *testing.T, role *unstructured.Unstructured) []string {
	t.Helper()
	var out []string
	list := func(r map[string]any, key string) []string {
		got, _, err := unstructured.NestedStringSlice(r, key)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, x := range at(t, role, "rules").([]any) {
		r := x.(map[string]any)
		names := ""
		if n := list(r, "resourceNames"); len(n) > 0 {
			names = "[" + strings.Join(n, ",") + "]"
		}
		for _, g := range list(r, "apiGroups") {
			for _, resource := range list(r, "resources") {
				for _, verb := range list(r, "verbs") {
					out = append(out, strings.TrimPrefix(g+"/", "/")+resource+names+" "+verb)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// What core/kube calls, and nothing else.
var scalerRules = []string{
	"apps/daemonsets list", "apps/daemonsets watch",
	"events create",
	"karpenter.k8s.aws/ec2nodeclasses list", "karpenter.k8s.aws/ec2nodeclasses watch",
	"karpenter.sh/nodeclaims create", "karpenter.sh/nodeclaims delete", "karpenter.sh/nodeclaims get", "karpenter.sh/nodeclaims list", "karpenter.sh/nodeclaims patch", "karpenter.sh/nodeclaims watch",
	"karpenter.sh/nodeclaims/finalizers update",
	"karpenter.sh/nodeclaims/status patch",
	"karpenter.sh/nodepools get", "karpenter.sh/nodepools list", "karpenter.sh/nodepools patch", "karpenter.sh/nodepools watch",
	"karpenter.sh/nodepools/finalizers update",
	"karpenter.sh/nodepools/status patch",
	"namespaces list", "namespaces watch",
	"nodes delete", "nodes get", "nodes list", "nodes patch", "nodes watch",
	"persistentvolumeclaims list", "persistentvolumeclaims watch", "persistentvolumes list", "persistentvolumes watch",
	"pods delete", "pods list", "pods watch",
	"pods/eviction create",
	"policy/poddisruptionbudgets list", "policy/poddisruptionbudgets watch",
	"storage.k8s.io/csinodes list", "storage.k8s.io/csinodes watch", "storage.k8s.io/storageclasses list", "storage.k8s.io/storageclasses watch",
	"storage.k8s.io/volumeattachments list", "storage.k8s.io/volumeattachments watch",
}

// What core/kube calls for default spread constraints.
var spreadRules = []string{
	"apps/replicasets list", "apps/replicasets watch", "apps/statefulsets list", "apps/statefulsets watch",
	"replicationcontrollers list", "replicationcontrollers watch", "services list", "services watch",
}

// What core/kube/direct calls but for deleting pods past their budgets.
var functionRules = []string{
	"events create",
	"karpenter.sh/nodeclaims delete", "karpenter.sh/nodeclaims get", "karpenter.sh/nodeclaims list", "karpenter.sh/nodeclaims patch",
	"karpenter.sh/nodepools get",
	"nodes get", "nodes list", "nodes patch",
	"pods get", "pods list",
	"pods/eviction create",
}

func TestRights(t *testing.T) {
	t.Parallel()
	objects := must(t, chartDir, with(map[string]any{
		"interruption":   map[string]any{"enabled": true, "group": "team:functions"},
		"karpenterLease": map[string]any{"name": "theirs", "namespace": "karpenter"},
		"config":         map[string]any{"schedulerConfig": spreadDefaults},
	}))
	cluster := slices.Sorted(slices.Values(append(slices.Clone(scalerRules), spreadRules...)))
	lease := func(name string) []string {
		return []string{"coordination.k8s.io/leases create", "coordination.k8s.io/leases[" + name + "] get", "coordination.k8s.io/leases[" + name + "] update"}
	}
	for _, tc := range []struct {
		kind, name, namespace string
		rules                 []string
		subject               string
	}{
		{"ClusterRole", "weir-system:weir", "", cluster, "ServiceAccount weir-system/weir"},
		{"ClusterRole", "weir-system:weir:interruption", "", functionRules, "Group /team:functions"},
		{"Role", "weir", "weir-system", lease("weir-leader-election"), "ServiceAccount weir-system/weir"},
		{"Role", "weir-karpenter-lease", "karpenter", lease("theirs"), "ServiceAccount weir-system/weir"},
	} {
		role, binding := find(t, objects, tc.kind, tc.name), find(t, objects, tc.kind+"Binding", tc.name)
		if diff := cmp.Diff(tc.rules, rules(t, role)); diff != "" {
			t.Errorf("%s %s (-expected +is):\n%s", tc.kind, tc.name, diff)
		}
		if role.GetNamespace() != tc.namespace || binding.GetNamespace() != tc.namespace {
			t.Errorf("%s is in %q and its binding in %q, expected %q", tc.name, role.GetNamespace(), binding.GetNamespace(), tc.namespace)
		}
		if ref := at(t, binding, "roleRef").(map[string]any); ref["kind"] != tc.kind || ref["name"] != tc.name {
			t.Errorf("binding %s is to %v", tc.name, ref)
		}
		s := at(t, binding, "subjects").([]any)
		who := s[0].(map[string]any)
		ns, _ := who["namespace"].(string)
		if got := fmt.Sprintf("%v %s/%v", who["kind"], ns, who["name"]); got != tc.subject || len(s) != 1 {
			t.Errorf("binding %s is of %s (%d subjects), expected %s", tc.name, got, len(s), tc.subject)
		}
	}
}

// Buying on EC2 needs, beyond the rest, what core/kube's NodeClasses write and the address of the DNS that cmd/weir-scaler reads.
func TestRightsOnEC2(t *testing.T) {
	t.Parallel()
	objects := must(t, chartDir, onEC2(nil))
	want := append(slices.Clone(scalerRules), "karpenter.k8s.aws/ec2nodeclasses patch", "karpenter.k8s.aws/ec2nodeclasses/status update")
	slices.Sort(want)
	if diff := cmp.Diff(want, rules(t, find(t, objects, "ClusterRole", "weir-system:weir"))); diff != "" {
		t.Errorf("cluster-wide (-expected +is):\n%s", diff)
	}
	role, binding := find(t, objects, "Role", "weir-dns"), find(t, objects, "RoleBinding", "weir-dns")
	if diff := cmp.Diff([]string{"services[kube-dns] get"}, rules(t, role)); diff != "" {
		t.Errorf("in kube-system (-expected +is):\n%s", diff)
	}
	if role.GetNamespace() != "kube-system" || binding.GetNamespace() != "kube-system" {
		t.Errorf("role is in %q and its binding in %q, expected kube-system", role.GetNamespace(), binding.GetNamespace())
	}
	if got, want := yamlOf(t, at(t, binding, "roleRef")), "apiGroup: rbac.authorization.k8s.io\nkind: Role\nname: weir-dns\n"; got != want {
		t.Errorf("binding is to %s", got)
	}
	if got, want := yamlOf(t, at(t, binding, "subjects")), "- kind: ServiceAccount\n  name: weir\n  namespace: weir-system\n"; got != want {
		t.Errorf("binding is of %s", got)
	}
	for _, u := range must(t, chartDir, with(nil)) {
		if u.GetName() == "weir-dns" {
			t.Errorf("%s weir-dns is there although cloud.kind is sim", u.GetKind())
		}
	}
}

func TestOnEC2(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::111122223333:role/weir"
	objects := must(t, chartDir, onEC2(map[string]any{"serviceAccount": map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": role}}}))
	if got := find(t, objects, "ServiceAccount", "weir").GetAnnotations()["eks.amazonaws.com/role-arn"]; got != role {
		t.Errorf("role of the service account is %q, expected %q", got, role)
	}
	text := at(t, find(t, objects, "ConfigMap", "weir"), "data", "config.yaml").(string)
	for _, want := range []string{"cloud:\n  address: \"\"\n  kind: aws\n", "region: eu-west-1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the configuration lacks %q:\n%s", want, text)
		}
	}
	validConfig(t, text)
}

func TestFunctionsGetNothingUnlessAsked(t *testing.T) {
	t.Parallel()
	for _, u := range must(t, chartDir, with(nil)) {
		if strings.Contains(u.GetName(), "interruption") {
			t.Errorf("%s %s is there although interruption.enabled is false", u.GetKind(), u.GetName())
		}
	}
}

func TestSelectorsMeet(t *testing.T) {
	t.Parallel()
	// A label of the user's must not change what selects the pod.
	objects := must(t, chartDir, with(map[string]any{"podLabels": map[string]any{"app.kubernetes.io/name": "other", "team": "a"}}))
	d := find(t, objects, "Deployment", "weir")
	labels := at(t, d, "spec", "template", "metadata", "labels").(map[string]any)
	if labels["team"] != "a" {
		t.Errorf("labels of the pod are %v", labels)
	}
	for what, selector := range map[string]any{
		"deployment": at(t, d, "spec", "selector", "matchLabels"),
		"service":    at(t, find(t, objects, "Service", "weir"), "spec", "selector"),
		"budget":     at(t, find(t, objects, "PodDisruptionBudget", "weir"), "spec", "selector", "matchLabels"),
	} {
		for k, v := range selector.(map[string]any) {
			if labels[k] != v {
				t.Errorf("%s selects %s=%v, the pod has %v", what, k, v, labels[k])
			}
		}
	}
}

const keep = "helm.sh/resource-policy"

func TestCRDsAreTheGeneratedOnesAndAreKept(t *testing.T) {
	t.Parallel()
	objects := must(t, crdsDir, nil)
	files, err := filepath.Glob("../../crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no generated definitions: %v", err)
	}
	if len(objects) != len(files) {
		t.Errorf("%d definitions, expected %d", len(objects), len(files))
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		want := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(b, &want.Object); err != nil {
			t.Fatal(err)
		}
		got := find(t, objects, "CustomResourceDefinition", want.GetName())
		if got.GetAnnotations()[keep] != "keep" {
			t.Errorf("%s may be deleted: %v", got.GetName(), got.GetAnnotations())
		}
		if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
			t.Errorf("%s differs from the generated one:\n%s", f, diff)
		}
	}
}

func TestForeignAndNewerCRDsAreLeftAlone(t *testing.T) {
	t.Parallel()
	const name = "nodepools.karpenter.sh"
	ours := map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
	const recorded = "weir.dev/crds-spec"
	now := find(t, must(t, crdsDir, nil), "CustomResourceDefinition", name)
	old := now.DeepCopy()
	old.Object["spec"].(map[string]any)["names"].(map[string]any)["shortNames"] = []any{"np"}
	const ofOld = "0123" // recorded of another one
	version := func(v, hash string) map[string]string {
		out := maps.Clone(ours)
		out["weir.dev/crds-version"], out[recorded] = v, hash
		return out
	}
	hash := now.GetAnnotations()[recorded]
	if len(hash) != 64 {
		t.Fatalf("recorded of %s is %q, expected a SHA-256", name, hash)
	}
	for what, tc := range map[string]struct {
		annotations map[string]string
		spec        *unstructured.Unstructured
		applied     bool
	}{
		"of nobody":                      {nil, now, false},
		"of Karpenter":                   {map[string]string{"meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system"}, now, false},
		"of another place":               {map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "elsewhere"}, now, false},
		"ours, nothing recorded":         {ours, now, true},
		"ours, nothing recorded, edited": {ours, old, false},
		"ours, older":                    {version("0.0.9", specHash(t, old)), old, true},
		"ours, older, edited":            {version("0.0.9", ofOld), old, false},
		"ours, edited back to ours":      {version("0.0.9", ofOld), now, true},
		"ours, the same":                 {version("0.1.0", hash), now, true},
		"ours, the same, edited":         {version("0.1.0", hash), old, false},
		"ours, newer":                    {version("0.2.0", hash), now, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			have := tc.spec.DeepCopy()
			have.SetAnnotations(tc.annotations)
			// As the API server has it.
			have.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "None"}
			objects := must(t, crdsDir, nil, have)
			applied := slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetName() == name })
			if applied != tc.applied {
				t.Errorf("applied: %v, expected %v", applied, tc.applied)
			}
			if len(objects) < 2 {
				t.Errorf("only %d definitions: the others are not there and must be applied", len(objects))
			}
		})
	}
}

// specHash is what the chart records of a definition.
func specHash(t *testing.T, crd *unstructured.Unstructured) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	if err := e.Encode(crd.Object["spec"]); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(bytes.TrimSpace(b.Bytes())))
}
