package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/model"
)

// ticking is a clock on which every look takes a second.
func ticking() func() time.Time {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// hurried performs plans with a planner whose time passes as it works.
type hurried struct {
	t       *testing.T
	s       *scene
	planner control.Planners
	stopped []*model.Plan // for pods, whose budget ended before all were looked at
}

func (h *hurried) sift(effects []execute.Effect) []execute.Effect {
	return slices.DeleteFunc(effects, func(e execute.Effect) bool {
		d, ok := e.Do.(execute.Plan)
		if !ok {
			return false
		}
		r := execute.Perform(h.t.Context(), execute.Ports{Strategy: executetest.Strategy{}, Planner: h.planner}, e)
		if r.Err != nil {
			h.t.Error(r.Err)
		} else if p := r.Value.(execute.Planned).Plan; p.Budget != nil && p.Budget.Unseen > 0 && d.For == model.PlanProvision {
			h.stopped = append(h.stopped, p)
		}
		h.s.current.in = append(h.s.current.in, r)
		return true
	})
}

// Plans that run into their budget say so, what they have is carried out at once, and
// the pods that they did not look at are planned for right after that: in the end
// everything runs, though no plan had the time for all of it.
func TestPlansThatRunIntoTheirBudget(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("spot", model.Spot))
	v := watch(t, s)
	first := web(1)
	s.Workloads = append(s.Workloads, first)
	mustRun(t, s, 1, 3*time.Minute)

	h := &hurried{t: t, s: s, planner: control.Planners{Now: ticking()}}
	s.current.sift = h.sift
	s.current.in = append(s.current.in, control.ConfigChanged{Settings: control.Settings{Planning: model.Settings{PlanningBudget: 40 * time.Second}}})
	const workloads = 12
	for i := range workloads {
		w := web(3)
		w.Name = fmt.Sprintf("many-%d", i)
		w.Requests.Base[0] += int64(50 * i)
		s.Workloads = append(s.Workloads, w)
	}
	for _, w := range s.Workloads[1:] {
		if !s.Until(10*time.Minute, func() bool { return s.Running(w.Name) == 3 }) {
			t.Errorf("%d of 3 pods of %s run", s.Running(w.Name), w.Name)
		}
	}
	if len(h.stopped) == 0 {
		t.Fatal("no plan ran into its budget")
	}
	some := false
	for _, p := range h.stopped {
		some = some || len(p.Launch)+len(p.Placements) > 0
		if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "planning was stopped by its time budget of 40s") }) {
			t.Errorf("a plan that was stopped says only %q", p.Warnings)
		}
	}
	if !some {
		t.Error("no plan that was stopped placed anything")
	}
	v.check()
}
