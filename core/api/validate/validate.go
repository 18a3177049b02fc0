package validate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	v1 "github.com/weir-project/weir/core/api/v1"
)

// ErrUnknownKind says that no definition of ours covers a kind.
var ErrUnknownKind = errors.New("no such kind among our definitions")

// Kinds returns the kinds that Object knows, sorted.
func Kinds() ([]schema.GroupVersionKind, error) {
	all, err := definitions()
	if err != nil {
		return nil, err
	}
	out := make([]schema.GroupVersionKind, 0, len(all))
	for gvk := range all {
		out = append(out, gvk)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// Object returns what an API server makes of a new object: a copy with defaults filled in and unknown fields dropped, and
// what is wrong with it, of class Rejected or UnknownField. The status is kept as it is and not looked at, for a create
// ignores it. The error is for a kind that is not ours or a value that is not JSON, never for bad content.
func Object(gvk schema.GroupVersionKind, object map[string]any) (map[string]any, []v1.FieldError, error) {
	p, err := prepare(gvk, object)
	if err != nil {
		return nil, nil, err
	}
	if Has(p.errs, v1.Rejected) {
		return p.result(nil)
	}
	d := p.definition
	list := d.metadata(p.meta)
	list = append(list, apiservervalidation.ValidateCustomResource(nil, p.content, d.schema)...)
	list = append(list, d.replicas(p.content)...)
	list = append(list, listtype.ValidateListSetsAndMaps(nil, d.structural, p.content)...)
	if !blocksRules(list) {
		found, _ := d.rules.Validate(context.Background(), nil, d.structural, p.content, nil, celconfig.RuntimeCELCostBudget)
		list = append(list, found...)
	}
	return p.result(list)
}

// Update is Object for a change of old, which must be stored already, that is as Object returns it. What was wrong before and
// did not change is let pass, as the API server does.
func Update(gvk schema.GroupVersionKind, object, old map[string]any) (map[string]any, []v1.FieldError, error) {
	p, err := prepare(gvk, object)
	if err != nil {
		return nil, nil, err
	}
	before, err := prepare(gvk, old)
	if err != nil {
		return nil, nil, err
	}
	if Has(p.errs, v1.Rejected) {
		return p.result(nil)
	}
	d := p.definition
	same := common.NewCorrelatedObject(p.content, before.content, &model.Structural{Structural: d.structural})
	list := d.metadata(p.meta)
	list = append(list, apiservervalidation.ValidateCustomResourceUpdate(nil, p.content, before.content, d.schema, apiservervalidation.WithRatcheting(same))...)
	list = append(list, d.replicas(p.content)...)
	if len(listtype.ValidateListSetsAndMaps(nil, d.structural, before.content)) == 0 {
		list = append(list, listtype.ValidateListSetsAndMaps(nil, d.structural, p.content)...)
	}
	if !blocksRules(list) {
		found, _ := d.rules.Validate(context.Background(), nil, d.structural, p.content, before.content, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(same))
		list = append(list, found...)
	}
	return p.result(list)
}

// prepared is an object as the API server has it before it validates: decoded, without status and unknown fields, defaulted.
type prepared struct {
	definition *definition
	content    map[string]any
	meta       *metav1.ObjectMeta
	status     any
	errs       []v1.FieldError
}

func prepare(gvk schema.GroupVersionKind, object map[string]any) (*prepared, error) {
	all, err := definitions()
	if err != nil {
		return nil, err
	}
	d, ok := all[gvk]
	if !ok {
		return nil, fmt.Errorf("%s: %w", gvk, ErrUnknownKind)
	}
	// Through JSON, so that numbers get the types that the schema code wants, whatever decoder made the object.
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	p := &prepared{definition: d, content: map[string]any{}}
	if err := kjson.Unmarshal(data, &p.content); err != nil {
		return nil, fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	p.status = p.content["status"]
	delete(p.content, "status")
	if p.errs = typeMeta(gvk, p.content); len(p.errs) > 0 {
		return p, nil
	}
	meta, unknown, bad := decodeMetadata(p.content)
	if bad != nil {
		p.errs = append(p.errs, *bad)
		return p, nil
	}
	p.meta = meta
	if len(unknown) > 0 {
		if err := objectmeta.SetObjectMeta(p.content, meta); err != nil {
			return nil, fmt.Errorf("%s: %w", gvk.Kind, err)
		}
	}
	unknown = append(unknown, pruning.PruneWithOptions(p.content, d.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	slices.Sort(unknown)
	for _, path := range unknown {
		p.errs = append(p.errs, v1.FieldError{Class: v1.UnknownField, Path: path, Message: "unknown field"})
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(p.content, d.structural)
	defaulting.Default(p.content, d.structural)
	return p, nil
}

// result puts the status back and joins the errors. Only an object that cannot be decoded has errors of class Rejected before.
func (p *prepared) result(list field.ErrorList) (map[string]any, []v1.FieldError, error) {
	if p.status != nil {
		p.content["status"] = p.status
	}
	return p.content, append(p.errs, convert(list)...), nil
}

func typeMeta(gvk schema.GroupVersionKind, content map[string]any) []v1.FieldError {
	var list field.ErrorList
	if kind := content["kind"]; kind != gvk.Kind {
		list = append(list, field.Invalid(field.NewPath("kind"), kind, "must be "+gvk.Kind))
	}
	if version := content["apiVersion"]; version != gvk.GroupVersion().String() {
		list = append(list, field.Invalid(field.NewPath("apiVersion"), version, "must be "+gvk.GroupVersion().String()))
	}
	return convert(list)
}

// decodeMetadata returns the metadata as the API server decodes it and the paths of the fields it does not know.
func decodeMetadata(content map[string]any) (*metav1.ObjectMeta, []string, *v1.FieldError) {
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(content, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	switch {
	case err != nil:
		return nil, nil, &v1.FieldError{Class: v1.Rejected, Path: "metadata", Message: err.Error()}
	case !found:
		return &metav1.ObjectMeta{}, nil, nil
	}
	return meta, unknown, nil
}

// metadata checks names, labels, annotations, finalizers and owners by the rules of all objects.
func (d *definition) metadata(meta *metav1.ObjectMeta) field.ErrorList {
	checked := *meta
	if checked.Name == "" && checked.GenerateName != "" {
		checked.Name = checked.GenerateName + "x" // the server makes the name before it checks it
	}
	return apivalidation.ValidateObjectMeta(&checked, d.namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// replicas checks the number behind the scale subresource, which is an int32 whatever the schema says.
func (d *definition) replicas(content map[string]any) field.ErrorList {
	if d.scale == nil {
		return nil
	}
	steps := strings.Split(strings.TrimPrefix(d.scale.SpecReplicasPath, "."), ".")
	n, _, err := unstructured.NestedInt64(content, steps...)
	switch path := field.NewPath(steps[0], steps[1:]...); {
	case err != nil:
		return field.ErrorList{field.Invalid(path, n, err.Error())}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("should be less than or equal to %d", math.MaxInt32))}
	}
	return nil
}

// blocksRules reports whether the object's shape is so wrong that the API server does not run the CEL rules on it.
func blocksRules(list field.ErrorList) bool {
	return slices.ContainsFunc(list, func(e *field.Error) bool {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
		return false
	})
}

func convert(list field.ErrorList) []v1.FieldError {
	out := make([]v1.FieldError, 0, len(list))
	for _, e := range list {
		path := e.Field
		if path == "<nil>" {
			path = ""
		}
		fe := v1.FieldError{Class: v1.Rejected, Path: path, Message: e.ErrorBody()}
		if !slices.Contains(out, fe) {
			out = append(out, fe)
		}
	}
	return out
}
