package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/ledger"
)

// Kind stands in the first line of an archive.
const Kind = "LedgerArchive"

// Format is the version of archives; one of a later version is refused.
const Format = 1

// maxLine bounds a line: the largest record, with its text escaped.
const maxLine = 8 << 20

// ErrInput says that an archive cannot be read; it is wrapped around line and reason.
var ErrInput = errors.New("not an archive of a ledger")

// Header is the first line of an archive.
type Header struct {
	Kind   string    `json:"kind"`
	Format int       `json:"format"`
	At     time.Time `json:"at"`
}

// Record is one record, as archives and answers have it.
type Record struct {
	Partition string          `json:"partition"`
	Sort      string          `json:"sort"`
	Version   int64           `json:"version,omitempty"`
	Instance  string          `json:"instance,omitempty"`
	Expires   time.Time       `json:"expires,omitzero"`
	Data      json.RawMessage `json:"data"`
}

// RecordOf is the item as archives have it.
func RecordOf(it ledger.Item) Record {
	return Record{Partition: it.Partition, Sort: it.Sort, Version: it.Version, Instance: it.Instance, Expires: it.Expires, Data: it.Data}
}

// Item is the record as stores take it.
func (r Record) Item() ledger.Item {
	return ledger.Item{Key: ledger.Key{Partition: r.Partition, Sort: r.Sort}, Instance: r.Instance, Expires: r.Expires, Data: r.Data}
}

// Scope says whose records are asked for. Account and Region are needed for what all
// clusters share; Cluster for its own.
type Scope struct{ Cluster, Account, Region string }

// Lister is a store that knows its partitions.
type Lister interface {
	// Partitions lists them in order, those of expired records included.
	Partitions(ctx context.Context) ([]string, error)
}

// Partitions lists what there may be: all partitions of a store that knows them, else
// those of the scope.
func Partitions(ctx context.Context, s ledger.Store, scope Scope, now time.Time) ([]string, error) {
	if l, ok := s.(Lister); ok {
		return l.Partitions(ctx)
	}
	out := []string{ledger.Unowned + "/notice", "schema"}
	if scope.Account != "" && scope.Region != "" {
		out = append(out, ledger.InstanceKey(scope.Account, scope.Region, "").Partition, ledger.OfferingKey(scope.Account, scope.Region, "").Partition)
	}
	if c := scope.Cluster; c != "" {
		for _, k := range []ledger.Key{ledger.LaunchKey(c, ""), ledger.FenceKey(c), ledger.ClaimKey(c, ""), ledger.NoticeKey(c, "", ""), ledger.HeartbeatKey(c), ledger.CapacityKey(c, "", ""),
			ledger.MovedKey(c, now, ""), ledger.PoolStateKey(c, ""), ledger.CommandKey(c, "")} {
			out = append(out, k.Partition)
		}
		out = append(out, c+"/deadletter")
		for at := now; at.After(now.Add(-ledger.DecisionTTL - 24*time.Hour)); at = at.Add(-24 * time.Hour) {
			out = append(out, ledger.DecisionKey(c, at, "").Partition)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Each calls f for each record of the partitions, in order.
func Each(ctx context.Context, s ledger.Store, partitions []string, now time.Time, f func(ledger.Item) error) error {
	for _, p := range partitions {
		items, err := s.Query(ctx, p, "", now)
		if err != nil {
			return err
		}
		for _, it := range items {
			if err := f(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// Export writes an archive and answers how many records are in it. Records that were
// changed while it was written may be of either state.
func Export(ctx context.Context, s ledger.Store, scope Scope, now time.Time, w io.Writer) (int, error) {
	partitions, err := Partitions(ctx, s, scope, now)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(Header{Kind: Kind, Format: Format, At: now.UTC()}); err != nil {
		return 0, err
	}
	n := 0
	err = Each(ctx, s, partitions, now, func(it ledger.Item) error {
		n++
		if err := enc.Encode(RecordOf(it)); err != nil {
			return fmt.Errorf("exporting %v: %w", it.Key, err)
		}
		return nil
	})
	return n, errors.Join(err, out.Flush())
}

// Read reads an archive and calls f for each record that every store can keep.
func Read(r io.Reader, f func(Record) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		if n == 1 {
			if err := header(text); err != nil {
				return err
			}
			continue
		}
		var rec Record
		if err := strict(text, &rec); err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrInput, n, err)
		}
		if err := ledger.CheckItem(rec.Item()); err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrInput, n, err)
		}
		if err := f(rec); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%w: line %d is longer than %d bytes", ErrInput, n+1, maxLine)
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w: it is empty", ErrInput)
	}
	return nil
}

func strict(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one JSON value")
	}
	return nil
}

func header(text []byte) error {
	var h Header
	if err := json.Unmarshal(text, &h); err != nil || h.Kind != Kind {
		return fmt.Errorf("%w: line 1: expected {\"kind\": %q, \"format\": %d, ...}", ErrInput, Kind, Format)
	}
	if h.Format < 1 || h.Format > Format {
		return fmt.Errorf("%w: line 1: its format is %d, this release knows %d", ErrInput, h.Format, Format)
	}
	return nil
}

// Imported counts what became of an archive's records.
type Imported struct{ Written, Held, Expired int }

// Import writes the records of an archive. Those that the store has already are left as
// they are, unless overwrite is set; expired ones are left out.
func Import(ctx context.Context, s ledger.Store, r io.Reader, overwrite bool, now time.Time) (Imported, error) {
	var n Imported
	err := Read(r, func(rec Record) error {
		it, expect := rec.Item(), int64(0)
		if it.Expired(now) {
			n.Expired++
			return nil
		}
		if overwrite {
			expect = ledger.Any
		}
		_, err := s.Put(ctx, it, expect, now)
		switch {
		case errors.Is(err, ledger.ErrConflict) && !overwrite:
			n.Held++
			return nil
		case err != nil:
			return err
		}
		n.Written++
		return nil
	})
	return n, err
}

// Count is a partition and how many records are in it.
type Count struct {
	Partition string `json:"partition"`
	Records   int    `json:"records"`
}

// Counts lists the partitions that are not empty and begin with prefix.
func Counts(ctx context.Context, s ledger.Store, scope Scope, prefix string, now time.Time) ([]Count, error) {
	partitions, err := Partitions(ctx, s, scope, now)
	if err != nil {
		return nil, err
	}
	out := []Count{}
	for _, p := range partitions {
		if !strings.HasPrefix(p, prefix) {
			continue
		}
		items, err := s.Query(ctx, p, "", now)
		if err != nil {
			return nil, err
		}
		if len(items) > 0 {
			out = append(out, Count{p, len(items)})
		}
	}
	return out, nil
}
