package awsv1

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	sigsjson "sigs.k8s.io/json"

	"github.com/weir-project/weir/core/api/keys"
	v1 "github.com/weir-project/weir/core/api/v1"
)

var (
	evictionSignals = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
	reservedNames   = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	// mappedFields are the fields that every family but AL2023 is limited to.
	mappedFields = []string{
		"maxPods", "podsPerCore", "kubeReserved", "systemReserved", "evictionHard", "clusterDNS", "evictionSoft",
		"evictionSoftGracePeriod", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "cpuCFSQuota",
	}
)

// KubeletConfig reads spec.kubelet. Without one it returns an empty configuration. When there are errors, all of class
// Invalid, the fields they name must not be used.
func (s *EC2NodeClassSpec) KubeletConfig() (*kubeletv1beta1.KubeletConfiguration, []v1.FieldError) {
	config := &kubeletv1beta1.KubeletConfiguration{}
	if s.Kubelet == nil || len(s.Kubelet.Raw) == 0 {
		return config, nil
	}
	k := kubeletCheck{family: s.Family()}
	if err := json.Unmarshal(s.Kubelet.Raw, &k.fields); err != nil {
		k.invalid("", "expected an object: %v", err)
		return config, k.errs
	}
	k.expressions()
	rest, err := json.Marshal(k.fields)
	if err != nil {
		k.invalid("", "%v", err)
		return config, k.errs
	}
	strict, err := sigsjson.UnmarshalStrict(rest, config)
	for _, e := range strict {
		k.invalid("", "%v", e)
	}
	if err != nil {
		k.invalid("", "not a KubeletConfiguration of kubelet.config.k8s.io/v1beta1: %v", err)
		return config, k.errs
	}
	k.values(config)
	k.support(config)
	return config, k.errs
}

type kubeletCheck struct {
	family string
	fields map[string]json.RawMessage
	errs   []v1.FieldError
}

func (k *kubeletCheck) add(reason, field, format string, args ...any) {
	path := "spec.kubelet"
	if field != "" {
		path += "." + field
	}
	k.errs = append(k.errs, v1.FieldError{Class: v1.Invalid, Path: path, Message: fmt.Sprintf(format, args...), Reason: reason})
}

func (k *kubeletCheck) invalid(field, format string, args ...any) {
	k.add(keys.ReasonInvalidKubelet, field, format, args...)
}

// expressions reports the places where a formula stands for a number, and takes a formula for maxPods out of the fields.
func (k *kubeletCheck) expressions() {
	const off = "%s is an expression: expressions are switched off"
	var text string
	if raw, ok := k.fields["maxPods"]; ok && json.Unmarshal(raw, &text) == nil {
		k.add(keys.ReasonKubeletExpressionsOff, "maxPods", off, strconv.Quote(text))
		delete(k.fields, "maxPods")
	}
	for _, field := range []string{"kubeReserved", "systemReserved"} {
		var reserved map[string]string
		if raw, ok := k.fields[field]; !ok || json.Unmarshal(raw, &reserved) != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(reserved)) {
			if _, err := resource.ParseQuantity(reserved[name]); err != nil && !strings.HasPrefix(reserved[name], "-") {
				k.add(keys.ReasonKubeletExpressionsOff, field+"."+name, off, strconv.Quote(reserved[name]))
			}
		}
	}
}

func (k *kubeletCheck) values(c *kubeletv1beta1.KubeletConfiguration) {
	if len(c.RegisterWithTaints) > 0 {
		k.invalid("registerWithTaints", "may not be set: the taints come from the NodePool")
	}
	for field, reserved := range map[string]map[string]string{"kubeReserved": c.KubeReserved, "systemReserved": c.SystemReserved} {
		for _, name := range slices.Sorted(maps.Keys(reserved)) {
			if !slices.Contains(reservedNames, name) {
				k.invalid(field+"."+name, "unknown resource, expected one of %s", strings.Join(reservedNames, ", "))
			}
			if strings.HasPrefix(reserved[name], "-") {
				k.invalid(field+"."+name, "value %q may not be negative", reserved[name])
			}
		}
	}
	k.signals("evictionHard", c.EvictionHard, threshold)
	k.signals("evictionSoft", c.EvictionSoft, threshold)
	k.signals("evictionMinimumReclaim", c.EvictionMinimumReclaim, threshold)
	k.signals("evictionSoftGracePeriod", c.EvictionSoftGracePeriod, gracePeriod)
	k.sameKeys("evictionSoft", c.EvictionSoft, "evictionSoftGracePeriod", c.EvictionSoftGracePeriod)
	k.sameKeys("evictionSoftGracePeriod", c.EvictionSoftGracePeriod, "evictionSoft", c.EvictionSoft)
	for field, value := range map[string]int32{
		"maxPods": c.MaxPods, "podsPerCore": c.PodsPerCore, "evictionMaxPodGracePeriod": c.EvictionMaxPodGracePeriod,
	} {
		if value < 0 {
			k.invalid(field, "value %d may not be negative", value)
		}
	}
	k.imageGC(c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent)
	slices.SortStableFunc(k.errs, func(a, b v1.FieldError) int { return strings.Compare(a.Path, b.Path) })
}

func (k *kubeletCheck) imageGC(high, low *int32) {
	for field, value := range map[string]*int32{"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low} {
		if value != nil && (*value < 0 || *value > 100) {
			k.invalid(field, "value %d: expected 0 to 100", *value)
		}
	}
	if high != nil && low != nil && *high <= *low {
		k.invalid("imageGCHighThresholdPercent", "value %d must be greater than imageGCLowThresholdPercent %d", *high, *low)
	}
}

func (k *kubeletCheck) signals(field string, values map[string]string, check func(string) error) {
	for _, signal := range slices.Sorted(maps.Keys(values)) {
		at := field + "." + signal
		if !slices.Contains(evictionSignals, signal) {
			k.invalid(at, "unknown eviction signal, expected one of %s", strings.Join(evictionSignals, ", "))
		}
		if err := check(values[signal]); err != nil {
			k.invalid(at, "value %q: %v", values[signal], err)
		}
	}
}

func (k *kubeletCheck) sameKeys(field string, values map[string]string, other string, others map[string]string) {
	for _, signal := range slices.Sorted(maps.Keys(values)) {
		if _, ok := others[signal]; !ok {
			k.invalid(field+"."+signal, "needs the same signal in %s", other)
		}
	}
}

// support reports what the image family cannot be told.
func (k *kubeletCheck) support(c *kubeletv1beta1.KubeletConfiguration) {
	switch k.family {
	case FamilyAL2023, FamilyCustom:
		return
	}
	for _, field := range slices.Sorted(maps.Keys(k.fields)) {
		if !slices.Contains(mappedFields, field) && field != "apiVersion" && field != "kind" {
			k.add(keys.ReasonUnsupportedKubelet, field, "not supported by family %s, expected one of %s", k.family, strings.Join(mappedFields, ", "))
		}
	}
	if _, ok := k.fields["podsPerCore"]; ok && k.family == FamilyBottlerocket {
		k.add(keys.ReasonUnsupportedKubelet, "podsPerCore", "not supported by family %s", k.family)
	}
	if len(c.ClusterDNS) > 1 {
		k.add(keys.ReasonUnsupportedKubelet, "clusterDNS", "family %s takes one address, got %d", k.family, len(c.ClusterDNS))
	}
}

func threshold(text string) error {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return fmt.Errorf("expected a percentage from 0%% to 100%%")
		}
		return nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return fmt.Errorf("expected a percentage or a quantity of 0 or more")
	}
	return nil
}

func gracePeriod(text string) error {
	if d, err := time.ParseDuration(text); err != nil || d < 0 {
		return fmt.Errorf("expected a duration of 0 or more, such as 90s")
	}
	return nil
}
