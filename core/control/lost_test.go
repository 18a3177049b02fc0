package control_test

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
)

// TestTheLedgerIsLostWithItsController kills the controller around every effect of a
// life and takes the ledger's file away, as a node does that dies with an emptyDir: the
// next one goes on from objects and the tags of instances alone, buys nothing twice and
// leaves nothing over.
func TestTheLedgerIsLostWithItsController(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for k, kind := range effectsOf(t) {
		if seen[kind]++; seen[kind] > 4 && kind != "SendLaunch" {
			continue // the same kind of effect at the same kind of moment
		}
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-%d-after=%t", kind, k, after), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, nil, pool("default", model.OnDemand))
				s.Crash = func(i int, a bool, _ execute.Effect) bool {
					if s.Crashes > 0 || i != k || a != after {
						return false
					}
					s.Ledger = mem.New()
					return true
				}
				life(t, s)
				if s.Crashes != 1 {
					t.Errorf("%d crashes, expected 1", s.Crashes)
				}
			})
		}
	}
}
