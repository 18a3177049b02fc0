package render

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// TemplatePrefix begins the name of every launch template of ours; Karpenter's begin alike, so that policies that were
// written for it hold.
const TemplatePrefix = "karpenter.k8s.aws/"

// templateName is a hash of the content, and of the class: templates are collected by class.
func templateName(class string, data *types.RequestLaunchTemplateData) (string, error) {
	text, err := compact(data)
	if err != nil {
		return "", fmt.Errorf("launch template of EC2NodeClass %s: %w", class, err)
	}
	sum := sha256.Sum256(append([]byte(class+"\n"), text...))
	return TemplatePrefix + strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10), nil
}

// ImageFor is the image that a type of these labels is started from: the first of the class's that fits.
func ImageFor(class *awsv1.EC2NodeClass, labels map[string]string) (awsv1.AMI, bool) {
	for _, ami := range class.Status.AMIs {
		fits := true
		for _, q := range ami.Requirements {
			r, err := require.New(q.Key, require.Operator(q.Operator), q.Values...)
			if err != nil || require.NewSet(r).LabelsSatisfy(labels) != nil {
				fits = false
				break
			}
		}
		if fits {
			return ami, true
		}
	}
	return awsv1.AMI{}, false
}

func (r *renderer) data(ami awsv1.AMI, t Type, o cloud.Offer, userData string) *types.RequestLaunchTemplateData {
	spec := &r.Class.Spec
	profile := r.Class.Status.InstanceProfile
	if spec.InstanceProfile != nil {
		profile = *spec.InstanceProfile
	}
	d := &types.RequestLaunchTemplateData{
		BlockDeviceMappings: disks(spec),
		IamInstanceProfile:  &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &profile},
		ImageId:             sdk.String(ami.ID),
		MetadataOptions:     r.metadata(),
		NetworkInterfaces:   r.interfaces(),
		Placement:           &types.LaunchTemplatePlacementRequest{Tenancy: tenancy(r.Launch.Labels)},
		TagSpecifications:   []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: list(r.tagsOfTemplate())}},
	}
	if userData != "" {
		d.UserData = &userData
	}
	if spec.DetailedMonitoring != nil {
		d.Monitoring = &types.LaunchTemplatesMonitoringRequest{Enabled: spec.DetailedMonitoring}
	}
	if r.Launch.CapacityType == model.Spot {
		d.TagSpecifications = append(d.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{
			ResourceType: types.ResourceTypeSpotInstancesRequest, Tags: list(r.tagsOfTemplate()),
		})
	}
	if c := spec.CPUOptions; c != nil && c.NestedVirtualization != nil {
		d.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: types.NestedVirtualizationSpecification(*c.NestedVirtualization)}
	}
	r.placement(d, t)
	r.reservation(d, o)
	return d
}

// tagsOfTemplate leaves out what differs between launches: a template serves many.
func (r *renderer) tagsOfTemplate() map[string]string {
	out := r.tags()
	delete(out, cloud.TagLaunch)
	delete(out, keys.NodeClaimTag)
	return out
}

func tenancy(labels map[string]string) types.Tenancy {
	if labels[keys.InstanceTenancy] == string(types.TenancyDedicated) {
		return types.TenancyDedicated
	}
	return types.TenancyDefault
}

func (r *renderer) placement(d *types.RequestLaunchTemplateData, _ Type) {
	if s := r.Class.Spec.PlacementGroupSelector; s != nil {
		if s.ID != "" {
			d.Placement.GroupId = sdk.String(s.ID)
		} else {
			d.Placement.GroupName = sdk.String(s.Name)
		}
	}
}

// reservation buys from the named reservation only, or from none: an open one is not used up by accident.
func (r *renderer) reservation(d *types.RequestLaunchTemplateData, o cloud.Offer) {
	if !r.Reservations {
		return
	}
	s := &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	if o.ReservationID != "" {
		s.CapacityReservationPreference = types.CapacityReservationPreferenceCapacityReservationsOnly
		s.CapacityReservationTarget = &types.CapacityReservationTarget{CapacityReservationId: sdk.String(o.ReservationID)}
	}
	d.CapacityReservationSpecification = s
}

// noProtocolIPv6 are the regions whose metadata service does not know the setting.
var noProtocolIPv6 = []string{"us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"}

func (r *renderer) metadata() *types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &types.LaunchTemplateInstanceMetadataOptionsRequest{InstanceMetadataTags: types.LaunchTemplateInstanceMetadataTagsStateDisabled} // keys of ours have slashes
	o := r.Class.Spec.MetadataOptions
	if o == nil {
		o = &awsv1.MetadataOptions{}
	}
	class := awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{MetadataOptions: o.DeepCopy()}}
	class.Default()
	o = class.Spec.MetadataOptions
	out.HttpEndpoint = types.LaunchTemplateInstanceMetadataEndpointState(*o.HTTPEndpoint)
	out.HttpTokens = types.LaunchTemplateHttpTokensState(*o.HTTPTokens)
	out.HttpPutResponseHopLimit = sdk.Int32(int32(*o.HTTPPutResponseHopLimit))
	if !slices.Contains(noProtocolIPv6, r.Region) {
		out.HttpProtocolIpv6 = types.LaunchTemplateInstanceMetadataProtocolIpv6(*o.HTTPProtocolIPv6)
	}
	return out
}

// interfaces lists the network interfaces; the security groups stand inside them.
func (r *renderer) interfaces() []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	spec := &r.Class.Spec
	var groups []string
	for _, g := range r.Class.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	var tracking *types.ConnectionTrackingSpecificationRequest
	if c := spec.ConnectionTracking; c != nil {
		tracking = &types.ConnectionTrackingSpecificationRequest{TcpEstablishedTimeout: c.TCPEstablishedTimeout, UdpStreamTimeout: c.UDPStreamTimeout, UdpTimeout: c.UDPTimeout}
	}
	plain := func(card, device int32) types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
		return types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			NetworkCardIndex: sdk.Int32(card), DeviceIndex: sdk.Int32(device), Groups: groups, AssociatePublicIpAddress: spec.AssociatePublicIPAddress,
			Ipv4PrefixCount: spec.IPPrefixCount, ConnectionTrackingSpecification: tracking,
		}
	}
	if len(spec.NetworkInterfaces) == 0 {
		one := plain(0, 0)
		one.NetworkCardIndex = nil
		return []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{r.ipv6(one)}
	}
	var out []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	for _, n := range spec.NetworkInterfaces {
		one := plain(n.NetworkCardIndex, n.DeviceIndex)
		one.InterfaceType = sdk.String(n.InterfaceType)
		if n.InterfaceType == "efa-only" {
			one.AssociatePublicIpAddress, one.Ipv4PrefixCount, one.ConnectionTrackingSpecification = nil, nil, nil
		} else {
			one = r.ipv6(one)
		}
		out = append(out, one)
	}
	return out
}

// ipv6 gives the interface an address of that family, where the cluster has it.
func (r *renderer) ipv6(n types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	if !r.Cluster.IPv6() {
		return n
	}
	n.Ipv6PrefixCount, n.Ipv4PrefixCount = n.Ipv4PrefixCount, nil
	if sdk.ToInt32(n.DeviceIndex) == 0 && sdk.ToInt32(n.NetworkCardIndex) == 0 {
		n.PrimaryIpv6, n.Ipv6AddressCount = sdk.Bool(true), sdk.Int32(1)
	}
	return n
}

// disks lists the volumes: the user's, else the family's own.
func disks(spec *awsv1.EC2NodeClassSpec) []types.LaunchTemplateBlockDeviceMappingRequest {
	mappings := spec.BlockDeviceMappings
	if len(mappings) == 0 {
		mappings = defaultDisks(spec.Family())
	}
	var out []types.LaunchTemplateBlockDeviceMappingRequest
	for _, m := range mappings {
		one := types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName}
		if e := m.EBS; e != nil {
			one.Ebs = &types.LaunchTemplateEbsBlockDeviceRequest{
				DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, Iops: int32Of(e.IOPS), KmsKeyId: e.KMSKeyID, SnapshotId: e.SnapshotID,
				Throughput: int32Of(e.Throughput), VolumeInitializationRate: e.VolumeInitializationRate, VolumeType: types.VolumeType(sdk.ToString(e.VolumeType)),
			}
			if e.VolumeSize != nil {
				one.Ebs.VolumeSize = sdk.Int32(gibibytes(*e.VolumeSize))
			}
		}
		out = append(out, one)
	}
	return out
}

func int32Of(n *int64) *int32 {
	if n == nil {
		return nil
	}
	return sdk.Int32(int32(min(*n, math.MaxInt32)))
}

// gibibytes is the size as EC2 takes it, rounded up.
func gibibytes(q resource.Quantity) int32 {
	const gib = 1 << 30
	return int32(min((q.Value()+gib-1)/gib, math.MaxInt32))
}

// defaultDisks are the volumes of the family's images.
func defaultDisks(family string) []awsv1.BlockDeviceMapping {
	disk := func(device, size string) awsv1.BlockDeviceMapping {
		q := resource.MustParse(size)
		return awsv1.BlockDeviceMapping{DeviceName: &device, EBS: &awsv1.BlockDevice{Encrypted: sdk.Bool(true), VolumeType: sdk.String("gp3"), VolumeSize: &q}}
	}
	switch family {
	case awsv1.FamilyAL2, awsv1.FamilyAL2023:
		return []awsv1.BlockDeviceMapping{disk("/dev/xvda", "20Gi")}
	case awsv1.FamilyBottlerocket:
		return []awsv1.BlockDeviceMapping{disk("/dev/xvda", "4Gi"), disk("/dev/xvdb", "20Gi")}
	case awsv1.FamilyWindows2019, awsv1.FamilyWindows2022, awsv1.FamilyWindows2025:
		return []awsv1.BlockDeviceMapping{disk("/dev/sda1", "50Gi")}
	}
	return nil // an image of one's own has its own
}
