package strategy

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/plugins/sdk"
)

// TestWhatWasUsedIsRecorded: of a call that went wrong the record has the answer that the
// plan used, and whose it was, by itself and as a member of a chain.
func TestWhatWasUsedIsRecorded(t *testing.T) {
	t.Parallel()
	w := workloads(6)
	w.Now = w.Now.Add(time.Minute) // the fake behaves well at the time of the sample
	good := factored(t, 2)
	bad := fakeSpec(t, good.Name, "turns-bad", "1") // the self-test is its only good answer
	bad.Config = good.Config
	for name, c := range map[string]struct {
		first, second Spec
		chained       bool
		rung          Rung
		by            string
		doubled       bool
	}{
		"built-in":             {first: fakeSpec(t, good.Name, "negative"), rung: ByBuiltin, by: "cost-optimal "},
		"last good":            {first: good, second: bad, rung: ByLastGood, by: "fake 0.1", doubled: true},
		"last good in a chain": {first: good, second: bad, chained: true, rung: ByLastGood, by: "fake 0.1", doubled: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := func(s Spec) Config {
				out := bound(s)
				if c.chained {
					out = bound(chainOf(ChainMember{Strategy: s.Name}))
					out.Strategies = append(out.Strategies, s)
				}
				out.Swap.MaxErrorRate = 1
				return out
			}
			dir := t.TempDir()
			h := testHost(t, config(c.first), func(o *Options) { o.Records.Folder = dir })
			settle(t, h)
			ask := func() {
				if _, err := h.Price(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			ask()
			if c.second.Name != "" {
				if err := h.Apply(config(c.second)); err != nil {
					t.Fatal(err)
				}
				settle(t, h)
				ask()
			}
			h.Close()
			files, err := RecordFiles(dir, false)
			if err != nil || len(files) != 1 {
				t.Fatalf("files %v (%v), want one", files, err)
			}
			records, err := readAll(t, files[0])
			if err != nil {
				t.Fatal(err)
			}
			var found *Recorded
			for _, r := range records {
				if r.Call.Strategy == good.Name && r.Call.Outcome == Invalid {
					found = r
				}
			}
			if found == nil || found.Call.Instead == nil {
				t.Fatalf("no record of the call that went wrong says who answered instead: %d records", len(records))
			}
			x := found.Call.Instead
			if x.Rung != c.rung || !strings.HasPrefix(x.By, c.by) || found.Answer != nil {
				t.Errorf("%s of rung %s answered, want %s of %s", x.By, x.Rung, c.by, c.rung)
			}
			req, used := found.Input.(*sdk.PriceRequest), found.Instead.(*sdk.PriceAnswer)
			want := req.USDPerHour[req.Pools[0].Offerings[0]]
			if c.doubled {
				want *= 2
			}
			if got := used.Pools[0].USDPerHour[0]; !same(got, want) {
				t.Errorf("the answer used has price %v, want %v", got, want)
			}
			wrongInstead(t, files[0], x)
		})
	}
}

// wrongInstead holds that a file with another word of who answered is refused.
func wrongInstead(t *testing.T, path string, x *Instead) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, err := json.Marshal(x.Rung)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, append([]byte(`"rung":`), was...), []byte(`"rung":"none"`))
	var last error
	for _, err := range ReadRecords(bytes.NewReader(text), path) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "expected who answered instead") {
		t.Errorf("a record of a rung that does not answer: %v", last)
	}
}
