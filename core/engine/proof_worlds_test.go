package engine_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// dice draws numbers, from a seed or from the bytes of a fuzzer.
type dice struct{ next func() uint64 }

// first moves all drawn worlds, for a hunt in worlds that nobody has seen:
//
//	go test ./core/engine -run 'Check|Order|Trails|Limit' -first 1000000
var first = flag.Uint64("first", 0, "added to the seeds of drawn worlds")

func seeded(seed uint64) dice { return dice{rand.New(rand.NewPCG(*first+seed, 7)).Uint64} }

// fromBytes reads two bytes for each number; when they are used up it draws zeros.
func fromBytes(b []byte) dice {
	return dice{func() uint64 {
		var x [2]byte
		b = b[copy(x[:], b):]
		return uint64(binary.BigEndian.Uint16(x[:]))
	}}
}

// n draws one of 0..k-1.
func (d dice) n(k int) int { return int(d.next() % uint64(k)) }

// in says yes once in k times.
func (d dice) in(k int) bool { return d.n(k) == k-1 }

func one[T any](d dice, of ...T) T { return of[d.n(len(of))] }

// Labels of the drawn worlds.
const (
	family  = model.AWSLabelDomain + "/instance-family"
	proofB  = "us-east-1b"
	devices = "example.com/device"
)

var proofZones = []string{"us-east-1a", proofB, "us-east-1c"}

// proofTypes is a small catalogue: three families, sizes 1 to 8, arm and amd64, with
// devices on some.
func proofTypes(d dice) []*model.InstanceType {
	var out []*model.InstanceType
	for _, f := range []struct {
		name, arch string
		mib        int64
	}{{"m", "amd64", 4096}, {"c", "amd64", 2048}, {"g", "arm64", 4096}} {
		for _, size := range []int64{1, 2, 4, 8} {
			if d.in(4) && len(out) > 2 {
				continue
			}
			name := fmt.Sprintf("%s%d.x", f.name, size)
			room := resource.New(size*1000-70, size*f.mib<<20-(300<<20), one(d, 8+4*size, 110), 20<<30)
			t := &model.InstanceType{Name: name, Capacity: resource.New(size*1000, size*f.mib<<20, room.Base[2], 20<<30), MemoryFrom: "estimated", Labels: map[string]string{
				model.LabelInstanceType: name, model.LabelArch: f.arch, model.LabelOS: "linux", family: f.name,
				model.AWSLabelDomain + "/instance-cpu": fmt.Sprint(size), model.AWSLabelDomain + "/instance-size": fmt.Sprintf("%dx", size)}}
			if d.in(6) {
				room, t.Capacity = room.With(devices, 2), t.Capacity.With(devices, 2)
			}
			t.Allocatable = room
			out = append(out, t)
		}
	}
	return out
}

func proofOfferings(d dice) []*model.Offering {
	var out []*model.Offering
	for _, t := range proofTypes(d) {
		usd := float64(t.Capacity.Base[0])/1000*0.04 + float64(t.Capacity.Base[1])/(1<<30)*0.005
		for _, z := range proofZones {
			for _, c := range []string{model.OnDemand, model.Spot} {
				o := &model.Offering{Type: t, Zone: z, CapacityType: c, USDPerHour: usd * (1 + float64(d.n(20))/100), PriceSource: "list", Available: !d.in(8)}
				if c == model.Spot {
					o.USDPerHour *= 0.3 + float64(d.n(40))/100
				}
				if !o.Available {
					o.Unavailable = "no capacity was found here lately"
				}
				out = append(out, o)
			}
		}
	}
	return out
}

func proofPool(d dice, i int) *model.Pool {
	var reqs []require.Requirement
	if d.in(3) {
		reqs = append(reqs, mt.Zones(proofZones[:1+d.n(3)]...))
	}
	if d.in(3) {
		reqs = append(reqs, mt.CapacityType(one(d, model.OnDemand, model.Spot)))
	}
	if d.in(3) {
		reqs = append(reqs, one(d, require.Must(model.LabelArch, require.In, "amd64"), require.Must(model.LabelArch, require.NotIn, "arm64"), require.Must(family, require.In, "m", "c"),
			require.Must(model.AWSLabelDomain+"/instance-cpu", require.Gt, "1"), require.Must(model.AWSLabelDomain+"/instance-cpu", require.Lt, "8")))
	}
	if d.in(3) {
		reqs = append(reqs, one(d, require.Must("team", require.In, "red", "blue"), require.Must("team", require.Exists), require.Must("team", require.NotIn, "red"), require.Must("rack", require.In, "r1", "r2")))
	}
	if d.in(6) {
		r := require.Must(one(d, model.LabelInstanceType, family, model.LabelZone), require.Exists)
		r.MinValues = 2
		reqs = append(reqs, r)
	}
	p := mt.Pool(fmt.Sprintf("pool%d", i), reqs...)
	p.Weight = int32(one(d, 0, 0, 10))
	if d.in(4) {
		p.Taints = []model.Taint{{Key: "dedicated", Value: "gpu", Effect: one(d, model.NoSchedule, model.NoExecute, model.PreferNoSchedule)}}
	}
	if d.in(6) {
		p.StartupTaints = []model.Taint{{Key: "agent", Effect: model.NoSchedule}}
	}
	if d.in(3) {
		p.Limits.Resources = map[string]int64{one(d, "cpu", "cpu", "memory"): int64(1+d.n(16)) * 1000}
		if m, ok := p.Limits.Resources["memory"]; ok {
			p.Limits.Resources["memory"] = m << 22
		}
	}
	if d.in(5) {
		n := int64(d.n(5))
		p.Limits.Nodes = &n
	}
	switch d.n(24) {
	case 21:
		n := int64(1)
		p.Static = &n
	case 22:
		p.Deleting = true
	case 23:
		p.Unusable = "its node class does not exist"
	}
	return p
}

var proofApps = []string{"a", "b", "c", "d"}

// proofRules draws what a pod asks of its node and of the pods around it.
func proofRules(d dice, name string) []func(*model.Pod) {
	opts := []func(*model.Pod){is(name)}
	for range d.n(3) {
		other := app(one(d, proofApps...))
		key := one(d, model.LabelZone, model.LabelHostname, model.LabelCapacityType, "rack")
		switch d.n(16) {
		case 0, 1, 2:
			s := model.Spread{Key: key, MaxSkew: int64(1 + d.n(2)), Selector: app(name), HonorAffinity: !d.in(3), HonorTaints: d.in(3)}
			if d.in(4) {
				s.MinDomains = int64(1 + d.n(4))
			}
			opts = append(opts, func(p *model.Pod) { topo(p).Spreads = append(topo(p).Spreads, s) })
		case 3, 4:
			opts = append(opts, away(key, other))
		case 5:
			opts = append(opts, near(key, other))
		case 6:
			h := model.HostPort{Protocol: one(d, "TCP", "UDP"), Port: int32(80 + d.n(2)), IP: one(d, "", "10.0.0.1", "10.0.0.2")}
			opts = append(opts, func(p *model.Pod) { topo(p).HostPorts = append(topo(p).HostPorts, h) })
		case 7:
			opts = append(opts, mt.Requires(mt.Zones(one(d, proofZones...))))
		case 8:
			opts = append(opts, mt.Requires(mt.CapacityType(one(d, model.Spot, model.OnDemand))), mt.Requires(require.Must(model.LabelArch, require.In, one(d, "amd64", "arm64"))))
		case 9:
			opts = append(opts, mt.Requires(one(d, require.Must("team", require.In, one(d, "red", "blue")), require.Must("team", require.DoesNotExist), require.Must("team", require.NotIn, "red"), require.Must("rack", require.In, "r1", "r2"))))
		case 10, 11:
			opts = append(opts, mt.Tolerates(one(d, model.Toleration{Operator: "Exists"}, model.Toleration{Key: "dedicated", Value: "gpu"}, model.Toleration{Key: "dedicated", Operator: "Exists", Effect: model.NoSchedule})))
		case 12:
			terms := []require.Set{require.NewSet(mt.Zones(one(d, proofZones...)))}
			if d.in(2) {
				terms = append(terms, require.NewSet(mt.Zones(proofB)))
			}
			opts = append(opts, func(p *model.Pod) { topo(p).VolumeTerms = terms })
		case 13:
			opts = append(opts, func(p *model.Pod) { p.Requests = p.Requests.With(devices, int64(1)) })
		case 14:
			opts = append(opts, func(p *model.Pod) { p.Requests.Base[resource.Storage] = 3 << 30 })
		case 15:
			switch d.n(6) {
			case 3:
				opts = append(opts, func(p *model.Pod) { p.Invalid = "label x is restricted" })
			case 4:
				opts = append(opts, func(p *model.Pod) { p.Ignore = true })
			case 5:
				opts = append(opts, func(p *model.Pod) {
					p.Unsupported = []model.Unsupported{{Filter: model.FilterVolumes, Message: "its volume claim does not exist"}}
				})
			}
		}
	}
	return opts
}

// wishes draws preferences and a priority.
func wishes(d dice) func(*model.Pod) {
	weight, zone, other, priority := int32(1+d.n(100)), one(d, proofZones...), app(one(d, proofApps...)), int32(0)
	if d.in(3) {
		priority = int32(1000 * d.n(3))
	}
	kind := d.n(12)
	return func(p *model.Pod) {
		p.Priority = priority
		switch kind {
		case 0:
			p.Preferred = []model.Preference{{Weight: weight, Set: require.NewSet(mt.Zones(zone))}}
		case 1:
			p.Soft = &model.Soft{AntiAffinity: []model.WeightedTerm{{Weight: weight, PodTerm: model.PodTerm{Key: model.LabelHostname, Selector: other}}}}
		case 2:
			p.Soft = &model.Soft{Spreads: []model.Spread{{Key: model.LabelZone, MaxSkew: 1, Selector: other, HonorAffinity: true}}}
		case 3:
			p.Soft = &model.Soft{Affinity: []model.WeightedTerm{{Weight: weight, PodTerm: model.PodTerm{Key: model.LabelZone, Selector: other}}}}
		}
	}
}

func proofNode(d dice, i int) *model.Node {
	name := fmt.Sprintf("n%d", i)
	labels := map[string]string{model.LabelZone: one(d, proofZones...), model.LabelCapacityType: one(d, model.Spot, model.OnDemand), model.LabelInstanceType: "m4.x", family: "m"}
	if d.in(4) {
		labels["rack"] = "r1"
	}
	n := mt.Node(name, int64(1000*(1+d.n(8))), int64(2048*(1+d.n(8))), labels)
	if d.in(2) {
		mt.Managed(fmt.Sprintf("pool%d", d.n(3)))(n)
	}
	var running []*model.Pod
	for j := range d.n(3) {
		a := one(d, proofApps...)
		opts := []func(*model.Pod){is(a)}
		switch d.n(5) {
		case 3:
			opts = append(opts, away(one(d, model.LabelZone, model.LabelHostname), app(one(d, proofApps...))))
		case 4:
			opts = append(opts, port(80))
		}
		running = append(running, mt.Pod(fmt.Sprintf("r%d-%d", i, j), int64(100*d.n(6)), int64(100*d.n(6)), opts...))
	}
	mt.Running(running...)(n)
	switch d.n(12) {
	case 8:
		n.Cordoned = true
	case 9:
		n.Taints = []model.Taint{{Key: "dedicated", Value: "gpu", Effect: model.NoSchedule}}
	case 10:
		n.Taints = []model.Taint{{Key: model.TaintDisrupted, Effect: model.NoSchedule}}
	case 11:
		if n.Claim != nil { // launched, not joined
			n.Name, n.UID, n.Pods = "", "", nil
			n.Claim.Conditions = []model.Condition{{Type: model.CondLaunched, Status: "True"}}
			delete(n.Labels, model.LabelHostname)
		}
	}
	return n
}

// proofWorld draws a cluster that may use every rule there is.
func proofWorld(d dice) *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	w := &model.World{Now: mt.Now, NodeClasses: map[string]*model.NodeClass{mt.Class: class}, Offerings: map[string][]*model.Offering{mt.Class: proofOfferings(d)}}
	for i := range 1 + d.n(3) {
		w.Pools = append(w.Pools, proofPool(d, i))
	}
	for i := range d.n(5) {
		w.Nodes = append(w.Nodes, proofNode(d, i))
	}
	soft := d.in(3)
	for i := range 1 + d.n(6) {
		opts := proofRules(d, one(d, proofApps...))
		if soft {
			opts = append(opts, wishes(d))
		}
		opts = append(opts, func(p *model.Pod) { p.Created = p.Created.Add(-time.Duration(len(p.Name)) * time.Second) })
		w.Pods = append(w.Pods, mt.Pods(1+d.n(8), fmt.Sprintf("p%d", i), int64(50*(1+d.n(60))), int64(64*d.n(90)), opts...)...)
	}
	for i := range d.n(3) {
		opts := []func(*model.Pod){is("daemon")}
		switch d.n(5) {
		case 2:
			opts = append(opts, mt.Requires(require.Must(model.LabelArch, require.In, "amd64")))
		case 3:
			opts = append(opts, mt.Requires(require.Must(model.AWSLabelDomain+"/instance-cpu", require.Gt, "2")), mt.Requires(mt.Zones("us-east-1c")))
		case 4:
			opts = append(opts, port(80))
		}
		w.DaemonSets = append(w.DaemonSets, mt.DaemonSet(fmt.Sprintf("d%d", i), int64(50*(1+d.n(4))), int64(64*d.n(4)), opts...))
	}
	w.Settings.MinValuesBestEffort = d.in(4)
	w.Settings.IgnorePreferences = d.in(3)
	return w
}

// proofPrices draws what strategies say: nothing, a fee, or a price for each offering.
func proofPrices(d dice, w *model.World) *model.Prices {
	if d.in(3) {
		return nil
	}
	out := &model.Prices{ByPool: map[string]model.PoolPrices{}}
	for _, p := range w.Pools {
		pp := model.PoolPrices{Strategy: "drawn", Outcome: "ok", FeePerNode: one(d, 0, 0.0222), PreferLarge: d.in(6)}
		if d.in(2) {
			for _, o := range w.Offerings[p.NodeClass.Name] {
				x := model.Price{USDPerHour: o.USDPerHour * (1 + float64(d.n(10))/10)}
				if d.in(10) {
					x.Veto = "not this one"
				}
				pp.Offerings = append(pp.Offerings, x)
			}
		}
		out.ByPool[p.Name] = pp
	}
	return out
}
