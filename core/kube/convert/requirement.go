package convert

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// requirement builds one requirement of a pod or pool with its key in today's
// spelling; problem says why it cannot be, by the rules that pools and pods share.
func requirement(key, op string, values []string) (r require.Requirement, problem string) {
	k := model.CanonicalKey(key)
	if model.Restricted(k) {
		return r, fmt.Sprintf("label %q is restricted", key)
	}
	if errs := validation.IsQualifiedName(k); len(errs) > 0 {
		return r, fmt.Sprintf("label key %q: %s", key, strings.Join(errs, "; "))
	}
	for _, v := range values {
		if errs := validation.IsValidLabelValue(v); len(errs) > 0 {
			return r, fmt.Sprintf("label %q: value %q: %s", key, v, strings.Join(errs, "; "))
		}
	}
	r, err := require.New(k, require.Operator(op), values...)
	if err != nil {
		return r, err.Error()
	}
	if k == model.LabelCapacityType && r.Finite() && !r.Empty() &&
		!slices.ContainsFunc([]string{model.OnDemand, model.Spot, model.Reserved}, r.Has) {
		return r, fmt.Sprintf("label %q: none of %s is a capacity type, expected on-demand, spot or reserved", key, strings.Join(values, ", "))
	}
	return r, ""
}

// conjunction collects requirements that must all hold. The algebra of package
// require has one form for "absent" and for "no value is left", so it remembers
// whether the latter happened.
type conjunction struct {
	set        require.Set
	impossible string // why nothing can satisfy it, or empty
}

func (c *conjunction) add(r require.Requirement) {
	old, had := c.set.Get(r.Key)
	c.set = c.set.With(r)
	if !had || c.impossible != "" {
		return
	}
	if now, _ := c.set.Get(r.Key); now.Empty() && !(old.AllowsAbsent() && r.AllowsAbsent()) {
		c.impossible = fmt.Sprintf("the requirements on label %q contradict each other (%s; %s)", r.Key, old, r)
	}
}
