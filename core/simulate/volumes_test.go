package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
)

// TestPodsWithVolumesGetNodes plays the whole way of pods with volumes: nodes that can
// hold them are bought, join, become usable, and the pods are bound to them.
func TestPodsWithVolumesGetNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("all.yaml", `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [us-east-1b]}]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 30
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: gp3}}]
`)
	script, err := ParseScenario(strings.NewReader(head+`spec:
  end: 20m
  steps:
  - {at: 0s, apply: [all.yaml]}
  - {at: 15m, expect: {workload: default/db, running: 30, nodes: {p: 2}}}
`), "volumes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	opts := options(t)
	opts.Catalogue, opts.Load = few, files(dir)
	r, err := Run(t.Context(), &Input{}, script, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("%s", c.Text)
		}
	}
	if len(r.Checks) == 0 {
		t.Error("nothing was checked")
	}
	for _, b := range r.Bill {
		if b.Zone != "us-east-1b" {
			t.Errorf("a machine in %s: the volumes cannot be there", b.Zone)
		}
	}
}

// TestSchedulerCountsVolumes: places for volumes are room like any other.
func TestSchedulerCountsVolumes(t *testing.T) {
	t.Parallel()
	in, err := load.Files([]string{"-"}, strings.NewReader(`
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "20"}}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: i, allocatable: {count: 2}}]}
`), load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &model.Pod{}
	p.Requests = p.Requests.With(attach.Resource(attach.EBS), 3)
	n := FromFiles(in).Nodes[0]
	if free := attach.Allocatable(n, []string{attach.EBS}, nil); pick([]room{{node: n, free: free}}, p, "w") >= 0 {
		t.Errorf("three volumes were put where two fit: %v", free)
	}
}
