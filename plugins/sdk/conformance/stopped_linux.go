package conformance

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// awaitStop returns when all threads of a child that was told to stop have done so: each
// does when it gets to it. It is an error if the child ends instead.
func awaitStop(pid int) error {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("waiting until process %d stands still: %w", pid, err)
		}
	}
}
