package strategy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isolate gives the child a process group, so that its children can be ended with
// it, and has the kernel end it when the thread that started it ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd returns when the process has ended, and leaves it as a zombie, so that
// its id cannot be given to another before killGroup has been called.
func awaitEnd(pid int) {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}

// killGroup ends a child that has not been waited for, and all of its children that
// did not leave its group.
func killGroup(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }

// inGroup says whether a process is the leader of a group or one of the others in it.
func inGroup(pid, leader int) bool {
	if pid <= 0 || pid == leader { // 0 is of a name space that is not ours
		return pid == leader
	}
	group, err := unix.Getpgid(pid)
	return err == nil && group == leader
}

// taken is what a process has taken of the machine.
type taken struct {
	memory  int64         // of its own, shared memory, swap and page tables included, without what it maps from files; bytes
	threads int           // now
	cpu     time.Duration // since it was started
}

// ticksPerSecond is the unit of processor time in /proc, which is the same everywhere.
const ticksPerSecond = 100

// look reads what a process has taken; false if it cannot be known, as when it has ended.
func look(pid int) (taken, bool) {
	var t taken
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return t, false
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "RssAnon", "RssShmem", "VmSwap", "VmPTE":
			t.memory += n << 10
		case "Threads":
			t.threads = int(n)
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return t, false
	}
	// The second field is a name in brackets, which may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return t, false
	}
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return t, false
		}
		t.cpu += time.Duration(n) * (time.Second / ticksPerSecond)
	}
	return t, true
}
