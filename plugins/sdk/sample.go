package sdk

import "time"

// SamplePrice is a small problem with everything in it that a request can hold: two
// pools, twelve offerings, one of them unavailable, a running mix, a commitment. The
// host tries a strategy on it before it takes it into service, and the conformance
// kit starts with it. Each call makes a new one.
func SamplePrice() *PriceRequest {
	c := sampleCatalogue()
	return &PriceRequest{
		Catalogue: c, Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), USDPerHour: samplePrices(c),
		Health: map[int]Health{3: {Available: false, Unavailable: "InsufficientInstanceCapacity", Shortages: 2, LastShortage: time.Date(2026, 3, 1, 11, 58, 0, 0, time.UTC)}, 5: {Available: true, Interruptions: 4, LastInterruption: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}},
		Pools: []Pool{
			{Name: "default", NodeClass: "default", Weight: 10, Annotations: map[string]string{"example.com/team": "web"}, VolumesUSDPerHour: 0.0022,
				Offerings: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
				Running: []Running{
					{Offering: 4, InstanceType: "m6a.xlarge", Zone: "us-east-1a", CapacityType: OnDemand, Nodes: 3, InFlight: 1, USDPerHour: 0.6912},
					{Offering: -1, InstanceType: "m5.large", Zone: "us-east-1c", CapacityType: OnDemand, Nodes: 1},
				}},
			{Name: "on-demand", NodeClass: "default", Offerings: []int{0, 2, 4, 6, 8, 10}},
		},
		Commitments: []Commitment{{Name: "compute", Covers: Selector{{Key: LabelCapacityType, Values: []string{OnDemand}}}, USDPerHour: 0.5, UsedUSDPerHour: 0.2,
			Discount: 0.28, USDPerHourByType: map[string]float64{"m6a.large": 0.0567}, Source: "configuration"}},
		Demand: Demand{Pods: 10, CPUMilli: 14000, MemoryBytes: 28 << 30},
	}
}

// SampleScore is a small problem for scorers: an empty node, a node whose pods fit
// elsewhere, a replacement that saves a cent for forty pods, and a drifted node.
func SampleScore() *ScoreRequest {
	price := SamplePrice()
	return &ScoreRequest{Catalogue: price.Catalogue, Now: price.Now, Pools: price.Pools, Moves: []Move{
		{Pool: 0, Reason: "Empty", Remove: []RemovedNode{{Name: "n1", Offering: 0, USDPerHour: 0.0864, Age: time.Hour}}, USDPerHourBefore: 0.0864},
		{Pool: 0, Reason: "Underutilized", Remove: []RemovedNode{{Name: "n2", Offering: 4, USDPerHour: 0.1728, Pods: 4, Age: 3 * time.Hour, Expires: 27 * time.Hour, PodFacts: PodFacts{DeletionCost: 100, Priorities: 2000, Young: 1, Restarts: 2}}},
			PodsEvicted: 4, USDPerHourBefore: 0.1728, Committed: 0.01},
		{Pool: 1, Reason: "Underutilized", Remove: []RemovedNode{{Name: "n3", Offering: 8, USDPerHour: 0.1632, Pods: 40, Age: 30 * time.Hour}},
			Launch: []LaunchedNode{{Offering: 4, USDPerHour: 0.1528}}, PodsEvicted: 40, USDPerHourBefore: 0.1632, USDPerHourAfter: 0.1528, USDPerHourWorst: 0.1532},
		{Pool: 1, Reason: "Drifted", Remove: []RemovedNode{{Name: "n4", Offering: -1, USDPerHour: 0.096, Pods: 2}},
			Launch: []LaunchedNode{{Offering: 0, USDPerHour: 0.0864}}, PodsEvicted: 2, USDPerHourBefore: 0.096, USDPerHourAfter: 0.0864, USDPerHourWorst: 0.0864},
	}}
}

// SamplePlan is a small problem for planners: ten pods of the sample demand in two
// groups, one of which only on-demand machines may have, and a daemon pod.
func SamplePlan() *PlanRequest {
	price := SamplePrice()
	return &PlanRequest{PriceRequest: *price,
		Sets: [][]int{{0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11}, {0, 2, 4, 6, 8, 10}, {0, 2}},
		Groups: []PodGroup{
			{Pods: 6, Requests: Amounts{CPUMilli: 1000, MemoryBytes: 2 << 30, Pods: 1}, Allowed: []Allowed{{Pool: 0, Set: 0}, {Pool: 1, Set: 1}}},
			{Pods: 4, Requests: Amounts{CPUMilli: 2000, MemoryBytes: 4 << 30, Pods: 1, StorageBytes: 1 << 30}, Allowed: []Allowed{{Pool: 1, Set: 1}}, Priority: 100,
				Neighbours: []Neighbours{{Relation: RelationSpread, Key: LabelZone, MaxSkew: 1, Groups: []int{1}}}},
		},
		Rooms: []PoolRoom{
			{Daemons: []DaemonRoom{{Set: 0, Requests: Amounts{CPUMilli: 100, MemoryBytes: 128 << 20, Pods: 1}}}, NodesLeft: -1},
			{Daemons: []DaemonRoom{{Set: 2, Requests: Amounts{CPUMilli: 200, Pods: 1}}}, Left: map[string]int64{"cpu": 64000}, NodesLeft: 12},
		},
	}
}

// SamplePropose is a small problem for proposers: an empty node, one that is hardly used,
// one that may not go, and one of nobody's.
func SamplePropose() *ProposeWorld {
	price := SamplePrice()
	return &ProposeWorld{Catalogue: price.Catalogue, Now: price.Now, USDPerHour: price.USDPerHour, Pools: price.Pools, MaxSimulations: 100,
		Nodes: []Node{
			{Name: "n1", Pool: 0, Offering: 0, USDPerHour: 0.0864, Age: time.Hour, Free: Amounts{CPUMilli: 1800, MemoryBytes: 6 << 30, Pods: 57}, Removable: true, DisruptionCost: 1},
			{Name: "n2", Pool: 0, Offering: 4, USDPerHour: 0.1728, Age: 3 * time.Hour, Pods: 2, Requests: Amounts{CPUMilli: 500, MemoryBytes: 1 << 30, Pods: 2},
				Free: Amounts{CPUMilli: 3400, MemoryBytes: 14 << 30, Pods: 55}, Removable: true, DisruptionCost: 3},
			{Name: "n3", Pool: 1, Offering: -1, Pods: 1, Requests: Amounts{CPUMilli: 100, Pods: 1}, Free: Amounts{CPUMilli: 900, MemoryBytes: 3 << 30, Pods: 9}, Blocked: "PodDisruptionBudget"},
			{Name: "n4", Pool: -1, Offering: -1, Free: Amounts{CPUMilli: 4000, MemoryBytes: 8 << 30, Pods: 100}, Blocked: "Unmanaged"},
		},
		Budgets: []Budget{{Pool: 0, Reason: "Empty", Nodes: 1}, {Pool: 0, Reason: "Underutilized", Nodes: 1}},
	}
}

func sampleCatalogue() *Catalogue {
	c := &Catalogue{}
	for _, t := range []struct {
		name, arch string
		cpu, gib   int64
	}{{"m6a.large", "amd64", 2, 8}, {"m6a.xlarge", "amd64", 4, 16}, {"m6g.xlarge", "arm64", 4, 16}} {
		typ := &InstanceType{Name: t.name, NodeClass: "default", CPUMilli: 1000*t.cpu - 70, MemoryBytes: t.gib<<30 - 1<<30, Pods: 58,
			Labels: map[string]string{LabelInstanceType: t.name, LabelArch: t.arch}}
		for _, zone := range []string{"us-east-1a", "us-east-1b"} {
			for _, capacity := range []string{OnDemand, Spot} {
				c.Offerings = append(c.Offerings, Offering{Type: typ, Zone: zone, CapacityType: capacity})
			}
		}
	}
	HashCatalogue(c)
	return c
}

func samplePrices(c *Catalogue) []float64 {
	list := map[string]float64{"m6a.large": 0.0864, "m6a.xlarge": 0.1728, "m6g.xlarge": 0.154}
	prices := make([]float64, len(c.Offerings))
	for i := range c.Offerings {
		prices[i] = list[c.Offerings[i].Type.Name]
		if c.Offerings[i].CapacityType == Spot {
			prices[i] *= 0.4
		}
	}
	return prices
}
