package workload

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-project/weir/core/catalogue"
)

// Cluster says what a running cluster is to be like.
type Cluster struct {
	Nodes int
	Fill  float64 // CPU requests as a share of the allocatable, 0 to 1
	Seed  uint64
	// Hard gives a fifth of the pods what makes consolidation hard: a zone selector,
	// anti-affinity by hostname, zone spread, a budget that allows nothing, or
	// karpenter.sh/do-not-disrupt.
	Hard bool
}

// Running is a cluster: nodes with their NodeClaims, the pods on them, and budgets.
type Running struct {
	Objects     []map[string]any // in the form of the API
	Nodes, Pods int
	USDPerHour  float64 // list price of the nodes
}

type object = map[string]any

// kinds are the instance types of a cluster's nodes, all on demand.
var kinds = []string{"m5.2xlarge", "m6i.2xlarge", "r6i.2xlarge", "m7g.2xlarge", "c7a.2xlarge", "c6i.4xlarge", "m6a.4xlarge", "m7i.4xlarge"}

const born = "2026-01-01T00:00:00Z"

// Draw makes the cluster, with nodes of pool cmr and node class bench.
func (c Cluster) Draw(types *catalogue.Table) (*Running, error) {
	if c.Nodes < 0 || c.Fill < 0 || c.Fill > 1 {
		return nil, fmt.Errorf("a cluster of %d nodes filled to %v: expected no negative number and a share of 0 to 1", c.Nodes, c.Fill)
	}
	d := &drawer{Cluster: c, random: &random{c.Seed}, out: &Running{Nodes: c.Nodes}}
	for i := range c.Nodes {
		t := types.Get(kinds[d.below(len(kinds))])
		if t == nil {
			return nil, fmt.Errorf("the catalogue lacks one of %s", strings.Join(kinds, ", "))
		}
		zone := zones[d.below(len(zones))]
		free, err := roomOf(t)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("node-%05d", i)
		d.node(i, name, zone, t)
		d.fill(name, zone, free)
		d.out.USDPerHour += t.OnDemandUSD
	}
	return d.out, nil
}

// Write writes the cluster as one Kubernetes List, an object a line.
func (r *Running) Write(w io.Writer) error {
	return writeLines(w, `{"apiVersion":"v1","kind":"List","items":[`+"\n", ",\n", "\n]}\n", r.Objects)
}

type drawer struct {
	Cluster
	*random
	out *Running
}

// room is what a node has for pods.
type room struct{ cpu, memory, pods int } // milli, MiB, number

func roomOf(t *catalogue.Type) (room, error) {
	var q [3]resource.Quantity
	for i, name := range []string{"cpu", "memory", "pods"} {
		var err error
		if q[i], err = resource.ParseQuantity(t.Allocatable[name]); err != nil {
			return room{}, fmt.Errorf("instance type %s: allocatable %s: %w", t.Name, name, err)
		}
	}
	return room{int(q[0].MilliValue()), int(q[1].Value() >> 20), int(q[2].Value())}, nil
}

// node adds a node and its claim.
func (d *drawer) node(i int, name, zone string, t *catalogue.Type) {
	id := fmt.Sprintf("i-%017x", i+1)
	labels := object{
		"karpenter.sh/nodepool": "cmr", "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
		"karpenter.k8s.aws/ec2nodeclass": "bench", "node.kubernetes.io/instance-type": t.Name, "topology.kubernetes.io/zone": zone,
		"topology.kubernetes.io/region": catalogue.Region, "kubernetes.io/arch": t.Arch, "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
	}
	for k, v := range t.Labels {
		labels["karpenter.k8s.aws/"+k] = v
	}
	providerID := "aws:///" + zone + "/" + id
	capacity := object{"cpu": strconv.FormatInt(t.VCPU, 10), "memory": fmt.Sprintf("%dMi", t.MemoryMiB), "pods": t.Allocatable["pods"], "ephemeral-storage": "20Gi"}
	d.add(object{
		"apiVersion": "v1", "kind": "Node",
		"metadata": object{"name": name, "uid": "node-" + id, "creationTimestamp": born, "labels": labels, "annotations": object{}},
		"spec":     object{"providerID": providerID},
		"status":   object{"capacity": capacity, "allocatable": t.Allocatable, "conditions": conditions("Ready")},
	})
	d.add(object{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
		"metadata": object{"name": "claim-" + name, "uid": "claim-" + id, "creationTimestamp": born, "labels": labels,
			"ownerReferences": []object{{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "cmr", "uid": "pool-cmr", "blockOwnerDeletion": true}}},
		"spec": object{"nodeClassRef": object{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "bench"}, "expireAfter": "720h", "requirements": []object{}},
		"status": object{"providerID": providerID, "nodeName": name, "capacity": capacity, "allocatable": t.Allocatable,
			"conditions": conditions("Launched", "Registered", "Initialized", "Consolidatable", "Ready")},
	})
}

func conditions(kinds ...string) []object {
	var out []object
	for _, k := range kinds {
		out = append(out, object{"type": k, "status": "True", "reason": k, "message": "", "lastTransitionTime": born})
	}
	return out
}

func (d *drawer) add(o object) { d.out.Objects = append(d.out.Objects, o) }

// fill puts pods on a node until so much of its CPU is asked for, or until twenty
// pods in a row were too large.
func (d *drawer) fill(node, zone string, free room) {
	rest := int(float64(free.cpu) * (1 - d.Fill))
	for misses := 0; free.cpu > rest && free.pods > 0 && misses < 20; {
		r := d.request()
		if r.CPU > free.cpu-rest+200 || r.Memory > free.memory {
			misses++
			continue
		}
		d.pod(node, zone, r)
		free.cpu, free.memory, free.pods = free.cpu-r.CPU, free.memory-r.Memory, free.pods-1
	}
}

func (d *drawer) pod(node, zone string, r Request) {
	app := fmt.Sprintf("app-%06d", d.out.Pods)
	labels := map[string]string{"app": app}
	meta := object{"name": app + "-0", "namespace": "default", "uid": "pod-" + app, "labels": labels, "creationTimestamp": born,
		"ownerReferences": []object{{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": "rs-" + app, "controller": true}}}
	spec := object{"nodeName": node, "containers": r.container()}
	if d.Hard && d.below(5) == 0 {
		own := labelSelectorJSON{map[string]string{"app": app}}
		switch d.below(5) {
		case 0:
			spec["nodeSelector"] = object{"topology.kubernetes.io/zone": zone}
		case 1:
			labels["tier"] = "solo"
			spec["affinity"] = onePerHost(labelSelectorJSON{map[string]string{"tier": "solo"}})
		case 2:
			spec["topologySpreadConstraints"] = zoneSpread(own)
		case 3:
			d.add(object{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": object{"name": app, "namespace": "default"},
				"spec":   object{"maxUnavailable": 0, "selector": own},
				"status": object{"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}})
		case 4:
			meta["annotations"] = object{"karpenter.sh/do-not-disrupt": "true"}
		}
	}
	d.add(object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec,
		"status": object{"phase": "Running", "conditions": []object{{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}}}})
	d.out.Pods++
}
