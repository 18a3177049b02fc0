package engine

import (
	"cmp"
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
	pr     *problem
	groups []*group
	value  []float64 // of one pod, by group
	left   []int64   // pods not yet placed, by group
	order  []int32   // groups with pods left, most valuable pod first
	ratio  []float64 // memory per CPU, by group
	joins  *joins
	work   int64 // groups looked at: the measure of effort

	specOf []int32 // by group
	free   []int64 // scratch
	taken  []item  // scratch of the filling under way
	first  []item  // scratch: the filling before that
	used   []int32 // scratch of balanced, by group: pods taken; zero outside
	near   *neighbours
}

func newFiller(pr *problem, groups []*group, value []float64, left []int64, j *joins) *filler {
	f := &filler{pr: pr, groups: groups, value: value, left: left, joins: j, free: make([]int64, len(pr.dims)), ratio: make([]float64, len(groups)),
		specOf: make([]int32, len(groups)), used: make([]int32, len(groups)), near: pr.around.neighbours()}
	for i, g := range groups {
		f.specOf[i] = int32(g.spec.index)
		f.ratio[i] = float64(g.size[dimMemory]) / float64(max(g.size[dimCPU], 1))
		if left[i] > 0 {
			f.order = append(f.order, int32(i))
		}
	}
	slices.SortStableFunc(f.order, func(a, b int32) int { return cmp.Compare(value[b], value[a]) })
	return f
}

// compact drops groups without pods left from the order.
func (f *filler) compact() {
	f.order = slices.DeleteFunc(f.order, func(g int32) bool { return f.left[g] == 0 })
}

// best fills the option in several ways and answers the most valuable filling; an
// empty one where nothing fits.
func (f *filler) best(o *option) column {
	if f.near != nil {
		f.near.reset(o.pool, f.pr.crowd)
	}
	a := f.largestFirst(o)
	if f.near != nil {
		f.near.reset(o.pool, f.pr.crowd)
	}
	b := f.balanced(o)
	if b.value <= a.value {
		b = a
	}
	b.items = slices.Clone(b.items) // the fillings share the filler's memory
	return b
}

func (f *filler) room(free []int64, size []int64, want int64) int64 {
	for d, x := range size {
		if x > 0 {
			if free[d] < x {
				return 0
			}
			want = min(want, free[d]/x)
		} else if free[d] < 0 {
			return 0
		}
	}
	return want
}

func (f *filler) take(g int32, n int64) {
	for d, x := range f.groups[g].size {
		f.free[d] -= x * n
	}
	f.taken = append(f.taken, item{g, int32(n)})
}

func (f *filler) finish(o *option, custom int) column {
	c := column{opt: o, items: f.taken, custom: custom}
	f.taken, f.first = f.first, f.taken
	for _, it := range c.items {
		c.value += float64(it.n) * f.value[it.group]
	}
	return c
}

// largestFirst takes as many as fit of the most valuable pods, then of the next.
func (f *filler) largestFirst(o *option) column {
	copy(f.free, o.room)
	f.taken = f.taken[:0]
	custom := 0
	f.work += int64(len(f.order))
	for _, g := range f.order {
		if !o.sig.has(int(f.specOf[g])) {
			continue
		}
		gr := f.groups[g]
		n := f.room(f.free, gr.size, f.left[g])
		if n > 0 && f.near != nil {
			n = f.near.room(gr, n)
		}
		if n <= 0 {
			continue
		}
		next, ok := f.joins.join(custom, gr.spec, o.pool)
		if !ok {
			continue
		}
		custom = next
		f.take(g, n)
		if f.near != nil {
			f.near.add(gr, n)
		}
	}
	return f.finish(o, custom)
}

// balanced takes pods one by one, the most valuable that fit, alternating between
// those with more and those with less memory per CPU than the machine, so that
// both run out together.
func (f *filler) balanced(o *option) column {
	copy(f.free, o.room)
	f.taken = f.taken[:0]
	custom := 0
	rho := float64(o.room[dimMemory]) / float64(max(o.room[dimCPU], 1))
	heavy, light := 0, 0 // positions in the order
	// next moves a position to the next group of the kind that still fits.
	next := func(pos int, wantHeavy bool) int {
		for ; pos < len(f.order); pos++ {
			f.work++
			g := f.order[pos]
			if f.ratio[g] >= rho != wantHeavy || f.left[g] == int64(f.used[g]) || !o.sig.has(int(f.specOf[g])) {
				continue
			}
			gr := f.groups[g]
			if f.room(f.free, gr.size, 1) > 0 && (f.near == nil || f.near.room(gr, 1) > 0) {
				if _, ok := f.joins.join(custom, gr.spec, o.pool); ok {
					return pos
				}
			}
		}
		return pos
	}
	for {
		heavy, light = next(heavy, true), next(light, false)
		if heavy >= len(f.order) && light >= len(f.order) {
			break
		}
		pos := light
		moreMemory := float64(f.free[dimMemory]) >= rho*float64(f.free[dimCPU])
		if light >= len(f.order) || heavy < len(f.order) && moreMemory {
			pos = heavy
		}
		g := f.order[pos]
		custom, _ = f.joins.join(custom, f.groups[g].spec, o.pool)
		for d, x := range f.groups[g].size {
			f.free[d] -= x
		}
		if f.used[g] == 0 {
			f.taken = append(f.taken, item{group: g})
		}
		f.used[g]++
		if f.near != nil {
			f.near.add(f.groups[g], 1)
		}
	}
	for i := range f.taken {
		g := f.taken[i].group
		f.taken[i].n = f.used[g]
		f.used[g] = 0
	}
	return f.finish(o, custom)
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
