package engine

import (
	"cmp"
	"slices"
)

// fold gives up nodes whose units fit into what is free on others: large units that a
// spread keeps in a dear place leave holes there that nobody filled, since the small
// ones had gone onto better nodes before.
func (p *packer) fold(cols []column, value []float64, effort int64) []column {
	if p.newBounds() != nil {
		return cols // the shares of a strategy depend on all nodes together
	}
	f := &folder{packer: p, cols: cols}
	order := make([]int, 0, len(cols))
	eff := make([]float64, len(cols))
	for i := range cols {
		eff[i] = cols[i].valueAt(value)
		order = append(order, i)
		f.open(i)
	}
	if len(f.holes) == 0 {
		return cols
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(eff[a], eff[b]) })
	for _, i := range order {
		if !f.goOn() {
			break
		}
		for f.work < effort && f.cols[i].times > 0 && f.giveUp(i) {
		}
	}
	return slices.DeleteFunc(f.cols, func(c column) bool { return c.times == 0 })
}

type folder struct {
	*packer
	cols  []column
	holes []hole
	moves []move // of the try under way
	work  int64  // holes looked at
}

// hole is what is free on the nodes of a column.
type hole struct {
	col  int
	free []int64 // of one node
}

// move is some units into the next node of a hole.
type move struct {
	hole, group int
	n           int64
}

// leastHole is the part of the CPU and of the memory that must be free to be of use.
const leastHole = 1.0 / 32

// open adds what is free on the nodes of a column, if that is worth the while.
func (f *folder) open(col int) {
	o := f.cols[col].opt
	free := slices.Clone(o.room)
	for d, x := range f.size(&f.cols[col]) {
		free[d] -= x
	}
	for _, d := range []int{dimCPU, dimMemory} {
		if float64(free[d]) < leastHole*float64(o.room[d]) {
			return
		}
	}
	if free[dimPods] > 0 {
		f.holes = append(f.holes, hole{col, free})
	}
}

// giveUp moves the units of one node of a column into holes, all or none.
func (f *folder) giveUp(col int) bool {
	f.moves = f.moves[:0]
	for _, it := range f.cols[col].items {
		if !f.place(col, int(it.group), int64(it.n)) {
			for _, m := range f.moves {
				f.use(m, -1)
			}
			return false
		}
	}
	f.settle()
	f.cols[col].times--
	return true
}

// place finds holes for some units of a group.
func (f *folder) place(from, group int, n int64) bool {
	g := f.groups[group]
	if f.shape.social[group] {
		return false
	}
	for h := 0; h < len(f.holes) && n > 0; h++ {
		f.work++
		if f.holes[h].col == from || !f.single(h) {
			continue
		}
		c := &f.cols[f.holes[h].col]
		// labels of one's own must be promised already: other moves count on what there is
		if custom, ok := f.joins.join(c.custom, g.spec, c.opt.pool); !ok || custom != c.custom || !c.opt.allows(g.spec) {
			continue
		}
		k := n
		for d, x := range g.size {
			if x > 0 {
				k = min(k, f.holes[h].free[d]/x)
			}
		}
		if k <= 0 {
			continue
		}
		m := move{h, group, k}
		f.use(m, 1)
		f.moves = append(f.moves, m)
		n -= k
	}
	return n == 0
}

// single sets one node of a hole's column apart, so that it can get other pods than the
// rest; false = there is none left.
func (f *folder) single(h int) bool {
	c := &f.cols[f.holes[h].col]
	if c.times <= 1 {
		return c.times == 1
	}
	one := *c
	one.items, one.times = slices.Clone(c.items), 1
	c.times--
	f.cols = append(f.cols, one)
	f.holes = append(f.holes, hole{f.holes[h].col, slices.Clone(f.holes[h].free)}) // the rest
	f.holes[h].col = len(f.cols) - 1
	return true
}

func (f *folder) use(m move, sign int64) {
	for d, x := range f.groups[m.group].size {
		f.holes[m.hole].free[d] -= sign * m.n * x
	}
}

// settle enters the moves into the columns.
func (f *folder) settle() {
	for _, m := range f.moves {
		c := &f.cols[f.holes[m.hole].col]
		i := slices.IndexFunc(c.items, func(it item) bool { return int(it.group) == m.group })
		if i < 0 {
			c.items = append(slices.Clone(c.items), item{group: int32(m.group)})
			i = len(c.items) - 1
		}
		c.items[i].n += int32(m.n)
	}
}
