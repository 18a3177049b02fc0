package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/core/api/awsv1"
	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

const (
	staticPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
spec:
  replicas: 1
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}
`
	plainClaim = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
`
	plainClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
spec:
  role: r
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
`
)

func created(t *testing.T, cluster *harness.ControlPlane, text string) *unstructured.Unstructured {
	t.Helper()
	object := crdObject(t, text)
	object.SetName(fmt.Sprintf("sub-%d-%d", os.Getpid(), objectNumber.Add(1)))
	stored, err := cluster.Dynamic.Resource(resources[object.GetKind()]).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, cluster.Dynamic, stored) })
	return stored
}

// `kubectl scale nodepool` works on a static pool, by the scale subresource.
func TestPoolScales(t *testing.T) {
	t.Parallel()
	cluster := harness.Cluster(t)
	cluster.InstallCRDs(t, crds.FS)
	pool := created(t, cluster, staticPool)
	patch := func(sub, body string) (*unstructured.Unstructured, error) {
		return cluster.Dynamic.Resource(v1.NodePools).Patch(t.Context(), pool.GetName(), types.MergePatchType, []byte(body), metav1.PatchOptions{}, sub)
	}
	if _, err := patch("status", `{"status":{"nodes":2}}`); err != nil {
		t.Fatal(err)
	}
	scale, err := patch("scale", `{"spec":{"replicas":4}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := jsonAt(t, scale, "spec.replicas") + " " + jsonAt(t, scale, "status.replicas"); got != "4 2" {
		t.Errorf("scale says %s, want 4 wished and 2 there", got)
	}
}

// A write of the object leaves the status alone and a write of the status the rest; conditions follow the schema of their kind.
func TestStatusIsItsOwn(t *testing.T) {
	t.Parallel()
	cluster := harness.Cluster(t)
	cluster.InstallCRDs(t, crds.FS)
	bare := `{"status":{"conditions":[{"type":"Launched","status":"True","reason":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	claim := created(t, cluster, plainClaim)
	got, err := cluster.Dynamic.Resource(v1.NodeClaims).Patch(t.Context(), claim.GetName(), types.MergePatchType, []byte(`{"spec":{"expireAfter":"1h"},`+bare[1:]), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("a condition without reason is refused on a NodeClaim: %v", err)
	}
	if diff := cmp.Diff(claim.Object["spec"], got.Object["spec"]); diff != "" {
		t.Errorf("a write of the status changed the spec:\n%s", diff)
	}
	pool := created(t, cluster, staticPool)
	_, err = cluster.Dynamic.Resource(v1.NodePools).Patch(t.Context(), pool.GetName(), types.MergePatchType, []byte(bare), metav1.PatchOptions{}, "status")
	wantRefusal(t, err, "status.conditions[0].reason", "should be at least 1 chars long")
}

// The columns that people see with `kubectl get`, and with -o wide after the bar.
func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	cluster := harness.Cluster(t)
	cluster.InstallCRDs(t, crds.FS)
	for text, want := range map[string]string{
		staticPool: "NodeClass Nodes Ready Age | Weight CPU Memory",
		plainClaim: "Type Capacity Zone Node Ready Age | ImageID ID NodePool NodeClass Drifted",
		plainClass: "Ready Age | Role",
	} {
		object := created(t, cluster, text)
		resource := resources[object.GetKind()]
		data, err := cluster.Client.Discovery().RESTClient().Get().
			AbsPath("apis", resource.Group, resource.Version, resource.Resource, object.GetName()).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(data, &table); err != nil {
			t.Fatal(err)
		}
		var narrow, wide []string
		for _, c := range table.ColumnDefinitions[1:] { // after the name
			if c.Priority == 0 {
				narrow = append(narrow, c.Name)
			} else {
				wide = append(wide, c.Name)
			}
		}
		if got := strings.Join(narrow, " ") + " | " + strings.Join(wide, " "); got != want {
			t.Errorf("columns of %s: %s, want %s", object.GetKind(), got, want)
		}
	}
}

// Short names and the category, by which `kubectl get ec2nc` and `kubectl get karpenter` work.
func TestNamesInDiscovery(t *testing.T) {
	t.Parallel()
	cluster := harness.Cluster(t)
	cluster.InstallCRDs(t, crds.FS)
	for group, want := range map[string]string{
		v1.GroupVersion.String():    "nodeclaims [] [karpenter]; nodepools [] [karpenter]",
		awsv1.GroupVersion.String(): "ec2nodeclasses [ec2nc ec2ncs] [karpenter]",
	} {
		list, err := cluster.Client.Discovery().ServerResourcesForGroupVersion(group)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				got = append(got, fmt.Sprint(r.Name, " ", r.ShortNames, " ", r.Categories))
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s has %s, want %s", group, text, want)
		}
	}
}
