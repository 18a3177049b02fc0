package replace

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
)

// Leaving lists the nodes of ours whose pods need a new place because of notices,
// in the order of the world.
func Leaving(w *model.World, notices []model.Notice) []*model.Node {
	byID := map[string]*model.Node{}
	for _, n := range w.Nodes {
		byID[interrupt.InstanceOf(n)] = n
	}
	gone := map[*model.Node]bool{}
	for _, n := range notices {
		node := byID[n.InstanceID]
		if n.InstanceID == "" || node == nil || !node.Managed() {
			continue
		}
		rebalance := ""
		if p := w.Pool(node.Pool()); p != nil {
			rebalance = p.Annotations[model.AnnotationRebalance]
		}
		switch a, _ := interrupt.React(n, rebalance); a {
		case interrupt.Drain, interrupt.ReplaceThenDrain, interrupt.Remove:
			gone[node] = true
		}
	}
	var out []*model.Node
	for _, n := range w.Nodes {
		if gone[n] {
			out = append(out, n)
		}
	}
	return out
}

// World is the world as it will be without the nodes that notices take: they are
// left out, and their pods wait. Offerings whose interruption was announced are
// closed in it, so that the replacement is not bought where the next one ends the
// same way. w is not changed.
func World(w *model.World, notices []model.Notice) *model.World {
	leaving := Leaving(w, notices)
	next := *w
	next.Nodes = slices.DeleteFunc(slices.Clone(w.Nodes), func(n *model.Node) bool { return slices.Contains(leaving, n) })
	waiting := map[string]bool{}
	for _, p := range w.Pods {
		waiting[p.UID] = true
	}
	next.Pods = slices.Clone(w.Pods)
	for _, n := range leaving {
		for _, p := range n.Pods {
			if p.Reschedulable() && !waiting[p.UID] {
				copied := *p
				copied.NodeName, copied.NominatedNode, copied.Unschedulable = "", "", true
				next.Pods = append(next.Pods, &copied)
			}
		}
	}
	next.Offerings = closed(w, short(leaving, notices))
	return &next
}

// short are the keys of the offerings that notices announce to be short.
func short(leaving []*model.Node, notices []model.Notice) map[string]bool {
	out := map[string]bool{}
	for _, n := range notices {
		if n.Kind != model.NoticeSpot && n.Kind != model.NoticeReservation {
			continue
		}
		for _, node := range leaving {
			if interrupt.InstanceOf(node) == n.InstanceID {
				out[interrupt.OfferingOf(node)] = true
			}
		}
	}
	return out
}

func closed(w *model.World, keys map[string]bool) map[string][]*model.Offering {
	if len(keys) == 0 {
		return w.Offerings
	}
	out := make(map[string][]*model.Offering, len(w.Offerings))
	for class, list := range w.Offerings {
		copied := slices.Clone(list) // prices go by the index, so that nothing may be left out
		for i, o := range copied {
			if keys[o.Key()] && o.Available {
				c := *o
				c.Available, c.Unavailable = false, "AWS is taking an instance of it back"
				copied[i] = &c
			}
		}
		out[class] = copied
	}
	return out
}

// Plan finds new places for the pods of the nodes that notices take, as if those
// pods were waiting, together with the pods that do wait. prices may be nil: the
// market's hold. Memory of shortages orders and does not forbid: where pods have no
// place without the offerings that are being taken back, those are tried as well.
// A plan that the check refuses has no launches, and says so.
func Plan(w *model.World, prices *model.Prices, notices []model.Notice) *model.Plan {
	next := World(w, notices)
	p := place(next, prices)
	if len(p.Unplaced) == 0 {
		return p
	}
	reopened := *next
	reopened.Offerings = w.Offerings
	if second := place(&reopened, prices); len(second.Unplaced) < len(p.Unplaced) {
		second.Warnings = append(second.Warnings, "an offering that AWS is taking back is bought again: nothing else takes the pods")
		return second
	}
	return p
}

func place(w *model.World, prices *model.Prices) *model.Plan {
	r := engine.Place(w, prices)
	p := &model.Plan{Kind: model.PlanInterrupt, Made: w.Now, Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced, LowerBoundUSDPerHour: r.Bound, Shortfalls: r.Shortfalls, Budget: r.Budget}
	if r.Budget != nil {
		p.Warnings = append(p.Warnings, r.Budget.Text("pods", "the plan may be dearer than need be"))
	}
	if bad := engine.CheckPriced(w, p, prices); len(bad) > 0 {
		for _, err := range bad {
			p.Warnings = append(p.Warnings, fmt.Sprintf("plan refused: %v", err))
		}
		p.Launch, p.Placements, p.LowerBoundUSDPerHour = nil, nil, 0
	}
	return p
}
