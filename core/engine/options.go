package engine

import (
	"cmp"
	"math/bits"
	"slices"
)

// Indexes of the resources that take part in values and bounds; every other
// resource only has to fit.
const (
	dimCPU = iota
	dimMemory
	dimPods
	numPriced
)

// option is a kind of node that may be bought: offerings of one pool that have the
// same room and that the same pods may use, at the price of the cheapest.
type option struct {
	index     int // in the packer's list, steps included
	pool      *pool
	offering  int        // index into the class's offerings: the cheapest
	room      []int64    // allocatable without daemon pods, by dims
	effective float64    // USD per hour, fee included: what the packing minimises
	usd       float64    // USD per hour of the cheapest of them, real money
	sig       bitset     // specs that may use it
	count     int64      // how many may be bought at most, -1 = any number
	step      *priceStep // the quantity that its price is for, nil = any
	next      *option    // at the price after that
}

// rights tells for each offering of a pool which specs may use it, for the groups
// that are asked about. Exotic machines count only for specs, and sizes, that no
// other machine serves.
type rights struct{ bySpec []bitset }

func (pr *problem) rightsOf(p *pool, groups []*group) rights {
	r := rights{bySpec: make([]bitset, len(pr.specs))}
	plain := make([]bitset, len(pr.specs))
	for _, g := range groups {
		i := g.spec.index
		e := g.spec.elig[p.index]
		if e.bits == nil {
			continue
		}
		if r.bySpec[i] == nil {
			b := e.bits.clone()
			b.and(p.usable)
			plain[i] = b.clone()
			plain[i].andNot(p.class.exotic)
			r.bySpec[i] = newBits(len(p.class.offerings))
			if len(p.minKeys) > 0 || pr.loose {
				plain[i] = b // flexibility was asked for: nothing is left out
			}
			r.bySpec[i].or(plain[i])
		}
		if !p.fitsSome(plain[i], g) {
			all := e.bits.clone()
			all.and(p.usable)
			if p.fitsSome(all, g) {
				r.bySpec[i].or(all)
			}
		}
	}
	return r
}

func (p *pool) fitsSome(b bitset, g *group) bool {
	for wi, w := range b {
		for ; w != 0; w &= w - 1 {
			if p.holds(wi<<6+bits.TrailingZeros64(w), g.size) {
				return true
			}
		}
	}
	return false
}

// options lists what may be bought from the given pools for the given groups,
// cheapest first, without those that another option beats.
func (pr *problem) options(pools []*pool, groups []*group) []*option {
	var all []*option
	known := map[string]bool{} // twins of pools that are in
	for _, p := range pools {
		if p.why != nil {
			continue
		}
		if len(pools) > 1 {
			if t := p.twin(groups); t != "" {
				if known[t] {
					continue
				}
				known[t] = true
			}
		}
		list := pr.poolOptions(p, pr.rightsOf(p, groups))
		if !pr.loose {
			list = p.chained(list)
		}
		all = append(all, list...)
	}
	return prune(all)
}

func (pr *problem) poolOptions(p *pool, r rights) []*option {
	n := len(p.class.offerings)
	words := (len(pr.specs) + 63) / 64
	sigs := make(bitset, n*words)
	any := newBits(n)
	for s, b := range r.bySpec {
		if b == nil {
			continue
		}
		any.or(b)
		b.each(func(i int) { sigs[i*words+s>>6] |= 1 << (s & 63) })
	}
	best := map[string]*option{}
	var order, capped []string
	if p.limits != nil {
		capped = sortedKeys(p.limits.left)
	}
	var key []byte
	any.each(func(i int) {
		o := p.class.offerings[i]
		room := p.rooms[i]
		if slices.Min(room) < 0 {
			return // the daemon pods alone do not fit
		}
		opt := &option{pool: p, offering: i, room: room, usd: o.USDPerHour, effective: p.effective(i) + p.prices.FeePerNode,
			sig: sigs[i*words : (i+1)*words], count: -1}
		if o.ReservationID != "" {
			opt.count = pr.stocked[o.ReservationID]
		}
		key = key[:0]
		for _, x := range opt.room {
			key = appendInt(key, x)
		}
		for _, w := range opt.sig {
			key = appendInt(key, int64(w))
		}
		if opt.count >= 0 {
			key = append(append(key, o.Key()...), o.ReservationID...)
		}
		if p.limits != nil {
			for _, name := range capped {
				key = appendInt(key, o.Type.Capacity.Get(name))
			}
		}
		if len(p.rules) > 0 {
			key = p.appendShares(key, i)
		}
		if len(p.prices.Steps[i]) > 0 {
			key = append(append(key, o.Key()...), o.ReservationID...)
		}
		if have := best[string(key)]; have == nil {
			best[string(key)] = opt
			order = append(order, string(key))
		} else {
			have.usd = min(have.usd, opt.usd)
			if opt.effective < have.effective {
				opt.usd = have.usd
				*have = *opt
			}
		}
	})
	out := make([]*option, 0, len(order))
	if len(p.minKeys) == 0 || pr.loose {
		for _, k := range order {
			out = append(out, best[k])
		}
		return out
	}
	beside := p.companions(any, sigs, words)
	alike := r.alike()
	for _, k := range order {
		out = append(out, p.widened(pr, best[k], beside, alike)...)
	}
	return out
}

func appendInt(b []byte, x int64) []byte {
	return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32), byte(x>>40), byte(x>>48), byte(x>>56))
}

// prune sorts options by effective price and drops each that another one beats: no
// dearer in either price, no smaller, for no fewer specs, and, in a limited pool,
// no larger in what is limited.
func prune(all []*option) []*option {
	slices.SortStableFunc(all, func(a, b *option) int {
		return cmp.Or(cmp.Compare(a.effective, b.effective), cmp.Compare(a.pool.index, b.pool.index), cmp.Compare(a.offering, b.offering))
	})
	var kept []*option
	for _, o := range all {
		beaten := false
		for _, k := range kept {
			if k.beats(o) {
				beaten = true
				break
			}
		}
		if !beaten {
			kept = append(kept, o)
		}
	}
	return kept
}

func (k *option) beats(o *option) bool {
	if k.usd > o.usd || k.effective > o.least() || k.count >= 0 || k.step != nil {
		return false
	}
	if len(k.pool.rules) > 0 && (k.pool != o.pool || !k.pool.sameShares(k.offering, o.offering)) {
		return false
	}
	for d, x := range o.room {
		if x > k.room[d] {
			return false
		}
	}
	if !o.sig.subsetOf(k.sig) {
		return false
	}
	if k.pool != o.pool && k.pool.limits != nil {
		return false
	}
	if l := k.pool.limits; l != nil {
		kc, oc := k.pool.class.offerings[k.offering].Type.Capacity, o.pool.class.offerings[o.offering].Type.Capacity
		for name := range l.left {
			if kc.Get(name) > oc.Get(name) {
				return false
			}
		}
	}
	return true
}

func (o *option) fits(size []int64) bool {
	for d, x := range size {
		if x > o.room[d] {
			return false
		}
	}
	return true
}

func (o *option) allows(s *spec) bool { return o.sig.has(s.index) }
