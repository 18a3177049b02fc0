package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/weir-project/weir/core/model/require"
)

// item is some pods of one group on one node.
type item struct {
	group int32
	n     int32
}

// column is a node of an option with the pods on it, bought times over.
type column struct {
	opt    *option
	items  []item
	value  float64 // of the pods of one node, USD per hour
	times  int64
	custom int // id of the joined requirements, 0 = none
}

func (c *column) efficiency() float64 {
	if c.opt.effective <= 0 {
		return c.value * 1e12
	}
	return c.value / c.opt.effective
}

// filler fills options with what is left of the groups.
type filler struct {
	*shape
	value   []float64 // of one unit, by group
	left    []int64   // units not yet placed, by group
	joins   *joins
	order   []int32           // groups with units left, most valuable first
	shelves map[string]*shelf // by the specs that may use them
	known   []*shelf          // by option
	stored  int               // groups on all shelves
	work    int64             // groups looked at: the measure of effort
}

// shelf is the groups that may use the same options: rows by memory per CPU, in each
// the most valuable first.
type shelf struct{ rows [shelfRows]row }

// row keeps for each block of groups the least CPU and memory that one of them asks
// for, so that a block in which nothing fits is passed over at once.
type row struct {
	groups   []int32
	cpu, mem []int64
}

// head is how far a filling has come in a row.
type head struct {
	row   *row
	value float64 // of the group
	pos   int
	group int32
	heavy bool
}

const (
	shelfRows    = 14
	blockSize    = 8
	maxOnShelves = 4 << 20 // groups on all shelves together, a bound of memory
)

// rowOf sorts by memory per CPU, in half powers of two from 1/8 to 16 GiB per vCPU.
func rowOf(size []int64) int8 {
	r := float64(size[dimMemory]) / float64(max(size[dimCPU], 1)) * 1000 / (1 << 30)
	return int8(min(max(math.Floor(2*math.Log2(max(r, 1e-9)))+6, 0), shelfRows-1))
}

// rowRatio is the middle of a row, bytes per milli-CPU.
var rowRatio = func() (out [shelfRows]float64) {
	for i := range out {
		out[i] = math.Exp2((float64(i)-6+0.5)/2) * (1 << 30) / 1000
	}
	return out
}()

// shape is what a filler knows of the groups, whatever their values: made once for all
// packings of them.
type shape struct {
	groups []*group
	dims   int
	size   []int64 // of the groups, one after the other
	spec   []int32 // of the groups
	social []bool  // by group: whether it matters who else is on the node
	row    []int8  // by group: its row on a shelf
	used   []int32 // scratch, by group: units taken; zero outside of a filling
	free   []int64 // scratch: what is left of the room
	taken  []int32 // scratch: groups taken
	heads  [shelfRows]head
	near   *neighbours
	crowd  *crowd
}

func newShape(pr *problem, groups []*group) *shape {
	n, d := len(groups), len(pr.dims)
	s := &shape{groups: groups, dims: d, size: make([]int64, 0, n*d), spec: make([]int32, n), social: make([]bool, n), row: make([]int8, n),
		used: make([]int32, n), free: make([]int64, d), near: pr.around.neighbours(), crowd: pr.crowd}
	for i, g := range groups {
		s.size = append(s.size, g.size...)
		s.row[i], s.spec[i] = rowOf(g.size), int32(g.spec.index)
		s.social[i] = s.near != nil && (g.alone || len(g.counted) > 0 || len(g.belongs) > 0 || !g.lays.empty() || !g.bears.empty())
	}
	return s
}

// newFiller is for what is left of the groups; value is of one unit of each, and left
// goes down as fillings are bought.
func newFiller(s *shape, options int, value []float64, left []int64, j *joins) *filler {
	f := &filler{shape: s, value: value, left: left, joins: j, shelves: map[string]*shelf{}, known: make([]*shelf, options)}
	for i, n := range left {
		if n > 0 {
			f.order = append(f.order, int32(i))
		}
	}
	f.sort()
	return f
}

// sort puts the groups in the order of their values, after these have changed.
func (f *filler) sort() {
	slices.SortFunc(f.order, func(a, b int32) int { return cmp.Or(cmp.Compare(f.value[b], f.value[a]), cmp.Compare(a, b)) })
	f.empty()
}

// worth is the value of all that is left.
func (f *filler) worth() float64 {
	sum := 0.0
	for _, g := range f.order {
		sum += f.value[g] * float64(f.left[g])
	}
	return sum
}

// empty takes everything off the shelves.
func (f *filler) empty() {
	clear(f.shelves)
	clear(f.known)
	f.stored = 0
}

// shelf is the groups that may use the option.
func (f *filler) shelf(o *option) *shelf {
	if s := f.known[o.index]; s != nil {
		return s
	}
	k := o.sig.key()
	if s := f.shelves[k]; s != nil {
		f.known[o.index] = s
		return s
	}
	if f.stored > maxOnShelves {
		f.empty()
	}
	s := &shelf{}
	var length [shelfRows]int
	n := 0
	for _, g := range f.order {
		if o.sig.has(int(f.spec[g])) {
			length[f.row[g]]++
			n++
		}
	}
	all := make([]int32, n)
	for i, l := range length {
		s.rows[i].groups, all = all[:0:l], all[l:]
	}
	for _, g := range f.order {
		if o.sig.has(int(f.spec[g])) {
			r := &s.rows[f.row[g]]
			r.groups = append(r.groups, g)
		}
	}
	f.stored += n
	for i := range s.rows {
		f.summarise(&s.rows[i])
	}
	f.shelves[k], f.known[o.index] = s, s
	return s
}

func (f *filler) summarise(r *row) {
	if n := (len(r.groups) + blockSize - 1) / blockSize; cap(r.cpu) < n {
		both := make([]int64, 2*n)
		r.cpu, r.mem = both[:0:n], both[n:]
	}
	r.cpu, r.mem = r.cpu[:0], r.mem[:0]
	for i, g := range r.groups {
		c, m := f.size[int(g)*f.dims+dimCPU], f.size[int(g)*f.dims+dimMemory]
		if i%blockSize == 0 {
			r.cpu, r.mem = append(r.cpu, c), append(r.mem, m)
			continue
		}
		b := len(r.cpu) - 1
		r.cpu[b], r.mem[b] = min(r.cpu[b], c), min(r.mem[b], m)
	}
}

// compact drops groups without units left.
func (f *filler) compact() {
	gone := func(g int32) bool { return f.left[g] == 0 }
	n := len(f.order)
	if f.order = slices.DeleteFunc(f.order, gone); len(f.order) == n {
		return
	}
	for _, s := range f.shelves {
		for i := range s.rows {
			r := &s.rows[i]
			n := len(r.groups)
			if r.groups = slices.DeleteFunc(r.groups, gone); len(r.groups) < n {
				f.summarise(r)
			}
		}
	}
}

// best fills the option in several ways and puts the most valuable filling into the
// column, whose memory it uses again; no items where nothing fits.
func (f *filler) best(o *option, c *column) {
	s := f.shelf(o)
	c.opt, c.items, c.value = o, c.items[:0], 0
	for _, alternate := range []bool{false, true} {
		custom := f.fill(o, s, alternate)
		value := 0.0
		for _, g := range f.taken {
			value += float64(f.used[g]) * f.value[g]
		}
		if better := value > c.value; better {
			c.value, c.custom, c.items = value, custom, c.items[:0]
			for _, g := range f.taken {
				c.items = append(c.items, item{g, f.used[g]})
			}
		}
		for _, g := range f.taken {
			f.used[g] = 0
		}
	}
}

// fill takes units until nothing more fits: always as many as fit of the most valuable
// group; or, alternating, one by one from those with more and those with less memory
// per CPU than the machine, so that both run out together.
func (f *filler) fill(o *option, s *shelf, alternate bool) (custom int) {
	copy(f.free, o.room)
	f.taken = f.taken[:0]
	if f.near != nil {
		f.near.reset(o.pool, f.crowd)
	}
	rho := float64(o.room[dimMemory]) / float64(max(o.room[dimCPU], 1))
	active := f.heads[:0]
	for i := range s.rows {
		if r := &s.rows[i]; len(r.groups) > 0 {
			active = append(active, head{row: r, heavy: rowRatio[i] >= rho, group: r.groups[0], value: f.value[r.groups[0]]})
		}
	}
	for {
		heavy := alternate && float64(f.free[dimMemory]) >= rho*float64(f.free[dimCPU])
		at := mostValuable(active, heavy, !alternate)
		if at < 0 {
			if at = mostValuable(active, heavy, true); at < 0 {
				return custom
			}
		}
		f.work += 4
		h := &active[at]
		g := h.group
		next, ok := custom, f.fits(g)
		if ok {
			next, ok = f.joins.join(custom, f.groups[g].spec, o.pool)
		}
		if !ok {
			if !f.advance(h) {
				active = slices.Delete(active, at, at+1)
			}
			continue
		}
		custom = next
		n := int64(1)
		if !alternate {
			n = f.most(g)
		}
		f.take(g, n)
	}
}

// mostValuable is the head of the most valuable group, of one side or of both; -1 = none.
func mostValuable(heads []head, heavy, both bool) int {
	at, most := -1, -1.0
	for i := range heads {
		if h := &heads[i]; h.value > most && (both || h.heavy == heavy) {
			at, most = i, h.value
		}
	}
	return at
}

// fits says whether a unit of the group can be taken.
func (f *filler) fits(g int32) bool {
	return f.holds(g) && int64(f.used[g]) < f.left[g] && (!f.social[g] || f.near.room(f.groups[g], 1) > 0)
}

// advance moves a head to the next group that may fit; false = there is none. What does
// not fit once does not fit later in the same filling.
func (f *filler) advance(h *head) bool {
	cpu, mem := f.free[dimCPU], f.free[dimMemory]
	groups := h.row.groups
	pos := h.pos + 1
	for pos < len(groups) {
		f.work++
		if b := pos / blockSize; pos%blockSize == 0 && (h.row.cpu[b] > cpu || h.row.mem[b] > mem) {
			pos += blockSize
			continue
		}
		if g := groups[pos]; f.fits(g) {
			h.pos, h.group, h.value = pos, g, f.value[g]
			return true
		}
		pos++
	}
	return false
}

// holds says whether what is free is enough for a unit.
func (f *filler) holds(g int32) bool {
	at := int(g) * f.dims
	for d, x := range f.size[at : at+f.dims] {
		if x > f.free[d] {
			return false
		}
	}
	return true
}

// most is how many units of a group fit.
func (f *filler) most(g int32) int64 {
	n := f.left[g] - int64(f.used[g])
	at := int(g) * f.dims
	for d, x := range f.size[at : at+f.dims] {
		if x > 0 {
			n = min(n, f.free[d]/x)
		}
	}
	if f.social[g] {
		n = f.near.room(f.groups[g], n)
	}
	return n
}

func (f *filler) take(g int32, n int64) {
	at := int(g) * f.dims
	for d, x := range f.size[at : at+f.dims] {
		f.free[d] -= x * n
	}
	if f.used[g] == 0 {
		f.taken = append(f.taken, g)
	}
	f.used[g] += int32(n)
	if f.social[g] {
		f.near.add(f.groups[g], n)
	}
}

// joins remembers which requirements on labels of one's own go together on a node.
// Id 0 stands for none.
type joins struct {
	sets []require.Set
	ids  map[string]int
	memo map[[2]int]int // joined id, or -1
	spec map[[2]int]int // spec and pool -> id
}

func newJoins() *joins {
	return &joins{sets: make([]require.Set, 1), ids: map[string]int{"": 0}, memo: map[[2]int]int{}, spec: map[[2]int]int{}}
}

func (j *joins) id(s require.Set) int {
	k := s.Key()
	if id, ok := j.ids[k]; ok {
		return id
	}
	id := len(j.sets)
	j.sets = append(j.sets, s)
	j.ids[k] = id
	return id
}

// join adds what a spec asks of a pool's labels to what a node has promised already.
func (j *joins) join(cur int, s *spec, p *pool) (int, bool) {
	custom := s.elig[p.index].custom
	if custom.Len() == 0 {
		return cur, true
	}
	sk := [2]int{s.index, p.index}
	id, ok := j.spec[sk]
	if !ok {
		id = j.id(custom)
		j.spec[sk] = id
	}
	if cur == 0 || cur == id {
		return id, true
	}
	mk := [2]int{cur, id}
	if r, ok := j.memo[mk]; ok {
		return r, r >= 0
	}
	r := -1
	if goTogether(j.sets[cur], j.sets[id]) {
		r = j.id(j.sets[cur].And(j.sets[id]))
	}
	j.memo[mk] = r
	return r, r >= 0
}

// goTogether says whether one set of label values can satisfy both.
func goTogether(a, b require.Set) bool {
	for _, r := range a.All() {
		if o, ok := b.Get(r.Key); ok && !r.Overlaps(o) {
			return false
		}
	}
	return true
}
