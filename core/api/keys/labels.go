package keys

import "strings"

var wellKnown = map[string]bool{
	NodePool: true, CapacityType: true, Zone: true, Region: true, InstanceType: true, Arch: true, OS: true, WindowsBuild: true,
	ZoneID: true, InstanceCategory: true, InstanceFamily: true, InstanceGeneration: true, InstanceSize: true,
	InstanceCapabilityFlex: true, InstanceHypervisor: true, InstanceEncryptionInTransit: true, InstanceTenancy: true,
	InstanceCPU: true, InstanceCPUManufacturer: true, InstanceCPUClockSpeed: true, InstanceMemory: true,
	InstanceEBSBandwidth: true, InstanceNetworkBandwidth: true, InstanceLocalNVME: true, InstanceGPUName: true,
	InstanceGPUManufacturer: true, InstanceGPUCount: true, InstanceGPUMemory: true, InstanceAcceleratorName: true,
	InstanceAcceleratorManufacturer: true, InstanceAcceleratorCount: true, NitroSandbox: true, CapacityReservationID: true,
	CapacityReservationType: true, CapacityReservationInterruptible: true, PlacementGroupID: true, PlacementGroupPartition: true,
}

var aliases = map[string]string{
	"failure-domain.beta.kubernetes.io/zone":   Zone,
	"failure-domain.beta.kubernetes.io/region": Region,
	"beta.kubernetes.io/arch":                  Arch,
	"beta.kubernetes.io/os":                    OS,
	"beta.kubernetes.io/instance-type":         InstanceType,
	"topology.ebs.csi.aws.com/zone":            Zone,
}

// IsWellKnown reports whether the provider gives every new node a value of the label key, so that a pod may ask for it
// without the pool naming it.
func IsWellKnown(key string) bool { return wellKnown[key] }

// WellKnown returns a fresh list of the well-known label keys in no particular order.
func WellKnown() []string {
	out := make([]string, 0, len(wellKnown))
	for k := range wellKnown {
		out = append(out, k)
	}
	return out
}

// Normalize returns the canonical name of a label key: deprecated and driver-specific names of zone, region, arch, os and
// instance type become today's; any other key is returned as it is.
func Normalize(key string) string {
	if canonical, ok := aliases[key]; ok {
		return canonical
	}
	return key
}

// RestrictedDomain returns the reserved domain that the label key lies in, "" when users may set the key. Well-known keys
// are free; the hostname label, which is restricted too, has no domain of ours: see IsRestricted.
func RestrictedDomain(key string) string {
	if wellKnown[key] {
		return ""
	}
	domain, _, _ := strings.Cut(key, "/")
	for _, reserved := range []string{GroupKarpenter, GroupAWS} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return reserved
		}
	}
	return ""
}

// IsRestricted reports whether users may not set the label key on pools or ask for it in pods.
func IsRestricted(key string) bool { return key == Hostname || RestrictedDomain(key) != "" }

// IsEphemeralTaint reports whether a taint is known to go away by itself before a node is initialized.
func IsEphemeralTaint(key, effect string) bool {
	switch key {
	case TaintNotReady:
		return effect == EffectNoSchedule || effect == EffectNoExecute
	case TaintUnreachable, TaintUninitialized:
		return effect == EffectNoSchedule
	case TaintUnregistered:
		return effect == EffectNoExecute
	}
	return strings.HasPrefix(key, TaintReadinessPrefix)
}
