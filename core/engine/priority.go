package engine

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
)

// byPriority finds places for all waiting pods. As long as everything that can have a
// place gets one, priorities do not matter, and the price is what it is. Where room or
// limits run out, nothing of lower priority may take what a pod of higher priority
// would have got without it: that is how kube-scheduler would bind them.
//
// First the packing is told to serve higher priorities first, which mostly suffices.
// What is still wrong is mended by planning for the higher priorities alone and letting
// the lower ones join as long as they take nothing away.
func byPriority(w *model.World, prices *model.Prices) *Result {
	c := &contest{w: w, prices: prices, room: map[*model.Pod]bool{}, budget: min(max(contestedPods/max(len(w.Pods), 1), minContests), maxContests)}
	return c.plan(w.Pods)
}

// How many plans are made at most for the sake of priorities: so many that all of them
// look at a number of pods together, within bounds.
const (
	contestedPods = 8_000
	minContests   = 6
	maxContests   = 64

	// How exactly it is found out how many pods of one priority may join: to a share of them.
	fineness = 32
)

// contest plans where pods of different priority may want the same.
type contest struct {
	w      *model.World
	prices *model.Prices
	budget int
	space  *Space              // as it is before anything is placed
	room   map[*model.Pod]bool // whether a node had room for it to begin with
}

func (c *contest) place(pods []*model.Pod, ranked bool) *Result {
	c.budget--
	return placeAll(c.w, c.prices, pods, ranked)
}

// plan leaves out no more pods of any priority and above than the plan for these alone.
func (c *contest) plan(pods []*model.Pod) *Result {
	cur := c.place(pods, false)
	done := map[int32]bool{}
	if c.first(cur, done) == nil || !c.w.Budget.MayPlace() {
		return cur
	}
	if ranked := c.place(pods, true); servesBetter(ranked, cur, math.MinInt32) {
		cur = ranked
	}
	for p := c.first(cur, done); p != nil && c.budget > 0 && c.w.Budget.MayImprove(); p = c.first(cur, done) {
		done[p.Priority] = true
		above, below := split(pods, p.Priority)
		if alone := c.plan(above); servesBetter(alone, cur, p.Priority) && c.w.Budget.MayImprove() {
			cur = c.extend(alone, above, below)
		}
	}
	return cur
}

// extend lets pods of lower priority, which stand in binding order, join a plan that
// must not get worse for the pods it was made for: those of one priority after the
// other, all of them or as many as may come.
func (c *contest) extend(base *Result, in, below []*model.Pod) *Result {
	var cut []*model.Pod
	total := len(in) + len(below)
	for len(below) > 0 {
		lowest := below[0].Priority
		n := 0
		for n < len(below) && below[n].Priority == lowest {
			n++
		}
		join := func(k int) *Result {
			if c.budget <= 0 || !c.w.Budget.MayImprove() {
				return nil
			}
			if r := c.place(slices.Concat(in, below[:k]), true); !servesBetter(base, r, lowest+1) {
				return r
			}
			return nil
		}
		lo, hi := 0, n
		best := base
		if len(in)+n == total { // that all cannot come was found before
			hi--
		} else if r := join(n); r != nil {
			lo, best = n, r
		} else {
			hi--
		}
		for hi-lo > n/fineness && c.budget > 0 && c.w.Budget.MayImprove() {
			mid := (lo + hi + 1) / 2
			if r := join(mid); r != nil {
				lo, best = mid, r
			} else {
				hi = mid - 1
			}
		}
		base, in = best, slices.Concat(in, below[:lo])
		cut = append(cut, below[lo:n]...)
		below = below[n:]
	}
	if c.w.Budget.MayImprove() {
		base.Unplaced = append(base.Unplaced, c.outranked(cut)...)
	} else {
		base.Unplaced = append(base.Unplaced, unseenVerdicts(cut)...)
	}
	sortVerdicts(base.Unplaced)
	return base
}

// outranked says for every pool why pods that were held back have no place: their own
// reasons, or that others have what they need.
func (c *contest) outranked(pods []*model.Pod) []model.Verdict {
	if len(pods) == 0 {
		return nil
	}
	pr := compile(c.w, c.prices, pods, false, nil)
	out := pr.kept
	for _, g := range pr.groups {
		reasons := pr.because(g, model.Reason{Filter: model.FilterLimits, Message: "pods of higher priority use up what limits and nodes have left"})
		for _, p := range g.pods {
			out = append(out, model.Verdict{Pod: p, Reasons: reasons})
		}
	}
	return out
}

// split is the pods of at least a priority, and the others in the order in which
// kube-scheduler takes them.
func split(pods []*model.Pod, priority int32) (above, below []*model.Pod) {
	for _, p := range pods {
		if p.Priority >= priority {
			above = append(above, p)
		} else {
			below = append(below, p)
		}
	}
	slices.SortStableFunc(below, bindingOrder)
	return above, below
}

// bindingOrder is the order of kube-scheduler's queue: higher priority, then older.
func bindingOrder(a, b *model.Pod) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// servesBetter says whether plan a leaves out fewer pods than b, of those of at least a
// priority: the highest priority in which they differ decides.
func servesBetter(a, b *Result, priority int32) bool {
	more := map[int32]int{} // left out by b, less those left out by a
	for _, v := range b.Unplaced {
		more[v.Pod.Priority]++
	}
	for _, v := range a.Unplaced {
		more[v.Pod.Priority]--
	}
	top, found := priority, false
	for p, n := range more {
		if n != 0 && p >= top {
			top, found = p, true
		}
	}
	return found && more[top] > 0
}

// first is the unplaced pod of the highest priority that outranks another one and that
// might have a place if there were no others; nil where there is none. Priorities that
// are done are passed over.
func (c *contest) first(r *Result, done map[int32]bool) *model.Pod {
	if len(r.Unplaced) == 0 {
		return nil
	}
	floor := lowest(r)
	var best *model.Pod
	hopeless := map[*model.Reason]bool{} // pods of one group share their reasons
	for i := range r.Unplaced {
		v := &r.Unplaced[i]
		p := v.Pod
		if p.Priority <= floor || done[p.Priority] || best != nil && p.Priority <= best.Priority || hopeless[&v.Reasons[0]] {
			continue
		}
		if c.contested(v) {
			best = p
		} else {
			hopeless[&v.Reasons[0]] = true
		}
	}
	return best
}

// lowest is the lowest priority of the pods of a plan.
func lowest(r *Result) int32 {
	low := int32(math.MaxInt32)
	note := func(pods []*model.Pod) {
		for _, p := range pods {
			low = min(low, p.Priority)
		}
	}
	for _, pl := range r.Placements {
		note(pl.Pods)
	}
	for _, n := range r.New {
		note(n.Pods)
	}
	for _, v := range r.Unplaced {
		low = min(low, v.Pod.Priority)
	}
	return low
}

// contested says whether a place for the pod depends on the other pods: on limits, on
// what they ask of each other, or on a node that had room for it to begin with.
func (c *contest) contested(v *model.Verdict) bool {
	if _, aside := setAside(v.Pod); aside {
		return false
	}
	for _, r := range v.Reasons {
		switch r.Filter {
		case model.FilterLimits, model.FilterTopology, model.FilterAffinity, model.FilterStrategy:
			return true
		case model.FilterOfferings:
			if strings.HasPrefix(r.Message, usedUp) || strings.HasPrefix(r.Message, stockOut) {
				return true
			}
		}
	}
	had, known := c.room[v.Pod]
	if !known {
		if c.space == nil {
			c.space = NewSpace(c.w)
		}
		terms := withVolumes(v.Pod)
		had = slices.ContainsFunc(c.space.nodes, func(s *spot) bool {
			return v.Pod.Requests.Fits(s.free) && s.allows(v.Pod, terms) == nil
		})
		c.room[v.Pod] = had
	}
	return had
}

func sortVerdicts(list []model.Verdict) {
	slices.SortStableFunc(list, func(a, b model.Verdict) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
}

// priority is the highest of the group's pods, which stand in binding order.
func (g *group) priority() int32 { return g.pods[0].Priority }

func appendPriority(b []byte, p *model.Pod) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(p.Priority))
}

// Values of a higher rank outweigh any number of lower ones, as far as the ranks that
// a float64 can tell apart go.
const (
	rankFactor = 1e6
	maxRanks   = 40
)

// ranks numbers the priorities of the groups from 0, the lowest; nil where priorities
// are not looked at.
func (pr *problem) ranks() []int {
	if !pr.ranked {
		return nil
	}
	var levels []int32
	for _, g := range pr.groups {
		levels = append(levels, g.priority())
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	out := make([]int, len(pr.groups))
	for i, g := range pr.groups {
		out[i], _ = slices.BinarySearch(levels, g.priority())
		if len(levels) > maxRanks {
			out[i] = out[i] * maxRanks / len(levels)
		}
	}
	return out
}

// fewer compares what two packings leave over: the highest rank decides.
func (p *packer) fewer(a, b []int64) int {
	if p.levels == nil {
		return cmp.Compare(sum(a), sum(b))
	}
	var x, y [maxRanks + 1]int64
	for i := range a {
		x[p.levels[i]] += a[i]
		y[p.levels[i]] += b[i]
	}
	for r := maxRanks; r >= 0; r-- {
		if x[r] != y[r] {
			return cmp.Compare(x[r], y[r])
		}
	}
	return 0
}
