package engine

import "math/bits"

// bitset is a set of small indexes.
type bitset []uint64

func newBits(n int) bitset { return make(bitset, (n+63)/64) }

func fullBits(n int) bitset {
	b := newBits(n)
	for i := range n {
		b.set(i)
	}
	return b
}

func (b bitset) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

func (b bitset) clone() bitset { return append(bitset(nil), b...) }

func (b bitset) and(o bitset) {
	for i := range b {
		b[i] &= o[i]
	}
}

func (b bitset) andNot(o bitset) {
	for i := range b {
		b[i] &^= o[i]
	}
}

func (b bitset) or(o bitset) {
	for i := range b {
		b[i] |= o[i]
	}
}

func (b bitset) empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

func (b bitset) subsetOf(o bitset) bool {
	for i := range b {
		if b[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}

// each calls f for every index in the set, in order.
func (b bitset) each(f func(i int)) {
	for wi, w := range b {
		for w != 0 {
			f(wi<<6 + bits.TrailingZeros64(w))
			w &= w - 1
		}
	}
}

func (b bitset) key() string { return string(b.appendKey(make([]byte, 0, 8*len(b)))) }

func (b bitset) appendKey(out []byte) []byte {
	for _, w := range b {
		for s := 0; s < 64; s += 8 {
			out = append(out, byte(w>>s))
		}
	}
	return out
}
