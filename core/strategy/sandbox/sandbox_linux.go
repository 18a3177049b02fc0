package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Possible says whether Command can be used on this system.
const Possible = true

// self is our own executable, also when the file has been replaced meanwhile.
const self = "/proc/self/exe"

// imageFD is where Command's image arrives in the trampoline.
const imageFD = 3

// Detect looks at the kernel, once.
var Detect = sync.OnceValue(func() Kernel {
	k := Kernel{Seccomp: filterable()}
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno == 0 {
		k.Landlock = int(abi)
	}
	return k
})

// init turns this process into the program of a policy when it was started by
// Command. It runs on the main thread, which is the one that lives through an exec.
func init() {
	if len(os.Args) < 3 || os.Args[0] != trampoline {
		return
	}
	runtime.LockOSThread()
	err := become(os.Args[1], os.Args[2:])
	fmt.Fprintln(os.Stderr, "[ERROR] sandbox:", err)
	os.Exit(126)
}

// become does not return but for an error, after which the process must end.
func become(policy string, args []string) error {
	var p Policy
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return fmt.Errorf("reading the policy: %w", err)
	}
	// Where memory is short the kernel ends this process before the host. It is a help,
	// not a fence: without /proc it is left.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if err := p.Ceilings.take(); err != nil {
		return err
	}
	if err := dropPrivileges(); err != nil {
		return err
	}
	// The signal may have been lost with the privileges, and the parent with it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("asking for the parent-death signal: %w", err)
	}
	if os.Getppid() != p.Parent {
		return errors.New("the host is gone")
	}
	path := p.Path
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	env, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	if path == "" {
		unix.CloseOnExec(imageFD)
	}
	if p.Use.Landlock > 0 {
		if err := p.landlock(); err != nil {
			return fmt.Errorf("file rules (Landlock): %w", err)
		}
	}
	if p.Use.Seccomp {
		if err := filter(os.Getpid()); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	return execute(path, argv, env)
}

// execute replaces the process by the program at path, or by the image.
func execute(path string, argv, env []*byte) error {
	fd, flags, what := imageFD, unix.AT_EMPTY_PATH, "the image"
	if path != "" {
		fd, flags, what = unix.AT_FDCWD, 0, path
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])), uintptr(flags), 0)
	return fmt.Errorf("executing %s: %w", what, errno)
}

// maxStack is the usual size of a stack, bytes. What it grows by is not counted as data.
const maxStack = 8 << 20

// take lowers the limits of this process for good.
func (c Ceilings) take() error {
	limits := []struct {
		name  string
		which int
		value int64
	}{
		{"file size", unix.RLIMIT_FSIZE, 0}, {"core size", unix.RLIMIT_CORE, 0}, {"locked memory", unix.RLIMIT_MEMLOCK, 0},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0}, {"real-time priority", unix.RLIMIT_RTPRIO, 0}, {"nice", unix.RLIMIT_NICE, 0},
		{"stack", unix.RLIMIT_STACK, maxStack},
	}
	for _, l := range append(limits, []struct {
		name  string
		which int
		value int64
	}{{"data", unix.RLIMIT_DATA, c.Data}, {"descriptors", unix.RLIMIT_NOFILE, int64(c.Files)}}...) {
		if l.value == 0 && (l.which == unix.RLIMIT_DATA || l.which == unix.RLIMIT_NOFILE) {
			continue
		}
		var now unix.Rlimit
		if err := unix.Prlimit(0, l.which, nil, &now); err != nil {
			return fmt.Errorf("limit of %s: %w", l.name, err)
		}
		value := min(uint64(l.value), now.Max)
		if err := unix.Prlimit(0, l.which, &unix.Rlimit{Cur: value, Max: value}, nil); err != nil {
			return fmt.Errorf("limit of %s to %d: %w", l.name, value, err)
		}
	}
	unix.Umask(0o077)
	if c.Nice > 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, c.Nice); err != nil {
			return fmt.Errorf("nice %d: %w", c.Nice, err)
		}
	}
	return nil
}

// dropPrivileges gives up every capability, so that even root is nobody in
// particular, and every way to get one back.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		// Without the right to drop it there is nothing to drop: no_new_privs keeps an
		// unprivileged process from getting any.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL && err != unix.EPERM {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// Rights of Landlock by the version that brought them.
const (
	fsVersion1 = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM

	readFile = unix.LANDLOCK_ACCESS_FS_READ_FILE
	readTree = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	ownTree  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	fileOnly = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled is everything that a version of Landlock can forbid.
func handled(abi int) unix.LandlockRulesetAttr {
	a := unix.LandlockRulesetAttr{Access_fs: fsVersion1}
	if abi >= 2 {
		a.Access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		a.Access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 {
		a.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		a.Access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		a.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return a
}

// landlock forbids everything but what the policy names.
func (p Policy) landlock() error {
	attr := handled(p.Use.Landlock)
	size := unsafe.Sizeof(attr)
	switch { // older kernels know shorter ones
	case p.Use.Landlock < 4:
		size = unsafe.Offsetof(attr.Access_net)
	case p.Use.Landlock < 6:
		size = unsafe.Offsetof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("making a rule set: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	rules := map[string]uint64{p.Dir: ownTree, "/dev/null": readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE, "/dev/zero": readFile, "/dev/random": readFile, "/dev/urandom": readFile}
	for _, path := range p.Read {
		rules[path] = readTree
	}
	if p.Path != "" {
		rules[p.Path] = readFile | unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	for path, rights := range rules {
		if err := allow(int(fd), path, rights&attr.Access_fs); err != nil && (path == p.Dir || !errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("putting it up: %w", errno)
	}
	return nil
}

func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileOnly
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
