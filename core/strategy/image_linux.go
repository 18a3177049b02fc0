package strategy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const allSeals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// privateCopy copies into an anonymous, sealed file in memory: nobody can change it
// any more, this process included. Scripts and systems that forbid to execute
// anonymous files get a copy on disk.
func privateCopy(src io.ReadSeeker) (*image, error) {
	if magic, err := bufio.NewReader(src).Peek(2); err == nil && string(magic) == "#!" {
		if _, err := src.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		return fileCopy(src)
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("weir-strategy", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 there is no MFD_EXEC and every such file can be executed
		fd, err = unix.MemfdCreate("weir-strategy", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return fileCopy(src)
	}
	file := os.NewFile(uintptr(fd), "weir-strategy")
	sum, err := copyHashed(file, src)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, allSeals)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	// The child resolves this name before exec closes the descriptor.
	return &image{sum: sum, path: fmt.Sprintf("/proc/self/fd/%d", fd), file: file}, nil
}
