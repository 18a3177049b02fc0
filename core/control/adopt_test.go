package control_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// A cluster as Karpenter v1.14 leaves it: its objects, with the annotations, finalizers,
// conditions and tags that it writes. The hash of the pool is one that it is known to write.
const (
	karpenterClass = `
metadata:
  name: default
  uid: uid-class
  generation: 2
  annotations: {karpenter.k8s.aws/ec2nodeclass-hash: "12034927346591234765", karpenter.k8s.aws/ec2nodeclass-hash-version: v6}
  finalizers: [karpenter.k8s.aws/termination]
spec:
  role: KarpenterNodeRole-test
  amiSelectorTerms: [{alias: al2023@v20260304}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: test}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: test}}]
status:
  instanceProfile: test_9120934857102934
  subnets: [{id: subnet-b, zone: us-east-1b, zoneID: use1-az2}, {id: subnet-a, zone: us-east-1a, zoneID: use1-az1}]
  securityGroups: [{id: sg-1, name: nodes}, {id: sg-2, name: cluster}]
  amis:
  - {id: ami-0a4d6400000000001, name: al2023, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: karpenter.k8s.aws/instance-gpu-count, operator: DoesNotExist}]}
  conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 2, lastTransitionTime: "2026-03-01T00:00:00Z"}]
`
	karpenterPool = `
metadata:
  name: default
  uid: uid-default
  annotations: {karpenter.sh/nodepool-hash: "1617844334411263980", karpenter.sh/nodepool-hash-version: v3}
spec:
  template:
    metadata: {labels: {team: a}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 720h
  disruption: {consolidateAfter: Never, budgets: [{nodes: "1"}]}
`
	karpenterClaim = `
metadata:
  name: default-NAME
  uid: uid-default-NAME
  creationTimestamp: "2026-03-02T05:00:00Z"
  labels: {LABELS}
  annotations:
    compatibility.karpenter.k8s.aws/cluster-name-tagged: "true"
    karpenter.k8s.aws/tagged: "true"
    karpenter.k8s.aws/ec2nodeclass-hash: "12034927346591234765"
    karpenter.k8s.aws/ec2nodeclass-hash-version: v6
    karpenter.k8s.aws/instance-profile-name: test_9120934857102934
    karpenter.sh/nodepool-hash: "1617844334411263980"
    karpenter.sh/nodepool-hash-version: v3
    karpenter.sh/nodeclaim-min-values-relaxed: "false"
  finalizers: [karpenter.sh/termination]
  ownerReferences: [{apiVersion: karpenter.sh/v1, kind: NodePool, name: default, uid: uid-default, blockOwnerDeletion: true}]
spec:
  requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  - {key: karpenter.sh/nodepool, operator: In, values: [default]}
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
  - {key: team, operator: In, values: [a]}
  resources: {requests: {cpu: "500m", memory: 1Gi, pods: "1"}}
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  expireAfter: 720h
status:
  providerID: aws:///us-east-1a/i-NAME
  imageID: IMAGE
  nodeName: NAME.ec2.internal
  capacity: {cpu: "2", memory: 8Gi, pods: "58", ephemeral-storage: 20Gi}
  allocatable: {cpu: 1900m, memory: 7Gi, pods: "58", ephemeral-storage: 18Gi}
  lastPodEventTime: "2026-03-02T05:10:00Z"
  conditions:
  - {type: Launched, status: "True", reason: Launched, lastTransitionTime: "2026-03-02T05:00:10Z"}
  - {type: Registered, status: "True", reason: Registered, lastTransitionTime: "2026-03-02T05:01:00Z"}
  - {type: Initialized, status: "True", reason: Initialized, lastTransitionTime: "2026-03-02T05:01:20Z"}
  - {type: ConsistentStateFound, status: "True", reason: ConsistentStateFound, lastTransitionTime: "2026-03-02T05:10:00Z"}
  - {type: Ready, status: "True", reason: Ready, lastTransitionTime: "2026-03-02T05:01:20Z"}
`
	karpenterNode = `
metadata:
  name: NAME.ec2.internal
  uid: uid-node-NAME
  creationTimestamp: "2026-03-02T05:00:50Z"
  labels: {LABELS, karpenter.sh/registered: "true", karpenter.sh/initialized: "true", karpenter.sh/do-not-sync-taints: "true", kubernetes.io/hostname: NAME.ec2.internal}
  annotations: {karpenter.sh/nodepool-hash: "1617844334411263980", karpenter.sh/nodepool-hash-version: v3, karpenter.k8s.aws/ec2nodeclass-hash: "12034927346591234765", karpenter.k8s.aws/ec2nodeclass-hash-version: v6}
  finalizers: [karpenter.sh/termination]
spec: {providerID: aws:///us-east-1a/i-NAME}
status:
  capacity: {cpu: "2", memory: 8Gi, pods: "58", ephemeral-storage: 20Gi}
  allocatable: {cpu: 1900m, memory: 7Gi, pods: "58", ephemeral-storage: 18Gi}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-02T05:01:20Z"}]
`
	karpenterLabels = "team: a, karpenter.sh/nodepool: default, karpenter.k8s.aws/ec2nodeclass: default, karpenter.sh/capacity-type: on-demand, node.kubernetes.io/instance-type: m5.large, " +
		"topology.kubernetes.io/zone: us-east-1a, topology.k8s.aws/zone-id: use1-az1, topology.kubernetes.io/region: us-east-1, kubernetes.io/arch: amd64, kubernetes.io/os: linux, " +
		"karpenter.k8s.aws/instance-family: m5, karpenter.k8s.aws/instance-cpu: \"2\", karpenter.k8s.aws/instance-tenancy: default"
	rightImage = "ami-0a4d6400000000001"
)

func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// kept is the class as the keeper of classes leaves it once Weir runs.
func kept(t *testing.T, f func(*awsv1.EC2NodeClass)) *model.NodeClass {
	t.Helper()
	c := parsed[awsv1.EC2NodeClass](t, karpenterClass)
	if f != nil {
		f(c)
	}
	c.Default()
	hash, err := c.Hash("ca")
	if err != nil {
		t.Fatal(err)
	}
	c.Annotations = map[string]string{keys.EC2NodeClassHash: hash, keys.EC2NodeClassHashVersion: keys.EC2NodeClassHashWeir1}
	return convert.NodeClass(c)
}

// foreign is a scene that Karpenter built: machines of the given images, a pod on each.
func foreign(t *testing.T, images ...string) *scene {
	t.Helper()
	np := parsed[apiv1.NodePool](t, karpenterPool)
	p, err := convert.Pool(np)
	if err != nil {
		t.Fatal(err)
	}
	if p.Hash != np.Annotations[keys.NodePoolHash] || p.HashVersion != np.Annotations[keys.NodePoolHashVersion] {
		t.Fatalf("the pool's hash is %s under %s, Karpenter wrote %v", p.Hash, p.HashVersion, np.Annotations)
	}
	s := newScene(t, nil, p)
	s.NodeUp = 0
	s.API.PutClass(convert.NodeClass(parsed[awsv1.EC2NodeClass](t, karpenterClass)))
	for i, image := range images {
		name := fmt.Sprintf("k%d", i)
		text := strings.NewReplacer("NAME", name, "LABELS", karpenterLabels, "IMAGE", image)
		c, err := convert.Claim(parsed[apiv1.NodeClaim](t, text.Replace(karpenterClaim)))
		if err != nil {
			t.Fatal(err)
		}
		n, err := convert.Node(parsed[corev1.Node](t, text.Replace(karpenterNode)))
		if err != nil {
			t.Fatal(err)
		}
		s.API.PutClaim(c)
		s.API.PutNode(n)
		s.API.Owner[n.Name] = c.UID
		s.API.PutPod(&model.Pod{Namespace: "default", Name: "api-" + name, UID: "uid-pod-" + name, NodeName: n.Name, Requests: resource.New(500, gib, 1, 0),
			Created: executetest.Start.Add(-4 * time.Hour), Ready: true, Terms: []require.Set{{}}, GracePeriod: 5 * time.Second, Owner: model.Owner{Kind: "ReplicaSet", Name: "api", UID: "rs-api"}})
		if _, err := s.EC2.Adopt(sim.Machine{NodeName: n.Name, Claim: c.Name, Instance: cloud.Instance{
			ID: "i-" + name, Type: "m5.large", Zone: "us-east-1a", CapacityType: model.OnDemand, ImageID: image, Launched: executetest.Start.Add(-4 * time.Hour),
			Subnet: "subnet-a", SecurityGroups: []string{"sg-2", "sg-1"}, Profile: "test_9120934857102934",
			Tags: map[string]string{"kubernetes.io/cluster/" + executetest.Name: "owned", "eks:eks-cluster-name": executetest.Name, "karpenter.sh/nodepool": "default",
				"karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodeclaim": c.Name, "Name": n.Name},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// untouched fails the test on every effect that changes a machine, its node or its pods, and answers the patches of claims.
func untouched(t *testing.T, s *scene) func() []model.ClaimPatch {
	t.Helper()
	var patches []model.ClaimPatch
	s.Saw = func(now time.Time, r execute.Result) {
		switch d := r.Effect.Do.(type) {
		case execute.DeleteClaim, execute.DeleteNode, execute.Terminate, execute.Evict, execute.DeletePod, execute.PatchNode, execute.CreateClaim, execute.OpenLaunch:
			t.Errorf("%s: %s %+v", now.Sub(executetest.Start), r.Effect.Kind(), d)
		case execute.PatchClaim:
			patches = append(patches, d.Patch)
		}
	}
	return func() []model.ClaimPatch { out := patches; patches = nil; return out }
}

// Taking a cluster over from Karpenter writes nothing but the stamp of the class on each claim, once.
func TestKarpentersClusterIsTakenOverAsItIs(t *testing.T) {
	t.Parallel()
	s := foreign(t, rightImage, rightImage, rightImage)
	patches := untouched(t, s)
	s.Run(5 * time.Minute) // the class carries Karpenter's hash still
	if got := patches(); len(got) > 0 {
		t.Errorf("patches before the class was looked at: %+v", got)
	}
	class := kept(t, nil)
	s.API.PutClass(class)
	s.Run(30 * time.Minute)
	got := map[string]map[string]string{}
	for _, p := range patches() {
		if got[p.Name] != nil || len(p.Conditions)+len(p.RemoveConditions)+len(p.Labels) > 0 {
			t.Errorf("a patch that nothing called for: %+v", p)
		}
		got[p.Name] = p.Annotations
	}
	stamp := map[string]string{keys.EC2NodeClassHash: class.Hash, keys.EC2NodeClassHashVersion: keys.EC2NodeClassHashWeir1}
	if diff := cmp.Diff(map[string]map[string]string{"default-k0": stamp, "default-k1": stamp, "default-k2": stamp}, got); diff != "" {
		t.Errorf("annotations that were written (-want +got):\n%s", diff)
	}
	for name, c := range s.API.Claims {
		if c.Is(model.CondDrifted) || c.Annotations[model.AnnotationInstanceProfile] != "test_9120934857102934" {
			t.Errorf("claim %s: %+v %v", name, c.Conditions, c.Annotations)
		}
	}
}

// A claim of Weir's carries what Karpenter compares, so that on the way back neither it nor an adopted one has drifted.
func TestTheWayBackToKarpenter(t *testing.T) {
	t.Parallel()
	s := foreign(t, rightImage)
	s.API.PutClass(kept(t, nil))
	s.Workloads = append(s.Workloads, web(1))
	if !s.Until(5*time.Minute, func() bool { return s.Running("web") == 1 }) {
		t.Fatal("no machine was bought")
	}
	s.Run(5 * time.Minute)
	if len(s.API.Claims) != 2 {
		t.Fatalf("claims: %v", s.API.Claims)
	}
	pool := s.API.Pools["default"]
	for name, c := range s.API.Claims {
		// Karpenter's rule: hashes of another version are written anew, save where the claim has drifted; then unequal ones have drifted.
		a := maps.Clone(c.Annotations)
		for _, k := range []string{keys.EC2NodeClassHash, keys.EC2NodeClassHashVersion, keys.NodePoolHash, keys.NodePoolHashVersion, keys.InstanceProfileName} {
			if a[k] == "" {
				t.Errorf("claim %s has no annotation %s", name, k)
			}
		}
		if a[keys.EC2NodeClassHashVersion] != "v6" && !c.Is(model.CondDrifted) {
			a[keys.EC2NodeClassHash] = "12034927346591234765"
		}
		if a[keys.EC2NodeClassHash] != "12034927346591234765" || a[keys.NodePoolHash] != pool.Hash || a[keys.NodePoolHashVersion] != "v3" {
			t.Errorf("claim %s would have drifted: %v", name, c.Annotations)
		}
		if c.Labels[model.LabelNodeClass] != "default" || c.Labels[model.LabelPool] != "default" || c.ImageID == "" || c.ProviderID == "" || !c.Is(model.CondReady) {
			t.Errorf("claim %s: %+v", name, c)
		}
	}
}

// B071: a hash of another version is no drift, however many claims; what had drifted stays so.
func TestAnotherHashVersionRollsNothing(t *testing.T) {
	t.Parallel()
	images := make([]string, 100)
	for i := range images {
		images[i] = rightImage
	}
	s := foreign(t, images...)
	p := *s.API.Pools["default"]
	p.Budgets = []model.Budget{{Nodes: "0"}} // only the conditions are looked at here
	for name, c := range s.API.Claims {
		u := *c
		u.Annotations = maps.Clone(c.Annotations)
		u.Annotations[keys.NodePoolHash], u.Annotations[keys.NodePoolHashVersion] = "111", "v1"
		if name == "default-k3" || name == "default-k4" {
			u.Conditions = append(u.Conditions, model.Condition{Type: model.CondDrifted, Status: "True", Reason: "NodePoolDrifted", Since: executetest.Start})
		}
		s.API.PutClaim(&u)
	}
	s.API.PutPool(&p)
	s.Run(time.Minute)
	drifted, stamped := 0, 0
	for name, c := range s.API.Claims {
		was := name == "default-k3" || name == "default-k4"
		if c.Is(model.CondDrifted) {
			drifted++
		}
		if c.Is(model.CondDrifted) != was || c.Annotations[keys.NodePoolHashVersion] != "v3" || (c.Annotations[keys.NodePoolHash] == p.Hash) == was {
			t.Errorf("claim %s: drifted %v, %v", name, c.Is(model.CondDrifted), c.Annotations)
		}
		if c.Annotations[keys.NodePoolHash] == p.Hash {
			stamped++
		}
	}
	if drifted != 2 || stamped != 98 {
		t.Errorf("%d drifted, %d stamped anew", drifted, stamped)
	}
}

// Machines of an image that the class has left go, one at a time as the budget says; a class that could not be resolved, or
// that was changed and not looked at since, moves nothing.
func TestMachinesOfAnotherImageGo(t *testing.T) {
	t.Parallel()
	const old = "ami-0a4d6400000000000"
	s := foreign(t, old, old, rightImage)
	s.Workloads = append(s.Workloads, &executetest.Workload{Name: "api", Replicas: 3, Requests: resource.New(500, gib, 0, 0)})
	both := func(c *awsv1.EC2NodeClass) {
		more := c.Status.AMIs[0]
		more.ID = old
		c.Status.AMIs = append(c.Status.AMIs, more)
	}
	s.API.PutClass(kept(t, both))
	s.Run(10 * time.Minute)
	patches := untouched(t, s)
	s.API.PutClass(kept(t, func(c *awsv1.EC2NodeClass) {
		c.Status.AMIs, c.Status.Conditions[0].Status, c.Status.Conditions[0].Reason = nil, "False", "AMINotFound"
	}))
	s.Run(10 * time.Minute)
	s.API.PutClass(kept(t, func(c *awsv1.EC2NodeClass) { c.Generation = 3 }))
	s.Run(10 * time.Minute)
	if got := patches(); len(got) > 0 {
		t.Errorf("patches beside a class that is not known: %+v", got)
	}
	most, reasons := 0, map[string]string{}
	s.Saw = func(_ time.Time, r execute.Result) {
		if d, ok := r.Effect.Do.(execute.PatchClaim); ok {
			for _, c := range d.Patch.Conditions {
				if c.Type == model.CondDrifted {
					reasons[d.Patch.Name] = c.Reason
				}
			}
		}
		deleting := 0
		for _, c := range s.API.Claims {
			if c.Deleting != nil && !c.Is(model.CondInstanceTerminating) { // budgets count until then
				deleting++
			}
		}
		most = max(most, deleting)
	}
	s.API.PutClass(kept(t, nil))
	if !s.Until(30*time.Minute, func() bool { return len(s.API.Claims) == 1 && s.Machines() == 1 && s.Running("api") == 3 }) {
		t.Fatalf("claims %v, %d machines, %d pods run", s.API.Claims, s.Machines(), s.Running("api"))
	}
	if most != 1 {
		t.Errorf("%d machines went at once, the budget is 1", most)
	}
	if diff := cmp.Diff(map[string]string{"default-k0": "AMIDrift", "default-k1": "AMIDrift"}, reasons); diff != "" {
		t.Errorf("drifted (-want +got):\n%s", diff)
	}
}

// What an instance really has is learned from EC2: another subnet or other groups are drift, and a claim that does not name
// its instance profile learns it.
func TestDriftOfWhatTheInstanceHas(t *testing.T) {
	t.Parallel()
	s := foreign(t, rightImage)
	c := *s.API.Claims["default-k0"]
	c.Annotations = maps.Clone(c.Annotations)
	delete(c.Annotations, model.AnnotationInstanceProfile)
	s.API.PutClaim(&c)
	drifted := func() string { return s.API.Claims["default-k0"].Condition(model.CondDrifted).Reason }
	s.API.PutClass(kept(t, nil))
	if !s.Until(5*time.Minute, func() bool {
		return s.API.Claims["default-k0"].Annotations[model.AnnotationInstanceProfile] == "test_9120934857102934"
	}) {
		t.Error("the claim did not learn its profile")
	}
	for _, tt := range []struct {
		change func(*awsv1.EC2NodeClass)
		want   string
	}{
		{func(c *awsv1.EC2NodeClass) { c.Status.SecurityGroups = c.Status.SecurityGroups[:1] }, "SecurityGroupDrift"},
		{func(c *awsv1.EC2NodeClass) { c.Status.Subnets = c.Status.Subnets[:1] }, "SubnetDrift"},
		{func(c *awsv1.EC2NodeClass) { c.Spec.Role = "another" }, "NodeClassDrift"},
		{func(*awsv1.EC2NodeClass) {}, ""},
	} {
		s.API.PutClass(kept(t, tt.change))
		if !s.Until(5*time.Minute, func() bool { return drifted() == tt.want }) {
			t.Errorf("drifted for %q, want %q", drifted(), tt.want)
		}
	}
}
