package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

// askedAbout is a cluster with what explanations speak of: a budget that allows nothing, a
// volume that nobody made yet, a pod that fits nowhere and one that a machine is bought for.
const askedAbout = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20260304}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  limits: {cpu: 100}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: "1"}, {nodes: "0", schedule: "0 0 * * 1", duration: 1h}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zonal}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [us-east-1b]}]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: zonal, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "6"}}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "500"}}}]}
`

// readers are two service accounts: one may read what weir explain rbac says, the other all of it but budgets and nodes.
const readers = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: half}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: weir-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weir-reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: weir-half}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weir-half}
subjects: [{kind: ServiceAccount, name: half, namespace: default}]
`

// asker runs the operator's command about a cluster.
type asker struct {
	*fleet
	weir string
}

func (a *asker) run(args ...string) (code int, out, talk string) {
	a.t.Helper()
	cmd := exec.Command(a.weir, args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		a.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// dump is what kubectl get would write of the kinds that files are read for, with default spread constraints or without.
func (a *asker) dump(spreadDefaults bool) string {
	a.t.Helper()
	kinds := append(load.ClusterKinds(spreadDefaults), schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"})
	items := []any{}
	for _, k := range kinds {
		list, err := a.List(a.t.Context(), k, "", "")
		if err != nil {
			a.t.Fatal(err)
		}
		for i := range list {
			items = append(items, list[i].Object)
		}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		a.t.Fatal(err)
	}
	path := filepath.Join(a.t.TempDir(), "cluster.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// settled waits until nothing changes any more that an answer could depend on.
func (a *asker) settled() {
	a.t.Helper()
	harness.Eventually(a.t, "the pods run and the budget allows nothing", patience, func(ctx context.Context) error {
		pods, err := a.Client.CoreV1().Pods(a.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready, refused := 0, 0
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.Conditions {
				switch {
				case c.Type == "Ready" && c.Status == "True":
					ready++
				case c.Type == "PodScheduled" && c.Status == "False":
					refused++
				}
			}
		}
		b, err := a.Client.PolicyV1().PodDisruptionBudgets(a.ns).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready != 4 || refused != 2 || b.Status.CurrentHealthy != 2 || b.Status.DisruptionsAllowed != 0 {
			return fmt.Errorf("%d pods ready, want 2 of web and 2 of agent; %d wait, want 2; budget %+v", ready, refused, b.Status)
		}
		return nil
	})
}

// differing is what two answers to one question may differ in: how long they took, and that of a cluster nobody chose which kinds are read.
var differing = regexp.MustCompile(`"(load|solve)Seconds": [0-9.e-]+|"peakHeapBytes": \d+|solved in [0-9.]+ s|warning: not used: \d+ Namespaces\n|"not used: \d+ Namespaces",\n *`)

// same asks a cluster and a dump of it and wants one answer, which says so.
func (a *asker) same(kubeconfig, dump, says string, args ...string) {
	a.t.Helper()
	for _, format := range []string{"table", "json"} {
		args := append(args[:len(args):len(args)], "--now", "2026-12-03T12:00:00Z", "-o", format)
		code, live, talk := a.run(append(args, "--kubeconfig", kubeconfig)...)
		if code != 0 || talk != "" || format == "table" && !strings.Contains(live, says) {
			a.t.Errorf("weir %s: code %d, %s%s, want %q", strings.Join(args, " "), code, live, talk, says)
			continue
		}
		code, file, talk := a.run(append(args, "-f", dump)...)
		if diff := cmp.Diff(differing.ReplaceAllString(file, ""), differing.ReplaceAllString(live, "")); code != 0 || talk != "" || diff != "" {
			a.t.Errorf("weir %s: code %d %s (-dump +cluster):\n%s", strings.Join(args, " "), code, talk, diff)
		}
	}
}

// TestAskingACluster asks a cluster what it asks a dump of the same cluster: the answers
// are the same, who lacks a right is told which, and a cluster without our kinds says so.
func TestAskingACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := harness.Cluster(t, harness.NodeMonitorGrace(nodeGrace)) // its own: all of it is asked about
	a := &asker{&fleet{ControlPlane: c, t: t, ns: metav1.NamespaceDefault}, command(t)}
	account := &operated{killed: &killed{ControlPlane: c}}

	code, out, talk := a.run("explain", "budgets", "--kubeconfig", c.Kubeconfig)
	for _, want := range []string{"NodePool of karpenter.sh/v1: is CustomResourceDefinition nodepools.karpenter.sh installed?", "ec2nodeclasses.karpenter.k8s.aws installed?"} {
		if code != 1 || out != "" || !strings.Contains(talk, want) {
			t.Errorf("without our kinds: code %d, %s%s, want %q", code, out, talk, want)
		}
	}

	c.InstallCRDs(t, crds.FS)
	c.Apply(t, a.ns, askedAbout)
	a.node("n1", true, true)
	a.node("n2", true, false)
	a.settled()

	_, role, _ := a.run("explain", "rbac")
	_, half, _ := a.run("explain", "rbac", "--name", "weir-half")
	half = regexp.MustCompile(`  - (nodes|poddisruptionbudgets)\n`).ReplaceAllString(half, "")
	half = strings.Replace(half, "  resources:\n  verbs:", "  resources: [none]\n  verbs:", 1)
	c.Apply(t, a.ns, role+"\n---\n"+half+"\n---\n"+readers)

	code, out, talk = a.run("explain", "pool", "default", "--kubeconfig", account.kubeconfig(t, "half"))
	for _, want := range []string{"the right is missing to list poddisruptionbudgets.policy in the whole cluster: ", `User "system:serviceaccount:default:half" cannot list resource "poddisruptionbudgets"`,
		"the right is missing to list nodes in the whole cluster: ", "weir explain rbac prints a ClusterRole"} {
		if code != 1 || out != "" || !strings.Contains(talk, want) {
			t.Errorf("without two rights: code %d, %s%s, want %q", code, out, talk, want)
		}
	}

	reader, dump := account.kubeconfig(t, "reader"), a.dump(false)
	web, err := c.Client.CoreV1().Pods(a.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	a.same(reader, dump, "PodDisruptionBudget", "explain", "pod", web.Items[0].Name)
	a.same(reader, dump, "web", "explain", "node", a.name("n1"))
	a.same(reader, dump, a.name("n2"), "explain", "node", a.instance("n2"))
	a.same(reader, dump, "us-east-1b", "explain", "pod", "waits", "-n", a.ns)
	a.same(reader, dump, "needs 500 cpu", "explain", "pod", "default/huge")
	a.same(reader, dump, "default", "explain", "pool", "default")
	a.same(reader, dump, "default", "explain", "budgets")
	a.same(reader, dump, "us-east-1b", "simulate", "provision")
	a.same(reader, dump, "node", "simulate", "consolidate")
	spread := `podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}`
	a.same(reader, a.dump(true), "us-east-1b", "simulate", "provision", "--scheduler-config", spread)
}
