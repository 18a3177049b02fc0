package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
)

// Exit codes.
const (
	exitFailed   = 1
	exitBadInput = 2
)

func main() {
	o, out, err := parse(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(exitBadInput)
	}
	if err := run(o, out, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(exitFailed)
	}
}

// parse reads the flags; epoch is the value of SOURCE_DATE_EPOCH.
func parse(args []string, epoch string, stderr io.Writer) (o Options, out string, err error) {
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&out, "out", "", "folder of the OCI layout; it is replaced")
	fs.StringVar(&o.Version, "version", "dev", "version, also the name of the image in the layout")
	fs.StringVar(&o.Revision, "revision", "", "commit that the binaries were built from")
	fs.BoolVar(&o.SBOM, "sbom", true, "write a bill of materials beside the layout for each architecture, OUT-ARCH.cdx.json (CycloneDX)")
	fs.Func("binaries", "`ARCH=FOLDER` of static linux binaries, once for each architecture", func(s string) error {
		arch, dir, ok := strings.Cut(s, "=")
		if !ok || dir == "" {
			return fmt.Errorf("expected ARCH=FOLDER, such as arm64=bin/linux-arm64")
		}
		if _, known := machines[arch]; !known {
			return fmt.Errorf("architecture %q, expected one of %s", arch, strings.Join(architectures(), ", "))
		}
		o.Platforms = append(o.Platforms, Platform{Arch: arch, Dir: dir})
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return o, out, err
	}
	switch {
	case fs.NArg() > 0:
		return o, out, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case out == "":
		return o, out, errors.New("flag -out is missing: the folder of the OCI layout")
	case len(o.Platforms) == 0:
		return o, out, errors.New("flag -binaries is missing: ARCH=FOLDER of the static binaries")
	}
	o.Date = time.Unix(0, 0).UTC()
	if epoch != "" {
		s, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return o, out, fmt.Errorf("SOURCE_DATE_EPOCH is %q, expected seconds since 1970", epoch)
		}
		o.Date = time.Unix(s, 0).UTC()
	}
	return o, out, nil
}

// run builds the image, replaces the layout in out, and tells what it wrote.
func run(o Options, out string, w io.Writer) error {
	idx, err := Build(o)
	if err != nil {
		return err
	}
	if err := write(idx, out, o.Version); err != nil {
		return fmt.Errorf("writing layout %s: %w", out, err)
	}
	digest, err := idx.Digest()
	if err != nil {
		return fmt.Errorf("digest of the image index: %w", err)
	}
	fmt.Fprintf(w, "%s\n  index %s\n", out, digest)
	m, err := idx.IndexManifest()
	if err != nil {
		return fmt.Errorf("manifest of the image index: %w", err)
	}
	for _, d := range m.Manifests {
		fmt.Fprintf(w, "  %s %s\n", d.Platform, d.Digest)
	}
	if !o.SBOM {
		return nil
	}
	for _, p := range o.Platforms {
		i := slices.IndexFunc(m.Manifests, func(d v1.Descriptor) bool { return d.Platform.Architecture == p.Arch })
		b, err := sbom(o, p, m.Manifests[i].Digest)
		if err != nil {
			return err
		}
		path := sbomPath(out, p.Arch)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return fmt.Errorf("bill of materials: %w", err)
		}
		fmt.Fprintln(w, path)
	}
	return nil
}

// write makes the layout beside its place and moves it there, so that a reader never
// sees half of one. Only a folder that is a layout, or empty, is replaced.
func write(idx v1.ImageIndex, out, ref string) error {
	if err := replaceable(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(out), ".layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	p, err := layout.Write(tmp, empty.Index)
	if err != nil {
		return err
	}
	name := layout.WithAnnotations(map[string]string{annotationRef: ref})
	if err := p.ReplaceIndex(idx, match.Name(ref), name); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(tmp, out)
}

func replaceable(out string) error {
	entries, err := os.ReadDir(out)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) == 0:
		return nil
	}
	if _, err := os.Stat(filepath.Join(out, "oci-layout")); err != nil {
		return errors.New("the folder is neither empty nor an OCI layout; it is left alone")
	}
	return nil
}
