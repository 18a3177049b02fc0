package ledger_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/archive"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/integration/aws/moto"
)

// TestArchiveOfATable carries the records of a cluster from a table to memory and back into another table.
func TestArchiveOfATable(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	scope := archive.Scope{Cluster: "demo", Account: moto.Account, Region: moto.Region}
	first := server.Ledger(t, server.Table(t))
	if err := first.Claim(t.Context(), "v0.1.0", noon); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Beat(t.Context(), first, "demo", ledger.Heartbeat{At: noon, Holder: "a", Active: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.AddShortage(t.Context(), first, moto.Account, moto.Region, "m5.large/us-east-1a/spot", "short", noon); err != nil {
		t.Fatal(err)
	}
	if err := ledger.PutDecision(t.Context(), first, "demo", "d-1", ledger.Decision{At: noon, What: "launch"}); err != nil {
		t.Fatal(err)
	}
	carry := func(from, to ledger.Store) string {
		var text bytes.Buffer
		n, err := archive.Export(t.Context(), from, scope, noon, &text)
		if err != nil || n != 4 {
			t.Fatalf("%d records exported, %v; want 4", n, err)
		}
		if got, err := archive.Import(t.Context(), to, bytes.NewReader(text.Bytes()), false, noon.Add(time.Second)); err != nil || got.Written != 4 {
			t.Fatalf("import: %+v, %v", got, err)
		}
		return text.String()
	}
	memory, second := mem.New(), server.Ledger(t, server.Table(t))
	if diff := cmp.Diff(carry(first, memory), carry(memory, second)); diff != "" {
		t.Errorf("from the table, and from memory (-first +second):\n%s", diff)
	}
}
