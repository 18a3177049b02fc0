package engine

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Effort of one packing, in groups looked at: so much for each unit to be placed, up
// to a limit. It bounds the time, not the legality: when it is used up, the best plan
// so far stands.
const (
	roundsPerUnit   = int64(1_500)
	effortOfRounds  = int64(8_000_000) // and a fifth of roundsPerUnit beyond
	improvePerUnit  = int64(500)
	effortOfImprove = int64(5_000_000) // and a fifth of improvePerUnit beyond
	maxRounds       = 6
	adaptiveRounds  = 4
	smallWork       = 1 << 15
	leftOverFactor  = 4
	maxVaried       = 40
	effortOfVaried  = int64(30_000)
)

// packer buys nodes of some options for the pods that some groups have left.
type packer struct {
	pr        *problem
	groups    []*group
	options   []*option
	joins     *joins
	levels    []int // of the priority of each group, nil = priorities are not looked at
	large     bool  // the largest machine first, then ranked by price: how first-fit buys
	y         weights
	holders   *holders
	shape     *shape
	numbers   int  // of options, those at later steps included
	noAims    bool // least shares of strategies are given up
	bettering bool // what is packed now is to be better than what there is
}

// queue orders options by the efficiency that they last had.
type queue struct {
	opts []*option
	eff  []float64
}

func (q *queue) Len() int { return len(q.opts) }
func (q *queue) Less(i, j int) bool {
	if q.eff[i] != q.eff[j] {
		return q.eff[i] > q.eff[j]
	}
	a, b := q.opts[i], q.opts[j]
	if a.pool.index != b.pool.index {
		return a.pool.index < b.pool.index
	}
	return a.offering < b.offering
}
func (q *queue) Swap(i, j int) {
	q.opts[i], q.opts[j] = q.opts[j], q.opts[i]
	q.eff[i], q.eff[j] = q.eff[j], q.eff[i]
}
func (q *queue) Push(any) {}

// add puts an option back of which nothing is known any more.
func (q *queue) add(o *option) {
	q.opts, q.eff = append(q.opts, o), append(q.eff, math.Inf(1))
	heap.Fix(q, len(q.opts)-1)
}
func (q *queue) Pop() any {
	n := len(q.opts) - 1
	o := q.opts[n]
	q.opts, q.eff = q.opts[:n], q.eff[:n]
	return o
}

// caps tells how many more nodes an option may get: limits of pools and counts of
// reservations, shared by all options that draw on them.
type caps struct {
	limits map[*pool]*limits
	counts map[string]int64
	bounds *bounds // of the strategies, nil = none
}

func (p *packer) newCaps() *caps {
	c := &caps{limits: map[*pool]*limits{}, counts: map[string]int64{}, bounds: p.newBounds()}
	for _, o := range p.options {
		if l := o.pool.limits; l != nil && c.limits[o.pool] == nil {
			n := &limits{left: make(map[string]int64, len(l.left))}
			for k, v := range l.left {
				n.left[k] = v
			}
			if l.nodes != nil {
				v := *l.nodes
				n.nodes = &v
			}
			c.limits[o.pool] = n
		}
		if o.count >= 0 {
			c.counts[o.reservationOf()] = p.pr.stock[o.reservationOf()]
		}
	}
	return c
}

func (c *caps) times(o *option, want int64) int64 {
	off := o.pool.class.offerings[o.offering]
	want = c.limits[o.pool].times(off.Type.Capacity, want)
	if o.count >= 0 {
		want = min(want, c.counts[off.ReservationID])
	}
	if c.bounds != nil {
		want = c.bounds.times(o, want)
	}
	return want
}

func (c *caps) take(o *option, times int64) {
	off := o.pool.class.offerings[o.offering]
	if l := c.limits[o.pool]; l != nil {
		l.take(off.Type.Capacity, times)
	}
	if o.count >= 0 {
		c.counts[off.ReservationID] -= times
	}
	if c.bounds != nil {
		c.bounds.take(o, times)
	}
}

// greedy buys the most efficient filling until nothing more can be placed, at values
// that stay as they are. left is used up; what remains in it has no place.
func (p *packer) greedy(value []float64, left []int64, c *caps) ([]column, int64) {
	return p.fillUp(newFiller(p.shape, p.numbers, value, left, p.joins), nil, c)
}

// adaptive is greedy with values that follow what is left: once a part of the bill is
// paid, they are found again for the rest, so that what is scarce now counts now.
// factor raises the values of single groups; nil = none.
func (p *packer) adaptive(factor []float64, left []int64, c *caps) ([]column, int64) {
	m := p.newMoving(factor, left)
	m.follow(left)
	return p.fillUp(newFiller(p.shape, p.numbers, m.value, left, p.joins), m, c)
}

// moving is values that follow what is left.
type moving struct {
	*dual
	factor []float64
	hoping bool // efficiencies are bounded: no factors above those of a round
	y      weights
	value  []float64 // of one unit of each group
	bill   float64   // the bound for what is left
	next   float64   // the bill at which they are found again
	reach  []float64 // by option
}

const (
	followEvery = 0.9   // of the bill
	followLeast = 3     // purchases
	leastValue  = 1e-12 // of a unit that no option holds alone
)

// follow finds the values for what is left.
func (m *moving) follow(left []int64) {
	m.count(left)
	m.bill, m.y = m.climb(m.total(m.y), m.y, 0.4, 1e-3)
	for i := range m.value {
		m.value[i] = leastValue
	}
	m.each(m.y, func(i int, v float64) { m.value[i] = max(v, leastValue) })
	for i, x := range m.factor {
		m.value[i] *= x
	}
	m.next = followEvery * m.bill
	m.dual.reach(m.y, m.reach)
}

// hopes is what the queue may expect of the options before they are filled.
func (m *moving) hopes(q *queue) {
	for i, o := range q.opts {
		q.eff[i] = math.Inf(1)
		if m.hoping && o.index < len(m.reach) && m.options[o.index] == o {
			q.eff[i] = m.reach[o.index]
		}
	}
	heap.Init(q)
}

// filling is what an option was last filled with, and after how many purchases.
type filling struct {
	column
	made int
}

func (p *packer) fillUp(f *filler, m *moving, c *caps) ([]column, int64) {
	q := &queue{opts: slices.Clone(p.options), eff: make([]float64, len(p.options))}
	for i := range q.eff {
		q.eff[i] = math.Inf(1)
	}
	if m != nil {
		m.hopes(q)
	}
	heap.Init(q)
	var out []column
	state := make([]filling, p.numbers)
	now, followed := 1, 0
	worth := f.worth()
	var parked []*option // wait until a strategy's share allows them again
	for q.Len() > 0 && len(f.order) > 0 && p.goOn() {
		o := q.opts[0]
		s := &state[o.index]
		if s.made != now {
			if c.times(o, 1) == 0 {
				heap.Pop(q)
				if o.next != nil && o.step.times(c.bounds.steps[o.step.name]) == 0 {
					q.add(o.next)
				} else if c.waits(o) {
					parked = append(parked, o)
				}
				continue
			}
			if most := worth / max(o.effective, leastValue) * (1 + 1e-9); !p.large && most < q.eff[0] {
				q.eff[0] = most // it may hold all that is left, and is worth no more than that
				heap.Fix(q, 0)
				continue
			}
			if f.best(o, &s.column); len(s.items) == 0 {
				heap.Pop(q)
				continue
			}
			s.made = now
			q.eff[0] = p.rank(&s.column)
			heap.Fix(q, 0)
			continue
		}
		col := s.column
		col.items = slices.Clone(col.items)
		col.times = p.repeat(f, &col, c)
		if len(parked) > 0 {
			col.times = c.bounds.pace(parked, o, col.times)
		}
		if p.large {
			p.shrink(&col, c)
		}
		c.take(col.opt, col.times)
		for _, it := range col.items {
			f.left[it.group] -= int64(it.n) * col.times
		}
		out = append(out, col)
		f.compact()
		now++
		worth -= col.value * float64(col.times)
		if m != nil {
			if m.bill -= col.value * float64(col.times); m.bill < m.next && len(out) >= followed+followLeast {
				followed = len(out)
				m.follow(f.left)
				m.hopes(q)
				f.sort()
				worth = f.worth()
			}
		}
		if len(parked) > 0 {
			parked = c.unpark(q, parked)
		}
	}
	return out, f.work
}

// rank is what the queue sorts by: value per price, or, for first-fit, value alone.
func (p *packer) rank(c *column) float64 {
	if p.large {
		return c.value
	}
	return c.efficiency()
}

// repeat is how often a filling can be bought as it is.
func (p *packer) repeat(f *filler, col *column, c *caps) int64 {
	times := int64(math.MaxInt64)
	for _, it := range col.items {
		times = min(times, f.left[it.group]/int64(it.n))
	}
	return c.times(col.opt, max(times, 1))
}

// shrink moves a filling to the cheapest option that holds it.
func (p *packer) shrink(col *column, c *caps) {
	size := p.size(col)
	for _, o := range p.options { // cheapest first
		if o.effective >= col.opt.effective {
			return
		}
		if o.pool == col.opt.pool && o.fits(size) && p.allowsAll(o, col) && c.times(o, col.times) == col.times {
			col.opt = o
			return
		}
	}
}

func (p *packer) size(col *column) []int64 {
	size := make([]int64, len(p.pr.dims))
	for _, it := range col.items {
		for d, x := range p.groups[it.group].size {
			size[d] += x * int64(it.n)
		}
	}
	return size
}

func (p *packer) allowsAll(o *option, col *column) bool {
	for _, it := range col.items {
		if !o.allows(p.groups[it.group].spec) {
			return false
		}
	}
	return true
}

func cost(cols []column) float64 {
	sum := 0.0
	for i := range cols {
		sum += cols[i].opt.effective * float64(cols[i].times)
	}
	return sum
}

func sum(left []int64) int64 {
	var n int64
	for _, x := range left {
		n += x
	}
	return n
}

// better compares two packings: fewer pods left over, then the lower price.
func (p *packer) better(a, b []column, leftA, leftB []int64) bool {
	if d := p.fewer(leftA, leftB); d != 0 {
		return d < 0
	}
	return cost(a) < cost(b)-1e-9
}

// pack finds a cheap set of nodes for what is left of the groups. value is the
// share of the bill of one pod of each group. It uses left up.
//
// The first round is plain greedy; each further one raises the value of pods that
// ended on inefficient nodes, so that they are served while good partners are
// still there. In the end the least efficient nodes are packed again together, and onto
// a single one where that is cheaper.
func (p *packer) pack(value []float64, left []int64) []column {
	p.number()
	start := slices.Clone(left)
	units := sum(left)
	best, work := p.first(value, left)
	bestLeft := slices.Clone(left)
	p.bettering = true
	if !p.large && p.goOn() {
		effort := min(effortOfRounds+roundsPerUnit*units/5, roundsPerUnit*units)
		best, bestLeft, work = p.rounds(value, start, best, bestLeft, work, effort)
		if len(p.limitedPools()) > 0 && work < effortOfRounds/8 {
			best, bestLeft = p.spare(value, start, best, bestLeft)
		}
		best, bestLeft = p.vary(value, start, best, bestLeft, work)
		best = p.fold(best, value, effort/8)
		best = p.improve(best, bestLeft, value, min(effortOfImprove+improvePerUnit*units/5, improvePerUnit*units))
		best = p.fold(best, value, effort/8)
		best = p.merge(best, value)
	}
	copy(left, bestLeft)
	return best
}

// number gives every option its index, those at later steps of a price behind the
// others, and sees which of them hold what.
func (p *packer) number() {
	for i, o := range p.options {
		o.index = i
	}
	p.numbers = len(p.options)
	for _, o := range p.options {
		for o = o.next; o != nil; o = o.next {
			o.index = p.numbers
			p.numbers++
		}
	}
	p.shape = newShape(p.pr, p.groups)
}

// first is greedy at the values of the dual, whose options are known to be worth no
// more than their reach.
func (p *packer) first(value []float64, left []int64) ([]column, int64) {
	if p.large || p.levels != nil {
		return p.greedy(value, left, p.newCaps())
	}
	m := p.newMoving(nil, left)
	m.order(p.y)
	m.dual.reach(p.y, m.reach)
	m.next = math.Inf(-1)
	return p.fillUp(newFiller(p.shape, p.numbers, value, left, p.joins), m, p.newCaps())
}

func (p *packer) newMoving(factor []float64, left []int64) *moving {
	return &moving{dual: newDual(p.holders, left, false), factor: factor, hoping: p.levels == nil, y: p.y, value: make([]float64, len(left)), reach: make([]float64, len(p.options))}
}

// rounds packs again with values that follow what is left, first as they are, then
// raised for the groups whose units ended on inefficient nodes. Small problems get
// rounds at raised values that stay, too. work is the effort of the dearest round.
func (p *packer) rounds(value []float64, start []int64, best []column, bestLeft []int64, work, effort int64) ([]column, []int64, int64) {
	v := slices.Clone(value)
	cols, over := best, bestLeft
	keep := func(tried []column, left []int64, w int64) {
		cols, over, work = tried, left, max(work, w)
		if p.better(cols, best, over, bestLeft) {
			best, bestLeft = cols, over
		}
	}
	for round := 1; round < maxRounds && work < smallWork && work*int64(round+1) < effort && p.goOn(); round++ {
		p.revalue(v, value, cols, over)
		try := slices.Clone(start)
		tried, w := p.greedy(v, try, p.newCaps())
		keep(tried, try, w)
	}
	factor := p.factors()
	for round := range adaptiveRounds {
		if work*int64(round+2) > effort || !p.goOn() {
			break
		}
		try := slices.Clone(start)
		tried, w := p.adaptive(factor, try, p.newCaps())
		tried = p.fold(tried, value, effort/8)
		power := 0.25
		if p.better(tried, best, try, bestLeft) {
			power = 0.5
		}
		keep(tried, try, w)
		copy(v, value)
		p.revalue(v, value, cols, over)
		for g := range v {
			if value[g] > 0 {
				factor[g] *= math.Pow(v[g]/value[g], power)
			}
		}
	}
	return best, bestLeft, work
}

// factors is how much more the units of a group count for their priority.
func (p *packer) factors() []float64 {
	out := make([]float64, len(p.groups))
	for g := range out {
		out[g] = 1
	}
	for g, r := range p.levels {
		out[g] = math.Pow(rankFactor, float64(r))
	}
	return out
}

// spare tries to leave a part of the limits unused: what a limit allows may be better
// kept for pods that nothing else would take, and a higher limit must not make a plan
// worse than a lower one did.
func (p *packer) spare(value []float64, start []int64, best []column, bestLeft []int64) ([]column, []int64) {
	for _, part := range []struct{ of, minus int64 }{{80, 0}, {50, 0}, {25, 0}, {0, 0}, {100, 1}, {100, 2}, {100, 3}} {
		if !p.goOn() {
			break
		}
		c := p.newCaps()
		c.scale(part.of)
		for _, l := range c.limits {
			if l.nodes != nil {
				*l.nodes = max(*l.nodes-part.minus, 0)
			}
		}
		try := slices.Clone(start)
		cols, _ := p.greedy(value, try, c)
		if p.better(cols, best, try, bestLeft) {
			best, bestLeft = cols, try
		}
	}
	return best, bestLeft
}

// vary tries further orders on small problems, where one bad choice weighs most: values
// shifted this way and that, the same way every time. With limits every other try
// leaves a part of them unused, too.
func (p *packer) vary(value []float64, start []int64, best []column, bestLeft []int64, work int64) ([]column, []int64) {
	v := make([]float64, len(value))
	draw := uint64(1)
	for spent, n := work+int64(len(p.options)), 0; n < maxVaried && spent < effortOfVaried && p.goOn(); n++ {
		for g := range v {
			draw = draw*6364136223846793005 + 1442695040888963407
			v[g] = value[g] * math.Exp2(2*float64(draw>>40)/(1<<24)-1)
		}
		c := p.newCaps()
		if n%2 == 1 {
			c.scale(int64(100 - draw>>40%100))
		}
		try := slices.Clone(start)
		cols, w := p.greedy(v, try, c)
		spent += w + int64(len(p.options))
		if p.better(cols, best, try, bestLeft) {
			best, bestLeft = cols, try
		}
	}
	return best, bestLeft
}

// scale leaves a part of the limits, in percent.
func (c *caps) scale(percent int64) {
	for _, l := range c.limits {
		for name, x := range l.left {
			l.left[name] = x / 100 * percent
		}
		if l.nodes != nil {
			*l.nodes = *l.nodes * percent / 100
		}
	}
}

// revalue sets the values for the next round: by how inefficient the nodes of a
// group's pods were on the average. Groups with pods left over are
// worth several times as much: others may have used up what only they need.
func (p *packer) revalue(v, value []float64, cols []column, over []int64) {
	n := make([]float64, len(v))
	e := make([]float64, len(v))
	for i := range cols {
		c := &cols[i]
		worth := 0.0
		for _, it := range c.items {
			worth += float64(it.n) * value[it.group]
		}
		eff := worth / max(c.opt.effective, 1e-12)
		for _, it := range c.items {
			k := float64(it.n) * float64(c.times)
			n[it.group] += k
			e[it.group] += k * eff
		}
	}
	for g := range v {
		if n[g] > 0 && e[g] > 0 {
			v[g] *= math.Pow(n[g]/e[g], 0.7)
		}
		if over[g] > 0 {
			v[g] *= leftOverFactor
		}
	}
}

// improve takes the least efficient nodes apart and packs their pods again, as long
// as that saves money. Each try looks at a larger share of the nodes.
func (p *packer) improve(cols []column, left []int64, value []float64, effort int64) []column {
	var spent int64
	for share := 0.02; share < 0.5 && spent < effort && p.goOn(); share *= 1.6 {
		slices.SortStableFunc(cols, func(a, b column) int { return cmp.Compare(a.valueAt(value), b.valueAt(value)) })
		total, taken, k := cost(cols), 0.0, 0
		again := slices.Clone(left)
		for k < len(cols) && (taken < share*total || k < 2) {
			taken += cols[k].opt.effective * float64(cols[k].times)
			for _, it := range cols[k].items {
				again[it.group] += int64(it.n) * cols[k].times
			}
			k++
		}
		best, bestLeft := cols[:k], left
		for _, power := range []float64{0, 0.15, -0.05} {
			try := slices.Clone(again)
			redone, w := p.adaptive(p.tilted(value, power), try, p.capsBeside(cols[k:]))
			spent += w
			if p.better(redone, best, try, bestLeft) && p.sharesHold(redone, cols[k:]) {
				best, bestLeft = redone, try
			}
		}
		cols = append(slices.Clone(best), cols[k:]...)
		copy(left, bestLeft)
	}
	return cols
}

// tilted is factors that favour valuable units, or small ones where power is negative.
func (p *packer) tilted(value []float64, power float64) []float64 {
	out := p.factors()
	if power == 0 {
		return out
	}
	for g, v := range value {
		if v > 0 {
			out[g] *= math.Pow(v, power)
		}
	}
	return out
}

// capsBeside is what limits and reservations leave beside the given nodes.
func (p *packer) capsBeside(cols []column) *caps {
	c := p.newCaps()
	for i := range cols {
		c.take(cols[i].opt, cols[i].times)
	}
	return c
}

func (c *column) valueAt(value []float64) float64 {
	worth := 0.0
	for _, it := range c.items {
		worth += float64(it.n) * value[it.group]
	}
	return worth / max(c.opt.effective, 1e-12)
}

func (p *packer) limitedPools() []*pool {
	var out []*pool
	for _, o := range p.options {
		if (o.pool.limits != nil || o.count >= 0) && !slices.Contains(out, o.pool) {
			out = append(out, o.pool)
		}
	}
	return out
}
