package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	hasX32    = true
)

// forbiddenHere are older calls that only this architecture has.
var forbiddenHere = []uint32{unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_INOTIFY_INIT, unix.SYS_USELIB, unix.SYS_MODIFY_LDT, unix.SYS_IOPERM, unix.SYS_IOPL,
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
