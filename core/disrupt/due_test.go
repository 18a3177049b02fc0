package disrupt_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// verdict is all that a plan says, its time aside.
func verdict(p *model.Plan) []string {
	var out []string
	for _, c := range p.Commands {
		s := fmt.Sprintf("wave %d %s %g>%g/%g score %g %d pods: %s;", c.Wave, c.Reason, c.Before, c.After, c.Worst, c.Score, c.PodsEvicted, c.Why)
		for _, n := range c.Remove {
			s += " -" + n.ID()
		}
		for _, n := range c.Launch {
			s += " +" + n.Offering.Key()
		}
		for _, m := range c.Moves {
			s += fmt.Sprintf(" %s>%s", m.Pod.ID(), m.To)
		}
		out = append(out, s)
	}
	for _, b := range p.Blocked {
		until := ""
		if b.Until != nil {
			until = b.Until.UTC().Format(time.RFC3339Nano)
		}
		out = append(out, fmt.Sprintf("%s stays: %s %s %s", b.Node, b.Reason, b.Message, until))
	}
	for _, n := range p.Launch {
		out = append(out, "launch "+n.Name+" "+n.Offering.Key())
	}
	return append(append(out, fmt.Sprint(p.Eligible)), p.Warnings...)
}

// drawClocked is a world in which much depends on the time.
func drawClocked(rt *rapid.T) (*model.World, disrupt.Options) {
	seconds := func(label string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(rt, label)) * time.Second
	}
	w := world()
	p := w.Pools[0]
	p.ConsolidateAfter = rapid.SampledFrom([]time.Duration{0, 0, 30 * time.Second, 5 * time.Minute, time.Hour, model.Never}).Draw(rt, "after")
	p.Annotations = map[string]string{}
	if rapid.Bool().Draw(rt, "soak") {
		p.Annotations[model.AnnotationSoak] = "10m"
	}
	if rapid.Bool().Draw(rt, "budgeted") {
		p.Annotations[model.AnnotationExpire] = model.ExpireBudgeted
	}
	for range rapid.IntRange(0, 3).Draw(rt, "budgets") {
		b := model.Budget{Nodes: rapid.SampledFrom([]string{"0", "1", "50%", "100%"}).Draw(rt, "nodes")}
		if rapid.IntRange(0, 3).Draw(rt, "scheduled") > 0 {
			b.Schedule = rapid.SampledFrom([]string{"*/7 * * * *", "5 12 * * *", "0 12 * * wed", "@hourly", "nonsense"}).Draw(rt, "cron")
			b.Duration = seconds("duration", 1, 900)
		}
		p.Budgets = append(p.Budgets, b)
	}
	w.Settings.MinNodeAge = rapid.SampledFrom([]time.Duration{0, 0, 48 * time.Hour, 72 * time.Hour}).Draw(rt, "age")
	opts := disrupt.Options{Expire: true, Waves: rapid.Bool().Draw(rt, "waves"), Nominated: map[string]time.Time{}}
	for i := range rapid.IntRange(1, 5).Draw(rt, "nodes") {
		var pods []func(*model.Node)
		for j := range rapid.IntRange(0, 2).Draw(rt, "pods") {
			pods = append(pods, pod(fmt.Sprintf("p%d-%d", i, j), 500, func(x *model.Pod) {
				if rapid.IntRange(0, 2).Draw(rt, "protected") == 0 {
					at := noon.Add(-seconds("started", 0, 600))
					x.Started, x.Annotations[model.AnnotationDoNotDisrupt] = &at, rapid.SampledFrom([]string{"3m", "10m", "true"}).Draw(rt, "protection")
				}
			}))
		}
		name := fmt.Sprintf("n%d", i)
		node(name, rapid.SampledFrom([]string{"m5.large", "m5.xlarge", "m5.2xlarge"}).Draw(rt, "type"), pods...)(w)
		n := w.Nodes[i]
		n.Claim.Created = born.Add(seconds("created", -900, 900))
		if rapid.Bool().Draw(rt, "expires") {
			n.Claim.ExpireAfter = 48 * time.Hour
		}
		if rapid.Bool().Draw(rt, "moved") {
			at := noon.Add(-seconds("last", 0, 900))
			n.Claim.LastPodEvent = &at
		}
		if rapid.IntRange(0, 2).Draw(rt, "drifted") == 0 {
			n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: model.CondDrifted, Status: "True", Since: noon.Add(-seconds("since", 0, 900))})
		}
		if rapid.IntRange(0, 4).Draw(rt, "nominated") == 0 {
			opts.Nominated[n.ID()] = noon.Add(seconds("until", 1, 20))
		}
	}
	return w, opts
}

func TestNothingChangesBeforeItIsDue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w, opts := drawClocked(rt)
		due := disrupt.Due(w, opts)
		if !due.IsZero() && !due.After(w.Now) {
			rt.Fatalf("due %s is not after %s", due, w.Now)
		}
		end := due
		if end.IsZero() {
			end = w.Now.Add(30 * 24 * time.Hour)
		}
		was := verdict(disrupt.Plan(w, nil, nil, opts))
		for _, part := range []float64{rapid.Float64Range(0, 1).Draw(rt, "part"), 1} {
			later := *w
			later.Now = w.Now.Add(time.Duration(part * float64(end.Sub(w.Now)-1)))
			if d := cmp.Diff(was, verdict(disrupt.Plan(&later, nil, nil, opts))); d != "" {
				rt.Fatalf("due at %s, and at %s the plan is another (-was +is):\n%s", due, later.Now.Format(time.RFC3339Nano), d)
			}
		}
	})
}

func TestDueIsWhenThePlanChanges(t *testing.T) {
	t.Parallel()
	hold := func(p *model.Pool) { p.ConsolidateAfter = model.Never }
	for _, c := range []struct {
		name string
		do   func(*model.World)
		opts disrupt.Options
		in   time.Duration // 0 = never
	}{
		{"nothing depends on the time", func(w *model.World) { node("n", "m5.large")(w) }, disrupt.Options{}, 0},
		{"quiet for long enough", func(w *model.World) {
			pool(func(p *model.Pool) { p.ConsolidateAfter = time.Hour })(w)
			at := noon.Add(-45 * time.Minute)
			node("n", "m5.large", func(n *model.Node) { n.Claim.LastPodEvent = &at })(w)
		}, disrupt.Options{}, 15 * time.Minute},
		{"old enough", func(w *model.World) { w.Settings.MinNodeAge = 49 * time.Hour; node("n", "m5.large")(w) }, disrupt.Options{}, time.Hour},
		{"a nomination ends", func(w *model.World) { node("n", "m5.large")(w) }, disrupt.Options{Nominated: map[string]time.Time{"n": noon.Add(20 * time.Second)}}, 20 * time.Second},
		{"a protection ends", func(w *model.World) {
			node("n", "m5.large", pod("p", 100, annotated(model.AnnotationDoNotDisrupt, "30m"), func(p *model.Pod) { at := noon.Add(-10 * time.Minute); p.Started = &at }))(w)
			node("m", "m5.large", pod("q", 100))(w)
		}, disrupt.Options{}, 20 * time.Minute},
		{"it expires", func(w *model.World) {
			pool(hold)(w)
			node("n", "m5.large", func(n *model.Node) { n.Claim.ExpireAfter = 50 * time.Hour })(w)
		}, disrupt.Options{Expire: true}, 2 * time.Hour},
		{"a change has soaked", func(w *model.World) {
			pool(hold)(w)
			pool(func(p *model.Pool) { p.Annotations = map[string]string{model.AnnotationSoak: "72h"} })(w)
			node("n", "m5.large", func(n *model.Node) {
				n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: model.CondDrifted, Status: "True", Since: noon.Add(-71 * time.Hour)})
			})(w)
		}, disrupt.Options{}, time.Hour},
		{"a window opens", func(w *model.World) {
			pool(func(p *model.Pool) {
				p.Budgets = []model.Budget{{Nodes: "0", Schedule: "10 12 * * *", Duration: time.Hour}}
			})(w)
			node("n", "m5.large")(w)
		}, disrupt.Options{}, 10 * time.Minute},
		{"a window closes", func(w *model.World) {
			pool(func(p *model.Pool) {
				p.Budgets = []model.Budget{{Nodes: "0", Schedule: "30 11 * * *", Duration: time.Hour}}
			})(w)
			node("n", "m5.large")(w)
		}, disrupt.Options{}, 30 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(c.do)
			due := disrupt.Due(w, c.opts)
			if c.in == 0 {
				if !due.IsZero() {
					t.Fatalf("due at %s, want never", due)
				}
				return
			}
			if want := noon.Add(c.in); !due.Equal(want) {
				t.Fatalf("due at %s, want %s", due, want)
			}
			then := *w
			then.Now = due
			if slices.Equal(verdict(disrupt.Plan(w, nil, nil, c.opts)), verdict(disrupt.Plan(&then, nil, nil, c.opts))) {
				t.Error("the plan is the same then")
			}
		})
	}
	t.Run("surplus nodes of a fixed number", func(t *testing.T) {
		t.Parallel()
		none := int64(0)
		w := world(pool(func(p *model.Pool) { p.Static = &none }), node("n", "m5.large"))
		w.Settings.StaticCapacity = true
		if due := disrupt.Due(w, disrupt.Options{}); !due.Equal(w.Now) {
			t.Errorf("due at %s, want at any instant", due)
		}
	})
}
