package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	bbolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/weir-project/weir/core/ledger"
)

// ErrLocked says that another process has the file open.
var ErrLocked = errors.New("ledger file is in use by another process: the bolt ledger serves one scaler; stop the other one, or use the dynamodb ledger")

// format is the major version of the layout; a file of a later one is refused.
const format = 1

var (
	bucketItems     = []byte("items")
	bucketInstances = []byte("instances")
	bucketMeta      = []byte("meta")
	keyFormat       = []byte("format")
)

// Options of a store.
type Options struct {
	// LockWait is how long Open waits for another process to let go of the file, as
	// happens when a pod is replaced; 0 = 2 s.
	LockWait time.Duration
}

// Store is a ledger in a file. Writes drop what expired an hour ago, once in an hour of
// the time that they are given.
type Store struct {
	db    *bbolt.DB
	path  string
	swept atomic.Int64 // unix seconds of the last sweep
}

var (
	_ ledger.Store   = (*Store)(nil)
	_ ledger.Sweeper = (*Store)(nil)
)

// record is what is stored under a key.
type record struct {
	Version  int64           `json:"v"`
	Expires  time.Time       `json:"e,omitzero"`
	Instance string          `json:"i,omitempty"`
	Data     json.RawMessage `json:"d"`
}

// Open opens the file, or makes it together with its folder.
func Open(path string, opts Options) (*Store, error) {
	if path == "" {
		return nil, errors.New("opening ledger: no path given")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("opening ledger %s: %w", path, err)
	}
	wait := opts.LockWait
	if wait == 0 {
		wait = 2 * time.Second
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: wait, FreelistType: bbolt.FreelistMapType})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("opening ledger %s: %w", path, ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("opening ledger %s: not a ledger file, or a damaged one (%w); move it away and the ledger is rebuilt from objects and tags", path, err)
	case err != nil:
		return nil, fmt.Errorf("opening ledger %s: %w", path, err)
	}
	s := &Store{db: db, path: path}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening ledger %s: %w", path, err), db.Close())
	}
	return s, nil
}

func (s *Store) prepare() error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, b := range [][]byte{bucketItems, bucketInstances, bucketMeta} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		held := meta.Get(keyFormat)
		if held == nil {
			return meta.Put(keyFormat, []byte(strconv.Itoa(format)))
		}
		v, err := strconv.Atoi(string(held))
		if err != nil || v > format {
			return fmt.Errorf("its format is %q, this version knows up to %d: upgrade the scaler", held, format)
		}
		return nil
	})
}

func itemKey(k ledger.Key) []byte { return []byte(k.Partition + "\x00" + k.Sort) }

func instanceKey(instance string, k ledger.Key) []byte {
	return []byte(instance + "\x00" + k.Partition + "\x00" + k.Sort)
}

func splitKey(b []byte) ledger.Key {
	p, sort, _ := bytes.Cut(b, []byte{0})
	return ledger.Key{Partition: string(p), Sort: string(sort)}
}

// decode copies, because bbolt's bytes live only as long as the transaction.
func decode(k ledger.Key, b []byte) (ledger.Item, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return ledger.Item{}, fmt.Errorf("record %v is damaged: %w", k, err)
	}
	return ledger.Item{Key: k, Version: r.Version, Expires: r.Expires, Instance: r.Instance, Data: r.Data}, nil
}

func (s *Store) view(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.wrap(s.db.View(f))
}

func (s *Store) update(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.wrap(s.db.Update(f))
}

func (s *Store) wrap(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return fmt.Errorf("%w: %s is closed", ledger.ErrUnavailable, s.path)
	}
	return err
}

func held(tx *bbolt.Tx, k ledger.Key) (ledger.Item, bool, error) {
	b := tx.Bucket(bucketItems).Get(itemKey(k))
	if b == nil {
		return ledger.Item{}, false, nil
	}
	it, err := decode(k, b)
	return it, err == nil, err
}

// Get implements ledger.Store.
func (s *Store) Get(ctx context.Context, k ledger.Key, now time.Time) (it ledger.Item, ok bool, err error) {
	if err := ledger.CheckKey(k); err != nil {
		return ledger.Item{}, false, err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		it, ok, err = held(tx, k)
		return err
	})
	if err != nil || !ok || it.Expired(now) {
		return ledger.Item{}, false, err
	}
	return it, true, nil
}

// Put implements ledger.Store.
func (s *Store) Put(ctx context.Context, it ledger.Item, expect int64, now time.Time) (version int64, err error) {
	if err := ledger.CheckItem(it); err != nil {
		return 0, err
	}
	err = s.update(ctx, func(tx *bbolt.Tx) error {
		version, err = put(tx, it, expect, now)
		if err != nil {
			return err
		}
		return s.housekeep(tx, now)
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

func (s *Store) housekeep(tx *bbolt.Tx, now time.Time) error {
	if now.Unix()-s.swept.Load() < int64(time.Hour/time.Second) {
		return nil
	}
	if _, err := sweep(tx, now.Add(-ledger.SweepGrace)); err != nil {
		return fmt.Errorf("sweeping %s: %w", s.path, err)
	}
	s.swept.Store(now.Unix())
	return nil
}

func put(tx *bbolt.Tx, it ledger.Item, expect int64, now time.Time) (int64, error) {
	old, ok, err := held(tx, it.Key)
	if err != nil {
		return 0, err
	}
	version, err := ledger.NextVersion(old, ok, expect, now)
	if err != nil {
		return 0, fmt.Errorf("putting %v: %w", it.Key, err)
	}
	b, err := json.Marshal(record{Version: version, Expires: it.Expires, Instance: it.Instance, Data: it.Data})
	if err != nil {
		return 0, fmt.Errorf("putting %v: %w", it.Key, err)
	}
	index := tx.Bucket(bucketInstances)
	if ok && old.Instance != "" && old.Instance != it.Instance {
		if err := index.Delete(instanceKey(old.Instance, it.Key)); err != nil {
			return 0, fmt.Errorf("putting %v: %w", it.Key, err)
		}
	}
	if it.Instance != "" {
		if err := index.Put(instanceKey(it.Instance, it.Key), nil); err != nil {
			return 0, fmt.Errorf("putting %v: %w", it.Key, err)
		}
	}
	if err := tx.Bucket(bucketItems).Put(itemKey(it.Key), b); err != nil {
		return 0, fmt.Errorf("putting %v: %w", it.Key, err)
	}
	return version, nil
}

// Transact implements ledger.Store.
func (s *Store) Transact(ctx context.Context, puts []ledger.PutOp, now time.Time) error {
	if err := ledger.CheckTransact(puts); err != nil {
		return err
	}
	return s.update(ctx, func(tx *bbolt.Tx) error {
		for _, p := range puts {
			if _, err := put(tx, p.Item, p.Expect, now); err != nil {
				return err
			}
		}
		return s.housekeep(tx, now)
	})
}

// Delete implements ledger.Store.
func (s *Store) Delete(ctx context.Context, k ledger.Key, expect int64) error {
	if err := ledger.CheckKey(k); err != nil {
		return err
	}
	return s.update(ctx, func(tx *bbolt.Tx) error {
		it, ok, err := held(tx, k)
		if err != nil || !ok {
			return err
		}
		if expect != ledger.Any && expect != it.Version {
			return fmt.Errorf("deleting %v: %w", k, ledger.ErrConflict)
		}
		return drop(tx, it)
	})
}

func drop(tx *bbolt.Tx, it ledger.Item) error {
	if it.Instance != "" {
		if err := tx.Bucket(bucketInstances).Delete(instanceKey(it.Instance, it.Key)); err != nil {
			return fmt.Errorf("deleting %v: %w", it.Key, err)
		}
	}
	if err := tx.Bucket(bucketItems).Delete(itemKey(it.Key)); err != nil {
		return fmt.Errorf("deleting %v: %w", it.Key, err)
	}
	return nil
}

// Query implements ledger.Store.
func (s *Store) Query(ctx context.Context, partition, prefix string, now time.Time) ([]ledger.Item, error) {
	var out []ledger.Item
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		from := itemKey(ledger.Key{Partition: partition, Sort: prefix})
		c := tx.Bucket(bucketItems).Cursor()
		for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, from); k, v = c.Next() {
			it, err := decode(splitKey(k), v)
			if err != nil {
				return err
			}
			if !it.Expired(now) {
				out = append(out, it)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", partition, err)
	}
	return out, nil
}

// ByInstance implements ledger.Store.
func (s *Store) ByInstance(ctx context.Context, instanceID string, now time.Time) ([]ledger.Item, error) {
	if instanceID == "" {
		return nil, nil
	}
	var out []ledger.Item
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		from := []byte(instanceID + "\x00")
		c := tx.Bucket(bucketInstances).Cursor()
		for k, _ := c.Seek(from); k != nil && bytes.HasPrefix(k, from); k, _ = c.Next() {
			it, ok, err := held(tx, splitKey(k[len(from):]))
			if err != nil {
				return err
			}
			if ok && !it.Expired(now) {
				out = append(out, it)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing records of %s: %w", instanceID, err)
	}
	return out, nil
}

// Partitions lists the partitions in the file, in order.
func (s *Store) Partitions(ctx context.Context) ([]string, error) {
	var out []string
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketItems).Cursor()
		for k, _ := c.First(); k != nil; {
			p := splitKey(k).Partition
			out = append(out, p)
			k, _ = c.Seek([]byte(p + "\x01")) // keys of p go on with a NUL
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing partitions: %w", err)
	}
	return out, nil
}

// Sweep implements ledger.Sweeper.
func (s *Store) Sweep(ctx context.Context, now time.Time) (n int, err error) {
	err = s.update(ctx, func(tx *bbolt.Tx) error {
		n, err = sweep(tx, now)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sweeping %s: %w", s.path, err)
	}
	return n, nil
}

func sweep(tx *bbolt.Tx, now time.Time) (int, error) {
	var dead []ledger.Item
	c := tx.Bucket(bucketItems).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		it, err := decode(splitKey(k), v)
		if err != nil {
			return 0, err
		}
		if it.Expired(now) {
			dead = append(dead, it)
		}
	}
	for _, it := range dead {
		if err := drop(tx, it); err != nil {
			return 0, err
		}
	}
	return len(dead), nil
}

// Close implements ledger.Store; it waits for calls under way and lets go of the lock.
func (s *Store) Close() error { return s.db.Close() }
