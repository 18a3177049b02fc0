package aws_test

import (
	"strings"
	"testing"
)

// A zone that the cluster is shifted away from sells nothing, by its name or its id, until the shift ends.
func TestZonalShiftClosesAZone(t *testing.T) {
	t.Parallel()
	s := newScene(t, []string{"m5.large"}, map[string]int{"s1": 300, "s2": 300}, "s1/z-a", "s2/z-b")
	const a, b = "m5.large/z-a/on-demand", "m5.large/z-b/on-demand"
	for _, c := range []struct {
		away   []string
		a, b   bool
		reason string
	}{
		{[]string{"z-a"}, false, true, "zonal shift: the cluster is shifted away from zone z-a"},
		{[]string{"z-a", "z-b"}, false, false, "zonal shift"},
		{[]string{"other-az1"}, true, true, ""},
		{nil, true, true, ""},
	} {
		s.SetShifted(c.away)
		o := s.offers(t)
		if o[a].Available != c.a || o[b].Available != c.b || !strings.Contains(o[a].Unavailable, c.reason) {
			t.Errorf("away from %v: %t (%s), %t", c.away, o[a].Available, o[a].Unavailable, o[b].Available)
		}
	}
}
