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

	"github.com/weir-project/weir/core/userfile"
)

// LockFile is the usual name of a lock file.
const LockFile = "weir-strategies.lock"

// lockVersion is the version of the format that is written, and the only one read.
const lockVersion = 1

// maxLock is the size of the largest lock file that is read, in bytes.
const maxLock = 1 << 20

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
	// ends are printable, so that no space at them is overlooked
	lockedVersion = regexp.MustCompile(`^[^\s\pC]([^\pC\pZ]|[ ]){0,61}[^\s\pC]$|^[^\s\pC]$`)
	lockSum       = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Platform is the one that this program was built for.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// ParseLock reads a lock file. What is wrong is said with line and field, all at once.
func ParseLock(b []byte) (*Lock, error) {
	lines, err := linesOf(b)
	if err != nil {
		return nil, err
	}
	wrong := func(field string, err error) error {
		at := field
		for lines[at] == 0 && at != "" {
			at = at[:max(strings.LastIndexAny(at, ".["), 0)]
		}
		return fmt.Errorf("line %d: %s: %w", max(lines[at], 1), field, err)
	}
	var errs []error
	for _, field := range sortedNames(lines) {
		if !lockField.MatchString(field) {
			errs = append(errs, wrong(field, errors.New("unknown field, expected version and strategies, of each name, version and sha256")))
		}
	}
	var l Lock
	if err := json.Unmarshal(b, &l); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, fmt.Errorf("line %d: %s: is a %s, expected a %s", lineAt(b, kind.Offset), kind.Field, kind.Value, kind.Type)
		}
		return nil, err
	}
	if l.Version != lockVersion {
		errs = append(errs, wrong("version", fmt.Errorf("is %d, this program reads %d", l.Version, lockVersion)))
	}
	seen := map[string]bool{}
	for i, e := range l.Strategies {
		field := fmt.Sprintf("strategies[%d]", i)
		var f *FieldError
		if err := e.check(); errors.As(err, &f) {
			errs = append(errs, wrong(field+"."+f.Field, f.Err))
		}
		if seen[e.Name] {
			errs = append(errs, wrong(field+".name", fmt.Errorf("%q is there twice", e.Name)))
		}
		seen[e.Name] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l.sort()
	return &l, nil
}

// lockField is what a lock file may have; dots may be part of a platform.
var lockField = regexp.MustCompile(`^(version|strategies(\[\d+\](\.(name|version|sha256(\..*)?))?)?)?$`)

// linesOf finds the line of every field of a JSON object, such as a[0].b, from 1. A field
// that is there twice is an error, and so is what is no such object.
func linesOf(b []byte) (map[string]int, error) {
	lines := map[string]int{}
	dec := json.NewDecoder(bytes.NewReader(b))
	var walk func(path string) error
	walk = func(path string) error {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		if lines[path] == 0 {
			lines[path] = lineAt(b, dec.InputOffset())
		}
		for i := 0; (t == json.Delim('{') || t == json.Delim('[')) && dec.More(); i++ {
			at := fmt.Sprintf("%s[%d]", path, i)
			if t == json.Delim('{') {
				key, err := dec.Token()
				if err != nil {
					return err
				}
				at = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key), ".")
				if lines[at] != 0 {
					return fmt.Errorf("line %d: %s: is there twice", lineAt(b, dec.InputOffset()), at)
				}
				lines[at] = lineAt(b, dec.InputOffset())
			}
			if err := walk(at); err != nil {
				return err
			}
		}
		if _, open := t.(json.Delim); open {
			_, err = dec.Token()
		}
		return err
	}
	err := walk("")
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = fmt.Errorf("line %d: expected the end of the file: it is one JSON value", lineAt(b, dec.InputOffset()))
		}
	}
	var form *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("line %d: the file ends where more is expected", lineAt(b, int64(len(b))))
	case errors.As(err, &form):
		return nil, fmt.Errorf("line %d: is not JSON: %w", lineAt(b, form.Offset), err)
	}
	return lines, err
}

// lineAt is the line of an offset, from 1.
func lineAt(b []byte, offset int64) int {
	return 1 + bytes.Count(b[:min(max(int(offset), 0), len(b))], []byte("\n"))
}

// check says what is wrong, as a *FieldError.
func (e LockedEntry) check() error {
	wrong := func(field, format string, args ...any) error {
		return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case !lockName.MatchString(e.Name):
		return wrong("name", "is %q, expected small letters, digits and dashes, at most 63", e.Name)
	case !lockedVersion.MatchString(e.Version):
		return wrong("version", "is %q, expected 1 to 63 characters that can be printed", e.Version)
	case len(e.SHA256) == 0:
		return wrong("sha256", "is empty, expected at least one platform")
	}
	for _, platform := range sortedNames(e.SHA256) {
		if !lockPlatform.MatchString(platform) {
			return wrong("sha256."+platform, "expected os/arch, such as linux/amd64")
		}
		if !lockSum.MatchString(e.SHA256[platform]) {
			return wrong("sha256."+platform, "is %q, expected 64 hexadecimal digits in small letters", e.SHA256[platform])
		}
	}
	return nil
}

// platforms that Weir runs on, or strategies are written on.
var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

// CheckPlatform says whether programs may be pinned for a platform.
func CheckPlatform(platform string) error {
	if platform == Platform() || slices.Contains(platforms, platform) {
		return nil
	}
	return fmt.Errorf("platform %q: expected one of %s", platform, strings.Join(platforms, ", "))
}

func (l *Lock) sort() {
	slices.SortFunc(l.Strategies, func(a, b LockedEntry) int { return cmp.Compare(a.Name, b.Name) })
}

// ReadLock reads the lock file at path. A file that does not exist is an error for
// which errors.Is(err, os.ErrNotExist) holds.
func ReadLock(path string) (*Lock, error) {
	b, err := userfile.Read(path, maxLock)
	if err != nil {
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	l, err := ParseLock(b)
	var several interface{ Unwrap() []error }
	switch {
	case errors.As(err, &several):
		var errs []error
		for _, e := range several.Unwrap() {
			errs = append(errs, fmt.Errorf("%s: %w", path, e))
		}
		return nil, errors.Join(errs...)
	case err != nil:
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
	if err := CheckPlatform(platform); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
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
