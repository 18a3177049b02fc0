package sdk

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// Bounds of the levels plan and propose.
const (
	MaxGroups       = 50_000
	MaxSets         = 100_000
	MaxSetEntries   = 8 << 20
	MaxPlannedNodes = 100_000
	MaxNodes        = 20_000 // of a world
	MaxProposed     = 1000   // moves in one message
	MaxRemoved      = 50     // nodes of a move
)

// CheckPlan says what is wrong with an answer, nil if it may be verified: pools, offerings
// and groups that were asked, each group on offerings that it may use, no pod twice.
// Room, limits and neighbours are the engine's to verify.
func CheckPlan(req *PlanRequest, ans *PlanAnswer) error {
	left := make([]int, len(req.Groups))
	for i := range req.Groups {
		left[i] = req.Groups[i].Pods
	}
	total := 0
	for i := range ans.Nodes {
		n := &ans.Nodes[i]
		count := max(n.Count, 1)
		switch {
		case n.Pool < 0 || n.Pool >= len(req.Pools):
			return fmt.Errorf("node %d: pool %d of %d", i, n.Pool, len(req.Pools))
		case !req.Pools[n.Pool].has(n.Offering):
			return fmt.Errorf("node %d: offering %d is not one of pool %q", i, n.Offering, req.Pools[n.Pool].Name)
		case n.Count < 0 || count > MaxPlannedNodes || total+count > MaxPlannedNodes:
			return fmt.Errorf("node %d: more than %d nodes", i, MaxPlannedNodes)
		case len(n.Pods) == 0:
			return fmt.Errorf("node %d: no pods on it", i)
		}
		total += count
		for _, p := range n.Pods {
			if p.Group < 0 || p.Group >= len(req.Groups) {
				return fmt.Errorf("node %d: group %d of %d", i, p.Group, len(req.Groups))
			}
			if p.Pods < 1 || p.Pods > left[p.Group]/count {
				return fmt.Errorf("node %d: %d times %d pods of group %d, which has %d left", i, count, p.Pods, p.Group, left[p.Group])
			}
			left[p.Group] -= p.Pods * count
			if _, ok := slices.BinarySearch(req.On(p.Group, n.Pool), n.Offering); !ok {
				return fmt.Errorf("node %d: pods of group %d may not run on offering %d of pool %q", i, p.Group, n.Offering, req.Pools[n.Pool].Name)
			}
		}
	}
	return nil
}

// CheckMoves says what is wrong with proposed moves, nil if they may be verified: nodes
// that may be removed, of one pool each, none twice, scores finite.
func CheckMoves(w *ProposeWorld, moves []ProposedMove) error {
	if len(moves) > MaxProposed {
		return fmt.Errorf("%d moves, at most %d", len(moves), MaxProposed)
	}
	seen := map[int]bool{}
	for i, m := range moves {
		if len(m.Remove) == 0 || len(m.Remove) > MaxRemoved {
			return fmt.Errorf("move %d: %d nodes, want 1 to %d", i, len(m.Remove), MaxRemoved)
		}
		if math.IsNaN(m.Score) || math.IsInf(m.Score, 0) {
			return fmt.Errorf("move %d: score %v is not finite", i, m.Score)
		}
		if utf8.RuneCountInString(m.Why) > MaxReason {
			return fmt.Errorf("move %d: why of %d characters, at most %d", i, utf8.RuneCountInString(m.Why), MaxReason)
		}
		for _, k := range m.Remove {
			switch {
			case k < 0 || k >= len(w.Nodes):
				return fmt.Errorf("move %d: node %d of %d", i, k, len(w.Nodes))
			case !w.Nodes[k].Removable:
				return fmt.Errorf("move %d: node %s may not be removed: %s", i, w.Nodes[k].Name, w.Nodes[k].Blocked)
			case w.Nodes[k].Pool != w.Nodes[m.Remove[0]].Pool:
				return fmt.Errorf("move %d: nodes %s and %s are of two pools", i, w.Nodes[m.Remove[0]].Name, w.Nodes[k].Name)
			case seen[k]:
				return fmt.Errorf("move %d: node %s is removed twice", i, w.Nodes[k].Name)
			}
			seen[k] = true
		}
	}
	return nil
}
