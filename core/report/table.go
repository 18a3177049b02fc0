package report

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
)

// table is aligned text; the first error of the writer is kept.
type table struct {
	w   *tabwriter.Writer
	err error
}

func newTable(w io.Writer, head ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t *table) row(cells ...string) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
}

func (t *table) flush() error {
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func usd(u USD) string { return fmt.Sprintf("%.4f", float64(u)) }

func percent(s share) string {
	if s.of <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(s.used)/float64(s.of))
}

// gap says how far a price is above its bound.
func gap(price, bound USD) string {
	if bound <= 0 {
		return "no lower bound"
	}
	return fmt.Sprintf("lower bound %s, %.3f x", usd(bound), float64(price)/float64(bound))
}

// lines writes texts one by one and keeps the first error.
type lines struct {
	w   io.Writer
	err error
}

func (l *lines) printf(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format, args...)
	}
}

func (l *lines) table(f func(w io.Writer) error) {
	if l.err == nil {
		l.err = f(l.w)
	}
}

func (l *lines) warnings(list []string) {
	for i, s := range list {
		if i == 0 {
			l.printf("\n")
		}
		l.printf("warning: %s\n", s)
	}
}

// WriteTable shows the nodes to buy, what goes on existing nodes, what has no place
// and why, and the bill.
func (r *ProvisionPlan) WriteTable(w io.Writer) error {
	l := &lines{w: w}
	if len(r.NewNodes) > 0 {
		l.table(r.newNodes)
	}
	if len(r.ExistingNodes) > 0 {
		l.printf("\n")
		l.table(func(w io.Writer) error {
			t := newTable(w, "EXISTING NODE", "PODS")
			for _, n := range r.ExistingNodes {
				t.row(n.Name, fmt.Sprint(len(n.Pods)))
			}
			return t.flush()
		})
	}
	if len(r.Unschedulable) > 0 {
		l.printf("\n")
		l.table(r.unplaced)
	}
	if len(r.NewNodes)+len(r.ExistingNodes)+len(r.Unschedulable) > 0 {
		l.printf("\n")
	}
	t := r.Totals
	l.printf("%d of %d pods placed, %s; %s USD/h (worst %s; %s)", t.Pods-len(r.Unschedulable), t.Pods, count(t.NewNodes, "new node"), usd(t.USDPerHour), usd(t.USDPerHourWorst), gap(t.USDPerHour, t.LowerBoundUSDPerHour))
	l.printf("; strategy %s; solved in %.3f s\n", dash(r.Strategy), float64(r.Timings.SolveSeconds))
	if s := sources(r.NewNodes); s != "" {
		l.printf("prices: %s\n", s)
	}
	l.warnings(r.Warnings)
	return l.err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// newNodes lists the nodes to buy, equal ones together.
func (r *ProvisionPlan) newNodes(w io.Writer) error {
	t := newTable(w, "NODE", "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "USD/H", "PODS", "CPU", "MEMORY", "ALTERNATIVES")
	for _, n := range r.NewNodes {
		t.row(n.Name, n.NodePool, n.InstanceType, n.Zone, n.CapacityType, usd(n.USDPerHour), fmt.Sprint(len(n.Pods)), percent(n.cpu), percent(n.memory), fmt.Sprint(len(n.Alternatives)))
	}
	return t.flush()
}

// unplaced lists the pods without a place, those with the same reasons together.
func (r *ProvisionPlan) unplaced(w io.Writer) error {
	t := newTable(w, "UNSCHEDULABLE", "NODEPOOL", "FILTER", "TYPES LEFT", "REASON")
	type group struct {
		reasons []Reason
		pods    []string
	}
	var order []string
	groups := map[string]*group{}
	for _, u := range r.Unschedulable {
		key := fmt.Sprint(u.Reasons)
		if groups[key] == nil {
			groups[key] = &group{reasons: u.Reasons}
			order = append(order, key)
		}
		groups[key].pods = append(groups[key].pods, u.Pod)
	}
	for _, key := range order {
		g := groups[key]
		name := g.pods[0]
		if n := len(g.pods); n > 1 {
			name += fmt.Sprintf(" and %d more", n-1)
		}
		for _, x := range g.reasons {
			t.row(name, dash(x.NodePool), x.Filter, fmt.Sprint(x.TypesLeft), x.Message)
			name = ""
		}
	}
	return t.flush()
}

// sources names where the prices of the nodes come from.
func sources(nodes []NewNode) string {
	words := map[string]string{
		"list": "on-demand list price", "synthetic": "synthetic spot price (made up, see the catalogue)", "spot-history": "spot price history",
		"catalogue": "price of the catalogue file", "override": "price set by the configuration", "unknown": "no known price",
	}
	seen := map[string]int{}
	for _, n := range nodes {
		if n.priceSource != "" {
			seen[n.priceSource]++
		}
	}
	var names []string
	for s := range seen {
		names = append(names, s)
	}
	sort.Strings(names)
	for i, s := range names {
		text := words[s]
		if text == "" {
			text = s
		}
		names[i] = fmt.Sprintf("%s for %s", text, count(seen[s], "node"))
	}
	return strings.Join(names, "; ")
}

// WriteTable shows the commands wave by wave, why the other nodes stay, and the bill.
func (r *DisruptionPlan) WriteTable(w io.Writer) error {
	l := &lines{w: w}
	if len(r.Commands) > 0 {
		l.table(r.commands)
		l.printf("\n")
	}
	if len(r.Blocked) > 0 {
		l.table(r.blocked)
		l.printf("\n")
	}
	t := r.Totals
	l.printf("%d nodes before, %d after; %s USD/h before, %s after (%s); strategy %s; solved in %.3f s\n", t.NodesBefore, t.NodesAfter,
		usd(t.USDPerHourBefore), usd(t.USDPerHourAfter), gap(t.USDPerHourAfter, t.LowerBoundUSDPerHour), dash(r.Strategy), float64(r.Timings.SolveSeconds))
	l.warnings(r.Warnings)
	return l.err
}

func (r *DisruptionPlan) commands(w io.Writer) error {
	t := newTable(w, "WAVE", "REASON", "REMOVE", "LAUNCH", "PODS", "USD/H BEFORE", "AFTER", "SCORE", "WHY")
	for _, c := range r.Commands {
		launch := "-"
		if len(c.Launch) > 0 {
			var types []string
			for _, n := range c.Launch {
				types = append(types, n.InstanceType+" "+n.CapacityType)
			}
			launch = some(types, 3)
		}
		t.row(fmt.Sprint(c.wave), c.Reason, some(c.Remove, 3), launch, fmt.Sprint(c.PodsEvicted), usd(c.USDPerHourBefore), usd(c.USDPerHourAfter),
			fmt.Sprintf("%.2f", float64(c.Score)), c.why)
	}
	return t.flush()
}

// some shows the first n of a list and how many more there are.
func some(s []string, n int) string {
	if len(s) <= n {
		return strings.Join(s, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(s[:n], ", "), len(s)-n)
}

func (r *DisruptionPlan) blocked(w io.Writer) error {
	t := newTable(w, "STAYS", "REASON", "UNTIL", "MESSAGE")
	for _, b := range r.Blocked {
		t.row(b.Node, b.Reason, dash(b.Until), b.Message)
	}
	return t.flush()
}
