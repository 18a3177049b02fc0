package simulate

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// doubting is a planner with a memory beside one that always searches.
type doubting struct {
	*control.Remembering
	always execute.Planner
	passes int
	wrong  string
}

func (d *doubting) Disrupt(w *model.World, prices *model.Prices, score execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	d.passes++
	got, err := d.Remembering.Disrupt(w, prices, score, o)
	if err != nil {
		return nil, err
	}
	want, err := d.always.Disrupt(w, prices, score, o)
	if err != nil {
		return nil, err
	}
	if diff := cmp.Diff(words(want), words(got)); diff != "" && d.wrong == "" {
		d.wrong = fmt.Sprintf("at %s (-searched +remembered):\n%s", w.Now.Format(time.RFC3339Nano), diff)
	}
	return got, nil
}

// words is all that a plan says.
func words(p *model.Plan) []string {
	out := []string{"made " + p.Made.Format(time.RFC3339Nano), fmt.Sprint(p.Eligible), fmt.Sprint(p.Warnings)}
	launch := func(n *model.NewNode) string {
		return fmt.Sprintf(" +%s %s and %d others", n.Name, n.Offering.Key(), len(n.Alternatives))
	}
	for _, c := range p.Commands {
		s := fmt.Sprintf("%s wave %d %g>%g/%g score %g %d pods: %s;", c.Reason, c.Wave, c.Before, c.After, c.Worst, c.Score, c.PodsEvicted, c.Why)
		for _, n := range c.Remove {
			s += " -" + n.ID()
		}
		for _, n := range c.Launch {
			s += launch(n)
		}
		for _, m := range c.Moves {
			s += fmt.Sprintf(" %s>%s", m.Pod.ID(), m.To)
		}
		out = append(out, s)
	}
	for _, n := range p.Launch {
		out = append(out, launch(n))
	}
	for _, b := range p.Blocked {
		s := b.Node + " stays: " + b.Reason + " " + b.Message
		if b.Until != nil {
			s += " " + b.Until.UTC().Format(time.RFC3339Nano)
		}
		out = append(out, s)
	}
	return out
}

// restless is a story drawn from a seed: load comes and goes, machines are taken away,
// pools have windows, soaks and ages that come due in the middle of it.
func restless(seed uint64, base Options) (*Scenario, Options) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	pick := func(list ...time.Duration) time.Duration { return list[rnd.IntN(len(list))] }
	load := base.Load
	after, age, expire := pick(0, 30*time.Second, 4*time.Minute), pick(0, 10*time.Minute), pick(model.Never, 50*time.Minute, 70*time.Minute)
	budgets := [][]model.Budget{nil, {{Nodes: "0", Schedule: "*/20 * * * *", Duration: 7 * time.Minute}}, {{Nodes: "1"}, {Nodes: "0", Schedule: "@hourly", Duration: 31 * time.Minute}}}[rnd.IntN(3)]
	protect := rnd.IntN(2) == 0
	base.Settings.Planning.MinNodeAge = age
	base.Catalogue = few
	base.Load = func(paths []string) (*Input, error) {
		in, err := load(paths)
		if err != nil {
			return nil, err
		}
		for _, p := range in.Pools {
			p.ConsolidateAfter, p.ExpireAfter, p.Budgets = after, expire, budgets
			p.Annotations = map[string]string{model.AnnotationSoak: "5m", model.AnnotationExpire: model.ExpireBudgeted}
		}
		for i, x := range in.Workloads {
			if protect && i == 0 {
				c := *x.Pod
				c.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "9m"}
				x.Pod = &c
			}
		}
		return in, nil
	}
	s := &Scenario{Name: "restless", Seed: seed, Start: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), End: 100 * time.Minute, Steps: []Step{
		{At: 0, Apply: []string{"seed/node-pool-default-amd.yaml", "seed/ec2-node-class-default.yaml", "demo-spot.yaml", "web.yaml", "seed/test.yaml"}}}}
	for at := 5 * time.Minute; at < 80*time.Minute; at += time.Duration(3+rnd.IntN(15)) * time.Minute {
		n := rnd.IntN(16)
		switch rnd.IntN(5) {
		case 0:
			s.Steps = append(s.Steps, Step{At: at, Reclaim: &ReclaimStep{Pool: "demo-spot"}})
		case 1:
			s.Steps = append(s.Steps, Step{At: at, Short: &ShortStep{Offering: "m6a.large/*/*", Left: rnd.IntN(2) - 1}})
		default:
			s.Steps = append(s.Steps, Step{At: at, Scale: &ScaleStep{Workload: []string{"default/web", "default/test-karpenter"}[rnd.IntN(2)], Replicas: &n}})
		}
	}
	return s, base
}

func TestAPassWithoutAChangeFindsWhatASearchWould(t *testing.T) {
	t.Parallel()
	base := options(t)
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			s, opts := restless(seed, base)
			d := &doubting{Remembering: control.Remember(control.Planners{}), always: control.Planners{}}
			opts.Planner = d
			r, err := Run(t.Context(), &Input{}, s, opts)
			if err != nil {
				t.Fatal(err)
			}
			if d.wrong != "" {
				t.Error(d.wrong)
			}
			if d.passes < 100 || d.Same() < d.passes/2 || r.Totals.Nodes < 3 {
				t.Errorf("%d passes, of which %d were remembered, and %d nodes bought: this tests little", d.passes, d.Same(), r.Totals.Nodes)
			}
		})
	}
}
