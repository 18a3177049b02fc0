package ledgertest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/ledger"
)

func testNotices(t *testing.T, b Backend) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	spot := func(id string, deadline time.Time) ledger.Notice {
		return ledger.Notice{Instance: "i-1", Kind: "spot", EventID: id, FirstSeen: start, EventTime: start, Deadline: deadline, State: ledger.NoticeSeen}
	}
	planned := func(id string, sent int, state string, deadline time.Time) ledger.Notice {
		return ledger.Notice{Instance: "i-1", Kind: "scheduled", EventID: id, EventARN: "arn:x", EventTime: at(sent), EventState: state, FirstSeen: start, Deadline: deadline, State: ledger.NoticeSeen}
	}
	type step struct {
		put      ledger.Notice
		change   ledger.NoticeChange
		deadline time.Time
		event    string
	}
	for name, steps := range map[string][]step{
		"repeated": {
			{spot("e1", at(120)), ledger.NoticeNew, at(120), "e1"},
			{spot("e1", at(120)), ledger.NoticeSame, at(120), "e1"},
		},
		"earliest deadline wins": {
			{spot("e1", at(120)), ledger.NoticeNew, at(120), "e1"},
			{spot("e2", at(60)), ledger.NoticeSooner, at(60), "e2"},
			{spot("e3", at(90)), ledger.NoticeSame, at(60), "e2"},
		},
		"a deadline beats none": {
			{spot("e1", time.Time{}), ledger.NoticeNew, time.Time{}, "e1"},
			{spot("e2", at(60)), ledger.NoticeSooner, at(60), "e2"},
			{spot("e3", time.Time{}), ledger.NoticeSame, at(60), "e2"},
		},
		"a scheduled change is moved": {
			{planned("e1", 0, "upcoming", at(3600)), ledger.NoticeNew, at(3600), "e1"},
			{planned("e2", 10, "upcoming", at(7200)), ledger.NoticeUpdated, at(7200), "e2"},
			{planned("e1", 0, "upcoming", at(3600)), ledger.NoticeSame, at(7200), "e2"},
			{planned("e3", 20, "closed", at(7200)), ledger.NoticeUpdated, at(7200), "e3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.New(t)
			for i, st := range steps {
				got, change, err := ledger.PutNotice(t.Context(), s, "c", st.put, start)
				if err != nil {
					t.Fatal(err)
				}
				if change != st.change || !got.Deadline.Equal(st.deadline) || got.EventID != st.event {
					t.Errorf("step %d: %s, deadline %v of %s; want %s, %v of %s", i, change, got.Deadline, got.EventID, st.change, st.deadline, st.event)
				}
			}
		})
	}
	t.Run("states only go forward", func(t *testing.T) {
		s := b.New(t)
		if _, _, err := ledger.PutNotice(t.Context(), s, "c", spot("e1", at(120)), start); err != nil {
			t.Fatal(err)
		}
		for _, c := range [][2]string{{"draining", "draining"}, {"cordoned", "draining"}, {"done", "done"}} {
			if err := ledger.AdvanceNotice(t.Context(), s, "c", "i-1", "spot", c[0], "drain", start); err != nil {
				t.Fatal(err)
			}
			got, err := ledger.Notices(t.Context(), s, "c", start)
			if err != nil || len(got) != 1 || got[0].State != c[1] || got[0].Action != "drain" {
				t.Errorf("after %s: %+v, %v; want state %s", c[0], got, err, c[1])
			}
		}
		if err := ledger.AdvanceNotice(t.Context(), s, "c", "i-1", "spot", "lost", "", start); err == nil {
			t.Error("an unknown state was accepted")
		}
		if err := ledger.AdvanceNotice(t.Context(), s, "c", "i-9", "spot", ledger.NoticeDone, "", start); err != nil {
			t.Errorf("a notice that is gone: %v", err)
		}
	})
	t.Run("lives until its deadline and a day", func(t *testing.T) {
		s := b.New(t)
		if _, _, err := ledger.PutNotice(t.Context(), s, "c", spot("e1", at(120)), start); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ledger.PutNotice(t.Context(), s, ledger.Unowned, spot("e1", at(120)), start); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			cluster string
			now     time.Time
			want    int
		}{
			{"c", at(120).Add(24*time.Hour - time.Second), 1}, {"c", at(120).Add(24 * time.Hour), 0},
			{ledger.Unowned, start.Add(9 * time.Minute), 1}, {ledger.Unowned, start.Add(10 * time.Minute), 0},
		} {
			if got, err := ledger.Notices(t.Context(), s, c.cluster, c.now); err != nil || len(got) != c.want {
				t.Errorf("%s at %v: %d notices, %v; want %d", c.cluster, c.now, len(got), err, c.want)
			}
		}
	})
	t.Run("at once", func(t *testing.T) {
		s := b.New(t)
		var wg sync.WaitGroup
		var mu sync.Mutex // guards created
		created := 0
		for i := range 8 {
			wg.Go(func() {
				_, change, err := ledger.PutNotice(t.Context(), s, "c", spot(fmt.Sprint("e", i), at(120+i)), start)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if change == ledger.NoticeNew {
					created++
				}
			})
		}
		wg.Wait()
		got, err := ledger.Notices(t.Context(), s, "c", start)
		if err != nil || created != 1 || len(got) != 1 || !got[0].Deadline.Equal(at(120)) {
			t.Errorf("%d created, stored %+v, %v; want one with the earliest deadline", created, got, err)
		}
	})
}

func testOfferings(t *testing.T, b Backend) {
	s := b.New(t)
	const account, region, spot = "111122223333", "us-east-2", "m5.large/us-east-2a/spot"
	now := start
	for i, wait := range []time.Duration{3, 6, 12, 24, 30, 30} {
		h, err := ledger.AddShortage(t.Context(), s, account, region, spot, "InsufficientInstanceCapacity", now)
		if err != nil {
			t.Fatal(err)
		}
		if want := now.Add(wait * time.Minute); !h.ClosedUntil.Equal(want) || h.Shortages != i+1 {
			t.Errorf("shortage %d: %d in a row, closed until %v; want %v", i+1, h.Shortages, h.ClosedUntil, want)
		}
		again, err := ledger.AddShortage(t.Context(), s, account, region, spot, "again", now.Add(time.Second))
		if err != nil || again.Shortages != i+1 {
			t.Errorf("a shortage told while closed counts: %+v, %v", again, err)
		}
		now = h.ClosedUntil
	}
	h, err := ledger.AddInterruption(t.Context(), s, account, region, spot, now)
	if err != nil || h.Interruptions != 1 || !h.ClosedUntil.Equal(now.Add(3*time.Minute)) {
		t.Errorf("after an interruption: %+v, %v", h, err)
	}
	all, err := ledger.Offerings(t.Context(), s, account, region, now)
	if err != nil || len(all) != 1 || all[spot].Interruptions != 1 {
		t.Errorf("offerings: %+v, %v", all, err)
	}
	// What a release knew that had no ramp is read as one that begins.
	if n, limited := h.Room(h.ClosedUntil); n != 1 || !limited {
		t.Errorf("after it reopens: room for %d, limited %t", n, limited)
	}
}

// testRamp is two clusters that share the way back of an offering that was short.
func testRamp(t *testing.T, b Backend) {
	first, second := b.two(t)
	const account, region, key = "111122223333", "us-east-2", "m5.large/us-east-2b/spot"
	now := start
	take := func(s ledger.Store, n int, probe bool) (int64, bool) {
		t.Helper()
		h, ok, err := ledger.TakeOffering(t.Context(), s, account, region, key, n, probe, now)
		if err != nil {
			t.Fatal(err)
		}
		return h.Round, ok
	}
	settle := func(s ledger.Store, o ledger.Outcome) ledger.OfferingHealth {
		t.Helper()
		h, err := ledger.SettleOffering(t.Context(), s, account, region, key, o, now)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if _, ok := take(first, 40, false); !ok {
		t.Error("an offering that was never short is limited")
	}
	now = settle(first, ledger.Outcome{Short: true, Message: "no"}).ClosedUntil
	round, ok := take(first, 1, false)
	if _, more := take(second, 1, false); !ok || more {
		t.Errorf("first probe %t, another cluster's beside it %t; want one", ok, more)
	}
	settle(first, ledger.Outcome{Took: 1, Got: 1, Round: round})
	if _, ok := take(second, 3, false); ok {
		t.Error("three at a time after one was bought")
	}
	// Many at once: two places, taken twice, whoever comes.
	var wg sync.WaitGroup
	var mu sync.Mutex // guards got
	got := 0
	for i := range 6 {
		wg.Go(func() {
			_, ok, err := ledger.TakeOffering(t.Context(), []ledger.Store{first, second}[i%2], account, region, key, 1, false, now)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if ok {
				got++
			}
		})
	}
	wg.Wait()
	if got != 2 {
		t.Errorf("%d were taken at once, 2 are allowed", got)
	}
	// One comes and one fails: back to one, after a longer wait, and what came late changes nothing.
	settle(second, ledger.Outcome{Took: 1, Round: round, Short: true, Message: "no"})
	if h := settle(first, ledger.Outcome{Took: 1, Got: 1, Round: round}); !h.ClosedUntil.Equal(now.Add(2*ledger.ShortageFirst)) || h.Shortages != 2 {
		t.Errorf("after the next shortage: %+v", h)
	}
	if _, ok := take(second, 1, true); !ok {
		t.Error("who has nothing else may not probe an offering that is closed")
	}
	if _, ok := take(first, 1, true); ok {
		t.Error("two probes at once")
	}
	now = now.Add(ledger.RampLease)
	if _, ok := take(first, 1, false); !ok {
		t.Error("a launch of which nothing is heard holds the offering for ever")
	}
}

func testHeartbeat(t *testing.T, b Backend) {
	s := b.New(t)
	want := ledger.Heartbeat{At: start, Holder: "pod-1", Epoch: 3, Version: "v1", Active: true}
	if err := ledger.Beat(t.Context(), s, "c", want); err != nil {
		t.Fatal(err)
	}
	got, _, ok, err := ledger.Load[ledger.Heartbeat](t.Context(), s, ledger.HeartbeatKey("c"), start.Add(25*time.Hour))
	if err != nil || !ok {
		t.Fatalf("heartbeat after a day: %v, %v", ok, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("heartbeat (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		after          time.Duration
		alive, governs bool
	}{{89 * time.Second, true, true}, {90 * time.Second, false, true}, {24 * time.Hour, false, false}} {
		now := start.Add(c.after)
		if got.Alive(now) != c.alive || got.Governs(now) != c.governs {
			t.Errorf("after %v: alive %v, governs %v; want %v, %v", c.after, got.Alive(now), got.Governs(now), c.alive, c.governs)
		}
	}
	got.Active = false
	if got.Governs(start) {
		t.Error("a passive scaler governs")
	}
}

func testDecisions(t *testing.T, b Backend) {
	s := b.New(t)
	for i := range 3 {
		at := start.Add(time.Duration(i) * time.Second)
		id, err := ledger.NewID(at, bytes.NewReader(make([]byte, 16)))
		if err != nil {
			t.Fatal(err)
		}
		if err := ledger.PutDecision(t.Context(), s, "c", id, ledger.Decision{At: at, What: fmt.Sprint("d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ledger.List[ledger.Decision](t.Context(), s, ledger.DecisionKey("c", start, "x").Partition, "", start)
	if err != nil {
		t.Fatal(err)
	}
	var what []string
	for _, d := range got {
		what = append(what, d.What)
	}
	if diff := cmp.Diff([]string{"d0", "d1", "d2"}, what); diff != "" {
		t.Errorf("the day's decisions (-want +got):\n%s", diff)
	}
}
