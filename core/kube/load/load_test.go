package load_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// text loads from standard input.
func text(t *testing.T, input string) (*load.Input, error) {
	t.Helper()
	return load.Files([]string{"-"}, strings.NewReader(input), load.Options{})
}

func must(t *testing.T, input string) *load.Input {
	t.Helper()
	in, err := text(t, input)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func ids(pods []*model.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.ID())
	}
	return out
}

func TestSeed(t *testing.T) {
	t.Parallel()
	in, err := load.Files([]string{"testdata/seed"}, nil, load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := in.World(time.Unix(0, 0))
	if len(w.Pools) != 2 || w.Pools[0].Name != "default-amd" || w.Pools[0].Unusable != "" || w.Pools[1].Unusable != "" || w.NodeClasses["default"] == nil {
		t.Errorf("pools %+v", w.Pools)
	}
	if len(w.Pods) != 10 {
		t.Fatalf("%d pods", len(w.Pods))
	}
	for i, p := range w.Pods {
		if p.ID() != fmt.Sprintf("default/test-karpenter-%d", i) || !p.Requests.Equal(resource.New(2000, 4<<30, 1, 0)) || p.GracePeriod != 0 || !p.Unschedulable || p.Owner.Kind != "ReplicaSet" {
			t.Errorf("%d: %+v", i, p)
		}
	}
	want := []string{
		"testdata/seed/karpenter-cfn.yaml: not of a kind that is read: an object without apiVersion and kind",
		"testdata/seed/kustomization.yaml: not of a kind that is read: Kustomization kustomize.config.k8s.io/v1beta1",
	}
	if d := cmp.Diff(want, in.Warnings); d != "" {
		t.Error(d)
	}
}

const class = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
---
`

const pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template:
    spec:
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
`

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}
`

func TestRefused(t *testing.T) {
	t.Parallel()
	pod := func(spec string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {" + spec + "}\n"
	}
	for name, tt := range map[string]struct{ input, want string }{
		"broken YAML":            {"a: b\nc: [d\n", "-: document 1: broken YAML: yaml: line"},
		"broken in document two": {pool + "---\nkind: {\n", "-: document 2: broken YAML: yaml: line 1"},
		"broken JSON":            {"{\"kind\": \"Pod\",\n\"apiVersion\": \"v1\" \"metadata\": {}}" + strings.Repeat(" ", 1<<20), "-: document 1: broken JSON at line 2"},
		"a text":                 {"hello world\n", "-: document 1: expected an object or a list of objects, got \"hello world\""},
		"empty":                  {"", "-: the file holds no object"},
		"only comments":          {"# nothing\n---\n", "-: the file holds no object"},
		"only unknown kinds":     {"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", "-: nothing in it is of a kind that is read: Service v1"},
		"unknown field of a pool": {pool + "  wait: 1m\n",
			"-: document 1 (NodePool p): spec.wait: unknown field"},
		"operator of a pool": {strings.Replace(pool, "operator: In", "operator: Is", 1),
			"-: document 1 (NodePool p): spec.template.spec.requirements[0].operator: Unsupported value"},
		"limit of nonsense": {pool + "  limits: {cpu: lots}\n", "-: document 1 (NodePool p): spec.limits.cpu: "},
		"old version":       {strings.Replace(pool, "karpenter.sh/v1", "karpenter.sh/v1beta1", 1), "-: document 1 (NodePool): apiVersion: karpenter.sh/v1beta1 is not served, expected karpenter.sh/v1"},
		"no apiVersion":     {strings.Replace(pool, "apiVersion: karpenter.sh/v1", "", 1), "-: document 1 (NodePool): apiVersion: is missing"},
		"twice":             {pool + "---" + pool, "-: document 2 (NodePool p): metadata.name: is there twice: -: document 1 has it already"},
		"pod twice": {`[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}},{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}]`,
			"-: document 1 (Pod default/a): [1].metadata.name: is there twice: -: document 1, item 0 has it already"},
		"quantity of a pod": {pod("containers: [{name: a, resources: {requests: {cpu: 2 cores}}}]"),
			"-: document 1 (Pod default/a): spec.containers[0].resources.requests[cpu]: \"2 cores\" is not a quantity"},
		"quantity of a deployment": {strings.Replace(deployment, "cpu: 1", "cpu: one", 1),
			"-: document 1 (Deployment web): spec.template.spec.containers[0].resources.requests[cpu]: \"one\" is not a quantity"},
		"negative request": {pod("containers: [{name: a, resources: {requests: {memory: -1Gi}}}]"),
			"-: document 1 (Pod default/a): spec.containers[0].resources.requests[memory]: must be greater than or equal to 0, got -1Gi"},
		"request above limit": {pod("containers: [{name: a, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]"),
			"-: document 1 (Pod default/a): spec.containers[0].resources.requests[cpu]: must be at most the limit of 1, got 2"},
		"wrong type": {pod("containers: [{name: a}], terminationGracePeriodSeconds: soon"),
			"-: document 1 (Pod default/a): spec.terminationGracePeriodSeconds: expected a whole number (int64), got string"},
		"no containers":   {pod("nodeSelector: {a: b}"), "-: document 1 (Pod default/a): spec.containers: expected at least one container"},
		"operator of pod": {pod("containers: [{name: a}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gte, values: ['1']}]}]}}}"), `matchExpressions[0].operator: "Gte" is not an operator`},
		"toleration":      {pod("containers: [{name: a}], tolerations: [{key: a, operator: Is}]"), `spec.tolerations[0].operator: "Is" is not an operator`},
		"no domains at least": {pod("containers: [{name: a}], topologySpreadConstraints: [{maxSkew: 1, minDomains: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]"),
			"spec.topologySpreadConstraints[0].minDomains: must be greater than zero, got 0"},
		"domains of a wish": {pod("containers: [{name: a}], topologySpreadConstraints: [{maxSkew: 1, minDomains: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]"),
			"spec.topologySpreadConstraints[0].minDomains: can only be used with whenUnsatisfiable DoNotSchedule"},
		"UTF-16":                   {"\xff\xfea\x00:\x00 \x00b\x00", "-: is UTF-16, expected UTF-8"},
		"broken after an end mark": {pool + "...\na: [\n", "-: document 2: broken YAML"},
		"name":                     {strings.Replace(pod("containers: [{name: a}]"), "name: a", "name: A_b", 1), "metadata.name"},
		"selector and labels differ": {strings.Replace(deployment, "{labels: {app: web}}", "{labels: {app: other}}", 1),
			"`selector` does not match template `labels`"},
		"negative replicas": {strings.Replace(deployment, "replicas: 3", "replicas: -3", 1), "spec.replicas: must be greater than or equal to 0, got -3"},
		"budget": {"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {maxUnavailable: 1, minAvailable: 1}\n",
			"cannot be both set"},
		"item of a list": {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(pod("nodeSelector: {a: b}")), "\n", "\n  ") + "\n",
			"-: document 1 (Pod default/a): items[0].spec.containers: expected at least one container"},
		"items that are no list": {"apiVersion: v1\nkind: List\nitems: 7\n", "-: document 1 (List): items: expected a list, got 7"},
		"duplicate key":          {"apiVersion: v1\nkind: Pod\nkind: Pod\n", `key "kind" already set in map`},
		"kind of a number":       {"apiVersion: v1\nkind: 7\n", "-: document 1: kind: expected a string, got 7"},
		"too many replicas":      {strings.Replace(deployment, "replicas: 3", "replicas: 2000000000", 1), "spec.replicas: 2000000000 are more than"},
		"metadata of a pod":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: 7}}\nspec: {containers: [{name: a}]}\n", "metadata.labels: expected texts by name"},
		"spec is null":           {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: null\n", "spec: expected an object with containers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := text(t, tt.input)
			var e *load.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want a *load.Error", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAllErrorsAreTold(t *testing.T) {
	t.Parallel()
	_, err := text(t, strings.Replace(pool, "operator: In", "operator: Is", 1)+"---"+strings.Replace(deployment, "replicas: 3", "replicas: -3", 1))
	if err == nil || !strings.Contains(err.Error(), "operator") || !strings.Contains(err.Error(), "replicas") {
		t.Errorf("got %v", err)
	}
}

func TestFilesAndFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("a/pools.yaml", class+pool)
	write("a/b/deep.yml", deployment)
	write("a/readme.txt", "not a manifest: [")
	write("a/empty.yaml", "# later\n")
	write("a/pod.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one"},"spec":{"containers":[{"name":"c"}]}}`)
	big := write("big.json", strings.Repeat(" ", 2000))
	in, err := load.Files([]string{filepath.Join(dir, "a"), file}, nil, load.Options{}) // a file of the folder, named again
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Pools) != 1 || len(in.Pods) != 4 || in.Pods[0].ID() != "default/one" {
		t.Errorf("%d pools, pods %v", len(in.Pools), ids(in.Pods))
	}
	if d := cmp.Diff([]string{filepath.Join(dir, "a/empty.yaml") + ": holds no object"}, in.Warnings); d != "" {
		t.Error(d)
	}
	if err := os.Mkdir(filepath.Join(dir, "none"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		paths []string
		opts  load.Options
		want  string
	}{
		{[]string{filepath.Join(dir, "gone.yaml")}, load.Options{}, "gone.yaml: no such file or folder"},
		{[]string{filepath.Join(dir, "none")}, load.Options{}, "the folder holds no *.yaml, *.yml or *.json file"},
		{[]string{big}, load.Options{MaxBytes: 1000}, "more than the 0 MiB that are read"},
		{[]string{"-"}, load.Options{}, "-: there is no standard input"},
		{nil, load.Options{}, "expected at least one file, folder or -"},
	} {
		if _, err := load.Files(tt.paths, nil, tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %s", tt.paths, err, tt.want)
		}
	}
}

func TestFormsOfInput(t *testing.T) {
	t.Parallel()
	const item = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME","namespace":"ns"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`
	a, b := strings.Replace(item, "NAME", "a", 1), strings.Replace(item, "NAME", "b", 1)
	bare := strings.NewReplacer(`"apiVersion":"v1","kind":"Pod",`, "")
	for name, input := range map[string]string{
		"array":                    "[\n" + a + ",\n" + b + "\n]\n",
		"array of bare pods":       "[" + bare.Replace(a) + "," + bare.Replace(b) + "]",
		"stream":                   a + "\n" + b,
		"documents":                "---\n" + a + "\n--- # two\n" + b + "\n...\n",
		"end marks":                a + "\n...\n" + b + "\n...\n",
		"list":                     `{"kind":"List","apiVersion":"v1","items":[` + a + "," + b + `]}`,
		"list of a kind":           `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[` + bare.Replace(a) + "," + bare.Replace(b) + `]}`,
		"list of a list":           `{"kind":"List","apiVersion":"v1","items":[{"kind":"PodList","apiVersion":"v1","items":[` + a + "," + b + `]}]}`,
		"YAML sequence":            "- " + a + "\n- " + b + "\n",
		"kubectl get -o yaml":      "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a, namespace: ns, annotations: {note: \"a\\n- b\"}}\n  spec:\n    containers:\n    - name: c\n      resources: {requests: {cpu: 1}}\n- " + b + "\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
		"anchors across items":     "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a, namespace: ns}\n  spec: &s {containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b, namespace: ns}\n  spec: *s\n",
		"indented items":           "kind: List\napiVersion: v1\nitems:\n  - " + a + "\n  - " + b + "\n",
		"YAML in braces":           "{apiVersion: v1, kind: List, items: [" + a + ", " + b + "]}",
		"byte order mark and CRLF": "\xef\xbb\xbf" + a + "\r\n---\r\n" + b + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := must(t, input)
			if d := cmp.Diff([]string{"ns/a", "ns/b"}, ids(in.Pods)); d != "" {
				t.Error(d)
			}
			for _, p := range in.Pods {
				if p.Requests.Base[resource.CPU] != 1000 {
					t.Errorf("%s: %s", p.ID(), p.Requests)
				}
			}
			if len(in.Warnings) > 0 {
				t.Errorf("warnings %v", in.Warnings)
			}
		})
	}
	for _, empty := range []string{`{"kind":"List","apiVersion":"v1","items":[]}`, "apiVersion: v1\nitems: []\nkind: List\n"} {
		if in := must(t, empty); len(in.Pods) != 0 {
			t.Errorf("%s: %v", empty, ids(in.Pods))
		}
	}
}

func TestEqualSpecsAreShared(t *testing.T) {
	t.Parallel()
	in, err := load.Files([]string{"-"}, strings.NewReader(string(manyPods(500))), load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Pods) != 500 || &in.Pods[0].Terms[0] != &in.Pods[249].Terms[0] || &in.Pods[0].Terms[0] == &in.Pods[250].Terms[0] {
		t.Error("pods of one deployment share what their spec says")
	}
}

func TestExpansion(t *testing.T) {
	t.Parallel()
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 4, completions: 3, template: {spec: {restartPolicy: Never, containers: [{name: a}]}}}\n"
	set := strings.NewReplacer("Deployment", "StatefulSet", "replicas: 3", "replicas: 2\n  ordinals: {start: 5}\n  serviceName: s").Replace(deployment)
	podOf := func(owner string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: x, labels: {app: web}" + owner + "}\nspec: {nodeName: n1, containers: [{name: a}]}\n"
	}
	replicaSet := strings.NewReplacer("Deployment", "ReplicaSet", "{name: web}", "{name: web-7d, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]}").Replace(deployment)
	for name, tt := range map[string]struct {
		input string
		want  []string
	}{
		"deployment":               {deployment, []string{"default/web-0", "default/web-1", "default/web-2"}},
		"one replica by default":   {strings.Replace(deployment, "replicas: 3", "", 1), []string{"default/web-0"}},
		"none":                     {strings.Replace(deployment, "replicas: 3", "replicas: 0", 1), nil},
		"stateful set":             {set, []string{"default/web-5", "default/web-6"}},
		"job":                      {job, []string{"default/j-0", "default/j-1", "default/j-2"}},
		"suspended job":            {strings.Replace(job, "parallelism: 4", "suspend: true", 1), nil},
		"finished job":             {job + "status: {conditions: [{type: Complete, status: \"True\"}]}\n", nil},
		"job with one to go":       {job + "status: {succeeded: 2}\n", []string{"default/j-0"}},
		"replica set of its own":   {strings.Replace(deployment, "Deployment", "ReplicaSet", 1), []string{"default/web-0", "default/web-1", "default/web-2"}},
		"replica set of another":   {deployment + "---" + replicaSet, []string{"default/web-0", "default/web-1", "default/web-2"}},
		"pods through the set":     {deployment + "---" + replicaSet + podOf(", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7d, uid: u, controller: true}]"), nil},
		"pods of an unseen set":    {deployment + podOf(", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-99, uid: u, controller: true}]"), nil},
		"pods it would adopt":      {deployment + podOf(""), nil},
		"pods of something else":   {deployment + podOf(", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: other-99, uid: u, controller: true}]"), []string{"default/web-0", "default/web-1", "default/web-2"}},
		"two of one name":          {deployment + "---" + strings.ReplaceAll(set, "start: 5", "start: 1"), []string{"default/web-0", "default/web-1", "default/web-2", "default/statefulset-web-1", "default/statefulset-web-2"}},
		"daemon sets have no pods": {strings.NewReplacer("Deployment", "DaemonSet", "replicas: 3", "").Replace(deployment), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, ids(must(t, tt.input).Pods)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAdmissionOfFiles(t *testing.T) {
	t.Parallel()
	in := must(t, strings.Replace(deployment, "replicas: 3", "replicas: 1", 1)+`---
apiVersion: v1
kind: LimitRange
metadata: {name: l}
spec: {limits: [{type: Container, defaultRequest: {cpu: 2, memory: 1Gi}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stored, uid: u}
spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stored-without-requests, uid: v}
spec: {containers: [{name: a, resources: {limits: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: written}
spec: {priorityClassName: gone, containers: [{name: a, resources: {limits: {cpu: 3}}}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d}
spec:
  selector: {matchLabels: {app: d}}
  template: {metadata: {labels: {app: d}}, spec: {containers: [{name: a}]}}
`)
	const gi = 1 << 30
	for i, want := range []resource.Vector{resource.New(1000, 0, 1, 0), resource.New(2000, 0, 1, 0), resource.New(3000, gi, 1, 0), resource.New(1000, gi, 1, 0)} {
		if p := in.Pods[i]; !p.Requests.Equal(want) {
			t.Errorf("%s: got %s, want %s", p.ID(), p.Requests, want)
		}
	}
	if got := in.DaemonSets[0].Pod.Requests; !got.Equal(resource.New(2000, gi, 1, 0)) { // B029
		t.Errorf("daemon %s", got)
	}
	if d := cmp.Diff([]string{"PriorityClass gone is not in the input: its pods count as priority 0"}, in.Warnings); d != "" {
		t.Error(d)
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	pods := map[string]string{
		"waiting":   "spec: {containers: [{name: a}]}",
		"bound":     "spec: {nodeName: n1, containers: [{name: a}]}",
		"lost":      "spec: {nodeName: n9, containers: [{name: a}]}",
		"done":      "spec: {containers: [{name: a}]}\nstatus: {phase: Succeeded}",
		"gated":     "spec: {schedulingGates: [{name: g}], containers: [{name: a}]}",
		"nominated": "spec: {containers: [{name: a}]}\nstatus: {nominatedNodeName: n1}",
	}
	input := "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 2}}\n"
	for name, rest := range pods {
		input += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\n" + rest + "\n"
	}
	input += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: daemon, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}\nspec: {containers: [{name: a}]}\n"
	input += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: static, ownerReferences: [{apiVersion: v1, kind: Node, name: n1, uid: u, controller: true}]}\nspec: {containers: [{name: a}]}\n"
	in := must(t, input)
	if d := cmp.Diff([]string{"default/waiting"}, ids(in.Pods)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"default/bound"}, ids(in.Nodes[0].Pods)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"default/nominated"}, ids(in.Nodes[0].Preempting)); d != "" { // B020
		t.Error(d)
	}
	if d := cmp.Diff([]string{"bound to a node that is not in the input, left out: pod default/lost"}, in.Warnings); d != "" {
		t.Error(d)
	}
}

func TestNodesAndClaims(t *testing.T) {
	t.Parallel()
	claim := func(name, status string) string {
		return "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: " + name + ", uid: u-" + name + ", labels: {karpenter.sh/nodepool: p, zone: claim}}\n" +
			"spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, startupTaints: [{key: cni, effect: NoSchedule}]}\n" +
			"status: {" + status + "}\n"
	}
	in := must(t, class+pool+`---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/initialized: "true"}}
spec: {providerID: "aws:///z/i-1"}
status: {capacity: {cpu: 2}, allocatable: {cpu: 1900m}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {capacity: {cpu: 4}}
`+claim("joined", `providerID: "aws:///z/i-1", capacity: {cpu: 8, memory: 1Gi}, allocatable: {cpu: 7}`)+
		claim("byname", `nodeName: n2, capacity: {cpu: 8, memory: 1Gi}, allocatable: {cpu: 7, memory: 512Mi}`)+
		claim("flying", `providerID: "aws:///z/i-3", capacity: {cpu: 8}, allocatable: {cpu: 7}`)+
		claim("planned", ""))
	var got []string
	for _, n := range in.Nodes {
		got = append(got, fmt.Sprintf("%s %s cpu=%d memory=%d taints=%d", n.ID(), n.Claim.Name, n.Allocatable.Base[resource.CPU], n.Allocatable.Base[resource.Memory], len(n.Taints)))
	}
	want := []string{
		"n1 joined cpu=1900 memory=0 taints=0",
		"n2 byname cpu=4000 memory=536870912 taints=0",
		"flying flying cpu=7000 memory=0 taints=1",
		"planned planned cpu=0 memory=0 taints=1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPoolsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	in := must(t, pool)
	if in.Pools[0].Unusable != "EC2NodeClass default is not in the input" || len(in.Warnings) != 1 {
		t.Errorf("%q %v", in.Pools[0].Unusable, in.Warnings)
	}
	in = must(t, class+pool+"  disruption: {budgets: [{nodes: \"1\", schedule: \"61 * * * *\", duration: 1h}]}\n")
	if !strings.Contains(in.Pools[0].Unusable, "schedule") || len(in.Warnings) != 1 || !strings.Contains(in.Warnings[0], "NodePool p cannot be used: spec.disruption.budgets[0].schedule") {
		t.Errorf("%q %v", in.Pools[0].Unusable, in.Warnings)
	}
	in = must(t, strings.Replace(class, "role: r", "role: r, kubelet: {maxPodz: 1}", 1)+pool)
	if !strings.Contains(in.Pools[0].Unusable, "EC2NodeClass default cannot be used") || len(in.Warnings) != 2 {
		t.Errorf("%q %v", in.Pools[0].Unusable, in.Warnings)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	in := must(t, strings.Replace(deployment, "spec: {containers", "spec: {colour: blue, topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}], containers", 1)+`---
apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: b}
---
apiVersion: v1
kind: Service
metadata: {name: s}
`)
	want := []string{
		`-: document 1: Deployment default/web: unknown field "spec.template.spec.colour"`,
		"-: not of a kind that is read: Service v1",
		"not used: 1 Namespace",
	}
	if d := cmp.Diff(want, in.Warnings); d != "" {
		t.Error(d)
	}
}

func TestDaemonSetSample(t *testing.T) {
	t.Parallel()
	in := must(t, strings.NewReplacer("Deployment", "DaemonSet", "replicas: 3", "").Replace(deployment)+`---
apiVersion: v1
kind: Pod
metadata: {name: web-x, uid: u, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: web, uid: u, controller: true}]}
spec: {nodeName: n1, containers: [{name: a, resources: {requests: {cpu: 3}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
`)
	if got := in.DaemonSets[0].Pod.Requests.Base[resource.CPU]; got != 3000 {
		t.Errorf("the running pod shows the real request, got %d", got)
	}
	if len(in.Nodes[0].Pods) != 1 || !in.Nodes[0].Pods[0].Daemon() {
		t.Errorf("%v", in.Nodes[0].Pods)
	}
}

func TestBudgetsWithoutStatus(t *testing.T) {
	t.Parallel()
	in := must(t, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: x}}}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: x}}
spec: {nodeName: n1, containers: [{name: a}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {app: x}}
spec: {nodeName: n1, containers: [{name: a}]}
`)
	if len(in.PDBs) != 1 || in.PDBs[0].DisruptionsAllowed != 1 {
		t.Errorf("%+v", in.PDBs[0])
	}
}

func TestLiveDump(t *testing.T) {
	t.Parallel()
	in, err := load.Files([]string{"testdata/live.yaml"}, nil, load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Warnings) > 0 {
		t.Errorf("warnings %v", in.Warnings)
	}
	if len(in.Nodes) != 1 || in.Nodes[0].Claim == nil || len(in.Nodes[0].Pods) != 1 || len(in.Pools) != 1 || in.Pools[0].Unusable != "" {
		t.Errorf("%+v", in)
	}
	if p := in.Nodes[0].Pods[0]; !p.Ready || p.Owner.Name != "web-7d4b9c" || p.Annotations["karpenter.sh/do-not-disrupt"] != "true" || len(p.Annotations) != 1 {
		t.Errorf("%+v", p)
	}
	if d := cmp.Diff([]string{"shop/web-7d4b9c-k2x9z"}, ids(in.Pods)); d != "" {
		t.Error(d)
	}
}
