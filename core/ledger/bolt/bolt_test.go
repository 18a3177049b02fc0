package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/bolt"
	"github.com/weir-project/weir/core/ledger/ledgertest"
)

const childEnv = "WEIR_BOLT_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path)
	}
	os.Exit(m.Run())
}

// child writes records until it is killed and prints each one that was acknowledged.
func child(path string) {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		it := ledger.Item{Key: ledger.Key{Partition: "p", Sort: fmt.Sprintf("%06d", i)}, Instance: "i-1", Data: []byte(`1`)}
		if _, err := s.Put(context.Background(), it, 0, time.Time{}); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(it.Sort)
	}
}

func open(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSuite(t *testing.T) {
	t.Parallel()
	paths := newPaths()
	ledgertest.Run(t, ledgertest.Backend{
		New: func(t testing.TB) ledger.Store {
			path := filepath.Join(t.TempDir(), "folder", "ledger.db")
			s := open(t, path)
			paths.set(s, path)
			return s
		},
		Reopen: func(t testing.TB, s ledger.Store) ledger.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, paths.get(s))
		},
	})
}

func TestSecondOpenIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	open(t, path)
	_, err := bolt.Open(path, bolt.Options{LockWait: 10 * time.Millisecond})
	if !errors.Is(err, bolt.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want ErrLocked that names %s", err, path)
	}
}

func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var acknowledged []string
	for len(acknowledged) < 25 && lines.Scan() {
		acknowledged = append(acknowledged, lines.Text())
	}
	if _, err := bolt.Open(path, bolt.Options{LockWait: time.Millisecond}); !errors.Is(err, bolt.ErrLocked) {
		t.Errorf("opened beside another process: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		acknowledged = append(acknowledged, lines.Text())
	}
	if err := cmd.Wait(); err == nil || len(acknowledged) < 25 {
		t.Fatalf("the writer ended by itself (%v) after %v", err, acknowledged)
	}
	s := open(t, path)
	for _, sort := range acknowledged {
		if _, ok, err := s.Get(t.Context(), ledger.Key{Partition: "p", Sort: sort}, time.Time{}); !ok || err != nil {
			t.Errorf("record %s was acknowledged and is gone: %v", sort, err)
		}
	}
	byKey, err := s.Query(t.Context(), "p", "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	byInstance, err := s.ByInstance(t.Context(), "i-1", time.Time{})
	if err != nil || len(byInstance) != len(byKey) {
		t.Errorf("%d records, %d in the index (%v): they must agree", len(byKey), len(byInstance), err)
	}
}

func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("not a ledger ", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(dir, "later.db")
	db, err := bbolt.Open(later, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		return b.Put([]byte("format"), []byte("2"))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		garbage:                  "not a ledger file",
		later:                    "upgrade the scaler",
		dir:                      "is a directory",
		"":                       "no path",
		garbage + "/x/ledger.db": "not a directory",
	} {
		s, err := bolt.Open(path, bolt.Options{})
		if err == nil {
			t.Errorf("%q was opened: %v", path, s.Close())
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %q, want %q in it", path, err, want)
		}
	}
}

func TestSweepDropsExpiredRecords(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for sort, expires := range map[string]time.Time{"dead": now, "alive": now.Add(time.Second), "forever": {}} {
		it := ledger.Item{Key: ledger.Key{Partition: "p", Sort: sort}, Instance: "i-1", Expires: expires, Data: []byte(`1`)}
		if _, err := s.Put(t.Context(), it, 0, now.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Sweep(t.Context(), now); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want 1", n, err)
	}
	got, err := s.ByInstance(t.Context(), "i-1", now.Add(-time.Hour))
	if err != nil || len(got) != 2 {
		t.Errorf("%d records left, %v; want 2", len(got), err)
	}
}

func TestWritesDropWhatHasExpired(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
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
