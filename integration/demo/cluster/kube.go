package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	apiv1 "github.com/weir-project/weir/core/api/v1"
	crds "github.com/weir-project/weir/infra/crds"
)

const fieldManager = "weir-demo"

type kube struct {
	client kubernetes.Interface
	dyn    dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	made   []madeObject // what was not there before, in order
}

type madeObject struct {
	resource  schema.GroupVersionResource
	namespace string // empty: cluster scope
	name      string
}

func (k *kube) of(o madeObject) dynamic.ResourceInterface {
	if o.namespace == "" {
		return k.dyn.Resource(o.resource)
	}
	return k.dyn.Resource(o.resource).Namespace(o.namespace)
}

func newKube(cfg *rest.Config) (*kube, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &kube{client: client, dyn: dyn, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}, nil
}

// apply applies every document of the data server-side; edit may change each before.
func (k *kube) apply(ctx context.Context, data []byte, edit func(*unstructured.Unstructured) error) error {
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var obj unstructured.Unstructured
		err := dec.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(obj.Object) == 0 {
			continue
		}
		if edit != nil {
			if err := edit(&obj); err != nil {
				return err
			}
		}
		if err := k.applyObject(ctx, &obj); err != nil {
			return fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}

func (k *kube) applyObject(ctx context.Context, obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	m, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		k.mapper.Reset()
		m, err = k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return err
	}
	o := madeObject{resource: m.Resource, name: obj.GetName()}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.namespace = obj.GetNamespace(); o.namespace == "" {
			o.namespace = metav1.NamespaceDefault
		}
	}
	if _, err := k.of(o).Get(ctx, o.name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		k.made = append(k.made, o)
	} else if err != nil {
		return err
	}
	_, err = k.of(o).Apply(ctx, o.name, obj, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// remove deletes what the demo has made, save for definitions, and waits until the
// scaler has given every machine of it back.
func (k *kube) remove(ctx context.Context, limit time.Duration) error {
	classes := []madeObject{}
	background := metav1.DeletePropagationBackground
	for i := len(k.made) - 1; i >= 0; i-- {
		o := k.made[i]
		switch o.resource.Resource {
		case crdResource.Resource:
			continue // never deleted: other NodePools may be there
		case "ec2nodeclasses":
			classes = append(classes, o) // its claims come first
			continue
		}
		if err := k.of(o).Delete(ctx, o.name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove %s %s: %w", o.resource.Resource, o.name, err)
		}
	}
	pools := map[string]bool{}
	for _, o := range k.made {
		if o.resource.Resource == apiv1.NodePools.Resource {
			pools[o.name] = true
		}
	}
	err := until(ctx, limit, "the demo's machines to be given back", func(ctx context.Context) (string, error) {
		list, err := k.dyn.Resource(apiv1.NodeClaims).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		left := 0
		for _, c := range list.Items {
			if pools[c.GetLabels()[poolLabel]] {
				left++
			}
		}
		if left > 0 {
			return fmt.Sprintf("%d claims are left", left), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	for _, o := range classes {
		if err := k.of(o).Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove %s %s: %w", o.resource.Resource, o.name, err)
		}
	}
	return nil
}

func (k *kube) applyFile(ctx context.Context, path string, edit func(*unstructured.Unstructured) error) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := k.apply(ctx, raw, edit); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// installCRDs applies our definitions and waits until they are served.
func (k *kube) installCRDs(ctx context.Context, limit time.Duration) error {
	files, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return err
	}
	var names []string
	for _, f := range files {
		raw, err := crds.FS.ReadFile(f)
		if err != nil {
			return err
		}
		if err := k.apply(ctx, raw, func(o *unstructured.Unstructured) error { names = append(names, o.GetName()); return nil }); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	return until(ctx, limit, "definitions to be served", func(ctx context.Context) (string, error) {
		for _, name := range names {
			o, err := k.dyn.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
			if err != nil {
				return "", err
			}
			served := false
			for _, c := range list {
				m, ok := c.(map[string]any)
				served = served || ok && m["type"] == "Established" && m["status"] == "True"
			}
			if !served {
				return name + " is not established", nil
			}
		}
		return "", nil
	})
}

func (k *kube) scale(ctx context.Context, namespace, deployment string, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := k.client.AppsV1().Deployments(namespace).Patch(ctx, deployment, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "scale")
	return err
}

// until waits until check answers that nothing is missing.
func until(ctx context.Context, limit time.Duration, what string, check func(context.Context) (missing string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	last := "nothing was seen"
	for {
		missing, err := check(ctx)
		switch {
		case err == nil && missing == "":
			return nil
		case err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsServerTimeout(err):
			return fmt.Errorf("%s: %w", what, err)
		case err != nil && ctx.Err() == nil:
			last = err.Error()
		case missing != "":
			last = missing
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %s: %w", what, last, ctx.Err())
		}
	}
}
