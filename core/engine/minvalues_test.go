package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// TestCutListKeepsMinValues (B034): of more types than a launch can name the cheapest
// stay, but for those that the flexibility needs.
func TestCutListKeepsMinValues(t *testing.T) {
	t.Parallel()
	var rows []string
	for i := range 70 {
		family, usd := "f1", 0.01*float64(i+1)
		if i >= 65 {
			family, usd = "f2", 0.90+0.01*float64(i-65)
		}
		rows = append(rows, fmt.Sprintf(`{"name": "%s.%02d", "vcpu": 2, "memoryMiB": 8192, "onDemandUSD": %.2f, "labels": {"instance-family": "%s"}, "allocatable": {"pods": "20"}}`, family, i, usd, family))
	}
	table, err := catalogue.Load(strings.NewReader("["+strings.Join(rows, ",")+"]"), "B034")
	if err != nil {
		t.Fatal(err)
	}
	family := "karpenter.k8s.aws/instance-family"
	flexible := own(family, require.Exists)
	flexible.MinValues = 2
	w := world(mt.Pods(1, "a", 1000, 0), mt.Pool("p", mt.CapacityType(model.OnDemand), flexible))
	w.Offerings[mt.Class] = table.Offerings(w.NodeClasses[mt.Class], []string{"us-east-1a"}, catalogue.Options{})
	r := place(t, w, nil)
	if len(r.New) != 1 {
		t.Fatalf("%d nodes, %+v", len(r.New), r.Unplaced)
	}
	var names []string
	for _, o := range append([]*model.Offering{r.New[0].Offering}, r.New[0].Alternatives...) {
		names = append(names, o.Type.Name)
	}
	if len(names) > 60 || !slices.Contains(names, "f1.00") || !slices.Contains(names, "f2.65") {
		t.Errorf("%d types are named: %v; want at most 60 with the cheapest of each family", len(names), names)
	}
	w.Offerings[mt.Class] = slices.DeleteFunc(w.Offerings[mt.Class], func(o *model.Offering) bool { return o.Type.Labels[family] == "f2" })
	if r := place(t, w, nil); len(r.New) != 0 || !strings.Contains(r.Unplaced[0].Reasons[0].Message, "minValues 2") {
		t.Errorf("one family is less than two: %d nodes, %+v", len(r.New), r.Unplaced)
	}
}
