package keys

import "github.com/weir-project/weir/core/model"

// API groups whose objects Weir reads and writes.
const (
	GroupKarpenter   = "karpenter.sh"
	GroupAWS         = model.AWSLabelDomain
	GroupWeir        = "weir.dev"
	KindNodePool     = "NodePool"
	KindNodeClaim    = "NodeClaim"
	KindEC2NodeClass = "EC2NodeClass"
	FinalizerClaim   = model.FinalizerTermination      // on NodeClaim and Node
	FinalizerAWS     = "karpenter.k8s.aws/termination" // on EC2NodeClass
	FieldManager     = "weir-scaler"                   // field manager of what the controller writes
)

// Labels of the group karpenter.sh.
const (
	NodePool        = model.LabelPool         // NodeClaim, Node: name of the pool
	CapacityType    = model.LabelCapacityType // spot, on-demand or reserved
	Registered      = model.LabelRegistered   // Node: "true" once joined to its claim
	Initialized     = model.LabelInitialized  // Node: "true" once usable
	DoNotSyncTaints = model.LabelNoSyncTaints // Node: "true" = the kubelet sets the claim's taints itself
	NodeClassLabel  = model.LabelNodeClass    // NodeClaim, Node: name of the EC2NodeClass
	ExcludeFromLB   = model.LabelExcludeLB
	ExcludeFromLBBy = "karpenter"              // value of ExcludeFromLB while a node drains
	Discovery       = "karpenter.sh/discovery" // usual tag of subnets and security groups
	NodeClaimTag    = "karpenter.sh/nodeclaim" // EC2 tag: name of the claim
	ClusterTag      = "eks:eks-cluster-name"   // EC2 tag: name of the cluster
	ClusterOwnedTag = "kubernetes.io/cluster/" // prefix of the EC2 tag whose value is "owned"
)

// Values of CapacityType.
const (
	CapacityOnDemand = model.OnDemand
	CapacitySpot     = model.Spot
	CapacityReserved = model.Reserved
)

// Labels of Kubernetes that scheduling looks at.
const (
	Zone         = model.LabelZone
	Region       = model.LabelRegion
	InstanceType = model.LabelInstanceType
	Arch         = model.LabelArch
	OS           = model.LabelOS
	WindowsBuild = model.LabelWindowsBuild
	Hostname     = model.LabelHostname
)

// Labels of AWS instance types and offerings.
const (
	ZoneID                           = model.LabelZoneID
	InstanceCategory                 = "karpenter.k8s.aws/instance-category"
	InstanceFamily                   = "karpenter.k8s.aws/instance-family"
	InstanceGeneration               = "karpenter.k8s.aws/instance-generation"
	InstanceSize                     = "karpenter.k8s.aws/instance-size"
	InstanceCapabilityFlex           = "karpenter.k8s.aws/instance-capability-flex"
	InstanceHypervisor               = "karpenter.k8s.aws/instance-hypervisor"
	InstanceEncryptionInTransit      = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
	InstanceTenancy                  = "karpenter.k8s.aws/instance-tenancy"
	InstanceCPU                      = "karpenter.k8s.aws/instance-cpu"
	InstanceCPUManufacturer          = "karpenter.k8s.aws/instance-cpu-manufacturer"
	InstanceCPUClockSpeed            = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
	InstanceMemory                   = "karpenter.k8s.aws/instance-memory"
	InstanceEBSBandwidth             = "karpenter.k8s.aws/instance-ebs-bandwidth"
	InstanceNetworkBandwidth         = "karpenter.k8s.aws/instance-network-bandwidth"
	InstanceLocalNVME                = "karpenter.k8s.aws/instance-local-nvme"
	InstanceGPUName                  = "karpenter.k8s.aws/instance-gpu-name"
	InstanceGPUManufacturer          = "karpenter.k8s.aws/instance-gpu-manufacturer"
	InstanceGPUCount                 = "karpenter.k8s.aws/instance-gpu-count"
	InstanceGPUMemory                = "karpenter.k8s.aws/instance-gpu-memory"
	InstanceAcceleratorName          = "karpenter.k8s.aws/instance-accelerator-name"
	InstanceAcceleratorManufacturer  = "karpenter.k8s.aws/instance-accelerator-manufacturer"
	InstanceAcceleratorCount         = "karpenter.k8s.aws/instance-accelerator-count"
	NitroSandbox                     = "karpenter.k8s.aws/nitro-sandbox"
	CapacityReservationID            = "karpenter.k8s.aws/capacity-reservation-id"
	CapacityReservationType          = "karpenter.k8s.aws/capacity-reservation-type"
	CapacityReservationInterruptible = "karpenter.k8s.aws/capacity-reservation-interruptible"
	PlacementGroupID                 = "karpenter.k8s.aws/placement-group-id"
	PlacementGroupPartition          = "karpenter.k8s.aws/placement-group-partition"
)

// Annotations of Karpenter.
const (
	DoNotDisrupt            = model.AnnotationDoNotDisrupt                  // Pod: "true" or a duration; Node: "true"
	NodePoolHash            = model.AnnotationPoolHash                      // NodePool, NodeClaim
	NodePoolHashVersion     = model.AnnotationPoolHashVersion               // NodePool, NodeClaim
	TerminationTimestamp    = model.AnnotationTerminationTimestamp          // NodeClaim, RFC 3339
	MinValuesRelaxed        = model.AnnotationMinValuesRelaxed              // NodeClaim, "true" or "false"
	RequestedDRADrivers     = "karpenter.sh/requested-dra-drivers"          // NodeClaim, comma list
	PriceOverlayApplied     = "karpenter.sh/price-overlay-applied"          // NodeClaim, "true"
	CapacityOverlayApplied  = "karpenter.sh/capacity-overlay-applied"       // NodeClaim, "true"
	PodDeletionCost         = model.AnnotationPodDeletionCost               // Pod, read only
	EC2NodeClassHash        = "karpenter.k8s.aws/ec2nodeclass-hash"         // EC2NodeClass, NodeClaim
	EC2NodeClassHashVersion = "karpenter.k8s.aws/ec2nodeclass-hash-version" // EC2NodeClass, NodeClaim
	InstanceProfileName     = "karpenter.k8s.aws/instance-profile-name"     // NodeClaim
	NodePoolHashV3          = "v3"                                          // version of NodePool.Hash: the same bytes as Karpenter's
	EC2NodeClassHashWeir1   = "weir-v1"                                     // version of EC2NodeClass.Hash: our own function
)

// Names of our own.
const (
	InstanceSelection = model.AnnotationInstanceSelection // NodePool annotation: name of the strategy that picks machines
	Consolidation     = model.AnnotationConsolidation     // NodePool annotation: name of the strategy that gives machines back
	Launch            = model.AnnotationLaunch            // NodeClaim annotation and EC2 tag: launch id and client token
	InstanceID        = model.LabelInstanceID             // Node label: EC2 instance id
	Interruption      = model.AnnotationInterruption      // NodeClaim annotation: kind, deadline and event id of a notice
	Rebalance         = model.AnnotationRebalance         // NodePool annotation: record, cordon or replace-then-drain
	AtDeadline        = "weir.dev/at-deadline"            // Pod annotation: AtDeadlineRespect or AtDeadlineSignal

	AtDeadlineRespect = "respect" // keep to budgets and do-not-disrupt until the machine is gone (default)
	AtDeadlineSignal  = "signal"  // delete the pod with the grace that is left
)

// Taint keys. Both taints have no value.
const (
	TaintDisrupted    = model.TaintDisrupted    // NoSchedule, on a node that is being drained
	TaintUnregistered = model.TaintUnregistered // NoExecute, until the node is registered

	TaintNotReady          = "node.kubernetes.io/not-ready"
	TaintUnreachable       = "node.kubernetes.io/unreachable"
	TaintUninitialized     = "node.cloudprovider.kubernetes.io/uninitialized"
	TaintReadinessPrefix   = "readiness.k8s.io/" // any key under it goes away before a node is initialized
	TaintUnschedulable     = "node.kubernetes.io/unschedulable"
	EffectNoSchedule       = "NoSchedule"
	EffectPreferNoSchedule = "PreferNoSchedule"
	EffectNoExecute        = "NoExecute"
)
