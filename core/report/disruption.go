package report

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/core/model"
)

// Move is a pod's change of place.
type Move struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Command takes nodes away together.
type Command struct {
	Reason            string    `json:"reason"`
	Remove            []string  `json:"remove"`
	Launch            []NewNode `json:"launch"`
	Moves             []Move    `json:"moves"`
	USDPerHourBefore  USD       `json:"usdPerHourBefore"`
	USDPerHourAfter   USD       `json:"usdPerHourAfter"`
	SavingsUSDPerHour USD       `json:"savingsUsdPerHour"`
	PodsEvicted       int       `json:"podsEvicted"`
	Score             Number    `json:"score"`

	wave int
	why  string
}

// Blocked is a node that stays, and why.
type Blocked struct {
	Node    string `json:"node"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Until   string `json:"until"` // RFC 3339, or empty
}

// DisruptionTotals sum a disruption plan up. They count the nodes of ours.
type DisruptionTotals struct {
	NodesBefore          int `json:"nodesBefore"`
	NodesAfter           int `json:"nodesAfter"`
	USDPerHourBefore     USD `json:"usdPerHourBefore"`
	USDPerHourAfter      USD `json:"usdPerHourAfter"`
	USDPerHourWorst      USD `json:"usdPerHourWorst"` // after, with every launch at its dearest alternative
	LowerBoundUSDPerHour USD `json:"lowerBoundUsdPerHour"`

	unpriced int
}

// DisruptionPlan is the answer of simulate consolidate.
type DisruptionPlan struct {
	Kind     string           `json:"kind"`
	Strategy string           `json:"strategy"`
	Commands []Command        `json:"commands"`
	Blocked  []Blocked        `json:"blocked"`
	Totals   DisruptionTotals `json:"totals"`
	Timings  Timings          `json:"timings"`
	Warnings []string         `json:"warnings"`
	// Stopped says that planning ended with its time budget; absent where that sufficed.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// Disruption is the report of a disruption plan made from the world. The warnings
// come before those of the plan; nodes without a price get one.
func Disruption(w *model.World, p *model.Plan, strategy string, t Timings, warnings []string) *DisruptionPlan {
	r := &DisruptionPlan{Kind: "DisruptionPlan", Strategy: strategy, Commands: []Command{}, Blocked: []Blocked{}, Timings: t, Stopped: stopped(p.Budget)}
	before, ours := 0.0, 0
	for _, n := range w.Nodes {
		if !n.Managed() {
			continue
		}
		ours++
		if n.PriceKnown {
			before += n.USDPerHour
		} else {
			r.Totals.unpriced++
		}
	}
	after, worst, nodes := before, before, ours
	for i := range p.Commands {
		c := &p.Commands[i]
		r.Commands = append(r.Commands, command(c))
		nodes += len(c.Launch) - len(c.Remove)
		after += c.After - c.Before
		worst += c.Worst - c.Before
	}
	for _, b := range p.Blocked {
		x := Blocked{Node: b.Node, Reason: b.Reason, Message: b.Message}
		if b.Until != nil {
			x.Until = b.Until.UTC().Format(time.RFC3339)
		}
		r.Blocked = append(r.Blocked, x)
	}
	r.Totals.NodesBefore, r.Totals.NodesAfter = ours, nodes
	r.Totals.USDPerHourBefore, r.Totals.USDPerHourAfter, r.Totals.USDPerHourWorst = USD(before), USD(max(after, 0)), USD(max(worst, 0))
	r.Totals.LowerBoundUSDPerHour = below(p.LowerBoundUSDPerHour)
	r.Warnings = list(warnings, p.Warnings, unpriced(w, ours, r.Totals.unpriced))
	return r
}

func command(c *model.Command) Command {
	x := Command{Reason: string(c.Reason), Remove: []string{}, Launch: []NewNode{}, Moves: []Move{},
		USDPerHourBefore: USD(c.Before), USDPerHourAfter: USD(c.After), SavingsUSDPerHour: USD(c.Before - c.After),
		PodsEvicted: c.PodsEvicted, Score: Number(c.Score), wave: c.Wave, why: c.Why}
	for _, n := range c.Remove {
		x.Remove = append(x.Remove, n.ID())
	}
	for _, n := range c.Launch {
		x.Launch = append(x.Launch, newNode(n))
	}
	for _, m := range c.Moves {
		x.Moves = append(x.Moves, Move{Pod: m.Pod.ID(), From: m.From, To: m.To})
	}
	return x
}

// unpriced says how many nodes have no price, and why, for the first of them: a sum
// that leaves nodes out must say so.
func unpriced(w *model.World, ours, n int) []string {
	if n == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("%d of %d nodes unpriced: the totals leave them out", n, ours)}
	for _, x := range w.Nodes {
		if !x.Managed() || x.PriceKnown {
			continue
		}
		if len(out) == 6 {
			out = append(out, fmt.Sprintf("and %d more unpriced nodes", n-5))
			break
		}
		out = append(out, fmt.Sprintf("node %s: price unknown: %s", x.ID(), noPrice(x)))
	}
	return out
}

func noPrice(n *model.Node) string {
	for _, key := range []string{model.LabelInstanceType, model.LabelZone, model.LabelCapacityType} {
		if n.Labels[key] == "" {
			return fmt.Sprintf("label %s is missing", key)
		}
	}
	return fmt.Sprintf("no price for %s in %s as %s", n.InstanceType(), n.Zone(), n.CapacityType())
}
