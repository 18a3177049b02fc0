package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits that every store keeps, so that what one of them takes all of them take.
const (
	MaxTransact      = 100       // writes in one transaction
	MaxTransactBytes = 3 << 20   // data of one transaction; DynamoDB ends at 4 MB
	MaxItemBytes     = 380 << 10 // data of one item; DynamoDB ends at 400 KiB with names and indexes
	maxNameBytes     = 1024      // partition, sort and instance each
)

// SweepGrace is how long stores that sweep by themselves keep what has expired, so
// that nobody who read a record meets a new one of the same version.
const SweepGrace = time.Hour

// ErrInvalid says that an item breaks the rules of the port; it is wrapped around the rule.
var ErrInvalid = errors.New("ledger: item not allowed")

// CheckKey is nil where every store can keep a record of that name.
func CheckKey(k Key) error {
	for _, part := range []struct{ name, value string }{{"partition", k.Partition}, {"sort", k.Sort}} {
		switch {
		case part.value == "":
			return fmt.Errorf("%w: %s of %v is empty", ErrInvalid, part.name, k)
		case len(part.value) > maxNameBytes:
			return fmt.Errorf("%w: %s is %d bytes long, at most %d are", ErrInvalid, part.name, len(part.value), maxNameBytes)
		case strings.ContainsRune(part.value, 0):
			return fmt.Errorf("%w: %s of %q holds a NUL byte", ErrInvalid, part.name, k)
		}
	}
	return nil
}

// CheckItem is nil where every store can keep the item.
func CheckItem(it Item) error {
	if err := CheckKey(it.Key); err != nil {
		return err
	}
	switch {
	case len(it.Instance) > maxNameBytes || strings.ContainsRune(it.Instance, 0):
		return fmt.Errorf("%w: instance of %v: too long or with a NUL byte", ErrInvalid, it.Key)
	case len(it.Data) > MaxItemBytes:
		return fmt.Errorf("%w: data of %v is %d bytes long, at most %d are", ErrInvalid, it.Key, len(it.Data), MaxItemBytes)
	case !json.Valid(it.Data):
		return fmt.Errorf("%w: data of %v is not JSON", ErrInvalid, it.Key)
	}
	return nil
}

// CheckTransact is nil where the writes may form one transaction: few and small enough,
// each one valid, and no record twice.
func CheckTransact(puts []PutOp) error {
	if len(puts) > MaxTransact {
		return fmt.Errorf("%w: %d writes in one transaction, at most %d are", ErrInvalid, len(puts), MaxTransact)
	}
	seen, size := make(map[Key]bool, len(puts)), 0
	for _, p := range puts {
		if err := CheckItem(p.Item); err != nil {
			return err
		}
		if seen[p.Item.Key] {
			return fmt.Errorf("%w: %v is written twice in one transaction", ErrInvalid, p.Item.Key)
		}
		seen[p.Item.Key] = true
		if size += len(p.Item.Data); size > MaxTransactBytes {
			return fmt.Errorf("%w: more than %d bytes of data in one transaction, reached with %v", ErrInvalid, MaxTransactBytes, p.Item.Key)
		}
	}
	return nil
}

// Expired says whether the item is no longer to be seen at now.
func (it Item) Expired(now time.Time) bool { return !it.Expires.IsZero() && !now.Before(it.Expires) }

// NextVersion is the one rule of versions that all stores share. It decides on a
// write over the item that the store holds (ok false: none): an expired item counts
// as none, yet its version is carried on, so that a writer that still remembers it
// never matches by accident.
func NextVersion(held Item, ok bool, expect int64, now time.Time) (int64, error) {
	seen := int64(0)
	if ok && !held.Expired(now) {
		seen = held.Version
	}
	if expect != Any && expect != seen {
		return 0, ErrConflict
	}
	if !ok {
		return 1, nil
	}
	return held.Version + 1, nil
}
