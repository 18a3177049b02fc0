package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// underPolicy finds places for all waiting pods under the preference policy.
//
// A preference is a rule until it is given up: pods are planned for in a form that
// has their preferences as requirements, those that find no place give up the next
// one in the documented order, and the plan is made again, until nobody without a
// place has anything to give up. Worlds in which nobody prefers anything are planned
// once, as they are.
//
// No preference costs a pod its place: where the policy Ignore would place a pod that
// is left over, further preferences go, of its own kind first, then of the pods that
// use up limits, then of all.
func underPolicy(w *model.World, prices *model.Prices) *Result {
	r := newRelaxer(w, prices, w.Pods)
	if r == nil {
		return byPriority(w, prices)
	}
	return r.place()
}

// stepKind is a kind of preference; they are given up in this order.
type stepKind int

const (
	stepNear   stepKind = iota // preferred pod affinity, heaviest first
	stepApart                  // preferred pod anti-affinity, heaviest first
	stepNode                   // preferred node affinity, heaviest first; only the heaviest that is left is asked for
	stepSpread                 // ScheduleAnyway, first in the list first
	stepTaints                 // PreferNoSchedule taints
)

// step is one preference, which one step of the relaxation gives up.
type step struct {
	kind   stepKind
	node   require.Set
	term   model.PodTerm
	spread model.Spread
	// id names, of stepApart and stepSpread, what pods that gave it up are excused from:
	// they are not counted by it any more. So pods that kept it and pods that gave it up
	// may still share a node or a zone.
	id   string
	text string
}

// everyone is the id that excuses from all preferences of other pods.
const everyone = "*"

// wishes is what equal pods prefer.
type wishes struct {
	steps []step
	void  []step     // those that no pool and no node could keep
	pod   *model.Pod // any of them
	forms []*form    // by level; nil = not made yet
	// hopeless says that neither a pool nor a node could take such a pod, whatever it
	// gave up.
	hopeless bool
	base     *group // what one such pod asks of its node, preferences left out
}

// form is what the copies of equal pods at one level of relaxation have in common.
type form struct {
	topology *model.Topology
	mark     *model.Form // nil: the pod itself will do
}

// relaxer plans with preferences.
type relaxer struct {
	w      *model.World
	prices *model.Prices
	pods   []*model.Pod
	taints []model.Taint // PreferNoSchedule taints of pools and nodes
	apart  bool          // some preference keeps other pods at a distance
	index  map[*model.Pod]int
	of     []*wishes // by pod
	level  []int     // by pod: how many steps it has taken
	made   []*model.Pod
	at     []int // the level of made, -1 = none
	soft   map[string]model.Selector
	// apartBy is the terms of anti-affinities by the ids of their steps.
	apartBy map[string]model.PodTerm
	can     *possibilities
	ref     *Result             // see hard; nil = not made yet
	nowhere map[*model.Pod]bool // those without a place in ref
	budget  int                 // further passes that may be made
	late    bool                // the time budget ended before the passes did
	kept    *Result             // the last attempt that is legal, where there is a time budget
	keptAt  []int               // the levels of kept
}

// maxPasses and minPasses bound how often a plan is made for the sake of preferences;
// between them effort counts: passes times pods.
const (
	maxPasses  = 16
	minPasses  = 5
	passEffort = 100_000
)

// newRelaxer is nil where nobody prefers anything that the policy looks at.
func newRelaxer(w *model.World, prices *model.Prices, pods []*model.Pod) *relaxer {
	taints := softTaints(w)
	prefers := func(p *model.Pod) bool { return len(p.Preferred) > 0 || !p.Soft.None() }
	if len(taints) == 0 && (w.Settings.IgnorePreferences || !slices.ContainsFunc(pods, prefers)) {
		return nil
	}
	r := &relaxer{w: w, prices: prices, pods: pods, taints: taints, index: make(map[*model.Pod]int, len(pods)), of: make([]*wishes, len(pods)),
		level: make([]int, len(pods)), made: make([]*model.Pod, len(pods)), at: make([]int, len(pods)), soft: map[string]model.Selector{}, apartBy: map[string]model.PodTerm{}}
	r.budget = max(minPasses, min(maxPasses, passEffort/max(len(pods), 1)))
	some := false
	byLook, byText := map[look]*wishes{}, map[string]*wishes{}
	var all []*wishes
	var buf []byte
	for i, p := range pods {
		r.index[p], r.at[i] = i, -1
		if _, aside := setAside(p); aside {
			r.of[i] = &wishes{pod: p, hopeless: true}
			continue
		}
		l := lookOf(p)
		x := byLook[l]
		if x == nil {
			buf = wishKey(buf[:0], p)
			if x = byText[string(buf)]; x == nil {
				x = &wishes{pod: p, steps: r.steps(p)}
				byText[string(buf)] = x
				all = append(all, x)
			}
			byLook[l] = x
		}
		r.of[i] = x
		some = some || len(x.steps) > 0
	}
	if !some {
		return nil
	}
	r.prune(all)
	for _, x := range all {
		x.forms = make([]*form, len(x.steps)+2)
		r.apart = r.apart || slices.ContainsFunc(x.steps, func(s step) bool { return s.id != "" })
	}
	return r
}

// softTaints is the distinct taints of pools and nodes with PreferNoSchedule.
func softTaints(w *model.World) []model.Taint {
	var out []model.Taint
	note := func(list []model.Taint) {
		for _, t := range list {
			if t.Effect == model.PreferNoSchedule && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	for _, p := range w.Pools {
		note(p.Taints)
	}
	for _, n := range w.Nodes {
		note(n.Taints)
		if n.Claim != nil {
			note(n.Claim.Taints)
		}
	}
	return out
}

// look tells pods apart by where their parts lie: pods of one workload mostly share
// them, and then their text need not be compared.
type look struct {
	terms       *require.Set
	tolerations *model.Toleration
	preferred   *model.Preference
	soft        *model.Soft
	topology    *model.Topology
	base        [resource.NumBase]int64
	ext         string
}

func lookOf(p *model.Pod) look {
	l := look{soft: p.Soft, topology: p.Topology, base: p.Requests.Base}
	if len(p.Terms) > 0 {
		l.terms = &p.Terms[0]
	}
	if len(p.Tolerations) > 0 {
		l.tolerations = &p.Tolerations[0]
	}
	if len(p.Preferred) > 0 {
		l.preferred = &p.Preferred[0]
	}
	if len(p.Requests.Ext) > 0 {
		l.ext = string(appendSizeKey(nil, p.Requests))
	}
	return l
}

// wishKey is equal for pods that ask for and prefer the same.
func wishKey(b []byte, p *model.Pod) []byte {
	b = appendSpecKey(b, p)
	b = topologyKey(b, p.Topology)
	for _, t := range p.Preferred {
		b = append(append(b, t.Set.Key()...), '|')
	}
	if s := p.Soft; s != nil {
		for _, list := range [][]model.WeightedTerm{s.Affinity, s.AntiAffinity} {
			for _, t := range list {
				b = fmt.Appendf(b, "%d%q%q;", t.Weight, t.Key, t.Selector.ID)
			}
			b = append(b, '/')
		}
		b = topologyKey(b, &model.Topology{Spreads: s.Spreads})
	}
	return appendSizeKey(b, p.Requests)
}

// steps is what a pod prefers, in the order in which it is given up.
func (r *relaxer) steps(p *model.Pod) []step {
	var out []step
	if !r.w.Settings.IgnorePreferences {
		soft := p.Soft
		if soft == nil {
			soft = &model.Soft{}
		}
		for _, t := range soft.Affinity {
			out = append(out, step{kind: stepNear, term: t.PodTerm, text: fmt.Sprintf("preferred pod affinity over %s (weight %d)", t.Key, t.Weight)})
		}
		for _, t := range soft.AntiAffinity {
			s := step{kind: stepApart, term: t.PodTerm, id: "apart " + t.Key + " " + t.Selector.ID, text: fmt.Sprintf("preferred pod anti-affinity over %s (weight %d)", t.Key, t.Weight)}
			s.term.Selector = r.softSelector(s.id, t.Selector)
			r.apartBy[s.id] = s.term
			out = append(out, s)
		}
		for _, t := range p.Preferred {
			out = append(out, step{kind: stepNode, node: t.Set, text: fmt.Sprintf("preferred node affinity %s (weight %d)", t.Set, t.Weight)})
		}
		for _, t := range soft.Spreads {
			s := step{kind: stepSpread, spread: t, id: "spread " + t.Key + " " + t.Selector.ID, text: fmt.Sprintf("ScheduleAnyway spread over %s", t.Key)}
			s.spread.Selector = r.softSelector(s.id, t.Selector)
			out = append(out, s)
		}
	}
	if t, kept := averse(p).Untolerated(r.taints); kept {
		out = append(out, step{kind: stepTaints, text: fmt.Sprintf("taint %s", t)})
	}
	return out
}

// softSelector picks what another selector picks, save for pods that are excused.
func (r *relaxer) softSelector(id string, s model.Selector) model.Selector {
	if got, ok := r.soft[id]; ok {
		return got
	}
	out := model.Selector{ID: id, Labels: s.Labels, Matches: func(p *model.Pod) bool { return !excused(p, id) && s.Picks(p) }}
	r.soft[id] = out
	return out
}

func excused(p *model.Pod, id string) bool {
	return p.Form != nil && slices.ContainsFunc(p.Form.Past, func(x string) bool { return x == id || x == everyone })
}

// last is the level at which a pod has given up everything: all of its own, and, where
// there are such, its part in what other pods prefer.
func (r *relaxer) last(i int) int {
	x := r.of[i]
	if x.hopeless {
		return 0
	}
	if r.apart {
		return len(x.steps) + 1
	}
	return len(x.steps)
}

// pod is the copy of a pod that is planned for, at the level where it is.
func (r *relaxer) pod(i int) *model.Pod {
	p, x := r.pods[i], r.of[i]
	if x.hopeless {
		return p
	}
	if r.at[i] == r.level[i] {
		return r.made[i]
	}
	f := x.forms[r.level[i]]
	if f == nil {
		f = x.form(r.level[i])
		x.forms[r.level[i]] = f
	}
	out := p
	if f.mark != nil {
		c := *p
		c.Topology, c.Form = f.topology, f.mark
		out = &c
	}
	r.made[i], r.at[i] = out, r.level[i]
	return out
}

// form has what is left of the preferences as requirements. A preferred node term
// goes where the places of volumes are: it limits where the pod may be, not which
// nodes count for its spreads.
func (x *wishes) form(level int) *form {
	var past []string
	for _, s := range x.steps[:min(level, len(x.steps))] {
		if s.id != "" {
			past = append(past, s.id)
		}
	}
	if level > len(x.steps) {
		past = []string{everyone}
	}
	if level >= len(x.steps) {
		f := &form{topology: x.pod.Topology}
		if len(past) > 0 {
			f.mark = &model.Form{Key: strings.Join(past, "\x00"), Past: past}
		}
		return f
	}
	t := model.Topology{}
	if x.pod.Topology != nil {
		t = *x.pod.Topology
		t.Spreads, t.Affinity, t.AntiAffinity = slices.Clip(t.Spreads), slices.Clip(t.Affinity), slices.Clip(t.AntiAffinity)
	}
	mark := &model.Form{Key: fmt.Sprintf("%d\x00%s", len(x.steps)-level, strings.Join(past, "\x00")), Past: past}
	node := false
	for _, s := range x.steps[level:] {
		switch s.kind {
		case stepNear:
			t.Affinity = append(t.Affinity, s.term)
		case stepApart:
			t.AntiAffinity = append(t.AntiAffinity, s.term)
		case stepSpread:
			t.Spreads = append(t.Spreads, s.spread)
		case stepTaints:
			mark.SoftTaints = true
		case stepNode:
			if !node {
				t.VolumeTerms = both(t.VolumeTerms, s.node)
			}
			node = true
		}
	}
	f := &form{mark: mark}
	if !t.None() {
		f.topology = &t
	}
	return f
}

// both is the terms with the set asked for on top.
func both(terms []require.Set, set require.Set) []require.Set {
	if len(terms) == 0 {
		return []require.Set{set}
	}
	out := make([]require.Set, len(terms))
	for i, t := range terms {
		out[i] = t.And(set)
	}
	return out
}

// place plans until nothing that has no place can be relaxed.
func (r *relaxer) place() *Result {
	res := r.relaxed()
	if res != nil && !slices.ContainsFunc(res.Unplaced, func(v model.Verdict) bool { return !r.of[r.index[v.Pod]].hopeless }) {
		return r.finished(res)
	}
	ref := r.hard()
	if saved := r.saved(ref); saved != nil {
		return r.finished(saved)
	}
	if res == nil {
		return r.given(ref, fmt.Sprintf("preferences are not looked at in this plan: after %d passes there were still pods without a place", r.passes()))
	}
	lost := starved(res, ref)
	if len(lost) == 0 {
		return r.finished(res)
	}
	for _, scope := range r.scopes(res, lost) {
		kept := slices.Clone(r.level)
		top := 0
		for _, i := range scope {
			top = max(top, r.last(i))
		}
		for floor := 1; floor < 2*top; floor *= 2 {
			for _, i := range scope {
				r.level[i] = max(r.level[i], min(floor, r.last(i)))
			}
			if res = r.relaxed(); res == nil {
				return r.given(ref, fmt.Sprintf("preferences are not looked at in this plan: no way to keep some of them without costing other pods their place was found in %d passes", r.passes()))
			}
			if len(starved(res, ref)) == 0 {
				return r.finished(res)
			}
		}
		r.level = kept
	}
	return r.given(ref, "preferences are not looked at in this plan: keeping some of them would have cost other pods their place")
}

func (r *relaxer) passes() int { return max(minPasses, min(maxPasses, passEffort/max(len(r.pods), 1))) }

// relaxed makes passes, each with the pods that found no place one step further, and
// after a few, or where passes are few, with steps that double. It is nil where the passes are used up.
func (r *relaxer) relaxed() *Result {
	by := 1
	for n := 0; r.budget > 0; n++ {
		if r.late = !r.w.Budget.MayImprove(); r.late {
			return nil
		}
		r.budget--
		if n >= 3 || n > 0 && r.passes() < maxPasses/2 {
			by *= 2
		}
		w := r.world()
		res, misfits := pass(w, r.prices, w.Pods, nil, false, nil)
		if len(misfits) > 0 { // as placeAll does
			res, misfits = again(w, r.prices, w.Pods, nil, false, res, misfits)
		}
		over := len(res.Unplaced)+len(misfits) > 0 && !r.w.Budget.MayPlace()
		if over {
			res, misfits = stripped(w, r.prices, res, misfits), nil
		}
		if n > 0 && !over && len(res.Unplaced)+len(misfits) > 0 {
			r.hard() // where limits leave no room for many pods, no single step helps them
		}
		at := slices.Clone(r.level)
		raised := r.raise(w, res, misfits, by)
		if !raised && !over && len(res.Unplaced)+len(misfits) > 0 {
			res, misfits = byPriority(w, r.prices), nil
			raised = r.raise(w, res, nil, by)
		}
		if raised && r.w.Budget != nil && len(misfits) == 0 {
			r.restore(w, res)
			r.kept, r.keptAt = res, at
		}
		if !raised {
			r.restore(w, res)
			return res
		}
	}
	return nil
}

// saved is the last attempt with preferences, where the time budget ended before a plan
// without them could be made that places as many pods; else nil.
func (r *relaxer) saved(ref *Result) *Result {
	if !ref.cut || r.kept == nil || len(r.kept.Unplaced) >= len(ref.Unplaced) {
		return nil
	}
	r.level = r.keptAt
	return r.kept
}

// world is the world with the copies of the pods at their present levels.
func (r *relaxer) world() *model.World {
	w := *r.w
	w.Pods = make([]*model.Pod, len(r.pods))
	for i := range r.pods {
		w.Pods[i] = r.pod(i)
	}
	return &w
}

// raise has the pods without a place take steps, and those that could not run where they
// are; it says whether some could. Pods that have no place without preferences either
// take all steps at once.
func (r *relaxer) raise(w *model.World, res *Result, misfits []misfit, by int) bool {
	if len(res.Unplaced)+len(misfits) == 0 {
		return false
	}
	at := make(map[*model.Pod]int, len(w.Pods))
	for i, p := range w.Pods {
		at[p] = i
	}
	raised := false
	step := func(p *model.Pod) {
		i, ok := at[p]
		if !ok || r.level[i] >= r.last(i) {
			return
		}
		raised = true
		if r.level[i] = min(r.level[i]+by, r.last(i)); r.nowhere[r.pods[i]] {
			r.level[i] = r.last(i)
		}
	}
	for _, v := range res.Unplaced {
		step(v.Pod)
	}
	for _, m := range misfits {
		step(m.pod)
	}
	return raised
}

// restore puts the pods themselves in the place of their copies.
func (r *relaxer) restore(w *model.World, res *Result) {
	self := make(map[*model.Pod]*model.Pod, len(w.Pods))
	for i, p := range w.Pods {
		self[p] = r.pods[i]
	}
	swap := func(pods []*model.Pod) {
		for i, p := range pods {
			pods[i] = self[p]
		}
	}
	for i := range res.Placements {
		swap(res.Placements[i].Pods)
	}
	for _, n := range res.New {
		swap(n.Pods)
	}
	for i := range res.Unplaced {
		res.Unplaced[i].Pod = self[res.Unplaced[i].Pod]
	}
}

// hard is the plan in which preferences that the policy Ignore does not look at count
// for nothing; under that policy the one in which taints do not either.
func (r *relaxer) hard() *Result {
	if r.ref != nil {
		return r.ref
	}
	if r.w.Settings.IgnorePreferences {
		r.ref = byPriority(r.w, r.prices)
	} else {
		w := *r.w
		w.Settings.IgnorePreferences = true
		r.ref = underPolicy(&w, r.prices)
	}
	r.nowhere = make(map[*model.Pod]bool, len(r.ref.Unplaced))
	for _, v := range r.ref.Unplaced {
		r.nowhere[v.Pod] = true
	}
	return r.ref
}

// placed calls f with every pod that has a place.
func (res *Result) placed(f func(*model.Pod, home)) {
	for _, pl := range res.Placements {
		for _, p := range pl.Pods {
			f(p, home{node: pl.Node})
		}
	}
	for _, n := range res.New {
		for _, p := range n.Pods {
			f(p, home{new: n})
		}
	}
}

// starved is the pods that have a place in ref and none in res.
func starved(res, ref *Result) []*model.Pod {
	left := make(map[*model.Pod]bool, len(res.Unplaced))
	for _, v := range res.Unplaced {
		left[v.Pod] = true
	}
	var out []*model.Pod
	ref.placed(func(p *model.Pod, _ home) {
		if left[p] {
			out = append(out, p)
		}
	})
	return out
}

// scopes is whose preferences may go for the sake of pods that lost their place, one
// after the other: equal pods, pods on new nodes of pools with limits, everybody.
func (r *relaxer) scopes(res *Result, lost []*model.Pod) [][]int {
	equal := map[*wishes]bool{}
	for _, p := range lost {
		equal[r.of[r.index[p]]] = true
	}
	limited := map[*model.Pod]bool{}
	res.placed(func(p *model.Pod, h home) {
		if h.new != nil && !h.new.Pool.Limits.None() {
			limited[p] = true
		}
	})
	scopes := make([][]int, 3)
	for i, p := range r.pods {
		if r.last(i) == 0 {
			continue
		}
		if equal[r.of[i]] {
			scopes[0] = append(scopes[0], i)
		}
		if limited[p] || equal[r.of[i]] {
			scopes[1] = append(scopes[1], i)
		}
		scopes[2] = append(scopes[2], i)
	}
	return scopes
}

// finished is a plan with what it says about preferences. A plan that does not hold by
// the required rules alone gives way to the one without preferences.
func (r *relaxer) finished(res *Result) *Result {
	if len(replayPlan(r.w, res.Placements, res.New)) > 0 {
		return r.given(r.hard(), "preferences are not looked at in this plan: the one that keeps them could not be carried out in the order in which kube-scheduler binds pods")
	}
	res.tied = true // preferences are no part of what is proven
	res.Relaxed = r.relaxations(res, false)
	return res
}

// given is the plan without preferences, which says so.
func (r *relaxer) given(ref *Result, why string) *Result {
	if r.late {
		why = "preferences are not looked at in this plan: the time budget ended before one was found that keeps them"
	}
	if ref.Relaxed = r.relaxations(ref, true); len(ref.Relaxed) > 0 {
		ref.Notes = append(ref.Notes, why)
	}
	return ref
}
