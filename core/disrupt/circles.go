package disrupt

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

// CircleWindow is how far back moves are counted.
const CircleWindow = time.Hour

// heirWithin is how long after a command began the last of its pods may be evicted and
// come back: replacements first, then the drain. Pods that are made later are nobody's heirs.
const heirWithin = 20 * time.Minute

// Stop is a node that pods were moved off.
type Stop struct {
	At       time.Time // when the command that removed it started
	Pool     string
	Node     string
	Offering string // type/zone/capacity type
	Reason   model.DisruptionReason
}

// Hop is one move of pods of one workload off one node.
type Hop struct {
	Workload string // model.Pod.Workload
	Name     string // of the workload, for people: namespace/kind/name
	Pods     int
	Trail    []Stop // the nodes that these very pods were moved off, oldest first; this move's comes last

	heirs int // pods that took the place of the moved ones and were not moved themselves so far
}

func (h *Hop) at() time.Time { return h.Trail[len(h.Trail)-1].At }

// Moves remembers which pods were moved and how often. A pod that was evicted comes
// back under another name; it is known by its workload and by being created after the
// move. The zero value remembers nothing. It is not safe for concurrent use.
type Moves struct {
	hops map[string][]*Hop // by workload, oldest first

	seen *model.World            // whose pods are these:
	pods map[string][]*model.Pod // by workload, of those that have been moved
}

// NewMoves remembers what was written down of earlier moves, in any order.
func NewMoves(hops []Hop) *Moves {
	m := &Moves{}
	sort.SliceStable(hops, func(i, j int) bool { return hops[i].at().Before(hops[j].at()) })
	m.Add(hops)
	return m
}

// Add takes in moves that begin.
func (m *Moves) Add(hops []Hop) {
	if m.hops == nil {
		m.hops = map[string][]*Hop{}
	}
	for i := range hops {
		h := hops[i]
		h.heirs = h.Pods
		if n := len(h.Trail); n > 1 {
			for _, before := range m.hops[h.Workload] {
				if sameTrail(before.Trail, h.Trail[:n-1]) {
					before.heirs -= min(before.heirs, h.Pods)
					break
				}
			}
		}
		m.hops[h.Workload] = append(m.hops[h.Workload], &h)
	}
}

// look finds the pods of all workloads that have been moved, oldest first, once for each
// world.
func (m *Moves) look(w *model.World) {
	if m.seen == w {
		return
	}
	m.seen, m.pods = w, map[string][]*model.Pod{}
	take := func(p *model.Pod) {
		if workload := p.Workload(); workload != "" && p.Active() && m.hops[workload] != nil {
			m.pods[workload] = append(m.pods[workload], p)
		}
	}
	for _, p := range w.Pods {
		take(p)
	}
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			take(p)
		}
	}
	for _, pods := range m.pods {
		sort.Slice(pods, func(i, j int) bool {
			if !pods[i].Created.Equal(pods[j].Created) {
				return pods[i].Created.Before(pods[j].Created)
			}
			return pods[i].ID() < pods[j].ID()
		})
	}
}

func sameTrail(a, b []Stop) bool {
	return slices.EqualFunc(a, b, func(x, y Stop) bool { return x.Node == y.Node && x.At.Equal(y.At) })
}

// Forget drops what is too old to count at now, and the world that was looked at last.
func (m *Moves) Forget(now time.Time) {
	m.seen, m.pods = nil, nil
	for w, list := range m.hops {
		list = slices.DeleteFunc(list, func(h *Hop) bool { return !h.at().After(now.Add(-CircleWindow)) })
		if len(list) == 0 {
			delete(m.hops, w)
		} else {
			m.hops[w] = list
		}
	}
}

// Of is the moves that a command would add, the pods of each workload apart by where
// they came from. Pods that nobody would make anew have no part in it.
func (m *Moves) Of(w *model.World, c *model.Command) []Hop {
	var out []Hop
	heirs := map[string]map[string]*Hop{}
	for _, n := range c.Remove {
		stop := Stop{At: w.Now, Pool: n.Pool(), Node: n.ID(), Offering: offeringOf(n), Reason: c.Reason}
		first := len(out)
		for _, p := range n.Pods {
			workload := p.Workload()
			if !p.Reschedulable() || workload == "" {
				continue
			}
			if _, known := heirs[workload]; !known {
				heirs[workload] = m.heirs(w, workload)
			}
			trail := []Stop{stop}
			if before := heirs[workload][p.UID]; before != nil {
				trail = append(slices.Clone(before.Trail), stop)
			}
			i := slices.IndexFunc(out[first:], func(h Hop) bool { return h.Workload == workload && sameTrail(h.Trail, trail) })
			if i < 0 {
				out = append(out, Hop{Workload: workload, Name: p.Namespace + "/" + p.Owner.Kind + "/" + p.Owner.Name, Trail: trail})
				i = len(out) - 1 - first
			}
			out[first+i].Pods++
		}
	}
	return out
}

func offeringOf(n *model.Node) string {
	return n.InstanceType() + "/" + n.Zone() + "/" + n.CapacityType()
}

// heirs finds, by uid, the pods of a workload that came in place of moved ones: each
// takes the place that was left last before it was created.
func (m *Moves) heirs(w *model.World, workload string) map[string]*Hop {
	hops := m.hops[workload]
	if len(hops) == 0 {
		return nil
	}
	m.look(w)
	pods := m.pods[workload]
	left := make([]int, len(hops))
	for i, h := range hops {
		left[i] = h.heirs
	}
	out := map[string]*Hop{}
	for _, p := range pods {
		for i := len(hops) - 1; i >= 0; i-- {
			at := hops[i].at() // objects tell their creation in whole seconds
			if left[i] > 0 && !p.Created.Before(at.Truncate(time.Second)) && !p.Created.After(at.Add(heirWithin)) && at.After(w.Now.Add(-CircleWindow)) {
				out[p.UID] = hops[i]
				left[i]--
				break
			}
		}
	}
	return out
}

// Circle is pods that go round.
type Circle struct {
	Pools []string  // that had a part in it, sorted
	Until time.Time // from then on the move would be none any more
	Why   string    // the evidence, for people
}

// Circle says whether a command would move the same pods more than most times within
// the window (most 0: as often as it likes), or, to save money, back to the kind of
// machine that they were taken off before, bought anew since. hops is what Of says of
// the command.
func (m *Moves) Circle(w *model.World, c *model.Command, hops []Hop, most int) *Circle {
	if most <= 0 {
		return nil
	}
	begin := w.Now.Add(-CircleWindow)
	for i := range hops {
		h := &hops[i]
		recent := slices.Clone(h.Trail)
		for len(recent) > 0 && (!recent[0].At.After(begin) || recent[0].At.After(w.Now)) { // later than now: the clock was set back
			recent = recent[1:]
		}
		if len(recent) > most {
			return circle(h, recent, recent[len(recent)-1-most].At, fmt.Sprintf(
				"%d pods of %s would be moved for the %s time within %s, and at most %d are allowed (disruption.maxMovesPerHour)", h.Pods, h.Name, ordinal(len(recent)), CircleWindow, most))
		}
	}
	if c.Reason != model.Underutilized {
		return nil // whatever drifted, or is too old, is bought again as a rule
	}
	return back(w, c, hops, begin)
}

// back looks for pods on their way back: A, B, A.
func back(w *model.World, c *model.Command, hops []Hop, begin time.Time) *Circle {
	nodes := map[string]*model.Node{}
	for _, n := range w.Nodes {
		nodes[n.ID()] = n
	}
	launched := map[string]*model.NewNode{}
	for _, n := range c.Launch {
		launched[n.Name] = n
	}
	for i := range hops {
		h := &hops[i]
		here := h.Trail[len(h.Trail)-1]
		for k, stop := range h.Trail[:len(h.Trail)-1] {
			if stop.Reason != model.Underutilized || !stop.At.After(begin) || stop.At.After(w.Now) || stop.Offering == here.Offering {
				continue
			}
			for _, mv := range c.Moves {
				if mv.Pod.Workload() != h.Workload || mv.From != here.Node {
					continue
				}
				to := ""
				if n := launched[mv.To]; n != nil {
					to = n.Offering.Key()
				} else if n := nodes[mv.To]; n != nil && n.Claim != nil && n.Claim.Created.After(stop.At) {
					to = offeringOf(n)
				}
				if to == stop.Offering {
					return circle(h, h.Trail[k:], stop.At, fmt.Sprintf("pods of %s would go back to a machine like %s that they were taken off at %s: a new %s",
						h.Name, stop.Node, stop.At.UTC().Format(time.TimeOnly), to))
				}
			}
		}
	}
	return nil
}

func circle(h *Hop, trail []Stop, since time.Time, what string) *Circle {
	c := &Circle{Until: since.Add(CircleWindow)}
	var way []string
	for _, s := range trail {
		way = append(way, fmt.Sprintf("%s off %s (%s, %s)", s.At.UTC().Format(time.TimeOnly), s.Node, s.Offering, s.Reason))
		if !slices.Contains(c.Pools, s.Pool) {
			c.Pools = append(c.Pools, s.Pool)
		}
	}
	slices.Sort(c.Pools)
	c.Why = what + "; their way: " + strings.Join(way, ", ")
	return c
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}
