package simulate

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Style says how happenings are written for people.
type Style struct {
	Color   bool // ANSI colours; the caller knows whether there is a terminal and what NO_COLOR says
	Details bool // also the happenings that are of interest only when something is looked for
}

const (
	ansiReset  = "\x1b[0m"
	ansiDim    = "\x1b[2m"
	ansiBold   = "\x1b[1m"
	ansiRed    = "\x1b[31m"
	ansiGreen  = "\x1b[32m"
	ansiYellow = "\x1b[33m"
	ansiCyan   = "\x1b[36m"
)

func (st Style) paint(color, s string) string {
	if !st.Color || s == "" {
		return s
	}
	return color + s + ansiReset
}

// WriteHappening writes one line, or none where the style leaves it out. start is the begin of the run.
func WriteHappening(w io.Writer, h Happening, start time.Time, st Style) error {
	if h.Detail && !st.Details {
		return nil
	}
	if h.Kind == "step" {
		_, err := fmt.Fprintf(w, "\n%s\n", st.paint(ansiBold, "== "+h.Text))
		return err
	}
	color := ""
	switch {
	case h.Warning && h.Kind == "expect":
		color = ansiRed
	case h.Warning:
		color = ansiYellow
	case h.Kind == "expect":
		color = ansiGreen
	case h.Kind == "plan":
		color = ansiCyan
	case h.Kind == "pods" && strings.Contains(h.Text, "running"):
		color = ansiGreen
	}
	price := ""
	if h.USDPerHour != 0 {
		price = fmt.Sprintf("%.4f USD/h", h.USDPerHour)
	}
	line := fmt.Sprintf("%s %s  %-10s %s", h.At.Format("15:04:05"), st.paint(ansiDim, fmt.Sprintf("%8s", short(h.At.Sub(start)))), h.Kind, st.paint(color, h.Text))
	if h.Subject != "" && !strings.Contains(h.Text, h.Subject) {
		line += "  " + st.paint(ansiDim, "["+h.Subject+"]")
	}
	if price != "" {
		line += "  " + st.paint(ansiBold, price)
	}
	if h.Why != "" {
		line += "\n" + strings.Repeat(" ", 30) + st.paint(ansiDim, "because: "+h.Why)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// short is a time since the start: +3.4s in the first minute, then +2:05 and +1:02:05.
func short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("+%.1fs", d.Seconds())
	}
	d = d.Round(time.Second)
	h, m, sec := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if h > 0 {
		return fmt.Sprintf("+%d:%02d:%02d", h, m, sec)
	}
	return fmt.Sprintf("+%d:%02d", m, sec)
}

// WriteSummary writes the bill, the figures and the outcome of the expectations.
func WriteSummary(w io.Writer, r *Report, st Style) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "\n%s\n", st.paint(ansiBold, fmt.Sprintf("== The bill, %s to %s (virtual time)", r.Start.Format("15:04:05"), r.End.Format("15:04:05 2006-01-02"))))
	if err := WriteBill(b, r); err != nil {
		return err
	}
	t := r.Totals
	fmt.Fprintf(b, "\npods created %d, waiting time %.0f pod-seconds (longest %.0f s), evictions %d, deleted past a budget %d, lost with a machine %d, budgets broken %d\n",
		t.PodsCreated, t.PendingPodSeconds, t.LongestPending, t.Evictions, t.ForcedDeletions, t.PodsLost, t.BrokenBudgets)
	if t.ControllerRestarts > 0 {
		fmt.Fprintf(b, "controller restarts %d, instances without a claim at the end %d, claims with several instances %d\n", t.ControllerRestarts, r.Final.Unclaimed, r.Final.Doubled)
	}
	for _, c := range r.Checks {
		mark, color := "ok", ansiGreen
		if !c.OK {
			mark, color = "FAILED", ansiRed
		}
		fmt.Fprintf(b, "%s  %s", st.paint(color, fmt.Sprintf("%-6s", mark)), c.Title)
		if c.Text != "" {
			fmt.Fprintf(b, ": %s", c.Text)
		}
		fmt.Fprintln(b)
	}
	for _, x := range r.Warnings {
		fmt.Fprintf(b, "%s %s\n", st.paint(ansiYellow, "warning:"), x)
	}
	if r.Closing != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(r.Closing))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteBill writes the machines with what they cost.
func WriteBill(w io.Writer, r *Report) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%-26s %-14s %-17s %-12s %-10s %9s %8s %10s  %s\n", "NODE", "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "USD/H", "HOURS", "USD", "END")
	for _, n := range r.Bill {
		end := "still running"
		if !n.Open {
			end = n.Ended.Format("15:04:05") + " " + endings[n.EndReason]
		}
		fmt.Fprintf(b, "%-26s %-14s %-17s %-12s %-10s %9.4f %8.2f %10.4f  %s\n", n.Node, n.Pool, n.InstanceType, n.Zone, n.CapacityType, n.USDPerHour, n.Hours, n.USD, end)
	}
	fmt.Fprintf(b, "%-26s %67s %8.2f %10.4f\n", "total", "", r.Totals.NodeHours, r.Totals.USD)
	_, err := io.WriteString(w, b.String())
	return err
}

var endings = map[string]string{"user": "given back", "spot-reclaim": "reclaimed by EC2", "failure": "failed"}
