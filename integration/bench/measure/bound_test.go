package measure_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/workload"
)

// Bounds that share nothing with the engine: floating point, straight from the
// catalogue, by definition. With y the price of a unit of each resource and p and a
// the price and the room of an offering:
//
//	volume  the dearest resource alone: max over r of demand_r × min p/a_r
//	linear  max demand·y, y such that a·y ≤ p for every offering
//	fit     max sum over pods of w·y × min p/(a·y) over the offerings that the pod's
//	        selector allows and that the whole pod fits on

type amounts [3]float64 // vCPU, GiB, pods

func (a amounts) times(y amounts) float64 { return a[0]*y[0] + a[1]*y[1] + a[2]*y[2] }

type machine struct {
	price float64
	room  amounts
}

// market lists, of each type that a pool allows, the cheapest offering that a
// selector allows.
func market(t *testing.T, pool string, selector map[string]string) []machine {
	t.Helper()
	var out []machine
	for _, x := range catalogue.Embedded().Types {
		generation, err := strconv.Atoi(x.Labels["instance-generation"])
		if err != nil || generation <= 2 || !slices.Contains([]string{"c", "m", "r"}, x.Labels["instance-category"]) || pool == "cmr32" && x.VCPU > 32 {
			continue
		}
		if arch, asked := selector["kubernetes.io/arch"]; asked && arch != x.Arch {
			continue
		}
		m := machine{price: math.Inf(1)}
		kind := selector["karpenter.sh/capacity-type"]
		if kind != "spot" {
			m.price = x.OnDemandUSD
		}
		for _, zone := range catalogue.DefaultZones {
			if z, asked := selector["topology.kubernetes.io/zone"]; kind != "on-demand" && (!asked || z == zone) {
				m.price = min(m.price, catalogue.SyntheticSpot(x.OnDemandUSD, x.Name, zone))
			}
		}
		for i, name := range []string{"cpu", "memory", "pods"} {
			q, err := resource.ParseQuantity(x.Allocatable[name])
			if err != nil {
				t.Fatal(err)
			}
			m.room[i] = q.AsApproximateFloat64()
		}
		m.room[1] /= 1 << 30
		out = append(out, m)
	}
	return out
}

type class struct {
	size    amounts
	n       float64
	markets string
}

type bounds struct{ volume, linear, fit float64 }

func independent(t *testing.T, pods []workload.Pod, pool string) bounds {
	t.Helper()
	classes := map[string]*class{}
	markets := map[string][]machine{}
	var demand amounts
	for _, p := range pods {
		size := amounts{float64(p.CPU) / 1000, float64(p.Memory) / 1024, 1}
		for i := range demand {
			demand[i] += size[i]
		}
		sel := fmt.Sprint(p.Selector)
		k := fmt.Sprint(sel, p.CPU, p.Memory)
		if classes[k] == nil {
			classes[k] = &class{size: size, markets: sel}
		}
		classes[k].n++
		if markets[sel] == nil {
			markets[sel] = market(t, pool, p.Selector)
		}
	}
	all := market(t, pool, nil)
	var b bounds
	for i, d := range demand {
		least := math.Inf(1)
		for _, m := range all {
			least = min(least, m.price/m.room[i])
		}
		b.volume = max(b.volume, d*least)
	}
	b.linear = climb(func(y amounts) float64 {
		least := math.Inf(1)
		for _, m := range all {
			least = min(least, m.price/m.room.times(y))
		}
		return least * demand.times(y)
	})
	b.fit = climb(func(y amounts) float64 { return fit(classes, markets, y) })
	return b
}

func fit(classes map[string]*class, markets map[string][]machine, y amounts) float64 {
	type rated struct {
		machine
		rate float64
	}
	byRate := map[string][]rated{}
	for k, ms := range markets {
		for _, m := range ms {
			byRate[k] = append(byRate[k], rated{m, m.price / m.room.times(y)})
		}
		slices.SortFunc(byRate[k], func(a, b rated) int { return cmp.Compare(a.rate, b.rate) })
	}
	total := 0.0
	for _, c := range classes {
		rs := byRate[c.markets]
		if i := slices.IndexFunc(rs, func(r rated) bool { return c.size[0] <= r.room[0] && c.size[1] <= r.room[1] }); i >= 0 {
			total += c.n * c.size.times(y) * rs[i].rate
		}
	}
	return total
}

// climb maximises over the directions of y: a vCPU counts 1. A grid, then ever smaller
// steps around the best.
func climb(f func(amounts) float64) float64 {
	best, at := 0.0, amounts{}
	try := func(y amounts) {
		if v := f(y); v > best {
			best, at = v, y
		}
	}
	for i := -24; i <= 16; i++ {
		for _, pod := range []float64{0, 0.001, 0.01, 0.1} {
			try(amounts{1, math.Exp2(float64(i) / 4), pod})
		}
	}
	for step := 0.1; step > 1e-4; step /= 2 {
		for range 6 {
			c := at
			for _, m := range []float64{1 - step, 1 + step} {
				try(amounts{1, c[1] * m, c[2]})
				try(amounts{1, c[1], c[2] * m})
			}
		}
	}
	return best
}

// The published bounds at shift 0: without them a mistake in this file would hide one
// in the engine.
func TestIndependentBoundsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	for key, want := range map[[2]string]bounds{
		{"b", "cmr"}:   {7.2678, 8.2122, 8.2122},
		{"b", "cmr32"}: {7.2678, 8.2809, 8.2809},
		{"c", "cmr"}:   {35.4516, 38.6687, 40.3988},
		{"c", "cmr32"}: {35.4516, 38.9026, 40.6150},
		{"e", "cmr32"}: {434.7698, 495.1907, 497.4428},
	} {
		t.Run(key[0]+" "+key[1], func(t *testing.T) {
			t.Parallel()
			pods, err := workload.Pods(key[0], 0)
			if err != nil {
				t.Fatal(err)
			}
			got := independent(t, pods, key[1])
			for _, x := range []struct {
				name      string
				got, want float64
			}{{"volume", got.volume, want.volume}, {"linear", got.linear, want.linear}, {"fit", got.fit, want.fit}} {
				if math.Abs(x.got-x.want) > 1e-3*x.want {
					t.Errorf("%s is %.4f, want %.4f", x.name, x.got, x.want)
				}
			}
		})
	}
}

// The engine's bound is proven only if no plan is below it, and of use only if it is
// as tight as the independent one.
func TestBoundIsTightAndBelowThePlan(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"b", "c", "d", "e"} {
		for _, pool := range []string{"cmr", "cmr32"} {
			for _, shift := range []uint64{0, 7} {
				if testing.Short() && (name == "d" || name == "e" || shift > 0) {
					continue
				}
				t.Run(fmt.Sprint(name, " ", pool, " ", shift), func(t *testing.T) {
					t.Parallel()
					w := world(t, &measure.Question{Workload: name, Pool: pool, Shift: shift})
					plan := provision.Plan(w, nil)
					if len(plan.Unplaced) > 0 {
						t.Fatalf("%d pods have no place, such as %s: %v", len(plan.Unplaced), plan.Unplaced[0].Pod.ID(), plan.Unplaced[0].Reasons)
					}
					price := 0.0
					for _, n := range plan.Launch {
						price += n.Offering.USDPerHour
					}
					pods, err := workload.Pods(name, shift)
					if err != nil {
						t.Fatal(err)
					}
					want := independent(t, pods, pool).fit
					for what, bound := range map[string]float64{"engine.Bound": engine.Bound(w, w.Pods), "the plan's bound": plan.LowerBoundUSDPerHour} {
						if bound < want*(1-1e-4) {
							t.Errorf("%s is %.4f, looser than the independent %.4f", what, bound, want)
						}
						if bound > price+1e-9 {
							t.Errorf("%s is %.4f, above the price of a legal plan, %.4f", what, bound, price)
						}
					}
				})
			}
		}
	}
}

func world(t testing.TB, q *measure.Question) *model.World {
	t.Helper()
	w, err := q.World(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return w
}
