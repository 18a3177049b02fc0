package require_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/model/require"
)

// universe is the values that drawn requirements are judged on; absent stands for a
// node without the label.
var universe = []string{"a", "b", "c", "0", "1", "2", "3", "4", "5", "07", "-1", "", "99999999999999999999", absent}

const absent = "\x00absent"

func admits(r require.Requirement, v string) bool {
	if v == absent {
		return r.AllowsAbsent()
	}
	return r.Has(v)
}

func requirement(t *rapid.T) require.Requirement {
	op := rapid.SampledFrom([]require.Operator{require.In, require.NotIn, require.Exists, require.DoesNotExist, require.Gt, require.Lt, require.Gte, require.Lte}).Draw(t, "operator")
	var values []string
	switch op {
	case require.In, require.NotIn:
		values = rapid.SliceOfN(rapid.SampledFrom(universe[:10]), 1, 4).Draw(t, "values")
	case require.Gt, require.Lt, require.Gte, require.Lte:
		values = []string{rapid.SampledFrom([]string{"0", "1", "2", "3", "5"}).Draw(t, "bound")}
	}
	return require.Must("k", op, values...)
}

// several draws a conjunction, so that every shape a requirement can take is met.
func several(t *rapid.T) require.Requirement {
	r := requirement(t)
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		r = r.Intersect(requirement(t))
	}
	return r
}

func TestIntersectionIsConjunction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := several(t), several(t), several(t)
		both := a.Intersect(b)
		for _, v := range universe {
			if got, want := admits(both, v), admits(a, v) && admits(b, v); got != want {
				t.Fatalf("(%s) and (%s) = (%s): admits %q = %t, want %t", a, b, both, v, got, want)
			}
		}
		if x := b.Intersect(a); !both.Equal(x) {
			t.Fatalf("(%s) and (%s): %s one way, %s the other", a, b, both, x)
		}
		if x := a.Intersect(a); !x.Equal(a) {
			t.Fatalf("(%s) with itself is (%s)", a, x)
		}
		if x, y := both.Intersect(c), a.Intersect(b.Intersect(c)); !x.Equal(y) {
			t.Fatalf("(%s), (%s), (%s): grouped one way %s, the other %s", a, b, c, x, y)
		}
		if both.Empty() && !both.Intersect(c).Empty() {
			t.Fatalf("empty (%s) came back as (%s)", both, both.Intersect(c))
		}
	})
}

func TestOverlapsMeansThatSomethingSatisfiesBoth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := several(t), several(t)
		for _, v := range universe {
			if admits(a, v) && admits(b, v) && !a.Overlaps(b) {
				t.Fatalf("(%s) and (%s) both admit %q but do not overlap", a, b, v)
			}
		}
		if a.Overlaps(b) != !a.Intersect(b).Impossible() {
			t.Fatalf("(%s) and (%s): overlaps %t, intersection (%s)", a, b, a.Overlaps(b), a.Intersect(b))
		}
	})
}

// TestTermsSayTheSame writes a requirement as a manifest would and reads it back.
func TestTermsSayTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := several(t)
		var back *require.Requirement
		for _, term := range r.Terms() {
			if term.Operator == require.Gte || term.Operator == require.Lte {
				if term.Values[0] != "0" {
					t.Fatalf("(%s) is written with %s %v, which older schemas do not know", r, term.Operator, term.Values)
				}
			}
			if term.Operator == require.Lt && term.Values[0] == "0" {
				continue // at most -1: nothing that a schema could hold; see below
			}
			x, err := require.New(term.Key, term.Operator, term.Values...)
			if err != nil {
				t.Fatalf("(%s) is written as %+v: %v", r, term, err)
			}
			if back == nil {
				back = &x
			} else {
				y := back.Intersect(x)
				back = &y
			}
		}
		if back == nil {
			return
		}
		for _, v := range universe {
			if v != "-1" && admits(r, v) != admits(*back, v) {
				t.Fatalf("(%s) reads back as (%s): they differ on %q", r, back, v)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op     require.Operator
		values []string
		want   string
	}{
		{require.In, nil, "at least one value"},
		{require.NotIn, nil, "at least one value"},
		{require.Exists, []string{"a"}, "no values"},
		{require.DoesNotExist, []string{"a"}, "no values"},
		{require.Gt, nil, "exactly one value"},
		{require.Gt, []string{"1", "2"}, "exactly one value"},
		{require.Lt, []string{"x"}, "integer of at least 0"},
		{require.Gte, []string{"-1"}, "integer of at least 0"},
		{require.Lte, []string{"1.5"}, "integer of at least 0"},
		{"Like", []string{"a"}, "unknown operator"},
	} {
		if _, err := require.New("k", c.op, c.values...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want one with %q", c.op, c.values, err, c.want)
		}
	}
	if r := require.Must("k", require.Gt, "9223372036854775807"); !r.Empty() || r.Has("9223372036854775807") {
		t.Errorf("nothing is larger than the largest integer, got %s", r)
	}
}

func TestCompatible(t *testing.T) {
	t.Parallel()
	wellKnown := func(k string) bool { return k == "zone" }
	set := func(reqs ...require.Requirement) require.Set { return require.NewSet(reqs...) }
	must := require.Must
	for _, c := range []struct {
		name        string
		want, offer require.Set
		conflict    string
	}{
		{"NotIn on a key that is not offered", set(must("tier", require.NotIn, "gold")), set(), ""},
		{"DoesNotExist on a key that is not offered", set(must("tier", require.DoesNotExist)), set(), ""},
		{"In on a key that is not offered", set(must("team", require.In, "red")), set(), `label "team" is not offered`},
		{"Exists on a key that is not offered", set(must("team", require.Exists)), set(), `label "team" is not offered`},
		{"a well-known key offers any value", set(must("zone", require.In, "a")), set(), ""},
		{"but only what it says where it is named", set(must("zone", require.In, "a")), set(must("zone", require.In, "b")), "asks for zone In [a], offered is zone In [b]"},
		{"Exists offers any value", set(must("team", require.In, "red")), set(must("team", require.Exists)), ""},
		{"DoesNotExist goes with NotIn", set(must("gpu", require.DoesNotExist)), set(must("gpu", require.NotIn, "a10")), ""},
		{"DoesNotExist does not go with Exists", set(must("gpu", require.DoesNotExist)), set(must("gpu", require.Exists)), "asks for gpu DoesNotExist, offered is gpu Exists"},
		{"two exclusions never conflict", set(must("x", require.NotIn, "a")), set(must("x", require.DoesNotExist)), ""},
		{"a mistyped key is guessed", set(must("taem", require.In, "red")), set(must("team", require.Exists)), `label "taem" is not offered (did you mean "team"?)`},
	} {
		got := ""
		if x := c.want.Compatible(c.offer, wellKnown); x != nil {
			got = x.String()
		}
		if got != c.conflict {
			t.Errorf("%s: %q, want %q", c.name, got, c.conflict)
		}
	}
}

func TestLabelsAreFinal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := several(t)
		v := rapid.SampledFrom(universe).Draw(t, "value")
		labels := map[string]string{"other": "x"}
		if v != absent {
			labels["k"] = v
		}
		if got, want := require.NewSet(r).LabelsSatisfy(labels) == nil, admits(r, v); got != want {
			t.Fatalf("%s on %v: %t, want %t", r, labels, got, want)
		}
	})
}

func TestSetsAreValues(t *testing.T) {
	t.Parallel()
	base := require.NewSet(require.Must("b", require.In, "1", "2"), require.Must("a", require.Exists))
	more := base.With(require.Must("b", require.NotIn, "1"), require.Must("c", require.DoesNotExist))
	if got := base.String(); got != "a Exists, b In [1, 2]" {
		t.Errorf("the set changed under our hands: %s", got)
	}
	if got := more.String(); got != "a Exists, b In [2], c DoesNotExist" {
		t.Errorf("got %s", got)
	}
	if got := more.Without("b").String(); got != "a Exists, c DoesNotExist" || !more.Has("b") {
		t.Errorf("got %s", got)
	}
	keys := func(s require.Set) (out []string) {
		for _, r := range s.All() {
			out = append(out, r.Key)
		}
		return out
	}
	if !slices.IsSorted(keys(more)) || base.Key() == more.Key() || base.Key() != require.NewSet(base.All()...).Key() {
		t.Error("keys are not sorted, or equal keys do not mean equal sets")
	}
	n := 3
	flexible := require.Must("f", require.In, "x", "y", "z")
	flexible.MinValues = n
	if diff := cmp.Diff([]require.Term{{Key: "f", Operator: require.In, Values: []string{"x", "y", "z"}, MinValues: &n}}, flexible.Terms()); diff != "" {
		t.Error(diff)
	}
	if got := require.FromLabels(map[string]string{"b": "2", "a": "1"}).String(); got != "a In [1], b In [2]" {
		t.Errorf("got %s", got)
	}
}
