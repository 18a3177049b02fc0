package mem_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/ledgertest"
	"github.com/weir-project/weir/core/ledger/mem"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.Backend{New: func(testing.TB) ledger.Store { return mem.New() }})
}

func TestSweepDropsExpiredRecords(t *testing.T) {
	t.Parallel()
	s := mem.New()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for sort, expires := range map[string]time.Time{"dead": now, "alive": now.Add(time.Second), "forever": {}} {
		it := ledger.Item{Key: ledger.Key{Partition: "p", Sort: sort}, Expires: expires, Data: []byte(`1`)}
		if _, err := s.Put(t.Context(), it, 0, now.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Sweep(t.Context(), now); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want 1", n, err)
	}
	got, err := s.Query(t.Context(), "p", "", now.Add(-time.Hour))
	if err != nil || len(got) != 2 {
		t.Errorf("%d records left, %v; want 2", len(got), err)
	}
}

func TestWritesDropWhatHasExpired(t *testing.T) {
	t.Parallel()
	s := mem.New()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	put := func(sort string, at time.Time) {
		it := ledger.Item{Key: ledger.Key{Partition: "p", Sort: sort}, Expires: at.Add(time.Minute), Data: []byte(`1`)}
		if err := s.Transact(t.Context(), []ledger.PutOp{{Item: it}}, at); err != nil {
			t.Fatal(err)
		}
	}
	put("a", now)
	put("b", now.Add(59*time.Minute))
	left := func() int { // a look at what the store still holds, from before it expired
		got, err := s.Query(t.Context(), "p", "", now)
		if err != nil {
			t.Fatal(err)
		}
		return len(got)
	}
	if left() != 2 {
		t.Errorf("%d records within the hour, want 2", left())
	}
	put("c", now.Add(62*time.Minute))
	if left() != 2 {
		t.Errorf("%d records after an hour, want a gone and b kept, which expired just now", left())
	}
	put("d", now.Add(125*time.Minute))
	if left() != 1 {
		t.Errorf("%d records after two hours, want the last one", left())
	}
}
