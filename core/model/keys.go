package model

import "strings"

// Labels that planning reads or sets.
const (
	LabelPool         = "karpenter.sh/nodepool"
	LabelCapacityType = "karpenter.sh/capacity-type"

	LabelReservationID            = AWSLabelDomain + "/capacity-reservation-id"
	LabelReservationType          = AWSLabelDomain + "/capacity-reservation-type"
	LabelReservationInterruptible = AWSLabelDomain + "/capacity-reservation-interruptible"
	LabelPlacementGroup           = AWSLabelDomain + "/placement-group-id"
	LabelPlacementPartition       = AWSLabelDomain + "/placement-group-partition"
	LabelRegistered               = "karpenter.sh/registered"
	LabelInitialized              = "karpenter.sh/initialized"
	LabelNodeClass                = "karpenter.k8s.aws/ec2nodeclass"
	LabelZone                     = "topology.kubernetes.io/zone"
	LabelZoneID                   = "topology.k8s.aws/zone-id"
	LabelRegion                   = "topology.kubernetes.io/region"
	LabelInstanceType             = "node.kubernetes.io/instance-type"
	LabelArch                     = "kubernetes.io/arch"
	LabelOS                       = "kubernetes.io/os"
	LabelWindowsBuild             = "node.kubernetes.io/windows-build"
	LabelHostname                 = "kubernetes.io/hostname"
	LabelInstanceID               = "weir.dev/instance-id"
	LabelNoSyncTaints             = "karpenter.sh/do-not-sync-taints"
	LabelExcludeLB                = "node.kubernetes.io/exclude-from-external-load-balancers"

	AWSLabelDomain = "karpenter.k8s.aws" // prefix of the labels that describe an instance type
)

// Annotations that planning reads or sets.
const (
	AnnotationDoNotDisrupt         = "karpenter.sh/do-not-disrupt"
	AnnotationTerminationTimestamp = "karpenter.sh/nodeclaim-termination-timestamp"
	AnnotationPoolHash             = "karpenter.sh/nodepool-hash"
	AnnotationPoolHashVersion      = "karpenter.sh/nodepool-hash-version"
	AnnotationMinValuesRelaxed     = "karpenter.sh/nodeclaim-min-values-relaxed" // "true" or "false"
	AnnotationPodDeletionCost      = "controller.kubernetes.io/pod-deletion-cost"
	AnnotationLaunch               = "weir.dev/launch"             // "<launch id>/<client token>": the intent, on each claim
	AnnotationInterruption         = "weir.dev/interruption"       // a notice's face on the claim, JSON
	AnnotationInstanceSelection    = "weir.dev/instance-selection" // on a NodePool: strategy that prices it
	AnnotationConsolidation        = "weir.dev/consolidation"      // on a NodePool: strategy that scores its moves
	AnnotationRepair               = "weir.dev/repair"             // why a claim is about to be replaced as broken: its termination timestamp is ours
	AnnotationRebalance            = "weir.dev/rebalance"          // on a NodePool: record, cordon or replace-then-drain
	AnnotationSoak                 = "weir.dev/soak"               // on a NodePool: how long its nodes stay after they began to differ from it, such as 72h
	AnnotationPlacementGroup       = "weir.dev/placement-group"    // on an EC2NodeClass: the group that its selector names, as PlacementGroup.String writes it
	AnnotationExpire               = "weir.dev/expire"             // on a NodePool: ExpireBudgeted
	AnnotationTimeZone             = "weir.dev/time-zone"          // on a NodePool: of its budgets' schedules, such as Europe/Zurich; UTC without it
)

// Taints and finalizers.
const (
	TaintDisrupted       = "karpenter.sh/disrupted"    // NoSchedule, no value: the cordon
	TaintUnregistered    = "karpenter.sh/unregistered" // NoExecute, no value: until registration
	FinalizerTermination = "karpenter.sh/termination"  // on NodeClaim and Node
)

// ExpireBudgeted is the value of AnnotationExpire that has nodes past their expireAfter
// replaced within budgets, as drifted ones are; otherwise they are ended by force.
const ExpireBudgeted = "budgeted"

// Values of LabelCapacityType.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
	Reserved = "reserved"
)

// awsLabels are the suffixes of AWSLabelDomain that an instance type may carry.
var awsLabels = map[string]bool{
	"instance-category": true, "instance-family": true, "instance-generation": true, "instance-size": true,
	"instance-hypervisor": true, "instance-encryption-in-transit-supported": true, "nitro-sandbox": true,
	"instance-tenancy": true, "instance-cpu": true, "instance-cpu-manufacturer": true,
	"instance-cpu-sustained-clock-speed-mhz": true, "instance-memory": true, "instance-ebs-bandwidth": true,
	"instance-network-bandwidth": true, "instance-local-nvme": true, "instance-gpu-name": true,
	"instance-gpu-manufacturer": true, "instance-gpu-count": true, "instance-gpu-memory": true,
	"instance-accelerator-name": true, "instance-accelerator-manufacturer": true, "instance-accelerator-count": true,
	"instance-capability-flex": true, "capacity-reservation-id": true, "capacity-reservation-type": true,
	"capacity-reservation-interruptible": true, "placement-group-id": true, "placement-group-partition": true,
	"ec2nodeclass": true,
}

// WellKnown says whether the provider fills in the label by itself, so that a pool
// that does not mention it offers any value.
func WellKnown(key string) bool {
	switch key {
	case LabelPool, LabelCapacityType, LabelZone, LabelZoneID, LabelRegion, LabelInstanceType, LabelArch, LabelOS, LabelWindowsBuild:
		return true
	}
	suffix, ok := strings.CutPrefix(key, AWSLabelDomain+"/")
	return ok && awsLabels[suffix]
}

// Restricted says whether people may not use the label in a pool, a node selector
// or a node affinity: the domains karpenter.sh and karpenter.k8s.aws with their
// subdomains, save for the well-known keys, and the host name.
func Restricted(key string) bool {
	if WellKnown(key) {
		return false
	}
	if key == LabelHostname {
		return true
	}
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, d := range []string{"karpenter.sh", AWSLabelDomain} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return false
}

var aliases = map[string]string{
	"failure-domain.beta.kubernetes.io/zone":   LabelZone,
	"failure-domain.beta.kubernetes.io/region": LabelRegion,
	"beta.kubernetes.io/arch":                  LabelArch,
	"beta.kubernetes.io/os":                    LabelOS,
	"beta.kubernetes.io/instance-type":         LabelInstanceType,
	"topology.ebs.csi.aws.com/zone":            LabelZone,
}

// CanonicalKey is the label key under which planning knows an older spelling.
func CanonicalKey(key string) string {
	if c, ok := aliases[key]; ok {
		return c
	}
	return key
}

// ResourceEFA counts Elastic Fabric Adapters.
const ResourceEFA = "vpc.amazonaws.com/efa"
