package resource

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Indexes of the resources in Vector.Base.
const (
	CPU     = iota // milli-CPU
	Memory         // bytes
	Pods           // count
	Storage        // ephemeral-storage, bytes
	NumBase        // number of fixed resources
)

// Kubernetes names of the fixed resources, in index order.
var baseNames = [NumBase]string{"cpu", "memory", "pods", "ephemeral-storage"}

// Amount is a quantity of one resource that is not among the fixed ones.
type Amount struct {
	Name  string // Kubernetes resource name, such as nvidia.com/gpu
	Value int64  // count, or bytes for hugepages-*
}

// Vector is an amount of every resource; the zero value is nothing at all.
type Vector struct {
	Base [NumBase]int64
	Ext  []Amount // sorted by name, without zero values; never modified in place
}

// New builds a vector of the given base amounts.
func New(milliCPU, memoryBytes, pods, storageBytes int64) Vector {
	return Vector{Base: [NumBase]int64{milliCPU, memoryBytes, pods, storageBytes}}
}

// BaseName is the Kubernetes name of the fixed resource with index i.
func BaseName(i int) string { return baseNames[i] }

// BaseIndex is the index of a fixed resource by its Kubernetes name, or -1.
func BaseIndex(name string) int { return slices.Index(baseNames[:], name) }

// With returns v with the named resource set to value.
func (v Vector) With(name string, value int64) Vector {
	if i := BaseIndex(name); i >= 0 {
		v.Base[i] = value
		return v
	}
	ext := make([]Amount, 0, len(v.Ext)+1)
	for _, a := range v.Ext {
		if a.Name != name {
			ext = append(ext, a)
		}
	}
	if value != 0 {
		ext = append(ext, Amount{name, value})
		sort.Slice(ext, func(i, j int) bool { return ext[i].Name < ext[j].Name })
	}
	if len(ext) == 0 {
		ext = nil
	}
	v.Ext = ext
	return v
}

// Get is the amount of the named resource, 0 where it is absent.
func (v Vector) Get(name string) int64 {
	if i := BaseIndex(name); i >= 0 {
		return v.Base[i]
	}
	for _, a := range v.Ext {
		if a.Name == name {
			return a.Value
		}
	}
	return 0
}

// Each calls f for every resource that is not zero, fixed ones first.
func (v Vector) Each(f func(name string, value int64)) {
	for i, x := range v.Base {
		if x != 0 {
			f(baseNames[i], x)
		}
	}
	for _, a := range v.Ext {
		f(a.Name, a.Value)
	}
}

func merge(a, b Vector, op func(x, y int64) int64) Vector {
	var out Vector
	for i := range a.Base {
		out.Base[i] = op(a.Base[i], b.Base[i])
	}
	if len(a.Ext) == 0 && len(b.Ext) == 0 {
		return out
	}
	out.Ext = make([]Amount, 0, len(a.Ext)+len(b.Ext))
	add := func(name string, x, y int64) {
		if z := op(x, y); z != 0 {
			out.Ext = append(out.Ext, Amount{name, z})
		}
	}
	i, j := 0, 0
	for i < len(a.Ext) || j < len(b.Ext) {
		switch {
		case j == len(b.Ext) || i < len(a.Ext) && a.Ext[i].Name < b.Ext[j].Name:
			add(a.Ext[i].Name, a.Ext[i].Value, 0)
			i++
		case i == len(a.Ext) || b.Ext[j].Name < a.Ext[i].Name:
			add(b.Ext[j].Name, 0, b.Ext[j].Value)
			j++
		default:
			add(a.Ext[i].Name, a.Ext[i].Value, b.Ext[j].Value)
			i, j = i+1, j+1
		}
	}
	if len(out.Ext) == 0 {
		out.Ext = nil
	}
	return out
}

// SaturatingAdd adds without wrapping round.
func SaturatingAdd(x, y int64) int64 {
	s := x + y
	switch {
	case x > 0 && y > 0 && s < 0:
		return math.MaxInt64
	case x < 0 && y < 0 && s >= 0:
		return math.MinInt64
	}
	return s
}

func saturatingSub(x, y int64) int64 {
	if y == math.MinInt64 {
		return SaturatingAdd(SaturatingAdd(x, math.MaxInt64), 1)
	}
	return SaturatingAdd(x, -y)
}

// Add is v + w.
func (v Vector) Add(w Vector) Vector { return merge(v, w, SaturatingAdd) }

// Sub is v - w; amounts may become negative.
func (v Vector) Sub(w Vector) Vector { return merge(v, w, saturatingSub) }

// Max is the larger amount of each resource.
func (v Vector) Max(w Vector) Vector {
	return merge(v, w, func(x, y int64) int64 { return max(x, y) })
}

// Min is the smaller amount of each resource; absent counts as 0.
func (v Vector) Min(w Vector) Vector {
	return merge(v, w, func(x, y int64) int64 { return min(x, y) })
}

// Floor is v with negative amounts replaced by 0.
func (v Vector) Floor() Vector { return v.Max(Vector{}) }

// Scale is v times n.
func (v Vector) Scale(n int64) Vector {
	mul := func(x, _ int64) int64 {
		if x == 0 || n == 0 {
			return 0
		}
		if p := x * n; p/n == x {
			return p
		}
		if (x > 0) == (n > 0) {
			return math.MaxInt64
		}
		return math.MinInt64
	}
	return merge(v, Vector{}, mul)
}

// Fits says whether a demand of v fits into the free amounts of room. A resource
// that room lacks counts as 0, and a negative amount of room fits nothing, not
// even a demand of 0: such a node is over-committed already.
func (v Vector) Fits(room Vector) bool {
	for i, x := range v.Base {
		if x > room.Base[i] || room.Base[i] < 0 {
			return false
		}
	}
	for _, a := range room.Ext {
		if a.Value < 0 {
			return false
		}
	}
	for _, a := range v.Ext {
		if a.Value > room.Get(a.Name) {
			return false
		}
	}
	return true
}

// Lacking names the first resource of which v asks more than room has, in index
// order, with the two amounts; ok is false where v fits.
func (v Vector) Lacking(room Vector) (name string, want, have int64, ok bool) {
	for i, x := range v.Base {
		if x > room.Base[i] || room.Base[i] < 0 {
			return baseNames[i], x, room.Base[i], true
		}
	}
	for _, a := range v.Ext {
		if h := room.Get(a.Name); a.Value > h {
			return a.Name, a.Value, h, true
		}
	}
	for _, a := range room.Ext {
		if a.Value < 0 {
			return a.Name, v.Get(a.Name), a.Value, true
		}
	}
	return "", 0, 0, false
}

// IsZero says whether every amount is 0.
func (v Vector) IsZero() bool { return v.Base == [NumBase]int64{} && len(v.Ext) == 0 }

// Equal says whether every amount is the same.
func (v Vector) Equal(w Vector) bool { return v.Base == w.Base && slices.Equal(v.Ext, w.Ext) }

// Format writes an amount the way people write it in a manifest: cpu in cores or
// milli-cores, memory and storage in the largest binary unit that loses nothing.
func Format(name string, value int64) string {
	switch {
	case name == "cpu":
		if value%1000 == 0 {
			return strconv.FormatInt(value/1000, 10)
		}
		return strconv.FormatInt(value, 10) + "m"
	case name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-"):
		for _, u := range []struct {
			shift uint
			name  string
		}{{40, "Ti"}, {30, "Gi"}, {20, "Mi"}, {10, "Ki"}} {
			if value != 0 && value%(1<<u.shift) == 0 {
				return strconv.FormatInt(value>>u.shift, 10) + u.name
			}
		}
	}
	return strconv.FormatInt(value, 10)
}

// Map is the vector as Kubernetes quantities by name, without zero values.
func (v Vector) Map() map[string]string {
	m := map[string]string{}
	v.Each(func(n string, x int64) { m[n] = Format(n, x) })
	return m
}

// String lists the amounts that are not zero, fixed ones first.
func (v Vector) String() string {
	var parts []string
	v.Each(func(n string, x int64) { parts = append(parts, fmt.Sprintf("%s=%s", n, Format(n, x))) })
	return strings.Join(parts, " ")
}
