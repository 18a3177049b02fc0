package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/weir-project/weir/core/strategy"
)

// Bounds of what is taken from a registry.
const (
	maxManifest = 4 << 20
	maxBlob     = 512 << 20
	maxProgram  = 256 << 20
	maxKept     = 512 << 20 // bytes in the folder, the oldest go
	fetchWithin = 5 * time.Minute
)

// Options of a Store.
type Options struct {
	Folder string // is made if it is not there
	// Keychain knows credentials of registries; nil = those of the Docker configuration
	// (DOCKER_CONFIG), and none where there is none.
	Keychain authn.Keychain
	// Platform whose program is taken of an index; empty = ours.
	Platform v1.Platform
	// Transport to registries; nil = the usual one.
	Transport http.RoundTripper
}

// Store fetches programs. It is safe for concurrent use.
type Store struct{ o Options }

var _ strategy.Artifacts = (*Store)(nil)

// New makes a store; it touches neither folder nor registry.
func New(o Options) *Store {
	if o.Keychain == nil {
		o.Keychain = authn.DefaultKeychain
	}
	if o.Platform.OS == "" {
		o.Platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}
	if o.Transport == nil {
		o.Transport = remote.DefaultTransport
	}
	return &Store{o}
}

// Fetch implements strategy.Artifacts.
func (s *Store) Fetch(ctx context.Context, image, program, path string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	if err := s.fetch(ctx, image, program, path); err != nil {
		return fmt.Errorf("image %s: %w", image, err)
	}
	return nil
}

func (s *Store) fetch(ctx context.Context, image, program, path string) error {
	ref, err := name.NewDigest(image, name.StrictValidation)
	if err != nil {
		return err
	}
	src := &source{store: s, repository: ref.Context()}
	m, err := src.manifest(ctx, ref.DigestStr())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	err = src.program(ctx, m, program, &limited{w: out, left: maxProgram})
	if err == nil {
		err = out.Chmod(0o500)
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return s.prune()
}

// limited refuses more than its owner has room for.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= int64(len(b)); l.left < 0 {
		return 0, fmt.Errorf("the program has more than %d MiB", maxProgram>>20)
	}
	return l.w.Write(b)
}

// source is a repository of a registry, with what was fetched from it before.
type source struct {
	store      *Store
	repository name.Repository
}

func (s *source) remote(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(s.store.o.Keychain), remote.WithTransport(s.store.o.Transport),
		remote.WithUserAgent("weir-scaler"), remote.WithRetryPredicate(func(error) bool { return false })}
}

// manifest is that of a digest, or the one of our platform where that is an index.
func (s *source) manifest(ctx context.Context, digest string) (*v1.Manifest, error) {
	for range 3 { // an index of indexes is legal, and more of it is not meant well
		raw, err := s.manifestBytes(ctx, digest)
		if err != nil {
			return nil, err
		}
		m, err := v1.ParseManifest(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", digest, err)
		}
		index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		if err != nil || !m.MediaType.IsIndex() && len(index.Manifests) == 0 {
			return m, nil
		}
		if digest, err = s.pick(index); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("an index leads to an index, and so on: expected a manifest")
}

func (s *source) manifestBytes(ctx context.Context, digest string) ([]byte, error) {
	kept, err := s.open(digest, maxManifest)
	if err == nil {
		defer func() { _ = kept.Close() }() // it was only read
		return io.ReadAll(kept)
	}
	d, err := remote.Get(s.repository.Digest(digest), s.remote(ctx)...)
	if err != nil {
		return nil, explain(err)
	}
	if len(d.Manifest) > maxManifest {
		return nil, fmt.Errorf("manifest %s has %d bytes, expected at most %d", digest, len(d.Manifest), maxManifest)
	}
	return d.Manifest, s.keep(digest, bytes.NewReader(d.Manifest), maxManifest)
}

// pick is the manifest of our platform.
func (s *source) pick(index *v1.IndexManifest) (string, error) {
	want := s.store.o.Platform
	var there []string
	for _, d := range index.Manifests {
		if d.Platform == nil {
			continue
		}
		if d.Platform.OS == want.OS && d.Platform.Architecture == want.Architecture {
			return d.Digest.String(), nil
		}
		there = append(there, d.Platform.String())
	}
	slices.Sort(there)
	return "", fmt.Errorf("it has nothing for %s, it is for %s", want.String(), strings.Join(there, ", "))
}

// layer fetches a blob as far as it is not kept already, and opens it.
func (s *source) layer(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	if d.Size > maxBlob {
		return nil, fmt.Errorf("layer %s has %d MiB, expected at most %d", d.Digest, d.Size>>20, maxBlob>>20)
	}
	digest := d.Digest.String()
	if kept, err := s.open(digest, maxBlob); err == nil {
		return kept, nil
	}
	l, err := remote.Layer(s.repository.Digest(digest), s.remote(ctx)...)
	if err != nil {
		return nil, explain(err)
	}
	r, err := l.Compressed()
	if err != nil {
		return nil, explain(err)
	}
	err = s.keep(digest, r, maxBlob)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("layer %s: %w", digest, explain(err))
	}
	return s.open(digest, maxBlob)
}

// explain says what a registry's answer means.
func explain(err error) error {
	var t *transport.Error
	if !errors.As(err, &t) {
		return err
	}
	switch t.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the registry refuses: credentials for it are missing, or have no right to it: %w", err)
	case http.StatusNotFound:
		return fmt.Errorf("the registry does not have it: %w", err)
	}
	return err
}

// blobs is where content is kept by digest.
func (s *Store) blobs() string { return filepath.Join(s.o.Folder, "blobs", "sha256") }

func (s *source) path(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("digest %q: expected sha256: and 64 hexadecimal digits", digest)
	}
	return filepath.Join(s.store.blobs(), sum), nil
}

// open opens what is kept, after its content was held against its digest.
func (s *source) open(digest string, limit int64) (io.ReadCloser, error) {
	path, err := s.path(digest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, io.LimitReader(f, limit+1))
	if err == nil && "sha256:"+hex.EncodeToString(h.Sum(nil)) != digest {
		err = fmt.Errorf("%s has other content than its name says", path)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		now := time.Now()
		err = os.Chtimes(path, now, now) // what was used last is dropped last
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// keep writes content if it is what the digest says.
func (s *source) keep(digest string, r io.Reader, limit int64) error {
	path, err := s.path(digest)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, limit+1))
	switch got := "sha256:" + hex.EncodeToString(h.Sum(nil)); {
	case err != nil:
	case n > limit:
		err = fmt.Errorf("more than %d bytes", limit)
	case got != digest:
		err = fmt.Errorf("the registry answered with other content: %s", got)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// prune drops what was not used for longest, where there is too much. Programs that run
// are copies; they do not mind.
func (s *Store) prune() error {
	type file struct {
		path string
		info fs.FileInfo
	}
	var all []file
	err := filepath.WalkDir(s.o.Folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another fetch was faster
		}
		all = append(all, file{path, info})
		return err
	})
	if err != nil {
		return fmt.Errorf("looking through %s: %w", s.o.Folder, err)
	}
	slices.SortFunc(all, func(a, b file) int { return b.info.ModTime().Compare(a.info.ModTime()) })
	total := int64(0)
	var errs []error
	for _, f := range all {
		if total += f.info.Size(); total <= maxKept {
			continue
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// isImage says whether a manifest is that of a container image, whose layers are file trees.
func isImage(m *v1.Manifest) bool {
	return m.Config.MediaType == types.OCIConfigJSON || m.Config.MediaType == types.DockerConfigJSON
}
