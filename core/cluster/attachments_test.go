package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
)

// TestAttachments follows attachments and who is looked at again because of them.
func TestAttachments(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := New(Options{})
	for i, name := range []string{"ending", "living"} {
		c := &model.Claim{Name: name, ProviderID: "aws:///z/i-" + name}
		if i == 0 {
			c.Deleting = &now
		}
		m.Apply(UpsertClaim{Claim: c}, now)
		m.Apply(UpsertNode{Node: &model.Node{Name: "n-" + name, ProviderID: c.ProviderID}}, now)
	}
	m.TakeTouched()
	for _, s := range []struct {
		name           string
		change         Change
		ending, living []string
		touched        []string
	}{
		{name: "one on the ending node", change: UpsertAttachment{Name: "a", Node: "n-ending", Volume: "v2"}, ending: []string{"v2"}, touched: []string{"ending"}},
		{name: "the same again", change: UpsertAttachment{Name: "a", Node: "n-ending", Volume: "v2"}, ending: []string{"v2"}},
		{name: "one more", change: UpsertAttachment{Name: "b", Node: "n-ending", Volume: "v1"}, ending: []string{"v1", "v2"}, touched: []string{"ending"}},
		{name: "the same volume twice", change: UpsertAttachment{Name: "c", Node: "n-ending", Volume: "v1"}, ending: []string{"v1", "v2"}, touched: []string{"ending"}},
		{name: "a living node is not looked at", change: UpsertAttachment{Name: "d", Node: "n-living", Volume: "v3"}, ending: []string{"v1", "v2"}, living: []string{"v3"}},
		{name: "a node that nobody knows", change: UpsertAttachment{Name: "e", Node: "other", Volume: "v4"}, ending: []string{"v1", "v2"}, living: []string{"v3"}},
		{name: "one goes", change: DeleteAttachment{Name: "b"}, ending: []string{"v1", "v2"}, living: []string{"v3"}, touched: []string{"ending"}},
		{name: "its twin goes", change: DeleteAttachment{Name: "c"}, ending: []string{"v2"}, living: []string{"v3"}, touched: []string{"ending"}},
		{name: "one that was never seen goes", change: DeleteAttachment{Name: "zz"}, ending: []string{"v2"}, living: []string{"v3"}},
		{name: "an object of that name on another node", change: UpsertAttachment{Name: "a", Node: "n-living", Volume: "v2"}, living: []string{"v2", "v3"}, touched: []string{"ending"}},
	} {
		m.Apply(s.change, now)
		if d := cmp.Diff([][]string{s.ending, s.living, s.touched}, [][]string{m.Attached("n-ending"), m.Attached("n-living"), m.TakeTouched()}); d != "" {
			t.Errorf("%s: attached to the ending node, to the living one, touched (-want +got):\n%s", s.name, d)
		}
	}
}
