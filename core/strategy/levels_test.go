package strategy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/plugins/sdk"
)

// levelsFake serves every level, well.
type levelsFake struct{ *fake }

func (f *levelsFake) Plan(ctx context.Context, req *sdk.PlanRequest) (*sdk.PlanAnswer, error) {
	return (&planFake{f.fake}).Plan(ctx, req)
}

func (f *levelsFake) Propose(ctx context.Context, w *sdk.ProposeWorld, simulate sdk.Simulate) (*sdk.Proposal, error) {
	return (&proposeFake{f.fake}).Propose(ctx, w, simulate)
}

// levelsWorld has pods that wait, nodes that may go and few offerings.
func levelsWorld() *model.World {
	w := moveWorld()
	w.Pods = mt.Pods(30, "a", 1000, 1500)
	w.Offerings = map[string][]*model.Offering{mt.Class: slices.DeleteFunc(slices.Clone(w.Offerings[mt.Class]), func(o *model.Offering) bool {
		return o.Type.Name != "m5.xlarge" && o.Type.Name != "m5.2xlarge"
	})}
	return w
}

// pricesOf, draftOf, scoresOf and movesOf make one call each, and say where there is no
// answer, be it the strategy's or another's.
func pricesOf(ctx context.Context, h *Host, w *model.World) (*model.Prices, error) {
	prices, err := h.Price(ctx, w)
	if err != nil || len(prices.ByPool) != 1 || len(prices.ByPool["p"].Offerings) != len(w.Offerings[mt.Class]) {
		return nil, fmt.Errorf("prices %+v, %w", prices, err)
	}
	return prices, nil
}

func draftOf(ctx context.Context, h *Host, w *model.World, prices *model.Prices) error {
	if got := h.Draft(ctx, w, prices); len(got.ByPool) != 1 || (len(got.Drafts) > 0) != (got.Drafted != "") {
		return fmt.Errorf("drafts %+v", got)
	}
	return nil
}

func scoresOf(ctx context.Context, h *Host, w *model.World) (float64, error) {
	scores, err := h.Score(ctx, w, []*model.Command{{Reason: model.Empty, Remove: w.Nodes[:1], Before: 0.192}})
	if err != nil || len(scores) != 1 || !scores[0].Accept {
		return 0, fmt.Errorf("scores %+v, %w", scores, err)
	}
	return scores[0].Score, nil
}

func movesOf(ctx context.Context, h *Host, w *model.World) error {
	calm := *w
	calm.Pods = nil // nothing moves while pods wait
	w = &calm
	by := h.Proposer(ctx, w) // nil while the process is dead
	var err error
	plan := disrupt.Plan(w, nil, func(moves []*model.Command) []model.MoveScore {
		var scores []model.MoveScore
		scores, err = h.Score(ctx, w, moves)
		return scores
	}, disrupt.Options{Propose: by})
	if err == nil && len(plan.Commands) == 0 {
		err = fmt.Errorf("nobody found moves: %+v", plan)
	}
	return err
}

// TestSwapsOnProbationUnderLoad swaps a strategy that serves every level, with the rules
// for swaps that there are by default, while plans are made without pause: each plan hears
// one version, every call is answered by it, and none is rolled back.
func TestSwapsOnProbationUnderLoad(t *testing.T) {
	t.Parallel()
	const swaps = 3
	calls := &heard{}
	h := testHost(t, everywhere(factored(t, 1, "levels", "well")), func(o *Options) { o.OnCall, o.Cost = calls.on, planCost })
	settle(t, h)
	onePlan := func() error {
		ctx, end := h.Begin(context.Background())
		defer end()
		w := levelsWorld()
		prices, err := pricesOf(ctx, h, w)
		if err != nil {
			return err
		}
		offer := w.Offerings[mt.Class][0]
		priced := prices.ByPool["p"].Offerings[0].USDPerHour / offer.USDPerHour
		if err := draftOf(ctx, h, w, prices); err != nil {
			return err
		}
		scored, err := scoresOf(ctx, h, w)
		if err == nil && int(priced+0.5) != int(scored) {
			err = fmt.Errorf("one plan was priced by version %v and scored by version %v", priced, scored)
		}
		if err != nil {
			return err
		}
		return movesOf(ctx, h, w)
	}
	var plans atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := onePlan(); err != nil {
					t.Error(err)
					return
				}
				plans.Add(1)
			}
		})
	}
	for i := range swaps {
		if err := h.Swap(context.Background(), factored(t, float64(i+2), "levels", "well")); err != nil {
			t.Error(err)
		}
		until(t, "a plan of the new version is compared", func() bool {
			st := statusOf(h, "fake")
			return t.Failed() || st.RolledBack != nil || st.Trial != nil && st.Trial.Plans > 0
		})
	}
	close(stop)
	wg.Wait()
	if st := statusOf(h, "fake"); st.RolledBack != nil || st.Trial == nil || st.Trial.State != Probation || st.Trial.Failures != 0 {
		t.Errorf("trial %+v, rolled back %+v, want it on probation without a failure", st.Trial, st.RolledBack)
	}
	if scored, err := scoresOf(context.Background(), h, levelsWorld()); err != nil || int(scored) != swaps+1 {
		t.Errorf("the last version is %v, want %d (%v)", scored, swaps+1, err)
	}
	for level, more := range map[string]int64{LevelPrice: 0, LevelPlan: 0, LevelScore: 1, LevelPropose: 0} {
		asked := calls.level(level)
		if want := plans.Load() + more; int64(len(asked)) != want {
			t.Errorf("%d calls at level %s, want %d", len(asked), level, want)
		}
		for _, c := range asked {
			if c.Outcome != OK || c.Rung != ByStrategy {
				t.Fatalf("a call was not answered well: %+v", c)
			}
		}
	}
}
