package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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

// TestLedgerVerbs works on a bolt ledger as the configuration names it.
func TestLedgerVerbs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	verb := func(in string, words ...string) (string, error) {
		var out strings.Builder
		args := append(words, "--cluster-name", "demo", "--region", "us-east-1", "--account", "111122223333", "--ledger-path", path)
		err := runLedger(t.Context(), args, nil, strings.NewReader(in), &out)
		return out.String(), err
	}
	if _, err := verb("", "ls"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a ledger that is not there: %v", err)
	}
	text := `{"kind":"LedgerArchive","format":1}` + "\n" + `{"partition":"demo/claim","sort":"u-1","instance":"i-1","data":{"name":"a"}}` + "\n"
	if out, err := verb(text, "import", "-"); err != nil || !strings.HasPrefix(out, "1 written") {
		t.Fatalf("import: %q, %v", out, err)
	}
	for want, words := range map[string][]string{
		"demo/claim  1":          {"ls"},
		"u-1   1        never":   {"ls", "demo/claim"},
		`"name": "a"`:            {"show", "demo/claim", "u-1"},
		`"LedgerRecordList"`:     {"show", "i-1", "-o", "json"},
		`{"kind":"LedgerArchive`: {"export"},
		"weir-scaler ledger ls":  {"--help"},
	} {
		if out, err := verb("", words...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %q, %v; want %q in it", words, out, err, want)
		}
	}
	for want, words := range map[string][]string{
		"expected one of ls":   {},
		"got [\"drop\"]":       {"drop"},
		"usage: show":          {"show"},
		"got \"xml\"":          {"ls", "-o", "xml"},
		"not an archive":       {"import", "-"},
		"none.jsonl":           {"import", "none.jsonl"},
		"unknown flag: --nope": {"ls", "--nope"},
	} {
		_, err := verb("", words...)
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want a usage error that says %q", words, err, want)
		}
	}
}
