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

// holders says which options may hold a unit of which groups. Groups that the same
// options may hold are one class: what they weigh together is all that a bound asks.
type holders struct {
	groups  []*group
	options []*option
	class   []int32  // by group: index into by, -1 = no units, or no option
	by      []bitset // options, by class
}

// newHolders looks at the groups that have units left.
func newHolders(groups []*group, left []int64, options []*option) *holders {
	h := &holders{groups: groups, options: options, class: make([]int32, len(groups))}
	ids := map[string]int32{}
	b := newBits(len(options))
	for i, g := range groups {
		h.class[i] = -1
		if left[i] == 0 {
			continue
		}
		clear(b)
		for j, o := range options {
			if o.allows(g.spec) && o.fits(g.size) {
				b.set(j)
			}
		}
		if b.empty() {
			continue
		}
		k := b.key()
		id, ok := ids[k]
		if !ok {
			id = int32(len(h.by))
			ids[k] = id
			h.by = append(h.by, b.clone())
		}
		h.class[i] = id
	}
	return h
}

// dual evaluates, for weights y, the share of the bill that each group must carry:
// the weight of its units times the least price per weight among the options that
// may hold such a unit. Their sum never exceeds the price of a legal plan: a node
// of price p with room a carries pods of weight at most y·a, each counted at most
// at p/(y·a).
type dual struct {
	*holders
	price  []float64            // by option, USD per hour
	demand [][numPriced]float64 // by class: what its units ask for together
	rate   []float64            // price per weight, by option
	rank   []int32              // options, the lowest rate first
	least  []float64            // rate of the cheapest option, by class
	few    bitset               // options of which there is a number: reservations; nil = none
}

// newDual is for so many units of each group, in real money or in effective prices.
func newDual(h *holders, left []int64, real bool) *dual {
	d := &dual{holders: h, price: make([]float64, len(h.options)), demand: make([][numPriced]float64, len(h.by)),
		rate: make([]float64, len(h.options)), rank: make([]int32, len(h.options)), least: make([]float64, len(h.by))}
	for i, o := range h.options {
		d.price[i] = o.lasting()
		if real {
			d.price[i] = o.usd
		}
		d.rank[i] = int32(i)
		if o.count >= 0 {
			if d.few == nil {
				d.few = newBits(len(h.options))
			}
			d.few.set(i)
		}
	}
	d.count(left)
	return d
}

// count takes other numbers of units.
func (d *dual) count(left []int64) {
	clear(d.demand)
	for i, c := range d.class {
		if c < 0 || left[i] == 0 {
			continue
		}
		for j := range d.demand[c] {
			d.demand[c][j] += float64(left[i]) * float64(d.groups[i].size[j])
		}
	}
}

// order finds the least rate of every class.
func (d *dual) order(y weights) {
	for i, o := range d.options {
		d.rate[i] = math.Inf(1)
		if w := y.of(o.room); w > 0 {
			d.rate[i] = d.price[i] / w
		}
	}
	d.sort()
	for c, b := range d.by {
		d.least[c] = 0
		if i := d.cheapest(b); i >= 0 {
			if r := d.rate[i]; !math.IsInf(r, 0) && !math.IsNaN(r) {
				d.least[c] = r
			}
		}
	}
}

// cheapest is the option of a class with the least rate; one of which there are only
// so many comes after those that can be had without end.
func (d *dual) cheapest(class bitset) int {
	few := -1
	for _, i := range d.rank {
		switch {
		case !class.has(int(i)):
		case d.few == nil || !d.few.has(int(i)):
			return int(i)
		case few < 0:
			few = int(i)
		}
	}
	return few
}

// sort ranks the options. The last ranking is nearly right where the weights have
// changed little; where they have not, it gives up.
func (d *dual) sort() {
	moves := 8 * len(d.rank)
	for i := 1; i < len(d.rank); i++ {
		for j := i; j > 0 && d.rate[d.rank[j]] < d.rate[d.rank[j-1]]; j-- {
			d.rank[j], d.rank[j-1] = d.rank[j-1], d.rank[j]
			moves--
		}
		if moves < 0 {
			slices.SortFunc(d.rank, func(a, b int32) int { return cmp.Or(cmp.Compare(d.rate[a], d.rate[b]), cmp.Compare(a, b)) })
			return
		}
	}
}

// each calls f with the value of one unit of each group that some option may hold,
// USD per hour.
func (d *dual) each(y weights, f func(i int, value float64)) {
	d.order(y)
	for i, c := range d.class {
		if c >= 0 {
			f(i, y.of(d.groups[i].size)*d.least[c])
		}
	}
}

// total is the bound at y.
func (d *dual) total(y weights) float64 {
	d.order(y)
	sum := 0.0
	for c, need := range d.demand {
		w := 0.0
		for j, x := range need {
			w += y[j] * x
		}
		sum += w * d.least[c]
	}
	if d.few != nil {
		sum = max(0, sum-d.spared(y))
	}
	return sum
}

// reach is the most that a node of each option can be worth for a dollar at y, as long
// as no value is raised above its share of the bill.
func (d *dual) reach(y weights, out []float64) {
	d.order(y)
	for i, o := range d.options {
		top := 0.0
		for c, b := range d.by {
			if d.demand[c][dimPods] > 0 && b.has(i) {
				top = max(top, d.least[c])
			}
		}
		out[i] = top * y.of(o.room) / max(o.effective, 1e-12)
	}
}

// maximise searches the directions of y: memory and pods in relation to a vCPU.
// Every y gives a valid bound, so that how well it searches is a matter of
// tightness only.
func (d *dual) maximise() (float64, weights) {
	const vCPU, giB = 1e-3, 1.0 / (1 << 30)
	best, at := 0.0, weights{vCPU, giB / 8, 0}
	for i := -24; i <= 16; i += 2 {
		for _, s := range []float64{0, 0.003, 0.03} {
			y := weights{vCPU, giB * math.Exp2(float64(i)/4), s}
			if v := d.total(y); v > best {
				best, at = v, y
			}
		}
	}
	return d.climb(best, at, 0.4, 1e-4)
}

// climb searches around a point with ever smaller steps.
func (d *dual) climb(best float64, at weights, first, last float64) (float64, weights) {
	try := func(y weights) {
		if v := d.total(y); v > best {
			best, at = v, y
		}
	}
	for step := first; step > last; step /= 2 {
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
	b, _ := newDual(newHolders(pr.groups, left, pr.options(pr.pools, pr.groups)), left, true).maximise()
	return b
}

// proven is the bound for so many units of each group at the weights that were found
// when the plan was made. Every machine counts that a plan may name, also one that
// the packing would not take.
func (pr *problem) proven(placed []int64, y weights) float64 {
	pr.loose = true
	defer func() { pr.loose = false }()
	return newDual(newHolders(pr.groups, placed, pr.options(pr.pools, waiting(pr.groups, placed))), placed, true).total(y)
}
