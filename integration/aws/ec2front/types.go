package ec2front

import (
	"slices"
	"strconv"
	"time"

	"github.com/weir-project/weir/core/catalogue"
)

// SetSpotPrice sets what a type costs as spot in a zone, USD per hour.
func (f *Front) SetSpotPrice(instanceType, zone string, usd float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spot[[2]string{instanceType, zone}] = usd
}

func (f *Front) spotPrice(t *catalogue.Type, zone string) float64 {
	if usd, ok := f.spot[[2]string{t.Name, zone}]; ok {
		return usd
	}
	return catalogue.SyntheticSpot(t.OnDemandUSD, t.Name, zone)
}

func (f *Front) typesNamed(p *params, filters []condition) ([]*catalogue.Type, error) {
	names, err := p.strings("InstanceType")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if f.opts.Table.Get(n) == nil {
			return nil, fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", n)
		}
	}
	return slices.DeleteFunc(slices.Clone(f.opts.Table.Types), func(t *catalogue.Type) bool {
		return len(names) > 0 && !slices.Contains(names, t.Name) || !met(filters, nil, func(name string) []string {
			return []string{map[string]string{"supported-virtualization-type": "hvm", "processor-info.supported-architecture": arch(t), "instance-type": t.Name}[name]}
		})
	}), nil
}

func arch(t *catalogue.Type) string {
	if t.Arch == "amd64" {
		return "x86_64"
	}
	return t.Arch
}

func describeInstanceTypes(f *Front, p *params) (func(*writer), error) {
	filters, err := p.filters("supported-virtualization-type", "processor-info.supported-architecture", "instance-type")
	if err != nil {
		return nil, err
	}
	list, err := f.typesNamed(p, filters)
	if err != nil {
		return nil, err
	}
	list, next, err := page(p, list, 5, 100)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "instanceTypeSet", list, func(t *catalogue.Type) { typeInfo(w, t) })
		w.el("nextToken", next)
	}, p.finish()
}

func typeInfo(w *writer, t *catalogue.Type) {
	number := func(label string) int { n, _ := strconv.Atoi(t.Labels[label]); return n } // 0 where there is no such label
	amount := func(resource string) int { n, _ := strconv.Atoi(t.Allocatable[resource]); return n }
	w.el("instanceType", t.Name)
	w.bool("currentGeneration", true)
	w.texts("supportedUsageClasses", "on-demand", "spot")
	w.texts("supportedVirtualizationTypes", "hvm")
	w.bool("bareMetal", t.BareMetal)
	w.el("hypervisor", t.Labels["instance-hypervisor"])
	w.in("processorInfo", func() {
		w.texts("supportedArchitectures", arch(t))
		if mhz := number("instance-cpu-sustained-clock-speed-mhz"); mhz > 0 {
			w.usd("sustainedClockSpeedInGhz", float64(mhz)/1000)
		}
		w.el("manufacturer", t.Labels["instance-cpu-manufacturer"])
	})
	w.in("vCpuInfo", func() { w.num("defaultVCpus", int(t.VCPU)) })
	w.in("memoryInfo", func() { w.num("sizeInMiB", int(t.MemoryMiB)) })
	if gb := number("instance-local-nvme"); gb > 0 {
		w.bool("instanceStorageSupported", true)
		w.in("instanceStorageInfo", func() {
			w.num("totalSizeInGB", gb)
			w.el("nvmeSupport", "required")
		})
	}
	if mbps := number("instance-ebs-bandwidth"); mbps > 0 {
		w.in("ebsInfo", func() {
			w.el("ebsOptimizedSupport", "default")
			w.in("ebsOptimizedInfo", func() { w.num("maximumBandwidthInMbps", mbps) })
		})
	}
	w.in("placementGroupInfo", func() { w.texts("supportedStrategies", strategiesOf(t)...) })
	w.in("networkInfo", func() {
		w.num("maximumNetworkInterfaces", int(t.ENI.Max))
		w.num("maximumNetworkCards", int(t.ENI.Cards))
		w.num("defaultNetworkCardIndex", 0)
		set(w, "networkCards", []int64{t.ENI.DefaultCard}, func(n int64) {
			w.num("networkCardIndex", 0)
			w.num("maximumNetworkInterfaces", int(n))
		})
		w.num("ipv4AddressesPerInterface", int(t.ENI.IPv4PerENI))
		w.bool("efaSupported", amount("vpc.amazonaws.com/efa") > 0)
		if n := amount("vpc.amazonaws.com/efa"); n > 0 {
			w.in("efaInfo", func() { w.num("maximumEfaInterfaces", n) })
		}
		w.bool("encryptionInTransitSupported", t.Labels["instance-encryption-in-transit-supported"] == "true")
	})
	if n := number("instance-gpu-count"); n > 0 {
		w.in("gpuInfo", func() {
			set(w, "gpus", []int{n}, func(n int) {
				w.el("name", t.Labels["instance-gpu-name"])
				w.el("manufacturer", t.Labels["instance-gpu-manufacturer"])
				w.num("count", n)
				w.in("memoryInfo", func() { w.num("sizeInMiB", number("instance-gpu-memory")) })
			})
		})
	}
	if n := number("instance-accelerator-count"); n > 0 && t.Labels["instance-accelerator-manufacturer"] == "aws" {
		w.in("neuronInfo", func() {
			set(w, "neuronDevices", []int{n}, func(n int) {
				w.num("count", n)
				w.el("name", t.Labels["instance-accelerator-name"])
				w.in("coreInfo", func() { w.num("count", amount("aws.amazon.com/neuroncore")/n) })
			})
		})
	}
}

type place struct {
	t    *catalogue.Type
	zone string
}

func (f *Front) places(types []*catalogue.Type, keep func(place) bool) []place {
	var out []place
	for _, t := range types {
		for _, z := range f.opts.Zones {
			if x := (place{t, z}); keep(x) {
				out = append(out, x)
			}
		}
	}
	return out
}

func describeInstanceTypeOfferings(f *Front, p *params) (func(*writer), error) {
	if kind := p.str("LocationType"); kind != "availability-zone" {
		return nil, fail("InvalidParameterValue", "LocationType %q: this region tells of availability-zone only", kind)
	}
	filters, err := p.filters("instance-type", "location")
	if err != nil {
		return nil, err
	}
	list, next, err := page(p, f.places(f.opts.Table.Types, func(x place) bool {
		return met(filters, nil, func(name string) []string {
			return []string{map[string]string{"instance-type": x.t.Name, "location": x.zone}[name]}
		})
	}), 5, 1000)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "instanceTypeOfferingSet", list, func(x place) {
			w.el("instanceType", x.t.Name)
			w.el("locationType", "availability-zone")
			w.el("location", x.zone)
		})
		w.el("nextToken", next)
	}, p.finish()
}

func describeSpotPriceHistory(f *Front, p *params) (func(*writer), error) {
	products, err := p.strings("ProductDescription")
	if err != nil {
		return nil, err
	}
	for _, when := range []string{"StartTime", "EndTime"} {
		if _, err := p.time(when); err != nil {
			return nil, err
		}
	}
	filters, err := p.filters("availability-zone", "instance-type")
	if err != nil {
		return nil, err
	}
	types, err := f.typesNamed(p, nil)
	if err != nil {
		return nil, err
	}
	zone := p.str("AvailabilityZone")
	const product = "Linux/UNIX"
	list, next, err := page(p, f.places(types, func(x place) bool {
		return (len(products) == 0 || slices.Contains(products, product)) && (zone == "" || zone == x.zone) && met(filters, nil, func(name string) []string {
			return []string{map[string]string{"instance-type": x.t.Name, "availability-zone": x.zone}[name]}
		})
	}), 1, 1000)
	if err != nil {
		return nil, err
	}
	at := f.opts.Now().Add(-time.Hour)
	return func(w *writer) {
		set(w, "spotPriceHistorySet", list, func(x place) {
			w.el("instanceType", x.t.Name)
			w.el("productDescription", product)
			w.el("spotPrice", strconv.FormatFloat(f.spotPrice(x.t, x.zone), 'f', 6, 64))
			w.time("timestamp", at)
			w.el("availabilityZone", x.zone)
		})
		w.el("nextToken", next)
	}, p.finish()
}
