package report

import (
	"fmt"
	"io"
	"time"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
)

// States of a node in a NodeExplanation.
const (
	NodeDraining  = "draining"  // it is being removed
	NodeRemovable = "removable" // the next plan takes it away
	NodeStays     = "stays"
	NodeNotOurs   = "not-ours"
)

// PodBlocker is a pod that a drain waits for.
type PodBlocker struct {
	Pod      string `json:"pod"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Since    string `json:"since"`    // RFC 3339; empty where nothing waits for it yet
	ForcedAt string `json:"forcedAt"` // RFC 3339; empty = never
}

// Removal is a removal that is under way.
type Removal struct {
	Reason     string `json:"reason"`   // such as Underutilized, spot, Deleted
	Since      string `json:"since"`    // RFC 3339
	Deadline   string `json:"deadline"` // when every pod is deleted, budgets or not; empty = never
	TakenAt    string `json:"takenAt"`  // when AWS takes the instance, or empty
	Controller string `json:"controller"`
}

// NodeExplanation is the answer of explain node.
type NodeExplanation struct {
	Kind         string       `json:"kind"`
	Node         string       `json:"node"`
	NodeClaim    string       `json:"nodeClaim"`
	NodePool     string       `json:"nodePool"`
	Instance     string       `json:"instance"`
	InstanceType string       `json:"instanceType"`
	Zone         string       `json:"zone"`
	CapacityType string       `json:"capacityType"`
	USDPerHour   USD          `json:"usdPerHour"` // 0 = not known
	State        string       `json:"state"`
	Reason       string       `json:"reason"`
	Message      string       `json:"message"`
	Until        string       `json:"until"` // RFC 3339, or empty
	Removal      *Removal     `json:"removal,omitempty"`
	Command      *Command     `json:"command,omitempty"`
	Blockers     []PodBlocker `json:"blockers"`
	Warnings     []string     `json:"warnings"`
}

// Removing reads from a claim since when and by when its node is removed; ok is false
// where it is not. deadline is that of the termination grace period, zero = none.
func Removing(n *model.Node, deadline time.Time) (t drain.Terms, r *Removal, ok bool) {
	if !n.BeingRemoved() {
		return drain.Terms{Deadline: deadline}, nil, false
	}
	r = &Removal{Reason: "Cordoned"}
	t.Deadline = deadline
	if n.Deleting != nil {
		t.Began, r.Reason = *n.Deleting, "Deleted"
	}
	if c := n.Claim; c != nil {
		if c.Deleting != nil {
			t.Began, r.Reason = *c.Deleting, "Deleted"
		}
		if d := c.Condition(model.CondDisruptionReason); d.Status == "True" {
			r.Reason = d.Reason
		}
		if f, shown, err := interrupt.ReadFace(c.Annotations); shown && err == nil {
			r.Reason, t.Interruption = "Interrupted/"+string(f.Kind), f.Deadline
		}
		r.Controller = c.Condition(model.CondDrained).Message
	}
	r.Since, r.Deadline, r.TakenAt = instant(t.Began), instant(t.Deadline), instant(t.Interruption)
	return t, r, true
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Node explains one node of the world: what a plan for it says, or how far its removal is.
func Node(n *model.Node, p *model.Plan, r *Removal, blockers []drain.Blocker, warnings []string) *NodeExplanation {
	x := &NodeExplanation{Kind: "NodeExplanation", Node: n.ID(), NodePool: n.Pool(), InstanceType: n.InstanceType(), Zone: n.Zone(),
		CapacityType: n.CapacityType(), Instance: interrupt.InstanceOf(n), Removal: r, Blockers: []PodBlocker{}, State: NodeStays}
	if n.PriceKnown {
		x.USDPerHour = USD(n.USDPerHour)
	}
	if n.Claim != nil {
		x.NodeClaim = n.Claim.Name
	}
	for _, b := range blockers {
		x.Blockers = append(x.Blockers, PodBlocker{Pod: b.Pod.ID(), Reason: b.Reason, Message: b.Message, Since: instant(b.Since), ForcedAt: instant(b.Force)})
	}
	for _, b := range p.Blocked {
		if b.Node == n.ID() {
			x.Reason, x.Message, x.Until = b.Reason, b.Message, Deadline(b.Until)
		}
	}
	for i := range p.Commands {
		for _, gone := range p.Commands[i].Remove {
			if gone.ID() == n.ID() {
				c := command(&p.Commands[i])
				x.State, x.Reason, x.Command = NodeRemovable, c.Reason, &c
				x.Message = fmt.Sprintf("wave %d of the plan takes it away: %s", c.wave, c.why)
			}
		}
	}
	switch {
	case r != nil:
		x.State, x.Reason, x.Until, x.Command = NodeDraining, r.Reason, "", nil
		x.Message = drain.Summary(blockers)
		if x.Message == "" {
			x.Message = "nothing is in the way of its drain"
		}
	case !n.Managed():
		x.State = NodeNotOurs
	}
	x.Warnings = list(warnings, p.Warnings)
	return x
}

// WriteTable writes what is known, and a line for each pod that is in the way.
func (x *NodeExplanation) WriteTable(w io.Writer) error {
	l := &lines{w: w}
	l.printf("%s %s: %s\n", x.Node, x.State, x.Message)
	if x.Reason != "" && x.State != NodeDraining {
		l.printf("reason: %s%s\n", x.Reason, since(", until ", x.Until))
	}
	price := "price not known"
	if x.USDPerHour > 0 {
		price = usd(x.USDPerHour) + " USD/h"
	}
	l.printf("machine: %s, %s in %s as %s, %s; NodePool %s, NodeClaim %s\n", dash(x.Instance), dash(x.InstanceType), dash(x.Zone), dash(x.CapacityType), price, dash(x.NodePool), dash(x.NodeClaim))
	if r := x.Removal; r != nil {
		forced := "it has no termination grace period"
		if r.Deadline != "" {
			forced = "every pod is deleted by " + r.Deadline
		}
		l.printf("removal: %s%s; %s%s\n", r.Reason, since(", since ", r.Since), forced, since("; AWS takes the instance at ", r.TakenAt))
		if r.Controller != "" {
			l.printf("the controller says: %s\n", r.Controller)
		}
	}
	if len(x.Blockers) > 0 {
		l.printf("\n")
		l.table(func(w io.Writer) error {
			t := newTable(w, "POD", "IN THE WAY", "SINCE", "FORCED AT", "MESSAGE")
			for _, b := range x.Blockers {
				t.row(b.Pod, b.Reason, dash(b.Since), dash(b.ForcedAt), b.Message)
			}
			return t.flush()
		})
	}
	l.warnings(x.Warnings)
	return l.err
}

func since(words, at string) string {
	if at == "" {
		return ""
	}
	return words + at
}
