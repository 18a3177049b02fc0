package convert

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// NodeClass is what planning needs of an EC2NodeClass. What the API server stores but
// nothing can be launched with makes the class unusable.
func NodeClass(in *awsv1.EC2NodeClass) *model.NodeClass {
	family := in.Spec.Family()
	c := &model.NodeClass{
		Name: in.Name, UID: string(in.UID), Family: family,
		InstanceStoreRAID: in.Spec.InstanceStorePolicy != nil && *in.Spec.InstanceStorePolicy == "RAID0",
		RootVolumeBytes:   RootVolumeBytes(in, family),
		RootVolumeUSD:     volumesUSDPerHour(in, family),
	}
	unusable := func(format string, args ...any) {
		if c.Unusable == "" {
			c.Unusable = fmt.Sprintf(format, args...)
		}
	}
	for _, problem := range in.Validate() {
		unusable("%s", problem.Error())
	}
	if config, problems := in.Spec.KubeletConfig(); len(problems) == 0 {
		if config.MaxPods > 0 {
			c.MaxPods = &config.MaxPods
		}
		if config.PodsPerCore > 0 {
			c.PodsPerCore = &config.PodsPerCore
		}
		c.KubeReserved = reserved("kubeReserved", config.KubeReserved, unusable)
		c.SystemReserved = reserved("systemReserved", config.SystemReserved, unusable)
		c.EvictionMemory = config.EvictionHard["memory.available"]
		c.EvictionStorage = config.EvictionHard["nodefs.available"]
	}
	for _, n := range in.Spec.NetworkInterfaces {
		c.Interfaces.Cards = max(c.Interfaces.Cards, int64(n.NetworkCardIndex)+1)
		if n.InterfaceType == efaOnly {
			c.Interfaces.EFAOnly++
			if n.NetworkCardIndex == 0 {
				c.Interfaces.EFAOnlyDefaultCard++
			}
		}
	}
	for _, s := range in.Status.Subnets {
		if !slices.Contains(c.Zones, s.Zone) {
			c.Zones = append(c.Zones, s.Zone)
		}
		if s.ZoneID != "" {
			if c.ZoneIDs == nil {
				c.ZoneIDs = map[string]string{}
			}
			c.ZoneIDs[s.Zone] = s.ZoneID
		}
	}
	sort.Strings(c.Zones)
	for _, r := range in.Status.CapacityReservations {
		out := model.Reservation{ID: r.ID, InstanceType: r.InstanceType, Zone: r.AvailabilityZone, Type: cmp.Or(r.ReservationType, "default"),
			Interruptible: r.Interruptible, Expiring: r.State == "expiring"}
		if r.EndTime != nil {
			end := r.EndTime.Time
			out.End = &end
		}
		c.Reservations = append(c.Reservations, out)
	}
	if in.DeletionTimestamp != nil {
		unusable("the EC2NodeClass is being deleted")
	}
	for _, cond := range in.Status.Conditions {
		switch {
		case cond.Type != model.CondReady:
		case cond.Status == metav1.ConditionFalse:
			unusable("the EC2NodeClass is not ready: %s: %s", cond.Reason, cond.Message)
		case cond.ObservedGeneration < in.Generation:
			unusable("the EC2NodeClass was changed and has not been looked at since")
		case cond.Status == metav1.ConditionTrue && cond.ObservedGeneration == in.Generation:
			c.Settled = in.DeletionTimestamp == nil
		}
	}
	resolved(c, in)
	return c
}

// resolved takes over what machines of the class should have, by its status and annotations.
func resolved(c *model.NodeClass, in *awsv1.EC2NodeClass) {
	c.Hash, c.HashVersion = in.Annotations[model.AnnotationClassHash], in.Annotations[model.AnnotationClassHashVersion]
	c.InstanceProfile = in.Status.InstanceProfile
	if text := in.Annotations[model.AnnotationPlacementGroup]; text != "" && in.Spec.PlacementGroupSelector != nil {
		g, err := model.ParsePlacementGroup(text)
		if err != nil || in.Spec.PlacementGroupSelector.ID != "" && in.Spec.PlacementGroupSelector.ID != g.ID {
			c.Settled = false // it is written anew when the class is looked at next
		} else {
			c.PlacementGroup = g
		}
	}
	if in.Spec.InstanceProfile != nil {
		c.InstanceProfile = *in.Spec.InstanceProfile
	}
	for _, a := range in.Status.AMIs {
		image := model.Image{ID: a.ID}
		for _, r := range a.Requirements {
			m, err := require.New(r.Key, require.Operator(r.Operator), r.Values...)
			if err != nil {
				c.Settled = false // which machines the image is for cannot be told
				continue
			}
			image.Requirements = image.Requirements.With(m)
		}
		c.Images = append(c.Images, image)
	}
	for _, s := range in.Status.Subnets {
		c.Subnets = append(c.Subnets, s.ID)
	}
	for _, g := range in.Status.SecurityGroups {
		c.SecurityGroups = append(c.SecurityGroups, g.ID)
	}
	sort.Strings(c.Subnets)
	sort.Strings(c.SecurityGroups)
}

// efaOnly is the type of an interface that carries no addresses.
const efaOnly = "efa-only"

func reserved(field string, in map[string]string, unusable func(string, ...any)) map[string]int64 {
	var out map[string]int64
	for _, name := range sortedKeys(in) {
		q, err := apiresource.ParseQuantity(in[name])
		if err != nil {
			unusable("spec.kubelet.%s.%s: %q is not a quantity", field, name, in[name])
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[name] = Amount(name, q)
	}
	return out
}

// ephemeralDevice is the device that holds the kubelet's root directory.
func ephemeralDevice(family string) string {
	switch {
	case family == awsv1.FamilyBottlerocket:
		return "/dev/xvdb"
	case strings.HasPrefix(family, "Windows"):
		return "/dev/sda1"
	}
	return "/dev/xvda"
}

const gib = int64(1) << 30

// RootVolumeBytes is the ephemeral storage of a node from its disks: the disk marked
// as root volume, else the family's device (the last disk of a Custom image), else
// the family's default.
func RootVolumeBytes(in *awsv1.EC2NodeClass, family string) int64 {
	disks := in.Spec.BlockDeviceMappings
	root := slices.IndexFunc(disks, func(d awsv1.BlockDeviceMapping) bool { return d.RootVolume })
	switch {
	case root >= 0:
	case family == awsv1.FamilyCustom:
		root = len(disks) - 1
	default:
		root = slices.IndexFunc(disks, func(d awsv1.BlockDeviceMapping) bool {
			return d.DeviceName != nil && *d.DeviceName == ephemeralDevice(family)
		})
	}
	if root >= 0 && disks[root].EBS != nil && disks[root].EBS.VolumeSize != nil {
		return Amount("ephemeral-storage", *disks[root].EBS.VolumeSize)
	}
	return defaultVolumeBytes(family)
}

func defaultVolumeBytes(family string) int64 {
	if strings.HasPrefix(family, "Windows") {
		return 50 * gib
	}
	return 20 * gib
}

// List prices of EBS in us-east-1, USD per GiB and month.
var volumeUSDPerGiBMonth = map[string]float64{
	"gp3": 0.08, "gp2": 0.10, "io1": 0.125, "io2": 0.125, "st1": 0.045, "sc1": 0.015, "standard": 0.05,
}

const (
	hoursPerMonth          = 730
	usdPerIOPSMonthGP3     = 0.005 // beyond 3,000
	usdPerIOPSMonthIO      = 0.065
	usdPerMiBpsMonthGP3    = 0.04 // beyond 125 MiB/s
	freeIOPSGP3            = 3000
	freeThroughputMiBpsGP3 = 125
	bottlerocketOSBytes    = 4 * gib
)

// volumesUSDPerHour is the list price of the disks of one node.
func volumesUSDPerHour(in *awsv1.EC2NodeClass, family string) float64 {
	usd := 0.0
	for _, d := range in.Spec.BlockDeviceMappings {
		if d.EBS == nil {
			continue
		}
		kind, bytes := "gp3", defaultVolumeBytes(family)
		if d.EBS.VolumeType != nil {
			kind = *d.EBS.VolumeType
		}
		if d.EBS.VolumeSize != nil {
			bytes = Amount("ephemeral-storage", *d.EBS.VolumeSize)
		}
		usd += volumeUSDPerGiBMonth[kind] * float64(bytes) / float64(gib)
		switch {
		case kind == "gp3" && d.EBS.IOPS != nil && *d.EBS.IOPS > freeIOPSGP3:
			usd += usdPerIOPSMonthGP3 * float64(*d.EBS.IOPS-freeIOPSGP3)
		case (kind == "io1" || kind == "io2") && d.EBS.IOPS != nil:
			usd += usdPerIOPSMonthIO * float64(*d.EBS.IOPS)
		}
		if kind == "gp3" && d.EBS.Throughput != nil && *d.EBS.Throughput > freeThroughputMiBpsGP3 {
			usd += usdPerMiBpsMonthGP3 * float64(*d.EBS.Throughput-freeThroughputMiBpsGP3)
		}
	}
	if len(in.Spec.BlockDeviceMappings) == 0 && family != awsv1.FamilyCustom {
		bytes := defaultVolumeBytes(family)
		if family == awsv1.FamilyBottlerocket {
			bytes += bottlerocketOSBytes
		}
		usd = volumeUSDPerGiBMonth["gp3"] * float64(bytes) / float64(gib)
	}
	return usd / hoursPerMonth
}
