package strategy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/weir-project/weir/core/strategy/sandbox"
)

// image is a private copy of an executable. It is hashed while it is copied and is
// executed from its own descriptor, so that what was verified is what runs, whatever
// happens to the path meanwhile.
type image struct {
	sum   string   // SHA-256, hex
	path  string   // what to execute
	needs []string // what it has to read beside itself to start
	file  *os.File
	drop  func() // removes what has a name

	refs int // guarded by images.mu
}

// images shares copies between strategies that come in one executable.
type images struct {
	mu  sync.Mutex
	all map[string]*image
}

// open copies the executable at path and holds it against the pin, which may be
// empty. The caller releases the image.
func (s *images) open(path, pin string) (*image, error) {
	if pin == "" {
		if err := trusted(path); err != nil {
			return nil, err
		}
	}
	img, err := readImage(path)
	if err != nil {
		return nil, err
	}
	if pin != "" && !strings.EqualFold(pin, img.sum) {
		img.close()
		return nil, fmt.Errorf("%s has SHA-256 %s, pinned is %s", path, img.sum, pin)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if same := s.all[img.sum]; same != nil {
		img.close()
		img = same
	} else {
		if s.all == nil {
			s.all = map[string]*image{}
		}
		s.all[img.sum] = img
	}
	img.refs++
	return img, nil
}

// release gives an image back.
func (s *images) release(img *image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if img.refs--; img.refs == 0 {
		delete(s.all, img.sum)
		img.close()
	}
}

func readImage(path string) (*image, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the strategy's executable: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", path, err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return nil, fmt.Errorf("%s has mode %s: want a regular file that can be executed", path, info.Mode())
	}
	needs := sandbox.Needs(src)
	img, err := privateCopy(src)
	if err != nil {
		return nil, fmt.Errorf("copying %s: %w", path, err)
	}
	img.needs = needs
	return img, nil
}

func (img *image) close() {
	if img.file != nil {
		img.file.Close()
	}
	if img.drop != nil {
		img.drop()
	}
}

// copyHashed copies and answers the SHA-256 of what was written.
func copyHashed(dst io.Writer, src io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(dst, h), src); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fileCopy is a private copy on disk, in a folder that only this user can enter: for
// systems without anonymous files, and for scripts, whose interpreter needs a name.
func fileCopy(src io.Reader) (*image, error) {
	dir, err := os.MkdirTemp("", "weir-image-")
	if err != nil {
		return nil, err
	}
	drop := func() { os.RemoveAll(dir) }
	path := dir + "/strategy"
	dst, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err != nil {
		drop()
		return nil, err
	}
	sum, err := copyHashed(dst, src)
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		drop()
		return nil, err
	}
	return &image{sum: sum, path: path, drop: drop}, nil
}
