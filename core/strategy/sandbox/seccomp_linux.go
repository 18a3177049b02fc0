//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbidden are system calls that a strategy has no business with. What needs a
// capability is not here: a fenced process has none, but for the calls where a kernel
// that lets unprivileged users make name spaces would let it through.
var forbidden = []uint32{
	// Reaching anybody. Its own socket it binds, listens on and accepts from.
	unix.SYS_CONNECT,
	// Other processes, of which the host belongs to the same user.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP,
	unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY,
	unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_PERF_EVENT_OPEN,
	// Leaving the group that is ended with it.
	unix.SYS_SETSID, unix.SYS_SETPGID,
	// What would outlive it, or is counted for our user and not for the process.
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_MEMFD_SECRET,
	// Other views of the system, and parts of the kernel where most faults were found.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_REBOOT,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS,
	// Landlock learned of this one in version 3.
	unix.SYS_TRUNCATE,
	// What is known about a file, of which no version of Landlock knows: modes, owners,
	// times, attributes.
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_FILE_SETATTR,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	// Room that no limit counts: blocks of a file that stays empty, and mappings that are
	// moved, since those that were a stack are not counted as data. Allocators do without.
	unix.SYS_FALLOCATE, unix.SYS_MREMAP, unix.SYS_MAP_SHADOW_STACK,
	// What is one for the whole machine.
	unix.SYS_IO_SETUP, unix.SYS_SYNC, unix.SYS_SYNCFS,
}

// unknown are system calls that have an older form to fall back to, which programs
// take when the kernel does not know the newer one. Filters cannot look into the
// arguments of clone3, and io_uring goes past filters.
var unknown = []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// Offsets in struct seccomp_data; the lower half of an argument comes first on the
// architectures here.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	permit  = unix.SECCOMP_RET_ALLOW
	endIt   = unix.SECCOMP_RET_KILL_PROCESS
	x32Mask = 0x40000000
)

// What golang.org/x/sys has no names for.
const (
	fSetOwn, fSetOwnEx  = 8, 15
	fioSetOwn, siocSPGR = 0x8901, 0x8902
	fsSetVersion        = 0x40087602 // FS_IOC_SETVERSION
	fsSetXattr          = 0x401c5820 // FS_IOC_FSSETXATTR
	sockTypeMask        = 0xf
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func loadArg(n uint32) unix.SockFilter { return load(offsetArgs + 8*n) }

func answer(what uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what}
}

// jump goes on behind yes or no further instructions.
func jump(test uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: value, Jt: yes, Jf: no}
}

func mask(bits uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: bits}
}

// only permits a call where the lower half of an argument has one of these values.
func only(arg uint32, values ...uint32) []unix.SockFilter {
	out := []unix.SockFilter{loadArg(arg)}
	for _, v := range values {
		out = append(out, jump(unix.BPF_JEQ, v, 0, 1), answer(permit))
	}
	return append(out, answer(refuse))
}

// except refuses a call where it has one of these values.
func except(arg uint32, values ...uint32) []unix.SockFilter {
	out := []unix.SockFilter{loadArg(arg)}
	for _, v := range values {
		out = append(out, jump(unix.BPF_JEQ, v, 0, 1), answer(refuse))
	}
	return append(out, answer(permit))
}

// streams permits a call where it asks for a stream between processes of this machine,
// and for no other kind of socket.
func streams() []unix.SockFilter {
	return []unix.SockFilter{loadArg(0), jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), answer(refuse),
		loadArg(1), mask(sockTypeMask), jump(unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0), answer(refuse), answer(permit)}
}

// without refuses a call where one of these bits of an argument is set.
func without(arg, bits uint32) []unix.SockFilter {
	return []unix.SockFilter{loadArg(arg), jump(unix.BPF_JSET, bits, 0, 1), answer(refuse), answer(permit)}
}

// condition is what a system call is asked for before it is permitted.
type condition struct {
	nr   uint32
	then []unix.SockFilter // ends with an answer
}

// conditions are for the calls that are forbidden with some arguments only.
func conditions(pid uint32) []condition {
	return []condition{
		{unix.SYS_SOCKET, streams()},
		{unix.SYS_SOCKETPAIR, streams()},
		// Threads, and no processes.
		{unix.SYS_CLONE, []unix.SockFilter{loadArg(0), jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), answer(refuse), answer(permit)}},
		{unix.SYS_KILL, only(0, pid)},
		{unix.SYS_TGKILL, only(0, pid)},
		{unix.SYS_PRLIMIT64, only(0, 0, pid)},
		{unix.SYS_PRCTL, except(0, unix.PR_SET_PDEATHSIG)},
		// Signals to whoever is named as the owner of a descriptor, what holds up others who
		// open a file, and room in pipes, which is counted for our user.
		{unix.SYS_FCNTL, except(1, fSetOwn, fSetOwnEx, unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETPIPE_SZ)},
		// The same, what is known about a file, and typing at the terminal of who started us.
		{unix.SYS_IOCTL, except(1, fioSetOwn, siocSPGR, unix.FS_IOC_SETFLAGS, fsSetVersion, fsSetXattr, unix.FS_IOC_ENABLE_VERITY,
			unix.FS_IOC_SET_ENCRYPTION_POLICY, unix.TIOCSTI, unix.TIOCLINUX)},
		// Shared memory without a file, huge pages and what grows like a stack are not in the
		// ceiling of data.
		{unix.SYS_MMAP, append([]unix.SockFilter{loadArg(3), mask(unix.MAP_SHARED | unix.MAP_ANONYMOUS),
			jump(unix.BPF_JEQ, unix.MAP_SHARED|unix.MAP_ANONYMOUS, 0, 1), answer(refuse)}, without(3, unix.MAP_GROWSDOWN|unix.MAP_HUGETLB)...)},
		{unix.SYS_MEMFD_CREATE, without(1, unix.MFD_HUGETLB)},
	}
}

// program is the filter for a process with this id.
func program(pid uint32) []unix.SockFilter {
	out := []unix.SockFilter{load(offsetArch), jump(unix.BPF_JEQ, auditArch, 1, 0), answer(endIt), load(offsetNumber)}
	if hasX32 {
		out = append(out, jump(unix.BPF_JGE, x32Mask, 0, 1), answer(absent))
	}
	for _, nr := range append(append([]uint32{}, forbidden...), forbiddenHere...) {
		out = append(out, jump(unix.BPF_JEQ, nr, 0, 1), answer(refuse))
	}
	for _, nr := range unknown {
		out = append(out, jump(unix.BPF_JEQ, nr, 0, 1), answer(absent))
	}
	for _, c := range conditions(pid) {
		out = append(out, jump(unix.BPF_JEQ, c.nr, 0, uint8(len(c.then))))
		out = append(out, c.then...)
	}
	return append(out, answer(permit))
}

// filter puts up the filter; no_new_privs is set already.
func filter(pid int) error {
	code := program(uint32(pid))
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("putting up the filter: %w", errno)
	}
	return nil
}

// filterable says whether this kernel has filters.
func filterable() bool {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}
