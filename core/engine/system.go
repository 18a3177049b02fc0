package engine

import (
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// linuxFirst keeps pods that do not say which operating system they are for off Windows
// machines, where other machines can have them. Nothing but their image tells that they
// are not for Windows, and neither kube-scheduler nor a pool's requirements look at that.
func (pr *problem) linuxFirst() {
	if pr.loose {
		return
	}
	windows := map[*class]bitset{}
	for _, c := range pr.class {
		k := c.index(model.LabelOS)
		if i := slices.Index(k.values, "windows"); i >= 0 {
			windows[c] = k.bits[i]
		}
	}
	if len(windows) == 0 {
		return
	}
	only := map[*spec]bool{} // some of its pods have nowhere else to go
	for _, g := range pr.groups {
		if !only[g.spec] && !saysSystem(g.spec.terms) && !pr.holdsWithout(g, windows) {
			only[g.spec] = true
		}
	}
	for _, s := range pr.specs {
		if only[s] || saysSystem(s.terms) {
			continue
		}
		for _, p := range pr.pools {
			e := &s.elig[p.index]
			if e.bits == nil || windows[p.class] == nil || !intersects(e.bits, windows[p.class]) {
				continue
			}
			e.bits = e.bits.clone()
			e.bits.andNot(windows[p.class])
			if e.bits.empty() {
				*e = eligibility{reason: &model.Reason{Pool: p.Name, Filter: model.FilterRequirements,
					Message: "the pool is of Windows machines, and the pod does not ask for kubernetes.io/os windows"}}
			}
		}
	}
}

// saysSystem says whether every term asks for an operating system, one way or the other.
func saysSystem(terms []require.Set) bool {
	return !slices.ContainsFunc(terms, func(t require.Set) bool {
		_, os := t.Get(model.LabelOS)
		_, build := t.Get(model.LabelWindowsBuild)
		return !os && !build
	})
}

// holdsWithout says whether some offering outside of the given ones can hold the group.
func (pr *problem) holdsWithout(g *group, without map[*class]bitset) bool {
	for _, p := range pr.pools {
		e := g.spec.elig[p.index]
		if e.bits == nil {
			continue
		}
		b := e.bits.clone()
		b.and(p.usable)
		if w := without[p.class]; w != nil {
			b.andNot(w)
		}
		if p.fitsSome(b, g) {
			return true
		}
	}
	return false
}
