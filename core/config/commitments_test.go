package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/model"
)

const top = "apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\ncluster: c\n"

const plans = `
savingsPlans:
- name: compute
  usdPerHour: 12.5
  discount: 0.28
  prices: {m7g.large: 0.0588}
  usedElsewhereUSDPerHour: 2
- usdPerHour: 3
  match: {karpenter.k8s.aws/instance-family: [m7g, c7g]}
reservedInstances:
- {instanceType: m5.large, count: 10, usdPerHour: 0.06, usedElsewhere: 1}
- {instanceType: m5.large, zone: us-east-1a, count: 2}
`

// indented is the text two columns to the right.
func indented(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

// TestCommitments of the configuration and of a file are the same but for their source:
// reserved instances first, and nothing but what is on demand.
func TestCommitments(t *testing.T) {
	t.Parallel()
	onDemand := model.LabelMatch{Key: model.LabelCapacityType, Values: []string{model.OnDemand}}
	m5 := model.LabelMatch{Key: model.LabelInstanceType, Values: []string{"m5.large"}}
	want := []model.Commitment{
		{Name: "m5.large", Nodes: 10, UsedNodes: 1, USDPerHourByType: map[string]float64{"m5.large": 0.06}, Covers: model.OfferingSelector{onDemand, m5}},
		{Name: "m5.large-us-east-1a", Nodes: 2, Covers: model.OfferingSelector{onDemand, m5, {Key: model.LabelZone, Values: []string{"us-east-1a"}}}},
		{Name: "compute", USDPerHour: 12.5, UsedUSDPerHour: 2, Discount: 0.28, USDPerHourByType: map[string]float64{"m7g.large": 0.0588}, Covers: model.OfferingSelector{onDemand}},
		{Name: "savings-plan-1", USDPerHour: 3, Covers: model.OfferingSelector{onDemand, {Key: "karpenter.k8s.aws/instance-family", Values: []string{"m7g", "c7g"}}}},
	}
	files := func(name string) ([]byte, error) {
		if name != "paid.yaml" {
			return nil, errors.New("no such file or directory")
		}
		return []byte("apiVersion: config.weir.dev/v1alpha1\nkind: Commitments" + plans), nil
	}
	for source, text := range map[string]string{"configuration": top + "commitments:" + indented(plans), "paid.yaml": top + "commitments: {file: paid.yaml}"} {
		got, err := config.Load(config.Input{Role: config.CLI, File: "c.yaml", Data: []byte(text), ReadFile: files})
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		for i := range want {
			want[i].Source = source
		}
		if diff := cmp.Diff(want, got.PlanningSettings().Commitments); diff != "" {
			t.Errorf("%s: %s", source, diff)
		}
	}
}

// TestBadCommitments are told with file, line, field and what was expected.
func TestBadCommitments(t *testing.T) {
	t.Parallel()
	const kind = "apiVersion: config.weir.dev/v1alpha1\nkind: Commitments\n"
	for name, c := range map[string]struct{ text, file, want string }{
		"nothing committed":     {"commitments: {savingsPlans: [{name: a}]}", "", "c.yaml:4: commitments.savingsPlans[0].usdPerHour: is 0, expected what is committed"},
		"all of it off":         {"commitments: {savingsPlans: [{usdPerHour: 1, discount: 1}]}", "", "commitments.savingsPlans[0].discount: is 1, expected a part"},
		"more used than bought": {"commitments: {savingsPlans: [{usdPerHour: 1, usedElsewhereUSDPerHour: 2}]}", "", "usedElsewhereUSDPerHour: is 2, expected 0 to usdPerHour, which is 1"},
		"spot is not covered":   {"commitments: {savingsPlans: [{usdPerHour: 1, match: {karpenter.sh/capacity-type: [spot]}}]}", "", "is not to be given"},
		"no values":             {"commitments: {savingsPlans: [{usdPerHour: 1, match: {a: []}}]}", "", "savingsPlans[0].match.a: has 0 values"},
		"a price of nothing":    {"commitments: {savingsPlans: [{usdPerHour: 1, prices: {m5.large: 0}}]}", "", "savingsPlans[0].prices.m5.large: is 0, expected USD per hour"},
		"a word for a price":    {"commitments: {savingsPlans: [{usdPerHour: much}]}", "", `c.yaml:4: commitments.savingsPlans[0].usdPerHour: is "much", expected a number`},
		"no type":               {"commitments: {reservedInstances: [{count: 1}]}", "", "reservedInstances[0].instanceType: is missing"},
		"no count":              {"commitments: {reservedInstances: [{instanceType: m5.large}]}", "", "reservedInstances[0].count: is 0"},
		"a zone that is none":   {"commitments: {reservedInstances: [{instanceType: m5.large, zone: a, count: 1}]}", "", `reservedInstances[0].zone: is "a"`},
		"one name twice":        {"commitments: {reservedInstances: [{instanceType: m5.large, count: 1}, {instanceType: m5.large, count: 1}]}", "", `is "m5.large" as that of commitments.reservedInstances[0]`},
		"an unknown field":      {"commitments: {savingsPlan: []}", "", `unknown field, did you mean "savingsPlans"?`},
		"file and lists":        {"commitments: {file: f.yaml, savingsPlans: [{usdPerHour: 1}]}", kind, "c.yaml:4: commitments.file: is given beside"},
		"no such file":          {"commitments: {file: g.yaml}", "", "c.yaml:4: commitments.file: cannot be read: no such file"},
		"an empty file":         {"commitments: {file: f.yaml}", " ", "f.yaml: is empty, expected apiVersion"},
		"another kind":          {"commitments: {file: f.yaml}", "apiVersion: config.weir.dev/v1alpha1\nkind: Prices\n", `f.yaml:2: kind: is "Prices", expected Commitments`},
		"two documents":         {"commitments: {file: f.yaml}", kind + "---\n" + kind, "f.yaml: has more than one document"},
		"no YAML":               {"commitments: {file: f.yaml}", "a: [", "f.yaml: is not YAML or JSON"},
		"a list":                {"commitments: {file: f.yaml}", "[]", "f.yaml:1: expected fields"},
		"a file in the file":    {"commitments: {file: f.yaml}", kind + "file: g.yaml\n", `f.yaml:3: commitments.file: unknown field; known here: apiVersion, kind, savingsPlans, reservedInstances`},
		"a fault in the file":   {"commitments: {file: f.yaml}", kind + "reservedInstances:\n- count: many\n", `f.yaml:4: commitments.reservedInstances[0].count: is "many", expected a whole number`},
		"a bad value in the file": {"commitments: {file: f.yaml}", kind + "savingsPlans:\n- usdPerHour: -1\n",
			"f.yaml:4: commitments.savingsPlans[0].usdPerHour: is -1"},
	} {
		read := func(name string) ([]byte, error) {
			if c.file == "" || name != "f.yaml" {
				return nil, errors.New("no such file or directory")
			}
			return []byte(strings.TrimSpace(c.file)), nil
		}
		_, err := config.Load(config.Input{Role: config.CLI, File: "c.yaml", Data: []byte(top + c.text), ReadFile: read})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := config.Load(config.Input{Role: config.CLI, File: "c.yaml", Data: []byte(top + "commitments: {file: f.yaml}")}); err == nil || !strings.Contains(err.Error(), "reads no file but its configuration") {
		t.Errorf("a program without files: %v", err)
	}
}

// TestChains: what they may be made of.
func TestChains(t *testing.T) {
	t.Parallel()
	chain := func(members string) string {
		return "strategies:\n  mix:\n    kind: instance-selection\n    chain: " + members + "\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"well":             {chain("[{strategy: resilient, weight: 0.5}, {strategy: cost-optimal, required: true}]") + "bindings: {instanceSelection: mix}", ""},
		"another kind":     {chain("[{strategy: savings}]"), "c.yaml:7: strategies.mix.chain[0].strategy: strategy \"savings\" is of kind consolidation, expected one of kind instance-selection"},
		"nobody":           {chain("[{strategy: resilent}]"), `there is no strategy "resilent", did you mean "resilient"?`},
		"no name":          {chain("[{weight: 1}]"), "strategies.mix.chain[0].strategy: is missing"},
		"twice":            {chain("[{strategy: resilient}, {strategy: resilient}]"), `chain[1].strategy: is "resilient" twice`},
		"itself":           {chain("[{strategy: mix}]"), "which is a chain"},
		"a chain":          {chain("[{strategy: other}]") + "  other: {kind: instance-selection, chain: [{strategy: resilient}]}\n", `is "other", which is a chain`},
		"a weight":         {chain("[{strategy: resilient, weight: -1}]"), "strategies.mix.chain[0].weight: is -1, expected a number above 0"},
		"a program, too":   {strings.Replace(chain("[{strategy: resilient}]"), "    chain", "    config: {a: 1}\n    chain", 1), "c.yaml:7: strategies.mix.config: is given, and chain is given: a chain has no program"},
		"a program's pin":  {strings.Replace(chain("[{strategy: resilient}]"), "    chain", "    sha256: "+strings.Repeat("0a", 32)+"\n    chain", 1), "c.yaml:7: strategies.mix.sha256: is given, and chain is given"},
		"a usual bound":    {strings.Replace(chain("[{strategy: resilient}]"), "    chain", "    cpuLimit: 0.75\n    chain", 1), "c.yaml:7: strategies.mix.cpuLimit: is given, and chain is given"},
		"time to answer":   {strings.Replace(chain("[{strategy: resilient}]"), "    chain", "    callTimeout: 1ms\n    chain", 1), "c.yaml:7: strategies.mix.callTimeout: is 1ms, expected 10ms to 1m0s"},
		"no weight":        {chain("[{strategy: resilient, weight: 0}]"), "c.yaml:7: strategies.mix.chain[0].weight: is 0, expected a number above 0"},
		"less than none":   {chain("[{strategy: resilient, weight: -0.0}]"), "strategies.mix.chain[0].weight: is -0, expected a number above 0"},
		"no number":        {chain("[{strategy: resilient, weight: .nan}]"), `strategies.mix.chain[0].weight: is ".nan", expected a number`},
		"nobody at all":    {chain("[]"), "c.yaml:7: strategies.mix.chain: has 0 members, expected 1 to 16"},
		"of a built-in":    {"strategies: {savings: {chain: []}}", "strategies.savings.chain: has 0 members"},
		"an empty one in":  {chain("[{strategy: other}]") + "  other: {kind: instance-selection, chain: []}\n", `is "other", which is a chain`},
		"a name built in":  {"strategies: {first-fit: {chain: [{strategy: resilient}]}}", `is given to "first-fit", which is built in`},
		"no kind":          {"strategies: {mix: {chain: [{strategy: resilient}]}}", `strategies.mix.kind: is ""`},
		"bound, other way": {chain("[{strategy: resilient}]") + "bindings: {consolidation: mix}", `bindings.consolidation: strategy "mix" is of kind instance-selection`},
	} {
		_, err := config.Load(config.Input{Role: config.CLI, File: "c.yaml", Data: []byte(top + c.text)})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestWeights: a member that says none weighs 1, also where others do.
func TestWeights(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Input{Role: config.CLI, File: "c.yaml", Data: []byte(top +
		"strategies: {mix: {kind: instance-selection, chain: [{strategy: resilient}, {strategy: first-fit, weight: 0.5}, {strategy: cost-optimal, weight: null}]}}")})
	if err != nil {
		t.Fatal(err)
	}
	want := []config.ChainMember{{Strategy: "resilient", Weight: 1}, {Strategy: "first-fit", Weight: 0.5}, {Strategy: "cost-optimal", Weight: 1}}
	if diff := cmp.Diff(want, c.Strategies["mix"].Chain); diff != "" {
		t.Error(diff)
	}
	if got := c.Strategies["mix"].CallTimeout; got != 0 {
		t.Errorf("callTimeout is %v, want none: its members have theirs", got)
	}
}
