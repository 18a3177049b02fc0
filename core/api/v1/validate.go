package v1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/model"
)

// Validate returns what makes the pool unusable although the API server stores it. What the API server refuses is found by
// core/api/validate from the CustomResourceDefinition itself; some rules are checked by both.
func (p *NodePool) Validate() []FieldError {
	var errs errorList
	template := &p.Spec.Template
	errs.labels("spec.template.metadata.labels", template.Labels)
	errs.taints("spec.template.spec", template.Spec.Taints, template.Spec.StartupTaints)
	for i, r := range template.Spec.Requirements {
		path := fmt.Sprintf("spec.template.spec.requirements[%d]", i)
		if model.CanonicalKey(r.Key) == keys.NodePool {
			errs.add(path+".key", "label %q is restricted", keys.NodePool)
		}
		errs.requirement(path, r)
	}
	for i, b := range p.Spec.Disruption.Budgets {
		if b.Schedule == nil {
			continue
		}
		if _, err := ParseSchedule(*b.Schedule); err != nil {
			errs.add(fmt.Sprintf("spec.disruption.budgets[%d].schedule", i), "%v", err)
		}
	}
	return errs.withReason(keys.ReasonNodePoolValidationFailed)
}

// Validate returns what makes the claim unusable although the API server stores it; see NodePool.Validate.
func (c *NodeClaim) Validate() []FieldError {
	var errs errorList
	errs.taints("spec", c.Spec.Taints, c.Spec.StartupTaints)
	for i, r := range c.Spec.Requirements {
		errs.requirement(fmt.Sprintf("spec.requirements[%d]", i), r)
	}
	return errs
}

// ValidateRequirement returns what is wrong with one requirement of a pool, a claim, or a pod's node selector. The paths of
// the errors start with path.
func ValidateRequirement(path string, r Requirement) []FieldError {
	var errs errorList
	errs.requirement(path, r)
	return errs
}

// ParseSchedule reads the cron line of a budget: five fields or one of the @ names, in UTC.
func ParseSchedule(line string) (cron.Schedule, error) {
	// The prefix also makes a time zone inside the line an error instead of a silent shift.
	schedule, err := cron.ParseStandard("TZ=UTC " + line)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: expected five cron fields or one of @annually, @yearly, @monthly, @weekly, @daily, @midnight, @hourly: %w", line, err)
	}
	return schedule, nil
}

type errorList []FieldError

func (l *errorList) add(path, format string, args ...any) {
	*l = append(*l, FieldError{Class: Invalid, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (l errorList) withReason(reason string) []FieldError {
	for i := range l {
		l[i].Reason = reason
	}
	return l
}

func (l *errorList) labels(path string, labels map[string]string) {
	for _, key := range sortedKeys(labels) {
		at := fmt.Sprintf("%s[%s]", path, key)
		if key == keys.NodePool {
			l.add(at, "label %q is restricted", key)
		}
		l.key(at, key)
		for _, msg := range validation.IsValidLabelValue(labels[key]) {
			l.add(at, "value %q: %s", labels[key], msg)
		}
	}
}

// key checks the form of a label key and that users may set it.
func (l *errorList) key(path, key string) {
	switch {
	case key == keys.Hostname:
		l.add(path, "label %q is restricted", key)
	case model.Restricted(key):
		domain, _, _ := strings.Cut(key, "/")
		for _, reserved := range []string{keys.GroupKarpenter, keys.GroupAWS} {
			if strings.HasSuffix(domain, reserved) {
				domain = reserved
			}
		}
		l.add(path, "label domain %q is restricted", domain)
	}
	for _, msg := range validation.IsQualifiedName(key) {
		l.add(path, "key %q: %s", key, msg)
	}
}

func (l *errorList) taints(path string, taints, startupTaints []corev1.Taint) {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	first := map[identity]string{}
	check := func(list string, taints []corev1.Taint) {
		for i, t := range taints {
			at := fmt.Sprintf("%s.%s[%d]", path, list, i)
			for _, msg := range validation.IsQualifiedName(t.Key) {
				l.add(at+".key", "key %q: %s", t.Key, msg)
			}
			if t.Value != "" {
				for _, msg := range validation.IsQualifiedName(t.Value) {
					l.add(at+".value", "value %q: %s", t.Value, msg)
				}
			}
			switch t.Effect {
			case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
			default:
				l.add(at+".effect", "effect %q: expected NoSchedule, PreferNoSchedule or NoExecute", t.Effect)
			}
			id := identity{t.Key, t.Effect}
			if other, ok := first[id]; ok {
				l.add(at, "taint %s:%s is already in %s", t.Key, t.Effect, other)
				continue
			}
			first[id] = at
		}
	}
	check("taints", taints)
	check("startupTaints", startupTaints)
}

func (l *errorList) requirement(path string, r Requirement) {
	key := model.CanonicalKey(r.Key)
	l.key(path+".key", key)
	for i, v := range r.Values {
		for _, msg := range validation.IsValidLabelValue(v) {
			l.add(fmt.Sprintf("%s.values[%d]", path, i), "value %q: %s", v, msg)
		}
	}
	switch r.Operator {
	case OpIn:
		l.in(path, key, r)
	case OpNotIn, OpExists, OpDoesNotExist:
	case OpGt, OpLt, OpGte, OpLte:
		if !isBound(r.Values) {
			l.add(path+".values", "operator %q must have one whole number of 0 or more, got %q", r.Operator, r.Values)
		}
	default:
		l.add(path+".operator", "operator %q: expected In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte", r.Operator)
	}
}

func (l *errorList) in(path, key string, r Requirement) {
	minValues := 0
	if r.MinValues != nil {
		minValues = *r.MinValues
	}
	if len(r.Values) == 0 {
		l.add(path+".values", "operator In must have a value")
		return
	}
	if len(r.Values) < minValues {
		l.add(path+".values", "minValues is %d but there are %d values", minValues, len(r.Values))
	}
	if key != keys.CapacityType {
		return
	}
	known := 0
	for _, v := range r.Values {
		if v == keys.CapacityOnDemand || v == keys.CapacitySpot || v == keys.CapacityReserved {
			known++
		}
	}
	switch {
	case known == 0:
		l.add(path+".values", "no known value of %s in %q: expected on-demand, spot or reserved", key, r.Values)
	case known < minValues:
		l.add(path+".values", "minValues is %d but there are %d known values of %s", minValues, known, key)
	}
}

// isBound reports whether values is one whole number that the bound operators accept.
func isBound(values []string) bool {
	if len(values) != 1 || strings.HasPrefix(values[0], "-") {
		return false
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	return err == nil && n >= 0
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
