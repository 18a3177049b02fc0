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

// BenchmarkDrainThousand drains a thousand nodes side by side, five pods on each: those of
// ten workloads, of which half have a budget of twenty pods at a time. It reports what
// the API server is asked for each evicted pod, and how often the controller looks: a loop that
// runs hot would show in steps, and in spins, which are looks that nothing came of.
//
//	go test -run xxx -bench DrainThousand -benchtime 1x ./core/control
func BenchmarkDrainThousand(b *testing.B) {
	for _, budgeted := range []bool{false, true} {
		b.Run(fmt.Sprintf("budgets=%v", budgeted), func(b *testing.B) {
			for b.Loop() {
				drainThousand(b, budgeted)
			}
		})
	}
}

const drained, podsPerNode = 1000, 5

func drainThousand(b *testing.B, budgeted bool) {
	b.StopTimer()
	s := newScene(b, nil, pool("default", model.OnDemand))
	s.settings = control.Settings{DisruptionOff: true}
	for i := range drained {
		s.API.PutPod(&model.Pod{UID: fmt.Sprintf("filler-%d", i), Namespace: "default", Name: fmt.Sprintf("filler-%d", i), Created: s.Now(), Unschedulable: true,
			Requests: resource.New(7500, gib, 1, 0), Terms: benchPod(0, 0, "").Terms})
	}
	if !s.Until(10*time.Minute, func() bool { return readyNodes(s) == drained }) {
		b.Fatalf("%d nodes, expected %d", len(s.API.Nodes), drained)
	}
	s.Run(5 * time.Second)
	n := 0
	for name := range s.API.Nodes {
		for range podsPerNode {
			p := benchPod(n%10, n, name)
			p.Labels, p.Namespace, p.GracePeriod, p.Created = map[string]string{"app": fmt.Sprint(n % 10)}, "default", 5*time.Second, s.Now()
			s.API.PutPod(p)
			n++
		}
	}
	for i := range drained {
		s.API.RemovePod(fmt.Sprintf("default/filler-%d", i))
	}
	if budgeted {
		for i := range 5 {
			s.API.PutPDB(&model.PDB{Namespace: "default", Name: fmt.Sprint(i), DisruptionsAllowed: 20,
				Selects: func(l map[string]string) bool { return l["app"] == fmt.Sprint(i) }})
		}
	}
	s.Run(2 * time.Second)

	asked, steps, refused := map[string]int{}, 0, 0
	s.Saw = func(_ time.Time, r execute.Result) {
		asked[r.Effect.Kind()]++
		if errors.Is(r.Err, execute.ErrBlocked) {
			refused++
		}
	}
	s.current.spins = nil
	s.current.sift = func(e []execute.Effect) []execute.Effect { steps++; return e }
	begin, old := s.Now(), map[string]bool{}
	for name, c := range s.API.Claims {
		old[name] = true
		if err := s.API.DeleteClaim(b.Context(), c.Name, c.UID); err != nil {
			b.Fatal(err)
		}
	}
	b.StartTimer()
	left := func() int { // those that were bought meanwhile, for the pods that leave, are not counted
		n := 0
		for name := range old {
			if s.API.Claims[name] != nil {
				n++
			}
		}
		return n
	}
	if !s.Until(time.Hour, func() bool { return left() == 0 }) {
		b.Fatalf("%d claims of %d are left", left(), drained)
	}
	b.StopTimer()
	evicted := float64(drained * podsPerNode)
	reads := asked["PatchNode"] + asked["PatchClaim"] // each reads the object first
	b.ReportMetric(float64(asked["Evict"])/evicted, "evictions/pod")
	b.ReportMetric(float64(refused)/evicted, "refused/pod")
	b.ReportMetric(float64(asked["DeletePod"])/evicted, "deletes/pod")
	b.ReportMetric(float64(reads)/evicted, "gets/pod")
	b.ReportMetric(float64(reads)/evicted, "patches/pod")
	b.ReportMetric(float64(asked["Emit"])/evicted, "events/pod")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(s.Now().Sub(begin).Seconds(), "virtual-s")
	b.ReportMetric(float64(steps), "steps")
	b.ReportMetric(float64(len(s.current.spins)), "spins")
	b.Logf("effects: %v", asked)
	b.StartTimer()
}

func readyNodes(s *scene) int {
	n := 0
	for _, x := range s.API.Nodes {
		if x.Ready {
			n++
		}
	}
	return n
}
