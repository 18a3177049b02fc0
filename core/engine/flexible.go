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

// values is the values of a label that were seen.
func (d *distinct) values(key string) map[string]bool {
	for i, r := range d.reqs {
		if r.Key == key {
			return d.seen[i]
		}
	}
	return nil
}

// companion is an offering that may stand beside an option's own in a launch.
type companion struct {
	offering int
	room     []int64
	sig      bitset   // specs that may use it
	values   []string // of the labels that are to differ
}

// companions lists the offerings of a pool by capacity type, the cheapest of those
// that are alike in room, in rights and in the labels that are to differ. Those of
// reservations stand beside nothing.
func (p *pool) companions(any, sigs bitset, words int) map[string][]companion {
	out := map[string][]companion{}
	at := map[string]int{}
	any.each(func(i int) {
		o := p.class.offerings[i]
		if o.ReservationID != "" {
			return
		}
		c := companion{offering: i, room: p.rooms[i], sig: sigs[i*words : (i+1)*words]}
		key := []byte(o.CapacityType)
		for _, w := range c.sig {
			key = appendInt(key, int64(w))
		}
		if p.limits != nil {
			for _, name := range sortedKeys(p.limits.left) {
				key = appendInt(key, o.Type.Capacity.Get(name))
			}
		}
		for _, x := range c.room {
			key = appendInt(key, x)
		}
		key = p.appendShares(key, i)
		for _, r := range p.minKeys {
			v, _ := o.Label(r.Key)
			c.values = append(c.values, v)
			key = append(append(key, v...), 0)
		}
		list := out[o.CapacityType]
		if j, ok := at[string(key)]; !ok {
			at[string(key)] = len(list)
			out[o.CapacityType] = append(list, c)
		} else if p.effective(i) < p.effective(list[j].offering) {
			list[j] = c
		}
	})
	return out
}

// share is how much of the room another one has, 1 = all of it.
func share(of, room []int64) float64 {
	s := 1.0
	for d, x := range of {
		if x > 0 {
			s = min(s, float64(room[d])/float64(x))
		}
	}
	return s
}

// alike sorts the specs that have some right into sets with the very same rights.
func (r rights) alike() []bitset {
	var out []bitset
	at := map[string]int{}
	for s, b := range r.bySpec {
		if b == nil || b.empty() {
			continue
		}
		k := b.key()
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, newBits(len(r.bySpec)))
		}
		out[i].set(s)
	}
	return out
}

// widened is what an option of a pool with minValues comes to: one for all its specs,
// where they have enough choice together, else one for each kind of them that has.
func (p *pool) widened(pr *problem, o *option, beside map[string][]companion, alike []bitset) []*option {
	whole := *o
	if p.widen(&whole, beside) {
		return []*option{&whole}
	}
	var out []*option
	for _, specs := range alike {
		part := *o
		part.sig = o.sig.clone()
		part.sig.and(specs)
		if !part.sig.empty() && (p.widen(&part, beside) || pr.w.Settings.MinValuesBestEffort) {
			out = append(out, &part)
		}
	}
	return out
}

// widen makes an option of a pool with minValues small enough that its pods fit on
// as many different offerings as the pool demands: its room shrinks to what all of
// them have. Of the offerings with the same value the one that takes least away is
// considered; every pod that may use the option may use it, too, and no limit keeps it
// from standing in. It says whether the demand can be met at all.
func (p *pool) widen(o *option, companions map[string][]companion) bool {
	d := newDistinct(p.minKeys)
	d.add(p, o.offering)
	if d.satisfied() {
		return true
	}
	type candidate struct {
		companion
		share float64
	}
	best := make([]map[string]candidate, len(p.minKeys))
	for i := range best {
		best[i] = map[string]candidate{}
	}
	chosen := p.class.offerings[o.offering]
	for _, c := range companions[chosen.CapacityType] {
		s := share(o.room, c.room)
		if s <= 0 || !o.sig.subsetOf(c.sig) || !p.noLarger(c.offering, chosen) || !p.sameShares(c.offering, o.offering) {
			continue
		}
		for i, v := range c.values {
			if have, ok := best[i][v]; !ok || s > have.share || s == have.share && p.effective(c.offering) < p.effective(have.offering) {
				best[i][v] = candidate{c, s}
			}
		}
	}
	var list []candidate
	for _, byValue := range best {
		for _, v := range sortedKeys(byValue) {
			list = append(list, byValue[v])
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(p.effective(a.offering), p.effective(b.offering)), cmp.Compare(a.offering, b.offering))
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
	if d.satisfied() {
		o.room = room
		return true
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
