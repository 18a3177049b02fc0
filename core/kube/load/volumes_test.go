package load_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
)

const storage = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-0}
spec:
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-0}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [us-east-1b]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-0, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {volumeName: pv-0, storageClassName: gp3}
status: {phase: Bound}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: i-1, allocatable: {count: 2}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "20"}, conditions: [{type: Ready, status: "True"}]}
---
`

const set = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]
---
`

// asked is the places and slots of each pod, or why it has none.
func asked(pods []*model.Pod) map[string]string {
	out := map[string]string{}
	for _, p := range pods {
		var parts []string
		if p.Topology != nil {
			for _, v := range p.Topology.VolumeTerms {
				parts = append(parts, v.String())
			}
		}
		p.Requests.Each(func(name string, n int64) {
			if strings.HasPrefix(name, attach.Prefix) {
				parts = append(parts, strings.Repeat("slot ", int(n))+strings.TrimPrefix(name, attach.Prefix))
			}
		})
		for _, u := range p.Unsupported {
			phrase, _, _ := strings.Cut(u.Message, ":")
			parts = append(parts, phrase)
		}
		out[p.Name] = strings.Join(parts, "; ")
	}
	return out
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	const at = "topology.kubernetes.io/zone In [us-east-1b]; slot ebs.csi.aws.com"
	for _, tt := range []struct {
		name, input string
		want        map[string]string
	}{
		{"StatefulSet that has no pods yet", storage + set, map[string]string{"db-0": at, "db-1": "slot ebs.csi.aws.com"}},
		{"StatefulSet whose pods wait", storage + set + `
apiVersion: v1
kind: Pod
metadata: {name: db-0, labels: {app: db}, uid: a, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s, controller: true}]}
spec: {containers: [{name: a}], volumes: [{name: data, persistentVolumeClaim: {claimName: data-db-0}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db-1, labels: {app: db}, uid: b, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s, controller: true}]}
spec: {containers: [{name: a}], volumes: [{name: data, persistentVolumeClaim: {claimName: data-db-1}}]}
`, map[string]string{"db-0": at, "db-1": "slot ebs.csi.aws.com"}},
		{"Deployment that shares a claim, has its own, and one that is nowhere", storage + `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: a}]
      volumes:
      - {name: shared, persistentVolumeClaim: {claimName: data-db-0}}
      - {name: own, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: gp3}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: lost}
spec: {containers: [{name: a}], volumes: [{name: data, persistentVolumeClaim: {claimName: nowhere}}]}
`, map[string]string{"web-0": "topology.kubernetes.io/zone In [us-east-1b]; slot slot ebs.csi.aws.com", "lost": "claim missing"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := must(t, tt.input)
			if d := cmp.Diff(tt.want, asked(in.Pods)); d != "" {
				t.Error(d)
			}
			if len(in.Warnings) > 0 {
				t.Errorf("%v", in.Warnings)
			}
			if d := cmp.Diff(map[string]int64{attach.EBS: 2}, in.Nodes[0].VolumeLimits); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestWorkloadVolumes: whoever lets time pass makes pods of a workload as they are here.
func TestWorkloadVolumes(t *testing.T) {
	t.Parallel()
	in := must(t, storage+set)
	if d := cmp.Diff(map[string]string{"": "slot ebs.csi.aws.com"}, asked([]*model.Pod{in.Workloads[0].Pod})); d != "" {
		t.Error(d)
	}
}

func TestVolumesRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ from, to, want string }{
		"operator of a volume": {"operator: In, values: [us-east-1b]", "operator: Is", "document 2 (PersistentVolume pv-0): spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator"},
		"binding mode":         {"WaitForFirstConsumer", "Later", "document 1 (StorageClass gp3): volumeBindingMode: expected Immediate or WaitForFirstConsumer"},
		"no provisioner":       {"provisioner: ebs.csi.aws.com", "parameters: {a: b}", "document 1 (StorageClass gp3): provisioner: is missing"},
		"negative limit":       {"count: 2", "count: -2", "document 4 (CSINode n1): spec.drivers[0].allocatable.count"},
		"limit of nonsense":    {"count: 2", "count: many", "document 4 (CSINode n1): spec.drivers.allocatable.count: expected a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load.Files([]string{"-"}, strings.NewReader(strings.Replace(storage, tt.from, tt.to, 1)), load.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
