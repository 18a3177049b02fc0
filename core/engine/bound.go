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
// Options that may hold the same classes are one kind: of them only those matter that
// no other of the kind beats.
type holders struct {
	groups  []*group
	options []*option
	class   []int32  // by group: index into by, -1 = no units, or no option
	by      []bitset // options, by class
	kinds   []holder
	kind    []int32   // by option: index into kinds, -1 = it holds nothing
	fronts  [2]*front // in effective prices and in real money
}

// holder is options that may hold the same classes.
type holder struct {
	classes []int32
	lowers  []int32 // the classes whose rates it decides
	options []int32
	few     bool   // there is a number of each: reservations
	decides bitset // lowers as a set
}

// newHolders looks at the groups that have units left.
func newHolders(groups []*group, left []int64, options []*option) *holders {
	h := &holders{groups: groups, options: options, class: make([]int32, len(groups)), kind: make([]int32, len(options))}
	ids := map[string]int32{}
	b := newBits(len(options))
	allowed := map[int]bitset{} // options, by spec
	rooms := newRooms(options)
	var key []byte
	for i, g := range groups {
		h.class[i] = -1
		if left[i] == 0 {
			continue
		}
		may := allowed[g.spec.index]
		if may == nil {
			may = newBits(len(options))
			for j, o := range options {
				if o.allows(g.spec) {
					may.set(j)
				}
			}
			allowed[g.spec.index] = may
		}
		copy(b, may)
		rooms.fit(g.size, b)
		if b.empty() {
			continue
		}
		key = b.appendKey(key[:0])
		id, ok := ids[string(key)]
		if !ok {
			id = int32(len(h.by))
			ids[string(key)] = id
			h.by = append(h.by, b.clone())
		}
		h.class[i] = id
	}
	h.sortKinds()
	return h
}

// rooms finds the options that are large enough: for each resource, the options by
// what they have of it.
type rooms struct {
	amounts [][]int64  // by resource, what options have, each amount once, the least first
	atLeast [][]bitset // options that have so much or more
}

func newRooms(options []*option) *rooms {
	r := &rooms{}
	if len(options) == 0 {
		return r
	}
	for d := range options[0].room {
		amounts := make([]int64, 0, len(options))
		for _, o := range options {
			amounts = append(amounts, o.room[d])
		}
		slices.Sort(amounts)
		amounts = slices.Compact(amounts)
		sets := make([]bitset, len(amounts))
		words := (len(options) + 63) / 64
		all := make(bitset, words*len(amounts))
		for i := range sets {
			sets[i] = all[i*words : (i+1)*words]
		}
		for j, o := range options {
			at, _ := slices.BinarySearch(amounts, o.room[d])
			sets[at].set(j)
		}
		for i := len(sets) - 2; i >= 0; i-- {
			sets[i].or(sets[i+1])
		}
		r.amounts, r.atLeast = append(r.amounts, amounts), append(r.atLeast, sets)
	}
	return r
}

// fit takes the options out of a set that are too small.
func (r *rooms) fit(size []int64, b bitset) {
	for d, amounts := range r.amounts {
		switch at, _ := slices.BinarySearch(amounts, size[d]); {
		case at == len(amounts):
			clear(b)
			return
		case at > 0:
			b.and(r.atLeast[d][at])
		}
	}
}

// sortKinds puts options together that may hold the same classes.
func (h *holders) sortKinds() {
	words := (len(h.by) + 63) / 64
	holds := make(bitset, words*len(h.options)) // classes, by option
	for c, b := range h.by {
		b.each(func(i int) { holds[i*words+c>>6] |= 1 << (c & 63) })
	}
	type kindKey struct {
		classes string
		few     bool
	}
	ids := map[kindKey]int32{}
	for i, o := range h.options {
		h.kind[i] = -1
		classes := holds[i*words : (i+1)*words]
		if classes.empty() {
			continue
		}
		k := kindKey{classes.key(), o.count >= 0}
		id, ok := ids[k]
		if !ok {
			id = int32(len(h.kinds))
			ids[k] = id
			n := holder{few: k.few}
			classes.each(func(c int) { n.classes = append(n.classes, int32(c)) })
			h.kinds = append(h.kinds, n)
		}
		h.kind[i] = id
		h.kinds[id].options = append(h.kinds[id].options, int32(i))
	}
	endless := make([]bool, len(h.by)) // by class: held by options that can be had without end
	for _, k := range h.kinds {
		for _, c := range k.classes {
			endless[c] = endless[c] || !k.few
		}
	}
	for i := range h.kinds {
		k := &h.kinds[i]
		if k.lowers = k.classes; k.few {
			k.lowers = slices.DeleteFunc(slices.Clone(k.classes), func(c int32) bool { return endless[c] })
		}
		k.decides = newBits(len(h.by))
		for _, c := range k.lowers {
			k.decides.set(int(c))
		}
	}
}

// front is the options that can have the least rate of a class at some weights: those
// for which no other that decides at least the same classes gives at least as much of
// everything for a dollar.
type front struct {
	price []float64 // by option, USD per hour
	parts []part
}

// part is what of a front is of one kind.
type part struct {
	*holder
	edges []edge
}

type edge struct {
	room  [numPriced]float64
	price float64
}

// front is made once for effective prices and once for real money.
func (h *holders) front(real bool) *front {
	at := &h.fronts[0]
	if real {
		at = &h.fronts[1]
	}
	if *at != nil {
		return *at
	}
	f := &front{price: make([]float64, len(h.options))}
	for i, o := range h.options {
		if f.price[i] = o.lasting(); real {
			f.price[i] = o.usd
		}
	}
	kinds := make([]*holder, len(h.kinds))
	for k := range h.kinds {
		kinds[k] = &h.kinds[k]
	}
	slices.SortStableFunc(kinds, func(a, b *holder) int { return cmp.Compare(len(b.lowers), len(a.lowers)) })
	var above [][]edge // of the parts that decide all that the kind does
	for _, k := range kinds {
		above = above[:0]
		for _, p := range f.parts {
			if k.decides.subsetOf(p.decides) {
				above = append(above, p.edges)
			}
		}
		if edges := h.edges(k, f.price, above); len(edges) > 0 {
			f.parts = append(f.parts, part{k, edges})
		}
	}
	*at = f
	return f
}

// edges is the options of a kind that none of the others beats, nor one of those above.
func (h *holders) edges(k *holder, price []float64, above [][]edge) []edge {
	var out []edge
next:
	for _, i := range k.options {
		e := edge{price: price[i]}
		for d := range e.room {
			e.room[d] = float64(h.options[i].room[d])
		}
		beaten := func(have edge) bool { return have.beats(&e) }
		if slices.ContainsFunc(out, beaten) {
			continue
		}
		for _, list := range above {
			if slices.ContainsFunc(list, beaten) {
				continue next
			}
		}
		out = append(slices.DeleteFunc(out, func(have edge) bool { return e.beats(&have) }), e)
	}
	return out
}

// beats says that the rate is nowhere above the other's.
func (e *edge) beats(o *edge) bool {
	for d, x := range o.room {
		if x*e.price > e.room[d]*o.price {
			return false
		}
	}
	return e.price > 0 || o.price == 0 && e.room == o.room
}

// dual evaluates, for weights y, the share of the bill that each group must carry:
// the weight of its units times the least price per weight among the options that
// may hold such a unit. Their sum never exceeds the price of a legal plan: a node
// of price p with room a carries pods of weight at most y·a, each counted at most
// at p/(y·a).
type dual struct {
	*holders
	*front
	demand [][numPriced]float64 // by class: what its units ask for together
	least  []float64            // rate of the cheapest option, by class; zero where it asks for nothing
	asking []int32              // classes that ask for something
	parts  []lowering           // of the front, for these
	few    bitset               // options of which there is a number: reservations; nil = none
	rooms  []keptRoom           // nodes that are there
}

// lowering is a part of the front and which of the classes that it decides ask for
// something.
type lowering struct {
	edges   []edge
	classes []int32
}

// newDual is for so many units of each group, in real money or in effective prices.
func newDual(h *holders, left []int64, real bool) *dual {
	d := &dual{holders: h, front: h.front(real), demand: make([][numPriced]float64, len(h.by)), least: make([]float64, len(h.by))}
	for i, o := range h.options {
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
	clear(d.least)
	d.asking, d.parts = d.asking[:0], d.parts[:0]
	for c := range d.demand {
		if d.asks(int32(c)) {
			d.asking = append(d.asking, int32(c))
		}
	}
	for i := range d.front.parts {
		p := &d.front.parts[i]
		n := len(d.parts)
		if n < cap(d.parts) {
			d.parts = d.parts[:n+1] // with the memory of its classes
		} else {
			d.parts = append(d.parts, lowering{})
		}
		l := &d.parts[n]
		l.edges, l.classes = p.edges, l.classes[:0]
		for _, c := range p.lowers {
			if d.asks(c) {
				l.classes = append(l.classes, c)
			}
		}
		if len(l.classes) == 0 {
			d.parts = d.parts[:n]
		}
	}
}

// asks says whether a class asks for something.
func (d *dual) asks(c int32) bool { return d.demand[c] != [numPriced]float64{} }

// order finds the least rate of every class. Options of which there are only so many
// count where nothing else holds a class.
func (d *dual) order(y weights) {
	for _, c := range d.asking {
		d.least[c] = math.Inf(1)
	}
	for i := range d.parts {
		d.lower(&d.parts[i], y)
	}
	for _, c := range d.asking {
		if r := d.least[c]; math.IsInf(r, 0) || math.IsNaN(r) {
			d.least[c] = 0
		}
	}
}

// lower takes the least rate of a part to its classes.
func (d *dual) lower(p *lowering, y weights) {
	rate := math.Inf(1)
	for i := range p.edges {
		e := &p.edges[i]
		if w := y[dimCPU]*e.room[dimCPU] + y[dimMemory]*e.room[dimMemory] + y[dimPods]*e.room[dimPods]; w > 0 && e.price < rate*w {
			rate = e.price / w
		}
	}
	for _, c := range p.classes {
		d.least[c] = min(d.least[c], rate)
	}
}

// each calls f with the value of one unit of each group that some option may hold,
// USD per hour; zero where none is left.
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
	for _, c := range d.asking {
		need := &d.demand[c]
		w := y[dimCPU]*need[dimCPU] + y[dimMemory]*need[dimMemory] + y[dimPods]*need[dimPods]
		sum += w * d.least[c]
	}
	if d.few != nil {
		sum = max(0, sum-d.spared(y))
	}
	if len(d.rooms) > 0 {
		sum = max(0, sum-d.housed(y))
	}
	return sum
}

// reach is the most that a node of each option can be worth for a dollar at y, as long
// as no value is raised above its share of the bill.
func (d *dual) reach(y weights, out []float64) {
	d.order(y)
	tops := make([]float64, len(d.kinds))
	for k := range d.kinds {
		for _, c := range d.kinds[k].classes {
			if d.demand[c][dimPods] > 0 {
				tops[k] = max(tops[k], d.least[c])
			}
		}
	}
	for i, o := range d.options {
		if out[i] = 0; d.kind[i] >= 0 {
			out[i] = tops[d.kind[i]] * y.of(o.room) / max(o.effective, 1e-12)
		}
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
	if pr.around != nil {
		return 0 // Place finds it for the pods alone
	}
	pr.loose = true
	defer func() { pr.loose = false }()
	return newDual(newHolders(pr.groups, placed, pr.options(pr.pools, waiting(pr.groups, placed))), placed, true).total(y)
}
