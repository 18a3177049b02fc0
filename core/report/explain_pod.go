package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/model"
)

// States of a pod in a PodExplanation.
const (
	PodNoPlace   = "no-place"  // it waits, and no node there is or could be bought takes it
	PodExisting  = "existing"  // it waits, and goes onto a node that is there or on its way
	PodNewNode   = "new-node"  // it waits, and a node is bought for it
	PodUndecided = "undecided" // it waits, and planning ended before its turn
	PodRuns      = "on-a-node"
	PodAside     = "not-waiting" // it neither waits for a node nor is on one of the input
)

// NodeRefusal is why a pod does not go onto a node that is there.
type NodeRefusal struct {
	Node    string `json:"node"`
	Filter  string `json:"filter"` // empty: there is room, what the pod asks of its surroundings keeps it off
	Message string `json:"message"`
}

// PodExplanation is the answer of explain pod.
type PodExplanation struct {
	Kind    string `json:"kind"`
	Pod     string `json:"pod"`
	State   string `json:"state"`
	Message string `json:"message"`
	// Node is where it is or goes, of the plan's names where a node is bought.
	Node    string        `json:"node"`
	NewNode *NewNode      `json:"newNode,omitempty"`
	Reasons []Reason      `json:"reasons"` // why no new node, by pool
	Nodes   []NodeRefusal `json:"nodes"`   // why none of those that are there
	// Blocker is what would be in the way of a drain of its node now.
	Blocker  *PodBlocker `json:"blocker,omitempty"`
	Warnings []string    `json:"warnings"`
}

// NewPodExplanation is an answer that tells nothing yet.
func NewPodExplanation(p *model.Pod, state, format string, args ...any) *PodExplanation {
	return &PodExplanation{Kind: "PodExplanation", Pod: p.ID(), State: state, Message: fmt.Sprintf(format, args...), Reasons: []Reason{}, Nodes: []NodeRefusal{}, Warnings: []string{}}
}

// Planned says what a plan has for a pod that waits: a node to be bought, one that is there,
// or the verdict.
func Planned(p *model.Pod, plan *model.Plan) *PodExplanation {
	has := func(pods []*model.Pod) bool { return slices.Contains(pods, p) }
	for _, n := range plan.Launch {
		if has(n.Pods) {
			node := newNode(n)
			x := NewPodExplanation(p, PodNewNode, "a node is bought for it: %s in %s as %s from NodePool %s, with %s", node.InstanceType, node.Zone, node.CapacityType, node.NodePool, count(len(n.Pods), "pod"))
			x.Node, x.NewNode = n.Name, &node
			return x
		}
	}
	for _, pl := range plan.Placements {
		if has(pl.Pods) {
			x := NewPodExplanation(p, PodExisting, "it fits on node %s, which is there or on its way", pl.Node.ID())
			x.Node = pl.Node.ID()
			return x
		}
	}
	for _, v := range plan.Unplaced {
		if v.Pod == p {
			x := NewPodExplanation(p, PodNoPlace, "no node takes it")
			x.Reasons = unschedulable(v).Reasons
			return x
		}
	}
	return NewPodExplanation(p, PodUndecided, "planning ended before its turn")
}

// Blocks takes in what of a drain's blockers is about the pod.
func (x *PodExplanation) Blocks(blockers []drain.Blocker) {
	for _, b := range blockers {
		if b.Pod.ID() == x.Pod {
			x.Blocker = &PodBlocker{Pod: x.Pod, Reason: b.Reason, Message: b.Message, Since: instant(b.Since), ForcedAt: instant(b.Force)}
		}
	}
}

// WriteTable writes where the pod goes, or what stands in its way in each pool and on the nodes.
func (x *PodExplanation) WriteTable(w io.Writer) error {
	l := &lines{w: w}
	l.printf("%s %s: %s\n", x.Pod, x.State, x.Message)
	if n := x.NewNode; n != nil {
		l.printf("node %s: %s USD/h, %s\n", n.Name, usd(n.USDPerHour), count(len(n.Alternatives), "alternative"))
	}
	if b := x.Blocker; b != nil {
		l.printf("in the way of a drain: %s: %s\n", b.Reason, b.Message)
	}
	if len(x.Reasons) > 0 {
		l.printf("\n")
		l.table(func(w io.Writer) error {
			t := newTable(w, "NODEPOOL", "FILTER", "TYPES LEFT", "WHY")
			for _, r := range x.Reasons {
				t.row(dash(r.NodePool), r.Filter, trail(r), r.Message)
			}
			return t.flush()
		})
	}
	x.writeNodes(l)
	l.warnings(x.Warnings)
	return l.err
}

// trail is how many types each filter left.
func trail(r Reason) string {
	if len(r.TypesAfter) == 0 {
		return fmt.Sprint(r.TypesLeft)
	}
	var parts []string
	for _, t := range r.TypesAfter {
		parts = append(parts, fmt.Sprintf("%s %d", t.Filter, t.Types))
	}
	return strings.Join(parts, ", ")
}

// writeNodes writes a line for each filter, with how many nodes it refuses and the first of them.
func (x *PodExplanation) writeNodes(l *lines) {
	if len(x.Nodes) == 0 {
		return
	}
	var filters []string
	n, first := map[string]int{}, map[string]NodeRefusal{}
	for _, r := range x.Nodes {
		if n[r.Filter]++; n[r.Filter] == 1 {
			filters = append(filters, r.Filter)
			first[r.Filter] = r
		}
	}
	slices.Sort(filters)
	l.printf("\n")
	l.table(func(w io.Writer) error {
		t := newTable(w, "NODES THERE", "FILTER", "SUCH AS")
		for _, f := range filters {
			t.row(fmt.Sprint(n[f]), dash(f), first[f].Message)
		}
		return t.flush()
	})
}
