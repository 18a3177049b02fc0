package sdktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/conformance"
)

// limit bounds answers on machines that run many tests at once: what the kit looks at
// in a test is not how fast the machine is. `weir strategy test` has the host's bound.
const limit = 30 * time.Second

// Run checks a strategy over a connection in memory: everything that crosses the
// wire in production crosses it here.
func Run(t *testing.T, make func() sdk.Strategy) {
	t.Helper()
	run(t, conformance.InProcess(make))
}

// RunProcess checks an executable: it is started as the host starts it, but without
// the host's isolation, and ended at the end of the test.
func RunProcess(t *testing.T, path string, args ...string) {
	t.Helper()
	run(t, conformance.Process(path, args...))
}

// reporter is what the kit needs of *testing.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

func run(t reporter, target conformance.Target) {
	t.Helper()
	report, err := conformance.Run(context.Background(), target, conformance.Options{LatencyLimit: limit, StartTime: limit})
	if err != nil {
		t.Errorf("running the kit: %v", err)
		return
	}
	for _, c := range report.Failures() {
		for _, why := range c.Reasons {
			t.Errorf("%s (%s): %s", c.Check, c.Rule, why)
		}
	}
}

// Harness is a strategy in one process with its test: configured, asked over the same
// wire as in production, every answer held against the rules.
type Harness struct {
	t      testing.TB
	client *sdk.Client
}

// New starts a harness for the strategy; config is a JSON object, empty for defaults.
// What the strategy finds wrong with it fails the test.
func New(t testing.TB, strategy sdk.Strategy, config string) *Harness {
	t.Helper()
	live, err := conformance.InProcess(func() sdk.Strategy { return strategy }).Start(t.Context())
	if err != nil {
		t.Fatalf("serving the strategy: %v", err)
	}
	t.Cleanup(live.Stop)
	h := &Harness{t: t, client: sdk.NewClient(live.Conn())}
	if err := h.Configure(config); err != nil {
		t.Fatalf("Configure: %v", err)
	}
	return h
}

// Configure puts a configuration in force; what the strategy finds wrong with it comes
// back as *sdk.ConfigError.
func (h *Harness) Configure(config string) error {
	if config == "" {
		config = "{}"
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	return h.client.Configure(ctx, []byte(config), nil)
}

// Price asks for prices. An error and an illegal answer fail the test.
func (h *Harness) Price(req *sdk.PriceRequest) *sdk.PriceAnswer {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	err := h.client.Configure(ctx, nil, req.Catalogue)
	if err != nil {
		h.t.Fatalf("sending the catalogue: %v", err)
	}
	ans, err := h.client.Price(ctx, req)
	if err == nil {
		err = sdk.CheckPrices(req, ans)
	}
	if err != nil {
		h.t.Fatalf("Price: %v", err)
	}
	return ans
}

// Score asks for verdicts. An error and an illegal answer fail the test.
func (h *Harness) Score(req *sdk.ScoreRequest) *sdk.ScoreAnswer {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	err := h.client.Configure(ctx, nil, req.Catalogue)
	if err != nil {
		h.t.Fatalf("sending the catalogue: %v", err)
	}
	ans, err := h.client.Score(ctx, req)
	if err == nil {
		err = sdk.CheckScores(req, ans)
	}
	if err != nil {
		h.t.Fatalf("Score: %v", err)
	}
	return ans
}

// Cheapest names what the engine would take first for a pool of an answer, by effective
// price alone: "TYPE ZONE CAPACITY-TYPE". Offerings that are vetoed or cannot be had are
// left out; of equal prices the first in the catalogue counts. Empty if nothing is left.
func Cheapest(req *sdk.PriceRequest, ans *sdk.PriceAnswer, pool int) string {
	vetoed := map[int]bool{}
	for _, v := range ans.Pools[pool].Vetoes {
		for _, o := range v.Offerings {
			vetoed[o] = true
		}
	}
	best, least := "", 0.0
	for k, o := range req.Pools[pool].Offerings {
		usd := ans.Pools[pool].USDPerHour[k]
		if steps := ans.Pools[pool].Steps[o]; len(steps) > 0 {
			usd = steps[0].USDPerHour
		}
		if vetoed[o] || !req.HealthOf(o).Available || best != "" && usd >= least {
			continue
		}
		x := &req.Catalogue.Offerings[o]
		best, least = fmt.Sprintf("%s %s %s", x.Type.Name, x.Zone, x.CapacityType), usd
	}
	return best
}
