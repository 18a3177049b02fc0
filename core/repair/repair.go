package repair

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/core/model"
)

// Policy says for how long a condition may be in a bad state.
type Policy struct {
	Type, Status string // of the node's condition
	Toleration   time.Duration
}

// Policies are those for EC2: the kubelet's sign of life, and what the node monitoring
// agent of EKS reports.
func Policies() []Policy {
	return []Policy{
		{model.NodeReady, "False", 30 * time.Minute},
		{model.NodeReady, "Unknown", 30 * time.Minute},
		{"AcceleratedHardwareReady", "False", 10 * time.Minute},
		{"StorageReady", "False", 30 * time.Minute},
		{"NetworkingReady", "False", 30 * time.Minute},
		{"KernelReady", "False", 30 * time.Minute},
		{"ContainerRuntimeReady", "False", 30 * time.Minute},
	}
}

// Finding is a node that is unhealthy for longer than is tolerated.
type Finding struct {
	Node       *model.Node
	Condition  model.Condition // the one that ran out first
	Toleration time.Duration
	Blocked    string // why it is not replaced all the same; empty = replace it
}

// String says what is wrong with the node.
func (f Finding) String() string {
	return fmt.Sprintf("condition %s is %s since %s, which is tolerated for %s", f.Condition.Type, f.Condition.Status, f.Condition.Since.UTC().Format(time.RFC3339), f.Toleration)
}

// Result is what Find answers.
type Result struct {
	Findings []Finding // in the order of the nodes
	Next     time.Time // when the next one runs out, zero = nobody is unhealthy that is not found
}

// Find looks for nodes to replace. frozen is why none may be, empty = they may. Nodes that
// are not ours, have not joined or are being deleted already are nobody's to repair; the
// latter count as unhealthy all the same.
func Find(nodes []*model.Node, policies []Policy, frozen string, now time.Time) Result {
	var r Result
	all := &tally{}
	pools := map[string]*tally{}
	for _, n := range nodes {
		if !n.Joined() {
			continue
		}
		counts := []*tally{all}
		if n.Managed() && n.Claim.Pool != "" {
			pool := pools[n.Claim.Pool]
			if pool == nil {
				pool = &tally{}
				pools[n.Claim.Pool] = pool
			}
			counts = append(counts, pool)
		}
		f, due := first(n, policies)
		for _, t := range counts {
			t.nodes++
			if f.Node != nil {
				t.unhealthy++
			}
		}
		if f.Node == nil || !n.Managed() || n.Deleting != nil || n.Claim.Deleting != nil {
			continue
		}
		if now.Before(due) {
			if r.Next.IsZero() || due.Before(r.Next) {
				r.Next = due
			}
			continue
		}
		r.Findings = append(r.Findings, f)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		t, where := all, "in the cluster"
		if p := f.Node.Claim.Pool; p != "" {
			t, where = pools[p], "in the nodepool"
		}
		switch {
		case t.broken():
			f.Blocked = fmt.Sprintf("more than 20%% nodes are unhealthy %s: %d of %d", where, t.unhealthy, t.nodes)
		case frozen != "":
			f.Blocked = frozen
		}
	}
	return r
}

// tally counts the nodes of a pool, or of the cluster.
type tally struct{ nodes, unhealthy int }

// broken says whether more than a fifth, rounded up, is unhealthy: then it is hardly the
// nodes that are broken. In whole numbers, so that no rounding moves the bound.
func (t *tally) broken() bool { return t.unhealthy > (t.nodes+4)/5 }

// first finds the condition of a node that runs out first, and when; a finding without a
// node = it is healthy.
func first(n *model.Node, policies []Policy) (Finding, time.Time) {
	type hit struct {
		Finding
		due time.Time
	}
	var hits []hit
	for _, p := range policies {
		c, ok := n.Condition(p.Type)
		if ok && c.Status == p.Status && !c.Since.IsZero() {
			hits = append(hits, hit{Finding{Node: n, Condition: c, Toleration: p.Toleration}, c.Since.Add(p.Toleration)})
		}
	}
	if len(hits) == 0 {
		return Finding{}, time.Time{}
	}
	h := slices.MinFunc(hits, func(a, b hit) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.Condition.Type, b.Condition.Type))
	})
	return h.Finding, h.due
}
