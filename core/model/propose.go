package model

import (
	"errors"
	"slices"

	"github.com/weir-project/weir/core/model/resource"
)

// Proposal is nodes of one pool that a strategy wants to go together. Where their pods go
// is the planner's to find.
type Proposal struct {
	Remove []*Node
	Score  float64
	Why    string
}

// Trial is what would become of a proposal: the command, or why there is none.
type Trial struct {
	Command *Command
	Refused *Blocked
}

// Proposer is strategies that find moves by themselves (level propose), for the pools that
// are theirs. Nil = there are none.
type Proposer struct {
	Pools map[string]bool // by name
	// Ask answers proposals in order, each with the ones before it done; with an error the
	// moves of these pools are found by the planner, save those that a *PartlyProposed has.
	Ask func(*Proposing) ([]Proposal, error)
}

// Proposing is what proposals are found in: the cluster as it will be once what the
// planner itself takes away is gone.
type Proposing struct {
	World      *World
	Candidates []ProposeCandidate // nodes of the proposer's pools that may go
	Blocked    map[*Node]*Blocked // why others of them may not
	Free       map[*Node]resource.Vector
	Allowed    []ProposeBudget
	Try        func([]Proposal) []Trial // from the same start every time
}

// ProposeCandidate is a node that may go as far as the node, its pods and its pool let it.
type ProposeCandidate struct {
	Node *Node
	Pods []*Pod // that need another place
	Cost float64
}

// ProposeBudget is how many nodes of a pool may go now for a reason.
type ProposeBudget struct {
	Pool   string
	Reason DisruptionReason
	Nodes  int
}

// PartlyProposed is the error where strategies found moves for some of their pools, and
// none answered well for the others.
type PartlyProposed struct {
	Pools     map[string]bool // answered, by name
	Proposals []Proposal      // for them
	Err       error           // of the others
}

// Error implements error.
func (e *PartlyProposed) Error() string { return e.Err.Error() }

// Unwrap gives the fault.
func (e *PartlyProposed) Unwrap() error { return e.Err }

// After is the proposer for planning again after Ask has failed: what was proposed stays
// so, and nobody is asked twice. Nil = the planner finds all moves.
func (p *Proposer) After(err error) *Proposer {
	var e *PartlyProposed
	if !errors.As(err, &e) {
		return nil
	}
	return &Proposer{Pools: e.Pools, Ask: func(q *Proposing) ([]Proposal, error) {
		byID := make(map[string]*Node, len(q.World.Nodes))
		for _, n := range q.World.Nodes {
			byID[n.ID()] = n
		}
		out := slices.Clone(e.Proposals)
		for i := range out {
			out[i].Remove = nil
			for _, n := range e.Proposals[i].Remove {
				if again := byID[n.ID()]; again != nil {
					n = again
				}
				out[i].Remove = append(out[i].Remove, n)
			}
		}
		return out, nil
	}}
}
