package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/core/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

const gi = 1 << 30

func offering(name string, cores int64, zone, capacity string, usd float64, source string) *model.Offering {
	return &model.Offering{Type: &model.InstanceType{Name: name, Allocatable: resource.New(cores*1000-110, cores*4*gi, 58, 17*gi)},
		Zone: zone, CapacityType: capacity, USDPerHour: usd, PriceSource: source, Available: true}
}

func pod(name string) *model.Pod { return &model.Pod{Namespace: "shop", Name: name} }

func provision() *report.ProvisionPlan {
	pool := &model.Pool{Name: "default", Taints: []model.Taint{{Key: "team", Value: "a", Effect: model.NoSchedule}, {Key: "bare", Effect: model.NoExecute}}}
	w := &model.World{Pods: []*model.Pod{pod("a"), pod("b"), pod("c"), pod("d"), pod("e")}}
	trail := []model.Passed{{Filter: model.FilterPool, Types: 40}, {Filter: model.FilterTaints, Types: 40}, {Filter: model.FilterRequirements, Types: 12}, {Filter: model.FilterResources}}
	p := &model.Plan{Kind: model.PlanProvision, LowerBoundUSDPerHour: 0.2912345678, Warnings: []string{"shared", "of the plan"}, Budget: &model.BudgetEnd{Limit: 10 * time.Second, Unseen: 2},
		Launch: []*model.NewNode{
			{Name: "default-1", Pool: pool, Offering: offering("m6a.4xlarge", 16, "us-east-1a", model.Spot, 0.3100004, "synthetic"),
				Alternatives: []*model.Offering{offering("m6i.4xlarge", 16, "us-east-1b", model.Spot, 0.33, "synthetic")},
				Requirements: require.NewSet(require.Must(model.LabelArch, require.In, "amd64"), require.Must("weir.dev/cpu", require.Gt, "4")),
				Labels:       map[string]string{model.LabelPool: "default"}, Pods: []*model.Pod{pod("b"), pod("a")},
				Requests: resource.New(14000, 8*gi, 2, 0), Daemons: resource.New(250, gi, 1, 0)},
			{Name: "default-2", Pool: &model.Pool{Name: "plain"}, Offering: offering("m5.large", 2, "us-east-1a", model.OnDemand, 0.096, "list"), Pods: []*model.Pod{}},
		},
		Placements: []model.Placement{{Node: &model.Node{Name: "n1"}, Pods: []*model.Pod{pod("c")}}},
		Unplaced: []model.Verdict{
			{Pod: pod("e"), Reasons: []model.Reason{{Pool: "default", Filter: model.FilterResources, TypesLeft: 12, Nearest: "m6a.48xlarge has 191 cores", Trail: trail}, {Pool: "plain", Filter: model.FilterTaints, Message: "pod does not tolerate team=a:NoSchedule"}}},
			{Pod: pod("d"), Reasons: []model.Reason{{Pool: "default", Filter: model.FilterResources, TypesLeft: 12, Nearest: "m6a.48xlarge has 191 cores", Trail: trail}, {Pool: "plain", Filter: model.FilterTaints, Message: "pod does not tolerate team=a:NoSchedule"}}},
		}}
	return report.Provision(w, p, "cost-optimal", report.Timings{LoadSeconds: 0.0212345678, SolveSeconds: 0.0005, PeakHeapBytes: 1 << 24}, []string{"ConfigMap x/y is not used", "shared"})
}

func disruption() *report.DisruptionPlan {
	node := func(name, kind string, usd float64, known bool) *model.Node {
		return &model.Node{Name: name, Claim: &model.Claim{Name: "claim-" + name}, USDPerHour: usd, PriceKnown: known,
			Labels: map[string]string{model.LabelInstanceType: kind, model.LabelZone: "us-east-1a", model.LabelCapacityType: model.Spot}}
	}
	w := &model.World{Nodes: []*model.Node{node("n1", "m5.large", 0.096, true), node("n2", "m5.large", 0.096, true), node("n3", "m5.xlarge", 0.192, true),
		node("n4", "zz9.huge", 0, false), {Name: "foreign", Labels: map[string]string{}}, node("n5", "", 0, false)}}
	until := time.Date(2026, 3, 4, 13, 0, 0, 0, time.FixedZone("x", 3600))
	p := &model.Plan{Kind: model.PlanDisrupt, LowerBoundUSDPerHour: 0.1, Commands: []model.Command{
		{Reason: model.Empty, Remove: []*model.Node{w.Nodes[0]}, Before: 0.096, Wave: 1, Score: 19.2, Why: "nothing that has to move runs on it"},
		{Reason: model.Underutilized, Remove: []*model.Node{w.Nodes[2]}, Before: 0.192, After: 0.1, Worst: 0.11, Wave: 2, PodsEvicted: 1, Score: 1.7, Why: "its pods fit on nodes that stay",
			Launch: []*model.NewNode{{Name: "r-1", Pool: &model.Pool{Name: "default"}, Offering: offering("m5.large", 2, "us-east-1a", model.OnDemand, 0.1, "list"),
				Alternatives: []*model.Offering{offering("m5a.large", 2, "us-east-1a", model.OnDemand, 0.11, "list")}}},
			Moves: []model.Move{{Pod: pod("a"), From: "n3", To: "n2"}}},
	}, Blocked: []model.Blocked{
		{Node: "n2", Reason: "PodDisruptionBudget", Message: "pdb prevents pod evictions: shop/b allows no disruption of pod shop/a now"},
		{Node: "n4", Reason: "ConsolidateAfter", Message: "pods came or went less than 1h0m0s ago", Until: &until},
	}}
	return report.Disruption(w, p, "savings", report.Timings{SolveSeconds: 0.25}, nil)
}

func interruption() *report.InterruptionVerdict {
	deadline := time.Date(2026, 3, 4, 12, 2, 0, 0, time.UTC)
	return report.Interruption([]report.Event{
		{ID: "e1", Type: "SpotInterruption", Instance: "i-1", Node: "n1", Action: "drain", Deadline: report.Deadline(&deadline), MarksOffering: true, Reason: "AWS takes the instance back"},
		{ID: "e2", Type: "Unknown", Action: "ignore", Deadline: report.Deadline(nil), Reason: "not an event that concerns nodes"},
	})
}

// The formats are a contract: every byte of them is in testdata.
func TestFormats(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]report.Tabler{"provision": provision(), "disruption": disruption(), "interruption": interruption()} {
		for _, format := range []string{report.JSON, report.YAML, report.Table} {
			t.Run(name+"."+format, func(t *testing.T) {
				t.Parallel()
				var got bytes.Buffer
				if err := report.Write(&got, format, r); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join("testdata", name+"."+format)
				if *update {
					if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			})
		}
	}
}

// A plan that holds nothing still has every field, with empty lists.
func TestEmptyListsAreNotNull(t *testing.T) {
	t.Parallel()
	for _, r := range []report.Tabler{
		report.Provision(&model.World{}, &model.Plan{}, "", report.Timings{}, nil),
		report.Provision(&model.World{}, &model.Plan{Launch: []*model.NewNode{{Pool: &model.Pool{}, Offering: offering("t", 1, "a", model.Spot, 1, "")}}}, "", report.Timings{}, nil),
		report.Disruption(&model.World{}, &model.Plan{Commands: []model.Command{{}}}, "", report.Timings{}, nil),
		report.Interruption(nil),
	} {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "null") {
			t.Errorf("%T has a null: %s", r, b)
		}
		var out bytes.Buffer
		if err := r.WriteTable(&out); err != nil || out.Len() == 0 {
			t.Errorf("%T as a table: %q, %v", r, out.String(), err)
		}
	}
}

// The names and the order of the fields, top level, as other programs rely on them.
func TestFieldNames(t *testing.T) {
	t.Parallel()
	names := func(v any) (out []string) {
		ty := reflect.TypeOf(v)
		for i := range ty.NumField() {
			if tag, ok := ty.Field(i).Tag.Lookup("json"); ok {
				out = append(out, tag)
			}
		}
		return out
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{report.ProvisionPlan{}, "kind strategy newNodes existingNodes unschedulable totals timings warnings stopped,omitempty"},
		{report.NewNode{}, "name nodePool instanceType zone capacityType usdPerHour usdPerHourWorst alternatives requirements labels taints requests allocatable pods"},
		{report.ProvisionTotals{}, "pods newNodes usdPerHour usdPerHourWorst lowerBoundUsdPerHour"},
		{report.DisruptionPlan{}, "kind strategy commands blocked totals timings warnings stopped,omitempty"},
		{report.Command{}, "reason remove launch moves usdPerHourBefore usdPerHourAfter savingsUsdPerHour podsEvicted score"},
		{report.DisruptionTotals{}, "nodesBefore nodesAfter usdPerHourBefore usdPerHourAfter usdPerHourWorst lowerBoundUsdPerHour"},
		{report.Blocked{}, "node reason message until"},
		{report.Timings{}, "loadSeconds solveSeconds peakHeapBytes"},
		{report.Event{}, "id type instance node action deadline marksOffering reason"},
	} {
		if diff := cmp.Diff(strings.Fields(c.want), names(c.v)); diff != "" {
			t.Errorf("%T (-want +got):\n%s", c.v, diff)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]string{0.1 + 0.2: "0.3", 1.0000004: "1", 1.23456789: "1.234568", 0: "0", -1e-9: "0", math.NaN(): "0", math.Inf(1): "0", 1e9: "1000000000", -0.5: "-0.5"} {
		b, err := json.Marshal(report.USD(in))
		if err != nil || string(b) != want {
			t.Errorf("%v is written as %s (%v), want %s", in, b, err, want)
		}
	}
	r := report.Provision(&model.World{}, &model.Plan{LowerBoundUSDPerHour: 0.12345699}, "", report.Timings{}, nil)
	if b, _ := json.Marshal(r.Totals.LowerBoundUSDPerHour); string(b) != "0.123456" {
		t.Errorf("the bound is written as %s, want it rounded down", b)
	}
}

func TestAtMostSixtyAlternatives(t *testing.T) {
	t.Parallel()
	n := &model.NewNode{Pool: &model.Pool{}, Offering: offering("t", 1, "a", model.Spot, 1, "")}
	for i := range 100 {
		n.Alternatives = append(n.Alternatives, offering("t", 1, "a", model.Spot, 1+float64(i)/100, ""))
	}
	r := report.Provision(&model.World{}, &model.Plan{Launch: []*model.NewNode{n}}, "", report.Timings{}, nil)
	if got := r.NewNodes[0]; len(got.Alternatives) != 60 || math.Abs(float64(got.USDPerHourWorst)-1.59) > 1e-9 {
		t.Errorf("%d alternatives, worst %v, want 60 and the price of the last of them", len(got.Alternatives), got.USDPerHourWorst)
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken pipe")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriterErrors(t *testing.T) {
	t.Parallel()
	for _, format := range []string{report.JSON, report.YAML, report.Table} {
		for _, r := range []report.Tabler{provision(), disruption(), interruption()} {
			if err := report.Write(brokenWriter{}, format, r); err == nil {
				t.Errorf("%T as %s: no error from a writer that fails", r, format)
			}
		}
	}
	if err := report.Write(&bytes.Buffer{}, "xml", provision()); err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("format xml: %v", err)
	}
}
