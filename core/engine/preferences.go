package engine

import (
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// Preferences tells planners that move pods what those prefer, as far as the policy
// looks at it and something could keep it: a pod that lost it would have a node bought
// for it as soon as it waits. All methods work on nil, for worlds in which nobody
// prefers anything.
type Preferences struct{ r *relaxer }

// NewPreferences reads what the given pods of the world prefer; nil = nothing. prices
// tell which offerings strategies refuse, nil = none. Limits of pools are left out of
// account: a node that goes makes room under them.
func NewPreferences(w *model.World, prices *model.Prices, pods []*model.Pod) *Preferences {
	free := *w
	free.Pools = make([]*model.Pool, len(w.Pools))
	for i, p := range w.Pools {
		c := *p
		c.Limits = model.Limits{}
		free.Pools[i] = &c
	}
	if r := newRelaxer(&free, prices, pods); r != nil {
		return &Preferences{r}
	}
	return nil
}

func (p *Preferences) of(pod *model.Pod) *wishes {
	if p == nil {
		return nil
	}
	if i, ok := p.r.index[pod]; ok && !p.r.of[i].hopeless {
		return p.r.of[i]
	}
	return nil
}

// Form is the pod with what it prefers of its node as requirements: its heaviest
// preferred node term, and no taint with PreferNoSchedule. It is the pod itself where
// it prefers no such thing.
func (p *Preferences) Form(pod *model.Pod) *model.Pod {
	x := p.of(pod)
	if x == nil {
		return pod
	}
	only := wishes{pod: pod}
	for _, s := range x.steps {
		if s.kind == stepNode || s.kind == stepTaints {
			only.steps = append(only.steps, s)
		}
	}
	if len(only.steps) == 0 {
		return pod
	}
	f := only.form(0)
	c := *pod
	c.Topology, c.Form = f.topology, f.mark
	return &c
}

// Soft is what the pod prefers of the pods around it, nil = nothing.
func (p *Preferences) Soft(pod *model.Pod) *model.Soft {
	x := p.of(pod)
	if x == nil {
		return nil
	}
	out := &model.Soft{}
	for _, s := range x.steps {
		switch s.kind {
		case stepNear:
			out.Affinity = append(out.Affinity, model.WeightedTerm{PodTerm: s.term})
		case stepApart:
			out.AntiAffinity = append(out.AntiAffinity, model.WeightedTerm{PodTerm: s.term})
		case stepSpread:
			out.Spreads = append(out.Spreads, s.spread)
		}
	}
	if out.None() {
		return nil
	}
	return out
}

// Buyable is the values of a label that a new node for the pod could have, whatever
// the pools' limits. For the label of the host it is one that no node has, where a
// node can be bought at all.
func (p *Preferences) Buyable(pod *model.Pod, key string) []string {
	x := p.of(pod)
	if x == nil || x.base == nil {
		return nil
	}
	set := map[string]bool{}
	for _, pl := range p.r.can.pr.pools {
		e := x.base.spec.elig[pl.index]
		if e.bits == nil {
			continue
		}
		bits := e.bits.clone()
		bits.and(pl.usable)
		if !pl.fitsSome(bits, x.base) {
			continue
		}
		switch {
		case key == model.LabelHostname:
			set[""] = true
		case ofOffering(key):
			idx := pl.class.index(key)
			for i, v := range idx.values {
				if intersects(idx.bits[i], bits) {
					set[v] = true
				}
			}
		default:
			if r, ok := pl.Requirements.Get(key); ok && r.Finite() {
				for _, v := range r.Values {
					set[v] = true
				}
			}
		}
	}
	out := sortedKeys(set)
	return slices.DeleteFunc(out, func(v string) bool { return key != model.LabelHostname && !mayHave(pod.Terms, key, v) })
}

// mayHave says whether one of the terms allows a value of a label.
func mayHave(terms []require.Set, key, value string) bool {
	return slices.ContainsFunc(terms, func(t require.Set) bool {
		r, ok := t.Get(key)
		return !ok || r.Has(value)
	})
}
