package conformance

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

// The large problem: about what a cluster of 5,000 nodes asks in one batch, with a
// whole region's catalogue.
const (
	LargeNodes = 5000
	largeTypes = 850
	largePools = 10
)

// LargePrice is a problem of 5,000 nodes in ten pools, each of which may use the whole
// catalogue of 850 types in three zones, on demand and spot. Each call makes a new one.
func LargePrice() *sdk.PriceRequest {
	c := largeCatalogue()
	r := &sdk.PriceRequest{Catalogue: c, Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Health: map[int]sdk.Health{},
		USDPerHour: make([]float64, len(c.Offerings)), Demand: sdk.Demand{Pods: 50_000, CPUMilli: 40_000_000, MemoryBytes: 80_000 << 30}}
	for i := range c.Offerings {
		o := &c.Offerings[i]
		r.USDPerHour[i] = float64(o.Type.CPUMilli) * 0.00004
		if o.CapacityType == sdk.Spot {
			r.USDPerHour[i] *= 0.3 + float64(i%7)/20
		}
		if i%17 == 0 {
			r.Health[i] = sdk.Health{Available: i%34 != 0, Unavailable: "InsufficientInstanceCapacity", Shortages: i % 5, Interruptions: i % 11}
		}
	}
	r.Pools = largePoolsOf(c, r.USDPerHour)
	return r
}

// LargeScore asks for verdicts on 5,000 moves, one for each node.
func LargeScore() *sdk.ScoreRequest {
	price := LargePrice()
	r := &sdk.ScoreRequest{Catalogue: price.Catalogue, Now: price.Now, Pools: price.Pools, Moves: make([]sdk.Move, LargeNodes)}
	reasons := []string{"Empty", "Underutilized", "Drifted", "Expired", "Unhealthy"}
	for i := range r.Moves {
		o := i * 7 % len(price.USDPerHour)
		usd := price.USDPerHour[o]
		m := sdk.Move{Pool: i % largePools, Reason: reasons[i%len(reasons)], USDPerHourBefore: usd,
			Remove: []sdk.RemovedNode{{Name: fmt.Sprintf("node-%d", i), Offering: o, USDPerHour: usd, Age: time.Duration(i) * time.Minute}}}
		if m.Reason != "Empty" {
			cheap := o % largeTypes * 6
			m.Remove[0].Pods, m.PodsEvicted, m.PodDeletionCost = 1+i%60, 1+i%60, int64(i%3)
			m.Launch = []sdk.LaunchedNode{{Offering: cheap, USDPerHour: usd / 2}}
			m.USDPerHourAfter, m.USDPerHourWorst = usd/2, usd*0.6
		}
		r.Moves[i] = m
	}
	return r
}

func largeCatalogue() *sdk.Catalogue {
	c := &sdk.Catalogue{}
	for i := range largeTypes {
		vcpu := int64(1) << (1 + i%7)
		name, arch := fmt.Sprintf("m%da.%dx", i/7, vcpu), "amd64"
		if i/7%3 == 0 {
			name, arch = fmt.Sprintf("m%dg.%dx", i/7, vcpu), "arm64"
		}
		t := &sdk.InstanceType{Name: name, NodeClass: "default", CPUMilli: 1000*vcpu - 80, MemoryBytes: (4*vcpu - 1) << 30, Pods: 58,
			Labels: map[string]string{sdk.LabelInstanceType: name, sdk.LabelArch: arch, "karpenter.k8s.aws/instance-family": name[:2]}}
		for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
			for _, capacity := range []string{sdk.OnDemand, sdk.Spot} {
				c.Offerings = append(c.Offerings, sdk.Offering{Type: t, Zone: zone, CapacityType: capacity})
			}
		}
	}
	sdk.HashCatalogue(c)
	return c
}

func largePoolsOf(c *sdk.Catalogue, prices []float64) []sdk.Pool {
	pools := make([]sdk.Pool, largePools)
	all := make([]int, len(c.Offerings))
	for i := range all {
		all[i] = i
	}
	for i := range pools {
		pools[i] = sdk.Pool{Name: fmt.Sprintf("pool-%d", i), NodeClass: "default", Weight: int32(i), Offerings: all, VolumesUSDPerHour: 0.0022}
		for k := range LargeNodes / largePools / 5 {
			o := (i*31 + k*53) % len(all)
			x := &c.Offerings[o]
			pools[i].Running = append(pools[i].Running, sdk.Running{Offering: o, InstanceType: x.Type.Name, Zone: x.Zone, CapacityType: x.CapacityType,
				Nodes: 5, USDPerHour: 5 * prices[o]})
		}
	}
	return pools
}
