package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// States of a pool in a PoolExplanation.
const (
	PoolBuys     = "buys"      // a small pod would get a node of it
	PoolBuysNone = "buys-none" // it would not
	PoolStatic   = "static"    // it keeps a number of nodes, whatever pods there are
	PoolUnusable = "unusable"
	PoolEnding   = "deleting"
)

// Limit is one limit of a pool, amounts in the notation of Kubernetes.
type Limit struct {
	Resource string `json:"resource"`
	Limit    string `json:"limit"`
	Used     string `json:"used"` // by nodes that are not being removed
	Left     string `json:"left"` // "0" at the least
}

// PoolCondition is a status condition of a pool as the controller last wrote it.
type PoolCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// PoolOfferings counts what the pool's requirements leave of what can be bought.
type PoolOfferings struct {
	Types     int `json:"types"`
	Available int `json:"available"` // offerings
	Closed    int `json:"closed"`    // offerings that cannot be had now
}

// PoolExplanation is the answer of explain pool.
type PoolExplanation struct {
	Kind       string          `json:"kind"`
	NodePool   string          `json:"nodePool"`
	State      string          `json:"state"`
	Message    string          `json:"message"`
	Nodes      int             `json:"nodes"` // that are not being removed
	Limits     []Limit         `json:"limits"`
	Offerings  PoolOfferings   `json:"offerings"`
	NewNode    *NewNode        `json:"newNode,omitempty"` // what a small pod would get
	Reasons    []Reason        `json:"reasons"`           // why it would get none
	Conditions []PoolCondition `json:"conditions"`
	Disruption PoolBudgets     `json:"disruption"`
	Warnings   []string        `json:"warnings"`
}

// Pool tells of a pool what needs no plan: limits, nodes, conditions.
func Pool(w *model.World, p *model.Pool, conditions []model.Condition) *PoolExplanation {
	x := &PoolExplanation{Kind: "PoolExplanation", NodePool: p.Name, Limits: []Limit{}, Reasons: []Reason{}, Conditions: []PoolCondition{}, Warnings: []string{}}
	var used resource.Vector
	for _, n := range w.Nodes {
		if n.Pool() == p.Name && n.Managed() && !n.BeingRemoved() { // as planning counts
			used = used.Add(n.Capacity)
			x.Nodes++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Limits.Resources)) {
		limit, have := p.Limits.Resources[name], used.Get(name)
		x.Limits = append(x.Limits, Limit{name, resource.Format(name, limit), resource.Format(name, have), resource.Format(name, max(0, limit-have))})
	}
	if n := p.Limits.Nodes; n != nil {
		x.Limits = append(x.Limits, Limit{"nodes", fmt.Sprint(*n), fmt.Sprint(x.Nodes), fmt.Sprint(max(0, *n-int64(x.Nodes)))})
	}
	for _, c := range conditions {
		x.Conditions = append(x.Conditions, PoolCondition{c.Type, c.Status, c.Reason, c.Message})
	}
	types := map[string]bool{}
	for _, o := range w.Offerings[p.NodeClass.Name] {
		if !offers(p, o) {
			continue
		}
		types[o.Type.Name] = true
		if o.Available {
			x.Offerings.Available++
		} else {
			x.Offerings.Closed++
		}
	}
	x.Offerings.Types = len(types)
	switch {
	case p.Unusable != "":
		x.State, x.Message = PoolUnusable, p.Unusable
	case p.Deleting:
		x.State, x.Message = PoolEnding, "it is being deleted: nothing is bought for it, its nodes go"
	case p.Static != nil:
		x.State, x.Message = PoolStatic, fmt.Sprintf("it keeps %d nodes, whatever pods there are; it has %d", *p.Static, x.Nodes)
	}
	return x
}

// offers says whether an offering satisfies what the pool requires of what is bought.
func offers(p *model.Pool, o *model.Offering) bool {
	for _, r := range p.Requirements.All() {
		if r.Key == model.LabelPool || !model.WellKnown(r.Key) {
			continue
		}
		if v, ok := o.Label(r.Key); ok && !r.Has(v) || !ok && !r.AllowsAbsent() {
			return false
		}
	}
	return true
}

// Probed takes in what a plan has for a small pod that only this pool may serve.
func (x *PoolExplanation) Probed(probe *PodExplanation) {
	switch {
	case x.State != "":
	case probe.NewNode != nil:
		n := *probe.NewNode
		n.Pods = []string{}
		x.State, x.NewNode = PoolBuys, &n
		x.Message = fmt.Sprintf("a small pod would get %s in %s as %s for %s USD/h", n.InstanceType, n.Zone, n.CapacityType, usd(n.USDPerHour))
	case probe.State == PodExisting:
		x.State, x.Message = PoolBuys, "a small pod would go onto "+probe.Node+", which is on its way"
	default:
		x.State, x.Message = PoolBuysNone, probe.Message
		for _, r := range probe.Reasons {
			if r.NodePool == x.NodePool || r.NodePool == "" {
				x.Reasons, x.Message = append(x.Reasons, r), r.Message
			}
		}
	}
}

// WriteTable writes the state, limits, conditions and budgets of the pool.
func (x *PoolExplanation) WriteTable(w io.Writer) error {
	l := &lines{w: w}
	l.printf("%s %s: %s\n", x.NodePool, x.State, x.Message)
	l.printf("offerings: %s, %d available, %d closed; %s\n", count(x.Offerings.Types, "type"), x.Offerings.Available, x.Offerings.Closed, count(x.Nodes, "node"))
	for _, r := range x.Reasons {
		l.printf("refused by %s: %s (%s)\n", r.Filter, r.Message, trail(r))
	}
	if len(x.Limits) > 0 {
		l.printf("\n")
		l.table(func(w io.Writer) error {
			t := newTable(w, "LIMIT", "OF", "USED", "LEFT")
			for _, m := range x.Limits {
				t.row(m.Resource, m.Limit, m.Used, m.Left)
			}
			return t.flush()
		})
	}
	if len(x.Conditions) > 0 {
		l.printf("\n")
		l.table(func(w io.Writer) error {
			t := newTable(w, "CONDITION", "STATUS", "REASON", "MESSAGE")
			for _, c := range x.Conditions {
				t.row(c.Type, c.Status, dash(c.Reason), dash(c.Message))
			}
			return t.flush()
		})
	}
	x.Disruption.write(l)
	l.warnings(x.Warnings)
	return l.err
}

// Budget is one budget of a pool.
type Budget struct {
	Nodes    string   `json:"nodes"` // as written
	Allows   int      `json:"allows"`
	Reasons  []string `json:"reasons"` // empty = all
	Schedule string   `json:"schedule"`
	Duration string   `json:"duration"`
	Active   bool     `json:"active"`
	Ends     string   `json:"ends"`  // RFC 3339, of the window that is open; empty = none is, or without end
	Opens    string   `json:"opens"` // RFC 3339, of the next window; empty = none
}

// Allowed is how many nodes more may be disrupted for a reason now.
type Allowed struct {
	Reason    string `json:"reason"`
	Nodes     int    `json:"nodes"`
	Unlimited bool   `json:"unlimited"` // nodes counts for nothing
	Until     string `json:"until"`     // RFC 3339: when more is allowed, where it is 0 and that is known
	Message   string `json:"message"`
}

// InFlight is a node that the budgets count as disrupted.
type InFlight struct {
	Node string `json:"node"`
	Why  string `json:"why"` // Removed or NotReady
}

// PoolBudgets is what the budgets of a pool say now.
type PoolBudgets struct {
	NodePool         string     `json:"nodePool"`
	Policy           string     `json:"policy"`
	ConsolidateAfter string     `json:"consolidateAfter"`
	Nodes            int        `json:"nodes"` // that percentages refer to
	InFlight         []InFlight `json:"inFlight"`
	Allowed          []Allowed  `json:"allowed"`
	Budgets          []Budget   `json:"budgets"`
	TimeZone         string     `json:"timeZone"` // of the schedules
	Problem          string     `json:"problem"`  // why the budgets cannot be read, so that they allow nothing
}

// BudgetsExplanation is the answer of explain budgets.
type BudgetsExplanation struct {
	Kind     string        `json:"kind"`
	Now      string        `json:"now"`
	Pools    []PoolBudgets `json:"pools"`
	Warnings []string      `json:"warnings"`
}

// WriteTable writes, for each pool, what is allowed and the budgets that say so.
func (x *BudgetsExplanation) WriteTable(w io.Writer) error {
	l := &lines{w: w}
	for i := range x.Pools {
		if i > 0 {
			l.printf("\n")
		}
		l.printf("%s at %s\n", x.Pools[i].NodePool, x.Now)
		x.Pools[i].write(l)
	}
	l.warnings(x.Warnings)
	return l.err
}

func (b *PoolBudgets) write(l *lines) {
	l.printf("\ndisruption: %s after %s; %d of %s disrupted", dash(b.Policy), b.ConsolidateAfter, len(b.InFlight), count(b.Nodes, "node"))
	for i, f := range b.InFlight {
		l.printf("%s%s (%s)", map[bool]string{true: ": ", false: ", "}[i == 0], f.Node, f.Why)
	}
	l.printf("\n")
	if b.Problem != "" {
		l.printf("the budgets cannot be read, so that they allow nothing: %s\n", b.Problem)
	}
	l.table(func(w io.Writer) error {
		t := newTable(w, "REASON", "ALLOWED NOW", "UNTIL", "WHY")
		for _, a := range b.Allowed {
			n := fmt.Sprint(a.Nodes)
			if a.Unlimited {
				n = "any"
			}
			t.row(a.Reason, n, dash(a.Until), dash(a.Message))
		}
		return t.flush()
	})
	if len(b.Budgets) == 0 {
		return
	}
	l.table(func(w io.Writer) error {
		t := newTable(w, "BUDGET", "ALLOWS", "REASONS", "SCHEDULE", "ACTIVE", "ENDS", "OPENS")
		for _, x := range b.Budgets {
			schedule := "always"
			if x.Schedule != "" {
				schedule = fmt.Sprintf("%s for %s (%s)", x.Schedule, x.Duration, b.TimeZone)
			}
			active := "no"
			if x.Active {
				active = "yes"
			}
			reasons := strings.Join(x.Reasons, ",")
			if reasons == "" {
				reasons = "all"
			}
			t.row(x.Nodes, fmt.Sprint(x.Allows), reasons, schedule, active, dash(x.Ends), dash(x.Opens))
		}
		return t.flush()
	})
}
