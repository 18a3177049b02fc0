package disrupt

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/weir-project/weir/core/model"
)

// Unlimited is the allowance where no budget restricts a reason.
const Unlimited = math.MaxInt

// Allowance says how many nodes of a pool may be disrupted for one reason.
type Allowance struct {
	Nodes int        // more that may start now; Unlimited where no budget restricts the reason
	Until *time.Time // when the window that holds it at 0 ends, nil = not known or not held by a window
	Why   string     // which budget holds it at 0, for people; empty where Nodes > 0
}

// Disrupting counts the nodes of a pool for its budgets: total is what
// percentages refer to (initialized, not terminating), lost those of them that are
// not ready or on their way out, for whatever cause. running names the nodes of
// commands that are under way, by Node.ID.
func Disrupting(w *model.World, pool string, running map[string]bool) (total, lost int) {
	for _, n := range w.Nodes {
		if n.Pool() != pool || !counts(n) {
			continue
		}
		total++
		if !n.Ready || n.BeingRemoved() || running[n.ID()] {
			lost++
		}
	}
	return total, lost
}

// counts says whether a node is among those that percentages refer to.
func counts(n *model.Node) bool {
	return n.Managed() && n.Initialized() && !n.Claim.Is(model.CondInstanceTerminating)
}

// Allowed is the smallest allowance of the pool's budgets that are active at now
// and cover the reason. A budget that cannot be read allows nothing for any
// reason: a person meant to restrict something, and we do not know what.
func Allowed(p *model.Pool, reason model.DisruptionReason, total, lost int, now time.Time) Allowance {
	if err := CheckBudgets(p); err != nil {
		return Allowance{Why: err.Error()}
	}
	a := allowed(p, reason, total, lost, now)
	for range 100 { // where one window ends, another budget's may go on
		if a.Until == nil {
			break
		}
		then := allowed(p, reason, total, lost, *a.Until)
		if then.Nodes > 0 {
			break
		}
		if a.Until = then.Until; a.Until == nil {
			a.Why = then.Why
		}
	}
	return a
}

func allowed(p *model.Pool, reason model.DisruptionReason, total, lost int, now time.Time) Allowance {
	limit, why := Unlimited, ""
	var until *time.Time
	for _, b := range p.Budgets {
		if !covers(b, reason) {
			continue
		}
		end, active := window(b, timeZone(p), now)
		if !active {
			continue
		}
		n := nodes(b.Nodes, total)
		if n > limit {
			continue
		}
		limit, until = n, nil
		why = fmt.Sprintf("budget %q allows %d of %d nodes, and %d are disrupted already", b.Nodes, n, total, lost)
		if b.Schedule == "" && n == 0 {
			why = fmt.Sprintf("budget %q allows 0 of %d nodes at any time, until the NodePool is changed", b.Nodes, total)
		}
		if b.Schedule != "" {
			why = fmt.Sprintf("budget %q (schedule %q, %s) allows %d of %d nodes, and %d are disrupted already",
				b.Nodes, b.Schedule, b.Duration, n, total, lost)
			if n-lost <= 0 {
				until = end
			}
			if end == nil {
				why += "; its windows overlap without end"
			}
		}
	}
	if limit == Unlimited {
		return Allowance{Nodes: Unlimited}
	}
	if left := limit - lost; left > 0 {
		return Allowance{Nodes: left}
	}
	return Allowance{Until: until, Why: why}
}

// CheckBudgets says what is wrong with a pool's budgets, naming the field.
func CheckBudgets(p *model.Pool) error {
	if zone := timeZone(p); zone != utc {
		if _, err := time.LoadLocation(zone); err != nil || zone == "" || zone == "Local" {
			return fmt.Errorf("NodePool %s: annotation %s: expected the name of a time zone such as Europe/Zurich, got %q", p.Name, model.AnnotationTimeZone, zone)
		}
	}
	for i, b := range p.Budgets {
		field := fmt.Sprintf("NodePool %s: spec.disruption.budgets[%d]", p.Name, i)
		if _, _, err := parseNodes(b.Nodes); err != nil {
			return fmt.Errorf("%s.nodes: %w", field, err)
		}
		if b.Schedule == "" {
			continue
		}
		if _, err := parseSchedule(b.Schedule, timeZone(p)); err != nil {
			return fmt.Errorf("%s.schedule: %w", field, err)
		}
		if b.Duration <= 0 {
			return fmt.Errorf("%s.duration: expected a duration beside a schedule", field)
		}
	}
	return nil
}

func covers(b model.Budget, reason model.DisruptionReason) bool {
	if reason == model.Expired {
		reason = model.Drifted // budgets have no word of their own for it
	}
	for _, r := range b.Reasons {
		if r == reason {
			return true
		}
	}
	return len(b.Reasons) == 0
}

// parseNodes reads "10%" or "3".
func parseNodes(s string) (n int, percent bool, err error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err = strconv.Atoi(digits)
	if err != nil || n < 0 || percent && n > 100 {
		return 0, percent, fmt.Errorf("expected a number of nodes or a percentage up to 100%%, got %q", s)
	}
	return n, percent, nil
}

// nodes is the number that a budget of this value stands for; percentages round up.
func nodes(value string, total int) int {
	n, percent, err := parseNodes(value)
	switch {
	case err != nil:
		return 0
	case percent:
		return (n*total + 99) / 100
	}
	return n
}

const utc = "UTC"

// timeZone is that of the schedules of a pool's budgets: UTC, as in v1, unless an
// annotation names another.
func timeZone(p *model.Pool) string {
	if zone, ok := p.Annotations[model.AnnotationTimeZone]; ok {
		return zone
	}
	return utc
}

// parseSchedule reads a cron line of five fields or one of the @ macros, in a time zone.
func parseSchedule(s, zone string) (cron.Schedule, error) {
	if strings.HasPrefix(strings.TrimSpace(s), "@every") {
		return nil, fmt.Errorf("cron line %q: @every has no fixed start, expected five fields or @daily and the like", s)
	}
	// the prefix pins the zone, and makes a zone of the user's own an error
	sched, err := cron.ParseStandard("TZ=" + zone + " " + s)
	if err != nil {
		return nil, fmt.Errorf("cron line %q: %w", s, err)
	}
	return sched, nil
}

// window says whether a budget is active at now, and when the window, together
// with those that overlap it, ends: the end is outside, the start inside. A budget
// without a schedule is always active and has no end.
func window(b model.Budget, zone string, now time.Time) (end *time.Time, active bool) {
	if b.Schedule == "" {
		return nil, true
	}
	sched, err := parseSchedule(b.Schedule, zone)
	if err != nil {
		return nil, true
	}
	now = now.UTC()
	hit := sched.Next(now.Add(-b.Duration))
	if hit.IsZero() || hit.After(now) {
		return nil, false
	}
	e := hit.Add(b.Duration)
	for range 1000 { // windows that overlap without end have no end to name
		next := sched.Next(hit)
		if next.IsZero() || next.After(e) {
			return &e, true
		}
		hit, e = next, next.Add(b.Duration)
	}
	return nil, true
}
