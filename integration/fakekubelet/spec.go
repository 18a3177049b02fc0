package fakekubelet

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations of a pod that override how it behaves. Durations are written as in Go: "1.5s", "2m".
const (
	// AnnotationStartDelay is the time from being bound to Running.
	AnnotationStartDelay = "fakekubelet.weir.dev/start-delay"
	// AnnotationStopTime is the time the pod takes to stop once deleted; the grace period cuts it short.
	AnnotationStopTime = "fakekubelet.weir.dev/stop-time"
	// AnnotationCompleteAfter is the time from Running to Succeeded, for the pods of Jobs.
	AnnotationCompleteAfter = "fakekubelet.weir.dev/complete-after"
	// AnnotationNotReady, when "true", keeps a running pod from being Ready.
	AnnotationNotReady = "fakekubelet.weir.dev/not-ready"
)

// NodeSpec is one machine: what its kubelet reports and how it behaves.
type NodeSpec struct {
	// Name of the Node object. Required.
	Name string
	// ProviderID as the cloud writes it, "aws:///us-east-1a/i-0123". Required.
	ProviderID string
	// Labels of the new Node. Host name, os and arch are added where missing.
	Labels      map[string]string
	Annotations map[string]string
	// Taints the node registers with; those of an existing Node object are left alone.
	Taints []corev1.Taint
	// Capacity is required and must name cpu, memory and pods. Allocatable is Capacity where empty.
	Capacity, Allocatable corev1.ResourceList
	// InternalIP is the node's address; one of 10.1.0.0/16 where empty.
	InternalIP string
	// KubeletVersion and OSImage are reported as they are, with a default where empty.
	KubeletVersion, OSImage string
	Behaviour               Behaviour
}

// Behaviour says how a machine differs from one that joins at once and stays. The zero value is that machine.
type Behaviour struct {
	// NeverJoin makes a machine that boots but never registers.
	NeverJoin bool
	// JoinDelay is the time from Start until the Node object is made.
	JoinDelay time.Duration
	// NeverReady makes a node that registers and stays NotReady.
	NeverReady bool
	// ReadyDelay is the time from registration until the node is Ready. Pods of the host network run before that.
	ReadyDelay time.Duration
	// ClearTaints takes taints off the node, as the agents do that startup taints wait for.
	ClearTaints []ClearTaint
	// LateResources are resources that the node offers only LateResourcesDelay after it is Ready, as device plugins do. They
	// must not be in Capacity.
	LateResources      corev1.ResourceList
	LateResourcesDelay time.Duration
	// DieAfter is the time from registration until the kubelet falls silent; 0 is never.
	DieAfter time.Duration
}

// ClearTaint takes the taints of a key off the node once, After it became Ready.
type ClearTaint struct {
	Key   string
	After time.Duration
}

// validate reports everything that is wrong with the spec, naming the field.
func (s *NodeSpec) validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if problems := validation.IsDNS1123Subdomain(s.Name); len(problems) > 0 {
		bad("name", "%q: %s", s.Name, strings.Join(problems, "; "))
	}
	if s.ProviderID == "" {
		bad("providerID", "is required")
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if q, ok := s.Capacity[name]; !ok || q.Sign() <= 0 {
			bad("capacity", "%s must be more than 0", name)
		}
	}
	for name, q := range s.Allocatable {
		if c, ok := s.Capacity[name]; !ok || q.Cmp(c) > 0 {
			bad("allocatable", "%s is %s, more than the capacity %s", name, q.String(), c.String())
		}
	}
	b := &s.Behaviour
	for name := range b.LateResources {
		if _, ok := s.Capacity[name]; ok {
			bad("behaviour.lateResources", "%s is in capacity too", name)
		}
	}
	for field, d := range map[string]time.Duration{
		"joinDelay": b.JoinDelay, "readyDelay": b.ReadyDelay, "lateResourcesDelay": b.LateResourcesDelay, "dieAfter": b.DieAfter,
	} {
		if d < 0 {
			bad("behaviour."+field, "%v is negative", d)
		}
	}
	for i, c := range b.ClearTaints {
		if c.Key == "" || c.After < 0 {
			bad(fmt.Sprintf("behaviour.clearTaints[%d]", i), "want a key and no negative time, got %q after %v", c.Key, c.After)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("node spec %q: %w", s.Name, errors.Join(errs...))
	}
	return nil
}

// withDefaults returns a copy with the optional fields filled in.
func (s NodeSpec) withDefaults(ip string) NodeSpec {
	labels := map[string]string{
		corev1.LabelHostname:   s.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	maps.Copy(labels, s.Labels)
	s.Labels = labels
	s.Annotations = maps.Clone(s.Annotations)
	if len(s.Allocatable) == 0 {
		s.Allocatable = s.Capacity
	}
	s.Capacity, s.Allocatable = s.Capacity.DeepCopy(), s.Allocatable.DeepCopy()
	if s.InternalIP == "" {
		s.InternalIP = ip
	}
	if s.KubeletVersion == "" {
		s.KubeletVersion = "v1.37.2"
	}
	if s.OSImage == "" {
		s.OSImage = "Amazon Linux 2023"
	}
	return s
}
