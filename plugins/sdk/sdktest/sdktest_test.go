package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/conformance"
)

// market is a strategy that does everything right, and can be told to do one thing wrong.
type market struct {
	wrong string
	calls atomic.Int64
}

func (m *market) Describe() sdk.Description {
	return sdk.Description{Name: "market", Version: "1", ConfigSchema: map[bool]string{true: "{", false: "{}"}[m.wrong == "schema"], Deterministic: true}
}

func (m *market) Configure(config json.RawMessage) error {
	switch m.wrong {
	case "accepts anything":
		return nil
	case "needs settings":
		if string(config) == "{}" {
			return fmt.Errorf("need a region")
		}
	}
	return sdk.Decode(config, &struct{}{})
}

func (m *market) Price(_ context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	ans := &sdk.PriceAnswer{}
	for _, p := range req.Pools {
		prices := make([]float64, len(p.Offerings))
		for k, o := range p.Offerings {
			prices[k] = req.USDPerHour[o]
		}
		if m.wrong == "moody" && len(prices) > 0 {
			prices[0] += float64(m.calls.Add(1))
		}
		if m.wrong == "negative" && len(prices) > 0 {
			prices[0] = -1
		}
		if m.wrong == "never empty" {
			_ = prices[0]
		}
		ans.Pools = append(ans.Pools, sdk.PoolPrices{USDPerHour: prices})
	}
	return ans, nil
}

func (m *market) Score(_ context.Context, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	ans := &sdk.ScoreAnswer{}
	for range req.Moves {
		ans.Verdicts = append(ans.Verdicts, sdk.Verdict{Accept: m.wrong != "mute refusal"})
	}
	return ans, nil
}

// recorder gathers what the kit reports.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.text, format+"\n", args...)
}

func TestKitAcceptsTheGood(t *testing.T) {
	t.Parallel()
	Run(t, func() sdk.Strategy { return &market{} })
}

func TestKitFindsTheBad(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{
		"schema": "schema is not JSON", "accepts anything": "unknown setting", "needs settings": "Configure with nothing",
		"moody": "two answers to the same question differ", "negative": "price -1", "never empty": "panic: runtime error", "mute refusal": "without a reason",
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			run(r, conformance.InProcess(func() sdk.Strategy { return &market{wrong: wrong} }))
			if got := r.text.String(); !strings.Contains(got, want) {
				t.Errorf("the kit reports %q, want %q", got, want)
			}
		})
	}
}

func TestHarness(t *testing.T) {
	t.Parallel()
	h := New(t, &market{}, "")
	req := sdk.SamplePrice()
	if got, want := Cheapest(req, h.Price(req), 0), "m6a.large us-east-1a spot"; got != want {
		t.Errorf("the cheapest is %q, want %q", got, want)
	}
	if got, want := Cheapest(req, h.Price(req), 1), "m6a.large us-east-1a on-demand"; got != want {
		t.Errorf("the cheapest of pool on-demand is %q, want %q", got, want)
	}
	if got := len(h.Score(sdk.SampleScore()).Verdicts); got != 4 {
		t.Errorf("%d verdicts, want 4", got)
	}
	var field *sdk.ConfigError
	if err := h.Configure(`{"no": 1}`); !errors.As(err, &field) || field.Field != "no" {
		t.Errorf("an unknown setting: %v", err)
	}
}
