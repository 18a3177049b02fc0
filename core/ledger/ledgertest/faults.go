package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/core/ledger"
)

func (b Backend) two(t testing.TB) (first, second ledger.Store) {
	first = b.New(t)
	if b.Second == nil {
		return first, first
	}
	return first, b.Second(t, first)
}

// testTwoCreators: of all who make a record exactly one is told that it did.
func testTwoCreators(t *testing.T, b Backend) {
	first, second := b.two(t)
	for round := range 8 {
		k := ledger.Key{Partition: "p", Sort: fmt.Sprint(round)}
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for i := range errs {
			s := first
			if i%2 == 1 {
				s = second
			}
			wg.Go(func() {
				_, errs[i] = s.Put(t.Context(), ledger.Item{Key: k, Data: fmt.Appendf(nil, "%d", i)}, 0, start)
			})
		}
		wg.Wait()
		got, ok, err := second.Get(t.Context(), k, start)
		if err != nil || !ok {
			t.Fatalf("round %d: nothing was made: %v", round, err)
		}
		for i, err := range errs {
			won := string(got.Data) == fmt.Sprint(i)
			if won != (err == nil) || err != nil && !errors.Is(err, ledger.ErrConflict) {
				t.Errorf("round %d: %s is stored, and writer %d was told %v", round, got.Data, i, err)
			}
		}
	}
}

// testTwoTransactions: two move the same amount between two records; the sum stays.
func testTwoTransactions(t *testing.T, b Backend) {
	first, second := b.two(t)
	for _, sort := range []string{"a", "b"} {
		mustPut(t, first, item("p", sort, `100`), 0, start)
	}
	var wg sync.WaitGroup
	won := make([]int, 4)
	for w := range won {
		s := first
		if w%2 == 1 {
			s = second
		}
		wg.Go(func() {
			for range 4 {
				held, err := s.Query(t.Context(), "p", "", start)
				if err != nil {
					t.Error(err)
					return
				}
				var puts []ledger.PutOp
				for i, step := range []int{-(w + 1), w + 1} {
					var n int
					if err := json.Unmarshal(held[i].Data, &n); err != nil {
						t.Error(err)
						return
					}
					puts = append(puts, ledger.PutOp{Item: item("p", held[i].Sort, fmt.Sprint(n+step)), Expect: held[i].Version})
				}
				switch err := s.Transact(t.Context(), puts, start); {
				case err == nil:
					won[w]++
				case !errors.Is(err, ledger.ErrConflict):
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
	moved, times := 0, int64(0)
	for w, n := range won {
		moved, times = moved+n*(w+1), times+int64(n)
	}
	got, err := second.Query(t.Context(), "p", "", start)
	if err != nil {
		t.Fatal(err)
	}
	if string(got[0].Data) != fmt.Sprint(100-moved) || string(got[1].Data) != fmt.Sprint(100+moved) || got[0].Version != 1+times || got[1].Version != 1+times {
		t.Errorf("stored %s at %d and %s at %d after %v transactions that moved %d", got[0].Data, got[0].Version, got[1].Data, got[1].Version, won, moved)
	}
}

// testTwoClocks: whether a record has expired is for each caller's own time to say.
func testTwoClocks(t *testing.T, b Backend) {
	behind, ahead := b.two(t)
	early, late := start, start.Add(3*time.Minute)
	it := item("p", "a", `"old"`)
	it.Instance, it.Expires = "i-1", start.Add(time.Minute)
	old := mustPut(t, behind, it, 0, early)
	if _, ok, err := ahead.Get(t.Context(), it.Key, late); ok || err != nil {
		t.Errorf("the clock that is ahead still sees it: %v", err)
	}
	if _, ok, err := behind.Get(t.Context(), it.Key, early); !ok || err != nil {
		t.Errorf("the clock that is behind does not see it any more: %v", err)
	}
	_, err := behind.Put(t.Context(), it, 0, early)
	wantConflict(t, "making what is there, by the clock that is behind", err)
	it.Data, it.Expires = json.RawMessage(`"new"`), late.Add(time.Minute)
	made := mustPut(t, ahead, it, 0, late)
	if made <= old {
		t.Errorf("version %d over an expired %d: it must go on, for whoever remembers the old one", made, old)
	}
	it.Data = json.RawMessage(`"stale"`)
	_, err = behind.Put(t.Context(), it, old, early)
	wantConflict(t, "writing over what somebody made anew", err)
	if got, _, err := behind.Get(t.Context(), it.Key, early); err != nil || string(got.Data) != `"new"` {
		t.Errorf("stored %s, %v", got.Data, err)
	}
}

// testPages lists more than a megabyte by instance, with items of every size.
func testPages(t *testing.T, b Backend) {
	s := b.New(t)
	sizes := []int{ledger.MaxItemBytes, 1, ledger.MaxItemBytes - 1, 300_000, 10, 250_000, ledger.MaxItemBytes}
	for i, size := range sizes {
		it := item(fmt.Sprint("p", i%2), fmt.Sprint(i), `"`+strings.Repeat("x", max(size-2, 0))+`"`)
		it.Instance = "i-1"
		mustPut(t, s, it, 0, start)
	}
	got, err := s.ByInstance(t.Context(), "i-1", start)
	if err != nil || len(got) != len(sizes) {
		t.Fatalf("%d of %d items, %v", len(got), len(sizes), err)
	}
	for i := 1; i < len(got); i++ {
		if a, b := got[i-1].Partition+"\x00"+got[i-1].Sort, got[i].Partition+"\x00"+got[i].Sort; a >= b {
			t.Errorf("%q comes before %q", a, b)
		}
	}
}

func testLostAnswers(t *testing.T, b Backend) {
	if b.Faulty == nil {
		t.Skip("an answer of this store cannot be lost")
	}
	s, faults := b.Faulty(t)
	it := item("p", "a", `1`)
	it.Instance, it.Expires = "i-1", start.Add(time.Hour)
	for i, expect := range []int64{0, 1, ledger.Any, 3} {
		faults.LoseAnswers(1)
		if v, err := s.Put(t.Context(), it, expect, start); err != nil || v != int64(i+1) {
			t.Errorf("put expecting %d: version %d, %v; want version %d", expect, v, err, i+1)
		}
	}
	_, err := s.Put(t.Context(), it, 1, start)
	wantConflict(t, "a write that really comes too late", err)
	faults.LoseAnswers(1)
	_, err = s.Put(t.Context(), it, 0, start)
	wantConflict(t, "a refusal that was lost", err)

	puts := []ledger.PutOp{{Item: item("p", "b", `1`)}, {Item: it, Expect: 4}, {Item: item("p", "c", `1`), Expect: ledger.Any}}
	faults.LoseAnswers(1)
	if err := s.Transact(t.Context(), puts, start); err != nil {
		t.Errorf("a transaction whose answer was lost: %v", err)
	}
	wantConflict(t, "the same once more", s.Transact(t.Context(), puts, start))
	got, err := s.Query(t.Context(), "p", "", start)
	if err != nil || len(got) != 3 || got[0].Version != 5 || got[1].Version != 1 || got[2].Version != 1 {
		t.Errorf("after it: %+v, %v; want every record written once", got, err)
	}
	for _, expect := range []int64{1, ledger.Any} {
		k := ledger.Key{Partition: "p", Sort: map[int64]string{1: "b", ledger.Any: "c"}[expect]}
		faults.LoseAnswers(1)
		if err := s.Delete(t.Context(), k, expect); err != nil {
			t.Errorf("delete expecting %d: %v", expect, err)
		}
		if _, ok, err := s.Get(t.Context(), k, start); ok || err != nil {
			t.Errorf("deleted record %v is there: %v", k, err)
		}
	}
}

func testThrottled(t *testing.T, b Backend) {
	if b.Faulty == nil {
		t.Skip("this store refuses no calls")
	}
	s, faults := b.Faulty(t)
	it := item("p", "a", `1`)
	faults.Throttle(2)
	if v, err := s.Put(t.Context(), it, 0, start); err != nil || v != 1 {
		t.Errorf("put: version %d, %v; want it to be tried again", v, err)
	}
	faults.Throttle(2)
	puts := []ledger.PutOp{{Item: it, Expect: 1}, {Item: item("p", "b", `1`)}}
	if err := s.Transact(t.Context(), puts, start); err != nil {
		t.Errorf("transact: %v; want it to be tried again", err)
	}
	faults.Throttle(2)
	if got, err := s.Query(t.Context(), "p", "", start); err != nil || len(got) != 2 {
		t.Errorf("query: %v, %v; want it to be tried again", got, err)
	}
	faults.Throttle(1000)
	if _, err := s.Put(t.Context(), it, 2, start); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("put: %v; want unavailable", err)
	}
	faults.Throttle(0)
	if got, _, err := s.Get(t.Context(), it.Key, start); err != nil || got.Version != 2 {
		t.Errorf("version %d after it, %v; want 2", got.Version, err)
	}
}

func testAway(t *testing.T, b Backend) {
	if b.Faulty == nil {
		t.Skip("this store cannot be away")
	}
	s, faults := b.Faulty(t)
	it := item("p", "a", `1`)
	it.Instance = "i-1"
	mustPut(t, s, it, 0, start)
	faults.Away(true)
	unavailable := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: %v, want unavailable", what, err)
		}
	}
	_, _, err := s.Get(t.Context(), it.Key, start)
	unavailable("get", err)
	_, err = s.Put(t.Context(), it, 1, start)
	unavailable("put", err)
	unavailable("transact", s.Transact(t.Context(), []ledger.PutOp{{Item: it, Expect: 1}, {Item: item("p", "b", `1`)}}, start))
	unavailable("delete", s.Delete(t.Context(), it.Key, ledger.Any))
	_, err = s.Query(t.Context(), "p", "", start)
	unavailable("query", err)
	_, err = s.ByInstance(t.Context(), "i-1", start)
	unavailable("by instance", err)
	faults.Away(false)
	if v, err := s.Put(t.Context(), it, 1, start); err != nil || v != 2 {
		t.Errorf("once it is back: version %d, %v; want 2", v, err)
	}
	if got, err := s.Query(t.Context(), "p", "", start); err != nil || len(got) != 1 {
		t.Errorf("once it is back: %v, %v; want one record", got, err)
	}
}
