package respond_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A pod that asks for longer than its machine lives gets what is left, one that was terminating before is cut to that once,
// and neither counts twice.
func TestGracePeriodsEndWithTheMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := spotNode("n1", i1, "fits", "long", "slow")
		n.Pods[1].GracePeriod, n.Pods[2].GracePeriod = 10*time.Minute, 10*time.Minute
		ends := time.Now().Add(9 * time.Minute)
		n.Pods[2].Deleting, n.Pods[2].DeletingGrace = &ends, 10*time.Minute
		f := newFake(n)
		f.stops = time.Hour // they take all that they get
		got := handle(t, responder(t, f, nil), []byte(spot("e1", i1, "terminate")))
		if len(got) != 1 || !got[0].Done || got[0].Evicted != 2 || got[0].Waiting != 0 {
			t.Errorf("outcome %+v", got)
		}
		evictions := f.writes()[3:]
		slices.Sort(evictions)
		if want := []string{"evict fits", "evict long 1m58s", "evict slow 1m58s"}; !slices.Equal(evictions, want) {
			t.Errorf("evictions %q, want %q", evictions, want)
		}
	})
}
