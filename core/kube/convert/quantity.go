package convert

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-project/weir/core/model/resource"
)

// Most is the largest amount that the converters hand on. Kubernetes accepts
// larger ones; every one of them is more than any fleet has, and this bound leaves
// sums room before they saturate.
const Most int64 = 1 << 60

// FieldError says which field of an object makes no sense, and why.
type FieldError struct {
	Field string // path inside the object
	Msg   string
}

// Error is field and message.
func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

// Amount is a quantity in the units of package resource: milli-CPU for cpu, else
// whole units, both rounded up. Amounts beyond Most (or below -Most) count as that.
func Amount(name string, q apiresource.Quantity) int64 {
	unit := int64(1)
	if name == "cpu" {
		unit = 1000
	}
	switch bound := Most / unit; {
	case q.CmpInt64(bound) >= 0:
		return Most
	case q.CmpInt64(-bound) <= 0:
		return -Most
	}
	if unit == 1000 {
		return q.MilliValue()
	}
	return q.Value()
}

// Vector is a list of quantities as a vector; field names the list in errors.
// Errors: a negative quantity.
func Vector(field string, list corev1.ResourceList) (resource.Vector, error) {
	var v resource.Vector
	for name, q := range list {
		if q.Sign() < 0 {
			return v, &FieldError{fmt.Sprintf("%s[%s]", field, name), fmt.Sprintf("must not be negative, got %s", q.String())}
		}
		n := Amount(string(name), q)
		if i := resource.BaseIndex(string(name)); i >= 0 {
			v.Base[i] = n
		} else if n != 0 {
			v = v.With(string(name), n)
		}
	}
	return v, nil
}

// List is a vector as quantities.
func List(v resource.Vector) corev1.ResourceList {
	list := corev1.ResourceList{}
	v.Each(func(name string, n int64) {
		list[corev1.ResourceName(name)] = Quantity(name, n)
	})
	if len(list) == 0 {
		return nil
	}
	return list
}

// Quantity is an amount in the units of package resource as a quantity.
func Quantity(name string, n int64) apiresource.Quantity {
	if q, err := apiresource.ParseQuantity(resource.Format(name, n)); err == nil {
		return q
	}
	return *apiresource.NewQuantity(min(n, math.MaxInt64), apiresource.DecimalSI) // not reached: Format writes quantities
}
