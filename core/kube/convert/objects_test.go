package convert_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/api/awsv1"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

const poolText = `
metadata: {name: general, uid: u1, annotations: {weir.dev/consolidation: savings}}
spec:
  weight: 10
  template:
    metadata: {labels: {team: a, beta.kubernetes.io/os: linux}, annotations: {note: x}}
    spec:
      taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
      startupTaints: [{key: cni, effect: NoExecute}]
      requirements:
      - {key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ["4"]}
      - {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ["33"]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5], minValues: 2}
      - {key: beta.kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: gpu-kind, operator: Exists}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: Never
      terminationGracePeriod: 1h
  limits: {cpu: 100, memory: 1Ti, nodes: 7}
  disruption: {consolidateAfter: Never, consolidationPolicy: WhenEmpty, budgets: [{nodes: "3", reasons: [Drifted], schedule: "@daily", duration: 8h}]}
`

func TestPool(t *testing.T) {
	t.Parallel()
	p, err := convert.Pool(read[apiv1.NodePool](t, poolText))
	if err != nil {
		t.Fatal(err)
	}
	want := "gpu-kind Exists, karpenter.k8s.aws/ec2nodeclass In [default], karpenter.k8s.aws/instance-cpu Gt [3] and Lt [33], " +
		"karpenter.k8s.aws/instance-family In [c5, m5], karpenter.sh/nodepool In [general], kubernetes.io/arch In [amd64], kubernetes.io/os In [linux], team In [a]"
	if got := p.Requirements.String(); got != want {
		t.Errorf("requirements\n got %s\nwant %s", got, want)
	}
	if r, _ := p.Requirements.Get("karpenter.k8s.aws/instance-family"); r.MinValues != 2 {
		t.Errorf("minValues %d", r.MinValues)
	}
	if p.Unusable != "" || p.Weight != 10 || p.ExpireAfter != model.Never || p.ConsolidateAfter != model.Never || *p.TerminationGP != time.Hour ||
		p.Policy != model.WhenEmpty || *p.Limits.Nodes != 7 || p.Limits.Resources["cpu"] != 100_000 || p.Limits.Resources["memory"] != 1<<40 {
		t.Errorf("%+v", p)
	}
	budgets := []model.Budget{{Nodes: "3", Reasons: []model.DisruptionReason{model.Drifted}, Schedule: "@daily", Duration: 8 * time.Hour}}
	if d := cmp.Diff(budgets, p.Budgets); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]model.Taint{{Key: "dedicated", Value: "gpu", Effect: model.NoSchedule}}, p.Taints); d != "" {
		t.Error(d)
	}
}

func TestPoolDefaults(t *testing.T) {
	t.Parallel()
	const text = `
metadata: {name: p}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}`
	p, err := convert.Pool(read[apiv1.NodePool](t, text))
	if err != nil {
		t.Fatal(err)
	}
	if p.ExpireAfter != 720*time.Hour || p.ConsolidateAfter != 0 || p.Policy != model.WhenEmptyOrUnderutilized || p.Hash != "6821555240594823858" {
		t.Errorf("%+v", p)
	}
	if d := cmp.Diff([]model.Budget{{Nodes: "10%"}}, p.Budgets); d != "" {
		t.Error(d)
	}
	p, err = convert.Pool(read[apiv1.NodePool](t, text+"\n  disruption: {consolidateAfter: 1m, budgets: []}"))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Budgets) != 0 {
		t.Errorf("an explicit empty list is no bound, got %v", p.Budgets)
	}
}

func TestPoolUnusable(t *testing.T) {
	t.Parallel()
	for want, change := range map[string][2]string{
		"schedule":                 {`"@daily"`, `"61 * * * *"`},
		"expected an EC2NodeClass": {"kind: EC2NodeClass", "kind: Other"},
		"contradict each other":    {"beta.kubernetes.io/os: linux", "karpenter.k8s.aws/instance-family: t3"},
		"no known value of karpenter.sh/capacity-type":                   {"{key: gpu-kind, operator: Exists}", "{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}"},
		`requirements[4].key: label domain "karpenter.sh" is restricted`: {"gpu-kind", "example.karpenter.sh/x"},
		"startupTaints[0]":                {"{key: cni, effect: NoExecute}", "{key: dedicated, effect: NoSchedule}"},
		"contradict each other (gpu-kind": {"{key: gpu-kind, operator: Exists}", "{key: gpu-kind, operator: Exists}\n      - {key: gpu-kind, operator: DoesNotExist}"},
	} {
		text := strings.Replace(poolText, change[0], change[1], 1)
		if text == poolText {
			t.Fatalf("%s is not in the pool", change[0])
		}
		p, err := convert.Pool(read[apiv1.NodePool](t, text))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.Unusable, strings.TrimSuffix(want, " (gpu-kind")) {
			t.Errorf("%s: unusable %q, want %q", change[1], p.Unusable, want)
		}
	}
}

// An empty NotIn and values of Exists say nothing; the API server stores both.
func TestPoolLenientOperators(t *testing.T) {
	t.Parallel()
	text := strings.Replace(poolText, "{key: gpu-kind, operator: Exists}", "{key: a, operator: NotIn, values: []}\n      - {key: b, operator: Exists, values: [x]}", 1)
	p, err := convert.Pool(read[apiv1.NodePool](t, text))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if r, ok := p.Requirements.Get(key); !ok || r.Operator() != require.Exists {
			t.Errorf("%s: %v %t", key, r, ok)
		}
	}
}

func TestClaimObjectUsesOldOperators(t *testing.T) { // B005
	t.Parallel()
	c := &model.Claim{Name: "gen-1", Pool: "gen", PoolUID: "pool-uid", ExpireAfter: model.Never, Requirements: require.NewSet(
		require.Must("karpenter.k8s.aws/instance-generation", require.Gt, "5"), require.Must("karpenter.k8s.aws/instance-cpu", require.Lte, "16"))}
	o := convert.NodeClaim(c)
	want := []apiv1.Requirement{
		{Key: "karpenter.k8s.aws/instance-cpu", Operator: "Lt", Values: []string{"17"}},
		{Key: "karpenter.k8s.aws/instance-generation", Operator: "Gt", Values: []string{"5"}},
	}
	if d := cmp.Diff(want, o.Spec.Requirements); d != "" {
		t.Error(d)
	}
	if len(o.OwnerReferences) != 1 || o.OwnerReferences[0].Name != "gen" || !*o.OwnerReferences[0].BlockOwnerDeletion || o.Spec.ExpireAfter.String() != "Never" {
		t.Errorf("%+v", o)
	}
}

func TestClaimRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c", "7"})
		var set require.Set
		for range rapid.IntRange(0, 4).Draw(t, "requirements") {
			key := word.Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "operator") {
			case 0:
				set = set.With(require.Must(key, require.In, rapid.SliceOfN(word, 1, 3).Draw(t, "values")...))
			case 1:
				set = set.With(require.Must(key, require.NotIn, rapid.SliceOfN(word, 1, 3).Draw(t, "values")...))
			case 2:
				set = set.With(require.Must(key, require.Gte, "3"))
			case 3:
				set = set.With(require.Must(key, require.Lte, "9"))
			case 4:
				set = set.With(require.Must(key, require.DoesNotExist))
			}
		}
		seconds := rapid.Int64Range(0, 1_000_000)
		gp := time.Duration(seconds.Draw(t, "grace")) * time.Second
		at := time.Unix(1_700_000_000, 0).UTC()
		c := &model.Claim{
			Name: word.Draw(t, "name"), UID: "u", Pool: "p", PoolUID: "pu", NodeClass: model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "d"},
			Labels:       map[string]string{model.LabelPool: "p"},
			Taints:       []model.Taint{{Key: "k", Value: "v", Effect: model.NoSchedule}},
			Requirements: set,
			Requests:     resource.New(rapid.Int64Range(0, 1<<40).Draw(t, "cpu"), rapid.Int64Range(0, 1<<50).Draw(t, "memory"), 3, 0).With("nvidia.com/gpu", 1),
			ExpireAfter:  time.Duration(seconds.Draw(t, "life")) * time.Second, TerminationGP: &gp,
			Created: at, ProviderID: "aws:///z/i-1", Capacity: resource.New(8000, 1<<34, 58, 0),
			Conditions: []model.Condition{{Type: model.CondLaunched, Status: "True", Reason: "Launched", Since: at}},
		}
		data, err := yaml.Marshal(convert.NodeClaim(c))
		if err != nil {
			t.Fatal(err)
		}
		var o apiv1.NodeClaim
		if err := yaml.UnmarshalStrict(data, &o); err != nil {
			t.Fatal(err)
		}
		back, err := convert.Claim(&o)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c, back); d != "" {
			t.Error(d)
		}
	})
}

func TestNodeClass(t *testing.T) {
	t.Parallel()
	const base = "metadata: {name: default}\nspec:\n  role: r\n  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n"
	const gi = int64(1) << 30
	for name, tt := range map[string]struct {
		spec  string
		check func(*model.NodeClass) bool
	}{
		"family of the alias, default disk": {"  amiSelectorTerms: [{alias: al2023@v20260304}]", func(c *model.NodeClass) bool {
			return c.Family == "AL2023" && c.RootVolumeBytes == 20*gi && c.Unusable == "" && c.Zones == nil
		}},
		"disk of the family": {"  amiSelectorTerms: [{alias: bottlerocket@latest}]\n  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}, {deviceName: /dev/xvdb, ebs: {volumeSize: 100Gi}}]",
			func(c *model.NodeClass) bool { return c.Family == "Bottlerocket" && c.RootVolumeBytes == 100*gi }},
		"disk marked as root": {"  amiSelectorTerms: [{alias: al2023@latest}]\n  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}, {deviceName: /dev/sdf, rootVolume: true, ebs: {volumeSize: 300Gi}}]",
			func(c *model.NodeClass) bool { return c.RootVolumeBytes == 300*gi }},
		"last disk of a custom image": {"  amiFamily: Custom\n  amiSelectorTerms: [{id: ami-1}]\n  blockDeviceMappings: [{deviceName: /dev/a, ebs: {volumeSize: 4Gi}}, {deviceName: /dev/b, ebs: {volumeSize: 7Gi}}]",
			func(c *model.NodeClass) bool { return c.Family == "Custom" && c.RootVolumeBytes == 7*gi }},
		"windows": {"  amiSelectorTerms: [{alias: windows2022@latest}]", func(c *model.NodeClass) bool {
			return c.Family == "Windows2022" && c.RootVolumeBytes == 50*gi
		}},
		"kubelet": {"  amiSelectorTerms: [{alias: al2023@latest}]\n  instanceStorePolicy: RAID0\n  kubelet: {maxPods: 42, podsPerCore: 4, kubeReserved: {cpu: 100m, memory: 1Gi}, systemReserved: {cpu: 50m}, evictionHard: {memory.available: 5%, nodefs.available: 2Gi}}",
			func(c *model.NodeClass) bool {
				return *c.MaxPods == 42 && *c.PodsPerCore == 4 && c.KubeReserved["cpu"] == 100 && c.KubeReserved["memory"] == gi &&
					c.SystemReserved["cpu"] == 50 && c.EvictionMemory == "5%" && c.EvictionStorage == "2Gi" && c.InstanceStoreRAID && c.Unusable == ""
			}},
		"kubelet of nonsense": {"  amiSelectorTerms: [{alias: al2023@latest}]\n  kubelet: {maxPodz: 42}", func(c *model.NodeClass) bool {
			return strings.Contains(c.Unusable, "maxPodz")
		}},
		"zones and readiness": {"  amiSelectorTerms: [{alias: al2023@latest}]\nstatus: {subnets: [{id: s1, zone: b, zoneID: use1-az2}, {id: s2, zone: a}, {id: s3, zone: b, zoneID: use1-az2}], conditions: [{type: Ready, status: \"False\", reason: AMINotFound, message: none, lastTransitionTime: null}]}",
			func(c *model.NodeClass) bool {
				return strings.Join(c.Zones, ",") == "a,b" && len(c.ZoneIDs) == 1 && c.ZoneIDs["b"] == "use1-az2" && strings.Contains(c.Unusable, "AMINotFound")
			}},
		"what its machines should have": {"  amiSelectorTerms: [{alias: al2023@latest}]\nstatus: {instanceProfile: prof, subnets: [{id: s2, zone: b}, {id: s1, zone: a}], securityGroups: [{id: g2}, {id: g1}]," +
			" amis: [{id: ami-1, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}, {key: karpenter.k8s.aws/instance-gpu-count, operator: DoesNotExist}]}], conditions: [{type: Ready, status: \"True\", reason: Ready, lastTransitionTime: null}]}",
			func(c *model.NodeClass) bool {
				return c.Settled && c.InstanceProfile == "prof" && strings.Join(c.Subnets, ",") == "s1,s2" && strings.Join(c.SecurityGroups, ",") == "g1,g2" && len(c.Images) == 1 &&
					c.Images[0].ID == "ami-1" && c.Images[0].Requirements.LabelsSatisfy(map[string]string{model.LabelArch: "arm64"}) == nil &&
					c.Images[0].Requirements.LabelsSatisfy(map[string]string{model.LabelArch: "arm64", "karpenter.k8s.aws/instance-gpu-count": "1"}) != nil
			}},
		"nobody has looked at it": {"  amiSelectorTerms: [{alias: al2023@latest}]", func(c *model.NodeClass) bool { return !c.Settled && c.Unusable == "" }},
		"images that cannot be told apart": {"  amiSelectorTerms: [{alias: al2023@latest}]\nstatus: {amis: [{id: ami-1, requirements: [{key: a, operator: Near}]}], conditions: [{type: Ready, status: \"True\", reason: Ready, lastTransitionTime: null}]}",
			func(c *model.NodeClass) bool { return !c.Settled }},
		"interfaces": {"  amiSelectorTerms: [{alias: al2023@latest}]\n  networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}, {networkCardIndex: 0, deviceIndex: 1, interfaceType: efa-only}, {networkCardIndex: 3, deviceIndex: 1, interfaceType: efa-only}]",
			func(c *model.NodeClass) bool {
				return c.Unusable == "" && c.Interfaces == model.Interfaces{Cards: 4, EFAOnly: 2, EFAOnlyDefaultCard: 1}
			}},
		"capacity reservations": {"  amiSelectorTerms: [{alias: al2023@latest}]\nstatus: {capacityReservations: [{id: cr-1, availabilityZone: a, instanceType: m5.large, instanceMatchCriteria: open, ownerID: \"123456789012\"}," +
			" {id: cr-2, availabilityZone: b, instanceType: p5.48xlarge, instanceMatchCriteria: targeted, ownerID: \"123456789012\", reservationType: capacity-block, state: expiring, interruptible: true, endTime: 2026-03-01T12:00:00Z}]}",
			func(c *model.NodeClass) bool {
				end := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
				return cmp.Diff([]model.Reservation{{ID: "cr-1", InstanceType: "m5.large", Zone: "a", Type: "default"},
					{ID: "cr-2", InstanceType: "p5.48xlarge", Zone: "b", Type: "capacity-block", Interruptible: true, Expiring: true, End: &end}}, c.Reservations) == ""
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c := convert.NodeClass(read[awsv1.EC2NodeClass](t, base+tt.spec)); !tt.check(c) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// A status that is about an earlier specification says nothing about the present one.
func TestNodeClassOfAnotherGeneration(t *testing.T) {
	t.Parallel()
	c := convert.NodeClass(read[awsv1.EC2NodeClass](t, `
metadata: {name: default, generation: 4, annotations: {karpenter.k8s.aws/ec2nodeclass-hash: "7", karpenter.k8s.aws/ec2nodeclass-hash-version: v6}}
spec: {instanceProfile: mine, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
status: {instanceProfile: old, conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 3, lastTransitionTime: null}]}`))
	if c.Settled || !strings.Contains(c.Unusable, "has not been looked at since") {
		t.Errorf("settled %v, unusable %q", c.Settled, c.Unusable)
	}
	want := map[string]string{model.AnnotationClassHash: "7", model.AnnotationClassHashVersion: "v6", model.AnnotationInstanceProfile: "mine"}
	if diff := cmp.Diff(want, c.Stamp()); diff != "" {
		t.Errorf("stamp of its claims (-want +got):\n%s", diff)
	}
}

// The placement group of a class is what its annotation says, as long as that is what its selector names.
func TestPlacementGroupOfAClass(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		annotation, selector string
		want                 *model.PlacementGroup
		settled              bool
	}{
		"found":                {"pg-1 partition 3", "{name: a}", &model.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 3}, true},
		"not looked for yet":   {"", "{name: a}", nil, true},
		"of another selector":  {"pg-1 spread", "{id: pg-2}", nil, false},
		"nonsense":             {"spread", "{name: a}", nil, false},
		"no selector any more": {"pg-1 spread", "null", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := convert.NodeClass(read[awsv1.EC2NodeClass](t, `
metadata: {name: default, generation: 4, annotations: {weir.dev/placement-group: "`+tt.annotation+`"}}
spec: {instanceProfile: mine, placementGroupSelector: `+tt.selector+`, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
status: {conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 4, lastTransitionTime: null}]}`))
			if diff := cmp.Diff(tt.want, c.PlacementGroup); diff != "" || c.Settled != tt.settled {
				t.Errorf("settled %t; group (-want +got):\n%s", c.Settled, diff)
			}
		})
	}
}

func TestDaemonSet(t *testing.T) {
	t.Parallel()
	ds := read[appsv1.DaemonSet](t, `
metadata: {name: sec, namespace: obs}
spec:
  selector: {matchLabels: {app: sec}}
  template:
    metadata: {labels: {app: sec}}
    spec:
      containers: [{name: a, resources: {limits: {cpu: 500m}}}]
      tolerations: [{operator: Exists, effect: NoExecute}]
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: site, operator: In, values: [edge]}]},
        {matchExpressions: [{key: karpenter.sh/nodepool, operator: In, values: [general]}]}]}}}`)
	limits := read[corev1.LimitRange](t, "metadata: {namespace: obs}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 1, memory: 64Mi}}]}")
	d, err := convert.DaemonSet(ds, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.Pod.Requests.Base[resource.CPU] != 500 { // B028
		t.Errorf("limits stand in for requests: %s", d.Pod.Requests)
	}
	if got := termsOf(d.Pod); got != "site In [edge] | karpenter.sh/nodepool In [general]" { // B031
		t.Errorf("terms %s", got)
	}
	if _, no := d.Pod.Untolerated([]model.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}}); no {
		t.Error("daemon pods tolerate cordoned nodes")
	}
	d, err = convert.DaemonSet(ds, nil, &convert.Admission{LimitRanges: map[string][]*corev1.LimitRange{"obs": {limits}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := resource.New(500, 64<<20, 1, 0); !d.Pod.Requests.Equal(want) { // B029: the own limit comes first
		t.Errorf("got %s, want %s", d.Pod.Requests, want)
	}
	sample := podOf(t, "spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}")
	if d, err = convert.DaemonSet(ds, sample, nil); err != nil || d.Pod.Requests.Base[resource.CPU] != 2000 {
		t.Errorf("the newest pod shows what admission made of it: %v %s", err, d.Pod.Requests)
	}
	sample = podOf(t, `
metadata: {ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: sec, uid: u, controller: true}]}
spec:
  nodeName: n1
  containers: [{name: a, ports: [{hostPort: 80, containerPort: 80}]}]
  tolerations: [{key: dedicated, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}`)
	if d, err = convert.DaemonSet(ds, sample, nil); err != nil {
		t.Fatal(err)
	}
	if got := termsOf(d.Pod); got != "site In [edge] | karpenter.sh/nodepool In [general]" {
		t.Errorf("terms of a pod that is pinned to its node: %s", got)
	}
	if _, no := d.Pod.Untolerated([]model.Taint{{Key: "dedicated", Effect: model.NoSchedule}}); no {
		t.Error("a toleration that admission added counts")
	}
	if _, no := d.Pod.Untolerated([]model.Taint{{Key: "other", Effect: model.NoExecute}}); no {
		t.Error("those of the template stay")
	}
	if diff := cmp.Diff([]model.HostPort{{Protocol: "TCP", Port: 80}}, d.Pod.Topology.HostPorts); diff != "" {
		t.Errorf("ports that admission added (-want +got):\n%s", diff)
	}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	a := &convert.Admission{
		PriorityClasses: map[string]*schedulingv1.PriorityClass{"high": {Value: 100}, "usual": {Value: 5, GlobalDefault: true}, "another": {Value: 9, GlobalDefault: true}},
		RuntimeClasses: map[string]*nodev1.RuntimeClass{"kata": read[nodev1.RuntimeClass](t, `
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
scheduling: {nodeSelector: {kata: "true"}, tolerations: [{key: kata, operator: Exists}]}`)},
	}
	a.PriorityClasses["high"].Name, a.PriorityClasses["usual"].Name = "high", "usual"
	p := podOf(t, "spec: {runtimeClassName: kata, containers: [{name: a, resources: {requests: {cpu: 1}}}]}")
	for range 2 { // the second time changes nothing
		if missing := a.Admit(p); missing != nil {
			t.Errorf("missing %v", missing)
		}
	}
	m, err := convert.Pod(p)
	if err != nil {
		t.Fatal(err)
	}
	if m.Requests.Base[resource.CPU] != 1250 || termsOf(m) != "kata In [true]" || len(m.Tolerations) != 1 || m.Priority != 5 || m.PriorityClass != "usual" {
		t.Errorf("%+v", m)
	}
	p = podOf(t, "spec: {runtimeClassName: gvisor, priorityClassName: low, containers: [{name: a}]}")
	if missing := a.Admit(p); len(missing) != 2 {
		t.Errorf("missing %v", missing)
	}
	p = podOf(t, "spec: {priorityClassName: system-node-critical, resources: {limits: {cpu: 4, memory: 1Gi}}, containers: [{name: a, resources: {requests: {cpu: 1}}}]}")
	a.Admit(p)
	if m, err = convert.Pod(p); err != nil || m.Priority != 2_000_001_000 || !m.Requests.Equal(resource.New(1000, 1<<30, 1, 0)) {
		t.Errorf("%v %d %s", err, m.Priority, m.Requests)
	}
}

func TestPDB(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec     string
		blocking bool
		allowed  int32 // of 5 pods, 4 of them ready
	}{
		"one may go":        {"maxUnavailable: 1", false, 0},
		"two may go":        {"maxUnavailable: 2", false, 1},
		"none may go":       {"maxUnavailable: 0", true, 0},
		"none of a hundred": {`maxUnavailable: "0%"`, true, 0},
		"all must stay":     {`minAvailable: "100%"`, true, 0},
		"half must stay":    {`minAvailable: "50%"`, false, 1},
		"three must stay":   {"minAvailable: 3", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := read[policyv1.PodDisruptionBudget](t, "metadata: {name: b, namespace: ns}\nspec: {selector: {matchLabels: {app: x}}, "+tt.spec+"}")
			b, err := convert.PDB(o)
			if err != nil {
				t.Fatal(err)
			}
			allowed, err := convert.Allowed(o, 5, 4)
			if err != nil || b.FullyBlocking != tt.blocking || allowed != tt.allowed {
				t.Errorf("%v blocking %t, allowed %d", err, b.FullyBlocking, allowed)
			}
			if !b.Covers(&model.Pod{Namespace: "ns", Labels: map[string]string{"app": "x"}}) || b.Covers(&model.Pod{Namespace: "ns"}) || b.Covers(&model.Pod{Namespace: "m", Labels: map[string]string{"app": "x"}}) {
				t.Error("selector")
			}
		})
	}
	for field, spec := range map[string]string{
		"spec.selector":       "selector: {matchExpressions: [{key: a, operator: Bad}]}",
		"spec.maxUnavailable": "maxUnavailable: many",
		"spec.minAvailable":   "minAvailable: -1",
	} {
		_, err := convert.PDB(read[policyv1.PodDisruptionBudget](t, "spec: {"+spec+"}"))
		if err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: got %v", spec, err)
		}
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	n, err := convert.Node(read[corev1.Node](t, `
metadata: {name: n, labels: {a: b}}
spec: {providerID: "aws:///z/i-1", unschedulable: true, taints: [{key: k, effect: NoExecute, timeAdded: "2026-01-01T00:00:00Z"}]}
status: {capacity: {cpu: 2, memory: 4Gi, pods: 29}, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := resource.New(2000, 4<<30, 29, 0); !n.Capacity.Equal(want) || !n.Allocatable.Equal(want) || !n.Ready || !n.Cordoned || n.ReadySince.Year() != 2026 || len(n.Taints) != 1 {
		t.Errorf("%+v", n)
	}
	if _, err := convert.Node(read[corev1.Node](t, "status: {allocatable: {cpu: -1}}")); err == nil {
		t.Error("a negative amount makes no sense")
	}
}

// What node repair reads: a kubelet that has gone silent, and what agents say of parts of
// the node. The kubelet's pressures are not health.
func TestNodeHealth(t *testing.T) {
	t.Parallel()
	n, err := convert.Node(read[corev1.Node](t, `
metadata: {name: n}
status: {conditions: [{type: Ready, status: Unknown, lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: MemoryPressure, status: "True"},
  {type: KernelReady, status: "False", reason: Lockup, message: soft, lastTransitionTime: "2026-01-01T01:00:00Z"}, {type: StorageReady, status: "True", reason: Fine, lastTransitionTime: "2026-01-01T02:00:00Z"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if n.Ready || !n.Silent {
		t.Errorf("ready %v, silent %v", n.Ready, n.Silent)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := []model.Condition{{Type: "KernelReady", Status: "False", Reason: "Lockup", Message: "soft", Since: at.Add(time.Hour)}, {Type: "StorageReady", Status: "True", Since: at.Add(2 * time.Hour)}}
	if d := cmp.Diff(want, n.Health); d != "" {
		t.Error(d)
	}
	for typ, want := range map[string]string{"Ready": "Unknown", "KernelReady": "False", "StorageReady": "True", "CoffeeReady": ""} {
		if c, ok := n.Condition(typ); c.Status != want || ok != (want != "") {
			t.Errorf("%s: %+v, %v", typ, c, ok)
		}
	}
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{"0s": 0, "720h": 720 * time.Hour, "1h30m": 90 * time.Minute, "1m5s": 65 * time.Second, "10s": 10*time.Second + time.Millisecond} {
		if got := convert.DurationText(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
