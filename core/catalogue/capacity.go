package catalogue

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-project/weir/core/model"
	res "github.com/weir-project/weir/core/model/resource"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	defaultOverhead       = 0.075    // of memory, kept by the hypervisor: an assumption until a real node has been seen
	armReserved           = 64 * mib // contiguous memory set aside on arm64
	defaultEvictionMemory = 100 * mib
	windowsPods           = 110

	// Prefix delegation: addresses of a prefix, and how many pods a node is to have at most.
	prefixAddresses  = 16
	prefixPods       = 110
	prefixPodsLarge  = 250
	prefixLargeVCPUs = 30
)

// Extended resources that depend on the node class.
const (
	resourceEFA         = model.ResourceEFA
	resourcePrivateIPv4 = "vpc.amazonaws.com/PrivateIPv4Address" // Windows nodes: addresses for pods
)

var windowsBuilds = map[string]string{"Windows2019": "10.0.17763", "Windows2022": "10.0.20348", "Windows2025": "10.0.26100"}

// defaultClass stands in where no node class is given.
var defaultClass = &model.NodeClass{Family: "AL2023"}

// instance is the type as a node class would run it, with the reason why it
// cannot where that is so.
func (t *Type) instance(class *model.NodeClass, opts Options, zone string) (it *model.InstanceType, cannot string) {
	if class == nil {
		class = defaultClass
	}
	windows := strings.HasPrefix(class.Family, "Windows")
	switch {
	case windows && t.Arch != "amd64":
		cannot = "Windows images exist for amd64 only"
	case class.Family == "AL2023" && t.Labels["instance-family"] == "a1":
		cannot = "a1 machines cannot boot AL2023"
	case t.ENI.Cards > 0 && class.Interfaces.Cards > t.ENI.Cards:
		cannot = fmt.Sprintf("the node class has interfaces on %d network cards, the type has %d", class.Interfaces.Cards, t.ENI.Cards)
	case class.PlacementGroup != nil && t.Placement != nil && !slices.Contains(t.Placement, class.PlacementGroup.Strategy):
		cannot = fmt.Sprintf("the type cannot be started in placement groups of strategy %s, as that of the node class is", class.PlacementGroup.Strategy)
	case class.Interfaces.EFAOnly > t.alloc.Get(resourceEFA):
		cannot = fmt.Sprintf("the node class has %d EFA interfaces, the type can have %d", class.Interfaces.EFAOnly, t.alloc.Get(resourceEFA))
	}
	it = &model.InstanceType{Name: t.Name, MemoryFrom: "estimated", Labels: make(map[string]string, len(t.Labels)+6)}
	for k, v := range t.Labels {
		it.Labels[model.AWSLabelDomain+"/"+k] = v
	}
	it.Labels[model.LabelInstanceType] = t.Name
	it.Labels[model.LabelArch] = t.Arch
	it.Labels[model.LabelOS] = t.OS
	if windows {
		it.Labels[model.LabelOS] = "windows"
		it.Labels[model.LabelWindowsBuild] = windowsBuilds[class.Family]
	}
	if r := region(opts, zone); r != "" {
		it.Labels[model.LabelRegion] = r
	}
	if class.Name != "" {
		it.Labels[model.LabelNodeClass] = class.Name
	}
	if g := class.PlacementGroup; g != nil {
		it.Labels[model.LabelPlacementGroup] = g.ID
	}
	learned := opts.LearnedMemory[t.Name]
	if learned > 0 {
		it.MemoryFrom = "learned"
	}
	it.Capacity, it.Allocatable = t.amounts(class, opts, learned)
	if !t.alloc.IsZero() && learned == 0 {
		it.Capacity, it.Allocatable = t.stated(it.Capacity, it.Allocatable)
	}
	return it, cannot
}

// stated corrects computed amounts by what the table itself says of the type: the
// difference between its allocatable and the one computed for the same defaults.
// For the embedded table that difference is nothing; for a file of one's own it wins.
func (t *Type) stated(capacity, allocatable res.Vector) (res.Vector, res.Vector) {
	_, usual := t.amounts(defaultClass, Options{}, 0)
	delta := t.alloc.Sub(usual)
	for i := range delta.Base {
		if t.alloc.Base[i] == 0 { // not stated
			delta.Base[i] = 0
		}
	}
	if delta.IsZero() {
		return capacity, allocatable
	}
	allocatable = allocatable.Add(delta).Floor()
	return capacity.Max(allocatable), allocatable
}

// amounts computes capacity and allocatable by the rules that kubelets on EC2
// follow. learnedMemory, where above 0, is what a real node reported.
func (t *Type) amounts(class *model.NodeClass, opts Options, learnedMemory int64) (capacity, allocatable res.Vector) {
	memory := learnedMemory
	if memory <= 0 {
		memory = t.MemoryMiB * mib
		if t.Arch == "arm64" {
			memory -= armReserved
		}
		share := defaultOverhead
		if opts.VMMemoryOverheadPercent != nil {
			share = *opts.VMMemoryOverheadPercent
		}
		memory -= int64(math.Ceil(float64(memory)*share/float64(mib))) * mib
	}
	eniPods := t.eniPods(0, 1)
	pods := t.pods(class, opts)
	storage := t.storage(class)
	capacity = res.New(1000*t.VCPU, max(memory, 0), pods, storage)
	for _, a := range t.alloc.Ext {
		capacity = capacity.With(a.Name, a.Value)
	}
	if n := class.Interfaces.EFAOnly; n > 0 {
		capacity = capacity.With(resourceEFA, n)
	}
	if strings.HasPrefix(class.Family, "Windows") && t.ENI.IPv4PerENI > 1 {
		capacity = capacity.With(resourcePrivateIPv4, t.ENI.IPv4PerENI-1)
	}

	reservePods := eniPods // AL2, AL2023 and Custom images reserve by interfaces, whatever maxPods says
	if class.Family == "Bottlerocket" || strings.HasPrefix(class.Family, "Windows") {
		reservePods = pods
	}
	kube := map[string]int64{"cpu": kubeCPU(t.VCPU), "memory": (11*reservePods + 255) * mib, "ephemeral-storage": gib}
	for k, v := range class.KubeReserved {
		kube[k] = v
	}
	overhead := res.New(kube["cpu"]+class.SystemReserved["cpu"],
		kube["memory"]+class.SystemReserved["memory"]+threshold(class.EvictionMemory, capacity.Base[res.Memory], defaultEvictionMemory),
		0,
		kube["ephemeral-storage"]+class.SystemReserved["ephemeral-storage"]+threshold(class.EvictionStorage, storage, ceilDiv(storage, 10)))
	return capacity, capacity.Sub(overhead).Floor()
}

// kubeCPU is what kubelets reserve, milli-CPU: 6% of the first core, 1% of the
// second, 0.5% of the next two, 0.25% of the rest.
func kubeCPU(vcpu int64) int64 {
	milli := vcpu * 1000
	var sum int64
	for _, step := range []struct{ from, to, perTenThousand int64 }{{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, math.MaxInt64, 25}} {
		if milli > step.from {
			sum += (min(milli, step.to) - step.from) * step.perTenThousand / 10000
		}
	}
	return sum
}

// eniPods is how many pods the interfaces of the default card have addresses for, less
// the reserved ones; per is the addresses that come with each slot of an interface.
func (t *Type) eniPods(reserved, per int64) int64 {
	n := t.ENI.DefaultCard - reserved
	if n <= 0 || t.ENI.IPv4PerENI <= 0 {
		if t.ENI.DefaultCard == 0 { // not in the table
			return t.alloc.Base[res.Pods]
		}
		return 0
	}
	return n*(t.ENI.IPv4PerENI-1)*per + 2
}

// prefixes says whether the type's interfaces can have prefixes: those of Nitro machines.
func (t *Type) prefixes() bool { return t.Labels["instance-hypervisor"] != "xen" }

func (t *Type) pods(class *model.NodeClass, opts Options) int64 {
	windows := strings.HasPrefix(class.Family, "Windows")
	reserved := opts.ReservedENIs + int64(class.ReservedENIs) + class.Interfaces.EFAOnlyDefaultCard
	pods := t.eniPods(reserved, 1)
	if opts.PrefixDelegation && !windows && t.prefixes() && pods > 0 {
		most := int64(prefixPods)
		if t.VCPU >= prefixLargeVCPUs {
			most = prefixPodsLarge
		}
		pods = min(t.eniPods(reserved, prefixAddresses), most)
	}
	switch {
	case class.MaxPods != nil:
		pods = int64(*class.MaxPods)
	case windows:
		pods = windowsPods
	case pods == 0 && t.ENI.DefaultCard == 0:
		pods = windowsPods
	}
	if class.PodsPerCore != nil && *class.PodsPerCore > 0 && class.Family != "Bottlerocket" {
		pods = min(pods, int64(*class.PodsPerCore)*t.VCPU)
	}
	return pods
}

func (t *Type) storage(class *model.NodeClass) int64 {
	if class.InstanceStoreRAID {
		if gb, err := strconv.ParseInt(t.Labels["instance-local-nvme"], 10, 64); err == nil && gb > 0 {
			return gb * 1_000_000_000
		}
	}
	if class.RootVolumeBytes > 0 {
		return class.RootVolumeBytes
	}
	if strings.HasPrefix(class.Family, "Windows") {
		return 50 * gib
	}
	return 20 * gib
}

// threshold reads a hard eviction threshold: a share of the capacity or a quantity.
// 100% switches it off. Text that is neither falls back to the default; node
// classes are validated before they get here.
func threshold(text string, capacity, byDefault int64) int64 {
	if text == "" {
		return byDefault
	}
	if p, ok := strings.CutSuffix(text, "%"); ok {
		f, err := strconv.ParseFloat(p, 64)
		switch {
		case err != nil || f < 0:
			return byDefault
		case f >= 100:
			return 0
		}
		return int64(math.Ceil(float64(capacity) * f / 100))
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return byDefault
	}
	return q.Value()
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// Computed is the allocatable by the rules alone, for the default node class; what
// the table states of the type is left out. It serves to check a table.
func (t *Type) Computed() res.Vector {
	_, a := t.amounts(defaultClass, Options{}, 0)
	return a
}
