package engine_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// forged is a world with a good plan for it, and what strategies said; a corruption
// spoils one thing of it.
type forged struct {
	w      *model.World
	prices *model.Prices
	plan   *model.Plan
}

// forge makes a world that uses every rule, and has the engine plan for it.
func forge(t *testing.T) *forged {
	t.Helper()
	const zone, host = model.LabelZone, model.LabelHostname
	od := mt.CapacityType(model.OnDemand)
	kinds := mt.Types("m5.large", "m5.xlarge", "m5.2xlarge", "c5.xlarge", "c5.2xlarge")
	flexible := require.Must(model.AWSLabelDomain+"/instance-family", require.Exists)
	flexible.MinValues = 2
	tolerant := mt.Tolerates(model.Toleration{Key: "dedicated", Operator: "Exists"})
	to := func(pool string) func(*model.Pod) {
		return mt.Requires(require.Must(model.LabelPool, require.In, pool))
	}
	limit := map[string]int64{"cpu": 8000}
	w := world(slices.Concat(
		mt.Pods(6, "web", 700, 900, is("web"), to("main"), spread(zone, 1, app("web"))),
		mt.Pods(2, "lone", 300, 300, is("lone"), to("main"), away(host, app("lone"))),
		mt.Pods(1, "db", 500, 500, is("db"), to("main")),
		mt.Pods(2, "client", 200, 200, is("client"), to("main"), near(zone, app("db"))),
		mt.Pods(2, "gate", 100, 100, to("main"), port(443)),
		mt.Pods(1, "disk", 1000, 1000, to("main"), func(p *model.Pod) {
			topo(p).VolumeTerms = []require.Set{require.NewSet(mt.Zones(proofB))}
		}),
		mt.Pods(3, "capped", 1500, 1000, to("capped")),
		mt.Pods(2, "choosy", 1000, 1000, to("choosy")),
		mt.Pods(1, "special", 1000, 1000, to("special"), tolerant),
		mt.Pods(2, "here", 400, 400, is("here"), mt.Requires(require.Must("own", require.In, "yes"))),
		mt.Pods(1, "huge", 900000, 0, to("main")),
	), mt.Pool("main", od, kinds), limited(mt.Pool("capped", od, mt.Types("m5.large", "m5.xlarge", "m5.2xlarge")), limit, 4),
		mt.Pool("choosy", od, kinds, flexible), tainted(mt.Pool("special", od, mt.Types("m5.large", "m5.xlarge"), require.Must("team", require.In, "red"))),
		mt.Pool("elsewhere", mt.Types("r5.large")))
	w.Nodes = []*model.Node{mt.Node("n1", 1000, 2000, map[string]string{"own": "yes", zone: "us-east-1a"}, mt.Running(mt.Pod("old", 100, 100))),
		mt.Node("n2", 4000, 8000, map[string]string{zone: "us-east-1a"}, func(n *model.Node) { n.Cordoned = true })}
	w.DaemonSets = []*model.DaemonSet{mt.DaemonSet("agent", 100, 128)}
	f := &forged{w: w, prices: &model.Prices{ByPool: map[string]model.PoolPrices{}}}
	for _, p := range w.Pools {
		pp := model.PoolPrices{Strategy: "s", FeePerNode: 0.01}
		for _, o := range w.Offerings[mt.Class] {
			pp.Offerings = append(pp.Offerings, model.Price{USDPerHour: o.USDPerHour})
		}
		f.prices.ByPool[p.Name] = pp
	}
	f.plan = planOf(engine.Place(w, f.prices))
	if bad := engine.CheckPriced(w, f.plan, f.prices); len(bad) > 0 || len(f.plan.Placements) != 1 || len(f.plan.Unplaced) != 1 {
		t.Fatalf("the plan to be spoilt is not good: %v, %d placements, %d unplaced", bad, len(f.plan.Placements), len(f.plan.Unplaced))
	}
	return f
}

// of is the new node that holds the first pod of a workload.
func (f *forged) of(workload string) *model.NewNode {
	for _, n := range f.plan.Launch {
		for _, p := range n.Pods {
			if p.Name == workload+"-0" {
				return n
			}
		}
	}
	panic("no new node holds " + workload)
}

func (f *forged) pod(name string) *model.Pod {
	return f.w.Pods[slices.IndexFunc(f.w.Pods, func(p *model.Pod) bool { return p.Name == name })]
}

// offering finds one; class is changed nowhere.
func (f *forged) offering(key string) *model.Offering {
	list := f.w.Offerings[mt.Class]
	return list[slices.IndexFunc(list, func(o *model.Offering) bool { return o.Key() == key })]
}

// price is the strategy's word on an offering.
func (f *forged) price(pool string, o *model.Offering) *model.Price {
	return &f.prices.ByPool[pool].Offerings[slices.Index(f.w.Offerings[mt.Class], o)]
}

// move takes a pod from wherever it is to a new node, with sums that are true.
func (f *forged) move(name string, to *model.NewNode) {
	p := f.pod(name)
	for _, n := range f.plan.Launch {
		if i := slices.Index(n.Pods, p); i >= 0 {
			n.Pods = slices.Delete(slices.Clone(n.Pods), i, i+1)
			n.Requests = n.Requests.Sub(p.Requests)
		}
	}
	f.plan.Launch = slices.DeleteFunc(f.plan.Launch, func(n *model.NewNode) bool { return len(n.Pods) == 0 })
	to.Pods = append(slices.Clone(to.Pods), p)
	to.Requests = to.Requests.Add(p.Requests)
}

// become makes the node one of another offering and says so everywhere.
func (f *forged) become(n *model.NewNode, o *model.Offering) {
	labels := maps.Clone(n.Labels)
	for k := range labels {
		if _, ok := n.Offering.Label(k); ok {
			delete(labels, k)
		}
	}
	maps.Copy(labels, o.Type.Labels)
	labels[model.LabelZone], labels[model.LabelCapacityType] = o.Zone, o.CapacityType
	n.Offering, n.Alternatives, n.Labels, n.Effective, n.Requirements = o, nil, labels, f.price(n.Pool.Name, o).USDPerHour, require.Set{}
}

// bigger is the pod's requests with more of one resource, on the node, too.
func (f *forged) bigger(workload, name string, value int64) {
	n, p := f.of(workload), f.pod(workload+"-0")
	n.Requests = n.Requests.Sub(p.Requests)
	p.Requests = p.Requests.With(name, value)
	n.Requests = n.Requests.Add(p.Requests)
}

// TestCheckRefusesEveryCorruption spoils a good plan in one way at a time. Each must
// be refused, and for the reason that it is wrong.
func TestCheckRefusesEveryCorruption(t *testing.T) {
	t.Parallel()
	inZone := func(o *model.Offering, zone string) string { return o.Type.Name + "/" + zone + "/" + o.CapacityType }
	otherZone := func(o *model.Offering) string {
		return proofZones[(slices.Index(proofZones, o.Zone)+1)%3]
	}
	for _, c := range []struct {
		name  string
		spoil func(f *forged)
		words string // of one of the faults
	}{
		{"a pod on two new nodes", func(f *forged) {
			n := f.of("choosy")
			n.Pods, n.Requests = append(slices.Clone(n.Pods), f.pod("db-0")), n.Requests.Add(f.pod("db-0").Requests)
		}, "db-0 is placed twice"},
		{"a pod on a new and on an existing node", func(f *forged) {
			f.plan.Placements[0].Pods = append(slices.Clone(f.plan.Placements[0].Pods), f.pod("gate-0"))
		}, "gate-0 is placed twice"},
		{"a pod lost", func(f *forged) { f.plan.Unplaced = nil }, "huge-0 is neither placed nor given a reason"},
		{"a pod placed and unplaced", func(f *forged) {
			f.plan.Unplaced = append(f.plan.Unplaced, model.Verdict{Pod: f.pod("db-0"), Reasons: f.plan.Unplaced[0].Reasons})
		}, "db-0 is placed twice"},
		{"a pod that nobody knows", func(f *forged) {
			f.plan.Placements[0].Pods = append(slices.Clone(f.plan.Placements[0].Pods), mt.Pod("stranger", 1, 1))
		}, "stranger on node n1 is not one of the waiting pods"},
		{"a pod that is nil", func(f *forged) { f.of("db").Pods = append(f.of("db").Pods, nil) }, "a pod that is not there"},
		{"a pod that is to be left alone", func(f *forged) { f.pod("db-0").Invalid = "label x is restricted" }, "although label x is restricted"},
		{"a verdict without a reason", func(f *forged) { f.plan.Unplaced[0].Reasons = nil }, "no place and no reason"},
		{"a verdict that says nothing", func(f *forged) { f.plan.Unplaced[0].Reasons = []model.Reason{{Filter: model.FilterLimits}} }, "says nothing"},
		{"a verdict with a filter of its own", func(f *forged) {
			f.plan.Unplaced[0].Reasons = []model.Reason{{Filter: "mood", Message: "not today"}}
		}, `filter "mood"`},
		{"a verdict of a pool that there is not", func(f *forged) {
			f.plan.Unplaced[0].Reasons = []model.Reason{{Pool: "gone", Filter: model.FilterLimits, Message: "m"}}
		}, "names pool gone"},
		{"a node that is not described", func(f *forged) { f.plan.Launch = append(f.plan.Launch, nil) }, "not described"},
		{"a pool that there is not", func(f *forged) { f.of("db").Pool = mt.Pool("other") }, "not of this world"},
		{"a copy of the pool with other rules", func(f *forged) {
			p := *f.of("db").Pool
			p.Taints = nil
			f.of("db").Pool = &p
		}, "not of this world"},
		{"no offering", func(f *forged) { f.of("db").Offering = nil }, "not of this world"},
		{"an offering that nobody offers", func(f *forged) {
			o := *f.of("db").Offering
			f.of("db").Offering = &o
		}, "is not offered by node class"},
		{"an offering that is not available", func(f *forged) {
			f.of("db").Offering.Available, f.of("db").Offering.Unavailable = false, "short"
		}, "is not available: short"},
		{"an offering that the strategy refuses", func(f *forged) {
			n := f.of("db")
			f.price("main", n.Offering).Veto = "too risky"
		}, "strategy refuses"},
		{"a price that is not a number", func(f *forged) { f.of("db").Offering.USDPerHour = math.NaN() }, "has no price"},
		{"a negative price", func(f *forged) { f.of("db").Offering.USDPerHour = -1 }, "has no price"},
		{"a strategy's price that is not a number", func(f *forged) {
			n := f.of("db")
			f.price("main", n.Offering).USDPerHour = math.Inf(1)
		}, "strategy's price of"},
		{"a price that no strategy gave", func(f *forged) { f.of("db").Effective /= 2 }, "effective price is said to be"},
		{"an offering that the pool does not allow", func(f *forged) { f.become(f.of("db"), f.offering("r5.xlarge/us-east-1a/on-demand")) }, "does not satisfy its pool"},
		{"another capacity type than the pool's", func(f *forged) { f.become(f.of("special"), f.offering("m5.large/us-east-1a/spot")) }, "does not satisfy its pool"},
		{"too much cpu", func(f *forged) { f.bigger("disk", "cpu", 64000) }, "m is planned"},
		{"too much memory", func(f *forged) { f.bigger("disk", "memory", 1<<40) }, "memory after daemonsets"},
		{"too many pods", func(f *forged) { f.bigger("disk", "pods", 500) }, " is planned"},
		{"a device that the machine has not", func(f *forged) { f.bigger("disk", "example.com/gpu", 1) }, "0 example.com/gpu after daemonsets"},
		{"too much storage", func(f *forged) { f.bigger("disk", "ephemeral-storage", 1<<50) }, "ephemeral-storage after daemonsets"},
		{"no room left for the daemon pods", func(f *forged) { f.w.DaemonSets[0].Pod.Requests = resource.New(1<<20, 0, 1, 0) }, "after daemonsets"},
		{"daemon pods that are not counted", func(f *forged) { f.of("db").Daemons = resource.Vector{} }, "daemon pods are said to ask for"},
		{"a taint of the pool", func(f *forged) { f.pod("special-0").Tolerations = nil }, "does not tolerate taint dedicated=gpu:NoSchedule"},
		{"a requirement on the zone", func(f *forged) {
			f.pod("disk-0").Terms = []require.Set{require.NewSet(mt.Zones("nowhere"))}
		}, "asks for topology.kubernetes.io/zone In [nowhere]"},
		{"a requirement on a label of one's own", func(f *forged) {
			f.pod("special-0").Terms = []require.Set{require.NewSet(require.Must("team", require.In, "blue"))}
		}, "special-0 does not go with new node"},
		{"another pool than the pod asks for", func(f *forged) { f.move("db-0", f.of("choosy")) }, "db-0 does not go with new node"},
		{"a volume in another zone", func(f *forged) {
			n := f.of("disk")
			f.become(n, f.offering(inZone(n.Offering, otherZone(n.Offering))))
		}, "volumes"},
		{"a spread out of balance", func(f *forged) {
			n := f.of("web")
			f.become(n, f.offering(inZone(n.Offering, otherZone(n.Offering))))
		}, "topology spread"},
		{"an anti-affinity", func(f *forged) { f.move("lone-0", f.of("disk")); f.move("lone-1", f.of("disk")) }, "anti-affinity"},
		{"an anti-affinity of a running pod", func(f *forged) {
			p := f.w.Nodes[0].Pods[0]
			away(model.LabelHostname, app("here"))(p)
		}, "anti-affinity of another pod"},
		{"an affinity", func(f *forged) { f.pod("db-0").Labels = map[string]string{"app": "other"} }, "affinity: no pod that it must be near"},
		{"a host port", func(f *forged) { f.move("gate-0", f.of("disk")); f.move("gate-1", f.of("disk")) }, "port TCP 443"},
		{"more than the pool's limit", func(f *forged) { f.of("capped").Pool.Limits.Resources["cpu"] = 1000 }, "the limit leaves 1"},
		{"more nodes than the pool's limit", func(f *forged) { *f.of("capped").Pool.Limits.Nodes = 0 }, "the limit leaves 0"},
		{"an alternative beyond the pool's limit", func(f *forged) {
			n := f.of("capped")
			n.Requirements = require.Set{}
			n.Alternatives = append(slices.Clone(n.Alternatives), f.offering(inZone(f.offering("m5.2xlarge/us-east-1a/on-demand"), n.Offering.Zone)))
		}, "the limit leaves"},
		{"fewer choices than minValues", func(f *forged) { f.of("choosy").Alternatives = nil }, "minValues is 2"},
		{"an alternative that the pool does not allow", func(f *forged) {
			n := f.of("db")
			n.Alternatives = append(slices.Clone(n.Alternatives), f.offering("r5.xlarge/"+n.Offering.Zone+"/on-demand"))
		}, "does not satisfy its pool"},
		{"an alternative that is too small", func(f *forged) {
			n := f.of("disk")
			f.become(n, f.offering("m5.2xlarge/"+n.Offering.Zone+"/on-demand"))
			f.bigger("disk", "cpu", 5000)
			n.Alternatives = []*model.Offering{f.offering("m5.xlarge/" + n.Offering.Zone + "/on-demand")}
		}, "m5.xlarge/us-east-1b/on-demand offers 3820m cpu after daemonsets"},
		{"an alternative of another capacity type", func(f *forged) {
			n := f.of("db")
			n.Alternatives = append(slices.Clone(n.Alternatives), f.offering(n.Offering.Type.Name+"/"+n.Offering.Zone+"/spot"))
		}, "has another capacity type"},
		{"an alternative in a zone that the neighbours do not allow", func(f *forged) {
			n := f.of("web")
			n.Requirements = require.Set{}
			n.Alternatives = append(slices.Clone(n.Alternatives), f.offering(inZone(n.Offering, otherZone(n.Offering))))
		}, "its pods' neighbours do not allow"},
		{"an alternative that the claim does not ask for", func(f *forged) {
			n := f.of("capped")
			n.Requirements = n.Requirements.With(mt.Zones(n.Offering.Zone))
			n.Alternatives = []*model.Offering{f.offering(inZone(n.Offering, otherZone(n.Offering)))}
		}, "its claim does not allow"},
		{"an alternative that nobody offers", func(f *forged) {
			o := *f.of("db").Offering
			f.of("db").Alternatives = []*model.Offering{&o}
		}, "is not offered by node class"},
		{"an alternative that is not available", func(f *forged) {
			n := f.of("choosy")
			n.Alternatives[0].Available, n.Alternatives[0].Unavailable = false, "short"
		}, "is not available: short"},
		{"an alternative that is too dear", func(f *forged) {
			n := f.of("capped")
			f.w.Settings.AlternativesMaxRatio = 1.01
			n.Requirements = require.Set{}
			o := f.offering(inZone(n.Offering, otherZone(n.Offering)))
			f.price("capped", o).USDPerHour = n.Effective * 1.2
			n.Alternatives = []*model.Offering{o}
		}, "more than 1.01 times the best"},
		{"an offering named twice", func(f *forged) {
			n := f.of("db")
			n.Alternatives = []*model.Offering{n.Offering}
		}, "twice"},
		{"more than 60 alternatives", func(f *forged) {
			f.of("db").Alternatives = f.w.Offerings[mt.Class][:61]
		}, "at most 60 are allowed"},
		{"a cordoned node", func(f *forged) { f.w.Nodes[0].Cordoned = true }, "node n1 takes no pods"},
		{"a node that is being removed", func(f *forged) {
			f.w.Nodes[0].Taints = []model.Taint{{Key: model.TaintDisrupted, Effect: model.NoSchedule}}
		}, "node n1 takes no pods"},
		{"a taint of a node", func(f *forged) {
			f.w.Nodes[0].Taints = []model.Taint{{Key: "maintenance", Effect: model.NoExecute}}
		}, "does not tolerate taint maintenance"},
		{"a label that the node has not", func(f *forged) { delete(f.w.Nodes[0].Labels, "own") }, "does not go with node n1"},
		{"more than the node has left", func(f *forged) { f.w.Nodes[0].Pods[0].Requests.Base[0] = 900 }, "node n1 has 0 cpu left"},
		{"one node filled twice", func(f *forged) {
			p := f.plan.Placements[0]
			f.plan.Placements = []model.Placement{{Node: p.Node, Pods: p.Pods[:1]}, {Node: p.Node, Pods: p.Pods[1:]}}
		}, "two placements"},
		{"a node that there is not", func(f *forged) { f.plan.Placements[0].Node = mt.Node("x", 9000, 9000, nil) }, "not of this world"},
		{"a node that is nil", func(f *forged) { f.plan.Placements[0].Node = nil }, "not of this world"},
		{"a sum of requests that is not true", func(f *forged) { f.of("db").Requests.Base[0]-- }, "its requests are said to be"},
		{"a label that is not true", func(f *forged) {
			n := f.of("web")
			n.Labels = maps.Clone(n.Labels)
			n.Labels[model.LabelZone] = otherZone(n.Offering)
		}, "its label topology.kubernetes.io/zone is said to be"},
		{"a label of the pool that is missing", func(f *forged) { f.of("db").Pool.Labels["cost"] = "7" }, "its label cost"},
		{"a name that another node has", func(f *forged) { f.plan.Launch[1].Name = f.plan.Launch[0].Name }, "that of another new node"},
		{"a node for nobody", func(f *forged) {
			n := *f.of("choosy")
			n.Name, n.Pods, n.Requests = "empty", nil, resource.Vector{}
			f.plan.Launch = append(f.plan.Launch, &n)
		}, "is for no pod"},
		{"a static pool", func(f *forged) { n := int64(3); f.of("db").Pool.Static = &n }, "the pool is static"},
		{"a pool that is being deleted", func(f *forged) { f.of("db").Pool.Deleting = true }, "being deleted"},
		{"a pool that nothing may be bought for", func(f *forged) { f.of("db").Pool.Unusable = "its node class is gone" }, "its node class is gone"},
		{"more of a reservation than is left", func(f *forged) {
			o := f.of("db").Offering
			o.ReservationID, o.Count = "cr-1", 0
		}, "reservation cr-1 has 0 left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := forge(t)
			c.spoil(f)
			var all []string
			for _, err := range engine.CheckPriced(f.w, f.plan, f.prices) {
				all = append(all, err.Error())
			}
			if !strings.Contains(strings.Join(all, "\n"), c.words) || len(all) == 0 {
				t.Errorf("want a fault with %q, got\n%s", c.words, strings.Join(all, "\n"))
			}
		})
	}
}

// TestCheckRefusesDrawnCorruptions spoils the plans of drawn worlds, too: whatever
// rules the world has, these are never right.
func TestCheckRefusesDrawnCorruptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(d dice, p *model.Plan) bool // false: there is nothing of the kind to spoil
	}{
		{"a pod lost", func(d dice, p *model.Plan) bool {
			if len(p.Launch) == 0 {
				return false
			}
			n := one(d, p.Launch...)
			n.Requests = n.Requests.Sub(n.Pods[0].Requests)
			n.Pods = n.Pods[1:]
			return true
		}},
		{"a verdict lost", func(d dice, p *model.Plan) bool {
			if len(p.Unplaced) == 0 {
				return false
			}
			p.Unplaced = p.Unplaced[1:]
			return true
		}},
		{"a node taken out", func(d dice, p *model.Plan) bool {
			if len(p.Launch) == 0 {
				return false
			}
			p.Launch = p.Launch[1:]
			return true
		}},
		{"a pod without a place put on a node that others have", func(d dice, p *model.Plan) bool {
			if len(p.Placements) == 0 || len(p.Unplaced) == 0 {
				return false
			}
			p.Placements[0].Pods = append(slices.Clone(p.Placements[0].Pods), p.Unplaced[0].Pod)
			return true
		}},
		{"a machine that is gone", func(d dice, p *model.Plan) bool {
			if len(p.Launch) == 0 {
				return false
			}
			n := one(d, p.Launch...)
			o := *n.Offering
			o.Available = false
			n.Offering = &o
			return true
		}},
		{"all pods of two nodes on one", func(d dice, p *model.Plan) bool {
			if len(p.Launch) < 2 {
				return false
			}
			a, b := p.Launch[0], p.Launch[1]
			for range 40 { // more than any machine holds
				a.Pods = append(a.Pods, b.Pods...)
				a.Requests = a.Requests.Add(b.Requests)
			}
			p.Launch = slices.Delete(p.Launch, 1, 2)
			return true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spoilt := 0
			for seed := range uint64(100) {
				d := seeded(seed)
				w := proofWorld(d)
				p := planOf(engine.Place(w, nil))
				if !c.spoil(d, p) {
					continue
				}
				spoilt++
				if len(engine.Check(w, p)) == 0 {
					t.Errorf("seed %d: the spoilt plan passes", seed)
				}
			}
			if spoilt < 10 {
				t.Errorf("only %d plans could be spoilt", spoilt)
			}
		})
	}
}
