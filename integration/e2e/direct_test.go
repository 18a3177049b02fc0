package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/kube/direct"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/harness"
)

func directClient(t *testing.T, f *fleet) *direct.Client {
	t.Helper()
	c, err := direct.Connect(direct.Connection{Kubeconfig: restricted(t, f.ControlPlane), UserAgent: "weir-test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// B113: a node is found by its instance, never by a DNS name.
func TestNodeOfAnInstance(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := directClient(t, f)
	f.node("labelled", true, true)
	f.node("bare", false, true)
	f.node("theirs", true, false)
	// An owner is missing: the claim is joined by provider id.
	f.node("orphan", true, true)
	if _, err := f.Client.CoreV1().Nodes().Patch(t.Context(), f.name("orphan"), types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.claim(f.name("unjoined"), model.ProviderID("us-east-1a", f.instance("unjoined")))

	for name, x := range map[string]struct {
		instance string
		hints    direct.Hints
		node     string // "" = none
		claim    string
		how      string
	}{
		"by its label":               {f.instance("labelled"), direct.Hints{}, "labelled", "labelled", direct.ByLabel},
		"under a name that is known": {f.instance("labelled"), direct.Hints{Node: f.name("labelled")}, "labelled", "labelled", direct.ByHint},
		"the known name is another":  {f.instance("labelled"), direct.Hints{Node: f.name("bare")}, "labelled", "labelled", direct.ByLabel},
		"the known name is gone":     {f.instance("labelled"), direct.Hints{Node: "gone", Claim: "gone"}, "labelled", "labelled", direct.ByLabel},
		"by its provider id":         {f.instance("bare"), direct.Hints{}, "bare", "bare", direct.ByScan},
		"not ours":                   {f.instance("theirs"), direct.Hints{}, "theirs", "", direct.ByLabel},
		"claim without an owner":     {f.instance("orphan"), direct.Hints{}, "orphan", "orphan", direct.ByLabel},
		"never joined":               {f.instance("unjoined"), direct.Hints{Claim: f.name("unjoined")}, "", "unjoined", direct.ByHint},
	} {
		got, err := c.NodeByInstance(t.Context(), x.instance, x.hints)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		node, claim := got.Node.Name, ""
		if got.Node.Claim != nil {
			claim = got.Node.Claim.Name
		}
		want := [3]string{x.node, x.claim, x.how}
		for i, n := range want[:2] {
			if n != "" {
				want[i] = f.name(n)
			}
		}
		if diff := cmp.Diff(want, [3]string{node, claim, got.How}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, h := range map[string]direct.Hints{"nothing known": {}, "claim of another instance": {Claim: f.name("labelled")}, "claim is gone": {Claim: "gone"}} {
		if got, err := c.NodeByInstance(t.Context(), "i-0eee0000000000009", h); !errors.Is(err, direct.ErrNotFound) {
			t.Errorf("%s: %+v, %v; want not found", name, got, err)
		}
	}
}

// Several writers taint one node: nobody's change is lost.
func TestTaintsOfManyWriters(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := directClient(t, f)
	f.node("n", true, false)
	found, err := c.NodeByInstance(t.Context(), f.instance("n"), direct.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	n := found.Node
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			taint := model.Taint{Key: fmt.Sprintf("example.com/t%d", i), Effect: model.NoSchedule}
			p := model.NodePatch{Name: n.Name, UID: n.UID, AddTaints: []model.Taint{taint}, Labels: map[string]string{taint.Key: "yes"}, Annotations: map[string]string{taint.Key: "yes"}}
			if err := c.PatchNode(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	get := func() *corev1.Node {
		node, err := f.Client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node
	}
	node := get()
	for i := range 4 {
		key := fmt.Sprintf("example.com/t%d", i)
		if node.Labels[key] != "yes" || node.Annotations[key] != "yes" {
			t.Errorf("label or annotation %s was lost", key)
		}
	}
	if len(node.Spec.Taints) != 4 {
		t.Errorf("taints %v, want four", node.Spec.Taints)
	}
	// What is there already is not written.
	same := model.NodePatch{Name: n.Name, UID: n.UID, AddTaints: []model.Taint{{Key: "example.com/t1", Effect: model.NoSchedule}}, Labels: map[string]string{"example.com/t1": "yes"}}
	before := get().ResourceVersion
	if err := c.PatchNode(t.Context(), same); err != nil || get().ResourceVersion != before {
		t.Errorf("a patch that changes nothing was written: %v", err)
	}
	change := model.NodePatch{Name: n.Name, UID: n.UID, AddTaints: []model.Taint{{Key: "example.com/t1", Value: "v", Effect: model.NoSchedule}},
		RemoveTaints: []model.Taint{{Key: "example.com/t2", Effect: model.NoSchedule}}, Annotations: map[string]string{"example.com/t3": ""}}
	if err := c.PatchNode(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	node = get()
	values := map[string]string{}
	for _, x := range node.Spec.Taints {
		values[x.Key] = x.Value
	}
	if diff := cmp.Diff(map[string]string{"example.com/t0": "", "example.com/t1": "v", "example.com/t3": ""}, values); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if _, ok := node.Annotations["example.com/t3"]; ok {
		t.Error("the annotation is still there")
	}
	for name, p := range map[string]model.NodePatch{"another node of that name": {Name: n.Name, UID: "other"}, "gone": {Name: "gone"}} {
		p.Labels = map[string]string{"x": "y"}
		if err := c.PatchNode(t.Context(), p); !errors.Is(err, direct.ErrNotFound) {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
}

func TestDirectEvictions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := directClient(t, f)
	f.node("n", true, false)
	f.workload("free", 1, "maxUnavailable: 1")
	f.workload("held", 1, "maxUnavailable: 0")
	f.workload("twice", 1, "maxUnavailable: 1")
	f.workload("again", 1, "maxUnavailable: 1")
	f.Apply(t, f.ns, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: second}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: twice}}}
`)
	pods := map[string]*model.Pod{}
	list, err := c.Pods(t.Context(), f.name("n"))
	if err != nil || len(list) != 4 {
		t.Fatalf("%d pods, %v; want four", len(list), err)
	}
	for _, p := range list {
		pods[p.Labels["app"]] = p
	}
	stranger := *pods["again"]
	stranger.UID = "other"
	gone := *pods["held"]
	gone.Name = "gone"
	for name, x := range map[string]struct {
		pod  *model.Pod
		want drain.Outcome
	}{
		"a budget allows it":       {pods["free"], drain.Accepted},
		"a budget forbids it":      {pods["held"], drain.Blocked},
		"two budgets":              {pods["twice"], drain.MultiplePDBs},
		"another pod of that name": {&stranger, drain.Gone},
		"no such pod":              {&gone, drain.Gone},
	} {
		if got, err := c.Evict(t.Context(), x.pod, 0); got != x.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, x.want)
		}
	}
	// The function may not delete pods past their budgets, and says so.
	if got, err := c.DeletePod(t.Context(), pods["held"], time.Second); got != drain.Failed || err == nil {
		t.Errorf("delete: %s, %v; want it forbidden", got, err)
	}
}

func TestClaimsOfAnotherUIDAreLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := directClient(t, f)
	claim := f.claim(f.name("c"), model.ProviderID("us-east-1a", f.instance("c")))
	if err := c.AnnotateClaim(t.Context(), claim.GetName(), "other", map[string]string{"a": "b"}); !errors.Is(err, direct.ErrNotFound) {
		t.Errorf("annotating: %v, want not found", err)
	}
	if err := c.DeleteClaim(t.Context(), claim.GetName(), "other"); err != nil {
		t.Errorf("deleting: %v", err)
	}
	get := func() (annotation string, deleting bool) {
		u, err := f.Dynamic.Resource(v1.NodeClaims).Get(t.Context(), claim.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u.GetAnnotations()["a"], u.GetDeletionTimestamp() != nil
	}
	if a, deleting := get(); a != "" || deleting {
		t.Errorf("annotation %q, deleting %v", a, deleting)
	}
	if err := c.AnnotateClaim(t.Context(), claim.GetName(), string(claim.GetUID()), map[string]string{"a": "b"}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteClaim(t.Context(), claim.GetName(), string(claim.GetUID())); err != nil {
		t.Error(err)
	}
	if a, deleting := get(); a != "b" || !deleting {
		t.Errorf("annotation %q, deleting %v", a, deleting)
	}
	if err := c.DeleteClaim(t.Context(), "gone", "uid"); err != nil {
		t.Errorf("deleting a claim that is gone: %v", err)
	}
}

func TestDirectEvents(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := directClient(t, f)
	name := f.name("told")
	for _, kind := range []string{"Node", "NodeClaim"} {
		if err := c.Emit(t.Context(), model.Event{Object: model.ObjectRef{Kind: kind, Name: name, UID: "u"}, Warning: kind == "Node", Reason: "SpotInterrupted", Message: "m"}, time.Now()); err != nil {
			t.Error(err)
		}
	}
	harness.Eventually(t, "events", patience, func(ctx context.Context) error {
		list, err := f.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, e := range list.Items {
			got[e.InvolvedObject.Kind+" "+e.InvolvedObject.APIVersion] = e.Type + " " + e.Reason
		}
		if diff := cmp.Diff(map[string]string{"Node v1": "Warning SpotInterrupted", "NodeClaim karpenter.sh/v1": "Normal SpotInterrupted"}, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}
