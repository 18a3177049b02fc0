package disrupt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

// B055: a schedule is UTC whatever the zone of the clock; start inside, end outside.
func TestWindowIsUTC(t *testing.T) {
	t.Parallel()
	p := &model.Pool{Name: "p", Budgets: []model.Budget{{Nodes: "0", Schedule: "@daily", Duration: 30 * time.Minute}}}
	for clock, active := range map[string]bool{
		"2000-06-01T00:10:00+01:00": false,
		"2000-06-01T00:00:00Z":      true,
		"2000-06-01T00:10:00Z":      true,
		"2000-06-01T00:29:59Z":      true,
		"2000-06-01T00:30:00Z":      false,
	} {
		a := disrupt.Allowed(p, model.Empty, 10, 0, at(clock))
		if got := a.Nodes == 0; got != active {
			t.Errorf("%s: active %t, want %t", clock, got, active)
		}
		if active && (a.Until == nil || !a.Until.Equal(at("2000-06-01T00:30:00Z"))) {
			t.Errorf("%s: blocked until %v, want the end of the window", clock, a.Until)
		}
	}
}

// B053: only initialized nodes count, and percentages round up.
func TestPercentageCountsInitializedNodes(t *testing.T) {
	t.Parallel()
	w := world(pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "10%"}} }))
	for i := range 10 {
		node(string(rune('a'+i)), "m5.large")(w)
	}
	node("young", "m5.large", func(n *model.Node) { delete(n.Labels, model.LabelInitialized); n.Claim.Conditions = nil })(w)
	total, lost := disrupt.Disrupting(w, "default", nil)
	if total != 10 || lost != 0 {
		t.Fatalf("total %d, lost %d, want 10 and 0", total, lost)
	}
	if a := disrupt.Allowed(w.Pools[0], model.Empty, total, lost, noon); a.Nodes != 1 {
		t.Errorf("allowed %d, want 1", a.Nodes)
	}
	for total, want := range map[int]int{0: 0, 1: 1, 10: 1, 11: 2, 20: 2, 21: 3} {
		if a := disrupt.Allowed(w.Pools[0], model.Empty, total, 0, noon); a.Nodes != want {
			t.Errorf("10%% of %d allows %d, want %d", total, a.Nodes, want)
		}
	}
}

func TestDisruptedNodesOfAnyCauseCount(t *testing.T) {
	t.Parallel()
	w := world(
		node("ready", "m5.large"),
		node("notready", "m5.large", func(n *model.Node) { n.Ready = false }),
		node("deleting", "m5.large", func(n *model.Node) { n.Claim.Deleting = &noon }),
		node("tainted", "m5.large", func(n *model.Node) {
			n.Taints = []model.Taint{{Key: model.TaintDisrupted, Effect: model.NoSchedule}}
		}),
		node("running", "m5.large"),
		node("terminating", "m5.large", func(n *model.Node) {
			n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: model.CondInstanceTerminating, Status: "True"})
		}),
	)
	if total, lost := disrupt.Disrupting(w, "default", map[string]bool{"running": true}); total != 5 || lost != 4 {
		t.Errorf("total %d, lost %d, want 5 and 4", total, lost)
	}
}

// B056: reversed and out-of-range days are refused in the parser's words, and a
// stored one allows nothing for any reason.
func TestBadSchedules(t *testing.T) {
	t.Parallel()
	for schedule, want := range map[string]string{
		"0 0 * * sat-sun":                "beyond end of range",
		"30 10 * * 1-7":                  "above maximum",
		"0 0 * * sat,sun":                "",
		"@daily":                         "",
		"0 9 * * mon-fri":                "",
		"@every 1h":                      "@every",
		"TZ=Europe/Berlin 0 9 * * *":     "expected",
		"CRON_TZ=Europe/Berlin @daily":   "expected",
		"TZ=":                            "expected",
		"":                               "",
		"61 * * * *":                     "above maximum",
		"0 0 31 2 *":                     "", // never hits, so it never restricts
		"* * * *":                        "expected",
		"0 0 * * * *":                    "expected",
		"\x00":                           "expected",
		"0 0 1-99999999999999999999 * *": "parse int",
	} {
		p := &model.Pool{Name: "p", Budgets: []model.Budget{
			{Nodes: "50%", Reasons: []model.DisruptionReason{model.Empty}, Schedule: schedule, Duration: 8 * time.Hour},
			{Nodes: "5"}}}
		err := disrupt.CheckBudgets(p)
		if (err != nil) != (want != "") {
			t.Errorf("%q: error %v, want one: %t", schedule, err, want != "")
			continue
		}
		a := disrupt.Allowed(p, model.Drifted, 10, 0, noon)
		if err == nil {
			if a.Nodes != 5 {
				t.Errorf("%q: drift allows %d, want 5", schedule, a.Nodes)
			}
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "NodePool p: spec.disruption.budgets[0].schedule") {
			t.Errorf("%q: error %q lacks %q or the field", schedule, err, want)
		}
		if a.Nodes != 0 || a.Why != err.Error() {
			t.Errorf("%q: allowed %+v, want nothing with the error", schedule, a)
		}
	}
	for _, nodes := range []string{"", "ten", "-1", "101%", "1.5", "%"} {
		p := &model.Pool{Name: "p", Budgets: []model.Budget{{Nodes: nodes}}}
		if a := disrupt.Allowed(p, model.Empty, 10, 0, noon); a.Nodes != 0 || disrupt.CheckBudgets(p) == nil {
			t.Errorf("nodes %q: allowed %+v, want nothing and an error", nodes, a)
		}
	}
	p := &model.Pool{Name: "p", Budgets: []model.Budget{{Nodes: "1", Schedule: "@daily"}}}
	if disrupt.CheckBudgets(p) == nil {
		t.Error("a schedule without a duration passes")
	}
}

// B058: a reason without an active budget is unlimited.
func TestReasonWithoutBudgetIsUnlimited(t *testing.T) {
	t.Parallel()
	p := &model.Pool{Name: "p", Budgets: []model.Budget{
		{Nodes: "20%", Reasons: []model.DisruptionReason{model.Empty}, Schedule: "0 6 * * *", Duration: 20 * time.Hour},
		{Nodes: "20%", Reasons: []model.DisruptionReason{model.Underutilized, model.Empty}, Schedule: "0 2 * * *", Duration: 4 * time.Hour},
	}}
	for _, c := range []struct {
		clock  string
		reason model.DisruptionReason
		want   int
	}{
		{"2026-03-04T12:00:00Z", model.Underutilized, disrupt.Unlimited},
		{"2026-03-04T12:00:00Z", model.Empty, 2},
		{"2026-03-04T03:00:00Z", model.Underutilized, 2},
		{"2026-03-04T03:00:00Z", model.Drifted, disrupt.Unlimited},
	} {
		if a := disrupt.Allowed(p, c.reason, 10, 0, at(c.clock)); a.Nodes != c.want {
			t.Errorf("%s %s: %d, want %d", c.clock, c.reason, a.Nodes, c.want)
		}
	}
}

// B059: Underutilized only in office hours, in three budgets at once.
func TestOfficeHours(t *testing.T) {
	t.Parallel()
	under := []model.DisruptionReason{model.Underutilized}
	p := &model.Pool{Name: "p", Budgets: []model.Budget{
		{Nodes: "0", Reasons: under, Schedule: "0 17 * * mon-fri", Duration: 16 * time.Hour},
		{Nodes: "0", Reasons: under, Schedule: "0 9 * * sat", Duration: 48 * time.Hour},
		{Nodes: "10%"},
	}}
	for clock, want := range map[string]int{
		"2026-03-04T10:00:00Z": 2, "2026-03-04T17:00:00Z": 0, "2026-03-05T08:59:00Z": 0, "2026-03-05T09:01:00Z": 2,
		"2026-03-07T12:00:00Z": 0, "2026-03-09T08:00:00Z": 0, "2026-03-09T09:01:00Z": 2,
	} {
		if a := disrupt.Allowed(p, model.Underutilized, 20, 0, at(clock)); a.Nodes != want {
			t.Errorf("%s: Underutilized %d, want %d", clock, a.Nodes, want)
		}
		for _, r := range []model.DisruptionReason{model.Empty, model.Drifted} {
			if a := disrupt.Allowed(p, r, 20, 0, at(clock)); a.Nodes != 2 {
				t.Errorf("%s: %s %d, want 2", clock, r, a.Nodes)
			}
		}
	}
	// two windows that overlap are one: Friday evening to Saturday morning
	a := disrupt.Allowed(&model.Pool{Name: "p", Budgets: []model.Budget{{Nodes: "0", Schedule: "0 * * * *", Duration: 90 * time.Minute}}}, model.Empty, 5, 0, noon)
	if a.Nodes != 0 || a.Until != nil {
		t.Errorf("windows that overlap without end: %+v, want 0 and no end", a)
	}
}

func TestSmallestActiveBudgetWins(t *testing.T) {
	t.Parallel()
	p := &model.Pool{Name: "p", Budgets: []model.Budget{{Nodes: "50%"}, {Nodes: "3"}, {Nodes: "90%"}}}
	if a := disrupt.Allowed(p, model.Empty, 10, 1, noon); a.Nodes != 2 {
		t.Errorf("allowed %d, want 3 less the 1 that is disrupted", a.Nodes)
	}
	if a := disrupt.Allowed(p, model.Empty, 10, 7, noon); a.Nodes != 0 || !strings.Contains(a.Why, `"3"`) {
		t.Errorf("allowed %+v, want nothing, held by the budget of 3", a)
	}
	if a := disrupt.Allowed(&model.Pool{}, model.Empty, 10, 10, noon); a.Nodes != disrupt.Unlimited {
		t.Errorf("no budget allows %d, want no limit", a.Nodes)
	}
}

// A pool may have its schedules in a time zone of its own, summer time included; a zone
// that does not exist closes it.
func TestBudgetsInATimeZone(t *testing.T) {
	t.Parallel()
	office := func(zone string) *model.Pool {
		p := &model.Pool{Name: "p", Budgets: []model.Budget{{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: 8 * time.Hour}}}
		if zone != "" {
			p.Annotations = map[string]string{model.AnnotationTimeZone: zone}
		}
		return p
	}
	for _, tc := range []struct {
		zone, now string
		shut      bool
		until     string
	}{
		{"", "2026-01-15T08:30:00Z", false, ""},
		{"Europe/Zurich", "2026-01-15T08:30:00Z", true, "2026-01-15T16:00:00Z"},
		{"Europe/Zurich", "2026-01-15T07:59:00Z", false, ""},
		{"Europe/Zurich", "2026-07-15T07:30:00Z", true, "2026-07-15T15:00:00Z"}, // summer time
		{"America/New_York", "2026-01-16T21:30:00Z", true, "2026-01-16T22:00:00Z"},
		{"America/New_York", "2026-01-17T15:30:00Z", false, ""}, // Saturday
	} {
		a := disrupt.Allowed(office(tc.zone), model.Underutilized, 10, 0, at(tc.now))
		if (a.Nodes == 0) != tc.shut || (a.Until != nil) != tc.shut || tc.shut && !a.Until.Equal(at(tc.until)) {
			t.Errorf("%s in zone %q: %+v until %v, want shut %t until %s", tc.now, tc.zone, a, a.Until, tc.shut, tc.until)
		}
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "", "UTC 0 9 * * *"} {
		p := office("")
		p.Annotations = map[string]string{model.AnnotationTimeZone: zone}
		a := disrupt.Allowed(p, model.Empty, 10, 0, noon)
		if a.Nodes != 0 || !strings.Contains(a.Why, "annotation weir.dev/time-zone: expected the name of a time zone") {
			t.Errorf("zone %q: %+v", zone, a)
		}
	}
}
