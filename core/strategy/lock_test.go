package strategy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	sumA = strings.Repeat("a1", 32)
	sumB = strings.Repeat("b2", 32)
)

func TestLockIsReadAsWritten(t *testing.T) {
	t.Parallel()
	var l Lock
	for _, p := range [][4]string{{"zonal", "1.0", sumA, "linux/arm64"}, {"carbon", "2.0.1", sumA, "linux/amd64"}, {"carbon", "2.0.1", strings.ToUpper(sumB), "linux/arm64"}} {
		if err := l.Pin(p[0], p[1], p[2], p[3]); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), LockFile)
	if err := l.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLock(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &Lock{Version: 1, Strategies: []LockedEntry{
		{Name: "carbon", Version: "2.0.1", SHA256: map[string]string{"linux/amd64": sumA, "linux/arm64": sumB}},
		{Name: "zonal", Version: "1.0", SHA256: map[string]string{"linux/arm64": sumA}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Write(path); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(before) != string(after) {
		t.Errorf("written again it is another (%v):\n%s", err, cmp.Diff(string(before), string(after)))
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files beside it, %v", len(left), err)
	}
	// Another version takes the place of all platforms.
	if err := got.Pin("carbon", "3", sumB, "linux/amd64"); err != nil {
		t.Fatal(err)
	}
	if err := got.Check("carbon", "3", "", "linux/arm64"); !errors.Is(err, ErrNotLocked) {
		t.Errorf("the digest of version 2.0.1 counts for version 3: %v", err)
	}
}

func TestLockCheck(t *testing.T) {
	t.Parallel()
	l := &Lock{Strategies: []LockedEntry{{Name: "carbon", Version: "2.0.1", SHA256: map[string]string{"linux/amd64": sumA}}}}
	for name, c := range map[string]struct {
		args [4]string
		want string // part of the error, empty = none
	}{
		"as locked":        {[4]string{"carbon", "2.0.1", sumA, "linux/amd64"}, ""},
		"capitals":         {[4]string{"carbon", "2.0.1", strings.ToUpper(sumA), "linux/amd64"}, ""},
		"nothing compared": {[4]string{"carbon", "", "", "linux/amd64"}, ""},
		"another program":  {[4]string{"carbon", "2.0.1", sumB, "linux/amd64"}, "has SHA-256 " + sumB + ", locked is " + sumA},
		"another version":  {[4]string{"carbon", "2.0.2", sumA, "linux/amd64"}, "is version 2.0.2, locked is 2.0.1"},
		"another platform": {[4]string{"carbon", "2.0.1", sumA, "linux/arm64"}, "for linux/arm64 (there are linux/amd64)"},
		"another name":     {[4]string{"coal", "2.0.1", sumA, "linux/amd64"}, `strategy "coal" is not in the lock file`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := l.Check(c.args[0], c.args[1], c.args[2], c.args[3])
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestLockFaultsAreNamed(t *testing.T) {
	t.Parallel()
	entry := func(s string) string { return `{"version": 1, "strategies": [` + s + `]}` }
	for text, want := range map[string]string{
		``:                                     "line 1: the file ends",
		"{\n\"version\": 1,":                   "line 2: the file ends",
		"{\n\n]":                               "line 3: is not JSON",
		`{}`:                                   "line 1: version: is 0, this program reads 1",
		"{\n\"version\": 2}":                   "line 2: version: is 2",
		"{\n\"version\": \"1\"}":               "line 2: version: is a string, expected a int",
		"{\"version\": 1,\n\"plugins\": 1}":    `line 2: plugins: unknown field`,
		"{\"version\": 1,\n\"version\": 1}":    `line 2: version: is there twice`,
		"{\"version\": 1}\n{}":                 "line 2: expected the end of the file",
		entry("\n" + `{"name": "A b"}`):        `line 2: strategies[0].name: is "A b"`,
		entry(`{"name": "a"}`):                 `strategies[0].version: is ""`,
		entry(`{"name": "a", "version": "1"}`): "strategies[0].sha256: is empty, expected at least one platform",
		entry(`{"name": "a", "version": "a\nb", "sha256": {"linux/amd64": "` + sumA + `"}}`):                                `strategies[0].version: is "a\nb", expected 1 to 63 characters that can be printed`,
		entry(`{"name": "a", "version": " 1", "sha256": {"linux/amd64": "` + sumA + `"}}`):                                  `strategies[0].version: is " 1"`,
		entry(`{"name": "a", "version": "1", "sha256": {"linux": "x"}}`):                                                    `strategies[0].sha256.linux: expected os/arch`,
		entry(`{"name": "a", "version": "1",` + "\n\n" + `"sha256": {"linux/amd64": "x"}}`):                                 `line 3: strategies[0].sha256.linux/amd64: is "x", expected 64`,
		entry(strings.Repeat(`{"name": "a", "version": "1", "sha256": {"linux/amd64": "`+sumA+`"}},`, 2) + `{"name": "b"}`): `strategies[1].name: "a" is there twice`,
	} {
		l, err := ParseLock([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || l != nil {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if _, err := ReadLock(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for want, p := range map[string][4]string{"sha256": {"a", "1", "short", "linux/amd64"}, "version": {"a", "a\nb", sumA, "linux/amd64"}, `platform "a/b"`: {"a", "1", sumA, "a/b"}} {
		if err := (&Lock{}).Pin(p[0], p[1], p[2], p[3]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pinned %q: %v", p, err)
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte(`{"version": 1, "strategies": [{"name": "a", "version": "1", "sha256": {"linux/amd64": "` + sumA + `"}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLock(b)
		if err != nil {
			return
		}
		for _, e := range l.Strategies {
			for platform, sum := range e.SHA256 {
				if err := l.Check(e.Name, e.Version, sum, platform); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestLockedVersion runs a program that is the locked one, and one that says that it is
// of another version.
func TestLockedVersion(t *testing.T) {
	t.Parallel()
	spec := fakeSpec(t, "fake", "well")
	b, err := os.ReadFile(spec.Path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	for version, want := range map[string]string{"0.1": "", "0.2": "it says that it is version 0.1 of fake, the lock file has version 0.2"} {
		l := &Lock{Strategies: []LockedEntry{{Name: "fake", Version: version, SHA256: map[string]string{Platform(): hex.EncodeToString(sum[:])}}}}
		locked, err := l.lock(spec)
		if err != nil {
			t.Fatal(err)
		}
		err = testHost(t, bound(locked)).Settled(context.Background())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("version %s: error %v, want %q", version, err, want)
		}
	}
}

// TestWhoCanChangeIt: a program that is not pinned must not be one that everybody can
// change.
func TestWhoCanChangeIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path string, mode os.FileMode) string {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, writable, inOpen := write(filepath.Join(dir, "good"), 0o755), write(filepath.Join(dir, "writable"), 0o757), write(filepath.Join(open, "x"), 0o755)
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Chmod(open, 0o777), os.Symlink(inOpen, link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{good: "", writable: "everybody may change it", inOpen: "in the place of", link: "in the place of"} {
		var all images
		img, err := all.open(path, "")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
		if err == nil {
			all.release(img)
		}
	}
	sum := sha256.Sum256([]byte("#!/bin/sh\n"))
	var all images
	img, err := all.open(link, hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatalf("what is pinned is known by its content: %v", err)
	}
	all.release(img)
}
