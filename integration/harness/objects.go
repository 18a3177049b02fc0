package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// FieldManager is the owner of the fields that Apply sets.
const FieldManager = "weir-harness"

// setupLimit bounds what the helpers do on their own behalf.
const setupLimit = 5 * time.Minute

// Namespace makes a namespace in which pods can be created, and deletes it when the test ends.
func (c *ControlPlane) Namespace(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupLimit)
	defer cancel()
	ns, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
		defer cancel()
		if err := c.Client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	Eventually(t, "service account of namespace "+ns.Name, setupLimit, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// Apply applies all objects of the YAML or JSON documents server-side and returns them as the server stored them.
// Namespaced objects without a namespace go to the given one.
func (c *ControlPlane) Apply(t testing.TB, namespace, documents string) []*unstructured.Unstructured {
	t.Helper()
	applied, err := c.TryApply(t.Context(), namespace, documents)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// TryApply is Apply for objects that the server may refuse. It stops at the first that is.
func (c *ControlPlane) TryApply(ctx context.Context, namespace, documents string) ([]*unstructured.Unstructured, error) {
	objects, err := Decode([]byte(documents))
	if err != nil {
		return nil, err
	}
	var applied []*unstructured.Unstructured
	for _, obj := range objects {
		got, err := c.ApplyObject(ctx, namespace, obj)
		if err != nil {
			return applied, err
		}
		applied = append(applied, got)
	}
	return applied, nil
}

// ApplyObject applies one object server-side, taking over fields that others set.
func (c *ControlPlane) ApplyObject(ctx context.Context, namespace string, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r, err := c.resource(obj.GroupVersionKind(), namespace, obj.GetNamespace())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", describe(obj), err)
	}
	got, err := r.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", describe(obj), err)
	}
	return got, nil
}

// Get reads one object. The namespace is not looked at for kinds of cluster scope.
func (c *ControlPlane) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	r, err := c.resource(gvk, namespace, "")
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, name, err)
	}
	return r.Get(ctx, name, metav1.GetOptions{})
}

// List reads all objects of a kind that match the label selector, in all namespaces where the namespace is empty.
func (c *ControlPlane) List(ctx context.Context, gvk schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error) {
	r, err := c.resource(gvk, namespace, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	list, err := r.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return list.Items, nil
}

// Delete deletes one object in the background, as kubectl does. One that is gone already is no error.
func (c *ControlPlane) Delete(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) error {
	r, err := c.resource(gvk, namespace, "")
	if err != nil {
		return fmt.Errorf("%s %s: %w", gvk.Kind, name, err)
	}
	background := metav1.DeletePropagationBackground
	if err := r.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", gvk.Kind, name, err)
	}
	return nil
}

func (c *ControlPlane) resource(gvk schema.GroupVersionKind, fallback, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	r := c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return r, nil
	}
	if namespace == "" {
		namespace = fallback
	}
	return r.Namespace(namespace), nil
}

func describe(obj *unstructured.Unstructured) string {
	name := obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return fmt.Sprintf("%s %s", obj.GetKind(), name)
}

// Decode reads the objects of YAML or JSON documents, those of a List one by one. Empty documents are left out.
func Decode(documents []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents)))
	for i := 1; ; i++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &obj.Object); err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if obj.GetKind() == "" || obj.GetAPIVersion() == "" {
			return nil, fmt.Errorf("document %d: want apiVersion and kind", i)
		}
		if !obj.IsList() {
			objects = append(objects, obj)
			continue
		}
		list, err := obj.ToList()
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		for j := range list.Items {
			objects = append(objects, &list.Items[j])
		}
	}
}

// InstallCRDs applies the CustomResourceDefinitions of all .yaml files of a file system and waits until they are served.
func (c *ControlPlane) InstallCRDs(t testing.TB, files fs.FS) {
	t.Helper()
	var installed []*unstructured.Unstructured
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		objects, err := Decode(b)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, obj := range objects {
			if obj.GetKind() != "CustomResourceDefinition" {
				continue
			}
			if _, err := c.ApplyObject(t.Context(), "", obj); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			installed = append(installed, obj)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("install CRDs: %v", err)
	}
	if len(installed) == 0 {
		t.Fatal("install CRDs: no CustomResourceDefinition in any .yaml file")
	}
	for _, crd := range installed {
		Eventually(t, "CRD "+crd.GetName()+" is served", setupLimit, func(ctx context.Context) error {
			return c.served(ctx, crd)
		})
	}
}

// served asks that objects of the CRD can be listed, which is later than its condition Established.
func (c *ControlPlane) served(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return err
	}
	plural, _, err := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	if err != nil {
		return err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		gvr := schema.GroupVersionResource{Group: group, Version: fmt.Sprint(version["name"]), Resource: plural}
		if _, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return err
		}
	}
	c.Mapper.Reset()
	return nil
}
