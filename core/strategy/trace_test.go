package strategy

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// All calls of one plan have one trace, and each call a span of its own.
func TestCallsOfAPlanShareATrace(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var calls []Call
	h := testHost(t, Config{}, func(o *Options) {
		o.OnCall = func(c Call) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, c)
		}
	})
	w := testWorld()
	ctx, end := h.Begin(context.Background())
	for range 2 {
		if _, err := h.Price(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if _, err := h.Price(context.Background(), w); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(calls) != 3 || len(calls[0].Trace) != 32 || calls[0].Trace != calls[1].Trace || calls[2].Trace == calls[0].Trace {
		t.Errorf("calls %+v", calls)
	}
	one, trace := traced(context.Background())
	two, same := traced(one)
	if a, b := sdk.TraceParent(one), sdk.TraceParent(two); trace != same || a == b || !sdk.ValidTraceParent(a) || !sdk.ValidTraceParent(b) {
		t.Errorf("%s of %s, then %s of %s", a, trace, b, same)
	}
}

// A verdict says who gave it, and calls say how many moves were accepted.
func TestWhoJudged(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var last Call
	h := testHost(t, Config{}, func(o *Options) {
		o.OnCall = func(c Call) {
			mu.Lock()
			defer mu.Unlock()
			last = c
		}
	})
	w := testWorld()
	node := &model.Node{Name: "n", Labels: map[string]string{model.LabelPool: "default"}, USDPerHour: 1}
	moves := []*model.Command{{Reason: model.Underutilized, Remove: []*model.Node{node}, Before: 1, After: 0.1}}
	got, err := h.Score(context.Background(), w, moves)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got[0].Strategy, "savings ") || got[0].Outcome != string(OK) {
		t.Errorf("%+v", got[0])
	}
	mu.Lock()
	defer mu.Unlock()
	if last.Accepted+last.Declined != 1 || (last.Accepted == 1) != got[0].Accept {
		t.Errorf("call %+v of verdict %+v", last, got[0])
	}
}
