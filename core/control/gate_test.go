package control_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// drainsUnderBudget empties so many nodes with five pods each, all under one budget of two
// pods at a time. It answers how many evictions were asked for and refused, and checks
// that the budget held and that every pod has left.
func drainsUnderBudget(t *testing.T, nodes int, statusLost bool) (asked, refused int) {
	t.Helper()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.settings = control.Settings{DisruptionOff: true}
	for i := range nodes {
		s.API.PutPod(&model.Pod{UID: fmt.Sprintf("filler-%d", i), Namespace: "default", Name: fmt.Sprintf("filler-%d", i), Created: s.Now(), Unschedulable: true,
			Requests: resource.New(7500, gib, 1, 0), Terms: benchPod(0, 0, "").Terms})
	}
	if !s.Until(10*time.Minute, func() bool { return readyNodes(s) == nodes }) {
		t.Fatalf("%d nodes, expected %d", len(s.API.Nodes), nodes)
	}
	s.Run(5 * time.Second)
	n := 0
	for name := range s.API.Nodes {
		for range podsPerNode {
			p := benchPod(0, n, name)
			p.Labels, p.Namespace, p.GracePeriod, p.Created = map[string]string{"app": "web"}, "default", 2*time.Second, s.Now()
			s.API.PutPod(p)
			n++
		}
	}
	for i := range nodes {
		s.API.RemovePod(fmt.Sprintf("default/filler-%d", i))
	}
	const most = 2
	s.API.StatusLost = statusLost
	s.API.PutPDB(&model.PDB{Namespace: "default", Name: "web", DisruptionsAllowed: most, Selects: func(l map[string]string) bool { return l["app"] == "web" }})
	s.Run(2 * time.Second)
	s.Saw = func(_ time.Time, r execute.Result) {
		if r.Effect.Kind() != "Evict" {
			return
		}
		asked++
		if errors.Is(r.Err, execute.ErrBlocked) {
			refused++
		}
	}
	old := map[string]bool{}
	for name, c := range s.API.Claims {
		old[name] = true
		if err := s.API.DeleteClaim(t.Context(), c.Name, c.UID); err != nil {
			t.Fatal(err)
		}
	}
	highest := 0
	done := s.Until(30*time.Minute, func() bool {
		out := 0
		for _, p := range s.API.Pods {
			if p.Labels["app"] == "web" && p.Deleting != nil {
				out++
			}
		}
		highest = max(highest, out)
		for name := range old {
			if s.API.Claims[name] != nil {
				return false
			}
		}
		return true
	})
	if !done {
		t.Errorf("after half an hour %d pods are left", len(s.API.Pods))
	}
	if highest > most {
		t.Errorf("%d pods were out at once, the budget allows %d", highest, most)
	}
	return asked, refused
}

// TestRefusedEvictionsAreFew: many drains under one budget ask about as often as pods leave.
func TestRefusedEvictionsAreFew(t *testing.T) {
	t.Parallel()
	const nodes = 20
	asked, refused := drainsUnderBudget(t, nodes, false)
	if pods := nodes * podsPerNode; asked < pods || refused > pods/2 {
		t.Errorf("%d evictions of %d pods were asked for, %d refused", asked, pods, refused)
	}
}

// TestBudgetsWithoutStatusDoNotStopDrains: where what is seen of a budget says that it allows
// nothing, the API server is asked all the same, by one pod at a time.
func TestBudgetsWithoutStatusDoNotStopDrains(t *testing.T) {
	t.Parallel()
	const nodes = 6
	asked, refused := drainsUnderBudget(t, nodes, true)
	if pods := nodes * podsPerNode; asked < pods || refused > 8*pods {
		t.Errorf("%d evictions of %d pods were asked for, %d refused", asked, pods, refused)
	}
}
