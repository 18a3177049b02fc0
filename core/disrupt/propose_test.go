package disrupt_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// proposeWorld has an empty node, two that are hardly used, one that is full, and one whose
// pod may not be disturbed.
func proposeWorld() *model.World {
	return world(
		node("empty", "m5.large"),
		node("poor1", "m5.xlarge", pod("a", 300)), node("poor2", "m5.xlarge", pod("b", 300)),
		node("full", "m5.xlarge", pod("c", 3000)),
		node("held", "m5.xlarge", pod("d", 100, func(p *model.Pod) { p.Annotations[model.AnnotationDoNotDisrupt] = "true" })))
}

// proposer asks for the nodes of each proposal by name.
func proposer(w *model.World, sets ...[]string) *model.Proposer {
	return &model.Proposer{Pools: map[string]bool{"default": true}, Ask: func(*model.Proposing) ([]model.Proposal, error) { return wanted(w, sets...), nil }}
}

func wanted(w *model.World, sets ...[]string) []model.Proposal {
	var out []model.Proposal
	for _, names := range sets {
		p := model.Proposal{Score: 7, Why: "as I say"}
		for _, n := range w.Nodes {
			if slices.Contains(names, n.Name) {
				p.Remove = append(p.Remove, n)
			}
		}
		out = append(out, p)
	}
	return out
}

func gone(p *model.Plan) []string {
	out := []string{}
	for _, c := range p.Commands {
		var names []string
		for _, n := range c.Remove {
			names = append(names, n.ID())
		}
		slices.Sort(names)
		out = append(out, string(c.Reason)+" "+strings.Join(names, "+"))
	}
	slices.Sort(out)
	return out
}

// A move that a strategy proposes is made where the planner's own rules allow it, and only
// such moves are made in its pools.
func TestProposals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*model.World)
		sets   [][]string
		want   []string
		why    map[string]string // of nodes that stay
	}{
		"nothing":            {sets: nil, want: []string{}, why: map[string]string{"empty": "proposes none", "poor1": "proposes none"}},
		"the empty one":      {sets: [][]string{{"empty"}}, want: []string{"Empty empty"}},
		"one after another":  {sets: [][]string{{"empty"}, {"poor1"}, {"poor2"}}, want: []string{"Empty empty", "Underutilized poor1", "Underutilized poor2"}},
		"two together":       {sets: [][]string{{"poor1", "poor2"}}, want: []string{"Underutilized poor1+poor2"}},
		"one twice":          {sets: [][]string{{"poor1"}, {"poor1", "poor2"}}, want: []string{"Underutilized poor1"}, why: map[string]string{"poor2": "goes already"}},
		"one that may not":   {sets: [][]string{{"held"}}, want: []string{}, why: map[string]string{"held": "karpenter.sh/do-not-disrupt"}},
		"empty and used":     {sets: [][]string{{"empty", "poor1"}}, want: []string{}, why: map[string]string{"empty": "may not go as Underutilized"}},
		"one in a full room": {sets: [][]string{{"full"}, {"poor1", "poor2"}}, want: []string{"Underutilized full"}, why: map[string]string{"poor1": ""}},
		"a budget of one": {
			change: pool(func(p *model.Pool) { p.Budgets = []model.Budget{{Nodes: "1"}} }),
			sets:   [][]string{{"poor1", "poor2"}, {"poor2"}, {"empty"}}, want: []string{"Underutilized poor2"}, why: map[string]string{"poor1": "1 may go, 2 are to go together", "empty": "takes pods of others"}},
		"policy WhenEmpty": {
			change: pool(func(p *model.Pool) { p.Policy = model.WhenEmpty }),
			sets:   [][]string{{"poor1"}, {"empty"}}, want: []string{"Empty empty"}, why: map[string]string{"poor1": "WhenEmpty"}},
		"dearer replacement": {
			change: func(w *model.World) {
				for _, n := range w.Nodes { // no room anywhere, and nothing cheaper to be had
					n.Allocatable = n.Promised()
				}
			},
			sets: [][]string{{"full"}}, want: []string{}, why: map[string]string{"full": "already the cheapest"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := proposeWorld()
			if c.change != nil {
				c.change(w)
			}
			refuse := func(moves []*model.Command) []model.MoveScore { return make([]model.MoveScore, len(moves)) }
			p := disrupt.Plan(w, nil, refuse, disrupt.Options{Propose: proposer(w, c.sets...)})
			if name == "one in a full room" { // whether the others find room after it is not what is asked
				if got := gone(p); !slices.Contains(got, "Underutilized full") {
					t.Errorf("%v", got)
				}
				return
			}
			if d := cmp.Diff(c.want, gone(p)); d != "" {
				t.Errorf("commands (-want +got):\n%s", d)
			}
			for _, cmd := range p.Commands {
				if cmd.Score != 7 || !strings.Contains(cmd.Why, "as I say") || cmd.Wave != 1 {
					t.Errorf("command %+v", cmd)
				}
			}
			for node, want := range c.why {
				i := slices.IndexFunc(p.Blocked, func(b model.Blocked) bool { return b.Node == node })
				if i < 0 || !strings.Contains(p.Blocked[i].Message, want) {
					t.Errorf("%s stays because of %+v, want %q", node, p.Blocked, want)
				}
			}
			if len(p.Commands)+len(p.Blocked) == 0 {
				t.Error("nobody is told anything")
			}
		})
	}
}

// Simulations start from the same place every time, change nothing, and say what the
// proposal then comes to.
func TestSimulations(t *testing.T) {
	t.Parallel()
	w := proposeWorld()
	var first, again []model.Trial
	var asked *model.Proposing
	by := &model.Proposer{Pools: map[string]bool{"default": true}, Ask: func(q *model.Proposing) ([]model.Proposal, error) {
		asked = q
		all := wanted(w, []string{"poor1"}, []string{"held"}, []string{"poor2"}, []string{"poor1"})
		first, again = q.Try(all), q.Try(all)
		return all, nil
	}}
	p := disrupt.Plan(w, nil, nil, disrupt.Options{Propose: by})
	legal := func(list []model.Trial) (out []bool) {
		for _, t := range list {
			out = append(out, t.Command != nil)
		}
		return out
	}
	if d := cmp.Diff([]bool{true, false, true, false}, legal(first)); d != "" {
		t.Errorf("legal (-want +got):\n%s", d)
	}
	if d := cmp.Diff(legal(first), legal(again)); d != "" {
		t.Errorf("the same again (-first +again):\n%s", d)
	}
	if d := cmp.Diff([]string{"Underutilized poor1", "Underutilized poor2"}, gone(p)); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	for i, k := range []int{0, 2} {
		if got, want := p.Commands[i], first[k].Command; got.Before != want.Before || got.After != want.After || len(got.Moves) != len(want.Moves) {
			t.Errorf("command %+v, simulated %+v", got, want)
		}
	}
	if len(asked.Candidates) != 4 || len(asked.Allowed) != 2 {
		t.Errorf("%d candidates, budgets %+v", len(asked.Candidates), asked.Allowed)
	}
}

// Where the proposer does not answer, the planner's own moves are judged, as ever.
func TestProposerFails(t *testing.T) {
	t.Parallel()
	w := proposeWorld()
	by := &model.Proposer{Pools: map[string]bool{"default": true}, Ask: func(*model.Proposing) ([]model.Proposal, error) { return nil, errors.New("late") }}
	got, want := disrupt.Plan(w, nil, nil, disrupt.Options{Propose: by}), disrupt.Plan(w, nil, nil, disrupt.Options{})
	if d := cmp.Diff(gone(want), gone(got)); d != "" || len(got.Commands) == 0 {
		t.Errorf("without and with a proposer that fails (-without +with):\n%s", d)
	}
}
