package validate

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/weir-project/weir/core/api/v1"

	"github.com/weir-project/weir/core/api/awsv1"
)

// NodePool returns the object as the controller sees it, with defaults, and all that is wrong with it in all classes. With an
// error of class Rejected the pool is nil.
func NodePool(object map[string]any) (*v1.NodePool, []v1.FieldError, error) {
	pool := &v1.NodePool{}
	errs, err := typed(v1.NodePoolKind, object, pool)
	if err != nil || Has(errs, v1.Rejected) {
		return nil, errs, err
	}
	return pool, append(errs, pool.Validate()...), nil
}

// NodeClaim is NodePool for claims.
func NodeClaim(object map[string]any) (*v1.NodeClaim, []v1.FieldError, error) {
	claim := &v1.NodeClaim{}
	errs, err := typed(v1.NodeClaimKind, object, claim)
	if err != nil || Has(errs, v1.Rejected) {
		return nil, errs, err
	}
	return claim, append(errs, claim.Validate()...), nil
}

// EC2NodeClass is NodePool for node classes.
func EC2NodeClass(object map[string]any) (*awsv1.EC2NodeClass, []v1.FieldError, error) {
	class := &awsv1.EC2NodeClass{}
	errs, err := typed(awsv1.EC2NodeClassKind, object, class)
	if err != nil || Has(errs, v1.Rejected) {
		return nil, errs, err
	}
	return class, append(errs, class.Validate()...), nil
}

// Has reports whether one of the errors is of the class.
func Has(errs []v1.FieldError, class v1.Class) bool {
	return slices.ContainsFunc(errs, func(e v1.FieldError) bool { return e.Class == class })
}

func typed(gvk schema.GroupVersionKind, object map[string]any, into any) ([]v1.FieldError, error) {
	content, errs, err := Object(gvk, object)
	if err != nil || Has(errs, v1.Rejected) {
		return errs, err
	}
	data, err := json.Marshal(content)
	if err != nil {
		return errs, fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	// What passes the schema and still cannot be read (a duration beyond 292 years, a status of another shape) would stop
	// the controller from reading it just the same.
	if err := json.Unmarshal(data, into); err != nil {
		errs = append(errs, v1.FieldError{Class: v1.Rejected, Message: fmt.Sprintf("not readable as a %s: %v", gvk.Kind, err)})
	}
	return errs, nil
}
