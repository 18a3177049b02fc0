package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	// DefinitionsRelease is the release that the definitions' chart is installed as by hand.
	DefinitionsRelease = "weir-crds"

	annotationKeep      = "helm.sh/resource-policy"
	annotationRelease   = "meta.helm.sh/release-name"
	annotationNamespace = "meta.helm.sh/release-namespace"
	labelManagedBy      = "app.kubernetes.io/managed-by"

	// establishPoll is how often a new definition is looked at until it is served.
	establishPoll = 200 * time.Millisecond
)

var definitions = schema.GroupVersionResource{Group: apiextensionsv1.GroupName, Version: "v1", Resource: "customresourcedefinitions"}

// ApplyDefinitions renders the chart of the definitions against the cluster, as Helm
// would, and applies what comes out. It answers the names of those that were left alone.
func (c *Cluster) ApplyDefinitions(ctx context.Context, crds *chart.Chart, namespace string) (leftAlone []string, err error) {
	all, err := c.renderDefinitions(crds, namespace, false)
	if err != nil {
		return nil, err
	}
	rendered, err := c.renderDefinitions(crds, namespace, true)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if rendered[name] == nil {
			if rendered[name], err = c.fromElsewhere(ctx, crds, name, namespace); err != nil {
				return leftAlone, fmt.Errorf("custom resource definition %s: %w", name, err)
			}
		}
		if rendered[name] == nil {
			leftAlone = append(leftAlone, name) // the chart saw that it is another's, or newer
			continue
		}
		applied, err := c.applyDefinition(ctx, rendered[name], namespace)
		if err != nil {
			return leftAlone, fmt.Errorf("custom resource definition %s: %w", name, err)
		}
		if !applied {
			leftAlone = append(leftAlone, name)
		}
	}
	return leftAlone, nil
}

// fromElsewhere gives a definition that was applied here for a release in another
// namespace, which has moved or gone since: nobody else would ever upgrade it. It is nil
// for one of somebody else's, and for a newer one.
func (c *Cluster) fromElsewhere(ctx context.Context, crds *chart.Chart, name, namespace string) (*unstructured.Unstructured, error) {
	have, err := c.dynamic.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	notes := have.GetAnnotations()
	byUs := slices.ContainsFunc(have.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == userAgent && f.Operation == metav1.ManagedFieldsOperationApply
	})
	if !byUs || notes[annotationRelease] != DefinitionsRelease || notes[annotationNamespace] == namespace {
		return nil, nil
	}
	rendered, err := c.renderDefinitions(crds, notes[annotationNamespace], true)
	return rendered[name], err
}

// renderDefinitions gives the definitions by name: all, or those that the chart wants to
// apply once it has looked at what is installed.
func (c *Cluster) renderDefinitions(crds *chart.Chart, namespace string, installed bool) (map[string]*unstructured.Unstructured, error) {
	options := chartutil.ReleaseOptions{Name: DefinitionsRelease, Namespace: namespace, IsInstall: true, Revision: 1}
	values, err := chartutil.ToRenderValues(crds, nil, options, chartutil.DefaultCapabilities.Copy())
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", crds.Name(), err)
	}
	var files map[string]string
	if installed {
		files, err = engine.RenderWithClient(crds, values, c.Config)
	} else {
		files, err = engine.Render(crds, values)
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", crds.Name(), err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".txt") {
			continue // notes for people
		}
		for doc := range strings.SplitSeq(files[name], "\n---") {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
				return nil, fmt.Errorf("chart %s: %s: %w", crds.Name(), name, err)
			}
			switch {
			case len(u.Object) == 0:
			case u.GetKind() != "CustomResourceDefinition":
				return nil, fmt.Errorf("chart %s: %s: a %s, expected only definitions", crds.Name(), name, u.GetKind())
			default:
				out[u.GetName()] = u
			}
		}
	}
	return out, nil
}

// applyDefinition answers false for one that it left alone.
func (c *Cluster) applyDefinition(ctx context.Context, want *unstructured.Unstructured, namespace string) (bool, error) {
	client := c.dynamic.Resource(definitions)
	have, err := client.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, err
	default:
		unknown, err := unknownFields(have, want)
		if err != nil || unknown {
			return false, err
		}
	}
	annotations := want.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationKeep], annotations[annotationRelease], annotations[annotationNamespace] = "keep", DefinitionsRelease, namespace
	want.SetAnnotations(annotations)
	labels := want.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelManagedBy] = "Helm"
	want.SetLabels(labels)
	// By force: the chart has seen that it is ours, and Helm's own manager may own its fields.
	if _, err := client.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: userAgent, Force: true}); err != nil {
		return false, err
	}
	return true, c.awaitEstablished(ctx, want.GetName())
}

func (c *Cluster) awaitEstablished(ctx context.Context, name string) error {
	last := "it has no conditions"
	err := wait.PollUntilContextCancel(ctx, establishPoll, true, func(ctx context.Context) (bool, error) {
		u, err := c.dynamic.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
			return false, err
		}
		for _, k := range d.Status.Conditions {
			switch {
			case k.Type == apiextensionsv1.Established && k.Status == apiextensionsv1.ConditionTrue:
				return true, nil
			case k.Type == apiextensionsv1.NamesAccepted && k.Status == apiextensionsv1.ConditionFalse:
				return false, fmt.Errorf("its names are taken: %s", k.Message)
			}
			last = fmt.Sprintf("%s is %s: %s", k.Type, k.Status, k.Message)
		}
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("is not served: %s", last)
	}
	return err
}

// unknownFields says whether have has a version, or a field of its schema, that want
// lacks: somebody has added it, and objects may use it.
func unknownFields(have, want *unstructured.Unstructured) (bool, error) {
	var h, w apiextensionsv1.CustomResourceDefinition
	for u, d := range map[*unstructured.Unstructured]*apiextensionsv1.CustomResourceDefinition{have: &h, want: &w} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
			return false, err
		}
	}
	for _, v := range h.Spec.Versions {
		i := slices.IndexFunc(w.Spec.Versions, func(o apiextensionsv1.CustomResourceDefinitionVersion) bool { return o.Name == v.Name })
		if i < 0 {
			return true, nil
		}
		if v.Schema != nil && w.Spec.Versions[i].Schema != nil && lacks(w.Spec.Versions[i].Schema.OpenAPIV3Schema, v.Schema.OpenAPIV3Schema) {
			return true, nil
		}
	}
	return false, nil
}

// lacks says whether want has not all the fields of have.
func lacks(want, have *apiextensionsv1.JSONSchemaProps) bool {
	switch {
	case have == nil:
		return false
	case want == nil:
		return true
	}
	for name, h := range have.Properties {
		w, ok := want.Properties[name]
		if !ok || lacks(&w, &h) {
			return true
		}
	}
	if have.Items != nil && have.Items.Schema != nil && (want.Items == nil || lacks(want.Items.Schema, have.Items.Schema)) {
		return true
	}
	return have.AdditionalProperties != nil && have.AdditionalProperties.Schema != nil &&
		(want.AdditionalProperties == nil || lacks(want.AdditionalProperties.Schema, have.AdditionalProperties.Schema))
}
