package require_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/core/model/require"
)

// FuzzRequirement reads two requirements on one key from text and holds them against
// a label value: what is refused is refused with a reason, what is read keeps the
// algebra, and neither ever panics.
func FuzzRequirement(f *testing.F) {
	f.Add("In", "a,b", "NotIn", "b", "a")
	f.Add("Gt", "3", "Lt", "9", "07")
	f.Add("Exists", "", "DoesNotExist", "", "")
	f.Add("Gte", "9223372036854775807", "Gt", "9223372036854775807", "9223372036854775807")
	f.Fuzz(func(t *testing.T, op1, values1, op2, values2, value string) {
		read := func(op, values string) (require.Requirement, bool) {
			var list []string
			if values != "" {
				list = strings.Split(values, ",")
			}
			r, err := require.New("k", require.Operator(op), list...)
			if err != nil && err.Error() == "" {
				t.Fatal("refused without a reason")
			}
			return r, err == nil
		}
		a, ok := read(op1, values1)
		b, too := read(op2, values2)
		if !ok || !too {
			return
		}
		both := a.Intersect(b)
		if x := b.Intersect(a); !x.Equal(both) {
			t.Fatalf("(%s) and (%s): %s one way, %s the other", a, b, both, x)
		}
		if !both.Intersect(both).Equal(both) || !a.Intersect(both).Equal(both) {
			t.Fatalf("(%s) again is not itself", both)
		}
		if got, want := both.Has(value), a.Has(value) && b.Has(value); got != want {
			t.Fatalf("(%s) and (%s) = (%s): %q %t, want %t", a, b, both, value, got, want)
		}
		if got, want := both.AllowsAbsent(), a.AllowsAbsent() && b.AllowsAbsent(); got != want {
			t.Fatalf("(%s) and (%s) = (%s): absent %t, want %t", a, b, both, got, want)
		}
		if both.Impossible() && (both.Has(value) || a.Overlaps(b)) {
			t.Fatalf("(%s) is impossible and yet holds", both)
		}
		s := require.NewSet(a, b)
		if (s.LabelsSatisfy(map[string]string{"k": value}) == nil) != both.Has(value) || (s.LabelsSatisfy(nil) == nil) != both.AllowsAbsent() {
			t.Fatalf("the set %s is another than (%s)", s, both)
		}
		if s.Key() != require.NewSet(b, a).Key() || len(s.Terms()) == 0 || s.String() == "" {
			t.Fatalf("the set %s has another key the other way round, or says nothing", s)
		}
	})
}
