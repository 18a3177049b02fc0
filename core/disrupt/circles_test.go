package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// of gives a pod its workload and the time of its creation.
func of(workload string, created time.Time) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Owner = model.Owner{Kind: "ReplicaSet", Name: workload, UID: "rs-" + workload}
		p.Created = created
	}
}

// chased is a pod that is moved over and over: each move takes it off a node of the kinds
// in turn, at each of the minutes after noon, and its heir is made half a minute later.
type chased struct {
	moves *disrupt.Moves
	made  time.Time // the pod that runs now
	step  int
}

// next is the world in which the pod runs on a node of the kind, and the command that moves
// it on to a node of the kind to that was bought a minute ago.
func (c *chased) next(at time.Time, kind, to string) (*model.World, *model.Command) {
	c.step++
	name := fmt.Sprintf("n%d", c.step)
	w := world(node(name, kind, pod(fmt.Sprintf("p%d", c.step), 100, of("web", c.made))),
		node("to", to, func(n *model.Node) { n.Claim.Created = at.Add(-time.Minute) }))
	w.Now = at
	return w, &model.Command{Reason: model.Underutilized, Remove: w.Nodes[:1], Moves: []model.Move{{Pod: w.Nodes[0].Pods[0], From: name, To: "to"}}}
}

func (c *chased) take(w *model.World, cmd *model.Command, most int) *disrupt.Circle {
	hops := c.moves.Of(w, cmd)
	if round := c.moves.Circle(w, cmd, hops, most); round != nil {
		return round
	}
	c.moves.Add(hops)
	c.made = w.Now.Add(30 * time.Second)
	return nil
}

// The same pod may be moved so often within an hour; what is older does not count.
func TestPodsThatAreMovedTooOften(t *testing.T) {
	t.Parallel()
	minutes := func(m ...int) (out []time.Time) {
		for _, x := range m {
			out = append(out, noon.Add(time.Duration(x)*time.Minute))
		}
		return out
	}
	for name, tc := range map[string]struct {
		at    []time.Time
		most  int
		until time.Time // zero: the last move is none too many
	}{
		"as often as allowed": {minutes(0, 10, 20), 3, time.Time{}},
		"once more":           {minutes(0, 10, 20, 30), 3, noon.Add(time.Hour)},
		"the first is old":    {minutes(0, 25, 50, 61), 3, time.Time{}},
		"later ones count":    {minutes(0, 25, 50, 61, 70), 3, noon.Add(85 * time.Minute)},
		"once only":           {minutes(0, 10), 1, noon.Add(time.Hour)},
		"no such rule":        {minutes(0, 1, 2, 3, 4, 5, 6), 0, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &chased{moves: &disrupt.Moves{}, made: noon.Add(-time.Hour)}
			for i, at := range tc.at {
				w, cmd := c.next(at, "m5.large", "m5.large")
				round := c.take(w, cmd, tc.most)
				last := i == len(tc.at)-1 && !tc.until.IsZero()
				switch {
				case (round != nil) != last:
					t.Fatalf("move %d at %s: %+v", i+1, at, round)
				case last && (!round.Until.Equal(tc.until) || len(round.Pools) != 1 || round.Pools[0] != "default"):
					t.Errorf("paused %v until %s, want default until %s", round.Pools, round.Until, tc.until)
				case last && (!strings.Contains(round.Why, "1 pods of x/ReplicaSet/web") || !strings.Contains(round.Why, fmt.Sprintf("off n%d (m5.large/a/on-demand, Underutilized)", i+1))):
					t.Errorf("the evidence: %s", round.Why)
				}
			}
		})
	}
}

// A, B, A: pods do not go back to the kind of machine that they were just taken off, where
// that was bought again since.
func TestPodsThatGoBack(t *testing.T) {
	t.Parallel()
	back := func(reason model.DisruptionReason, change func(*model.World)) *disrupt.Circle {
		c := &chased{moves: &disrupt.Moves{}, made: noon.Add(-time.Hour)}
		w, cmd := c.next(noon, "m5.large", "m5.xlarge")
		cmd.Reason = reason
		if round := c.take(w, cmd, 3); round != nil {
			t.Fatalf("the first move: %+v", round)
		}
		w, cmd = c.next(noon.Add(10*time.Minute), "m5.xlarge", "m5.large")
		cmd.Reason = reason
		change(w)
		return c.take(w, cmd, 3)
	}
	round := back(model.Underutilized, func(*model.World) {})
	if round == nil || !round.Until.Equal(noon.Add(time.Hour)) || !strings.Contains(round.Why, "go back to a machine like n1") || !strings.Contains(round.Why, "a new m5.large/a/on-demand") {
		t.Errorf("back to a new m5.large: %+v", round)
	}
	if round := back(model.Underutilized, func(w *model.World) { w.Nodes[1].Claim.Created = born }); round != nil {
		t.Errorf("an old node that stayed all the time: %+v", round)
	}
	if round := back(model.Underutilized, func(w *model.World) { w.Nodes[1].Labels[model.LabelZone] = "b" }); round != nil {
		t.Errorf("another zone: %+v", round)
	}
	if round := back(model.Drifted, func(*model.World) {}); round != nil {
		t.Errorf("drift buys the same again: %+v", round)
	}
}

// Replacements count like nodes that are there.
func TestPodsThatGoBackToWhatIsBoughtForThem(t *testing.T) {
	t.Parallel()
	c := &chased{moves: &disrupt.Moves{}, made: noon.Add(-time.Hour)}
	w, cmd := c.next(noon, "m5.large", "m5.xlarge")
	c.take(w, cmd, 3)
	w, cmd = c.next(noon.Add(10*time.Minute), "m5.xlarge", "m5.8xlarge")
	cmd.Launch = []*model.NewNode{{Name: "r-1", Pool: w.Pools[0], Offering: w.Offerings["c"][0]}}
	cmd.Moves[0].To = "r-1"
	if round := c.take(w, cmd, 3); round == nil {
		t.Error("the set that was just removed is bought again")
	}
}

// One move each is no circle, however many pods of a workload move, and pods that come
// because of a larger scale are nobody's heirs beyond the number of those that left.
func TestMovingManyPodsOnceIsNoCircle(t *testing.T) {
	t.Parallel()
	m := &disrupt.Moves{}
	made := noon.Add(-time.Hour)
	for i := range 40 {
		at := noon.Add(time.Duration(i) * time.Second)
		w := world(node(fmt.Sprintf("n%d", i), "m5.large", pod(fmt.Sprintf("a%d", i), 10, of("web", made)), pod(fmt.Sprintf("b%d", i), 10, of("web", made))))
		w.Now = at
		cmd := &model.Command{Reason: model.Underutilized, Remove: w.Nodes}
		hops := m.Of(w, cmd)
		if round := m.Circle(w, cmd, hops, 1); round != nil {
			t.Fatalf("node %d: %s", i, round.Why)
		}
		m.Add(hops)
	}
	one := &disrupt.Moves{}
	w := world(node("n1", "m5.large", pod("p1", 10, of("web", made))))
	one.Add(one.Of(w, &model.Command{Remove: w.Nodes}))
	var grown []func(*model.Node)
	for i := range 5 {
		grown = append(grown, pod(fmt.Sprintf("g%d", i), 10, of("web", noon.Add(time.Duration(i+1)*time.Second))))
	}
	w = world(node("n2", "m5.large", grown...))
	w.Now = noon.Add(time.Minute)
	again := 0
	for _, h := range one.Of(w, &model.Command{Remove: w.Nodes}) {
		if len(h.Trail) > 1 {
			again += h.Pods
		}
	}
	if again != 1 {
		t.Errorf("%d of 5 new pods count as moved before, one was", again)
	}
	w = world(node("n2", "m5.large", pod("late", 10, of("web", noon.Add(30*time.Minute)))))
	w.Now = noon.Add(40 * time.Minute)
	if hops := one.Of(w, &model.Command{Remove: w.Nodes}); len(hops) != 1 || len(hops[0].Trail) != 1 {
		t.Errorf("a pod that was made half an hour later counts as moved before: %+v", hops)
	}
}

// However a leader dies: what was written down of the moves says the same as what the
// dead one remembered.
func TestMovesAreRememberedByWhatWasWrittenDown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 3).Draw(t, "most")
		lived := &disrupt.Moves{}
		var diary []disrupt.Hop
		made := map[string]time.Time{}
		at := noon
		for i := range rapid.IntRange(1, 12).Draw(t, "moves") {
			at = at.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "seconds")) * time.Second)
			workload := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "workload")
			if made[workload].IsZero() {
				made[workload] = noon.Add(-time.Hour)
			}
			w := world(node(fmt.Sprintf("n%d", i), "m5.large", pod(fmt.Sprintf("%s%d", workload, i), 10, of(workload, made[workload]))))
			w.Now = at
			cmd := &model.Command{Reason: model.Underutilized, Remove: w.Nodes}
			read := disrupt.NewMoves(append([]disrupt.Hop(nil), diary...))
			hops, same := lived.Of(w, cmd), read.Of(w, cmd)
			a, b := lived.Circle(w, cmd, hops, most), read.Circle(w, cmd, same, most)
			if (a == nil) != (b == nil) || a != nil && (a.Why != b.Why || !a.Until.Equal(b.Until)) {
				t.Fatalf("move %d: lived %+v, read %+v", i, a, b)
			}
			if a == nil {
				lived.Add(hops)
				diary = append(diary, hops...)
				made[workload] = at.Add(time.Second)
			}
		}
	})
}
