package artifact

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// titleAnnotation is the name of the file that a layer of an artifact is.
const titleAnnotation = "org.opencontainers.image.title"

// program writes the program of a manifest.
func (s *source) program(ctx context.Context, m *v1.Manifest, program string, w io.Writer) error {
	if len(m.Layers) == 0 {
		return errors.New("it has no layer: expected a program")
	}
	if isImage(m) {
		return s.fromImage(ctx, m, program, w)
	}
	return s.fromFiles(ctx, m, program, w)
}

// fromFiles takes the file of an artifact: each layer is one.
func (s *source) fromFiles(ctx context.Context, m *v1.Manifest, program string, w io.Writer) error {
	var found *v1.Descriptor
	var names []string
	for i, l := range m.Layers {
		title := l.Annotations[titleAnnotation]
		names = append(names, fmt.Sprintf("%q", title))
		if program == "" && len(m.Layers) == 1 || program != "" && title == strings.TrimPrefix(program, "/") {
			found = &m.Layers[i]
		}
	}
	if found == nil {
		if program == "" {
			return fmt.Errorf("the artifact has %d files, %s: name one of them (path)", len(names), strings.Join(names, ", "))
		}
		return fmt.Errorf("the artifact has no file %q, it has %s", program, strings.Join(names, ", "))
	}
	r, err := s.layer(ctx, *found)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	b := bufio.NewReader(r)
	if magic, err := b.Peek(2); err == nil && string(magic) == "\x1f\x8b" {
		return errors.New("the artifact's file is compressed: expected the program itself, as oras push of one file makes it")
	}
	_, err = io.Copy(w, b)
	return err
}

// fromImage takes a file of a container image.
func (s *source) fromImage(ctx context.Context, m *v1.Manifest, program string, w io.Writer) error {
	if program == "" {
		var err error
		if program, err = s.entrypoint(ctx, m); err != nil {
			return err
		}
	}
	if !path.IsAbs(program) {
		return fmt.Errorf("program %q of the image: expected an absolute path", program)
	}
	program = path.Clean(program)
	for i := len(m.Layers) - 1; i >= 0; i-- {
		found, gone, err := s.fromLayer(ctx, m.Layers[i], program, w)
		if err != nil {
			return fmt.Errorf("layer %s: %w", m.Layers[i].Digest, err)
		}
		if found {
			return nil
		}
		if gone {
			break
		}
	}
	return fmt.Errorf("the image has no file %s", program)
}

func (s *source) entrypoint(ctx context.Context, m *v1.Manifest) (string, error) {
	r, err := s.layer(ctx, m.Config)
	if err != nil {
		return "", fmt.Errorf("configuration of the image: %w", err)
	}
	defer func() { _ = r.Close() }() // it was only read
	c, err := v1.ParseConfigFile(io.LimitReader(r, maxManifest))
	if err != nil {
		return "", fmt.Errorf("configuration of the image: %w", err)
	}
	switch words := append(append([]string{}, c.Config.Entrypoint...), c.Config.Cmd...); {
	case len(words) == 0:
		return "", errors.New("the image has no entry point: name the program in it (path)")
	case len(c.Config.Entrypoint) > 1 || len(words) > 1:
		return "", fmt.Errorf("the image's entry point is more than a program, %q: name the program in it (path)", words)
	default:
		return words[0], nil
	}
}

// Names that say what a layer takes away from those below.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// fromLayer writes the file if the layer has it, and says whether it hides those below.
func (s *source) fromLayer(ctx context.Context, d v1.Descriptor, program string, w io.Writer) (found, gone bool, err error) {
	if strings.HasSuffix(string(d.MediaType), "zstd") {
		return false, false, fmt.Errorf("is compressed by zstd (%s): expected gzip or none", d.MediaType)
	}
	r, err := s.layer(ctx, d)
	if err != nil {
		return false, false, err
	}
	defer func() { _ = r.Close() }() // it was only read
	plain := io.Reader(bufio.NewReader(r))
	if magic, err := plain.(*bufio.Reader).Peek(2); err == nil && string(magic) == "\x1f\x8b" {
		if plain, err = gzip.NewReader(plain); err != nil {
			return false, false, err
		}
	}
	// What a layer may unpack to is bounded, too: a program this big is refused anyway.
	files := tar.NewReader(io.LimitReader(plain, 4*maxBlob))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return false, gone, nil
		}
		if err != nil {
			return false, false, err
		}
		switch at := path.Clean("/" + h.Name); {
		case at == program && h.Typeflag == tar.TypeReg:
			_, err := io.Copy(w, files)
			return err == nil, false, err
		case at == program && h.Typeflag != tar.TypeDir:
			return false, false, fmt.Errorf("%s is a link to %s: name the program itself (path)", program, h.Linkname)
		case hides(at, program):
			gone = true
		case h.Typeflag == tar.TypeSymlink && strings.HasPrefix(program, at+"/"):
			return false, false, fmt.Errorf("%s is a link to %s: name the program without it (path)", at, h.Linkname)
		}
	}
}

// hides says whether an entry takes a file of the layers below away.
func hides(entry, program string) bool {
	dir, base := path.Split(entry)
	if base == opaque {
		return strings.HasPrefix(program, dir)
	}
	name, ok := strings.CutPrefix(base, whiteout)
	return ok && (program == dir+name || strings.HasPrefix(program, dir+name+"/"))
}
