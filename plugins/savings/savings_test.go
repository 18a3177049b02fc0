package savings

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/plugins/sdk"
)

func judge(t interface{ Fatal(...any) }, config string, moves ...sdk.Move) []sdk.Verdict {
	s := New()
	if err := s.Configure(json.RawMessage(config)); err != nil {
		t.Fatal(err)
	}
	ans, err := s.Score(context.Background(), &sdk.ScoreRequest{Moves: moves})
	if err != nil {
		t.Fatal(err)
	}
	return ans.Verdicts
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		move   sdk.Move
		accept bool
		score  float64
		reason string
	}{
		"an empty node": {``, sdk.Move{Reason: "Empty", USDPerHourBefore: 0.1}, true, 200, "saves 0.1000 USD/h for 0 pods"},
		"few pods, much money": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.5, USDPerHourAfter: 0.1, USDPerHourWorst: 0.12, PodsEvicted: 9}, true,
			0.38 / (9.1 * 0.005), "score 8.35"},
		"many pods for cents":           {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, USDPerHourAfter: 0.08, PodsEvicted: 40}, false, 0.02 / (40.1 * 0.005), "floor of 1"},
		"many pods for cents, no floor": {`{"floor": 0}`, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, USDPerHourAfter: 0.08, PodsEvicted: 40}, true, 0.02 / (40.1 * 0.005), "score"},
		"dearer at worst":               {`{"floor": 0}`, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, USDPerHourAfter: 0.05, USDPerHourWorst: 0.1, PodsEvicted: 1}, false, 0, "saves nothing"},
		"pods that are dear to delete":  {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 1, PodDeletionCost: 1 << 31}, true, 0.1 / (17.1 * 0.005), "score"},
		"pods that are cheap to delete": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 1, PodDeletionCost: -1 << 31}, true, 0.1 / (1.1 * 0.005), "score"},
		"paid for anyhow":               {`{"floor": 0}`, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, Committed: 0.1, PodsEvicted: 1}, false, 0, "0.1000 is paid for anyhow"},
		"empty and paid for anyhow":     {``, sdk.Move{Reason: "Empty", USDPerHourBefore: 0.1, Committed: 0.1}, true, 200, "saves 0.1000"},
		"a part is paid for anyhow":     {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, Committed: 0.06, PodsEvicted: 1}, true, 0.04 / (1.1 * 0.005), "saves 0.0400"},
		"high priority": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 2,
			Remove: []sdk.RemovedNode{{PodFacts: sdk.PodFacts{Priorities: 1 << 26}}, {PodFacts: sdk.PodFacts{Priorities: 1 << 25}}}}, true, 0.1 / (5.1 * 0.005), "score"},
		"low priority": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 2,
			Remove: []sdk.RemovedNode{{PodFacts: sdk.PodFacts{Priorities: -1 << 26}}}}, true, 0.1 / (2.1 * 0.005), "score"},
		"pods that have hardly begun": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 4,
			Remove: []sdk.RemovedNode{{PodFacts: sdk.PodFacts{Young: 3}}}}, true, 0.1 / (7.1 * 0.005), "score"},
		"that does not count": {`{"youngPod": 0}`, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 4,
			Remove: []sdk.RemovedNode{{PodFacts: sdk.PodFacts{Young: 3}}}}, true, 0.1 / (4.1 * 0.005), "score"},
		"pods that start with difficulty": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 4,
			Remove: []sdk.RemovedNode{{PodFacts: sdk.PodFacts{Restarts: 10}}}}, true, 0.1 / (5.1 * 0.005), "score"},
		"a pod that never starts": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 4,
			Remove: []sdk.RemovedNode{{PodFacts: sdk.PodFacts{Restarts: 1000}}}}, true, 0.1 / (8.1 * 0.005), "score"},
		"a node that expires in six minutes": {``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.1, PodsEvicted: 4,
			Remove: []sdk.RemovedNode{{Expires: 48 * time.Hour}, {Expires: 6 * time.Minute}}}, false, 0.01 / (4.1 * 0.005), "under the floor"},
		"savings that are held to last": {`{"horizonHours": 24}`, sdk.Move{Reason: "Underutilized", USDPerHourBefore: 0.01, PodsEvicted: 4,
			Remove: []sdk.RemovedNode{{Expires: 12 * time.Hour}}}, true, 0.12 / (4.1 * 0.005), "score"},
		"drifted and dearer": {``, sdk.Move{Reason: "Drifted", USDPerHourBefore: 0.1, USDPerHourAfter: 0.2, PodsEvicted: 9}, true, -0.1 / (9.1 * 0.005), "saves -0.1000"},
	} {
		v := judge(t, c.config, c.move)[0]
		if v.Accept != c.accept || math.Abs(v.Score-c.score) > 1e-9 || !strings.Contains(v.Reason, c.reason) {
			t.Errorf("%s: %+v, want accept %t, score %v, reason with %q", name, v, c.accept, c.score, c.reason)
		}
	}
}

// TestOrder: of two moves that save the same the one with fewer pods comes first, and
// of two with the same pods the one that saves more.
func TestOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		saved := rapid.Float64Range(0.001, 10).Draw(t, "saved")
		more := rapid.Float64Range(0.001, 10).Draw(t, "more")
		pods := rapid.IntRange(0, 200).Draw(t, "pods")
		extra := rapid.IntRange(1, 50).Draw(t, "extra")
		v := judge(t, ``, sdk.Move{Reason: "Underutilized", USDPerHourBefore: saved, PodsEvicted: pods},
			sdk.Move{Reason: "Underutilized", USDPerHourBefore: saved, PodsEvicted: pods + extra},
			sdk.Move{Reason: "Underutilized", USDPerHourBefore: saved + more, PodsEvicted: pods})
		if v[0].Score <= v[1].Score || v[2].Score <= v[0].Score {
			t.Fatalf("scores %v", v)
		}
	})
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{`{"floor": -1}`: "floor: want 0 or more", `{"usdPerPod": 0}`: "usdPerPod: want", `{"flor": 1}`: "flor: unknown field",
		`{"horizonHours": 0}`: "horizonHours: want", `{"youngPod": -1}`: "youngPod: want", `{"restart": -1}`: "restart: want"} {
		if err := New().Configure(json.RawMessage(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
}
