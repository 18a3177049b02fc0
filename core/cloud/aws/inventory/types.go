package inventory

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weir-project/weir/core/catalogue"
)

// family takes an instance type apart: category, optional size of memory, generation.
var family = regexp.MustCompile(`(^[a-z]+)(\-[0-9]+tb)?([0-9]+).*\.`)

// Type is an instance type as the catalogue has it. known is the same type of the embedded table, or nil.
func Type(in types.InstanceTypeInfo, known *catalogue.Type) (t catalogue.Type, ok bool) {
	arch := architecture(in.ProcessorInfo)
	if arch == "" || in.VCpuInfo == nil || in.MemoryInfo == nil || in.NetworkInfo == nil {
		return catalogue.Type{}, false
	}
	t = catalogue.Type{
		Name: string(in.InstanceType), VCPU: int64(deref(in.VCpuInfo.DefaultVCpus)), MemoryMiB: deref(in.MemoryInfo.SizeInMiB), Arch: arch, OS: "linux",
		BareMetal: deref(in.BareMetal), ENI: interfaces(in.NetworkInfo), Labels: labels(in), Allocatable: devices(in),
	}
	if p := in.PlacementGroupInfo; p != nil {
		t.Placement = []string{}
		for _, s := range p.SupportedStrategies {
			t.Placement = append(t.Placement, string(s))
		}
	}
	if known != nil {
		t.ENI.Trunking, t.ENI.BranchENIs, t.OnDemandUSD = known.ENI.Trunking, known.ENI.BranchENIs, known.OnDemandUSD
		for _, k := range []string{"instance-network-bandwidth"} {
			if v, ok := known.Labels[k]; ok {
				t.Labels[k] = v
			}
		}
		if v, ok := known.Allocatable["vpc.amazonaws.com/pod-eni"]; ok {
			t.Allocatable["vpc.amazonaws.com/pod-eni"] = v
		}
	}
	return t, true
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func architecture(p *types.ProcessorInfo) string {
	if p == nil {
		return ""
	}
	for _, a := range p.SupportedArchitectures {
		switch a {
		case types.ArchitectureTypeX8664:
			return "amd64"
		case types.ArchitectureTypeArm64:
			return "arm64"
		}
	}
	return ""
}

// interfaces is the network; pods get addresses of the default card only.
func interfaces(n *types.NetworkInfo) catalogue.ENI {
	out := catalogue.ENI{Max: int64(deref(n.MaximumNetworkInterfaces)), DefaultCard: int64(deref(n.MaximumNetworkInterfaces)), Cards: int64(max(deref(n.MaximumNetworkCards), 1)),
		IPv4PerENI: int64(deref(n.Ipv4AddressesPerInterface))}
	for _, c := range n.NetworkCards {
		if deref(c.NetworkCardIndex) == deref(n.DefaultNetworkCardIndex) {
			out.DefaultCard = int64(deref(c.MaximumNetworkInterfaces))
		}
	}
	return out
}

func labels(in types.InstanceTypeInfo) map[string]string {
	name := string(in.InstanceType)
	fam, size, _ := strings.Cut(name, ".")
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	out := map[string]string{
		"instance-family": fam, "instance-size": size, "instance-cpu": number(int64(deref(in.VCpuInfo.DefaultVCpus))),
		"instance-memory": number(deref(in.MemoryInfo.SizeInMiB)), "instance-hypervisor": string(in.Hypervisor),
		"instance-capability-flex":                 strconv.FormatBool(strings.Contains(fam, "-flex")),
		"instance-encryption-in-transit-supported": strconv.FormatBool(deref(in.NetworkInfo.EncryptionInTransitSupported)),
	}
	if m := family.FindStringSubmatch(name); m != nil {
		out["instance-category"], out["instance-generation"] = m[1], m[3]
	}
	if p := in.ProcessorInfo; p != nil {
		if m := deref(p.Manufacturer); m != "" {
			out["instance-cpu-manufacturer"] = slug(m)
		}
		if f := deref(p.SustainedClockSpeedInGhz); f > 0 {
			out["instance-cpu-sustained-clock-speed-mhz"] = number(int64(math.Round(f * 1000)))
		}
	}
	if e := in.EbsInfo; e != nil && e.EbsOptimizedSupport == types.EbsOptimizedSupportDefault && e.EbsOptimizedInfo != nil {
		out["instance-ebs-bandwidth"] = number(int64(deref(e.EbsOptimizedInfo.MaximumBandwidthInMbps)))
	}
	if s := in.InstanceStorageInfo; s != nil && s.NvmeSupport != types.EphemeralNvmeSupportUnsupported && deref(s.TotalSizeInGB) > 0 {
		out["instance-local-nvme"] = number(deref(s.TotalSizeInGB))
	}
	if g := in.GpuInfo; g != nil && len(g.Gpus) == 1 { // of one kind only
		d := g.Gpus[0]
		out["instance-gpu-name"], out["instance-gpu-manufacturer"] = slug(deref(d.Name)), slug(deref(d.Manufacturer))
		out["instance-gpu-count"] = number(int64(deref(d.Count)))
		if d.MemoryInfo != nil {
			out["instance-gpu-memory"] = number(int64(deref(d.MemoryInfo.SizeInMiB)))
		}
	}
	switch {
	case in.NeuronInfo != nil && len(in.NeuronInfo.NeuronDevices) > 0:
		d := in.NeuronInfo.NeuronDevices[0]
		out["instance-accelerator-name"], out["instance-accelerator-manufacturer"], out["instance-accelerator-count"] = slug(deref(d.Name)), "aws", number(int64(deref(d.Count)))
	case in.InferenceAcceleratorInfo != nil && len(in.InferenceAcceleratorInfo.Accelerators) == 1:
		d := in.InferenceAcceleratorInfo.Accelerators[0]
		out["instance-accelerator-name"], out["instance-accelerator-manufacturer"], out["instance-accelerator-count"] = slug(deref(d.Name)), slug(deref(d.Manufacturer)),
			number(int64(deref(d.Count)))
	}
	return out
}

func slug(s string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSpace(s), " ", "-"))
}

// devices is the extended resources that a node of the type offers.
func devices(in types.InstanceTypeInfo) map[string]string {
	out := map[string]string{}
	add := func(name string, n int64) {
		if n > 0 {
			have, err := strconv.ParseInt(out[name], 10, 64)
			if err != nil {
				have = 0
			}
			out[name] = strconv.FormatInt(have+n, 10)
		}
	}
	if g := in.GpuInfo; g != nil {
		for _, d := range g.Gpus {
			switch slug(deref(d.Manufacturer)) {
			case "nvidia":
				add("nvidia.com/gpu", int64(deref(d.Count)))
			case "amd":
				add("amd.com/gpu", int64(deref(d.Count)))
			case "habana":
				add("habana.ai/gaudi", int64(deref(d.Count)))
			}
		}
	}
	if n := in.NeuronInfo; n != nil {
		for _, d := range n.NeuronDevices {
			add("aws.amazon.com/neuron", int64(deref(d.Count)))
			if d.CoreInfo != nil {
				add("aws.amazon.com/neuroncore", int64(deref(d.Count))*int64(deref(d.CoreInfo.Count)))
			}
		}
	}
	if e := in.NetworkInfo.EfaInfo; e != nil && deref(in.NetworkInfo.EfaSupported) {
		add("vpc.amazonaws.com/efa", int64(deref(e.MaximumEfaInterfaces)))
	}
	return out
}
