package strategy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// LockFile is the usual name of a lock file.
const LockFile = "weir-strategies.lock"

// lockVersion is the version of the format that is written, and the only one read.
const lockVersion = 1

// Lock says which programs may run as strategies: for each name, its version and the
// SHA-256 of its executable on each platform. Entries are in the order of their names.
type Lock struct {
	Version    int           `json:"version"`
	Strategies []LockedEntry `json:"strategies"`
}

// LockedEntry is one strategy of a lock file.
type LockedEntry struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// SHA256 in hex by platform, such as linux/amd64.
	SHA256 map[string]string `json:"sha256"`
}

// ErrNotLocked says that a lock file does not have what was asked for.
var ErrNotLocked = errors.New("is not in the lock file")

var (
	lockName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	lockPlatform = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+$`)
	lockSum      = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Platform is the one that this program was built for.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// ParseLock reads a lock file. What is wrong is said with the field, all at once.
func ParseLock(b []byte) (*Lock, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var l Lock
	if err := dec.Decode(&l); err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("lock file: more than one JSON value")
	}
	if l.Version != lockVersion {
		return nil, fmt.Errorf("lock file: version is %d, this program reads %d", l.Version, lockVersion)
	}
	var errs []error
	seen := map[string]bool{}
	for i, e := range l.Strategies {
		field := fmt.Sprintf("strategies[%d]", i)
		if err := e.check(); err != nil {
			errs = append(errs, fmt.Errorf("lock file: %s: %w", field, err))
		}
		if seen[e.Name] {
			errs = append(errs, fmt.Errorf("lock file: %s: name %q is there twice", field, e.Name))
		}
		seen[e.Name] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l.sort()
	return &l, nil
}

func (e LockedEntry) check() error {
	switch {
	case !lockName.MatchString(e.Name):
		return fmt.Errorf("name %q: want small letters, digits and dashes, at most 63", e.Name)
	case e.Version == "" || len(e.Version) > 63:
		return fmt.Errorf("%s: version %q: want 1 to 63 characters", e.Name, e.Version)
	case len(e.SHA256) == 0:
		return fmt.Errorf("%s: sha256: want at least one platform", e.Name)
	}
	for _, platform := range sortedNames(e.SHA256) {
		if !lockPlatform.MatchString(platform) {
			return fmt.Errorf("%s: sha256: platform %q: want os/arch, such as linux/amd64", e.Name, platform)
		}
		if !lockSum.MatchString(e.SHA256[platform]) {
			return fmt.Errorf("%s: sha256 of %s is %q: want 64 hexadecimal digits in small letters", e.Name, platform, e.SHA256[platform])
		}
	}
	return nil
}

func (l *Lock) sort() {
	slices.SortFunc(l.Strategies, func(a, b LockedEntry) int { return cmp.Compare(a.Name, b.Name) })
}

// ReadLock reads the lock file at path. A file that does not exist is an error for
// which errors.Is(err, os.ErrNotExist) holds.
func ReadLock(path string) (*Lock, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	l, err := ParseLock(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// Write puts the lock at path, whole or not at all. The same content is always the
// same bytes, so that a lock file can be kept under version control.
func (l *Lock) Write(path string) (err error) {
	out := Lock{Version: lockVersion, Strategies: slices.Clone(l.Strategies)}
	if out.Strategies == nil {
		out.Strategies = []LockedEntry{}
	}
	out.sort()
	for _, e := range out.Strategies {
		if err := e.check(); err != nil {
			return fmt.Errorf("lock file: %w", err)
		}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
			err = errors.Join(fmt.Errorf("writing the lock file: %w", err), os.Remove(file.Name()))
		}
	}()
	if _, err := file.Write(append(text, '\n')); err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(0o644), file.Sync()); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// Entry is the entry of a name, nil if there is none.
func (l *Lock) Entry(name string) *LockedEntry {
	for i := range l.Strategies {
		if l.Strategies[i].Name == name {
			return &l.Strategies[i]
		}
	}
	return nil
}

// Pin sets the digest of one platform. Another version takes the place of the one
// before with all of its platforms. It is an error if an argument is not well formed.
func (l *Lock) Pin(name, version, sha256, platform string) error {
	fresh := LockedEntry{Name: name, Version: version, SHA256: map[string]string{platform: strings.ToLower(sha256)}}
	if err := fresh.check(); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	e := l.Entry(name)
	switch {
	case e == nil:
		l.Strategies = append(l.Strategies, fresh)
		l.sort()
	case e.Version != version:
		*e = fresh
	default:
		e.SHA256[platform] = fresh.SHA256[platform]
	}
	return nil
}

// Check is nil where the lock has this name in this version with this digest for the
// platform. An empty version or digest is not compared. What is not there at all is an
// error for which errors.Is(err, ErrNotLocked) holds.
func (l *Lock) Check(name, version, sha256, platform string) error {
	e := l.Entry(name)
	if e == nil {
		return fmt.Errorf("strategy %q %w", name, ErrNotLocked)
	}
	if version != "" && version != e.Version {
		return fmt.Errorf("strategy %q is version %s, locked is %s", name, version, e.Version)
	}
	locked, ok := e.SHA256[platform]
	if !ok {
		return fmt.Errorf("strategy %q %s %w for %s (there are %s)", name, e.Version, ErrNotLocked, platform, strings.Join(sortedNames(e.SHA256), ", "))
	}
	if sha256 != "" && !strings.EqualFold(sha256, locked) {
		return fmt.Errorf("strategy %q %s for %s has SHA-256 %s, locked is %s", name, e.Version, platform, sha256, locked)
	}
	return nil
}

// lock makes a spec take only what the lock has. Strategies that are part of Weir, and
// those in containers, whose images are pinned where they are started, are not in it.
func (l *Lock) lock(spec Spec) (Spec, error) {
	if err := l.Check(spec.Name, "", spec.SHA256, Platform()); err != nil {
		return Spec{}, err
	}
	e := l.Entry(spec.Name)
	spec.Version, spec.SHA256 = e.Version, e.SHA256[Platform()]
	return spec, nil
}
