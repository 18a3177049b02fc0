package engine

import (
	"cmp"
	"slices"
)

// effortOfMerge bounds how many options and groups are looked at for pairs of nodes.
const effortOfMerge = 200_000

// merge puts the pods of several nodes onto a single one where one that holds them all
// is cheaper: those of the least efficient nodes, however many, and those of any two. A
// node that is filled to the brim is the most efficient purchase of its moment and may
// still be half of what a larger one costs.
func (p *packer) merge(cols []column, value []float64) []column {
	m := &merger{packer: p, room: p.roomiest(), effort: effortOfMerge}
	for p.goOn() {
		slices.SortStableFunc(cols, func(a, b column) int { return cmp.Compare(a.valueAt(value), b.valueAt(value)) })
		m.cols, m.best, m.saved = cols, nil, 1e-9
		m.least()
		if m.best == nil {
			m.pairs()
		}
		if m.best == nil {
			return cols
		}
		cols = append([]column{*m.best}, m.rest...)
	}
	return cols
}

type merger struct {
	*packer
	cols   []column // least efficient first
	room   []int64  // the most of any option
	effort int      // left, in options and groups looked at for pairs
	best   *column  // the node that saves the most, nil = none yet
	rest   []column // what stays beside it
	saved  float64  // USD per hour
}

// least tries the nodes of the least efficient columns, more and more of them.
func (m *merger) least() {
	units, size := make([]int64, len(m.groups)), make([]int64, len(m.pr.dims))
	usd := 0.0
	for k := range m.cols {
		c := &m.cols[k]
		if m.gather(c, c.times, units, size); !fitsInto(size, m.room) {
			return
		}
		usd += c.opt.effective * float64(c.times)
		m.try(units, size, usd, func() []column { return m.cols[k+1:] })
	}
}

// pairs tries any two nodes, as long as the effort lasts.
func (m *merger) pairs() {
	units, size := make([]int64, len(m.groups)), make([]int64, len(m.pr.dims))
	for j := range m.cols {
		for i := range j + 1 {
			if i == j && m.cols[i].times < 2 {
				continue
			}
			if m.effort -= len(m.options) + len(m.groups); m.effort < 0 {
				return
			}
			clear(units)
			clear(size)
			m.gather(&m.cols[i], 1, units, size)
			m.gather(&m.cols[j], 1, units, size)
			if fitsInto(size, m.room) {
				m.try(units, size, m.cols[i].opt.effective+m.cols[j].opt.effective, func() []column { return m.without(i, j) })
			}
		}
	}
}

// without is the columns with one node less of each of two.
func (m *merger) without(i, j int) []column {
	out := slices.Clone(m.cols)
	out[i].times--
	out[j].times--
	return slices.DeleteFunc(out, func(c column) bool { return c.times == 0 })
}

// try keeps the cheapest node for some units, if it saves more than what was found so far.
func (m *merger) try(units, size []int64, usd float64, rest func() []column) {
	if !slices.ContainsFunc(m.options, func(o *option) bool { return o.effective < usd-m.saved && o.fits(size) }) {
		return
	}
	beside := rest()
	if one := m.single(units, size, usd-m.saved, beside); one != nil {
		m.best, m.rest, m.saved = one, beside, usd-one.opt.effective
	}
}

// gather adds the pods of some nodes of a column.
func (m *merger) gather(c *column, times int64, units, size []int64) {
	for _, it := range c.items {
		units[it.group] += int64(it.n) * times
		for d, x := range m.groups[it.group].size {
			size[d] += x * int64(it.n) * times
		}
	}
}

func fitsInto(size, room []int64) bool {
	for d, x := range size {
		if x > room[d] {
			return false
		}
	}
	return true
}

// roomiest is the most room of any option, by dimension.
func (p *packer) roomiest() []int64 {
	out := make([]int64, len(p.pr.dims))
	for _, o := range p.options {
		for d, x := range o.room {
			out[d] = max(out[d], x)
		}
	}
	return out
}

// single is the cheapest node below a price that holds all of some units, beside other
// nodes; nil = there is none.
func (p *packer) single(units, size []int64, below float64, beside []column) *column {
	even := make([]float64, len(p.groups)) // what counts is only that all are held
	for g := range even {
		even[g] = 1
	}
	c, f := p.capsBeside(beside), newFiller(p.shape, p.numbers, even, slices.Clone(units), p.joins)
	var best *column
	for _, o := range p.options {
		if o.effective >= below || !o.fits(size) || c.times(o, 1) == 0 {
			continue
		}
		var col column
		if f.best(o, &col); col.count() != sum(units) {
			continue
		}
		if col.times = 1; p.sharesHold([]column{col}, beside) {
			best, below = &col, o.effective
		}
	}
	return best
}

// count is the number of units on one node of a column.
func (c *column) count() int64 {
	var n int64
	for _, it := range c.items {
		n += int64(it.n)
	}
	return n
}
