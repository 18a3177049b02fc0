package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/bolt"
	"github.com/weir-project/weir/core/ledger/dynamo"
)

// How a table that cannot be reached when the scaler starts is asked again.
const (
	checkWithin = 15 * time.Second
	checkEvery  = 30 * time.Second
)

// openLedger opens the memory that the configuration names.
func openLedger(ctx context.Context, c *config.Config) (ledger.Store, error) {
	switch c.Ledger.Kind {
	case config.LedgerBolt:
		s, err := bolt.Open(c.Ledger.Path, bolt.Options{LockWait: 15 * time.Second})
		if err != nil {
			return nil, err
		}
		return s, nil
	case config.LedgerDynamoDB:
		s, err := dynamo.Open(ctx, dynamo.Options{Table: c.Ledger.Table, Region: c.Region, Program: "weir-scaler"})
		if err != nil {
			return nil, usageError{err}
		}
		return s, nil
	}
	return nil, usageError{fmt.Errorf("ledger.kind: %q cannot be used by the scaler, which must remember what it buys", c.Ledger.Kind)}
}

// table is a store that is made by somebody else, so that its shape may be wrong.
type table interface {
	Check(ctx context.Context) (warnings []string, err error)
	Claim(ctx context.Context, writer string, now time.Time) error
}

// checkLedger looks whether the ledger is one that this release may write to. known is
// false where it cannot be reached: the scaler then begins without it.
func checkLedger(ctx context.Context, s ledger.Store, log *zap.Logger) (known bool, err error) {
	t, ok := s.(table)
	if !ok {
		return true, nil
	}
	call, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	warnings, err := t.Check(call)
	for _, w := range warnings {
		log.Warn("ledger", zap.String("warning", w))
	}
	if err == nil {
		err = t.Claim(call, version, time.Now())
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, dynamo.ErrTable):
		return false, usageError{err}
	case ctx.Err() != nil:
		return false, nil // asked to stop
	}
	log.Error("the ledger cannot be asked what it is: going on without it", zap.Error(err))
	return false, nil
}

// awaitLedger asks until it is known what the ledger is; one that may not be used ends
// the scaler.
func awaitLedger(ctx context.Context, s ledger.Store, log *zap.Logger) error {
	ticks := time.NewTicker(checkEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		known, err := checkLedger(ctx, s, log)
		if ctx.Err() != nil {
			return nil
		}
		if known || err != nil {
			return err
		}
	}
}
