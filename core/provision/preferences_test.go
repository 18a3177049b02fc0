package provision_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/provision"
)

// The plan names for each workload what it gave up, and for how many pods.
func TestPlanSaysWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	nowhere := func(p *model.Pod) {
		p.Preferred = []model.Preference{{Weight: 3, Set: require.NewSet(mt.Zones("nowhere"))}}
	}
	alone := func(p *model.Pod) { p.Owner = model.Owner{} }
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	one := int64(1)
	pool := mt.Pool("p", mt.Types("m5.xlarge"))
	pool.Limits.Nodes = &one
	apart := func(p *model.Pod) {
		p.Soft = &model.Soft{AntiAffinity: []model.WeightedTerm{{Weight: 100, PodTerm: model.PodTerm{Key: model.LabelHostname,
			Selector: model.Selector{ID: "all", Matches: func(*model.Pod) bool { return true }}}}}}
	}
	w := &model.World{Now: mt.Now, Pools: []*model.Pool{pool}, NodeClasses: map[string]*model.NodeClass{mt.Class: class},
		Offerings: map[string][]*model.Offering{mt.Class: catalogue.Embedded().Offerings(class, nil, catalogue.Options{})}}
	w.Pods = append(w.Pods, mt.Pods(2, "lone", 100, 0, nowhere, alone)...)
	w.Pods = append(w.Pods, mt.Pods(2, "rs", 100, 0, nowhere, apart)...)
	var got []string
	for _, x := range provision.Plan(w, nil).Warnings {
		if strings.HasPrefix(x, "preferences") {
			got = append(got, x)
		}
	}
	const node = "preferred node affinity topology.kubernetes.io/zone In [nowhere] (weight 3), which nothing could keep"
	want := []string{
		"preferences given up for 2 pods such as default/lone-0: " + node + ": 2 pods",
		"preferences given up for ReplicaSet default/rs: " + node + ": 2 pods; preferred pod anti-affinity over kubernetes.io/hostname (weight 100): 2 pods",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
