package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// Relaxation tells which preferences of a placed pod the plan does not keep.
type Relaxation struct {
	Pod     *model.Pod
	Dropped []string // in the order in which they were given up; never empty
}

// home is where a pod has its place: one of the two.
type home struct {
	node *model.Node
	new  *model.NewNode
}

// place is the labels and the taints that count there, and what tells it from others.
func (h home) place() (labels map[string]string, taints []model.Taint, id any) {
	if h.new != nil {
		return h.new.Labels, h.new.Pool.Taints, h.new
	}
	return h.node.Labels, h.node.Taints, h.node
}

// domain is what pods that share a value of a label have in common.
func (h home) domain(key string) any {
	labels, _, id := h.place()
	if key == model.LabelHostname {
		return id
	}
	if v, ok := labels[key]; ok {
		return v
	}
	return nil
}

// averse is a pod that does not even go where PreferNoSchedule would have it not go.
func averse(p *model.Pod) *model.Pod {
	return &model.Pod{Tolerations: p.Tolerations, Form: &model.Form{SoftTaints: true}}
}

// outcome is what a plan comes to, to say which preferences it does not keep: one that
// was given up may be kept all the same.
type outcome struct {
	r      *relaxer
	at     map[*model.Pod]home // running and placed pods
	keeper map[*model.Pod]int  // of placed pods: the first step that it kept
	counts map[string]map[any]int64
	shuns  map[string]map[any]int64 // of pods that kept a step: how many are in a domain
	looks  int                      // pods that may still be looked at
}

// maxLooks bounds what is done to tell what was given up and is kept all the same;
// beyond, everything that was given up is told.
const maxLooks = 20_000_000

func (r *relaxer) outcome(res *Result, all bool) *outcome {
	o := &outcome{r: r, at: map[*model.Pod]home{}, keeper: map[*model.Pod]int{}, counts: map[string]map[any]int64{}, looks: maxLooks}
	for _, n := range r.w.Nodes {
		for _, p := range n.Pods {
			if p.Active() {
				o.at[p] = home{node: n}
			}
		}
	}
	res.placed(func(p *model.Pod, h home) {
		o.at[p] = h
		o.keeper[p] = r.level[r.index[p]]
		if all {
			o.keeper[p] = math.MaxInt
		}
	})
	return o
}

// count is the pods that a step looks at, by domain; nil where that would take too long.
func (o *outcome) count(id, key string, s model.Selector) map[any]int64 {
	if got := o.counts[id]; got != nil {
		return got
	}
	if o.looks -= len(o.at); o.looks < 0 {
		return nil
	}
	out := map[any]int64{}
	for p, h := range o.at {
		if d := h.domain(key); d != nil && s.Picks(p) {
			out[d]++
		}
	}
	o.counts[id] = out
	return out
}

// keeps says whether the place of a pod is as the step would have it, whichever offering
// the launch gets. What hangs on the order in which pods are bound counts as not kept:
// affinity to other pods, and spreads over more than the node.
func (o *outcome) keeps(p *model.Pod, h home, s step) bool {
	switch s.kind {
	case stepNode:
		return h.satisfies(s.node)
	case stepTaints:
		_, taints, _ := h.place()
		_, kept := averse(p).Untolerated(taints)
		return !kept
	case stepApart:
		d := h.domain(s.term.Key)
		by := o.count(s.id, s.term.Key, s.term.Selector)
		return by != nil && !h.varies(s.term.Key) && (d == nil || by[d]-one(s.term.Selector, p) == 0)
	case stepSpread:
		d := h.domain(s.spread.Key)
		by := o.count(s.id, s.spread.Key, s.spread.Selector)
		return by != nil && s.spread.Key == model.LabelHostname && by[d]-one(s.spread.Selector, p)+1 <= s.spread.MaxSkew
	}
	return false
}

func one(s model.Selector, p *model.Pod) int64 {
	if s.Picks(p) {
		return 1
	}
	return 0
}

// varies says whether the launch may give the node another value of a label.
func (h home) varies(key string) bool {
	if h.new == nil || !ofOffering(key) || key == model.LabelHostname {
		return false
	}
	v, _ := h.new.Offering.Label(key)
	return slices.ContainsFunc(h.new.Alternatives, func(a *model.Offering) bool { x, _ := a.Label(key); return x != v })
}

// satisfies says whether the node has what a term asks for.
func (h home) satisfies(term require.Set) bool {
	labels, _, _ := h.place()
	if term.LabelsSatisfy(labels) != nil {
		return false
	}
	for _, r := range term.All() {
		if h.new == nil || !ofOffering(r.Key) {
			continue
		}
		for _, a := range h.new.Alternatives {
			if v, ok := a.Label(r.Key); ok && !r.Has(v) || !ok && !r.AllowsAbsent() {
				return false
			}
		}
	}
	return true
}

// shunned says whether a pod shares a domain with one that still prefers to be apart
// from it.
func (o *outcome) shunned(p *model.Pod, h home) bool {
	if o.shuns == nil {
		o.shuns = map[string]map[any]int64{}
		for q, level := range o.keeper {
			for k, s := range o.r.of[o.r.index[q]].steps {
				if s.kind != stepApart || k < level {
					continue
				}
				if o.shuns[s.id] == nil {
					o.shuns[s.id] = map[any]int64{}
				}
				if d := o.at[q].domain(s.term.Key); d != nil {
					o.shuns[s.id][d]++
				}
			}
		}
	}
	for id, by := range o.shuns {
		t := o.r.apartBy[id]
		if d := h.domain(t.Key); d != nil && by[d] > 0 && t.Selector.Picks(p) {
			return true
		}
	}
	return false
}

// relaxations lists what placed pods prefer and the plan does not keep; all = nothing
// was looked at.
func (r *relaxer) relaxations(res *Result, all bool) []Relaxation {
	if !all && !r.gaveUp(res) {
		return nil
	}
	o := r.outcome(res, all)
	var out []Relaxation
	res.placed(func(p *model.Pod, h home) {
		i := r.index[p]
		x := r.of[i]
		var dropped []string
		for _, s := range x.void {
			if !o.keeps(p, h, s) {
				dropped = append(dropped, s.text+", which nothing could keep")
			}
		}
		for k, s := range x.steps {
			// who kept its distance may have got pods beside it that gave theirs up
			if (all || k < r.level[i] || s.kind == stepApart && o.looks >= 0) && !o.keeps(p, h, s) {
				dropped = append(dropped, s.text)
			}
		}
		if !all && r.level[i] > len(x.steps) && o.shunned(p, h) {
			dropped = append(dropped, "distance from pods that prefer to be apart from it")
		}
		if len(dropped) > 0 {
			out = append(out, Relaxation{Pod: p, Dropped: dropped})
		}
	})
	slices.SortStableFunc(out, func(a, b Relaxation) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return out
}

// gaveUp says whether some placed pod did.
func (r *relaxer) gaveUp(res *Result) bool {
	some := false
	res.placed(func(p *model.Pod, _ home) {
		i := r.index[p]
		some = some || r.level[i] > 0 || len(r.of[i].void) > 0
	})
	return some
}
