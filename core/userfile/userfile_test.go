package userfile

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(write(t, "12345"), link); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for name, c := range map[string]struct{ path, want, fault string }{
		"as large as may be": {write(t, "12345"), "12345", ""},
		"through a link":     {link, "12345", ""},
		"empty":              {write(t, ""), "", ""},
		"a byte too many":    {write(t, "123456"), "", "is larger than the 5 bytes that are read"},
		"nothing there":      {"/no/such/file", "", "no such file or directory"},
		"a folder":           {t.TempDir(), "", "is a folder, expected a file"},
		"a device":           {"/dev/zero", "", "is a device or a socket, expected a file"},
		"a socket":           {socket, "", "is a device or a socket, expected a file"},
		"a file of no size":  {"/proc/self/status", "", "is larger than the 5 bytes that are read"},
	} {
		got, err := Read(c.path, 5)
		if c.fault == "" {
			if err != nil || string(got) != c.want {
				t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
			}
			continue
		}
		var pe *fs.PathError
		if !errors.As(err, &pe) || pe.Path != c.path || pe.Err.Error() != c.fault {
			t.Errorf("%s: %v, want %s: %s", name, err, c.path, c.fault)
		}
	}
	var large *TooLargeError
	if _, err := Read(write(t, strings.Repeat("x", 1<<20+1)), 1<<20); !errors.As(err, &large) || large.Error() != "is larger than the 1 MiB that are read" {
		t.Errorf("%v, want the bound in MiB", err)
	}
}

// A pipe is read while somebody writes to it, also when that begins later.
func TestPipe(t *testing.T) {
	t.Parallel()
	for text, fault := range map[string]string{"12345": "", "123456": "is larger than the 5 bytes", "": "nobody writes to"} {
		path := pipe(t)
		written := make(chan error, 1)
		go func() {
			w, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = io.WriteString(w, text)
				err = errors.Join(err, w.Close())
			}
			written <- err
		}()
		got, err := Read(path, 5)
		switch {
		case fault == "" && (err != nil || string(got) != text):
			t.Errorf("%q, %v, want %q", got, err, text)
		case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
			t.Errorf("%q: %v, want %s", text, err, fault)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}

// A pipe that has no other end, or one that stays silent, is not waited for without end.
func TestSilentPipe(t *testing.T) {
	t.Parallel()
	path := pipe(t)
	if f, err := open(path, 10*time.Millisecond); !errors.Is(err, ErrSilent) {
		t.Fatalf("%v, %v, want that nobody writes", f, err)
	}
	both, err := os.OpenFile(path, os.O_RDWR, 0) // holds the other end and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	f, err := open(path, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAll(5); !errors.Is(err, ErrSilent) {
		t.Errorf("%v, want that nobody writes", err)
	}
}
