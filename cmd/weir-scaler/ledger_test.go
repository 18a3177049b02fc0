package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	logs "go.uber.org/zap/zaptest/observer"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/dynamo"
	"github.com/weir-project/weir/core/ledger/mem"
)

type fakeTable struct {
	*mem.Store
	warnings     []string
	check, claim error
	writer       string
}

func (f *fakeTable) Check(context.Context) ([]string, error) { return f.warnings, f.check }

func (f *fakeTable) Claim(_ context.Context, writer string, _ time.Time) error {
	f.writer = writer
	return f.claim
}

func TestCheckLedger(t *testing.T) {
	t.Parallel()
	wrong := fmt.Errorf("%w: its key is id", dynamo.ErrTable)
	away := fmt.Errorf("%w: refused", ledger.ErrUnavailable)
	for name, tt := range map[string]struct {
		store ledger.Store
		known bool
		usage bool
		lines int // of the log
	}{
		"a file is what it is":        {mem.New(), true, false, 0},
		"a good table":                {&fakeTable{Store: mem.New()}, true, false, 0},
		"a right is missing":          {&fakeTable{Store: mem.New(), warnings: []string{"dynamodb:DescribeTable is not allowed"}}, true, false, 1},
		"a table of another shape":    {&fakeTable{Store: mem.New(), check: wrong}, false, true, 0},
		"a table of a later release":  {&fakeTable{Store: mem.New(), claim: wrong}, false, true, 0},
		"away":                        {&fakeTable{Store: mem.New(), check: away}, false, false, 1},
		"away after the first answer": {&fakeTable{Store: mem.New(), claim: away}, false, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core, logged := logs.New(zap.WarnLevel)
			known, err := checkLedger(t.Context(), tt.store, zap.New(core))
			var usage usageError
			if known != tt.known || errors.As(err, &usage) != tt.usage || err != nil && !tt.usage {
				t.Errorf("known %v, error %v", known, err)
			}
			if logged.Len() != tt.lines {
				t.Errorf("logged %v, expected %d lines", logged.All(), tt.lines)
			}
			if f, ok := tt.store.(*fakeTable); ok && f.check == nil && f.writer != version {
				t.Errorf("claimed for %q, expected %q", f.writer, version)
			}
		})
	}
}
