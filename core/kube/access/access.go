package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/weir-project/weir/core/admin"
)

// Reviewer asks the API server whose a token is and what its owner may do.
type Reviewer struct{ client kubernetes.Interface }

var _ admin.Reviewer = Reviewer{}

// NewReviewer needs the right to create TokenReviews and SubjectAccessReviews.
func NewReviewer(c kubernetes.Interface) Reviewer { return Reviewer{c} }

// Who implements admin.Reviewer.
func (r Reviewer) Who(ctx context.Context, token string) (admin.User, error) {
	got, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return admin.User{}, err // the API server's errors do not repeat what it was sent
	}
	if !got.Status.Authenticated {
		return admin.User{}, admin.ErrNobody
	}
	u := admin.User{Name: got.Status.User.Username, UID: got.Status.User.UID, Groups: got.Status.User.Groups}
	if len(got.Status.User.Extra) > 0 {
		u.Extra = map[string][]string{}
		for k, v := range got.Status.User.Extra {
			u.Extra[k] = v
		}
	}
	return u, nil
}

// May implements admin.Reviewer.
func (r Reviewer) May(ctx context.Context, u admin.User, verb, path string) (bool, string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb}, User: u.Name, UID: u.UID, Groups: u.Groups}}
	if len(u.Extra) > 0 {
		review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		for k, v := range u.Extra {
			review.Spec.Extra[k] = v
		}
	}
	got, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, "", err
	}
	return got.Status.Allowed && !got.Status.Denied, got.Status.Reason, nil
}

// Document is a text in a ConfigMap that is made when it is first written.
type Document struct {
	client               kubernetes.Interface
	namespace, name, key string
}

var _ admin.Document = (*Document)(nil)

// NewDocument needs the rights to get, watch and update the ConfigMap, and to create
// ones in its namespace.
func NewDocument(c kubernetes.Interface, namespace, name, key string) *Document {
	return &Document{client: c, namespace: namespace, name: name, key: key}
}

// String names the object.
func (d *Document) String() string { return "ConfigMap " + d.namespace + "/" + d.name }

func (d *Document) get(ctx context.Context) (*corev1.ConfigMap, error) {
	cm, err := d.client.CoreV1().ConfigMaps(d.namespace).Get(ctx, d.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cm, err
}

// textOf is nil for an object that is not there.
func (d *Document) textOf(cm *corev1.ConfigMap) []byte {
	if cm == nil {
		return nil
	}
	return []byte(cm.Data[d.key])
}

// Read implements admin.Document.
func (d *Document) Read(ctx context.Context) ([]byte, error) {
	cm, err := d.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d, err)
	}
	return d.textOf(cm), nil
}

// Change implements admin.Document.
func (d *Document) Change(ctx context.Context, f func([]byte) ([]byte, error)) error {
	var ours error
	again := func(err error) bool {
		return ours == nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err))
	}
	err := retry.OnError(retry.DefaultBackoff, again, func() error {
		cm, err := d.get(ctx)
		if err != nil {
			return err
		}
		text, err := f(d.textOf(cm))
		if err != nil {
			ours = err
			return err
		}
		api := d.client.CoreV1().ConfigMaps(d.namespace)
		if cm == nil {
			_, err = api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: d.name, Namespace: d.namespace,
				Labels: map[string]string{"app.kubernetes.io/name": "weir"}}, Data: map[string]string{d.key: string(text)}}, metav1.CreateOptions{})
			return err
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[d.key] = string(text)
		_, err = api.Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
	if ours != nil {
		return ours
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	return nil
}

// watchAgain is the pause after a watch that failed.
const watchAgain = 5 * time.Second

// Watch calls notify with the text as it is and whenever it may be another, nil where
// there is none, until the context ends. failed hears of what went wrong, once in a row.
func (d *Document) Watch(ctx context.Context, notify func([]byte), failed func(error)) {
	down := false
	for ctx.Err() == nil {
		err := d.watch(ctx, func(text []byte) { down = false; notify(text) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue // watches end by themselves every few minutes
		}
		if !down {
			failed(fmt.Errorf("%s: %w", d, err))
		}
		down = true
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// watch follows the object until the API server ends it, which is no error.
func (d *Document) watch(ctx context.Context, notify func([]byte)) error {
	cm, err := d.get(ctx)
	if err != nil {
		return err
	}
	notify(d.textOf(cm))
	o := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, d.name).String()}
	if cm != nil {
		o.ResourceVersion = cm.ResourceVersion
	}
	w, err := d.client.CoreV1().ConfigMaps(d.namespace).Watch(ctx, o)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			switch e.Type {
			case watch.Added, watch.Modified:
				cm, ok := e.Object.(*corev1.ConfigMap)
				if !ok {
					return fmt.Errorf("the watch told of a %T", e.Object)
				}
				notify(d.textOf(cm))
			case watch.Deleted:
				notify(nil)
			case watch.Error:
				if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
					return err
				}
				return nil
			case watch.Bookmark:
			default:
				return errors.New("the watch told of " + string(e.Type))
			}
		}
	}
}
