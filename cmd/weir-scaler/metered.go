package main

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/metric"
)

// metered counts and times the calls of a ledger.
type metered struct {
	ledger.Store
	m *metric.Metrics
}

func (s *metered) count(op string, start time.Time, err error) {
	outcome := "ok"
	switch {
	case errors.Is(err, ledger.ErrConflict):
		outcome = "conflict"
	case err != nil:
		outcome = "error"
	}
	s.m.LedgerCalls.WithLabelValues(op, outcome).Inc()
	s.m.LedgerDuration.WithLabelValues(op).Observe(time.Since(start).Seconds())
}

// Get implements ledger.Store.
func (s *metered) Get(ctx context.Context, k ledger.Key, now time.Time) (it ledger.Item, ok bool, err error) {
	defer func(start time.Time) { s.count("get", start, err) }(time.Now())
	return s.Store.Get(ctx, k, now)
}

// Put implements ledger.Store.
func (s *metered) Put(ctx context.Context, it ledger.Item, expect int64, now time.Time) (version int64, err error) {
	defer func(start time.Time) { s.count("put", start, err) }(time.Now())
	return s.Store.Put(ctx, it, expect, now)
}

// Transact implements ledger.Store.
func (s *metered) Transact(ctx context.Context, puts []ledger.PutOp, now time.Time) (err error) {
	defer func(start time.Time) { s.count("transact", start, err) }(time.Now())
	return s.Store.Transact(ctx, puts, now)
}

// Query implements ledger.Store.
func (s *metered) Query(ctx context.Context, partition, prefix string, now time.Time) (items []ledger.Item, err error) {
	defer func(start time.Time) { s.count("query", start, err) }(time.Now())
	return s.Store.Query(ctx, partition, prefix, now)
}

// ByInstance implements ledger.Store.
func (s *metered) ByInstance(ctx context.Context, id string, now time.Time) (items []ledger.Item, err error) {
	defer func(start time.Time) { s.count("by-instance", start, err) }(time.Now())
	return s.Store.ByInstance(ctx, id, now)
}
