package control_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// auditor sees to it that no node begins to be disrupted that a budget does not allow,
// with everything that is under way counted, whoever began it.
type auditor struct {
	s       *scene
	before  map[string]bool // claims that were on their way out when last looked
	total   map[string]int  // nodes by pool, when last looked
	started int
	broken  string
}

func (a *auditor) look(now time.Time) {
	leaving := map[string]bool{}
	total, lost := map[string]int{}, map[string]int{}
	var fresh []*model.Claim
	for _, n := range a.s.API.Nodes {
		var c *model.Claim
		for _, x := range a.s.API.Claims {
			if x.ProviderID == n.ProviderID {
				c = x
			}
		}
		if c == nil || n.Labels[model.LabelInitialized] != "true" || c.Is(model.CondInstanceTerminating) {
			continue
		}
		total[c.Pool]++
		out := c.Deleting != nil || slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintDisrupted })
		if out {
			leaving[c.Name] = true
			if !a.before[c.Name] && c.Is(model.CondDisruptionReason) {
				fresh = append(fresh, c)
			}
		}
		if out || !n.Ready {
			lost[c.Pool]++
		}
	}
	for _, c := range fresh {
		a.started++
		reason := model.DisruptionReason(c.Condition(model.CondDisruptionReason).Reason)
		p := a.s.API.Pools[c.Pool]
		all := max(total[p.Name], a.total[p.Name]) // of what the decision may have seen
		if allowed := disrupt.Allowed(p, reason, all, 0, now).Nodes; lost[p.Name] > allowed && a.broken == "" {
			a.broken = fmt.Sprintf("at %s %s of %s goes for %s: %d of %d nodes are disrupted, budgets %+v allow %d", now.Format(time.TimeOnly), c.Name, p.Name, reason, lost[p.Name], all, p.Budgets, allowed)
		}
	}
	a.before, a.total = leaving, total
}

func someBudgets(t *rapid.T) []model.Budget {
	var out []model.Budget
	for i := range rapid.IntRange(1, 3).Draw(t, "budgets") {
		b := model.Budget{Nodes: rapid.SampledFrom([]string{"1", "2", "20%", "50%", "100%"}).Draw(t, fmt.Sprint("nodes ", i))}
		switch rapid.IntRange(0, 3).Draw(t, fmt.Sprint("kind ", i)) {
		case 0:
			b.Schedule, b.Duration = rapid.SampledFrom([]string{"*/10 * * * *", "15 9 * * *", "@hourly"}).Draw(t, fmt.Sprint("schedule ", i)), 5*time.Minute
			b.Nodes = rapid.SampledFrom([]string{"0", "1", b.Nodes}).Draw(t, fmt.Sprint("window ", i))
		case 1:
			b.Reasons = []model.DisruptionReason{rapid.SampledFrom([]model.DisruptionReason{model.Empty, model.Drifted, model.Underutilized}).Draw(t, fmt.Sprint("reason ", i))}
		}
		out = append(out, b)
	}
	return out
}

// Promise 4, for disruption: budgets hold at every instant, across deaths at any effect
// and leaders, while load comes and goes and templates change.
func TestBudgetsHoldAtEveryInstant(t *testing.T) {
	t.Parallel()
	started, deaths := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		p := pool("default", model.OnDemand)
		p.ConsolidateAfter = rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(rt, "consolidateAfter")
		p.Budgets = someBudgets(rt)
		s := newScene(t, nil, p)
		a := &auditor{s: s}
		s.Saw = func(now time.Time, _ execute.Result) { a.look(now) }
		w := web(rapid.IntRange(2, 12).Draw(rt, "pods"))
		s.Workloads = append(s.Workloads, w)
		s.Run(90 * time.Second)
		for i := range rapid.IntRange(2, 4).Draw(rt, "events") {
			switch rapid.IntRange(0, 4).Draw(rt, fmt.Sprint("event ", i)) {
			case 0, 1:
				w.Replicas = rapid.IntRange(0, 14).Draw(rt, fmt.Sprint("pods ", i))
			case 2:
				changing(s, s.API.Pools["default"])
			case 3:
				s.Restart()
			case 4:
				at := s.Performed + rapid.IntRange(1, 40).Draw(rt, fmt.Sprint("dies in ", i))
				after := rapid.Bool().Draw(rt, fmt.Sprint("after ", i))
				s.Crash = func(n int, done bool, _ execute.Effect) bool { return n == at && done == after }
			}
			s.Run(time.Duration(rapid.IntRange(20, 100).Draw(rt, fmt.Sprint("seconds ", i))) * time.Second)
			if a.broken != "" {
				rt.Fatal(a.broken)
			}
		}
		started += a.started
		deaths += s.Crashes
	})
	if started < 50 || deaths < 5 {
		t.Errorf("only %d disruptions and %d deaths in all histories", started, deaths)
	}
}
