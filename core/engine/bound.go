package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/weir-project/weir/core/model"
)

// weights are prices of one milli-CPU, one byte and one pod, up to a common
// factor: a point of the dual of the fractional problem.
type weights [numPriced]float64

func (y weights) of(size []int64) float64 {
	return y[dimCPU]*float64(size[dimCPU]) + y[dimMemory]*float64(size[dimMemory]) + y[dimPods]*float64(size[dimPods])
}

// dual evaluates, for weights y, the share of the bill that each group must carry:
// the weight of its pods times the least price per weight among the options that
// may hold such a pod. Their sum never exceeds the price of a legal plan: a node
// of price p with room a carries pods of weight at most y·a, each counted at most
// at p/(y·a).
type dual struct {
	groups  []*group
	options []*option
	real    bool // real money rather than effective prices
	rank    []ranked
	counts  []float64
}

type ranked struct {
	perWeight float64
	opt       *option
}

func newDual(groups []*group, left []int64, options []*option, real bool) *dual {
	d := &dual{groups: groups, options: options, real: real, rank: make([]ranked, len(options)), counts: make([]float64, len(groups))}
	for i := range groups {
		d.counts[i] = float64(left[i])
	}
	return d
}

// each calls f with the value of one pod of each group that some option may hold,
// USD per hour.
func (d *dual) each(y weights, f func(i int, value float64)) {
	for i, o := range d.options {
		price := o.lasting()
		if d.real {
			price = o.usd
		}
		per := math.Inf(1)
		if w := y.of(o.room); w > 0 {
			per = price / w
		}
		d.rank[i] = ranked{per, o}
	}
	slices.SortFunc(d.rank, func(a, b ranked) int { return cmp.Compare(a.perWeight, b.perWeight) })
	for i, g := range d.groups {
		if d.counts[i] == 0 {
			continue
		}
		for _, r := range d.rank {
			if r.opt.allows(g.spec) && r.opt.fits(g.size) {
				if v := y.of(g.size) * r.perWeight; !math.IsInf(v, 0) && !math.IsNaN(v) {
					f(i, v)
				}
				break
			}
		}
	}
}

func (d *dual) total(y weights) float64 {
	sum := 0.0
	d.each(y, func(i int, v float64) { sum += d.counts[i] * v })
	return sum
}

// maximise searches the directions of y: memory and pods in relation to a vCPU.
// Every y gives a valid bound, so that how well it searches is a matter of
// tightness only.
func (d *dual) maximise() (float64, weights) {
	const vCPU, giB = 1e-3, 1.0 / (1 << 30)
	best, at := 0.0, weights{vCPU, giB / 8, 0}
	try := func(y weights) {
		if v := d.total(y); v > best {
			best, at = v, y
		}
	}
	for i := -24; i <= 16; i += 2 {
		for _, s := range []float64{0, 0.003, 0.03} {
			try(weights{vCPU, giB * math.Exp2(float64(i)/4), s})
		}
	}
	for step := 0.4; step > 1e-4; step /= 2 {
		for range 4 {
			before := best
			for _, m := range []float64{1 - step, 1 + step} {
				c := at
				try(weights{c[0], c[1] * m, c[2]})
				c = at
				if c[2] == 0 {
					try(weights{c[0], c[1], 0.001 * step * m})
				} else {
					try(weights{c[0], c[1], c[2] * m})
				}
			}
			if best == before {
				break
			}
		}
	}
	return best, at
}

// Bound is a price, USD per hour in real money, that no legal plan for the pods on
// new nodes alone can go below. Pods that no new node can hold count nothing.
func Bound(w *model.World, pods []*model.Pod) float64 { return bound(w, nil, pods) }

// bound leaves out what strategies forbid.
func bound(w *model.World, prices *model.Prices, pods []*model.Pod) float64 {
	pr := compileLoosely(w, prices, pods)
	left := make([]int64, len(pr.groups))
	for i, g := range pr.groups {
		left[i] = int64(g.units())
	}
	b, _ := newDual(pr.groups, left, pr.options(pr.pools, pr.groups), true).maximise()
	return b
}

// proven is the bound for so many units of each group at the weights that were found
// when the plan was made. Every machine counts that a plan may name, also one that
// the packing would not take.
func (pr *problem) proven(placed []int64, y weights) float64 {
	pr.loose = true
	defer func() { pr.loose = false }()
	return newDual(pr.groups, placed, pr.options(pr.pools, waiting(pr.groups, placed)), true).total(y)
}
