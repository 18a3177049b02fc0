package simulate

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

type requireSet = require.Set

// wakeScheduler lets the scheduler look at waiting pods soon.
func (s *sim) wakeScheduler() {
	if s.scheduling {
		return
	}
	s.scheduling = true
	s.in(s.delays.Schedule, func() {
		s.scheduling = false
		s.schedule()
	})
}

// schedule binds waiting pods as kube-scheduler would: highest priority and oldest
// first, by taints, node affinity, resources and what welcome says, to the node that is least
// allocated and has the fewest pods of the same workload. What fits nowhere is
// marked Unschedulable.
func (s *sim) schedule() {
	var waiting []*model.Pod
	for _, p := range s.api.pods.all() {
		if p.NodeName == "" && p.Active() && !p.Gated {
			waiting = append(waiting, p)
		}
	}
	if len(waiting) == 0 {
		return
	}
	slices.SortStableFunc(waiting, func(a, b *model.Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), cmp.Compare(a.ID(), b.ID()))
	})
	var drivers []string // of volumes that some pod waits with
	for _, p := range waiting {
		drivers, _ = attach.AddDrivers(drivers, p.Requests)
	}
	rooms := s.rooms(drivers)
	hopeless := map[string]bool{} // workloads whose pods fit nowhere in this pass
	bound, again := false, false
	for _, p := range waiting {
		work := workloadOf(p)
		best := -1
		if !hopeless[work] && len(p.Unsupported) == 0 && p.Invalid == "" {
			best = pick(rooms, p, work)
		}
		if best < 0 {
			if p.Topology.None() {
				hopeless[work] = true
			} else {
				again = true // who was bound after it may have made room
			}
			if !p.Unschedulable {
				s.api.editPod(p.ID(), func(p *model.Pod) { p.Unschedulable = true })
			}
			continue
		}
		r := &rooms[best]
		r.free = r.free.Sub(p.Requests)
		r.same[work]++
		r.pods = append(r.pods, p)
		bound = true
		s.api.editPod(p.ID(), func(p *model.Pod) { p.NodeName, p.Unschedulable = r.node.Name, false })
	}
	if bound && again {
		s.wakeScheduler()
	}
}

// room is what a node has left.
type room struct {
	node *model.Node
	free resource.Vector
	same map[string]int // pods by workload
	pods []*model.Pod
}

// rooms is what is left of each node; nodes offer places for the volumes of the given
// drivers.
func (s *sim) rooms(drivers []string) []room {
	var out []room
	for _, n := range s.api.nodes.all() {
		if n.Cordoned {
			continue
		}
		r := room{node: n, free: attach.Allocatable(n, drivers, nil), same: map[string]int{}}
		for _, p := range s.api.bound(n.Name).all() {
			if !p.Terminal {
				r.free = r.free.Sub(p.Requests)
				r.same[workloadOf(p)]++
				r.pods = append(r.pods, p)
			}
		}
		out = append(out, r)
	}
	return out
}

// around scores what a pod prefers of the pods around it: its own preferences, by their
// weights, and an even spread.
func around(rooms []room, n *model.Node, p *model.Pod) float64 {
	if p.Soft == nil {
		return 0
	}
	there := func(key string, s model.Selector) float64 {
		if v, ok := n.Labels[key]; ok {
			return float64(count(rooms, key, v, s.Picks))
		}
		return 0
	}
	score := 0.0
	for _, t := range p.Soft.Affinity {
		score += float64(t.Weight) * min(there(t.Key, t.Selector), 1)
	}
	for _, t := range p.Soft.AntiAffinity {
		score -= float64(t.Weight) * min(there(t.Key, t.Selector), 1)
	}
	for _, s := range p.Soft.Spreads {
		score -= 100 * there(s.Key, s.Selector) / float64(s.MaxSkew)
	}
	return score
}

// pick is the index of the best node for the pod, -1 where none will do.
func pick(rooms []room, p *model.Pod, work string) int {
	best, top := -1, 0.0
	for i := range rooms {
		r := &rooms[i]
		if _, kept := p.Untolerated(r.node.Taints); kept || !p.Requests.Fits(r.free) || !termsSatisfied(p, r.node) || !welcome(rooms, i, p) {
			continue
		}
		left := r.free.Sub(p.Requests)
		score := 0.0
		for _, dim := range []int{resource.CPU, resource.Memory} {
			if total := r.node.Allocatable.Base[dim]; total > 0 {
				score += 50 * float64(left.Base[dim]) / float64(total)
			}
		}
		score -= 20 * float64(r.same[work])
		for _, pref := range p.Preferred {
			if pref.Set.LabelsSatisfy(r.node.Labels) == nil {
				score += float64(pref.Weight)
			}
		}
		for _, t := range r.node.Taints {
			if t.Effect == model.PreferNoSchedule && !p.Tolerates(t) {
				score -= 100
			}
		}
		score += around(rooms, r.node, p)
		if best < 0 || score > top {
			best, top = i, score
		}
	}
	return best
}
