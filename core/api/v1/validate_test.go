package v1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/api/keys"
	v1 "github.com/weir-project/weir/core/api/v1"
)

// The same validator is for pods, whose requirements no definition has looked at.
func TestValidateRequirement(t *testing.T) {
	t.Parallel()
	two := 2
	for name, tc := range map[string]struct {
		in   v1.Requirement
		want string // part of path and message; empty for fine
	}{
		"in":                   {v1.Requirement{Key: "a", Operator: v1.OpIn, Values: []string{"b"}}, ""},
		"in, no values":        {v1.Requirement{Key: "a", Operator: v1.OpIn}, "at.values: operator In must have a value"},
		"in, too few":          {v1.Requirement{Key: "a", Operator: v1.OpIn, Values: []string{"b"}, MinValues: &two}, "minValues is 2 but there are 1 values"},
		"gt":                   {v1.Requirement{Key: "a", Operator: v1.OpGt, Values: []string{"0"}}, ""},
		"gt, no values":        {v1.Requirement{Key: "a", Operator: v1.OpGt}, "must have one whole number"},
		"lt, two values":       {v1.Requirement{Key: "a", Operator: v1.OpLt, Values: []string{"1", "2"}}, "must have one whole number"},
		"gte, negative":        {v1.Requirement{Key: "a", Operator: v1.OpGte, Values: []string{"-1"}}, "must have one whole number"},
		"lte, too large":       {v1.Requirement{Key: "a", Operator: v1.OpLte, Values: []string{"9223372036854775808"}}, "must have one whole number"},
		"unknown operator":     {v1.Requirement{Key: "a", Operator: "Is", Values: []string{"1"}}, `at.operator: operator "Is"`},
		"hostname":             {v1.Requirement{Key: keys.Hostname, Operator: v1.OpExists}, `label "kubernetes.io/hostname" is restricted`},
		"registered":           {v1.Requirement{Key: keys.Registered, Operator: v1.OpExists}, `label domain "karpenter.sh" is restricted`},
		"below the domain":     {v1.Requirement{Key: "a.karpenter.sh/b", Operator: v1.OpExists}, `label domain "karpenter.sh" is restricted`},
		"only looks like it":   {v1.Requirement{Key: "mykarpenter.sh/b", Operator: v1.OpExists}, ""},
		"old name of the zone": {v1.Requirement{Key: "failure-domain.beta.kubernetes.io/zone", Operator: v1.OpIn, Values: []string{"a"}}, ""},
		"kubernetes.io":        {v1.Requirement{Key: "kubernetes.io/anything", Operator: v1.OpDoesNotExist}, ""},
		"no key":               {v1.Requirement{Operator: v1.OpExists}, "at.key: "},
		"bad value":            {v1.Requirement{Key: "a", Operator: v1.OpNotIn, Values: []string{"ok", "not ok"}}, `at.values[1]: value "not ok"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := v1.ValidateRequirement("at", tc.in)
			if tc.want == "" {
				if len(errs) > 0 {
					t.Errorf("errors %v, want none", errs)
				}
				return
			}
			for _, e := range errs {
				if e.Class == v1.Invalid && strings.Contains(e.Error(), tc.want) {
					return
				}
			}
			t.Errorf("errors %v, want one with %q", errs, tc.want)
		})
	}
}

func TestInvalidPoolCarriesTheReasonOfItsCondition(t *testing.T) {
	t.Parallel()
	line := "0 0 * * sat-sun"
	pool := &v1.NodePool{}
	pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "1"}, {Nodes: "0", Schedule: &line}}
	errs := pool.Validate()
	if len(errs) != 1 || errs[0].Reason != keys.ReasonNodePoolValidationFailed || errs[0].Path != "spec.disruption.budgets[1].schedule" {
		t.Errorf("errors %+v, want one at budgets[1].schedule with reason %s", errs, keys.ReasonNodePoolValidationFailed)
	}
}

func TestParseScheduleIsUTC(t *testing.T) {
	t.Parallel()
	schedule, err := v1.ParseSchedule("0 9 * * mon-fri")
	if err != nil {
		t.Fatal(err)
	}
	tokyo := time.FixedZone("Tokyo", 9*3600)
	got := schedule.Next(time.Date(2026, 12, 2, 8, 0, 0, 0, time.UTC).In(tokyo))
	if want := time.Date(2026, 12, 2, 9, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("next hit %v, want %v", got, want)
	}
	for _, line := range []string{"", "* * * *", "@daily x", "CRON_TZ=Asia/Tokyo 0 9 * * *", "TZ=UTC 0 9 * * *", "61 * * * *"} {
		if _, err := v1.ParseSchedule(line); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, line := range []string{"@daily", "0 0 * * sat-sun", "*/5 * * * *", "TZ=UTC 0 0 * * *", "TZ="} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if schedule, err := v1.ParseSchedule(line); err == nil && schedule == nil {
			t.Error("neither schedule nor error")
		}
	})
}
