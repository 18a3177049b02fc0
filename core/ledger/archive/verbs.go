package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-project/weir/core/ledger"
)

// ErrUsage says that a verb was called in a way that it does not know.
var ErrUsage = errors.New("usage")

// Verbs is what a command that works on a ledger offers.
type Verbs struct {
	Store ledger.Store
	Scope Scope
	Now   time.Time
	In    io.Reader
	Out   io.Writer
	JSON  bool // the answers of List and Show, each as one document
}

// List lists partitions, or the records of one: of the partition whose name is given,
// and of them those whose sort begins with the second word.
func (v Verbs) List(ctx context.Context, args []string) error {
	switch len(args) {
	case 0:
		counts, err := Counts(ctx, v.Store, v.Scope, "", v.Now)
		if err != nil {
			return err
		}
		if v.JSON {
			return v.document("LedgerPartitionList", counts)
		}
		w := v.table("PARTITION", "RECORDS")
		for _, c := range counts {
			fmt.Fprintf(w, "%s\t%d\n", c.Partition, c.Records)
		}
		return w.Flush()
	case 1, 2:
	default:
		return fmt.Errorf("%w: ls [PARTITION [PREFIX]], got %d words", ErrUsage, len(args))
	}
	items, err := v.Store.Query(ctx, args[0], strings.Join(args[1:], ""), v.Now)
	if err != nil {
		return err
	}
	if v.JSON {
		return v.records(items)
	}
	w := v.table("SORT", "VERSION", "EXPIRES", "INSTANCE", "BYTES")
	for _, it := range items {
		expires, instance := "never", it.Instance
		if !it.Expires.IsZero() {
			expires = it.Expires.UTC().Format(time.RFC3339)
		}
		if instance == "" {
			instance = "-"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\n", it.Sort, it.Version, expires, instance, len(it.Data))
	}
	return w.Flush()
}

// Show prints one record by partition and sort, or all records about an instance.
func (v Verbs) Show(ctx context.Context, args []string) error {
	var items []ledger.Item
	switch len(args) {
	case 1:
		var err error
		if items, err = v.Store.ByInstance(ctx, args[0], v.Now); err != nil {
			return err
		}
		if len(items) == 0 {
			return fmt.Errorf("no record is about instance %s", args[0])
		}
	case 2:
		k := ledger.Key{Partition: args[0], Sort: args[1]}
		it, ok, err := v.Store.Get(ctx, k, v.Now)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("there is no record %s in %s", args[1], args[0])
		}
		items = []ledger.Item{it}
	default:
		return fmt.Errorf("%w: show PARTITION SORT, or show INSTANCE", ErrUsage)
	}
	if v.JSON {
		return v.records(items)
	}
	for _, it := range items {
		data, err := json.MarshalIndent(RecordOf(it), "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(v.Out, "%s\n", data)
	}
	return nil
}

// Import writes an archive into the store.
func (v Verbs) Import(ctx context.Context, overwrite bool) error {
	n, err := Import(ctx, v.Store, v.In, overwrite, v.Now)
	if err != nil {
		return fmt.Errorf("%w (%d records were written before it)", err, n.Written)
	}
	fmt.Fprintf(v.Out, "%d written, %d left as they were, %d expired\n", n.Written, n.Held, n.Expired)
	return nil
}

// Export writes the store's archive.
func (v Verbs) Export(ctx context.Context) error {
	_, err := Export(ctx, v.Store, v.Scope, v.Now, v.Out)
	return err
}

func (v Verbs) records(items []ledger.Item) error {
	out := make([]Record, len(items))
	for i, it := range items {
		out[i] = RecordOf(it)
	}
	return v.document("LedgerRecordList", out)
}

func (v Verbs) document(kind string, items any) error {
	enc := json.NewEncoder(v.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Kind  string `json:"kind"`
		Items any    `json:"items"`
	}{kind, items})
}

func (v Verbs) table(columns ...string) *tabwriter.Writer {
	w := tabwriter.NewWriter(v.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	return w
}
