package validate

import (
	"fmt"
	"io/fs"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/infra/crds"
)

// definition is one version of one CustomResourceDefinition, ready to check objects.
type definition struct {
	structural *structuralschema.Structural
	schema     apiservervalidation.SchemaValidator
	rules      *cel.Validator
	scale      *apiextensions.CustomResourceSubresourceScale
	namespaced bool
}

// definitions compiles the embedded files once; compiling the CEL rules takes some milliseconds.
var definitions = sync.OnceValues(loadDefinitions)

func loadDefinitions() (map[schema.GroupVersionKind]*definition, error) {
	files, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupVersionKind]*definition{}
	for _, name := range files {
		data, err := crds.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := addDefinition(out, data); err != nil {
			return nil, fmt.Errorf("embedded definition %s: %w", name, err)
		}
	}
	return out, nil
}

func addDefinition(out map[schema.GroupVersionKind]*definition, data []byte) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return err
		}
		structural, err := structuralschema.NewStructural(&props)
		if err != nil {
			return err
		}
		validator, _, err := apiservervalidation.NewSchemaValidator(&props)
		if err != nil {
			return err
		}
		d := &definition{
			structural: structural, schema: validator,
			rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
			namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		}
		if version.Subresources != nil && version.Subresources.Scale != nil {
			d.scale = &apiextensions.CustomResourceSubresourceScale{
				SpecReplicasPath: version.Subresources.Scale.SpecReplicasPath, StatusReplicasPath: version.Subresources.Scale.StatusReplicasPath,
			}
		}
		out[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = d
	}
	return nil
}
