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

// pause stops the process, and returns when it stands still, or lets it go on.
func pause(cmd *exec.Cmd, stop bool) error {
	if !stop {
		return syscall.Kill(cmd.Process.Pid, syscall.SIGCONT)
	}
	if err := syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStop(cmd.Process.Pid)
}

func groupAlive(cmd *exec.Cmd) bool {
	return !errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH)
}
