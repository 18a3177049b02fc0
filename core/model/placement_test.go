package model_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
)

func TestPlacementGroupsAreReadBack(t *testing.T) {
	t.Parallel()
	for _, g := range []model.PlacementGroup{{ID: "pg-1", Strategy: "cluster"}, {ID: "pg-0a", Strategy: "spread"}, {ID: "pg-1", Strategy: "partition", Partitions: 7}} {
		got, err := model.ParsePlacementGroup(g.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(g, *got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", g, diff)
		}
	}
	for text, expected := range map[string]string{
		"": "an id", "pg-1": "an id", "group spread": "an id", "pg-1 spread 3 4": "an id", "pg-1 partition": "number of partitions", "pg-1 spread 3": "number of partitions",
		"pg-1 partition 0": "1 to 7", "pg-1 partition 8": "1 to 7", "pg-1 partition many": "1 to 7",
	} {
		if g, err := model.ParsePlacementGroup(text); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%q: %+v, %v; want an error that tells of %s", text, g, err, expected)
		}
	}
}
