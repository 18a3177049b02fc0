package strategy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/config"
)

// registryDouble answers what a test tells it to.
type registryDouble struct {
	fetch func(ctx context.Context, path string) error
	asked atomic.Int64
}

func (r *registryDouble) Fetch(ctx context.Context, image, program, path string) error {
	r.asked.Add(1)
	return r.fetch(ctx, path)
}

// A program that does not come keeps no plan waiting: the built-in answers, the reason is
// told, and it is asked for again until it is there.
func TestPlansDoNotWaitForAnImage(t *testing.T) {
	t.Parallel()
	spec := fakeSpec(t, "fake", "well")
	self := spec.Path
	spec.Image, spec.Path = "registry.example/fake@sha256:"+strings.Repeat("0a", 32), filepath.Join(t.TempDir(), "fake")
	held, r := make(chan struct{}), &registryDouble{}
	r.fetch = func(ctx context.Context, path string) error {
		switch r.asked.Load() {
		case 1:
			return errors.New("the registry refuses")
		case 2:
			select {
			case <-held:
				return errors.New("cut off")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return os.Symlink(self, path)
	}
	h := testHost(t, bound(spec), func(o *Options) {
		o.Artifacts, o.Backoff = r, func(int) time.Duration { return time.Millisecond }
	})
	until(t, "it is asked for again", func() bool { return r.asked.Load() == 2 })
	if p := price(t, h); p.Outcome != string(Dead) || p.Strategy != "cost-optimal 1.0.0" {
		t.Errorf("while it is fetched %s answers, outcome %s", p.Strategy, p.Outcome)
	}
	if st := h.Status()[0]; st.Image != spec.Image || !strings.Contains(st.LastError, "the registry refuses") {
		t.Errorf("status %+v", st)
	}
	close(held)
	until(t, "it serves", func() bool { return h.Status()[0].State == Ready })
	if p := price(t, h); p.Outcome != string(OK) || r.asked.Load() != 3 {
		t.Errorf("outcome %s after %d fetches", p.Outcome, r.asked.Load())
	}
}

func TestClosingEndsAFetch(t *testing.T) {
	t.Parallel()
	spec := fakeSpec(t, "fake", "well")
	spec.Image = "registry.example/fake@sha256:" + strings.Repeat("0a", 32)
	r := &registryDouble{fetch: func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }}
	h := testHost(t, bound(spec), func(o *Options) { o.Artifacts = r })
	until(t, "it is asked for", func() bool { return r.asked.Load() > 0 })
	h.Close()
}

func TestImagesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	image := "registry.example/carbon@sha256:" + strings.Repeat("0a", 32)
	c := config.Default()
	c.StrategyBinary, c.StrategyFolder = os.Args[0], "/var/cache/x"
	c.Strategies["carbon"] = config.Strategy{Kind: config.InstanceSelection, Image: image, Path: "/bin/carbon", AllowUnsandboxed: true}
	got, err := FromConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	spec := got.Strategies[0]
	if spec.Name != "carbon" || spec.Image != image || spec.Program != "/bin/carbon" || filepath.Dir(filepath.Dir(spec.Path)) != "/var/cache/x/programs" || filepath.Base(spec.Path) != "carbon" {
		t.Errorf("%+v", spec)
	}
	if other := ArtifactPath(c.StrategyFolder, image, ""); other == spec.Path || filepath.Base(other) != "carbon" {
		t.Errorf("the entry point is put at %s, /bin/carbon at %s", other, spec.Path)
	}
}
