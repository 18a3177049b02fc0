package image_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/weir-project/weir/lambda/deploy/image"
)

func write(t *testing.T, indices int) (string, v1.Hash) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	var digest v1.Hash
	for range indices {
		index, err := random.Index(512, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "v1+dirty"})); err != nil {
			t.Fatal(err)
		}
		if digest, err = index.Digest(); err != nil {
			t.Fatal(err)
		}
	}
	return dir, digest
}

// serve is a registry and the count of what was written to it.
func serve(t *testing.T, refuse int) (string, *atomic.Int32) {
	t.Helper()
	var writes atomic.Int32
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse != 0 && r.URL.Path != "/v2/" {
			w.WriteHeader(refuse)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writes.Add(1)
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/weir", &writes
}

func TestPush(t *testing.T) {
	t.Parallel()
	dir, digest := write(t, 1)
	repository, writes := serve(t, 0)
	ref, err := image.Push(t.Context(), dir, repository, authn.Anonymous)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(image.Reference{Repository: repository, Digest: digest.String()}, ref); diff != "" {
		t.Errorf("reference (-want +got):\n%s", diff)
	}
	for _, s := range []string{ref.String(), repository + ":v1-dirty-" + digest.Hex[:12]} {
		parsed, err := name.ParseReference(s)
		if err != nil {
			t.Fatal(err)
		}
		index, err := remote.Index(parsed, remote.WithContext(t.Context()))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	before := writes.Load()
	if _, err := image.Push(t.Context(), dir, repository, authn.Anonymous); err != nil || writes.Load() != before {
		t.Errorf("pushed again: %d writes, %v", writes.Load()-before, err)
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	good, _ := write(t, 1)
	two, _ := write(t, 2)
	denied, _ := serve(t, http.StatusForbidden)
	open, _ := serve(t, 0)
	for what, tc := range map[string]struct{ dir, repository, want string }{
		"no layout":      {filepath.Join(t.TempDir(), "none"), open, "packed without the image"},
		"no layout in":   {t.TempDir(), open, "image layout"},
		"two images":     {two, open, "it has 2 entries"},
		"no rights":      {good, denied, "looking for image"},
		"no repository":  {good, "r.example/A B", `repository "r.example/A B"`},
		"nobody answers": {good, "127.0.0.1:1/weir", "looking for image"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if _, err := image.Push(t.Context(), tc.dir, tc.repository, authn.Anonymous); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, expected it to say %q", err, tc.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]image.Reference{
		"r.example/weir:v1":          {Repository: "r.example/weir", Tag: "v1"},
		"r.example:5000/a/weir:v1":   {Repository: "r.example:5000/a/weir", Tag: "v1"},
		"r.example/weir@" + digest:   {Repository: "r.example/weir", Digest: digest},
		"r.example/weir":             {},
		"r.example/weir@sha256:abcd": {},
	} {
		got, err := image.Parse(text)
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == image.Reference{}) {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
		if err == nil && got.String() != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// tokens is ECR.
type tokens struct {
	token *string
	err   error
}

func (f tokens) GetAuthorizationToken(context.Context, *ecr.GetAuthorizationTokenInput, ...func(*ecr.Options)) (*ecr.GetAuthorizationTokenOutput, error) {
	if f.token == nil {
		return &ecr.GetAuthorizationTokenOutput{}, f.err
	}
	return &ecr.GetAuthorizationTokenOutput{AuthorizationData: []types.AuthorizationData{{AuthorizationToken: f.token}}}, f.err
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	a, err := image.Credentials(t.Context(), tokens{token: text("QVdTOnBhc3N3b3Jk")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&authn.Basic{Username: "AWS", Password: "password"}, a); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	for _, bad := range []tokens{{}, {token: text("*secret*")}, {token: text("c2VjcmV0")}, {err: errors.New("denied")}} {
		if _, err := image.Credentials(t.Context(), bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
	}
}
