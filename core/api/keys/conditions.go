package keys

// ConditionReady is the root condition of every kind.
const ConditionReady = "Ready"

// Condition types of a NodePool. ConditionReady is True when the first two are.
const (
	ConditionValidationSucceeded     = "ValidationSucceeded" // also on EC2NodeClass
	ConditionNodeClassReady          = "NodeClassReady"
	ConditionNodeRegistrationHealthy = "NodeRegistrationHealthy" // informational
)

// Condition types of a NodeClaim. ConditionReady is True when the first three are.
const (
	ConditionLaunched            = "Launched"
	ConditionRegistered          = "Registered"
	ConditionInitialized         = "Initialized"
	ConditionConsolidatable      = "Consolidatable"
	ConditionDrifted             = "Drifted"
	ConditionDisruptionReason    = "DisruptionReason"
	ConditionDrained             = "Drained"
	ConditionVolumesDetached     = "VolumesDetached"
	ConditionInstanceTerminating = "InstanceTerminating"
	ConditionConsistentState     = "ConsistentStateFound"
)

// Condition types of an EC2NodeClass. ConditionReady is True when all of them and ConditionValidationSucceeded are.
const (
	ConditionAMIsReady                 = "AMIsReady"
	ConditionSubnetsReady              = "SubnetsReady"
	ConditionSecurityGroupsReady       = "SecurityGroupsReady"
	ConditionInstanceProfileReady      = "InstanceProfileReady"
	ConditionPlacementGroupReady       = "PlacementGroupReady"
	ConditionCapacityReservationsReady = "CapacityReservationsReady"
)

// Reasons shared by all conditions.
const (
	ReasonAwaitingReconciliation = "AwaitingReconciliation" // new condition, Unknown
	ReasonReconcilingDependents  = "ReconcilingDependents"  // Ready, Unknown
	ReasonUnhealthyDependents    = "UnhealthyDependents"    // Ready, False

	// MessageAwaitingReconciliation goes with ReasonAwaitingReconciliation.
	MessageAwaitingReconciliation = "object is awaiting reconciliation"
)

// Reasons of NodePool conditions.
const (
	ReasonNodePoolValidationFailed  = "NodePoolValidationFailed"
	ReasonNodeClassNotFound         = "NodeClassNotFound"
	ReasonNodeClassTerminating      = "NodeClassTerminating"
	ReasonNodeClassReadinessUnknown = "NodeClassReadinessUnknown"
	ReasonRegistrationFailed        = "RegistrationFailed"
)

// Reasons of NodeClaim conditions.
const (
	ReasonLaunchFailed             = "LaunchFailed"
	ReasonNodeNotFound             = "NodeNotFound"
	ReasonRegistrationHookPending  = "RegistrationHookPending"
	ReasonMultipleNodesFound       = "MultipleNodesFound"
	ReasonNodeNotReady             = "NodeNotReady"
	ReasonStartupTaintsExist       = "StartupTaintsExist"
	ReasonKnownEphemeralTaints     = "KnownEphemeralTaintsExist"
	ReasonResourceNotRegistered    = "ResourceNotRegistered"
	ReasonDRAPoolsNotPublished     = "DRADriverPoolsNotPublished"
	ReasonDraining                 = "Draining"
	ReasonAwaitingVolumeDetachment = "AwaitingVolumeDetachment"
	ReasonTerminationGraceElapsed  = "TerminationGracePeriodElapsed"
	ReasonConsistencyCheckFailed   = "ConsistencyCheckFailed"
	ReasonNodePoolDrifted          = "NodePoolDrifted"
	ReasonRequirementsDrifted      = "RequirementsDrifted"
	ReasonInstanceTypeNotFound     = "InstanceTypeNotFound"
	ReasonNodeClassDrift           = "NodeClassDrift"
	ReasonAMIDrift                 = "AMIDrift"
	ReasonSecurityGroupDrift       = "SecurityGroupDrift"
	ReasonSubnetDrift              = "SubnetDrift"
	ReasonCapacityReservationDrift = "CapacityReservationDrift"
	ReasonPlacementGroupDrift      = "PlacementGroupDrift"
	MessageNodeNotRegistered       = "Node not registered with cluster" // with ReasonNodeNotFound
	DisruptionReasonDrifted        = "Drifted"
	DisruptionReasonEmpty          = "Empty"
	DisruptionReasonUnderutilized  = "Underutilized"
)

// Reasons of EC2NodeClass conditions.
const (
	ReasonAMINotFound               = "AMINotFound"
	ReasonUnsupportedAlias          = "UnsupportedAlias"
	ReasonSubnetsNotFound           = "SubnetsNotFound"
	ReasonSecurityGroupsNotFound    = "SecurityGroupsNotFound"
	ReasonPlacementGroupNotFound    = "PlacementGroupNotFound"
	ReasonPlacementGroupFailed      = "PlacementGroupResolutionFailed"
	ReasonDependenciesNotReady      = "DependenciesNotReady"
	ReasonClusterCIDRFailed         = "ClusterCIDRResolutionFailed"
	ReasonTagValidationFailed       = "TagValidationFailed"
	ReasonInvalidKubelet            = "InvalidKubeletConfiguration"
	ReasonUnsupportedKubelet        = "UnsupportedKubeletConfiguration"
	ReasonKubeletExpressionsOff     = "KubeletExpressionsDisabled"
	ReasonKubeletExpressionInvalid  = "KubeletExpressionInvalid"
	ReasonKubeletExpressionFailed   = "KubeletExpressionEvaluationFailed"
	ReasonLaunchTemplateAuthFailed  = "CreateLaunchTemplateAuthCheckFailed"
	ReasonCreateFleetAuthFailed     = "CreateFleetAuthCheckFailed"
	ReasonRunInstancesAuthFailed    = "RunInstancesAuthCheckFailed"
	ReasonInstanceProfileNotFound   = "InstanceProfileNotFound"
	ReasonUserDataSizeLimitExceeded = "UserDataSizeLimitExceeded"
	ReasonInvalidUserData           = "InvalidUserData" // of Weir: not what images of the family read
	ReasonWaitingOnClaimTermination = "WaitingOnNodeClaimTermination"
)
