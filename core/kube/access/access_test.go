package access

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/admin"
)

func TestReviewer(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	c.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if r.Spec.Token == "good" {
			r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "ann", UID: "1", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}}
		}
		return true, r, nil
	})
	var asked authorizationv1.SubjectAccessReviewSpec
	c.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		asked = r.Spec
		r.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: r.Spec.NonResourceAttributes.Verb == "get", Reason: "said so"}
		return true, r, nil
	})
	r := NewReviewer(c)
	if _, err := r.Who(t.Context(), "bad"); !errors.Is(err, admin.ErrNobody) {
		t.Errorf("bad token: %v", err)
	}
	u, err := r.Who(t.Context(), "good")
	if err != nil {
		t.Fatal(err)
	}
	if ok, why, err := r.May(t.Context(), u, "get", "/weir/strategies"); !ok || why != "said so" || err != nil {
		t.Errorf("get: %v %q %v", ok, why, err)
	}
	if ok, _, err := r.May(t.Context(), u, "update", "/weir/strategies"); ok || err != nil {
		t.Errorf("update: %v %v", ok, err)
	}
	want := authorizationv1.SubjectAccessReviewSpec{User: "ann", UID: "1", Groups: []string{"team"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/weir/strategies", Verb: "update"}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	d := NewDocument(c, "ns", "doc", "text")
	if text, err := d.Read(t.Context()); text != nil || err != nil {
		t.Fatalf("missing: %q, %v", text, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	seen, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		d.Watch(ctx, func(b []byte) { seen <- string(b) }, func(err error) { t.Error(err) })
	}()
	next := func(want string) {
		t.Helper()
		for end := time.After(time.Minute); ; {
			select {
			case got := <-seen:
				if got == want {
					return
				}
			case <-end:
				t.Fatalf("the watch did not tell of %q", want)
			}
		}
	}
	next("")
	grow := func(add string) error {
		return d.Change(ctx, func(b []byte) ([]byte, error) { return append(b, add...), nil })
	}
	// The fake's watch tells only of what happens after it began: a change may come before.
	if err := grow("a"); err != nil {
		t.Fatal(err)
	}
	conflicts := 2
	c.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts >= 0 {
			return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), "doc", errors.New("somebody else wrote"))
		}
		return false, nil, nil
	})
	if err := grow("b"); err != nil {
		t.Fatal(err)
	}
	if text, err := d.Read(ctx); string(text) != "ab" || err != nil {
		t.Errorf("text %q, %v", text, err)
	}
	ours := errors.New("not so")
	if err := d.Change(ctx, func([]byte) ([]byte, error) { return nil, ours }); !errors.Is(err, ours) {
		t.Errorf("own error: %v", err)
	}
	if cm, err := c.CoreV1().ConfigMaps("ns").Get(ctx, "doc", metav1.GetOptions{}); err != nil || cm.Data["text"] != "ab" {
		t.Errorf("%+v, %v", cm, err)
	}
	stop()
	<-ended
}
