package catalogue_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
)

// A type that a group's strategy does not take is not offered, one of which that is not known is; offerings name the group.
func TestPlacementStrategies(t *testing.T) {
	t.Parallel()
	table := placementTable(t)
	for strategy, want := range map[string]map[string]bool{
		"cluster": {"m5.large": true, "t3.large": false, "c5.large": true}, "spread": {"m5.large": true, "t3.large": true, "c5.large": true},
	} {
		class := &model.NodeClass{Name: "default", Family: "AL2023", PlacementGroup: &model.PlacementGroup{ID: "pg-1", Strategy: strategy}}
		got := map[string]bool{}
		for _, o := range table.Offerings(class, []string{"us-east-1a"}, catalogue.Options{}) {
			got[o.Type.Name] = o.Available
			if !o.Available && !strings.Contains(o.Unavailable, "strategy "+strategy) {
				t.Errorf("%s: %s", o.Key(), o.Unavailable)
			}
			if id, _ := o.Label(model.LabelPlacementGroup); id != "pg-1" {
				t.Errorf("%s is labelled with group %q", o.Key(), id)
			}
			if _, ok := o.Label(model.LabelPlacementPartition); ok {
				t.Errorf("%s has a partition", o.Key())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strategy, diff)
		}
	}
}

// In a group of partitions each offering is there for any, first, and for each; a reservation only once, for it is counted.
func TestPartitionsAreOffered(t *testing.T) {
	t.Parallel()
	class := &model.NodeClass{Name: "default", Family: "AL2023", PlacementGroup: &model.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 2},
		Reservations: []model.Reservation{{ID: "cr-1", InstanceType: "m5.large", Zone: "us-east-1a"}}}
	var got []string
	types := map[*model.InstanceType]bool{}
	for _, o := range placementTable(t).Offerings(class, []string{"us-east-1a"}, catalogue.Options{}) {
		p, _ := o.Label(model.LabelPlacementPartition)
		if o.Type.Name == "m5.large" {
			got = append(got, o.CapacityType+":"+p)
			types[o.Type] = true
		}
	}
	want := []string{"on-demand:", "on-demand:1", "on-demand:2", "spot:", "spot:1", "spot:2", "reserved:"}
	if diff := cmp.Diff(want, got); diff != "" || len(types) != 3 {
		t.Errorf("%d types; (-want +got):\n%s", len(types), diff)
	}
}

func placementTable(t *testing.T) *catalogue.Table {
	t.Helper()
	var types []*catalogue.Type
	for name, strategies := range map[string][]string{"m5.large": {"cluster", "partition", "spread"}, "t3.large": {"partition", "spread"}, "c5.large": nil} {
		one := *catalogue.Embedded().Get(name)
		one.Placement = strategies
		types = append(types, &one)
	}
	slices.SortFunc(types, func(a, b *catalogue.Type) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(types) // those of the embedded table are shared
	if err != nil {
		t.Fatal(err)
	}
	table, err := catalogue.Load(bytes.NewReader(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return table
}
