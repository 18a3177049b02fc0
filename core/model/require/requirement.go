package require

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Operator relates a label to values, spelled as in manifests.
type Operator string

// The eight operators. Pods may use the first six.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte"
	Lte          Operator = "Lte"
)

// Requirement says which values the label Key may have. The zero value of the
// set part (no complement, no values) is DoesNotExist: the label must be absent.
type Requirement struct {
	Key        string
	Complement bool     // Values are the ones excluded
	Values     []string // sorted, unique; never modified in place
	Min, Max   *int64   // inclusive integer bounds, only with Complement
	Present    bool     // the label must be there, although Values alone would admit its absence: NotIn and Exists together, or, without values, nothing at all
	MinValues  int      // flexibility floor, 0 = none
}

// New builds a requirement from an operator and its values as written.
//
// Errors: an unknown operator; In and NotIn without a value; Exists and
// DoesNotExist with one; a bound that is not exactly one integer of at least 0.
func New(key string, op Operator, values ...string) (Requirement, error) {
	r := Requirement{Key: key}
	bound := func() (int64, error) {
		if len(values) != 1 {
			return 0, fmt.Errorf("%s %s: expected exactly one value, got %d", key, op, len(values))
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s %s: expected an integer of at least 0, got %q", key, op, values[0])
		}
		return n, nil
	}
	switch op {
	case In, NotIn:
		if len(values) == 0 {
			return r, fmt.Errorf("%s %s: expected at least one value", key, op)
		}
		r.Complement = op == NotIn
		r.Values = canonical(values)
	case Exists, DoesNotExist:
		if len(values) != 0 {
			return r, fmt.Errorf("%s %s: expected no values, got %d", key, op, len(values))
		}
		r.Complement = op == Exists
	case Gt, Gte, Lt, Lte:
		n, err := bound()
		if err != nil {
			return r, err
		}
		r.Complement = true
		switch op {
		case Gt:
			if n == 1<<63-1 {
				return Requirement{Key: key}, nil // nothing is larger
			}
			n++
			r.Min = &n
		case Gte:
			r.Min = &n
		case Lt:
			n--
			r.Max = &n
		case Lte:
			r.Max = &n
		}
	default:
		return r, fmt.Errorf("%s: unknown operator %q, expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte", key, op)
	}
	return r, nil
}

// Must is New for requirements that are known to be right, such as in tests and
// for labels of our own; it panics on an error.
func Must(key string, op Operator, values ...string) Requirement {
	r, err := New(key, op, values...)
	if err != nil {
		panic(err)
	}
	return r
}

func canonical(values []string) []string {
	v := slices.Clone(values)
	slices.Sort(v)
	return slices.Compact(v)
}

// Has says whether a label with this value satisfies the requirement.
func (r Requirement) Has(value string) bool {
	_, found := slices.BinarySearch(r.Values, value)
	if !r.Complement {
		return found
	}
	return !found && r.inBounds(value)
}

func (r Requirement) inBounds(value string) bool {
	if r.Min == nil && r.Max == nil {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (r.Min == nil || n >= *r.Min) && (r.Max == nil || n <= *r.Max)
}

// AllowsAbsent says whether a node without the label satisfies the requirement:
// true for NotIn and DoesNotExist, false for everything that asks for a value.
func (r Requirement) AllowsAbsent() bool {
	if r.Complement {
		return len(r.Values) > 0 && r.Min == nil && r.Max == nil && !r.Present
	}
	return len(r.Values) == 0 && !r.Present
}

// Impossible says whether nothing satisfies the requirement, not even a node without
// the label.
func (r Requirement) Impossible() bool { return r.Empty() && !r.AllowsAbsent() }

// Empty says whether no value at all satisfies the requirement.
func (r Requirement) Empty() bool { return !r.Complement && len(r.Values) == 0 }

// Finite says whether the allowed values can be listed.
func (r Requirement) Finite() bool { return !r.Complement }

// Operator is the operator that says the same; bounds count as Exists.
func (r Requirement) Operator() Operator {
	switch {
	case r.Complement && len(r.Values) > 0:
		return NotIn
	case r.Complement:
		return Exists
	case len(r.Values) > 0:
		return In
	}
	return DoesNotExist
}

// Intersect is the requirement that holds where both hold. Bounds tighten;
// contradictory ones leave nothing, unless both admit absence; a finite side filters by the bounds of
// the other and drops them; minValues is the larger one.
func (r Requirement) Intersect(o Requirement) Requirement {
	out := Requirement{Key: r.Key, MinValues: max(r.MinValues, o.MinValues)}
	if r.Complement && o.Complement {
		out.Complement = true
		out.Min, out.Max = tighter(r.Min, o.Min, true), tighter(r.Max, o.Max, false)
		if out.Min != nil && out.Max != nil && *out.Min > *out.Max {
			return Requirement{Key: r.Key, MinValues: out.MinValues, Present: true} // a bound asks for a value
		}
		out.Values = canonical(slices.Concat(r.Values, o.Values))
		if out.Min != nil || out.Max != nil {
			// exclusions outside the bounds say nothing; dropping them keeps one form per meaning
			out.Values = slices.DeleteFunc(out.Values, func(v string) bool { return !out.inBounds(v) })
		}
		if len(out.Values) == 0 {
			out.Values = nil
		}
		out.Present = out.AllowsAbsent() && !(r.AllowsAbsent() && o.AllowsAbsent())
		return out
	}
	finite, other := r, o
	if r.Complement {
		finite, other = o, r
	}
	for _, v := range finite.Values {
		if other.Has(v) {
			out.Values = append(out.Values, v)
		}
	}
	out.Present = len(out.Values) == 0 && !(r.AllowsAbsent() && o.AllowsAbsent())
	return out
}

func tighter(a, b *int64, larger bool) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case (*a > *b) == larger:
		return a
	}
	return b
}

// Overlaps says whether some value, or the absence of the label, satisfies both:
// two requirements that both admit absence never conflict.
func (r Requirement) Overlaps(o Requirement) bool {
	if r.AllowsAbsent() && o.AllowsAbsent() {
		return true
	}
	return !r.Intersect(o).Empty()
}

// Equal says whether both allow the same values and ask for the same flexibility.
func (r Requirement) Equal(o Requirement) bool {
	same := func(a, b *int64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	return r.Key == o.Key && r.Complement == o.Complement && slices.Equal(r.Values, o.Values) &&
		same(r.Min, o.Min) && same(r.Max, o.Max) && r.Present == o.Present && r.MinValues == o.MinValues
}

// Term is one requirement in the form of a manifest.
type Term struct {
	Key       string   `json:"key"`
	Operator  Operator `json:"operator"`
	Values    []string `json:"values,omitempty"`
	MinValues *int     `json:"minValues,omitempty"`
}

// Terms writes the requirement as manifests do: a pair of bounds becomes two
// entries, with the older operators Gt and Lt, which every installed schema knows.
func (r Requirement) Terms() []Term {
	var mv *int
	if r.MinValues > 0 {
		n := r.MinValues
		mv = &n
	}
	var out []Term
	if r.Min != nil {
		if *r.Min == 0 { // Gt -1 is not a legal bound
			out = append(out, Term{r.Key, Gte, []string{"0"}, mv})
		} else {
			out = append(out, Term{r.Key, Gt, []string{strconv.FormatInt(*r.Min-1, 10)}, mv})
		}
	}
	if r.Max != nil {
		if *r.Max == 1<<63-1 {
			out = append(out, Term{r.Key, Lte, []string{strconv.FormatInt(*r.Max, 10)}, mv})
		} else {
			out = append(out, Term{r.Key, Lt, []string{strconv.FormatInt(*r.Max+1, 10)}, mv})
		}
	}
	if len(r.Values) > 0 || len(out) == 0 {
		out = append(out, Term{r.Key, r.Operator(), r.Values, mv})
	}
	if r.Present {
		out = append(out, Term{r.Key, Exists, nil, mv})
	}
	return out
}

// String is the requirement as people say it.
func (r Requirement) String() string {
	var parts []string
	for _, t := range r.Terms() {
		s := string(t.Operator)
		if len(t.Values) > 0 {
			shown := t.Values
			if len(shown) > 6 {
				shown = append(slices.Clone(shown[:5]), fmt.Sprintf("and %d more", len(t.Values)-5))
			}
			s += " [" + strings.Join(shown, ", ") + "]"
		}
		parts = append(parts, s)
	}
	return r.Key + " " + strings.Join(parts, " and ")
}
