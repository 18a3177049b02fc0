package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	annotationRef = "org.opencontainers.image.ref.name"
	source        = "https://github.com/weir-project/weir"

	// UserID is the user without privileges, and its group.
	UserID = 65532
)

// Binaries are the programs of the image, in its root. The first one is the entry point.
func Binaries() []string { return []string{"weir-scaler", "weir-strategy"} }

// machines maps architectures of Go and OCI to those of ELF.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func architectures() []string { return slices.Sorted(maps.Keys(machines)) }

// Options says what goes into the image.
type Options struct {
	Version   string
	Revision  string // may be empty
	Date      time.Time
	Platforms []Platform
	SBOM      bool // write bills of materials; the programs must be Go's
}

// Platform is a folder of static linux binaries for one architecture.
type Platform struct{ Arch, Dir string }

// Build makes an image index with one image for each platform, in the order of their
// architectures. A binary that is missing, of another architecture or dynamically
// linked is an error that names it.
func Build(o Options) (v1.ImageIndex, error) {
	platforms := slices.Clone(o.Platforms)
	slices.SortFunc(platforms, func(a, b Platform) int { return bytes.Compare([]byte(a.Arch), []byte(b.Arch)) })
	for i := 1; i < len(platforms); i++ {
		if platforms[i].Arch == platforms[i-1].Arch {
			return nil, fmt.Errorf("architecture %s is given twice", platforms[i].Arch)
		}
	}
	base, err := baseFiles()
	if err != nil {
		return nil, err
	}
	baseLayer, err := layer(base, o.Date)
	if err != nil {
		return nil, fmt.Errorf("layer of the base: %w", err)
	}
	idx := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		img, err := image(o, p, baseLayer)
		if err != nil {
			return nil, fmt.Errorf("image for linux/%s: %w", p.Arch, err)
		}
		idx = mutate.AppendManifests(idx, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.Arch}},
		})
	}
	return idx, nil
}

func image(o Options, p Platform, base v1.Layer) (v1.Image, error) {
	var files []file
	for _, name := range Binaries() {
		b, err := readBinary(filepath.Join(p.Dir, name), p.Arch)
		if err != nil {
			return nil, err
		}
		files = append(files, file{path: name, mode: 0o755, data: b})
	}
	programs, err := layer(files, o.Date)
	if err != nil {
		return nil, fmt.Errorf("layer of the programs: %w", err)
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	created := v1.Time{Time: o.Date}
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "certificates, user, folders"}},
		mutate.Addendum{Layer: programs, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "programs"}},
	)
	if err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cfg = cfg.DeepCopy()
	cfg.Created, cfg.OS, cfg.Architecture = created, "linux", p.Arch
	cfg.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", UserID, UserID),
		Entrypoint: []string{"/" + Binaries()[0]},
		Env:        []string{"PATH=/", "SSL_CERT_FILE=/" + certificates},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":   "weir",
			"org.opencontainers.image.source":  source,
			"org.opencontainers.image.version": o.Version,
		},
	}
	if o.Revision != "" {
		cfg.Config.Labels["org.opencontainers.image.revision"] = o.Revision
	}
	return mutate.ConfigFile(img, cfg)
}

// readBinary reads a program and checks that it can run in an image that has nothing else.
func readBinary(path, arch string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s is no linux program: %w", path, err)
	}
	if f.Machine != machines[arch] {
		return nil, fmt.Errorf("%s is for %s, expected %s", path, f.Machine, machines[arch])
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is dynamically linked; build it with CGO_ENABLED=0", path)
		}
	}
	return b, nil
}

// file is one entry of a layer; a folder has a path that ends with a slash.
type file struct {
	path string
	mode int64
	uid  int
	data []byte
}

// layer is a tar of the files with nothing in it that varies between two runs.
func layer(files []file, date time.Time) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{
			Name: f.path, Mode: f.mode, Uid: f.uid, Gid: f.uid, Size: int64(len(f.data)),
			Typeflag: tar.TypeReg, ModTime: date, Format: tar.FormatPAX,
		}
		if f.path[len(f.path)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := errors.Join(w.WriteHeader(h), writeAll(w, f.data)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

func writeAll(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}
