package mem

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/core/ledger"
)

// Store is a ledger in memory.
type Store struct {
	mu     sync.RWMutex // guards all below
	items  map[ledger.Key]ledger.Item
	sorted map[string][]string // sort keys by partition, in order
	swept  time.Time           // of the last sweep, in the time of the writes
	closed bool
}

var (
	_ ledger.Store   = (*Store)(nil)
	_ ledger.Sweeper = (*Store)(nil)
)

// New is an empty ledger.
func New() *Store {
	return &Store{items: map[ledger.Key]ledger.Item{}, sorted: map[string][]string{}}
}

func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return fmt.Errorf("%w: closed", ledger.ErrUnavailable)
	}
	return nil
}

func clone(it ledger.Item) ledger.Item {
	it.Data = bytes.Clone(it.Data)
	return it
}

// Get implements ledger.Store.
func (s *Store) Get(ctx context.Context, k ledger.Key, now time.Time) (ledger.Item, bool, error) {
	if err := ledger.CheckKey(k); err != nil {
		return ledger.Item{}, false, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return ledger.Item{}, false, err
	}
	it, ok := s.items[k]
	if !ok || it.Expired(now) {
		return ledger.Item{}, false, nil
	}
	return clone(it), true, nil
}

// Put implements ledger.Store.
func (s *Store) Put(ctx context.Context, it ledger.Item, expect int64, now time.Time) (int64, error) {
	if err := ledger.CheckItem(it); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	held, ok := s.items[it.Key]
	version, err := ledger.NextVersion(held, ok, expect, now)
	if err != nil {
		return 0, fmt.Errorf("putting %v: %w", it.Key, err)
	}
	s.write(it, version)
	s.housekeep(now)
	return version, nil
}

// housekeep drops what expired an hour ago, once in an hour.
func (s *Store) housekeep(now time.Time) {
	if now.Sub(s.swept) >= time.Hour {
		s.sweep(now.Add(-ledger.SweepGrace))
		s.swept = now
	}
}

func (s *Store) write(it ledger.Item, version int64) {
	it = clone(it)
	it.Version = version
	if _, ok := s.items[it.Key]; !ok {
		keys := s.sorted[it.Partition]
		i := sort.SearchStrings(keys, it.Sort)
		s.sorted[it.Partition] = slices.Insert(keys, i, it.Sort)
	}
	s.items[it.Key] = it
}

// Transact implements ledger.Store.
func (s *Store) Transact(ctx context.Context, puts []ledger.PutOp, now time.Time) error {
	if err := ledger.CheckTransact(puts); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	versions := make([]int64, len(puts))
	for i, p := range puts {
		held, ok := s.items[p.Item.Key]
		v, err := ledger.NextVersion(held, ok, p.Expect, now)
		if err != nil {
			return fmt.Errorf("putting %v: %w", p.Item.Key, err)
		}
		versions[i] = v
	}
	for i, p := range puts {
		s.write(p.Item, versions[i])
	}
	s.housekeep(now)
	return nil
}

// Delete implements ledger.Store.
func (s *Store) Delete(ctx context.Context, k ledger.Key, expect int64) error {
	if err := ledger.CheckKey(k); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	held, ok := s.items[k]
	if !ok {
		return nil
	}
	if expect != ledger.Any && expect != held.Version {
		return fmt.Errorf("deleting %v: %w", k, ledger.ErrConflict)
	}
	s.drop(k)
	return nil
}

func (s *Store) drop(k ledger.Key) {
	delete(s.items, k)
	keys := s.sorted[k.Partition]
	i := sort.SearchStrings(keys, k.Sort)
	keys = slices.Delete(keys, i, i+1)
	if len(keys) == 0 {
		delete(s.sorted, k.Partition)
		return
	}
	s.sorted[k.Partition] = keys
}

// Query implements ledger.Store.
func (s *Store) Query(ctx context.Context, partition, prefix string, now time.Time) ([]ledger.Item, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	var out []ledger.Item
	keys := s.sorted[partition]
	for i := sort.SearchStrings(keys, prefix); i < len(keys) && strings.HasPrefix(keys[i], prefix); i++ {
		if it := s.items[ledger.Key{Partition: partition, Sort: keys[i]}]; !it.Expired(now) {
			out = append(out, clone(it))
		}
	}
	return out, nil
}

// ByInstance implements ledger.Store; it walks all records.
func (s *Store) ByInstance(ctx context.Context, instanceID string, now time.Time) ([]ledger.Item, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	var out []ledger.Item
	for _, it := range s.items {
		if instanceID != "" && it.Instance == instanceID && !it.Expired(now) {
			out = append(out, clone(it))
		}
	}
	slices.SortFunc(out, func(a, b ledger.Item) int {
		if c := strings.Compare(a.Partition, b.Partition); c != 0 {
			return c
		}
		return strings.Compare(a.Sort, b.Sort)
	})
	return out, nil
}

// Partitions lists the partitions, in order.
func (s *Store) Partitions(ctx context.Context) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(s.sorted)), nil
}

// Sweep implements ledger.Sweeper.
func (s *Store) Sweep(ctx context.Context, now time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	return s.sweep(now), nil
}

func (s *Store) sweep(now time.Time) int {
	n := 0
	for k, it := range s.items {
		if it.Expired(now) {
			s.drop(k)
			n++
		}
	}
	return n
}

// Close implements ledger.Store; later calls answer ledger.ErrUnavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
