package load_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
)

const picksNamespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: red}}
---
apiVersion: v1
kind: Pod
metadata: {name: near, namespace: blog, labels: {app: near}}
spec:
  containers: [{name: a}]
  affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchLabels: {app: db}}, namespaceSelector: {matchLabels: {team: red}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: a}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: blog, labels: {app: db}}
spec: {containers: [{name: a}]}
`

func TestNamespaceSelector(t *testing.T) {
	t.Parallel()
	in := must(t, picksNamespaces)
	byID := map[string]*model.Pod{}
	for _, p := range in.Pods {
		byID[p.ID()] = p
	}
	near := byID["blog/near"]
	if len(near.Unsupported) > 0 || len(near.Topology.Affinity) != 1 {
		t.Fatalf("%v %+v", near.Unsupported, near.Topology)
	}
	sel := near.Topology.Affinity[0].Selector
	if !sel.Picks(byID["shop/db"]) || sel.Picks(byID["blog/db"]) {
		t.Errorf("selector %s", sel.ID)
	}
	if d := cmp.Diff([]string{"Namespace blog is not in the input: it counts as having no label but its name"}, in.Warnings); d != "" {
		t.Error(d)
	}
}

func TestDefaultSpread(t *testing.T) {
	t.Parallel()
	cfg, err := convert.ReadSchedulerConfig([]byte(`podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}`))
	if err != nil {
		t.Fatal(err)
	}
	input := deployment + `---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: lone}}
---
apiVersion: v1
kind: Pod
metadata: {name: lone, labels: {app: lone}}
spec: {containers: [{name: a}]}
---
apiVersion: v1
kind: Pod
metadata: {name: own, labels: {app: own}}
spec: {containers: [{name: a}]}
`
	in, err := load.Files([]string{"-"}, strings.NewReader(input), load.Options{SpreadDefaults: cfg.PodTopologySpread.DefaultConstraints})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range in.Pods {
		got[p.Name] = ""
		if p.Topology != nil && len(p.Topology.Spreads) == 1 {
			got[p.Name] = p.Topology.Spreads[0].Selector.ID
		}
	}
	want := map[string]string{"web-0": "default/app=web", "web-1": "default/app=web", "web-2": "default/app=web", "lone": "default/app=lone", "own": ""}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("spreads (-want +got):\n%s", d)
	}
	if w := in.Workloads[0].Pod; w.Topology == nil || len(w.Topology.Spreads) != 1 {
		t.Errorf("pods that the workload makes later: %+v", w.Topology)
	}
	if len(in.Warnings) > 0 {
		t.Error(in.Warnings)
	}
}

// A RuntimeClass of the input does to pods of files what admission would do; pods that
// were stored carry it already.
func TestRuntimeClass(t *testing.T) {
	t.Parallel()
	in := must(t, `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
scheduling: {nodeSelector: {sandbox: kata}, tolerations: [{key: kata, operator: Exists, effect: NoSchedule}]}
---
apiVersion: v1
kind: Pod
metadata: {name: written}
spec: {runtimeClassName: kata, containers: [{name: a, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stored, uid: u}
spec: {runtimeClassName: kata, overhead: {cpu: 250m}, nodeSelector: {sandbox: kata}, tolerations: [{key: kata, operator: Exists, effect: NoSchedule}], containers: [{name: a, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gone}
spec: {runtimeClassName: gvisor, containers: [{name: a, resources: {requests: {cpu: 1}}}]}
`)
	for _, p := range in.Pods[:2] {
		_, kept := p.Untolerated([]model.Taint{{Key: "kata", Effect: model.NoSchedule}})
		if p.Requests.Get("cpu") != 1250 || p.Terms[0].String() != "sandbox In [kata]" || kept {
			t.Errorf("%s: %s, %v, %v", p.Name, p.Requests, p.Terms, p.Tolerations)
		}
	}
	if d := cmp.Diff([]string{"RuntimeClass gvisor is not in the input: its overhead, node selector and tolerations are not known"}, in.Warnings); d != "" {
		t.Error(d)
	}
}
