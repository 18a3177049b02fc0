package harness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Shared(m)) }

func TestDecode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in      string
		want    []string
		wantErr string
	}{
		"documents":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n# nothing\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n", []string{"Pod a", "Node b"}, ""},
		"list":           {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n", []string{"Pod a", "Pod b"}, ""},
		"json":           {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, []string{"Pod a"}, ""},
		"empty":          {"", nil, ""},
		"no kind":        {"apiVersion: v1\n---\nmetadata: {}\n", nil, "document 1: want apiVersion and kind"},
		"broken":         {"apiVersion: v1\nkind: Pod\n---\na: [\n", nil, "document 2"},
		"not an object":  {"- 1\n", nil, "document 1"},
		"items of a pod": {"apiVersion: v1\nkind: List\nitems: [1]\n", nil, "document 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := harness.Decode([]byte(tc.in))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want one that contains %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind()+" "+o.GetName())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// failing records what a wait does to a test.
type failing struct {
	testing.TB
	ctx     context.Context
	message string
}

func (f *failing) Helper()                  {}
func (f *failing) Context() context.Context { return f.ctx }
func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}

// failure is the message that f fails a test with, empty for none.
func failure(t *testing.T, f func(testing.TB)) (message string) {
	tb := &failing{TB: t, ctx: t.Context()}
	defer func() {
		if r := recover(); r != nil && r != any(tb) {
			panic(r)
		}
		message = tb.message
	}()
	f(tb)
	return ""
}

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	if got := failure(t, func(tb testing.TB) {
		harness.Eventually(tb, "third time", time.Minute, func(context.Context) error {
			if calls++; calls < 3 {
				return errors.New("not yet")
			}
			return nil
		})
	}); got != "" || calls != 3 {
		t.Errorf("failed with %q after %d calls", got, calls)
	}
	if got := failure(t, func(tb testing.TB) {
		harness.Eventually(tb, "never", time.Millisecond, func(context.Context) error { return errors.New("it is blue") })
	}); !strings.Contains(got, "never") || !strings.Contains(got, "it is blue") {
		t.Errorf("message %q does not say what was waited for and what was seen", got)
	}
}

func TestConsistently(t *testing.T) {
	t.Parallel()
	calls := 0
	if got := failure(t, func(tb testing.TB) {
		harness.Consistently(tb, "stays", time.Minute, func(context.Context) error {
			if calls++; calls == 2 {
				return errors.New("it moved")
			}
			return nil
		})
	}); !strings.Contains(got, "it moved") {
		t.Errorf("message %q, want: it moved", got)
	}
	if got := failure(t, func(tb testing.TB) {
		harness.Consistently(tb, "stays", time.Millisecond, func(context.Context) error { return nil })
	}); got != "" {
		t.Errorf("failed with %q", got)
	}
}

func TestApplyIsRepeatable(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	ns := c.Namespace(t)
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: %s}\n"
	first := c.Apply(t, ns, fmt.Sprintf(manifest, "blue"))
	second := c.Apply(t, ns, fmt.Sprintf(manifest, "green"))
	if first[0].GetUID() != second[0].GetUID() {
		t.Error("the object was made again")
	}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	got, err := c.Get(t.Context(), gvk, ns, "settings")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"colour": "green"}, got.Object["data"]); diff != "" {
		t.Error(diff)
	}
	for range 2 { // the second time there is none
		if err := c.Delete(t.Context(), gvk, ns, "settings"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.TryApply(t.Context(), ns, "apiVersion: v1\nkind: Nonsense\nmetadata: {name: a}\n"); err == nil || !strings.Contains(err.Error(), "Nonsense a") {
		t.Errorf("unknown kind: error %v", err)
	}
}

func TestInstalledCRDsAreServed(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	c.InstallCRDs(t, crds.FS)
	c.InstallCRDs(t, crds.FS) // once more changes nothing
	for _, kind := range []string{"NodePool", "NodeClaim"} {
		if _, err := c.List(t.Context(), schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: kind}, "", ""); err != nil {
			t.Error(err)
		}
	}
	if got := failure(t, func(tb testing.TB) { c.InstallCRDs(tb, fstest.MapFS{"a.yaml": {Data: []byte("a: [")}}) }); !strings.Contains(got, "a.yaml") {
		t.Errorf("broken file: message %q", got)
	}
}

func TestKilledComponentComesBack(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t, harness.RestartComponents())
	before := c.PID(t, harness.APIServer)
	c.Signal(t, harness.APIServer, syscall.SIGKILL)
	path := filepath.Join(filepath.Dir(c.Kubeconfig), string(harness.APIServer)+".pid")
	harness.Eventually(t, "another API server answers", 5*time.Minute, func(ctx context.Context) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if text := strings.TrimSpace(string(b)); text == fmt.Sprint(before) || text == "" {
			return fmt.Errorf("process id %q", text)
		}
		_, err = c.Client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
