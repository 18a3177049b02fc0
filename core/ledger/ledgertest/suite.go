package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/ledger"
)

// Backend is the store under test.
type Backend struct {
	// New makes an empty store that ends with the test.
	New func(t testing.TB) ledger.Store
	// Reopen closes the store and opens what it kept; nil where nothing outlives it.
	Reopen func(t testing.TB, s ledger.Store) ledger.Store
	// Second opens what the store keeps once more, as another process does; nil where
	// only one can have it open, who is then asked twice.
	Second func(t testing.TB, s ledger.Store) ledger.Store
	// Faulty makes an empty store with something between it and the caller that fails as
	// ordered; nil where there is nothing between them.
	Faulty func(t testing.TB) (ledger.Store, Faults)
}

// Faults of what lies between a store and its callers.
type Faults struct {
	LoseAnswers func(n int)  // the next n writes are done, and their answers lost
	Throttle    func(n int)  // the next n calls are refused because there were too many
	Away        func(b bool) // nothing can be reached, until it is false again
}

// start is far from now, so that a store which removes by its own clock removes nothing.
var start = time.Date(2096, 3, 1, 12, 0, 0, 0, time.UTC)

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	t.Helper()
	for name, f := range map[string]func(*testing.T, Backend){
		"versions":           testVersions,
		"conflicts":          testConflicts,
		"expiry":             testExpiry,
		"transact":           testTransact,
		"delete":             testDelete,
		"query":              testQuery,
		"by instance":        testByInstance,
		"concurrent writers": testConcurrent,
		"large values":       testLarge,
		"refused items":      testRefused,
		"caller's bytes":     testAliasing,
		"cancelled context":  testCancelled,
		"closed":             testClosed,
		"reopen":             testReopen,
		"against a model":    testModel,
		"notices":            testNotices,
		"offerings":          testOfferings,
		"ramp":               testRamp,
		"heartbeat":          testHeartbeat,
		"decisions":          testDecisions,
		"two creators":       testTwoCreators,
		"two transactions":   testTwoTransactions,
		"two clocks":         testTwoClocks,
		"pages":              testPages,
		"lost answers":       testLostAnswers,
		"throttled":          testThrottled,
		"away and back":      testAway,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, b)
		})
	}
}

func item(partition, sort, data string) ledger.Item {
	return ledger.Item{Key: ledger.Key{Partition: partition, Sort: sort}, Data: json.RawMessage(data)}
}

func mustPut(t testing.TB, s ledger.Store, it ledger.Item, expect int64, now time.Time) int64 {
	t.Helper()
	v, err := s.Put(t.Context(), it, expect, now)
	if err != nil {
		t.Fatalf("put %v: %v", it.Key, err)
	}
	return v
}

func wantConflict(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("%s: error %v, want a conflict", what, err)
	}
}

func sorts(items []ledger.Item) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.Sort
	}
	return out
}

func testVersions(t *testing.T, b Backend) {
	s := b.New(t)
	it := item("c/claim", "u1", `{"a":1}`)
	it.Instance, it.Expires = "i-1", start.Add(time.Hour)
	if v := mustPut(t, s, it, 0, start); v != 1 {
		t.Errorf("version of the first write = %d, want 1", v)
	}
	it.Data = json.RawMessage(`{"a":2}`)
	if v := mustPut(t, s, it, 1, start); v != 2 {
		t.Errorf("version of the second write = %d, want 2", v)
	}
	if v := mustPut(t, s, it, ledger.Any, start); v != 3 {
		t.Errorf("version of a write over anything = %d, want 3", v)
	}
	got, ok, err := s.Get(t.Context(), it.Key, start)
	if err != nil || !ok {
		t.Fatalf("get: %v, %v", ok, err)
	}
	it.Version = 3
	if diff := cmp.Diff(it, got); diff != "" {
		t.Errorf("get (-want +got):\n%s", diff)
	}
	if _, ok, err := s.Get(t.Context(), ledger.Key{Partition: "c/claim", Sort: "other"}, start); ok || err != nil {
		t.Errorf("get of nothing: %v, %v", ok, err)
	}
}

func testConflicts(t *testing.T, b Backend) {
	s := b.New(t)
	it := item("p", "a", `1`)
	_, err := s.Put(t.Context(), it, 1, start)
	wantConflict(t, "update of nothing", err)
	mustPut(t, s, it, 0, start)
	_, err = s.Put(t.Context(), it, 0, start)
	wantConflict(t, "second create", err)
	_, err = s.Put(t.Context(), it, 7, start)
	wantConflict(t, "update of another version", err)
	if got, _, _ := s.Get(t.Context(), it.Key, start); got.Version != 1 {
		t.Errorf("version after refused writes = %d, want 1", got.Version)
	}
}

func testExpiry(t *testing.T, b Backend) {
	s := b.New(t)
	it := item("p", "a", `1`)
	it.Instance, it.Expires = "i-1", start.Add(time.Minute)
	old := mustPut(t, s, it, 0, start)
	last, end := start.Add(time.Minute-time.Second), start.Add(time.Minute)
	for _, c := range []struct {
		now  time.Time
		seen int
	}{{last, 1}, {end, 0}, {end.Add(time.Hour), 0}} {
		_, ok, err := s.Get(t.Context(), it.Key, c.now)
		if err != nil || ok != (c.seen == 1) {
			t.Errorf("get at %v: %v, %v", c.now, ok, err)
		}
		q, err := s.Query(t.Context(), "p", "", c.now)
		if err != nil || len(q) != c.seen {
			t.Errorf("query at %v: %d items, %v; want %d", c.now, len(q), err, c.seen)
		}
		i, err := s.ByInstance(t.Context(), "i-1", c.now)
		if err != nil || len(i) != c.seen {
			t.Errorf("by instance at %v: %d items, %v; want %d", c.now, len(i), err, c.seen)
		}
	}
	_, err := s.Put(t.Context(), it, old, end)
	wantConflict(t, "update of an expired record", err)
	it.Expires = time.Time{}
	next := mustPut(t, s, it, 0, end)
	if _, err := s.Put(t.Context(), it, next, end); err != nil {
		t.Errorf("update of the record made over the expired one: %v", err)
	}
	if _, ok, _ := s.Get(t.Context(), it.Key, end.Add(1000*time.Hour)); !ok {
		t.Error("a record without expiry was not found")
	}
}

func testTransact(t *testing.T, b Backend) {
	s := b.New(t)
	mustPut(t, s, item("p", "held", `1`), 0, start)
	err := s.Transact(t.Context(), []ledger.PutOp{
		{Item: item("p", "new", `2`), Expect: 0},
		{Item: item("p", "held", `2`), Expect: 5},
	}, start)
	wantConflict(t, "transaction with one wrong version", err)
	if _, ok, _ := s.Get(t.Context(), ledger.Key{Partition: "p", Sort: "new"}, start); ok {
		t.Error("a refused transaction wrote something")
	}
	err = s.Transact(t.Context(), []ledger.PutOp{
		{Item: item("p", "new", `2`), Expect: 0},
		{Item: item("other", "new", `2`), Expect: ledger.Any},
		{Item: item("p", "held", `2`), Expect: 1},
	}, start)
	if err != nil {
		t.Fatalf("transact: %v", err)
	}
	got, err := s.Query(t.Context(), "p", "", start)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"held", "new"}, sorts(got)); diff != "" {
		t.Errorf("after the transaction (-want +got):\n%s", diff)
	}
	if got[0].Version != 2 || got[1].Version != 1 {
		t.Errorf("versions %d and %d, want 2 and 1", got[0].Version, got[1].Version)
	}
	if err := s.Transact(t.Context(), nil, start); err != nil {
		t.Errorf("empty transaction: %v", err)
	}
	twice := []ledger.PutOp{{Item: item("p", "x", `1`)}, {Item: item("p", "x", `2`), Expect: 1}}
	if err := s.Transact(t.Context(), twice, start); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("one record twice in a transaction: %v, want it refused", err)
	}
}

func testDelete(t *testing.T, b Backend) {
	s := b.New(t)
	it := item("p", "a", `1`)
	it.Instance = "i-1"
	mustPut(t, s, it, 0, start)
	wantConflict(t, "delete of another version", s.Delete(t.Context(), it.Key, 4))
	if err := s.Delete(t.Context(), it.Key, 1); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := s.Get(t.Context(), it.Key, start); ok {
		t.Error("deleted record was found")
	}
	if got, _ := s.ByInstance(t.Context(), "i-1", start); len(got) != 0 {
		t.Errorf("deleted record is still listed by instance: %v", got)
	}
	if err := s.Delete(t.Context(), it.Key, 1); err != nil {
		t.Errorf("delete of nothing: %v", err)
	}
	mustPut(t, s, it, 0, start)
	if err := s.Delete(t.Context(), it.Key, ledger.Any); err != nil {
		t.Errorf("delete of whatever is there: %v", err)
	}
}

func testQuery(t *testing.T, b Backend) {
	s := b.New(t)
	for _, k := range [][2]string{
		{"c/notice", "i-2/spot"}, {"c/notice", "i-1/spot"}, {"c/notice", "i-1/rebalance"}, {"c/notice", "i-10/spot"},
		{"c/notices", "i-1/spot"}, {"c/notic", "i-1/spot"}, {"c", "notice/i-1"},
	} {
		mustPut(t, s, item(k[0], k[1], `{}`), 0, start)
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"", []string{"i-1/rebalance", "i-1/spot", "i-10/spot", "i-2/spot"}},
		{"i-1/", []string{"i-1/rebalance", "i-1/spot"}},
		{"i-1/spot", []string{"i-1/spot"}},
		{"i-3", []string{}},
	} {
		got, err := s.Query(t.Context(), "c/notice", c.prefix, start)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, sorts(got)); diff != "" {
			t.Errorf("prefix %q (-want +got):\n%s", c.prefix, diff)
		}
	}
	const many = 60 // together more than a page of any store, which is 1 MB at DynamoDB's
	for i := range many {
		mustPut(t, s, item("many", fmt.Sprintf("%06d", many-i), `{"pad":"`+strings.Repeat("x", 30000)+`"}`), 0, start)
	}
	got, err := s.Query(t.Context(), "many", "", start)
	if err != nil || len(got) != many {
		t.Fatalf("a long list: %d of %d items, %v", len(got), many, err)
	}
	for i, it := range got {
		if want := fmt.Sprintf("%06d", i+1); it.Sort != want {
			t.Fatalf("item %d is %s, want %s", i, it.Sort, want)
		}
	}
}

func testByInstance(t *testing.T, b Backend) {
	s := b.New(t)
	put := func(p, sort, instance string, expect int64) {
		it := item(p, sort, `{}`)
		it.Instance = instance
		mustPut(t, s, it, expect, start)
	}
	put("c/claim", "u1", "i-1", 0)
	put("c/notice", "i-1/spot", "i-1", 0)
	put("c/claim", "u2", "i-11", 0)
	put("c/claim", "u3", "", 0)
	list := func(id string) []string {
		got, err := s.ByInstance(t.Context(), id, start)
		if err != nil {
			t.Fatal(err)
		}
		return sorts(got)
	}
	if diff := cmp.Diff([]string{"u1", "i-1/spot"}, list("i-1")); diff != "" {
		t.Errorf("i-1 (-want +got):\n%s", diff)
	}
	put("c/claim", "u1", "i-2", 1)
	put("c/claim", "u2", "", 1)
	for id, want := range map[string][]string{"i-1": {"i-1/spot"}, "i-2": {"u1"}, "i-11": {}, "": {}} {
		if diff := cmp.Diff(want, list(id)); diff != "" {
			t.Errorf("%q after the instances changed (-want +got):\n%s", id, diff)
		}
	}
}

func testConcurrent(t *testing.T, b Backend) {
	s := b.New(t)
	const writers, each = 8, 10
	k := ledger.Key{Partition: "p", Sort: "count"}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				for {
					it, _, err := s.Get(t.Context(), k, start)
					if err != nil {
						t.Errorf("writer %d: %v", w, err)
						return
					}
					n := 0
					if it.Data != nil {
						if err := json.Unmarshal(it.Data, &n); err != nil {
							t.Errorf("writer %d: %v", w, err)
							return
						}
					}
					_, err = s.Put(t.Context(), ledger.Item{Key: k, Data: fmt.Appendf(nil, "%d", n+1)}, it.Version, start)
					if err == nil {
						break
					}
					if !errors.Is(err, ledger.ErrConflict) {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	it, _, err := s.Get(t.Context(), k, start)
	if err != nil || string(it.Data) != fmt.Sprint(writers*each) || it.Version != writers*each {
		t.Errorf("count %s at version %d (%v), want %d: a write was lost", it.Data, it.Version, err, writers*each)
	}
}

func testLarge(t *testing.T, b Backend) {
	s := b.New(t)
	big := item("p", "big", `"`+strings.Repeat("x", ledger.MaxItemBytes-2)+`"`)
	mustPut(t, s, big, 0, start)
	got, ok, err := s.Get(t.Context(), big.Key, start)
	if err != nil || !ok || string(got.Data) != string(big.Data) {
		t.Errorf("a large value came back as %d bytes: %v, %v", len(got.Data), ok, err)
	}
	big.Data = json.RawMessage(`"` + strings.Repeat("x", ledger.MaxItemBytes) + `"`)
	if _, err := s.Put(t.Context(), big, ledger.Any, start); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("too large a value: %v, want it refused", err)
	}
}

func testRefused(t *testing.T, b Backend) {
	s := b.New(t)
	withInstance := item("p", "a", `1`)
	withInstance.Instance = "i\x00"
	for name, it := range map[string]ledger.Item{
		"no partition":    item("", "a", `1`),
		"no sort":         item("p", "", `1`),
		"NUL in key":      item("p", "a\x00b", `1`),
		"NUL in instance": withInstance,
		"long key":        item("p", strings.Repeat("k", 5000), `1`),
		"no data":         item("p", "a", ``),
		"no JSON":         item("p", "a", `{"a":`),
	} {
		if _, err := s.Put(t.Context(), it, ledger.Any, start); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: put: %v, want it refused", name, err)
		}
		if err := s.Transact(t.Context(), []ledger.PutOp{{Item: it, Expect: ledger.Any}}, start); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: transact: %v, want it refused", name, err)
		}
	}
	many := make([]ledger.PutOp, ledger.MaxTransact+1)
	for i := range many {
		many[i] = ledger.PutOp{Item: item("p", fmt.Sprint(i), `1`)}
	}
	if err := s.Transact(t.Context(), many, start); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("%d writes at once: %v, want them refused", len(many), err)
	}
	heavy := make([]ledger.PutOp, 10)
	for i := range heavy {
		heavy[i] = ledger.PutOp{Item: item("p", fmt.Sprint(i), `"`+strings.Repeat("x", ledger.MaxItemBytes-2)+`"`)}
	}
	if err := s.Transact(t.Context(), heavy, start); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("10 of the largest items at once: %v, want them refused", err)
	}
}

func testAliasing(t *testing.T, b Backend) {
	s := b.New(t)
	it := item("p", "a", `"before"`)
	mustPut(t, s, it, 0, start)
	copy(it.Data, `"mangle"`)
	got, _, _ := s.Get(t.Context(), it.Key, start)
	if string(got.Data) != `"before"` {
		t.Errorf("the store keeps the caller's bytes: %s", got.Data)
	}
	copy(got.Data, `"mangle"`)
	if again, _, _ := s.Get(t.Context(), it.Key, start); string(again.Data) != `"before"` {
		t.Errorf("the store hands out its own bytes: %s", again.Data)
	}
}

func testCancelled(t *testing.T, b Backend) {
	s := b.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	it := item("p", "a", `1`)
	if _, err := s.Put(ctx, it, 0, start); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v, want it cancelled", err)
	}
	if _, _, err := s.Get(ctx, it.Key, start); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v, want it cancelled", err)
	}
	if _, ok, err := s.Get(t.Context(), it.Key, start); ok || err != nil {
		t.Errorf("a cancelled put wrote something: %v, %v", ok, err)
	}
}

func testClosed(t *testing.T, b Backend) {
	s := b.New(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), item("p", "a", `1`), 0, start); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("put: %v, want unavailable", err)
	}
	if _, err := s.Query(t.Context(), "p", "", start); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("query: %v, want unavailable", err)
	}
}

func testReopen(t *testing.T, b Backend) {
	if b.Reopen == nil {
		t.Skip("nothing outlives this store")
	}
	s := b.New(t)
	it := item("p", "a", `{"kept":true}`)
	it.Instance, it.Expires = "i-1", start.Add(time.Hour)
	mustPut(t, s, it, 0, start)
	mustPut(t, s, it, 1, start)
	s = b.Reopen(t, s)
	it.Version = 2
	got, err := s.ByInstance(t.Context(), "i-1", start)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ledger.Item{it}, got); diff != "" {
		t.Errorf("after it was opened again (-want +got):\n%s", diff)
	}
	_, err = s.Put(t.Context(), it, 1, start)
	wantConflict(t, "old version after it was opened again", err)
}

// testModel compares random runs with a plain map.
func testModel(t *testing.T, b Backend) {
	s := b.New(t)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		partition := fmt.Sprintf("run-%d", run)
		held := map[string]ledger.Item{}
		now := start
		for range rapid.IntRange(1, 15).Draw(r, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "key")
			old, ok := held[key]
			if ok && !old.Expires.IsZero() && !now.Before(old.Expires) {
				ok = false
			}
			switch rapid.IntRange(0, 3).Draw(r, "kind") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(r, "seconds")) * time.Second)
			case 1:
				if err := s.Delete(t.Context(), ledger.Key{Partition: partition, Sort: key}, ledger.Any); err != nil {
					r.Fatalf("delete: %v", err)
				}
				delete(held, key)
			default:
				expect := rapid.SampledFrom([]int64{ledger.Any, 0, old.Version}).Draw(r, "expect")
				it := item(partition, key, fmt.Sprint(rapid.Int().Draw(r, "data")))
				if rapid.Bool().Draw(r, "expires") {
					it.Expires = now.Add(time.Minute)
				}
				v, err := s.Put(t.Context(), it, expect, now)
				allowed := expect == ledger.Any || ok && expect == old.Version || !ok && expect == 0
				if allowed != (err == nil) {
					r.Fatalf("put expecting %d over %+v (there: %v): %v", expect, old, ok, err)
				}
				if err == nil {
					it.Version = v
					held[key] = it
				}
			}
			compareModel(t, r, s, partition, held, now)
		}
	})
}

func compareModel(t *testing.T, r *rapid.T, s ledger.Store, partition string, held map[string]ledger.Item, now time.Time) {
	got, err := s.Query(t.Context(), partition, "", now)
	if err != nil {
		r.Fatalf("query: %v", err)
	}
	var want []ledger.Item
	for _, k := range []string{"a", "b", "c"} {
		if it, ok := held[k]; ok && (it.Expires.IsZero() || now.Before(it.Expires)) {
			want = append(want, it)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("at %v (-want +got):\n%s", now, diff)
	}
}
