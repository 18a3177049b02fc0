//go:build !linux

package strategy

import (
	"os/exec"
	"time"
)

// isolate does nothing here: groups and the parent-death signal are Linux's.
func isolate(*exec.Cmd) {}

// awaitEnd does nothing here: Wait does it.
func awaitEnd(int) {}

// killGroup ends the child.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// inGroup knows nothing here.
func inGroup(int, int) bool { return true }

// taken is what a process has taken of the machine.
type taken struct {
	memory  int64
	threads int
	cpu     time.Duration
}

// look knows nothing here.
func look(int) (taken, bool) { return taken{}, false }
