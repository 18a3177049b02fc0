package strategy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"path/filepath"
	"strings"
)

// Artifacts brings executables that are named by image.
type Artifacts interface {
	// Fetch puts the program of an image, empty = its entry point or only file, at to.
	// What it puts there has been held against the digest in the image's name.
	Fetch(ctx context.Context, image, program, to string) error
}

// ArtifactPath is where the program of an image is put: another image is another path. Its
// last part is the program's own name, or that of the image's repository, which a
// program may go by and people read in lists of processes.
func ArtifactPath(folder, image, program string) string {
	sum := sha256.Sum256([]byte(image + "\n" + program))
	repository, _, _ := strings.Cut(image, "@")
	return filepath.Join(folder, "programs", hex.EncodeToString(sum[:16]), path.Base(cmp.Or(program, repository)))
}

// open copies the slot's executable, which is fetched first where it is named by image.
// Whoever waits for it is asked meanwhile by nobody: the slot does not serve.
func (s *slot) open(ctx context.Context) (*image, error) {
	if s.spec.Image != "" {
		if s.opts.Artifacts == nil {
			return nil, errors.New("image: this host fetches none")
		}
		if err := s.opts.Artifacts.Fetch(ctx, s.spec.Image, s.spec.Program, s.spec.Path); err != nil {
			return nil, err
		}
	}
	return s.images.open(s.spec.Path, s.spec.SHA256)
}
