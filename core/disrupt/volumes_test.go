package disrupt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
)

// TestPlacesForVolumesBoundMoves: a node is emptied only where its pods' volumes can be
// attached as well.
func TestPlacesForVolumesBoundMoves(t *testing.T) {
	t.Parallel()
	mounts := func(n int64) func(*model.Pod) {
		return func(p *model.Pod) { p.Requests = p.Requests.With(attach.Resource(attach.EBS), n) }
	}
	holds := func(n int64) func(*model.Node) {
		return func(x *model.Node) { x.VolumeLimits = map[string]int64{attach.EBS: n} }
	}
	for name, tc := range map[string]struct {
		limit int64 // of n2, which has two volumes
		want  []string
	}{
		"room for one more": {3, []string{"n1"}},
		"full":              {2, []string{}},
		"over its limit":    {1, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(node("n1", "m5.large", holds(25), pod("p", 200, mounts(1))), node("n2", "m5.xlarge", holds(tc.limit), pod("q", 1950, mounts(2))), only("n1"))
			attach.World(w)
			p := plan(w)
			if d := cmp.Diff(tc.want, removed(p)); d != "" {
				t.Errorf("removed (-want +got):\n%s\n%+v", d, p.Blocked)
			}
			if err := runs(w, p); err != nil {
				t.Error(err)
			}
		})
	}
}
