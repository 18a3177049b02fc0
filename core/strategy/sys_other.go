//go:build !linux

package strategy

import "os/exec"

// isolate does nothing here: groups and the parent-death signal are Linux's.
func isolate(*exec.Cmd) {}

// awaitEnd does nothing here: Wait does it.
func awaitEnd(int) {}

// killGroup ends the child.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// ownMemory is not known here.
func ownMemory(int) (int64, bool) { return 0, false }
