package strategy

import (
	"slices"
	"sync"

	"github.com/weir-project/weir/plugins/sdk"
)

// problems implements slotOwner.
func (h *Host) problems() []problem { return h.recent.list() }

// recent keeps the last problems.
type recent struct {
	mu  sync.Mutex
	all map[string][]problem
}

func (r *recent) add(p problem) {
	if p.input == nil || weight(p.input) > keptOfferings {
		return
	}
	if _, ok := p.input.(*Proposing); ok {
		return // a candidate would ask the planner about other moves, and there is none behind it
	}
	p.world = nil // which is much larger
	key := string(p.kind) + "/" + p.level
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]problem{}
	}
	list := append(r.all[key], p)
	if len(list) > keptProblems {
		list = slices.Delete(list, 0, len(list)-keptProblems)
	}
	r.all[key] = list
}

func (r *recent) list() []problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []problem
	for _, key := range sortedNames(r.all) {
		out = append(out, r.all[key]...)
	}
	return out
}

func weight(input any) (sum int) {
	var pools []sdk.Pool
	switch req := input.(type) {
	case *sdk.PriceRequest:
		pools = req.Pools
	case *sdk.PlanRequest:
		pools = req.Pools
		for _, s := range req.Sets {
			sum += len(s)
		}
	case *sdk.ScoreRequest:
		pools = req.Pools
	}
	for i := range pools {
		sum += len(pools[i].Offerings)
	}
	return sum
}
