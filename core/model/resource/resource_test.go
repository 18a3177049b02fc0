package resource_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/model/resource"
)

var names = []string{"cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi", "a.b/c"}

func vector(t *rapid.T) resource.Vector {
	var v resource.Vector
	for _, n := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "names") {
		v = v.With(n, rapid.Int64Range(-50, 1000).Draw(t, n))
	}
	return v
}

// TestVectorsAreMaps compares the operations with the same on plain maps.
func TestVectorsAreMaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := vector(t), vector(t)
		fits := true
		for _, n := range names {
			x, y := a.Get(n), b.Get(n)
			for op, c := range map[string][2]int64{
				"add": {a.Add(b).Get(n), x + y}, "sub": {a.Sub(b).Get(n), x - y}, "max": {a.Max(b).Get(n), max(x, y)},
				"min": {a.Min(b).Get(n), min(x, y)}, "scale": {a.Scale(3).Get(n), 3 * x}, "floor": {a.Floor().Get(n), max(x, 0)},
			} {
				if c[0] != c[1] {
					t.Fatalf("%s of %s and %s: %s = %d, want %d", op, a, b, n, c[0], c[1])
				}
			}
			fits = fits && x <= y && y >= 0
		}
		if a.Fits(b) != fits {
			t.Fatalf("%s fits %s: %t, want %t", a, b, a.Fits(b), fits)
		}
		if _, _, _, lacking := a.Lacking(b); lacking == fits {
			t.Fatalf("%s in %s: lacking %t although fits is %t", a, b, lacking, fits)
		}
		if !a.Sub(a).IsZero() || !a.Add(b).Sub(b).Equal(a) {
			t.Fatalf("%s and %s do not add up", a, b)
		}
	})
}

func TestSumsSaturate(t *testing.T) {
	t.Parallel()
	huge := resource.New(math.MaxInt64, math.MaxInt64, 1, 0)
	if got := huge.Add(huge); got.Base[resource.CPU] != math.MaxInt64 {
		t.Errorf("%d: a sum wrapped round", got.Base[resource.CPU])
	}
	if got := huge.Scale(7); got.Base[resource.Memory] != math.MaxInt64 {
		t.Errorf("%d: a product wrapped round", got.Base[resource.Memory])
	}
	if got := (resource.Vector{}).Sub(huge).Sub(huge); got.Base[resource.CPU] != math.MinInt64 {
		t.Errorf("%d: a difference wrapped round", got.Base[resource.CPU])
	}
	if huge.Fits(resource.New(64000, 1<<40, 110, 0)) {
		t.Error("a nonsensical request fits a machine")
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		value int64
		want  string
	}{
		{"cpu", 1500, "1500m"}, {"cpu", 2000, "2"}, {"memory", 3 << 30, "3Gi"}, {"memory", 1536 << 20, "1536Mi"}, {"memory", 1000, "1000"},
		{"pods", 110, "110"}, {"hugepages-2Mi", 4 << 20, "4Mi"}, {"nvidia.com/gpu", 8, "8"}, {"memory", 0, "0"}, {"ephemeral-storage", 1 << 40, "1Ti"},
	} {
		if got := resource.Format(c.name, c.value); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.name, c.value, got, c.want)
		}
	}
}
