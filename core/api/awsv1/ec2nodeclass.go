package awsv1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EC2NodeClass says how machines are launched on EC2: images, subnets, security groups, role, disks, user data.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=ec2nodeclasses,scope=Cluster,categories=karpenter,shortName={ec2nc,ec2ncs}
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Role",type=string,priority=1,JSONPath=`.spec.role`
type EC2NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec EC2NodeClassSpec `json:"spec"`
	// +optional
	Status EC2NodeClassStatus `json:"status,omitzero"`
}

// EC2NodeClassList is a list of EC2NodeClasses.
//
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EC2NodeClass `json:"items"`
}

// EC2NodeClassSpec is the wish of the user. Fields with hash:"ignore" take no part in the drift hash: either their drift is
// computed from what they resolve to, or they cause none.
//
// +kubebuilder:validation:XValidation:rule="(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",message="must specify exactly one of ['role', 'instanceProfile']"
// +kubebuilder:validation:XValidation:rule="has(self.amiFamily) || (has(self.amiSelectorTerms) && self.amiSelectorTerms.exists(t, has(t.alias)))",message="must specify amiFamily if amiSelectorTerms does not contain an alias"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || !self.amiSelectorTerms.exists(t, has(t.alias) && t.alias.split('@')[0] == 'al2') || self.amiFamily in ['AL2', 'Custom']",message="if set, amiFamily must be 'AL2' or 'Custom' when using a AL2 alias"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || !self.amiSelectorTerms.exists(t, has(t.alias) && t.alias.split('@')[0] == 'al2023') || self.amiFamily in ['AL2023', 'Custom']",message="if set, amiFamily must be 'AL2023' or 'Custom' when using a AL2023 alias"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || !self.amiSelectorTerms.exists(t, has(t.alias) && t.alias.split('@')[0] == 'bottlerocket') || self.amiFamily in ['Bottlerocket', 'Custom']",message="if set, amiFamily must be 'Bottlerocket' or 'Custom' when using a Bottlerocket alias"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || !self.amiSelectorTerms.exists(t, has(t.alias) && t.alias.split('@')[0] == 'windows2019') || self.amiFamily in ['Windows2019', 'Custom']",message="if set, amiFamily must be 'Windows2019' or 'Custom' when using a Windows2019 alias"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || !self.amiSelectorTerms.exists(t, has(t.alias) && t.alias.split('@')[0] == 'windows2022') || self.amiFamily in ['Windows2022', 'Custom']",message="if set, amiFamily must be 'Windows2022' or 'Custom' when using a Windows2022 alias"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || !self.amiSelectorTerms.exists(t, has(t.alias) && t.alias.split('@')[0] == 'windows2025') || self.amiFamily in ['Windows2025', 'Custom']",message="if set, amiFamily must be 'Windows2025' or 'Custom' when using a Windows2025 alias"
type EC2NodeClassSpec struct {
	// SubnetSelectorTerms find the subnets; a subnet that any term matches is used.
	// +kubebuilder:validation:XValidation:rule="self.size() != 0",message="subnetSelectorTerms cannot be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id))",message="expected at least one, got none, ['tags', 'id']"
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || !self.all(t, has(t.id) && has(t.tags))",message="a term of subnetSelectorTerms with 'id' must have no other field"
	// +kubebuilder:validation:MaxItems=30
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms" hash:"ignore"`
	// SecurityGroupSelectorTerms find the security groups; all groups that any term matches are attached.
	// +kubebuilder:validation:XValidation:rule="self.size() != 0",message="securityGroupSelectorTerms cannot be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name))",message="expected at least one, got none, ['tags', 'id', 'name']"
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || !self.all(t, has(t.id) && (has(t.tags) || has(t.name)))",message="a term of securityGroupSelectorTerms with 'id' must have no other field"
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || !self.all(t, has(t.name) && (has(t.tags) || has(t.id)))",message="a term of securityGroupSelectorTerms with 'name' must have no other field"
	// +kubebuilder:validation:MaxItems=30
	// +required
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms" hash:"ignore"`
	// CapacityReservationSelectorTerms find the capacity reservations to use first. An explicit empty list is refused.
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.instanceMatchCriteria))",message="expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']"
	// +kubebuilder:validation:XValidation:rule="!self.all(t, has(t.id) && (has(t.tags) || has(t.ownerID) || has(t.instanceMatchCriteria)))",message="a term of capacityReservationSelectorTerms with 'id' must have no other field"
	// +kubebuilder:validation:MaxItems=30
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitempty" hash:"ignore"`
	// PlacementGroupSelector names the placement group to launch into.
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`
	// AssociatePublicIPAddress overrides the subnet's setting.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`
	// AMISelectorTerms find the images.
	// +kubebuilder:validation:XValidation:rule="self.size() != 0",message="amiSelectorTerms cannot be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name) || has(t.alias) || has(t.ssmParameter))",message="expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, has(t.id) && (has(t.alias) || has(t.tags) || has(t.name) || has(t.owner)))",message="a term of amiSelectorTerms with 'id' must have no other field"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, has(t.alias) && (has(t.id) || has(t.tags) || has(t.name) || has(t.owner)))",message="a term of amiSelectorTerms with 'alias' must have no other field"
	// +kubebuilder:validation:XValidation:rule="!(self.exists(t, has(t.alias)) && self.size() != 1)",message="a term with 'alias' must be the only one of amiSelectorTerms"
	// +kubebuilder:validation:MaxItems=30
	// +required
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms" hash:"ignore"`
	// AMIFamily says how the image is started; taken from the alias when there is one. Hash takes the resolved family.
	// +kubebuilder:validation:Enum=AL2;AL2023;Bottlerocket;Custom;Windows2019;Windows2022;Windows2025
	// +optional
	AMIFamily *string `json:"amiFamily,omitempty" hash:"ignore"`
	// UserData is added to what is generated; its format depends on the family.
	// +optional
	UserData *string `json:"userData,omitempty"`
	// Role is the IAM role of the nodes, without path.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="role cannot be empty"
	// +optional
	Role string `json:"role,omitempty"`
	// InstanceProfile is an existing instance profile, instead of Role.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="instanceProfile cannot be empty"
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`
	// Tags go on everything that a launch makes; the system's own tags win.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '')",message="the key of a tag may not be empty"
	// +kubebuilder:validation:XValidation:rule="!('eks:eks-cluster-name' in self)",message="tag is reserved: eks:eks-cluster-name"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('kubernetes.io/cluster'))",message="tag is reserved: kubernetes.io/cluster/"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="tag is reserved: karpenter.sh/nodepool"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodeclaim' in self)",message="tag is reserved: karpenter.sh/nodeclaim"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.k8s.aws/ec2nodeclass' in self)",message="tag is reserved: karpenter.k8s.aws/ec2nodeclass"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// Kubelet is a KubeletConfiguration of kubelet.config.k8s.io/v1beta1 without apiVersion and kind. Any object is
	// stored; Validate says what is wrong with it.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Kubelet *runtime.RawExtension `json:"kubelet,omitempty" hash:"ignore"`
	// BlockDeviceMappings are the disks; empty takes the defaults of the family.
	// +kubebuilder:validation:XValidation:rule="self.filter(m, has(m.rootVolume) && m.rootVolume).size() <= 1",message="must have only one blockDeviceMappings with rootVolume"
	// +kubebuilder:validation:MaxItems=50
	// +optional
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
	// InstanceStorePolicy says what becomes of the local disks.
	// +kubebuilder:validation:Enum=RAID0
	// +optional
	InstanceStorePolicy *string `json:"instanceStorePolicy,omitempty"`
	// NetworkInterfaces are the interfaces at launch; empty is one.
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.exists(i, i.networkCardIndex == 0 && i.deviceIndex == 0 && i.interfaceType == 'interface')",message="networkInterfaces must contain an interface with networkCardIndex 0, deviceIndex 0 and interfaceType 'interface'"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.networkCardIndex == b.networkCardIndex && a.deviceIndex == b.deviceIndex))",message="each pair of networkCardIndex and deviceIndex may be used once"
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.interfaceType != 'efa-only' || self.exists_one(b, b.interfaceType == 'efa-only' && a.networkCardIndex == b.networkCardIndex))",message="each network card may have one 'efa-only' interface"
	// +kubebuilder:validation:MaxItems=150
	// +optional
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
	// DetailedMonitoring turns on one-minute metrics.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
	// MetadataOptions of the instance metadata service.
	// +kubebuilder:default={httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`
	// ConnectionTracking sets idle timeouts of the security groups' connection tracking.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`
	// CPUOptions restrict and set up the processors.
	// +optional
	CPUOptions *CPUOptions `json:"cpuOptions,omitempty"`
	// IPPrefixCount is the number of IPv4 prefixes of the primary interface.
	// +kubebuilder:validation:Minimum=0
	// +optional
	IPPrefixCount *int32 `json:"ipPrefixCount,omitempty" hash:"ignore"`
	// Context is passed on to CreateFleet.
	// +optional
	Context *string `json:"context,omitempty"`
}

// SubnetSelectorTerm matches subnets by all of its fields.
type SubnetSelectorTerm struct {
	// Tags that a subnet must have; the value "*" is any value.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="neither key nor value of a tag may be empty"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`subnet-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
}

// SecurityGroupSelectorTerm matches security groups by all of its fields.
type SecurityGroupSelectorTerm struct {
	// Tags that a group must have; the value "*" is any value.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="neither key nor value of a tag may be empty"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`sg-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// Name is the group's name, not its Name tag.
	// +optional
	Name string `json:"name,omitempty"`
}

// CapacityReservationSelectorTerm matches capacity reservations by all of its fields.
type CapacityReservationSelectorTerm struct {
	// Tags that a reservation must have; the value "*" is any value.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="neither key nor value of a tag may be empty"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	OwnerID string `json:"ownerID,omitempty"`
	// +kubebuilder:validation:Enum=open;targeted
	// +optional
	InstanceMatchCriteria string `json:"instanceMatchCriteria,omitempty"`
}

// PlacementGroupSelector names one placement group.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.id)",message="expected exactly one of ['name', 'id']"
type PlacementGroupSelector struct {
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// AMISelectorTerm matches images by all of its fields.
type AMISelectorTerm struct {
	// Alias is family@version, for example al2023@latest.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+@.+$')",message="'alias' must have the form 'family@version'"
	// +kubebuilder:validation:XValidation:rule="self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",message="the family of 'alias' must be one of 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('windows') || self.endsWith('@latest')",message="the version of an 'alias' of a Windows family must be 'latest'"
	// +kubebuilder:validation:MaxLength=30
	// +optional
	Alias string `json:"alias,omitempty"`
	// Tags that an image must have; the value "*" is any value.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="neither key nor value of a tag may be empty"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`ami-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// Name of the image; EC2's wildcards work.
	// +optional
	Name string `json:"name,omitempty"`
	// Owner is an account id, self, amazon or aws-marketplace.
	// +optional
	Owner string `json:"owner,omitempty"`
	// SSMParameter is the name or ARN of a parameter whose value is an image id.
	// +optional
	SSMParameter string `json:"ssmParameter,omitempty"`
}

// BlockDeviceMapping is one disk.
type BlockDeviceMapping struct {
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`
	// +kubebuilder:validation:XValidation:rule="has(self.snapshotID) || has(self.volumeSize)",message="snapshotID or volumeSize must be defined"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",message="snapshotID must be set when volumeInitializationRate is set"
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`
	// RootVolume marks the disk that holds the kubelet's root directory.
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
}

// BlockDevice is an EBS volume.
type BlockDevice struct {
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
	// IOPS per second.
	// +optional
	IOPS *int64 `json:"iops,omitempty"`
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`
	// +optional
	SnapshotID *string `json:"snapshotID,omitempty"`
	// Throughput in MiB/s.
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`
	// VolumeInitializationRate in MiB/s, at which the snapshot is read.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	// +optional
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`
	// VolumeSize as a quantity with unit Gi, G, Ti or T.
	// +kubebuilder:validation:Pattern=`^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty" hash:"string"`
	// +kubebuilder:validation:Enum=standard;io1;io2;gp2;sc1;st1;gp3
	// +optional
	VolumeType *string `json:"volumeType,omitempty"`
}

// NetworkInterface is one interface at launch.
type NetworkInterface struct {
	// +kubebuilder:validation:Minimum=0
	// +required
	NetworkCardIndex int32 `json:"networkCardIndex"`
	// +kubebuilder:validation:Minimum=0
	// +required
	DeviceIndex int32 `json:"deviceIndex"`
	// +kubebuilder:validation:Enum=interface;efa-only
	// +required
	InterfaceType string `json:"interfaceType"`
}

// MetadataOptions of the instance metadata service.
type MetadataOptions struct {
	// +kubebuilder:default=enabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`
	// +kubebuilder:default=disabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`
	// +kubebuilder:default=required
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// ConnectionTracking sets idle timeouts in seconds.
//
// +kubebuilder:validation:XValidation:rule="has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="expected at least one of ['tcpEstablishedTimeout', 'udpStreamTimeout', 'udpTimeout']"
type ConnectionTracking struct {
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=432000
	// +optional
	TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout,omitempty"`
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=180
	// +optional
	UDPStreamTimeout *int32 `json:"udpStreamTimeout,omitempty"`
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=60
	// +optional
	UDPTimeout *int32 `json:"udpTimeout,omitempty"`
}

// CPUOptions restrict and set up the processors.
type CPUOptions struct {
	// NestedVirtualization enabled takes only types that support it.
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	NestedVirtualization *string `json:"nestedVirtualization,omitempty"`
}

// EC2NodeClassStatus is what the class resolved to.
type EC2NodeClassStatus struct {
	// Subnets by free addresses, most first.
	// +optional
	Subnets []Subnet `json:"subnets,omitempty"`
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`
	// AMIs, newest first.
	// +optional
	AMIs []AMI `json:"amis,omitempty"`
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitempty"`
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Subnet is a subnet that nodes may be launched into.
type Subnet struct {
	// +required
	ID string `json:"id"`
	// +required
	Zone string `json:"zone"`
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// SecurityGroup is a group that nodes get.
type SecurityGroup struct {
	// +required
	ID string `json:"id"`
	// +optional
	Name string `json:"name,omitempty"`
}

// AMI is an image and the nodes it fits.
type AMI struct {
	// +required
	ID string `json:"id"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// +required
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// CapacityReservation is a reservation that launches may use.
type CapacityReservation struct {
	// +required
	AvailabilityZone string `json:"availabilityZone"`
	// EndTime is unset when the reservation has no end.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`
	// +kubebuilder:validation:Enum=open;targeted
	// +required
	InstanceMatchCriteria string `json:"instanceMatchCriteria"`
	// +required
	InstanceType string `json:"instanceType"`
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +required
	OwnerID string `json:"ownerID"`
	// +kubebuilder:default=default
	// +kubebuilder:validation:Enum=default;capacity-block
	// +optional
	ReservationType string `json:"reservationType,omitempty"`
	// +optional
	Interruptible bool `json:"interruptible,omitempty"`
	// +kubebuilder:default=active
	// +kubebuilder:validation:Enum=active;expiring
	// +optional
	State string `json:"state,omitempty"`
}
