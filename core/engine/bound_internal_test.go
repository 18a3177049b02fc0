package engine

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestLeastRates compares the rates of the front, from which beaten options are left out,
// with those of all options, looked at one by one.
func TestLeastRates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, 6)
		var options []*option
		for range rapid.IntRange(1, 30).Draw(t, "options") {
			o := &option{sig: newBits(3), count: -1, room: []int64{amount.Draw(t, "cpu"), amount.Draw(t, "memory"), amount.Draw(t, "pods"), amount.Draw(t, "gpu")}}
			o.usd, o.effective = float64(amount.Draw(t, "usd")), float64(amount.Draw(t, "effective"))
			o.sig[0] = uint64(rapid.IntRange(0, 7).Draw(t, "specs"))
			if rapid.IntRange(0, 4).Draw(t, "reserved") == 0 {
				o.count = 1
			}
			options = append(options, o)
		}
		var groups []*group
		var left []int64
		for range rapid.IntRange(1, 12).Draw(t, "groups") {
			groups = append(groups, &group{spec: &spec{index: rapid.IntRange(0, 2).Draw(t, "spec")}, size: []int64{amount.Draw(t, "cpu"), amount.Draw(t, "memory"), 1, amount.Draw(t, "gpu") / 3}})
			left = append(left, rapid.Int64Range(0, 2).Draw(t, "left"))
		}
		h := newHolders(groups, left, options)
		real := rapid.Bool().Draw(t, "real")
		d := newDual(h, left, real)
		for i := range left { // some are placed
			left[i] = min(left[i], rapid.Int64Range(0, 2).Draw(t, "still left"))
		}
		d.count(left)
		var y weights
		for i := range y {
			y[i] = float64(amount.Draw(t, "weight"))
		}
		got := make([]float64, len(groups))
		d.each(y, func(i int, v float64) { got[i] = v })
		for i, g := range groups {
			if want := leastValueOf(g, options, y, real); left[i] > 0 && math.Abs(got[i]-want) > 1e-9 {
				t.Fatalf("group %d of size %v is worth %v at %v, want %v", i, g.size, got[i], y, want)
			}
		}
	})
}

// leastValueOf is the weight of a unit times the least rate of the options that hold it,
// those without end before the others.
func leastValueOf(g *group, options []*option, y weights, real bool) float64 {
	for _, few := range []bool{false, true} {
		rate, found := math.Inf(1), false
		for _, o := range options {
			if o.count >= 0 != few || !o.allows(g.spec) || !o.fits(g.size) {
				continue
			}
			found = true
			price := o.effective
			if real {
				price = o.usd
			}
			if w := y.of(o.room); w > 0 {
				rate = min(rate, price/w)
			}
		}
		if found {
			if math.IsInf(rate, 0) {
				rate = 0
			}
			return rate * y.of(g.size)
		}
	}
	return 0
}
