package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weir-project/weir/plugins/sdk"
)

// heldStrategy is a strategy process that this test binary turns into: it answers market
// prices, and while a file named hold is in its folder it answers no question about
// pods that wait, so that a test can be sure of when it is asked and not yet answered.
type heldStrategy struct {
	config struct{ Dir string }
}

const (
	heldName = "held"
	holdFile = "hold"
	// askedLine goes to standard error, and so to the scaler's log: a strategy can write
	// nowhere else, and it sees of files outside its folder only whether they are there.
	askedLine = "asked for prices, and holds"
)

// isStrategy says whether a host has started this test binary as a strategy.
func isStrategy() bool {
	return os.Getenv(sdk.Handshake.MagicCookieKey) == sdk.Handshake.MagicCookieValue
}

func (h *heldStrategy) Describe() sdk.Description {
	return sdk.Description{Name: heldName, Version: "0.1"}
}

func (h *heldStrategy) Configure(config json.RawMessage) error { return sdk.Decode(config, &h.config) }

func (h *heldStrategy) Price(ctx context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	_, err := os.Stat(filepath.Join(h.config.Dir, holdFile))
	switch {
	case err == nil && req.Demand.Pods > 0 && !req.Now.Equal(sdk.SamplePrice().Now):
		fmt.Fprintln(os.Stderr, askedLine)
		<-ctx.Done()
		return nil, ctx.Err()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	ans := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
	for i := range req.Pools {
		for _, o := range req.Pools[i].Offerings {
			ans.Pools[i].USDPerHour = append(ans.Pools[i].USDPerHour, req.USDPerHour[o])
		}
	}
	return ans, nil
}
