package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func definition(t *testing.T, versions string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  versions: "+versions), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestUnknownFields: what is installed is left alone where it has more than ours, and only there.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	const ours = `[{name: v1, schema: {openAPIV3Schema: {properties: {spec: {properties: {a: {type: string}, list: {items: {properties: {b: {type: string}}}}, map: {additionalProperties: {properties: {c: {type: string}}}}}}}}}}]`
	for name, tc := range map[string]struct {
		have string
		want bool
	}{
		"the same":           {ours, false},
		"fewer fields":       {`[{name: v1, schema: {openAPIV3Schema: {properties: {spec: {properties: {a: {type: string}}}}}}}]`, false},
		"another type":       {`[{name: v1, schema: {openAPIV3Schema: {properties: {spec: {properties: {a: {type: integer}}}}}}}]`, false},
		"another field":      {`[{name: v1, schema: {openAPIV3Schema: {properties: {status: {type: object}}}}}]`, true},
		"a field deep":       {`[{name: v1, schema: {openAPIV3Schema: {properties: {spec: {properties: {z: {type: string}}}}}}}]`, true},
		"a field of a list":  {`[{name: v1, schema: {openAPIV3Schema: {properties: {spec: {properties: {list: {items: {properties: {z: {type: string}}}}}}}}}}]`, true},
		"a field of a map":   {`[{name: v1, schema: {openAPIV3Schema: {properties: {spec: {properties: {map: {additionalProperties: {properties: {z: {type: string}}}}}}}}}}]`, true},
		"a list of ours not": {`[{name: v1, schema: {openAPIV3Schema: {properties: {spec: {properties: {a: {items: {type: string}}}}}}}}]`, true},
		"another version":    {`[{name: v2}]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := unknownFields(definition(t, tc.have), definition(t, ours))
			if err != nil || got != tc.want {
				t.Errorf("%v, %v; expected %v", got, err, tc.want)
			}
		})
	}
	if _, err := unknownFields(definition(t, `[{name: 1}]`), definition(t, ours)); err == nil {
		t.Error("a definition that cannot be read is no error")
	}
}
