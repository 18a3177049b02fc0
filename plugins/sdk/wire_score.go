package sdk

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
)

// fromScoreRequest writes a request; the catalogue goes by its hash.
func fromScoreRequest(r *ScoreRequest) *consolidationv1.ScoreRequest {
	m := &consolidationv1.ScoreRequest{CatalogueHash: r.Catalogue.Hash[:], Now: timestamppb.New(r.Now), Pools: fromPools(r.Pools),
		Moves: make([]*consolidationv1.Move, len(r.Moves))}
	for i := range r.Moves {
		v := &r.Moves[i]
		out := &consolidationv1.Move{Pool: uint32(v.Pool), Reason: v.Reason, PodsEvicted: uint32(v.PodsEvicted), PodDeletionCost: v.PodDeletionCost,
			UsdPerHourBefore: v.USDPerHourBefore, UsdPerHourAfter: v.USDPerHourAfter, UsdPerHourAfterWorst: v.USDPerHourWorst,
			CommittedUsdPerHour: v.Committed}
		for _, n := range v.Remove {
			out.Remove = append(out.Remove, fromRemoved(&n))
		}
		for _, n := range v.Launch {
			out.Launch = append(out.Launch, &consolidationv1.LaunchedNode{Offering: uint32(n.Offering), UsdPerHour: n.USDPerHour})
		}
		m.Moves[i] = out
	}
	return m
}

func fromRemoved(n *RemovedNode) *consolidationv1.RemovedNode {
	return &consolidationv1.RemovedNode{Name: n.Name, Offering: optional(n.Offering), UsdPerHour: n.USDPerHour, Pods: uint32(n.Pods),
		AgeSeconds: int64(n.Age / time.Second), PodDeletionCost: n.DeletionCost, PodPriorities: n.Priorities,
		ExpiresSeconds: int64(n.Expires / time.Second), YoungPods: uint32(n.Young), PodRestarts: uint32(n.Restarts)}
}

func toRemoved(m *consolidationv1.RemovedNode) RemovedNode {
	n := RemovedNode{Name: m.Name, Offering: -1, USDPerHour: m.UsdPerHour, Pods: int(m.Pods), Age: time.Duration(m.AgeSeconds) * time.Second,
		Expires: time.Duration(m.ExpiresSeconds) * time.Second, PodFacts: PodFacts{DeletionCost: m.PodDeletionCost, Priorities: m.PodPriorities, Young: int(m.YoungPods), Restarts: int(m.PodRestarts)}}
	if m.Offering != nil {
		n.Offering = int(*m.Offering)
	}
	return n
}

// toScoreRequest reads a request over the catalogue that it names. Errors: counts
// and indexes that do not fit.
func toScoreRequest(c *Catalogue, m *consolidationv1.ScoreRequest) (*ScoreRequest, error) {
	if len(m.Moves) > MaxMoves {
		return nil, fmt.Errorf("%d moves, at most %d", len(m.Moves), MaxMoves)
	}
	pools, err := toPools(c, m.Pools)
	if err != nil {
		return nil, err
	}
	r := &ScoreRequest{Catalogue: c, Now: m.Now.AsTime(), Pools: pools, Moves: make([]Move, len(m.Moves))}
	for i, in := range m.Moves {
		if int(in.Pool) >= len(pools) {
			return nil, fmt.Errorf("move %d is of pool %d of %d", i, in.Pool, len(pools))
		}
		v := Move{Pool: int(in.Pool), Reason: in.Reason, PodsEvicted: int(in.PodsEvicted), PodDeletionCost: in.PodDeletionCost,
			USDPerHourBefore: in.UsdPerHourBefore, USDPerHourAfter: in.UsdPerHourAfter, USDPerHourWorst: in.UsdPerHourAfterWorst,
			Committed: in.CommittedUsdPerHour}
		for _, n := range in.Remove {
			node := toRemoved(n)
			if node.Offering >= len(c.Offerings) {
				return nil, fmt.Errorf("move %d removes offering %d of %d", i, node.Offering, len(c.Offerings))
			}
			v.Remove = append(v.Remove, node)
		}
		for _, n := range in.Launch {
			if int(n.Offering) >= len(c.Offerings) {
				return nil, fmt.Errorf("move %d launches offering %d of %d", i, n.Offering, len(c.Offerings))
			}
			v.Launch = append(v.Launch, LaunchedNode{Offering: int(n.Offering), USDPerHour: n.UsdPerHour})
		}
		r.Moves[i] = v
	}
	return r, nil
}

// fromScoreAnswer writes an answer.
func fromScoreAnswer(a *ScoreAnswer) *consolidationv1.ScoreResponse {
	m := &consolidationv1.ScoreResponse{Verdicts: make([]*consolidationv1.Verdict, len(a.Verdicts))}
	for i, v := range a.Verdicts {
		m.Verdicts[i] = &consolidationv1.Verdict{Accept: v.Accept, Score: v.Score, Reason: v.Reason}
	}
	return m
}

// toScoreAnswer reads an answer, which CheckScores then judges.
func toScoreAnswer(m *consolidationv1.ScoreResponse) *ScoreAnswer {
	a := &ScoreAnswer{Verdicts: make([]Verdict, len(m.Verdicts))}
	for i, v := range m.Verdicts {
		a.Verdicts[i] = Verdict{Accept: v.Accept, Score: v.Score, Reason: reason(v.Reason)}
	}
	return a
}
