package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/config"
)

// SchedulerConfig is what planning needs to know of how kube-scheduler was configured.
type SchedulerConfig struct {
	PodTopologySpread PodTopologySpread `json:"podTopologySpread"`
}

// PodTopologySpread is the arguments of kube-scheduler's plugin of that name.
type PodTopologySpread struct {
	// DefaultConstraints hold for pods that have no constraint of their own. They name no
	// labels: services and controllers of the pods do.
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
}

// ReadSchedulerConfig reads YAML or JSON. Fields that are not known are errors, as are
// constraints that kube-scheduler would refuse; errors are *FieldError where they are of
// one field.
func ReadSchedulerConfig(data []byte) (*SchedulerConfig, error) {
	c := &SchedulerConfig{}
	var plain []byte
	var strict []error
	err := config.OneDocument(data)
	if err == nil {
		plain, err = yaml.YAMLToJSONStrict(data)
	}
	if err == nil {
		strict, err = sigsjson.UnmarshalStrict(plain, c)
	}
	if err == nil {
		err = errors.Join(strict...)
	}
	if err != nil {
		return nil, fmt.Errorf("expected YAML or JSON with podTopologySpread.defaultConstraints: %w", err)
	}
	seen := map[string]int{}
	for i := range c.PodTopologySpread.DefaultConstraints {
		d := &c.PodTopologySpread.DefaultConstraints[i]
		if err := checkDefault(fmt.Sprintf("podTopologySpread.defaultConstraints[%d]", i), d); err != nil {
			return nil, err
		}
		key := d.TopologyKey + " " + string(d.WhenUnsatisfiable)
		if j, again := seen[key]; again {
			return nil, &FieldError{fmt.Sprintf("podTopologySpread.defaultConstraints[%d]", i),
				fmt.Sprintf("has the topologyKey and whenUnsatisfiable of defaultConstraints[%d]", j)}
		}
		seen[key] = i
	}
	return c, nil
}

// IsSchedulerConfig says whether a setting is the configuration itself rather than the
// name of a file that holds it.
func IsSchedulerConfig(setting string) bool {
	return strings.ContainsAny(setting, "\n{")
}

func checkDefault(at string, c *corev1.TopologySpreadConstraint) error {
	modes := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
	bad := func(field, format string, args ...any) error {
		return &FieldError{at + "." + field, fmt.Sprintf(format, args...)}
	}
	switch {
	case c.MaxSkew <= 0:
		return bad("maxSkew", "must be greater than 0, got %d", c.MaxSkew)
	case c.TopologyKey == "":
		return bad("topologyKey", "is missing")
	case len(validation.IsQualifiedName(c.TopologyKey)) > 0:
		return bad("topologyKey", "%q is not a label key: %s", c.TopologyKey, strings.Join(validation.IsQualifiedName(c.TopologyKey), "; "))
	case !slices.Contains(modes, c.WhenUnsatisfiable):
		return bad("whenUnsatisfiable", "expected DoNotSchedule or ScheduleAnyway, got %q", c.WhenUnsatisfiable)
	case c.LabelSelector != nil:
		return bad("labelSelector", "must not be set: services and controllers of a pod say which pods count")
	case len(c.MatchLabelKeys) > 0:
		return bad("matchLabelKeys", "must not be set for a default constraint")
	case c.MinDomains != nil && *c.MinDomains <= 0:
		return bad("minDomains", "must be greater than 0, got %d", *c.MinDomains)
	case c.MinDomains != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule:
		return bad("minDomains", "can only be used with whenUnsatisfiable DoNotSchedule")
	case c.NodeAffinityPolicy != nil && !slices.Contains(policies, *c.NodeAffinityPolicy):
		return bad("nodeAffinityPolicy", "expected Honor or Ignore, got %q", *c.NodeAffinityPolicy)
	case c.NodeTaintsPolicy != nil && !slices.Contains(policies, *c.NodeTaintsPolicy):
		return bad("nodeTaintsPolicy", "expected Honor or Ignore, got %q", *c.NodeTaintsPolicy)
	}
	return nil
}
