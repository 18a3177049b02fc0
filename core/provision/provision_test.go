package provision_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/provision"
)

// B019: a taint that nobody declared as a startup taint makes us buy another node, and
// the plan says which taint of which node that was.
func TestUndeclaredStartupTaintIsNamed(t *testing.T) {
	t.Parallel()
	agent := model.Taint{Key: "node.cilium.io/agent-not-ready", Effect: model.NoSchedule}
	for name, c := range map[string]struct {
		declared bool
		bought   int
	}{"declared": {true, 0}, "not declared": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
			pool := mt.Pool("cil", mt.Types("m5.large"))
			if c.declared {
				pool.StartupTaints = []model.Taint{agent}
			}
			n := mt.Node("n1", 1900, 7000, nil, mt.Managed("cil"))
			delete(n.Labels, model.LabelInitialized)
			n.Claim.Conditions = []model.Condition{{Type: model.CondRegistered, Status: "True"}}
			n.Taints = []model.Taint{agent, {Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule}}
			w := &model.World{Now: mt.Now, Pods: mt.Pods(1, "a", 500, 0), Pools: []*model.Pool{pool}, Nodes: []*model.Node{n},
				NodeClasses: map[string]*model.NodeClass{mt.Class: class},
				Offerings:   map[string][]*model.Offering{mt.Class: catalogue.Embedded().Offerings(class, nil, catalogue.Options{})}}
			p := provision.Plan(w, nil)
			if len(p.Launch) != c.bought {
				t.Errorf("%d nodes bought, want %d", len(p.Launch), c.bought)
			}
			all := strings.Join(p.Warnings, "\n")
			if named := strings.Contains(all, "n1") && strings.Contains(all, agent.String()); named == c.declared {
				t.Errorf("warnings: %s", all)
			}
		})
	}
}
