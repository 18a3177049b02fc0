//go:build !unix

package conformance

import (
	"errors"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) {
	// an error says that it has ended
	_ = cmd.Process.Kill()
}

func pause(*exec.Cmd, bool) error { return errors.New("this system cannot stop a process for a while") }

func groupAlive(*exec.Cmd) bool { return false }
