package artifact_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/weir-project/weir/core/strategy/artifact"
)

// stage is a registry and a store.
type stage struct {
	*testing.T
	host   string
	folder string
	store  *artifact.Store
	asked  atomic.Int64
	// answer, where set, is that of the registry.
	answer atomic.Pointer[http.HandlerFunc]
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, folder: filepath.Join(t.TempDir(), "strategies")}
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if f := s.answer.Load(); f != nil {
			(*f)(w, r)
			return
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.host = strings.TrimPrefix(srv.URL, "http://")
	s.store = artifact.New(artifact.Options{Folder: s.folder, Platform: v1.Platform{OS: "linux", Architecture: "arm64"}})
	return s
}

// push puts something into the registry and answers its name by digest.
func (s *stage) push(what remote.Taggable) string {
	s.Helper()
	tag, err := name.NewTag(s.host + "/team/carbon:latest")
	if err != nil {
		s.Fatal(err)
	}
	var digest v1.Hash
	switch x := what.(type) {
	case v1.Image:
		err = remote.Write(tag, x)
		if err == nil {
			digest, err = x.Digest()
		}
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, x)
		if err == nil {
			digest, err = x.Digest()
		}
	}
	if err != nil {
		s.Fatal(err)
	}
	return s.host + "/team/carbon@" + digest.String()
}

// files is an artifact as oras push makes it.
func (s *stage) files(files map[string]string) v1.Image {
	s.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.oci.empty.v1+json")
	for title, text := range files {
		var err error
		img, err = mutate.Append(img, mutate.Addendum{Layer: static.NewLayer([]byte(text), "application/octet-stream"),
			Annotations: map[string]string{"org.opencontainers.image.title": title}})
		if err != nil {
			s.Fatal(err)
		}
	}
	return img
}

type entry struct{ name, text, link string }

// image is a container image of these layers.
func (s *stage) image(c v1.Config, layers ...[]entry) v1.Image {
	s.Helper()
	img, err := mutate.Config(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), c)
	if err != nil {
		s.Fatal(err)
	}
	for i, l := range layers {
		var b bytes.Buffer
		var plain io.Writer = &b
		media := types.OCIUncompressedLayer
		var z *gzip.Writer
		if i%2 == 0 {
			z = gzip.NewWriter(&b)
			plain, media = z, types.OCILayer
		}
		w := tar.NewWriter(plain)
		for _, e := range l {
			h := &tar.Header{Name: e.name, Mode: 0o755, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
			if e.link != "" {
				h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
			}
			if err := w.WriteHeader(h); err != nil {
				s.Fatal(err)
			}
			if _, err := w.Write([]byte(e.text)); err != nil {
				s.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			s.Fatal(err)
		}
		if z != nil {
			if err := z.Close(); err != nil {
				s.Fatal(err)
			}
		}
		if img, err = mutate.AppendLayers(img, static.NewLayer(b.Bytes(), media)); err != nil {
			s.Fatal(err)
		}
	}
	return img
}

func (s *stage) fetch(image, program string) (string, error) {
	s.Helper()
	path := filepath.Join(s.folder, "programs", "x")
	if err := s.store.Fetch(s.Context(), image, program, path); err != nil {
		if left, _ := filepath.Glob(filepath.Join(s.folder, "*", ".new-*")); len(left) > 0 {
			s.Errorf("left over: %v", left)
		}
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o500 {
		s.Errorf("mode %v, %v", info, err)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

func TestFetch(t *testing.T) {
	t.Parallel()
	start := v1.Config{Entrypoint: []string{"/bin/carbon"}}
	for _, tt := range []struct {
		name, program string
		what          func(*stage) remote.Taggable
		want          string
		fails         string
	}{
		{"one file", "", func(s *stage) remote.Taggable { return s.files(map[string]string{"carbon": "v1"}) }, "v1", ""},
		{"one of two files", "carbon", func(s *stage) remote.Taggable { return s.files(map[string]string{"carbon": "v1", "readme": "x"}) }, "v1", ""},
		{"two files and no name", "", func(s *stage) remote.Taggable { return s.files(map[string]string{"carbon": "v1", "readme": "x"}) }, "", "name one of them"},
		{"no such file", "carbom", func(s *stage) remote.Taggable { return s.files(map[string]string{"carbon": "v1"}) }, "", `has no file "carbom", it has "carbon"`},
		{"compressed", "", func(s *stage) remote.Taggable { return s.files(map[string]string{"carbon": "\x1f\x8bxx"}) }, "", "is compressed"},
		{"empty", "", func(s *stage) remote.Taggable { return s.files(nil) }, "", "no layer"},
		{"entry point", "", func(s *stage) remote.Taggable { return s.image(start, []entry{{"bin/carbon", "v1", ""}}) }, "v1", ""},
		{"program of an image", "/opt/other", func(s *stage) remote.Taggable {
			return s.image(start, []entry{{"bin/carbon", "v1", ""}, {"./opt/other", "o", ""}})
		}, "o", ""},
		{"a later layer wins", "", func(s *stage) remote.Taggable {
			return s.image(start, []entry{{"bin/carbon", "v1", ""}}, []entry{{"bin/carbon", "v2", ""}}, []entry{{"etc/x", "y", ""}})
		}, "v2", ""},
		{"taken away", "", func(s *stage) remote.Taggable {
			return s.image(start, []entry{{"bin/carbon", "v1", ""}}, []entry{{"bin/.wh.carbon", "", ""}})
		}, "", "has no file /bin/carbon"},
		{"its folder taken away", "", func(s *stage) remote.Taggable {
			return s.image(start, []entry{{"bin/carbon", "v1", ""}}, []entry{{".wh.bin", "", ""}})
		}, "", "has no file /bin/carbon"},
		{"its folder emptied and filled", "", func(s *stage) remote.Taggable {
			return s.image(start, []entry{{"bin/carbon", "v1", ""}}, []entry{{"bin/.wh..wh..opq", "", ""}, {"bin/carbon", "v3", ""}})
		}, "v3", ""},
		{"a link", "", func(s *stage) remote.Taggable { return s.image(start, []entry{{"bin/carbon", "", "/opt/carbon"}}) }, "", "is a link to /opt/carbon"},
		{"no entry point", "", func(s *stage) remote.Taggable {
			return s.image(v1.Config{}, []entry{{"bin/carbon", "v1", ""}})
		}, "", "no entry point"},
		{"entry point with words", "", func(s *stage) remote.Taggable {
			return s.image(v1.Config{Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"x"}}, []entry{{"bin/sh", "v1", ""}})
		}, "", "more than a program"},
		{"index", "", func(s *stage) remote.Taggable {
			return mutate.AppendManifests(empty.Index,
				mutate.IndexAddendum{Add: s.files(map[string]string{"carbon": "for amd64"}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
				mutate.IndexAddendum{Add: s.files(map[string]string{"carbon": "for arm64"}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
		}, "for arm64", ""},
		{"index without our platform", "", func(s *stage) remote.Taggable {
			return mutate.AppendManifests(empty.Index,
				mutate.IndexAddendum{Add: s.files(map[string]string{"carbon": "for amd64"}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
		}, "", "nothing for linux/arm64, it is for linux/amd64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			image := s.push(tt.what(s))
			got, err := s.fetch(image, tt.program)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(err.Error(), image) {
					t.Errorf("%q, %v, want %q", got, err, tt.fails)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// What was fetched is there when the registry is not, unless somebody changed it.
func TestKeptContentIsCheckedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	image := s.push(s.files(map[string]string{"carbon": "the program"}))
	if _, err := s.fetch(image, ""); err != nil {
		t.Fatal(err)
	}
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	s.answer.Store(&down)
	before := s.asked.Load()
	if got, err := s.fetch(image, ""); err != nil || got != "the program" || s.asked.Load() != before {
		t.Errorf("registry away: %q, %v, asked %d times", got, err, s.asked.Load()-before)
	}
	kept, err := filepath.Glob(filepath.Join(s.folder, "blobs", "sha256", "*"))
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	for _, path := range kept {
		if err := os.WriteFile(path, []byte("another program"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.fetch(image, ""); err == nil {
		t.Errorf("changed content ran: %q", got)
	}
	s.answer.Store(nil)
	if got, err := s.fetch(image, ""); err != nil || got != "the program" {
		t.Errorf("registry back: %q, %v", got, err)
	}
}

func TestWhatRegistriesAnswer(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"other content": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			fmt.Fprint(w, `{"schemaVersion": 2}`)
		}, "digest"},
		"no right": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusForbidden)
			}
		}, "the registry refuses: credentials"},
		"not there": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusNotFound)
			}
		}, "the registry does not have it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.answer.Store(&tt.answer)
			if got, err := s.fetch(s.host+"/team/carbon"+digest, ""); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if _, err := newStage(t).fetch("registry.example/team/carbon:latest", ""); err == nil {
		t.Error("a tag was fetched")
	}
}
