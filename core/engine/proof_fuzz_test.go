package engine_test

import (
	"math"
	"testing"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// FuzzPlace makes a world of the bytes: whatever it is, Place answers for every pod,
// does not panic, and the check accepts the plan. Odd first bytes ask for absurd
// amounts as well.
func FuzzPlace(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06\x00\x07"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		absurd := len(data) > 0 && data[0]%2 == 1
		d := fromBytes(data)
		d.n(256)
		w := proofWorld(d)
		if absurd {
			for _, p := range w.Pods {
				switch d.n(8) {
				case 0:
					p.Requests.Base[resource.Memory] = math.MaxInt64
				case 1:
					p.Requests.Base[resource.CPU] = math.MaxInt64 - 1
				case 2:
					p.Requests = p.Requests.With("example.com/other", math.MaxInt64)
				}
			}
		}
		prices := proofPrices(d, w)
		r := engine.Place(w, prices)
		for _, err := range engine.CheckPriced(w, &model.Plan{Launch: r.New, Placements: r.Placements, Unplaced: r.Unplaced}, prices) {
			t.Errorf("check: %v", err)
		}
		if usd := total(r); usd < r.Bound-1e-9 {
			t.Errorf("the plan costs %v, below its bound %v", usd, r.Bound)
		}
	})
}
