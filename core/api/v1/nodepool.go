package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePool says which machines may be bought, how many, and when they may be taken away.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.nodes
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="NodeClass",type=string,JSONPath=`.spec.template.spec.nodeClassRef.name`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Weight",type=integer,priority=1,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="CPU",type=string,priority=1,JSONPath=`.status.resources.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,priority=1,JSONPath=`.status.resources.memory`
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodePoolSpec `json:"spec"`
	// +optional
	Status NodePoolStatus `json:"status,omitzero"`
}

// NodePoolList is a list of NodePools.
//
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}

// NodePoolSpec is the wish of the user.
//
// +kubebuilder:validation:XValidation:rule="has(self.replicas) == has(oldSelf.replicas)",message="Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",message="only 'limits.nodes' is supported on static NodePools"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.weight)",message="'weight' is not supported on static NodePools"
type NodePoolSpec struct {
	// Template is the shape of the NodeClaims of this pool. A change of it makes existing nodes drift.
	// +required
	Template NodeClaimTemplate `json:"template"`
	// Disruption says when nodes may be given back or replaced.
	// +kubebuilder:default={consolidateAfter: "0s"}
	// +optional
	Disruption Disruption `json:"disruption"`
	// Limits caps the capacity of the pool: any resource, or "nodes" for their number.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitzero"`
	// Weight orders pools, higher first. Unset is 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// Replicas makes the pool static: this many nodes, whether pods need them or not.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// NodeClaimTemplate is what each NodeClaim of a pool starts from. Its type and field names, and those of the types below
// it, take part in the drift hash: renaming one changes the hash of every pool.
type NodeClaimTemplate struct {
	// +optional
	ObjectMeta `json:"metadata,omitzero"`
	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// ObjectMeta is the part of an object's metadata that a template may set.
type ObjectMeta struct {
	// Labels go to the NodeClaim and the Node, and are requirements of one value each while scheduling.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !k.split('/')[0].endsWith('karpenter.sh'))",message="label domain \"karpenter.sh\" is restricted"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="label \"karpenter.sh/nodepool\" is restricted"
	// +kubebuilder:validation:XValidation:rule="!('kubernetes.io/hostname' in self)",message="label \"kubernetes.io/hostname\" is restricted"
	// +mapType=atomic
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations go to the NodeClaim and the Node.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeClaimTemplateSpec is the spec that the NodeClaims of a pool get.
type NodeClaimTemplateSpec struct {
	// Taints stay on the node; pods must tolerate them.
	// +listType=atomic
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// StartupTaints are put on the node at its start and are taken off by some other agent; scheduling ignores them until then.
	// +listType=atomic
	// +optional
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`
	// Requirements restrict the labels, and so the machines, of the nodes.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:XValidation:rule="self.key != 'karpenter.sh/nodepool'",message="label \"karpenter.sh/nodepool\" is restricted",fieldPath=".key"
	// +listType=atomic
	// +required
	Requirements []Requirement `json:"requirements" hash:"ignore"`
	// NodeClassRef names the provider's configuration. Group and kind cannot change.
	// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group",message="nodeClassRef.group is immutable"
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="nodeClassRef.kind is immutable"
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`
	// TerminationGracePeriod is the longest a node may take to drain; unset waits for ever.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +optional
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`
	// ExpireAfter is the longest life of a node, or "Never".
	// +kubebuilder:default="720h"
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter,omitempty"`
}

// Requirement restricts one label.
//
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || (has(self.values) && size(self.values) != 0)",message="requirements with operator 'In' must have a value defined"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",message="requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value"
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || !has(self.minValues) || (has(self.values) && size(self.values) >= self.minValues)",message="requirements with 'minValues' must have at least that many values specified in the 'values' field"
type Requirement struct {
	// Key is a label key.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.split('/')[0].endsWith('karpenter.sh')",message="label domain \"karpenter.sh\" is restricted"
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="label \"kubernetes.io/hostname\" is restricted"
	// +required
	Key string `json:"key"`
	// +required
	Operator Operator `json:"operator"`
	// Values of the label; one whole number for Gt, Lt, Gte and Lte.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
	// MinValues is the least number of different values that the machines of one launch must offer.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// Operator relates the value of a label to the values of a requirement.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
type Operator string

// The operators. Gt and Lt exclude the bound, Gte and Lte include it.
const (
	OpIn           Operator = "In"
	OpNotIn        Operator = "NotIn"
	OpExists       Operator = "Exists"
	OpDoesNotExist Operator = "DoesNotExist"
	OpGt           Operator = "Gt"
	OpLt           Operator = "Lt"
	OpGte          Operator = "Gte"
	OpLte          Operator = "Lte"
)

// NodeClassReference names an object of the provider.
type NodeClassReference struct {
	// +kubebuilder:validation:XValidation:rule="self != ''",message="kind may not be empty"
	// +required
	Kind string `json:"kind"`
	// +kubebuilder:validation:XValidation:rule="self != ''",message="name may not be empty"
	// +required
	Name string `json:"name"`
	// +kubebuilder:validation:Pattern=`^[^/]*$`
	// +kubebuilder:validation:XValidation:rule="self != ''",message="group may not be empty"
	// +required
	Group string `json:"group"`
}

// Disruption says when nodes may be given back or replaced.
type Disruption struct {
	// ConsolidateAfter is the quiet time after the last pod came or went, or "Never".
	// +kubebuilder:default="0s"
	// +optional
	ConsolidateAfter NillableDuration `json:"consolidateAfter"`
	// +kubebuilder:default=WhenEmptyOrUnderutilized
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`
	// Budgets bound how many nodes may be disrupted at the same time. An explicit empty list is no bound, and must be
	// written back as such: without the field the API server would put its default in.
	// +kubebuilder:default={{nodes: "10%"}}
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Budgets []Budget `json:"budgets,omitzero"`
}

// ConsolidationPolicy names the nodes that consolidation may look at.
//
// +kubebuilder:validation:Enum=WhenEmpty;WhenEmptyOrUnderutilized;Balanced
type ConsolidationPolicy string

// The consolidation policies.
const (
	WhenEmpty                ConsolidationPolicy = "WhenEmpty"
	WhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	Balanced                 ConsolidationPolicy = "Balanced"
)

// Budget bounds the number of nodes under disruption, always or in a window that a cron line opens.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",message="'schedule' must be set with 'duration'"
type Budget struct {
	// Reasons the budget is for; unset is all.
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	// +optional
	Reasons []DisruptionReason `json:"reasons,omitempty"`
	// Nodes is a number or a percentage of the pool's nodes, rounded up.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +required
	Nodes string `json:"nodes"`
	// Schedule is a cron line in UTC: five fields, or one of the @ names.
	// +kubebuilder:validation:Pattern=`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`
	// +optional
	Schedule *string `json:"schedule,omitempty"`
	// Duration is the length of the window: hours and minutes.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// DisruptionReason names a voluntary reason to disrupt a node.
//
// +kubebuilder:validation:Enum=Underutilized;Empty;Drifted
type DisruptionReason string

// The voluntary reasons.
const (
	Underutilized DisruptionReason = "Underutilized"
	Empty         DisruptionReason = "Empty"
	Drifted       DisruptionReason = "Drifted"
)

// NodePoolStatus is what was observed.
type NodePoolStatus struct {
	// Resources is the sum of the capacity of the pool's nodes.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// Nodes is the number of nodes.
	// +kubebuilder:default=0
	// +optional
	Nodes *int64 `json:"nodes,omitempty"`
	// NodeClassObservedGeneration is the generation of the node class that registration health was last seen with.
	// +optional
	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
