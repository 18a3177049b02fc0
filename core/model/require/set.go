package require

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Set holds at most one requirement per key, sorted by key. The zero value asks
// for nothing. Sets are values: methods return new ones.
type Set struct{ reqs []Requirement }

// NewSet intersects the given requirements key by key.
func NewSet(reqs ...Requirement) Set { return Set{}.With(reqs...) }

// FromLabels is the set that asks for exactly these label values.
func FromLabels(labels map[string]string) Set {
	s := Set{reqs: make([]Requirement, 0, len(labels))}
	for k, v := range labels {
		s.reqs = append(s.reqs, Requirement{Key: k, Values: []string{v}})
	}
	sort.Slice(s.reqs, func(i, j int) bool { return s.reqs[i].Key < s.reqs[j].Key })
	return s
}

// With adds requirements, intersecting those whose key is there already.
func (s Set) With(reqs ...Requirement) Set {
	if len(reqs) == 0 {
		return s
	}
	out := Set{reqs: slices.Clone(s.reqs)}
	for _, r := range reqs {
		i, found := out.find(r.Key)
		if found {
			out.reqs[i] = out.reqs[i].Intersect(r)
		} else {
			out.reqs = slices.Insert(out.reqs, i, r)
		}
	}
	return out
}

// And is the set that asks for what both ask.
func (s Set) And(o Set) Set { return s.With(o.reqs...) }

// Without is the set with the key's requirement left out.
func (s Set) Without(key string) Set {
	i, found := s.find(key)
	if !found {
		return s
	}
	return Set{reqs: slices.Concat(s.reqs[:i], s.reqs[i+1:])}
}

func (s Set) find(key string) (int, bool) {
	return slices.BinarySearchFunc(s.reqs, key, func(r Requirement, k string) int { return strings.Compare(r.Key, k) })
}

// Get is the requirement on a key, with false where the set does not mention it.
func (s Set) Get(key string) (Requirement, bool) {
	i, found := s.find(key)
	if !found {
		return Requirement{}, false
	}
	return s.reqs[i], true
}

// Has says whether the set mentions the key.
func (s Set) Has(key string) bool { _, ok := s.find(key); return ok }

// Len is the number of keys.
func (s Set) Len() int { return len(s.reqs) }

// All is the requirements in key order; callers must not modify the slice.
func (s Set) All() []Requirement { return s.reqs }

// Equal says whether both sets ask for the same.
func (s Set) Equal(o Set) bool {
	return slices.EqualFunc(s.reqs, o.reqs, Requirement.Equal)
}

// Terms is the set in the form of manifests, in key order.
func (s Set) Terms() []Term {
	var out []Term
	for _, r := range s.reqs {
		out = append(out, r.Terms()...)
	}
	return out
}

// Key is a string that is equal exactly for equal sets, to group by.
func (s Set) Key() string {
	var b strings.Builder
	for _, r := range s.reqs {
		fmt.Fprintf(&b, "%q %t %t %q", r.Key, r.Complement, r.Present, r.Values)
		if r.Min != nil {
			fmt.Fprintf(&b, ">%d", *r.Min)
		}
		if r.Max != nil {
			fmt.Fprintf(&b, "<%d", *r.Max)
		}
		fmt.Fprintf(&b, "#%d;", r.MinValues)
	}
	return b.String()
}

// String lists the requirements in key order.
func (s Set) String() string {
	parts := make([]string, len(s.reqs))
	for i, r := range s.reqs {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}

// Conflict says why a demand does not go with what is offered.
type Conflict struct {
	Key     string
	Want    Requirement  // what the demand asks
	Have    *Requirement // what is offered, nil where the key is not known at all
	Similar string       // a known key that looks like a mistyped Key, or empty
}

// String is the reason as people say it.
func (c *Conflict) String() string {
	if c.Have == nil {
		s := fmt.Sprintf("label %q is not offered", c.Key)
		if c.Similar != "" {
			s += fmt.Sprintf(" (did you mean %q?)", c.Similar)
		}
		return s
	}
	return fmt.Sprintf("asks for %s, offered is %s", c.Want, *c.Have)
}

// LabelsSatisfy says whether a real node's labels satisfy the set: a missing
// label satisfies NotIn and DoesNotExist only. It returns nil or the first conflict in key order.
func (s Set) LabelsSatisfy(labels map[string]string) *Conflict {
	for _, r := range s.reqs {
		v, ok := labels[r.Key]
		if ok && r.Has(v) || !ok && r.AllowsAbsent() {
			continue
		}
		c := &Conflict{Key: r.Key, Want: r}
		if ok {
			c.Have = &Requirement{Key: r.Key, Values: []string{v}}
		}
		return c
	}
	return nil
}

// Compatible says whether a demand may go with the offered set of a node that is
// not made yet. wellKnown tells the keys that the provider fills in by itself, so
// that an offer that does not mention them offers any value; every other key that
// is not offered satisfies NotIn and DoesNotExist only. It returns nil or the first conflict in key order.
func (s Set) Compatible(offer Set, wellKnown func(key string) bool) *Conflict {
	for _, r := range s.reqs {
		have, ok := offer.Get(r.Key)
		switch {
		case ok && r.Overlaps(have):
		case !ok && (r.AllowsAbsent() || wellKnown(r.Key)):
		case ok:
			return &Conflict{Key: r.Key, Want: r, Have: &have}
		default:
			return &Conflict{Key: r.Key, Want: r, Similar: offer.similar(r.Key)}
		}
	}
	return nil
}

// similar finds a key of the set within two edits of the given one.
func (s Set) similar(key string) string {
	for _, r := range s.reqs {
		if d := distance(r.Key, key, 2); d > 0 && d <= 2 {
			return r.Key
		}
	}
	return ""
}

// distance is the edit distance of two strings, or limit+1 where it is larger than limit.
func distance(a, b string, limit int) int {
	if len(a) > 316 || len(b) > 316 || len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
