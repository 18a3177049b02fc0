package strategy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/plugins/builtin"
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
