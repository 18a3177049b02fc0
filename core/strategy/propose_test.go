package strategy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/plugins/sdk"
)

// proposeFake finds moves by itself, in a way that its argument names.
type proposeFake struct{ *fake }

func (f *proposeFake) Propose(ctx context.Context, w *sdk.ProposeWorld, simulate sdk.Simulate) (*sdk.Proposal, error) {
	how := f.args[0]
	if w.Now.Equal(sdk.SamplePropose().Now) {
		how = "well"
	}
	out := &sdk.Proposal{}
	for i, n := range w.Nodes {
		if !n.Removable {
			continue
		}
		move := sdk.ProposedMove{Remove: []int{i}, Score: n.USDPerHour, Why: "simulated"}
		trials, err := simulate(append(out.Moves, move))
		if err != nil {
			return nil, err
		}
		if trials[len(out.Moves)].Legal {
			out.Moves = append(out.Moves, move)
		}
	}
	switch how {
	case "timid": // the first that may go, and asks about it alone
		out.Moves = out.Moves[:1]
	case "curious": // asks about all at once from the other end
		var all []sdk.ProposedMove
		for i := range w.Nodes {
			if k := len(w.Nodes) - 1 - i; w.Nodes[k].Removable {
				all = append(all, sdk.ProposedMove{Remove: []int{k}})
			}
		}
		if _, err := simulate(all); err != nil {
			return nil, err
		}
	case "illegal": // a node that may not go
		for i, n := range w.Nodes {
			if !n.Removable {
				out.Moves = []sdk.ProposedMove{{Remove: []int{i}}}
			}
		}
	case "waits":
		<-ctx.Done()
		return nil, ctx.Err()
	case "asks for ever":
		for {
			if _, err := simulate(out.Moves[:1]); err != nil {
				return nil, err
			}
		}
	case "panics":
		panic("a bug")
	}
	return out, nil
}

func moveWorld() *model.World {
	w := draftWorld()
	w.Pods = nil
	managed := func(name string, milli int64, pods ...*model.Pod) *model.Node {
		for _, p := range pods {
			p.NodeName = name
		}
		n := mt.Node(name, milli, 8000, map[string]string{model.LabelInstanceType: "m5.xlarge", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand,
			model.LabelInitialized: "true", model.LabelRegistered: "true"}, mt.Managed("p"), mt.Running(pods...))
		n.USDPerHour, n.PriceKnown, n.Ready, n.Created = 0.192, true, true, mt.Now.Add(-48*time.Hour)
		n.Claim.Created = n.Created
		n.Claim.Conditions = []model.Condition{{Type: model.CondInitialized, Status: "True", Since: n.Created}}
		return n
	}
	held := mt.Pod("held", 100, 100)
	held.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "true"}
	w.Nodes = []*model.Node{managed("empty", 3900), managed("poor", 3900, mt.Pod("few", 300, 100)), managed("used", 3900, held)}
	w.Pools[0].Policy, w.Pools[0].ExpireAfter = model.WhenEmptyOrUnderutilized, model.Never
	return w
}

// A strategy in a process of its own finds moves, with simulations by the host; where it
// does not answer well, the planner's moves are judged by the same strategy.
func TestProposalsOfAProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how     string
		outcome Outcome
		err     string
	}{
		{"well", OK, ""},
		{"illegal", Invalid, "may not be removed: DoNotDisrupt"},
		{"asks for ever", Invalid, "more than 1000 simulations"},
		{"panics", Invalid, "panic: a bug"},
		{"waits", Late, ""},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			calls := &heard{}
			config := Config{Strategies: []Spec{fakeSpec(t, "mover", "proposes", c.how)}, Consolidation: "mover"}
			h := testHost(t, config, func(o *Options) { o.OnCall = calls.on })
			settle(t, h)
			w := moveWorld()
			ctx := t.Context()
			if c.how == "waits" { // however slow this machine is, it does so for longer
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
			}
			score := func(moves []*model.Command) []model.MoveScore {
				out, err := h.Score(t.Context(), w, moves)
				if err != nil {
					t.Error(err)
				}
				return out
			}
			by := h.Proposer(ctx, w)
			if by == nil || !by.Pools["p"] {
				t.Fatalf("nobody proposes: %+v", by)
			}
			plan := disrupt.Plan(w, nil, score, disrupt.Options{Propose: by})
			asked := calls.level(LevelPropose)
			if len(asked) != 1 || asked[0].Outcome != c.outcome || c.err != "" && !strings.Contains(asked[0].Err.Error(), c.err) {
				t.Fatalf("calls at level propose: %+v", asked)
			}
			if judged := len(calls.level(LevelScore)); (judged > 0) == (c.outcome == OK) {
				t.Errorf("%d calls for scores with outcome %s", judged, c.outcome)
			}
			removed := map[string]bool{}
			for _, cmd := range plan.Commands {
				for _, n := range cmd.Remove {
					removed[n.ID()] = true
				}
				if own := strings.Contains(cmd.Why, "simulated"); own != (c.outcome == OK) {
					t.Errorf("command because %q with outcome %s", cmd.Why, c.outcome)
				}
			}
			if removed["used"] || !removed["empty"] {
				t.Errorf("gone: %v", removed)
			}
		})
	}
}

// Nobody is asked where no strategy finds moves by itself.
func TestNobodyProposes(t *testing.T) {
	t.Parallel()
	h := testHost(t, Config{})
	if by := h.Proposer(t.Context(), moveWorld()); by != nil {
		t.Errorf("%+v", by)
	}
	w := draftWorld()
	prices, err := h.Price(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Draft(t.Context(), w, prices); len(got.Drafts) != 0 || got.Drafted != "" {
		t.Errorf("%d drafts by %q", len(got.Drafts), got.Drafted)
	}
}

// TestProposalsAreReplayed records a strategy that finds moves by itself with what it had
// simulated, and asks it again, and others that find other moves or ask about others.
func TestProposalsAreReplayed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := testHost(t, Config{Strategies: []Spec{fakeSpec(t, "mover", "proposes", "well")}, Consolidation: "mover"}, func(o *Options) { o.Records.Folder = dir })
	settle(t, h)
	w := moveWorld()
	plan := disrupt.Plan(w, nil, nil, disrupt.Options{Propose: h.Proposer(t.Context(), w)})
	if len(plan.Commands) == 0 {
		t.Fatal("no commands")
	}
	h.Close()
	files, err := RecordFiles(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	records, err := readAll(t, files[0])
	if err != nil || len(records) != 1 || records[0].Call.Level != LevelPropose || records[0].Answer == nil {
		t.Fatalf("%d records (%v), want the proposal", len(records), err)
	}
	for how, want := range map[string]string{
		"well":    "",
		"timid":   "pool p: removal of poor was number 2 with score 0.192 (simulated), is not proposed",
		"curious": "answer: simulations was those of the record, is 1 moves more, which nobody can answer now",
		"panics":  "answer: outcome was ok, is invalid",
	} {
		d, err := Open(t.Context(), fakeSpec(t, "mover", "proposes", how), Options{CallTimeout: patience, StartTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		if !d.Serves(sdk.Consolidation, LevelPropose) {
			t.Error("it does not serve level propose")
		}
		got, err := Replay(t.Context(), d, records[0])
		d.Close()
		var changes []string
		for _, c := range got.Changes {
			changes = append(changes, c.String())
		}
		if text := strings.Join(changes, "; "); err != nil || text != want {
			t.Errorf("%s: %v, %q, want %q", how, err, text, want)
		}
	}
}

// A shadow that finds moves by itself plans what to give back behind who acts, with the real
// planner to ask, and is compared by what that saves.
func TestShadowsFindMoves(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]func(d *Difference) bool{
		"well": func(d *Difference) bool {
			return d.Outcome == OK && *d.CandidateMoves == *d.ActingMoves && d.ActingMoves.Removed == 2 && d.ActingMoves.SavedUSDPerHour > 0
		},
		"timid": func(d *Difference) bool {
			return d.Outcome == OK && d.CandidateMoves.Removed == 1 && d.ActingMoves.Removed == 2
		},
		"panics": func(d *Difference) bool { return d.Outcome == Invalid && d.CandidateMoves == nil },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			h := testHost(t, Config{Strategies: []Spec{fakeSpec(t, "mover", "proposes", how)}, Shadow: []string{"mover"}}, func(o *Options) { o.Records.Folder = dir })
			until(t, "it is ready", func() bool { return statusOf(h, "mover").State == Ready })
			w := moveWorld()
			acting := disrupt.Plan(w, nil, nil, disrupt.Options{})
			h.ShowMoves(w, acting, func(by *model.Proposer, verdicts func([]*model.Command) ([]model.MoveScore, error)) (*model.Plan, error) {
				return disrupt.Plan(w, nil, func(moves []*model.Command) []model.MoveScore {
					out, err := verdicts(moves)
					if err != nil {
						t.Error(err)
					}
					return out
				}, disrupt.Options{Propose: by}), nil
			})
			until(t, "its view", func() bool { return statusOf(h, "mover").Shadow.Problems == 1 })
			compared := statusOf(h, "mover").Shadow.MovePlans
			h.Close()
			d := differences(t, dir)
			if len(d) != 1 || !want(d[0]) || compared == 1 != (d[0].CandidateMoves != nil) {
				t.Errorf("%d compared, difference %+v, moves %+v and %+v", compared, d[0], d[0].ActingMoves, d[0].CandidateMoves)
			}
			rep, err := ReadShadows([]string{dir})
			if err != nil || rep.Candidates[0].Moves.Compared != int(compared) {
				t.Errorf("report %+v, %v", rep, err)
			}
		})
	}
}
