package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/api/awsv1"
	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/api/validate"
	"github.com/weir-project/weir/core/api/validate/cases"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

var (
	resources = map[string]schema.GroupVersionResource{
		"NodePool": v1.NodePools, "NodeClaim": v1.NodeClaims, "EC2NodeClass": awsv1.EC2NodeClasses,
	}
	objectNumber atomic.Int64
)

// A real API server with our definitions must judge each object of the table as core/api/validate does offline.
func TestAPIServerJudgesTheTableAlike(t *testing.T) {
	t.Parallel()
	cluster := harness.Cluster(t)
	cluster.InstallCRDs(t, crds.FS)
	client := cluster.Dynamic
	table, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range table {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			object := crdObject(t, c.YAML)
			if object.GetName() == strings.ToLower(object.GetName()) {
				object.SetName(fmt.Sprintf("%s-%d-%d", object.GetName(), os.Getpid(), objectNumber.Add(1)))
			}
			offline, errs := judgeOffline(t, c, object)
			got, err := submit(t, client, c, object, metav1.FieldValidationStrict)
			switch {
			case c.WantErr != "":
				wantRefusal(t, err, c.WantPath, c.WantErr)
				for _, e := range errs {
					if err != nil && !strings.Contains(err.Error(), e.Error()) {
						t.Errorf("offline says\n%s\nthe API server says\n%v", e, err)
					}
				}
				return
			case c.WantUnknown != "":
				wantRefusal(t, err, "", fmt.Sprintf("unknown field %q", c.WantUnknown))
				got, err = submit(t, client, c, object, metav1.FieldValidationIgnore)
			}
			if err != nil {
				t.Fatalf("refused, want accepted: %v", err)
			}
			if diff := cmp.Diff(offline["spec"], got.Object["spec"]); diff != "" {
				t.Errorf("what is stored differs (-offline +API server):\n%s", diff)
			}
			for path, value := range c.WantDefaults {
				if found := jsonAt(t, got, path); found != value {
					t.Errorf("%s is %s, want %s", path, found, value)
				}
			}
		})
	}
}

// Applying the same object a second time must change nothing, or GitOps tools report a difference for ever (case B136).
func TestSecondApplyIsNoChange(t *testing.T) {
	t.Parallel()
	cluster := harness.Cluster(t)
	cluster.InstallCRDs(t, crds.FS)
	client := cluster.Dynamic
	object := crdObject(t, `
apiVersion: karpenter.sh/v1
kind: NodePool
spec:
  template: {spec: {requirements: [], expireAfter: 24h, nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized}
`)
	object.SetName(fmt.Sprintf("apply-%d", os.Getpid()))
	pools := client.Resource(v1.NodePools)
	apply := func() *unstructured.Unstructured {
		got, err := pools.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "weir-e2e"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := apply()
	t.Cleanup(func() { remove(t, client, first) })
	if second := apply(); first.GetResourceVersion() != second.GetResourceVersion() {
		t.Errorf("resource version went from %s to %s", first.GetResourceVersion(), second.GetResourceVersion())
	}
	if got := jsonAt(t, first, "spec.template.spec.expireAfter"); got != `"24h"` {
		t.Errorf("expireAfter is %s, want it as written", got)
	}
}

// judgeOffline returns what core/api/validate makes of the object, which must not hold unless the API server agrees.
func judgeOffline(t *testing.T, c cases.Case, object *unstructured.Unstructured) (map[string]any, []v1.FieldError) {
	t.Helper()
	kind := object.GroupVersionKind()
	if c.Old == "" {
		content, errs, err := validate.Object(kind, object.Object)
		if err != nil {
			t.Fatal(err)
		}
		return content, errs
	}
	old, _, err := validate.Object(kind, crdObject(t, c.Old).Object)
	if err != nil {
		t.Fatal(err)
	}
	content, errs, err := validate.Update(kind, object.Object, old)
	if err != nil {
		t.Fatal(err)
	}
	return content, errs
}

// submit sends the object as a dry run: a create, or, for a case with an old object, the change of that one.
func submit(t *testing.T, client dynamic.Interface, c cases.Case, object *unstructured.Unstructured, validation string) (*unstructured.Unstructured, error) {
	t.Helper()
	resource, ok := resources[object.GetKind()]
	if !ok {
		t.Fatalf("no resource for kind %q", object.GetKind())
	}
	if c.Old == "" {
		return client.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: validation})
	}
	old := crdObject(t, c.Old)
	old.SetName(object.GetName())
	stored, err := client.Resource(resource).Create(t.Context(), old, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("the old object is refused: %v", err)
	}
	t.Cleanup(func() { remove(t, client, stored) })
	object.SetResourceVersion(stored.GetResourceVersion())
	return client.Resource(resource).Update(t.Context(), object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: validation})
}

func remove(t *testing.T, client dynamic.Interface, object *unstructured.Unstructured) {
	// The test's own context is done when clean-ups run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	resource := client.Resource(resources[object.GetKind()])
	// A scaler of another test may have put its finalizer on.
	if _, err := resource.Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("freeing %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	if err := resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

func wantRefusal(t *testing.T, err error, path, text string) {
	t.Helper()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		t.Errorf("accepted, want refused at %q with %q", path, text)
	case !errors.As(err, &status) || (!apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err)):
		t.Errorf("error %v, want one of the kind Invalid or BadRequest", err)
	case !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), path):
		t.Errorf("refused with\n%v\nwant it at %q with %q", err, path, text)
	}
}

func crdObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return object
}

func jsonAt(t *testing.T, object *unstructured.Unstructured, path string) string {
	t.Helper()
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
	if err != nil || !found {
		t.Fatalf("%s: found %v, %v", path, found, err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
