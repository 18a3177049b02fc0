package disrupt_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// price is what our nodes cost before the plan and after it.
func price(w *model.World, p *model.Plan) (before, after float64) {
	for _, n := range w.Nodes {
		if n.Managed() && n.PriceKnown {
			before += n.USDPerHour
		}
	}
	after = before
	for _, c := range p.Commands {
		after += c.After - c.Before
	}
	return before, after
}

// The bound counts what nothing may take away as it is, and what room is left there as room.
func TestBoundIsOnTopOfWhatIsPinned(t *testing.T) {
	t.Parallel()
	pinned := func(p *model.Pod) { p.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "true"} }
	const large = 0.096 // m5.large
	for _, c := range []struct {
		name string
		w    *model.World
		want float64
		less bool // at most want, and more than nothing
	}{
		{name: "everything is pinned", w: world(node("n1", "m5.large", pod("a", 100, pinned)), node("n2", "m5.large", pod("b", 100, pinned))), want: 2 * large},
		{name: "what may go fits beside what is pinned", w: world(node("n1", "m5.large", pod("a", 100, pinned)), node("n2", "m5.large", pod("b", 100))), want: large},
		{name: "what is pinned has no room", w: world(node("n1", "m5.large", pod("a", 1900, pinned)), node("n2", "m5.large", pod("b", 1900))), want: 2 * large, less: true},
		{name: "nothing is pinned", w: world(node("n1", "m5.large", pod("a", 900)), node("n2", "m5.large", pod("b", 900))), want: large, less: true},
		{name: "only an empty node may go", w: world(node("n1", "m5.large", pod("a", 900, pinned)), node("n2", "m5.large")), want: large},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := disrupt.Plan(c.w, nil, nil, disrupt.Options{Waves: true, Bound: true}).LowerBoundUSDPerHour
			if c.less && (got <= 0 || got > c.want+1e-9) || !c.less && math.Abs(got-c.want) > 1e-9 {
				t.Errorf("bound %v, want %v (at most that: %t)", got, c.want, c.less)
			}
		})
	}
}

// No plan ends below its bound, whatever is pinned, cheap or in the way.
func TestNoPlanEndsBelowItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := world()
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			var opts []func(*model.Node)
			for j := range rapid.IntRange(0, 4).Draw(t, "pods") {
				pin := rapid.IntRange(0, 5).Draw(t, "pin") == 0
				opts = append(opts, pod(fmt.Sprintf("p%d-%d", i, j), rapid.Int64Range(10, 900).Draw(t, "milli"), func(p *model.Pod) {
					if pin {
						p.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "true"}
					}
				}))
			}
			discount := rapid.SampledFrom([]float64{1, 1, 0.3}).Draw(t, "discount") // nodes that are cheaper than what can be bought
			opts = append(opts, func(n *model.Node) { n.USDPerHour *= discount })
			node(fmt.Sprintf("n%d", i), rapid.SampledFrom([]string{"m5.large", "m5.xlarge", "m5.2xlarge"}).Draw(t, "type"), opts...)(w)
		}
		p := disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true, Bound: true})
		before, after := price(w, p)
		if p.LowerBoundUSDPerHour > after+1e-9 {
			t.Fatalf("the plan ends at %v (before %v), below its bound %v\n%s", after, before, p.LowerBoundUSDPerHour, shown(p))
		}
	})
}
