package engine

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/core/model/require"
)

// distinct counts, for requirements with minValues, the values that a list of
// offerings has.
type distinct struct {
	reqs []require.Requirement
	seen []map[string]bool
}

func newDistinct(reqs []require.Requirement) *distinct {
	d := &distinct{reqs: reqs, seen: make([]map[string]bool, len(reqs))}
	for i := range d.seen {
		d.seen[i] = map[string]bool{}
	}
	return d
}

// add counts an offering and says whether it brought a value that was still missing.
func (d *distinct) add(p *pool, offering int) bool {
	useful := false
	for i, r := range d.reqs {
		if v, ok := p.class.offerings[offering].Label(r.Key); ok && !d.seen[i][v] {
			useful = useful || len(d.seen[i]) < r.MinValues
			d.seen[i][v] = true
		}
	}
	return useful
}

func (d *distinct) wants(p *pool, offering int) bool {
	for i, r := range d.reqs {
		if v, ok := p.class.offerings[offering].Label(r.Key); ok && !d.seen[i][v] && len(d.seen[i]) < r.MinValues {
			return true
		}
	}
	return false
}

func (d *distinct) satisfied() bool {
	for i, r := range d.reqs {
		if len(d.seen[i]) < r.MinValues {
			return false
		}
	}
	return true
}

// missing is the first requirement whose flexibility is not reached, with how many
// values there are.
func (d *distinct) missing() (require.Requirement, int) {
	for i, r := range d.reqs {
		if len(d.seen[i]) < r.MinValues {
			return r, len(d.seen[i])
		}
	}
	return require.Requirement{}, 0
}

// widen makes an option of a pool with minValues small enough that its pods fit on
// as many different offerings as the pool demands: its room shrinks to what all of
// them have. It says whether the demand can be met at all; where best effort is
// enough, it always can.
func (p *pool) widen(pr *problem, o *option, any bitset) bool {
	d := newDistinct(p.minKeys)
	d.add(p, o.offering)
	if d.satisfied() {
		return true
	}
	captype := p.class.offerings[o.offering].CapacityType
	type companion struct {
		offering int
		room     []int64
		share    float64 // of the option's room, 1 = all of it
	}
	var list []companion
	any.each(func(i int) {
		c := p.class.offerings[i]
		if c.CapacityType != captype || i == o.offering {
			return
		}
		room := pr.vec(c.Type.Allocatable.Sub(p.overhead[i]))
		share := 1.0
		for d, x := range o.room {
			if x > 0 {
				share = min(share, float64(room[d])/float64(x))
			}
		}
		if share > 0 {
			list = append(list, companion{i, room, share})
		}
	})
	slices.SortStableFunc(list, func(a, b companion) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(p.effective(a.offering), p.effective(b.offering)))
	})
	room := slices.Clone(o.room)
	for _, c := range list {
		if d.satisfied() {
			break
		}
		if !d.wants(p, c.offering) {
			continue
		}
		d.add(p, c.offering)
		for i, x := range c.room {
			room[i] = min(room[i], x)
		}
	}
	if !d.satisfied() {
		return pr.w.Settings.MinValuesBestEffort
	}
	o.room = room
	return true
}
