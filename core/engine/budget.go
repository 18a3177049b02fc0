package engine

import (
	"slices"

	"github.com/weir-project/weir/core/model"
)

// unseen is the reason of pods that the time did not suffice for.
var unseen = model.Reason{Filter: model.FilterPool, Message: "the time budget ended before this pod was looked at; it is at the next pass"}

// timed is the world with a budget that remembers its end.
func timed(w *model.World) (*model.World, *model.Deadline) {
	out := *w
	var d *model.Deadline
	out.Budget, d = w.Budget.Remembering()
	return &out, d
}

// ended is what a plan says of its budget; nil where that sufficed.
func ended(d *model.Deadline, r *Result) *model.BudgetEnd {
	e := d.End()
	if e == nil {
		return nil
	}
	for _, v := range r.Unplaced {
		if Unseen(v) {
			e.Unseen++
		}
	}
	return e
}

// Unseen says whether a pod has no place because the time budget ended before it was
// looked at.
func Unseen(v model.Verdict) bool {
	return len(v.Reasons) == 1 && v.Reasons[0].Filter == unseen.Filter && v.Reasons[0].Message == unseen.Message
}

// unseenVerdicts is the verdicts of pods that were not looked at.
func unseenVerdicts(pods []*model.Pod) []model.Verdict {
	out := make([]model.Verdict, len(pods))
	reasons := []model.Reason{unseen}
	for i, p := range pods {
		out[i] = model.Verdict{Pod: p, Reasons: reasons}
	}
	return out
}

// nothing is the plan of no time at all.
func nothing(pods []*model.Pod, kept []model.Verdict) *Result {
	r := &Result{cut: true, Unplaced: append(slices.Clone(kept), unseenVerdicts(pods)...)}
	sortVerdicts(r.Unplaced)
	return r
}

// stripped makes a plan legal some of whose pods could not be bound, when there is no
// time to plan again: they go, with the new nodes that they are on, and whoever cannot
// be bound without them. Shares that strategies ask for may hang on the nodes that go:
// where one is left without its share, everything waits for the next pass.
func stripped(w *model.World, prices *model.Prices, r *Result, misfits []misfit) *Result {
	var out []*model.Pod
	for len(misfits) > 0 {
		bad := make(map[*model.Pod]bool, len(misfits))
		for _, m := range misfits {
			bad[m.pod] = true
		}
		is := func(p *model.Pod) bool { return bad[p] }
		var placements []model.Placement
		for _, pl := range r.Placements {
			var stay []*model.Pod
			for _, p := range pl.Pods {
				if is(p) {
					out = append(out, p)
				} else {
					stay = append(stay, p)
				}
			}
			if len(stay) > 0 {
				placements = append(placements, model.Placement{Node: pl.Node, Pods: stay})
			}
		}
		var nodes []*model.NewNode
		for _, n := range r.New {
			if slices.ContainsFunc(n.Pods, is) {
				out = append(out, n.Pods...)
			} else {
				nodes = append(nodes, n)
			}
		}
		r.Placements, r.New = placements, nodes
		misfits = replayPlan(w, placements, nodes)
	}
	if len(out) == 0 {
		return r
	}
	r.cut = true
	r.Bound, r.Shortfalls = 0, nil // they were of the nodes that have gone, too
	r.Unplaced = append(r.Unplaced, unseenVerdicts(out)...)
	sortVerdicts(r.Unplaced)
	plan := &model.Plan{Kind: model.PlanProvision, Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}
	if len(CheckPriced(w, plan, prices)) == 0 {
		return r
	}
	for _, pl := range r.Placements {
		r.Unplaced = append(r.Unplaced, unseenVerdicts(pl.Pods)...)
	}
	for _, n := range r.New {
		r.Unplaced = append(r.Unplaced, unseenVerdicts(n.Pods)...)
	}
	r.Placements, r.New = nil, nil
	sortVerdicts(r.Unplaced)
	return r
}

// goOn says whether the time suffices for what the packer does: packing better than
// before, whose outcome counts only when it is done, or finding first places, where what
// was found so far stands.
func (p *packer) goOn() bool {
	if p.bettering {
		return p.pr.w.Budget.MayImprove()
	}
	p.pr.unseen = p.pr.unseen || !p.pr.w.Budget.MayPlace()
	return !p.pr.unseen
}
