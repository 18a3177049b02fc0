package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/integration/fakekubelet"
	"github.com/weir-project/weir/integration/harness"
)

const id = "weir@" + clusterName

var crd = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// hanging are objects that machines hang on.
const hanging = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[1]s}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: %[1]s}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[1]s}
  requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %[1]s}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
`

// objects are those of the release, by kind and name, with the image of the scaler.
func (s *stand) objects() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Service"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
		{Version: "v1", Kind: "Secret"},
	} {
		list, err := s.List(s.t.Context(), gvk, "", "")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, u := range list {
			ours := u.GetNamespace() == s.ns || u.GetAnnotations()["meta.helm.sh/release-namespace"] == s.ns
			if !ours || u.GetName() == "kube-root-ca.crt" || u.GetName() == "default" || u.GetKind() == "Secret" && u.GetNamespace() != s.ns {
				continue
			}
			out[gvk.Kind+" "+u.GetName()] = ""
			if gvk.Kind == "Deployment" {
				containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
				if err != nil || len(containers) == 0 {
					s.t.Fatalf("deployment %s: %v", u.GetName(), err)
				}
				out[gvk.Kind+" "+u.GetName()] = fmt.Sprint(containers[0].(map[string]any)["image"])
			}
		}
	}
	return out
}

// nothing checks that nothing of the release is there.
func (s *stand) nothing() {
	s.t.Helper()
	if left := s.objects(); len(left) > 0 {
		s.t.Errorf("there still are %v", left)
	}
	harness.Eventually(s.t, "namespace "+s.ns+" is deleted", patience, func(ctx context.Context) error {
		ns, err := s.Client.CoreV1().Namespaces().Get(ctx, s.ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

func withoutSecrets(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if !strings.HasPrefix(k, "Secret ") {
			out[k] = v
		}
	}
	return out
}

// TestLife goes through what CloudFormation asks of a resource, and looks at what must
// outlive it. It comes before all others, whose definitions it makes.
func TestLife(t *testing.T) {
	s := newStand(t, "life")
	f := s.start("300")
	// As the stack of infra/cdk has it.
	onEC2 := func(changes map[string]any) string {
		v := map[string]any{"cloud": map[string]any{"kind": "aws"}, "config": map[string]any{"region": "eu-west-1"}, "ledger": "dynamodb", "ledgerTable": "weir-demo"}
		maps.Copy(v, changes)
		return s.values(v)
	}
	first := s.properties(map[string]any{"values": onEC2(nil)})
	a := f.must(s.event(cfn.RequestCreate, "", first, nil))
	want := map[string]any{
		"Release": "weir", "Namespace": "life", "Revision": "1", "ChartVersion": a.Data["ChartVersion"], "Image": "registry.example/weir:v1", "DefinitionsLeftAlone": "",
	}
	if diff := cmp.Diff(want, a.Data); diff != "" || a.PhysicalResourceID != id {
		t.Errorf("id %s, attributes (-want +got):\n%s", a.PhysicalResourceID, diff)
	}
	names := []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"}
	before := s.definitions(names)
	s.Mapper.Reset()
	s.Apply(t, "", fmt.Sprintf(hanging, s.ns))

	second := s.properties(map[string]any{"image": "registry.example/weir:v2", "values": onEC2(nil)})
	if a := f.must(s.event(cfn.RequestUpdate, id, second, first)); a.Data["Revision"] != "2" || a.PhysicalResourceID != id {
		t.Errorf("id %s, attributes %v", a.PhysicalResourceID, a.Data)
	}
	good := withoutSecrets(s.objects())
	if good["Deployment weir"] != "registry.example/weir:v2" || len(good) < 10 {
		t.Fatalf("installed are %v", good)
	}

	// Refused by the schema of the values: nothing happens at all, and going back is an update like others.
	bad := s.properties(map[string]any{"values": onEC2(map[string]any{"replicaCount": 3})})
	f.mustFail(s.event(cfn.RequestUpdate, id, bad, second), "replicaCount")
	f.must(s.event(cfn.RequestUpdate, id, second, bad))

	// Refused by the API server, half way through: there is no such namespace.
	bad = s.properties(map[string]any{"image": "registry.example/weir:v3", "values": onEC2(map[string]any{
		"karpenterLease": map[string]any{"name": "theirs", "namespace": "is-not-there"}, "interruption": map[string]any{"enabled": true, "group": "team:functions"},
	})})
	f.mustFail(s.event(cfn.RequestUpdate, id, bad, second), "is-not-there")
	f.must(s.event(cfn.RequestUpdate, id, second, bad))
	if diff := cmp.Diff(good, withoutSecrets(s.objects())); diff != "" {
		t.Errorf("after going back (-before +now):\n%s", diff)
	}
	s.editedDefinitionIsLeftAlone(f, second, names[0], "a field of a later release", map[string]any{"type": "string"},
		"schema", "openAPIV3Schema", "properties", "spec", "properties", "ofLater")
	s.editedDefinitionIsLeftAlone(f, second, names[1], "a column", []any{map[string]any{"name": "Mine", "type": "string", "jsonPath": ".metadata.name"}}, "additionalPrinterColumns")

	f.must(s.event(cfn.RequestDelete, id, second, nil))
	s.nothing()
	f.must(s.event(cfn.RequestDelete, id, second, nil)) // asked again
	if diff := cmp.Diff(before, s.definitions(names)); diff != "" {
		t.Errorf("definitions (-before +now):\n%s", diff)
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, {Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}, {Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
	} {
		u, err := s.Get(t.Context(), gvk, "", s.ns)
		if err != nil || u.GetDeletionTimestamp() != nil {
			t.Errorf("%s after the end of the release: %v, %v", gvk.Kind, u, err)
		}
	}
}

// definitions are their uids, each checked to be kept.
func (s *stand) definitions(names []string) map[string]types.UID {
	s.t.Helper()
	out := map[string]types.UID{}
	for _, name := range names {
		u, err := s.Get(s.t.Context(), crd, "", name)
		if err != nil {
			s.t.Fatal(err)
		}
		if u.GetAnnotations()["helm.sh/resource-policy"] != "keep" || u.GetAnnotations()["meta.helm.sh/release-name"] != "weir-crds" {
			s.t.Errorf("%s: annotations %v", name, u.GetAnnotations())
		}
		if !slices.ContainsFunc(u.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Operation == metav1.ManagedFieldsOperationApply }) {
			s.t.Errorf("%s was not applied server-side", name)
		}
		out[name] = u.GetUID()
	}
	return out
}

// editedDefinitionIsLeftAlone sets a field of the first version of a definition, looks
// whether an update leaves it, and undoes that: the next update takes it up again.
func (s *stand) editedDefinitionIsLeftAlone(f *function, p map[string]any, name, what string, value any, field ...string) {
	s.t.Helper()
	resource := s.Dynamic.Resource(schema.GroupVersionResource{Group: crd.Group, Version: crd.Version, Resource: "customresourcedefinitions"})
	version := func(change func(map[string]any)) map[string]any {
		u, err := resource.Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
		if err != nil || len(versions) == 0 {
			s.t.Fatalf("%s has no versions: %v", name, err)
		}
		if change == nil {
			return versions[0].(map[string]any)
		}
		change(versions[0].(map[string]any))
		if err := unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"); err != nil {
			s.t.Fatal(err)
		}
		if _, err := resource.Update(s.t.Context(), u, metav1.UpdateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		return nil
	}
	before := version(nil)
	version(func(v map[string]any) {
		if err := unstructured.SetNestedField(v, value, field...); err != nil {
			s.t.Fatal(err)
		}
	})
	if a := f.must(s.event(cfn.RequestUpdate, id, p, p)); a.Data["DefinitionsLeftAlone"] != name {
		s.t.Errorf("%s: left alone is %q, expected %s", what, a.Data["DefinitionsLeftAlone"], name)
	}
	got, ok, err := unstructured.NestedFieldCopy(version(nil), field...)
	if diff := cmp.Diff(value, got); !ok || err != nil || diff != "" {
		s.t.Errorf("%s was taken from %s (-edited +now; %v):\n%s", what, name, err, diff)
	}
	version(func(v map[string]any) { clear(v); maps.Copy(v, before) })
	if a := f.must(s.event(cfn.RequestUpdate, id, p, p)); a.Data["DefinitionsLeftAlone"] != "" {
		s.t.Errorf("%s: once it is undone %q is left alone", what, a.Data["DefinitionsLeftAlone"])
	}
}

// TestFailedCreateLeavesNothing: what the API server accepted before it refused goes again,
// and the delete that CloudFormation sends next finds nothing to do.
func TestFailedCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStand(t, "failed-create")
	f := s.start("300")
	bad := s.properties(map[string]any{"values": s.values(map[string]any{"karpenterLease": map[string]any{"name": "theirs", "namespace": "is-not-there"}})})
	a := f.mustFail(s.event(cfn.RequestCreate, "", bad, nil), "is-not-there")
	s.nothing()
	f.must(s.event(cfn.RequestDelete, a.PhysicalResourceID, bad, nil))

	refused := s.properties(map[string]any{"endpoint": "http://plain.example", "colour": "blue"})
	a = f.mustFail(s.event(cfn.RequestCreate, "", refused, nil), "property endpoint")
	if !strings.Contains(a.Reason, "property colour is not known") {
		t.Errorf("reason %q", a.Reason)
	}
	f.must(s.event(cfn.RequestDelete, a.PhysicalResourceID, refused, nil))
}

// TestForeignNamespaceStays: one that was there before, or that has something in it, is not ours to delete.
func TestForeignNamespaceStays(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(s *stand, made bool){
		"there-before": func(s *stand, made bool) {
			if !made {
				s.Apply(s.t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: there-before}\n")
			}
		},
		"in-use": func(s *stand, made bool) {
			if made {
				s.Apply(s.t, s.ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\n")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, name)
			f := s.start("300")
			prepare(s, false)
			f.must(s.event(cfn.RequestCreate, "", s.properties(nil), nil))
			prepare(s, true)
			f.must(s.event(cfn.RequestDelete, id, s.properties(nil), nil))
			ns, err := s.Client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || ns.DeletionTimestamp != nil {
				t.Errorf("the namespace does not stay: %v", err)
			}
			if o := s.objects(); len(o) > 1 || len(o) == 1 && name != "in-use" {
				t.Errorf("there still are %v", o)
			}
		})
	}
}

// TestMove moves the release to another namespace; a move that fails is taken back at once,
// while the namespace that it left is still being deleted.
func TestMove(t *testing.T) {
	t.Parallel()
	s := newStand(t, "move-from")
	f := s.start("300")
	there := func(lease string) map[string]any {
		return s.properties(map[string]any{"namespace": "move-to", "values": s.values(map[string]any{"karpenterLease": map[string]any{"name": "k", "namespace": lease}})})
	}
	here := s.properties(nil)
	f.must(s.event(cfn.RequestCreate, "", here, nil))
	f.mustFail(s.event(cfn.RequestUpdate, id, there("is-not-there"), here), "is-not-there")
	f.must(s.event(cfn.RequestUpdate, id, here, there("is-not-there")))
	if o := s.objects(); o["Deployment weir"] == "" {
		t.Errorf("after going back there are %v", o)
	}
	a := f.must(s.event(cfn.RequestUpdate, id, there("move-to"), here))
	// Definitions that were applied for the release in another namespace are ours all the same.
	if left := fmt.Sprint(a.Data["DefinitionsLeftAlone"]); strings.Contains(left, "nodeclaims.karpenter.sh") {
		t.Errorf("left alone are %s", left)
	}
	s.nothing()
	s.ns = "move-to"
	if o := s.objects(); o["Deployment weir"] == "" {
		t.Errorf("installed are %v", o)
	}
	f.must(s.event(cfn.RequestDelete, id, there("move-to"), nil))
	s.nothing()
}

// TestInterruptedRunIsRepaired kills the function in the middle of each kind of request,
// and has the next one find what it left.
func TestInterruptedRunIsRepaired(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		during       cfn.RequestType
		method, path string // of the request that the function dies with
		next         []cfn.RequestType
	}{
		"create-again":  {cfn.RequestCreate, http.MethodPost, "/deployments", []cfn.RequestType{cfn.RequestCreate}},
		"create-delete": {cfn.RequestCreate, http.MethodPost, "/rolebindings", []cfn.RequestType{cfn.RequestDelete}},
		"update-back":   {cfn.RequestUpdate, http.MethodPatch, "/deployments/weir", []cfn.RequestType{cfn.RequestUpdate}},
		"update-delete": {cfn.RequestUpdate, http.MethodPost, "/clusterrolebindings", []cfn.RequestType{cfn.RequestDelete}},
		"delete-again":  {cfn.RequestDelete, http.MethodDelete, "/serviceaccounts/weir", []cfn.RequestType{cfn.RequestDelete}},
		"delete-create": {cfn.RequestDelete, http.MethodDelete, "/configmaps/weir", []cfn.RequestType{cfn.RequestCreate}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, name)
			f := s.start("300")
			first := s.properties(nil)
			second := s.properties(map[string]any{"image": "registry.example/weir:v2", "values": s.values(map[string]any{"interruption": map[string]any{"enabled": true, "group": "team:functions"}})})
			var good map[string]string
			if tc.during != cfn.RequestCreate {
				f.must(s.event(cfn.RequestCreate, "", first, nil))
				good = withoutSecrets(s.objects())
			}
			var dead atomic.Bool
			die := func(r *http.Request) bool {
				if r.Method == tc.method && strings.HasSuffix(r.URL.Path, tc.path) {
					dead.Store(true)
					f.kill()
					return false
				}
				return true
			}
			s.meddle.Store(&die)
			now, old := first, map[string]any(nil)
			if tc.during == cfn.RequestUpdate {
				now, old = second, first
			}
			f.send(s.event(tc.during, id, now, old))
			<-f.ended
			s.meddle.Store(nil)
			if !dead.Load() {
				t.Fatal("the function was not killed: it never made that request")
			}

			f = s.start("300")
			for _, kind := range tc.next {
				switch kind {
				case cfn.RequestUpdate:
					f.must(s.event(kind, id, first, second))
				default:
					f.must(s.event(kind, id, now, nil))
				}
			}
			if tc.next[len(tc.next)-1] == cfn.RequestDelete {
				s.nothing()
				return
			}
			got := withoutSecrets(s.objects())
			if got["Deployment weir"] != "registry.example/weir:v1" || good != nil && cmp.Diff(good, got) != "" {
				t.Errorf("after the repair (-before +now):\n%s", cmp.Diff(good, got))
			}
		})
	}
}

// TestTimeIsOver: a run that hangs is answered before its function's time is over.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	s := newStand(t, "hangs")
	f := s.start("20")
	hang := func(r *http.Request) bool {
		return r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/deployments")
	}
	s.meddle.Store(&hang)
	began := time.Now()
	f.mustFail(s.event(cfn.RequestCreate, "", s.properties(nil), nil), "the function's time is over")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("answered after %v of 20 s", took)
	}
	s.meddle.Store(nil)
	f.kill()
	<-f.ended
	f = s.start("300")
	f.must(s.event(cfn.RequestDelete, id, s.properties(nil), nil))
	s.nothing()
}

// TestPodsThatNeverRun: an installation that waits says what keeps the pods, and is taken back.
func TestPodsThatNeverRun(t *testing.T) {
	t.Parallel()
	s := newStand(t, "never-runs")
	f := s.start("20")
	p := s.properties(map[string]any{"wait": "true", "values": s.values(map[string]any{"nodeSelector": map[string]any{"there": "is-none"}})})
	f.mustFail(s.event(cfn.RequestCreate, "", p, nil), "is not Scheduled: Unschedulable")
	s.nothing()
}

// TestDeleteOfAClusterThatIsGone: the stack can be deleted after its cluster, and a cluster
// that cannot be reached is not taken for one that is gone.
func TestDeleteOfAClusterThatIsGone(t *testing.T) {
	t.Parallel()
	s := newStand(t, "gone")
	f := s.start("300")
	say := func(status int, kind, body string) {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if kind != "" {
				w.Header().Set("X-Amzn-ErrorType", kind)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
		s.described.Store(&h)
	}
	away := s.properties(map[string]any{"endpoint": "https://" + harness.FreeAddress(t)})
	say(http.StatusNotFound, "ResourceNotFoundException", `{"message": "No cluster found for name: demo."}`)
	if a := f.must(s.event(cfn.RequestDelete, id, away, nil)); !strings.Contains(a.Reason, "cluster demo does not exist any more") || a.PhysicalResourceID != id {
		t.Errorf("answer %+v does not say that the cluster is gone", a)
	}
	say(http.StatusOK, "", `{"cluster": {"name": "demo", "endpoint": "https://new.example"}}`)
	if a := f.must(s.event(cfn.RequestDelete, id, away, nil)); !strings.Contains(a.Reason, "another API server, https://new.example") {
		t.Errorf("reason %q does not say that the cluster is another", a.Reason)
	}
	say(http.StatusForbidden, "AccessDeniedException", `{"message": "not authorized to perform: eks:DescribeCluster"}`)
	f.mustFail(s.event(cfn.RequestDelete, id, away, nil), "connection refused")
	say(http.StatusOK, "", fmt.Sprintf(`{"cluster": {"name": "demo", "endpoint": %q}}`, away["endpoint"]))
	f.mustFail(s.event(cfn.RequestDelete, id, away, nil), "connection refused")
}

// TestWaitsForPods: with wait the answer comes once the pods are ready.
func TestWaitsForPods(t *testing.T) {
	t.Parallel()
	s := newStand(t, "waits")
	kubelets, err := fakekubelet.New(fakekubelet.Config{Client: s.Client, Logger: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), PodStopTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- kubelets.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Client.CoreV1().Nodes().Delete(context.Background(), "waits", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if _, err := kubelets.Start(ctx, fakekubelet.NodeSpec{
		Name: "waits", ProviderID: "aws:///eu-west-1a/i-1", Labels: map[string]string{"of": "waits"}, Taints: []corev1.Taint{{Key: "of", Value: "waits", Effect: corev1.TaintEffectNoSchedule}},
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("58")},
	}); err != nil {
		t.Fatal(err)
	}
	f := s.start("300")
	p := s.properties(map[string]any{"wait": "true", "values": s.values(map[string]any{"nodeSelector": map[string]any{"of": "waits"}, "tolerations": []any{map[string]any{"key": "of", "operator": "Exists"}}})})
	f.must(s.event(cfn.RequestCreate, "", p, nil))
	d, err := s.Client.AppsV1().Deployments(s.ns).Get(t.Context(), "weir", metav1.GetOptions{})
	if err != nil || d.Status.ReadyReplicas == 0 {
		t.Errorf("answered with %+v, %v", d.Status, err)
	}
	f.must(s.event(cfn.RequestDelete, id, p, nil))
	s.nothing()
}

// TestImageIsPushed: the carried image goes into a registry with ECR's credentials, once, and is installed by digest.
func TestImageIsPushed(t *testing.T) {
	t.Parallel()
	s := newStand(t, "pushes")
	var puts atomic.Int32
	store := registry.New()
	reg := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "AWS" || password != "password" {
			w.Header().Set("WWW-Authenticate", `Basic realm="ecr"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			puts.Add(1)
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(reg.Close)
	ecr := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetAuthorizationToken") {
			t.Errorf("call of ECR: %s", r.Header.Get("X-Amz-Target"))
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if _, err := fmt.Fprint(w, `{"authorizationData":[{"authorizationToken":"QVdTOnBhc3N3b3Jk","expiresAt":1893456000}]}`); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(ecr.Close)
	repository := strings.TrimPrefix(reg.URL, "http://") + "/weir"
	f := s.start("300", "AWS_ENDPOINT_URL_ECR="+ecr.URL)
	p := s.properties(map[string]any{"imageRepository": repository})
	delete(p, "image")
	a := f.must(s.event(cfn.RequestCreate, "", p, nil))
	installed := s.objects()["Deployment weir"]
	if !strings.HasPrefix(installed, repository+"@sha256:") || a.Data["Image"] != installed {
		t.Errorf("installed is %s, told is %s", installed, a.Data["Image"])
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, reg.URL+"/v2/weir/manifests/"+strings.TrimPrefix(installed, repository+"@"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("AWS", "password")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the registry has no such image: %s, %v", resp.Status, err)
	}
	pushed := puts.Load()
	f.must(s.event(cfn.RequestUpdate, id, p, p))
	if puts.Load() != pushed || pushed < 3 {
		t.Errorf("%d manifests were put, then %d more", pushed, puts.Load()-pushed)
	}
	f.must(s.event(cfn.RequestDelete, id, p, nil))
	s.nothing()
}

// TestChartOfTheHistory: CloudFormation may take the release back before the function. The
// chart, which the function does not carry any more, is then taken from the release.
func TestChartOfTheHistory(t *testing.T) {
	t.Parallel()
	s := newStand(t, "history")
	f := s.start("300")
	p := s.properties(nil)
	old := f.must(s.event(cfn.RequestCreate, "", p, nil)).Data["ChartVersion"].(string)
	f.kill()
	<-f.ended

	const later = "98.0.0"
	f = s.startFrom(packLater(t, later), "300")
	update := s.properties(map[string]any{"chartVersion": later})
	if a := f.must(s.event(cfn.RequestUpdate, id, update, p)); a.Data["ChartVersion"] != later {
		t.Errorf("attributes are %v, expected chart %s", a.Data, later)
	}
	back := s.properties(map[string]any{"chartVersion": old})
	if a := f.must(s.event(cfn.RequestUpdate, id, back, update)); a.Data["ChartVersion"] != old || a.Data["Revision"] != "3" {
		t.Errorf("attributes are %v, expected chart %s", a.Data, old)
	}
	f.mustFail(s.event(cfn.RequestUpdate, id, s.properties(map[string]any{"chartVersion": "99.0.0"}), back), "property chartVersion")
	f.must(s.event(cfn.RequestDelete, id, back, nil))
	s.nothing()
}
