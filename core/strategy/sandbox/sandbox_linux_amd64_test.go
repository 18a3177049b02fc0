package sandbox

import "golang.org/x/sys/unix"

// olderMetadata are calls that change metadata by a path, which only this architecture has.
var olderMetadata = map[string]uintptr{"chmod": unix.SYS_CHMOD, "chown": unix.SYS_CHOWN, "lchown": unix.SYS_LCHOWN, "utime": unix.SYS_UTIME,
	"utimes": unix.SYS_UTIMES, "futimesat": unix.SYS_FUTIMESAT}
