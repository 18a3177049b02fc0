package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// Kept is a node that is there: what is free on it, and what it costs to keep, USD per
// hour.
type Kept struct {
	Room       resource.Vector
	USDPerHour float64
}

// BoundKeeping is a price, USD per hour in real money, that the pods cannot go below on new
// nodes and on any of those that are there, of which only the kept ones are paid.
func BoundKeeping(w *model.World, pods []*model.Pod, nodes []Kept) float64 {
	pr := compileLoosely(w, nil, pods)
	left := make([]int64, len(pr.groups))
	for i, g := range pr.groups {
		left[i] = int64(g.units())
	}
	d := newDual(newHolders(pr.groups, left, pr.options(pr.pools, pr.groups)), left, true)
	d.rooms = pr.keptRooms(nodes)
	b, _ := d.maximise()
	return b
}

// keptRoom is so many nodes of the same room and price.
type keptRoom struct {
	room  [numPriced]float64
	price float64
	nodes float64
}

func (pr *problem) keptRooms(nodes []Kept) []keptRoom {
	var out []keptRoom
	known := map[keptRoom]int{}
	for _, n := range nodes {
		r := keptRoom{price: n.USDPerHour}
		for i, x := range pr.vec(n.Room)[:numPriced] {
			r.room[i] = float64(max(0, x))
		}
		i, ok := known[r]
		if !ok {
			i = len(out)
			known[r] = i
			out = append(out, r)
		}
		out[i].nodes++
	}
	return out
}

// housed is the most that pods on kept nodes can be worth beyond the price of these nodes:
// the worthiest pods in the cheapest room, fractions of both, whoever may go where.
func (d *dual) housed(y weights) float64 {
	type lot struct{ rate, amount float64 } // USD per hour for a unit of weight, and the weight
	var rooms, pods []lot
	for _, r := range d.rooms {
		w := y[dimCPU]*r.room[dimCPU] + y[dimMemory]*r.room[dimMemory] + y[dimPods]*r.room[dimPods]
		if w > 0 {
			rooms = append(rooms, lot{r.price / w, w * r.nodes})
		}
	}
	for _, c := range d.asking {
		need := &d.demand[c]
		pods = append(pods, lot{d.least[c], y[dimCPU]*need[dimCPU] + y[dimMemory]*need[dimMemory] + y[dimPods]*need[dimPods]})
	}
	slices.SortFunc(rooms, func(a, b lot) int { return cmp.Compare(a.rate, b.rate) })
	slices.SortFunc(pods, func(a, b lot) int { return cmp.Compare(b.rate, a.rate) })
	sum := 0.0
	for i, j := 0, 0; i < len(rooms) && j < len(pods) && pods[j].rate > rooms[i].rate; {
		n := math.Min(rooms[i].amount, pods[j].amount)
		sum += n * (pods[j].rate - rooms[i].rate)
		if rooms[i].amount -= n; rooms[i].amount <= 0 {
			i++
		}
		if pods[j].amount -= n; pods[j].amount <= 0 {
			j++
		}
	}
	return sum
}
