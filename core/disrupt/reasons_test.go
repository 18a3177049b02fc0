package disrupt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// What is wrong with a pool, a budget or a claim is said in words that a person can act on.
func TestReasonsSayWhatToDo(t *testing.T) {
	t.Parallel()
	unknown := func(cond, reason, message string) func(*model.World) {
		return on(0, func(n *model.Node) {
			n.Claim.Conditions = []model.Condition{{Type: cond, Status: "Unknown", Reason: reason, Message: message}}
		})
	}
	spot := func(w *model.World) {
		w.Nodes[0].Labels[model.LabelCapacityType] = model.Spot
		w.Nodes[0].Pods[0].Requests = resource.New(1500, 0, 1, 0)
		selector(model.LabelCapacityType, model.Spot)(w.Nodes[0].Pods[0])
		w.Offerings["c"] = append(w.Offerings["c"], &model.Offering{Type: w.Offerings["c"][0].Type, Zone: "a", CapacityType: model.Spot, USDPerHour: 0.03, Available: true})
	}
	for name, tc := range map[string]struct {
		change  func(*model.World)
		reason  string
		message string
		until   bool
	}{
		"zero for ever": {change: pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "0"}} }), reason: disrupt.BlockedBudget, message: "at any time, until the NodePool is changed"},
		"a window": {change: pool(func(p *model.Pool) {
			p.Budgets = []model.Budget{{Nodes: "0", Schedule: "0 11 * * *", Duration: 8 * time.Hour}}
		}), reason: disrupt.BlockedBudget, message: `schedule "0 11 * * *", 8h0m0s`, until: true},
		"overlapping budgets: the least one is named": {change: pool(func(p *model.Pool) {
			p.Budgets = []model.Budget{{Nodes: "50%"}, {Nodes: "0", Schedule: "@daily", Duration: 13 * time.Hour}, {Nodes: "1"}}
		}), reason: disrupt.BlockedBudget, message: `schedule "@daily"`, until: true},
		"windows that never close": {change: pool(func(p *model.Pool) {
			p.Budgets = []model.Budget{{Nodes: "0", Schedule: "@hourly", Duration: 2 * time.Hour}}
		}), reason: disrupt.BlockedBudget, message: "its windows overlap without end"},
		"cron of nonsense": {change: pool(func(p *model.Pool) {
			p.Budgets = []model.Budget{{Nodes: "1", Schedule: "0 25 * * *", Duration: time.Hour}}
		}), reason: disrupt.BlockedBudget, message: `spec.disruption.budgets[0].schedule: cron line "0 25 * * *"`},
		"a pdb that never allows one": {change: func(w *model.World) { pdb("never", 0, "p1", false)(w); w.PDBs[0].FullyBlocking = true },
			reason: disrupt.BlockedPDB, message: "x/never can never allow one (maxUnavailable 0 or minAvailable 100%)"},
		"its pool is being deleted": {change: pool(func(p *model.Pool) { p.Deleting = true }), reason: disrupt.BlockedPool, message: "NodePool default is being deleted, and its nodes go with it"},
		"has not joined": {change: func(w *model.World) {
			w.Nodes[0].Name, w.Nodes[0].Claim.Name = "", "n1"
			unknown(model.CondRegistered, "NodeNotFound", "Node not registered with cluster")(w)
		}, reason: disrupt.BlockedNotJoined, message: "Node not registered with cluster"},
		"is not initialized": {change: func(w *model.World) {
			delete(w.Nodes[0].Labels, model.LabelInitialized)
			unknown(model.CondInitialized, "StartupTaintsExist", `StartupTaint "cni:NoSchedule" still exists`)(w)
		}, reason: disrupt.BlockedUninitialized, message: `StartupTaint "cni:NoSchedule" still exists`},
		"is on its way out": {change: func(w *model.World) {
			w.Nodes[0].Claim.Deleting = &noon
			unknown(model.CondDrained, "Draining", "waiting for pod x/p1: its budget allows none")(w)
		}, reason: disrupt.BlockedDeleting, message: "waiting for pod x/p1"},
		"spot for spot": {change: spot, reason: disrupt.BlockedSpotToSpot, message: "featureGates.spotToSpotConsolidation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pair()
			tc.change(w)
			b := blocked(t, disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true}), "n1")
			if b.Reason != tc.reason || !strings.Contains(b.Message, tc.message) || (b.Until != nil) != tc.until {
				t.Errorf("got %s %q until %v, want %s with %q", b.Reason, b.Message, b.Until, tc.reason, tc.message)
			}
		})
	}
}

// Every reason for which a node may stay is met in a test of this package.
func TestEveryReasonHasATest(t *testing.T) {
	t.Parallel()
	read := func(pattern string) (files []string) {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	tests := ""
	for _, name := range read("*_test.go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(text)
	}
	reasons := 0
	for _, name := range read("*.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == 1 && strings.HasPrefix(v.Names[0].Name, "Blocked") {
				reasons++
				if !strings.Contains(tests, "disrupt."+v.Names[0].Name) {
					t.Errorf("no test meets %s", v.Names[0].Name)
				}
			}
			return true
		})
	}
	if reasons < 20 {
		t.Errorf("only %d reasons were found", reasons)
	}
}

// A plan whose time was up before it looked at a node says so of the node.
func TestNodesThatWereNotLookedAt(t *testing.T) {
	t.Parallel()
	w := pair()
	w.Budget = &model.TimeBudget{Limit: time.Second, Place: func() bool { return false }}
	if b := blocked(t, disrupt.Plan(w, nil, nil, disrupt.Options{}), "n1"); b.Reason != disrupt.BlockedTime || !strings.Contains(b.Message, "next pass") {
		t.Errorf("%s %q", b.Reason, b.Message)
	}
}
