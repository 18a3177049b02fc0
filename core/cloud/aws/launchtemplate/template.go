package launchtemplate

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// Input is one kind of instance: what the class resolved to, and what its claims ask for.
type Input struct {
	Class        *awsv1.EC2NodeClass // with the status that it resolved to
	Cluster      userdata.Cluster
	Region       string
	CapacityType string
	Labels       map[string]string // of the claims
	Taints       []model.Taint     // of the claims, startup taints included
	Tags         map[string]string // of the launch; they win over the class's
	// Reservations says whether reserved capacity is bought by name only, so that no other launch uses it up.
	Reservations bool
	EFA          bool // the claims ask for Elastic Fabric Adapters: the instance has all that its type may have
}

// Type is what a launch must know of an instance type under the class.
type Type struct {
	Labels  map[string]string // as the node will carry them
	MaxPods int32
	EFA     int32 // Elastic Fabric Adapters that it may have
}

// Reservation is the capacity reservation that is bought from; without an id none is.
type Reservation struct {
	ID            string
	Type          string // default or capacity-block; empty = default
	Interruptible bool   // its owner may take the capacity back
}

// Template is a launch template. Its name is a hash of its content: one that exists under the name is the same.
type Template struct {
	Name string                           `json:"name"`
	Data *types.RequestLaunchTemplateData `json:"data"`
	Tags map[string]string                `json:"tags"`
}

// Fault is an error about the class or the request, which sending again does not mend.
func Fault(code, format string, args ...any) error {
	return &cloud.Error{Op: "Render", Kind: cloud.Template, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Check says what is missing of a class for any launch from it.
func Check(c *awsv1.EC2NodeClass) error {
	if c.Status.InstanceProfile == "" && c.Spec.InstanceProfile == nil {
		return Fault("InstanceProfileNotReady", "EC2NodeClass %s has no instance profile yet", c.Name)
	}
	if len(c.Status.SecurityGroups) == 0 {
		return Fault("SecurityGroupsNotFound", "EC2NodeClass %s has no security group", c.Name)
	}
	return nil
}

// New writes the template of an image and an instance type, out of a capacity reservation where one is named, and warns of
// settings of the user that will not hold.
func New(in *Input, ami awsv1.AMI, t Type, reservation Reservation) (Template, []string, error) {
	if err := Check(in.Class); err != nil {
		return Template{}, nil, err
	}
	text, err := in.UserData(ami, t)
	if err != nil {
		return Template{}, nil, err
	}
	data := in.data(ami, t, reservation, base64.StdEncoding.EncodeToString(text.Text))
	name, err := templateName(in.Class.Name, data)
	if err != nil {
		return Template{}, nil, err
	}
	return Template{Name: name, Data: data, Tags: in.AllTags()}, text.Warnings, nil
}

// UserData is what the instances are started with, before base64.
func (in *Input) UserData(ami awsv1.AMI, t Type) (userdata.Output, error) {
	labels := maps.Clone(in.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[model.LabelCapacityType] = in.CapacityType
	kubelet, errs := in.Class.Spec.KubeletConfig()
	if len(errs) > 0 {
		return userdata.Output{}, Fault(keys.ReasonInvalidKubelet, "EC2NodeClass %s: %s: %s", in.Class.Name, errs[0].Path, errs[0].Message)
	}
	ud := userdata.Input{
		Family: in.Class.Spec.Family(), Cluster: in.Cluster, Labels: labels, Taints: in.Taints, MaxPods: t.MaxPods, Kubelet: kubelet,
		RAID0: in.Class.Spec.InstanceStorePolicy != nil, ImageVersion: imageVersion(&in.Class.Spec, ami),
	}
	if in.Class.Spec.Kubelet != nil {
		ud.KubeletRaw = in.Class.Spec.Kubelet.Raw
	}
	if in.Class.Spec.UserData != nil {
		ud.User = *in.Class.Spec.UserData
	}
	out, err := userdata.Render(ud)
	if err != nil {
		code := keys.ReasonInvalidUserData
		switch e := (*userdata.Error)(nil); {
		case !errors.As(err, &e):
		case e.TooLong:
			code = keys.ReasonUserDataSizeLimitExceeded
		case e.Field == userdata.FieldServiceCIDR:
			code = keys.ReasonClusterCIDRFailed
		case strings.HasPrefix(e.Field, "spec.kubelet"):
			code = keys.ReasonInvalidKubelet
		}
		return userdata.Output{}, Fault(code, "EC2NodeClass %s: %v", in.Class.Name, err)
	}
	return out, nil
}

// imageVersion is the release of an image, where its alias or name tells.
func imageVersion(s *awsv1.EC2NodeClassSpec, ami awsv1.AMI) string {
	if alias, ok, err := s.Alias(); ok && err == nil {
		return alias.Version
	}
	for _, part := range strings.FieldsFunc(ami.Name, func(c rune) bool { return c == '-' || c == '/' }) {
		if strings.HasPrefix(part, "v") && strings.Contains(part, ".") {
			return strings.TrimPrefix(part, "v")
		}
	}
	return ""
}

// AllTags are the user's under those of the system.
func (in *Input) AllTags() map[string]string {
	out := maps.Clone(in.Class.Spec.Tags)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, in.Tags)
	return out
}

// ClusterTags are the tags that every instance of a cluster's pool and class carries.
func ClusterTags(cluster, pool, class string) map[string]string {
	out := map[string]string{keys.ClusterTag: cluster, keys.ClusterOwnedTag + cluster: "owned", keys.NodeClassLabel: class}
	if pool != "" {
		out[keys.NodePool] = pool
	}
	return out
}

// List writes tags as EC2 takes them, in order.
func List(tags map[string]string) []types.Tag {
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: ptr(k), Value: ptr(tags[k])})
	}
	return out
}

// Prefix begins the name of every launch template of ours; Karpenter's begin alike, so that policies that were
// written for it hold.
const Prefix = "karpenter.k8s.aws/"

// templateName is a hash of the content, and of the class: templates are collected by class.
func templateName(class string, data *types.RequestLaunchTemplateData) (string, error) {
	text, err := Compact(data)
	if err != nil {
		return "", fmt.Errorf("launch template of EC2NodeClass %s: %w", class, err)
	}
	sum := sha256.Sum256(append([]byte(class+"\n"), text...))
	return Prefix + strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10), nil
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

func (in *Input) data(ami awsv1.AMI, t Type, reservation Reservation, userData string) *types.RequestLaunchTemplateData {
	spec := &in.Class.Spec
	profile := in.Class.Status.InstanceProfile
	if spec.InstanceProfile != nil {
		profile = *spec.InstanceProfile
	}
	d := &types.RequestLaunchTemplateData{
		BlockDeviceMappings: disks(spec),
		IamInstanceProfile:  &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &profile},
		ImageId:             ptr(ami.ID),
		MetadataOptions:     in.metadata(),
		NetworkInterfaces:   in.interfaces(t),
		Placement:           &types.LaunchTemplatePlacementRequest{Tenancy: tenancy(in.Labels)},
		TagSpecifications:   []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: List(in.tagsOfTemplate())}},
	}
	if userData != "" {
		d.UserData = &userData
	}
	if spec.DetailedMonitoring != nil {
		d.Monitoring = &types.LaunchTemplatesMonitoringRequest{Enabled: spec.DetailedMonitoring}
	}
	if in.CapacityType == model.Spot {
		d.TagSpecifications = append(d.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{
			ResourceType: types.ResourceTypeSpotInstancesRequest, Tags: List(in.tagsOfTemplate()),
		})
	}
	if c := spec.CPUOptions; c != nil && c.NestedVirtualization != nil {
		d.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: types.NestedVirtualizationSpecification(*c.NestedVirtualization)}
	}
	in.placement(d)
	in.reservation(d, reservation)
	return d
}

// tagsOfTemplate leaves out what differs between launches: a template serves many.
func (in *Input) tagsOfTemplate() map[string]string {
	out := in.AllTags()
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

func (in *Input) placement(d *types.RequestLaunchTemplateData) {
	if s := in.Class.Spec.PlacementGroupSelector; s != nil {
		if s.ID != "" {
			d.Placement.GroupId = ptr(s.ID)
		} else {
			d.Placement.GroupName = ptr(s.Name)
		}
		if n, err := strconv.Atoi(in.Labels[model.LabelPlacementPartition]); err == nil && n > 0 {
			d.Placement.PartitionNumber = ptr(int32(n))
		}
	}
}

// reservation buys from the named reservation only, or from none: an open one is not used up by accident.
func (in *Input) reservation(d *types.RequestLaunchTemplateData, r Reservation) {
	if !in.Reservations {
		return
	}
	s := &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	if r.ID != "" {
		s.CapacityReservationPreference = types.CapacityReservationPreferenceCapacityReservationsOnly
		s.CapacityReservationTarget = &types.CapacityReservationTarget{CapacityReservationId: &r.ID}
	}
	d.CapacityReservationSpecification = s
	switch {
	case r.ID == "":
	case r.Type == ReservationBlock:
		d.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
	case r.Interruptible:
		d.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeInterruptibleCapacityReservation}
	}
}

// noProtocolIPv6 are the regions whose metadata service does not know the setting.
var noProtocolIPv6 = []string{"us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"}

func (in *Input) metadata() *types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &types.LaunchTemplateInstanceMetadataOptionsRequest{InstanceMetadataTags: types.LaunchTemplateInstanceMetadataTagsStateDisabled} // keys of ours have slashes
	o := in.Class.Spec.MetadataOptions
	if o == nil {
		o = &awsv1.MetadataOptions{}
	}
	class := awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{MetadataOptions: o.DeepCopy()}}
	class.Default()
	o = class.Spec.MetadataOptions
	out.HttpEndpoint = types.LaunchTemplateInstanceMetadataEndpointState(*o.HTTPEndpoint)
	out.HttpTokens = types.LaunchTemplateHttpTokensState(*o.HTTPTokens)
	out.HttpPutResponseHopLimit = ptr(int32(*o.HTTPPutResponseHopLimit))
	if !slices.Contains(noProtocolIPv6, in.Region) {
		out.HttpProtocolIpv6 = types.LaunchTemplateInstanceMetadataProtocolIpv6(*o.HTTPProtocolIPv6)
	}
	return out
}

// ReservationBlock is the type of reservations for a time that was paid for ahead.
const ReservationBlock = "capacity-block"

// interfaces lists the network interfaces; the security groups stand inside them. The class's own list wins over what the
// claims ask for.
func (in *Input) interfaces(t Type) []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	spec := &in.Class.Spec
	var groups []string
	for _, g := range in.Class.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	var tracking *types.ConnectionTrackingSpecificationRequest
	if c := spec.ConnectionTracking; c != nil {
		tracking = &types.ConnectionTrackingSpecificationRequest{TcpEstablishedTimeout: c.TCPEstablishedTimeout, UdpStreamTimeout: c.UDPStreamTimeout, UdpTimeout: c.UDPTimeout}
	}
	plain := func(card, device int32) types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
		return types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			NetworkCardIndex: ptr(card), DeviceIndex: ptr(device), Groups: groups, AssociatePublicIpAddress: spec.AssociatePublicIPAddress,
			Ipv4PrefixCount: spec.IPPrefixCount, ConnectionTrackingSpecification: tracking,
		}
	}
	if len(spec.NetworkInterfaces) == 0 && in.EFA && t.EFA > 0 {
		var out []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
		for card := range t.EFA {
			one := plain(card, min(card, 1))
			one.InterfaceType = ptr("efa")
			out = append(out, in.ipv6(one))
		}
		return out
	}
	if len(spec.NetworkInterfaces) == 0 {
		one := plain(0, 0)
		one.NetworkCardIndex = nil
		return []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{in.ipv6(one)}
	}
	var out []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	for _, n := range spec.NetworkInterfaces {
		one := plain(n.NetworkCardIndex, n.DeviceIndex)
		one.InterfaceType = ptr(n.InterfaceType)
		if n.InterfaceType == "efa-only" {
			one.AssociatePublicIpAddress, one.Ipv4PrefixCount, one.ConnectionTrackingSpecification = nil, nil, nil
		} else {
			one = in.ipv6(one)
		}
		out = append(out, one)
	}
	return out
}

// ipv6 gives the interface an address of that family, where the cluster has it.
func (in *Input) ipv6(n types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	if !in.Cluster.IPv6() {
		return n
	}
	n.Ipv6PrefixCount, n.Ipv4PrefixCount = n.Ipv4PrefixCount, nil
	if deref(n.DeviceIndex) == 0 && deref(n.NetworkCardIndex) == 0 {
		n.PrimaryIpv6, n.Ipv6AddressCount = ptr(true), ptr(int32(1))
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
				Throughput: int32Of(e.Throughput), VolumeInitializationRate: e.VolumeInitializationRate, VolumeType: types.VolumeType(deref(e.VolumeType)),
			}
			if e.VolumeSize != nil {
				one.Ebs.VolumeSize = ptr(gibibytes(*e.VolumeSize))
			}
		}
		out = append(out, one)
	}
	return out
}

func ptr[T any](v T) *T { return &v }

// deref is the value, or nothing.
func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func int32Of(n *int64) *int32 {
	if n == nil {
		return nil
	}
	return ptr(int32(min(*n, math.MaxInt32)))
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
		return awsv1.BlockDeviceMapping{DeviceName: &device, EBS: &awsv1.BlockDevice{Encrypted: ptr(true), VolumeType: ptr("gp3"), VolumeSize: &q}}
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

// Compact writes JSON without fields that are not set: the SDK's types have hundreds, and more with each of its releases.
func Compact(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(prune(tree))
}

func prune(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if e == nil || e == "" {
				delete(x, k)
			} else {
				x[k] = prune(e)
			}
		}
	case []any:
		for i, e := range x {
			x[i] = prune(e)
		}
	}
	return v
}
