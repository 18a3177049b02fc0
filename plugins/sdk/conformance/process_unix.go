//go:build unix

package conformance

import (
	"errors"
	"os/exec"
	"syscall"
)

// ownGroup makes the process the first of a group, so that its children can be found.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) {
	// an error says that nothing is left of the group
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

func pause(cmd *exec.Cmd, stop bool) error {
	signal := syscall.SIGCONT
	if stop {
		signal = syscall.SIGSTOP
	}
	return syscall.Kill(cmd.Process.Pid, signal)
}

func groupAlive(cmd *exec.Cmd) bool {
	return !errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH)
}
