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
