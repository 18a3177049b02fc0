package archive_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/archive"
	"github.com/weir-project/weir/core/ledger/mem"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// noLister hides that a store knows its partitions.
type noLister struct{ ledger.Store }

// filled has a record of every kind, of two clusters.
func filled(t *testing.T) *mem.Store {
	t.Helper()
	s := mem.New()
	for _, cluster := range []string{"demo", "other"} {
		for k, expires := range map[ledger.Key]time.Time{
			ledger.LaunchKey(cluster, "l-1"):                              {},
			ledger.FenceKey(cluster):                                      {},
			ledger.ClaimKey(cluster, "u-1"):                               {},
			ledger.NoticeKey(cluster, "i-1", "spot"):                      now.Add(time.Hour),
			ledger.HeartbeatKey(cluster):                                  now.Add(time.Hour),
			ledger.DecisionKey(cluster, now, "d-1"):                       now.Add(ledger.DecisionTTL),
			ledger.DecisionKey(cluster, now.Add(-29*24*time.Hour), "d-0"): now.Add(24 * time.Hour),
			{Partition: cluster + "/deadletter", Sort: "m-1"}:             now.Add(time.Hour),
			ledger.NoticeKey(cluster, "i-gone", "spot"):                   now,
		} {
			put(t, s, k, expires)
		}
	}
	put(t, s, ledger.InstanceKey("111122223333", "us-east-1", "i-1"), time.Time{})
	put(t, s, ledger.OfferingKey("111122223333", "us-east-1", "m5.large/us-east-1a/spot"), now.Add(time.Hour))
	put(t, s, ledger.NoticeKey(ledger.Unowned, "i-2", "spot"), now.Add(time.Minute))
	put(t, s, ledger.Key{Partition: "schema", Sort: "ledger"}, time.Time{})
	return s
}

func put(t *testing.T, s ledger.Store, k ledger.Key, expires time.Time) {
	t.Helper()
	it := ledger.Item{Key: k, Expires: expires, Instance: "i-1", Data: []byte(`{"a":"<&>","n":12345678901234567890}`)}
	if _, err := s.Put(t.Context(), it, 0, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
}

func export(t *testing.T, s ledger.Store, scope archive.Scope) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := archive.Export(t.Context(), s, scope, now, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestWhatIsExportedCanBeImported: nothing is lost on the way, and a second time changes nothing.
func TestWhatIsExportedCanBeImported(t *testing.T) {
	t.Parallel()
	s := filled(t)
	text := export(t, s, archive.Scope{})
	if n := strings.Count(text, "\n"); n != 1+2*8+4 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	into := mem.New()
	got, err := archive.Import(t.Context(), into, strings.NewReader(text), false, now)
	if err != nil || got != (archive.Imported{Written: 20}) {
		t.Errorf("import: %+v, %v", got, err)
	}
	if diff := cmp.Diff(text, export(t, into, archive.Scope{})); diff != "" {
		t.Errorf("exported again (-first +second):\n%s", diff)
	}
	if got, err := archive.Import(t.Context(), into, strings.NewReader(text), false, now); err != nil || got != (archive.Imported{Held: 20}) {
		t.Errorf("import once more: %+v, %v", got, err)
	}
	if got, err := archive.Import(t.Context(), mem.New(), strings.NewReader(text), false, now.Add(2*time.Hour)); err != nil || got.Expired != 8 {
		t.Errorf("import two hours later: %+v, %v; want 8 expired", got, err)
	}
}

// TestAScopeHasEveryKindOfRecord: a store that cannot list its partitions gives the same
// of a cluster and its account.
func TestAScopeHasEveryKindOfRecord(t *testing.T) {
	t.Parallel()
	s := filled(t)
	var want []string
	for line := range strings.Lines(export(t, s, archive.Scope{})) {
		if !strings.Contains(line, `"partition":"other/`) {
			want = append(want, line)
		}
	}
	got := export(t, noLister{s}, archive.Scope{Cluster: "demo", Account: "111122223333", Region: "us-east-1"})
	if diff := cmp.Diff(strings.Join(want, ""), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadArchives(t *testing.T) {
	t.Parallel()
	const head = `{"kind":"LedgerArchive","format":1}` + "\n"
	for text, want := range map[string]string{
		"":                           "it is empty",
		"[]":                         "line 1: expected",
		head + "{}":                  "line 2",
		head + "\n\n{\"a\":1}":       `line 4: json: unknown field "a"`,
		head + `{"partition":"p"} x`: "line 2",
		head + `{"partition":"p","sort":"s","data":1} {}`:                          "more than one JSON value",
		head + `{"partition":"p","sort":"","data":1}`:                              "line 2: ledger: item not allowed: sort",
		head + `{"partition":"p","sort":"s"}`:                                      "is not JSON",
		head + `{"partition":"p","sort":"s","data":"` + strings.Repeat("x", 9<<20): "line 2 is longer than",
	} {
		_, err := archive.Import(t.Context(), mem.New(), strings.NewReader(text), false, now)
		if !errors.Is(err, archive.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q in it", text, err, want)
		}
	}
}
