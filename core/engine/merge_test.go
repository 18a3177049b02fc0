package engine_test

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/resource"
)

// machine is an on-demand offering in the first zone.
func machine(name string, milliCPU, mib int64, usd float64) *model.Offering {
	room := resource.New(milliCPU, mib<<20, 110, 20<<30)
	t := &model.InstanceType{Name: name, Capacity: room, Allocatable: room,
		Labels: map[string]string{model.LabelInstanceType: name, model.LabelArch: "arm64", model.LabelOS: "linux"}}
	return &model.Offering{Type: t, Zone: proofZones[0], CapacityType: model.OnDemand, Available: true, USDPerHour: usd, PriceSource: "list"}
}

func machinesFor(pods []*model.Pod, machines ...*model.Offering) *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	return &model.World{Now: mt.Now, NodeClasses: map[string]*model.NodeClass{mt.Class: class},
		Offerings: map[string][]*model.Offering{mt.Class: machines}, Pools: []*model.Pool{mt.Pool("a")}, Pods: pods}
}

// Two full small machines are the better bargain per pod, one larger machine that has
// room to spare costs less all the same.
func TestOneLargerMachineForLessThanTwoFullOnes(t *testing.T) {
	t.Parallel()
	w := machinesFor(mt.Pods(12, "p", 1000, 2048), machine("t4g.2xlarge", 7910, 31000, 0.10395), machine("c6g.4xlarge", 15890, 28000, 0.2056))
	prices := &model.Prices{ByPool: map[string]model.PoolPrices{"a": {FeePerNode: 0.0222}}}
	r := engine.Place(w, prices)
	sound(t, w, prices, r)
	if len(r.New) != 1 || len(r.New[0].Pods) != 12 {
		t.Fatalf("%d nodes, want one c6g.4xlarge with all 12 pods", len(r.New))
	}
}

// A plan for pods that one machine can hold costs no more than the cheapest that does,
// and none of two nodes in a plan could be one that is cheaper.
func TestNoSingleMachineIsCheaper(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		d := seeded(seed)
		var machines []*model.Offering
		for i := range 2 + d.n(6) {
			cpu := int64(2) << d.n(4)
			mib := cpu << (11 + d.n(3))
			machines = append(machines, machine(fmt.Sprintf("t%d", i), cpu*1000-90, mib-mib/10, (float64(cpu)*0.01+float64(mib)/1024*0.0015)*(0.9+float64(d.n(20))/100)))
		}
		var pods []*model.Pod
		for i := range 1 + d.n(3) {
			pods = append(pods, mt.Pods(1+d.n(8), fmt.Sprintf("p%d", i), int64(250*(1+d.n(8))), int64(512*(1+d.n(8))))...)
		}
		fee := one(d, 0, 0.0222)
		w := machinesFor(pods, machines...)
		prices := &model.Prices{ByPool: map[string]model.PoolPrices{"a": {FeePerNode: fee}}}
		r := engine.Place(w, prices)
		sound(t, w, prices, r)
		cost := 0.0
		for i, n := range r.New {
			cost += n.Effective + fee
			for _, m := range r.New[:i] {
				both := append(append([]*model.Pod{}, m.Pods...), n.Pods...)
				if usd := cheapest(w, both, fee); usd < m.Effective+n.Effective+2*fee-1e-9 {
					t.Errorf("seed %d: %s and %s cost %v, one node for their pods costs %v", seed, m.Offering.Type.Name, n.Offering.Type.Name, m.Effective+n.Effective+2*fee, usd)
				}
			}
		}
		if usd := cheapest(w, pods, fee); len(r.Unplaced) == 0 && usd < cost-1e-9 {
			t.Errorf("seed %d: the plan costs %v, one node for all pods costs %v", seed, cost, usd)
		}
	}
}
