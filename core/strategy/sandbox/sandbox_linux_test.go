package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestMain turns this test binary into a program that tries things and prints what
// came of them, when it is started with the argument "try".
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "try" {
		runtime.LockOSThread()
		host, err := strconv.Atoi(os.Args[3])
		if err != nil {
			panic(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(try(os.Args[2], host)); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// try does what a strategy must not do, and some things that it may, and tells each
// outcome: "done", or the error's number.
func try(secret string, host int) map[string]string {
	out := map[string]string{}
	note := func(name string, err error) {
		var errno syscall.Errno
		switch {
		case err == nil:
			out[name] = "done"
		case errors.As(err, &errno):
			out[name] = unix.ErrnoName(errno)
		default:
			out[name] = err.Error()
		}
	}
	read := func(path string) error {
		f, err := os.Open(path)
		if err == nil {
			f.Close()
		}
		return err
	}
	socket := func(family, kind int) error {
		fd, err := unix.Socket(family, kind, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	own := "own"
	note("may: make a file", os.WriteFile(own, nil, 0o600))
	note("may: remove it", os.Remove(own))
	listener, err := net.Listen("unix", "s")
	note("may: listen", err)
	if err == nil {
		listener.Close()
	}
	note("may: read /dev/urandom", read("/dev/urandom"))
	note("may: a thread more", thread())
	note("may: signal itself", unix.Tgkill(os.Getpid(), unix.Gettid(), 0))
	note("read the secret", read(secret))
	note("read by /proc", read(fmt.Sprintf("/proc/%d/root%s", host, secret)))
	note("read the host's environment", read(fmt.Sprintf("/proc/%d/environ", host)))
	note("list /", read("/"))
	note("write beside", os.WriteFile(secret+".new", nil, 0o600))
	note("remove the secret", os.Remove(secret))
	note("truncate the secret", unix.Truncate(secret, 0))
	note("make a link to it", os.Link(secret, "link"))
	for name, err := range metadata(secret) {
		note(name, err)
	}
	note("socket TCP", socket(unix.AF_INET, unix.SOCK_STREAM))
	note("socket TCP6", socket(unix.AF_INET6, unix.SOCK_STREAM))
	note("socket UDP", socket(unix.AF_INET, unix.SOCK_DGRAM))
	note("socket netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW))
	note("socket packet", socket(unix.AF_PACKET, unix.SOCK_RAW))
	note("socket unix datagram", socket(unix.AF_UNIX, unix.SOCK_DGRAM))
	for name, kind := range map[string]int{"may: a pair of streams": unix.SOCK_STREAM, "a pair of datagrams": unix.SOCK_DGRAM, "a pair of packets": unix.SOCK_SEQPACKET} {
		pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		note(name, err)
		if err == nil {
			unix.Close(pair[0])
			unix.Close(pair[1])
		}
	}
	_, err = net.Dial("unix", "\x00"+secret)
	note("dial abstract", err)
	_, err = net.Dial("unix", secret+".sock")
	note("dial a path", err)
	note("signal the host", unix.Kill(host, 0))
	note("signal a thread of the host", unix.Tgkill(host, host, 0))
	err = unix.PtraceAttach(host)
	note("trace the host", err)
	if err == nil { // it is stopped now, and has to go on
		_, _ = unix.Wait4(host, nil, unix.WALL, nil)
		_ = unix.PtraceDetach(host)
	}
	note("the host's limits", unix.Prlimit(host, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 10, Max: 1 << 20}, nil))
	note("forget the parent-death signal", unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0))
	note("leave the group", unix.Setpgid(0, 0))
	note("start a process", exec.Command("/bin/true").Run())
	note("io_uring", raw(unix.SYS_IO_URING_SETUP))
	note("shared memory", raw(unix.SYS_SHMGET, 0, 4096, 0o1600))
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANON)
	note("map shared memory", err)
	for name, err := range room() {
		note(name, err)
	}
	note("a capability", unix.Mknod("device", unix.S_IFCHR|0o600, 0x103))
	memory, err := unix.MemfdCreate("m", 0)
	note("may: a file in memory", err)
	note("of some size", unix.Ftruncate(memory, 4096))
	note("more stack", unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}))
	note("more descriptors", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 12, Max: 1 << 12}))
	note("allocate without end", allocate())
	return out
}

func raw(nr uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0)
	if _, _, errno := unix.Syscall6(nr, args[0], args[1], args[2], args[3], 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// metadata changes what is known about a file that belongs to this process's own user,
// in every way that this architecture has.
func metadata(path string) map[string]error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return map[string]error{"metadata": err}
	}
	// Behind Landlock it cannot be opened; the names go all the same.
	fd, here, at := ^uintptr(0), uintptr(unix.AT_FDCWD&(1<<64-1)), uintptr(unsafe.Pointer(name))
	if f, err := unix.Open(path, unix.O_RDONLY, 0); err == nil {
		defer unix.Close(f)
		fd = uintptr(f)
	}
	me, mine := uintptr(os.Getuid()), uintptr(os.Getgid())
	out := map[string]error{"metadata: fchmod": raw(unix.SYS_FCHMOD, fd, 0o600), "metadata: fchmodat": raw(unix.SYS_FCHMODAT, here, at, 0o600),
		"metadata: fchmodat2": raw(unix.SYS_FCHMODAT2, here, at, 0o600), "metadata: fchown": raw(unix.SYS_FCHOWN, fd, me, mine),
		"metadata: fchownat": raw(unix.SYS_FCHOWNAT, here, at, me, mine), "metadata: utimensat": raw(unix.SYS_UTIMENSAT, here, at),
		"metadata: flags": raw(unix.SYS_IOCTL, fd, unix.FS_IOC_SETFLAGS, at)}
	for call, nr := range map[string]uintptr{"setxattr": unix.SYS_SETXATTR, "lsetxattr": unix.SYS_LSETXATTR, "removexattr": unix.SYS_REMOVEXATTR, "lremovexattr": unix.SYS_LREMOVEXATTR} {
		out["metadata: "+call] = raw(nr, at, at)
	}
	for call, nr := range map[string]uintptr{"fsetxattr": unix.SYS_FSETXATTR, "fremovexattr": unix.SYS_FREMOVEXATTR} {
		out["metadata: "+call] = raw(nr, fd, at)
	}
	for call, nr := range map[string]uintptr{"setxattrat": unix.SYS_SETXATTRAT, "removexattrat": unix.SYS_REMOVEXATTRAT, "file_setattr": unix.SYS_FILE_SETATTR} {
		out["metadata: "+call] = raw(nr, here, at)
	}
	for call, nr := range olderMetadata {
		out["metadata: "+call] = raw(nr, at)
	}
	return out
}

// room asks for memory and other things that no limit counts.
func room() map[string]error {
	out := map[string]error{"asynchronous input and output": raw(unix.SYS_IO_SETUP, 1), "write a whole disk": raw(unix.SYS_SYNCFS, ^uintptr(0))}
	grows := func(flags int) error {
		_, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|flags)
		return err
	}
	out["may: map private memory"], out["map what grows"], out["map huge pages"] = grows(0), grows(unix.MAP_GROWSDOWN), grows(unix.MAP_HUGETLB)
	var onStack [4096]byte // any address will do: the filter does not know what is mapped there
	out["move a mapping"] = raw(unix.SYS_MREMAP, uintptr(unsafe.Pointer(&onStack)), 4096, 1<<30, unix.MREMAP_MAYMOVE)
	_, out["a file of huge pages"] = unix.MemfdCreate("m", unix.MFD_HUGETLB)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		out["may: a pipe"] = err
		return out
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	_, out["a larger pipe"] = unix.FcntlInt(uintptr(pipe[0]), unix.F_SETPIPE_SZ, 1<<20)
	_, out["a lease"] = unix.FcntlInt(uintptr(pipe[0]), unix.F_SETLEASE, unix.F_RDLCK)
	out["type at the terminal"] = raw(unix.SYS_IOCTL, uintptr(pipe[0]), unix.TIOCSTI)
	if memory, err := unix.MemfdCreate("m", 0); err == nil {
		out["room for a file"] = unix.Fallocate(memory, unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20)
		unix.Close(memory)
	}
	return out
}

func thread() error {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked: this one is new
		close(done)
	}()
	<-done
	return nil
}

func allocate() error {
	for range 1 << 10 {
		if _, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return err
		}
	}
	return nil
}

// run runs try under a policy and answers its findings and how it ended.
func run(t *testing.T, kernel Kernel, change func(*Policy)) map[string]string {
	t.Helper()
	if Detect().Landlock < kernel.Landlock || kernel.Seccomp && !Detect().Seccomp {
		t.Skipf("this kernel has %+v", Detect())
	}
	base := t.TempDir()
	secret := filepath.Join(base, "token")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"\x00" + secret, secret + ".sock"} {
		l, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	dir := filepath.Join(base, "own")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	image := ourselves(t)
	p := Policy{Dir: dir, Read: Needs(image), Use: kernel, Ceilings: Ceilings{Data: 8 << 30, Files: 64, Nice: 1}}
	if change != nil {
		change(&p)
	}
	cmd, err := Command(p, image, []string{"probe", "try", secret, strconv.Itoa(os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Env, cmd.Stderr = dir, []string{}, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var got map[string]string
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return got
}

// ourselves is a copy of this test binary in memory, as the host makes them.
func ourselves(t *testing.T) *os.File {
	t.Helper()
	src, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "image")
	t.Cleanup(func() { f.Close() })
	if _, err := io.Copy(f, src); err != nil {
		t.Fatal(err)
	}
	return f
}

var may = map[string]string{"may: make a file": "done", "may: remove it": "done", "may: listen": "done", "may: read /dev/urandom": "done",
	"may: a thread more": "done", "may: signal itself": "done", "may: a file in memory": "done", "may: a pair of streams": "done",
	"may: map private memory": "done"}

// noFiles is what any version of Landlock keeps.
var noFiles = map[string]string{"read the secret": "EACCES", "read by /proc": "EACCES", "read the host's environment": "EACCES", "list /": "EACCES",
	"write beside": "EACCES", "remove the secret": "EACCES"}

// noWay is what the filter keeps, whatever Landlock knows.
var noWay = map[string]string{"truncate the secret": "EPERM", "socket TCP": "EPERM", "socket TCP6": "EPERM", "socket UDP": "EPERM", "socket netlink": "EPERM",
	"socket packet": "EPERM", "socket unix datagram": "EPERM", "dial abstract": "EPERM", "dial a path": "EPERM", "signal the host": "EPERM",
	"signal a thread of the host": "EPERM", "trace the host": "EPERM", "the host's limits": "EPERM", "forget the parent-death signal": "EPERM",
	"leave the group": "EPERM", "start a process": "EPERM", "io_uring": "ENOSYS", "shared memory": "EPERM", "map shared memory": "EPERM",
	"a pair of datagrams": "EPERM", "a pair of packets": "EPERM", "map what grows": "EPERM", "map huge pages": "EPERM", "move a mapping": "EPERM",
	"a file of huge pages": "EPERM", "a larger pipe": "EPERM", "a lease": "EPERM", "type at the terminal": "EPERM", "room for a file": "EPERM",
	"asynchronous input and output": "EPERM", "write a whole disk": "EPERM"}

// ceilings hold everywhere.
var ceilings = map[string]string{"of some size": "EFBIG", "more descriptors": "EPERM", "more stack": "EPERM", "allocate without end": "ENOMEM"}

func compare(t *testing.T, got map[string]string, wants ...map[string]string) {
	t.Helper()
	for _, want := range wants {
		part := map[string]string{}
		for name := range want {
			part[name] = got[name]
		}
		if diff := cmp.Diff(want, part); diff != "" {
			t.Error(diff)
		}
	}
}

// untouched holds what is known about the secret against what came of the tries to
// change it: none may have got through.
func untouched(t *testing.T, got map[string]string) {
	t.Helper()
	n := 0
	for name, came := range got {
		if !strings.HasPrefix(name, "metadata: ") {
			continue
		}
		if n++; came != "EPERM" {
			t.Errorf("%s: %s, want EPERM", name, came)
		}
	}
	if want := 16 + len(olderMetadata); n != want {
		t.Errorf("%d ways to change metadata were tried, want %d", n, want)
	}
}

// TestWhole is the fence of a kernel that has everything.
func TestWhole(t *testing.T) {
	t.Parallel()
	got := run(t, Kernel{Landlock: 7, Seccomp: true}, nil)
	compare(t, got, may, noFiles, noWay, ceilings)
	untouched(t, got)
}

// TestOlder is the fence of AL2023's first kernel, Linux 6.1: the tokens are out of
// reach, and the filter keeps the rest.
func TestOlder(t *testing.T) {
	t.Parallel()
	got := run(t, Kernel{Landlock: 2, Seccomp: true}, nil)
	compare(t, got, may, noFiles, noWay, ceilings)
	untouched(t, got)
}

// TestFilterAlone is the fence of a kernel without Landlock: what can be opened can be
// read, and nobody can change what is known about it.
func TestFilterAlone(t *testing.T) {
	t.Parallel()
	got := run(t, Kernel{Seccomp: true}, nil)
	compare(t, got, may, noWay, ceilings, map[string]string{"read the secret": "done"})
	untouched(t, got)
}

// TestLandlockAlone is the fence of a machine without a filter.
func TestLandlockAlone(t *testing.T) {
	t.Parallel()
	got := run(t, Kernel{Landlock: 6}, nil)
	compare(t, got, may, noFiles, ceilings, map[string]string{"dial abstract": "EPERM", "signal the host": "EPERM", "trace the host": "EPERM", "truncate the secret": "EACCES"})
	if got["metadata: fchmodat"] != "done" {
		t.Errorf("a change of mode: %s; if Landlock keeps it, Whole need not ask for the filter", got["metadata: fchmodat"])
	}
	if got["socket UDP"] != "done" {
		t.Errorf("a socket for UDP: %s; if Landlock keeps it, Whole need not ask for the filter", got["socket UDP"])
	}
}

// TestCeilingsAlone is what holds on a kernel that has neither.
func TestCeilingsAlone(t *testing.T) {
	t.Parallel()
	got := run(t, Kernel{}, nil)
	compare(t, got, may, ceilings, map[string]string{"a capability": "EPERM"})
	if got["start a process"] != "done" {
		t.Errorf("starting a process: %s, want done", got["start a process"])
	}
}

// TestReadable opens further files for reading.
func TestReadable(t *testing.T) {
	t.Parallel()
	got := run(t, Kernel{Landlock: 7, Seccomp: true}, func(p *Policy) { p.Read = append(p.Read, filepath.Dir(p.Dir), "/does/not/exist") })
	if got["read the secret"] != "done" || got["write beside"] != "EACCES" {
		t.Errorf("reading %s, writing %s", got["read the secret"], got["write beside"])
	}
}

// TestFailsClosed: what cannot put up its fence does not run.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Policy{
		"no folder":     {Dir: "/does/not/exist", Use: Kernel{Landlock: 1}},
		"another's son": {Dir: "/", Use: Kernel{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, err := Command(p, ourselves(t), []string{"probe", "try", "x", "1"})
			if err != nil {
				t.Fatal(err)
			}
			if name == "another's son" { // the host died and somebody else is the parent
				p.Parent = 1
				text, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				cmd.Args[1] = string(text)
			}
			out, err := cmd.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 126 || len(out) > 0 {
				t.Errorf("ended with %v and printed %q", err, out)
			}
		})
	}
}

// TestOtherCallingConvention: calls in the manner of another architecture go past the
// numbers that the filter knows, so whoever makes one is ended.
func TestOtherCallingConvention(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" || !Detect().Seccomp {
		t.Skip("needs amd64 and filters")
	}
	first := program(1)[:4]
	if first[1].K != unix.AUDIT_ARCH_X86_64 || first[2].K != unix.SECCOMP_RET_KILL_PROCESS || first[1].Jt != 1 {
		t.Errorf("the filter begins with %+v", first)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	all := Kernel{Landlock: 7, Seccomp: true}
	for _, c := range []struct {
		kernel Kernel
		whole  bool
	}{
		{all, true}, {all.Mask(6, true), true}, {all.Mask(2, true), false}, {all.Mask(-1, true), false}, {all.Mask(7, false), false}, {Kernel{Landlock: 2}.Mask(7, true), false},
	} {
		ok, why := c.kernel.Whole()
		if ok != c.whole || ok != (why == "") {
			t.Errorf("%+v: whole %t, why %q", c.kernel, ok, why)
		}
	}
}
