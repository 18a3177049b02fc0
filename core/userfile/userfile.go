package userfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Patience is how long a pipe is waited for: until somebody opens its other end, and then
// for each piece.
const Patience = 30 * time.Second

// What a path may be instead of a file.
var (
	ErrFolder = errors.New("is a folder, expected a file")
	ErrDevice = errors.New("is a device or a socket, expected a file")
	// ErrSilent is of a pipe.
	ErrSilent = errors.New("is a pipe that nobody writes to")
)

// TooLargeError says that a file has more bytes than are read.
type TooLargeError struct{ Max int64 }

// Error names the bound.
func (e *TooLargeError) Error() string {
	if e.Max >= 1<<20 && e.Max%(1<<20) == 0 {
		return fmt.Sprintf("is larger than the %d MiB that are read", e.Max>>20)
	}
	return fmt.Sprintf("is larger than the %d bytes that are read", e.Max)
}

// Read is the content of the file at path, at most max bytes. The error is always an
// *fs.PathError; what it wraps is of the file system, one of the errors of this package, or
// a *TooLargeError.
func Read(path string, max int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadAll(max)
}

// ReadAll is all of r, at most max bytes; of more it is a *TooLargeError.
func ReadAll(r io.Reader, max int64) ([]byte, error) {
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(r, max+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > max {
		return nil, &TooLargeError{Max: max}
	}
	return b.Bytes(), nil
}

// File is an open file.
type File struct {
	*os.File
	size     int64 // as its folder says
	pipe     bool
	began    bool // something came out of the pipe
	patience time.Duration
}

// Open opens the file at path for reading. The error is always an *fs.PathError.
func Open(path string) (*File, error) { return open(path, Patience) }

func open(path string, patience time.Duration) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	f := &File{size: info.Size(), patience: patience}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, pathError(path, ErrFolder)
	case mode.IsRegular():
		f.File, err = os.Open(path)
	case mode&fs.ModeNamedPipe != 0:
		f.pipe = true
		f.File, err = openPipe(path, patience)
	default:
		return nil, pathError(path, ErrDevice)
	}
	if err != nil {
		return nil, pathError(path, err)
	}
	return f, nil
}

// openPipe waits until somebody opens the other end, and no longer than patience.
func openPipe(path string, patience time.Duration) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened)
	late := make(chan struct{})
	go func() {
		f, err := os.Open(path)
		select {
		case done <- opened{f, err}:
		case <-late:
			if err == nil {
				f.Close()
			}
		}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.file, o.err
	case <-timer.C:
	}
	close(late)
	// the open above ends when there is somebody at the other end
	if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		w.Close()
	}
	return nil, ErrSilent
}

// ReadAll is what is left of the file, at most max bytes. The error is an *fs.PathError.
func (f *File) ReadAll(max int64) ([]byte, error) {
	if !f.pipe && f.size > max {
		return nil, pathError(f.Name(), &TooLargeError{Max: max})
	}
	data, err := ReadAll(f, max)
	if err != nil {
		return nil, pathError(f.Name(), err)
	}
	return data, nil
}

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	if !f.pipe {
		return f.File.Read(p)
	}
	if err := f.SetReadDeadline(time.Now().Add(f.patience)); err != nil {
		return 0, err
	}
	n, err := f.File.Read(p)
	f.began = f.began || n > 0
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) && !f.began {
		return n, pathError(f.Name(), ErrSilent)
	}
	return n, err
}

// pathError says the path once.
func pathError(path string, err error) error {
	return &fs.PathError{Op: "read", Path: path, Err: Reason(err)}
}

// Reason is an error of the file system without the path, for those who tell it beside.
func Reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
