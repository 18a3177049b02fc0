package control_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// TestClaimsSayThatMinValuesWereRelaxed: where best effort is enough, claims ask for no
// more flexibility than there is, and say whether that is less than their pool wants.
func TestClaimsSayThatMinValuesWereRelaxed(t *testing.T) {
	t.Parallel()
	for zones, want := range map[int]string{2: "false", 3: "true"} {
		p := pool("default", model.OnDemand)
		r := require.Must(model.LabelZone, require.Exists)
		r.MinValues = zones
		p.Requirements = p.Requirements.With(r)
		s := newScene(t, nil, p)
		if !s.Until(time.Minute, func() bool { return s.current != nil }) {
			t.Fatal("no controller")
		}
		s.current.in = append(s.current.in, control.ConfigChanged{Settings: control.Settings{Planning: model.Settings{MinValuesBestEffort: true}}})
		s.Workloads = append(s.Workloads, web(1))
		if !s.Until(3*time.Minute, func() bool { return s.Running("web") == 1 }) {
			t.Fatalf("minValues %d: the pod does not run; claims %v", zones, s.API.Claims)
		}
		for _, c := range s.API.Claims {
			zone, _ := c.Requirements.Get(model.LabelZone)
			got := []any{c.Annotations[model.AnnotationMinValuesRelaxed], zone.MinValues}
			if d := cmp.Diff([]any{want, 2}, got); d != "" {
				t.Errorf("minValues %d, annotation and minValues of the claim (-want +got):\n%s", zones, d)
			}
		}
	}
}
