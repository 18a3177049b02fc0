package simulate

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func playDemo(t testing.TB, opts Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), &Input{}, scenario(t, demo+"/scenario.yaml"), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDemo(t *testing.T) {
	t.Parallel()
	opts := options(t)
	script := scenario(t, demo+"/scenario.yaml")
	if testing.Verbose() {
		opts.Happened = func(h Happening) {
			if err := WriteHappening(os.Stdout, h, script.Start, Style{Details: os.Getenv("DETAILS") != ""}); err != nil {
				t.Error(err)
			}
		}
	}
	r := playDemo(t, opts)
	if testing.Verbose() {
		if err := WriteSummary(os.Stdout, r, Style{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("%s %s: %s", c.At.Format("15:04:05"), c.Title, c.Text)
		}
	}
	if len(r.Checks) < 5 {
		t.Errorf("%d checks, the scenario has 5", len(r.Checks))
	}
}

func TestTwoRunsAreEqual(t *testing.T) {
	t.Parallel()
	var out [2]bytes.Buffer
	for i := range out {
		r := playDemo(t, options(t))
		if err := json.NewEncoder(&out[i]).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(out[0].String(), out[1].String()); d != "" {
		t.Errorf("two runs of one scenario differ:\n%s", d)
	}
}
