package strategy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// What is said of a built-in without starting it is what its process says.
func TestManifests(t *testing.T) {
	t.Parallel()
	for _, name := range builtin.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := testHost(t, Config{Strategies: []Spec{fakeSpec(t, "other", "builtin", name), {Name: name}}})
			settle(t, h)
			want, err := BuiltinManifest(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []string{"other", name} {
				got, err := h.Manifest(n)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", n, diff)
				}
			}
		})
	}
	h := testHost(t, Config{Strategies: []Spec{{Name: "gone", Path: "/does/not/exist"}}})
	for name, want := range map[string]string{"nobody": "there is no strategy", "gone": "has not been ready yet"} {
		if _, err := h.Manifest(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// A chain decides about what its members decide about, and is asked beside them.
func TestChainByItself(t *testing.T) {
	t.Parallel()
	specs := []Spec{{Name: "both", Chain: []ChainMember{{Strategy: "capacity-mix"}, {Strategy: "resilient", Weight: 0.5}}}, {Name: "capacity-mix"}, {Name: "resilient"}}
	h := testHost(t, Config{Strategies: specs})
	settle(t, h)
	m, err := h.Manifest("both")
	if err != nil {
		t.Fatal(err)
	}
	want := []sdk.Contract{{Kind: sdk.InstanceSelection, Version: sdk.ProtocolVersion, Levels: []string{"price"}}}
	if diff := cmp.Diff(want, m.Contracts); diff != "" {
		t.Errorf("contracts (-want +got):\n%s", diff)
	}
	d, err := OpenAmong(t.Context(), specs, "both", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if !d.Serves(sdk.InstanceSelection, LevelPrice) || d.Serves(sdk.Consolidation, LevelScore) {
		t.Error("it serves other kinds than its members")
	}
	req := sdk.SamplePrice()
	answer, out, _, err := d.Ask(t.Context(), req)
	if err != nil || out != OK || len(answer.(*sdk.PriceAnswer).Pools) != len(req.Pools) {
		t.Errorf("%v %v: %v", answer, out, err)
	}
	if _, err := OpenAmong(t.Context(), specs, "nobody", Options{}); err == nil {
		t.Error("opened a strategy that there is not")
	}
}
