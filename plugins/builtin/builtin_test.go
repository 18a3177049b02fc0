package builtin

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/plugins/sdk"
	"github.com/weir-project/weir/plugins/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sdktest.Run(t, func() sdk.Strategy {
				s, err := New(name)
				if err != nil {
					t.Fatal(err)
				}
				if d := s.Describe(); d.Name != name {
					t.Errorf("registered as %q, calls itself %q", name, d.Name)
				}
				return s
			})
		})
	}
}

// TestConformanceOfProcesses runs the kit on the executable, one process per strategy.
func TestConformanceOfProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "weir-strategy")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/weir-strategy").CombinedOutput(); err != nil {
		t.Fatalf("building cmd/weir-strategy: %v\n%s", err, out)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { sdktest.RunProcess(t, path, name) })
	}
	t.Run("by the name of a link", func(t *testing.T) {
		link := filepath.Join(filepath.Dir(path), "first-fit")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		sdktest.RunProcess(t, link)
	})
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{{nil, 2, "usage"}, {[]string{"cheapest"}, 2, "want one of capacity-mix, cost-optimal, first-fit, resilient, savings"}, {[]string{"savings"}, 1, "not meant to be executed directly"}} {
		out, err := exec.Command(path, c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.status || !strings.Contains(string(out), c.want) {
			t.Errorf("weir-strategy %q by hand: %v, %s; want status %d and %q", c.args, err, out, c.status, c.want)
		}
	}
}

// TestStrategiesKnowOnlyTheSDK: what is built in can be written by anybody, without the
// engine or anything else of Weir.
func TestStrategiesKnowOnlyTheSDK(t *testing.T) {
	t.Parallel()
	const ours = "github.com/weir-project/weir/"
	out, err := exec.Command("go", "list", "-deps", "../capacitymix", "../costoptimal", "../firstfit", "../resilient", "../savings").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for _, path := range strings.Fields(string(out)) {
		if strings.HasPrefix(path, ours+"plugins/") {
			seen++
		} else if strings.HasPrefix(path, ours) {
			t.Errorf("a built-in strategy imports %s", path)
		}
	}
	if seen < len(Names()) {
		t.Errorf("%d packages of ours found, at least %d are there", seen, len(Names()))
	}
}
