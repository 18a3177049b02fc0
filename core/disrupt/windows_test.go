package disrupt_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// TestBudgetStates: when a window ends and the next one opens, in the pool's time zone, with
// windows that overlap and some that never end.
func TestBudgetStates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		budget      model.Budget
		zone        string
		now         string
		active      bool
		ends, opens string
	}{
		"no schedule":                {model.Budget{Nodes: "10%"}, "", "2026-03-06T09:00:00Z", true, "", ""},
		"before":                     {model.Budget{Nodes: "0", Schedule: "0 8 * * 1-5", Duration: 10 * time.Hour}, "", "2026-03-06T07:59:59Z", false, "", "2026-03-06T08:00:00Z"},
		"at the start":               {model.Budget{Nodes: "0", Schedule: "0 8 * * 1-5", Duration: 10 * time.Hour}, "", "2026-03-06T08:00:00Z", true, "2026-03-06T18:00:00Z", "2026-03-09T08:00:00Z"},
		"at the end":                 {model.Budget{Nodes: "0", Schedule: "0 8 * * 1-5", Duration: 10 * time.Hour}, "", "2026-03-06T18:00:00Z", false, "", "2026-03-09T08:00:00Z"},
		"windows that overlap":       {model.Budget{Nodes: "0", Schedule: "0 8,9 * * *", Duration: 90 * time.Minute}, "", "2026-03-06T08:30:00Z", true, "2026-03-06T10:30:00Z", "2026-03-07T08:00:00Z"},
		"windows that never end":     {model.Budget{Nodes: "0", Schedule: "0 * * * *", Duration: 90 * time.Minute}, "", "2026-03-06T08:30:00Z", true, "", ""},
		"summer time of the zone":    {model.Budget{Nodes: "0", Schedule: "0 8 * * *", Duration: time.Hour}, "Europe/Zurich", "2026-03-28T12:00:00Z", false, "", "2026-03-29T06:00:00Z"},
		"a clock of some other zone": {model.Budget{Nodes: "0", Schedule: "0 8 * * *", Duration: time.Hour}, "", "2026-03-28T12:00:00+09:00", false, "", "2026-03-28T08:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &model.Pool{Name: "p", Budgets: []model.Budget{tc.budget}}
			if tc.zone != "" {
				p.Annotations = map[string]string{model.AnnotationTimeZone: tc.zone}
			}
			states, err := disrupt.BudgetStates(p, 25, at(tc.now))
			if err != nil || len(states) != 1 {
				t.Fatalf("%+v, %v", states, err)
			}
			s, text := states[0], func(t *time.Time) string {
				if t == nil {
					return ""
				}
				return t.Format(time.RFC3339)
			}
			if s.Active != tc.active || text(s.Ends) != tc.ends || text(s.Opens) != tc.opens {
				t.Errorf("active %t, ends %q, opens %q; expected %t, %q, %q", s.Active, text(s.Ends), text(s.Opens), tc.active, tc.ends, tc.opens)
			}
			if want := map[string]int{"10%": 3, "0": 0}[tc.budget.Nodes]; s.Nodes != want {
				t.Errorf("allows %d of 25, expected %d", s.Nodes, want)
			}
		})
	}
	bad := &model.Pool{Name: "p", Budgets: []model.Budget{{Nodes: "1", Schedule: "5-1 * * * *", Duration: time.Hour}}}
	if _, err := disrupt.BudgetStates(bad, 1, at("2026-03-06T09:00:00Z")); err == nil {
		t.Error("a schedule that cannot be read is no error")
	}
}
