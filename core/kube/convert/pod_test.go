package convert_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

func podOf(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRequests(t *testing.T) {
	t.Parallel()
	const mi = 1 << 20
	for name, tt := range map[string]struct {
		pod  string
		want resource.Vector
	}{
		"B097 sidecars, init containers and overhead": {`
spec:
  overhead: {cpu: 50m}
  initContainers:
  - {name: proxy, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
  - {name: migrate, resources: {requests: {cpu: 200m}}}
  containers: [{name: app, resources: {requests: {cpu: 100m}}}]`, resource.New(350, 0, 1, 0)},
		"nothing asked": {`spec: {containers: [{name: app}]}`, resource.New(0, 0, 1, 0)},
		"a large init container": {`
spec:
  initContainers: [{name: i, resources: {requests: {cpu: 2, memory: 64Mi}}}]
  containers: [{name: a, resources: {requests: {cpu: 1, memory: 128Mi}}}, {name: b, resources: {requests: {cpu: 500m, memory: 128Mi}}}]`,
			resource.New(2000, 256*mi, 1, 0)},
		"pod-level amounts win": {`
spec:
  resources: {requests: {cpu: 3}}
  containers: [{name: a, resources: {requests: {cpu: 1, memory: 128Mi}}}]`, resource.New(3000, 128*mi, 1, 0)},
		"a resize under way counts the larger amount": {`
spec:
  containers: [{name: a, resources: {requests: {cpu: 1}}}]
status:
  containerStatuses: [{name: a, allocatedResources: {cpu: 4}, resources: {requests: {cpu: 2}}}]`, resource.New(4000, 0, 1, 0)},
		"extended resources and rounding up": {`
spec:
  containers: [{name: a, resources: {requests: {cpu: 100u, memory: "1.5", ephemeral-storage: 1Ki, nvidia.com/gpu: 2}}}]`,
			resource.New(1, 2, 1, 1024).With("nvidia.com/gpu", 2)},
		"more than any machine has": {`
spec:
  containers: [{name: a, resources: {requests: {cpu: "1e30", memory: 9E}}}]`, resource.New(convert.Most, convert.Most, 1, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := convert.Requests(podOf(t, tt.pod))
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRequestsRefusesNegativeAmounts(t *testing.T) {
	t.Parallel()
	for field, pod := range map[string]string{
		"spec.containers[1].resources.requests[cpu]": `
spec: {containers: [{name: a}, {name: b, resources: {requests: {cpu: -1}}}]}`,
		"spec.initContainers[0].resources.requests[memory]": `
spec: {initContainers: [{name: a, resources: {requests: {memory: -1Gi}}}], containers: [{name: b, resources: {requests: {memory: 4Gi}}}]}`,
		"spec.overhead[cpu]": `
spec: {overhead: {cpu: -5m}, containers: [{name: b}]}`,
	} {
		_, err := convert.Requests(podOf(t, pod))
		if err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("got %v, want an error of %s", err, field)
		}
	}
}

func termsOf(p *model.Pod) string {
	var s []string
	for _, t := range p.Terms {
		s = append(s, t.String())
	}
	return strings.Join(s, " | ")
}

func TestPodNodeTerms(t *testing.T) {
	t.Parallel()
	affinity := func(terms string) string {
		return "spec:\n  containers: [{name: a}]\n  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " + terms + "}}}"
	}
	for name, tt := range map[string]struct {
		pod, terms, invalid, unsupported string
		ignore                           bool
	}{
		"nothing asked": {pod: `spec: {containers: [{name: a}]}`},
		"older spellings of labels": {
			pod:   `spec: {containers: [{name: a}], nodeSelector: {beta.kubernetes.io/arch: arm64, failure-domain.beta.kubernetes.io/zone: z}}`,
			terms: "kubernetes.io/arch In [arm64], topology.kubernetes.io/zone In [z]",
		},
		"the system of a pod is asked of its node": {pod: `spec: {containers: [{name: a}], os: {name: windows}}`, terms: "kubernetes.io/os In [windows]"},
		"and is the same as a selector":            {pod: `spec: {containers: [{name: a}], os: {name: linux}, nodeSelector: {kubernetes.io/os: linux}}`, terms: "kubernetes.io/os In [linux]"},
		"or another, which nothing satisfies":      {pod: `spec: {containers: [{name: a}], os: {name: linux}, nodeSelector: {kubernetes.io/os: windows}}`, unsupported: `label "kubernetes.io/os" contradict`},
		"terms are OR, the node selector is in each": {
			pod: affinity(`[{matchExpressions: [{key: site, operator: In, values: [edge]}]}, {matchExpressions: [{key: karpenter.sh/nodepool, operator: In, values: [general]}]}]`) +
				"\n  nodeSelector: {disk: ssd}",
			terms: "disk In [ssd], site In [edge] | disk In [ssd], karpenter.sh/nodepool In [general]",
		},
		"B001 NotIn stays NotIn": {
			pod:   affinity(`[{matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]}]`),
			terms: "tier NotIn [gold]",
		},
		"a contradiction is not absence": {
			pod:         affinity(`[{matchExpressions: [{key: a, operator: In, values: [x]}, {key: a, operator: In, values: [y]}]}]`),
			unsupported: `the requirements on label "a" contradict each other`,
		},
		"one impossible term leaves the other": {
			pod:   affinity(`[{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}, {matchExpressions: [{key: b, operator: Exists}]}]`),
			terms: "b Exists",
		},
		"an empty term matches nothing":   {pod: affinity(`[{}]`), unsupported: "an empty term"},
		"kept off our nodes":              {pod: affinity(`[{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]`), terms: "karpenter.sh/nodepool DoesNotExist", ignore: true},
		"kept off by one of two terms":    {pod: affinity(`[{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}, {matchExpressions: [{key: b, operator: Exists}]}]`), terms: "karpenter.sh/nodepool DoesNotExist | b Exists"},
		"matchFields":                     {pod: affinity(`[{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]`), invalid: "matchFields is not supported"},
		"pinned to a host":                {pod: `spec: {containers: [{name: a}], nodeSelector: {kubernetes.io/hostname: n1}}`, invalid: `label "kubernetes.io/hostname" is restricted`},
		"a restricted label":              {pod: affinity(`[{matchExpressions: [{key: b, operator: Exists}]}, {matchExpressions: [{key: karpenter.sh/initialized, operator: Exists}]}]`), invalid: `nodeSelectorTerms[1]: label "karpenter.sh/initialized" is restricted`},
		"an operator of pools":            {pod: affinity(`[{matchExpressions: [{key: b, operator: Gte, values: ["1"]}]}]`), invalid: `unknown operator "Gte"`},
		"a negative bound":                {pod: affinity(`[{matchExpressions: [{key: b, operator: Gt, values: ["-1"]}]}]`), invalid: `value "-1"`},
		"a capacity type that is not one": {pod: `spec: {containers: [{name: a}], nodeSelector: {karpenter.sh/capacity-type: cheap}}`, invalid: "none of cheap is a capacity type"},
		"a value that no label can have":  {pod: affinity(`[{matchExpressions: [{key: b, operator: In, values: ["a b"]}]}]`), invalid: `value "a b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := convert.Pod(podOf(t, tt.pod))
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Terms) == 0 {
				t.Fatal("a pod must have a term")
			}
			if tt.invalid == "" && tt.unsupported == "" {
				if got := termsOf(p); got != tt.terms {
					t.Errorf("terms %q, want %q", got, tt.terms)
				}
				if p.Invalid != "" || len(p.Unsupported) > 0 {
					t.Errorf("invalid %q, unsupported %v", p.Invalid, p.Unsupported)
				}
			}
			if !strings.Contains(p.Invalid, tt.invalid) || tt.invalid == "" && p.Invalid != "" {
				t.Errorf("invalid %q, want %q", p.Invalid, tt.invalid)
			}
			if tt.unsupported != "" && (len(p.Unsupported) != 1 || !strings.Contains(p.Unsupported[0].Message, tt.unsupported)) {
				t.Errorf("unsupported %v, want %q", p.Unsupported, tt.unsupported)
			}
			if p.Ignore != tt.ignore {
				t.Errorf("ignore %t, want %t", p.Ignore, tt.ignore)
			}
		})
	}
}

func TestPodUnsupported(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec string
		want []model.Filter
	}{
		"plain volumes":      {`volumes: [{name: v, emptyDir: {}}, {name: w, configMap: {name: c}}]`, nil},
		"claim":              {`volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]`, nil}, // see Volumes.Place
		"ephemeral":          {`volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]`, nil},
		"spread":             {`topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]`, nil},
		"soft spread":        {`topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]`, nil},
		"affinity":           {`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}`, nil},
		"namespaces":         {`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, namespaceSelector: {matchLabels: {a: b}}}]}}`, []model.Filter{model.FilterAffinity}},
		"anti-affinity":      {`affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}`, nil},
		"soft anti-affinity": {`affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: z}}]}}`, nil},
		"resource claims":    {`resourceClaims: [{name: gpu}]`, []model.Filter{model.FilterRequirements}},
		"host network":       {`hostNetwork: true`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := convert.Pod(podOf(t, "spec:\n  containers: [{name: a}]\n  "+tt.spec))
			if err != nil {
				t.Fatal(err)
			}
			var got []model.Filter
			for _, u := range p.Unsupported {
				got = append(got, u.Filter)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPodTopology(t *testing.T) {
	t.Parallel()
	type spread struct {
		Key         string
		Skew, Min   int64
		Affinity    bool
		Taints      bool
		Selector    string
		PicksItself bool
	}
	type term struct {
		Key, Selector           string
		PicksItself, PicksOther bool
	}
	const meta = "metadata: {namespace: ns, name: p, labels: {app: web, rev: r1}}\nspec:\n  containers: [{name: a}]\n  "
	other := &model.Pod{Namespace: "other", Labels: map[string]string{"app": "web"}}
	for name, tt := range map[string]struct {
		spec     string
		spreads  []spread
		affinity []term
		anti     []term
		ports    []model.HostPort
	}{
		"spread": {spec: `topologySpreadConstraints: [{maxSkew: 2, minDomains: 3, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [rev, none], nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}]`,
			spreads: []spread{{"zone", 2, 3, false, true, "ns/app=web,rev in (r1)", true}}},
		"spread without a selector picks nothing": {spec: `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`,
			spreads: []spread{{"zone", 1, 0, true, false, "nothing", false}}},
		"affinity": {spec: `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, namespaces: [other]}]}}`,
			affinity: []term{{"zone", "other/app=web", false, true}}},
		"anti-affinity": {spec: `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, mismatchLabelKeys: [rev]}]}}`,
			anti: []term{{"kubernetes.io/hostname", "ns/app=web,rev notin (r1)", false, false}}},
		"anti-affinity in every namespace": {spec: `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, namespaceSelector: {}}]}}`,
			anti: []term{{"zone", "*/app=web", true, true}}},
		"host port": {spec: `x`, ports: []model.HostPort{{Protocol: "UDP", Port: 53, IP: "10.0.0.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := meta + tt.spec
			if tt.ports != nil {
				spec = "spec: {containers: [{name: a, ports: [{containerPort: 1, hostPort: 53, protocol: UDP, hostIP: 10.0.0.1}]}]}"
			}
			p, err := convert.Pod(podOf(t, spec))
			if err != nil {
				t.Fatal(err)
			}
			var spreads []spread
			for _, s := range p.Topology.Spreads {
				spreads = append(spreads, spread{s.Key, s.MaxSkew, s.MinDomains, s.HonorAffinity, s.HonorTaints, s.Selector.ID, s.Selector.Picks(p)})
			}
			terms := func(in []model.PodTerm) (out []term) {
				for _, x := range in {
					out = append(out, term{x.Key, x.Selector.ID, x.Selector.Picks(p), x.Selector.Picks(other)})
				}
				return out
			}
			if d := cmp.Diff(tt.spreads, spreads); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.affinity, terms(p.Topology.Affinity)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.anti, terms(p.Topology.AntiAffinity)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.ports, p.Topology.HostPorts); d != "" {
				t.Error(d)
			}
		})
	}
	p, err := convert.Pod(podOf(t, "spec: {hostNetwork: true, containers: [{name: a, ports: [{containerPort: 80}]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]model.HostPort{{Protocol: "TCP", Port: 80}}, p.Topology.HostPorts); d != "" {
		t.Errorf("ports on the host's network: %s", d)
	}
}

func TestPodOfDaemonSetKeepsItsNode(t *testing.T) {
	t.Parallel()
	p, err := convert.Pod(podOf(t, `
metadata: {ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}
spec:
  containers: [{name: a, ports: [{containerPort: 9100, hostPort: 9100}]}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.Invalid != "" || len(p.Unsupported) > 0 || !p.Daemon() {
		t.Errorf("a daemon pod is counted where it is: %+v", p)
	}
}

func TestPodStatus(t *testing.T) {
	t.Parallel()
	p, err := convert.Pod(podOf(t, `
metadata: {name: p, namespace: n, uid: u, creationTimestamp: "2026-01-02T03:04:05Z", deletionTimestamp: "2026-01-02T03:05:05Z", deletionGracePeriodSeconds: 60}
spec: {containers: [{name: a}], terminationGracePeriodSeconds: 0, priority: 7, priorityClassName: high, schedulingGates: [{name: g}]}
status:
  phase: Pending
  nominatedNodeName: n7
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}, {type: Ready, status: "True"}]
  containerStatuses: [{name: a, restartCount: 3}]`))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 5, 5, 0, time.UTC)
	if !p.Unschedulable || !p.Ready || !p.Gated || p.NominatedNode != "n7" || p.Priority != 7 || p.PriorityClass != "high" ||
		p.GracePeriod != 0 || p.RestartCount != 3 || p.Deleting == nil || !p.Deleting.Equal(at) || p.DeletingGrace != time.Minute || p.Terminal {
		t.Errorf("%+v", p)
	}
}

// Node selector and required node affinity must mean what the scheduler makes of them.
func TestPodTermsMatchLikeTheScheduler(t *testing.T) {
	t.Parallel()
	key := rapid.SampledFrom([]string{"a", "b", "c"})
	value := rapid.SampledFrom([]string{"1", "2", "3", "x"})
	rapid.Check(t, func(t *rapid.T) {
		expression := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
			r := corev1.NodeSelectorRequirement{Key: key.Draw(t, "key")}
			r.Operator = rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}).Draw(t, "operator")
			switch r.Operator {
			case "In", "NotIn":
				r.Values = rapid.SliceOfNDistinct(value, 1, 3, rapid.ID[string]).Draw(t, "values")
			case "Gt", "Lt":
				r.Values = []string{strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "bound"))}
			}
			return r
		})
		pod := &corev1.Pod{}
		pod.Spec.NodeSelector = rapid.MapOfN(key, value, 0, 1).Draw(t, "selector")
		if n := rapid.IntRange(0, 3).Draw(t, "terms"); n > 0 {
			req := &corev1.NodeSelector{}
			for range n {
				req.NodeSelectorTerms = append(req.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: rapid.SliceOfN(expression, 0, 4).Draw(t, "term")})
			}
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: req}}
		}
		labels := rapid.MapOfN(key, value, 0, 3).Draw(t, "labels")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
		want, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil {
			t.Fatal(err)
		}
		p, err := convert.Pod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if p.Invalid != "" {
			t.Fatalf("invalid: %s", p.Invalid)
		}
		got := false
		for _, term := range p.Terms {
			got = got || len(p.Unsupported) == 0 && term.LabelsSatisfy(labels) == nil
		}
		if got != want {
			t.Errorf("got %t, the scheduler says %t; terms %s, unsupported %v", got, want, termsOf(p), p.Unsupported)
		}
	})
}

func TestAmountRoundsUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, q string
		want    int64
	}{
		{"cpu", "1n", 1}, {"cpu", "1500u", 2}, {"cpu", "2", 2000}, {"memory", "100m", 1}, {"memory", "1Ki", 1024},
		{"cpu", "9223372036854775807", convert.Most}, {"memory", "-9223372036854775807", -convert.Most}, {"nvidia.com/gpu", "4", 4},
	} {
		if got := convert.Amount(tt.name, apiresource.MustParse(tt.q)); got != tt.want {
			t.Errorf("%s %s: got %d, want %d", tt.name, tt.q, got, tt.want)
		}
	}
}
