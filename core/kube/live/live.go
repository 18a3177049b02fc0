package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/kube/raw"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// ErrRight says that the user of the kubeconfig lacks a right. The error names it.
var ErrRight = errors.New("the right is missing")

// Read lists what the planners look at in the whole cluster. Rights and kinds that are
// missing are told together: ErrRight is among them where a right is. What cannot be read
// of an object is a *load.Error. cfg.Timeout bounds each request.
func Read(ctx context.Context, cfg *rest.Config, o load.Options) (*load.Input, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // one request after the other: the API server's own fairness bounds them
	api, err := raw.Client(cfg)
	if err != nil {
		return nil, err
	}
	lists := load.NewLists(o)
	var missing []error
	for _, kind := range load.ClusterKinds(len(o.SpreadDefaults) > 0) {
		resource := resourceOf(kind)
		err := list(ctx, api, resource, lists)
		name := resource.GroupResource()
		switch {
		case err == nil:
		case apierrors.IsForbidden(err):
			missing = append(missing, fmt.Errorf("%w to list %s in the whole cluster: %w", ErrRight, name, err))
		case apierrors.IsNotFound(err):
			missing = append(missing, fmt.Errorf("the cluster does not serve %s of %s: is CustomResourceDefinition %s installed?", kind.Kind, kind.GroupVersion(), name))
		case apierrors.IsUnauthorized(err):
			return nil, fmt.Errorf("the API server does not know the user of the kubeconfig, whose credentials may have expired: %w", err)
		default:
			return nil, fmt.Errorf("listing %s: %w", name, err)
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	return lists.Input()
}

// resourceOf is the resource of a kind. All kinds that are read have regular names.
func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource
}

// list reads all objects of a resource, in pages of one snapshot. Where the API server
// has forgotten that by now, it names a place from which later objects go on.
func list(ctx context.Context, api rest.Interface, resource schema.GroupVersionResource, into *load.Lists) error {
	path := "/apis/" + resource.Group
	if resource.Group == "" {
		path = "/api"
	}
	next, again := "", false
	for page := 1; ; page++ {
		r := api.Get().AbsPath(path, resource.Version, resource.Resource).Param("limit", strconv.Itoa(pageSize))
		if next != "" {
			r.Param("continue", next)
		}
		data, err := raw.Bytes(r.Do(ctx))
		if on := goesOn(err); on != "" && !again {
			next, again = on, true
			page--
			continue
		}
		if err != nil {
			return err
		}
		again = false
		name := resource.Resource + " of the cluster"
		if page > 1 {
			name += fmt.Sprintf(", page %d", page)
		}
		if next = into.Add(name, data); next == "" {
			return nil
		}
	}
}

// goesOn is where to go on after an error, or empty.
func goesOn(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().ListMeta.Continue
}

// Role is a ClusterRole of that name with the rights that Read needs, whatever its options.
func Role(name string) *rbacv1.ClusterRole {
	byGroup := map[string][]string{}
	var groups []string
	for _, kind := range load.ClusterKinds(true) {
		r := resourceOf(kind)
		if byGroup[r.Group] == nil {
			groups = append(groups, r.Group)
		}
		byGroup[r.Group] = append(byGroup[r.Group], r.Resource)
	}
	slices.Sort(groups)
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, g := range groups {
		slices.Sort(byGroup[g])
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{g}, Resources: byGroup[g], Verbs: []string{"list"}})
	}
	return role
}
